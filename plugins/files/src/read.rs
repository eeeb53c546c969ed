//! `read_file`: a page of numbered lines, read without ever holding more than the page.

use std::fs::File;
use std::io::{BufRead, BufReader};

use serde_json::{Value, json};
use toolhost_sdk::Error;

use crate::guard;

/// Characters of one page, line numbers included.
const PAGE_CHARS_MAX: usize = 100_000;
/// Characters of one line.
const LINE_CHARS_MAX: usize = 2_000;
/// Bytes of one line that are kept, enough for its characters.
const LINE_BYTES_MAX: usize = 4 * (LINE_CHARS_MAX + 1);
/// Bytes looked at to tell text from the rest.
const SAMPLE_BYTES: usize = 1_000;
/// From this size on a hint says that a file is large.
const LARGE_FILE_BYTES: u64 = 512_000;

pub(crate) fn run(path: &str, offset: usize, limit: usize) -> Result<Value, Error> {
    if offset == 0 {
        return Err(Error::bad_argument("/offset", "lines are counted from 1"));
    }
    if !(1..=2_000).contains(&limit) {
        return Err(Error::bad_argument("/limit", format!("{limit} is not in 1 to 2000")));
    }
    guard::check_path(path)?;
    let metadata =
        std::fs::metadata(path).map_err(|error| guard::not_there("File", path, &error))?;
    if metadata.is_dir() {
        return Err(Error::failed(format!(
            "Cannot read '{path}': it is a directory. Use search_files with target \"files\" to list it."
        )));
    }
    if !metadata.is_file() {
        return Err(Error::failed(format!(
            "Cannot read '{path}': it is a pipe, a socket or a device, not a regular file."
        )));
    }
    let file = File::open(path).map_err(|error| guard::not_there("File", path, &error))?;
    let mut reader = BufReader::with_capacity(64 << 10, file);
    if is_binary(reader.fill_buf()?) {
        return Err(Error::failed(format!(
            "Cannot read binary file '{path}': more than 30 % of its beginning is not text. Use \
             terminal to inspect binary files."
        )));
    }
    let page = Page::read(&mut reader, offset, limit)?;
    Ok(page.to_json(offset, limit, metadata.len()))
}

struct Page {
    content: String,
    /// Lines shown.
    shown: usize,
    /// Lines of the whole file.
    total: usize,
    /// The page was full before `limit` was reached.
    full: bool,
}

impl Page {
    fn read(reader: &mut impl BufRead, offset: usize, limit: usize) -> Result<Page, Error> {
        let mut page = Page { content: String::new(), shown: 0, total: 0, full: false };
        let mut chars = 0;
        while let Some(line) = next_line(reader)? {
            page.total += 1;
            let wanted = page.total >= offset && page.shown < limit && !page.full;
            if !wanted {
                continue;
            }
            let text = format!("{}|{}", page.total, cut(&line));
            let more = text.chars().count() + usize::from(page.shown > 0);
            if chars + more > PAGE_CHARS_MAX {
                page.full = true;
                continue;
            }
            if page.shown > 0 {
                page.content.push('\n');
            }
            page.content.push_str(&text);
            page.shown += 1;
            chars += more;
        }
        Ok(page)
    }

    fn to_json(&self, offset: usize, limit: usize, file_size: u64) -> Value {
        let Page { content, shown, total, full } = self;
        let next = offset + shown;
        let truncated = *shown > 0 && next <= *total;
        let mut answer = json!({
            "content": content,
            "total_lines": total,
            "file_size": file_size,
            "truncated": truncated,
            "is_binary": false,
            "is_image": false,
        });
        if truncated {
            let last = next - 1;
            answer["next_offset"] = json!(next);
            if *full {
                answer["truncated_by"] = json!("bytes");
                answer["hint"] = json!(format!(
                    "Output truncated at the 100,000-char read budget after {shown} line(s) (showing lines {offset}-{last} of {total}). Use offset={next} to continue."
                ));
            } else {
                answer["hint"] = json!(format!(
                    "Use offset={next} to continue reading (showing {offset}-{last} of {total} lines)"
                ));
            }
            if file_size > LARGE_FILE_BYTES && limit > 200 {
                answer["_hint"] = json!(format!(
                    "This file is large ({file_size} bytes). Use search_files to find the lines you need, and read a small range around them."
                ));
            }
        } else if *shown == 0 && offset > 1 {
            answer["hint"] =
                json!(format!("offset={offset} is past the end: the file has {total} line(s)"));
        }
        answer
    }
}

/// The next line without its line break, of which at most a bounded part is kept.
fn next_line(reader: &mut impl BufRead) -> Result<Option<Vec<u8>>, Error> {
    let (mut line, mut any) = (Vec::new(), false);
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(any.then_some(line));
        }
        any = true;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let part = &buffer[..end.unwrap_or(buffer.len())];
        let room = LINE_BYTES_MAX.saturating_sub(line.len());
        line.extend_from_slice(&part[..part.len().min(room)]);
        let consumed = part.len() + usize::from(end.is_some());
        reader.consume(consumed);
        if end.is_some() {
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            return Ok(Some(line));
        }
    }
}

fn cut(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    match text.char_indices().nth(LINE_CHARS_MAX) {
        None => text.into_owned(),
        Some((end, _)) => format!("{}... [truncated]", &text[..end]),
    }
}

fn is_binary(beginning: &[u8]) -> bool {
    let sample = String::from_utf8_lossy(&beginning[..beginning.len().min(SAMPLE_BYTES)]);
    let count = sample.chars().count();
    // The end of the sample may lie within a character.
    let strange = |letter: &char| {
        *letter == char::REPLACEMENT_CHARACTER
            || (letter.is_control()
                && !matches!(letter, '\n' | '\r' | '\t' | '\u{c}' | '\u{8}' | '\u{1b}'))
    };
    let strange = sample.chars().filter(strange).count();
    count > 0 && strange * 10 > count * 3
}
