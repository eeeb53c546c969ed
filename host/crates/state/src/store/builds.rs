//! Last known good builds of plugins, kept by digest: what serves when a newer build is
//! broken or waits for a person. Nothing is run from here that has not the digest of its name.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};

use crate::read::ReadScope;

/// What nobody has mentioned for so long is not about to be mentioned by another process.
const UNMENTIONED_MIN: Duration = Duration::from_secs(600);
const EXTENSION: &str = "wasm";
/// No component is larger than an operator may allow.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// What a kept build is worth; the least comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Worth {
    /// It is a stranger's.
    Strangers,
    /// Newer ones were good.
    Older,
    /// It was the last one in order.
    Last,
    /// A person has trusted it.
    Trusted,
}

/// Where the bytes of a build are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// In a file.
    File(PathBuf),
    /// Here.
    Bytes(Arc<[u8]>),
}

/// The folder of kept builds, which all hosts of one user share.
#[derive(Clone, Debug)]
pub struct Builds {
    folder: PathBuf,
}

impl Builds {
    /// The builds kept in a state folder.
    pub fn new(state: &Path) -> Builds {
        Builds { folder: state.join("builds") }
    }

    /// Where a build with this digest lies, if it is kept.
    pub fn find(&self, digest: &str) -> Option<PathBuf> {
        let path = self.path(digest);
        path.is_file().then_some(path)
    }

    /// Keeps the bytes of a build, if they still have this digest; tells whether they are kept.
    ///
    /// # Errors
    /// If they cannot be read, or not be written.
    pub fn keep(&self, build: &Kept, digest: &str) -> io::Result<bool> {
        let path = self.path(digest);
        if path.is_file() {
            // It is of use, so it is no older than today.
            File::options().append(true).open(&path)?.set_modified(SystemTime::now())?;
            return Ok(true);
        }
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let mut part = tempfile::NamedTempFile::new_in(&self.folder)?;
        let opened;
        let mut source: Box<dyn Read + '_> = match build {
            Kept::File(path) => {
                // What lies there by now may be anything.
                opened = ReadScope::beside(path)?.open(path).map_err(io::Error::other)?;
                Box::new(opened.part(FILE_BYTES_MAX))
            }
            Kept::Bytes(bytes) => Box::new(&**bytes),
        };
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; 64 << 10];
        loop {
            let count = source.read(&mut buffer)?;
            if count == 0 {
                break;
            }
            hasher.update(&buffer[..count]);
            part.write_all(&buffer[..count])?;
        }
        let found: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        if found != digest {
            return Ok(false);
        }
        part.as_file().sync_all()?;
        part.persist(path).map_err(|error| error.error)?;
        Ok(true)
    }

    /// Removes what is worth nothing, and then the oldest of what is worth the least, until all
    /// together have at most `bytes_max`.
    ///
    /// # Errors
    /// If the folder cannot be read, or a file not be removed.
    pub fn prune(&self, worth: &BTreeMap<String, Worth>, bytes_max: u64) -> io::Result<()> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let (now, mut kept) = (SystemTime::now(), Vec::new());
        for entry in entries {
            let entry = entry?;
            let (path, metadata) = (entry.path(), entry.metadata()?);
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            let is_build = path.extension().is_some_and(|extension| extension == EXTENSION);
            let worth = worth.get(&*stem).copied().filter(|_| is_build);
            let modified = metadata.modified()?;
            let age = now.duration_since(modified).unwrap_or_default();
            // Another process may have kept it and be about to say so; or still write it.
            if worth.is_none() && age >= UNMENTIONED_MIN {
                remove(&path)?;
            } else {
                kept.push((worth.unwrap_or(Worth::Older), modified, path, metadata.len()));
            }
        }
        kept.sort();
        let mut bytes: u64 = kept.iter().map(|(.., length)| length).sum();
        for (_, _, path, length) in kept {
            if bytes <= bytes_max {
                break;
            }
            remove(&path)?;
            bytes -= length;
        }
        Ok(())
    }

    /// Removes a build that is not what it was.
    ///
    /// # Errors
    /// If the file cannot be removed.
    pub fn discard(&self, digest: &str) -> io::Result<()> {
        remove(&self.path(digest))
    }

    fn path(&self, digest: &str) -> PathBuf {
        self.folder.join(digest).with_extension(EXTENSION)
    }
}

/// Removes a file that another process may have removed by now.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(bytes: &[u8]) -> String {
        Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Builds of these texts, kept in this order, a minute apart.
    fn kept(state: &Path, texts: &[&str]) -> (Builds, Vec<String>) {
        let (builds, file) = (Builds::new(state), state.join("file"));
        let now = SystemTime::now();
        let mut digests = Vec::new();
        for (index, text) in texts.iter().enumerate() {
            fs::write(&file, text).expect("written");
            let digest = digest(text.as_bytes());
            assert!(builds.keep(&Kept::File(file.clone()), &digest).expect("kept"));
            let age = Duration::from_secs(60 * (texts.len() - index) as u64);
            let kept = File::options().append(true).open(builds.path(&digest)).expect("opened");
            kept.set_modified(now - age).expect("aged");
            digests.push(digest);
        }
        (builds, digests)
    }

    #[test]
    fn only_bytes_of_the_digest_are_kept() {
        let state = tempfile::tempdir().expect("a folder");
        let (builds, digests) = kept(state.path(), &["one"]);
        let path = builds.find(&digests[0]).expect("kept");
        assert_eq!(fs::read(path).expect("read"), b"one");
        let file = state.path().join("file");
        assert!(!builds.keep(&Kept::File(file), &digest(b"two")).expect("read"));
        assert!(builds.find(&digest(b"two")).is_none());
        assert!(builds.keep(&Kept::File(state.path().join("none")), &digest(b"two")).is_err());
    }

    #[test]
    fn the_oldest_make_way() {
        let state = tempfile::tempdir().expect("a folder");
        let (builds, digests) = kept(state.path(), &["aaaa", "bbbb", "cccc", "dddd"]);
        let worth = |of: [Worth; 4]| digests.iter().cloned().zip(of).collect::<BTreeMap<_, _>>();
        let there =
            || digests.iter().map(|digest| builds.find(digest).is_some()).collect::<Vec<_>>();
        let all = worth([Worth::Trusted, Worth::Older, Worth::Last, Worth::Older]);
        builds.prune(&all, 16).expect("pruned");
        assert_eq!(there(), [true, true, true, true]);
        // What is worth the least goes first, and of that the oldest.
        builds.prune(&all, 12).expect("pruned");
        assert_eq!(there(), [true, false, true, true]);
        builds.prune(&all, 11).expect("pruned");
        assert_eq!(there(), [true, false, true, false]);
        // The bound holds whatever they are worth.
        builds.prune(&all, 7).expect("pruned");
        assert_eq!(there(), [true, false, false, false]);
        // What is not mentioned goes only when it is old.
        builds.prune(&BTreeMap::new(), 16).expect("pruned");
        assert_eq!(there(), [true, false, false, false]);
        let old = SystemTime::now() - 2 * UNMENTIONED_MIN;
        let file = File::options().append(true).open(builds.path(&digests[0])).expect("opened");
        file.set_modified(old).expect("aged");
        builds.prune(&BTreeMap::new(), 16).expect("pruned");
        assert_eq!(there(), [false, false, false, false]);
    }
}
