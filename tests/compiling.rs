//! Compiling in a process of its own: what it gives, and what hostile components do to it.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::json;
use toolhost::{Host, HostSettings};

use crate::support::{Lab, answer, guest, registering, script};

/// What became of `x.wasm`, compiled from nothing; with a proof that another plugin works.
async fn compiled(lab: &Lab, compiler: Option<&str>) -> String {
    let cache = Some(lab.home().join("cache"));
    let compiler = match compiler {
        Some(program) => Some(PathBuf::from(program)),
        None => lab.settings().compiler,
    };
    let host = Host::start(HostSettings { cache, compiler, ..lab.settings() }).expect("a host");
    let statuses = host.loaded().await;
    let status = statuses.iter().find(|status| status.path.ends_with("x.wasm"));
    match &status.expect("a status").state {
        Err(failed) => failed.reason.clone(),
        Ok(ready) => format!("loaded {}", ready.facts.name),
    }
}

async fn check(bytes: Vec<u8>, limits: &str, expected: &str) {
    let lab = Lab::new().config(&format!("[limits]\n{limits}")).with("x.wasm", bytes);
    let status = compiled(&lab, None).await;
    assert!(status.contains(expected), "{status}");
    assert!(!status.contains('\n') && status.len() < 600, "{status}");
    // The house stands.
    let other = Lab::new().with("json.wasm", guest("json"));
    let host = other.host().await;
    assert_eq!(
        answer(&host, "json_query", json!({ "filter": ".", "json": 1 })).await,
        r#"{"results":[1],"truncated":false}"#
    );
}

#[tokio::test]
async fn a_component_is_compiled_by_a_process_of_its_own() {
    check(registering("one first"), "", "loaded register").await;
}

#[tokio::test]
async fn without_a_program_the_host_compiles() {
    let lab = Lab::new().with("x.wasm", registering("one first"));
    let cache = Some(lab.home().join("cache"));
    let settings = HostSettings { cache, compiler: None, ..lab.settings() };
    let host = Host::start(settings).expect("a host");
    host.loaded().await;
    assert_eq!(answer(&host, "first", json!({})).await, r#"{"result":"first of one first"}"#);
}

#[tokio::test]
async fn a_program_that_is_no_compiler_is_named() {
    let lab = Lab::new().with("x.wasm", registering("one first"));
    for (program, expected) in [
        ("/nowhere/toolhost", "/nowhere/toolhost cannot be run"),
        ("/bin/false", "the compiler failed"),
        // Gives what it gets, which is no code.
        ("/bin/cat", "does not compile"),
        ("/bin/true", "does not compile"),
    ] {
        if program == "/nowhere/toolhost" || Path::new(program).exists() {
            let status = compiled(&lab, Some(program)).await;
            assert!(status.contains(expected), "{program}: {status}");
        }
    }
}

#[tokio::test]
async fn compile_cpu_time_max_violated() {
    let message = "it takes more than `compile_cpu_time_max` of 1s";
    check(script("words-py"), "compile_cpu_time_max = \"1s\"", message).await;
}

#[tokio::test]
async fn compile_memory_bytes_max_violated() {
    let message = "it takes more than `compile_memory_bytes_max` of 268435456 bytes";
    check(script("words-js"), "compile_memory_bytes_max = \"256 MiB\"", message).await;
}

#[tokio::test]
async fn compile_time_max_violated() {
    let message = "not done within `compile_time_max` of 1s";
    check(script("words-js"), "compile_time_max = \"1s\"", message).await;
}

const HOUR: Duration = Duration::from_secs(3_600);

/// The compiled components that are kept in a lab.
fn kept(lab: &Lab) -> Vec<PathBuf> {
    let entries = fs::read_dir(lab.home().join("cache")).expect("a folder");
    let mut kept: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    kept.sort();
    kept
}

fn age(path: &Path) -> Duration {
    let modified = fs::metadata(path).expect("a file").modified().expect("a time");
    SystemTime::now().duration_since(modified).unwrap_or_default()
}

fn make_old(path: &Path, age: Duration) {
    let file = File::options().append(true).open(path).expect("opened");
    file.set_modified(SystemTime::now() - age).expect("aged");
}

/// Loads another `x.wasm`; returns what was compiled for it, if it was compiled now.
async fn compiled_anew(lab: &Lab, mode: &str) -> Option<PathBuf> {
    let before = kept(lab);
    fs::write(lab.plugins().join("x.wasm"), registering(mode)).expect("written");
    assert_eq!(compiled(lab, None).await, "loaded register");
    kept(lab).into_iter().find(|path| !before.contains(path))
}

fn kept_lab() -> Lab {
    let lab = Lab::new();
    fs::create_dir(lab.home().join("cache")).expect("a folder");
    fs::set_permissions(lab.home().join("cache"), PermissionsExt::from_mode(0o700)).expect("ours");
    lab
}

#[tokio::test]
async fn cache_bytes_max_obeyed() {
    let lab = kept_lab();
    let one = compiled_anew(&lab, "one first").await.expect("compiled");
    let two = compiled_anew(&lab, "one second").await.expect("compiled");
    // What is used is remembered to be, once a day.
    make_old(&one, 48 * HOUR);
    make_old(&two, HOUR);
    assert_eq!(compiled_anew(&lab, "one first").await, None);
    assert_eq!(compiled_anew(&lab, "one second").await, None);
    assert!(age(&one) < HOUR && age(&two) >= HOUR, "{:?} {:?}", age(&one), age(&two));
    // However old, it stays as long as there is room.
    make_old(&one, 4_000 * HOUR);
    let three = compiled_anew(&lab, "one third").await.expect("compiled");
    let mut all = vec![one, two, three];
    all.sort();
    assert_eq!(kept(&lab), all);
}

#[tokio::test]
async fn cache_bytes_max_violated() {
    let lab = kept_lab();
    let limit = |bytes: u64| {
        let text = format!("[limits]\ncache_bytes_max = {bytes}");
        fs::write(lab.home().join("toolhost.toml"), text).expect("written");
    };
    let one = compiled_anew(&lab, "one first").await.expect("compiled");
    let two = compiled_anew(&lab, "one second").await.expect("compiled");
    let length = fs::metadata(&one).expect("a file").len();
    limit(2 * length + length / 2);
    make_old(&one, 30 * HOUR);
    make_old(&two, 20 * HOUR);
    // The first is used, so the second is what was not used for longest.
    assert_eq!(compiled_anew(&lab, "one first").await, None);
    // Another process writes one of these at this moment, and another was ended while it did.
    let (partly, left) = (lab.home().join("cache/.tmp1"), lab.home().join("cache/.tmp2"));
    fs::write(&partly, "").expect("written");
    fs::write(&left, "").expect("written");
    make_old(&left, 2 * HOUR);
    let three = compiled_anew(&lab, "one third").await.expect("compiled");
    let mut left_over = vec![partly, one, three];
    left_over.sort();
    assert_eq!(kept(&lab), left_over);
    // What was just stored stays, so that the next start finds it.
    limit(0);
    let four = compiled_anew(&lab, "one fourth").await.expect("compiled");
    assert_eq!(kept(&lab), [lab.home().join("cache/.tmp1"), four]);
    assert_eq!(compiled_anew(&lab, "one fourth").await, None);
}
