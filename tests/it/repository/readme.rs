//! README.md tells the truth: its five minutes, its plugin and its limits.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use serde_json::json;
use toolhost_author::{self as author, BuildRequest};
use toolhost_core::limits::{LimitRow, Limits};

use crate::author::authors::environment;
use crate::support::{Lab, RUNNERS, answer, guest};

const README: &str = include_str!("../../../README.md");
const RUST: &str = include_str!("../../../sdk/rust/README.md");
const PYTHON: &str = include_str!("../../../sdk/python/README.md");
const JAVASCRIPT: &str = include_str!("../../../sdk/javascript/README.md");
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The contents of every block of a language, in order.
fn blocks(language: &str) -> Vec<&'static str> {
    blocks_of(README, language)
}

fn blocks_of(text: &'static str, language: &str) -> Vec<&'static str> {
    let fence = format!("```{language}\n");
    let rest = text.split(fence.as_str()).skip(1);
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
    assert!(blocks("rust")[0].lines().count() <= 30, "two typed tools fit in 30 lines");
    build(&lab, "my-words", README).await;
    let host = lab.host().await;
    assert_eq!(answer(&host, "count_words", json!({ "text": "one two" })).await, "2");
    assert_eq!(
        answer(&host, "read_number", json!({ "text": "two" })).await,
        r#"{"error":"[TOOL_ERROR] Tool execution failed: ParseIntError: invalid digit found in string","code":"failed"}"#
    );
}

/// Builds the Rust plugin of a README, as its first blocks have it.
async fn build(lab: &Lab, name: &str, readme: &'static str) {
    let source = lab.work().join(name);
    fs::create_dir_all(source.join("src")).expect("a folder");
    let sdk = Path::new(ROOT).join("sdk/rust").canonicalize().expect("the SDK");
    let manifest = blocks_of(readme, "toml")[0].replace("../sdk/rust", &sdk.to_string_lossy());
    fs::write(source.join("Cargo.toml"), manifest).expect("written");
    fs::write(source.join("src/lib.rs"), blocks_of(readme, "rust")[0]).expect("written");
    let request = BuildRequest {
        source,
        out: lab.plugins(),
        // Built beside the guests, so that dependencies are compiled once.
        environment: environment(),
        ..BuildRequest::default()
    };
    author::build(&request).await.unwrap_or_else(|error| panic!("{error}"));
}

#[tokio::test]
async fn examples_of_all_sdks_lie_in_one_folder() {
    let [rust, python, javascript] = [RUST, PYTHON, JAVASCRIPT];
    let mut lab = Lab::new()
        .with("words.py", blocks("python")[0])
        .with("slug.js", blocks("js")[0])
        .with("tally.py", blocks_of(python, "python")[0])
        .with("top-words.js", blocks_of(javascript, "js")[0]);
    assert!(python.contains("`tally.py`") && javascript.contains("`plugins/top-words.js`"));
    for id in ["files", "json", "weather"] {
        lab = lab.with(&format!("{id}.wasm"), guest(id));
        lab.record_bundled(id);
    }
    lab = lab.with_folder("plugins/csv-query").with_folder("plugins/html-to-markdown");
    build(&lab, "my-words", README).await;
    build(&lab, "text-stats", rust).await;
    LazyLock::force(&RUNNERS);
    let host = lab.host().await;
    for status in host.loaded().await.iter() {
        assert!(status.state.is_ok(), "{}: {:?}", status.location, status.state.as_ref().err());
    }
    let catalog = host.catalog();
    let tools = [
        "count",
        "count_words",
        "csv_query",
        "html_to_markdown",
        "json_query",
        "read_number",
        "slug",
        "tally_words",
        "text_stats",
        "top_words",
        "weather_now",
    ];
    for tool in tools {
        assert!(catalog.find(tool).is_some(), "{tool}");
    }
    let measured = answer(&host, "text_stats", json!({ "text": "to be\nor" })).await;
    assert_eq!(measured, r#"{"length":8,"lines":[{"words":2},{"words":1}]}"#);
}

#[test]
fn the_table_of_limits() {
    let row = |row: &LimitRow| {
        format!("| `{}` | {} | {} | {} |\n", row.name, row.meaning, row.value, row.most)
    };
    let table: String = Limits::default().rows().iter().map(row).collect();
    assert!(README.contains(&table), "README's table is not this:\n{table}");
}
