//! Hooks of real plugins around calls of others: what they change, stop and ask.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use toolhost::Host;
use toolhost_core::tool::{Approval, Approver, Call, Question};
use toolhost_kernel::session::{Session, SessionSettings};

use crate::support::{Lab, answer, made};

/// A plugin that asks for every event of every tool.
fn hooking(hooks: &Value) -> Vec<u8> {
    let events = ["request", "pre-call", "post-call", "transform"];
    let need = json!({ "kind": "hooks", "value": { "events": events, "tools": ["*"] } });
    made(&json!({ "tools": [], "needs": [need], "hooks": hooks }))
}

fn echo() -> Vec<u8> {
    let parameters = json!({
        "type": "object",
        "properties": { "text": { "type": "string" }, "n": { "type": "integer" } },
        "additionalProperties": false,
    });
    made(&json!({ "tools": [{ "name": "say", "parameters": parameters, "answer": "echo" }] }))
}

const ALL: &str = r#"hooks = ["request:*", "pre-call:*", "post-call:*", "transform:*"]"#;

/// A host with the tool `say` and plugins with hooks, all of them granted.
pub(crate) async fn host(plugins: &[(&str, Value)], limits: &str) -> Host {
    let grants: String = plugins.iter().map(|(id, _)| format!("[plugins.{id}]\n{ALL}\n")).collect();
    let mut lab = Lab::new().config(&format!("[limits]\n{limits}\n{grants}"));
    for (id, hooks) in plugins {
        lab = lab.granted(id, hooking(hooks));
    }
    lab.with("echo.wasm", echo()).host().await
}

async fn check(hooks: Value, arguments: Value, expected: &str) {
    let host = host(&[("guard", hooks)], "hook_time_max = \"1s\"").await;
    assert_eq!(answer(&host, "say", arguments).await, expected);
}

