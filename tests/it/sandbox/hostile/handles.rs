//! Handles without end, of others, and after their end: what stands behind one is memory of the
//! host, or one of its open files.

use std::fs;
use std::sync::Arc;

use serde_json::{Value, json};
use toolhost_core::tool::Call;

use super::by_hand::{beside, told};
use super::flood::{call, host, step};
use super::{attack, lab};
use crate::support::client::McpClient;
use crate::support::{Lab, guest};

/// More handles than one guest may have.
const TOO_MANY: u64 = 100_000;

#[tokio::test(flavor = "multi_thread")]
async fn are_bounded_for_each_guest() {
    for of in ["pollables", "fields", "requests", "stdin", "sleep_on_many"] {
        let (_lab, host) = host("", "").await;
        let outcome = beside(&host, call(&step(of, TOO_MANY, ""))).await;
        let told = told(&outcome);
        assert!(
            told == "trap: the tool crashed: resource table has no free keys"
                || told.starts_with("trap: the tool crashed: ") && told.contains("handle"),
            "{of}: {told}"
        );
    }
    // One that gives back what it took goes on as long as it likes.
    let (_lab, host) = host("", "").await;
    assert_eq!(told(&beside(&host, call(&step("given_back", 100_000, ""))).await), r#"["ok"]"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_others_are_crashes() {
    for (of, expected) in [
        ("foreign", "trap: the tool crashed: unknown handle index 123456"),
        ("used_after_drop", "trap: the tool crashed: "),
        ("of_another_type", "trap: the tool crashed: "),
    ] {
        let (_lab, host) = host("", "").await;
        let told = told(&beside(&host, call(&step(of, 0, ""))).await);
        assert!(told.starts_with(expected) && told.len() < 300, "{of}: {told}");
    }
}

/// Granted a directory to read.
fn with_directory() -> Lab {
    let lab = lab("");
    fs::create_dir(lab.work().join("in")).expect("a folder");
    fs::write(lab.work().join("in/mine"), "mine").expect("written");
    let grants = format!("kv = true\ndirs = [\"{}/in=/in:ro\"]", lab.work().display());
    lab.config(&format!("[plugins.hostile]\n{grants}\n")).with("json.wasm", guest("json"))
}

/// The answer of a call by MCP, as a text.
pub(super) fn attacked(client: &mut McpClient, steps: &Value) -> String {
    client.ask_tool(1, "attack", json!({ "steps": steps }));
    client.answer(1).to_string()
}

/// Every open file of a guest is one of the program's, which everybody shares.
#[test]
fn of_files_leave_some_to_others() {
    let lab = with_directory();
    let mut command = lab.command("sh");
    let program = env!("CARGO_BIN_EXE_toolhost");
    command.args(["-c", &format!("ulimit -n 200 && exec {program} serve")]);
    let mut client = McpClient::with(command);
    client.initialize();
    for _ in 0..3 {
        let answer = attacked(&mut client, &json!([step("descriptors", 100_000, "mine")]));
        assert!(answer.contains(r#"\"error\":\"busy\""#), "{answer}");
        let opened = answer.split(r#"opened\":"#).nth(1).expect("a number");
        let opened: usize = opened.split(',').next().expect("a number").parse().expect("a number");
        assert!((50..150).contains(&opened), "{answer}");
        // While it holds as many as it can get, the store opens its files.
        let steps = json!([step("descriptors", 100_000, "mine"), { "kv_set": ["a", "b"] }]);
        let answer = attacked(&mut client, &steps);
        assert!(answer.contains(r#"\"ok\""#), "{answer}");
        let arguments = json!({ "filter": ".", "json": 1 });
        client.ask_tool(2, "json_query", arguments);
        assert!(client.answer(2).to_string().contains("[1]"));
    }
    // Files that it closes are no matter.
    let look = json!({ "file": {
        "at": "/in", "do": "open-loop", "path": "mine", "follow": true, "times": 500,
    } });
    assert!(attacked(&mut client, &json!([look])).contains("500"));
}

/// A list of a directory holds all its entries, so there are few at once.
#[tokio::test(flavor = "multi_thread")]
async fn of_listings_are_few() {
    let lab = with_directory();
    let host = Arc::new(lab.host().await);
    let outcome = beside(&host, call(&step("listings", 100_000, "."))).await;
    assert_eq!(told(&outcome), r#"[{"opened":64,"error":"busy"}]"#);
    let refusal = outcome.refusals[0].to_string();
    assert_eq!(
        refusal,
        ". is refused, since it holds 64 lists of directories already, and more are not allowed: its author must close them"
    );
    let list = json!({ "file": { "at": "/in", "do": "list", "path": "" } });
    let many: Vec<Value> = (0..200).map(|_| list.clone()).collect();
    let names = attack(&host, json!(many)).await;
    assert!(names.iter().all(|listed| listed["names"] == json!(["mine"])), "{names:?}");
}

/// What one process has: open files, threads, and memory in KiB.
fn census(pid: u32) -> [usize; 3] {
    let count = |what: &str| fs::read_dir(format!("/proc/{pid}/{what}")).expect("Linux").count();
    [count("fd"), count("task"), resident(pid, "VmRSS")]
}

/// Memory of a process in KiB: `VmRSS` is what it has, `VmHWM` the most it had.
pub(super) fn resident(pid: u32, what: &str) -> usize {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix(what)).expect("a line");
    let number = line.trim_start_matches(':').trim().trim_end_matches(" kB");
    number.parse().expect("a number")
}

/// Two hundred calls that take whatever they can get leave the program as it was.
#[test]
fn come_back_when_a_call_ends() {
    let lab = with_directory();
    let mut client = McpClient::initialized(&lab, &[]);
    let steps = json!([
        step("pollables", 300, ""),
        step("fields", 100, ""),
        step("requests", 100, ""),
        step("descriptors", 50, "mine"),
        step("listings", 50, "."),
        step("random", 1 << 20, ""),
        step("log", 2_000, "line"),
        step("stderr_handle", 1 << 20, ""),
        step("kv", 10, "value"),
        step("large_answer", 1 << 20, ""),
    ]);
    let mut calls = |count: usize| {
        for _ in 0..count {
            let answer = attacked(&mut client, &steps);
            assert!(answer.contains("opened") && !answer.contains("busy"), "{answer:.300}");
        }
        census(client.id())
    };
    let before = calls(20);
    let after = calls(200);
    let grown = |place: usize| after[place].saturating_sub(before[place]);
    assert!(grown(0) < 50 && grown(1) < 20 && grown(2) < 128 << 10, "{before:?} {after:?}");
}

/// The same for calls that end by a crash: another plugin for every two of them, since one that
/// crashes too often is refused.
#[tokio::test(flavor = "multi_thread")]
async fn come_back_when_a_call_crashes() {
    let (_lab, host) = host("", "").await;
    for _ in 0..2 {
        let crash = json!([step("pollables", 500, ""), step("random", 1 << 20, ""), "crash"]);
        let call = Call::new("attack", json!({ "steps": crash }).to_string());
        let told = told(&beside(&host, call).await);
        assert!(told.starts_with("trap: the tool crashed: it aborted"), "{told}");
    }
    assert_eq!(attack(&host, json!([step("pollables", 500, "")])).await, ["ok"]);
}
