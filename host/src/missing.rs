//! A tool that is not there may be of a plugin that did not load: whoever calls it is told so.

use toolhost_core::text;
use toolhost_core::tool::{Code, Outcome};
use toolhost_sources::reload::{SourceStatus, Status};

/// Plugins that are named.
const NAMED_MAX: usize = 3;
/// Characters of why one did not load.
const REASON_CHARS_MAX: usize = 300;

/// Adds to an unknown tool's error which plugins did not load, and why.
pub(crate) fn told(mut outcome: Outcome, statuses: &[SourceStatus]) -> Outcome {
    let Err(error) = &mut outcome.result else { return outcome };
    if error.code != Code::UnknownTool {
        return outcome;
    }
    let is_missing =
        |status: &&SourceStatus| status.status() == Status::Failed && status.kept.is_none();
    let mut missing = statuses.iter().filter(is_missing).filter_map(|status| {
        let source = status.source.as_ref()?;
        let reason = status.state.as_ref().err()?.told();
        Some(format!("{source} did not load, and may have it: {reason}"))
    });
    for sentence in missing.by_ref().take(NAMED_MAX) {
        let sentence = text::one_line(&text::cut(&sentence, REASON_CHARS_MAX));
        error.message.push_str("; ");
        error.message.push_str(&sentence);
    }
    match missing.count() {
        0 => {}
        more => error.message.push_str(&format!("; {more} more did not load")),
    }
    outcome
}
