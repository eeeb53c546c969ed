//! Stores of plugins: what they keep, for whom, within which limits, and what is never lost.

mod file;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;
use serde_json::{Value, json};
use toolhost::{Host, HostSettings};
use toolhost_core::limits::Limits;
use toolhost_core::tool::{Code, Origin};
use toolhost_sources::folder::Folder;
use toolhost_state::store::Stores;
use toolhost_state::trust_store::{self, Pin};
use toolhost_wasm::digest;

use crate::support::{Lab, answer, call, guest, made};

const KV: &str = "[plugins.keeper]\nkv = true\n";

/// A lab with the guest `keeper`, which was granted a store.
fn lab(limits: &str) -> Lab {
    Lab::new().config(&format!("[limits]\n{limits}\n{KV}")).granted("keeper", guest("keeper"))
}

async fn keep(host: &Host, steps: Value) -> Value {
    let answer = answer(host, "keep", json!({ "steps": steps })).await;
    serde_json::from_str(&answer).unwrap_or_else(|_| panic!("{answer}"))
}

/// Does steps in a fresh host.
async fn check(limits: &str, steps: Value, expected: Value) {
    let lab = lab(limits);
    assert_eq!(keep(&lab.host().await, steps).await, expected);
    sound(&only_file(&lab));
}

/// The files of all stores, without those that SQLite keeps beside them.
fn files(lab: &Lab) -> Vec<PathBuf> {
    let folder = lab.home().join("state/kv");
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "sqlite")).collect()
}

fn only_file(lab: &Lab) -> PathBuf {
    let files = files(lab);
    assert_eq!(files.len(), 1, "{files:?}");
    files[0].clone()
}

/// The file has no fault, and its totals are those of its entries.
fn sound(file: &Path) {
    let connection = Connection::open(file).expect("opened");
    let text = |sql: &str| {
        connection.query_row(sql, [], |row| row.get::<_, String>(0)).expect("an answer")
    };
    assert_eq!(text("PRAGMA integrity_check"), "ok");
    let counted = "SELECT side, count(*) AS entries, sum(length(key) + length(value)) AS bytes
        FROM entries GROUP BY side";
    let listed = |table: &str| {
        text(&format!(
            "SELECT coalesce(group_concat(side || ':' || entries || ':' || bytes), '')
            FROM (SELECT * FROM ({table}) ORDER BY side)"
        ))
    };
    assert_eq!(listed("SELECT * FROM totals WHERE entries > 0"), listed(counted));
}

#[tokio::test]
async fn values_are_set_read_and_removed() {
    check(
        "",
        json!([
            ["get", "a"],
            ["delete", "a"],
            ["set", "a", "1"],
            ["get", "a"],
            ["set", "a", ""],
            ["get", "a"],
            ["delete", "a"],
            ["get", "a"],
            ["set", "\u{0}é", "zero"],
            ["get", "\u{0}é"],
        ]),
        json!([null, false, null, "1", null, "", true, null, null, "zero"]),
    )
    .await;
}

#[tokio::test]
async fn a_swap_changes_only_what_it_expects() {
    check(
        "",
        json!([
            ["swap", "a", "x", "1"],
            ["swap", "a", null, "1"],
            ["swap", "a", null, "2"],
            ["swap", "a", "1", "2"],
            ["get", "a"],
            ["swap", "a", "1", null],
            ["swap", "a", "2", null],
            ["get", "a"],
            ["swap", "a", null, null],
            ["swap", "a", "", null],
        ]),
        json!([false, true, false, true, "2", false, true, null, true, false]),
    )
    .await;
}

