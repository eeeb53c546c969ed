//! The author's loop: build, load, call, see what has changed; and back to an earlier build.

use std::fs;
use std::sync::LazyLock;

use expect_test::{Expect, expect};
use serde_json::json;

use crate::support::{Lab, RUNNERS, made};

const WORDS: &str = r#"from toolhost import plugin, tool

plugin("words", "1.0.0")


@tool(examples=[({"text": "a b"}, "2")])
def count(text: str) -> dict[str, int]:
    """Counts the words of a text.

    Args:
        text: The text.
    """
    return {"words": len(text.split())}
"#;

/// What `dev` prints, without times.
fn develop(lab: &Lab, expected: &Expect) {
    let call = ["--call", "count", r#"{"text": "a b c"}"#];
    let said = lab.run(&[&["dev", "words", "--once"], &call[..]].concat());
    let times = regex::Regex::new(r"[0-9.]+ ms").expect("a pattern");
    expected.assert_eq(&times.replace_all(&said, "N ms"));
}

#[test]
fn a_script_is_developed() {
    LazyLock::force(&RUNNERS);
    let lab = Lab::new();
    let source = lab.work().join("words");
    fs::create_dir(&source).expect("a folder");
    let write = |text: &str| fs::write(source.join("plugin.py"), text).expect("written");
    write(WORDS);
    develop(&lab, &expect![[r#""#]]);
    assert_eq!(fs::read_to_string(lab.plugins().join("words/plugin.py")).expect("copied"), WORDS);
    // Not what its example says.
    write(&WORDS.replace("len(text.split())", "7"));
    develop(&lab, &expect![[r#""#]]);
    write(&WORDS.replace("text.split())}", "text.split(}"));
    develop(&lab, &expect![[r#""#]]);
    // Another shape.
    write(
        &WORDS
            .replace("text: str)", "text: str, top: int)")
            .replace(r#""a b"}"#, r#""a b", "top": 1}"#),
    );
    develop(&lab, &expect![[r#""#]]);
}

#[test]
fn what_is_nothing_to_develop_says_so() {
    let lab = Lab::new();
    fs::create_dir(lab.work().join("empty")).expect("a folder");
    expect![[r#""#]].assert_eq(&lab.run(&["dev", "empty"]));
    expect![[r#""#]].assert_eq(&lab.run(&["dev", "gone"]));
    expect![[r#""#]].assert_eq(&lab.run(&["dev", "empty", "--json"]));
}

#[test]
fn a_person_goes_back_and_forth() {
    let says =
        |text: &str| made(&json!({ "tools": [{ "name": "say", "answer": { "text": text } }] }));
    let lab = Lab::new();
    let answer = |lab: &Lab| lab.run(&["call", "say"]);
    expect![[r#""#]].assert_eq(&lab.run(&["rollback", "say"]));
    for text in ["one", "two", "three"] {
        fs::write(lab.plugins().join("say.wasm"), says(text)).expect("written");
        assert_eq!(answer(&lab), format!("exit 0\n--- stdout\n{text}\n--- stderr\n"));
    }
    expect![[r#""#]].assert_eq(&lab.run(&["rollback", "say", "--list"]));
    expect![[r#""#]].assert_eq(&lab.run(&["rollback", "say"]));
    assert!(answer(&lab).contains("\ntwo\n"));
    expect![[r#""#]].assert_eq(&lab.run(&["rollback", "say"]));
    assert!(answer(&lab).contains("\none\n"));
    expect![[r#""#]].assert_eq(&lab.run(&["rollback", "say"]));
    expect![[r#""#]].assert_eq(&lab.run(&["rollback", "say", "ffff"]));
    // Forth again, and what is saved anew counts.
    let digest = toolhost::plugin::digest(&says("three"));
    let forth = lab.run(&["rollback", "say", &digest[..10]]);
    assert!(forth.starts_with("exit 0"), "{forth}");
    assert!(answer(&lab).contains("\nthree\n"));
    lab.run(&["rollback", "say"]);
    assert!(answer(&lab).contains("\ntwo\n"));
    fs::write(lab.plugins().join("say.wasm"), says("four")).expect("written");
    assert!(answer(&lab).contains("\nfour\n"));
}
