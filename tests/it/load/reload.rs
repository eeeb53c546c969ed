//! Save, and it is live: plugins that come, change and go while the host runs.

use std::fs::{self, File};
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use toolhost::{Host, HostSettings};
use toolhost_sources::reload::{Shown, SourceStatus, Status};

use crate::support::client::{McpClient, PATIENCE};
use crate::support::{Lab, answer, call, made};

/// A plugin with one tool that answers a text.
fn says(text: &str) -> Vec<u8> {
    made(&json!({ "tools": [{ "name": "say", "answer": { "text": text } }] }))
}

/// A host that notices changes.
async fn lasting(lab: &Lab) -> Host {
    let settings = HostSettings { once: false, ..lab.settings() };
    let host = Host::start(settings).expect("a host");
    host.loaded().await;
    host
}

/// Waits until this holds.
async fn until(host: &Host, what: &str, holds: impl Fn(&Shown) -> bool) {
    let mut sources = host.sources();
    let waited = tokio::time::timeout(PATIENCE, sources.wait_for(|shown| holds(shown))).await;
    if waited.is_err() {
        panic!("never {what}: {:#?}", host.sources().borrow());
    }
}

fn find<'a>(shown: &'a Shown, file: &str) -> Option<&'a SourceStatus> {
    shown.statuses.iter().find(|status| status.location.ends_with(file))
}

fn digest(shown: &Shown, file: &str) -> Option<Arc<str>> {
    let ready = find(shown, file)?.serving()?;
    Some(Arc::clone(&ready.facts.digest))
}

async fn until_serves(host: &Host, file: &str, bytes: &[u8]) {
    let wanted = toolhost_wasm::digest(bytes);
    until(host, "serves", |shown| digest(shown, file).as_deref() == Some(&*wanted)).await;
}

async fn said(host: &Host) -> String {
    answer(host, "say", json!({})).await
}

fn result(text: &str) -> String {
    json!({ "result": text }).to_string()
}

/// Puts a file there as most editors do.
fn rename_over(lab: &Lab, name: &str, bytes: &[u8]) {
    let part = lab.plugins().join(format!(".{name}.part"));
    fs::write(&part, bytes).expect("written");
    fs::rename(part, lab.plugins().join(name)).expect("renamed");
}

