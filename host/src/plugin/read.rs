//! Files of plugins, read once: whole, and while nobody writes them.

use std::fs::{File, Metadata, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use super::load_error::LoadError;
use crate::limits::Limits;
use crate::script::{self, Script};

/// How often a file is read again that changes while it is read.
const READS_MAX: usize = 5;
/// How long to wait for its writer to finish.
const READ_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// Reads the bytes of a component; again, if it changes meanwhile.
pub(super) async fn component(path: &Path, limits: &Limits) -> Result<Vec<u8>, LoadError> {
    let allowed = limits.component_bytes_max.0;
    for _ in 0..READS_MAX {
        let path = path.to_owned();
        let read = tokio::task::spawn_blocking(move || read_settled(&path, allowed));
        let read = read.await.map_err(|error| LoadError::Internal(error.to_string()))?;
        if let Some(bytes) = read? {
            return Ok(bytes);
        }
        tokio::time::sleep(READ_AGAIN_AFTER).await;
    }
    Err(LoadError::Changing)
}

/// Reads a script that stays the same meanwhile.
pub(super) fn script(path: &Path, runner: &str, limits: &Limits) -> Result<Script, LoadError> {
    for _ in 0..READS_MAX {
        let before = script::stamp(path);
        let read = Script::read(path, runner, limits);
        if script::stamp(path) == before {
            return Ok(read?);
        }
        std::thread::sleep(READ_AGAIN_AFTER);
    }
    Err(LoadError::Changing)
}

/// Reads the bytes of a component, once.
///
/// # Errors
/// If it cannot be read, is no regular file or too large, or changes meanwhile.
pub fn read_component(path: &Path, limits: &Limits) -> Result<Vec<u8>, LoadError> {
    read_settled(path, limits.component_bytes_max.0)?.ok_or(LoadError::Changing)
}

/// Reads a file if it is a regular one and stays the same meanwhile.
fn read_settled(path: &Path, allowed: u64) -> Result<Option<Vec<u8>>, LoadError> {
    let unreadable = |error: std::io::Error| LoadError::Unreadable(error.to_string());
    // Without it, opening a pipe waits for a writer.
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(i32::from_ne_bytes(nonblocking.to_ne_bytes()))
        .open(path)
        .map_err(unreadable)?;
    let before = file.metadata().map_err(unreadable)?;
    check_regular(&before)?;
    let too_large = |given: u64| LoadError::TooLarge { given, allowed };
    if before.len() > allowed {
        return Err(too_large(before.len()));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(before.len()).unwrap_or_default());
    (&file).take(allowed + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > allowed {
        return Err(too_large(bytes.len() as u64));
    }
    Ok(unchanged(&file, path, &before, bytes.len() as u64).map_err(unreadable)?.then_some(bytes))
}

/// Tells whether the file is still the one that was opened, and was not written to meanwhile.
fn unchanged(
    file: &File,
    path: &Path,
    before: &Metadata,
    bytes_read: u64,
) -> std::io::Result<bool> {
    let stamp = |metadata: &Metadata| {
        (metadata.dev(), metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec())
    };
    let (after, named) = (file.metadata()?, std::fs::metadata(path)?);
    Ok(stamp(before) == stamp(&after)
        && stamp(before) == stamp(&named)
        && before.len() == bytes_read)
}

fn check_regular(metadata: &Metadata) -> Result<(), LoadError> {
    let kind = metadata.file_type();
    if kind.is_file() {
        return Ok(());
    }
    Err(LoadError::NotAFile(match kind {
        _ if kind.is_dir() => "a directory",
        _ if kind.is_fifo() => "a named pipe",
        _ if kind.is_socket() => "a socket",
        _ => "a device",
    }))
}
