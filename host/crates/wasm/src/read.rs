//! Files of plugins, read once: whole, and while nobody writes them.

use std::path::Path;
use std::time::Duration;

use super::load_error::LoadError;
use crate::script::{self, Script};
use toolhost_core::limits::Limits;
use toolhost_state::read::{FileProblem, ReadError, ReadScope};

/// How often a file is read again that changes while it is read.
const READS_MAX: usize = 5;
/// How long to wait for its writer to finish.
const READ_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// Reads the bytes of a component, if these are at most `allowed`; again, if it changes meanwhile.
pub(super) async fn component(
    place: &ReadScope,
    path: &Path,
    allowed: u64,
) -> Result<Vec<u8>, LoadError> {
    for _ in 0..READS_MAX {
        let (place, path) = (place.clone(), path.to_owned());
        let read = tokio::task::spawn_blocking(move || read_settled(&place, &path, allowed));
        let read = read.await.map_err(|error| LoadError::Internal(error.to_string()))?;
        if let Some(bytes) = read? {
            return Ok(bytes);
        }
        tokio::time::sleep(READ_AGAIN_AFTER).await;
    }
    Err(LoadError::Changing)
}

/// Reads a script that stays the same meanwhile.
pub(super) fn script(
    place: &ReadScope,
    path: &Path,
    runner: &str,
    limits: &Limits,
) -> Result<Script, LoadError> {
    let stamp = || script::stamp_within(path, limits.script_files_max.0);
    for _ in 0..READS_MAX {
        let before = stamp();
        let read = Script::read(place, path, runner, limits);
        if stamp() == before {
            return Ok(read?);
        }
        std::thread::sleep(READ_AGAIN_AFTER);
    }
    Err(LoadError::Changing)
}

/// Reads the bytes of a component, once.
///
/// # Errors
/// If it cannot be read, is no regular file or too large, lies elsewhere than its place allows, or
/// changes meanwhile.
pub fn read_component(
    place: &ReadScope,
    path: &Path,
    limits: &Limits,
) -> Result<Vec<u8>, LoadError> {
    read_settled(place, path, limits.component_bytes_max.0)?.ok_or(LoadError::Changing)
}

/// Reads a file if it stays the same meanwhile.
fn read_settled(
    place: &ReadScope,
    path: &Path,
    allowed: u64,
) -> Result<Option<Vec<u8>>, LoadError> {
    let file = place.open(path)?;
    let bytes = file.bytes(allowed).map_err(refused)?;
    Ok(file.stayed(path, bytes.len()).then_some(bytes))
}

impl From<ReadError> for LoadError {
    fn from(error: ReadError) -> LoadError {
        refused(error.problem)
    }
}

/// The same without the name, which stands before the reason wherever a plugin is shown.
fn refused(problem: FileProblem) -> LoadError {
    match problem {
        FileProblem::Absent(reason) | FileProblem::Unreadable(reason) => {
            LoadError::Unreadable(reason)
        }
        FileProblem::NotRegular(what) => LoadError::NotAFile(what),
        FileProblem::TooLarge { given, allowed } => LoadError::TooLarge { given, allowed },
        other => LoadError::Elsewhere(other),
    }
}
