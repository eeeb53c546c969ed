//! What there is to say of one kind of source: which sources there are, and how one is loaded.
//!
//! A driver looks and loads; whatever becomes of that is the same for every kind, and the supervisor
//! does it: one load of a source at a time, retries, the last good registration, status, trust,
//! audit. A driver keeps no tool, decides about no trust and publishes nothing.

mod loaded;

use std::collections::BTreeSet;
use std::fmt;
use std::future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::remembered::Remembered;
use crate::watcher::Watcher;
use toolhost_core::limits::Limits;
use toolhost_core::scheduler::Slot;
use toolhost_core::tool::{Meter, Origin, SourceId, ToolSpec, Usage};
use toolhost_policy::capability::Variables;
use toolhost_wasm::script::Stamp;
use toolhost_wasm::{LoadAs, OnMisfit, Secrets, Standing};

pub use loaded::{Blocked, LoadedSource, SourceFacts, SourceHandle};
pub use toolhost_wasm::Phase;

/// One kind of source.
///
/// Only `kind`, `scan` and `load` are needed; everything else is for kinds that can do more.
pub trait Driver: Send + Sync {
    /// The kind, in a word for logs.
    fn kind(&self) -> &'static str;

    /// What there is at present. It may block.
    fn scan(&self, limits: &Limits) -> Scanned;

    /// Loads the present definition of a source. There is one load of it at a time. `meter` counts
    /// what the load uses.
    ///
    /// # Errors
    /// With how far it came, why no further, and what to do.
    ///
    /// # Cancel safety
    /// Dropping the future stops the load.
    fn load<'a>(
        &'a self,
        found: &'a Found,
        load_as: &'a LoadAs,
        meter: &'a Arc<Meter>,
    ) -> BoxFuture<'a, Result<LoadedSource, Failed>>;

    /// Waits until a scan may find something else than the last one did.
    ///
    /// # Cancel safety
    /// Dropping the future loses no change.
    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(future::pending())
    }

    /// Files and folders where a change is of concern, of these sources and of whatever may come.
    fn watched(&self, _found: &mut dyn Iterator<Item = &Found>) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Tells whether somebody is still writing what a source is made of. `before` is what it looked
    /// like at the scan before the last.
    fn is_being_written(
        &self,
        _found: &Found,
        _now: &Fingerprint,
        _before: Option<&Fingerprint>,
        _watcher: &Watcher,
    ) -> bool {
        false
    }

    /// How a load that failed is tried again though nothing has changed; none if it is not.
    fn retries(&self) -> Option<Backoff> {
        None
    }

    /// The digest of the present definition, if that is to be had without loading it.
    fn digest<'a>(
        &'a self,
        _found: &'a Found,
        _load_as: &'a LoadAs,
    ) -> BoxFuture<'a, Option<Arc<str>>> {
        Box::pin(future::ready(None))
    }

    /// Tells whether a definition with this digest is kept, so that [`Driver::load_kept`] finds it.
    fn keeps(&self, _digest: &str) -> bool {
        false
    }

    /// Loads an earlier definition of a source that was kept.
    ///
    /// # Errors
    /// As [`Driver::load`], or if it is not kept.
    ///
    /// # Cancel safety
    /// As [`Driver::load`].
    fn load_kept<'a>(
        &'a self,
        _found: &'a Found,
        _load_as: &'a LoadAs,
        _digest: &'a str,
    ) -> BoxFuture<'a, Result<LoadedSource, Failed>> {
        let cause = "no earlier definition of it is kept".to_owned();
        Box::pin(future::ready(Err(Failed { phase: Phase::Find, cause, repair: None })))
    }

    /// Goes back for good to an earlier definition of a source, since the present one crashes.
    ///
    /// # Errors
    /// In one sentence, if there is no way back.
    ///
    /// # Cancel safety
    /// Dropping the future may leave it done or not.
    fn go_back<'a>(
        &'a self,
        _source: &'a SourceId,
        _from: &'a str,
        _to: &'a str,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(future::ready(Err("nothing of it is kept".to_owned())))
    }

    /// A source is gone.
    fn forget(&self, _found: &Found) {}

    /// Values that sources may be granted from now on; tells whether they are others than before.
    fn provide(&self, _variables: &Variables, _secrets: &Secrets) -> bool {
        false
    }

    /// Waits for a slot to run examples of a source.
    ///
    /// # Cancel safety
    /// Dropping the future gives the slot up.
    fn slot<'a>(
        &'a self,
        _found: &'a Found,
        _load_as: &'a LoadAs,
    ) -> BoxFuture<'a, Option<Slot<'a>>> {
        Box::pin(future::ready(None))
    }

    /// Tells whether a load waits for something that the host prepares once, so that a start goes on
    /// without it.
    fn waits_for_host(&self, _found: &Found) -> bool {
        false
    }

    /// Waits until that may be answered otherwise.
    ///
    /// # Cancel safety
    /// Dropping the future loses no change.
    fn progressed(&self) -> BoxFuture<'_, ()> {
        Box::pin(future::pending())
    }

    /// Tells whether a source has used up the time in which others wait for it.
    fn has_had_its_time(&self, _found: &Found, _load_as: &LoadAs) -> bool {
        false
    }

    /// The digest of the definition a source had when it looked as it does now, if that is recorded.
    fn looks_like(&self, _found: &Found, _now: &Fingerprint) -> Option<Arc<str>> {
        None
    }

    /// What is recorded of sources that look as they did then.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    fn recorded<'a>(&'a self, _wanted: Vec<Wanted>) -> BoxFuture<'a, Vec<(SourceId, Recorded)>> {
        Box::pin(future::ready(Vec::new()))
    }

    /// What a source registers whose load takes long, if its definition is one of those that are
    /// `known`, and what that registered is recorded: its digest, and its tools.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    fn listed<'a>(
        &'a self,
        _found: &'a Found,
        _load_as: &'a LoadAs,
        _known: &'a BTreeSet<String>,
    ) -> BoxFuture<'a, Option<RecordedTools>> {
        Box::pin(future::ready(None))
    }

    /// What is to be recorded of sources that serve, as work that may block; none if nothing is.
    fn record(&self, _serving: &[Serving<'_>], _remembered: &Arc<Remembered>) -> Option<Job> {
        None
    }
}

