//! Sources of plugins whose author's code may run here to build them: those that `toolhost new` made,
//! those of which somebody has said so, with what is built with them, and those of trusted projects.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::{LockError, read, rewrite};

/// Sources remembered; then the oldest make way, and somebody is asked again.
const SOURCES_MAX: usize = 1_000;
/// The name of the file.
const SOURCES: &str = "sources.json";

/// The file as it is written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sources {
    /// The newest last.
    sources: Vec<KnownPath>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownPath {
    path: PathBuf,
    /// Which folder or file of that path it was: another one there is another author's.
    which: String,
    by: Consent,
}

/// Why a source may be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Consent {
    /// `toolhost new` made it.
    Made,
    /// Somebody said so.
    Agreed,
    /// It lay in a project when that was trusted, and may be built as long as the project is.
    Project,
    /// Somebody agreed to a build that it is part of. That is no word on a build of its own.
    Part,
}

/// Why a source, named without links, may be built; none if nobody has said so.
///
/// # Errors
/// If the file exists and cannot be read, or is damaged.
pub fn consent(state: &Path, source: &Path) -> Result<Option<Consent>, LockError> {
    let known: Sources = read(&state.join(SOURCES))?;
    let Some(which) = which(source) else { return Ok(None) };
    let is_it = |known: &&KnownPath| known.path == source && known.which == which;
    Ok(known.sources.iter().find(is_it).map(|known| known.by))
}

/// The sources that may be built unasked, and what is built with them.
pub fn sources(state: &Path) -> Vec<PathBuf> {
    known(state, |_| true)
}

/// The sources of which somebody has said so, and what is built with them.
pub fn agreed(state: &Path) -> Vec<PathBuf> {
    known(state, |by| matches!(by, Consent::Agreed | Consent::Part))
}

fn known(state: &Path, is_meant: impl Fn(Consent) -> bool) -> Vec<PathBuf> {
    // Who asks whether one may be built is told what is wrong.
    let known: Sources = read(&state.join(SOURCES)).unwrap_or_default();
    let is_there = |known: &KnownPath| which(&known.path).as_ref() == Some(&known.which);
    let meant = known.sources.into_iter().filter(|known| is_meant(known.by) && is_there(known));
    meant.map(|known| known.path).collect()
}

/// Remembers that a source, named without links, may be built.
///
/// # Errors
/// If the file cannot be read or written, or is damaged.
pub fn record_consent(state: &Path, source: &Path, by: Consent) -> Result<(), LockError> {
    let Some(which) = which(source) else { return Ok(()) };
    rewrite(state, SOURCES, |known: &mut Sources| {
        // What may be built by itself is no less for being part of something.
        let is_less = |known: &KnownPath| match by {
            Consent::Made | Consent::Agreed => false,
            Consent::Project => matches!(known.by, Consent::Made | Consent::Agreed),
            Consent::Part => true,
        };
        let mut same = known.sources.iter().filter(|known| known.path == source);
        if same.any(|known| known.which == which && is_less(known)) {
            return;
        }
        known.sources.retain(|known| known.path != source);
        known.sources.push(KnownPath { path: source.to_owned(), which, by });
        let over = known.sources.len().saturating_sub(SOURCES_MAX);
        known.sources.drain(..over);
    })
}

/// Tells a folder or file from any other that lies at its path later, as well as the file system can.
pub(super) fn which(path: &Path) -> Option<String> {
    let metadata = fs::metadata(path).ok()?;
    let born = metadata.created().ok();
    let born = born.and_then(|born| born.duration_since(SystemTime::UNIX_EPOCH).ok());
    Some(format!("{}:{}", metadata.ino(), born.unwrap_or_default().as_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consent_is_for_one_folder_at_its_path() {
        let home = tempfile::tempdir().expect("a folder");
        let (state, source) = (home.path().join("state"), home.path().join("json"));
        fs::create_dir(&source).expect("made");
        assert_eq!(consent(&state, &source).expect("no file"), None);
        record_consent(&state, &source, Consent::Made).expect("recorded");
        assert_eq!(consent(&state, &source).expect("a file"), Some(Consent::Made));
        assert_eq!(consent(&state, &source.join("below")).expect("a file"), None);
        record_consent(&state, &source, Consent::Agreed).expect("recorded");
        assert_eq!(consent(&state, &source).expect("a file"), Some(Consent::Agreed));
        // Another folder takes its place; while the first is there, their numbers differ.
        fs::rename(&source, home.path().join("moved")).expect("renamed");
        assert_eq!(consent(&state, &source).expect("a file"), None);
        fs::create_dir(&source).expect("made");
        assert_eq!(consent(&state, &source).expect("a file"), None);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let home = tempfile::tempdir().expect("a folder");
        let known = |number: usize| KnownPath {
            path: format!("/{number}").into(),
            which: String::new(),
            by: Consent::Agreed,
        };
        let full = Sources { sources: (0..SOURCES_MAX + 5).map(known).collect() };
        let text = serde_json::to_string(&full).expect("JSON");
        fs::write(home.path().join(SOURCES), text).expect("written");
        record_consent(home.path(), home.path(), Consent::Agreed).expect("recorded");
        let kept: Sources = read(&home.path().join(SOURCES)).expect("a file");
        assert_eq!(kept.sources.len(), SOURCES_MAX);
        assert_eq!(kept.sources.last().map(|known| known.path.as_path()), Some(home.path()));
    }
}