#[tokio::test]
async fn keys_are_in_order_and_complete() {
    check(
        "",
        json!([
            ["set", "b", ""],
            ["set", "a/2", ""],
            ["set", "a/10", ""],
            ["set", "a", ""],
            ["set", "a\u{10ffff}", ""],
            ["set", "ä", ""],
            ["keys", ""],
            ["keys", "a"],
            ["keys", "a/"],
            ["keys", "none"],
        ]),
        json!([
            null,
            null,
            null,
            null,
            null,
            null,
            ["a", "a/10", "a/2", "a\u{10ffff}", "b", "ä"],
            ["a", "a/10", "a/2", "a\u{10ffff}"],
            ["a/10", "a/2"],
            [],
        ]),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_come_in_pages() {
    let (_folder, kv) = file::store(&Limits::default());
    for number in 0..1_001 {
        kv.set("", &format!("{number:04}"), Vec::new()).await.expect("set");
    }
    let first = kv.keys("", "", None).await.expect("keys");
    assert_eq!((first.len(), first[999].as_str()), (1_000, "0999"));
    assert_eq!(kv.keys("", "", Some("0999")).await.expect("keys"), ["1000"]);
    assert_eq!(kv.keys("", "01", Some("0198")).await.expect("keys"), ["0199"]);
    // What sorts before the prefix does not matter.
    assert_eq!(kv.keys("", "10", Some("0")).await.expect("keys"), ["1000"]);
    assert_eq!(kv.keys("", "1", Some("2")).await.expect("keys"), [""; 0]);
}

#[tokio::test]
async fn what_is_kept_outlives_the_host() {
    let lab = lab("");
    let host = lab.host().await;
    keep(&host, json!([["set", "a", "kept"]])).await;
    host.stop().await;
    assert_eq!(keep(&lab.host().await, json!([["get", "a"]])).await, json!(["kept"]));
    // Only this user can read it, and the rest of it too.
    let folder = lab.home().join("state/kv");
    let mode = |path: &Path| fs::metadata(path).expect("metadata").permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    for entry in fs::read_dir(&folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

#[tokio::test]
async fn without_a_grant_there_is_nothing() {
    let lab = Lab::new().with("keeper.wasm", guest("keeper"));
    let refused = json!({ "not-granted": "the store of plugin:keeper is not granted: run `toolhost grant keeper --kv`" });
    let steps = json!([
        ["get", "a"],
        ["set", "a", "1"],
        ["delete", "a"],
        ["swap", "a", null, null],
        ["keys", ""]
    ]);
    assert_eq!(
        keep(&lab.host().await, steps).await,
        json!([refused, refused, refused, refused, refused])
    );
    // The command that it names is what it takes.
    assert!(lab.run(&["grant", "keeper", "--kv"]).starts_with("exit 0\n"));
    let steps = r#"{"steps": [["set", "a", "1"], ["get", "a"]]}"#;
    assert!(lab.run(&["call", "keep", steps]).contains("\n[null,\"1\"]\n"));
    assert!(lab.run(&["revoke", "keeper", "--kv"]).starts_with("exit 0\n"));
    assert!(lab.run(&["call", "keep", steps]).contains("not-granted"));
}

#[tokio::test]
async fn without_a_need_a_grant_gives_nothing() {
    let tool = |name: &str| json!({ "name": name, "answer": { "kv": "a" } });
    let need = json!({ "kind": "kv", "value": {}, "tools": ["asks"] });
    let plugin = made(&json!({ "tools": [tool("asks"), tool("does_not")], "needs": [need] }));
    let lab = Lab::new().config("[plugins.made]\nkv = true").granted("made", plugin);
    let host = lab.host().await;
    assert_eq!(
        answer(&host, "does_not", json!({})).await,
        r#"{"result":"the store of plugin:made is nothing that this tool of plugin:made asks for, so no grant would help: its author must add `kv` to its needs of kind `kv`"}"#
    );
    // Nothing is made before a store is used.
    assert!(files(&lab).is_empty());
    assert_eq!(answer(&host, "asks", json!({})).await, r#"{"result":""}"#);
    assert_eq!(files(&lab).len(), 1);
}

#[tokio::test]
async fn a_host_without_a_state_folder_keeps_nothing() {
    let kv = Stores::new(None, Arc::default()).of(Path::new("/plugins"), "a");
    let error = kv.get("", "a").await.expect_err("no store").to_string();
    assert_eq!(error, "this host keeps no stores: it was started without a state folder");
    assert_eq!(kv.file(), None);
}

#[tokio::test]
async fn every_plugin_of_every_folder_has_its_own() {
    let lab = lab("");
    let elsewhere = lab.home().join("elsewhere");
    fs::create_dir(&elsewhere).expect("a folder");
    let elsewhere = elsewhere.canonicalize().expect("a path");
    let here = lab.plugins().canonicalize().expect("a path");
    let config = [here.join("keeper"), elsewhere.join("keeper"), here.join("other")]
        .map(|plugin| format!("[plugins.'{}']\nkv = true\n", plugin.display()));
    let lab = lab.config(&config.concat());
    fs::write(elsewhere.join("keeper.wasm"), guest("keeper")).expect("written");
    let state = lab.home().join("state");
    let digest = digest(&guest("keeper")).to_string();
    let pin = Pin { folder: elsewhere.clone(), id: "keeper".to_owned(), digest };
    trust_store::pin(&state, &pin).expect("pinned");
    keep(&lab.host().await, json!([["set", "a", "first"]])).await;
    let folders = vec![Folder { path: elsewhere, origin: Origin::Project }];
    let host = Host::start(HostSettings { folders, ..lab.settings() }).expect("a host");
    host.loaded().await;
    let seen = keep(&host, json!([["keys", ""], ["set", "a", "second"], ["get", "a"]])).await;
    assert_eq!(seen, json!([[], null, "second"]));

    let tool = json!({ "name": "other", "answer": { "kv": "a" } });
    let other = made(&json!({ "tools": [tool], "needs": [{ "kind": "kv", "value": {} }] }));
    let lab = lab.granted("other", other);
    let host = lab.host().await;
    assert_eq!(answer(&host, "other", json!({})).await, r#"{"result":""}"#);
    assert_eq!(keep(&host, json!([["get", "a"]])).await, json!(["first"]));
    assert_eq!(files(&lab).len(), 3);
}

#[tokio::test]
async fn checks_and_hooks_have_the_store_too() {
    let config = format!("{KV}hooks = [\"pre-call:say\"]");
    let say = made(&json!({ "tools": [{ "name": "say", "answer": "echo" }] }));
    let lab = lab("").config(&config).with("say.wasm", say);
    let host = lab.host().await;
    let refused = answer(&host, "gated", json!({})).await;
    assert!(refused.contains("the gate is closed"), "{refused}");
    assert_eq!(
        keep(&host, json!([["get", "heard"], ["set", "gate", "open"]])).await,
        json!([null, null])
    );
    assert_eq!(answer(&host, "say", json!({})).await, "{}");
    assert_eq!(keep(&host, json!([["get", "heard"]])).await, json!(["say"]));
    // The answer of the check is kept for a while, by this host.
    assert_eq!(answer(&lab.host().await, "gated", json!({})).await, r#"{"result":"through"}"#);
    assert_eq!(answer(&host, "whisper", json!({})).await, "[false,null]");
}

#[tokio::test]
async fn keys_have_1_to_512_bytes() {
    let (long, over) = ("é".repeat(256), "x".repeat(513));
    let too_long = json!({ "invalid": "key of 513 bytes exceeds the 512 of a key" });
    let empty = json!({ "invalid": "a key is empty; allowed are 1 to 512 bytes" });
    check(
        "",
        json!([
            ["set", long, "1"],
            ["get", long],
            ["set", over, "1"],
            ["get", over],
            ["delete", over],
            ["swap", over, null, null],
            ["keys", over],
            ["set", "", "1"],
            ["get", ""],
        ]),
        json!([
            null, "1", too_long, too_long, too_long, too_long,
            { "invalid": "prefix of 513 bytes exceeds the 512 of a key" }, empty, empty,
        ]),
    )
    .await;
}

#[tokio::test]
async fn kv_value_bytes_max() {
    let refused = |given: u64, allowed: u64| {
        let text = format!(
            "value of {given} bytes exceeds `kv_value_bytes_max` of {allowed}; store it in parts"
        );
        json!({ "invalid": text })
    };
    let mib = 1 << 20;
    check(
        "",
        json!([["set", "a", mib], ["length", "a"], ["set", "a", mib + 1], ["length", "a"]]),
        json!([null, mib, refused(mib + 1, mib), mib]),
    )
    .await;
    check(
        "kv_value_bytes_max = 16",
        json!([["set", "a", 16], ["set", "a", 17], ["swap", "b", null, 17]]),
        json!([null, refused(17, 16), refused(17, 16)]),
    )
    .await;
    let most = 16 * mib;
    check(
        "kv_value_bytes_max = \"16 MiB\"",
        json!([
            ["set", "a", most],
            ["swap", "a", most, most],
            ["length", "a"],
            ["set", "a", most + 1]
        ]),
        json!([null, true, most, refused(most + 1, most)]),
    )
    .await;
}

#[tokio::test]
async fn kv_entries_max() {
    let full = json!({ "full": "no room: the store of plugin:keeper would have 3 entries, and `kv_entries_max` is 2; delete some" });
    check(
        "kv_entries_max = 2",
        json!([
            ["set", "a", "1"],
            ["set", "b", "1"],
            ["set", "c", "1"],
            ["swap", "c", null, "1"],
            ["set", "a", "2"],
            ["delete", "b"],
            ["set", "c", "1"],
            ["keys", ""],
        ]),
        json!([null, null, full, full, null, true, null, ["a", "c"]]),
    )
    .await;
}

#[tokio::test]
async fn kv_bytes_max() {
    let full = |given: u64| {
        let text = format!(
            "no room: the store of plugin:keeper would have {given} bytes, keys included, and `kv_bytes_max` is 1024; delete something"
        );
        json!({ "full": text })
    };
    let lab = lab("kv_bytes_max = \"1 KiB\"");
    let host = lab.host().await;
    let steps = json!([
        ["set", "a", 1_020],
        ["set", "bb", 1],
        ["set", "bb", 2],
        ["set", "a", 1_021],
        ["set", "a", 1_022],
        ["get", "bb"],
        ["delete", "bb"],
        ["set", "a", 1_023],
    ]);
    let seen = keep(&host, steps).await;
    assert_eq!(seen, json!([null, null, full(1_025), full(1_025), full(1_026), "x", true, null]));
    // What is over a limit that was lowered since can be read and made less, and not more.
    let lab = lab.config(&format!("[limits]\nkv_bytes_max = \"1 KiB\"\nkv_entries_max = 1\n{KV}"));
    let steps = json!([["length", "a"], ["set", "b", ""], ["set", "a", 1_000], ["length", "a"]]);
    let seen = keep(&lab.host().await, steps).await;
    assert_eq!((&seen[0], &seen[2], &seen[3]), (&json!(1_023), &json!(null), &json!(1_000)));
    assert!(seen[1]["full"].as_str().is_some_and(|text| text.contains("`kv_entries_max` is 1")));
    sound(&only_file(&lab));
}

#[tokio::test]
async fn host_calls_are_counted() {
    let lab = lab("host_calls_max = 100");
    let host = lab.host().await;
    assert!(call(&host, "read_often", json!({ "n": 100 })).await.result.is_ok());
    let error = call(&host, "read_often", json!({ "n": 101 })).await.result.expect_err("stopped");
    assert_eq!(error.message, "stopped: more host calls than `host_calls_max` of 100");
}

#[test]
fn processes_lose_no_update() {
    let lab = lab("wall_time_max = \"4min\"");
    let count = |n: u64| lab.run(&["call", "count_up", &format!("{{\"n\": {n}}}")]);
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..4).map(|_| scope.spawn(|| run(&lab, 25))).collect();
        for one in running {
            let printed = one.join().expect("a process");
            assert!(printed.0, "{}", printed.1);
        }
    });
    assert_eq!(count(1), "exit 0\n--- stdout\n101\n--- stderr\n");
    sound(&only_file(&lab));
}

/// Counts in a process of its own, beside others of the same lab.
fn run(lab: &Lab, times: u64) -> (bool, String) {
    let mut command = lab.command(env!("CARGO_BIN_EXE_toolhost"));
    let output = command.args(["call", "count_up", &format!("{{\"n\": {times}}}")]).output();
    let output = output.expect("the program");
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_at_once_lose_no_update() {
    let lab = lab("");
    let host = Arc::new(lab.host().await);
    let calls: Vec<_> = (0..8)
        .map(|_| {
            let host = Arc::clone(&host);
            tokio::spawn(async move { call(&host, "count_up", json!({ "n": 10 })).await })
        })
        .collect();
    for call in calls {
        assert!(call.await.expect("no panic").result.is_ok());
    }
    assert_eq!(answer(&host, "count_up", json!({ "n": 1 })).await, "81");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_call_leaves_whole_values() {
    let lab = lab("wall_time_max = \"700ms\"\nquarantine_failures_max = 100");
    let host = lab.host().await;
    for _ in 0..3 {
        let outcome = call(&host, "write_for_ever", json!({ "n": 200_000 })).await;
        assert_eq!(outcome.result.expect_err("stopped").code, Code::Deadline);
        let state = lab.home().join("state");
        let plugins = lab.plugins().canonicalize().expect("a path");
        let kv = Stores::new(Some(state), Arc::default()).of(&plugins, "keeper");
        let value = kv.get("", "written").await.expect("a store").expect("a value");
        assert_eq!(value.len(), 200_000);
        assert!(
            value.iter().all(|byte| *byte == value[0]),
            "a value is half of one, half of another"
        );
    }
    // The host goes on as well.
    assert_eq!(keep(&host, json!([["length", "written"]])).await, json!([200_000]));
    host.stop().await;
    sound(&only_file(&lab));
}