/// Work that may block.
pub type Job = Box<dyn FnOnce() + Send>;

/// The digest of a definition, and what it registered.
pub type RecordedTools = (Arc<str>, Vec<ToolSpec>);

/// One source that there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Which one.
    pub source: SourceId,
    /// How far it is trusted with names, unless it is bundled.
    pub origin: Origin,
    /// Its place among sources of its origin; lower comes first.
    pub rank: usize,
    /// Where it is.
    pub location: Location,
    /// The same as whoever configured it wrote that, for commands to name it by.
    pub named: Location,
    /// A definition other than the one that was trusted, or else was in order last, waits for a person,
    /// whether the source was granted anything or not.
    pub is_pinned: bool,
    /// Why it is not even tried, with the repair.
    pub problem: Option<String>,
}

/// What was found of one kind of source.
#[derive(Clone, Debug, Default)]
pub struct Scanned {
    /// Sources, each with what tells whether its definition may have changed.
    pub found: Vec<(Found, Fingerprint)>,
    /// What looks like a source and is none.
    pub problems: Vec<NoSource>,
    /// Folders that may hold more than was found, since they cannot be read now. What was known of
    /// them stays.
    pub unreadable: Vec<PathBuf>,
    /// Folders that were looked at, without links.
    pub folders: Vec<PathBuf>,
}

/// What looks like a source and is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoSource {
    /// Where it is.
    pub location: Location,
    /// The source that it would be, if it has a name.
    pub source: Option<SourceId>,
    /// Why it is none, and what to do.
    pub reason: String,
}

