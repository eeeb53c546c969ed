//! What may be built, and who is asked: building runs the code of a source's author as this user.

mod later;
mod parts;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use expect_test::expect;
use serde_json::Value;

use crate::support::Lab;

/// A lab with the folder `json` of a stranger, whose build says that it ran.
fn lab() -> Lab {
    let lab = Lab::new();
    stranger(&lab.work().join("json"));
    lab
}

/// A package whose build script writes the file `ran` beside it.
fn stranger(folder: &Path) {
    fs::create_dir_all(folder.join("src")).expect("made");
    let files = [
        (
            "Cargo.toml",
            "[package]\nname = \"json\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[lib]\ncrate-type = [\"cdylib\"]\n\n[workspace]\n",
        ),
        ("build.rs", "fn main() { std::fs::write(\"ran\", \"\").unwrap(); }\n"),
        ("src/lib.rs", ""),
    ];
    for (name, text) in files {
        fs::write(folder.join(name), text).expect("written");
    }
}

/// The program, with what a compiler takes of the environment.
fn command(lab: &Lab, program: &str) -> Command {
    let mut command = lab.command(program);
    let kept = ["HOME", "CARGO_HOME", "RUSTUP_HOME"];
    command
        .envs(std::env::vars_os().filter(|(name, _)| kept.iter().any(|kept| name == kept)))
        .env("CARGO_TARGET_DIR", lab.home().join("target"));
    command
}

fn run(lab: &Lab, arguments: &[&str]) -> (i32, String) {
    said(lab, &command(lab, env!("CARGO_BIN_EXE_toolhost")).args(arguments).output().expect("run"))
}

fn said(lab: &Lab, output: &Output) -> (i32, String) {
    let text = [output.stdout.as_slice(), &output.stderr].concat();
    let text = String::from_utf8_lossy(&text).replace(&*lab.home().to_string_lossy(), "HOME");
    (output.status.code().expect("an exit code"), text)
}

/// Tells whether the stranger's code ran, and forgets it.
fn ran(lab: &Lab, folder: &str) -> bool {
    fs::remove_file(lab.work().join(folder).join("ran")).is_ok()
}

#[test]
fn nothing_builds_from_a_bare_word() {
    let lab = lab();
    let check = |arguments: &[&str], expected: &str| {
        let (code, said) = run(&lab, arguments);
        assert_eq!((code, said.as_str()), (2, expected), "{arguments:?}");
        assert!(!ran(&lab, "json"), "{arguments:?}");
    };
    check(
        &["check", "json"],
        "error: there is no plugin `json`\nhint: `./json` names what lies here\n",
    );
    let no_path = "error: `json` is not a path; a source is named by its path, never by the name of a plugin\nhint: `./json` names what lies here\n";
    check(&["build", "json"], no_path);
    check(&["build", "json", "--yes"], no_path);
    check(&["dev", "json", "--once", "--yes"], no_path);
    fs::rename(lab.work().join("json"), lab.work().join("json.wasm")).expect("renamed");
    let (code, _) = run(&lab, &["check", "json.wasm", "--yes"]);
    assert!(code != 0 && !ran(&lab, "json.wasm"));
    let (code, _) = run(&lab, &["build", "json.wasm", "--yes"]);
    assert!(code != 0 && !ran(&lab, "json.wasm"));
}

