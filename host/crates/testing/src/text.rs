//! What programs print, without what is another number each time.

use std::sync::LazyLock;

use regex::Regex;

/// Where in a guest's source something happened is of no concern.
pub(crate) fn without_line_numbers(text: &str) -> String {
    let mut parts = text.split("lib.rs:");
    let mut stable = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        stable.push_str("lib.rs:");
        stable.push_str(
            part.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == ':'),
        );
    }
    stable
}

/// What a command prints of times, on a machine of any speed: their numbers, the width of the
/// column they stand in, and notes that there are only where something takes long.
pub fn without_times(text: &str) -> String {
    let (mut lines, mut slow, mut in_table) = (Vec::new(), 0, false);
    for line in TIMES.replace_all(text, "N ms").lines() {
        in_table = (in_table || line.starts_with("TOOL ")) && !line.is_empty();
        if line.starts_with("note[time] ") {
            slow += 1;
        } else if in_table {
            lines.push(line.split_whitespace().collect::<Vec<_>>().join(" "));
        } else if let Some((before, count)) = NOTES
            .captures(line)
            .map(|found| found.extract().1)
            .map(|[before, count]| (before, count.parse::<usize>().expect("a number") - slow))
        {
            let plural = if count == 1 { "" } else { "s" };
            lines.push(format!("{before}{count} note{plural}"));
        } else {
            lines.push(line.to_owned());
        }
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// The last line of `check`: what it found.
static NOTES: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new("^([0-9]+ errors?, [0-9]+ warnings?, )([0-9]+) notes?$").expect("a pattern")
});

static TIMES: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("[0-9]+([.][0-9]+)? ms").expect("a pattern"));

/// Digests change with every runner.
pub fn without_digests(text: &str) -> String {
    let mut parts = text.split("sha256:");
    let mut stable = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        stable.push_str("sha256:DIGEST");
        stable.push_str(part.trim_start_matches(|letter: char| letter.is_ascii_hexdigit()));
    }
    stable
}
