//! Plugins that crash again and again are refused for a while: their bytes are not to be trusted
//! with the time and the memory of the host.
//!
//! What counts: crashes of calls, and calls stopped by the plugin's own limits on time and memory,
//! those of checking its output included. What does not: a caller's shorter deadline, a dropped
//! call, memory that all guests together have used up, an output that is too large (the guest lives,
//! and the model can ask for less), and whatever happens in checks, descriptions and hooks, which have
//! limits and answers of their own. So many failures within a time bring all tools of the build into
//! quarantine: for the caller whose calls failed, and where these are several, for all. After it, one
//! call is let through: if that succeeds, all is forgotten, if it fails, the quarantine lasts twice as
//! long. A new build starts clean, and what has no bytes never gets in.
//!
//! Calls look at memory alone. The file of [`failures`], in which processes tell each other, is
//! read at the start, and changed when a failure counts, a quarantine ends, or one call is tried.
//! A trial takes a lease there, so one process tries at a time; who dies with it holds nobody up
//! for longer than that.

use std::collections::VecDeque;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::oneshot;

use crate::registry::Entry;
use toolhost_core::limits::Limits;
use toolhost_core::text;
use toolhost_core::tool::{CallError, Code, SourceId, ToolOutput};
use toolhost_state::failures::{self, FailedBuild, FailureLog, FailureRecord};

mod fresh;
mod rules;

pub use fresh::Fallen;
use fresh::FreshBuilds;
use rules::{BuildStanding, Rules};

/// Characters of a failure's message that are remembered.
const REASON_CHARS_MAX: usize = 200;
/// How long a call waits until its failure is in the file. The file is written anyhow.
const WRITE_WAIT: Duration = Duration::from_secs(5);

/// Knows who is in quarantine.
pub struct Quarantine {
    rules: Rules,
    state: Option<PathBuf>,
    book: Mutex<FailureLog>,
    /// Pages of the book, so that most calls need no lock.
    pages: AtomicUsize,
    jobs: Mutex<VecDeque<FailureJob>>,
    writing: Mutex<()>,
    told: AtomicBool,
    fresh: FreshBuilds,
}

/// Why a tool is in quarantine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// In one sentence, with what to do.
    pub reason: String,
    /// How long it lasts; nothing is left when the next call is let through.
    pub left: Duration,
}

impl Quarantined {
    /// When the next call is let through, in words of RFC 3339; `None` if that is now.
    pub fn until(&self) -> Option<String> {
        let until = (self.left > Duration::ZERO).then(|| SystemTime::now() + self.left)?;
        Some(humantime::format_rfc3339_seconds(until).to_string())
    }
}

impl fmt::Display for Quarantined {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}; ", self.reason)?;
        match self.until() {
            Some(until) => {
                write!(formatter, "its calls are refused until {until}: wait, or rebuild it")
            }
            None => formatter.write_str("its next call is let through, to see how that ends"),
        }
    }
}

/// A change of the file, in the order in which they were made.
struct FailureJob {
    build: FailedBuild,
    event: QuarantineEvent,
    done: oneshot::Sender<Result<(), Box<FailureRecord>>>,
}

#[derive(Clone, Debug)]
enum QuarantineEvent {
    Failed { at: u64, reason: String, is_trial: bool },
    Trial { at: u64, until: u64 },
    Given { at: u64, until: u64 },
    Succeeded,
}

/// Watches how one call ends. Dropping it says nothing about the plugin.
pub struct Watch<'a> {
    quarantine: &'a Arc<Quarantine>,
    entry: &'a Entry,
    caller: &'a str,
    /// Of which page, and the end of the lease, if the call is a trial.
    trial: Option<(FailedBuild, u64)>,
}

