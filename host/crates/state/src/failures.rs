//! How calls of plugins failed lately, in the home: what processes tell each other, so that a
//! plugin which crashes in one is refused in the next.
//!
//! The file `quarantine.json` of the state folder decides nothing that is dangerous: one that is
//! damaged counts as empty, and the next failure writes it anew. What follows from it is the
//! matter of quarantine.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::atomic_file;

const FILE: &str = "quarantine.json";
/// A larger file is not ours.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Plugins remembered; the ones that failed last.
const RECORDS_MAX: usize = 256;

/// Why the file cannot be used.
#[derive(Debug, Error)]
pub enum FailuresError {
    /// It cannot be read or written.
    #[error("{path} cannot be used: {error}; until it can, each process knows of its own failures alone", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// It is not what this host writes.
    #[error("{path} is damaged ({problem}) and counts as empty; the next failure of a plugin writes it anew, or remove it", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}

/// What is known of all plugins that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailureLog {
    /// One page for each, the one that failed last at the end.
    pub plugins: Vec<FailureRecord>,
}

/// Which build of which plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedBuild {
    /// The source, such as `plugin:words`.
    pub source: String,
    /// The folder it lies in.
    pub folder: String,
    /// SHA-256 of its bytes, in hexadecimal.
    pub digest: String,
    /// Whose calls failed; none where those of several callers count for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
}

impl FailedBuild {
    /// The same build, whoever calls it.
    pub fn for_all(&self) -> FailedBuild {
        FailedBuild { caller: None, ..self.clone() }
    }

    /// Tells whether both are of one build, whoever calls it.
    pub fn is_same(&self, other: &FailedBuild) -> bool {
        (&self.source, &self.folder, &self.digest) == (&other.source, &other.folder, &other.digest)
    }
}

/// How one build of a plugin failed. Times are in milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureRecord {
    /// Which.
    #[serde(flatten)]
    pub build: FailedBuild,
    /// When it failed, the latest at the end.
    pub failures: Vec<u64>,
    /// How it failed the last time, on one line.
    pub reason: String,
    /// Until when it is in quarantine, if it is.
    pub until: Option<u64>,
    /// How often in a row it has been.
    pub times: u32,
}

impl FailureLog {
    /// The page of a build.
    pub fn page(&mut self, build: &FailedBuild) -> Option<&mut FailureRecord> {
        self.plugins.iter_mut().find(|page| page.build == *build)
    }

    /// The page of a build, now the last one; a new one if there is none.
    pub fn open(&mut self, build: &FailedBuild) -> &mut FailureRecord {
        let known = self.plugins.iter().position(|page| page.build == *build);
        let page = known.map(|place| self.plugins.remove(place)).unwrap_or_else(|| FailureRecord {
            build: build.clone(),
            failures: Vec::new(),
            reason: String::new(),
            until: None,
            times: 0,
        });
        let over = (self.plugins.len() + 1).saturating_sub(RECORDS_MAX);
        self.plugins.drain(..over);
        self.plugins.push(page);
        let last = self.plugins.len() - 1;
        &mut self.plugins[last]
    }

    /// Forgets a build: for one caller, or for all.
    pub fn remove(&mut self, build: &FailedBuild) {
        self.plugins.retain(|page| match build.caller {
            Some(_) => page.build != *build,
            None => !page.build.is_same(build),
        });
    }
}

/// Reads the file of a state folder. Without it nothing is known.
///
/// # Errors
/// If the file exists and cannot be read, or is damaged.
pub fn read(state: &Path) -> Result<FailureLog, FailuresError> {
    let path = state.join(FILE);
    let mut text = String::new();
    let reading =
        File::open(&path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text));
    let problem = match reading {
        Ok(bytes) if bytes as u64 > FILE_BYTES_MAX => {
            format!("it is longer than {FILE_BYTES_MAX} bytes")
        }
        Ok(_) => match serde_json::from_str(&text) {
            Ok(book) => return Ok(book),
            Err(error) => error.to_string(),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(FailureLog::default()),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => error.to_string(),
        Err(error) => return Err(FailuresError::Io { path, error }),
    };
    Err(FailuresError::Damaged { path, problem })
}

/// Reads, changes and writes the file of a state folder, while no other process does. It blocks.
///
/// # Errors
/// If the file cannot be read or written. A damaged one counts as empty.
pub fn change<T>(
    state: &Path,
    change: impl FnOnce(&mut FailureLog) -> T,
) -> Result<T, FailuresError> {
    let failed = |error| FailuresError::Io { path: state.join(FILE), error };
    let locked = atomic_file::lock(state).map_err(failed)?;
    let mut book = match read(state) {
        Err(FailuresError::Damaged { .. }) => FailureLog::default(),
        book => book?,
    };
    let before = book.clone();
    let changed = change(&mut book);
    if book != before {
        let text = serde_json::to_string_pretty(&book).map_err(|error| failed(error.into()))?;
        atomic_file::replace(&locked, state, FILE, text.as_bytes()).map_err(failed)?;
    }
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(number: usize) -> FailedBuild {
        let (source, folder) = (format!("plugin:p{number}"), "/plugins".to_owned());
        FailedBuild { source, folder, digest: "d".to_owned(), caller: None }
    }

    #[test]
    fn what_is_written_is_read_and_bounded() {
        let home = tempfile::tempdir().expect("a folder");
        let state = home.path().join("state");
        assert_eq!(read(&state).expect("no file"), FailureLog::default());
        for number in 0..RECORDS_MAX + 2 {
            change(&state, |book| book.open(&build(number)).failures.push(7)).expect("written");
        }
        let mut book = read(&state).expect("a file");
        assert_eq!(book.plugins.len(), RECORDS_MAX);
        assert!(book.page(&build(1)).is_none(), "the one that failed first is forgotten");
        assert_eq!(book.page(&build(2)).expect("known").failures, [7]);
        // Who fails again is the last to be forgotten.
        book.open(&build(2));
        book.open(&build(0));
        assert!(book.page(&build(2)).is_some() && book.page(&build(3)).is_none());
    }

    #[test]
    fn a_damaged_file_is_said_and_counts_as_empty() {
        let home = tempfile::tempdir().expect("a folder");
        for damaged in [&b"{"[..], b"\xff\xfe", b"{\"plugins\": [], \"more\": 1}"] {
            std::fs::write(home.path().join(FILE), damaged).expect("written");
            let message = read(home.path()).expect_err("damaged").to_string();
            assert!(message.contains("counts as empty") && message.contains("or remove it"));
            change(home.path(), |book| book.open(&build(1)).times = 1).expect("anew");
            assert_eq!(read(home.path()).expect("whole").plugins.len(), 1);
        }
    }
}
