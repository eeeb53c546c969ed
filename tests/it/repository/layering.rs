//! What Cargo cannot say of the crates: which of them may name what, that their modules form no circles,
//! and that every file says what it is for. Which crate uses which is in their `Cargo.toml`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

use super::testing::rust_files;

/// What only certain crates may name, with the reason.
const ONLY: [(&str, &[&str], &str); 19] = [
    ("std::process::Command", &[], "processes are started by `process` with tokio"),
    ("tokio::process", &["crates/process"], "processes are started in one place"),
    ("std::env::", &["cli", "crates/author"], "the environment is a value the library is given"),
    (".expose()", &["crates/wasm", "crates/state"], "values go into requests, and nowhere else"),
    ("println!", &[], "the command line prints with `Ui`"),
    ("deserialize_file", &["crates/wasm"], "code is mapped from our own cache only"),
    ("TcpStream", &["crates/egress"], "addresses are checked where they are connected to"),
    ("wasmtime", &["crates/wasm"], "one crate knows the engine"),
    ("jsonschema", &["crates/schema"], "schemas of strangers are bounded in one place"),
    ("toml_edit", &["crates/state"], "text becomes checked values in one place"),
    ("cap_std", &["crates/wasm"], "directories of grants are opened in one place"),
    ("wit_component", &["crates/author"], "components are made in one place"),
    ("secret_service", &["crates/state"], "one crate asks the keyring"),
    ("rmcp", &["crates/mcp"], "one crate knows the MCP library"),
    ("ratatui", &["cli"], "one crate draws on the terminal"),
    ("hyper::", &["crates/egress"], "one crate sends requests"),
    ("rustls::", &["crates/egress"], "one crate decides which servers are trusted"),
    ("notify::", &["crates/sources"], "one crate hears of files"),
    ("rusqlite", &["crates/state"], "databases are opened in one place"),
];

/// Crates whose modules do form circles, of `host` or a folder below it.
const WITH_CIRCLES: [&str; 3] = ["", "cli", "crates/egress"];

struct Source {
    /// Of `host`, or a folder below it.
    package: String,
    path: PathBuf,
    /// The names of the module and of those that it is in, from the root of the crate; empty for the
    /// root itself.
    module: Vec<String>,
    text: String,
}

fn sources() -> Vec<Source> {
    let host = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut packages = vec![String::new(), "cli".to_owned()];
    for entry in fs::read_dir(host.join("crates")).expect("a folder") {
        let name = entry.expect("an entry").file_name();
        // What only tests use is no part of the program.
        if name == "testing" {
            continue;
        }
        packages.push(format!("crates/{}", name.to_string_lossy()));
    }
    let mut sources = Vec::new();
    for package in packages {
        let root = host.join(&package).join("src");
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    let text = fs::read_to_string(&path).expect("a file");
                    let module = path.strip_prefix(&root).expect("below it").with_extension("");
                    let module = module.iter().map(|name| name.to_string_lossy().into_owned());
                    let is_root = |name: &String| ["lib", "main"].contains(&&**name);
                    let module = module.filter(|name| !is_root(name)).collect();
                    sources.push(Source { package: package.clone(), path, module, text });
                }
            }
        }
    }
    sources
}

/// The text without tests and comments.
fn code(text: &str) -> String {
    let before_tests = text.split("\n#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let lines = before_tests.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn what_one_crate_does_no_other_does() {
    for Source { package, path, text, .. } in sources() {
        let code = code(&text);
        for (word, packages, reason) in ONLY {
            let allowed = packages.contains(&&*package);
            assert!(allowed || !code.contains(word), "{} names {word}: {reason}", path.display());
        }
    }
}

#[test]
fn every_file_says_what_it_is_for() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for path in ["host", "sdk", "plugins", "tests"].iter().flat_map(|of| rust_files(&root.join(of)))
    {
        let text = fs::read_to_string(&path).expect("a file");
        assert!(text.starts_with("//!"), "{} has no first line", path.display());
        let lines = text.lines().count();
        assert!(lines <= 500, "{} has {lines} lines", path.display());
    }
}

