//! What a call returns: output, the four kinds of error, and nothing of the call before.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use toolhost::Host;
use toolhost_core::tool::{Call, Caller, ProgressSink};

use crate::support::{answer, call, probe};

async fn check(host: &Host, tool: &str, arguments: Value, expected: &str) {
    assert_eq!(answer(host, tool, arguments).await, expected, "{tool}");
}

#[tokio::test]
async fn outputs_become_json_for_the_model() {
    let host = probe().await;
    check(&host, "echo", json!({ "text": "hi\u{1b}" }), r#"{"result":"hi\u001b"}"#).await;
    check(
        &host,
        "every",
        json!({ "text": "t", "kind": "Large" }),
        r#"{"text":"t","kind":"large","count":7,"list":null}"#,
    )
    .await;
    check(&host, "structured", json!({ "n": 3 }), r#"{"sum":3}"#).await;
    check(
        &host,
        "blocks",
        json!({}),
        r#"{"content":[{"type":"text","text":"text"},{"type":"json","json":{"a":1}},{"type":"image","mimeType":"image/png","data":"AQID"},{"type":"audio","mimeType":"audio/wav","data":"BA=="},{"type":"resource","resource":{"uri":"file:///x","mimeType":"text/plain","text":"inside"}}]}"#,
    )
    .await;
    check(&host, "open", json!({ "text": "a", "more": 1 }), r#"{"result":"a"}"#).await;
}

#[tokio::test]
async fn errors_of_the_tool_and_of_the_caller() {
    let host = probe().await;
    check(&host, "fail", json!({ "text": "no" }), r#"{"error":"[TOOL_ERROR] no","code":"failed"}"#)
        .await;
    check(
        &host,
        "dislike",
        json!({ "text": "bad" }),
        r#"{"error":"[TOOL_ERROR] bad","code":"invalid_arguments","path":"/text"}"#,
    )
    .await;
    check(
        &host,
        "miss",
        json!({ "text": "gone" }),
        r#"{"error":"[TOOL_ERROR] gone","code":"unavailable"}"#,
    )
    .await;
    check(
        &host,
        "parse",
        json!({ "text": "x" }),
        r#"{"error":"[TOOL_ERROR] Tool execution failed: ParseIntError: invalid digit found in string","code":"failed"}"#,
    )
    .await;
    check(
        &host,
        "eccko",
        json!({}),
        r#"{"error":"Unknown tool: eccko; did you mean `echo`?","code":"unknown_tool","near":["echo"]}"#,
    )
    .await;
    check(
        &host,
        "echo",
        json!({ "text": 3 }),
        r#"{"error":"invalid arguments for `echo`: /text: 3 is not of type \"string\"","code":"invalid_arguments","errors":[{"path":"/text","message":"/text: 3 is not of type \"string\""}]}"#,
    )
    .await;
    let malformed = host.call(Call::new("echo", r#"{"text" "x"}"#)).await.to_json_text();
    let malformed: Value = serde_json::from_str(&malformed).expect("JSON");
    assert_eq!(malformed["code"], "invalid_arguments");
    assert_eq!((&malformed["line"], &malformed["column"]), (&json!(1), &json!(9)));
    check(
        &host,
        "claim_json",
        json!({ "text": "{" }),
        r#"{"error":"the tool returned a JSON block that is not JSON (EOF while parsing an object at line 1 column 1)","code":"failed"}"#,
    )
    .await;
}

#[tokio::test]
async fn the_reason_of_a_crash_is_for_the_log() {
    let host = probe().await;
    let outcome = call(&host, "crash", json!({ "text": "a secret" })).await;
    assert!(!outcome.to_json_text().contains("secret"));
    assert!(outcome.result.expect_err("a crash").stderr.expect("stderr").contains("a secret"));
}

#[tokio::test]
async fn every_call_has_an_instance_of_its_own() {
    let host = probe().await;
    for _ in 0..3 {
        check(&host, "count", json!({}), "1").await;
    }
}

#[tokio::test]
async fn a_guest_has_no_authority() {
    let host = probe().await;
    check(
        &host,
        "peek",
        json!({}),
        r#"{"root":null,"here":null,"write":false,"variables":[],"arguments":[],"stdin":0}"#,
    )
    .await;
    check(&host, "write", json!({ "text": "to nobody" }), r#"{"result":"written"}"#).await;
}

#[tokio::test]
async fn the_caller_is_passed_on() {
    let host = probe().await;
    let caller =
        Caller { session: Some("s".to_owned()), task: None, tool_call: Some("c".to_owned()) };
    let time_max = Some(Duration::from_secs(30));
    let outcome = host.call(Call { caller, time_max, ..Call::new("context", "{}") }).await;
    let context: Value = serde_json::from_str(&outcome.to_json_text()).expect("JSON");
    assert_eq!(
        (&context["session"], &context["task"], &context["call"]),
        (&json!("s"), &json!(null), &json!("c"))
    );
    let remaining = context["remaining_ms"].as_u64().expect("a number");
    assert!((1..=30_000).contains(&remaining), "{remaining}");
}

#[tokio::test]
async fn progress_is_heard() {
    let host = probe().await;
    let heard = Arc::new(Mutex::new(Vec::new()));
    let ear = Arc::clone(&heard);
    let progress = Some(ProgressSink::new(move |progress| {
        ear.lock().expect("no panic").push((progress.done, progress.total));
    }));
    host.call(Call { progress, ..Call::new("report", r#"{"n": 2}"#) }).await;
    assert_eq!(*heard.lock().expect("no panic"), [(0.0, Some(2.0)), (1.0, Some(2.0))]);
}

#[tokio::test]
async fn usage_is_counted_also_for_what_was_stopped() {
    let host = probe().await;
    let outcome = call(&host, "chatter", json!({ "n": 5 })).await;
    assert_eq!((outcome.usage.host_calls, outcome.usage.log_lines), (5, 5));
    assert_eq!(outcome.usage.output_bytes, 4);
    assert!(outcome.usage.memory_bytes >= 64 << 10);
    assert_eq!(outcome.generation, 2);
    let stopped = host
        .call(Call { time_max: Some(Duration::from_millis(200)), ..Call::new("spin", "") })
        .await;
    assert!(stopped.usage.memory_bytes >= 64 << 10);
}

#[tokio::test]
async fn many_calls_at_once() {
    let host = probe().await;
    let calls = (0..200).map(|n| {
        let host = Arc::clone(&host);
        tokio::spawn(async move { answer(&host, "echo", json!({ "text": n.to_string() })).await })
    });
    let calls: Vec<_> = calls.collect();
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(call.await.expect("no panic"), format!(r#"{{"result":"{n}"}}"#));
    }
}
