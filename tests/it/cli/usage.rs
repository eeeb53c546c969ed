//! How the program is used: what `--help` offers, what exit codes mean, and what is said of a slip.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use expect_test::expect;
use serde_json::{Value, json};

use crate::cli::watch::TERMINAL;
use crate::support::{Lab, RUNNERS, guest, made};

/// The exit code of a command.
fn code(lab: &Lab, arguments: &[&str]) -> String {
    let said = lab.run(arguments);
    said.lines().next().expect("a code").to_owned()
}

#[test]
fn help_has_commands_in_groups() {
    let lab = Lab::new();
    for flag in ["-h", "--help"] {
        let help = lab.run(&[flag]);
        let place = |word: &str| help.find(word).unwrap_or_else(|| panic!("no {word}: {help}"));
        let order = [
            "Use tools:\n  list ",
            "\n  call ",
            "\n  serve ",
            "Author plugins:\n  new ",
            "\n  dev ",
            "Operate:\n  probe ",
            "\n  audit ",
            "Options:\n",
        ];
        assert!(order.windows(2).all(|pair| place(pair[0]) < place(pair[1])), "{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    }
}

#[test]
fn each_command_offers_the_flags_it_has() {
    let lab = Lab::new();
    let offered = |command: &[&str]| {
        let help = lab.run(&[command, &["--help"]].concat());
        let flags = ["--plugins", "--config", "--json", "--verbose"];
        let flags = flags.iter().filter(|flag| help.contains(*flag));
        flags.copied().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(offered(&["call"]), "--plugins --config --json --verbose");
    assert_eq!(offered(&["serve"]), "--plugins --config --verbose");
    assert_eq!(offered(&["new"]), "--json");
    assert_eq!(offered(&["audit", "verify"]), "--json");
    assert_eq!(offered(&["completions"]), "");
    // What is not offered is not taken, wherever it stands.
    for arguments in [["completions", "--json", "bash"], ["--json", "completions", "bash"]] {
        let said = lab.run(&arguments);
        assert!(said.starts_with("exit 2\n") && said.contains("--json"), "{said}");
    }
    // What is may stand before the command and after it.
    for arguments in [["--json", "where", "state"], ["where", "--json", "state"]] {
        assert!(lab.run(&arguments).contains("\"state\": "), "{arguments:?}");
    }
}

#[test]
fn a_tools_argument_as_a_flag_is_explained() {
    let lab = Lab::new();
    expect![[r#"
        exit 2
        --- stdout
        --- stderr
        error: unexpected argument '--path' found

          tip: an argument of the tool is given with `--arg path=x`

        Usage: toolhost call [OPTIONS] [TOOL] [JSON]

        For more information, try '--help'.
    "#]]
    .assert_eq(&lab.run(&["call", "read_file", "--path", "x"]));
    let tip = |arguments: &[&str]| {
        let said = lab.run(&[&["call", "read_file"], arguments].concat());
        let tip = said.split("given with `").nth(1).and_then(|rest| rest.split("`\n").next());
        tip.unwrap_or_else(|| panic!("no tip: {said}")).to_owned()
    };
    assert_eq!(tip(&["--path=a b"]), "--arg 'path=a b'");
    assert_eq!(tip(&["--limit", "2", "--arg", "path=x"]), "--arg limit=2");
    assert_eq!(tip(&["--recursive", "--json"]), "--arg recursive=VALUE");
    let slip = lab.run(&["call", "read_file", "--timeot", "1s"]);
    assert!(slip.contains("a similar argument exists: '--timeout'"), "{slip}");
    let other = lab.run(&["list", "--path", "x"]);
    assert!(!other.contains("--arg"), "{other}");
}

#[test]
fn a_directory_is_called_one() {
    let lab = Lab::new();
    for command in ["call", "grant"] {
        let help = lab.run(&[command, "--help"]);
        assert!(help.contains("--dir <DIR[=GUEST]:ro|rw>"), "{help}");
        assert!(!help.contains("HOST[=") && !help.contains("HOST may be"), "{help}");
    }
    let wrong = lab.run(&["call", "x", "--dir", "/data"]);
    assert!(wrong.contains("DIR[=GUEST]:ro or DIR[=GUEST]:rw"), "{wrong}");
}

#[test]
fn only_a_refusal_is_exit_code_3() {
    LazyLock::force(&RUNNERS);
    let lab = Lab::new()
        .with("probe.wasm", guest("probe"))
        .with("picky.py", "from toolhost import BadArguments, NotAvailable, tool\n\n\n@tool()\ndef pick(what: str) -> str:\n    raise {\"bad\": BadArguments, \"gone\": NotAvailable}[what](\"no\")\n");
    // What it was given is no good, and what it needs is not there: the tool says so, so it ran.
    for what in ["bad", "gone"] {
        assert_eq!(code(&lab, &["call", "pick", "--arg", &format!("what={what}")]), "exit 1");
    }
    assert_eq!(code(&lab, &["call", "pick", r#"{"what": 1, "more": 2}"#]), "exit 3");
    assert_eq!(code(&lab, &["call", "nobodys"]), "exit 3");
    let batch = r#"{"tool": "pick", "arguments": {"what": "bad"}}"#;
    let said = lab.run_with(&["call", "--batch", "-"], batch);
    assert!(said.starts_with("exit 1\n"), "{said}");
    // A file that is not there, and one that is no plugin.
    assert_eq!(code(&lab, &["inspect", "none.wasm"]), "exit 2");
    assert_eq!(code(&lab, &["probe", "none.wasm", "x"]), "exit 2");
    assert_eq!(code(&lab, &["describe", "nobodys"]), "exit 2");
    fs::write(lab.work().join("text.wasm"), "hello").expect("written");
    assert_eq!(code(&lab, &["inspect", "text.wasm"]), "exit 1");
    // A build that fails, and one that nobody has agreed to.
    let source = lab.work().join("bad.py");
    fs::write(&source, "def broken(:\n").expect("written");
    let refused = lab.run(&["build", "./bad.py", "--out", "dist"]);
    assert!(refused.starts_with("exit 3\n"), "{refused}");
    let failed = lab.run(&["build", "./bad.py", "--out", "dist", "--yes"]);
    assert!(failed.starts_with("exit 1\n") && failed.contains("bad.py"), "{failed}");
}

#[test]
fn ids_of_a_batch_are_texts_or_numbers() {
    let lab = Lab::new().with("x.wasm", made(&json!({ "tools": [{ "name": "say" }] })));
    let lines = r#"{"tool": "say", "id": 7}
{"tool": "say", "id": "c1"}
{"tool": "say"}
{"tool": "say", "id": [1]}"#;
    let said = lab.run_with(&["call", "--batch", "-"], lines);
    let outcomes = said.lines().filter(|line| line.starts_with('{'));
    let outcomes: Vec<Value> = outcomes.map(|line| line.parse().expect("JSON")).collect();
    let ids: Vec<&Value> = outcomes.iter().map(|outcome| &outcome["id"]).collect();
    assert_eq!(ids, [&json!(7), &json!("c1"), &Value::Null, &Value::Null], "{said}");
    let refused = outcomes[3]["error"]["error"].as_str().expect("an error");
    assert!(refused.contains("line 4") && refused.contains("a text or a number"), "{refused}");
    let help = lab.run(&["call", "--help"]).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains(r#"{"tool": "NAME", "arguments": {"path": "x"}, "id": 1}"#), "{help}");
}

#[test]
fn a_traceback_is_logged_in_lines() {
    LazyLock::force(&RUNNERS);
    let text = "from toolhost import tool\n\n\n@tool()\ndef fall() -> str:\n    return {}[\"x\"]\n";
    let lab = Lab::new().with("fall.py", text);
    let said = lab.run(&["call", "fall", "-v"]);
    let lines = said.lines().filter_map(|line| line.split_once(" toolhost::guest: fall: "));
    let lines: Vec<&str> = lines.map(|(_, line)| line).collect();
    assert_eq!(lines.first(), Some(&"Traceback (most recent call last):"), "{said}");
    assert!(lines.iter().any(|line| line.starts_with("  File ")), "{said}");
    assert_eq!(lines.last(), Some(&"KeyError: 'x'"), "{said}");
}

#[test]
fn serve_on_a_terminal_says_what_it_is() {
    let lab = Lab::new();
    let output = Command::new("python3")
        .args(["-c", TERMINAL, "Ctrl-D", "\x04", env!("CARGO_BIN_EXE_toolhost"), "serve"])
        .current_dir(lab.work())
        .env("TOOLHOST_HOME", lab.home())
        .env("TOOLHOST_KEYRING", "none")
        .output()
        .expect("python3");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.starts_with("exit 0\n"), "{said}");
    // A client is told nothing of the kind.
    let said = lab.run(&["serve"]);
    assert_eq!(said, "exit 0\n--- stdout\n--- stderr\n");
}

/// A cargo that draws a bar as the real one does, and fails if it is told to.
const CARGO: &str = r#"#!/bin/sh
printf '   Compiling first v1.0.0\n'
for count in 1 2 3 4; do printf '    Building [=>  ] %s/4: crate%s   \r' $count $count >&2; printf '   Compiling crate%s v1\n' $count >&2; done
echo 'warning: something to know' >&2
for word; do [ "$word" != --fail ] || { echo 'error: no' >&2; exit 101; }; done
printf '    Finished release\n' >&2
"#;

#[test]
fn a_build_says_how_far_it_is() {
    let lab = Lab::new();
    let cargo = lab.work().join("cargo");
    fs::write(&cargo, CARGO).expect("written");
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).expect("changed");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../build.sh");
    let path = std::env::var("PATH").expect("a path");
    let run = |arguments: &[&str]| {
        let mut command = Command::new("sh");
        command.arg(&script).args(arguments);
        let path = format!("{}:{path}", lab.work().display());
        let output = command.env("PATH", path).output().expect("sh");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        format!("exit {}\n{said}", output.status.code().expect("a code"))
    };
    let lines = "Building: 1 of 4 crates\nBuilding: 2 of 4 crates\nBuilding: 3 of 4 crates\nBuilding: 4 of 4 crates\nwarning: something to know\n";
    assert_eq!(run(&["--release"]), format!("exit 0\n{lines}"));
    assert_eq!(run(&["--fail"]), format!("exit 101\n{lines}error: no\n"));
}