impl Quarantine {
    /// Reads what is known, if there is a state folder.
    pub fn open(limits: &Limits, state: Option<PathBuf>) -> Quarantine {
        let book =
            state.as_deref().map(failures::read).unwrap_or_else(|| Ok(FailureLog::default()));
        let book = book.unwrap_or_else(|error| {
            tracing::warn!("{error}");
            FailureLog::default()
        });
        Quarantine {
            rules: Rules::new(limits),
            state,
            pages: AtomicUsize::new(book.plugins.len()),
            book: Mutex::new(book),
            jobs: Mutex::default(),
            writing: Mutex::default(),
            told: AtomicBool::new(false),
            fresh: FreshBuilds::default(),
        }
    }

    /// A new build of a plugin serves from now on in place of another. If its first calls crash and
    /// those of the other did not, [`fell`](Quarantine::fell) tells.
    pub fn fresh(&self, source: SourceId, digest: Arc<str>, before: Arc<str>) {
        let page = FailedBuild {
            source: source.to_string(),
            folder: folder(&source),
            digest: before.to_string(),
            caller: None,
        };
        let now = now();
        let window = self.rules.window;
        let crashed = self.book().plugins.iter().any(|known| {
            let is_recent = |at: &u64| now.saturating_sub(*at) < window;
            known.build.is_same(&page) && known.failures.iter().any(is_recent)
        });
        self.fresh.watch(source, digest, (!crashed).then_some(before));
    }

