//! The reading half of the file tools: `read_file` and `search_files`, in the toolset `file`.
//!
//! The plugin asks to read whichever directory the operator grants. Refusing devices and
//! credential files here is defence in depth: what was not granted cannot be read anyway.

mod guard;
mod read;
mod search;

use serde_json::Value;
use toolhost_sdk::{Error, Json, Need, arguments, plugin, tool};

/// What to read.
#[arguments]
pub struct Read {
    /// The file, such as `README.md` or an absolute path.
    path: String,
    /// The first line to show, counted from 1.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    offset: usize,
    /// The most lines to show.
    #[serde(default = "five_hundred")]
    #[schemars(range(min = 1, max = 2_000))]
    limit: usize,
}

/// Reads a text file, with line numbers and in pages.
///
/// Each line of `content` is `N|text`; lines over 2,000 characters are cut. A page has at most
/// 100,000 characters; where it ends early, `hint` and `next_offset` say how to go on. Use
/// search_files to find the place first, instead of reading large files whole.
#[tool(
    toolset = "file",
    emoji = "📖",
    read_only,
    idempotent,
    open_world = false,
    max_result_size_chars = 100_000
)]
pub fn read_file(arguments: Read) -> Result<Json<Value>, Error> {
    read::run(&arguments.path, arguments.offset, arguments.limit).map(Json)
}

/// What is searched.
#[arguments]
#[derive(Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// Lines of files that match a regular expression.
    #[serde(alias = "grep")]
    Content,
    /// Files whose names match a glob.
    #[serde(alias = "find")]
    Files,
}

/// What is returned of a search in the content of files.
#[arguments]
#[derive(Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum OutputMode {
    /// The matching lines.
    Content,
    /// The files that have any.
    FilesOnly,
    /// How many each file has.
    Count,
}

/// What to search for.
#[arguments]
pub struct Search {
    /// A regular expression for `content`, such as `fn \w+_test`; a glob for `files`, such as
    /// `*.rs`.
    pattern: String,
    /// What to search.
    #[serde(default = "content")]
    target: Target,
    /// The directory or file to search.
    #[serde(default = "here")]
    path: String,
    /// Search only files whose names match this glob, such as `*.py`.
    file_glob: Option<String>,
    /// The most results to return.
    #[serde(default = "fifty")]
    #[schemars(range(min = 1, max = 1_000))]
    limit: usize,
    /// How many results to leave out at the beginning.
    #[serde(default)]
    offset: usize,
    /// What to return of a search in content.
    #[serde(default = "lines")]
    output_mode: OutputMode,
    /// How many lines to show around each match.
    #[serde(default)]
    #[schemars(range(max = 20))]
    context: usize,
}

/// Searches the content of files for a regular expression, or file names for a glob.
///
/// Hidden files and what .gitignore names are left out. Searching is by line; a file list is
/// sorted with the newest file first.
#[tool(
    toolset = "file",
    emoji = "🔦",
    read_only,
    idempotent,
    open_world = false,
    max_result_size_chars = 100_000
)]
pub fn search_files(arguments: Search) -> Result<Json<Value>, Error> {
    search::run(&arguments).map(Json)
}

plugin! {
    tools: [read_file, search_files],
    needs: [Need::read_directory("*").reason("to read and search the files you grant")],
}

fn one() -> usize {
    1
}

fn five_hundred() -> usize {
    500
}

fn fifty() -> usize {
    50
}

fn here() -> String {
    ".".to_owned()
}

fn content() -> Target {
    Target::Content
}

fn lines() -> OutputMode {
    OutputMode::Content
}

#[cfg(test)]
mod tests;
