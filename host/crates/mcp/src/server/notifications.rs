//! What a client is told of plugins besides changes of its tools: which failed to load, and why.

#![expect(deprecated, reason = "clients of the older era hear of failures in no other way")]

use std::collections::HashMap;

use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam};
use rmcp::{Peer, RoleServer};
use serde_json::json;

use toolhost_core::text;
use toolhost_sources::driver::Location;
use toolhost_sources::reload::{Shown, SourceStatus};

/// Characters of one message.
const CHARS_MAX: usize = 1_000;

/// What was told already.
#[derive(Default)]
pub(super) struct Notifications {
    told: HashMap<Location, Option<String>>,
}

impl Notifications {
    /// What is new among the statuses, a line each; true for bad news.
    pub(super) fn of(&mut self, shown: &Shown) -> Vec<(bool, String)> {
        let mut news = Vec::new();
        for status in shown.statuses.iter().filter(|status| !status.loading) {
            let problem = problem(status);
            let before = self.told.insert(status.location.clone(), problem.clone());
            if before.as_ref() == Some(&problem) {
                continue;
            }
            let name = status.location.short();
            match problem {
                Some(problem) => news.push((true, format!("{name}: {problem}"))),
                None if before.is_some_and(|before| before.is_some()) => {
                    news.push((false, format!("{name}: live")));
                }
                None => {}
            }
        }
        self.told
            .retain(|location, _| shown.statuses.iter().any(|status| status.location == *location));
        news
    }
}

/// Tells a client that can hear it, and wants to hear what is so severe.
pub(super) async fn tell(
    peer: &Peer<RoleServer>,
    least: LoggingLevel,
    (is_bad, line): (bool, String),
) {
    let level = if is_bad { LoggingLevel::Error } else { LoggingLevel::Info };
    if peer.peer_info().is_none() || severity(level) < severity(least) {
        return;
    }
    // A person may read it, and so may a model.
    let line = text::one_line(&text::cut(&line, CHARS_MAX));
    let line = match is_bad {
        true => text::sanitized(&line),
        false => text::without_markup(&line).into_owned(),
    };
    let message = LoggingMessageNotificationParam::new(level, json!(line));
    // A client that cannot be told has gone.
    let _ = peer.notify_logging_message(message).await;
}

fn severity(level: LoggingLevel) -> u8 {
    match level {
        LoggingLevel::Debug => 0,
        LoggingLevel::Info => 1,
        LoggingLevel::Notice => 2,
        LoggingLevel::Warning => 3,
        LoggingLevel::Error => 4,
        LoggingLevel::Critical => 5,
        LoggingLevel::Alert => 6,
        LoggingLevel::Emergency => 7,
    }
}

fn problem(status: &SourceStatus) -> Option<String> {
    let meanwhile = match status.serving() {
        Some(_) => " (the build before keeps serving)",
        None => "",
    };
    match &status.state {
        Err(failed) => Some(format!("{}{meanwhile}", failed.told())),
        Ok(ready) => ready
            .pending
            .as_ref()
            .map(|pending| format!("it is pending review: {}; {}", pending.why, pending.meanwhile)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use toolhost_core::tool::Usage;
    use toolhost_sources::driver::{Failed, Phase};

    #[test]
    fn a_failure_is_told_once() {
        let shown = |reason: &str, loading: bool| {
            let location = Location::File("/p/say.wasm".into());
            let state =
                Err(Failed { phase: Phase::Compile, cause: reason.to_owned(), repair: None });
            let usage = Usage::default();
            let (words, source) = ("say".to_owned(), None);
            let (read, kept, is_retried) = (None, None, false);
            let status = SourceStatus {
                source,
                location,
                words,
                state,
                loading,
                read,
                kept,
                usage,
                is_retried,
            };
            Shown {
                started: true,
                settled: true,
                statuses: Arc::new(vec![status]),
                ..Shown::default()
            }
        };
        let mut news = Notifications::default();
        assert_eq!(news.of(&shown("it is being loaded", true)), []);
        assert_eq!(news.of(&shown("broken", false)), [(true, "say.wasm: broken".to_owned())]);
        assert_eq!(news.of(&shown("broken", true)), []);
        assert_eq!(news.of(&shown("broken", false)), []);
        assert_eq!(news.of(&Shown::default()), []);
        assert_eq!(news.of(&shown("broken", false)).len(), 1);
    }
}
