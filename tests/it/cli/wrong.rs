//! The program used wrongly, or stopped: what it says, and with which exit code.

use std::fs;
use std::process::{Command, Stdio};

use expect_test::{Expect, expect};
use serde_json::json;

use crate::call::toolsets;
use crate::support::client::McpClient;
use crate::support::{check_program as check, json_and_probe as lab};

#[test]
fn a_call_of_what_is_not_there_names_what_did_not_load() {
    let lab = lab().with("hello.wasm", "not a component");
    expect![[r#"
        exit 3
        --- stdout
        --- stderr
        error[unknown_tool]: Unknown tool: hello; plugin:hello did not load, and may have it: not WebAssembly; replace it by a component, or remove it
    "#]]
    .assert_eq(&lab.run(&["call", "hello"]));
}

#[test]
fn a_client_that_calls_what_did_not_load_is_told_why() {
    let lab = lab().with("hello.wasm", "not a component");
    let mut client = McpClient::initialized(&lab, &[]);
    client.ask(1, "tools/call", json!({ "name": "hello", "arguments": {} }));
    let answer = client.answer(1);
    assert_eq!(
        answer["error"]["message"],
        "Unknown tool: hello; plugin:hello did not load, and may have it: not WebAssembly; \
         replace it by a component, or remove it"
    );
    assert_eq!(client.end().0, 0);
}

#[test]
fn exit_codes_say_whose_move_it_is() {
    check(
        &["call", "fail", r#"{"text": "no\u001b"}"#],
        &expect![[r#"
        exit 1
        --- stdout
        --- stderr
        error[failed]: no\u{1b}
    "#]],
    );
    check(
        &["call", "eccko"],
        &expect![[r#"
        exit 3
        --- stdout
        --- stderr
        error[unknown_tool]: Unknown tool: eccko; did you mean `echo`?
    "#]],
    );
    check(
        &["call", "echo", r#"{"text" "x"}"#],
        &expect![[r#"
        exit 3
        --- stdout
        --- stderr
        error[invalid_arguments]: arguments are not JSON: expected `:` at line 1 column 9
          {"text" "x"}
                  ^
    "#]],
    );
    check(
        &["call", "echo", r#"{"test": "x"}"#],
        &expect![[r#"
        exit 3
        --- stdout
        --- stderr
        error[invalid_arguments]: invalid arguments for `echo`: /: Additional properties are not allowed ('test' was unexpected); did you mean `text`?; /: "text" is a required property
    "#]],
    );
    check(
        &["call", "miss", r#"{"text": "no TOKEN"}"#],
        &expect![[r#"
            exit 1
            --- stdout
            --- stderr
            error[unavailable]: no TOKEN
        "#]],
    );
    check(
        &["call", "crash", r#"{"text": "boo"}"#],
        &expect![[r#"
            exit 4
            --- stdout
            --- stderr
            error[trap]: the tool crashed: it aborted (a panic, most likely)
            hint: the tail of the tool's stderr:
            thread '<unnamed>' (1) panicked at probe/src/lib.rs:
            boo
            note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace
        "#]],
    );
    check(
        &["call", "spin", "--timeout", "100ms"],
        &expect![[r#"
        exit 4
        --- stdout
        --- stderr
        error[deadline]: stopped: not done within the time the caller gave of 100ms
    "#]],
    );
    check(
        &["call", "flood", r#"{"n": 9000000}"#],
        &expect![[r#"
        exit 4
        --- stdout
        --- stderr
        error[output_too_large]: stopped: output of 9000000 bytes exceeds `output_bytes_max` of 8388608; ask for less
    "#]],
    );
}

#[test]
fn wrong_usage_names_the_nearest() {
    check(
        &["lst"],
        &expect![[r#"
        exit 2
        --- stdout
        --- stderr
        error: unrecognized subcommand 'lst'

          tip: a similar subcommand exists: 'list'

        Usage: toolhost [OPTIONS] <COMMAND>

        For more information, try '--help'.
    "#]],
    );
    check(
        &["list", "--plugin", "x"],
        &expect![[r#"
        exit 2
        --- stdout
        --- stderr
        error: unexpected argument '--plugin' found

          tip: a similar argument exists: '--plugins'

        Usage: toolhost list --plugins <DIR>

        For more information, try '--help'.
    "#]],
    );
    check(
        &["list", "--plugins", "none"],
        &expect![[r#"
        exit 2
        --- stdout
        --- stderr
        error: the folder none cannot be read: No such file or directory (os error 2)
        hint: name a folder that exists, or leave `--plugins` out to scan ./plugins
    "#]],
    );
    check(
        &["list", "--plugins", "plugins/json.wasm"],
        &expect![[r#"
        exit 2
        --- stdout
        --- stderr
        error: plugins/json.wasm is not a folder
        hint: `--plugins` takes the folder the plugin lies in; `toolhost inspect` takes a file
    "#]],
    );
    check(
        &["list", "--config", "none.toml"],
        &expect![[r#"
        exit 2
        --- stdout
        --- stderr
        error: there is no configuration none.toml
    "#]],
    );
}

#[test]
fn a_wrong_configuration_is_named_with_its_line() {
    let lab = lab().config("[limits]\nwall_time = \"1s\"\n");
    expect![[r#"
        exit 2
        --- stdout
        --- stderr
        error: HOME/toolhost.toml: line 2: unknown key `wall_time`; did you mean `wall_time_max`?
    "#]]
    .assert_eq(&lab.run(&["list"]));
    let lab = lab.config("[plugins.x\n");
    expect![[r#"
        exit 2
        --- stdout
        --- stderr
        error: HOME/toolhost.toml: line 1: unclosed table, expected `]`
    "#]]
    .assert_eq(&lab.run(&["list"]));
}

#[test]
fn a_project_can_only_narrow() {
    let lab = lab();
    let project = lab.work().join("toolhost.toml");
    fs::write(&project, "[limits]\noutput_bytes_max = \"1 KiB\"\n").expect("written");
    assert!(lab.run(&["call", "flood", r#"{"n": 2000}"#]).starts_with("exit 4\n"));
    fs::write(&project, "[limits]\noutput_bytes_max = \"64 MiB\"\n").expect("written");
    assert!(lab.run(&["call", "flood", r#"{"n": 9000000}"#]).starts_with("exit 4\n"));
    fs::write(&project, "[plugins.probe]\nallow_tool_override = true\n").expect("written");
    expect![[r#"
        exit 0
        --- stdout
        a
        --- stderr
        warning: what `[plugins.probe]` in the project's toolhost.toml allows is ignored: nobody has trusted this project; look at it, then run `toolhost trust .`; until then it can only narrow what HOME/toolhost.toml allows
    "#]].assert_eq(&lab.run(&["call", "echo", "--arg", "text=a"]));
}

#[test]
fn build_says_what_is_wrong() {
    let lab = lab();
    expect![[r#"
        exit 2
        --- stdout
        --- stderr
        error: ./none: No such file or directory (os error 2)
    "#]]
    .assert_eq(&lab.run(&["build", "./none"]));
    expect![[r#"
        exit 2
        --- stdout
        --- stderr
        error: ./plugins is nothing to build; name a folder with Cargo.toml (Rust), plugin.py (Python) or plugin.js, .mjs or .ts (JavaScript), or the file of a script
    "#]].assert_eq(&lab.run(&["build", "./plugins"]));
}

#[test]
fn a_toolchain_that_is_not_there_is_named() {
    let lab = lab();
    fs::create_dir(lab.work().join("tool")).expect("a folder");
    fs::write(lab.work().join("tool/Cargo.toml"), "").expect("written");
    let output = Command::new(env!("CARGO_BIN_EXE_toolhost"))
        .args(["build", "./tool", "--yes"])
        .current_dir(lab.work())
        .env_clear()
        .env("PATH", "/nowhere")
        .env("TOOLHOST_HOME", lab.home())
        .output()
        .expect("the program");
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    expect![[r#"
        error: no Rust toolchain for WebAssembly was found (there is no cargo beside a rustc in PATH). Install one: `rustup target add wasm32-wasip2`, or on Debian `apt-get install rustc-web cargo-web rust-web-src wasi-libc lld`
    "#]].assert_eq(said.split_once("sandbox\n").map_or(&*said, |(_, error)| error));
}

#[test]
fn a_closed_pipe_is_no_error() {
    let lab = lab();
    let mut child = Command::new(env!("CARGO_BIN_EXE_toolhost"))
        .args(["call", "flood", r#"{"n": 8000000}"#])
        .current_dir(lab.work())
        .env("TOOLHOST_HOME", lab.home())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("an end");
    assert_eq!((output.status.code(), &*output.stderr), (Some(0), &b""[..]));
}

#[test]
fn doctor_says_how_things_are() {
    let printed = lab().run(&["doctor"]);
    for part in [
        // Some tools of the guest cannot work.
        "exit 1\n",
        "WHAT",
        "HOME/toolhost.toml (not there)",
        "in a process of its own for each component",
        "2 sources, 0 not loaded,",
    ] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
}

#[test]
fn wrong_toolsets_name_the_nearest() {
    let run = |arguments: &[&str], expected: &Expect| {
        expected.assert_eq(&toolsets::lab().run(arguments));
    };
    run(
        &["schema", "--format", "opnai"],
        &expect![[r#"
        exit 2
        --- stdout
        --- stderr
        error: invalid value 'opnai' for '--format <FORMAT>'
          [possible values: openai, openai-strict, anthropic, gemini, mcp]

          tip: a similar value exists: 'openai'

        For more information, try '--help'.
    "#]],
    );
    run(
        &["schema", "--enable", "data", "--platform", "cli"],
        &expect![[r#"
        exit 2
        --- stdout
        --- stderr
        error: the argument '--enable <A,B>' cannot be used with '--platform <NAME>'

        Usage: toolhost schema --enable <A,B>

        For more information, try '--help'.
    "#]],
    );
    run(
        &["schema", "--enable"],
        &expect![[r#"
        exit 2
        --- stdout
        --- stderr
        error: a value is required for '--enable <A,B>' but none was supplied

        For more information, try '--help'.
    "#]],
    );
    run(
        &["toolsets", "wbe"],
        &expect![[r#"
        exit 2
        --- stdout
        --- stderr
        warning: toolsets include one another in a circle: `here` -> `there` -> `here`; take `here` out of `includes` of `there`
        error: Unknown toolset: wbe; did you mean `web`?
        hint: `toolhost toolsets` lists all of them
    "#]],
    );
    run(
        &["toolsets", "nothing at all\u{1b}"],
        &expect![[r#"
        exit 2
        --- stdout
        --- stderr
        warning: toolsets include one another in a circle: `here` -> `there` -> `here`; take `here` out of `includes` of `there`
        error: Unknown toolset: nothing at all\u{1b}
        hint: `toolhost toolsets` lists all of them
    "#]],
    );
    run(
        &["sample", "sience"],
        &expect![[r#"
        exit 2
        --- stdout
        --- stderr
        error: Unknown distribution: sience; did you mean `science`?
    "#]],
    );
    run(
        &["sample", "x", "--json"],
        &expect![[r#"
        exit 2
        --- stdout
        --- stderr
        error: Unknown distribution: x; there are balanced, browser_only, browser_tasks, browser_use, creative, default, development, image_gen, minimal, mixed_tasks, reasoning, research, safe, science, terminal_only, terminal_tasks, terminal_web
    "#]],
    );
    run(
        &["sample", "science", "--seed", "-1"],
        &expect![[r#"
        exit 2
        --- stdout
        --- stderr
        error: invalid value '-1' for '--seed <N>': invalid digit found in string

        For more information, try '--help'.
    "#]],
    );
    run(
        &["sample"],
        &expect![[r#"
        exit 2
        --- stdout
        --- stderr
        error: the following required arguments were not provided:
          <DISTRIBUTION>

        Usage: toolhost sample <DISTRIBUTION>

        For more information, try '--help'.
    "#]],
    );
}
