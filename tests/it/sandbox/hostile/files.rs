//! Escapes by files: paths, links, devices, pipes, and the host's own state.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use expect_test::expect;
use serde_json::{Value, json};
use toolhost::Host;

use super::{attack, error, host, lab};
use crate::support::Lab;
use crate::support::server::FixedNames;

/// A lab with a directory to read at `/in`, one to change at `/out`, and a secret beside them.
async fn with_directories() -> (Lab, Host) {
    let lab = lab("");
    for name in ["in", "out", "outside"] {
        fs::create_dir(lab.work().join(name)).expect("a folder");
    }
    fs::write(lab.work().join("in/mine"), "mine").expect("written");
    fs::write(lab.work().join("outside/secret"), "top secret").expect("written");
    let work = lab.work();
    let work = work.display();
    let lab = lab.config(&format!(
        "[plugins.hostile]\ndirs = [\"{work}/in=/in:ro\", \"{work}/out=/out:rw\"]\n"
    ));
    let host = host(&lab, &FixedNames::new(&[])).await;
    (lab, host)
}

fn file(at: &str, what: &str, path: &str) -> Value {
    json!({ "file": { "at": at, "do": what, "path": path, "follow": true } })
}

fn to(at: &str, what: &str, path: &str, other: (&str, &str)) -> Value {
    json!({ "file": { "at": at, "do": what, "path": path, "to": [other.0, other.1] } })
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_that_lead_out() {
    let (lab, host) = with_directories().await;
    symlink("../outside/secret", lab.work().join("in/relative")).expect("a link");
    symlink(lab.work().join("outside/secret"), lab.work().join("in/absolute")).expect("a link");
    symlink("/", lab.work().join("in/root")).expect("a link");
    symlink("loop", lab.work().join("in/loop")).expect("a link");
    let absolute = lab.work().join("outside/secret").display().to_string();
    let paths = [
        "../outside/secret",
        "..",
        "./../outside/secret",
        "x/../../outside/secret",
        "/etc/passwd",
        absolute.as_str(),
        "relative",
        "absolute",
        "root/etc/passwd",
        "root/proc/self/environ",
        "loop",
        "mine\0/../../outside/secret",
        "..\\outside\\secret",
        "",
    ];
    let steps: Vec<Value> = paths.iter().map(|path| file("/in", "read", path)).collect();
    let results = attack(&host, json!(steps)).await;
    for (path, result) in paths.iter().zip(&results) {
        assert!(!error(result).is_empty(), "{path}: {result}");
    }
    assert_eq!(attack(&host, json!([file("/in", "read", "mine")])).await[0]["text"], "mine");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_seen_but_what_was_granted() {
    let (_lab, host) = with_directories().await;
    let results = attack(
        &host,
        json!([
            "directories",
            { "std": "/etc/passwd" },
            { "std": "/proc/self/environ" },
            { "std": "/proc/self/maps" },
            { "std": "/dev/zero" },
            { "std": "outside/secret" },
            { "std": "/in/mine" },
            file("/", "list", "."),
            file(".", "list", "."),
            to("/", "create", "new", ("", "x")),
            to(".", "rename", "in/mine", ("/", "moved")),
            file("/", "stat", "etc/passwd"),
        ]),
    )
    .await;
    // Through the last two it asks for every other path, and nothing is below them.
    assert_eq!(results[0], json!(["/in", "/out", "/", "."]));
    for result in results[1..6].iter().chain(&results[7..]) {
        error(result);
    }
    assert_eq!(results[6]["text"], "mine");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_to_read_is_not_changed() {
    let (lab, host) = with_directories().await;
    let results = attack(
        &host,
        json!([
            to("/in", "write", "mine", ("", "theirs")),
            to("/in", "create", "new", ("", "theirs")),
            file("/in", "remove", "mine"),
            file("/in", "mkdir", "new"),
            to("/in", "symlink", "new", ("", "mine")),
            file("/in", "touch", "mine"),
            to("/in", "rename", "mine", ("/in", "moved")),
        ]),
    )
    .await;
    for result in &results {
        error(result);
    }
    let names: Vec<_> = fs::read_dir(lab.work().join("in")).expect("a folder").collect();
    assert_eq!(names.len(), 1);
    assert_eq!(fs::read_to_string(lab.work().join("in/mine")).expect("text"), "mine");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_moves_between_grants() {
    let (lab, host) = with_directories().await;
    let results = attack(
        &host,
        json!([
            to("/in", "link", "mine", ("/out", "linked")),
            to("/in", "rename", "mine", ("/out", "moved")),
            to("/out", "create", "made", ("", "made here")),
            to("/out", "link", "made", ("/in", "linked")),
            to("/out", "rename", "made", ("/in", "moved")),
        ]),
    )
    .await;
    for number in [0, 1, 3, 4] {
        error(&results[number]);
    }
    assert_eq!(results[2]["written"], 9);
    assert!(!lab.work().join("out/linked").exists() && !lab.work().join("in/linked").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn links_of_its_own_lead_nowhere() {
    let (_lab, host) = with_directories().await;
    let results = attack(
        &host,
        json!([
            to("/out", "symlink", "up", ("", "../outside/secret")),
            file("/out", "read", "up"),
            to("/out", "symlink", "root", ("", "/etc/passwd")),
            file("/out", "read", "root"),
            to("/out", "symlink", "in", ("", "../in")),
            to("/out", "create", "in/mine", ("", "theirs")),
        ]),
    )
    .await;
    for number in [1, 3, 5] {
        error(&results[number]);
    }
}

/// Somebody swaps a file for a link that leads out, again and again, while the guest opens it.
#[tokio::test(flavor = "multi_thread")]
async fn links_swapped_while_in_use() {
    let (lab, host) = with_directories().await;
    let stop = Arc::new(AtomicBool::new(false));
    let (folder, ended) = (lab.work().join("in"), Arc::clone(&stop));
    let swapping = std::thread::spawn(move || {
        let mut swaps = 0_u32;
        while !ended.load(Ordering::Relaxed) {
            let _ = fs::remove_file(folder.join("new"));
            if swaps.is_multiple_of(2) {
                symlink("../outside/secret", folder.join("new")).expect("a link");
            } else {
                fs::write(folder.join("new"), "mine").expect("written");
            }
            fs::rename(folder.join("new"), folder.join("mine")).expect("renamed");
            swaps += 1;
        }
        swaps
    });
    let step = json!({ "file": {
        "at": "/in", "do": "open-loop", "path": "mine", "follow": true, "times": 3_000,
    } });
    let results = attack(&host, json!([step])).await;
    stop.store(true, Ordering::Relaxed);
    let swaps = swapping.join().expect("it ends");
    let seen = results[0]["seen"].as_object().expect("what was seen");
    assert!(swaps > 10 && seen.contains_key("mine"), "{swaps} swaps, {seen:?}");
    assert!(!seen.contains_key("top secret"), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pipes_and_devices_hold_nobody() {
    let (lab, host) = with_directories().await;
    let pipe = lab.work().join("in/pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
    assert!(made.success());
    let socket = std::os::unix::net::UnixListener::bind(lab.work().join("in/socket"));
    let _socket = socket.expect("a socket");
    let mut steps = Vec::new();
    for _ in 0..40 {
        steps.push(file("/in", "read", "pipe"));
        steps.push(file("/in", "read", "socket"));
    }
    let results = attack(&host, json!(steps)).await;
    assert!(results.iter().all(|result| error(result) == "not-permitted"), "{results:?}");
    assert_eq!(
        attack(&host, json!([file("/in", "stat", "pipe")])).await[0]["type"],
        "DescriptorType::Unknown"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_systems_own_folders_are_not_granted() {
    for folder in ["/proc", "/proc/self", "/dev", "/sys", "/"] {
        let lab = lab(&format!("dirs = [\"{folder}=/x:ro\"]"));
        let host = host(&lab, &FixedNames::new(&[])).await;
        let statuses = host.loaded().await;
        let ready = statuses[0].state.as_ref().expect("it loads");
        assert!(ready.grants[0].contains("cannot be granted"), "{:?}", ready.grants);
        assert_eq!(attack(&host, json!(["directories"])).await[0], json!(["/", "."]));
    }
}

#[test]
fn the_hosts_own_state_is_not_granted() {
    let lab = lab("");
    let mut said = String::new();
    fs::create_dir_all(lab.home().join("state/kv")).expect("a folder");
    let home = lab.home().display().to_string();
    for grant in [
        format!("{home}:ro"),
        format!("{home}/state:ro"),
        format!("{home}/state/kv:ro"),
        format!("{home}/toolhost.toml:ro"),
        "/:ro".to_owned(),
        "plugins:rw".to_owned(),
        ".:rw".to_owned(),
    ] {
        let text = lab.run(&["grant", "hostile", "--dir", &grant]);
        said += text.split("stderr\n").last().unwrap_or_default();
    }
    expect![[r#"
        error: HOME cannot be granted: HOME contains HOME/toolhost.toml, which holds toolhost's configuration; grant a narrower directory
        error: HOME/state cannot be granted: it holds toolhost's state; grant a narrower directory
        error: HOME/state/kv cannot be granted: HOME/state/kv lies inside HOME/state, which holds toolhost's state; grant a narrower directory
        error: HOME/toolhost.toml cannot be granted: Not a directory (os error 20)
        error: / cannot be granted: / contains /proc, which holds what the system knows of processes, toolhost among them; grant another directory
        error: HOME/project/plugins cannot be granted: it holds plugins; grant a narrower directory, or grant `ro`
        error: HOME/project cannot be granted: HOME/project contains HOME/project/plugins, which holds plugins; grant a narrower directory, or grant `ro`
    "#]].assert_eq(&said);
}
