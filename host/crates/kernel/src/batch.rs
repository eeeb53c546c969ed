//! Plans a batch of calls: which of them may run beside their neighbours, and which wait.
//!
//! The order of a batch is kept: it falls into runs of neighbours, one run after the other.
//! Calls that touch files share a run only if their paths do not overlap, as far as the texts
//! tell. What this module does not do: look at a file system, where a link may lead one path into
//! another, or run anything.

use std::collections::BTreeSet;
use std::ops::Bound::{Included, Unbounded};
use std::ops::Range;

use serde_json::{Map, Value};

/// Tools that run beside any others: they only look.
const PARALLEL: [&str; 10] = [
    "ha_get_state",
    "ha_list_entities",
    "ha_list_services",
    "search_files",
    "session_search",
    "skill_view",
    "skills_list",
    "vision_analyze",
    "web_extract",
    "web_search",
];
/// Tools that never run beside others: a person is asked one thing at a time.
const ALONE: [&str; 1] = ["clarify"];
/// The longest path that is understood, as long as the longest on Linux.
const PATH_BYTES_MAX: usize = 4_096;

/// How one call may run beside others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// Beside any call that does not have to be alone.
    Parallel,
    /// Like [`CallKind::Parallel`], but beside no call that touches the same files.
    ///
    /// The paths are canonical: without `.`, `..` and double slashes, with `/` at the end, and
    /// with `./` before relative ones. So one lies in another if it begins with it.
    Paths(Vec<String>),
    /// Beside no other call.
    Alone,
}

/// What is known of one call before it runs.
#[derive(Clone, Copy, Debug)]
pub struct CallFacts<'a> {
    /// The tool's name.
    pub tool: &'a str,
    /// The arguments, coerced.
    pub arguments: &'a Map<String, Value>,
    /// Whether the tool has no authority, or none but reading directories.
    pub harmless: bool,
    /// Whether the operator configured the tool's MCP server to take calls at the same time.
    pub server_parallel: bool,
}

/// Decides how a call may run beside others.
///
/// `clarify` runs alone. `read_file`, `write_file` and `patch` have the paths in their
/// arguments, also those in the headers of a patch; if one is missing or cannot be understood,
/// they run alone. A few tools that only look, tools without authority or with none but reading
/// directories, and those of MCP servers configured so run in parallel. All others run alone.
pub fn kind(facts: &CallFacts<'_>) -> CallKind {
    if ALONE.contains(&facts.tool) {
        return CallKind::Alone;
    }
    let argument = |name: &str| facts.arguments.get(name).and_then(Value::as_str);
    let one = |path: Option<&str>| canonical(path?).map(|path| vec![path]);
    let paths = match facts.tool {
        "read_file" | "write_file" => one(argument("path")),
        "patch" => match facts.arguments.get("mode").map(Value::as_str) {
            None | Some(Some("replace")) => one(argument("path")),
            Some(Some("patch")) => argument("patch").and_then(patched),
            Some(_) => None,
        },
        tool => {
            let parallel = facts.harmless || facts.server_parallel || PARALLEL.contains(&tool);
            return if parallel { CallKind::Parallel } else { CallKind::Alone };
        }
    };
    paths.map_or(CallKind::Alone, CallKind::Paths)
}

/// Divides a batch into runs of neighbours that may go together, in the order of the batch.
///
/// Two calls with paths share a run if no path of one equals, contains or lies in one of the
/// other, even if both only read. A relative path and an absolute one count as overlapping,
/// because what the relative one is relative to is not known here.
pub fn runs(kinds: &[CallKind]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    let (mut open, mut taken) = (false, PathsTaken::default());
    for (at, kind) in kinds.iter().enumerate() {
        let paths = match kind {
            CallKind::Paths(paths) => paths.as_slice(),
            CallKind::Parallel | CallKind::Alone => &[],
        };
        match runs.last_mut() {
            Some(run) if open && *kind != CallKind::Alone && !taken.overlap(paths) => {
                run.end = at + 1
            }
            _ => {
                runs.push(at..at + 1);
                taken = PathsTaken::default();
            }
        }
        taken.take(paths);
        open = *kind != CallKind::Alone;
    }
    runs
}

