//! Paths in arguments: relative ones are of the working directory of whoever calls, and what is
//! refused says what is granted.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::client::McpClient;
use crate::support::{Lab, guest};

/// A project with the guest `probe`, a folder `data` with a file, and a folder `sub` beside it.
fn lab() -> Lab {
    let lab = Lab::new().with("probe.wasm", guest("probe"));
    for folder in ["data", "data/deep", "sub"] {
        fs::create_dir(lab.work().join(folder)).expect("a folder");
    }
    for (path, text) in [("data/file", "inside"), ("data/deep/file", "deep"), ("sub/file", "sub")] {
        fs::write(lab.work().join(path), text).expect("written");
    }
    lab
}

/// Calls a tool from a folder of the project.
fn call(lab: &Lab, from: &str, tool: &str, text: &str, dirs: &[&str]) -> String {
    let mut command = lab.command(env!("CARGO_BIN_EXE_toolhost"));
    command.current_dir(lab.work().join(from)).arg("--plugins").arg(lab.plugins());
    command.args(["call", tool, "--json", &json!({ "text": text }).to_string()]);
    command.args(dirs.iter().flat_map(|dir| ["--dir", *dir]));
    let output = command.output().expect("the program");
    let said = [output.stdout, output.stderr].concat();
    String::from_utf8(said).expect("UTF-8").replace(&*lab.home().to_string_lossy(), "HOME")
}

