//! Each type name is used once in the crates of the host, their tests and benches included, so that a name
//! says which type is meant wherever it stands.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;

use super::testing::rust_files;

/// The first line of a type, by indentation and name.
static TYPE: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"(?x) ^(\s*) (?: pub(?:\([a-z\ :]+\))?\s )? (?: unsafe\s )?
        (?: struct | enum | trait | union | type )\s ([A-Z]\w*)";
    Regex::new(pattern).expect("a pattern")
});

/// The first line of a function, `impl` or `trait` of several lines.
static SCOPE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^(\s*)(?:[\w()]+ )*(fn|impl|trait)\b.*[^;}]$").expect("a pattern")
});

/// The types that are defined in a text, but for those inside a function.
fn defined(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    // The indentation of the function, `impl` or `trait` that the line is in.
    let mut inside: Option<usize> = None;
    for line in text.lines() {
        let indentation = line.len() - line.trim_start().len();
        if inside.is_some_and(|outer| line.trim_start().starts_with('}') && indentation <= outer) {
            inside = None;
        } else if inside.is_none() {
            names.extend(TYPE.captures(line).map(|found| found[2].to_owned()));
            inside = SCOPE.is_match(line).then_some(indentation);
        }
    }
    names
}

#[test]
fn a_type_name_is_used_once() {
    let mut holders: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    let host = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for path in rust_files(&host) {
        for name in defined(&fs::read_to_string(&path).expect("a file")) {
            holders.entry(name).or_default().push(path.clone());
        }
    }
    assert!(holders.contains_key("Registry"), "types are found");
    holders.retain(|_, paths| paths.len() > 1);
    assert!(holders.is_empty(), "defined more than once: {holders:#?}");
}

#[test]
fn types_are_found() {
    let text = "
pub struct A(u8);
pub(in crate::a) enum B {}
mod tests {
    type C = u8;
    fn test() {
        struct D;
    }
    trait E {}
}
impl F for A {
    type G = u8;
}
";
    assert_eq!(defined(text).join(" "), "A B C E");
}
