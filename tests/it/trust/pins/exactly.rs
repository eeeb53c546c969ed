//! What a command takes or gives is exactly what is meant: ids whose bundled plugin is gone, tables of
//! ids that were given to others, access that is not asked for, and hints that can be run as they stand.

use std::fs;

use serde_json::json;

use super::plugin;
use crate::support::{Lab, guest, made};

fn has(printed: &str, expected: &[&str]) {
    for expected in expected {
        assert!(printed.contains(expected), "lacks {expected}:\n{printed}");
    }
}

#[test]
fn who_takes_the_place_of_a_bundled_plugin_is_not_taken_for_it() {
    let lab = Lab::new().with("json.wasm", guest("json"));
    lab.record_bundled("json");
    has(&lab.run(&["grant", "json", "--env", "TOKEN", "--anyway"]), &["exit 0"]);
    let strange = made(&json!({ "tools": [{ "name": "say", "answer": { "text": "a" } }] }));
    fs::write(lab.plugins().join("json.wasm"), strange).expect("written");
    for (command, rest) in [("grant", "--kv --anyway"), ("trust", "--yes"), ("revoke", "")] {
        let rest: Vec<&str> = rest.split_whitespace().collect();
        let said = lab.run(&[&[command, "json"], &rest[..]].concat());
        let words = format!("toolhost {command} bundled/json");
        has(&said, &["exit 2", "2 plugins have the id `json`", &words, "plugins/json.wasm"]);
    }
    has(&lab.run(&["trust", "json", "--yes"]), &["plugins/json.wasm --yes`"]);
    has(&lab.run(&["grant", "plugins/json.wasm", "--kv", "--anyway"]), &["exit 0"]);
}

#[test]
fn revoking_takes_nothing_of_a_table_that_was_given_to_another() {
    let lab = Lab::new().with("made.wasm", plugin("The user's.", &[]));
    has(&lab.run(&["grant", "made", "--env", "TOKEN"]), &["exit 0"]);
    let file = lab.home().join("toolhost.toml");
    fs::write(&file, "[plugins.made]\nenv = [\"TOKEN\", \"LANG\", \"HOME\"]\n").expect("written");
    let other = lab.home().join("other");
    fs::create_dir_all(other.join("plugins")).expect("made");
    fs::write(other.join("plugins/made.wasm"), plugin("Another's.", &[])).expect("written");
    let run = |arguments: &[&str]| {
        let mut command = lab.command(env!("CARGO_BIN_EXE_toolhost"));
        let output = command.current_dir(&other).args(arguments).output().expect("run");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    has(&run(&["trust", "plugins/made.wasm", "--yes"]), &["is trusted"]);
    has(&run(&["revoke", "plugins/made.wasm"]), &["plugin:made had no grant"]);
    let left = fs::read_to_string(&file).expect("there");
    has(&left, &["LANG", "HOME", "TOKEN"]);
}

#[test]
fn access_that_is_not_asked_for_is_not_granted_by_the_way() {
    let reads = made(&json!({
        "tools": [{ "name": "say", "answer": { "text": "a" } }],
        "needs": [{ "kind": "dirs", "value": { "path": "*", "access": "ro" } }],
    }));
    let lab = Lab::new().with("reads.wasm", reads);
    let data = lab.home().join("data");
    fs::create_dir(&data).expect("made");
    let grant = |access: &str, more: &[&str]| {
        let dir = format!("{}:{access}", data.display());
        lab.run(&[&["grant", "reads", "--dir", &dir], more].concat())
    };
    has(
        &grant("rw", &[]),
        &[
            "exit 2",
            "plugin:reads only asks to read that: `--dir HOME/data:rw` would give it no more than `ro`",
            "hint: grant `--dir HOME/data:ro`",
            "add `--anyway`",
        ],
    );
    has(&grant("rw", &["--anyway"]), &["exit 0"]);
    has(&grant("ro", &[]), &["exit 0", "HOME/data:ro"]);
    // However its path is written.
    let dir = format!("{}/:ro", data.display());
    has(&lab.run(&["revoke", "reads", "--dir", &dir]), &["exit 0", "has lost 1 grant"]);
}

#[test]
fn a_hint_names_each_grant_once() {
    let lab = Lab::new().with("made.wasm", plugin("The user's.", &[]));
    has(&lab.run(&["grant", "made", "--env", "TOKEN"]), &["exit 0"]);
    has(&lab.run(&["grant", "made", "--kv", "--anyway"]), &["exit 0"]);
    fs::write(lab.plugins().join("made.wasm"), plugin("Another.", &[])).expect("written");
    let said = lab.run(&["grant", "made", "--env", "TOKEN"]);
    has(&said, &["exit 2", "then run `toolhost grant made --env TOKEN --kv`"]);
}