/// The paths of a run. None of them lies in another, so that the one before a path, in the order
/// of texts, is the only one that it can lie in.
#[derive(Default)]
struct PathsTaken<'a> {
    paths: BTreeSet<&'a str>,
    absolute: bool,
    relative: bool,
}

impl<'a> PathsTaken<'a> {
    fn overlap(&self, paths: &[String]) -> bool {
        paths.iter().any(|path| {
            let other_form = if is_absolute(path) { self.relative } else { self.absolute };
            other_form || self.around(path).is_some() || self.within(path).is_some()
        })
    }

    fn take(&mut self, paths: &'a [String]) {
        for path in paths {
            if is_absolute(path) {
                self.absolute = true;
            } else {
                self.relative = true;
            }
            if self.around(path).is_some() {
                continue;
            }
            while let Some(inner) = self.within(path) {
                self.paths.remove(inner);
            }
            self.paths.insert(path);
        }
    }

    /// The path that is or contains `path`.
    fn around(&self, path: &str) -> Option<&'a str> {
        let before = self.paths.range::<str, _>((Unbounded, Included(path))).next_back().copied();
        before.filter(|outer| path.starts_with(outer))
    }

    /// The first path that is or lies in `path`.
    fn within(&self, path: &str) -> Option<&'a str> {
        let after = self.paths.range::<str, _>((Included(path), Unbounded)).next().copied();
        after.filter(|inner| inner.starts_with(path))
    }
}

fn is_absolute(canonical: &str) -> bool {
    canonical.starts_with('/')
}

/// The path in canonical form, see [`CallKind::Paths`]. None if it is blank or too long, or leads out
/// of what it is relative to, so that nobody knows here where it leads.
fn canonical(path: &str) -> Option<String> {
    let path = path.trim();
    if path.is_empty() || path.len() > PATH_BYTES_MAX || path.starts_with('~') {
        return None;
    }
    let absolute = is_absolute(path);
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.pop().is_none() && !absolute => return None,
            ".." => {}
            part => parts.push(part),
        }
    }
    let root = if absolute { "/" } else { "./" };
    Some(parts.into_iter().fold(root.to_owned(), |path, part| path + part + "/"))
}

