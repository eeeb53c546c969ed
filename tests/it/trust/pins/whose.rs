//! Grants reach whom they were given to, and nobody else: the same id in several folders.

use std::fs;
use std::path::PathBuf;

use serde_json::json;

use super::plugin;
use crate::support::{Lab, bundled, guest, made, registering};

/// A lab in whose project `made` was granted a variable; and the folder of a stranger's project, with
/// another plugin of that id.
pub(super) fn granted() -> (Lab, PathBuf) {
    let lab = Lab::new().with("made.wasm", plugin("The user's.", &[]));
    let printed = lab.run(&["grant", "made", "--env", "TOKEN"]);
    assert!(printed.starts_with("exit 0\n"), "{printed}");
    let stranger = lab.home().join("stranger");
    fs::create_dir_all(stranger.join("plugins")).expect("a folder");
    fs::write(stranger.join("plugins/made.wasm"), plugin("A stranger's.", &[])).expect("written");
    (lab, stranger)
}

/// What a command prints in another folder.
pub(super) fn run_in(lab: &Lab, folder: &PathBuf, arguments: &[&str]) -> String {
    let output = lab
        .command(env!("CARGO_BIN_EXE_toolhost"))
        .current_dir(folder)
        .env("TOKEN", "t0ken")
        .args(arguments)
        .stdin(std::process::Stdio::null())
        .output()
        .expect("the program");
    let text = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        text.replace(&*lab.home().to_string_lossy(), "HOME")
    };
    let code = output.status.code().expect("an exit code");
    format!("exit {code}\n{}{}", text(&output.stdout), text(&output.stderr))
}

pub(super) fn file(lab: &Lab) -> String {
    fs::read_to_string(lab.home().join("toolhost.toml")).unwrap_or_default()
}

pub(super) fn has(printed: &str, expected: &[&str]) {
    for expected in expected {
        assert!(printed.contains(expected), "lacks {expected}:\n{printed}");
    }
}

#[test]
fn a_grant_names_the_folder() {
    let (lab, _) = granted();
    let folder = fs::canonicalize(lab.plugins()).expect("a folder");
    let table = format!("[plugins.\"{}/made\"]\nenv = [\"TOKEN\"]\n", folder.display());
    assert_eq!(file(&lab), table);
}

#[test]
fn nothing_proposes_trust_for_anothers_grant() {
    let (lab, stranger) = granted();
    for command in [&["list"][..], &["doctor"], &["explain", "token"], &["list", "--json"]] {
        let printed = run_in(&lab, &stranger, command);
        for word in ["toolhost trust", "was not granted to", "is pending", "changed"] {
            assert!(!printed.contains(word), "{command:?} says {word}:\n{printed}");
        }
    }
    // What it asks for itself is proposed in words that reach it.
    let doctor = run_in(&lab, &stranger, &["doctor"]);
    has(&doctor, &["to grant it, run `toolhost grant plugins/made.wasm --env TOKEN`"]);
    let called = run_in(&lab, &stranger, &["call", "token"]);
    assert_eq!(called, "exit 0\n\n");
    // Trust in it takes nothing over, however it is said.
    for words in ["./plugins/made.wasm", "./plugins/made"] {
        let trusted = run_in(&lab, &stranger, &["trust", words, "--yes"]);
        has(&trusted, &["exit 0\n", "granted  nothing"]);
    }
    let trusted = run_in(&lab, &stranger, &["trust", ".", "--yes"]);
    has(&trusted, &["exit 0\n", "granted  nothing"]);
    assert_eq!(run_in(&lab, &stranger, &["call", "token"]), "exit 0\n\n");
    assert_eq!(run_in(&lab, &lab.work(), &["call", "token"]), "exit 0\nt0ken\n");
    // Nor do other bytes of it wait for a person: it holds nothing.
    fs::write(stranger.join("plugins/made.wasm"), plugin("Another one.", &[])).expect("written");
    let listed = run_in(&lab, &stranger, &["list"]);
    assert!(!listed.contains("Pending"), "{listed}");
}

