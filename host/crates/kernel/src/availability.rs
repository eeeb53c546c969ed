//! Which tools can work at present: what they require is there, and their checks say yes.
//!
//! A check runs in the sandbox and may be slow, so its answer is kept for 30 seconds. A "no"
//! within a minute of a "yes" is taken for a hiccup and passed over once. Tools of one source
//! that name the same check share one answer, and whoever asks while it runs waits for it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use crate::registry::Entry;
use toolhost_core::limits::Limits;
use toolhost_core::tool::{Meter, Reason, SourceId, Usage};

/// How long an answer is kept.
const KEPT_FOR: Duration = Duration::from_secs(30);
/// How long after a "yes" a "no" is passed over.
const GRACE: Duration = Duration::from_secs(60);
/// Checks that run side by side in one listing.
const CHECKS_AT_ONCE: usize = 16;
/// Of one source; so that one with many slow checks does not take the others' turns.
const CHECKS_OF_SOURCE_AT_ONCE: usize = 2;
/// Answers kept, over all builds of all sources; the oldest builds' go first.
const ANSWERS_MAX: usize = 20_000;

/// Why a tool cannot work at present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable {
    /// In one sentence, with the repair where there is one.
    pub reason: String,
    /// What its check used.
    pub usage: Usage,
}

/// What one listing found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checks {
    /// Tools that cannot work, by name.
    pub unavailable: BTreeMap<String, Unavailable>,
    /// Until when no answer changes; `None` if no tool has a check.
    pub fresh_until: Option<Instant>,
}

/// Knows the answers of checks.
pub struct Availability {
    check_time_max: Duration,
    slots: Mutex<HashMap<CheckKey, Arc<CheckSlot>>>,
    /// Counts how often an answer was another than before.
    changes: watch::Sender<u64>,
}

/// One check of one build.
#[derive(Clone, PartialEq, Eq, Hash)]
struct CheckKey {
    source: SourceId,
    published: u64,
    check: String,
}

/// What is known of one check, and how often it ran to its end.
#[derive(Default)]
struct CheckSlot {
    ended: AtomicU64,
    /// What it said last, if that was no; also while it runs again.
    no: Mutex<Option<Unavailable>>,
    /// Held while the check runs.
    known: tokio::sync::Mutex<LastCheck>,
}

/// What is known of one check.
#[derive(Default)]
struct LastCheck {
    answer: Option<(CheckAnswer, Instant)>,
    last_yes: Option<Instant>,
    /// What came of its last run, kept or not: for those who waited for it.
    last_run: Option<CheckAnswer>,
}

/// Scheduler of the checks of one listing.
struct CheckQueue<'a> {
    of_source: &'a Semaphore,
    of_all: &'a Semaphore,
}

type CheckAnswer = Result<(), Unavailable>;

impl Availability {
    /// Knows nothing yet.
    pub fn new(limits: &Limits) -> Availability {
        let changes = watch::Sender::new(0);
        Availability { check_time_max: limits.check_time_max, slots: Mutex::default(), changes }
    }

