//! An audit log that is read on as it grows, through its files as one makes way for the next.
//!
//! Other processes write it, at any time and in batches; so half a line at the end is left until
//! the rest is there. It waits for nothing: whoever follows asks again from time to time.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::file::{self, id};
use super::read::{Damage, LINE_BYTES_MAX, Record};

/// Bytes that are read at once.
const READ_BYTES_MAX: usize = 4 << 20;

/// A place in an audit log, from which on it is read.
#[derive(Debug)]
pub struct Follower {
    folder: PathBuf,
    /// The file that is read, and where its first line begins that was not.
    at: Option<(File, u64)>,
    /// Files that follow it.
    next: VecDeque<File>,
}

impl Follower {
    /// Begins at most this many bytes before the end of the newest file: at its next line. With
    /// none, only what is written from now on is read. There need not be a log yet.
    ///
    /// # Errors
    /// If the file is there and cannot be read.
    pub fn open(folder: &Path, bytes_before_end: u64) -> io::Result<Follower> {
        let mut follower = Follower { folder: folder.to_owned(), at: None, next: VecDeque::new() };
        if let Some(mut file) = open(&file::current(folder))? {
            let end = file.metadata()?.len();
            let start = end.saturating_sub(bytes_before_end);
            let start = if start == 0 { 0 } else { next_line(&mut file, start, end)? };
            follower.at = Some((file, start));
        }
        Ok(follower)
    }

    /// Reads what was written since, up to a few megabytes; what is no record is said. Empty means
    /// that there is no more at present.
    ///
    /// # Errors
    /// If a file is there and cannot be read. The next call tries again.
    pub fn read(&mut self) -> io::Result<Vec<Result<Record, Damage>>> {
        loop {
            let Some((file, place)) = &mut self.at else {
                match self.next.pop_front() {
                    Some(file) => self.at = Some((file, 0)),
                    None => match open(&file::current(&self.folder))? {
                        Some(file) => self.at = Some((file, 0)),
                        None => return Ok(Vec::new()),
                    },
                }
                continue;
            };
            // Asked before reading: what was renamed by then is not written to any more.
            let is_over = is_over(file, &self.folder)?;
            let lines = lines(file, place)?;
            if !lines.is_empty() || !is_over && self.next.is_empty() {
                return Ok(lines);
            }
            if self.next.is_empty() {
                self.next = after(file, &self.folder)?;
            }
            self.at = None;
        }
    }
}

/// The lines from `place` on that are finished; `place` is behind them afterwards.
fn lines(file: &mut File, place: &mut u64) -> io::Result<Vec<Result<Record, Damage>>> {
    let end = file.metadata()?.len();
    // Somebody cut it off; what is written from now on is read.
    *place = (*place).min(end);
    file.seek(SeekFrom::Start(*place))?;
    let mut bytes = Vec::new();
    file.take(READ_BYTES_MAX as u64).read_to_end(&mut bytes)?;
    let Some(last) = bytes.iter().rposition(|byte| *byte == b'\n') else {
        // Longer than any line of ours: passed over.
        if bytes.len() > LINE_BYTES_MAX {
            *place += bytes.len() as u64;
            return Ok(vec![Err(Damage::TooLong)]);
        }
        return Ok(Vec::new());
    };
    *place += last as u64 + 1;
    Ok(bytes[..last].split(|byte| *byte == b'\n').map(Record::parse).collect())
}

/// Where the first line begins at or behind `start`.
fn next_line(file: &mut File, start: u64, end: u64) -> io::Result<u64> {
    // One before, so that a line that begins at `start` is found.
    file.seek(SeekFrom::Start(start - 1))?;
    let mut bytes = Vec::new();
    file.take(LINE_BYTES_MAX as u64).read_to_end(&mut bytes)?;
    let found = bytes.iter().position(|byte| *byte == b'\n');
    Ok(found.map_or(end, |place| start + place as u64))
}