#[test]
fn an_id_of_several_is_an_error_with_the_words_for_each() {
    let (lab, stranger) = granted();
    let before = file(&lab);
    for (command, rest) in
        [("revoke", &[][..]), ("revoke", &["--env", "TOKEN"]), ("grant", &["--env", "TOKEN"])]
    {
        let refused = run_in(&lab, &stranger, &[&[command, "made"], rest].concat());
        let rest = rest.iter().map(|word| format!(" {word}")).collect::<String>();
        has(
            &refused,
            &[
                "exit 2\n",
                "2 plugins have the id `made`",
                &format!("`toolhost {command} HOME/stranger/plugins/made.wasm{rest}`"),
                &format!("`toolhost {command} HOME/project/plugins/made.wasm{rest}`"),
            ],
        );
    }
    has(&run_in(&lab, &stranger, &["trust", "made", "--yes"]), &["exit 2\n", "2 plugins have"]);
    assert_eq!(file(&lab), before);
    // Nor where the stranger's is gone: what is recorded is of another folder.
    fs::remove_file(stranger.join("plugins/made.wasm")).expect("removed");
    let refused = run_in(&lab, &stranger, &["revoke", "made"]);
    has(&refused, &["exit 2\n", "`toolhost revoke HOME/project/plugins/made.wasm`"]);
    assert_eq!(file(&lab), before);
    // By its folder it can be revoked from anywhere, also when it is gone.
    fs::remove_file(lab.plugins().join("made.wasm")).expect("removed");
    let refused = run_in(&lab, &stranger, &["revoke", "made"]);
    has(&refused, &["exit 2\n", "`toolhost revoke HOME/project/plugins/made`"]);
    let address = lab.plugins().join("made").display().to_string();
    let revoked = run_in(&lab, &stranger, &["revoke", &address]);
    has(&revoked, &["exit 0\n", "plugin:made has lost 1 grant"]);
    assert_eq!(file(&lab), "");
}

