//! The author's loop: build, load, call, see what has changed; and back to an earlier build.

mod in_place;

use std::cell::RefCell;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use expect_test::{Expect, expect};
use rustix::process::Signal;
use serde_json::json;

use crate::author::authors::environment;
use crate::support::client::PATIENCE;
use crate::support::{Lab, RUNNERS, made, without_times};

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
    let said = lab.run(&[&["dev", "./words", "--once"], &call[..]].concat());
    expected.assert_eq(&without_times(&said));
}

#[test]
fn a_script_is_developed() {
    LazyLock::force(&RUNNERS);
    let lab = Lab::new();
    let source = lab.work().join("words");
    fs::create_dir(&source).expect("a folder");
    let write = |text: &str| fs::write(source.join("plugin.py"), text).expect("written");
    write(WORDS);
    develop(
        &lab,
        &expect![[r#"
        exit 0
        --- stdout
        words: live, count (built in N ms, loaded in N ms)
        count (N ms)
          {
            "words": 3
          }
        --- stderr
    "#]],
    );
    assert_eq!(fs::read_to_string(lab.plugins().join("words/plugin.py")).expect("copied"), WORDS);
    // Not what its example says.
    write(&WORDS.replace("len(text.split())", "7"));
    develop(
        &lab,
        &expect![[r#"
        exit 1
        --- stdout
        --- stderr
        words: not loaded (built in N ms, loaded in N ms): example 1 of `count`: expected `2` in the output, which is `{"words":7}`; correct the tool or its example
        the build before keeps serving
    "#]],
    );
    write(&WORDS.replace("text.split())}", "text.split(}"));
    develop(
        &lab,
        &expect![[r#"
        exit 1
        --- stdout
        --- stderr
        words: not loaded (built in N ms, loaded in N ms): `register` says: plugin.py:13: SyntaxError: closing parenthesis '}' does not match opening parenthesis '('
        the build before keeps serving
    "#]],
    );
    // Another shape.
    write(
        &WORDS
            .replace("text: str)", "text: str, top: int)")
            .replace(r#""a b"}"#, r#""a b", "top": 1}"#),
    );
    develop(
        &lab,
        &expect![[r#"
        exit 1
        --- stdout
        words: live, count (built in N ms, loaded in N ms)
          breaking: tool count: top is required
          compatible: tool count: its examples
        count (N ms)
          {
            "error": "invalid arguments for `count`: /: \"top\" is a required property",
            "code": "invalid_arguments",
            "errors": [
              {
                "path": "",
                "message": "/: \"top\" is a required property"
              }
            ]
          }
        --- stderr
    "#]],
    );
}

/// `dev` as it runs until somebody ends it, line by line.
struct Developing {
    child: Child,
    lines: Receiver<String>,
    /// All that was read so far.
    read: RefCell<Vec<String>>,
}

impl Developing {
    fn start(lab: &Lab, folder: &Path, arguments: &[&str]) -> Developing {
        Developing::of(&mut Developing::command(lab, folder, arguments))
    }

    fn command(lab: &Lab, folder: &Path, arguments: &[&str]) -> Command {
        let mut command = lab.command(env!("CARGO_BIN_EXE_toolhost"));
        // What compilers need.
        command.current_dir(folder).envs(environment()).arg("dev").args(arguments);
        command
    }

    fn of(command: &mut Command) -> Developing {
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program");
        let (send, lines) = channel();
        let stderr = child.stderr.take().expect("a pipe");
        let also = send.clone();
        let each = |pipe: Box<dyn Read + Send>, send: Sender<String>| {
            std::thread::spawn(move || {
                for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                    if send.send(line).is_err() {
                        break;
                    }
                }
            })
        };
        each(Box::new(child.stdout.take().expect("a pipe")), send);
        each(Box::new(stderr), also);
        Developing { child, lines, read: RefCell::default() }
    }

    /// Waits for a line with this text, and returns the lines until then.
    fn until(&self, text: &str) -> Vec<String> {
        let start = self.read.borrow().len();
        loop {
            match self.line(PATIENCE) {
                Ok(line) if line.contains(text) => return self.read.borrow()[start..].to_vec(),
                Ok(_) => {}
                Err(error) => panic!("never `{text}` ({error}), but {:#?}", self.read.borrow()),
            }
        }
    }

    /// Waits for no line with this text.
    fn never(&self, text: &str, time: Duration) {
        let until = Instant::now() + time;
        while let Ok(line) = self.line(until.saturating_duration_since(Instant::now())) {
            assert!(!line.contains(text), "`{line}` of {:#?}", self.read.borrow());
        }
    }

    fn line(&self, time_max: Duration) -> Result<String, RecvTimeoutError> {
        let line = self.lines.recv_timeout(time_max)?;
        self.read.borrow_mut().push(line.clone());
        Ok(line)
    }

    /// Sends a signal, as Ctrl-C does, and waits for the end.
    fn end(mut self, signal: Signal) {
        let process = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(process, signal).expect("signalled");
        let ended = self.child.wait().expect("it ends");
        assert_eq!(ended.success(), signal != Signal::KILL, "{signal:?}: {ended}");
    }
}

#[test]
fn what_is_saved_is_loaded_and_called_again() {
    LazyLock::force(&RUNNERS);
    let lab = Lab::new();
    let source = lab.work().join("words");
    fs::create_dir(&source).expect("a folder");
    let write = |text: &str| fs::write(source.join("plugin.py"), text).expect("written");
    write(WORDS);
    // As its README says: within the folder.
    let call = ["--call", "count", r#"{"text": "a b c"}"#];
    let dev = Developing::start(&lab, &source, &[&["."], &call[..]].concat());
    let first = dev.until("Ctrl-C ends");
    assert!(first.iter().any(|line| line.contains("words: live, count")), "{first:#?}");
    write(&WORDS.replace("Counts the words", "Counts all words"));
    let second = dev.until("count: as before");
    assert!(second.iter().any(|line| line.contains("compatible: tool count")), "{second:#?}");
    write(&WORDS.replace("len(text.split())", "7"));
    dev.until("the build before keeps serving");
    write(&WORDS.replace("len(text.split())", "len(text.split()), \"letters\": len(text)"));
    let third = dev.until("\"letters\": 5");
    assert!(third.iter().any(|line| line.contains("count: another answer")), "{third:#?}");
    dev.until("count plugin:words ok");
    // Calls of others are shown too.
    let call = |lab: &Lab| lab.run(&["call", "count", r#"{"text": ""}"#]);
    assert!(call(&lab).starts_with("exit 0"));
    dev.until("count plugin:words ok");
    let log = lab.home().join("state/audit/audit.jsonl");
    let logged = || fs::read_to_string(&log).expect("the log").matches(r#""tool":"count""#).count();
    let before = logged();
    // While it is broken, they leave its errors where they are.
    write(&WORDS.replace("text.split())}", "text.split(}"));
    dev.until("the build before keeps serving");
    for _ in 0..3 {
        assert!(call(&lab).starts_with("exit 0"));
    }
    // Until they stand in the log, which is looked at all the time.
    let start = Instant::now();
    while logged() < before + 3 {
        assert!(start.elapsed() < PATIENCE, "the calls never came to the log");
        std::thread::sleep(Duration::from_millis(50));
    }
    dev.never("count plugin:words", Duration::from_secs(1));
    write(WORDS);
    let whole = dev.until("calls while it was broken: 3, failed: 0");
    assert!(whole.iter().any(|line| line.contains("words: live, count")), "{whole:#?}");
    dev.end(Signal::INT);
    let mut made: Vec<_> =
        fs::read_dir(lab.plugins().join("words")).expect("a folder").flatten().collect();
    assert_eq!(made.pop().expect("the copy").file_name(), "plugin.py");
    assert!(made.is_empty(), "what was made is no part of what is made: {made:?}");
}

#[test]
fn a_broken_build_of_rust_is_shown_as_the_compiler_says_it() {
    let lab = Lab::new();
    let made = lab.run(&["new", "words", "--lang", "rust"]);
    assert!(made.starts_with("exit 0"), "{made}");
    let source = lab.work().join("words");
    // The tests' target folder has all that it takes.
    let dev = Developing::start(&lab, &source, &["."]);
    dev.until("Ctrl-C ends");
    let main = source.join("src/lib.rs");
    let text = fs::read_to_string(&main).expect("read");
    fs::write(&main, format!("{text}\nfn broken( {{}}\n")).expect("written");
    let said = dev.until("the build before keeps serving");
    assert!(said.iter().any(|line| line.starts_with("error: ")), "{said:#?}");
    fs::write(&main, format!("{text}\n// Whole again.\n")).expect("written");
    dev.until("words.wasm: ");
    // What was built does not make it build again.
    dev.never("words.wasm: ", Duration::from_secs(2));
    dev.end(Signal::INT);
}

#[test]
fn run_in_its_own_folder_it_goes_where_hosts_look() {
    LazyLock::force(&RUNNERS);
    let lab = Lab::new();
    let run = |folder: &Path, arguments: &[&str]| {
        let mut command = lab.command(env!("CARGO_BIN_EXE_toolhost"));
        let output = command.current_dir(folder).args(arguments).output().expect("the program");
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        let home = fs::canonicalize(lab.home()).expect("a folder");
        without_times(&said.replace(&*home.to_string_lossy(), "HOME"))
    };
    let write = |folder: &Path| {
        fs::create_dir_all(folder).expect("a folder");
        fs::write(folder.join("plugin.py"), WORDS).expect("written");
    };
    // The folder around it has plugins.
    let (source, lonely) = (lab.work().join("words"), lab.work().join("deep/lonely"));
    write(&source);
    expect![[r#"
        words goes into HOME/project/plugins, where hosts look that run in HOME/project
        words: live, count (built in N ms, loaded in N ms)
    "#]]
    .assert_eq(&run(&source, &["dev", "--once"]));
    assert!(lab.run(&["call", "count", "--arg", "text=a"]).starts_with("exit 0"));
    // It has none, so it is the user's.
    write(&lonely);
    fs::remove_dir_all(lab.plugins().join("words")).expect("removed");
    expect![[r#"
        lonely goes into HOME/plugins, your own plugins folder, where each of your hosts looks
        lonely: live, count (built in N ms, loaded in N ms)
    "#]]
    .assert_eq(&run(&lonely, &["dev", "--once", "."]));
    assert!(lab.run(&["call", "count", "--arg", "text=a"]).starts_with("exit 0"));
    assert!(!source.join("plugins").exists() && !lonely.join("plugins").exists());
    // What is named counts.
    run(&source, &["dev", "--once", "--out", "../dist"]);
    assert!(lab.work().join("dist/words/plugin.py").is_file());
}

/// A build that takes until it is told to end.
const ENDLESS: &str = r#"
fn main() {
    std::fs::write("ran", "").unwrap();
    for _ in 0..6000 {
        if std::path::Path::new("stop").exists() { break; }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}
"#;

#[test]
fn no_signal_leaves_anything() {
    let lab = Lab::new();
    let source = lab.work().join("endless");
    fs::create_dir_all(source.join("src")).expect("a folder");
    let manifest = "[package]\nname = \"endless\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[lib]\ncrate-type = [\"cdylib\"]\n\n[workspace]\n";
    for (name, text) in [("Cargo.toml", manifest), ("build.rs", ENDLESS), ("src/lib.rs", "")] {
        fs::write(source.join(name), text).expect("written");
    }
    let left = || {
        let entries = fs::read_dir(lab.plugins()).expect("a folder").flatten();
        entries.map(|entry| entry.file_name()).collect::<Vec<_>>()
    };
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::KILL]
    {
        let target = lab.home().join("target");
        let mut command = Developing::command(&lab, &lab.work(), &["./endless", "--yes"]);
        command.env("CARGO_TARGET_DIR", target);
        let dev = Developing::of(&mut command);
        let start = Instant::now();
        while fs::remove_file(source.join("ran")).is_err() {
            assert!(start.elapsed() < PATIENCE, "{signal:?}: the build never began");
            std::thread::sleep(Duration::from_millis(50));
        }
        dev.end(signal);
        assert!(left().is_empty(), "{signal:?}: {:?}", left());
    }
    // What the killed ones were building ends, too.
    fs::write(source.join("stop"), "").expect("written");
}

#[test]
fn what_is_nothing_to_develop_says_so() {
    let lab = Lab::new();
    fs::create_dir(lab.work().join("empty")).expect("a folder");
    expect![[r#"
        exit 2
        --- stdout
        --- stderr
        error: HOME/project/empty is nothing to build; name a folder with Cargo.toml (Rust), plugin.py (Python) or plugin.js, .mjs or .ts (JavaScript), or the file of a script
        hint: `toolhost new NAME --lang rust|python|javascript` makes one
    "#]].assert_eq(&lab.run(&["dev", "./empty"]));
    expect![[r#"
        exit 2
        --- stdout
        --- stderr
        error: ./gone: No such file or directory (os error 2)
    "#]]
    .assert_eq(&lab.run(&["dev", "./gone"]));
    expect![[r#"
        exit 2
        --- stdout
        --- stderr
        error: `toolhost dev` is for a terminal, and prints no JSON
        hint: `toolhost build --json`, `toolhost check --json` and `toolhost audit --json` do
    "#]]
    .assert_eq(&lab.run(&["dev", "./empty", "--json"]));
}

/// What `rollback say` prints, without digests.
fn rolled(lab: &Lab, more: &[&str]) -> String {
    let said = lab.run(&[&["rollback", "say"], more].concat());
    let digests = regex::Regex::new(r"\b[0-9a-f]{12}\b").expect("a pattern");
    digests.replace_all(&said, "DIGEST").into_owned()
}

#[test]
fn a_person_goes_back_and_forth() {
    let says =
        |text: &str| made(&json!({ "tools": [{ "name": "say", "answer": { "text": text } }] }));
    let lab = Lab::new();
    let answer = |lab: &Lab| lab.run(&["call", "say"]);
    expect![[r#"
        exit 2
        --- stdout
        --- stderr
        error: there is no plugin `say`
        hint: `toolhost list` shows all plugins; `--plugins DIR` names another folder
    "#]]
    .assert_eq(&rolled(&lab, &[]));
    for text in ["one", "two", "three"] {
        fs::write(lab.plugins().join("say.wasm"), says(text)).expect("written");
        assert_eq!(answer(&lab), format!("exit 0\n--- stdout\n{text}\n--- stderr\n"));
    }
    expect![[r#"
        exit 0
        --- stdout
        BUILD         STATE
        DIGEST  serves, the file
        DIGEST
        DIGEST
        --- stderr
    "#]]
    .assert_eq(&rolled(&lab, &["--list"]));
    expect![[r#"
        exit 0
        --- stdout
        plugin:say: its build sha256:DIGEST serves from now on
        given up: DIGEST; `toolhost rollback say DIGEST` takes one of them back
        --- stderr
    "#]]
    .assert_eq(&rolled(&lab, &[]));
    assert!(answer(&lab).contains("\ntwo\n"));
    expect![[r#"
        exit 0
        --- stdout
        plugin:say: its build sha256:DIGEST serves from now on
        given up: DIGEST, DIGEST; `toolhost rollback say DIGEST` takes one of them back
        --- stderr
    "#]]
    .assert_eq(&rolled(&lab, &[]));
    assert!(answer(&lab).contains("\none\n"));
    expect![[r#"
        exit 2
        --- stdout
        --- stderr
        error: plugin:say serves the oldest of its builds that are kept; kept are sha256:DIGEST, sha256:DIGEST, sha256:DIGEST; name one by its digest to go to that
        hint: `toolhost rollback say --list` shows the builds that are kept
    "#]].assert_eq(&rolled(&lab, &[]));
    expect![[r#"
        exit 2
        --- stdout
        --- stderr
        error: no kept build of plugin:say has the digest ffff; kept are sha256:DIGEST, sha256:DIGEST, sha256:DIGEST
        hint: `toolhost rollback say --list` shows the builds that are kept
    "#]].assert_eq(&rolled(&lab, &["ffff"]));
    // Forth again, and what is saved anew counts.
    let digest = toolhost_wasm::digest(&says("three"));
    let forth = lab.run(&["rollback", "say", &digest[..10]]);
    assert!(forth.starts_with("exit 0"), "{forth}");
    assert!(answer(&lab).contains("\nthree\n"));
    lab.run(&["rollback", "say"]);
    assert!(answer(&lab).contains("\ntwo\n"));
    fs::write(lab.plugins().join("say.wasm"), says("four")).expect("written");
    assert!(answer(&lab).contains("\nfour\n"));
}