/// Tells whether another file has taken the place of this one.
fn is_over(file: &File, folder: &Path) -> io::Result<bool> {
    match fs::metadata(file::current(folder)) {
        Ok(current) => Ok(id(&current) != id(&file.metadata()?)),
        // Between two files, or removed.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The files that follow this one, the newest last.
fn after(file: &File, folder: &Path) -> io::Result<VecDeque<File>> {
    let own = id(&file.metadata()?);
    let mut files = VecDeque::new();
    for name in file::rotated(folder)? {
        let Some(other) = open(&folder.join(name))? else { continue };
        if id(&other.metadata()?) == own {
            files.clear();
        } else {
            files.push_back(other);
        }
    }
    files.extend(open(&file::current(folder))?);
    Ok(files)
}

fn open(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::{Audit, AuditSettings, SecretChange, SecretChanged};
    use toolhost_core::limits::{Bytes, Limits};

    /// A log of records that are told apart by a name, in files of about this size.
    fn log(folder: &Path, file_bytes_max: u64) -> Audit {
        let settings = AuditSettings::new(folder, &Limits::default());
        Audit::open(AuditSettings { file_bytes_max: Bytes(file_bytes_max), ..settings })
    }

    fn note(audit: &Audit, name: &str) {
        let (name, change) = (name.to_owned(), SecretChange::Set);
        audit.note(SecretChanged { name, change, by: "test" });
        audit.flush();
    }

    /// The names of all that is new.
    fn read(follower: &mut Follower) -> Vec<String> {
        let mut names = Vec::new();
        loop {
            let records = follower.read().expect("read");
            if records.is_empty() {
                return names;
            }
            let records = records.into_iter().map(|record| record.expect("a record"));
            names.extend(
                records
                    .filter(|record| record.kind == "secret")
                    .map(|record| record.str("name").to_owned()),
            );
        }
    }

    #[test]
    fn what_is_written_later_is_read_once() {
        let home = tempfile::tempdir().expect("a folder");
        let folder = super::super::folder(home.path());
        let mut early = Follower::open(&folder, u64::MAX).expect("no log yet");
        assert!(read(&mut early).is_empty());
        let (one, two) = (log(home.path(), 1 << 20), log(home.path(), 1 << 20));
        note(&one, "a");
        note(&two, "b");
        assert_eq!(read(&mut early), ["a", "b"]);
        assert!(read(&mut early).is_empty());
        let (mut all, mut end) = (
            Follower::open(&folder, u64::MAX).expect("a log"),
            Follower::open(&folder, 0).expect("a log"),
        );
        assert!(read(&mut end).is_empty());
        note(&one, "c");
        assert_eq!(read(&mut all), ["a", "b", "c"]);
        assert_eq!(
            (read(&mut early), read(&mut end)),
            (vec!["c".to_owned()], vec!["c".to_owned()])
        );
    }

    #[test]
    fn it_begins_at_a_line() {
        let home = tempfile::tempdir().expect("a folder");
        let folder = super::super::folder(home.path());
        let audit = log(home.path(), 1 << 20);
        ["a", "b", "c"].iter().for_each(|name| note(&audit, name));
        let text = fs::read_to_string(file::current(&folder)).expect("a log");
        let lengths: Vec<u64> = text.lines().map(|line| line.len() as u64 + 1).collect();
        for (before_end, expected) in [
            (lengths[2], &["c"][..]),
            (lengths[2] - 1, &[]),
            (lengths[2] + 1, &["c"]),
            (lengths[2] + lengths[1], &["b", "c"]),
        ] {
            let mut follower = Follower::open(&folder, before_end).expect("a log");
            assert_eq!(read(&mut follower), expected, "{before_end}");
        }
    }

    #[test]
    fn files_that_follow_are_read_in_order() {
        let home = tempfile::tempdir().expect("a folder");
        let folder = super::super::folder(home.path());
        // Each record begins a file.
        let audit = log(home.path(), 1);
        note(&audit, "first");
        let mut follower = Follower::open(&folder, u64::MAX).expect("a log");
        assert_eq!(read(&mut follower), ["first"]);
        let names: Vec<String> = (0..20).map(|number| format!("n{number}")).collect();
        names.iter().for_each(|name| note(&audit, name));
        assert!(file::rotated(&folder).expect("a folder").len() >= 20);
        assert_eq!(read(&mut follower), names);
        note(&audit, "last");
        assert_eq!(read(&mut follower), ["last"]);
    }

    #[test]
    fn half_a_line_is_left_and_nonsense_is_said() {
        let home = tempfile::tempdir().expect("a folder");
        let folder = super::super::folder(home.path());
        note(&log(home.path(), 1 << 20), "a");
        let path = file::current(&folder);
        let whole = fs::read(&path).expect("a log");
        fs::write(&path, &whole[..whole.len() - 5]).expect("written");
        let mut follower = Follower::open(&folder, u64::MAX).expect("a log");
        assert!(follower.read().expect("read").is_empty());
        fs::write(&path, &whole).expect("written");
        assert_eq!(read(&mut follower), ["a"]);
        fs::write(&path, [&whole[..], b"nonsense\n"].concat()).expect("written");
        assert!(matches!(follower.read().expect("read").as_slice(), [Err(Damage::NoRecord(_))]));
        // Cut off: what is written from then on is read.
        fs::write(&path, b"").expect("written");
        assert!(follower.read().expect("read").is_empty());
        fs::write(&path, &whole).expect("written");
        assert_eq!(read(&mut follower), ["a"]);
        fs::write(&path, [&whole[..], &vec![b'x'; LINE_BYTES_MAX + 1]].concat()).expect("written");
        assert_eq!(follower.read().expect("read"), [Err(Damage::TooLong)]);
    }
}
