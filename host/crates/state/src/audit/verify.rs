//! Whether a log is as it was written: each line against its hash, against the line before it in
//! its chain, and against the line before it in the files.

use std::collections::{BTreeSet, HashMap};
use std::io::Read;

use serde_json::Value;

use super::file::NOTHING;
use super::read::{Damage, Record, read};

/// Problems that are named; more are counted.
const PROBLEMS_MAX: usize = 20;

/// What a log was found to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Lines that are records.
    pub records: u64,
    /// Chains they are of.
    pub chains: usize,
    /// Files they stand in.
    pub files: usize,
    /// How the log begins.
    pub head: Head,
    /// Records that say that others were lost, and how many those were.
    pub gaps: u64,
    /// How many records were lost, as those say.
    pub lost: u64,
    /// What is wrong, in the order of the lines; the first few.
    pub problems: Vec<LogProblem>,
    /// How many there are in all.
    pub problem_count: u64,
}

/// How a log begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Head {
    /// There is none.
    #[default]
    Empty,
    /// With the first record there was.
    Beginning,
    /// Older files were removed when they had to make way.
    Removed,
    /// In the middle, and nobody knows why.
    Unknown,
}

/// Something that is wrong with a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogProblem {
    /// The file.
    pub file: String,
    /// The line, counted from 1.
    pub line: u64,
    /// What is wrong.
    pub what: String,
}

/// A line that others have to fit.
struct SeenChains {
    seq: u64,
    hash: String,
    place: String,
}

/// Checks the files of a log one after the other.
#[derive(Default)]
pub struct Verifier {
    found: Verified,
    chains: HashMap<String, SeenChains>,
    /// The chain and the hash of the line before; none after one that is damaged.
    before: Option<(String, String, String)>,
    is_first: bool,
    /// The file before the first, as that names it; and where it does.
    missing: Option<(String, LogProblem)>,
    removed: BTreeSet<String>,
    previous: Option<String>,
}

/// Checks the files of a log, by name and the oldest first.
pub fn verify<R: Read>(files: impl IntoIterator<Item = (String, R)>) -> Verified {
    let mut verifier = Verifier::new();
    for (name, reader) in files {
        verifier.file(&name, reader);
    }
    verifier.end()
}

impl Verifier {
    /// Has seen nothing yet.
    pub fn new() -> Verifier {
        Verifier { is_first: true, ..Verifier::default() }
    }

    /// Checks the next file.
    pub fn file(&mut self, name: &str, reader: impl Read) {
        self.found.files += 1;
        for (line, record) in read(reader) {
            match record {
                Ok(record) => self.record(name, line, &record),
                Err(damage) => self.damaged(name, line, &damage),
            }
        }
        self.previous = Some(name.to_owned());
    }

    /// Returns what was found.
    pub fn end(mut self) -> Verified {
        if let Some((file, problem)) = self.missing.take() {
            if self.removed.contains(&file) {
                self.found.head = Head::Removed;
            } else {
                self.found.head = Head::Unknown;
                self.found.problem_count += 1;
                self.found.problems.insert(0, problem);
                self.found.problems.truncate(PROBLEMS_MAX);
            }
        }
        self.found.chains = self.chains.len();
        self.found
    }

    fn damaged(&mut self, file: &str, line: u64, damage: &Damage) {
        self.problem(file, line, damage.to_string());
        self.before = None;
        if self.is_first {
            self.found.head = Head::Unknown;
            self.is_first = false;
        }
    }

    fn record(&mut self, file: &str, line: u64, record: &Record) {
        self.found.records += 1;
        let place = format!("{file}:{line}");
        if !record.is_sound {
            let what = "it was changed: its hash is not that of what stands there";
            self.problem(file, line, what.to_owned());
        }
        match record.kind.as_str() {
            "gap" => {
                self.found.gaps += 1;
                self.found.lost = self.found.lost.saturating_add(record.number("lost"));
            }
            "rotation" => {
                let removed = record.members.get("removed").and_then(Value::as_array);
                let names = removed.into_iter().flatten().filter_map(Value::as_str);
                self.removed.extend(names.map(str::to_owned));
            }
            _ => {}
        }
        if std::mem::replace(&mut self.is_first, false) {
            self.head(file, line, record);
        } else if let Some(what) = self.misfit(record) {
            self.problem(file, line, what);
        }
        let Record { chain, seq, hash, .. } = record;
        self.before = Some((chain.clone(), hash.clone(), place.clone()));
        let seen = SeenChains { seq: *seq, hash: hash.clone(), place };
        self.chains.insert(chain.clone(), seen);
    }

    /// The first line there is.
    fn head(&mut self, file: &str, line: u64, record: &Record) {
        let problem = |what| LogProblem { file: file.to_owned(), line, what };
        let is_beginning = record.seq == 0 && record.prev == NOTHING && record.anchor.is_none();
        if is_beginning {
            self.found.head = Head::Beginning;
        } else if record.kind == "rotation" {
            let previous = record.str("previous").to_owned();
            let what = format!(
                "the file `{previous}`, which stood before this one, is gone, and was not removed by toolhost"
            );
            self.missing = Some((previous, problem(what)));
        } else {
            self.found.head = Head::Unknown;
            let what = "the log begins in the middle: what stood before this line is gone";
            self.problem(file, line, what.to_owned());
        }
    }

    /// Why a line does not fit those before it.
    fn misfit(&self, record: &Record) -> Option<String> {
        let Record { chain, seq, prev, anchor, .. } = record;
        if record.kind == "rotation"
            && let (Some(read), named) = (&self.previous, record.str("previous"))
            && read != named
        {
            return Some(format!(
                "the file `{named}`, which stood before this one, is gone; `{read}` is there"
            ));
        }
        match self.chains.get(chain) {
            Some(seen) if *seq != seen.seq.saturating_add(1) || *prev != seen.hash => {
                let (before, place) = (seen.seq, &seen.place);
                return Some(format!(
                    "it does not follow {place}, the line of its chain {chain} before it (number {seq} after {before}): lines were changed, removed, inserted or moved between them"
                ));
            }
            None if *seq == 0 && prev != NOTHING => {
                return Some(format!(
                    "its chain {chain} begins with it, and it names a line before"
                ));
            }
            None if *seq > 0 && self.found.head == Head::Beginning => {
                return Some(format!("its chain {chain} begins in the middle, with number {seq}"));
            }
            _ => {}
        }
        let (other, hash, place) = self.before.as_ref()?;
        let fits = match anchor {
            Some(anchor) => anchor == hash,
            None => other == chain && prev == hash,
        };
        (!fits).then(|| {
            format!("it does not follow {place}, the line before it: lines were changed, removed, inserted or moved between them")
        })
    }

    fn problem(&mut self, file: &str, line: u64, what: String) {
        self.found.problem_count += 1;
        if self.found.problems.len() < PROBLEMS_MAX {
            self.found.problems.push(LogProblem { file: file.to_owned(), line, what });
        }
    }
}
