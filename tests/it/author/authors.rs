//! What plugin authors use: `toolhost new`, and what comes of it.

use std::fs;
use std::path::Path;
use std::process::Command;

use expect_test::expect;
use serde_json::json;
use toolhost_author::{self as author, BuildRequest, ScaffoldRequest, TemplateLanguage};

use crate::support::{Lab, answer};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The environment of a cargo that builds beside other plugins of tests, so that what they have in
/// common is compiled once. Nothing in it says where the program under test has its home.
pub(crate) fn environment() -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("readme");
    let mut environment: Vec<_> = std::env::vars_os().collect();
    let is_ours = |name: &std::ffi::OsString| name.to_string_lossy().starts_with("TOOLHOST_");
    environment.retain(|(name, _)| name != "CARGO_TARGET_DIR" && !is_ours(name));
    environment.push(("CARGO_TARGET_DIR".into(), target.into()));
    environment
}

/// The text with a name for this checkout.
fn in_checkout(text: &str) -> String {
    let root = fs::canonicalize(ROOT).expect("a folder");
    text.replace(&*root.to_string_lossy(), "CHECKOUT")
}

#[test]
fn new_makes_a_folder_and_says_how_to_go_on() {
    let lab = Lab::new();
    expect![[r#"
        exit 0
        --- stdout
        made my-words in Rust:
          my-words/Cargo.toml
          my-words/README.md
          my-words/src/lib.rs
          my-words/.gitignore
        Its SDK is in CHECKOUT/sdk/rust.

        Next:
          toolhost dev ./my-words
          toolhost check ./my-words
          cd my-words && cargo test
        --- stderr
    "#]]
    .assert_eq(&in_checkout(&lab.run(&["new", "my-words", "--lang", "rust"])));
    let manifest = fs::read_to_string(lab.work().join("my-words/Cargo.toml")).expect("a file");
    let manifest = in_checkout(&manifest);
    assert!(manifest.contains(r#"toolhost-sdk = { path = "CHECKOUT/sdk/rust" }"#), "{manifest}");

    let before = fs::read_dir(lab.work()).expect("a folder").count();
    expect![[r#"
        exit 2
        --- stdout
        --- stderr
        error: ./my-words exists, and is left as it is; choose another name, or another folder with `--dir`
    "#]]
    .assert_eq(&lab.run(&["new", "my-words", "--lang", "rust"]));
    expect![[r#"
        exit 2
        --- stdout
        --- stderr
        error: `My Words` is no name for a plugin: allowed are 1 to 40 characters of a-z 0-9 -, the first a letter, and not toolhost or toolhost-sdk; try `my-words`
    "#]]
    .assert_eq(&lab.run(&["new", "My Words", "--lang", "rust"]));
    expect![[r#"
        exit 2
        --- stdout
        --- stderr
        error: plugins has no SDK for Rust: there is neither Cargo.toml of `toolhost-sdk` nor sdk/rust; name a checkout of toolhost, or its sdk/rust
    "#]]
    .assert_eq(&lab.run(&["new", "others", "--lang", "rust", "--sdk", "plugins"]));
    let unknown = lab.run(&["new", "others", "--lang", "cobol"]);
    assert!(
        unknown.starts_with("exit 2") && unknown.contains("possible values: rust"),
        "{unknown}"
    );
    assert_eq!(fs::read_dir(lab.work()).expect("a folder").count(), before);
}

#[test]
fn every_language_has_a_plugin_with_a_tool_a_test_and_a_readme() {
    let lab = Lab::new();
    // Checkouts are known by these files.
    for (folder, file) in [("python", "pyproject.toml"), ("javascript", "package.json")] {
        let sdk = lab.work().join("checkout/sdk").join(folder);
        fs::create_dir_all(&sdk).expect("a folder");
        fs::write(sdk.join(file), r#"name = "toolhost-sdk""#).expect("written");
    }
    let npm = "npm install --no-save --install-links SDK/javascript && npm test";
    for (language, main, test) in [
        ("python", "plugin.py", "PYTHONPATH=SDK/python python3 -m unittest"),
        ("javascript", "plugin.js", npm),
        ("typescript", "plugin.ts", npm),
    ] {
        let id = format!("in-{language}");
        let made = lab.run(&["new", &id, "--lang", language, "--sdk", "checkout"]);
        assert!(made.starts_with("exit 0"), "{made}");
        let test = test.replace("SDK", "HOME/project/checkout/sdk");
        assert!(made.ends_with(&format!("  cd {id} && {test}\n--- stderr\n")), "{made}");
        let folder = lab.work().join(&id);
        let source = fs::read_to_string(folder.join(main)).expect("a main file");
        assert!(source.contains(&format!("in_{language}_count")), "{source}");
        assert!(folder.join("README.md").is_file());
        let names = fs::read_dir(&folder).expect("a folder");
        let names = names.map(|entry| entry.expect("a file").file_name());
        let mut names = names.map(|name| name.to_string_lossy().into_owned());
        assert!(names.any(|name| name.contains("test")));
    }
}

#[tokio::test]
async fn a_new_plugin_in_rust_passes_its_tests_builds_and_answers() {
    let lab = Lab::new();
    let made = lab
        .run(&["new", "my-words", "--lang", "rust", "--dir", "in/here", "--sdk", ROOT, "--json"]);
    assert!(
        made.starts_with("exit 0") && made.contains(r#""cd in/here/my-words && cargo test""#),
        "{made}"
    );
    let folder = lab.work().join("in/here/my-words");

    let tested = Command::new("cargo")
        .arg("test")
        .current_dir(&folder)
        .env_clear()
        .envs(environment())
        .output()
        .expect("cargo");
    let words = String::from_utf8_lossy(&tested.stdout);
    assert!(tested.status.success(), "{words}{}", String::from_utf8_lossy(&tested.stderr));
    assert!(words.contains("test result: ok. 3 passed"), "{words}");

    let environment = environment();
    let request =
        BuildRequest { source: folder, out: lab.plugins(), environment, ..BuildRequest::default() };
    let built = author::build(&request).await.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(built[0].id.as_str(), "my-words");
    let host = lab.host().await;
    let counted = answer(&host, "my_words_count", json!({ "text": "a bc def", "min_length": 2 }));
    assert_eq!(counted.await, r#"{"words":2,"longest":"def"}"#);
}

#[tokio::test]
async fn what_was_installed_serves_for_new_plugins() {
    let lab = Lab::new();
    let installed = Command::new("sh")
        .arg(Path::new(ROOT).join("sdk/install.sh"))
        .args(["tools", "runners"])
        .arg(lab.home())
        .current_dir(lab.work())
        .output()
        .expect("sh");
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    // Elsewhere, so that no SDK lies around it.
    let project = tempfile::tempdir().expect("a folder");
    let new = |language: TemplateLanguage| {
        let request = ScaffoldRequest {
            name: format!("in-{}", language.as_str()),
            language,
            into: project.path().to_owned(),
            sdk: None,
            sdks: vec![lab.home().join("gone"), lab.home().join("sdk")],
        };
        author::scaffold(&request).unwrap_or_else(|error| panic!("{error}"))
    };
    let sdk = fs::canonicalize(lab.home().join("sdk")).expect("a folder");
    for (language, folder) in [
        (TemplateLanguage::Python, "python"),
        (TemplateLanguage::JavaScript, "javascript"),
        (TemplateLanguage::TypeScript, "javascript"),
    ] {
        let made = new(language);
        assert_eq!(made.sdk, sdk.join(folder));
        assert!(made.test_command.contains(&*made.sdk.to_string_lossy()), "{}", made.test_command);
    }
    let made = new(TemplateLanguage::Rust);
    assert_eq!(made.sdk, sdk.join("rust"));
    let request = BuildRequest {
        source: project.path().join("in-rust"),
        out: lab.plugins(),
        environment: environment(),
        ..BuildRequest::default()
    };
    let built = author::build(&request).await.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(built[0].id.as_str(), "in-rust");
}
