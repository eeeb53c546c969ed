//! Runners: the components that run scripts, one for each language, compiled when the first
//! script wants one.
//!
//! A runner is part of the host, and has the authority of every script it runs. So it counts only
//! if the digest of its bytes was recorded when it was built: in a file beside it, which, like the
//! runner and their folder, nobody but this user and root may change.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;
use tokio::sync::{Mutex, MutexGuard};

use super::compile;
use super::link::Linked;
use super::load_error::{LoadError, RunnerError};
use super::read;
use crate::script::{self, Language, Stamp};
use toolhost_core::limits::Limits;
use toolhost_state::atomic_file::check_owner;
use toolhost_state::read::ReadScope;

/// What stands behind the name of a runner in that of its record: a digest a line.
const RECORD: &str = ".sha256";
/// Bytes of a record: it has two lines.
const RECORD_BYTES_MAX: u64 = 4 << 10;
/// What to do about a runner that does not count.
pub const RUNNER_REPAIR: &str =
    "build it again: `make run` or `make install` in a clone of toolhost";

/// Where the components may lie that run scripts; the first that is there is taken. Beside it, a file
/// of the same name and `.sha256` has the digest of its bytes, in hexadecimal on a line of its own, as
/// `sdk/record.sh` writes it; without that, scripts wait.
pub type RunnerPlaces = BTreeMap<Language, Vec<PathBuf>>;

/// What the runner of a language is called while it is compiled.
pub fn runner_name(language: Language) -> String {
    format!("{} runner", language.name())
}

/// Why a runner does not count: scripts that it would run wait.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{path} does not count as a runner: {problem}", path = path.display())]
pub struct Unrecorded {
    /// The runner.
    pub path: PathBuf,
    /// What is wrong with it.
    pub problem: String,
}

/// A component that runs scripts.
#[derive(Clone)]
pub(super) struct Runner {
    pub(super) code: Arc<Linked>,
    /// Why it does not count, if it does not.
    pub(super) unrecorded: Option<Arc<Unrecorded>>,
}

/// Tells whether the runner that lies at `path` counts.
///
/// # Errors
/// With the reason, if it does not.
pub fn check_runner(path: &Path, limits: &Limits) -> Result<(), Unrecorded> {
    let bytes = read::read_component(&ReadScope::Own, path, limits)
        .map_err(|error| Unrecorded { path: path.to_owned(), problem: error.to_string() })?;
    check_recorded(path, &compile::digest(&bytes))
}

/// Tells whether bytes with this digest, read from `path`, are what was recorded when the runner
/// there was built.
pub(super) fn check_recorded(path: &Path, digest: &str) -> Result<(), Unrecorded> {
    recorded(path, digest).map_err(|problem| Unrecorded { path: path.to_owned(), problem })
}

fn recorded(path: &Path, digest: &str) -> Result<(), String> {
    let failed = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    // The record lies where the runner itself does.
    let real = fs::canonicalize(path).map_err(|error| failed(path, error))?;
    let folder = real.parent().unwrap_or(Path::new("/"));
    let record = record_of(&real);
    check_owner(folder, &fs::metadata(folder).map_err(|error| failed(folder, error))?)?;
    let metadata = fs::metadata(&real).map_err(|error| failed(&real, error))?;
    check_owner(&real, &metadata)?;
    check_links(&real, &metadata)?;
    let metadata = fs::metadata(&record).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => "its digest was not recorded when it was built".to_owned(),
        _ => failed(&record, error),
    })?;
    if !metadata.is_file() {
        return Err(format!("{} is no regular file", record.display()));
    }
    check_owner(&record, &metadata)?;
    check_links(&record, &metadata)?;
    let mut text = String::new();
    let file = fs::File::open(&record).map_err(|error| failed(&record, error))?;
    let read = file.take(RECORD_BYTES_MAX).read_to_string(&mut text);
    read.map_err(|error| failed(&record, error))?;
    match text.lines().any(|line| line == digest) {
        true => Ok(()),
        false => Err("it is not what was recorded when it was built".to_owned()),
    }
}

/// Checks that a file has this name alone: through another one a plugin could change it that was granted
/// the folder of that.
fn check_links(path: &Path, metadata: &fs::Metadata) -> Result<(), String> {
    match metadata.nlink() {
        0 | 1 => Ok(()),
        2 => Err(format!("{} has 1 more name (hard link)", path.display())),
        count => Err(format!("{} has {} more names (hard links)", path.display(), count - 1)),
    }
}

fn record_of(runner: &Path) -> PathBuf {
    let mut name = runner.as_os_str().to_owned();
    name.push(RECORD);
    PathBuf::from(name)
}

/// A runner, and the state of its files.
type KnownRunner = Option<(Vec<Stamp>, Runner)>;

/// Digests of runners, with the states of their files.
type Digests = BTreeMap<Language, (Vec<Stamp>, Arc<str>)>;

/// The runners of one host.
#[derive(Default)]
pub(super) struct Runners {
    places: RunnerPlaces,
    known: BTreeMap<Language, Mutex<KnownRunner>>,
    /// Digests of runners, with the states of their files.
    digests: std::sync::Mutex<Digests>,
}

