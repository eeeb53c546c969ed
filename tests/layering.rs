//! Rooms use rooms of a lower number only; and what only one room may do is done there only.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The rooms of `host/src`, by level.
const ROOMS: [&[&str]; 12] = [
    &["limits", "record", "runtime", "text", "turns"],
    &["json", "read", "tool"],
    &[
        "arguments",
        "authority",
        "batch",
        "difference",
        "guardrails",
        "repair",
        "result",
        "schema",
        "suspicion",
        "toolset",
    ],
    &["audit", "config", "egress", "failures", "lock", "process", "script", "secret", "store"],
    &["checker", "plugin", "watcher"],
    &["registry"],
    &["availability", "quarantine", "session"],
    &["definitions", "dispatch"],
    &["author", "builtin", "reload"],
    &["host"],
    &["server"],
    &["cli", "main"],
];

/// What only certain rooms may name, with the reason.
const ONLY: [(&str, &[&str], &str); 19] = [
    ("wasmtime", &["plugin"], "one room knows the engine"),
    ("jsonschema", &["schema"], "schemas of strangers are bounded in one place"),
    ("toml_edit", &["config"], "text becomes checked values in one place"),
    ("cap_std", &["plugin"], "directories of grants are opened in one place"),
    ("wit_component", &["author"], "components are made in one place"),
    ("std::process::Command", &[], "processes are started by `process` with tokio"),
    ("tokio::process", &["process"], "processes are started in one place"),
    ("std::env::", &["cli", "author"], "the environment is a value the library is given"),
    ("secret_service", &["secret"], "one room asks the keyring"),
    (".expose()", &["plugin", "secret"], "values go into requests, and nowhere else"),
    ("rmcp", &["server"], "one room knows the MCP library"),
    ("ratatui", &["cli"], "one room draws on the terminal"),
    ("hyper::", &["egress"], "one room sends requests"),
    ("rustls::", &["egress"], "one room decides which servers are trusted"),
    ("TcpStream", &["egress"], "addresses are checked where they are connected to"),
    ("notify::", &["watcher"], "one room hears of files"),
    ("rusqlite", &["store"], "databases are opened in one place"),
    ("println!", &[], "the command line prints with `Ui`"),
    ("deserialize_file", &["plugin"], "code is mapped from our own cache only"),
];

fn sources() -> Vec<(String, PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut folders, mut sources) = (vec![root.clone()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let below = path.strip_prefix(&root).expect("below").to_owned();
                let first = below.iter().next().expect("a name").to_string_lossy();
                let room = first.trim_end_matches(".rs").to_owned();
                let text = fs::read_to_string(&path).expect("a file");
                sources.push((room, below, text));
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
fn rooms_use_only_rooms_below_them() {
    let levels: BTreeMap<&str, usize> = ROOMS
        .iter()
        .enumerate()
        .flat_map(|(level, rooms)| rooms.iter().map(move |room| (*room, level)))
        .collect();
    for (room, path, text) in sources() {
        if room == "lib" {
            continue;
        }
        let level = *levels.get(&*room).unwrap_or_else(|| panic!("{room} has no level"));
        let code = code(&text);
        for used in code.split("crate::").skip(1) {
            let used: String = used
                .chars()
                .take_while(|letter| letter.is_ascii_lowercase() || *letter == '_')
                .collect();
            if used == room || used.is_empty() {
                continue;
            }
            let used_level =
                *levels.get(&*used).unwrap_or_else(|| panic!("{}: {used}?", path.display()));
            assert!(
                used_level < level,
                "{} (level {level}) uses {used} (level {used_level})",
                path.display()
            );
        }
    }
}

#[test]
fn what_one_room_does_no_other_does() {
    for (room, path, text) in sources() {
        let code = code(&text);
        for (word, rooms, reason) in ONLY {
            let allowed = rooms.contains(&&*room);
            assert!(allowed || !code.contains(word), "{} names {word}: {reason}", path.display());
        }
    }
}

#[test]
fn every_file_says_what_it_is_for() {
    for (_, path, text) in sources() {
        assert!(text.starts_with("//!"), "{} has no first line", path.display());
        let lines = text.lines().count();
        assert!(lines <= 500, "{} has {lines} lines", path.display());
    }
}
