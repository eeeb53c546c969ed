//! What is said of one plugin, and how tables that are about the same plugin come together.

use super::Said;
use toolhost_policy::capability::{Exclusive, Grants};

/// What an operator says of one plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginConfig {
    /// It may replace tools of others, and take reserved names.
    pub allow_tool_override: bool,
    /// What it may use, if that was granted to its present bytes.
    pub grants: Grants,
    /// Kinds of authority of which one call may use only one.
    pub exclusive: Vec<Exclusive>,
    /// What new bytes of a plugin that was granted something come to.
    pub update: Update,
}

/// What of a table that names only an id is one plugin's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdShare {
    /// The grants, as flags of `toolhost grant`; all of them if that is nothing.
    pub grants: Option<Vec<String>>,
    /// Its permissions (`allow_tool_override`, `update`) are this plugin's.
    pub permissions: bool,
}

impl IdShare {
    /// All of it.
    pub fn all() -> IdShare {
        IdShare { grants: None, permissions: true }
    }

    /// Nothing of it but what narrows, which is for every plugin of the id.
    pub fn nothing() -> IdShare {
        IdShare { grants: Some(Vec::new()), permissions: false }
    }

    /// What of a table is the plugin's.
    pub(super) fn of(&self, table: &PluginConfig) -> PluginConfig {
        let mut share = table.clone();
        if let Some(grants) = &self.grants {
            share.grants.retain(grants);
        }
        if !self.permissions {
            (share.allow_tool_override, share.update) = (false, Update::Never);
        }
        share
    }
}

impl PluginConfig {
    /// Tells whether it allows nothing.
    pub fn allows_nothing(&self) -> bool {
        self.grants.is_empty() && !self.allow_tool_override && self.update == Update::Never
    }

    /// Adds all that another table of the same plugin says.
    pub(super) fn add(&mut self, other: &PluginConfig) {
        self.grants.extend(&other.grants);
        self.allow_tool_override |= other.allow_tool_override;
        self.exclude(&other.exclusive);
        if self.update == Update::Never {
            self.update = other.update;
        }
    }

    /// Adds groups of kinds of which one call uses only one.
    fn exclude(&mut self, groups: &[Exclusive]) {
        let new = groups.iter().filter(|group| !self.exclusive.contains(group)).cloned();
        let new: Vec<Exclusive> = new.collect();
        self.exclusive.extend(new);
    }

    /// Takes over from `said` what allows less, and tells whether it says more than this allows.
    pub(super) fn narrow(&mut self, said: &Said) -> bool {
        let mut theirs = self.clone();
        said.over(&mut theirs);
        let more = self.grants.narrow(&theirs.grants)
            || theirs.allow_tool_override && !self.allow_tool_override
            || (theirs.update, self.update) == (Update::SameNeeds, Update::Never)
            // Read on top of ours, so what is missing there was written over.
            || self.exclusive.iter().any(|group| !theirs.exclusive.contains(group));
        self.allow_tool_override &= theirs.allow_tool_override;
        if theirs.update == Update::Never {
            self.update = Update::Never;
        }
        self.exclude(&theirs.exclusive);
        more
    }
}

/// What new bytes of a trusted plugin come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Update {
    /// They wait until a person trusts them.
    #[default]
    Never,
    /// They are trusted if they ask for nothing that the trusted ones did not ask for, and have
    /// no suspect texts.
    SameNeeds,
}
