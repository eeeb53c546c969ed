//! Compiling in a process of its own: what it gives, and what hostile components do to it.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use futures_util::FutureExt;
use serde_json::json;
use toolhost::{Host, HostSettings};
use toolhost_core::tool::Origin;
use toolhost_sources::folder::Folder;

use crate::support::{Lab, answer, bundled, guest, registering, script};

/// What became of `x.wasm`, compiled from nothing; with a proof that another plugin works.
async fn compiled(lab: &Lab, compiler: Option<&str>) -> String {
    let cache = Some(lab.home().join("cache"));
    let compiler = match compiler {
        Some(program) => Some(PathBuf::from(program)),
        None => lab.settings().compiler,
    };
    // What lies in a stranger's project has a cache of its own: see `strangers`.
    let folders = vec![Folder { path: lab.plugins(), origin: Origin::User }];
    let settings = HostSettings { cache, compiler, folders, ..lab.settings() };
    let host = Host::start(settings).expect("a host");
    let statuses = host.loaded().await;
    let status = statuses.iter().find(|status| status.location.ends_with("x.wasm"));
    match &status.expect("a status").state {
        Err(failed) => failed.to_string(),
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

#[tokio::test]
async fn code_bytes_max_violated() {
    let message = "its code has more than `code_bytes_max` of 1048576 bytes; raise that";
    check(guest("json"), "code_bytes_max = \"1 MiB\"", message).await;
    // The same where the host compiles.
    let limit = "[limits]\ncode_bytes_max = \"1 MiB\"";
    let lab = Lab::new().config(limit).with("x.wasm", guest("json"));
    let settings =
        HostSettings { cache: Some(lab.home().join("cache")), compiler: None, ..lab.settings() };
    let statuses = Host::start(settings).expect("a host").loaded().await;
    let failed = statuses[0].state.as_ref().expect_err("too large");
    assert!(failed.to_string().contains(message), "{failed}");
}

#[tokio::test]
async fn what_is_in_use_is_not_evicted_by_its_equals() {
    let lab = kept_lab();
    let modes = ["one first", "one second", "one third", "one fourth"];
    for mode in modes {
        fs::write(lab.plugins().join(format!("{}.wasm", &mode[4..])), registering(mode))
            .expect("written");
    }
    compiled_all(&lab).await;
    let length = fs::metadata(&kept(&lab)[0]).expect("a file").len();
    for path in kept(&lab) {
        fs::remove_file(path).expect("removed");
    }
    let limit = format!("[limits]\ncache_bytes_max = {}", 2 * length + length / 2);
    fs::write(lab.home().join("toolhost.toml"), limit).expect("written");
    compiled_all(&lab).await;
    let before = kept(&lab);
    assert_eq!(before.len(), 2);
    // Otherwise each start would compile everything, and evict what it needs next.
    compiled_all(&lab).await;
    assert_eq!(kept(&lab), before);
}

/// Loads whatever lies in a lab.
async fn compiled_all(lab: &Lab) {
    let folders = vec![Folder { path: lab.plugins(), origin: Origin::User }];
    let cache = Some(lab.home().join("cache"));
    let settings = HostSettings { cache, folders, ..lab.settings() };
    let host = Host::start(settings).expect("a host");
    assert!(host.loaded().await.iter().all(|status| status.state.is_ok()));
}

const HOUR: Duration = Duration::from_secs(3_600);

/// The compiled components that are kept in a lab.
fn kept(lab: &Lab) -> Vec<PathBuf> {
    let entries = fs::read_dir(lab.home().join("cache")).expect("a folder");
    let mut kept: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    kept.retain(|path| !path.is_dir());
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

#[tokio::test]
async fn a_component_is_compiled_once_for_all_processes() {
    let lab = kept_lab().with("x.wasm", registering("one first"));
    let (compiler, runs) = (lab.home().join("compiler"), lab.home().join("runs"));
    let real = lab.settings().compiler.expect("a compiler");
    let script =
        format!("#!/bin/sh\necho run >> '{}'\nexec '{}' \"$@\"\n", runs.display(), real.display());
    fs::write(&compiler, script).expect("written");
    fs::set_permissions(&compiler, PermissionsExt::from_mode(0o700)).expect("runs");
    // Each host has the file open for itself, as processes have.
    let start = || compiled(&lab, compiler.to_str());
    let all = tokio::join!(start(), start(), start(), start());
    let loaded = "loaded register".to_owned();
    assert_eq!(all, (loaded.clone(), loaded.clone(), loaded.clone(), loaded));
    assert_eq!(fs::read_to_string(&runs).expect("runs"), "run\n");
    // What was left of the turns is one component and nothing else.
    assert_eq!(kept(&lab).len(), 1, "{:?}", kept(&lab));
}

#[tokio::test]
async fn who_waits_for_a_compiler_that_fails_tries_again() {
    let lab = kept_lab().with("x.wasm", registering("one first"));
    let [failed, loaded] = [Some("/bin/false"), None].map(|compiler| compiled(&lab, compiler));
    let (failed, loaded) = tokio::join!(failed, loaded);
    assert_eq!(loaded, "loaded register");
    // Whichever was first.
    assert!(failed == loaded || failed.contains("the compiler failed"), "{failed}");
}

#[test]
fn a_compiler_ends_when_nobody_reads_its_code() {
    let mut compiler = Command::new(env!("CARGO_BIN_EXE_toolhost"))
        .arg("compile-component")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    // Its limits come first; then it would wait for the component for ever.
    let settings: [u64; 6] = [512 << 10, 60, 2 << 30, 0, 0, 1 << 20];
    let mut stdin = compiler.stdin.take().expect("a pipe");
    stdin.write_all(&settings.map(u64::to_le_bytes).concat()).expect("written");
    drop(compiler.stdout.take());
    assert_eq!(compiler.wait().expect("it ends").code(), Some(3));
    drop(stdin);
}

#[tokio::test]
async fn what_was_registered_before_is_listed_while_it_is_compiled() {
    let lab = kept_lab().with("x.wasm", registering("one first"));
    assert_eq!(compiled(&lab, None).await, "loaded register");
    kept(&lab).iter().for_each(|path| fs::remove_file(path).expect("removed"));
    let (compiler, go) = (lab.home().join("compiler"), lab.home().join("go"));
    let real = lab.settings().compiler.expect("a compiler");
    let script = format!(
        "#!/bin/sh\nwhile [ ! -e '{}' ]; do sleep 0.1; done\nexec '{}' \"$@\"\n",
        go.display(),
        real.display()
    );
    fs::write(&compiler, script).expect("written");
    fs::set_permissions(&compiler, PermissionsExt::from_mode(0o700)).expect("runs");
    let folders = vec![Folder { path: lab.plugins(), origin: Origin::User }];
    let cache = Some(lab.home().join("cache"));
    let settings = || HostSettings {
        cache: cache.clone(),
        compiler: Some(compiler.clone()),
        folders: folders.clone(),
        ..lab.settings()
    };
    let host = Host::start(settings()).expect("a host");
    let statuses = host.listed().await;
    assert!(statuses.iter().all(|status| status.loading), "{statuses:?}");
    host.started().await;
    assert!(host.catalog().find("first").is_some());
    // Calls wait; and whoever does not is told.
    assert_eq!(host.ready_for("first").now_or_never(), None);
    assert_eq!(host.arrived("first").now_or_never(), None);
    assert_eq!(
        answer(&host, "first", json!({})).await,
        r#"{"error":"its plugin is being loaded; call it again in a moment","code":"unavailable"}"#
    );
    fs::write(&go, "").expect("written");
    host.arrived("first").await;
    assert_eq!(answer(&host, "first", json!({})).await, r#"{"result":"first of one first"}"#);
    drop(host);

    // Other bytes are none that were seen before.
    kept(&lab).iter().for_each(|path| fs::remove_file(path).expect("removed"));
    fs::remove_file(&go).expect("removed");
    fs::write(lab.plugins().join("x.wasm"), registering("one second")).expect("written");
    let host = Host::start(settings()).expect("a host");
    host.compiling().wait_for(|compiling| !compiling.is_empty()).await.expect("compiled");
    assert!(host.catalog().find("first").is_none());
    assert_eq!(host.listed().now_or_never(), None);
    fs::write(&go, "").expect("written");
    host.listed().await;
    assert!(host.catalog().find("second").is_some());
}

#[tokio::test]
async fn a_call_compiles_what_is_recorded_to_have_its_tool_and_nothing_else() {
    let lab = kept_lab()
        .with("x.wasm", registering("one first"))
        .with("a.wasm", registering("one another"));
    for (id, mode) in [("x", "one first"), ("a", "one another")] {
        bundled(&lab, id, &registering(mode));
    }
    assert_eq!(compiled(&lab, None).await, "loaded register");
    kept(&lab).iter().for_each(|path| fs::remove_file(path).expect("removed"));
    // Nothing else is remembered, as in another home.
    fs::remove_file(lab.home().join("state").join(toolhost_state::trust_store::LOCK))
        .expect("removed");
    let settings = HostSettings {
        folders: vec![Folder { path: lab.plugins(), origin: Origin::User }],
        cache: Some(lab.home().join("cache")),
        first: Some("first".to_owned()),
        ..lab.settings()
    };
    let host = Host::start(settings).expect("a host");
    host.ready_for("first").await;
    assert_eq!(answer(&host, "first", json!({})).await, r#"{"result":"first of one first"}"#);
    assert_eq!(kept(&lab).len(), 1, "{:?}", kept(&lab));
}

#[tokio::test]
async fn nothing_is_listed_of_strangers_before_it_is_compiled() {
    let lab = kept_lab().with("x.wasm", registering("one first"));
    let settings = HostSettings { cache: Some(lab.home().join("cache")), ..lab.settings() };
    Host::start(settings.clone()).expect("a host").loaded().await;
    fs::remove_dir_all(lab.home().join("cache/untrusted")).expect("removed");
    let host = Host::start(settings).expect("a host");
    let mut compiling = host.compiling();
    compiling.wait_for(|compiling| !compiling.is_empty()).await.expect("compiled");
    assert!(host.catalog().find("first").is_none());
    host.loaded().await;
    assert!(host.catalog().find("first").is_some());
}
