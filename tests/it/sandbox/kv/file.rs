//! A store as a file: sides, damage, other times and places, other processes.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use serde_json::json;
use toolhost_core::limits::Limits;
use toolhost_state::store::{Kv, Stores};

use super::{keep, lab, only_file, sound};

/// A store of its own, without a host.
pub(super) fn store(limits: &Limits) -> (tempfile::TempDir, Arc<Kv>) {
    let folder = tempfile::tempdir().expect("a folder");
    let stores = Stores::new(Some(folder.path().to_owned()), Arc::new(limits.clone()));
    let kv = stores.of(Path::new("/plugins"), "a");
    // The same one for everybody who asks.
    assert!(Arc::ptr_eq(&kv, &stores.of(Path::new("/plugins"), "a")));
    (folder, kv)
}

#[tokio::test]
async fn sides_have_keys_and_limits_of_their_own() {
    let mut limits = Limits::default();
    limits.set("kv_entries_max", "3").expect("a limit");
    let (_folder, kv) = store(&limits);
    for side in ["", "dirs", "http"] {
        assert_eq!(kv.get(side, "a").await, Ok(None));
        kv.set(side, "a", side.as_bytes().to_vec()).await.expect("set");
    }
    for side in ["", "dirs", "http"] {
        assert_eq!(kv.get(side, "a").await, Ok(Some(side.as_bytes().to_vec())));
        assert_eq!(kv.keys(side, "", None).await.expect("keys"), ["a"]);
    }
    kv.set("dirs", "b", Vec::new()).await.expect("set");
    for key in ["b", "c"] {
        kv.set("http", key, Vec::new()).await.expect("what is on other sides takes no room");
    }
    let full = kv.set("http", "d", Vec::new()).await.expect_err("full").to_string();
    assert_eq!(
        full,
        "no room: the store of plugin:a would have 4 entries, and `kv_entries_max` is 3; delete some"
    );
    assert_eq!(kv.delete("dirs", "a").await, Ok(true));
    assert_eq!(kv.get("http", "a").await, Ok(Some(b"http".to_vec())));
    sound(&kv.file().expect("a file"));
}

#[tokio::test]
async fn a_damaged_file_is_named_and_left_alone() {
    let lab = lab("");
    keep(&lab.host().await, json!([["set", "a", "1"]])).await;
    let file = only_file(&lab);
    let name = file.file_name().expect("a name").to_string_lossy().into_owned();
    let whole = fs::read(&file).expect("read");
    let damaged = |reason: &str| {
        let text = format!(
            "the store of plugin:keeper is damaged ({reason}): restore kv/{name} in toolhost's state folder from a copy, or move it away with its -wal and -shm to begin with an empty one; nothing was deleted"
        );
        json!([{ "unavailable": text }])
    };
    let steps = || json!([["get", "a"]]);
    for (bytes, reason) in [
        (b"no database at all, and long enough to be none".repeat(9), "file is not a database"),
        (Vec::new(), "it is empty, or of another program"),
        (whole[..whole.len() / 2].to_vec(), "database disk image is malformed"),
    ] {
        fs::write(&file, &bytes).expect("written");
        assert_eq!(keep(&lab.host().await, steps()).await, damaged(reason));
        assert_eq!(fs::read(&file).expect("read"), bytes, "{reason}");
    }
    // The same host goes on when somebody has put it right, either way.
    let host = lab.host().await;
    assert_eq!(keep(&host, steps()).await, damaged("database disk image is malformed"));
    fs::write(&file, &whole).expect("written");
    assert_eq!(keep(&host, steps()).await, json!(["1"]));
    fs::rename(&file, lab.home().join("moved")).expect("moved");
    for rest in ["-wal", "-shm"] {
        let _ = fs::remove_file(format!("{}{rest}", file.display()));
    }
    assert_eq!(keep(&host, json!([["get", "a"], ["set", "a", "2"]])).await, json!([null, null]));
    assert_eq!(keep(&lab.host().await, steps()).await, json!(["2"]));
}

#[tokio::test]
async fn a_file_of_another_time_or_place_is_refused() {
    let (_folder, kv) = store(&Limits::default());
    kv.set("", "a", b"1".to_vec()).await.expect("set");
    let file = kv.file().expect("a file");
    let name = file.file_name().expect("a name").to_string_lossy().into_owned();
    let change =
        |sql: &str| Connection::open(&file).expect("opened").execute_batch(sql).expect(sql);
    let again = || {
        let state = file.parent().and_then(Path::parent).expect("a folder").to_owned();
        Stores::new(Some(state), Arc::default()).of(Path::new("/plugins"), "a")
    };
    drop(kv);
    change("PRAGMA user_version = 2");
    assert_eq!(
        again().get("", "a").await.expect_err("newer").to_string(),
        format!(
            "the store of plugin:a was written by a newer toolhost (schema 2, and this one knows 1): update toolhost, or move kv/{name} in toolhost's state folder away"
        )
    );
    change("PRAGMA user_version = 1; UPDATE about SET plugin = 'b'");
    let message = again().get("", "a").await.expect_err("another's").to_string();
    assert!(message.contains("is damaged (it is of plugin:b"), "{message}");
    change("UPDATE about SET plugin = 'a'; DROP TABLE totals");
    let message = again().set("", "a", Vec::new()).await.expect_err("no totals").to_string();
    assert!(message.contains("is damaged (no such table: totals)"), "{message}");
    // A log has what its file has not; to begin anew beside it would mix the two.
    fs::rename(&file, file.with_extension("moved")).expect("moved");
    fs::write(format!("{}-wal", file.display()), "log").expect("written");
    let message = again().get("", "a").await.expect_err("a log alone").to_string();
    assert!(message.contains(&format!("{name}-wal is left")), "{message}");
    assert!(!file.exists());
}

#[tokio::test]
async fn another_process_is_waited_for() {
    let (_folder, kv) = store(&Limits::default());
    kv.set("", "a", b"1".to_vec()).await.expect("set");
    let other = Connection::open(kv.file().expect("a file")).expect("opened");
    other.execute_batch("BEGIN IMMEDIATE").expect("begun");
    // Reading goes on; writing waits, and says so in the end.
    assert_eq!(kv.get("", "a").await, Ok(Some(b"1".to_vec())));
    assert_eq!(
        kv.set("", "a", b"2".to_vec()).await.expect_err("held").to_string(),
        "the store of plugin:a is held by another process for longer than 5s; try again"
    );
    other.execute_batch("ROLLBACK").expect("ended");
    kv.set("", "a", b"2".to_vec()).await.expect("set");
    assert_eq!(kv.get("", "a").await, Ok(Some(b"2".to_vec())));
}
