//! Plugins that crash again and again: refused fast, in this process and the next, until one call
//! shows that they work again.

use std::fs;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use serde_json::{Value, json};
use toolhost::Host;
use toolhost_core::tool::{Call, CallError, Code};
use toolhost_kernel::session::Session;

use crate::call::hooks;
use crate::call::sessions::session;
use crate::support::{Lab, answer, call, guest};

const CRASH: &str = r#"{"text": "boo"}"#;

fn lab(limits: &str) -> Lab {
    Lab::new()
        .config(&format!("[limits]\n{limits}"))
        .with("probe.wasm", guest("probe"))
        .with("json.wasm", guest("json"))
}

async fn crash(host: &Host, times: usize) {
    for _ in 0..times {
        let error = call(host, "crash", json!({ "text": "boo" })).await.result.expect_err("crash");
        assert_eq!(error.code, Code::Trap, "{error:?}");
    }
}

async fn echo(host: &Host) -> Result<(), CallError> {
    call(host, "echo", json!({ "text": "a" })).await.result.map(|_| ())
}

async fn is_refused(host: &Host) -> bool {
    echo(host).await.is_err_and(|error| error.code == Code::Quarantined)
}

/// Waits until one call would be let through.
async fn due(host: &Host) {
    while !host.quarantined()["echo"].left.is_zero() {
        tokio::task::yield_now().await;
    }
}