impl Runners {
    pub(super) fn new(places: RunnerPlaces) -> Runners {
        let known = Language::ALL.map(|language| (language, Mutex::default()));
        Runners { places, known: known.into(), digests: std::sync::Mutex::default() }
    }

    /// The state of the files of all runners.
    pub(super) fn stamp(&self) -> Vec<Stamp> {
        self.places.values().flatten().flat_map(|path| stamps(path)).collect()
    }

    /// Those that are known, and count.
    pub(super) async fn known(&self) -> Vec<Arc<Linked>> {
        let mut found = Vec::new();
        for known in self.known.values() {
            let known = known.lock().await;
            let counts = known.iter().filter(|(_, runner)| runner.unrecorded.is_none());
            found.extend(counts.map(|(_, runner)| Arc::clone(&runner.code)));
        }
        found
    }

    /// The runner's file, its state, and what is known of it, for whoever makes it known. Only
    /// one caller has that at a time.
    pub(super) async fn find(
        &self,
        language: Language,
    ) -> Result<(PathBuf, Vec<Stamp>, MutexGuard<'_, KnownRunner>), RunnerError> {
        let path = self.path(language)?;
        let known = self.known.get(&language).ok_or_else(|| self.none(language))?;
        let known = known.lock().await;
        Ok((path.to_owned(), stamps(path), known))
    }

    /// The digest of a runner's bytes. It waits for no compiler.
    pub(super) async fn digest(
        &self,
        language: Language,
        limits: &Limits,
    ) -> Result<Arc<str>, LoadError> {
        let path = self.path(language)?;
        let stamps = stamps(path);
        let known = self.digests().get(&language).filter(|(of, _)| *of == stamps).cloned();
        if let Some((_, digest)) = known {
            return Ok(digest);
        }
        let bytes = read::component(&ReadScope::Own, path, limits.component_bytes_max.0).await?;
        let digest = compile::digest(&bytes);
        self.digests().insert(language, (stamps, Arc::clone(&digest)));
        Ok(digest)
    }

    /// Tells whether the runner of a language has this digest, as far as its files are those that
    /// were recorded, and counts. Its bytes are not read.
    pub(super) fn counts(&self, language: Language, digest: &str) -> bool {
        self.path(language).is_ok_and(|path| check_recorded(path, digest).is_ok())
    }

    fn digests(&self) -> std::sync::MutexGuard<'_, Digests> {
        self.digests.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Where the runner lies.
    fn path(&self, language: Language) -> Result<&Path, RunnerError> {
        let path = self.places_of(language).iter().find(|path| path.is_file());
        path.map(PathBuf::as_path).ok_or_else(|| self.none(language))
    }

    fn none(&self, language: Language) -> RunnerError {
        let places = self.places_of(language).iter();
        let shown: Vec<String> = places.map(|path| path.display().to_string()).collect();
        let looked_for = if shown.is_empty() { "nowhere".to_owned() } else { shown.join(" and ") };
        RunnerError::None { language, looked_for }
    }

    fn places_of(&self, language: Language) -> &[PathBuf] {
        self.places.get(&language).map(Vec::as_slice).unwrap_or_default()
    }
}

/// The state of a runner, of its record, and of their folder, which others may come to write in.
fn stamps(path: &Path) -> Vec<Stamp> {
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = real.parent().map(script::stamp_of_file);
    let files = [script::stamp(path), script::stamp(&record_of(&real))];
    files.into_iter().chain(folder).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_runner_counts_as_it_was_recorded() {
        let folder = tempfile::tempdir().expect("a folder");
        let real = fs::canonicalize(folder.path()).expect("a folder").join("runners");
        fs::create_dir(&real).expect("made");
        let (runner, record) = (real.join("python.wasm"), real.join("python.wasm.sha256"));
        let limits = Limits::default();
        let problem = || check_runner(&runner, &limits).map_err(|error| error.problem);
        let mode = |path: &Path, mode: u32| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("changed");
        };
        assert!(problem().is_err());
        fs::write(&runner, "bytes").expect("written");
        assert_eq!(problem(), Err("its digest was not recorded when it was built".to_owned()));
        fs::write(&record, format!("0\n{}\n", compile::digest(b"bytes"))).expect("written");
        for path in [&real, &runner, &record] {
            mode(path, 0o755);
        }
        assert_eq!(problem(), Ok(()));
        // Also by a link.
        let link = folder.path().join("link.wasm");
        symlink(&runner, &link).expect("a link");
        assert_eq!(check_runner(&link, &limits), Ok(()));
        for path in [&real, &runner, &record] {
            for open in [0o775, 0o757] {
                mode(path, open);
                let said = problem().expect_err("others can write there");
                assert!(
                    said.starts_with(&format!("others can change {}", path.display())),
                    "{said}"
                );
            }
            mode(path, 0o755);
        }
        fs::write(&runner, "other bytes").expect("written");
        assert_eq!(problem(), Err("it is not what was recorded when it was built".to_owned()));
        // Beginnings of a digest are none.
        fs::write(&record, &compile::digest(b"other bytes")[..63]).expect("written");
        assert!(problem().is_err());
        fs::remove_file(&record).expect("removed");
        fs::create_dir(&record).expect("made");
        assert!(problem().expect_err("a folder").contains("is no regular file"));
    }
}
