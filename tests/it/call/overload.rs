//! More calls than there is room for: they wait their turn, are refused at once where there is no
//! place to wait, and no plugin takes the turns of another.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;
use toolhost::Host;
use toolhost_core::tool::Outcome;
use toolhost_core::tool::{CallError, Code, Origin};
use toolhost_sources::folder::Folder;

use crate::call::hooks;
use crate::support::{Lab, answer, call, guest, registering};

async fn host(limits: &str) -> Arc<Host> {
    let lab = Lab::new()
        .config(&format!("[limits]\n{limits}"))
        .with("probe.wasm", guest("probe"))
        .with("other.wasm", registering("one other"));
    Arc::new(lab.host().await)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn at_once(host: &Arc<Host>, count: usize, tool: &'static str, given: &Value) -> JoinSet<Outcome> {
    let mut calls = JoinSet::new();
    for _ in 0..count {
        let (host, given) = (Arc::clone(host), given.clone());
        calls.spawn(async move { call(&host, tool, given).await });
    }
    calls
}

/// Calls `spin` so often at once: how many ran, and the refusals of the others.
async fn spin(limits: &str, count: usize) -> (usize, Vec<CallError>) {
    let more = "wall_time_max = \"1s\"\npermit_wait_max = \"1min\"\nquarantine_failures_max = 100";
    let host = host(&format!("{limits}\n{more}")).await;
    let outcomes = at_once(&host, count, "spin", &json!({})).join_all().await;
    let errors = outcomes.into_iter().map(|outcome| outcome.result.expect_err("no end"));
    let (ran, refused): (Vec<_>, Vec<_>) = errors.partition(|error| error.code == Code::Deadline);
    assert!(refused.iter().all(|error| error.code == Code::Busy), "{refused:?}");
    (ran.len(), refused)
}

/// Threads that take all of every core, until this is dropped.
struct Busy(Arc<AtomicBool>);

impl Busy {
    fn start() -> Busy {
        let ended = Arc::new(AtomicBool::new(false));
        for _ in 0..cores() {
            let ended = Arc::clone(&ended);
            std::thread::spawn(move || {
                // A thread of long guests has less than this, and tests beside this one more.
                #[cfg(target_os = "linux")]
                rustix::process::nice(5).expect("allowed to everybody");
                while !ended.load(Ordering::Relaxed) {}
            });
        }
        Busy(ended)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn a_call_that_computes_ends_though_others_never_rest() {
    let lab = Lab::new().config("[limits]\nwall_time_max = \"20s\"\n");
    let host = lab.with("json.wasm", guest("json")).host().await;
    let _busy = Busy::start();
    // If it had a core only where no other thread wants one, this would be most of a minute.
    let given = json!({ "filter": "reduce range(200000) as $n (0; . + $n)", "json": null });
    let answer = answer(&host, "json_query", given).await;
    assert!(answer.contains("19999900000"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flooded_plugin_starves_nobody() {
    // As much room as there are cores, so that the flood could hold all of it for minutes.
    let limits = "calls_per_core_max = 1\ncalls_per_source_max = 1024\n\
                  waiting_per_source_max = 64\npermit_wait_max = \"30s\"";
    let host = host(limits).await;
    let mut flood = at_once(&host, 1_000, "sleep", &json!({ "n": 300 }));
    let mut refused = Vec::new();
    while refused.len() < 800 {
        let outcome = flood.join_next().await.expect("a thousand").expect("no panic");
        refused.extend(outcome.result.err());
    }
    for error in refused {
        assert_eq!(error.code, Code::Busy);
        let wait = error.details["retry_after_ms"].as_u64().expect("a number");
        assert!((10..=30_000).contains(&wait), "{wait}");
        let room = format!(
            "the host runs {} of projects that are not trusted, and lets {} run, half of what `calls_per_core_max` lets run in all",
            counted(cores().div_ceil(2)),
            cores().div_ceil(2)
        );
        let message = format!(
            "busy: {room}; 64 wait for it, and `waiting_per_source_max` is 64; try again in "
        );
        assert!(error.message.starts_with(&message), "{}", error.message);
    }
    let started = Instant::now();
    for _ in 0..10 {
        assert_eq!(answer(&host, "other", json!({})).await, r#"{"result":"other of one other"}"#);
    }
    // Ten calls wait about ten calls' time, 3 s; behind the flood each would wait for 64 calls.
    assert!(started.elapsed() < Duration::from_secs(50), "{:?}", started.elapsed());
    flood.abort_all();
    while flood.join_next().await.is_some() {}
    // Those who were dropped have left the queue.
    assert_eq!(answer(&host, "echo", json!({ "text": "a" })).await, r#"{"result":"a"}"#);
}

fn counted(calls: usize) -> String {
    if calls == 1 { "1 call".to_owned() } else { format!("{calls} calls") }
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_leave_half_of_all_places_to_the_user() {
    let lab = Lab::new()
        .config("[limits]\ncalls_per_core_max = 1\ncalls_per_source_max = 1024\npermit_wait_max = \"100ms\"")
        .with("probe.wasm", guest("probe"));
    let own = lab.home().join("own");
    fs::create_dir(&own).expect("a folder");
    fs::write(own.join("other.wasm"), registering("one other")).expect("written");
    let mut settings = lab.settings();
    settings.folders.push(Folder { path: own, origin: Origin::User });
    let host = Arc::new(Host::start(settings).expect("a host"));
    host.loaded().await;
    let mut flood = at_once(&host, 2 * cores(), "spin", &json!({}));
    let refused = flood.join_next().await.expect("a call").expect("no panic").result;
    assert_eq!(refused.expect_err("no place").code, Code::Busy);
    for _ in 0..10 {
        assert_eq!(answer(&host, "other", json!({})).await, r#"{"result":"other of one other"}"#);
    }
    flood.abort_all();
}

/// As many as agents have sent at once; none is refused with the limits as they are.
#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_calls_of_half_a_second_are_all_answered() {
    let host = host("").await;
    let outcomes = at_once(&host, 200, "sleep", &json!({ "n": 500 })).join_all().await;
    let refused: Vec<_> = outcomes.into_iter().filter_map(|outcome| outcome.result.err()).collect();
    assert!(refused.is_empty(), "{}: {:?}", refused.len(), refused[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_per_source_max() {
    // One runs and one waits, which is obeyed; two more are violations.
    let (ran, refused) = spin("calls_per_source_max = 1\nwaiting_per_source_max = 1", 4).await;
    assert_eq!((ran, refused.len()), (2, 2));
    assert_eq!(
        refused[0].message,
        "busy: plugin:probe runs 1 call, and `calls_per_source_max` is 1; 1 wait for it, and `waiting_per_source_max` is 1; try again in 1m"
    );
    assert_eq!(refused[0].details["retry_after_ms"], 60_000);
    // Nobody need wait at all.
    let (ran, refused) = spin("calls_per_source_max = 1\nwaiting_per_source_max = 0", 3).await;
    assert_eq!((ran, refused.len()), (1, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_max() {
    let (ran, refused) =
        spin("calls_per_core_max = 1\ncalls_per_source_max = 1024\nwaiting_max = 2", cores() + 4)
            .await;
    assert_eq!((ran, refused.len()), (cores().div_ceil(2) + 2, cores() / 2 + 2));
    let message = "2 wait in all, and `waiting_max` is 2; try again in";
    assert!(refused[0].message.contains(message), "{}", refused[0].message);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_until_a_turn_is_foreseen() {
    let host = host("calls_per_source_max = 1\nwaiting_per_source_max = 0").await;
    answer(&host, "sleep", json!({ "n": 200 })).await;
    let mut sleeping = at_once(&host, 3, "sleep", &json!({ "n": 200 }));
    while let Some(outcome) = sleeping.join_next().await {
        if let Err(error) = outcome.expect("no panic").result {
            // About as long as the one before took, and never more than the longest wait.
            let wait = error.details["retry_after_ms"].as_u64().expect("a number");
            assert!((200..5_000).contains(&wait), "{wait}");
            return;
        }
    }
    panic!("three at once, and nobody was refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_wait_within_bounds() {
    let limits = "hook_time_max = \"3s\"\nwaiting_max = 4";
    let host = Arc::new(hooks::host(&[("guard", json!({ "pre_call": "loop" }))], limits).await);
    let outcomes = at_once(&host, 30, "say", &json!({ "text": "a" })).join_all().await;
    assert!(outcomes.iter().all(|outcome| outcome.result.is_err()), "a guard fails closed");
    // Sixteen loop and four wait, for all the time that a hook has; ten hear no at once.
    let hook_time_max = Duration::from_secs(3);
    let waited = outcomes.iter().filter(|outcome| outcome.elapsed >= hook_time_max).count();
    assert_eq!(waited, 20);
}
