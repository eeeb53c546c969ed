//! Loops and recursions without end, wherever a guest's code runs: the time is over, or the
//! stack, and everybody else goes on.

use serde_json::json;
use toolhost_core::tool::Call;

use super::by_hand::{ByHand, PATIENCE, beside, loads, strike, the_other_works, told};
use super::{KV, flood};
use crate::support::{Lab, answer, guest, made};

const SOON: &str = "wall_time_max = \"400ms\"";
const STOPPED: &str = "deadline: stopped: not done within `wall_time_max` of 400ms";
const OVERFLOWED: &str = "trap: the tool crashed: its stack overflowed `stack_bytes_max` (endless recursion, most likely)";
const LOOP: &str = "(loop $again (br $again))";
const RECURSE: &str = "(drop (call $recurse))";
const TRAP: &str = "unreachable";

#[tokio::test(flavor = "multi_thread")]
async fn in_a_call() {
    let cases = vec![
        ('l', LOOP.to_owned()),
        ('r', RECURSE.to_owned()),
        // Its own memory is filled again and again by one instruction that takes long.
        (
            'f',
            "(loop $again (memory.fill (i32.const 65536) (i32.const 1) (i32.const 900000)) (br $again))".to_owned(),
        ),
        // Every growth is refused, and it asks again.
        ('g', "(loop $again (drop (memory.grow (i32.const 65535))) (br $again))".to_owned()),
    ];
    let bytes = ByHand { cases, ..ByHand::default() }.build();
    for (case, expected) in [("l", STOPPED), ("r", OVERFLOWED), ("f", STOPPED), ("g", STOPPED)] {
        strike(SOON, &bytes, json!({ "n": case }), expected).await;
    }
}

