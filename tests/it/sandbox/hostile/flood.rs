//! One thing very often, in one call: words, bytes and waiting. What is over a bound is dropped
//! and counted, or refused; the time is over in the end, and everybody else goes on.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use toolhost::Host;
use toolhost_core::tool::{Call, ProgressSink};

use super::by_hand::{beside, told};
use super::{KV, attack, error, lab as hostile};
use crate::support::{Lab, guest};

/// A host with the hostile guest, granted this, and another plugin beside it.
pub(super) async fn host(grants: &str, limits: &str) -> (Lab, Arc<Host>) {
    let lab = hostile(grants)
        .config(&format!("[limits]\n{limits}\n[plugins.hostile]\n{grants}\n"))
        .with("json.wasm", guest("json"));
    let host = Arc::new(lab.host().await);
    (lab, host)
}

/// A step that does one thing so often, or with so much.
pub(super) fn step(of: &str, times: u64, text: &str) -> Value {
    json!({ "flood": { "of": of, "times": times, "text": text } })
}

/// A call that makes one step.
pub(super) fn call(step: &Value) -> Call {
    Call::new("attack", json!({ "steps": [step] }).to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn of_the_log() {
    let (_lab, host) = host("", "").await;
    let outcome = beside(&host, call(&step("log", 50_000, "a\u{1b}[2Jb\r\n"))).await;
    assert_eq!(told(&outcome), r#"["ok"]"#);
    // Each has two lines.
    assert_eq!((outcome.usage.log_lines, outcome.usage.log_lines_dropped), (1_000, 99_000));
    // One line larger than a guest hands over at once, and one that is only too large.
    let large = "x".repeat(900_000);
    let outcome = beside(&host, call(&step("log", 3, &large))).await;
    assert_eq!((outcome.usage.log_lines, outcome.usage.log_lines_dropped), (0, 3));
    // What it writes to its own streams goes nowhere, at no cost to the host.
    for of in ["stdout", "stderr"] {
        let outcome = beside(&host, call(&step(of, 20_000, &"y".repeat(1_000)))).await;
        assert_eq!(told(&outcome), r#"["ok"]"#);
    }
    let outcome = beside(&host, call(&step("stderr_handle", 100 << 20, ""))).await;
    assert_eq!(told(&outcome), r#"["ok"]"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_progress() {
    let (_lab, host) = host("", "").await;
    let heard = Arc::new(Mutex::new(Vec::new()));
    let ear = Arc::clone(&heard);
    let sink = ProgressSink::new(move |progress| ear.lock().expect("alive").push(progress));
    let large = "p".repeat(100_000);
    let progress = Some(sink.clone());
    let outcome = beside(&host, Call { progress, ..call(&step("progress", 2_000, &large)) }).await;
    assert_eq!(told(&outcome), r#"["ok"]"#);
    let reports = std::mem::take(&mut *heard.lock().expect("alive"));
    let seconds = outcome.elapsed.as_secs() as usize + 2;
    assert!((1..=20 * seconds).contains(&reports.len()), "{}", reports.len());
    let longest = reports.iter().filter_map(|report| report.message.as_ref()).map(String::len);
    assert_eq!(longest.max(), Some(515));
    // Numbers that are none come as they are; who shows them has to cope.
    let odd = Call { progress: Some(sink), ..call(&step("odd_progress", 0, "odd")) };
    assert_eq!(told(&beside(&host, odd).await), r#"["ok"]"#);
    let done: Vec<f64> = heard.lock().expect("alive").iter().map(|report| report.done).collect();
    // The first at once, and the last however many there are between.
    assert!((2..=6).contains(&done.len()), "{done:?}");
    assert!(done[0].is_nan() && done.last() == Some(&-1.0), "{done:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_the_store() {
    let limits = "kv_entries_max = 50\nkv_bytes_max = \"64 KiB\"\nkv_value_bytes_max = \"8 KiB\"";
    let (_lab, host) = host(KV, limits).await;
    let full = attack(&host, json!([step("kv", 1_000, "v")])).await;
    let said = full[0].as_str().expect("an error");
    assert!(said.contains("Full") && said.contains("`kv_entries_max` is 50"), "{said}");
    let (_lab, host) = self::host(KV, limits).await;
    let full = attack(&host, json!([step("kv", 1_000, &"v".repeat(8_000))])).await;
    let said = full[0].as_str().expect("an error");
    assert!(said.contains("Full") && said.contains("`kv_bytes_max` is 65536"), "{said}");
    // A key and a value of 8 MiB are refused, and what is said of them is short.
    let large = attack(&host, json!([step("large_kv", 8 << 20, "")])).await;
    for said in large[0].as_array().expect("two errors") {
        let said = said.as_str().expect("an error");
        assert!(said.contains("Invalid") || said.contains("Full"), "{said}");
        assert!(said.len() < 500, "{}", said.len());
    }
    super::by_hand::the_other_works(&host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_bytes_and_names() {
    let over =
        |len: u64| format!("trap: the tool crashed: requested len {len} exceeds limit 1048576");
    let fields = "trap: the tool crashed: total size of fields exceeds limit";
    let zeroes = "trap: the tool crashed: cannot write more zeroes than `check_write` allows";
    for (step, expected) in [
        (step("random", 1 << 20, ""), "[1048576]".to_owned()),
        (step("random", 4 << 30, ""), over(4 << 30)),
        (step("insecure", u64::MAX, ""), over(u64::MAX)),
        (step("zeroes", u64::MAX, ""), zeroes.to_owned()),
        // Names of 8 MiB: no secret, no host, no method, no path.
        (step("large_secret", 8 << 20, "S"), "[[false,false]]".to_owned()),
        (step("large_host", 8 << 20, ""), "[false]".to_owned()),
        (step("large_method", 8 << 20, ""), "[false]".to_owned()),
        (step("large_path", 4 << 20, ""), "[false]".to_owned()),
        // Fields of a request are bounded all together: 64 KiB.
        (step("large_field", 100_000, &"v".repeat(1_000)), fields.to_owned()),
    ] {
        let (_lab, host) = host("", "").await;
        assert_eq!(told(&beside(&host, call(&step)).await), expected, "{}", step["flood"]["of"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_output_and_errors() {
    let (_lab, host) = host("", "").await;
    let outcome = beside(&host, call(&step("large_answer", 9 << 20, ""))).await;
    assert_eq!(
        told(&outcome),
        "output_too_large: stopped: output of 9437188 bytes exceeds `output_bytes_max` of 8388608; ask for less"
    );
    // An error text of nearly 1 MiB reaches the model in 2,013 characters.
    let outcome = beside(&host, call(&json!({ "fail": "e".repeat(1_000_000) }))).await;
    let error = outcome.result.expect_err("it fails");
    assert_eq!(error.message.chars().count(), 2_013);
}

/// Waits that would take an hour, or for ever.
#[tokio::test(flavor = "multi_thread")]
async fn of_waiting() {
    let late = "deadline: stopped: not done within `wall_time_max` of 400ms";
    for (step, expected) in [
        (step("sleep", 0, ""), late),
        (step("sleep_on_many", 400, ""), late),
        // Its standard input is at its end, so there is nothing to wait for.
        (step("read_stdin", u64::MAX, ""), "[true]"),
        (step("poll_nothing", 0, ""), "trap: the tool crashed: empty poll list"),
        // A list that names one thing over and over: each counts as a handle.
        (step("poll_one_often", 1_000, ""), "[1000]"),
        (
            step("poll_one_often", 100_000, ""),
            "trap: the tool crashed: cannot lend resource: store handle limit exceeded",
        ),
    ] {
        let (_lab, host) = host("", "wall_time_max = \"400ms\"").await;
        assert_eq!(told(&beside(&host, call(&step)).await), expected, "{step}");
    }
}

/// Many calls that wait at once are no load: those that come in time are stopped at their
/// deadline, the others are told that there is no room.
#[tokio::test(flavor = "multi_thread")]
async fn of_calls_that_wait() {
    let limits = "wall_time_max = \"1s\"\npermit_wait_max = \"100ms\"";
    let (_lab, host) = host("", limits).await;
    let waiting: Vec<_> = (0..100)
        .map(|_| {
            let host = Arc::clone(&host);
            tokio::spawn(async move { host.call(call(&step("sleep", 0, ""))).await })
        })
        .collect();
    super::by_hand::the_other_works(&host).await;
    let mut told = std::collections::BTreeMap::new();
    for outcome in waiting {
        let code = outcome.await.expect("no panic").result.expect_err("it waits").code;
        *told.entry(code.as_str()).or_insert(0) += 1;
    }
    assert_eq!(told.values().sum::<u32>(), 100);
    assert!(told.keys().all(|code| ["deadline", "busy", "quarantined"].contains(code)), "{told:?}");
    assert!(told["deadline"] >= 1 && told["busy"] >= 1, "{told:?}");
    super::by_hand::the_other_works(&host).await;
}

/// Nothing it was not granted is made: no socket, no name looked up.
#[tokio::test(flavor = "multi_thread")]
async fn of_sockets() {
    let (_lab, host) = host("", "").await;
    let results = attack(&host, json!([step("sockets", 5_000, "")])).await;
    assert_eq!(results[0], json!([0, 0, false]));
    let results = attack(&host, json!([step("descriptors", 10, "x")])).await;
    assert_eq!(error(&results[0]), "not-permitted");
    super::by_hand::the_other_works(&host).await;
}
