//! What the audit log is told of loads: one line for each source.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use super::{Ready, Shown, SourceStatus};
use crate::driver::{Failed, Location};
use toolhost_core::tool::Origin;
use toolhost_kernel::registry::Catalog;
use toolhost_state::audit::{Audit, LoadEvent, TrustEvent};

/// Notes what became of sources that were loaded; `catalog` has what was published of them.
pub fn note(audit: &Audit, statuses: &[SourceStatus], catalog: &Catalog) {
    if !audit.is_on() {
        return;
    }
    for status in statuses {
        let source = status.source.clone();
        let ready = status.state.as_ref().ok();
        // Of two with the same bytes, one counts.
        let counts = ready.is_some_and(|ready| ready.same_as.is_none());
        let report = source.as_ref().filter(|_| counts).and_then(|source| catalog.report(source));
        audit.note(LoadEvent {
            place: status.location.to_string(),
            source,
            digest: ready.map(|ready| ready.facts.digest.clone()),
            origin: ready.map(|ready| in_a_word(ready.origin)),
            tools: report.map_or(0, |report| report.tools.len()),
            // Not what its code said: the log goes further than the user's terminal.
            reason: status.state.as_ref().err().map(Failed::told),
            waits: ready.and_then(|ready| Some(ready.pending.as_ref()?.why.clone())),
            serving: status.kept.as_ref().map(|kept| kept.facts.digest.clone()),
        });
        if let (Some(source), Some(ready)) = (&status.source, ready)
            && let Some(rule) = ready.trusted_by
        {
            let folder = source.folder().map(Path::to_owned);
            let (what, digest) = (source.to_string(), ready.facts.digest.to_string());
            audit.note(TrustEvent { what, folder, digest, by: rule.word() });
        }
    }
}

fn in_a_word(origin: Origin) -> &'static str {
    match origin {
        Origin::Builtin => "builtin",
        Origin::Bundled => "bundled",
        Origin::User => "user",
        Origin::Project => "project",
        Origin::Mcp => "mcp",
    }
}

/// Statuses that say something new, for the audit log; all, if what was before was not told.
pub(super) fn news(before: &Shown, statuses: &[SourceStatus], was_told: bool) -> Vec<SourceStatus> {
    let known: HashMap<&Location, &SourceStatus> =
        before.statuses.iter().map(|status| (&status.location, status)).collect();
    let told = |status: &SourceStatus| {
        let digest = |ready: &Ready| Arc::clone(&ready.facts.digest);
        let state = status.state.as_ref().map(|ready| (digest(ready), ready.pending.clone()));
        (state.map_err(Clone::clone), status.kept.as_deref().map(digest), status.loading)
    };
    let is_news = |status: &&SourceStatus| {
        !status.loading
            && (!was_told
                || known.get(&status.location).is_none_or(|known| told(known) != told(status)))
    };
    statuses.iter().filter(is_news).cloned().collect()
}
