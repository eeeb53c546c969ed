//! The audit log through the program and the library: what real calls leave in it, that nobody
//! can change it unseen, and that losing it loses no answer.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use toolhost::{Host, HostSettings};
use toolhost_core::tool::Call;
use toolhost_kernel::session::SessionSettings;
use toolhost_state::audit;
use toolhost_state::secret::SecretValue;
use toolhost_wasm::digest;

use crate::support::{Lab, answer, guest, made};

const KIND: &str = "kind";

fn file(lab: &Lab) -> PathBuf {
    lab.home().join("state/audit/audit.jsonl")
}

/// All records, after a look at whether they hang together.
fn records(lab: &Lab) -> Vec<Value> {
    let parts = || audit::parts(&lab.home().join("state/audit")).expect("files");
    let found = audit::verify(parts().into_iter().map(|part| (part.name.clone(), part)));
    assert_eq!(found.problems, []);
    let lines = parts().into_iter().flat_map(audit::read);
    lines.map(|(_, line)| Value::Object(line.expect("a record").members)).collect()
}

fn of_kind(lab: &Lab, kind: &str) -> Vec<Value> {
    records(lab).into_iter().filter(|record| record[KIND] == kind).collect()
}

/// The member of every record.
fn all<'a>(records: &'a [Value], member: &str) -> Vec<&'a Value> {
    records.iter().map(|record| &record[member]).collect()
}

/// The hostile guest with a directory and a store, and no hosts.
fn hostile() -> Lab {
    let lab = Lab::new().granted("hostile", guest("hostile"));
    let data = lab.work().join("data");
    fs::create_dir(&data).expect("a folder");
    fs::write(data.join("file"), "inside").expect("written");
    let other = lab.work().join("other");
    fs::create_dir(&other).expect("a folder");
    let dirs = format!("\"{}=/data:ro\", \"{}=/other:rw\"", data.display(), other.display());
    lab.config(&format!("[plugins.hostile]\ndirs = [{dirs}]\nkv = true\nenv = [\"GIVEN\"]\n"))
}

#[tokio::test]
async fn a_call_says_what_it_used_and_was_refused() {
    let lab = hostile();
    let variables =
        toolhost_policy::capability::Variables([("GIVEN".to_owned(), "x".to_owned())].into());
    let host = Host::start(HostSettings { variables, ..lab.settings() }).expect("a host");
    host.loaded().await;
    let steps = json!({ "steps": [
        { "std": "/data/file" }, { "std": "/data/file" }, { "kv_set": ["a", "1"] },
        { "request": { "authority": "api.test", "path": "/v1?key=value" } },
    ] });
    let text = answer(&host, "attack", steps.clone()).await;
    let steps = json!({ "steps": [{ "env": "GIVEN" }] });
    answer(&host, "attack", steps).await;
    answer(&host, "no_such_tool", json!({})).await;
    host.stop().await;

    let loads = of_kind(&lab, "load");
    let bytes = digest(&guest("hostile")).to_string();
    assert_eq!((all(&loads, "ok"), all(&loads, "tools")), (vec![&json!(true)], vec![&json!(1)]));
    assert_eq!((&loads[0]["digest"], &loads[0]["origin"]), (&json!(bytes), &json!("project")));
    let calls = of_kind(&lab, "call");
    assert_eq!(all(&calls, "code"), ["ok", "ok", "unknown_tool"]);
    assert_eq!(calls[0]["used"], json!(["dirs:/data:ro", "kv"]));
    assert_eq!(calls[1]["used"], json!(["env:GIVEN"]));
    assert_eq!(
        (&calls[0]["source"], &calls[0]["digest"]),
        (&json!("plugin:hostile"), &json!(bytes))
    );
    assert_eq!((&calls[2]["source"], &calls[2]["tool"]), (&Value::Null, &json!("no_such_tool")));
    // Of what the model was given; no contents.
    assert_eq!(
        calls[0]["result"],
        json!({ "bytes": text.len(), "sha256": *digest(text.as_bytes()) })
    );
    for call in &calls[..2] {
        let [wall, guest] =
            ["wall_us", "guest_us"].map(|name| call[name].as_u64().expect("a time"));
        assert!(0 < guest && guest <= wall, "{call}");
        assert!(call["memory_bytes"].as_u64().expect("a size") >= 65_536, "{call}");
    }
    assert_eq!((&calls[0]["refused"], &calls[0]["host_calls"]), (&json!(1), &json!(1)));
    let denials = of_kind(&lab, "denial");
    assert_eq!(all(&denials, "what"), ["GET https://api.test/v1"], "{denials:?}");
    assert_eq!(
        (&denials[0]["grant"], &denials[0]["call"]),
        (&json!("http:https://api.test"), &calls[0]["seq"])
    );
    assert!(!fs::read_to_string(file(&lab)).expect("a log").contains("key=value"));
}