#[test]
fn what_is_bundled_is_that_wherever_it_lies() {
    let lab = Lab::new();
    lab.record_bundled("keeper");
    bundled(&lab, "keeper", &guest("keeper"));
    for folder in ["bundled", "plugins", "project/plugins"] {
        fs::create_dir_all(lab.home().join(folder)).expect("a folder");
    }
    fs::write(lab.home().join("bundled/keeper.wasm"), guest("keeper")).expect("written");
    // A copy of it is the same plugin.
    fs::write(lab.plugins().join("keeper.wasm"), guest("keeper")).expect("written");
    let granted = lab.run(&["grant", "keeper", "--kv"]);
    assert!(granted.starts_with("exit 0\n"), "{granted}");
    assert_eq!(file(&lab), "[plugins.\"bundled/keeper\"]\nkv = true\n");
    fs::remove_file(lab.home().join("bundled/keeper.wasm")).expect("removed");
    has(&lab.run(&["call", "count_up", r#"{"n": 2}"#]), &["exit 0\n", "\n2\n"]);
    // A file of the same id that is not bundled is another plugin, and has nothing of it.
    let other = made(&json!({
        "tools": [{ "name": "other", "answer": { "kv": "a" } }],
        "needs": [{ "kind": "kv", "value": {} }],
    }));
    fs::write(lab.plugins().join("keeper.wasm"), other).expect("written");
    let listed = lab.run(&["list"]);
    assert!(!listed.contains("toolhost trust") && !listed.contains("Pending"), "{listed}");
    has(&lab.run(&["call", "other"]), &["is not granted"]);
    fs::write(lab.home().join("bundled/keeper.wasm"), guest("keeper")).expect("written");
    let refused = lab.run(&["grant", "keeper", "--kv"]);
    has(
        &refused,
        &[
            "exit 2\n",
            "2 plugins have the id `keeper`",
            "`toolhost grant bundled/keeper --kv`",
            "`toolhost grant HOME/project/plugins/keeper.wasm --kv`",
        ],
    );
    // What the tools themselves say reaches the right one.
    has(&lab.run(&["call", "other"]), &["`toolhost grant plugins/keeper.wasm --kv`"]);
    has(&lab.run(&["revoke", "bundled/keeper"]), &["plugin:keeper has lost 1 grant"]);
    has(&lab.run(&["grant", "plugins/keeper.wasm", "--kv"]), &["exit 0\n"]);
    let called = lab.run(&["call", "other"]);
    assert!(!called.contains("is not granted"), "{called}");
    has(&lab.run(&["call", "count_up", r#"{"n": 2}"#]), &["grant bundled/keeper --kv"]);
}

#[test]
fn what_was_granted_in_the_days_before_is_whose_it_was() {
    // The file names an id, and the lock the folder.
    let (lab, stranger) = granted();
    let remark = "# For my notes.\n[plugins.made] # mine\nenv = [\"TOKEN\"] # a token\n";
    fs::write(lab.home().join("toolhost.toml"), remark).expect("written");
    let ours = || run_in(&lab, &lab.work(), &["call", "token"]);
    let theirs = || run_in(&lab, &stranger, &["call", "token"]);
    assert_eq!((ours().as_str(), theirs().as_str()), ("exit 0\nt0ken\n", "exit 0\n\n"));
    for command in ["list", "doctor"] {
        let printed = run_in(&lab, &stranger, &[command]);
        assert!(!printed.contains("toolhost trust") && !printed.contains("pending"), "{printed}");
    }
    has(&run_in(&lab, &stranger, &["revoke", "made"]), &["exit 2\n"]);
    let trusted = run_in(&lab, &stranger, &["trust", "./plugins/made.wasm", "--yes"]);
    has(&trusted, &["exit 0\n", "granted  nothing"]);
    // It is rewritten as soon as anything is decided about the id.
    let folder = fs::canonicalize(lab.plugins()).expect("a folder");
    let address = format!("{}/made", folder.display());
    assert_eq!(file(&lab), remark.replace("plugins.made", &format!("plugins.\"{address}\"")));
    assert_eq!((ours().as_str(), theirs().as_str()), ("exit 0\nt0ken\n", "exit 0\n\n"));
    has(&run_in(&lab, &stranger, &["revoke", &address]), &["has lost 1 grant"]);
    assert_eq!(ours(), "exit 0\n\n");
}

#[test]
fn what_was_written_for_an_id_that_several_have_is_nobodys() {
    let (lab, stranger) = granted();
    has(&lab.run(&["revoke", "made"]), &["exit 0\n"]);
    run_in(&lab, &stranger, &["list"]);
    for folder in [&lab.work(), &stranger] {
        fs::write(lab.home().join("toolhost.toml"), "[plugins.made]\nenv = [\"TOKEN\"]\n")
            .expect("written");
        assert_eq!(run_in(&lab, folder, &["call", "token"]), "exit 0\n\n");
        let listed = run_in(&lab, folder, &["list"]);
        assert!(!listed.contains("toolhost trust"), "{listed}");
        has(&run_in(&lab, folder, &["doctor"]), &["[plugins.made]: names no folder"]);
        has(&run_in(&lab, folder, &["trust", "made", "--yes"]), &["granted  nothing"]);
        assert_eq!(run_in(&lab, folder, &["call", "token"]), "exit 0\n\n");
        has(&run_in(&lab, folder, &["revoke", "made"]), &["exit 0\n"]);
    }
    // Whoever writes the folder is asked once.
    let table = format!(
        "[plugins.\"{}/made\"]\nenv = [\"TOKEN\"]\n",
        fs::canonicalize(lab.plugins()).expect("a folder").display()
    );
    fs::write(lab.home().join("toolhost.toml"), table).expect("written");
    has(&lab.run(&["list"]), &["TOKEN is pending: nobody has trusted these bytes"]);
    assert!(!run_in(&lab, &stranger, &["list"]).contains("pending"));
    has(&lab.run(&["trust", "made", "--yes"]), &["granted  --env TOKEN"]);
    assert_eq!(run_in(&lab, &lab.work(), &["call", "token"]), "exit 0\nt0ken\n");
}

#[test]
fn a_projects_file_names_ids_of_its_own_folder() {
    let (lab, stranger) = granted();
    // It takes away from every plugin of an id, and gives none of them anything.
    let here = lab.work().join("toolhost.toml");
    fs::write(&here, "[plugins.made]\nenv = []\n").expect("written");
    assert_eq!(run_in(&lab, &lab.work(), &["call", "token"]), "exit 0\n\n");
    let folder = fs::canonicalize(lab.plugins()).expect("a folder");
    for key in [format!("{}/made", folder.display()), "bundled/made".to_owned()] {
        let text = format!("[plugins.\"{key}\"]\nenv = [\"TOKEN\"]\n");
        fs::write(stranger.join("toolhost.toml"), &text).expect("written");
        let listed = run_in(&lab, &stranger, &["list"]);
        has(&listed, &["is ignored: line 1", "a project's file names plugins of its own folder"]);
        let trusted = run_in(&lab, &stranger, &["trust", ".", "--yes"]);
        has(&trusted, &["exit 2\n"]);
    }
    // Once it is trusted, what it says is for its own.
    fs::write(stranger.join("toolhost.toml"), "[plugins.made]\nenv = [\"TOKEN\"]\n")
        .expect("written");
    has(&run_in(&lab, &stranger, &["trust", ".", "--yes"]), &["exit 0\n"]);
    assert_eq!(run_in(&lab, &stranger, &["call", "token"]), "exit 0\nt0ken\n");
    fs::remove_file(here).expect("removed");
    has(&lab.run(&["revoke", "./plugins/made.wasm"]), &["exit 0\n"]);
    assert_eq!(run_in(&lab, &lab.work(), &["call", "token"]), "exit 0\n\n");
}

#[test]
fn every_command_that_takes_an_id_asks_which() {
    let lab = Lab::new().with("made.wasm", plugin("The project's.", &[]));
    fs::create_dir(lab.home().join("plugins")).expect("a folder");
    fs::write(lab.home().join("plugins/made.wasm"), registering("one of_user")).expect("written");
    for command in [
        &["grant", "made", "--env", "TOKEN"][..],
        &["revoke", "made"],
        &["trust", "made", "--yes"],
        &["rollback", "made"],
        &["rollback", "made", "--list"],
        &["check", "made"],
    ] {
        let refused = lab.run(command);
        let name = command[0];
        has(
            &refused,
            &[
                "exit 2\n",
                &format!("toolhost {name} HOME/plugins/made.wasm"),
                &format!("toolhost {name} HOME/project/plugins/made.wasm"),
            ],
        );
    }
    // The user's own comes first, so what is said of the project's names its file.
    has(&lab.run(&["rollback", "user/made", "--list"]), &["exit 0\n"]);
    let probed = lab.run(&["probe", "plugins/made.wasm", "token"]);
    has(&probed, &["exit 0\n", "toolhost grant plugins/made.wasm --env TOKEN"]);
}

#[test]
fn words_for_a_plugin_name_no_folder_of_a_repository() {
    for words in ["user/notes", "bundled/notes"] {
        let lab = Lab::new();
        let folder = lab.work().join(words);
        fs::create_dir_all(folder.join("plugins")).expect("made");
        fs::write(folder.join("toolhost.toml"), "[plugins.evil]\nenv = [\"LANG\"]\n")
            .expect("written");
        for arguments in [["trust", words, "--yes"], ["revoke", words, "--yes"]] {
            let arguments = if arguments[0] == "trust" { &arguments[..] } else { &arguments[..2] };
            let printed = lab.run(arguments);
            assert!(printed.starts_with("exit 2"), "{printed}");
            assert!(!printed.contains("project"), "{printed}");
        }
    }
}

#[test]
fn a_table_without_a_folder_proposes_no_stranger() {
    let config = "[plugins.made]\nenv = [\"TOKEN\"]\n";
    let lab = Lab::new().config(config).with("made.wasm", plugin("A stranger's.", &[]));
    for command in ["list", "doctor"] {
        let printed = lab.run(&[command]);
        assert!(!printed.contains("toolhost trust"), "{printed}");
        let table = format!("[plugins.\"{}\"]", "HOME/project/plugins/made");
        has(&printed, &["does not say of which folder", &table]);
    }
    // Whoever follows that has named it, and is then asked about its bytes.
    let table = format!(
        "[plugins.\"{}/made\"]\nenv = [\"TOKEN\"]\n",
        fs::canonicalize(lab.plugins()).expect("a folder").display()
    );
    let lab = lab.config(&table);
    has(&lab.run(&["list"]), &["toolhost trust made"]);
    has(&lab.run(&["trust", "made", "--yes"]), &["exit 0\n", "granted  --env TOKEN"]);
}

#[test]
fn a_main_file_in_a_plugins_folder_is_a_plugin_of_its_own() {
    let script = |tool: &str| {
        format!(
            "from toolhost import need, tool\n\nneed.kv()\n\n@tool\ndef {tool}() -> str:\n    \"\"\"Says.\"\"\"\n    return \"{tool}\"\n"
        )
    };
    let lab =
        Lab::new().with("plugin.py", script("main_one")).with("helper.py", script("helper_one"));
    let address =
        format!("{}/plugin", fs::canonicalize(lab.plugins()).expect("a folder").display());
    for words in ["plugin", "plugins/plugin.py", "./plugins/plugin.py"] {
        let granted = lab.run(&["grant", words, "--kv"]);
        has(&granted, &["exit 0\n"]);
        assert_eq!(file(&lab), format!("[plugins.\"{address}\"]\nkv = true\n"), "{words}");
        // Another file of the folder is no part of what was granted.
        fs::write(lab.plugins().join("helper.py"), script(&format!("helper_{}", words.len())))
            .expect("written");
        let listed = lab.run(&["list"]);
        assert!(!listed.contains("Pending"), "{listed}");
        has(&lab.run(&["revoke", words]), &["exit 0\n"]);
    }
}

#[test]
fn a_path_that_cannot_be_typed_is_proposed_to_nobody() {
    let lab = Lab::new();
    for folder in ["a b", "a\nb"] {
        let plugins = lab.home().join(folder).join("plugins");
        fs::create_dir_all(&plugins).expect("a folder");
        fs::write(plugins.join("made.wasm"), plugin(folder, &[])).expect("written");
    }
    let arguments = |command: &[&'static str]| {
        let folders = ["--plugins", "../a b/plugins", "--plugins", "../a\nb/plugins"];
        [command, &folders].concat()
    };
    let refused = lab.run(&arguments(&["grant", "made", "--env", "TOKEN"]));
    has(&refused, &["exit 2\n", "`toolhost grant 'HOME/a b/plugins/made.wasm' --env TOKEN`"]);
    has(&refused, &["go to the project of HOME/a b/plugins/made.wasm, and name it from there"]);
    let doctor = lab.run(&arguments(&["doctor"]));
    let proposals = doctor.matches("toolhost grant '../a b/plugins/made.wasm'").count();
    assert_eq!(proposals, 1, "{doctor}");
}
