//! Runners have the authority of every script, so they count as they were built and no others.

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use expect_test::expect;

use crate::support::{Lab, RUNNERS, put_runner};

const SCRIPT: &str = r#"import { env, need, plugin, tool } from "toolhost-sdk";

plugin("words", "1.0.0");
need.env('TOKEN');

tool(
  { name: "token", description: "Tells the token.", parameters: { type: "object", properties: {} } },
  () => env("TOKEN") ?? "",
);
"#;

/// A lab with a script that was granted something, and a program of its own with a runner beside it.
struct Here {
    lab: Lab,
    program: PathBuf,
    runner: PathBuf,
}

impl Here {
    fn new() -> Here {
        LazyLock::force(&RUNNERS);
        let lab = Lab::new().with("words.js", SCRIPT);
        let folder = lab.home().join("program");
        let (program, runner) = (folder.join("toolhost"), folder.join("runners/javascript.wasm"));
        fs::create_dir_all(folder.join("runners")).expect("made");
        let built = env!("CARGO_BIN_EXE_toolhost");
        if fs::hard_link(built, &program).is_err() {
            fs::copy(built, &program).expect("copied");
        }
        let here = Here { lab, program, runner };
        put_runner(&here.runner, &here.built());
        here
    }

    /// The runner that was built.
    fn built(&self) -> Vec<u8> {
        fs::read(&RUNNERS[&toolhost_wasm::script::Language::JavaScript][0]).expect("a runner")
    }

    /// One that does the same, and has another digest: a custom section of the name `x` follows.
    fn another(&self) -> Vec<u8> {
        [self.built(), vec![0, 2, 1, b'x']].concat()
    }

    /// Puts bytes over the runner, as a plugin would that can write there.
    fn replace(&self, bytes: &[u8]) {
        let part = self.lab.work().join("part");
        fs::write(&part, bytes).expect("written");
        fs::rename(part, &self.runner).expect("renamed");
    }

    fn run(&self, arguments: &[&str]) -> String {
        let mut command = self.lab.command(&self.program);
        let output = command
            .env("TOKEN", "t0ken")
            .env("TOOLHOST_LOG", "error")
            .args(arguments)
            .output()
            .expect("the program");
        let text = |bytes: &[u8]| {
            String::from_utf8_lossy(bytes).replace(&*self.lab.home().to_string_lossy(), "HOME")
        };
        let code = output.status.code().expect("an exit code");
        format!("exit {code}\n{}{}", text(&output.stdout), text(&output.stderr))
    }
}

#[test]
fn another_runner_leaves_its_scripts_pending() {
    let here = Here::new();
    let granted = here.run(&["grant", "words", "--env", "TOKEN"]);
    assert!(granted.starts_with("exit 0\n"), "{granted}");
    assert_eq!(here.run(&["call", "token"]), "exit 0\nt0ken\n");
    here.replace(&here.another());
    expect![[r#"
        exit 0
        TOOL         TOOLSET  SOURCE   STATE  TOKENS
        result_read  results  builtin  ready  166

        Pending:
          plugin:words: its runner is not the one that was recorded when it was built; until then none of its tools can be called; HOME/program/runners/javascript.wasm does not count as a runner: it is not what was recorded when it was built; build it again: `make run` or `make install` in a clone of toolhost
    "#]]
    .assert_eq(&here.run(&["list"]));
    expect![[r#"
        exit 3
        error[pending]: `token` of plugin:words cannot be called yet: its plugin is pending review: its runner is not the one that was recorded when it was built
    "#]]
    .assert_eq(&here.run(&["call", "token"]));
    let doctor = here.run(&["doctor"]);
    assert!(doctor.starts_with("exit 1\n"), "{doctor}");
    assert!(
        doctor.contains("runners/javascript.wasm does not count as a runner: it is not what"),
        "{doctor}"
    );
    // No trust and no grant helps, and no probe lends it anything.
    for arguments in [
        &["trust", "words", "--yes"][..],
        &["grant", "words", "--env", "TOKEN"],
        &["probe", "plugins/words.js", "token", "{}", "--with", "env=TOKEN"],
    ] {
        let said = here.run(arguments);
        assert!(said.starts_with("exit 3\n"), "{arguments:?}: {said}");
        assert!(said.contains("build it again: `make run`"), "{arguments:?}: {said}");
    }
    // Nor does a record that somebody else could have written.
    put_runner(&here.runner, &here.another());
    let folder = here.runner.parent().expect("a folder");
    let mode = |mode| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        fs::set_permissions(folder, mode).expect("changed");
    };
    mode(0o777);
    let said = here.run(&["call", "token"]);
    assert!(said.starts_with("exit 3\nerror[pending]"), "{said}");
    mode(0o755);
    // Another version's runner, as it was built: the script is what was trusted.
    assert_eq!(here.run(&["call", "token"]), "exit 0\nt0ken\n");
}

#[test]
fn a_script_without_grants_waits_too() {
    let here = Here::new();
    fs::remove_file(here.runner.with_extension("wasm.sha256")).expect("removed");
    let said = here.run(&["call", "token"]);
    assert!(said.starts_with("exit 3\nerror[pending]"), "{said}");
    let said = here.run(&["list"]);
    assert!(said.contains("its digest was not recorded when it was built"), "{said}");
}

#[test]
fn a_runner_with_a_second_name_does_not_count() {
    let here = Here::new();
    let record = here.runner.with_extension("wasm.sha256");
    for file in [&here.runner, &record] {
        // Who may write in the work folder could change the file through it.
        let second = here.lab.work().join("second");
        fs::hard_link(file, &second).expect("linked");
        let said = here.run(&["call", "token"]);
        assert!(said.starts_with("exit 3\nerror[pending]"), "{said}");
        let said = here.run(&["list"]);
        assert!(said.contains("has 1 more name (hard link)"), "{said}");
        fs::remove_file(second).expect("removed");
    }
}
