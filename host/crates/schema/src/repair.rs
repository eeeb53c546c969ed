//! Repairs the name of a tool that a model wrote nearly right.
//!
//! The steps are those of Hermes, from the surest to the boldest. Three decisions are stricter: a
//! blank name is never repaired, where two tools are equally near none is chosen, and a name that
//! is merely like another is suggested and never taken for it, because the wrong one might run.
//!
//! What this module does not do: decide whether a repaired name may be called.

/// The longest name that is repaired, twice as long as any name may be.
const NAME_BYTES_MAX: usize = 128;
/// What a model writes after a name when it loses the thread: quotes, and the start of a tag.
const NOT_NAMES: [char; 4] = ['"', '\'', '<', '>'];
/// What a model appends to names, the longest first.
const SUFFIXES: [&str; 3] = ["_tool", "-tool", "tool"];
/// How often such a suffix is taken off.
const SUFFIXES_MAX: usize = 2;
/// How alike two names must be, at least, for one to be taken for the other.
const LIKENESS_MIN: f64 = 0.7;
/// The most names that are compared in full; the likeliest are compared first.
const COMPARED_MAX: usize = 64;

/// Finds the tool that `given` names with a slip of case or separators. `known` tells whether
/// there is a tool of a name, and `all` are the names of all tools.
///
/// In this order: what stands before a quote or an angle bracket; that in lower case; with `-`
/// and spaces as `_`; CamelCase as snake_case, and each without the suffix `tool`, up to twice;
/// last the one name that is the same in lower case. None if nothing fits, or if the name is
/// blank or longer than 128 bytes.
pub fn repair<'a>(
    given: &str,
    known: impl Fn(&str) -> bool,
    all: impl Iterator<Item = &'a str>,
) -> Option<String> {
    let given = name_in(given)?;
    if let Some(name) = candidates(given).into_iter().find(|name| known(name)) {
        return Some(name);
    }
    let mut same = all.filter(|name| normal(name) == normal(given));
    let found = same.next()?;
    same.all(|name| name == found).then(|| found.to_owned())
}

/// The one name that is most like `given`, by at least 0.7 in the measure of Ratcliff and
/// Obershelp: what it may mean, though it is another. None if two names are equally like it.
pub fn suggest<'a>(given: &str, all: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    most_alike(&name_in(given)?.to_ascii_lowercase(), all)
}

/// What is a name in what was given, if it is one.
fn name_in(given: &str) -> Option<&str> {
    let given = match given.find(NOT_NAMES) {
        Some(end) if end > 0 => &given[..end],
        _ => given,
    };
    let given = given.trim();
    (!given.is_empty() && given.len() <= NAME_BYTES_MAX).then_some(given)
}

