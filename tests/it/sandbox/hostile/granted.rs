//! Folders of plugins that something was granted to, what they are linked to, and what is built unasked:
//! no grant for writing covers one, wherever it is given.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::json;

use crate::support::{Lab, guest, made};

/// A lab with the user's plugin `probe`, which asks for any directory.
fn lab() -> Lab {
    let lab = Lab::new();
    fs::create_dir_all(lab.home().join("plugins")).expect("made");
    fs::write(lab.home().join("plugins/probe.wasm"), guest("probe")).expect("written");
    lab
}

/// Runs the program in a folder.
fn run(lab: &Lab, folder: &Path, arguments: &[&str]) -> (i32, String) {
    let mut command = lab.command(env!("CARGO_BIN_EXE_toolhost"));
    let output = command.current_dir(folder).args(arguments).output().expect("the program");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).replace(&*lab.home().to_string_lossy(), "HOME");
    (output.status.code().expect("an exit code"), text)
}

/// What a grant for writing comes to, given far from there.
#[track_caller]
fn refused(lab: &Lab, folder: &Path, reason: &str) {
    let elsewhere = lab.home().join("elsewhere");
    fs::create_dir_all(&elsewhere).expect("made");
    let grant = |access: &str| {
        let dir = format!("{}:{access}", folder.display());
        run(lab, &elsewhere, &["grant", "user/probe", "--dir", &dir, "--anyway"])
    };
    let (code, said) = grant("rw");
    assert!(code == 2 && said.contains(reason), "{}: {code} {said}", folder.display());
    assert_eq!(grant("ro").0, 0, "{}", folder.display());
}

#[test]
fn no_plugin_may_change_what_another_project_has_granted() {
    let lab = lab();
    let project = lab.home().join("f1");
    fs::create_dir_all(project.join("plugins")).expect("made");
    fs::create_dir_all(project.join("docs")).expect("made");
    let env = made(&json!({
        "tools": [{ "name": "token", "answer": { "env": "TOKEN" } }],
        "needs": [{ "kind": "env", "value": { "names": ["TOKEN"] } }],
    }));
    fs::write(project.join("plugins/rd.wasm"), env).expect("written");
    // As long as nothing is granted there, it is a folder like any other.
    let dir = format!("{}:rw", project.display());
    let elsewhere = lab.home().join("project");
    assert_eq!(run(&lab, &elsewhere, &["grant", "probe", "--dir", &dir]).0, 0);
    assert_eq!(run(&lab, &project, &["grant", "rd", "--env", "TOKEN"]).0, 0);
    let reason = "which holds plugins that were granted something or trusted";
    refused(&lab, &project, reason);
    refused(&lab, &project.join("plugins"), "it holds plugins that were granted");
    let docs = format!("{}:rw", project.join("docs").display());
    assert_eq!(run(&lab, &elsewhere, &["grant", "probe", "--dir", &docs]).0, 0);
    // The grant of before gives nothing.
    let path = project.join("plugins/rd.wasm");
    let call = json!({ "text": path }).to_string();
    let (code, said) = run(&lab, &elsewhere, &["call", "scribble", &call]);
    assert!(code != 0 && !said.contains("\"ok\""), "{said}");
    assert!(fs::metadata(&path).expect("there").len() > 100);
    let (_, said) = run(&lab, &elsewhere, &["doctor"]);
    assert!(said.contains(reason), "{said}");
}

#[test]
fn no_plugin_may_change_what_a_plugin_is_linked_to() {
    let lab = lab();
    let work = lab.home().join("mine");
    fs::create_dir_all(&work).expect("made");
    fs::write(work.join("json.wasm"), guest("json")).expect("written");
    symlink(work.join("json.wasm"), lab.home().join("plugins/json.wasm")).expect("a link");
    refused(&lab, &work, "which holds what a plugin is linked to");
}

#[test]
fn no_plugin_may_change_what_is_built_unasked() {
    let lab = lab();
    let project = lab.home().join("f2");
    for folder in ["crate/src", "words", "docs"] {
        fs::create_dir_all(project.join(folder)).expect("made");
    }
    fs::write(project.join("toolhost.toml"), "# Nothing.\n").expect("written");
    fs::write(project.join("crate/Cargo.toml"), "[package]\n").expect("written");
    fs::write(project.join("words/plugin.py"), "import toolhost\n").expect("written");
    assert_eq!(run(&lab, &project, &["trust", ".", "--yes"]).0, 0);
    for folder in ["crate", "crate/src", "words"] {
        refused(
            &lab,
            &project.join(folder),
            "holds the source of a plugin, which is built unasked",
        );
    }
    refused(&lab, &project, "cannot be granted");
    let docs = format!("{}:rw", project.join("docs").display());
    assert_eq!(run(&lab, &lab.work(), &["grant", "probe", "--dir", &docs]).0, 0);
    // What `new` made, too, wherever it lies.
    let (code, said) = run(&lab, &lab.work(), &["new", "mine", "--lang", "rust"]);
    assert_eq!(code, 0, "{said}");
    refused(&lab, &lab.work().join("mine"), "holds the source of a plugin, which is built unasked");
}
