//! Lines of an audit log, read from any bytes: what is none is said, with its line.

use std::borrow::Cow;
use std::io::{BufRead, BufReader, Read};
use std::time::SystemTime;

use serde::Deserialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use thiserror::Error;

use super::event::hex;

/// Bytes of one line; a longer one is none of ours.
pub const LINE_BYTES_MAX: usize = 256 << 10;
/// What stands before and after the hash, which is the last member.
const BEFORE_HASH: &str = ",\"hash\":\"";
const AFTER_HASH: &str = "\"}";
const HASH_CHARS: usize = 64;

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The chain it is of.
    pub chain: String,
    /// Its number within the chain, from 0.
    pub seq: u64,
    /// When it was noted.
    pub time: SystemTime,
    /// What it is, such as `call` or `denial`.
    pub kind: String,
    /// The hash of the chain's line before it.
    pub prev: String,
    /// The hash of the line before it in the file, if that is of another chain.
    pub anchor: Option<String>,
    /// Its own hash, as it stands there.
    pub hash: String,
    /// Its own hash is that of what stands there.
    pub is_sound: bool,
    /// All members, also those above.
    pub members: Map<String, Value>,
    /// The line itself.
    pub text: String,
}

#[derive(Deserialize)]
struct LineHead<'a> {
    #[serde(borrow)]
    chain: Cow<'a, str>,
    seq: u64,
    #[serde(borrow)]
    time: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    prev: Cow<'a, str>,
    #[serde(borrow)]
    anchor: Option<Cow<'a, str>>,
}

/// Why a line is no record.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Damage {
    /// It is longer than any record.
    #[error("it has more than {LINE_BYTES_MAX} bytes")]
    TooLong,
    /// It is not text.
    #[error("it is not UTF-8")]
    NotText,
    /// It is not what this host writes.
    #[error("it is no record: {0}")]
    NoRecord(String),
    /// It has no end.
    #[error(
        "it is not finished: whoever wrote it was stopped while writing, or its end was cut off"
    )]
    Unfinished,
    /// The file cannot be read.
    #[error("it cannot be read: {0}")]
    Io(String),
}

impl Record {
    /// Reads a line, without the line break at its end.
    ///
    /// # Errors
    /// If it is none.
    pub fn parse(line: &[u8]) -> Result<Record, Damage> {
        if line.len() > LINE_BYTES_MAX {
            return Err(Damage::TooLong);
        }
        let text = str::from_utf8(line).map_err(|_| Damage::NotText)?;
        let none = |problem: String| Damage::NoRecord(problem);
        let (hashed, hash) = split(text).ok_or_else(|| none("it ends in no hash".to_owned()))?;
        let head: LineHead<'_> =
            serde_json::from_str(text).map_err(|error| none(error.to_string()))?;
        let members = serde_json::from_str(text).map_err(|error| none(error.to_string()))?;
        let time = humantime::parse_rfc3339(&head.time)
            .map_err(|_| none("its time is none".to_owned()))?;
        Ok(Record {
            chain: head.chain.into_owned(),
            seq: head.seq,
            time,
            kind: head.kind.into_owned(),
            prev: head.prev.into_owned(),
            anchor: head.anchor.map(Cow::into_owned),
            is_sound: hex(&Sha256::digest(hashed)) == hash,
            hash: hash.to_owned(),
            members,
            text: text.to_owned(),
        })
    }

    /// A member that is a text; empty if it is not there.
    pub fn str(&self, name: &str) -> &str {
        self.members.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// A member that is a number; 0 if it is not there.
    pub fn number(&self, name: &str) -> u64 {
        self.members.get(name).and_then(Value::as_u64).unwrap_or_default()
    }
}

/// What is hashed of a line, and the hash.
fn split(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_suffix(AFTER_HASH)?;
    let (rest, hash) = rest.split_at_checked(rest.len().checked_sub(HASH_CHARS)?)?;
    let is_hash = hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    let hashed = rest.strip_suffix(BEFORE_HASH)?;
    is_hash.then_some((hashed, hash))
}

/// The lines of a file, each with its number, counted from 1. See [`read`].
#[derive(Debug)]
pub struct Lines<R> {
    reader: BufReader<R>,
    number: u64,
    is_over: bool,
}

/// Reads the lines of one file, one at a time; whatever the bytes are, no more than one line is
/// held.
pub fn read<R: Read>(reader: R) -> Lines<R> {
    Lines { reader: BufReader::with_capacity(64 << 10, reader), number: 0, is_over: false }
}

impl<R: Read> Lines<R> {
    fn line(&mut self) -> std::io::Result<Option<Result<Record, Damage>>> {
        let mut line = Vec::new();
        let most = LINE_BYTES_MAX as u64 + 1;
        (&mut self.reader).take(most).read_until(b'\n', &mut line)?;
        match line.pop() {
            None => Ok(None),
            Some(b'\n') => Ok(Some(Record::parse(&line))),
            Some(_) if line.len() as u64 + 1 == most => {
                self.skip()?;
                Ok(Some(Err(Damage::TooLong)))
            }
            Some(_) => Ok(Some(Err(Damage::Unfinished))),
        }
    }

    /// Passes over the rest of a line.
    fn skip(&mut self) -> std::io::Result<()> {
        loop {
            let bytes = self.reader.fill_buf()?;
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let count = end.map_or(bytes.len(), |end| end + 1);
            let is_done = end.is_some() || bytes.is_empty();
            self.reader.consume(count);
            if is_done {
                return Ok(());
            }
        }
    }
}

impl<R: Read> Iterator for Lines<R> {
    type Item = (u64, Result<Record, Damage>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        self.number += 1;
        let line = match self.line() {
            Ok(None) => {
                self.is_over = true;
                return None;
            }
            Ok(Some(line)) => line,
            Err(error) => {
                self.is_over = true;
                Err(Damage::Io(error.to_string()))
            }
        };
        Some((self.number, line))
    }
}