#[test]
fn a_strangers_code_runs_once_somebody_has_said_so() {
    let lab = lab();
    for command in ["build", "check"] {
        let (code, said) = run(&lab, &[command, "./json"]);
        assert_eq!(code, 3, "{said}");
        expect![[r"
            building HOME/project/json runs its author's code as you, outside the sandbox
            error: nobody can be asked here, so nothing is built
            hint: look at it; to build it, add `--yes`
        "]]
        .assert_eq(&said);
        assert!(!ran(&lab, "json"));
    }
    let (code, said) = run(&lab, &["dev", "./json", "--once"]);
    assert!(code == 3 && said.contains("nobody can be asked"), "{said}");
    let (code, said) = run(&lab, &["build", "./json", "--json"]);
    assert!(code == 3 && said.contains("nobody can be asked"), "{said}");
    assert!(!ran(&lab, "json"));
    // It is built, and what it makes is no plugin.
    let (code, said) = run(&lab, &["build", "./json", "--yes"]);
    assert!(code == 1 && said.contains("runs its author's code as you"), "{said}");
    assert!(ran(&lab, "json"), "{said}");
    // Once for each folder, by whatever name.
    std::os::unix::fs::symlink("json", lab.work().join("link")).expect("a link");
    fs::write(lab.work().join("json/src/lib.rs"), "// Another.\n").expect("written");
    fs::write(
        lab.work().join("json/build.rs"),
        "fn main() { std::fs::write(\"ran\", \"2\").unwrap(); }\n",
    )
    .expect("written");
    let (_, said) = run(&lab, &["check", "./link"]);
    assert!(ran(&lab, "json") && !said.contains("author's code"), "{said}");
    // Another folder is another author's, also one at the same path.
    fs::rename(lab.work().join("json"), lab.work().join("before")).expect("renamed");
    stranger(&lab.work().join("json"));
    let (code, said) = run(&lab, &["build", "./json"]);
    assert!(code == 3 && said.contains("nobody can be asked"), "{said}");
    assert!(!ran(&lab, "json"));
}

/// Runs the program at a terminal, where somebody types an answer.
fn at_a_terminal(lab: &Lab, arguments: &[&str], answer: &str) -> (i32, String) {
    const TERMINAL: &str = r#"
import os, pty, sys
child, terminal = pty.fork()
if not child:
    os.execv(sys.argv[2], sys.argv[2:])
said = b""
while True:
    try:
        some = os.read(terminal, 4096)
    except OSError:
        break
    if not some:
        break
    said += some
    if said.endswith(b"[y/N] "):
        os.write(terminal, sys.argv[1].encode() + b"\n")
sys.stdout.buffer.write(said)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"#;
    let mut python = command(lab, "python3");
    python.args(["-c", TERMINAL, answer, env!("CARGO_BIN_EXE_toolhost")]).args(arguments);
    said(lab, &python.output().expect("python3"))
}

#[test]
fn somebody_at_a_terminal_is_asked() {
    let lab = lab();
    let (code, said) = at_a_terminal(&lab, &["build", "./json"], "n");
    assert!(code == 3 && said.contains("Build it? [y/N] ") && said.contains("nothing is built"));
    assert!(!ran(&lab, "json"));
    let (_, said) = at_a_terminal(&lab, &["build", "./json"], "y");
    assert!(ran(&lab, "json"), "{said}");
    let (_, said) = run(&lab, &["build", "./json"]);
    assert!(!said.contains("author's code"), "{said}");
}

#[test]
fn a_trusted_project_is_built_without_asking() {
    let lab = lab();
    fs::write(lab.work().join("toolhost.toml"), "# Nothing.\n").expect("written");
    assert_eq!(run(&lab, &["build", "./json"]).0, 3);
    let (code, said) = run(&lab, &["trust", ".", "--yes"]);
    assert_eq!(code, 0, "{said}");
    let (_, said) = run(&lab, &["build", "./json"]);
    assert!(ran(&lab, "json") && !said.contains("author's code"), "{said}");
    // Its file is no longer what was trusted.
    fs::write(lab.work().join("toolhost.toml"), "# Something.\n").expect("written");
    stranger(&lab.work().join("other"));
    assert_eq!(run(&lab, &["build", "./other"]).0, 3);
    assert!(!ran(&lab, "other"));
}

#[test]
fn a_clone_within_a_trusted_project_is_a_strangers() {
    let lab = Lab::new();
    fs::write(lab.work().join("toolhost.toml"), "# Nothing.\n").expect("written");
    let (code, said) = run(&lab, &["trust", ".", "--yes"]);
    assert_eq!(code, 0, "{said}");
    let clone = lab.work().join("clone");
    stranger(&clone.join("json"));
    fs::create_dir_all(clone.join("sdk/rust")).expect("made");
    fs::write(clone.join("sdk/rust/Cargo.toml"), "").expect("written");
    let new = |name: &str| run(&lab, &["new", name, "--lang", "rust", "--dir", "clone"]).1;
    for mark in [".git", "toolhost.toml"] {
        fs::write(clone.join(mark), "# Nothing.\n").expect("written");
        for command in ["build", "check"] {
            let (code, said) = run(&lab, &[command, "./clone/json"]);
            assert!(code == 3 && said.contains("nobody can be asked"), "{mark}: {said}");
        }
        assert!(!ran(&lab, "clone/json"), "{mark}");
        let said = new(&format!("of-{}", mark.replace('.', "")));
        assert!(said.contains("clone/sdk/rust is not taken"), "{mark}: {said}");
        fs::remove_file(clone.join(mark)).expect("removed");
    }
    // Without a mark of its own it is a part of the project, once that is trusted with it.
    assert!(!new("of-none").contains("is not taken"));
    assert_eq!(run(&lab, &["build", "./clone/json"]).0, 3);
    assert_eq!(run(&lab, &["trust", ".", "--yes"]).0, 0);
    run(&lab, &["build", "./clone/json"]);
    assert!(ran(&lab, "clone/json"));
}

#[test]
fn a_strangers_workspace_has_a_say_unless_the_source_has_its_own() {
    let lab = Lab::new();
    let (mine, theirs) = (lab.work().join("mine"), lab.work().join("Cargo.toml"));
    stranger(&mine.join("json"));
    let manifest = mine.join("json/Cargo.toml");
    let own = fs::read_to_string(&manifest).expect("there");
    fs::write(&manifest, own.replace("[workspace]\n", "")).expect("written");
    fs::write(mine.join("toolhost.toml"), "# Nothing.\n").expect("written");
    assert_eq!(run(&lab, &["trust", "./mine", "--yes"]).0, 0);
    fs::write(&theirs, "[workspace]\nmembers = [\"mine/json\"]\n").expect("written");
    let refused = || {
        for command in ["build", "check"] {
            let (code, said) = run(&lab, &[command, "./mine/json"]);
            assert!(code == 3 && said.contains("HOME/project/Cargo.toml has a say"), "{said}");
        }
        assert!(!ran(&lab, "mine/json"));
    };
    refused();
    // One between leaves it to those above it.
    fs::write(mine.join("Cargo.toml"), "[workspace]\nexclude = [\"json\"]\n").expect("written");
    refused();
    fs::write(mine.join("Cargo.toml"), "[workspace]\nmembers = [\"json\"]\n").expect("written");
    let (_, said) = run(&lab, &["build", "./mine/json"]);
    assert!(ran(&lab, "mine/json"), "{said}");
    fs::remove_file(mine.join("Cargo.toml")).expect("removed");
    refused();
    fs::write(&manifest, own).expect("written");
    let (_, said) = run(&lab, &["check", "./mine/json"]);
    assert!(ran(&lab, "mine/json"), "{said}");
}

#[test]
fn what_is_being_built_lies_where_no_plugin_writes() {
    let lab = Lab::new();
    stranger(&lab.work().join("json"));
    let says = "fn main() { std::fs::write(\"ran\", std::env::var(\"TMPDIR\").unwrap()).unwrap(); std::process::exit(1) }\n";
    fs::write(lab.work().join("json/build.rs"), says).expect("written");
    fs::create_dir(lab.work().join("words")).expect("made");
    let words = "from toolhost import plugin, tool\nplugin('words', '1.0.0')\n\n@tool\ndef say() -> str:\n    \"\"\"Says something.\"\"\"\n    return 'said'\n";
    fs::write(lab.work().join("words/plugin.py"), words).expect("written");
    let shared = lab.home().join("shared");
    fs::create_dir(&shared).expect("made");
    let run = |arguments: &[&str]| {
        let mut command = command(&lab, env!("CARGO_BIN_EXE_toolhost"));
        said(&lab, &command.args(arguments).env("TMPDIR", &shared).output().expect("run"))
    };
    for name in ["build", "check"] {
        let (_, said) = run(&[name, "./json", "--yes"]);
        let place = fs::read_to_string(lab.work().join("json/ran")).expect(&said);
        let is_staged =
            place.contains("/.toolhost-dev-") && !Path::new(&place).starts_with(&shared);
        assert!(is_staged, "{name}: {place}");
        assert!(!Path::new(&place).exists(), "{name}: {place} is left");
        assert!(ran(&lab, "json"));
    }
    // Nothing can be put there at all.
    fs::remove_dir(&shared).expect("removed, and empty");
    fs::write(&shared, "").expect("written");
    let (code, said) = run(&["dev", "./words", "--once"]);
    assert_eq!(code, 0, "{said}");
}

#[test]
fn what_new_made_is_built_without_asking_unless_others_have_a_say() {
    let lab = Lab::new();
    let (code, said) = run(&lab, &["new", "mine", "--lang", "rust"]);
    assert_eq!(code, 0, "{said}");
    // As fast as cargo says no.
    let broken = || fs::write(lab.work().join("mine/Cargo.toml"), "nonsense").expect("written");
    broken();
    let (code, said) = run(&lab, &["build", "./mine"]);
    assert!(code == 1 && said.contains("the build of HOME/project/mine failed"), "{said}");
    assert!(!said.contains("author's code"), "{said}");
    // A copy is not what was made.
    let copied = Command::new("cp").args(["-R", "mine", "copy"]).current_dir(lab.work()).status();
    assert!(copied.expect("cp").success());
    let (code, said) = run(&lab, &["build", "./copy"]);
    assert!(code == 3 && said.contains("nobody can be asked"), "{said}");
    // The repository around it tells cargo what to run.
    for file in [".cargo/config.toml", "rust-toolchain.toml"] {
        let file = lab.work().join(file);
        fs::create_dir_all(file.parent().expect("a folder")).expect("made");
        fs::write(&file, "").expect("written");
        let (code, said) = run(&lab, &["build", "./mine"]);
        assert!(code == 3 && said.contains("nobody can be asked"), "{said}");
        let name = file.file_name().expect("a name").to_string_lossy().into_owned();
        assert!(said.contains(&format!("{name} has a say")), "{said}");
        fs::remove_file(&file).expect("removed");
    }
    assert!(run(&lab, &["build", "./mine"]).1.contains("failed"));
}

#[test]
fn a_script_is_built_like_anything_and_copied_without_asking() {
    let lab = Lab::new();
    fs::create_dir(lab.work().join("words")).expect("made");
    fs::write(lab.work().join("words/plugin.py"), "import toolhost\n").expect("written");
    for arguments in [&["build", "./words"][..], &["dev", "./words", "--component", "--once"]] {
        let (code, said) = run(&lab, arguments);
        assert!(code == 3 && said.contains("nobody can be asked"), "{said}");
    }
    let (_, said) = run(&lab, &["dev", "./words", "--once"]);
    assert!(!said.contains("author's code"), "{said}");
    assert!(lab.plugins().join("words/plugin.py").is_file());
}

#[test]
fn a_script_takes_no_grant_of_another_unasked() {
    let lab = Lab::new();
    let text = "from toolhost import need, plugin, tool\nplugin('notes', '1.0.0')\nneed.env('TOKEN', tools=['note'])\n\n@tool\ndef note() -> str:\n    \"\"\"Notes.\"\"\"\n    return 'mine'\n";
    fs::write(lab.plugins().join("notes.py"), text).expect("written");
    let (code, said) = run(&lab, &["grant", "notes", "--env", "TOKEN", "--anyway"]);
    assert_eq!(code, 0, "{said}");
    fs::create_dir(lab.work().join("strange")).expect("made");
    let source = lab.work().join("strange/notes.py");
    fs::write(&source, text.replace("mine", "theirs")).expect("written");
    let installed = || fs::read_to_string(lab.plugins().join("notes.py")).expect("a plugin");
    let (code, said) = run(&lab, &["dev", "strange/notes.py", "--once", "--out", "plugins"]);
    assert_eq!(code, 3, "{said}");
    assert!(
        said.contains("replaces plugin notes, and gets what that was granted: --env TOKEN"),
        "{said}"
    );
    assert!(said.contains("nobody can be asked") && installed().contains("mine"), "{said}");
    let (code, said) =
        run(&lab, &["dev", "strange/notes.py", "--once", "--out", "plugins", "--yes"]);
    assert!(code == 0 && installed().contains("theirs"), "{said}");
}

#[test]
fn nothing_is_put_where_a_strangers_link_leads() {
    let lab = Lab::new();
    fs::remove_dir(lab.plugins()).expect("removed");
    fs::create_dir(lab.home().join("theirs")).expect("made");
    std::os::unix::fs::symlink(lab.home().join("theirs"), lab.plugins()).expect("a link");
    fs::write(lab.work().join("words.py"), "import toolhost\n").expect("written");
    for arguments in [
        &["dev", "./words.py", "--once", "--out", "plugins"][..],
        &["build", "./words.py", "--yes"],
    ] {
        let (code, said) = run(&lab, arguments);
        assert!(code == 2 && said.contains("leads out of its project"), "{said}");
    }
    assert_eq!(fs::read_dir(lab.home().join("theirs")).expect("a folder").count(), 0);
}

/// A repository that looks like a checkout of toolhost.
fn repository(lab: &Lab) {
    let sdk = lab.work().join("repo/sdk/rust");
    fs::create_dir_all(&sdk).expect("made");
    fs::write(sdk.join("Cargo.toml"), "[package]\nname = \"toolhost-sdk\"\n").expect("written");
    fs::write(lab.work().join("repo/Cargo.toml"), "[workspace]\n").expect("written");
    fs::write(lab.work().join("repo/toolhost.toml"), "# Nothing.\n").expect("written");
}

#[test]
fn new_takes_no_sdk_from_a_strangers_repository() {
    let lab = Lab::new();
    repository(&lab);
    let new = |name: &str, more: &[&str]| {
        let all = [&["new", name, "--lang", "rust", "--dir", "repo/in", "--json"], more].concat();
        let output = lab.command(env!("CARGO_BIN_EXE_toolhost")).args(all).output().expect("run");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let made: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{said}"));
        let manifest = lab.work().join("repo/in").join(name).join("Cargo.toml");
        (made["sdk"].clone(), said, fs::read_to_string(manifest).expect("there"))
    };
    let own =
        fs::canonicalize(concat!(env!("CARGO_MANIFEST_DIR"), "/../../sdk/rust")).expect("there");
    let own = own.to_string_lossy();
    let (sdk, said, manifest) = new("first", &[]);
    assert_eq!(sdk["path"], *own);
    assert!(said.contains("repo/sdk/rust is not taken: nobody has trusted the project"), "{said}");
    assert!(manifest.contains(&*own), "{manifest}");
    // Named, it is taken; and so it is of a project that is trusted.
    let (sdk, said, _) = new("second", &["--sdk", "repo"]);
    assert!(sdk["path"].as_str().expect("a path").ends_with("repo/sdk/rust") && said.is_empty());
    let (code, said) = run(&lab, &["trust", "./repo", "--yes"]);
    assert_eq!(code, 0, "{said}");
    let (sdk, said, manifest) = new("third", &[]);
    assert_eq!((sdk["path"].as_str(), said.as_str()), (Some("../../sdk/rust"), ""));
    assert!(manifest.contains(r#"path = "../../sdk/rust""#), "{manifest}");
    // Not where a link leads out of it.
    let sdk = lab.work().join("repo/sdk");
    fs::rename(&sdk, lab.work().join("elsewhere")).expect("moved");
    std::os::unix::fs::symlink(lab.work().join("elsewhere"), &sdk).expect("a link");
    let (sdk, said, _) = new("fourth", &[]);
    assert!(sdk["path"] == *own && said.contains("is not taken"), "{sdk} {said}");
}
