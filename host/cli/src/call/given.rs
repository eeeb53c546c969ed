//! What calls are given in files and on stdin. Whoever types a name means the file, wherever links
//! lead, but not that a device without an end is read: nothing is read further than a limit.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

use crate::failure::Failure;
use toolhost_core::limits::{Bytes, Limits};

/// A text as it was typed, of a file (`@FILE`), or of stdin (`-`).
pub(crate) fn text(given: &str, allowed: Bytes) -> Result<String, Failure> {
    match given.strip_prefix('@') {
        Some(file) => of_file(file, allowed),
        None if given == "-" => whole("stdin", io::stdin().lock(), allowed),
        None => Ok(given.to_owned()),
    }
}

/// The text of a file.
pub(super) fn of_file(file: &str, allowed: Bytes) -> Result<String, Failure> {
    let what = format!("the file {file}");
    whole(&what, File::open(file).map_err(|error| unreadable(&what, error))?, allowed)
}

fn whole(what: &str, source: impl Read, allowed: Bytes) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let read = source.take(allowed.0.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|error| unreadable(what, error))?;
    if bytes.len() as u64 > allowed.0 {
        let allowed = allowed.0;
        return Err(Failure::usage(format!(
            "{what} has more than the {allowed} bytes that `arguments_bytes_max` allows"
        )));
    }
    String::from_utf8(bytes).map_err(|_| unreadable(what, "it is not UTF-8 text"))
}

/// The lines of a file, or of stdin (`-`), that are not empty, each with its number.
pub(super) fn lines(file: &str, limits: &Limits) -> Result<Vec<(usize, String)>, Failure> {
    if file == "-" {
        return lines_of("stdin", io::stdin().lock(), limits);
    }
    let what = format!("the file {file}");
    let opened = File::open(file).map_err(|error| unreadable(&what, error))?;
    lines_of(&what, BufReader::new(opened), limits)
}

fn lines_of(
    what: &str,
    mut source: impl BufRead,
    limits: &Limits,
) -> Result<Vec<(usize, String)>, Failure> {
    let (calls_max, line_bytes_max) = (limits.batch_lines_max.0, limits.message_bytes_max());
    let mut lines = Vec::new();
    for number in 1.. {
        let mut line = Vec::new();
        let mut part = source.by_ref().take((line_bytes_max as u64).saturating_add(1));
        let read = part.read_until(b'\n', &mut line).map_err(|error| unreadable(what, error))?;
        if read == 0 {
            break;
        }
        if line.len() > line_bytes_max {
            let allowed = limits.arguments_bytes_max.0;
            return Err(Failure::usage(format!(
                "line {number} of {what} has more than {line_bytes_max} bytes, which no call has with arguments within `arguments_bytes_max` of {allowed}"
            )));
        }
        let line = String::from_utf8(line)
            .map_err(|_| unreadable(what, format!("line {number} is not UTF-8 text")))?;
        if line.trim().is_empty() {
            continue;
        }
        if lines.len() == calls_max {
            return Err(Failure::usage(format!(
                "{what} has more calls than `batch_lines_max` of {calls_max}; split it"
            )));
        }
        lines.push((number, line));
    }
    Ok(lines)
}

fn unreadable(what: &str, error: impl std::fmt::Display) -> Failure {
    Failure::usage(format!("{what} cannot be read: {error}"))
}
