//! What one tool may use: worked out once, when its plugin is granted something, and shared by
//! all its calls.

use std::collections::HashMap;
use std::sync::Arc;

use super::capability::dirs::directories::Directory;
use super::plugin::Values;
use super::redaction::PluginSecrets;
use toolhost_core::tool::{Need, ToolSpec};
use toolhost_policy::capability::{
    self, Access, Exclusive, Grants, HttpRights, Kind, SecretRights, Sides, VariableGrant,
};
use toolhost_state::store::Kv;

/// What one tool may use besides its own memory; by default nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Rights {
    pub(super) directories: Vec<(Directory, Access)>,
    pub(super) variables: Vec<(String, String)>,
    pub(super) http: HttpRights,
    pub(super) secrets: SecretRights,
    /// Its plugin's store, if it may use it.
    pub(super) kv: Option<Arc<Kv>>,
    pub(super) exclusive: Vec<Exclusive>,
    /// Kinds that are asked for, granted or not.
    pub(super) asks: Vec<Kind>,
    /// Names of variables that are asked for and not there.
    pub(super) variables_lacking: Vec<String>,
    /// What commands call the plugin.
    pub(super) words: Arc<str>,
}

impl Rights {
    /// What one tool asks for of what its plugin was granted; of a hook, the name is empty.
    fn new(needs: &[Need], requires_env: &[String], tool: &str, given: &Given<'_>) -> Rights {
        let Given { words, grants, directories, values, exclusive, store } = given;
        let directories = directories.iter().filter_map(|directory| {
            Some((directory.clone(), capability::access(needs, tool, &directory.grant)?))
        });
        let names = capability::variables(needs, requires_env, tool, |name| {
            grants.of().any(|VariableGrant(granted)| granted == name)
        });
        let variable =
            |name: String| values.variables.0.get(&name).cloned().map(|value| (name, value));
        let asks = Kind::all();
        let asks: Vec<Kind> =
            asks.filter(|kind| capability::asks_for_tool(needs, *kind, tool)).collect();
        let has_store = grants.has(Kind::KV) && asks.contains(&Kind::KV);
        let mut variables_lacking =
            capability::variables(needs, requires_env, tool, |name| !names.contains(name));
        // A secret of that name will do.
        let secrets = capability::asked_secrets(needs);
        variables_lacking.retain(|name| !secrets.iter().any(|asked| asked.name == *name));
        Rights {
            asks,
            words: Arc::from(*words),
            variables_lacking,
            directories: directories.collect(),
            variables: names.into_iter().filter_map(variable).collect(),
            http: HttpRights::new(needs, tool, grants.of()),
            secrets: SecretRights::new(needs, tool, grants.of()),
            kv: has_store.then(|| Arc::clone(store)),
            exclusive: exclusive.to_vec(),
        }
    }

    /// The same, with one more directory.
    pub(super) fn with(&mut self, directory: Directory, access: Access) {
        self.directories.push((directory, access));
    }

    /// Tells whether a directory was granted, or could be.
    pub(super) fn may_have_directories(&self) -> bool {
        !self.directories.is_empty() || self.asks.contains(&Kind::DIRS)
    }

    /// The sides of a call with these rights, of which it has touched none.
    pub(super) fn sides(&self) -> Sides {
        let held =
            [(Kind::DIRS, !self.directories.is_empty()), (Kind::HTTP, !self.http.is_empty())];
        let held: Vec<Kind> =
            held.into_iter().filter(|(_, held)| *held).map(|(kind, _)| kind).collect();
        Sides::new(&self.exclusive, &held)
    }
}

/// What a plugin was granted, as far as it is there.
pub(super) struct Given<'a> {
    /// What commands call it.
    pub(super) words: &'a str,
    pub(super) grants: &'a Grants,
    pub(super) directories: &'a [Directory],
    pub(super) values: &'a Values,
    pub(super) exclusive: &'a [Exclusive],
    pub(super) store: &'a Arc<Kv>,
}

/// What a plugin asked for and was granted, and what that comes to for each of its tools.
#[derive(Debug, Default)]
pub(super) struct Authority {
    pub(super) needs: Vec<Need>,
    pub(super) grants: Grants,
    by_tool: HashMap<String, Arc<Rights>>,
    of_hooks: Arc<Rights>,
    secrets: Arc<PluginSecrets>,
}

impl Authority {
    pub(super) fn new<'a>(
        needs: Vec<Need>,
        tools: impl Iterator<Item = &'a ToolSpec>,
        given: &Given<'_>,
    ) -> Authority {
        let of_tool = |spec: &ToolSpec| {
            let name = spec.name.as_str();
            (name.to_owned(), Arc::new(Rights::new(&needs, &spec.requires_env, name, given)))
        };
        let by_tool = tools.map(of_tool).collect();
        let of_hooks = Arc::new(Rights::new(&needs, &[], "", given));
        let secrets = PluginSecrets::new(&given.values.secrets, given.grants.of());
        let secrets = Arc::new(secrets);
        Authority { grants: given.grants.clone(), by_tool, of_hooks, secrets, needs }
    }

    /// What a tool may use.
    pub(super) fn of_tool(&self, name: &str) -> Arc<Rights> {
        self.by_tool.get(name).cloned().unwrap_or_default()
    }

    /// The secrets it was granted, as far as they are set.
    pub(super) fn secrets(&self) -> Arc<PluginSecrets> {
        Arc::clone(&self.secrets)
    }

    /// What hooks may use: what is asked for without naming a tool.
    pub(super) fn of_hooks(&self) -> Arc<Rights> {
        Arc::clone(&self.of_hooks)
    }
}
