//! What plugins cost that lie in a project which nobody has trusted: each folder has its own account,
//! its own cache and its own turns, so that nobody else pays or waits.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use toolhost::{Host, HostSettings};
use toolhost_core::tool::Origin;
use toolhost_sources::folder::Folder;
use toolhost_sources::reload::SourceStatus;
use toolhost_state::read::ReadScope;

use crate::sandbox::hostile::by_hand::{ByHand, PATIENCE};
use crate::support::{Lab, answer, guest, made, registering, script};

/// A lab with a folder of the user's own beside the project's.
fn lab() -> Lab {
    let lab = Lab::new();
    fs::create_dir(lab.home().join("mine")).expect("a folder");
    lab
}

fn mine(lab: &Lab, name: &str, bytes: &[u8]) {
    fs::write(lab.home().join("mine").join(name), bytes).expect("written");
}

/// The settings of a host on both folders, with a cache that is empty at first.
fn settings(lab: &Lab) -> HostSettings {
    let mut settings = lab.settings();
    settings.folders.insert(0, Folder { path: lab.home().join("mine"), origin: Origin::User });
    HostSettings { cache: Some(lab.home().join("cache")), ..settings }
}

async fn statuses(lab: &Lab) -> Vec<SourceStatus> {
    let host = Host::start(settings(lab)).expect("a host");
    host.loaded().await.to_vec()
}

/// Why files did not load, by name.
fn refused(statuses: &[SourceStatus]) -> Vec<(String, String)> {
    let why = |status: &SourceStatus| {
        let name = status.location.short();
        Some((name, status.state.as_ref().err()?.to_string()))
    };
    statuses.iter().filter_map(why).collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.is_file()).collect();
    files.sort();
    files
}

#[tokio::test]
async fn untrusted_cache_bytes_max() {
    let lab = lab().with("x.wasm", registering("one first"));
    mine(&lab, "y.wasm", &registering("one mine"));
    assert_eq!(refused(&statuses(&lab).await), []);
    let (own, strangers) = (lab.home().join("cache"), lab.home().join("cache/untrusted"));
    let of_user = files(&own);
    assert_eq!((of_user.len(), files(&strangers).len()), (1, 1));
    let length = fs::metadata(&of_user[0]).expect("a file").len();
    // Neither takes room of the other.
    let limits = format!(
        "[limits]\ncache_bytes_max = {length}\nuntrusted_cache_bytes_max = {}",
        2 * length + length / 2
    );
    let lab = lab.config(&limits);
    for mode in ["one second", "one third", "one fourth"] {
        fs::write(lab.plugins().join("x.wasm"), registering(mode)).expect("written");
        assert_eq!(refused(&statuses(&lab).await), []);
        assert_eq!((files(&own), files(&strangers).len()), (of_user.clone(), 2));
    }
    // What is trusted is no stranger's any more.
    let before = files(&strangers).len();
    let lab = lab.granted("x", registering("one fourth")).config("");
    assert_eq!(refused(&statuses(&lab).await), []);
    assert_eq!((files(&own).len(), files(&strangers).len()), (2, before - 1));
}

/// With a limit under which only one of two components loads: which did not, and why; that it is the
/// stranger's; and that the user's own two load under the same limit.
async fn one_of_two(limit: &str, value: u64) {
    let (first, second) = (registering("one first"), registering("one second"));
    let config = format!("[limits]\n{limit} = {value}");
    let lab = lab().config(&config).with("a.wasm", &first).with("b.wasm", &second);
    mine(&lab, "c.wasm", &registering("one third"));
    mine(&lab, "d.wasm", &registering("one fourth"));
    let refused = refused(&statuses(&lab).await);
    assert_eq!(refused.len(), 1, "{refused:?}");
    let (name, reason) = &refused[0];
    assert!(name == "a.wasm" || name == "b.wasm", "{name}");
    let expected = format!(
        "the plugins of this folder, in a project that nobody has trusted, have used up `{limit}` of {value} bytes; remove some, or trust the project with `toolhost trust`"
    );
    assert_eq!(*reason, expected);
    // Bytes that a person has trusted are on nobody's account.
    let lab = lab.granted("a", first).granted("b", second).config(&config);
    assert_eq!(self::refused(&statuses(&lab).await), []);
}

#[tokio::test]
async fn untrusted_bytes_max() {
    let length = registering("one first").len() as u64;
    one_of_two("untrusted_bytes_max", length + length / 2).await;
}

