//! What a file says of a plugin: what stands there, and nothing else.

use std::collections::BTreeMap;

use super::{PluginConfig, Update};
use toolhost_policy::capability::{Exclusive, Grants, Kind};

/// One table of plugins, as far as it is filled in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// `allow_tool_override`
    pub allow_tool_override: Option<bool>,
    /// The grants of each kind that is named, if only with an empty list.
    pub grants: BTreeMap<Kind, Grants>,
    /// `exclusive`
    pub exclusive: Option<Vec<Exclusive>>,
    /// `update`
    pub update: Option<Update>,
}

impl Said {
    /// Puts what is said in place of what a table had.
    pub fn over(&self, table: &mut PluginConfig) {
        for (kind, grants) in &self.grants {
            table.grants.replace(*kind, grants.clone());
        }
        if let Some(allowed) = self.allow_tool_override {
            table.allow_tool_override = allowed;
        }
        if let Some(exclusive) = &self.exclusive {
            table.exclusive.clone_from(exclusive);
        }
        if let Some(update) = self.update {
            table.update = update;
        }
    }

    /// What is said, and nothing before it.
    pub fn alone(&self) -> PluginConfig {
        let mut table = PluginConfig::default();
        self.over(&mut table);
        table
    }
}