#[tokio::test]
async fn each_directory_is_told_from_the_others() {
    let lab = hostile();
    let host = lab.host().await;
    let attack = async |steps: Value| answer(&host, "attack", json!({ "steps": steps })).await;
    attack(json!([{ "remember": "in no directory" }])).await;
    attack(json!([{ "std": "/other/none" }])).await;
    fs::create_dir(lab.work().join("other/below")).expect("a folder");
    fs::write(lab.work().join("other/below/file"), "x").expect("written");
    attack(json!([{ "std": "/other/below/file" }, { "std": "/data/file" }])).await;
    host.stop().await;
    let calls = of_kind(&lab, "call");
    assert_eq!(
        all(&calls, "used"),
        [&json!([]), &json!([]), &json!(["dirs:/other:ro", "dirs:/data:ro"])]
    );
}

#[tokio::test]
async fn denied_calls_say_why() {
    let need = json!({ "kind": "hooks", "value": { "events": ["pre-call"], "tools": ["*"] } });
    let hooks = json!({ "pre_call": { "block": "not today" } });
    let guard = made(&json!({ "tools": [], "needs": [need], "hooks": hooks }));
    let lab = Lab::new()
        .with("probe.wasm", guest("probe"))
        .granted("guard", guard)
        .config("[plugins.guard]\nhooks = [\"pre-call:*\"]\n");
    let host = lab.host().await;
    answer(&host, "echo", json!({ "text": "a" })).await;
    host.stop().await;
    let (calls, denials) = (of_kind(&lab, "call"), of_kind(&lab, "denial"));
    assert_eq!((calls.len(), denials.len()), (1, 1));
    assert_eq!((&calls[0]["code"], &denials[0]["code"]), (&json!("denied"), &json!("denied")));
    assert_eq!(calls[0]["used"], json!(["hooks:pre-call of plugin:guard"]));
    assert_eq!(denials[0]["why"], "by plugin:guard: [TOOL_ERROR] not today");
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_is_recorded_too() {
    let lab = Lab::new()
        .with("probe.wasm", guest("probe"))
        .config("[limits]\nbatch_time_max = \"1s\"\nbatch_calls_max = 1\n");
    let host = lab.host().await;
    let spin = host.call(Call::new("spin", r#" {} "#));
    assert!(tokio::time::timeout(Duration::from_millis(50), spin).await.is_err());
    let session = host.session(SessionSettings::default()).expect("a session");
    let calls = vec![Call::new("spin", "{}"), Call::new("echo", r#"{"text": "a"}"#)];
    let outcomes = host.batch(&session, calls).await;
    assert!(outcomes.iter().all(|outcome| outcome.result.is_err()));
    host.stop().await;
    let calls = of_kind(&lab, "call");
    assert_eq!(all(&calls, "code"), ["cancelled", "deadline", "deadline"]);
    assert_eq!(all(&calls, "tool"), ["spin", "spin", "echo"]);
    assert_eq!(
        (&calls[0]["source"], &calls[0]["arguments"]["bytes"]),
        (&json!("plugin:probe"), &json!(4))
    );
    // It had a CPU for as long as it was let.
    assert!(calls[0]["guest_us"].as_u64() > Some(1_000), "{}", calls[0]);
}

#[tokio::test]
async fn arguments_that_were_changed_stand_beside_those_that_were_given() {
    let lab = Lab::new().with("probe.wasm", guest("probe")).config("[audit]\ncontents = true\n");
    let secret = SecretValue::new("s3cr3t-value".to_owned()).expect("a value");
    let secrets = BTreeMap::from([("KEY".to_owned(), secret)]);
    let host = Host::start(HostSettings { secrets, ..lab.settings() }).expect("a host");
    host.loaded().await;
    host.call(Call::new("echo", r#"{"text": "a s3cr3t-value""#)).await;
    let large = "x".repeat(900_000);
    host.call(Call::new("echo", json!({ "text": large }).to_string())).await;
    drop(host);
    let calls = of_kind(&lab, "call");
    assert_eq!(calls[0]["arguments"]["text"], r#"{"text": "a [REDACTED:KEY]""#);
    assert_eq!(calls[0]["ran"]["text"], r#"{"text":"a [REDACTED:KEY]"}"#);
    assert_eq!(calls[0]["result"]["text"], r#"{"result":"a [REDACTED:KEY]"}"#);
    assert_eq!(
        (&calls[1]["arguments"]["bytes"], &calls[1]["ran"]),
        (&json!(900_011), &Value::Null)
    );
    assert!(calls[1].to_string().len() < 10_000);
}

#[test]
fn the_program_shows_and_verifies_it() {
    let lab = Lab::new().with("probe.wasm", guest("probe")).with("broken.wasm", "hello");
    assert_eq!(
        lab.run(&["audit", "verify"]),
        "exit 0\n--- stdout\nok: there is no audit log yet\n--- stderr\n"
    );
    fs::create_dir(lab.work().join("data")).expect("a folder");
    lab.run(&["call", "echo", r#"{"text": "hello"}"#]);
    assert!(lab.run(&["grant", "probe", "--dir", "data=/data:ro"]).starts_with("exit 0"));
    lab.run_with(&["secret", "set", "TOKEN"], "s3cr3t-value");
    lab.run(&["call", "look", r#"{"text": "/data"}"#]);
    lab.run(&["revoke", "probe", "--dir", "data=/data:ro"]);
    lab.run(&["secret", "remove", "TOKEN"]);
    let kinds: Vec<String> = records(&lab)
        .iter()
        .map(|record| record[KIND].as_str().expect("a kind").to_owned())
        .collect();
    // The second call needs no more than its own plugin.
    let (first, second) = (["load", "load", "call"], ["load", "call"]);
    let expected = [&first[..], &["grant", "secret"], &second, &["revoke", "secret"]].concat();
    assert_eq!(kinds, expected);
    assert!(!fs::read_to_string(file(&lab)).expect("a log").contains("s3cr3t-value"));

    let shown = lab.run(&["audit"]);
    for part in [
        "load     HOME/project/plugins/broken.wasm failed: not WebAssembly",
        "call     echo plugin:probe ok in ",
        "grant    plugin:probe --dir HOME/project/data=/data:ro\n",
        "secret   TOKEN set\n",
        "revoke   plugin:probe --dir ",
        "secret   TOKEN removed\n",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert_eq!(lab.run(&["audit", "--tool", "echo"]).lines().count(), 4);
    assert_eq!(lab.run(&["audit", "--since", "1h"]), shown);
    assert_eq!(
        lab.run(&["audit", "--since", "2999-01-01T00:00:00Z"]),
        "exit 0\n--- stdout\n--- stderr\nno entries: none of 9 records is what was asked for\n"
    );
    assert!(lab.run(&["audit", "--since", "soon"]).starts_with("exit 2"));
    let json = lab.run(&["audit", "--tool", "look", "--json"]);
    let line: Value = serde_json::from_str(json.lines().nth(2).expect("a line")).expect("JSON");
    assert_eq!((&line[KIND], &line["code"]), (&json!("call"), &json!("ok")));
    assert!(line["used"] == json!(["dirs:/data:ro"]), "{line}");
    let verified = lab.run(&["audit", "verify"]);
    assert_eq!(verified, "exit 0\n--- stdout\nok: 9 records of 6 chains in 1 files\n--- stderr\n");

    // A line that was changed is named, and shown all the same.
    let text = fs::read_to_string(file(&lab)).expect("a log");
    let text = text.replacen("\"tool\":\"echo\"", "\"tool\":\"mute\"", 1);
    fs::write(file(&lab), text + "no record\n").expect("written");
    let verified = lab.run(&["audit", "verify"]);
    assert!(
        verified.starts_with("exit 1\n--- stdout\naudit.jsonl:3: it was changed"),
        "{verified}"
    );
    assert!(verified.contains("audit.jsonl:10: it is no record"), "{verified}");
    let shown = lab.run(&["audit", "--tool", "mute"]);
    assert!(shown.contains("warning: audit.jsonl:10 is damaged"), "{shown}");
    assert!(shown.starts_with("exit 0"), "{shown}");
}

#[test]
fn it_says_why_nothing_is_shown() {
    let said = |lab: &Lab, more: &[&str]| {
        let said = lab.run(&[&["audit"], more].concat());
        let said = said.strip_prefix("exit 0\n--- stdout\n--- stderr\n").expect(&said);
        said.to_owned()
    };
    let empty = "no entries: the audit log HOME/state/audit is empty\n";
    for more in [&[][..], &["--all"], &["--json"]] {
        assert_eq!(said(&Lab::new(), more), empty, "{more:?}");
    }
    let off = "no entries: the audit log is off; set `enabled = true` under `[audit]` in HOME/toolhost.toml\n";
    assert_eq!(said(&Lab::new().config("[audit]\nenabled = false\n"), &[]), off);
}

#[test]
fn what_a_plugins_code_says_is_not_in_it() {
    let lab = Lab::new().with("words.py", "\nraise ValueError('hunter2canary')\n");
    let shown = lab.run(&["list"]);
    assert!(shown.contains("hunter2canary"), "{shown}");
    assert!(!fs::read_to_string(file(&lab)).expect("a log").contains("hunter2canary"));
    let loads = of_kind(&lab, "load");
    let told = "its `register` failed at words.py:2; `toolhost list` shows why";
    assert_eq!(all(&loads, "reason"), [told], "{loads:?}");
}

#[test]
fn the_last_entries_are_shown_and_calls_before_others() {
    let lab = Lab::new().with("probe.wasm", guest("probe"));
    let batch = lab.work().join("batch.jsonl");
    let line = |number: usize| json!({ "tool": "echo", "arguments": { "text": number } });
    fs::write(&batch, (0..30).map(|number| format!("{}\n", line(number))).collect::<String>())
        .expect("written");
    lab.run(&["call", "--batch", "batch.jsonl"]);
    for _ in 0..3 {
        lab.run(&["list"]);
    }
    lab.run(&["grant", "probe", "--dir", ".:ro"]);
    let of = |shown: &str, kind: &str| shown.matches(&format!(" {kind:<8} ")).count();
    let shown = lab.run(&["audit"]);
    assert_eq!((of(&shown, "call"), of(&shown, "load"), of(&shown, "grant")), (20, 0, 0));
    let more = "the last 20 of 32 entries; `-n N`, `--since TIME` or `--all` shows more\n";
    assert!(shown.ends_with(more), "{shown}");
    let shown = lab.run(&["audit", "-n", "40"]);
    assert_eq!((of(&shown, "call"), of(&shown, "load"), of(&shown, "grant")), (30, 1, 1));
    assert_eq!(lab.run(&["audit", "--since", "1h"]), shown);
    let digest = &digest(&guest("probe"))[..12];
    assert!(shown.contains(&format!(" plugin:probe {digest} project, ")), "{shown}");
    let shown = lab.run(&["audit", "--all"]);
    assert_eq!((of(&shown, "call"), of(&shown, "load")), (30, 4));
    let json = lab.run(&["audit", "-n", "1", "--json"]);
    assert!(json.contains("\"tool\":\"echo\""), "{json}");
    assert!(lab.run(&["audit", "-n", "1", "--all"]).starts_with("exit 2"));
}

#[test]
fn processes_share_it() {
    let lab = Lab::new().with("probe.wasm", guest("probe"));
    let lines = format!("{}\n", json!({ "tool": "echo", "arguments": { "text": "a" } }));
    let batch = lab.work().join("batch.jsonl");
    fs::write(&batch, lines.repeat(50)).expect("written");
    let children: Vec<_> = (0..4)
        .map(|_| {
            lab.command(env!("CARGO_BIN_EXE_toolhost"))
                .args(["call", "--batch", "batch.jsonl"])
                .stdout(std::process::Stdio::null())
                .spawn()
                .expect("the program")
        })
        .collect();
    for mut child in children {
        assert!(child.wait().expect("an end").success());
    }
    assert_eq!(of_kind(&lab, "call").len(), 200);
    let verified = lab.run(&["audit", "verify"]);
    assert!(verified.contains("\nok: 204 records of 4 chains in "), "{verified}");
}

#[test]
fn losing_the_disk_is_said_and_loses_no_answer() {
    let lab = Lab::new().with("probe.wasm", guest("probe"));
    let ok = |shown: &str, answer: &str| {
        assert!(shown.starts_with(&format!("exit 0\n--- stdout\n{answer}\n")), "{shown}");
        for part in ["cannot be written", "calls go on", "2 records of the audit log", "are lost"] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
    };
    fs::create_dir_all(lab.home().join("state")).expect("a folder");
    fs::write(lab.home().join("state/audit"), "no folder").expect("written");
    ok(&lab.run(&["call", "echo", r#"{"text": "hello"}"#]), "hello");
    assert!(lab.run(&["audit"]).starts_with("exit 2"));
    fs::remove_file(lab.home().join("state/audit")).expect("removed");
    assert!(lab.run(&["call", "echo", r#"{"text": "hello"}"#]).ends_with("--- stderr\n"));

    // A disk that is full in the middle of a line: files may be larger by half a block, or by one.
    let blocks = fs::metadata(file(&lab)).expect("a log").len() / 512 + 1;
    let full = format!(
        "trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" call echo '{{\"text\": \"hello\"}}'"
    );
    let output =
        lab.command("sh").args(["-c", &full, env!("CARGO_BIN_EXE_toolhost")]).output().expect("sh");
    let shown = [output.stdout, output.stderr].concat();
    ok(&format!("exit 0\n--- stdout\n{}", String::from_utf8_lossy(&shown)), "hello");
    // Nothing is left of what was written in vain, and what comes after hangs together.
    lab.run(&["call", "echo", r#"{"text": "hello"}"#]);
    assert_eq!(records(&lab).len(), 4);
}

#[test]
fn only_the_operator_decides_whether_there_is_one() {
    let lab = Lab::new().with("probe.wasm", guest("probe"));
    let call = || lab.run(&["call", "echo", r#"{"text": "hello"}"#]);
    let project =
        "[audit]\nenabled = false\ncontents = true\n[limits]\naudit_bytes_max = \"64 KiB\"\n";
    fs::write(lab.work().join("toolhost.toml"), project).expect("written");
    let shown = call();
    assert!(
        shown.contains("warning: `[audit]` in the project's toolhost.toml is ignored"),
        "{shown}"
    );
    let calls = of_kind(&lab, "call");
    assert_eq!((calls.len(), &calls[0]["arguments"]["text"]), (1, &Value::Null));
    fs::remove_file(lab.work().join("toolhost.toml")).expect("removed");
    fs::remove_dir_all(lab.home().join("state/audit")).expect("removed");
    let lab = lab.config("[audit]\nenabled = false\n");
    lab.run(&["call", "echo", r#"{"text": "hello"}"#]);
    lab.run_with(&["secret", "set", "TOKEN"], "s3cr3t-value");
    assert!(!lab.home().join("state/audit").exists());
}
