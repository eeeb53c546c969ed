//! What a client is told of plugins besides changes of its tools: which failed to load, and why.

#![expect(deprecated, reason = "clients of the older era hear of failures in no other way")]

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam};
use rmcp::{Peer, RoleServer};
use serde_json::json;

use crate::reload::{Shown, SourceStatus};
use crate::text;

/// Characters of one message.
const CHARS_MAX: usize = 1_000;

/// What was told already.
#[derive(Default)]
pub(super) struct News {
    told: HashMap<PathBuf, Option<String>>,
}

impl News {
    /// What is new among the statuses, a line each; true for bad news.
    pub(super) fn of(&mut self, shown: &Shown) -> Vec<(bool, String)> {
        let mut news = Vec::new();
        for status in shown.statuses.iter().filter(|status| !status.loading) {
            let problem = problem(status);
            let before = self.told.insert(status.path.clone(), problem.clone());
            if before.as_ref() == Some(&problem) {
                continue;
            }
            let name = name(&status.path);
            match problem {
                Some(problem) => news.push((true, format!("{name}: {problem}"))),
                None if before.is_some_and(|before| before.is_some()) => {
                    news.push((false, format!("{name}: live")));
                }
                None => {}
            }
        }
        self.told.retain(|path, _| shown.statuses.iter().any(|status| status.path == *path));
        news
    }
}

/// Tells a client that can hear it.
pub(super) async fn tell(peer: &Peer<RoleServer>, (is_bad, line): (bool, String)) {
    if peer.peer_info().is_none() {
        return;
    }
    let level = if is_bad { LoggingLevel::Error } else { LoggingLevel::Info };
    // A person may read it, and so may a model.
    let line = text::sanitized(&text::one_line(&text::cut(&line, CHARS_MAX)));
    let message = LoggingMessageNotificationParam::new(level, json!(line));
    // A client that cannot be told has gone.
    let _ = peer.notify_logging_message(message).await;
}

fn problem(status: &SourceStatus) -> Option<String> {
    let meanwhile = match status.serving() {
        Some(_) => " (the build before keeps serving)",
        None => "",
    };
    match &status.state {
        Err(reason) => Some(format!("{reason}{meanwhile}")),
        Ok(ready) => ready.pending.as_ref().map(|pending| {
            format!("it waits for the operator: {}; {}", pending.why, pending.meanwhile)
        }),
    }
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::plugin::Phase;
    use crate::reload::Failed;
    use crate::tool::Usage;

    #[test]
    fn a_failure_is_told_once() {
        let shown = |reason: &str, loading: bool| {
            let path = PathBuf::from("/p/say.wasm");
            let state = Err(Failed { phase: Phase::Register, reason: reason.to_owned() });
            let usage = Usage::default();
            let status =
                SourceStatus { path, source: None, state, loading, read: None, kept: None, usage };
            Shown { started: true, settled: true, statuses: Arc::new(vec![status]) }
        };
        let mut news = News::default();
        assert_eq!(news.of(&shown("it is being loaded", true)), []);
        assert_eq!(news.of(&shown("broken", false)), [(true, "say.wasm: broken".to_owned())]);
        assert_eq!(news.of(&shown("broken", true)), []);
        assert_eq!(news.of(&shown("broken", false)), []);
        assert_eq!(news.of(&Shown::default()), []);
        assert_eq!(news.of(&shown("broken", false)).len(), 1);
    }
}