/// What tells whether the definition of a source may have changed: it is loaded anew if this is another
/// one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fingerprint {
    /// What the file system knows of its files, and of those of what runs it.
    Files(Stamp, Vec<Stamp>),
    /// A version, a digest, or whatever else the driver knows it by.
    Text(Arc<str>),
}

impl Fingerprint {
    /// What the file system knows of its files, if it is made of some.
    pub fn files(&self) -> Option<&Stamp> {
        match self {
            Fingerprint::Files(stamp, _) => Some(stamp),
            Fingerprint::Text(_) => None,
        }
    }
}

/// How a load is tried again: each wait is twice as long as the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The first wait.
    pub first: Duration,
    /// The longest wait.
    pub longest: Duration,
}

impl Backoff {
    /// How long to wait after so many failures in a row, the first of which is 1.
    pub fn after(&self, failures: u32) -> Duration {
        let factor = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.longest)
    }
}

/// Why a source does not load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// How far it came.
    pub phase: Phase,
    /// On one line, why it came no further.
    pub cause: String,
    /// What to do, where the cause does not say so itself.
    pub repair: Option<String>,
}

impl fmt::Display for Failed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.cause)?;
        self.repair.as_ref().map_or(Ok(()), |repair| write!(formatter, "; {repair}"))
    }
}

/// Where a source is, for people.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Location {
    /// In this file or folder.
    File(PathBuf),
    /// Where these words say, such as the name of a server in the configuration.
    Named(String),
}

impl Location {
    /// The file or folder, if it is one.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Location::File(path) => Some(path),
            Location::Named(_) => None,
        }
    }

    /// Tells whether it is this file.
    pub fn is(&self, path: &Path) -> bool {
        self.file() == Some(path)
    }

    /// Tells whether it is a file whose path ends so.
    pub fn ends_with(&self, path: impl AsRef<Path>) -> bool {
        self.file().is_some_and(|file| file.ends_with(path))
    }

    /// What tells it from others in few words: the name of a file, or all words.
    pub fn short(&self) -> String {
        match self {
            Location::File(path) => {
                path.file_name().unwrap_or_default().to_string_lossy().into_owned()
            }
            Location::Named(words) => words.clone(),
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::File(path) => path.display().fmt(formatter),
            Location::Named(words) => formatter.write_str(words),
        }
    }
}

/// A source of which something may be recorded.
pub struct Wanted {
    /// Which one.
    pub found: Found,
    /// As whose it is loaded.
    pub load_as: LoadAs,
    /// The digest of its definition, as far as anybody knows.
    pub digest: Arc<str>,
    /// Whoever finds that the definition is another one says so here.
    pub on_misfit: OnMisfit,
}

/// What is recorded of a source.
pub enum Recorded {
    /// Its definition, to be loaded when it is needed.
    Whole {
        /// The definition.
        loaded: Box<LoadedSource>,
        /// Texts of it that a person should look at.
        suspect: Vec<String>,
        /// What registering used.
        usage: Usage,
    },
    /// What it registered. It has to be loaded all the same.
    Tools(RecordedTools),
}

/// A source whose present definition serves.
pub struct Serving<'a> {
    /// Which one.
    pub found: &'a Found,
    /// Its definition.
    pub loaded: &'a LoadedSource,
    /// What it looked like when that was loaded, if it still looks so.
    pub looked: Option<&'a Fingerprint>,
    /// Nothing was recorded of this definition by this process.
    pub is_new: bool,
    /// Nobody has vouched for it.
    pub of_stranger: bool,
    /// Texts of it that a person should look at, if it is new.
    pub suspect: &'a [String],
    /// What registering used.
    pub usage: Usage,
}

/// Tells whether a definition is of the user's own source, bundled, or trusted.
pub(crate) fn is_own(load_as: &LoadAs, digest: &str) -> bool {
    load_as.standing != Standing::Untrusted || load_as.trusted.contains(digest)
}