async fn json_works(host: &Host) {
    let given = json!({ "filter": ".", "json": 1 });
    let text = answer(host, "json_query", given).await;
    assert_eq!(text, r#"{"results":[1],"truncated":false}"#);
}

/// The same component in other bytes.
fn rebuilt(mut component: Vec<u8>) -> Vec<u8> {
    component.extend([0, 5, 4, b'm', b'o', b'r', b'e']);
    component
}

#[test]
fn the_program_remembers_from_call_to_call() {
    let lab = lab("");
    for _ in 0..3 {
        assert!(lab.run(&["call", "crash", CRASH]).starts_with("exit 4\n"));
    }
    // Every tool of the plugin, not only the one that crashed; and of no other plugin.
    for (tool, arguments) in [("crash", CRASH), ("echo", r#"{"text": "a"}"#)] {
        let text = lab.run(&["call", tool, arguments]);
        let start = format!(
            "exit 3\n--- stdout\n--- stderr\nerror[quarantined]: `{tool}` is quarantined: plugin:probe crashed or broke its limits 3 times within 1m, the last time so: the tool crashed: it aborted (a panic, most likely); try again in "
        );
        assert!(text.starts_with(&start), "{text}");
    }
    let text = lab.run(&["call", "json_query", r#"{"filter": ".", "json": 1}"#]);
    assert!(text.starts_with("exit 0\n"), "{text}");

    let list = lab.run(&["list"]);
    let row = list.lines().find(|line| line.starts_with("echo ")).expect("still listed");
    assert!(row.contains(" quarantined "), "{row}");
    let why = "echo: plugin:probe crashed or broke its limits 3 times within 1m, the last time so: the tool crashed: it aborted (a panic, most likely); its calls are refused until 20";
    assert!(list.contains(&format!("Unavailable:\n  blocks: {}", &why[6..])), "{list}");
    assert!(list.contains(why) && list.contains("Z: wait, or rebuild it"), "{list}");
    let stdout = |text: String| {
        let json =
            text.split("--- stdout\n").nth(1).and_then(|rest| rest.split("--- stderr").next());
        serde_json::from_str::<Value>(json.expect("stdout")).expect("JSON")
    };
    let list = stdout(lab.run(&["list", "--json"]));
    let tools = list["tools"].as_array().expect("tools");
    let tool = tools.iter().find(|tool| tool["name"] == "echo").expect("still listed");
    assert_eq!(tool["state"], "quarantined");
    assert!(tool["until"].as_str().expect("a time").ends_with('Z'), "{tool}");

    let doctor = lab.run(&["doctor"]);
    assert!(doctor.starts_with("exit 1\n") && doctor.contains("\nQuarantined:\n"), "{doctor}");
    assert!(doctor.contains(&format!("plugin:probe `echo`: {}", &why[6..])), "{doctor}");
    assert!(doctor.contains("tools are quarantined"), "{doctor}");
    let doctor = stdout(lab.run(&["doctor", "--json"]));
    assert_eq!(doctor["quarantined"][0]["place"], "plugin:probe `blocks`");

    let explain = lab.run(&["explain", "echo"]);
    assert!(explain.contains("no, it is quarantined: plugin:probe crashed"), "{explain}");
    assert!(explain.contains("To call it: wait until 20"), "{explain}");
    // Models still see it, since it comes back.
    assert!(lab.run(&["schema"]).contains("\"echo\""));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_callers_crashes_take_a_tool_from_nobody_else() {
    let host = lab("").host().await;
    let [one, two, three] = std::array::from_fn(|_| session(&host));
    let code = async |session: &Session, tool: &str| {
        let outcome = host.call_in(session, Call::new(tool, CRASH)).await;
        outcome.result.err().map(|error| error.code)
    };
    for _ in 0..3 {
        assert_eq!(code(&one, "crash").await, Some(Code::Trap));
    }
    assert_eq!(code(&one, "echo").await, Some(Code::Quarantined));
    // Neither another session, nor who has none.
    assert_eq!(code(&two, "echo").await, None);
    assert!(!is_refused(&host).await && host.quarantined().is_empty());
    // What crashes for several callers is refused to all.
    assert_eq!(code(&two, "crash").await, Some(Code::Trap));
    for session in [&two, &three] {
        assert_eq!(code(session, "echo").await, Some(Code::Quarantined));
    }
    assert!(is_refused(&host).await);
    let reason = &host.quarantined()["echo"].reason;
    assert!(reason.contains("crashed or broke its limits for several callers"), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_call_is_let_through_and_success_ends_it() {
    let lab = lab("quarantine_time = \"100ms\"\nquarantine_time_max = \"10min\"");
    let host = lab.host().await;
    crash(&host, 3).await;
    json_works(&host).await;
    due(&host).await;
    // It fails: the quarantine is renewed.
    crash(&host, 1).await;
    assert!(!host.quarantined()["echo"].left.is_zero());
    due(&host).await;
    let mut trial = Box::pin(call(&host, "spin", json!({})));
    poll_fn(|context| {
        assert!(trial.as_mut().poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
    // Only one at a time; and whoever drops it lets another try.
    assert!(is_refused(&host).await);
    drop(trial);
    assert_eq!(echo(&host).await, Ok(()));
    assert!(host.quarantined().is_empty());
    crash(&host, 2).await;
    assert_eq!(echo(&host).await, Ok(()), "all was forgotten");
    // Elsewhere too: of the file, only the two new failures are left.
    let other = lab.host().await;
    assert_eq!(echo(&other).await, Ok(()));
    crash(&other, 1).await;
    assert!(is_refused(&other).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_quarantined_says_why_and_when() {
    let lab =
        lab("quarantine_failures_max = 1\nquarantine_window = \"2s\"\nwall_time_max = \"100ms\"");
    let host = lab.host().await;
    assert_eq!(call(&host, "spin", json!({})).await.result.expect_err("late").code, Code::Deadline);
    let error = echo(&host).await.expect_err("refused");
    assert_eq!(error.code, Code::Quarantined);
    let start = "`echo` is quarantined: plugin:probe crashed or broke its limits once within 2s, the last time so: stopped: not done within `wall_time_max` of 100ms; try again in ";
    assert!(error.message.starts_with(start), "{}", error.message);
    let wait = error.details["retry_after_ms"].as_u64().expect("a number");
    assert!((1..=60_000).contains(&wait), "{wait}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_memory_of_one_guest_counts() {
    let host = lab("memory_bytes_max = \"16 MiB\"").host().await;
    for _ in 0..3 {
        call(&host, "grab", json!({ "n": 64 })).await.result.expect_err("too much");
    }
    assert!(is_refused(&host).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_the_plugins_fault_never_counts() {
    let host = lab("output_bytes_max = \"64 KiB\"").host().await;
    for _ in 0..4 {
        let time_max = Some(Duration::from_millis(50));
        let outcome = host.call(Call { time_max, ..Call::new("spin", "{}") }).await;
        assert_eq!(outcome.result.expect_err("late").code, Code::Deadline);
        let dropped =
            tokio::time::timeout(Duration::from_millis(50), call(&host, "spin", json!({})));
        assert!(dropped.await.is_err());
        for (tool, given) in [
            ("flood", json!({ "n": 70_000 })),
            ("fail", json!({ "text": "no" })),
            ("echo", json!({})),
        ] {
            call(&host, tool, given).await.result.expect_err(tool);
        }
    }
    assert_eq!(echo(&host).await, Ok(()));
    assert!(host.quarantined().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_that_crash_fail_closed_and_do_not_count() {
    let host = hooks::host(&[("guard", json!({ "pre_call": "trap" }))], "").await;
    for _ in 0..4 {
        let error = call(&host, "say", json!({ "text": "a" })).await.result.expect_err("refused");
        assert_eq!(error.code, Code::Denied);
    }
    assert!(host.quarantined().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_build_starts_clean() {
    let lab = lab("");
    crash(&lab.host().await, 3).await;
    assert!(is_refused(&lab.host().await).await);
    let lab = lab.with("probe.wasm", rebuilt(guest("probe")));
    assert_eq!(echo(&lab.host().await).await, Ok(()));
    let lab = lab.with("probe.wasm", guest("probe"));
    assert!(is_refused(&lab.host().await).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_state_folder_it_is_kept_in_memory() {
    let lab = lab("");
    let mut settings = lab.settings();
    settings.state = None;
    let host = Host::start(settings).expect("a host");
    host.loaded().await;
    crash(&host, 3).await;
    assert!(is_refused(&host).await);
}

#[test]
fn a_damaged_file_is_said_and_counts_as_empty() {
    let lab = lab("");
    fs::create_dir_all(lab.home().join("state")).expect("a folder");
    fs::write(lab.home().join("state/quarantine.json"), "{").expect("written");
    let text = lab.run(&["call", "echo", r#"{"text": "a"}"#]);
    assert!(text.starts_with("exit 0\n"), "{text}");
    assert!(
        text.contains("HOME/state/quarantine.json is damaged") && text.contains("or remove it"),
        "{text}"
    );
    lab.run(&["call", "crash", CRASH]);
    let text = lab.run(&["call", "echo", r#"{"text": "a"}"#]);
    assert!(!text.contains("damaged"), "the failure wrote it anew: {text}");
}
