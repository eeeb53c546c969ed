//! Who is asked before a script has what others' bytes were granted: bytes that waited already when `dev`
//! starts, and a copy that a trusted project's file grants something.

use std::fs;
use std::sync::LazyLock;

use serde_json::json;

use super::Developing;
use crate::support::{Lab, RUNNERS};
use rustix::process::Signal;

const READS: &str = r#"from toolhost import need, plugin, tool

plugin("rd", "1.0.0")
need.read_directory(tools=["peek"])


@tool()
def peek(path: str) -> dict[str, str]:
    """Reads a file.

    Args:
        path: The file.
    """
    return {"mine": open(path).read()}
"#;

/// A project with a script that may read a folder.
fn granted() -> Lab {
    LazyLock::force(&RUNNERS);
    let lab = Lab::new();
    fs::create_dir(lab.home().join("secret")).expect("made");
    fs::write(lab.home().join("secret/x"), "s3cret").expect("written");
    fs::write(lab.plugins().join("rd.py"), READS).expect("written");
    let dir = format!("{}:ro", lab.home().join("secret").display());
    let said = lab.run(&["grant", "rd", "--dir", &dir]);
    assert!(said.starts_with("exit 0"), "{said}");
    lab
}

fn peek(lab: &Lab) -> String {
    let path = lab.home().join("secret/x");
    lab.run(&["call", "peek", &json!({ "path": path }).to_string()])
}

#[test]
fn what_waited_before_is_asked_about() {
    let lab = granted();
    assert!(peek(&lab).contains("s3cret"));
    let file = lab.plugins().join("rd.py");
    for text in [
        READS.replace("mine", "theirs"),
        READS.replace("mine", "theirs").replace("plugin(", "# A new need and tool.\nplugin(")
            + "\nneed.env(\"TOKEN\", tools=[\"more\"])\n\n\n@tool()\ndef more() -> str:\n    \"\"\"Says more.\"\"\"\n    return \"more\"\n",
    ] {
        fs::write(&file, text).expect("written");
        let said = lab.run(&["dev", "./plugins/rd.py", "--once"]);
        assert!(said.starts_with("exit 3"), "{said}");
        assert!(said.contains("is not what was trusted with what it was granted: --dir"), "{said}");
        assert!(said.contains("nobody can be asked here"), "{said}");
        let said = peek(&lab);
        assert!(said.contains(r#"{"mine":"s3cret"}"#), "{said}");
        assert!(lab.run(&["list"]).contains("Pending"));
    }
    // What is saved while it runs needs no question, and is noted as what it is.
    fs::write(&file, READS).expect("written");
    let dev = Developing::start(&lab, &lab.work(), &["./plugins/rd.py"]);
    dev.until("Ctrl-C ends");
    fs::write(&file, READS.replace("mine", "saved")).expect("written");
    dev.until("rd.py: live");
    dev.end(Signal::INT);
    assert!(peek(&lab).contains(r#"{"saved":"s3cret"}"#));
    let log = fs::read_to_string(lab.home().join("state/audit/audit.jsonl")).expect("the log");
    assert!(log.contains(r#""by":"dev""#) && !log.contains(r#""by":"same-needs""#), "{log}");
    // Whoever has looked says so.
    fs::write(&file, READS.replace("mine", "theirs")).expect("written");
    let said = lab.run(&["dev", "./plugins/rd.py", "--once", "--yes"]);
    assert!(said.starts_with("exit 0"), "{said}");
    assert!(peek(&lab).contains(r#"{"theirs":"s3cret"}"#));
}

#[test]
fn what_a_trusted_project_grants_is_asked_about() {
    LazyLock::force(&RUNNERS);
    let lab = Lab::new();
    fs::create_dir(lab.home().join("secret")).expect("made");
    fs::write(lab.home().join("secret/x"), "s3cret").expect("written");
    fs::write(lab.plugins().join("rd.py"), READS).expect("written");
    let file = format!("[plugins.rd]\ndirs = [\"{}:ro\"]\n", lab.home().join("secret").display());
    fs::write(lab.work().join("toolhost.toml"), file).expect("written");
    assert!(lab.run(&["trust", ".", "--yes"]).starts_with("exit 0"));
    assert!(peek(&lab).contains("s3cret"));
    let strange = lab.home().join("strange");
    fs::create_dir(&strange).expect("made");
    fs::write(strange.join("rd.py"), READS.replace("mine", "theirs")).expect("written");
    let dev = ["dev", "../strange/rd.py", "--once"];
    let said = lab.run(&dev);
    assert!(said.starts_with("exit 3") && said.contains("replaces plugin rd"), "{said}");
    assert!(peek(&lab).contains(r#"{"mine":"s3cret"}"#));
    // Also from elsewhere.
    let plugins = lab.plugins();
    let mut command = lab.command(env!("CARGO_BIN_EXE_toolhost"));
    command.current_dir(&strange).args(["dev", "./rd.py", "--once", "--out"]).arg(&plugins);
    assert_eq!(command.output().expect("run").status.code(), Some(3));
    // What may replace others' tools is asked about, too.
    fs::write(lab.work().join("toolhost.toml"), "[plugins.rd]\nallow_tool_override = true\n")
        .expect("written");
    assert!(lab.run(&["trust", ".", "--yes"]).starts_with("exit 0"));
    let said = lab.run(&dev);
    assert!(said.starts_with("exit 3") && said.contains("may replace tools of others"), "{said}");
    assert!(lab.run(&[&dev[..], &["--yes"]].concat()).starts_with("exit 0"));
}

#[test]
fn what_serves_before_is_said_only_where_something_does() {
    LazyLock::force(&RUNNERS);
    let lab = Lab::new();
    fs::create_dir(lab.work().join("rd")).expect("made");
    let write = |text: &str| fs::write(lab.work().join("rd/plugin.py"), text).expect("written");
    write("def (");
    let said = lab.run(&["dev", "./rd", "--once"]);
    assert!(said.starts_with("exit 1") && !said.contains("keeps serving"), "{said}");
    write(READS);
    assert!(lab.run(&["dev", "./rd", "--once"]).starts_with("exit 0"));
    // Twice the same counts once.
    fs::create_dir(lab.work().join("twin")).expect("made");
    fs::copy(lab.work().join("rd/plugin.py"), lab.work().join("twin/plugin.py")).expect("copied");
    let said = lab.run(&["dev", "./twin", "--once"]);
    assert!(said.starts_with("exit 1") && said.contains("has the same bytes"), "{said}");
}