#[tokio::test(flavor = "multi_thread")]
async fn plugins_come_change_and_go() {
    let lab = Lab::new();
    let host = lasting(&lab).await;
    let generations = host.subscribe();
    let began = *generations.borrow();
    let path = lab.plugins().join("say.wasm");
    let [one, two, three] = ["one", "two", "three"].map(says);

    fs::write(&path, &one).expect("written");
    until_serves(&host, "say.wasm", &one).await;
    assert_eq!(said(&host).await, result("one"));
    // In place.
    fs::write(&path, &two).expect("written");
    until_serves(&host, "say.wasm", &two).await;
    assert_eq!(said(&host).await, result("two"));
    rename_over(&lab, "say.wasm", &three);
    until_serves(&host, "say.wasm", &three).await;
    assert_eq!(said(&host).await, result("three"));
    // Under another name it is another plugin.
    fs::rename(&path, lab.plugins().join("tell.wasm")).expect("renamed");
    until(&host, "renamed", |shown| {
        find(shown, "say.wasm").is_none() && digest(shown, "tell.wasm").is_some()
    })
    .await;
    assert_eq!(said(&host).await, result("three"));
    assert_eq!(*generations.borrow(), began + 4, "one for each change");
    fs::remove_file(lab.plugins().join("tell.wasm")).expect("removed");
    until(&host, "gone", |shown| find(shown, "tell.wasm").is_none()).await;
    assert!(host.catalog().find("say").is_none());
    assert_eq!(*generations.borrow(), began + 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_half_written_file_is_never_loaded() {
    let old = says("old");
    let lab = Lab::new().with("say.wasm", &old);
    let host = lasting(&lab).await;
    let (new, path) = (says("new"), lab.plugins().join("say.wasm"));
    let mut file = File::create(&path).expect("truncated");
    for part in new.chunks(new.len() / 3) {
        file.write_all(part).expect("written");
        file.sync_all().expect("written");
        // Another change, so that there is a look meanwhile.
        let other =
            made(&json!({ "name": format!("n{}", file.metadata().expect("a file").len()) }));
        rename_over(&lab, "other.wasm", &other);
        until_serves(&host, "other.wasm", &other).await;
        let shown = host.sources().borrow().clone();
        assert!(find(&shown, "say.wasm").is_some_and(|status| status.state.is_ok()), "{shown:?}");
        assert_eq!(said(&host).await, result("old"));
    }
    drop(file);
    until_serves(&host, "say.wasm", &new).await;
    assert_eq!(said(&host).await, result("new"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_loads_once_another_with_its_id_is_gone() {
    let (kept, gone) = (says("kept"), says("gone"));
    let lab = Lab::new().with("a-b.wasm", &gone).with("a_b.wasm", &kept);
    let host = lasting(&lab).await;
    let shown = host.sources().borrow().clone();
    assert!(shown.statuses.iter().all(|status| status.state.is_err()), "{shown:?}");
    fs::remove_file(lab.plugins().join("a-b.wasm")).expect("removed");
    until_serves(&host, "a_b.wasm", &kept).await;
    assert_eq!(said(&host).await, result("kept"));
    // The file that came first by its name is the one that stays.
    fs::write(lab.plugins().join("a-b.wasm"), &gone).expect("written");
    until(&host, "refused", |shown| {
        find(shown, "a-b.wasm").is_some_and(|status| status.state.is_err())
    })
    .await;
    fs::remove_file(lab.plugins().join("a_b.wasm")).expect("removed");
    until_serves(&host, "a-b.wasm", &gone).await;
    assert_eq!(said(&host).await, result("gone"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_build_takes_nothing_away() {
    let old = says("old");
    let lab = Lab::new().with("say.wasm", &old);
    let host = lasting(&lab).await;
    let generation = host.catalog().generation;
    rename_over(&lab, "say.wasm", &old[..old.len() / 2]);
    until(&host, "failed", |shown| {
        find(shown, "say.wasm").is_some_and(|status| status.state.is_err())
    })
    .await;
    let shown = host.sources().borrow().clone();
    let status = find(&shown, "say.wasm").expect("a status");
    assert!(status.state.as_ref().is_err_and(|reason| reason.cause.starts_with("truncated")));
    assert!(status.serving().is_some(), "{status:?}");
    assert_eq!(status.status(), Status::Failed);
    assert_eq!(said(&host).await, result("old"));
    assert_eq!(host.catalog().generation, generation, "nothing changed for callers");
    // Touched, and the same bytes again: nothing changes either.
    rename_over(&lab, "say.wasm", &old);
    until(&host, "live", |shown| {
        find(shown, "say.wasm").is_some_and(|status| status.status() == Status::Live)
    })
    .await;
    assert_eq!(host.catalog().generation, generation);
}

#[tokio::test(flavor = "multi_thread")]
async fn examples_are_a_gate() {
    let with = |answer: &str, expected: &str, more: serde_json::Value| {
        let mut tool = json!({
            "name": "say", "answer": { "text": answer }, "examples": [["{}", expected]],
        });
        for (name, value) in more.as_object().into_iter().flatten() {
            tool[name] = value.clone();
        }
        made(&json!({ "tools": [tool] }))
    };
    let old = with("old", "old", json!({}));
    let lab = Lab::new().with("say.wasm", &old);
    let host = lasting(&lab).await;
    rename_over(&lab, "say.wasm", &with("new", "something else", json!({})));
    until(&host, "failed", |shown| {
        find(shown, "say.wasm").is_some_and(|status| status.state.is_err())
    })
    .await;
    let shown = host.sources().borrow().clone();
    let reason = find(&shown, "say.wasm").and_then(|status| status.state.clone().err());
    assert_eq!(
        reason.map(|failed| failed.to_string()).as_deref(),
        Some(
            "example 1 of `say`: expected `something else` in the output, which is `new`; correct the tool or its example"
        )
    );
    assert_eq!(said(&host).await, result("old"));
    // It would need what it has not: that says nothing about it.
    let needs = with("new", "something else", json!({ "requires_env": ["TOKEN"] }));
    rename_over(&lab, "say.wasm", &needs);
    until_serves(&host, "say.wasm", &needs).await;
    let good = with("new", "new", json!({}));
    rename_over(&lab, "say.wasm", &good);
    until_serves(&host, "say.wasm", &good).await;
    assert_eq!(said(&host).await, result("new"));
    // Also after a restart.
    host.stop().await;
    rename_over(&lab, "say.wasm", &with("newer", "something else", json!({})));
    let host = lasting(&lab).await;
    assert_eq!(said(&host).await, result("new"));
}

#[tokio::test(flavor = "multi_thread")]
async fn examples_time_max() {
    let old = says("old");
    let lab = Lab::new().config("[limits]\nexamples_time_max = \"100ms\"").with("say.wasm", &old);
    let host = lasting(&lab).await;
    let loops = made(&json!({ "tools": [
        { "name": "say", "answer": { "sleep": 0 }, "examples": [["{}", "never"]] },
    ] }));
    rename_over(&lab, "say.wasm", &loops);
    until(&host, "failed", |shown| {
        find(shown, "say.wasm").is_some_and(|status| {
            status
                .state
                .as_ref()
                .is_err_and(|reason| reason.cause.contains("`examples_time_max` of 100ms"))
        })
    })
    .await;
    assert_eq!(said(&host).await, result("old"));
}

#[tokio::test(flavor = "multi_thread")]
async fn drain_time_max_stops_calls_of_a_replaced_plugin() {
    let sleeps = made(&json!({ "tools": [{ "name": "say", "answer": { "sleep": 0 } }] }));
    let lab = Lab::new().config("[limits]\ndrain_time_max = \"100ms\"").with("say.wasm", sleeps);
    let host = Arc::new(lasting(&lab).await);
    let calling = Arc::clone(&host);
    let running = tokio::spawn(async move { call(&calling, "say", json!({})).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!running.is_finished());
    let new = says("new");
    rename_over(&lab, "say.wasm", &new);
    until_serves(&host, "say.wasm", &new).await;
    assert_eq!(said(&host).await, result("new"));
    let error = running.await.expect("no panic").result.expect_err("stopped");
    assert!(error.message.contains("its plugin was replaced"), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_under_way_end_on_the_old_code() {
    let slow =
        made(&json!({ "tools": [{ "name": "say", "answer": { "repeat": ["old ", 200_000] } }] }));
    let lab = Lab::new().with("say.wasm", slow);
    let host = Arc::new(lasting(&lab).await);
    let calls: Vec<_> = (0..8)
        .map(|_| {
            let host = Arc::clone(&host);
            tokio::spawn(async move { said(&host).await })
        })
        .collect();
    let new = says("new");
    rename_over(&lab, "say.wasm", &new);
    until_serves(&host, "say.wasm", &new).await;
    let (old, mut ended_on_old) = (result(&"old ".repeat(200_000)), 0);
    for call in calls {
        let text = call.await.expect("no panic");
        ended_on_old += usize::from(text == old);
        assert!(text == old || text == result("new"), "{:.100}", text);
    }
    assert!(ended_on_old > 0, "the calls began before the file was there");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_build_that_crashes_at_once_is_rolled_back() {
    let crashes = made(&json!({ "tools": [{ "name": "say", "answer": { "trap": "boo" } }] }));
    let (good, better) = (says("good"), says("better"));
    let lab = Lab::new().with("say.wasm", &good);
    let host = lasting(&lab).await;
    rename_over(&lab, "say.wasm", &crashes);
    until_serves(&host, "say.wasm", &crashes).await;
    for _ in 0..3 {
        assert!(call(&host, "say", json!({})).await.result.is_err());
    }
    until_serves(&host, "say.wasm", &good).await;
    assert_eq!(said(&host).await, result("good"));
    let shown = host.sources().borrow().clone();
    assert_eq!(find(&shown, "say.wasm").map(SourceStatus::status), Some(Status::Pending));
    // It stays so after a restart, and another build is tried.
    host.stop().await;
    let host = lasting(&lab).await;
    assert_eq!(said(&host).await, result("good"));
    rename_over(&lab, "say.wasm", &better);
    until_serves(&host, "say.wasm", &better).await;
    assert_eq!(said(&host).await, result("better"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_vanishes_comes_back() {
    let one = says("one");
    let lab = Lab::new().with("say.wasm", &one);
    let host = lasting(&lab).await;
    let away = lab.work().join("away");
    fs::rename(lab.plugins(), &away).expect("renamed");
    until(&host, "gone", |shown| find(shown, "say.wasm").is_none()).await;
    assert!(host.catalog().find("say").is_none());
    fs::rename(&away, lab.plugins()).expect("renamed");
    until_serves(&host, "say.wasm", &one).await;
    assert_eq!(said(&host).await, result("one"));
}

#[test]
fn a_client_hears_of_changes_and_of_failures() {
    let lab = Lab::new().with("say.wasm", says("one"));
    let mut client = McpClient::initialized(&lab, &[]);
    assert!(client.list().0.contains(&"say".to_owned()));
    let two = made(&json!({ "tools": [
        { "name": "say", "answer": { "text": "two" } }, { "name": "more", "answer": "echo" },
    ] }));
    rename_over(&lab, "say.wasm", &two);
    client.notification("notifications/tools/list_changed");
    assert!(client.list().0.contains(&"more".to_owned()));
    rename_over(&lab, "say.wasm", b"broken");
    let told = client.notification("notifications/message");
    assert_eq!(told["params"]["level"], "error", "{told}");
    let text = told["params"]["data"].as_str().unwrap_or_default();
    assert!(text.contains("say.wasm") && text.contains("not WebAssembly"), "{told}");
    let answer = client.call(1, "say", json!({}));
    assert_eq!(answer["result"]["content"][0]["text"], "two", "{answer}");
    assert_eq!(client.end().0, 0);
}

#[test]
fn a_client_hears_of_nothing_below_the_level_that_it_set() {
    let lab = Lab::new().with("say.wasm", says("one"));
    let mut client = McpClient::initialized(&lab, &[]);
    assert!(client.list().0.contains(&"say".to_owned()));
    let set = |client: &mut McpClient, level: &str| {
        client.ask(level, "logging/setLevel", json!({ "level": level }));
        assert_eq!(client.answer(level)["result"], json!({}));
    };
    set(&mut client, "critical");
    rename_over(&lab, "say.wasm", b"broken");
    let log = lab.home().join("state/audit/audit.jsonl");
    let start = std::time::Instant::now();
    while !fs::read_to_string(&log).unwrap_or_default().contains("not WebAssembly") {
        assert!(start.elapsed() < PATIENCE, "it was never loaded");
        std::thread::sleep(Duration::from_millis(10));
    }
    let two = made(&json!({ "tools": [{ "name": "say" }, { "name": "more" }] }));
    rename_over(&lab, "say.wasm", &two);
    client.notification("notifications/tools/list_changed");
    let told = client.heard.iter().find(|said| said["method"] == "notifications/message");
    assert_eq!(told, None);
    set(&mut client, "error");
    rename_over(&lab, "say.wasm", b"broken again");
    assert_eq!(client.notification("notifications/message")["params"]["level"], "error");
    assert_eq!(client.end().0, 0);
}

#[test]
fn grants_count_while_the_host_runs() {
    let reads = json!({
        "tools": [{ "name": "say", "answer": { "env": "WHO" } }],
        "needs": [{ "kind": "env", "value": { "names": ["WHO"] }, "tools": [], "reason": "" }],
    });
    let lab = Lab::new().with("say.wasm", made(&reads));
    let mut command = lab.command(env!("CARGO_BIN_EXE_toolhost"));
    command.arg("serve").env("WHO", "me");
    let mut client = McpClient::with(command);
    client.initialize();
    let mut id = 0;
    let mut ask = |client: &mut McpClient| {
        id += 1;
        client.call(id, "say", json!({}))["result"]["content"][0]["text"].to_string()
    };
    assert_eq!(ask(&mut client), json!("").to_string());
    let granted = lab.run(&["grant", "say", "--env", "WHO"]);
    assert!(granted.starts_with("exit 0"), "{granted}");
    let wait =
        |client: &mut McpClient, ask: &mut dyn FnMut(&mut McpClient) -> String, wanted: &str| {
            let start = std::time::Instant::now();
            let wanted = json!(wanted).to_string();
            while ask(client) != wanted {
                assert!(start.elapsed() < PATIENCE, "never {wanted}");
                std::thread::sleep(Duration::from_millis(10));
            }
        };
    wait(&mut client, &mut ask, "me");
    let revoked = lab.run(&["revoke", "say"]);
    assert!(revoked.starts_with("exit 0"), "{revoked}");
    wait(&mut client, &mut ask, "");
    // A file that makes no sense changes nothing, and says so.
    fs::write(lab.home().join("toolhost.toml"), "[plugins.say]\nnonsense = 1\n").expect("written");
    let told = client.notification("notifications/message");
    assert!(told["params"]["data"].to_string().contains("nonsense"), "{told}");
    assert_eq!(client.end().0, 0);
}
