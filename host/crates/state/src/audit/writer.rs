//! The thread that writes: it gathers what comes within a moment, makes lines of it and appends
//! them at once. Where it cannot, it says so once, keeps what it has, and tries again.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use super::event::Event;
use super::file::{self, Log};
use super::line::{self, LineMembers};
use super::{AuditQueue, AuditSettings, GATHER_TIME, Queue};

/// How long after a failure the next try is.
const RETRY_TIME: Duration = Duration::from_secs(1);

struct Writer {
    shared: Arc<AuditQueue>,
    settings: AuditSettings,
    log: Log,
    /// Lines that could not be written yet.
    waiting: VecDeque<LineMembers>,
    /// Events that are lost, and in which way.
    lost: u64,
    /// How many were said to be lost.
    said: u64,
    /// Why nothing can be written, and since when it was tried last.
    failed: Option<(String, Instant)>,
    has_overflowed: bool,
}

/// What the writer takes from the queue at once.
struct QueuedEvents {
    events: Vec<(SystemTime, Event)>,
    /// It is all there was.
    is_all: bool,
    asked: u64,
    is_ending: bool,
    is_closing: bool,
}

/// Starts the thread of a chain; tells whether it could.
pub(super) fn spawn(settings: &AuditSettings, shared: &Arc<AuditQueue>) -> bool {
    let mut writer = Writer {
        log: Log::new(settings.clone()),
        settings: settings.clone(),
        shared: Arc::clone(shared),
        waiting: VecDeque::new(),
        lost: 0,
        said: 0,
        failed: None,
        has_overflowed: false,
    };
    let started = std::thread::Builder::new().name("audit".to_owned()).spawn(move || writer.run());
    if let Err(error) = &started {
        tracing::warn!("the audit log has no thread to be written by, so nothing is: {error}");
    }
    started.is_ok()
}

/// Whoever waits for a writer that has gone, even by a panic, must not wait on.
struct Gone(Arc<AuditQueue>);

impl Drop for Gone {
    fn drop(&mut self) {
        let mut queue = self.0.queue();
        (queue.is_running, queue.is_closing) = (false, true);
        drop(queue);
        self.0.done.notify_all();
    }
}

impl Writer {
    fn run(&mut self) {
        let _gone = Gone(Arc::clone(&self.shared));
        loop {
            let QueuedEvents { mut events, is_all, asked, is_ending, is_closing } = self.take();
            let mut held = 0;
            for (time, event) in events.drain(..) {
                held += event.held();
                line::push(&mut self.waiting, time, &event, &self.settings);
            }
            self.shared.held.fetch_sub(held, Ordering::Relaxed);
            self.write();
            if !is_all && self.failed.is_none() {
                continue;
            }
            if is_ending || is_closing {
                // Said before anybody who waits goes on, and perhaps ends the process.
                self.say_what_is_lost();
            }
            if is_closing {
                return;
            }
            self.shared.queue().answered = asked;
            self.shared.done.notify_all();
        }
    }

    /// Waits for events, or for the next try, and takes what is there.
    fn take(&mut self) -> QueuedEvents {
        let shared = Arc::clone(&self.shared);
        let mut queue = shared.queue();
        let is_urgent = |queue: &Queue| queue.asked > queue.answered || queue.is_closing;
        let until = self.failed.as_ref().map(|(_, tried)| *tried + RETRY_TIME);
        if let Some(until) = until {
            // What comes meanwhile waits in the queue, where its number is bounded.
            let time = until.saturating_duration_since(Instant::now());
            let waited = shared.wake.wait_timeout_while(queue, time, |queue| !is_urgent(queue));
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        } else {
            queue.is_asleep = queue.events.is_empty() && !is_urgent(&queue);
            let is_idle = |queue: &mut Queue| queue.events.is_empty() && !is_urgent(queue);
            queue = shared.wake.wait_while(queue, is_idle).unwrap_or_else(PoisonError::into_inner);
            queue.is_asleep = false;
            let half = self.settings.queue_max / 2;
            let gathers = |queue: &mut Queue| queue.events.len() < half && !is_urgent(queue);
            let waited = shared.wake.wait_timeout_while(queue, GATHER_TIME, gathers);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        self.lost += std::mem::take(&mut queue.lost);
        // Behind lines that wait for the disk, only so many more as there is room for.
        let room = self.settings.queue_max.saturating_sub(self.waiting.len());
        let room = room.min(queue.events.len());
        let is_all = room == queue.events.len();
        let events = if is_all {
            let fresh = Vec::with_capacity(room.min(1_024));
            std::mem::replace(&mut queue.events, fresh)
        } else {
            queue.events.drain(..room).collect()
        };
        let Queue { asked, is_ending, is_closing, .. } = *queue;
        QueuedEvents { events, is_all, asked, is_ending, is_closing }
    }

    /// Writes all lines, and the gap if there is one.
    fn write(&mut self) {
        if self.lost > 0 {
            // After what was noted before it.
            let why = match &self.failed {
                Some((error, _)) => format!("the disk failed: {error}"),
                None => "events came faster than they are written".to_owned(),
            };
            if self.failed.is_none() && !std::mem::replace(&mut self.has_overflowed, true) {
                tracing::warn!(
                    "the audit log {} has lost {} records: {why}; `audit_queue_max` may be raised",
                    self.settings.folder.display(),
                    self.lost
                );
            }
            self.waiting.push_back(line::gap(self.lost, &why, &self.settings));
        }
        let result = self.log.append(&mut self.waiting);
        if self.lost > 0 && result.is_err() {
            // Counted on; there is one line for all of them.
            self.waiting.pop_back();
        } else {
            self.lost = 0;
        }
        match result {
            Ok(()) if self.failed.take().is_some() => {
                tracing::warn!("the audit log {} works again", self.settings.folder.display());
            }
            Ok(()) => {}
            Err(error) => self.fail(&error),
        }
    }

    fn fail(&mut self, error: &io::Error) {
        if self.failed.is_none() {
            tracing::warn!(
                "the audit log {} cannot be written: {error}; calls go on, and are not recorded until this is repaired: make room on its disk, and make its folder one that you can write to",
                file::current(&self.settings.folder).display()
            );
        }
        self.failed = Some((error.to_string(), Instant::now()));
    }

    /// What is left now is lost. Only more than was said before is said.
    fn say_what_is_lost(&mut self) {
        let queue = self.shared.queue();
        let lost = self.lost + self.waiting.len() as u64 + queue.lost + queue.events.len() as u64;
        if lost > std::mem::replace(&mut self.said, lost) {
            tracing::warn!(
                "{lost} records of the audit log {} are lost",
                self.settings.folder.display()
            );
        }
    }
}
