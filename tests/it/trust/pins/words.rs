//! The words that hints print for a plugin reach that plugin, whatever lies at its path by then.

use std::fs;
use std::os::unix::fs::symlink;

use super::whose::{file, granted, has, run_in};

const SCRIPT: &str = "from toolhost import need, tool\n\nneed.env(\"TOKEN\")\n\n\n@tool\ndef made_b() -> str:\n    return \"\"\n";

#[test]
fn a_folder_in_the_place_of_a_plugin_that_is_gone_is_no_project() {
    let (lab, stranger) = granted();
    let words = lab.plugins().join("made").display().to_string();
    fs::remove_file(lab.plugins().join("made.wasm")).expect("removed");
    fs::create_dir_all(lab.plugins().join("made/plugins")).expect("a folder");
    let printed = run_in(&lab, &stranger, &["revoke", "made"]);
    has(&printed, &["exit 2", "`toolhost revoke HOME/project/plugins/made`"]);
    let printed = run_in(&lab, &stranger, &["revoke", &words]);
    has(&printed, &["exit 0", "plugin:made has lost 1 grant"]);
    assert!(!file(&lab).contains("TOKEN"), "{}", file(&lab));
}

#[test]
fn a_script_that_looks_like_a_project_is_a_plugin() {
    let (lab, stranger) = granted();
    let script = stranger.join("plugins/made");
    fs::remove_file(stranger.join("plugins/made.wasm")).expect("removed");
    fs::create_dir_all(script.join("plugins")).expect("a folder");
    fs::write(script.join("toolhost.toml"), "[plugins.plugin]\nenv = [\"TOKEN\"]\n")
        .expect("written");
    fs::write(script.join("plugin.py"), SCRIPT).expect("written");
    // By its folder, and by its main file.
    for words in ["plugins/made", "./plugins/made/plugin.py"] {
        let printed = run_in(&lab, &stranger, &["grant", words, "--env", "TOKEN"]);
        has(&printed, &["exit 0", "plugin:made"]);
        let words = fs::canonicalize(&script).expect("a folder").display().to_string();
        let printed = run_in(&lab, &stranger, &["revoke", &words, "--env", "TOKEN"]);
        has(&printed, &["exit 0", "plugin:made has lost 1 grant"]);
    }
    // With a slash at the end it is the project that is asked about.
    let printed = run_in(&lab, &stranger, &["revoke", "plugins/made/"]);
    has(&printed, &["exit 0", "the project HOME/stranger/plugins/made was not trusted"]);
}

#[test]
fn words_for_a_project_that_was_moved_are_not_those_of_a_link_in_its_place() {
    let (lab, stranger) = granted();
    let printed = run_in(&lab, &stranger, &["grant", "./plugins/made.wasm", "--env", "TOKEN"]);
    has(&printed, &["exit 0"]);
    let project = fs::canonicalize(lab.plugins()).expect("a folder");
    let project = project.parent().expect("a project").to_owned();
    fs::rename(&project, lab.home().join("moved")).expect("renamed");
    symlink(&stranger, &project).expect("a link");
    // Both the words of a hint and the file of before.
    let words = project.join("plugins/made.wasm").display().to_string();
    let printed = run_in(&lab, &lab.home().to_owned(), &["revoke", &words]);
    has(&printed, &["exit 0", "plugin:made has lost 1 grant"]);
    let file = file(&lab);
    assert!(!file.contains("project/plugins") && file.contains("stranger/plugins"), "{file}");
}
