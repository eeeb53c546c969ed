//! What the host holds for a guest, as much of it as there can be: it is memory of that guest and comes
//! out of the budget of all, and it is all given back.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use toolhost::Host;
use toolhost_core::tool::Call;

use super::by_hand::{PATIENCE, beside, the_other_works, told};
use super::flood::{call, step};
use super::handles::{attacked, resident};
use super::{attack, host, lab};
use crate::support::client::McpClient;
use crate::support::server::{FixedNames, TestServer};
use crate::support::{Lab, from_wat, guest, made};

/// A lab with the hostile guest, granted a directory and this server, and another plugin beside it.
fn held(limits: &str) -> Lab {
    let lab = lab("");
    fs::create_dir(lab.work().join("in")).expect("a folder");
    fs::write(lab.work().join("in/mine"), "m".repeat(1 << 20)).expect("written");
    let grants = format!(
        "dirs = [\"{}/in=/in:ro\"]\nhttp = [\"http://api.test:* private\"]",
        lab.work().display()
    );
    lab.config(&format!("[limits]\n{limits}\n[plugins.hostile]\n{grants}\n"))
        .with("json.wasm", guest("json"))
}

/// A server that answers every request with a head of nearly 60 KiB.
async fn headed() -> TestServer {
    TestServer::new(|mut peer| async move {
        let field = format!("x-large: {}\r\n", "h".repeat(58_000));
        while peer.request().await.is_some() {
            peer.say(format!("HTTP/1.1 200 OK\r\n{field}content-length: 0\r\n\r\n")).await;
        }
    })
    .await
}