/// The host asks for memory for the arguments it hands over.
#[tokio::test(flavor = "multi_thread")]
async fn while_the_host_hands_over_arguments() {
    let on = |size: u32, what: &str| {
        format!("(if (i32.eq (local.get $size) (i32.const {size})) (then {what}))")
    };
    let realloc = [
        on(777, LOOP),
        on(778, RECURSE),
        on(779, TRAP),
        on(780, "(return (i32.const 0x7ffffff0))"),
        on(781, "(return (i32.const -1))"),
    ]
    .concat();
    let bytes = ByHand { realloc, ..ByHand::default() }.build();
    let outside = "trap: the tool crashed: realloc return: beyond end of memory";
    for (length, expected) in [
        (777, STOPPED),
        (778, OVERFLOWED),
        (779, "trap: the tool crashed: it aborted (a panic, most likely)"),
        (780, outside),
        (781, outside),
        (782, r#"{"content":[]}"#),
    ] {
        let rest = "x".repeat(length - r#"{"n":""}"#.len());
        strike(SOON, &bytes, json!({ "n": rest }), expected).await;
    }
}

/// The host tells the guest when it has read the answer.
#[tokio::test(flavor = "multi_thread")]
async fn after_the_answer() {
    let on = |letter: char, what: &str| {
        let letter = u32::from(letter);
        format!("(if (i32.eq (global.get $case) (i32.const {letter})) (then {what}))")
    };
    let after = [on('l', LOOP), on('r', RECURSE), on('t', TRAP)].concat();
    let bytes = ByHand { after, ..ByHand::default() }.build();
    for (case, expected) in [
        ("l", STOPPED),
        ("r", OVERFLOWED),
        ("t", "trap: the tool crashed: it aborted (a panic, most likely)"),
        ("n", r#"{"content":[]}"#),
    ] {
        strike(SOON, &bytes, json!({ "n": case }), expected).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_it_loads() {
    let limits = "register_time_max = \"1s\"";
    let late = "`register` did not return within `register_time_max` of 1s; the plugin must not loop or wait there";
    let deep = "`register` failed: the tool crashed: its stack overflowed `stack_bytes_max` (endless recursion, most likely)";
    let register = |what: &str| ByHand { register: what.to_owned(), ..ByHand::default() };
    let start = |what: &str| ByHand {
        fields: format!("(func $start {what}) (start $start)"),
        ..ByHand::default()
    };
    for (plugin, expected) in [
        (register(LOOP), late),
        (register(RECURSE), deep),
        // Before anything of it is called.
        (start(LOOP), late),
        (start(RECURSE), deep),
        (start(TRAP), "`register` failed: the tool crashed: it aborted (a panic, most likely)"),
    ] {
        assert_eq!(loads(limits, &plugin.build()).await, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn in_checks_and_descriptions() {
    let tools = |what: &str| {
        let name = what.replace('-', "_");
        json!([
            { "name": format!("checked_{name}"), "check": what },
            { "name": format!("described_{name}"), "describe": what },
        ])
    };
    let lab = ["loop", "recurse", "sleep"].iter().fold(
        Lab::new()
            .config("[limits]\ncheck_time_max = \"500ms\"\ndescribe_time_max = \"500ms\"")
            .with("json.wasm", guest("json")),
        |lab, what| lab.with(&format!("{what}.wasm"), made(&json!({ "tools": tools(what) }))),
    );
    let host = lab.host().await;
    let session =
        host.session(toolhost_kernel::session::SessionSettings::default()).expect("a session");
    let (listed, ()) = tokio::join!(
        host.definitions(&session, toolhost_schema::schema::Format::Mcp),
        the_other_works(&host),
    );
    // A description that cannot be had leaves the tool as it was registered.
    let names: Vec<&str> = listed.names.iter().map(String::as_str).collect();
    for what in ["loop", "recurse", "sleep"] {
        assert!(names.contains(&&*format!("described_{what}")), "{names:?}");
        assert!(!names.contains(&&*format!("checked_{what}")), "{names:?}");
    }
    let late = "its check did not answer within `check_time_max` of 500ms";
    let deep =
        "the tool crashed: its stack overflowed `stack_bytes_max` (endless recursion, most likely)";
    for (tool, expected) in
        [("checked_loop", late), ("checked_recurse", deep), ("checked_sleep", late)]
    {
        assert_eq!(listed.unavailable[tool].reason, expected);
    }
    the_other_works(&host).await;
}

/// A hook that is not done in time, or crashes: no call is held up for longer than its limit.
#[tokio::test(flavor = "multi_thread")]
async fn in_every_hook() {
    let events = ["request", "pre-call", "post-call", "transform"];
    let need = json!({ "kind": "hooks", "value": { "events": events, "tools": ["*"] } });
    let refused = |event: &str| {
        format!("the hook `{event}` of plugin:guard gave no answer, so the call is refused")
    };
    for (hooks, expected) in [
        (json!({ "request": "sleep" }), refused("request")),
        (json!({ "pre_call": "recurse" }), refused("pre-call")),
        (json!({ "post_call": "recurse", "transform": "sleep" }), r#""results":[1]"#.to_owned()),
    ] {
        let guard = made(&json!({ "tools": [], "needs": [need], "hooks": hooks }));
        let grants = r#"hooks = ["request:*", "pre-call:*", "post-call:*", "transform:*"]"#;
        let host = Lab::new()
            .config(&format!("[limits]\nhook_time_max = \"300ms\"\n[plugins.guard]\n{grants}"))
            .granted("guard", guard)
            .with("json.wasm", guest("json"))
            .host()
            .await;
        let arguments = json!({ "filter": ".", "json": 1 });
        let answer = answer(&host, "json_query", arguments);
        let answer = tokio::time::timeout(PATIENCE, answer).await.expect("it ends");
        assert!(answer.contains(&expected), "{hooks}: {answer}");
    }
}

/// Calls of the host in a loop: those of the contract are counted, the others take time.
#[tokio::test(flavor = "multi_thread")]
async fn through_the_host() {
    let counted = "trap: stopped: more host calls than `host_calls_max` of 20000";
    let late = "deadline: stopped: not done within `wall_time_max` of 2s";
    for (what, expected) in [
        ("log_for_ever", counted),
        ("kv_for_ever", counted),
        ("clock_for_ever", late),
        ("random_for_ever", late),
        ("environment_for_ever", late),
        ("always_ready", late),
        ("recurse", OVERFLOWED),
    ] {
        // What is stopped by another limit has the time that a slow machine takes.
        let time = if expected == late { "2s" } else { "10m" };
        let limits = format!("wall_time_max = \"{time}\"\nhost_calls_max = 20000");
        let (_lab, host) = flood::host(KV, &limits).await;
        let steps = json!({ "steps": [{ "flood": { "of": what } }] });
        let outcome = beside(&host, Call::new("attack", steps.to_string())).await;
        assert_eq!(told(&outcome), expected, "{what}");
    }
}
