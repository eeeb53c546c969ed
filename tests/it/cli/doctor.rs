//! What `doctor` finds, with which exit code.

use std::fs;
use std::path::Path;

use expect_test::expect;
use serde_json::{Value, json};
use toolhost_state::trust_store;

use crate::call::toolsets::lab;
use crate::cli::explain::{two_of_one_name, without_digests};
use crate::support::{Lab, guest, put_runner};

#[test]
fn doctor_finds_what_is_broken() {
    let lab = lab().with("broken.wasm", "hello").with("twin.wasm", guest("json"));
    expect![[r#"
        exit 1
        PLACE                SOURCE         DIGEST        STATE
        plugins/broken.wasm  plugin:broken  -             failed (compile)
        plugins/fates.wasm   plugin:fates   DIGEST......  live
        plugins/json.wasm    plugin:json    DIGEST......  live, untrusted
        plugins/twin.wasm    plugin:twin    DIGEST......  not counted: plugins/json.wasm is the same plugin

        Not loaded:
          plugins/broken.wasm: not WebAssembly; replace it by a component, or remove it

        Unavailable:
          plugin:fates `needs_token`: it requires the variable `TOKEN`, which it was not granted: run `toolhost grant fates --env TOKEN`
          plugin:fates `offline`: no network

        Worth knowing:
          plugin:fates: asks for hooks {"events":["pre-call"],"tools":["*"]}; to grant it, run `toolhost grant fates --hook 'pre-call:*'`
          toolhost.toml: toolsets include one another in a circle: `here` -> `there` -> `here`; take `here` out of `includes` of `there`
          `includes` of [toolsets.mine]: Unknown toolset: wbe; did you mean `web`?
          `toolsets` of [platforms.cli]: Unknown toolset: fiel; did you mean `file`?

        Broken: 1 source does not load, 2 tools cannot work.
        --- stderr
    "#]].assert_eq(&doctor(&lab, &[]));
    let json = lab.run(&["doctor", "--json"]);
    assert!(json.starts_with("exit 1\n") && json.contains(r#""is_broken": true"#), "{json}");
}

#[test]
fn doctor_is_content_with_what_works() {
    let json = Lab::new().with("json.wasm", guest("json"));
    expect![[r#"
        exit 0
        PLACE              SOURCE       DIGEST        STATE
        plugins/json.wasm  plugin:json  DIGEST......  live, untrusted

        Everything that is enabled works.
        --- stderr
    "#]]
    .assert_eq(&doctor(&json, &[]));
    // What is not enabled does not count.
    expect![[r#"
        exit 0
        PLACE               SOURCE        DIGEST        STATE
        plugins/fates.wasm  plugin:fates  DIGEST......  live
        plugins/json.wasm   plugin:json   DIGEST......  live, untrusted

        Worth knowing:
          plugin:fates `needs_token`: it requires the variable `TOKEN`, which it was not granted: run `toolhost grant fates --env TOKEN`
          plugin:fates `offline`: no network
          plugin:fates: asks for hooks {"events":["pre-call"],"tools":["*"]}; to grant it, run `toolhost grant fates --hook 'pre-call:*'`
          toolhost.toml: toolsets include one another in a circle: `here` -> `there` -> `here`; take `here` out of `includes` of `there`
          `includes` of [toolsets.mine]: Unknown toolset: wbe; did you mean `web`?
          `toolsets` of [platforms.cli]: Unknown toolset: fiel; did you mean `file`?

        Everything that is enabled works.
        --- stderr
    "#]].assert_eq(&doctor(&lab(), &["--enable", "made"]));
}

#[test]
fn doctor_tells_what_is_replaced_from_what_is_left_out() {
    let lab = two_of_one_name().config("[plugins.other]\nallow_tool_override = true\n");
    expect![[r#"
        exit 0
        PLACE               SOURCE        DIGEST        STATE
        plugins/copy.wasm   plugin:copy   DIGEST......  live, untrusted
        plugins/json.wasm   plugin:json   DIGEST......  not counted: plugins/copy.wasm is the same plugin
        plugins/other.wasm  plugin:other  DIGEST......  live

        Worth knowing:
          plugin:copy `json_query`: replaced by the tool of the same name of plugin:other

        Everything that is enabled works.
        --- stderr
    "#]].assert_eq(&doctor(&lab, &[]));
    expect![[r#"
        exit 1
        PLACE               SOURCE        DIGEST        STATE
        plugins/copy.wasm   plugin:copy   DIGEST......  live, untrusted
        plugins/json.wasm   plugin:json   DIGEST......  not counted: plugins/copy.wasm is the same plugin
        plugins/other.wasm  plugin:other  DIGEST......  live

        Left out:
          plugin:other `json_query`: plugin:other asks to replace `json_query` of plugin:copy and may not; set `plugins."HOME/project/plugins/other".allow_tool_override = true` in toolhost.toml
          plugin:other `terminal`: `terminal` is the name of a core tool; rename it, or set `plugins."HOME/project/plugins/other".allow_tool_override = true` in toolhost.toml

        Broken: 2 tools are left out.
        --- stderr
        ERROR toolhost_kernel::registry::rules: plugin:other may not replace `json_query` of plugin:copy: set `plugins."HOME/project/plugins/other".allow_tool_override = true` in toolhost.toml
    "#]].assert_eq(&doctor(&two_of_one_name(), &[]));
}

#[test]
fn doctor_names_grants_that_give_nothing() {
    let lab = lab().config(
        "[plugins.fates]\nallow_tool_override = true\nenv = [\"TOKEN\"]\n\
         [plugins.gone]\nenv = [\"TOKEN\"]\n",
    );
    let folder = fs::canonicalize(lab.plugins()).expect("a folder");
    trust_store::unpin(&lab.home().join("state"), &folder, "fates").expect("unpinned");
    expect![[r#"
        exit 1
        PLACE               SOURCE        DIGEST        STATE
        plugins/fates.wasm  plugin:fates  DIGEST......  live, untrusted
        plugins/json.wasm   plugin:json   DIGEST......  live, untrusted

        Left out:
          plugin:fates `needs_token`: `web` is a built-in toolset; choose another, or set `plugins."HOME/project/plugins/fates".allow_tool_override = true` in toolhost.toml
          plugin:fates `offline`: `web` is a built-in toolset; choose another, or set `plugins."HOME/project/plugins/fates".allow_tool_override = true` in toolhost.toml

        Grants that give nothing:
          plugin:fates: TOKEN is pending: `toolhost.toml` grants something to its id and does not say of which folder; look at it with `toolhost inspect HOME/project/plugins/fates.wasm`; if that is meant for it, name it there: `[plugins."HOME/project/plugins/fates"]`
          plugin:fates: `allow_tool_override` is pending: `toolhost.toml` grants something to its id and does not say of which folder; look at it with `toolhost inspect HOME/project/plugins/fates.wasm`; if that is meant for it, name it there: `[plugins."HOME/project/plugins/fates"]`

        Worth knowing:
          plugin:fates: asks for hooks {"events":["pre-call"],"tools":["*"]}; to grant it, run `toolhost grant fates --hook 'pre-call:*'`
          [plugins.gone]: holds grants, and no folder has a plugin of this id; if it is gone for good, run `toolhost revoke gone`

        Broken: 2 tools are left out, 2 grants give nothing.
        --- stderr
    "#]].assert_eq(&doctor(&lab, &["--disable", "web"]));
}

/// What doctor says below the rows on this machine.
fn doctor(lab: &Lab, flags: &[&str]) -> String {
    let printed = lab.run(&[&["doctor"], flags].concat());
    let code = printed.lines().next().unwrap_or_default();
    let (_, rest) = printed.split_once("\n\n").unwrap_or_default();
    let rest: Vec<String> = rest.lines().map(without_digests).collect();
    format!("{code}\n{}\n", rest.join("\n"))
}

#[test]
fn a_missing_guard_is_broken_and_explained() {
    let lab = Lab::new()
        .config("[plugins.guard]\nhooks = [\"pre-call:*\"]")
        .with("json.wasm", guest("json"));
    let output = lab.run(&["doctor"]);
    assert!(output.starts_with("exit 1\n"), "{output}");
    assert!(
        output.contains("plugin:guard: its hooks are missing, so the calls they cover are refused; put it back and grant it again, or run `toolhost revoke guard`"),
        "{output}"
    );
    let output = lab.run(&["explain", "json_query"]);
    assert!(
        output.contains("hooks: plugin:guard is missing, and was to hear pre-call"),
        "{output}"
    );
    assert!(output.contains("put plugin:guard back and grant it again, or revoke it"), "{output}");
}

#[test]
fn doctor_names_what_runs_scripts() {
    let lab = Lab::new();
    // A program of its own, beside which no test builds a runner.
    let program = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let beside = fs::canonicalize(program.path()).expect("a folder");
    let toolhost = beside.join("toolhost");
    fs::hard_link(env!("CARGO_BIN_EXE_toolhost"), &toolhost).expect("a link");
    let run = |flags: &[&str]| {
        let output = lab.command(&toolhost).arg("doctor").args(flags).output().expect("run");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let rows = || -> Vec<String> {
        let said = run(&[]).replace(&*lab.home().to_string_lossy(), "HOME");
        let said = said.replace(&*beside.to_string_lossy(), "BESIDE");
        let row = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        said.lines().filter(|line| line.contains(" scripts ")).map(row).collect()
    };
    assert_eq!(
        rows(),
        [
            "Python scripts no runner; `make install` in a clone of toolhost builds one (looked for BESIDE/runners/python.wasm and HOME/runners/python.wasm)",
            "JavaScript scripts no runner; `make install` in a clone of toolhost builds one (looked for BESIDE/runners/javascript.wasm and HOME/runners/javascript.wasm)",
        ]
    );
    let put = |folder: &Path, name: &str| {
        fs::create_dir_all(folder.join("runners")).expect("a folder");
        put_runner(&folder.join("runners").join(name), b"");
    };
    put(&beside, "python.wasm");
    put(lab.home(), "python.wasm");
    assert_eq!(rows()[0], "Python scripts run by BESIDE/runners/python.wasm");
    put(lab.home(), "javascript.wasm");
    assert_eq!(rows()[1], "JavaScript scripts run by HOME/runners/javascript.wasm");
    // What was not built is no runner.
    fs::write(lab.home().join("runners/javascript.wasm"), "other").expect("written");
    assert_eq!(
        rows()[1],
        "JavaScript scripts HOME/runners/javascript.wasm does not count as a runner: it is not what was recorded when it was built; build it again: `make run` or `make install` in a clone of toolhost"
    );
    fs::remove_dir_all(lab.home().join("runners")).expect("removed");
    let report: Value = serde_json::from_str(&run(&["--json"])).expect("JSON");
    let runners = &report["runners"];
    assert_eq!(
        runners[0],
        json!({ "language": "python", "path": beside.join("runners/python.wasm"), "problem": null })
    );
    assert_eq!(runners[1]["path"], Value::Null);
    let problem = runners[1]["problem"].as_str().expect("a text");
    assert!(problem.starts_with("no runner; `make install`"), "{problem}");
}

#[test]
fn a_home_that_cannot_be_written_is_no_home_where_everything_works() {
    let lab = Lab::new().with("json.wasm", guest("json"));
    // There nobody makes files, not even root.
    let read_only = "/proc/self/toolhost";
    let mut command = lab.command(env!("CARGO_BIN_EXE_toolhost"));
    command.env("TOOLHOST_HOME", read_only).env_remove("TOOLHOST_CACHE").arg("doctor");
    let output = command.output().expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stdout);
    let found = said.split_once("\nCannot be written:\n").expect(&said).1;
    let found: Vec<&str> = found.lines().collect();
    assert!(found[0].starts_with(&format!("  {read_only}/state: ")), "{said}");
    assert!(found[0].contains("so nothing is remembered: no grant, no trust, "), "{said}");
    assert!(found[1].starts_with(&format!("  {read_only}/cache/components: ")), "{said}");
    assert!(found[1].contains("so every start compiles every plugin; "), "{said}");
    assert!(said.ends_with("Broken: 2 folders cannot be written.\n"), "{said}");
}
