//! The files of an audit log: appended to under the folder's lock, a batch at a time, by any
//! number of processes; renamed when they are full, and the oldest removed.

use std::collections::VecDeque;
use std::fs::{self, File, Metadata};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha2::{Digest, Sha256};

use super::AuditSettings;
use super::event::hex;
use super::line::{self, LineMembers};
use super::read::{LINE_BYTES_MAX, Record};
use crate::atomic_file;

/// The file that is appended to.
const CURRENT: &str = "audit.jsonl";
/// The hash before the first line of a chain.
pub(super) const NOTHING: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// Files that are removed at once.
const REMOVED_MAX: usize = 1_000;
/// Bytes that are written at once.
const CHUNK_BYTES: usize = 1 << 20;

/// One file of a log, as it was when it was opened.
#[derive(Debug)]
pub struct Part {
    /// Its name.
    pub name: String,
    file: File,
    bytes_left: u64,
}

impl Read for Part {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = (&mut self.file).take(self.bytes_left).read(buffer)?;
        self.bytes_left -= read as u64;
        Ok(read)
    }
}

/// Opens all files of a log, the oldest first, at one moment between two batches; none if there
/// is no log yet.
///
/// # Errors
/// If the folder or a file cannot be read.
pub fn parts(folder: &Path) -> io::Result<Vec<Part>> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    // A copy may lie where nothing can be written, and nobody writes there then.
    let _locked = atomic_file::lock(folder).ok();
    let mut names = rotated(folder)?;
    if folder.join(CURRENT).exists() {
        names.push(CURRENT.to_owned());
    }
    let part = |name: String| {
        let file = File::open(folder.join(&name))?;
        let bytes_left = file.metadata()?.len();
        Ok(Part { name, file, bytes_left })
    };
    names.into_iter().map(part).collect()
}

/// The names of the files that are full, the oldest first.
pub(super) fn rotated(folder: &Path) -> io::Result<Vec<String>> {
    let names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
    let names: Vec<Option<String>> = names.collect::<io::Result<_>>()?;
    let mut names: Vec<(u64, String)> =
        names.into_iter().flatten().filter_map(|name| Some((number(&name)?, name))).collect();
    names.sort();
    Ok(names.into_iter().map(|(_, name)| name).collect())
}

/// The number of a file that is full, which grows by one with each.
fn number(name: &str) -> Option<u64> {
    let stem = name.strip_prefix("audit-")?.strip_suffix(".jsonl")?;
    stem.rsplit_once('-')?.1.parse().ok()
}

/// What the next line names as the one before it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Before {
    /// There is none, or it cannot be read.
    Nothing,
    /// A line of this chain.
    Own,
    /// A line of another chain, by its hash.
    Other(String),
}

/// The end of the current file, as this chain knows it.
#[derive(Debug)]
struct FileEnd {
    file: File,
    id: (u64, u64),
    bytes: u64,
}

/// One chain, and where it is written.
#[derive(Debug)]
pub(super) struct Log {
    settings: AuditSettings,
    chain: Chain,
    before: Before,
    end: Option<FileEnd>,
}

/// Where a chain has come to.
#[derive(Clone, Debug)]
struct Chain {
    id: String,
    next: u64,
    hash: String,
    /// The number of its newest call.
    call: Option<u64>,
}

impl Chain {
    /// Makes the next line.
    fn push(&mut self, text: &mut String, members: &LineMembers, before: &Before) {
        let start = text.len();
        let Chain { id, next, hash, call } = self;
        text.push_str(&format!("{{\"chain\":\"{id}\",\"seq\":{next},{}", members.json));
        if members.is_call {
            *call = Some(*next);
        } else if let (true, Some(call)) = (members.is_of_call, &call) {
            text.push_str(&format!(",\"call\":{call}"));
        }
        text.push_str(&format!(",\"prev\":\"{hash}\""));
        if let Before::Other(other) = before {
            text.push_str(&format!(",\"anchor\":\"{other}\""));
        }
        *hash = hex(&Sha256::digest(&text[start..]));
        *next += 1;
        text.push_str(&format!(",\"hash\":\"{hash}\"}}\n"));
    }
}

