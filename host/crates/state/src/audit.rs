//! The audit log: what every call, load, grant and refusal was, written beside the calls.
//!
//! [`Audit::note`] puts an event into a bounded queue and never waits. A thread of its own makes
//! lines of them (`line`), with digests in place of contents, and appends them to the file
//! `audit.jsonl` (`file`), which any number of processes share. What cannot be written is
//! counted, said on the log, and stands in the file as a `gap` as soon as there is one again; no
//! call ever waits for the disk or fails because of it.
//!
//! Each line holds the hash of the line before it in the file: as `prev`, which is always of the
//! same chain (the lines of one [`Audit`]), or as `anchor`, if another chain's line is in
//! between. So [`verify`](verify()) finds whatever was changed, removed, inserted or moved. What it cannot
//! find: that the newest lines were cut off while nobody who wrote them goes on writing, and a
//! log that somebody wrote anew from some line on. Nor does it find what was never written: up
//! to [`GATHER_TIME`] of events are lost when a process is killed.

mod event;
mod file;
mod follow;
mod line;
mod read;
mod verify;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use toolhost_core::limits::{Bytes, Limits};
use toolhost_core::tool::{CallError, ToolOutput};

pub use event::{
    Answer, Called, Event, GrantEvent, LoadEvent, SecretChange, SecretChanged, Text, TrustEvent,
};
pub use file::{Part, parts};
pub use follow::Follower;
pub use read::{Damage, LINE_BYTES_MAX, Lines, Record, read};
pub use verify::{Head, LogProblem, Verified, Verifier, verify};

/// How long events are gathered before they are written together.
pub const GATHER_TIME: Duration = Duration::from_millis(20);
/// How long the end of a host or a command waits for the disk.
const FLUSH_TIME_MAX: Duration = Duration::from_secs(2);
/// Texts that wait in the queue; what is beyond is hashed where it was made.
const HELD_BYTES_MAX: usize = 32 << 20;
/// One text that is copied into the queue.
const COPIED_BYTES_MAX: usize = 1 << 20;

/// Takes secrets out of a text.
pub type Redact = Arc<dyn Fn(&mut String) + Send + Sync>;

/// Where an audit log lies, and what it holds.
#[derive(Clone)]
pub struct AuditSettings {
    /// The folder of its files.
    pub folder: PathBuf,
    /// The beginnings of arguments and results stand in it, besides their digests.
    pub contents: bool,
    /// Events that wait to be written.
    pub queue_max: usize,
    /// Size of one file.
    pub file_bytes_max: Bytes,
    /// Size of all files together.
    pub bytes_max: Bytes,
    /// Takes secrets out of each line.
    pub redact: Option<Redact>,
}

impl AuditSettings {
    /// The log of a host's state folder, without contents.
    pub fn new(state: &Path, limits: &Limits) -> AuditSettings {
        AuditSettings {
            folder: folder(state),
            contents: false,
            queue_max: limits.audit_queue_max.0,
            file_bytes_max: limits.audit_file_bytes_max,
            bytes_max: limits.audit_bytes_max,
            redact: None,
        }
    }
}

impl std::fmt::Debug for AuditSettings {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("AuditSettings")
            .field("folder", &self.folder)
            .field("contents", &self.contents)
            .finish_non_exhaustive()
    }
}

/// The folder of the audit log within a host's state folder.
pub fn folder(state: &Path) -> PathBuf {
    state.join("audit")
}

/// One chain of an audit log. Dropping it writes what waits.
#[derive(Debug)]
pub struct Audit {
    on: Option<On>,
}

#[derive(Debug)]
struct On {
    settings: AuditSettings,
    shared: Arc<AuditQueue>,
}

/// What the queue's two ends share.
#[derive(Debug, Default)]
struct AuditQueue {
    queue: Mutex<Queue>,
    /// There is something to do.
    wake: Condvar,
    /// Something was done.
    done: Condvar,
    /// Bytes of the texts in the queue.
    held: AtomicUsize,
}

