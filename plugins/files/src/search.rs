//! `search_files`: lines by regular expression and files by glob, with ripgrep's own parts.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::SystemTime;

use globset::{Glob, GlobMatcher};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use ignore::WalkBuilder;
use serde_json::{Value, json};
use toolhost_sdk::Error;

use crate::{OutputMode, Search, Target, guard};

/// Characters of one line of a result.
const LINE_CHARS_MAX: usize = 500;
/// Matches counted; a search for everything must end.
const MATCHES_MAX: usize = 100_000;
/// From this many matches on, they are returned as one text.
const DENSE_FROM: usize = 5;
/// Memory of the compiled expression.
const REGEX_BYTES_MAX: usize = 10 << 20;

pub(crate) fn run(search: &Search) -> Result<Value, Error> {
    if !(1..=1_000).contains(&search.limit) {
        let message = format!("{} is not in 1 to 1000", search.limit);
        return Err(Error::bad_argument("/limit", message));
    }
    std::fs::metadata(&search.path)
        .map_err(|error| guard::not_there("Path", &search.path, &error))?;
    match search.target {
        Target::Files => files(search),
        Target::Content => content(search),
    }
}

fn files(search: &Search) -> Result<Value, Error> {
    let has_glob = search.pattern.contains(['*', '?', '[', '{']);
    let pattern = if has_glob { search.pattern.clone() } else { format!("*{}*", search.pattern) };
    let glob = glob("/pattern", &pattern)?;
    let filter = file_glob(search)?;
    let (mut found, mut unread) = (Vec::new(), Unread::default());
    for path in walk(&search.path) {
        let Some(path) = unread.note(path) else { continue };
        let matches = name_matches(&glob, &path)
            && filter.as_ref().is_none_or(|filter| name_matches(filter, &path));
        if matches {
            let modified = std::fs::metadata(&path).and_then(|metadata| metadata.modified());
            found.push((modified.unwrap_or(SystemTime::UNIX_EPOCH), path));
        }
        if found.len() >= MATCHES_MAX {
            break;
        }
    }
    found.sort_by(|left, right| right.0.cmp(&left.0).then_with(|| left.1.cmp(&right.1)));
    let total = found.len();
    let files: Vec<String> =
        found.into_iter().skip(search.offset).take(search.limit).map(|(_, path)| path).collect();
    let mut answer = json!({ "total_count": total, "files": files });
    note_rest(&mut answer, search, total);
    unread.put(&mut answer);
    Ok(answer)
}

/// Places that could not be listed or read; the answer says so, since they may hold more.
#[derive(Default)]
struct Unread {
    count: usize,
    first: String,
}

impl Unread {
    fn note<T>(&mut self, result: Result<T, String>) -> Option<T> {
        result
            .inspect_err(|error| {
                if self.count == 0 {
                    self.first = error.clone();
                }
                self.count += 1;
            })
            .ok()
    }

    fn put(&self, answer: &mut Value) {
        if self.count > 0 {
            answer["_unread"] = json!(format!(
                "{} place(s) could not be listed or read, and may hold more; the first: {}",
                self.count, self.first
            ));
        }
    }
}

fn content(search: &Search) -> Result<Value, Error> {
    let matcher = matcher(&search.pattern)?;
    let filter = file_glob(search)?;
    let mut searcher = SearcherBuilder::new()
        .line_number(true)
        .binary_detection(BinaryDetection::quit(0))
        .before_context(search.context.min(20))
        .after_context(search.context.min(20))
        .build();
    let mut found = Found::default();
    let (mut omitted, mut unread) = (0, Unread::default());
    for path in walk(&search.path) {
        let Some(path) = unread.note(path) else { continue };
        if filter.as_ref().is_some_and(|filter| !name_matches(filter, &path)) {
            continue;
        }
        if guard::is_credential(Path::new(&path)) {
            omitted += 1;
            continue;
        }
        let sink = FileSink { path: &path, found: &mut found };
        let searched = searcher.search_path(&matcher, Path::new(&path), sink);
        unread.note(searched.map_err(|error| format!("{path}: {error}")));
        if found.total >= MATCHES_MAX {
            break;
        }
    }
    let mut answer = found.to_json(search);
    if omitted > 0 {
        answer["_omitted"] = json!(format!("{omitted} credential file(s) were not searched"));
    }
    unread.put(&mut answer);
    Ok(answer)
}

/// What was found so far, in order.
#[derive(Default)]
struct Found {
    total: usize,
    /// Path, line number, text, and whether it is a match or stands around one.
    lines: Vec<(String, u64, String, bool)>,
    counts: BTreeMap<String, usize>,
}

impl Found {
    fn to_json(&self, search: &Search) -> Value {
        let (skip, take) = (search.offset, search.limit);
        let mut answer = json!({ "total_count": self.total });
        let total = match search.output_mode {
            OutputMode::FilesOnly => {
                answer["files"] = self.counts.keys().skip(skip).take(take).cloned().collect();
                self.counts.len()
            }
            OutputMode::Count => {
                let counts = self.counts.iter().skip(skip).take(take);
                answer["counts"] =
                    counts.map(|(path, count)| (path.clone(), json!(count))).collect();
                self.counts.len()
            }
            OutputMode::Content => {
                self.put_lines(&mut answer, search);
                self.total
            }
        };
        note_rest(&mut answer, search, total);
        answer
    }