    /// Waits until the first calls of a new build have all crashed.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn fell(&self) -> Fallen {
        self.fresh.fell().await
    }

    /// Says whether a tool is in quarantine for a caller, and why.
    pub fn of(&self, entry: &Entry, caller: &str) -> Option<Quarantined> {
        let build = self.build_if_known(entry, caller)?;
        let (page, standing) = self.worst(&mut self.book(), &build, now())?;
        let left = match standing {
            BuildStanding::Free => return None,
            BuildStanding::Due => Duration::ZERO,
            BuildStanding::Closed { left } => left,
        };
        Some(Quarantined { reason: self.reason(entry, &page), left })
    }

    /// What holds a caller's calls of a build: what is known for all, or for the caller alone,
    /// whichever lasts longer.
    fn worst(
        &self,
        book: &mut FailureLog,
        build: &FailedBuild,
        now: u64,
    ) -> Option<(FailureRecord, BuildStanding)> {
        let weight = |(_, standing): &(FailureRecord, BuildStanding)| match standing {
            BuildStanding::Free => Duration::ZERO,
            BuildStanding::Due => Duration::from_nanos(1),
            BuildStanding::Closed { left } => *left,
        };
        let known = [build.clone(), build.for_all()];
        let pages = known.iter().filter_map(|build| book.page(build).cloned());
        let pages = pages.map(|page| {
            let standing = self.rules.standing(&page, now);
            (page, standing)
        });
        pages.max_by_key(weight)
    }

    fn reason(&self, entry: &Entry, page: &FailureRecord) -> String {
        let (source, failures) = (&entry.source, self.rules.failures_max);
        let times = match (&page.build.caller, failures) {
            (None, _) => "for several callers".to_owned(),
            (_, 1) => "once".to_owned(),
            _ => format!("{failures} times"),
        };
        let window = humantime::format_duration(Duration::from_millis(self.rules.window));
        // The file is this user's, and still no text for a terminal or a model as it is.
        let last = text::one_line(&text::cut(&page.reason, REASON_CHARS_MAX));
        format!(
            "{source} crashed or broke its limits {times} within {window}, the last time so: {last}"
        )
    }

    /// Refuses a caller's call of a tool in quarantine.
    ///
    /// # Errors
    /// If it is, and no call is due to be let through.
    pub fn check(&self, entry: &Entry, caller: &str) -> Result<(), CallError> {
        match self.of(entry, caller) {
            Some(found) if found.left > Duration::ZERO => Err(refused(entry, &found)),
            _ => Ok(()),
        }
    }

    /// Begins a call, which may be the one that is let through.
    ///
    /// # Errors
    /// If the tool is in quarantine.
    ///
    /// # Cancel safety
    /// Dropping the future, or what it returns, lets another call be the one.
    pub async fn begin<'a>(
        self: &'a Arc<Self>,
        entry: &'a Entry,
        caller: &'a str,
    ) -> Result<Watch<'a>, CallError> {
        let mut watch = Watch { quarantine: self, entry, caller, trial: None };
        let Some(build) = self.build_if_known(entry, caller) else { return Ok(watch) };
        let at = now();
        let until = at + self.rules.lease;
        let found = {
            let mut book = self.book();
            let Some((page, standing)) = self.worst(&mut book, &build, at) else {
                return Ok(watch);
            };
            match standing {
                BuildStanding::Free => return Ok(watch),
                BuildStanding::Closed { left } => {
                    Err(Quarantined { reason: self.reason(entry, &page), left })
                }
                BuildStanding::Due => {
                    book.open(&page.build).until = Some(until);
                    Ok(page.build)
                }
            }
        };
        let build = found.map_err(|found| refused(entry, &found))?;
        watch.trial = Some((build.clone(), until));
        if let Err(page) = self.write(build, QuarantineEvent::Trial { at, until }).await {
            // Another process tries.
            watch.trial = None;
            let left = Duration::from_millis(page.until.unwrap_or(at).saturating_sub(at));
            let found = Quarantined { reason: self.reason(entry, &page), left };
            let build = page.build.clone();
            *self.book().open(&build) = *page;
            return Err(refused(entry, &found));
        }
        Ok(watch)
    }

    /// Changes the book in memory, and then the file. Returns a page of the file if that says
    /// otherwise.
    async fn write(
        self: &Arc<Self>,
        build: FailedBuild,
        event: QuarantineEvent,
    ) -> Result<(), Box<FailureRecord>> {
        let Some(done) = self.enqueue(build, event) else { return Ok(()) };
        // A file that hangs is no reason to hold a call.
        match tokio::time::timeout(WRITE_WAIT, done).await {
            Ok(Ok(answer)) => answer,
            _ => Ok(()),
        }
    }

    fn enqueue(
        self: &Arc<Self>,
        build: FailedBuild,
        event: QuarantineEvent,
    ) -> Option<oneshot::Receiver<Result<(), Box<FailureRecord>>>> {
        self.state.as_ref()?;
        // Without a runtime the process ends.
        let runtime = tokio::runtime::Handle::try_current().ok()?;
        let (done, answer) = oneshot::channel();
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).push_back(FailureJob {
            build,
            event,
            done,
        });
        let quarantine = Arc::clone(self);
        runtime.spawn_blocking(move || quarantine.work());
        Some(answer)
    }

    /// Makes the changes of the file that wait, in their order.
    fn work(&self) {
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let next = || self.jobs.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        while let Some(FailureJob { build, event, done }) = next() {
            let Some(state) = &self.state else { return };
            let changed = failures::change(state, |book| {
                let answer = self.rules.apply(book, &build, &event);
                (answer, [book.page(&build).cloned(), book.page(&build.for_all()).cloned()])
            });
            match changed {
                Ok((answer, pages)) => {
                    if let QuarantineEvent::Failed { .. } = &event {
                        pages.iter().flatten().for_each(|page| self.adopt(page));
                    }
                    // Whoever waited may be gone.
                    let _ = done.send(answer);
                }
                Err(error) => {
                    if !self.told.swap(true, Ordering::Relaxed) {
                        tracing::warn!("{error}");
                    }
                }
            }
        }
    }

    /// Takes in what other processes know of a build that failed here too.
    fn adopt(&self, other: &FailureRecord) {
        let mut book = self.book();
        let is_for_all = other.build.caller.is_none();
        if is_for_all && book.page(&other.build).is_none() {
            // Who it failed for besides is not known here.
            *book.open(&other.build) = other.clone();
        }
        let Some(page) = book.page(&other.build) else { return };
        page.failures.extend(&other.failures);
        page.failures.sort_unstable();
        page.failures.dedup();
        page.until = page.until.max(other.until);
        page.times = page.times.max(other.times);
    }

    /// Changes the book in memory alone.
    fn apply(&self, build: &FailedBuild, event: &QuarantineEvent) {
        let mut book = self.book();
        // In memory nobody else has the lease.
        let _ = self.rules.apply(&mut book, build, event);
        self.pages.store(book.plugins.len(), Ordering::Release);
    }

    fn build_if_known(&self, entry: &Entry, caller: &str) -> Option<FailedBuild> {
        if self.pages.load(Ordering::Acquire) == 0 { None } else { build(entry, caller) }
    }

    fn book(&self) -> MutexGuard<'_, FailureLog> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch<'_> {
    /// Draws the conclusions from how the call ended. A failure is in the file when this returns,
    /// if it can be written.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing: the file is written anyhow.
    pub async fn end(mut self, result: &Result<ToolOutput, CallError>) {
        let is_trial = self.trial.is_some();
        let has_crashed = result.as_ref().is_err_and(|error| error.code == Code::Trap);
        self.quarantine.fresh.saw(self.entry, has_crashed);
        let event = match result {
            Err(error) if counts(error) => {
                let reason = text::one_line(&text::cut(&error.message, REASON_CHARS_MAX));
                QuarantineEvent::Failed { at: now(), reason, is_trial }
            }
            _ if is_trial && is_answer(result) => QuarantineEvent::Succeeded,
            // A trial that says nothing is given back.
            _ => return,
        };
        let trial = self.trial.take().map(|(build, _)| build);
        let Some(build) = trial.or_else(|| build(self.entry, self.caller)) else { return };
        self.quarantine.apply(&build, &event);
        if let QuarantineEvent::Failed { .. } = event
            && self.quarantine.of(self.entry, self.caller).is_some()
        {
            tracing::warn!("{} is in quarantine", self.entry.source);
        }
        // Only trials hear otherwise.
        let _ = self.quarantine.write(build, event).await;
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        let Some((build, until)) = self.trial.take() else { return };
        let event = QuarantineEvent::Given { at: now(), until };
        self.quarantine.apply(&build, &event);
        // Nobody waits for it.
        drop(self.quarantine.enqueue(build, event));
    }
}