#[test]
fn a_relative_path_is_of_the_folder_one_is_in() {
    let lab = lab();
    let work = lab.work();
    let whole = work.join("data").display().to_string();
    let to = format!("{whole}=/in:ro");
    let chosen = format!("{}=data:ro", work.join("sub").display());
    for (from, path, dirs, expected) in [
        // The directory, from its own parent.
        (".", "data/file", &["data:ro"][..], "inside"),
        (".", "./data/file", &["data:ro"], "inside"),
        (".", "data/../data/file", &["data:ro"], "inside"),
        (".", "data", &["data:ro"], "deep file"),
        // From the directory itself, from below, and from beside.
        ("data", "file", &[".:ro"], "inside"),
        ("data", ".", &[".:ro"], "deep file"),
        ("data/deep", "file", &[&format!("{whole}:ro")], "deep"),
        ("data/deep", ".", &[&format!("{whole}:ro")], "file"),
        ("data/deep", "../file", &[&format!("{whole}:ro")], "inside"),
        ("sub", "../data/file", &[&format!("{whole}:ro")], "inside"),
        ("sub", "../data/deep/../file", &[".:ro", &format!("{whole}:ro")], "inside"),
        // A path that the operator chose wins; and nobody need know it.
        (".", "data/file", &["data:ro", &chosen], "sub"),
        (".", "/in/file", &[&to], "inside"),
        (".", "data/file", &[&to], "inside"),
    ] {
        let said = call(&lab, from, "look", path, dirs);
        assert!(said.contains(&format!(r#""{expected}""#)), "{path} from {from}: {said}");
    }
    // Whole paths are what they were, also where the C library of a guest tells no difference.
    let file = work.join("data/file").display().to_string();
    assert!(call(&lab, "sub", "look", &file, &[&format!("{whole}:ro")]).contains("inside"));
    let said = call(&lab, ".", "look", "/data/file", &["data:ro"]);
    assert!(!said.contains("inside") && said.contains("/data/file is not granted"), "{said}");
    // And it is no grant, nor does it lead out of one.
    for (from, path, dirs) in [
        (".", "sub/file", &["data:ro"][..]),
        ("data", "../sub/file", &[".:ro"]),
        ("sub", "file", &[]),
        ("data/deep", "../../sub/file", &[&format!("{whole}:ro")]),
    ] {
        let said = call(&lab, from, "look", path, dirs);
        assert!(!said.contains(r#""sub""#) && said.contains("HOME/project/sub/file"), "{said}");
    }
}

#[test]
fn a_relative_path_is_written_as_well() {
    let lab = lab();
    assert!(call(&lab, ".", "scribble", "data/new", &["data:rw"]).contains("written"));
    assert!(call(&lab, "data/deep", "scribble", "../newer", &["..=/x:rw"]).contains("`..`"));
    let data = format!("{}:rw", lab.work().join("data").display());
    assert!(call(&lab, "data/deep", "scribble", "../newer", &[&data]).contains("written"));
    assert!(call(&lab, "sub", "link", "../data/new ../data/linked", &[&data]).contains("linked"));
    for made in ["new", "newer", "linked"] {
        let text = fs::read_to_string(lab.work().join("data").join(made)).expect("read");
        assert_eq!(text, "scribbled");
    }
    // A link out of what may be written is none.
    let said = call(&lab, "data", "link", "file ../sub/linked", &[&data]);
    assert!(said.contains("HOME/project/sub/linked is not granted"), "{said}");
    assert!(!lab.work().join("sub/linked").exists());
}

#[test]
fn a_refusal_names_what_is_granted() {
    let lab = lab();
    for (from, tool, path, dirs, expected) in [
        (
            ".",
            "look",
            "sub/file",
            &["data:ro"][..],
            "HOME/project/sub/file is not granted, but HOME/project/data:ro is: run `toolhost grant probe --dir HOME/project/sub:ro`",
        ),
        (
            "data",
            "look",
            "../sub/file",
            &[],
            "HOME/project/sub/file is not granted, and no directory is: run `toolhost grant probe --dir HOME/project/sub:ro`",
        ),
        (
            ".",
            "look",
            "/usr/lib/none",
            &["data:ro", "sub=/in:ro"],
            "/usr/lib/none is not granted, but HOME/project/data:ro, /in:ro are: run `toolhost grant probe --dir /usr/lib:ro`",
        ),
        (
            ".",
            "scribble",
            "data/new",
            &["data:ro"],
            "changing new in HOME/project/data is not granted, but HOME/project/data:ro is: run `toolhost grant probe --dir HOME/project/data:rw`",
        ),
        (
            ".",
            "look",
            "/file",
            &["data:ro"],
            "/file is not granted, but HOME/project/data:ro is: no grant of the directory it is in is proposed, since it holds the home of a user; move it to another one",
        ),
    ] {
        let said = call(&lab, from, tool, path, dirs);
        assert!(said.contains(expected), "{path}: {said}");
    }
    // Who asks for none hears of none.
    let said = call(&lab, ".", "fail", "data/file", &[]);
    assert!(!said.contains("granted"), "{said}");
}

#[test]
fn a_refusal_names_the_narrowest_directory_that_is_there() {
    let lab = lab().with("files.wasm", guest("files"));
    lab.record_bundled("files");
    for (from, path, directory) in [
        (".", "sub", "HOME/project/sub"),
        (".", "sub/none/x", "HOME/project/sub"),
        ("data/deep", "..", "HOME/project/data"),
        ("data/deep", "../../sub/file", "HOME/project/sub"),
        ("data", "../sub", "HOME/project/sub"),
        (".", "/etc", "/etc"),
        (".", "/etc/none", "/etc"),
    ] {
        for tool in ["look", "search_files"] {
            let arguments = match tool {
                "look" => json!({ "text": path }),
                _ => json!({ "path": path, "pattern": "x" }),
            };
            let said = told(&lab, from, tool, &arguments, &[]);
            let expected = " is not granted, and no directory is: run `toolhost grant ";
            assert!(said.contains(expected), "{tool} {path}: {said}");
            assert!(said.contains(&format!("--dir {directory}:ro`")), "{tool} {path}: {said}");
            let outcome = serde_json::Deserializer::from_str(&said).into_iter::<Value>().next();
            let outcome = outcome.expect("an outcome").expect("JSON");
            assert_eq!(outcome["refusals"].as_array().map(Vec::len), Some(1), "{said}");
        }
    }
}

#[test]
fn what_is_neither_here_nor_said_is_no_refusal() {
    let python = r#"
import json

from toolhost import log, need, tool

need.read_directory("*", reason="to read")
need.write_directory("*", reason="to write")

@tool
def fail_py(text: str) -> str:
    """Fails in a module of Python.

    Args:
        text: What is no JSON.
    """
    log.info("here")
    # The second leads through a link of the system's on many machines.
    for path in ("/usr/none/x", "/lib/none/x"):
        try:
            open(path)
        except OSError:
            pass
    return json.loads(text)

@tool
def write_py() -> str:
    """Writes where nobody said."""
    open("report.txt", "w")
"#;
    let lab = lab().with("files.wasm", guest("files")).with("py.py", python);
    lab.record_bundled("files");
    let data = format!("{}:ro", lab.work().join("data").display());
    // Also in the folder of the script, whose name Python looks for to show a line.
    for (from, tool, arguments, ok) in [
        (".", "search_files", json!({ "path": "data", "pattern": "inside" }), true),
        ("data", "search_files", json!({ "path": ".", "pattern": "inside" }), true),
        (".", "fail_py", json!({ "text": "{" }), false),
        ("plugins", "fail_py", json!({ "text": "." }), false),
    ] {
        let said = told(&lab, from, tool, &arguments, &[&data]);
        assert!(said.contains(if ok { "\"ok\": true" } else { "JSONDecodeError" }), "{said}");
        assert!(said.contains("\"refusals\": []") && !said.contains("granted"), "{said}");
    }
    // What would be made is.
    let said = told(&lab, ".", "write_py", &json!({}), &["data:ro"]);
    assert!(said.contains("HOME/project/report.txt is not granted, but HOME/project/data:ro is: no grant of the directory it is in is proposed, since `./plugins` in it holds plugins; move it to another one"), "{said}");
}

#[test]
fn scripts_resolve_paths_alike() {
    let python = r#"
from toolhost import need, tool
import os

need.read_directory("*", reason="to read")

@tool
def read_py(path: str) -> str:
    """Reads a file.

    Args:
        path: The file.
    """
    with open(path) as file:
        return file.read() + " " + ",".join(sorted(os.listdir(os.path.dirname(path) or ".")))
"#;
    let javascript = r#"
import { files, need, tool } from 'toolhost-sdk';

need.readDirectory('*', { reason: 'to read' });

/**
 * Reads a file.
 *
 * @param {string} path The file.
 */
function read_js({ path }) {
  const names = files.list(path.replace(/\/?[^/]*$/, '') || '.').map(({ name }) => name);
  return `${files.readText(path)} ${names.join(',')}`;
}
tool(read_js);
"#;
    let lab = lab().with("py.py", python).with("js.js", javascript);
    let data = format!("{}:ro", lab.work().join("data").display());
    for tool in ["read_py", "read_js"] {
        for (from, path, expected) in [
            (".", "data/file", "inside deep,file"),
            ("data", "file", "inside deep,file"),
            ("data/deep", "file", "deep file"),
            ("data/deep", "../file", "inside deep,file"),
            ("sub", "../data/deep/file", "deep file"),
        ] {
            let said = script(&lab, from, tool, path, &[&data]);
            assert!(said.contains(expected), "{tool} {path} from {from}: {said}");
        }
        let said = script(&lab, "data", tool, "../sub/file", &[&data]);
        // One of them asks for the directory first.
        let is_told = ["", "/file"].iter().any(|rest| {
            said.contains(&format!(
                "HOME/project/sub{rest} is not granted, but HOME/project/data:ro is"
            ))
        });
        assert!(is_told, "{said}");
    }
}

/// Calls a script's tool from a folder of the project.
fn script(lab: &Lab, from: &str, tool: &str, path: &str, dirs: &[&str]) -> String {
    told(lab, from, tool, &json!({ "path": path }), dirs)
}

/// Calls a tool from a folder of the project, with these arguments.
fn told(lab: &Lab, from: &str, tool: &str, arguments: &Value, dirs: &[&str]) -> String {
    // Makes the runners, if they are not there.
    lab.run(&["list"]);
    let mut command = lab.command(env!("CARGO_BIN_EXE_toolhost"));
    command.current_dir(lab.work().join(from)).arg("--plugins").arg(lab.plugins());
    command.args(["call", tool, "--json", &arguments.to_string()]);
    command.args(dirs.iter().flat_map(|dir| ["--dir", *dir]));
    let output = command.output().expect("the program");
    let said = [output.stdout, output.stderr].concat();
    String::from_utf8(said).expect("UTF-8").replace(&*lab.home().to_string_lossy(), "HOME")
}

#[test]
fn python_resolves_paths_as_it_opens_them() {
    let python = r#"
import os
import pathlib

from toolhost import need, tool

need.read_directory("*", reason="to read")
need.write_directory("*", reason="to write")

WHOLE = {
    "resolve": lambda path: pathlib.Path(path).resolve(),
    "absolute": lambda path: pathlib.Path(path).absolute(),
    "abspath": os.path.abspath,
    "bytes": lambda path: os.path.abspath(os.fsencode(path)),
    "realpath": os.path.realpath,
    "cwd": lambda path: os.path.join(os.getcwd(), path),
}

@tool
def read_py(path: str) -> str:
    """Reads a file.

    Args:
        path: The file.
    """
    return " ".join(f"{name}:{open(whole(path)).read()}" for name, whole in WHOLE.items()) + " " + os.getcwd()

@tool
def write_py(path: str) -> str:
    """Writes a file.

    Args:
        path: The file.
    """
    pathlib.Path(path).resolve().write_text("written")

@tool
def move_py(path: str) -> str:
    """Reads a file from its own directory.

    Args:
        path: The file.
    """
    os.chdir(os.path.dirname(path))
    return open(os.path.basename(path)).read() + " " + os.getcwd()
"#;
    let lab = lab().with("py.py", python);
    fs::write(lab.work().join("data/deep/file"), "deep").expect("written");
    let data = lab.work().join("data").display().to_string();
    for dirs in [format!("{data}:rw"), format!("{data}=/in:rw")] {
        for (from, path, text) in [
            ("data/deep", "../file", "inside"),
            ("sub", "../data/file", "inside"),
            (".", "data/deep/file", "deep"),
        ] {
            let said = script(&lab, from, "read_py", path, &[&dirs]);
            for name in ["resolve", "absolute", "abspath", "bytes", "realpath", "cwd"] {
                assert!(
                    said.contains(&format!("{name}:{text}")),
                    "{name} of {path} from {from}: {said}"
                );
            }
            let working = match from {
                "data/deep" if dirs.contains('=') => "/in/deep\"".to_owned(),
                "." => "HOME/project\"".to_owned(),
                from => format!("HOME/project/{from}\""),
            };
            assert!(said.contains(&format!(" {working}")), "{said}");
        }
        script(&lab, "data/deep", "write_py", "../out", &[&dirs]);
        assert_eq!(fs::read_to_string(lab.work().join("data/out")).expect("written"), "written");
        assert!(!lab.work().join("data/deep/out").exists());
        fs::remove_file(lab.work().join("data/out")).expect("removed");
    }
    let data = format!("{data}:ro");
    let said = script(&lab, "sub", "move_py", "../data/deep/file", &[&data]);
    assert!(said.contains("deep HOME/project/data/deep"), "{said}");
    // It is a name, and no grant.
    let said = script(&lab, "sub", "read_py", "../sub/file", &[&data]);
    assert!(said.contains("HOME/project/sub/file is not granted, but"), "{said}");
}

#[test]
fn a_server_has_a_working_directory_and_says_what_is_granted() {
    let lab = lab();
    assert!(lab.run(&["grant", "probe", "--dir", "data:ro"]).starts_with("exit 0"));
    let home = lab.home().to_string_lossy().into_owned();
    let check = |arguments: &[&str], path: &str, expected: &str, working: &str| {
        let mut client = McpClient::start(&lab, arguments);
        let greeting = client.initialize();
        let said = greeting["result"]["instructions"].to_string().replace(&home, "HOME");
        let granted = "Directories that plugins were granted: HOME/project/data:ro (probe).";
        assert!(said.contains(granted), "{said}");
        assert!(said.contains(&format!("Relative paths are of {working}.")), "{said}");
        let arguments = json!({ "name": "look", "arguments": { "text": path } });
        client.ask(1, "tools/call", arguments);
        let answer = client.answer(1).to_string().replace(&home, "HOME");
        assert!(answer.contains(expected), "{path}: {answer}");
        client.ask(2, "tools/list", json!({}));
        let listed = client.answer(2).to_string();
        assert!(!listed.contains(&*home), "no definition names a directory: {listed}");
        assert_eq!(client.end().0, 0);
    };
    check(&[], "data/file", "inside", "HOME/project");
    check(&["--workdir", "data/deep"], "../file", "inside", "HOME/project/data/deep");
    check(&["--workdir", "data/deep"], "file", "deep", "HOME/project/data/deep");
    // A base for names, and no grant.
    check(
        &["--workdir", "sub"],
        "file",
        "HOME/project/sub/file is not granted, but HOME/project/data:ro is",
        "HOME/project/sub",
    );
    for (directory, expected) in
        [("none", "No such file or directory"), ("data/file", "is no directory")]
    {
        let said = lab.run(&["serve", "--workdir", directory]);
        assert!(said.starts_with("exit 2") && said.contains(expected), "{said}");
    }
    let elsewhere = Lab::new();
    let mut client = McpClient::start(&elsewhere, &[]);
    let said = client.initialize()["result"]["instructions"].to_string();
    assert!(said.contains("No plugin was granted a directory."), "{said}");
    assert_eq!(client.end().0, 0);
}

/// A C library takes the first slash away, so nobody knows whether a path that a tool has of itself
/// was absolute.
#[test]
fn a_path_that_may_be_either_is_shown_as_it_came() {
    let text = "from toolhost import need, tool\n\nneed.write_directory(\"*\", reason=\"to write\")\n\n@tool\ndef puts() -> str:\n    \"Writes.\"\n    with open(\"opt/toolhost-new\", \"w\") as file:\n        file.write(\"x\")\n    return \"written\"\n";
    let lab = Lab::new().with("puts.py", text);
    let said = lab.run(&["call", "puts"]);
    assert!(said.contains("opt/toolhost-new (or /opt/toolhost-new) is not granted"), "{said}");
}

#[test]
fn a_session_says_what_is_granted_when_it_starts() {
    let lab = lab();
    let mut client = McpClient::start(&lab, &[]);
    // It is loaded by now, and nothing was granted.
    std::thread::sleep(Duration::from_secs(2));
    assert!(lab.run(&["grant", "probe", "--dir", "data:ro"]).starts_with("exit 0"));
    std::thread::sleep(Duration::from_secs(3));
    let said = client.initialize()["result"]["instructions"].to_string();
    assert!(said.contains("/project/data:ro (probe)"), "{said}");
    assert_eq!(client.end().0, 0);
}

#[test]
fn a_script_that_asks_for_no_directory_says_so() {
    let lab = Lab::new()
        .with("reads.py", "from toolhost import tool\n\n@tool\ndef reads(path: str) -> str:\n    \"Reads.\"\n    return open(path).read()\n\n@tool\ndef fails() -> str:\n    \"Fails.\"\n    raise ValueError(\"no\")\n");
    fs::write(lab.work().join("file"), "inside").expect("written");
    let said = lab.run(&["call", "reads", r#"{"path": "file"}"#]);
    assert!(said.contains("FileNotFoundError"), "{said}");
    let refused = "any directory is nothing that `reads` asks for, so none is granted, and no path leads anywhere: \
                   if it is to use files of this machine, its author must add a need of kind `dirs`; \
                   `toolhost grant reads --dir DIR:ro` grants one then";
    assert!(said.contains(refused), "{said}");
    let said = lab.run(&["call", "fails"]);
    assert!(!said.contains("directory"), "{said}");
}
