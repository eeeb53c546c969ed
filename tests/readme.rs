//! README.md tells the truth: its five minutes, its plugin and its limits.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use serde_json::json;
use toolhost::Limits;
use toolhost::author::{self, BuildRequest};
use toolhost::limits::LimitRow;

use crate::support::{Lab, RUNNERS, answer, guest};

const README: &str = include_str!("../README.md");
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The contents of every block of a language, in order.
fn blocks(language: &str) -> Vec<&'static str> {
    let fence = format!("```{language}\n");
    let rest = README.split(fence.as_str()).skip(1);
    rest.map(|rest| rest.split("\n```").next().expect("an end")).collect()
}

/// Does what a transcript says, and returns how many commands that were.
fn transcript(lab: &Lab, block: &str) -> usize {
    let path = std::env::var("PATH").expect("a path");
    let program = Path::new(env!("CARGO_BIN_EXE_toolhost")).parent().expect("a folder");
    let mut commands = 0;
    for example in block.split("\n\n$ ") {
        let example = example.trim_start_matches("$ ");
        let (command, expected) = example.split_once('\n').unwrap_or((example, ""));
        let output = Command::new("sh")
            .args(["-c", &format!("{command} 2>&1")])
            .current_dir(lab.work())
            .env("PATH", format!("{}:{path}", program.display()))
            .env("TOOLHOST_HOME", lab.home())
            .env("TOOLHOST_CACHE", Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"))
            .env("TOOLHOST_KEYRING", "none")
            .output()
            .expect("sh");
        let printed = String::from_utf8_lossy(&output.stdout);
        assert_eq!(printed.trim_end(), expected.trim_end(), "{command}");
        commands += 1;
    }
    commands
}

#[test]
fn scripts_are_tools() {
    LazyLock::force(&RUNNERS);
    let calls: Vec<&str> =
        blocks("text").into_iter().filter(|block| block.starts_with("$ toolhost call")).collect();
    let scripts = [("words.py", blocks("python")[0]), ("slug.js", blocks("js")[0])];
    assert_eq!(calls.len(), scripts.len());
    for ((name, text), calls) in scripts.into_iter().zip(calls) {
        let lab = Lab::new().with(name, text);
        assert!(transcript(&lab, calls) >= 2);
    }
}

#[test]
fn five_minutes() {
    let bundled = ["files", "json", "weather"];
    let lab = bundled.iter().fold(Lab::new(), |lab, id| lab.with(&format!("{id}.wasm"), guest(id)));
    bundled.iter().for_each(|id| lab.record_bundled(id));
    let data = lab.work().join("host/data");
    fs::create_dir_all(&data).expect("a folder");
    fs::copy(Path::new(ROOT).join("host/data/toolsets.json"), data.join("toolsets.json"))
        .expect("copied");
    fs::write(lab.work().join("token.txt"), "an example's token\n").expect("written");

    let commands: usize = blocks("console").into_iter().map(|block| transcript(&lab, block)).sum();
    assert_eq!(commands, 10);
}

#[tokio::test]
async fn the_plugin_builds_and_answers() {
    let lab = Lab::new();
    let source = lab.work().join("my-words");
    fs::create_dir_all(source.join("src")).expect("a folder");
    let sdk = Path::new(ROOT).join("sdk/rust").canonicalize().expect("the SDK");
    let manifest = blocks("toml")[0].replace("../sdk/rust", &sdk.to_string_lossy());
    let library = blocks("rust")[0];
    assert!(library.lines().count() <= 30, "two typed tools fit in 30 lines");
    fs::write(source.join("Cargo.toml"), manifest).expect("written");
    fs::write(source.join("src/lib.rs"), library).expect("written");
    // Built beside the guests, so that dependencies are compiled once.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("readme");
    let mut environment: Vec<_> = std::env::vars_os().collect();
    environment.retain(|(name, _)| name != "CARGO_TARGET_DIR");
    environment.push(("CARGO_TARGET_DIR".into(), target.into()));
    let request =
        BuildRequest { source, out: lab.plugins(), environment, ..BuildRequest::default() };
    author::build(&request).await.unwrap_or_else(|error| panic!("{error}"));
    let host = lab.host().await;
    assert_eq!(answer(&host, "count_words", json!({ "text": "one two" })).await, "2");
    assert_eq!(
        answer(&host, "read_number", json!({ "text": "two" })).await,
        r#"{"error":"[TOOL_ERROR] Tool execution failed: ParseIntError: invalid digit found in string","code":"failed"}"#
    );
}

#[test]
fn the_table_of_limits() {
    let row = |row: &LimitRow| {
        format!("| `{}` | {} | {} | {} |\n", row.name, row.meaning, row.value, row.most)
    };
    let table: String = Limits::default().rows().iter().map(row).collect();
    assert!(README.contains(&table), "README's table is not this:\n{table}");
}
