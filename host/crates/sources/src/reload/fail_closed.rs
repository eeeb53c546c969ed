//! Hooks that were granted and are not there: whatever they were to decide is refused.

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use toolhost_core::tool::{
    Decision, HookEvent, HookedCall, HookedOutcome, Hooks, Origin, PluginId, Registration, SourceId,
};
use toolhost_policy::capability::{self, HookGrant};

/// Stands for the hooks of a plugin that is pending, damaged or gone.
pub(super) struct MissingHooks {
    /// Of events that could stop or change a call.
    grants: Vec<HookGrant>,
}

impl MissingHooks {
    pub(super) fn new(grants: &[HookGrant]) -> MissingHooks {
        let decides =
            |grant: &&HookGrant| matches!(grant.event, HookEvent::Request | HookEvent::PreCall);
        MissingHooks { grants: grants.iter().filter(decides).cloned().collect() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.grants.is_empty()
    }
}

/// A registration of nothing else, for a plugin that did not load.
pub(super) fn alone(hooks: Arc<dyn Hooks>, id: &PluginId, folder: PathBuf) -> Registration {
    Registration {
        source: SourceId::Plugin { id: id.clone(), folder },
        origin: Origin::Project,
        rank: usize::MAX,
        allow_tool_override: false,
        tools: Vec::new(),
        needs: Vec::new(),
        hooks: Some(hooks),
        digest: None,
        trusted: false,
        rejected: Vec::new(),
        waiting: Vec::new(),
    }
}

fn gone<T: Send + 'static>() -> BoxFuture<'static, Result<T, String>> {
    Box::pin(async { Err("the plugin was granted hooks and gives none".to_owned()) })
}

impl Hooks for MissingHooks {
    fn hears(&self, event: HookEvent, tool: &str) -> bool {
        self.grants.iter().any(|grant| grant.event == event && capability::fits(&grant.tools, tool))
    }

    fn are_missing(&self) -> bool {
        true
    }

    fn request<'a>(&'a self, _: HookedCall<'a>) -> BoxFuture<'a, Result<Option<String>, String>> {
        gone()
    }

    fn pre_call<'a>(&'a self, _: HookedCall<'a>) -> BoxFuture<'a, Result<Decision, String>> {
        gone()
    }

    fn post_call<'a>(
        &'a self,
        _: HookedCall<'a>,
        _: HookedOutcome<'a>,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }

    fn transform<'a>(
        &'a self,
        _: HookedCall<'a>,
        _: HookedOutcome<'a>,
    ) -> BoxFuture<'a, Result<Option<String>, String>> {
        Box::pin(async { Ok(None) })
    }
}
