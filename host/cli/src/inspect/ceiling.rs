//! What a plugin imports, in words: the most it could ever use.

use std::collections::BTreeMap;

use toolhost_policy::capability::Kind;
use toolhost_wasm::Runtime;

/// The most that a plugin could use of one sort.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ceiling<'a> {
    /// In a word or two.
    pub(super) words: &'static str,
    /// It reaches nothing, as long as nothing is granted.
    pub(super) refuses: bool,
    /// The interfaces that it is made of.
    pub(super) interfaces: Vec<&'a str>,
}

/// How names of interfaces begin that are of no capability of this version, what they are in words,
/// and whether they refuse without a grant. Those of capabilities stand before them; of all, the
/// first that fits counts, and in this order they are shown. The rest reaches nothing outside the
/// plugin's own call.
const OTHERS: [(&str, &str, bool); 12] = [
    ("toolhost:plugin/process", "programs", true),
    ("toolhost:plugin/tools", "other tools", true),
    ("toolhost:plugin/ask", "questions to a human", true),
    ("wasi:clocks/", "clock", false),
    ("wasi:random/", "random numbers", false),
    ("toolhost:plugin/log", "log", false),
    ("wasi:logging/", "log", false),
    ("toolhost:plugin/progress", "progress", false),
    ("wasi:cli/", "standard streams and exit", false),
    ("wasi:io/", "waiting and streams", false),
    // It has types only.
    ("toolhost:plugin/types", "contract", false),
    // A runner's: its script, which the host has read.
    ("toolhost:plugin/script", "contract", false),
];
/// What this list does not know is taken for the worst.
const UNKNOWN: &str = "something this list does not know";

/// Sorts imports into words.
pub(super) fn ceilings(imports: &[String]) -> Vec<Ceiling<'_>> {
    let mut sorted: BTreeMap<usize, Ceiling<'_>> = BTreeMap::new();
    let granted = Kind::all().flat_map(|kind| kind.imports());
    let granted = granted.map(|(start, words)| (*start, *words, true));
    let sorts: Vec<(&str, &'static str, bool)> = granted.chain(OTHERS).collect();
    for import in imports {
        let found = sorts.iter().find(|(start, _, _)| import.starts_with(start));
        let (words, refuses) =
            found.map_or((UNKNOWN, true), |(_, words, refuses)| (words, *refuses));
        let place = sorts.iter().position(|(_, sort, _)| *sort == words).unwrap_or(sorts.len());
        let empty = || Ceiling { words, refuses, interfaces: Vec::new() };
        sorted.entry(place).or_insert_with(empty).interfaces.push(import);
    }
    for ceiling in sorted.values_mut() {
        ceiling.interfaces.sort_unstable();
    }
    sorted.into_values().collect()
}

/// What a runtime has to do with the imports, as one sentence.
pub(super) fn runtime_sentence(runtime: Runtime) -> String {
    match runtime.language {
        "" => "so many imports come with a language runtime, and say nothing about this tool"
            .to_owned(),
        language => format!(
            "these imports come with the {language} runtime and say nothing about this tool"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_are_sorted_into_words() {
        let imports = [
            "wasi:io/streams@0.2.6",
            "wasi:cli/stderr@0.2.6",
            "wasi:cli/environment@0.2.6",
            "wasi:filesystem/types@0.2.6",
            "wasi:filesystem/preopens@0.2.6",
            "vendor:gpu/draw",
            "toolhost:plugin/log@0.1.0",
        ]
        .map(str::to_owned);
        let shown: Vec<String> = ceilings(&imports)
            .iter()
            .map(|ceiling| {
                format!("{} {} {}", ceiling.words, ceiling.refuses, ceiling.interfaces.len())
            })
            .collect();
        assert_eq!(
            shown,
            [
                "files true 2",
                "environment true 1",
                "log false 1",
                "standard streams and exit false 1",
                "waiting and streams false 1",
                "something this list does not know true 1",
            ]
        );
        assert!(ceilings(&[]).is_empty());
    }
}