#[derive(Debug, Default)]
struct Queue {
    events: Vec<(SystemTime, Event)>,
    /// Events for which there was no room.
    lost: u64,
    /// The writer waits for the next event.
    is_asleep: bool,
    is_running: bool,
    /// What cannot be written now is likely to be lost.
    is_ending: bool,
    is_closing: bool,
    /// How often somebody asked for all to be written, and how often it was.
    asked: u64,
    answered: u64,
}

impl AuditQueue {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Audit {
    /// No log: whatever is noted is forgotten.
    pub fn off() -> Audit {
        Audit { on: None }
    }

    /// A new chain of a log. Nothing is made or opened until something is noted.
    pub fn open(settings: AuditSettings) -> Audit {
        Audit { on: Some(On { settings, shared: Arc::default() }) }
    }

    /// Tells whether what is noted is written.
    pub fn is_on(&self) -> bool {
        self.on.is_some()
    }

    /// Notes an event. It never waits: where there is no room, the event is counted as lost.
    pub fn note(&self, event: impl Into<Event>) {
        let Some(On { settings, shared }) = &self.on else { return };
        let (now, event) = (SystemTime::now(), event.into());
        let bytes = event.held();
        let mut queue = shared.queue();
        if !queue.is_running && !queue.is_closing {
            queue.is_running = writer::spawn(settings, shared);
        }
        if queue.events.len() >= settings.queue_max {
            queue.lost += 1;
            return;
        }
        queue.events.push((now, event));
        shared.held.fetch_add(bytes, Ordering::Relaxed);
        // Waking costs more than all the rest, so a busy writer is left alone.
        let wakes = queue.is_asleep || queue.events.len() == settings.queue_max / 2;
        queue.is_asleep = false;
        drop(queue);
        if wakes {
            shared.wake.notify_one();
        }
    }

    /// Keeps a text for a note; a large one only as its digest.
    pub fn text(&self, text: String) -> Text {
        if self.has_room(text.len()) { Text::Whole(text) } else { Text::hashed(&text) }
    }

    /// Keeps what a call came to for a note; a large one only as its digest.
    pub fn answer(&self, result: &Result<ToolOutput, CallError>) -> Answer {
        match result {
            Ok(output) if self.has_room(output.len() as usize) => Answer::Output(output.clone()),
            Ok(output) => Answer::Text(Text::hashed(&output.to_json_text())),
            Err(error) => Answer::Text(Text::Whole(error.to_json().to_string())),
        }
    }

    fn has_room(&self, bytes: usize) -> bool {
        let held = self.on.as_ref().map_or(0, |on| on.shared.held.load(Ordering::Relaxed));
        bytes <= COPIED_BYTES_MAX && held + bytes <= HELD_BYTES_MAX
    }

    /// Waits until what was noted so far is written, or could not be, at most two seconds.
    pub fn flush(&self) {
        if let Some(on) = &self.on {
            on.flush();
        }
    }

    /// The same, and says how many records are lost: the process may end before the last who notes
    /// something here has gone.
    pub fn end(&self) {
        if let Some(on) = &self.on {
            on.shared.queue().is_ending = true;
            on.flush();
        }
    }
}

impl On {
    fn flush(&self) {
        let mut queue = self.shared.queue();
        if !queue.is_running {
            return;
        }
        queue.asked += 1;
        let ticket = queue.asked;
        self.shared.wake.notify_one();
        let waiting = |queue: &mut Queue| queue.is_running && queue.answered < ticket;
        let waited = self.shared.done.wait_timeout_while(queue, FLUSH_TIME_MAX, waiting);
        let (queue, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        if timeout.timed_out() {
            let waiting = queue.events.len();
            tracing::warn!(
                "the audit log {} is not written within {}: its disk is slow, or another process holds `lock` there; {waiting} records or more may be missing",
                self.settings.folder.display(),
                humantime::format_duration(FLUSH_TIME_MAX),
            );
        }
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        if let Some(on) = &self.on {
            on.shared.queue().is_closing = true;
            on.flush();
        }
    }
}

#[cfg(test)]
mod tests;