/// The paths in the headers of a patch in V4A form, both ends of moves included. None if there
/// are none, or a header or path is not understood.
fn patched(patch: &str) -> Option<Vec<String>> {
    let mut paths = Vec::new();
    for line in patch.lines() {
        let Some(header) = line.trim_start().strip_prefix("***") else {
            continue;
        };
        let (words, rest) = header.split_once(':').unwrap_or((header, ""));
        let words: Vec<String> = words.split_whitespace().map(str::to_ascii_lowercase).collect();
        match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["begin" | "end", "patch"] | ["end", "of", "file"] => {}
            ["update" | "add" | "delete", "file"] | ["move", "to"] => paths.push(canonical(rest)?),
            ["move", "file"] => {
                let (from, to) = rest.split_once("->")?;
                paths.extend([canonical(from)?, canonical(to)?]);
            }
            _ => return None,
        }
    }
    (!paths.is_empty()).then_some(paths)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(tool: &str, arguments: Value) -> CallKind {
        let Value::Object(arguments) = arguments else { panic!("an object") };
        kind(&CallFacts { tool, arguments: &arguments, harmless: false, server_parallel: false })
    }

    fn read(path: &str) -> CallKind {
        of("read_file", json!({ "path": path }))
    }

    fn paths(paths: &[&str]) -> CallKind {
        CallKind::Paths(paths.iter().map(|path| (*path).to_owned()).collect())
    }

    #[test]
    fn calls_have_a_kind() {
        assert_eq!(of("web_search", json!({})), CallKind::Parallel);
        assert_eq!(of("terminal", json!({ "path": "a" })), CallKind::Alone);
        assert_eq!(of("clarify", json!({})), CallKind::Alone);
        let arguments = Map::new();
        let facts =
            CallFacts { tool: "t", arguments: &arguments, harmless: true, server_parallel: false };
        assert_eq!(kind(&facts), CallKind::Parallel);
        assert_eq!(
            kind(&CallFacts { harmless: false, server_parallel: true, ..facts }),
            CallKind::Parallel
        );
        assert_eq!(
            kind(&CallFacts { tool: "clarify", server_parallel: true, ..facts }),
            CallKind::Alone
        );
        assert_eq!(kind(&CallFacts { tool: "read_file", ..facts }), CallKind::Alone);
    }

    #[test]
    fn paths_are_normalised() {
        assert_eq!(read("a/./b//../c"), paths(&["./a/c/"]));
        assert_eq!(read(" ./a/ "), paths(&["./a/"]));
        assert_eq!(read("/../a"), paths(&["/a/"]));
        assert_eq!(read("/"), paths(&["/"]));
        assert_eq!(read("."), paths(&["./"]));
        for path in ["", " ", "../a", "a/../../a", "~/a", &"a".repeat(5_000)] {
            assert_eq!(read(path), CallKind::Alone, "{path}");
        }
        assert_eq!(of("write_file", json!({ "path": 5 })), CallKind::Alone);
    }

    #[test]
    fn patches_have_the_paths_of_their_headers() {
        assert_eq!(of("patch", json!({ "path": "a" })), paths(&["./a/"]));
        assert_eq!(of("patch", json!({ "mode": "replace", "path": "a" })), paths(&["./a/"]));
        let patch =
            |text: &str| of("patch", json!({ "mode": "patch", "path": "z", "patch": text }));
        assert_eq!(
            patch(
                "*** Begin Patch\n*** Update File: a\n*** Move to: b\n@@\n-x\n+*** y\n\
                 *** Add File: c/d\n+x\n***Delete  File: e\r\n*** Move File: f -> g\n*** End Patch"
            ),
            paths(&["./a/", "./b/", "./c/d/", "./e/", "./f/", "./g/"])
        );
        assert_eq!(patch("*** Begin Patch\n*** End Patch"), CallKind::Alone);
        assert_eq!(patch("*** Update File: a\n*** Rename File: a"), CallKind::Alone);
        assert_eq!(patch("*** Update File: a\n*** Move to: ../b"), CallKind::Alone);
        assert_eq!(patch("*** Update File:\n"), CallKind::Alone);
        assert_eq!(of("patch", json!({ "mode": "patch", "path": "a" })), CallKind::Alone);
        assert_eq!(of("patch", json!({ "mode": "other", "path": "a" })), CallKind::Alone);
        assert_eq!(of("patch", json!({ "mode": null, "path": "a" })), CallKind::Alone);
    }

    #[track_caller]
    fn check(kinds: &[CallKind], expected: &str) {
        let runs: Vec<String> = runs(kinds).iter().map(|run| format!("{run:?}")).collect();
        assert_eq!(runs.join(" "), expected);
    }

    #[test]
    fn runs_keep_the_order() {
        use CallKind::{Alone, Parallel};
        check(&[], "");
        check(&[Parallel, Parallel, Parallel], "0..3");
        check(&[Alone, Alone], "0..1 1..2");
        check(&[Parallel, Alone, Parallel, read("a")], "0..1 1..2 2..4");
    }

    #[test]
    fn overlapping_paths_share_no_run() {
        check(&[read("a"), read("b"), CallKind::Parallel, read("ab")], "0..4");
        check(&[read("a"), read("./a")], "0..1 1..2");
        check(&[read("a/b"), read("c"), read("a"), read("a/c")], "0..2 2..3 3..4");
        check(&[read("/"), read("/a"), read("/b")], "0..1 1..3");
        check(&[read("."), read("a")], "0..1 1..2");
        check(&[read("a"), read("/b"), read("/c")], "0..1 1..3");
        check(&[read("a-b"), read("a/x"), read("a")], "0..2 2..3");
        let wide = paths(&["./a/b/", "./a/", "./a/c/", "./z/"]);
        check(&[wide.clone(), read("y"), read("a/d")], "0..2 2..3");
        check(&[read("a/d"), read("y"), wide], "0..2 2..3");
    }

    #[test]
    fn large_batches_are_planned_quickly() {
        let deep = "a/".repeat(2_000);
        let kinds: Vec<CallKind> = (0..5_000).map(|n| read(&format!("{deep}{n}"))).collect();
        check(&kinds, "0..5000");
    }
}