/// What the name may have been meant to be, the likeliest first.
fn candidates(given: &str) -> Vec<String> {
    let mut names = vec![given.to_owned(), given.to_ascii_lowercase(), normal(given), snake(given)];
    for _ in 0..SUFFIXES_MAX {
        for at in 0..names.len() {
            let Some(bare) = without_suffix(&names[at]) else {
                continue;
            };
            for name in [normal(bare), snake(bare), bare.to_owned()] {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
    }
    names
}

/// In lower case, with `_` for `-` and space.
fn normal(name: &str) -> String {
    name.to_ascii_lowercase().replace(['-', ' '], "_")
}

/// CamelCase as snake_case.
fn snake(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    for (at, letter) in name.char_indices() {
        if at > 0 && letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

fn without_suffix(name: &str) -> Option<&str> {
    let bare = SUFFIXES.iter().find_map(|suffix| {
        let (bare, end) = name.split_at_checked(name.len().checked_sub(suffix.len())?)?;
        end.eq_ignore_ascii_case(suffix).then(|| bare.trim_end_matches(['_', '-']))
    })?;
    (!bare.is_empty()).then_some(bare)
}

/// The name most like `given`, which is in lower case; none if another is as much like it.
fn most_alike<'a>(given: &str, all: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let common = Common::new(given.as_bytes());
    // Most names are out by their length alone.
    let in_length =
        |name: &&str| ratio(name.len().min(given.len()), given.len() + name.len()) >= LIKENESS_MIN;
    let mut promising: Vec<(f64, &str)> = all
        .filter(in_length)
        .map(|name| (ratio(common.with(name.as_bytes()), given.len() + name.len()), name))
        .filter(|(at_most, _)| *at_most >= LIKENESS_MIN)
        .collect();
    let order = |left: &(f64, &str), right: &(f64, &str)| {
        right.0.total_cmp(&left.0).then_with(|| left.1.cmp(right.1))
    };
    if promising.len() > COMPARED_MAX {
        promising.select_nth_unstable_by(COMPARED_MAX, order);
        promising.truncate(COMPARED_MAX);
    }
    promising.sort_unstable_by(order);
    let (mut best, mut found, mut row) = (LIKENESS_MIN, None, Vec::new());
    for (at_most, name) in promising {
        if at_most < best {
            break;
        }
        let lower = name.to_ascii_lowercase();
        let matched = matched(lower.as_bytes(), given.as_bytes(), &mut row);
        let likeness = ratio(matched, given.len() + name.len());
        if likeness > best || (likeness == best && found.is_none()) {
            (best, found) = (likeness, Some(Some(name)));
        } else if likeness == best && found.flatten() != Some(name) {
            found = Some(None);
        }
    }
    found.flatten()
}

fn ratio(matched: usize, total: usize) -> f64 {
    2.0 * matched as f64 / total as f64
}

/// The bytes of a name, each as the set of its positions: finds the length of the longest common
/// subsequence with another name in one step for each byte of the other (Hyyrö, 2004). It is
/// never less than what [`matched`] finds, and far faster.
struct Common {
    positions: [u128; 256],
}

impl Common {
    fn new(name: &[u8]) -> Common {
        let mut positions = [0; 256];
        for (at, byte) in name.iter().enumerate().take(NAME_BYTES_MAX) {
            positions[usize::from(*byte)] |= 1 << at;
        }
        Common { positions }
    }

    fn with(&self, other: &[u8]) -> usize {
        let unmatched = other.iter().fold(u128::MAX, |unmatched, byte| {
            let here = unmatched & self.positions[usize::from(byte.to_ascii_lowercase())];
            unmatched.wrapping_add(here) | (unmatched - here)
        });
        unmatched.count_zeros() as usize
    }
}

/// How many bytes match as Ratcliff and Obershelp count them: those of the longest common run,
/// and of what stands to its left and to its right in both names, in the same way. Of equally
/// long runs the first in `left` counts, then the first in `right`.
fn matched(left: &[u8], right: &[u8], row: &mut Vec<usize>) -> usize {
    let (mut total, mut rest) = (0, vec![(left, right)]);
    while let Some((left, right)) = rest.pop() {
        let (left_start, right_start, length) = longest_run(left, right, row);
        if length == 0 {
            continue;
        }
        total += length;
        rest.push((&left[..left_start], &right[..right_start]));
        rest.push((&left[left_start + length..], &right[right_start + length..]));
    }
    total
}

/// Where the longest common run begins in both, and its length.
fn longest_run(left: &[u8], right: &[u8], row: &mut Vec<usize>) -> (usize, usize, usize) {
    // `row[at + 1]` is the length of the common run that ends with `right[at]`.
    row.clear();
    row.resize(right.len() + 1, 0);
    let mut longest = (0, 0, 0);
    for (left_at, left_byte) in left.iter().enumerate() {
        let mut before = 0;
        for (right_at, right_byte) in right.iter().enumerate() {
            let length = if left_byte == right_byte { before + 1 } else { 0 };
            before = std::mem::replace(&mut row[right_at + 1], length);
            if length > longest.2 {
                longest = (left_at + 1 - length, right_at + 1 - length, length);
            }
        }
    }
    longest
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    const KNOWN: [&str; 7] =
        ["read_file", "write_file", "todo", "web_search", "terminal", "mcp__x__getItem", "patch"];

    #[track_caller]
    fn check(given: &str, expected: Option<&str>) {
        let repaired = repair(given, |name| KNOWN.contains(&name), KNOWN.into_iter());
        assert_eq!(repaired.as_deref(), expected, "{given:?}");
    }

    #[test]
    fn what_follows_a_name_is_cut() {
        check("read_file", Some("read_file"));
        check(r#"read_file" id="1"#, Some("read_file"));
        check("read_file<arg>", Some("read_file"));
        check("todo'", Some("todo"));
        check(&format!("todo>{}", "x".repeat(1_000)), Some("todo"));
        check("\"weather\"", None);
    }

    #[test]
    fn case_and_separators_are_put_right() {
        check("READ_FILE", Some("read_file"));
        check("Web-Search", Some("web_search"));
        check("mcp__x__getitem", Some("mcp__x__getItem"));
        check("web search", Some("web_search"));
        check(" todo ", Some("todo"));
    }

    #[test]
    fn camel_case_and_suffixes_are_put_right() {
        check("ReadFile", Some("read_file"));
        check("webSearch", Some("web_search"));
        check("todo_tool", Some("todo"));
        check("todo-tool", Some("todo"));
        check("TodoTool", Some("todo"));
        check("TodoTool_tool", Some("todo"));
        check("WebSearchTool_tool", Some("web_search"));
        assert!(!candidates("todo_tool_tool_tool").contains(&"todo".to_owned()));
    }

    #[test]
    fn near_names_are_suggested() {
        let check = |given: &str, expected: Option<&str>| {
            check(given, None);
            assert_eq!(suggest(given, KNOWN.into_iter()), expected, "{given:?}");
        };
        check("red_file", Some("read_file"));
        check("terminl", Some("terminal"));
        check("web_serch_tool", Some("web_search"));
        check("weather", None);
    }

    #[test]
    fn nothing_is_guessed() {
        for given in ["", " ", "\t\n", "_", "<", "日本", &"read_file".repeat(20)] {
            check(given, None);
        }
        let pair = ["item_a", "item_b"];
        assert_eq!(suggest("item_x", pair.into_iter()), None);
        assert_eq!(suggest("item_x", ["item_a", "item_a"].into_iter()), Some("item_a"));
        // Two that are the same but for case.
        let pair = ["itemA", "Itema"];
        assert_eq!(repair("ITEMA", |_| false, pair.into_iter()), None);
    }

    #[test]
    fn likeness_is_that_of_ratcliff_and_obershelp() {
        // Against Python's `difflib.SequenceMatcher(None, left, right)`.
        let likeness = |left: &str, right: &str| {
            let (left, right) = (left.as_bytes(), right.as_bytes());
            let matched = matched(left, right, &mut Vec::new());
            assert!(Common::new(right).with(left) >= matched);
            ratio(matched, left.len() + right.len())
        };
        assert_eq!(likeness("diet", "tide"), 0.5);
        assert_eq!(likeness("tide", "diet"), 0.25);
        assert_eq!(likeness("abycdf", "qabxcd"), 2.0 / 3.0);
        assert_eq!(likeness("read_file", "red_file"), 16.0 / 17.0);
        assert_eq!(likeness("abc", "xyz"), 0.0);
    }

    #[test]
    fn ten_thousand_names_take_milliseconds() {
        let names: Vec<String> = (0..10_000).map(|n| format!("mcp__server__tool_{n:05}")).collect();
        let started = Instant::now();
        for given in ["mcp__server__tool_x0042", "looc__revres__pcm_12345"] {
            repair(given, |_| false, names.iter().map(String::as_str));
            suggest(given, names.iter().map(String::as_str));
        }
        assert!(started.elapsed() < Duration::from_secs(5), "however slow the machine");
    }
}
