//! A plugin that loaded: what it publishes, what is known of it, and the authority it is given.

use std::sync::Arc;

use semver::Version;
use serde::{Deserialize, Serialize};

use super::candidate::Candidate;
use super::capability::authority::Authority;
use super::capability::{Given, Values};
use super::plugin::{PluginHooks, PluginTool, Prepared};
use super::runner::Unrecorded;
use super::toolchain::Toolchain;
use crate::script::Language;
use toolhost_core::tool::{Need, Origin, Registration, Rejection, SourceId, Tool, ToolSpec};
use toolhost_policy::capability::{self, Asks, DirGrant, Exclusive, Grants};

/// A plugin that loaded.
#[derive(Clone)]
pub struct Loaded {
    /// What it publishes. Origin and rank are the loader's guess at least trust; whoever knows
    /// the folder sets them.
    pub registration: Registration,
    /// What else there is to know.
    pub facts: Facts,
    /// Of a script: what has the digest of the facts, and can be loaded like a file.
    pub packed: Option<Arc<[u8]>>,
    /// Of a script: the digest of what runs it.
    pub runner: Option<Arc<str>>,
    /// Whoever uses this host has made it: see [`Loader::own`](super::Loader::own).
    pub own: bool,
    /// Of a script: why its runner does not count, if it does not. Then it is to have no authority.
    pub unrecorded: Option<Arc<Unrecorded>>,
    pub(super) prepared: Arc<Prepared>,
}

impl Loaded {
    /// Gives the plugin its authority, once: what it asks for of these grants. Whoever calls
    /// this has made sure that the grants were given to these bytes.
    ///
    /// Returns for each grant that gives nothing why it does not.
    pub fn grant(&mut self, grants: &Grants, exclusive: &[Exclusive]) -> Vec<String> {
        let id = self.prepared.id.to_string();
        self.grant_to(&id, grants, exclusive)
    }

    /// Those of `grants` that would give nothing, since the plugin asks for nothing that they meet.
    pub fn unasked(&self, grants: &Grants) -> Grants {
        let specs = self.registration.tools.iter().map(|tool| tool.spec());
        let tools: Vec<_> =
            specs.map(|spec| (spec.name.as_str(), spec.requires_env.as_slice())).collect();
        let has_hooks = self.prepared.offers.hooks;
        let asks = Asks { needs: &self.registration.needs, tools: &tools, has_hooks };
        capability::unasked(&asks, grants)
    }

    /// Those directories of `grants` that may be changed, and that the plugin only asks to read.
    pub fn only_read(&self, grants: &Grants) -> Vec<DirGrant> {
        let specs = self.registration.tools.iter().map(|tool| tool.spec());
        let tools: Vec<_> =
            specs.map(|spec| (spec.name.as_str(), spec.requires_env.as_slice())).collect();
        capability::only_read(&self.registration.needs, &tools, grants)
    }

    /// Like [`Loaded::grant`], of a plugin that commands call something else than its id, since others have that.
    pub fn grant_to(
        &mut self,
        words: &str,
        grants: &Grants,
        exclusive: &[Exclusive],
    ) -> Vec<String> {
        let specs: Vec<&ToolSpec> =
            self.registration.tools.iter().map(|tool| tool.spec()).collect();
        let Prepared { values, shares, offers, .. } = &*self.prepared;
        let given = Given { words, grants, exclusive, values, shares };
        let needs = self.registration.needs.clone();
        let (authority, problems) = Authority::new(needs, &specs, offers.hooks, &given);
        let hears_calls = authority.hears_calls();
        if self.prepared.authority.set(authority).is_ok() && hears_calls {
            self.registration.hooks = Some(Arc::new(PluginHooks(Arc::clone(&self.prepared))));
        }
        problems
    }
}

impl Loaded {
    /// Tells whether it was given its authority.
    pub fn is_granted(&self) -> bool {
        self.prepared.authority.get().is_some()
    }

    /// It was published from a record. What is not in that is known once it is loaded.
    pub fn is_recorded(&self) -> bool {
        self.prepared.program.is_recorded()
    }

    /// The same build once more, without authority; nothing is compiled or registered again.
    pub(super) fn renewed(&self, values: Arc<Values>) -> Loaded {
        let prepared = Arc::new(self.prepared.renewed(values));
        let tool = |tool: &Arc<dyn Tool>| {
            let plugin = Arc::clone(&prepared);
            Arc::new(PluginTool::new(tool.spec().clone(), plugin)) as Arc<dyn Tool>
        };
        let tools = self.registration.tools.iter().map(tool).collect();
        let registration = Registration { tools, hooks: None, ..self.registration.clone() };
        Loaded { registration, prepared, ..self.clone() }
    }

    /// Says that it serves no more. Calls under way end by themselves, or are stopped after
    /// `drain_time_max`. It must be called within a tokio runtime.
    pub fn retire(&self) {
        let time_max = self.prepared.engine.limits.drain_time_max;
        // With the last call the plugin is gone, and nobody is left to be told.
        let retired = Arc::downgrade(&self.prepared);
        tokio::spawn(async move {
            tokio::time::sleep(time_max).await;
            if let Some(prepared) = retired.upgrade() {
                prepared.retired.send_replace(true);
            }
        });
    }
}

impl std::fmt::Debug for Loaded {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Loaded")
            .field("registration", &self.registration)
            .field("facts", &self.facts)
            .finish_non_exhaustive()
    }
}

/// What a build publishes, as far as the loader knows.
pub(super) fn registration(
    candidate: &Candidate,
    prepared: &Arc<Prepared>,
    digest: &Arc<str>,
    (specs, needs, rejected): (Vec<ToolSpec>, Vec<Need>, Vec<Rejection>),
) -> Registration {
    let tool = |spec| Arc::new(PluginTool::new(spec, Arc::clone(prepared))) as Arc<dyn Tool>;
    Registration {
        source: SourceId::Plugin { id: candidate.id.clone(), folder: candidate.folder.clone() },
        origin: Origin::Project,
        rank: usize::MAX,
        allow_tool_override: false,
        tools: specs.into_iter().map(tool).collect(),
        needs,
        hooks: None,
        digest: Some(Arc::clone(digest)),
        trusted: false,
        rejected,
        waiting: Vec::new(),
    }
}

/// What is known of a plugin besides its tools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Its own name.
    pub name: String,
    /// Its own version.
    pub version: String,
    /// The contract it was built for.
    pub contract: Version,
    /// SHA-256 of its bytes, in hexadecimal; of a script, together with its runner's.
    pub digest: Arc<str>,
    /// Its size in bytes; of a script, of its text.
    pub bytes: u64,
    /// What it imports.
    pub imports: Vec<String>,
    /// What it exports.
    pub exports: Vec<String>,
    /// What it was made with, by its own account.
    pub toolchain: Toolchain,
    /// Names of the registration that the host does not know, with JSON text.
    pub extensions: Vec<(String, String)>,
    /// The language, if it is a script; imports and toolchain are its runner's then.
    pub script: Option<Language>,
}
