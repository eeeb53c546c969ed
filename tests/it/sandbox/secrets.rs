//! `toolhost secret`: values are kept, and nobody is shown them.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use expect_test::expect;
use toolhost_state::secret::{Keyring, SecretStore};

use crate::support::Lab;

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolhost");
const VALUE: &str = "hunter2-hunter2";

fn store(lab: &Lab) -> SecretStore {
    SecretStore::open(&lab.home().join("state"), Keyring::None)
}

fn file(lab: &Lab) -> PathBuf {
    lab.home().join("state/secrets.json")
}

fn value(lab: &Lab, name: &str) -> String {
    store(lab).value(name).expect("read").expect("a value").expose().to_owned()
}

/// A lab with the secret `TOKEN`.
fn lab() -> Lab {
    let lab = Lab::new();
    let set = lab.run_with(&["secret", "set", "TOKEN"], &format!("{VALUE}\n"));
    assert!(set.starts_with("exit 0\n"), "{set}");
    lab
}

/// Runs the program and returns what it printed, which never has the value.
fn run(lab: &Lab, arguments: &[&str], stdin: &str) -> String {
    let printed = lab.run_with(arguments, stdin);
    assert!(!printed.contains("hunter2"), "{printed}");
    printed
}

#[test]
fn secrets_are_set_listed_and_removed() {
    let lab = Lab::new();
    let transcript = [
        run(&lab, &["secret", "list"], ""),
        run(&lab, &["secret", "set", "TOKEN"], &format!("{VALUE}\n")),
        run(&lab, &["secret", "set", "KEY", "--json"], &format!("{VALUE}\r\n")),
        run(&lab, &["secret", "list"], ""),
        run(&lab, &["secret", "list", "--json"], ""),
        run(&lab, &["secret", "set", "TOKEN"], "another hunter2"),
        run(&lab, &["secret", "remove", "KEY"], ""),
        run(&lab, &["secret", "remove", "TOKEM"], ""),
        run(&lab, &["secret", "remove", "KEY", "--json"], ""),
    ];
    expect![[r#"
        exit 0
        --- stdout
        There are no secrets; `toolhost secret set NAME` keeps one.
        --- stderr

        exit 0
        --- stdout
        TOKEN is kept in a file that only you can read
        --- stderr

        exit 0
        --- stdout
        {
          "name": "KEY",
          "where": "file",
          "replaced": false
        }
        --- stderr

        exit 0
        --- stdout
        NAME   WHERE
        KEY    file
        TOKEN  file
        --- stderr

        exit 0
        --- stdout
        {
          "secrets": [
            {
              "name": "KEY",
              "where": "file"
            },
            {
              "name": "TOKEN",
              "where": "file"
            }
          ]
        }
        --- stderr

        exit 0
        --- stdout
        TOKEN is replaced, and kept in a file that only you can read
        --- stderr

        exit 0
        --- stdout
        KEY is removed
        --- stderr

        exit 2
        --- stdout
        --- stderr
        error: there is no secret `TOKEM`
        hint: did you mean `TOKEN`?

        exit 2
        --- stdout
        --- stderr
        error: there is no secret `KEY`
        hint: `toolhost secret list` shows all names
    "#]]
    .assert_eq(&transcript.join("\n"));
    assert_eq!(value(&lab, "TOKEN"), "another hunter2");
    assert!(store(&lab).value("KEY").expect("read").is_none());
}

#[test]
fn one_line_break_is_left_out() {
    let lab = Lab::new();
    for (stdin, kept) in [
        (VALUE.to_owned(), VALUE.to_owned()),
        (format!("{VALUE}\n"), VALUE.to_owned()),
        (format!("{VALUE}\r\n"), VALUE.to_owned()),
        (format!("{}\r\n", "x".repeat(8_192)), "x".repeat(8_192)),
    ] {
        assert!(run(&lab, &["secret", "set", "A"], &stdin).starts_with("exit 0\n"));
        assert_eq!(value(&lab, "A"), kept);
    }
}

#[test]
fn wrong_values_are_refused() {
    let lab = Lab::new();
    let long = "hunter2".repeat(1_171);
    let tried: Vec<String> =
        ["", "\n", "hunter2", "hunter2\thunter2", "hunter2-hunter2\n\n", " hunter2-hunter2", &long]
            .iter()
            .map(|stdin| run(&lab, &["secret", "set", "TOKEN"], stdin))
            .collect();
    expect![[r#"
        exit 2
        --- stdout
        --- stderr
        error: the value has 0 bytes; a secret has at least 8, since shorter ones occur by chance and could not be redacted

        exit 2
        --- stdout
        --- stderr
        error: the value has 0 bytes; a secret has at least 8, since shorter ones occur by chance and could not be redacted

        exit 2
        --- stdout
        --- stderr
        error: the value has 7 bytes; a secret has at least 8, since shorter ones occur by chance and could not be redacted

        exit 2
        --- stdout
        --- stderr
        error: the value has a control character, such as a line break, which cannot stand in a header; give one line of text

        exit 2
        --- stdout
        --- stderr
        error: the value begins or ends with white space, or is nothing else; leave it out

        exit 2
        --- stdout
        --- stderr
        error: the value begins or ends with white space, or is nothing else; leave it out

        exit 2
        --- stdout
        --- stderr
        error: the value is longer than the 8192 bytes that a secret has at most
    "#]].assert_eq(&tried.join("\n"));
    let mut child = set(&lab, "TOKEN");
    child.stdin.take().expect("a pipe").write_all(b"hunter2\xff\xfehunter2").expect("written");
    let output = child.wait_with_output().expect("an end");
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "error: the value on stdin is not UTF-8; give one line of text\n"
    );
    assert!(!file(&lab).exists());
}

#[test]
fn values_and_wrong_names_on_the_command_line_are_refused() {
    let lab = Lab::new();
    let refused = run(&lab, &["secret", "set", "TOKEN", "hunter2-hunter2"], "hunter2-hunter2");
    expect![[r#"
        exit 2
        --- stdout
        --- stderr
        error: the value of a secret is not taken from the command line: other programs can see it there, and shells keep it in their history
        hint: `toolhost secret set NAME` asks for it; `toolhost secret set NAME < FILE` reads it
        hint: if that was a real value, have its service replace it by a new one
    "#]].assert_eq(&refused);
    for arguments in [
        &["TOKEN=hunter2-hunter2"][..],
        &["TOKEN", "--value=hunter2-hunter2"],
        &["TOKEN", "--value", "hunter2-hunter2"],
        &["TOKEN", "-hunter2-hunter2"],
        &["--json", "TOKEN", "--", "--hunter2-hunter2"],
    ] {
        let arguments = [&["secret", "set"], arguments].concat();
        assert_eq!(run(&lab, &arguments, "hunter2-hunter2"), refused);
    }
    expect![[r#"
        exit 2
        --- stdout
        --- stderr
        error: that is no name of a secret: a name has 1 to 128 of A-Z a-z 0-9 _, such as WEATHER_TOKEN (what was given is not shown, in case it is a value)
    "#]].assert_eq(&run(&lab, &["secret", "set", "hunter2-hunter2"], ""));
    assert!(run(&lab, &["secret", "remove", "hunter2-hunter2"], "").starts_with("exit 2\n"));
    assert!(!file(&lab).exists());
}

#[test]
fn there_is_no_get() {
    let lab = lab();
    let said = run(&lab, &["secret", "get", "TOKEN"], "");
    expect![[r#"
        exit 2
        --- stdout
        --- stderr
        error: there is no `toolhost secret get`: a value that is never printed cannot end up in a history, a log or the context of a model
        hint: `toolhost secret list` shows the names; `toolhost secret set NAME` replaces a value
    "#]].assert_eq(&said);
    for arguments in [&["secret", "get"][..], &["secret", "get", "TOKEN", "--plain", "-n"]] {
        assert_eq!(run(&lab, arguments, ""), said);
    }
    for command in ["show", "print", "cat"] {
        assert!(run(&lab, &["secret", command, "TOKEN"], "").starts_with("exit 2\n"));
    }
}

#[test]
fn a_file_within_the_reach_of_others_is_refused() {
    let lab = lab();
    fs::set_permissions(file(&lab), fs::Permissions::from_mode(0o644)).expect("changed");
    let open = run(&lab, &["secret", "list"], "");
    expect![[r#"
        exit 2
        --- stdout
        --- stderr
        error: HOME/state/secrets.json lies open to other users (mode 644); run `chmod 600 HOME/state/secrets.json`, and replace the secrets if somebody may have read them
    "#]].assert_eq(&open);
    assert_eq!(run(&lab, &["secret", "remove", "TOKEN"], ""), open);
    assert_eq!(run(&lab, &["secret", "set", "OTHER"], VALUE), open);
    fs::set_permissions(file(&lab), fs::Permissions::from_mode(0o600)).expect("changed");
    assert_eq!(value(&lab, "TOKEN"), VALUE);

    fs::rename(file(&lab), lab.home().join("elsewhere")).expect("moved");
    symlink(lab.home().join("elsewhere"), file(&lab)).expect("linked");
    expect![[r#"
        exit 2
        --- stdout
        --- stderr
        error: HOME/state/secrets.json is a symbolic link; remove it, and put the file itself in its place
    "#]].assert_eq(&run(&lab, &["secret", "set", "OTHER"], VALUE));
    fs::remove_file(file(&lab)).expect("removed");
    fs::write(file(&lab), VALUE).expect("written");
    fs::set_permissions(file(&lab), fs::Permissions::from_mode(0o600)).expect("changed");
    expect![[r#"
        exit 2
        --- stdout
        --- stderr
        error: HOME/state/secrets.json is damaged (line 1, column 1); remove it, then set the secrets again
    "#]].assert_eq(&run(&lab, &["secret", "list"], ""));
}

/// A program that waits for the value of a secret.
fn set(lab: &Lab, name: &str) -> Child {
    let mut command = lab.command(PROGRAM);
    command.args(["secret", "set", name]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("started")
}

#[test]
fn four_processes_at_once_lose_nothing() {
    let lab = Lab::new();
    for round in 0..5 {
        let names: Vec<String> = (0..4).map(|process| format!("N{round}_{process}")).collect();
        let mut children: Vec<Child> = names.iter().map(|name| set(&lab, name)).collect();
        for (child, name) in children.iter_mut().zip(&names) {
            let mut stdin = child.stdin.take().expect("a pipe");
            write!(stdin, "value of {name}").expect("written");
        }
        for child in children {
            let output = child.wait_with_output().expect("an end");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
    }
    assert_eq!(store(&lab).names().expect("names").len(), 20);
    for round in 0..5 {
        for process in 0..4 {
            let name = format!("N{round}_{process}");
            assert_eq!(value(&lab, &name), format!("value of {name}"));
        }
    }
}

#[test]
fn the_value_is_in_no_output_and_no_argument() {
    let lab = Lab::new();
    let child = set(&lab, "TOKEN");
    #[cfg(target_os = "linux")]
    for what in ["cmdline", "environ"] {
        let text = loop {
            let text = fs::read(format!("/proc/{}/{what}", child.id())).expect("read");
            // Empty as long as the program has not begun.
            if !text.is_empty() {
                break text;
            }
            std::thread::yield_now();
        };
        assert!(!String::from_utf8_lossy(&text).contains("hunter2"));
    }
    writeln!(child.stdin.as_ref().expect("a pipe"), "{VALUE}").expect("written");
    assert!(child.wait_with_output().expect("an end").status.success());
    assert_eq!(value(&lab, "TOKEN"), VALUE);
    for arguments in [
        &["secret", "list"][..],
        &["secret", "list", "--json"],
        &["secret", "set", "TOKEN"],
        &["secret", "get", "TOKEN"],
        &["list"],
        &["doctor"],
        &["doctor", "--json"],
        &["secret", "remove", "TOKEN"],
    ] {
        let output = lab
            .command(PROGRAM)
            .args(arguments)
            .env("TOOLHOST_LOG", "trace")
            .stdin(Stdio::null())
            .output()
            .expect("the program");
        let printed = [output.stdout, output.stderr].concat();
        assert!(!String::from_utf8_lossy(&printed).contains("hunter2"), "{arguments:?}");
    }
}

#[test]
fn a_user_without_files_has_no_secrets() {
    let lab = Lab::new();
    let home = lab.home().join("new");
    for variable in ["TOOLHOST_HOME", "HOME"] {
        let output = lab
            .command(PROGRAM)
            .env_remove("TOOLHOST_HOME")
            .env("HOME", lab.home())
            .env(variable, &home)
            .args(["secret", "list"])
            .output()
            .expect("the program");
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "There are no secrets; `toolhost secret set NAME` keeps one.\n"
        );
        assert!(output.status.success() && !home.exists(), "looking makes no folder");
    }
}

#[test]
fn a_keyring_is_used_or_not() {
    let lab = Lab::new();
    let set = |variable: &str, value: &str| {
        let token = lab.home().join("token");
        fs::write(&token, VALUE).expect("written");
        let output = lab
            .command(PROGRAM)
            .args(["secret", "set", "TOKEN"])
            .env_remove("TOOLHOST_KEYRING")
            .env(variable, value)
            .stdin(fs::File::open(token).expect("opened"))
            .output()
            .expect("the program");
        String::from_utf8([output.stdout, output.stderr].concat()).expect("UTF-8")
    };
    assert_eq!(
        set("TOOLHOST_KEYRING", "gnome"),
        "error: TOOLHOST_KEYRING is `gnome`; allowed is `none`\n\
         hint: unset it to use the keyring where there is one\n"
    );
    assert!(!file(&lab).exists());
    #[cfg(target_os = "linux")]
    {
        let said = set("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere/bus");
        assert!(said.starts_with("TOKEN is kept in a file that only you can read\n"), "{said}");
        assert!(said.contains("warning: the keyring does not work ("), "{said}");
        assert!(said.ends_with("), so the value is kept in the file\n"), "{said}");
        assert_eq!(value(&lab, "TOKEN"), VALUE);
    }
}

/// Runs a command on a terminal of its own, types what is given when it is asked, and prints
/// what was shown and whether the terminal shows again what is typed.
const ON_A_TERMINAL: &str = r#"
import os, pty, sys, termios
typed, command = sys.argv[1].encode().decode("unicode_escape").encode(), sys.argv[2:]
child, terminal = pty.fork()
if child == 0:
    os.execv(command[0], command)
shown = b""
while True:
    try:
        chunk = os.read(terminal, 1024)
    except OSError:
        break
    if not chunk:
        break
    shown += chunk
    if typed and b": " in shown:
        # The prompt is shown before the terminal stops to show what is typed.
        while termios.tcgetattr(terminal)[3] & termios.ECHO:
            pass
        os.write(terminal, typed)
        typed = b""
    if b"\n" in shown:
        echo = bool(termios.tcgetattr(terminal)[3] & termios.ECHO)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(shown.decode().replace("\r", ""), end="")
print(f"exit {code}, echo {echo}")
"#;

#[test]
fn a_terminal_does_not_show_what_is_typed() {
    let lab = Lab::new();
    let type_in = |typed: &str| {
        let mut python: Command = lab.command("python3");
        let output = python
            .args(["-c", ON_A_TERMINAL, typed, PROGRAM, "secret", "set", "TOKEN"])
            .output()
            .expect("python3");
        String::from_utf8([output.stdout, output.stderr].concat()).expect("UTF-8")
    };
    assert_eq!(
        type_in("hunter3\\x7f2-hunter2\\r"),
        "Value of TOKEN (not shown): \n\
         TOKEN is kept in a file that only you can read\nexit 0, echo True\n"
    );
    assert_eq!(value(&lab, "TOKEN"), VALUE);
    assert_eq!(
        type_in("hunter2\\x03"),
        "Value of TOKEN (not shown): \n\
         error: interrupted; nothing was changed\nexit 2, echo True\n"
    );
    assert_eq!(value(&lab, "TOKEN"), VALUE);
}