/// The names that are taken from the root of the crate by a module so deep in it: those of modules, and
/// those that the root has from modules.
fn of_root(code: &str, depth: usize) -> BTreeSet<String> {
    let path = Regex::new(r"\b(crate|super(?:::super)*)::(\w+|\{)").expect("a pattern");
    let is_root = |base: &str| base == "crate" || base.matches("super").count() == depth;
    let mut names = BTreeSet::new();
    for found in path.captures_iter(code).filter(|found| is_root(&found[1])) {
        if &found[2] == "{" {
            names.extend(listed(&code[found.get(0).expect("all of it").end()..]));
        } else {
            names.insert(found[2].to_owned());
        }
    }
    names
}

/// The first name of each path in a list whose opening brace was read.
fn listed(list: &str) -> Vec<String> {
    let (mut depth, mut paths) = (0_usize, vec![String::new()]);
    for character in list.chars() {
        match character {
            '}' if depth == 0 => break,
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => paths.push(String::new()),
            _ if depth == 0 => paths.last_mut().expect("one at least").push(character),
            _ => {}
        }
    }
    let first = |path: String| path.split(':').next().unwrap_or_default().trim().to_owned();
    paths.into_iter().map(first).filter(|name| !name.is_empty()).collect()
}

/// The names that the root of a crate has from its modules, with the module of each.
fn of_modules(root: &str) -> BTreeMap<String, String> {
    let uses = Regex::new(r"\buse (\w+)::([^;]+);").expect("a pattern");
    let word = Regex::new(r"\w+").expect("a pattern");
    let mut names = BTreeMap::new();
    for found in uses.captures_iter(root) {
        let all = word.find_iter(&found[2]);
        names.extend(all.map(|name| (name.as_str().to_owned(), found[1].to_owned())));
    }
    names
}

#[test]
fn modules_form_no_circles() {
    let mut crates: BTreeMap<String, Vec<Source>> = BTreeMap::new();
    for source in sources() {
        crates.entry(source.package.clone()).or_default().push(source);
    }
    for (package, sources) in &crates {
        let tops: BTreeSet<&String> = sources.iter().filter_map(|of| of.module.first()).collect();
        let roots = sources.iter().filter(|source| source.module.is_empty());
        let reexported: BTreeMap<String, String> =
            roots.flat_map(|root| of_modules(&code(&root.text))).collect();
        let mut uses: BTreeMap<&String, BTreeSet<&String>> = BTreeMap::new();
        for source in sources {
            let Some(module) = source.module.first() else { continue };
            let names = of_root(&code(&source.text), source.module.len());
            let used = names.iter().filter_map(|name| {
                tops.get(name).or_else(|| tops.get(reexported.get(name)?)).copied()
            });
            uses.entry(module).or_default().extend(used.filter(|used| *used != module));
        }
        // Whoever uses none of those that are left, or is used by none, is in no circle.
        loop {
            let left: BTreeSet<&String> = uses.keys().copied().collect();
            let used: BTreeSet<&String> = uses.values().flatten().copied().collect();
            uses.values_mut().for_each(|used| used.retain(|name| left.contains(name)));
            uses.retain(|name, uses| !uses.is_empty() && used.contains(name));
            if uses.len() == left.len() {
                break;
            }
        }
        let is_known = WITH_CIRCLES.contains(&&**package);
        assert!(uses.is_empty() || is_known, "modules of {package} form circles: {uses:?}");
    }
}

#[test]
fn names_from_the_root_are_found() {
    let names = |code: &str, depth| of_root(code, depth).into_iter().collect::<Vec<_>>().join(" ");
    assert_eq!(names("use super::a::B; crate::c::d()", 1), "a c");
    assert_eq!(names("use super::{a::{B, C}, d, e::F};", 1), "a d e");
    assert_eq!(names("use super::a; super::super::b::C", 2), "b");
    let root = of_modules("pub use a::{B, c as d};");
    assert_eq!(root.get("B").map(String::as_str), Some("a"));
}