impl Log {
    pub(super) fn new(settings: AuditSettings) -> Log {
        let random = RandomState::new().hash_one((std::process::id(), SystemTime::now()));
        let chain =
            Chain { id: format!("{random:016x}"), next: 0, hash: NOTHING.to_owned(), call: None };
        Log { settings, chain, before: Before::Nothing, end: None }
    }

    /// Writes lines, and takes away those that are written.
    ///
    /// # Errors
    /// If one cannot be written. It is left, with all after it.
    pub(super) fn append(&mut self, lines: &mut VecDeque<LineMembers>) -> io::Result<()> {
        let _locked = atomic_file::lock(&self.settings.folder)?;
        let mut end = self.open()?;
        while let Some(first) = lines.front() {
            if end.bytes > 0 && end.bytes + first.json.len() as u64 > self.file_bytes_max() {
                end = self.rotate()?;
            }
            let (mut chain, mut text, mut count) = (self.chain.clone(), String::new(), 0);
            let mut before = self.before.clone();
            for members in lines.iter() {
                let full = end.bytes + (text.len() + members.json.len()) as u64;
                if count > 0 && (full > self.file_bytes_max() || text.len() > CHUNK_BYTES) {
                    break;
                }
                chain.push(&mut text, members, &before);
                before = Before::Own;
                count += 1;
            }
            self.write(&mut end, text.as_bytes(), chain)?;
            lines.drain(..count);
        }
        self.end = Some(end);
        Ok(())
    }

    fn file_bytes_max(&self) -> u64 {
        self.settings.file_bytes_max.0
    }

    /// Writes lines of the chain, all or none of them.
    fn write(&mut self, end: &mut FileEnd, text: &[u8], chain: Chain) -> io::Result<()> {
        if let Err(error) = end.file.write_all(text) {
            // Half a line would be in the way of the next.
            let _ = end.file.set_len(end.bytes);
            return Err(error);
        }
        end.bytes += text.len() as u64;
        (self.chain, self.before) = (chain, Before::Own);
        Ok(())
    }

