//! `toolhost watch`: what other processes do, line by line and on a terminal.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::support::{Lab, guest, json_and_probe};

/// The program, which watches until the test is over.
struct Watching {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Watching {
    fn new(lab: &Lab, more: &[&str]) -> Watching {
        let mut child = lab
            .command(env!("CARGO_BIN_EXE_toolhost"))
            .args([&["watch", "--lines"], more].concat())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program");
        let stdout = child.stdout.take().expect("piped");
        Watching { child, lines: BufReader::new(stdout).lines() }
    }

    /// The next line with these words. It is waited for as long as the test may take.
    fn line(&mut self, words: &str) -> String {
        let lines = self.lines.by_ref().map(|line| line.expect("a line"));
        let mut seen = Vec::new();
        for line in lines {
            if line.contains(words) {
                return line;
            }
            seen.push(line);
        }
        panic!("it ended without `{words}`: {seen:#?}");
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn calls_denials_and_loads_of_other_processes_are_seen() {
    let lab = json_and_probe();
    // What was before is not shown.
    lab.run(&["call", "json_query", r#"{"filter": ".before", "json": 1}"#]);
    let mut watching = Watching::new(&lab, &[]);
    assert_eq!(watching.line("plugin:json"), "plugin:json: live, bundled, 2 tools");
    let probe = watching.line("plugin:probe");
    assert!(probe.starts_with("plugin:probe: live, untrusted, "), "{probe}");

    lab.run(&["call", "json_query", r#"{"filter": ".", "json": 1}"#]);
    let call = watching.line(" call ");
    assert!(call.contains(" json_query plugin:json ok in "), "{call}");
    lab.run(&["call", "json_query", r#"{"filter": 1}"#]);
    let refused = watching.line(" call ");
    assert!(refused.contains("json_query plugin:json invalid_arguments"), "{refused}");

    // Other bytes: seen as soon as another process loads them.
    std::fs::write(lab.plugins().join("probe.wasm"), "hello").expect("written");
    lab.run(&["list"]);
    let broken = watching.line("plugin:probe: ");
    assert!(broken.starts_with("plugin:probe: failed (compile), kept build serves, "), "{broken}");
    std::fs::remove_file(lab.plugins().join("probe.wasm")).expect("removed");
    std::fs::write(lab.plugins().join("files.wasm"), guest("files")).expect("written");
    lab.run(&["list"]);
    assert!(watching.line("plugin:files: ").starts_with("plugin:files: live, untrusted"));
    assert_eq!(watching.line("plugin:probe: "), "plugin:probe: gone, 0 tools");
}

#[test]
fn json_has_records_as_they_stand_in_the_log() {
    let lab = json_and_probe();
    let mut watching = Watching::new(&lab, &["--json"]);
    let plugin: Value = serde_json::from_str(&watching.line("plugin:json")).expect("JSON");
    assert_eq!((&plugin["kind"], &plugin["tools"]), (&"plugin".into(), &2.into()));
    watching.line("plugin:probe");
    lab.run(&["call", "json_query", r#"{"filter": ".", "json": 1}"#]);
    let call: Value = serde_json::from_str(&watching.line(r#""kind":"call""#)).expect("JSON");
    assert_eq!((&call["tool"], &call["code"]), (&"json_query".into(), &"ok".into()));
    assert!(call["hash"].is_string());
}

/// A lab in which something was called a moment ago.
fn json_and_probe_called() -> Lab {
    let lab = json_and_probe();
    lab.run(&["call", "json_query", r#"{"filter": ".", "json": 1}"#]);
    lab
}

#[test]
fn it_says_that_the_log_is_off_or_empty() {
    let notice = |lab: &Lab| {
        let mut watching = Watching::new(lab, &[]);
        let stderr = watching.child.stderr.take().expect("piped");
        let mut lines = BufReader::new(stderr).lines().map(|line| line.expect("a line"));
        let line = lines.next().expect("a line");
        line.replace(&*lab.home().to_string_lossy(), "HOME")
    };
    assert_eq!(
        notice(&Lab::new()),
        "Nothing was written to the audit log (HOME/state/audit) lately: call a tool, as with `toolhost call TOOL '{}'`, or by a client of `toolhost serve`."
    );
    assert_eq!(
        notice(&json_and_probe_called()),
        "Following the audit log (HOME/state/audit); `toolhost audit` shows what was before."
    );
    assert_eq!(
        notice(&Lab::new().config("[audit]\nenabled = false\n")),
        "The audit log is off, so no calls can be seen: set `enabled = true` under `[audit]` in HOME/toolhost.toml."
    );
}

/// Starts a program in a pseudo-terminal, presses `q` once the words are on the screen, and says
/// how it ended and whether the terminal is as it was.
pub(crate) const TERMINAL: &str = r#"
import fcntl, os, pty, select, struct, sys, termios
words, keys, program = sys.argv[1].encode(), sys.argv[2].encode(), sys.argv[3:]
leader, follower = pty.openpty()
fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
before = termios.tcgetattr(follower)
child = os.fork()
if child == 0:
    os.setsid()
    fcntl.ioctl(follower, termios.TIOCSCTTY, 0)
    for fd in (0, 1, 2):
        os.dup2(follower, fd)
    os.execvp(program[0], program)
screen, pressed, raw = b"", False, False
while True:
    ready, _, _ = select.select([leader], [], [], 0.1)
    if ready:
        screen += os.read(leader, 65536)
    if not pressed and words in screen:
        raw = not termios.tcgetattr(follower)[3] & termios.ICANON
        os.write(leader, keys)
        pressed = True
    ended, status = os.waitpid(child, os.WNOHANG)
    if ended:
        break
while select.select([leader], [], [], 0)[0]:
    screen += os.read(leader, 65536)
after = termios.tcgetattr(follower)
print("exit", os.waitstatus_to_exitcode(status))
print("raw while it ran", raw)
print("restored", after == before)
print("own screen", screen.count(b"\x1b[?1049h"), screen.count(b"\x1b[?1049l"))
print("left it last", screen.rfind(b"\x1b[?1049l") > screen.rfind(b"\x1b[?1049h"))
print("cursor shown", screen.rfind(b"\x1b[?25h") > screen.rfind(b"\x1b[?25l"))
"#;

#[test]
fn a_key_ends_it_and_the_terminal_is_as_it_was() {
    let lab = json_and_probe();
    for keys in ["q", "\x03", "/q\x1b[A\x03"] {
        let output: std::process::Output = Command::new("python3")
            .args(["-c", TERMINAL, "plugin:json", keys, env!("CARGO_BIN_EXE_toolhost"), "watch"])
            .current_dir(lab.work())
            .env("TOOLHOST_HOME", lab.home())
            .env("TOOLHOST_CACHE", std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"))
            .env("TOOLHOST_KEYRING", "none")
            .env("TERM", "xterm-256color")
            .output()
            .expect("python3");
        let said = String::from_utf8_lossy(&output.stdout);
        let wrong = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            said,
            "exit 0\nraw while it ran True\nrestored True\nown screen 1 1\nleft it last True\ncursor shown True\n",
            "{keys:?}: {wrong}"
        );
    }
}
