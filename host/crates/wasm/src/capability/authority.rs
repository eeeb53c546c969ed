//! What a plugin asked for and was granted, and what that comes to for each of its tools.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Asker, Given, KindRights, PROVIDERS, Shares, Values};
use crate::redaction::Redaction;
use crate::rights::{Right, Rights};
use toolhost_core::tool::{Need, ToolSpec};
use toolhost_policy::capability::{self, Asks, Grants, Kind};

/// The authority of one plugin.
#[derive(Debug, Default)]
pub(crate) struct Authority {
    pub(crate) needs: Vec<Need>,
    pub(crate) grants: Grants,
    by_tool: HashMap<String, Arc<Rights>>,
    of_hooks: Arc<Rights>,
    redaction: Arc<Redaction>,
    hears_calls: bool,
}

impl Authority {
    /// What a plugin with these tools comes to have, and for each grant that gives nothing why it
    /// does not. `has_hooks` tells whether it has any.
    pub(crate) fn new(
        needs: Vec<Need>,
        specs: &[&ToolSpec],
        has_hooks: bool,
        given: &Given<'_>,
    ) -> (Authority, Vec<String>) {
        let hooks = Asker { needs: &needs, requires_env: &[], tool: "" };
        let tools: Vec<_> =
            specs.iter().map(|spec| (spec.name.as_str(), spec.requires_env.as_slice())).collect();
        let askers =
            tools.iter().map(|&(tool, requires_env)| Asker { tool, requires_env, ..hooks });
        let askers: Vec<Asker<'_>> = askers.chain([hooks]).collect();
        let asks = Asks { needs: &needs, tools: &tools, has_hooks };
        let (mut rights, granted) = rights(&askers, given);
        let mut problems: Vec<String> = granted.iter().flat_map(|of| of.problems.clone()).collect();
        let mut hears_calls = false;
        for (provider, granted) in PROVIDERS.iter().zip(&granted) {
            let kind = provider.kind();
            let is_asked = kind.is_asked(&asks);
            if given.grants.has(kind) && granted.is_there && !is_asked {
                let what = kind.noun();
                problems.push(format!("it asks for no {what}, so the grant gives nothing"));
            }
            hears_calls |= provider.hears_calls() && is_asked && given.grants.has(kind);
        }
        problems.extend(PROVIDERS.iter().flat_map(|provider| provider.unset(given)));
        let hidden: Vec<_> = PROVIDERS.iter().flat_map(|provider| provider.hidden(given)).collect();
        let of_hooks = rights.pop().unwrap_or_default();
        let names = specs.iter().map(|spec| spec.name.to_string());
        let by_tool = names.zip(rights).collect();
        let redaction = Arc::new(Redaction::new(&hidden));
        let grants = given.grants.clone();
        let authority = Authority { by_tool, of_hooks, redaction, grants, hears_calls, needs };
        (authority, problems)
    }

    /// What a tool may use, if it is one of the plugin's.
    pub(crate) fn of_tool(&self, name: &str) -> Option<Arc<Rights>> {
        self.by_tool.get(name).cloned()
    }

    /// What hooks may use: what is asked for without naming a tool.
    pub(crate) fn of_hooks(&self) -> Arc<Rights> {
        Arc::clone(&self.of_hooks)
    }

    /// What no text of the plugin may show.
    pub(crate) fn redaction(&self) -> Arc<Redaction> {
        Arc::clone(&self.redaction)
    }

    /// Tells whether the plugin hears of calls.
    pub(crate) fn hears_calls(&self) -> bool {
        self.hears_calls
    }
}

/// What whoever has no authority may use: nothing. `words` is what commands call the plugin.
pub(crate) fn none(words: &str, values: &Values, shares: &Shares) -> Arc<Rights> {
    let (grants, exclusive) = (Grants::default(), &[]);
    let given = Given { words, grants: &grants, exclusive, values, shares };
    let nobody = Asker { needs: &[], requires_env: &[], tool: "" };
    let (mut rights, _) = rights(&[nobody], &given);
    rights.pop().unwrap_or_default()
}

/// What each of those who ask may use, and what each kind came to.
fn rights(askers: &[Asker<'_>], given: &Given<'_>) -> (Vec<Arc<Rights>>, Vec<KindRights>) {
    let words: Arc<str> = Arc::from(given.words);
    let mut granted: Vec<KindRights> =
        PROVIDERS.iter().map(|provider| provider.grant(askers, given)).collect();
    let mut by_kind: Vec<_> =
        granted.iter_mut().map(|of| std::mem::take(&mut of.rights).into_iter()).collect();
    let rights = askers.iter().map(|asker| {
        let asked = |kind: &Kind| capability::asks_for_tool(asker.needs, *kind, asker.tool);
        let asks: Vec<Kind> = Kind::all().filter(asked).collect();
        let of_asker: Vec<Arc<dyn Right>> = by_kind.iter_mut().filter_map(Iterator::next).collect();
        Arc::new(Rights::new(&words, given.exclusive, asks, of_asker))
    });
    (rights.collect(), granted)
}