/// What is read of a schema takes many times the memory of its text.
#[tokio::test]
async fn schemas_of_strangers_count_as_the_memory_they_take() {
    let properties: serde_json::Map<String, Value> =
        (0..400).map(|n| (format!("p{n}"), json!({ "enum": [1, 2] }))).collect();
    let parameters = json!({ "type": "object", "properties": properties });
    let tool = json!({ "name": "t", "parameters": parameters });
    let bytes = made(&json!({ "tools": [tool] }));
    let room = bytes.len() + 4 * parameters.to_string().len();
    let config = format!("[limits]\nuntrusted_bytes_max = {room}");
    let lab = lab().config(&config).with("x.wasm", &bytes);
    mine(&lab, "y.wasm", &made(&json!({ "tools": [{ "name": "u", "parameters": parameters }] })));
    let refused = refused(&statuses(&lab).await);
    assert_eq!(refused.len(), 1, "{refused:?}");
    let expected = format!("have used up `untrusted_bytes_max` of {room} bytes");
    assert!(refused[0].0 == "x.wasm" && refused[0].1.contains(&expected), "{refused:?}");
    let lab = lab.config(&format!("[limits]\nuntrusted_bytes_max = {}", 100 * room));
    assert_eq!(self::refused(&statuses(&lab).await), []);
}

#[tokio::test]
async fn untrusted_code_bytes_max() {
    let lab = lab().with("x.wasm", registering("one first"));
    assert_eq!(refused(&statuses(&lab).await), []);
    let kept = files(&lab.home().join("cache/untrusted"));
    let length = fs::metadata(&kept[0]).expect("a file").len();
    one_of_two("untrusted_code_bytes_max", length + length / 2).await;
}