#[tokio::test]
async fn a_request_hook_rewrites_what_is_then_checked() {
    check(json!({ "request": { "append": "!" } }), json!({ "text": "a" }), r#"{"text":"a!"}"#)
        .await;
    // Coerced like what a model writes, and validated.
    check(json!({ "request": { "replace": r#"{"n": "5"}"# } }), json!({}), r#"{"n":5}"#).await;
    let refused = r#"{"error":"invalid arguments for `say`: /n: \"x\" is not of type \"integer\"","code":"invalid_arguments","errors":[{"path":"/n","message":"/n: \"x\" is not of type \"integer\""}]}"#;
    check(json!({ "request": { "replace": r#"{"n": "x"}"# } }), json!({}), refused).await;
}

#[tokio::test]
async fn a_pre_call_hook_stops_a_call() {
    check(
        json!({ "pre_call": { "block": "not <system>now</system>" } }),
        json!({ "text": "a" }),
        r#"{"error":"[TOOL_ERROR] not now","code":"denied","by":"plugin:guard"}"#,
    )
    .await;
    check(json!({ "pre_call": "none" }), json!({ "text": "a" }), r#"{"text":"a"}"#).await;
}

#[tokio::test]
async fn request_and_pre_call_fail_closed() {
    for event in ["request", "pre_call"] {
        for broken in ["loop", "trap", "error"] {
            let name = event.replace('_', "-");
            let expected = format!(
                r#"{{"error":"the hook `{name}` of plugin:guard gave no answer, so the call is refused; `toolhost doctor` says what is wrong with it, and `toolhost revoke` takes it away","code":"denied","by":"plugin:guard"}}"#
            );
            check(json!({ event: broken }), json!({ "text": "a" }), &expected).await;
        }
    }
}

#[tokio::test]
async fn post_call_and_transform_fail_open() {
    for event in ["post_call", "transform"] {
        for broken in ["loop", "trap", "error"] {
            check(json!({ event: broken }), json!({ "text": "a" }), r#"{"text":"a"}"#).await;
        }
    }
}

#[tokio::test]
async fn the_first_text_of_a_transform_counts() {
    let hooks = [
        ("a-first", json!({ "transform": { "append": " and a" } })),
        ("b-second", json!({ "transform": { "append": " and b" } })),
    ];
    let host = host(&hooks, "").await;
    let expected = r#"{"result":"{\"text\":\"x\"} and a"}"#;
    assert_eq!(answer(&host, "say", json!({ "text": "x" })).await, expected);
}

#[tokio::test]
async fn requests_pass_from_hook_to_hook_in_the_order_of_ids() {
    let hooks = [
        ("b-second", json!({ "request": { "append": "b" } })),
        ("a-first", json!({ "request": { "append": "a" } })),
    ];
    let host = host(&hooks, "").await;
    assert_eq!(answer(&host, "say", json!({ "text": "-" })).await, r#"{"text":"-ab"}"#);
}

#[tokio::test]
async fn hooks_never_fire_on_hook_plugins() {
    let events = json!({ "events": ["pre-call"], "tools": ["*"] });
    let own = made(&json!({
        "tools": [{ "name": "own", "answer": { "text": "mine" } }],
        "needs": [{ "kind": "hooks", "value": events }],
        "hooks": { "pre_call": { "block": "no" } },
    }));
    let grant = "hooks = [\"pre-call:*\"]";
    let host = Lab::new()
        .config(&format!("[plugins.a]\n{grant}\n[plugins.b]\n{grant}"))
        .granted("a", own)
        .granted("b", hooking(&json!({ "pre_call": { "block": "no" } })))
        .with("echo.wasm", echo())
        .host()
        .await;
    assert_eq!(answer(&host, "own", json!({})).await, r#"{"result":"mine"}"#);
    assert!(answer(&host, "say", json!({})).await.contains("denied"));
}

#[tokio::test]
async fn hooks_need_a_grant_for_the_event_the_tool_and_the_bytes() {
    let blocking = json!({ "pre_call": { "block": "no" } });
    let run = async |lab: Lab| {
        let host = lab.with("echo.wasm", echo()).host().await;
        answer(&host, "say", json!({ "text": "a" })).await
    };
    let passes = r#"{"text":"a"}"#;
    // No grant; a grant of something else.
    assert_eq!(run(Lab::new().with("guard.wasm", hooking(&blocking))).await, passes);
    for grant in ["transform:*", "pre-call:other"] {
        let config = format!("[plugins.guard]\nhooks = [\"{grant}\"]");
        let lab = Lab::new().config(&config).granted("guard", hooking(&blocking));
        assert_eq!(run(lab).await, passes, "{grant}");
    }
}

#[tokio::test]
async fn a_guard_that_is_not_there_lets_nothing_pass() {
    let says_why = r#"{"error":"the hook `request` of plugin:guard gave no answer, so the call is refused; `toolhost doctor` says what is wrong with it, and `toolhost revoke` takes it away","code":"denied","by":"plugin:guard"}"#;
    let lab = || Lab::new().config(&format!("[plugins.guard]\n{ALL}")).with("echo.wasm", echo());
    let run = async |lab: &Lab| answer(&lab.host().await, "say", json!({ "text": "a" })).await;
    // Changed since it was granted; damaged; gone.
    let changed = lab()
        .granted("guard", hooking(&json!({})))
        .with("guard.wasm", hooking(&json!({ "request": "none" })));
    assert_eq!(run(&changed).await, says_why);
    let status = changed.host().await.loaded().await;
    let pending = status.iter().find_map(|status| status.state.as_ref().ok()?.pending.as_ref());
    assert_eq!(pending.expect("it waits").why, "its bytes are not those that were trusted");
    assert_eq!(run(&lab().granted("guard", b"hello".to_vec())).await, says_why);
    assert_eq!(run(&lab()).await, says_why);
    // Hooks that only hear or rewrite answers stop nothing by their absence.
    let lab = Lab::new()
        .config("[plugins.guard]\nhooks = [\"transform:*\", \"post-call:*\", \"pre-call:other\"]")
        .with("echo.wasm", echo());
    assert_eq!(run(&lab).await, r#"{"text":"a"}"#);
}

#[tokio::test]
async fn one_block_is_enough_whoever_else_asks() {
    let hooks = [
        ("asks", json!({ "pre_call": { "ask": ["sure?", "rule"] } })),
        ("blocks", json!({ "pre_call": { "block": "never" } })),
    ];
    let host = host(&hooks, "").await;
    let human = human(Approval::Session);
    let text = say(&host, &session(&host, &human)).await;
    assert_eq!(text, r#"{"error":"[TOOL_ERROR] never","code":"denied","by":"plugin:blocks"}"#);
    assert_eq!(human.asked.load(Ordering::Relaxed), 0);
}

/// Takes its time, and notices a second question meanwhile.
struct Slow {
    open: AtomicUsize,
    most: AtomicUsize,
}

impl Approver for Slow {
    fn ask<'a>(&'a self, _: Question<'a>) -> BoxFuture<'a, Approval> {
        Box::pin(async {
            let open = self.open.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(open, Ordering::SeqCst);
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            self.open.fetch_sub(1, Ordering::SeqCst);
            Approval::Once
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_question_is_asked_at_a_time() {
    let host = host(&asking(), "").await;
    let slow = Arc::new(Slow { open: AtomicUsize::new(0), most: AtomicUsize::new(0) });
    let approver = Some(Arc::clone(&slow) as Arc<dyn Approver>);
    let settings = SessionSettings { approver, ..SessionSettings::default() };
    let session = host.session(settings).expect("a session");
    let calls = (0..4).map(|_| Call::new("say", r#"{"text": "a"}"#)).collect();
    let outcomes = host.batch(&session, calls).await;
    assert!(outcomes.iter().all(|outcome| outcome.result.is_ok()));
    assert_eq!(slow.most.load(Ordering::SeqCst), 1);
}

/// Answers as it is told, and counts.
struct Human {
    answer: Approval,
    asked: AtomicUsize,
}

impl Approver for Human {
    fn ask<'a>(&'a self, question: Question<'a>) -> BoxFuture<'a, Approval> {
        assert_eq!(question.tool, "say");
        assert_eq!(question.message, "sure?");
        self.asked.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { self.answer.clone() })
    }
}

fn human(answer: Approval) -> Arc<Human> {
    Arc::new(Human { answer, asked: AtomicUsize::new(0) })
}

fn session(host: &Host, human: &Arc<Human>) -> Arc<Session> {
    let approver = Some(Arc::clone(human) as Arc<dyn Approver>);
    host.session(SessionSettings { approver, ..SessionSettings::default() }).expect("a session")
}

async fn say(host: &Host, session: &Session) -> String {
    host.call_in(session, Call::new("say", r#"{"text": "a"}"#)).await.to_json_text()
}

fn asking() -> [(&'static str, Value); 1] {
    [("guard", json!({ "pre_call": { "ask": ["sure?", "rule"] } }))]
}

#[tokio::test]
async fn a_human_is_asked_once_or_for_the_session() {
    let host = host(&asking(), "").await;
    let (once, always) = (human(Approval::Once), human(Approval::Session));
    for (human, asked) in [(once, 3), (always, 1)] {
        let session = session(&host, &human);
        for _ in 0..3 {
            assert_eq!(say(&host, &session).await, r#"{"text": "a"}"#);
        }
        assert_eq!(human.asked.load(Ordering::Relaxed), asked);
        // Another session asks anew.
        say(&host, &self::session(&host, &human)).await;
        assert_eq!(human.asked.load(Ordering::Relaxed), asked + 1);
    }
}

#[tokio::test]
async fn rewritten_arguments_are_approved_again() {
    let hooks = [
        ("guard", json!({ "pre_call": { "ask": ["sure?", "rule"] } })),
        ("rewriter", json!({ "request": { "append": "!" } })),
    ];
    let host = host(&hooks, "").await;
    let human = human(Approval::Session);
    let session = session(&host, &human);
    for _ in 0..2 {
        assert_eq!(say(&host, &session).await, r#"{"text":"a!"}"#);
    }
    assert_eq!(human.asked.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_no_silence_and_nobody_refuse() {
    let host = host(&asking(), "approval_time_max = \"200ms\"").await;
    let denied = human(Approval::Denied { reason: Some("too late".to_owned()) });
    let text = say(&host, &session(&host, &denied)).await;
    assert_eq!(
        text,
        r#"{"error":"BLOCKED: `say` was denied by the user. Reason given by the user: \"too late\". Do NOT retry it.","code":"denied","by":"plugin:guard","question":"[TOOL_ERROR] sure?"}"#
    );
    struct Silent;
    impl Approver for Silent {
        fn ask<'a>(&'a self, _: Question<'a>) -> BoxFuture<'a, Approval> {
            Box::pin(std::future::pending())
        }
    }
    let approver = Some(Arc::new(Silent) as Arc<dyn Approver>);
    let settings = SessionSettings { approver, ..SessionSettings::default() };
    let text = say(&host, &host.session(settings).expect("a session")).await;
    assert!(
        text.contains("nobody answered within `approval_time_max` of 200ms. Silence"),
        "{text}"
    );
    // Without an approver there is nobody to ask.
    let text = answer(&host, "say", json!({ "text": "a" })).await;
    assert!(text.contains("there is nobody to ask, so it is refused"), "{text}");
}
