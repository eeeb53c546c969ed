//! What the audit log is told of a call: once, when it has ended, in whatever way.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use crate::registry::Entry;
use toolhost_core::tool::{Call, Meter, Outcome, SourceId};
use toolhost_state::audit::{Audit, Called};

/// A call under way.
pub(super) struct RunningCall {
    pub(super) call: Call,
    pub(super) meter: Arc<Meter>,
    is_noted: bool,
    found: OnceLock<(SourceId, Option<Arc<str>>)>,
    ran: OnceLock<String>,
}

impl RunningCall {
    /// Remembers whose tool was found.
    pub(super) fn found(&self, entry: &Entry) {
        if self.is_noted {
            // Found once.
            let _ = self.found.set((entry.source.clone(), entry.digest.clone()));
        }
    }

    /// Remembers the arguments as the tool was to get them, if they are others.
    pub(super) fn ran(&self, arguments: String) {
        if self.is_noted && arguments != self.call.arguments {
            // There is one round of changes.
            let _ = self.ran.set(arguments);
        }
    }
}

/// Notes a call when it is done; or that it was cancelled, if it is dropped before.
pub(super) struct Noting {
    audit: Arc<Audit>,
    /// Taken when it is noted.
    running: Option<Arc<RunningCall>>,
    started: Instant,
}

impl Noting {
    /// Begins a call.
    pub(super) fn new(audit: &Arc<Audit>, call: Call) -> (Noting, Arc<RunningCall>) {
        let running = Arc::new(RunningCall {
            call,
            meter: Arc::default(),
            is_noted: audit.is_on(),
            found: OnceLock::new(),
            ran: OnceLock::new(),
        });
        let noting = Noting {
            audit: Arc::clone(audit),
            running: Some(Arc::clone(&running)),
            started: Instant::now(),
        };
        (noting, running)
    }

    /// Notes what became of the call. The outcome is what its caller gets.
    pub(super) fn done(mut self, running: Arc<RunningCall>, outcome: &Outcome) {
        drop(running);
        self.note(Some(outcome));
    }

    fn note(&mut self, outcome: Option<&Outcome>) {
        let Some(running) = self.running.take().filter(|running| running.is_noted) else { return };
        let meter = Arc::clone(&running.meter);
        // A task that was stopped may not have let go of it yet.
        let (call, found, mut ran) = match Arc::try_unwrap(running) {
            Ok(mut running) => (running.call, running.found.take(), running.ran.take()),
            Err(running) => {
                (running.call.clone(), running.found.get().cloned(), running.ran.get().cloned())
            }
        };
        let (source, digest) = found.unzip();
        let error = outcome.and_then(|outcome| outcome.result.as_ref().err());
        let usage = meter.usage();
        self.audit.note(Called {
            tool: outcome.map_or(call.tool, |outcome| outcome.tool.clone()),
            source,
            digest: digest.flatten(),
            caller: call.caller,
            arguments: self.audit.text(call.arguments),
            ran: ran.take().map(|text| self.audit.text(text)),
            answer: outcome.map(|outcome| self.audit.answer(&outcome.result)),
            code: error.map(|error| error.code),
            cancelled: outcome.is_none(),
            used: meter.authority_used(),
            refusals: meter.refusals(),
            why: error.map(|error| {
                let by = error.details.get("by").and_then(serde_json::Value::as_str);
                let by = by.map(|by| format!("by {by}: ")).unwrap_or_default();
                format!("{by}{}", error.message)
            }),
            wall: outcome.map_or_else(|| self.started.elapsed(), |outcome| outcome.elapsed),
            guest: meter.guest_time(),
            memory_bytes: usage.memory_bytes,
            host_calls: usage.host_calls,
        });
    }
}

impl Drop for Noting {
    fn drop(&mut self) {
        self.note(None);
    }
}