    /// The current file, and what stands last in it: known, if nobody else wrote since.
    fn open(&mut self) -> io::Result<FileEnd> {
        let path = self.settings.folder.join(CURRENT);
        let found = match fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() => Some(metadata),
            Ok(_) => return Err(io::Error::other("`audit.jsonl` there is no file; move it away")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        // Taken, so that after an error everything is looked at anew.
        if let (Some(found), Some(end)) = (&found, self.end.take())
            && end.id == id(found)
            && end.bytes == found.len()
        {
            return Ok(end);
        }
        let mut end = open(&path)?;
        if found.is_some_and(|found| found.len() > 0) {
            self.read_end(&mut end)?;
            return Ok(end);
        }
        match rotated(&self.settings.folder)?.pop() {
            None => self.before = Before::Nothing,
            Some(previous) => {
                self.before =
                    self.last_of(&mut File::open(self.settings.folder.join(&previous))?)?.0;
                self.begin(&mut end, &previous, &[])?;
            }
        }
        Ok(end)
    }

    /// Reads what stands last in a file; half a line, which a crash left, is cut off and said.
    fn read_end(&mut self, end: &mut FileEnd) -> io::Result<()> {
        let (before, whole) = self.last_of(&mut end.file)?;
        self.before = before;
        let Some(whole) = whole else {
            // No line of ours. Whatever it is, the next begins behind it.
            end.file.write_all(b"\n")?;
            end.bytes += 1;
            return Ok(());
        };
        let unfinished = end.bytes - whole;
        if unfinished > 0 {
            end.file.set_len(whole)?;
            end.bytes = whole;
            let why = format!("the last line was not finished: {unfinished} bytes were cut off");
            self.write_one(end, &line::gap(1, &why, &self.settings))?;
        }
        Ok(())
    }

    /// What stands last in a file, and where its last whole line ends; none if what stands last
    /// is longer than any line.
    fn last_of(&self, file: &mut File) -> io::Result<(Before, Option<u64>)> {
        let bytes = file.metadata()?.len();
        let start = bytes.saturating_sub(2 * LINE_BYTES_MAX as u64);
        file.seek(SeekFrom::Start(start))?;
        let mut tail = Vec::new();
        file.take(2 * LINE_BYTES_MAX as u64).read_to_end(&mut tail)?;
        let Some(last) = tail.iter().rposition(|byte| *byte == b'\n') else {
            return Ok((Before::Nothing, (start == 0).then_some(0)));
        };
        let lines = &tail[..last];
        let begin = lines.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let before = match Record::parse(&lines[begin..]) {
            Ok(record) if record.chain == self.chain.id => Before::Own,
            Ok(record) => Before::Other(record.hash),
            // `verify` says that it is damaged.
            Err(_) => Before::Nothing,
        };
        Ok((before, Some(start + last as u64 + 1)))
    }

    fn write_one(&mut self, end: &mut FileEnd, members: &LineMembers) -> io::Result<()> {
        let (mut chain, mut text) = (self.chain.clone(), String::new());
        chain.push(&mut text, members, &self.before.clone());
        self.write(end, text.as_bytes(), chain)
    }

    /// Puts a new file in the place of a full one, and removes the oldest.
    fn rotate(&mut self) -> io::Result<FileEnd> {
        let folder = self.settings.folder.clone();
        let full = rotated(&folder)?;
        let next = full.last().and_then(|name| number(name)).unwrap_or_default() + 1;
        let time = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let name = format!("audit-{}-{next:06}.jsonl", time.replace([':', '-'], ""));
        fs::rename(folder.join(CURRENT), folder.join(&name))?;
        let full: Vec<String> = full.into_iter().chain([name.clone()]).collect();
        let removed = self.too_old(&full)?;
        let mut end = open(&folder.join(CURRENT))?;
        // Said before it is done, so that no file is ever gone without a word.
        self.begin(&mut end, &name, &removed)?;
        for name in &removed {
            fs::remove_file(folder.join(name))?;
        }
        Ok(end)
    }

    /// Of the files that are full, those that must make way for a new one.
    fn too_old(&self, full: &[String]) -> io::Result<Vec<String>> {
        let mut room = self.settings.bytes_max.0.saturating_sub(self.file_bytes_max());
        let mut removed = Vec::new();
        for name in full.iter().rev() {
            let bytes = fs::metadata(self.settings.folder.join(name))?.len();
            let fits = removed.is_empty() && bytes <= room;
            room = room.saturating_sub(bytes);
            if !fits {
                removed.push(name.clone());
            }
        }
        removed.reverse();
        // They stand in one line; the next file takes the others along.
        removed.truncate(REMOVED_MAX);
        Ok(removed)
    }

    /// Begins a file with the name of the one before it.
    fn begin(&mut self, end: &mut FileEnd, previous: &str, removed: &[String]) -> io::Result<()> {
        let members = line::rotation(previous, removed, &self.settings);
        self.write_one(end, &members)
    }
}

fn open(path: &Path) -> io::Result<FileEnd> {
    let mut options = File::options();
    let file = options.read(true).append(true).create(true).mode(0o600).open(path)?;
    let metadata = file.metadata()?;
    Ok(FileEnd { id: id(&metadata), bytes: metadata.len(), file })
}

pub(super) fn id(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Where the newest lines are.
pub(super) fn current(folder: &Path) -> PathBuf {
    folder.join(CURRENT)
}