    fn put_lines(&self, answer: &mut Value, search: &Search) {
        let page = self.page(search.offset, search.limit);
        let dense = search.context > 0 || page.iter().filter(|line| line.3).count() >= DENSE_FROM;
        if dense {
            let text = |(path, line, text, is_match): &(String, u64, String, bool)| {
                let mark = if *is_match { ':' } else { '-' };
                format!("{path}{mark}{line}{mark}{text}")
            };
            answer["matches_text"] = json!(page.iter().map(text).collect::<Vec<_>>().join("\n"));
        } else {
            let object = |(path, line, text, _): &(String, u64, String, bool)| json!({ "path": path, "line": line, "content": text });
            answer["matches"] = page.iter().map(object).collect();
        }
    }

    /// The lines of the matches from `skip` on, with what stands around them.
    fn page(&self, skip: usize, take: usize) -> &[(String, u64, String, bool)] {
        let place = |nth: usize| {
            let mut matches = self.lines.iter().enumerate().filter(|(_, line)| line.3);
            matches.nth(nth).map_or(self.lines.len(), |(index, _)| index)
        };
        let start = if skip == 0 { 0 } else { place(skip) };
        &self.lines[start..place(skip.saturating_add(take)).max(start)]
    }

    fn add(&mut self, path: &str, line: Option<u64>, bytes: &[u8], is_match: bool) {
        let text = String::from_utf8_lossy(bytes);
        let text: String =
            text.trim_end_matches(['\n', '\r']).chars().take(LINE_CHARS_MAX).collect();
        self.lines.push((path.to_owned(), line.unwrap_or_default(), text, is_match));
    }
}

struct FileSink<'a> {
    path: &'a str,
    found: &'a mut Found,
}

impl Sink for FileSink<'_> {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, line: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        self.found.total += 1;
        *self.found.counts.entry(self.path.to_owned()).or_default() += 1;
        self.found.add(self.path, line.line_number(), line.bytes(), true);
        Ok(self.found.total < MATCHES_MAX)
    }

    fn context(&mut self, _: &Searcher, line: &SinkContext<'_>) -> Result<bool, Self::Error> {
        self.found.add(self.path, line.line_number(), line.bytes(), false);
        Ok(true)
    }
}

fn matcher(pattern: &str) -> Result<RegexMatcher, Error> {
    let mut builder = RegexMatcherBuilder::new();
    builder.line_terminator(Some(b'\n')).size_limit(REGEX_BYTES_MAX);
    builder.build(pattern).map_err(|error| {
        let hint = if pattern.contains("\\n") {
            ". The search is by line: search for a part that stands on one line"
        } else {
            ". To search for the text itself, escape characters such as ( [ { . * + ? with \\"
        };
        Error::bad_argument("/pattern", format!("not a regular expression: {error}{hint}"))
    })
}

fn file_glob(search: &Search) -> Result<Option<GlobMatcher>, Error> {
    search.file_glob.as_ref().map(|pattern| glob("/file_glob", pattern)).transpose()
}

fn glob(argument: &str, pattern: &str) -> Result<GlobMatcher, Error> {
    let glob = Glob::new(pattern)
        .map_err(|error| Error::bad_argument(argument, format!("not a glob: {error}")))?;
    Ok(glob.compile_matcher())
}

/// Against the name, and for a glob with a slash against the path.
fn name_matches(glob: &GlobMatcher, path: &str) -> bool {
    let path = Path::new(path);
    let bare = path.strip_prefix("./").unwrap_or(path);
    path.file_name().is_some_and(|name| glob.is_match(name)) || glob.is_match(bare)
}

/// The regular files below a path, in order; without hidden ones and those that are ignored.
fn walk(path: &str) -> impl Iterator<Item = Result<String, String>> {
    let walk = WalkBuilder::new(path)
        .parents(false)
        .require_git(false)
        .git_global(false)
        .sort_by_file_path(Path::cmp)
        .build();
    walk.filter_map(|entry| match entry {
        Ok(entry) if entry.file_type().is_some_and(|kind| kind.is_file()) => {
            let path = entry.path();
            Some(Ok(path.strip_prefix("./").unwrap_or(path).to_string_lossy().into_owned()))
        }
        Ok(_) => None,
        Err(error) => Some(Err(error.to_string())),
    })
}

fn note_rest(answer: &mut Value, search: &Search, total: usize) {
    let next = search.offset.saturating_add(search.limit);
    if next < total {
        answer["truncated"] = json!(true);
        answer["next_offset"] = json!(next);
    } else if search.offset > 0 && search.offset >= total {
        answer["hint"] =
            json!(format!("offset={} is past the end: there are {total}", search.offset));
    }
}