#[tokio::test]
async fn untrusted_compile_time_max_violated() {
    let lab = lab()
        .config("[limits]\nuntrusted_compile_time_max = \"1s\"")
        .with("large.wasm", script("words-py"));
    mine(&lab, "y.wasm", &registering("one mine"));
    let refused = refused(&statuses(&lab).await);
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert!(
        refused[0].1.contains("have used up `untrusted_compile_time_max` of 1s"),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn untrusted_register_time_max() {
    let looping = |number: usize| ByHand {
        register: format!("(drop (i32.const {number})) (loop $ever (br $ever))"),
        ..ByHand::default()
    };
    let mut lab = lab().config("[limits]\nuntrusted_register_time_max = \"1ms\"");
    for number in 0..24 {
        lab = lab.with(&format!("loop{number}.wasm"), looping(number).build());
    }
    let lab = lab.with("z.wasm", ByHand::default().build());
    mine(&lab, "y.wasm", &registering("one mine"));
    let refused = refused(&statuses(&lab).await);
    assert_eq!(refused.len(), 24, "{refused:?}");
    for (name, reason) in refused {
        assert!(name.starts_with("loop"), "{name}: {reason}");
        assert!(reason.contains("have used up `untrusted_register_time_max` of 1ms"), "{reason}");
    }
}

/// After 25 that were stopped, the others are not tried, and it is said which.
#[tokio::test(flavor = "multi_thread")]
async fn many_loops_in_register_take_no_longer_than_some() {
    let looping = |number: usize| ByHand {
        register: format!("(drop (i32.const {number})) (loop $ever (br $ever))"),
        ..ByHand::default()
    };
    let mut lab =
        lab().config("[limits]\nregister_time_max = \"1s\"\nuntrusted_register_time_max = \"1ms\"");
    for number in 0..80 {
        lab = lab.with(&format!("loop{number}.wasm"), looping(number).build());
    }
    let refused = refused(&statuses(&lab).await);
    assert_eq!(refused.len(), 80, "{refused:?}");
    let not_tried = |(_, reason): &&(String, String)| {
        reason.starts_with("not tried: ")
            && reason.ends_with("trust this file with `toolhost trust`")
    };
    // Some are under way at the same time.
    assert!(refused.iter().filter(not_tried).count() >= 30, "{refused:?}");
}

/// Plugins of a stranger that loop when they register keep nobody waiting but those of their folder.
#[tokio::test(flavor = "multi_thread")]
async fn loops_in_register_take_nobodys_place() {
    let looping = |number: usize| ByHand {
        register: format!("(drop (i32.const {number})) (loop $ever (br $ever))"),
        ..ByHand::default()
    };
    let mut lab = lab().config("[limits]\nregister_time_max = \"2s\"");
    for number in 0..100 {
        lab = lab.with(&format!("loop{number}.wasm"), looping(number).build());
    }
    mine(&lab, "y.wasm", &registering("one mine"));
    let host = Host::start(settings(&lab)).expect("a host");
    let refused = refused(&host.loaded().await);
    assert_eq!(refused.len(), 100, "{refused:?}");
    let is_known = |reason: &str| {
        reason.starts_with("`register` did not return within `register_time_max` of 2s")
            || reason.contains("`untrusted_register_time_max`")
    };
    assert!(refused.iter().all(|(_, reason)| is_known(reason)), "{refused:?}");
    assert_eq!(answer(&host, "mine", json!({})).await, r#"{"result":"mine of one mine"}"#);
}

/// A program that never ends, in place of the compiler.
fn stuck(lab: &Lab) -> PathBuf {
    let path = lab.home().join("stuck");
    fs::write(&path, "#!/bin/sh\nexec sleep 1000\n").expect("written");
    fs::set_permissions(&path, PermissionsExt::from_mode(0o700)).expect("to be run");
    path
}

/// Tells whether a call of `first` can be made, though nothing can be compiled any more.
async fn is_ready(lab: &Lab, once: bool, patience: Duration) -> bool {
    let first = Some("first".to_owned());
    let settings = HostSettings { compiler: Some(stuck(lab)), once, first, ..settings(lab) };
    let host = Host::start(settings).expect("a host");
    if tokio::time::timeout(patience, host.ready_for("first")).await.is_err() {
        return false;
    }
    let answer = answer(&host, "first", json!({})).await;
    assert_eq!(answer, r#"{"result":"first of one first"}"#);
    true
}

#[tokio::test]
async fn a_call_waits_for_nothing_that_it_does_not_need() {
    for once in [true, false] {
        // What is the user's own is compiled and known.
        let lab = lab();
        mine(&lab, "x.wasm", &registering("one first"));
        mine(&lab, "other.wasm", &registering("one other"));
        assert_eq!(refused(&statuses(&lab).await), []);
        // Then a project comes, with much to compile; one of it is called first by its name.
        let lab = lab.with("a.wasm", registering("one second"));
        let lab = lab.with("first.wasm", registering("one third"));
        assert!(is_ready(&lab, once, PATIENCE).await, "{once}");
        // And without anything that is remembered, the user's own come first all the same.
        fs::remove_dir_all(lab.home().join("state")).expect("removed");
        assert!(is_ready(&lab, once, PATIENCE).await, "{once}");
    }
}

#[tokio::test]
async fn within_a_project_the_recorded_owner_waits_for_none_that_came_later() {
    for once in [true, false] {
        let lab = lab().with("x.wasm", registering("one first"));
        assert_eq!(refused(&statuses(&lab).await), []);
        let lab = lab.with("a.wasm", registering("one second"));
        assert!(is_ready(&lab, once, PATIENCE).await, "{once}");
    }
}

#[tokio::test]
async fn a_call_waits_for_who_would_have_the_name_first_and_for_guards() {
    const SHORT: Duration = Duration::from_millis(300);
    for once in [true, false] {
        let lab = lab().with("x.wasm", registering("one first"));
        assert_eq!(refused(&statuses(&lab).await), []);
        // Nobody knows yet what it has.
        mine(&lab, "new.wasm", &registering("one second"));
        assert!(!is_ready(&lab, once, SHORT).await, "{once}");
        fs::remove_file(lab.home().join("mine/new.wasm")).expect("removed");
        assert!(is_ready(&lab, once, PATIENCE).await, "{once}");
        // A guard of this tool, and one of another.
        let config = lab.home().join("toolhost.toml");
        let guard = |tool: &str| {
            let grant = format!("[plugins.guard]\nhooks = [\"pre-call:{tool}\"]\n");
            fs::write(&config, grant).expect("written");
        };
        mine(&lab, "guard.wasm", &registering("one third"));
        guard("fir*");
        assert!(!is_ready(&lab, once, SHORT).await, "{once}");
        fs::remove_file(lab.home().join("mine/guard.wasm")).expect("removed");
        let lab = lab.with("guard.wasm", registering("one third"));
        guard("other");
        assert!(is_ready(&lab, once, PATIENCE).await, "{once}");
    }
}

/// A tool that nobody is known to have is called as soon as it is there, whatever is compiled beside
/// it for a plugin that comes after it.
#[tokio::test]
async fn a_call_in_a_new_home_waits_for_none_that_comes_later() {
    let lab = lab();
    mine(&lab, "x.wasm", &registering("one first"));
    assert_eq!(refused(&statuses(&lab).await), []);
    fs::remove_dir_all(lab.home().join("state")).expect("removed");
    mine(&lab, "zz.wasm", &registering("one second"));
    assert!(is_ready(&lab, true, PATIENCE).await);
}

/// The program does the same: it loads what the call needs and leaves the rest.
#[tokio::test]
async fn the_program_calls_without_what_is_not_needed() {
    let lab = Lab::new().with("json.wasm", guest("json")).with("x.wasm", registering("one first"));
    lab.record_bundled("json");
    let whole = lab.run(&["call", "json_query", r#"{"filter": ".", "json": 1}"#]);
    assert!(whole.starts_with("exit 0"), "{whole}");
    lab.run(&["list"]);
    // It would be a broken plugin; but it is not even looked at.
    fs::write(lab.plugins().join("x.wasm"), "broken").expect("written");
    assert_eq!(lab.run(&["call", "json_query", r#"{"filter": ".", "json": 1}"#]), whole);
    let unknown = lab.run(&["call", "first", "{}"]);
    assert!(unknown.starts_with("exit 0"), "the kept build serves: {unknown}");
}

/// Guests wait for a place in the pool as long as there are others: none is refused one.
#[tokio::test(flavor = "multi_thread")]
async fn a_place_is_free_when_its_guest_is_gone() {
    use std::sync::Arc;
    use std::time::Instant;
    use toolhost_core::limits::Limits;
    use toolhost_core::tool::{Caller, Invocation, Meter, PluginId};
    use toolhost_wasm::{Candidate, Loader};

    let lab = Lab::new().with("x.wasm", registering("one first"));
    let limits = Arc::new(Limits::default());
    let egress = toolhost_egress::Egress::new(Default::default(), &limits).expect("egress");
    let loader = Loader::new(limits, 1, egress).expect("a loader");
    let id = PluginId::from_stem("x").expect("an id");
    let path = lab.plugins().join("x.wasm");
    let candidate = Candidate { id, folder: lab.plugins(), path, place: ReadScope::Own };
    let loaded = loader.load(&candidate, &Arc::default()).await.expect("loaded");
    let mut calls = JoinSet::new();
    for _ in 0..2_000 {
        let tool = Arc::clone(&loaded.registration.tools[0]);
        calls.spawn(async move {
            let invocation = Invocation {
                arguments: "{}",
                caller: &Caller::default(),
                deadline: Instant::now() + PATIENCE,
                meter: Arc::new(Meter::default()),
                progress: None,
                dirs: &[],
                kept: None,
            };
            tool.call(invocation).await.map(|_| ())
        });
    }
    for answer in calls.join_all().await {
        assert_eq!(answer, Ok(()));
    }
}

/// Many plugins without any malice: all of them load, and answer.
#[tokio::test(flavor = "multi_thread")]
async fn many_harmless_plugins_load() {
    const COMPONENTS: usize = 150;
    const SCRIPTS: usize = 20;
    let mut lab = Lab::new();
    for number in 0..COMPONENTS {
        let fields = format!("(data (i32.const 4096) \"{number}\")");
        let plugin = ByHand { fields, tool: Some(format!("t{number:05}")), ..ByHand::default() };
        lab = lab.with(&format!("c{number}.wasm"), plugin.build());
    }
    for number in 0..SCRIPTS {
        let text = format!(
            "from toolhost import tool\n\n@tool()\ndef s{number}() -> str:\n    \"\"\"Says who it is.\"\"\"\n    return \"{number}\"\n"
        );
        lab = lab.with(&format!("s{number}.py"), text);
    }
    let host = lab.host().await;
    let statuses = host.loaded().await;
    assert_eq!(refused(&statuses), []);
    assert_eq!(statuses.len(), COMPONENTS + SCRIPTS);
    for number in [0, COMPONENTS - 1] {
        let answer = answer(&host, &format!("t{number:05}"), json!({})).await;
        assert_eq!(answer, r#"{"content":[]}"#);
    }
    let said: Value = serde_json::from_str(&answer(&host, "s7", json!({})).await).expect("JSON");
    assert_eq!(said["result"], "7");
}
