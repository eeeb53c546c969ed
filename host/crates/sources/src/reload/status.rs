//! What became of a source: the state of each, in one place.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use super::Ready;
use super::arriving::Arriving;
use crate::driver::{Failed, Location, NoSource, Phase};
use toolhost_core::tool::{PluginId, SourceId, Usage};
use toolhost_policy::capability::DirGrant;
use toolhost_wasm::script::{self, Stamp};

/// Characters of a file's name in what others are told.
const PLACE_CHARS_MAX: usize = 100;

/// What became of all sources.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    /// It was looked what there is; or, where a tool is loaded before all others, that is done.
    pub is_known: bool,
    /// Every source has loaded or failed at least once, but scripts whose runner is compiled.
    pub started: bool,
    /// Every source has loaded or failed at least once, or what it registers is known from before.
    pub listed: bool,
    /// Every source has loaded or failed at least once.
    pub settled: bool,
    /// The same, but for strangers' plugins that have used up what they may take to register.
    pub tried: bool,
    /// Sorted by location.
    pub statuses: Arc<Vec<SourceStatus>>,
    /// What is yet to come.
    pub arriving: Arc<Arriving>,
    /// Directories that plugins were granted, as far as it was looked.
    pub directories: Option<Arc<Vec<(PluginId, DirGrant)>>>,
}

/// One source, and what became of it; or what is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceStatus {
    /// The source; none where there is no name for one, as of a file whose name is no id, or of a
    /// folder that cannot be read.
    pub source: Option<SourceId>,
    /// Where it is.
    pub location: Location,
    /// What commands call it, so that they reach it and no other: its id; or, where others have the
    /// id as well, `bundled/ID`, `user/ID` or its file.
    pub words: String,
    /// What it is, or why it is no plugin.
    pub state: Result<Ready, Failed>,
    /// It is being loaded, for the first time or again.
    pub loading: bool,
    /// The state of its files when they were read last.
    pub read: Option<Stamp>,
    /// An earlier build, which serves in its place.
    pub kept: Option<Box<Ready>>,
    /// What its `register` used, also when it was stopped.
    pub usage: Usage,
    /// Its load has failed, and is tried again by itself.
    pub is_retried: bool,
}

impl Failed {
    /// Why, for those who are not the user at the terminal: other programs, and models. What a
    /// plugin's own code said, and with it what may stand in its file, is left out, but for the
    /// file and line that it names.
    pub fn told(&self) -> String {
        let what = match self.phase {
            Phase::Find | Phase::Read | Phase::Compile => return self.to_string(),
            Phase::Register => "its `register` failed",
            Phase::Examples => "one of its examples failed",
        };
        let place = place(&self.cause).map(|place| format!(" at {place}")).unwrap_or_default();
        format!("{what}{place}; `toolhost list` shows why")
    }
}

/// The first file of a script, with its line, that a text names.
fn place(reason: &str) -> Option<String> {
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || "._-/".contains(letter);
    reason.split(|letter| !is_of_name(letter) && letter != ':').find_map(|word| {
        let mut parts = word.split(':');
        let (file, line) = (parts.next()?, parts.next()?);
        let is_line =
            (1..=7).contains(&line.len()) && line.bytes().all(|byte| byte.is_ascii_digit());
        let is_file = file.chars().count() <= PLACE_CHARS_MAX && script::is_module(Path::new(file));
        (is_file && is_line).then(|| format!("{file}:{line}"))
    })
}

/// What a source is at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It is being loaded, for the first time or again.
    Loading,
    /// Its present definition serves.
    Live,
    /// It cannot be loaded at present, which is tried again, and its last good definition serves.
    Degraded,
    /// Its present definition serves, and its calls are refused for a while: it crashed or broke limits
    /// too often.
    Quarantined,
    /// Its present definition waits for a person.
    Pending,
    /// It does not load.
    Failed,
    /// Another one is the same plugin, and counts in its place.
    Same,
}

impl SourceStatus {
    /// What it is at present, but for quarantine: see `Host::status`.
    pub fn status(&self) -> Status {
        match &self.state {
            _ if self.loading => Status::Loading,
            Err(_) if self.is_retried && self.kept.is_some() => Status::Degraded,
            Err(_) => Status::Failed,
            Ok(ready) if ready.same_as.is_some() => Status::Same,
            Ok(ready) if ready.pending.is_some() => Status::Pending,
            Ok(_) => Status::Live,
        }
    }

    /// The build whose tools are in the catalog, if there is one.
    pub fn serving(&self) -> Option<&Ready> {
        let file = || self.state.as_ref().ok().filter(|ready| ready.same_as.is_none());
        let serves = |ready: &&Ready| ready.pending.as_ref().is_none_or(|pending| pending.serves);
        self.kept.as_deref().or_else(|| file().filter(serves))
    }

    /// The status of what looks like a source and is none.
    pub(super) fn none(of: NoSource) -> SourceStatus {
        SourceStatus::refused(of.location, of.source, Phase::Find, of.reason)
    }

    /// The status of what was never loaded.
    pub(super) fn refused(
        location: Location,
        source: Option<SourceId>,
        phase: Phase,
        reason: String,
    ) -> SourceStatus {
        let failed = Failed { phase, cause: reason, repair: None };
        let (state, usage) = (Err(failed), Usage::default());
        let words = location.to_string();
        let (loading, read, kept) = (false, None, None);
        let is_retried = false;
        SourceStatus { source, location, words, state, loading, read, kept, usage, is_retried }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Status::Loading => "loading",
            Status::Live => "live",
            Status::Degraded => "degraded",
            Status::Quarantined => "quarantined",
            Status::Pending => "pending",
            Status::Failed => "failed",
            Status::Same => "same",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_told_the_place_alone() {
        let told = |phase: Phase, reason: &str| {
            Failed { phase, cause: reason.to_owned(), repair: None }.told()
        };
        let why = "`toolhost list` shows why";
        for (reason, expected) in [
            (
                "`register` says: words.py:3: NameError: name 'hunter2' is not defined",
                format!("its `register` failed at words.py:3; {why}"),
            ),
            ("`register` says: hunter2: 7", format!("its `register` failed; {why}")),
            (
                "a.py:hunter2 b:1 lib/c.mjs:12:4",
                format!("its `register` failed at lib/c.mjs:12; {why}"),
            ),
        ] {
            assert_eq!(told(Phase::Register, reason), expected);
        }
        assert_eq!(told(Phase::Read, "a device"), "a device");
    }
}