    /// Counts how often a check answered otherwise than before; what was never asked counts as a
    /// yes.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// What is known of many tools, without asking any check: its last answer counts, however old
    /// it is, and what was never asked counts as a yes.
    pub fn last_known<'a>(&self, entries: impl IntoIterator<Item = &'a Entry>) -> Checks {
        let mut listing = Checks::default();
        for entry in entries {
            let unavailable = unmet(entry).or_else(|| {
                let slot = entry.tool.spec().has_check.then(|| self.slot(entry))?;
                let no = slot.no.lock().unwrap_or_else(PoisonError::into_inner);
                no.clone()
            });
            if let Some(unavailable) = unavailable {
                listing.unavailable.insert(entry.tool.spec().name.to_string(), unavailable);
            }
        }
        listing
    }

    /// Answers for one tool. It takes at most twice `check_time_max`, however many wait for the
    /// same check.
    ///
    /// # Errors
    /// If the tool cannot work at present.
    ///
    /// # Cancel safety
    /// Dropping the future stops the check, unless somebody else waits for it.
    pub async fn of(&self, entry: &Entry) -> Result<(), Unavailable> {
        let asking = self.ask(entry, None);
        match tokio::time::timeout(2 * self.check_time_max, asking).await {
            Ok((answer, _)) => answer,
            Err(_) => Err(late()),
        }
    }

    /// Answers for many tools, side by side. It takes at most twice `check_time_max`, however
    /// many there are; a tool whose turn has not come by then counts as unavailable.
    ///
    /// # Cancel safety
    /// Dropping the future stops the checks.
    pub async fn of_all<'a>(&self, entries: impl IntoIterator<Item = &'a Entry>) -> Checks {
        let mut listing = Checks::default();
        let asked: Vec<&Entry> = entries
            .into_iter()
            .filter(|entry| {
                let spec = entry.tool.spec();
                spec.has_check || !spec.requires_env.is_empty()
            })
            .collect();
        let of_all = Semaphore::new(CHECKS_AT_ONCE);
        let mut of_sources: HashMap<&SourceId, Semaphore> = HashMap::new();
        for entry in &asked {
            let turns = || Semaphore::new(CHECKS_OF_SOURCE_AT_ONCE);
            of_sources.entry(&entry.source).or_insert_with(turns);
        }
        let (mut answers, mut left) = (FuturesUnordered::new(), BTreeSet::new());
        for entry in asked {
            left.insert(entry.tool.spec().name.as_str());
            let of_source = &of_sources[&entry.source];
            answers.push(self.ask_in_turn(CheckQueue { of_source, of_all: &of_all }, entry));
        }
        let collect = async {
            while let Some((entry, (answer, until))) = answers.next().await {
                let name = entry.tool.spec().name.as_str();
                left.remove(name);
                if let Err(unavailable) = answer {
                    listing.unavailable.insert(name.to_owned(), unavailable);
                }
                listing.fresh_until = match (listing.fresh_until, until) {
                    (Some(known), Some(until)) => Some(known.min(until)),
                    (known, until) => known.or(until),
                };
            }
        };
        let in_time = tokio::time::timeout(2 * self.check_time_max, collect).await.is_ok();
        drop(answers);
        if !in_time {
            listing.fresh_until = Some(Instant::now());
        }
        for name in left {
            listing.unavailable.insert(name.to_owned(), late());
        }
        listing
    }

    async fn ask_in_turn<'a>(
        &self,
        turns: CheckQueue<'_>,
        entry: &'a Entry,
    ) -> (&'a Entry, (CheckAnswer, Option<Instant>)) {
        (entry, self.ask(entry, Some(turns)).await)
    }

    /// The answer for one tool, and until when it holds; `None` if it does not depend on time.
    async fn ask(
        &self,
        entry: &Entry,
        turns: Option<CheckQueue<'_>>,
    ) -> (CheckAnswer, Option<Instant>) {
        if let Some(unavailable) = unmet(entry) {
            return (Err(unavailable), None);
        }
        if !entry.tool.spec().has_check {
            return (Ok(()), None);
        }
        let slot = self.slot(entry);
        let ended = slot.ended.load(Ordering::SeqCst);
        let mut known = slot.known.lock().await;
        let now = Instant::now();
        if let Some((answer, until)) = &known.answer
            && now < *until
        {
            return (answer.clone(), Some(*until));
        }
        // Whoever waited while it ran takes its answer also if that is not kept.
        if let Some(answer) = &known.last_run
            && slot.ended.load(Ordering::SeqCst) > ended
        {
            return (answer.clone(), Some(now));
        }
        // A turn only now, so that nobody holds one who waits for another's check. The
        // semaphores are never closed.
        let _turns = match turns {
            Some(turns) => {
                (turns.of_source.acquire().await.ok(), turns.of_all.acquire().await.ok())
            }
            None => (None, None),
        };
        let meter = Arc::new(Meter::default());
        let checked = entry.tool.check(Arc::clone(&meter)).await;
        let answer = checked.map_err(|reason| Unavailable { reason, usage: meter.usage() });
        let (answer, until) = known.settle(entry, answer, Instant::now());
        known.last_run = Some(answer.clone());
        self.say(&slot, &answer);
        slot.ended.fetch_add(1, Ordering::SeqCst);
        (answer, until)
    }

    fn say(&self, slot: &CheckSlot, answer: &CheckAnswer) {
        let mut no = slot.no.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *no, answer.clone().err());
        let is_other = before.is_some() != no.is_some();
        drop(no);
        if is_other {
            self.changes.send_modify(|count| *count += 1);
        }
    }

    fn slot(&self, entry: &Entry) -> Arc<CheckSlot> {
        let spec = entry.tool.spec();
        let key = CheckKey {
            source: entry.source.clone(),
            published: entry.published,
            // A shared check's text is JSON, so it is never the name of a tool.
            check: spec.shared_check().unwrap_or(spec.name.as_str()).to_owned(),
        };
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() >= ANSWERS_MAX {
            let newest = slots.keys().map(|key| key.published).max().unwrap_or_default();
            slots.retain(|key, _| key.published == newest);
        }
        Arc::clone(slots.entry(key).or_default())
    }
}

/// Why a tool cannot work whatever its check says, if it lacks what it requires.
fn unmet(entry: &Entry) -> Option<Unavailable> {
    if entry.tool.spec().requires_env.is_empty() {
        return None;
    }
    // The repairs stand behind colons, since a semicolon ends each reason but the last.
    let in_words = |Reason { problem, repair }: Reason| match repair {
        Some(repair) => format!("{problem}: {repair}"),
        None => problem,
    };
    let unmet: Vec<String> = entry.tool.unmet().into_iter().map(in_words).collect();
    let reason = unmet.join("; ");
    (!unmet.is_empty()).then(|| Unavailable { reason, usage: Usage::default() })
}

fn late() -> Unavailable {
    Unavailable { reason: "it was not checked in time".to_owned(), usage: Usage::default() }
}

impl LastCheck {
    /// Takes an answer in, and says what it comes to and until when.
    fn settle(
        &mut self,
        entry: &Entry,
        answer: CheckAnswer,
        now: Instant,
    ) -> (CheckAnswer, Option<Instant>) {
        let name = &entry.tool.spec().name;
        match &answer {
            Ok(()) => self.last_yes = Some(now),
            Err(Unavailable { reason, .. }) => {
                let in_grace = self.last_yes.is_some_and(|yes| now < yes + GRACE);
                if in_grace {
                    tracing::warn!(
                        "the check of `{name}` says no, less than a minute after a yes, which still counts: {reason}"
                    );
                    // Not kept: the next listing asks again.
                    return (Ok(()), Some(now));
                }
                tracing::info!("`{name}` is unavailable for now: {reason}");
            }
        }
        let until = now + KEPT_FOR;
        self.answer = Some((answer.clone(), until));
        (answer, Some(until))
    }
}
