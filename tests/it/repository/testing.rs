//! What holds of the tests themselves: what they may need, and that what names them finds them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;
use toml_edit::{DocumentMut, Item};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Crates that know no engine, of `host/crates`.
const BELOW_THE_ENGINE: [&str; 7] =
    ["core", "schema", "policy", "state", "egress", "process", "kernel"];
/// The crate that tests share.
const TESTING: &str = "toolhost-testing";

fn toml(path: &str) -> DocumentMut {
    let text = fs::read_to_string(Path::new(ROOT).join(path));
    let text = text.unwrap_or_else(|error| panic!("{path}: {error}"));
    text.parse().unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The tables of dependencies of a package, also those of one platform: their name, and what they name.
fn dependencies(package: &str) -> Vec<(String, BTreeSet<String>)> {
    let manifest = toml(&format!("{package}/Cargo.toml"));
    let mut tables: Vec<(String, &Item)> = Vec::new();
    let targets = manifest.get("target").and_then(Item::as_table_like);
    let of_targets = targets.into_iter().flat_map(|targets| targets.iter());
    let all = of_targets.filter_map(|(_, target)| target.as_table_like());
    for table in all.chain([manifest.as_table() as &dyn toml_edit::TableLike]) {
        let kinds = table.iter().filter(|(kind, _)| kind.ends_with("dependencies"));
        tables.extend(kinds.map(|(kind, of)| (kind.to_owned(), of)));
    }
    let names = |of: &Item| {
        of.as_table_like().expect("a table").iter().map(|(name, _)| name.to_owned()).collect()
    };
    tables.into_iter().map(|(kind, of)| (kind, names(of))).collect()
}

/// The folders of all packages of the workspace.
fn packages() -> Vec<String> {
    let crates = fs::read_dir(Path::new(ROOT).join("host/crates")).expect("a folder");
    let crates = crates.map(|of| of.expect("an entry").file_name().to_string_lossy().into_owned());
    let others = ["host", "host/cli", "sdk/rust", "sdk/rust/macros"].map(str::to_owned);
    crates.map(|name| format!("host/crates/{name}")).chain(others).collect()
}

#[test]
fn crates_below_the_engine_are_tested_without_a_toolchain_for_wasm() {
    let allowed: BTreeSet<String> =
        BELOW_THE_ENGINE.iter().map(|name| format!("toolhost-{name}")).collect();
    let engine = Regex::new("^(wasm|wat$|wit-)").expect("a pattern");
    for name in BELOW_THE_ENGINE {
        for (kind, names) in dependencies(&format!("host/crates/{name}")) {
            for of in names {
                let is_ours = of == "toolhost" || of.starts_with("toolhost-");
                let is_below = if is_ours { allowed.contains(&of) } else { !engine.is_match(&of) };
                assert!(is_below, "{name} has {of} among its {kind}");
            }
        }
        for path in rust_files(&Path::new(ROOT).join("host/crates").join(name)) {
            let text = fs::read_to_string(&path).expect("a file");
            let builds = ["wasm32", "tests/guests", "plugins/setup.sh"];
            let found = builds.into_iter().find(|builds| text.contains(builds));
            assert_eq!(found, None, "{} builds a guest", path.display());
        }
    }
}

#[test]
fn only_tests_use_what_tests_share() {
    for package in packages() {
        for (kind, names) in dependencies(&package) {
            let is_allowed = package == "host/cli" && kind == "dev-dependencies";
            assert!(is_allowed || !names.contains(TESTING), "{package} has it among its {kind}");
        }
    }
    let manifest = toml("host/crates/testing/Cargo.toml");
    assert_eq!(manifest["package"]["publish"].as_bool(), Some(false));
}

/// What `make test` compiles without optimisation is ours, all of it: a package that is missing
/// there is compiled a second time for the program.
#[test]
fn all_packages_are_built_quickly_for_tests() {
    let profile = toml(".cargo/test.toml");
    let named = profile["profile"]["release"]["package"].as_table().expect("a table");
    let named: BTreeSet<String> = named.iter().map(|(name, _)| name.to_owned()).collect();
    let name = |package: String| {
        let manifest = toml(&format!("{package}/Cargo.toml"));
        manifest["package"]["name"].as_str().expect("a name").to_owned()
    };
    assert_eq!(named, packages().into_iter().map(name).collect::<BTreeSet<_>>());
}

/// The Rust files of a folder and below.
pub(crate) fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let (mut files, mut left) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() && !path.ends_with("target") && !path.ends_with("node_modules") {
                left.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files
}

/// The names of all tests of the whole, as Cargo lists them.
fn names() -> BTreeSet<String> {
    let function = Regex::new(
        r"(?m)^ *#\[(?:tokio::)?test(?:\([^\n]*\))?\]\n(?: *#\[[^\n]*\]\n)* *(?:async )?fn (\w+)\(",
    )
    .expect("a pattern");
    let root = Path::new(ROOT).join("tests/it");
    let mut names = BTreeSet::new();
    for path in rust_files(&root) {
        let module = path.strip_prefix(&root).expect("below it").with_extension("");
        let module: Vec<_> = module.iter().map(|name| name.to_string_lossy()).collect();
        let text = fs::read_to_string(&path).expect("a file");
        let found = function.captures_iter(&text);
        names.extend(found.map(|found| format!("{}::{}", module.join("::"), &found[1])));
    }
    names
}

/// The alternatives of a filter of cargo-nextest, each as a pattern.
fn patterns(filter: &str) -> Vec<Regex> {
    let alternatives = Regex::new(r"^test\(/\^\((.+)\)(::)/\)$").expect("a pattern");
    let found = alternatives.captures(filter);
    let found = found.unwrap_or_else(|| panic!("`{filter}` is no list of modules"));
    let pattern = |module: &str| Regex::new(&format!("^{module}{}", &found[2])).expect("a pattern");
    found[1].split('|').map(pattern).collect()
}

#[test]
fn filters_of_nextest_name_tests_that_there_are() {
    let names = names();
    let known = "repository::testing::filters_of_nextest_name_tests_that_there_are";
    assert!(names.contains(known) && names.len() > 500, "{} tests", names.len());
    let overrides = toml(".config/nextest.toml");
    let overrides = overrides["profile"]["default"]["overrides"].as_array_of_tables();
    let mut count = 0;
    for one in overrides.expect("overrides") {
        let filter = one["filter"].as_str().expect("a filter");
        for pattern in patterns(filter) {
            assert!(names.iter().any(|name| pattern.is_match(name)), "no test is {pattern}");
            count += 1;
        }
    }
    assert!(count > 0, "there are no filters");
}