/// What has a digest can get into quarantine: another definition is let through.
fn build(entry: &Entry, caller: &str) -> Option<FailedBuild> {
    let digest = entry.digest.as_ref()?.to_string();
    let (source, folder) = (entry.source.to_string(), folder(&entry.source));
    Some(FailedBuild { source, folder, digest, caller: Some(caller.to_owned()) })
}

/// The folder that a source lies in, if it does.
fn folder(source: &SourceId) -> String {
    source.folder().unwrap_or(Path::new("")).to_string_lossy().into_owned()
}

/// Tells whether an error is the plugin's own fault.
fn counts(error: &CallError) -> bool {
    let by = |limit: &str| error.limit() == Some(limit);
    match error.code {
        Code::Trap => true,
        Code::Memory => !by(Limits::MEMORY_ALL),
        Code::Deadline => by(Limits::WALL_TIME) || by(Limits::SCHEMA_CHECK_TIME),
        _ => false,
    }
}

/// Tells whether the guest came to an end by itself.
fn is_answer(result: &Result<ToolOutput, CallError>) -> bool {
    match result {
        Ok(_) => true,
        Err(error) => {
            matches!(error.code, Code::Failed | Code::InvalidArguments | Code::Unavailable)
        }
    }
}

fn refused(entry: &Entry, found: &Quarantined) -> CallError {
    let name = &entry.tool.spec().name;
    let left = Duration::from_millis(u64::try_from(found.left.as_millis()).unwrap_or(u64::MAX));
    let shown = humantime::format_duration(left);
    let message = format!("`{name}` is quarantined: {}; try again in {shown}", found.reason);
    CallError::new(Code::Quarantined, message)
        .with("retry_after_ms", u64::try_from(left.as_millis()).unwrap_or(u64::MAX))
}

/// Milliseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
