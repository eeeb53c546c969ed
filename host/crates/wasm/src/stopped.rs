//! Which bytes did not return from `register` lately: they are not tried again at each start.
//!
//! A file in the state folder remembers each for an hour. It says nothing of a plugin
//! whose file has changed, and nothing where the operator allows more time by now.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// For how long it is remembered.
const REMEMBERED: Duration = Duration::from_secs(60 * 60);
const EXTENSION: &str = "stopped";
/// A time in milliseconds, in digits.
const TEXT_BYTES_MAX: u64 = 20;

/// What is remembered in a folder, which may not be there yet.
pub(super) struct Stopped(pub(super) PathBuf);

impl Stopped {
    /// How long it is until these bytes are tried again, if they were stopped after this time or more.
    pub(super) fn again_in(&self, digest: &str, time_max: Duration) -> Option<Duration> {
        let path = self.path(digest);
        let metadata = fs::metadata(&path).ok().filter(|file| file.len() <= TEXT_BYTES_MAX)?;
        let allowed = fs::read_to_string(&path).ok()?.parse().ok().map(Duration::from_millis)?;
        let left = left(metadata.modified().ok()?)?;
        (allowed >= time_max).then_some(left)
    }

    /// Remembers that these bytes were stopped after this time, and forgets what is old.
    ///
    /// # Errors
    /// If the folder cannot be made or written.
    pub(super) fn add(&self, digest: &str, time_max: Duration) -> io::Result<()> {
        fs::create_dir_all(&self.0)?;
        for entry in fs::read_dir(&self.0)? {
            let path = entry?.path();
            let is_old = || {
                let modified = fs::metadata(&path).and_then(|file| file.modified());
                modified.is_ok_and(|modified| left(modified).is_none())
            };
            if path.extension().is_some_and(|extension| extension == EXTENSION) && is_old() {
                // Another process may have removed it by now.
                fs::remove_file(path).or_else(|error| match error.kind() {
                    io::ErrorKind::NotFound => Ok(()),
                    _ => Err(error),
                })?;
            }
        }
        fs::write(self.path(digest), time_max.as_millis().to_string())
    }

    fn path(&self, digest: &str) -> PathBuf {
        self.0.join(format!("{digest}.{EXTENSION}"))
    }
}

/// How long something is remembered yet; a time in the future is none.
fn left(since: SystemTime) -> Option<Duration> {
    let age = SystemTime::now().duration_since(since).ok()?;
    REMEMBERED.checked_sub(age).filter(|left| !left.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_remembered_for_an_hour_and_for_the_time_they_had() {
        let folder = tempfile::tempdir().expect("a folder");
        let stopped = Stopped(folder.path().to_owned());
        let (short, long) = (Duration::from_secs(5), Duration::from_secs(6));
        assert_eq!(stopped.again_in("a1", short), None);
        stopped.add("a1", short).expect("written");
        let left = stopped.again_in("a1", short).expect("remembered");
        assert!(left <= REMEMBERED && left > REMEMBERED / 2, "{left:?}");
        assert_eq!(stopped.again_in("a1", long), None, "it was never given so much");
        assert_eq!(stopped.again_in("b2", short), None);
        let set = |age: Duration| {
            let file = fs::File::options().write(true).open(folder.path().join("a1.stopped"));
            let file = file.expect("a file");
            file.set_modified(SystemTime::now() - age).expect("a time");
        };
        set(REMEMBERED);
        assert_eq!(stopped.again_in("a1", short), None);
        stopped.add("b2", short).expect("written");
        let names = fs::read_dir(folder.path())
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"));
        assert_eq!(names.collect::<Vec<_>>(), ["b2.stopped"]);
        for damaged in ["", "-1", "5 s", &"9".repeat(30)] {
            fs::write(folder.path().join("c3.stopped"), damaged).expect("written");
            assert_eq!(stopped.again_in("c3", short), None, "{damaged}");
        }
    }
}
