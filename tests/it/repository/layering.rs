//! What Cargo cannot say of the crates: which of them may name what, and that every file says what it
//! is for. Which crate uses which is in their `Cargo.toml`.

use std::fs;
use std::path::{Path, PathBuf};

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

struct Source {
    /// Of `host`, or a folder below it.
    package: String,
    path: PathBuf,
    text: String,
}

fn sources() -> Vec<Source> {
    let host = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut packages = vec![String::new(), "cli".to_owned()];
    for entry in fs::read_dir(host.join("crates")).expect("a folder") {
        let name = entry.expect("an entry").file_name();
        packages.push(format!("crates/{}", name.to_string_lossy()));
    }
    let mut sources = Vec::new();
    for package in packages {
        let mut folders = vec![host.join(&package).join("src")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    let text = fs::read_to_string(&path).expect("a file");
                    sources.push(Source { package: package.clone(), path, text });
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
    for Source { package, path, text } in sources() {
        let code = code(&text);
        for (word, packages, reason) in ONLY {
            let allowed = packages.contains(&&*package);
            assert!(allowed || !code.contains(word), "{} names {word}: {reason}", path.display());
        }
    }
}

#[test]
fn every_file_says_what_it_is_for() {
    for Source { path, text, .. } in sources() {
        assert!(text.starts_with("//!"), "{} has no first line", path.display());
        let lines = text.lines().count();
        assert!(lines <= 500, "{} has {lines} lines", path.display());
    }
}