/// A server that takes requests and never answers.
async fn silent() -> TestServer {
    TestServer::new(|mut peer| async move {
        peer.head().await;
        peer.closed().await;
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn comes_out_of_the_memory_of_the_guest() {
    let (headed, silent) = (headed().await, silent().await);
    let (head, silence) =
        (format!("api.test:{}", headed.port), format!("api.test:{}", silent.port));
    let names = FixedNames::new(&["api.test: 127.0.0.1"]);
    for (of, text, mebibytes) in [
        ("hold_fields", "large", 32),
        ("hold_fields", "values", 32),
        ("hold_fields", "many", 32),
        ("hold_emptied", "many", 32),
        ("hold_requests", "large", 32),
        ("hold_bodies", "", 6),
        ("hold_streams", "mine", 16),
        ("hold_listings", ".", 6),
        ("hold_responses", &head, 16),
        ("hold_sent", &silence, 8),
        ("hold_trailers", &silence, 16),
    ] {
        let allowed = mebibytes << 20;
        let lab = held(&format!("memory_bytes_max = {allowed}"));
        let host = Arc::new(host(&lab, &names).await);
        let outcome = beside(&host, call(&step(of, 100_000, text))).await;
        let told = told(&outcome);
        let by_memory = told.starts_with("memory: stopped: memory of ")
            && told.ends_with(&format!(" bytes exceeds `memory_bytes_max` of {allowed}"));
        // What WASI has a word for is for the guest to hear.
        let heard = told.contains("insufficient-memory") || told.contains("memory_bytes_max");
        assert!(by_memory || heard, "{of} {text}: {told}");
        let used = outcome.usage.memory_bytes;
        assert!(used <= allowed && used > allowed - (1 << 20), "{of} {text}: {used}");
    }
}

/// What its own limit leaves to one guest may be more than there is for all.
#[tokio::test(flavor = "multi_thread")]
async fn comes_out_of_the_memory_of_all() {
    let lab = held("memory_all_bytes_max = \"32 MiB\"");
    let host = lab.host().await;
    // While it holds all there is, others find no room either; so nothing is called beside it.
    let told = told(&host.call(call(&step("hold_fields", 100_000, "large"))).await);
    assert!(told.starts_with("memory: stopped: memory of "), "{told}");
    assert!(
        told.ends_with(
            "bytes is not left; all tools together may use 33554432 (`memory_all_bytes_max`); try again later"
        ),
        "{told}"
    );
    // It is not the plugin's fault, and there is as much again, also for others.
    the_other_works(&host).await;
    assert!(host.quarantined().is_empty());
    let held = attack(&host, json!([step("hold_fields", 100, "large")])).await;
    assert_eq!(held[0], json!({ "held": 100, "error": null }));
}

/// A guest of 64 MiB with one tool, `whole`.
fn whole() -> Vec<u8> {
    from_wat(
        r#"(module
            (memory (export "memory") 1024)
            (data (i32.const 20) "\00\01\00\00\01\00\00\00")
            (data (i32.const 256)
                "\00\04\00\00\05\00\00\00\08\04\00\00\01\00\00\00\00\00\00\00\00\00\00\00\0c\04\00\00\02\00\00\00")
            (data (i32.const 1024) "whole\00\00\00t\00\00\00{}")
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) i32.const 8192)
            (func (export "register") (result i32) i32.const 0)
            (func (export "call") (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
                (result i32)
                i32.const 2048)
        )"#,
    )
}

/// Tells that nothing at all is taken of 64 MiB: a guest that needs them has them.
async fn all_is_given_back(host: &Host) -> bool {
    host.call(Call::new("whole", "{}")).await.result.is_ok()
}

/// A generator of floods: whatever is opened, filled, sent, shared, half given back and left, however
/// the guest ends, all guests together stay within the budget, and in the end nothing is taken of it.
#[tokio::test(flavor = "multi_thread")]
async fn is_given_back_however_a_guest_ends() {
    let (headed, silent) = (headed().await, silent().await);
    let authorities = [format!("api.test:{}", headed.port), format!("api.test:{}", silent.port)];
    let names = FixedNames::new(&["api.test: 127.0.0.1"]);
    // Crashes are meant, and must not keep the plugin from the next call.
    let lab = held(
        "memory_all_bytes_max = \"64 MiB\"\nwall_time_max = \"3s\"\nquarantine_failures_max = 100",
    )
    .with("whole.wasm", whole());
    let host = Arc::new(host(&lab, &names).await);
    given_back(&host, "loading").await;
    let mut random = ChaCha8Rng::seed_from_u64(16);
    for round in 0..4 {
        let mut calls = tokio::task::JoinSet::new();
        for number in 0..8 {
            let flood = step("mix", random.random_range(1..1 << 40), &authorities[number % 2]);
            let host = Arc::clone(&host);
            calls.spawn(async move { host.call(call(&flood)).await });
        }
        while let Some(outcome) = calls.join_next().await {
            let outcome = outcome.expect("no panic");
            assert!(outcome.usage.memory_bytes <= 64 << 20, "{outcome:?}");
        }
        given_back(&host, &format!("round {round}")).await;
    }
}

/// Waits until all is given back: guests are dropped on another thread, and so are their requests.
async fn given_back(host: &Host, what: &str) {
    let start = Instant::now();
    while !all_is_given_back(host).await {
        assert!(start.elapsed() < PATIENCE, "{what} keeps something");
        tokio::task::yield_now().await;
    }
}

/// The seen case: lists of a directory with many long names, as many as one guest may hold.
#[test]
fn of_long_lists_is_a_piece_of_each() {
    let lab = held("").with("json.wasm", guest("json"));
    for number in 0..20_000 {
        let name = format!("in/{number:0>200}");
        fs::write(lab.work().join(name), "").expect("written");
    }
    let mut client = McpClient::initialized(&lab, &[]);
    let answer = attacked(&mut client, &json!([step("hold_listings", 1, ".")]));
    assert!(answer.contains(r#"held\":1"#), "{answer}");
    let before = resident(client.id(), "VmHWM");
    let answer = attacked(&mut client, &json!([step("hold_listings", 64, ".")]));
    assert!(answer.contains(r#"held\":64"#), "{answer}");
    // 64 whole lists are 400 MiB.
    let grown = resident(client.id(), "VmHWM").saturating_sub(before);
    assert!(grown < 64 << 10, "{grown} KiB");
}

/// What is read piece by piece is whole: a list that ends with a piece, one that does not, and an
/// empty one.
#[tokio::test(flavor = "multi_thread")]
async fn of_a_list_all_is_there() {
    for count in [0, 1, 127, 128, 129, 300] {
        let lab = held("");
        fs::create_dir(lab.work().join("in/d")).expect("a folder");
        let names: Vec<String> = (0..count).map(|number| format!("{number:0>50}")).collect();
        for name in &names {
            fs::write(lab.work().join("in/d").join(name), "").expect("written");
        }
        let list = json!({ "file": { "at": "/in", "do": "list", "path": "d" } });
        let listed = attack(&lab.host().await, json!([list])).await;
        assert_eq!(listed[0], json!({ "names": names }), "{count}");
    }
}

/// After an attack by every kind of flood, and by as many guests as may run at once, the program has
/// what it had before, but for 64 MiB.
#[test]
fn leaves_no_memory_behind() {
    let mut lab = held(
        "quarantine_failures_max = 100\nmemory_bytes_max = \"32 MiB\"\nmemory_all_bytes_max = \"512 MiB\"",
    );
    for number in 0..5_000 {
        fs::write(lab.work().join(format!("in/{number:0>200}")), "").expect("written");
    }
    let greedy = ["a", "b", "c", "d", "e", "f"];
    for id in greedy {
        let tool = json!({ "name": format!("grab_{id}"), "toolset": "made", "description": "d", "parameters": {}, "answer": { "grab": 1 } });
        lab = lab.with(&format!("{id}.wasm"), made(&json!({ "name": id, "tools": [tool] })));
    }
    let mut client = McpClient::initialized(&lab, &[]);
    let quiet = attacked(&mut client, &json!([step("pollables", 10, "")]));
    assert!(quiet.contains("ok"), "{quiet}");
    let before = resident(client.id(), "VmRSS");
    let floods = [
        ("hold_fields", 1_000, "large"),
        ("hold_fields", 1_000, "many"),
        ("hold_emptied", 1_000, "values"),
        ("hold_requests", 1_000, "large"),
        ("hold_bodies", 1_000, ""),
        ("hold_streams", 1_000, "mine"),
        ("hold_listings", 1_000, "."),
        ("large_answer", 7 << 20, ""),
    ];
    for _ in 0..3 {
        let steps = floods.iter().cycle().take(16).map(|(of, times, text)| step(of, *times, text));
        for (id, step) in (100..).zip(steps) {
            client.ask_tool(id, "attack", json!({ "steps": [step] }));
        }
        (100..116).for_each(|id| drop(client.answer(id)));
    }
    for (id, plugin) in (200..).zip(greedy.iter().cycle().take(96)) {
        client.ask_tool(id, &format!("grab_{plugin}"), json!({}));
    }
    let answers: Vec<String> = (200..296).map(|id| client.answer(id).to_string()).collect();
    assert!(answers.iter().any(|answer| answer.contains("bytes_max")), "{answers:.500?}");
    let start = Instant::now();
    while resident(client.id(), "VmRSS") > before + (64 << 10) {
        let now = resident(client.id(), "VmRSS");
        assert!(start.elapsed() < PATIENCE, "{before} KiB before, {now} KiB after");
        // The rest is what is measured.
        std::thread::sleep(Duration::from_millis(250));
    }
}
