//! A call with a fresh instance: through the library, with a grant, in three languages, and
//! beside endless loops.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use toolhost::{Host, HostSettings};
use toolhost_core::tool::{Call, Origin};
use toolhost_policy::capability::Variables;
use toolhost_sources::folder::Folder;
use toolhost_state::config;
use toolhost_state::config::Config;
use toolhost_state::trust_store::{self, Pin};
use toolhost_wasm::digest;

use crate::bare::Bare;
use crate::guests::Guests;
use crate::sessions;
use crate::table::{Table, in_turns, time};

pub(crate) const ARGUMENTS: &str =
    r#"{"text": "a text of some length, so that the arguments have 75 bytes."}"#;

async fn call(host: &Host, tool: &str, arguments: &str, dirs: &[String]) {
    let call = Call { dirs: dirs.to_vec(), ..Call::new(tool, arguments) };
    let outcome = host.call(call).await;
    // The directory that is looked for is not there; all else must work.
    assert!(outcome.result.is_ok() || tool == "look", "{outcome:?}");
}

pub(crate) async fn run(table: &mut Table, guests: &Guests) -> Arc<Host> {
    let folder = Folder { path: guests.folder(), origin: Origin::Project };
    let settings = HostSettings { folders: vec![folder], ..HostSettings::default() };
    let host = Arc::new(Host::start(settings).expect("a host"));
    host.loaded().await;

    let bare = Bare::new();
    let ready = bare.compile(&guests.component("probe"));
    let (mut alone, mut library) = in_turns(
        400,
        50,
        async || ready.call("echo", ARGUMENTS).await,
        async || call(&host, "echo", ARGUMENTS, &[]).await,
    )
    .await;
    let alone = table.row("call: wasmtime alone", &mut alone, None);
    let library = table.row("call: through the library", &mut library, Some((alone, 1.25)));
    sessions::run(table, guests, library).await;

    with_a_directory(table, guests, &host).await;
    with_unused_grants(table, guests).await;

    let mut rust = Vec::new();
    for _ in 0..200 {
        rust.push(time(20, async || call(&host, "count_words", ARGUMENTS, &[]).await).await);
    }
    let rust = table.row("count_words in Rust", &mut rust, None);
    for (name, tool) in [("Python", "count_words_py"), ("JavaScript", "count_words_js")] {
        let mut times = Vec::new();
        for _ in 0..300 {
            times.push(time(1, async || call(&host, tool, ARGUMENTS, &[]).await).await);
        }
        table.row(&format!("count_words in {name}"), &mut times, Some((rust, f64::INFINITY)));
    }
    beside_loops(table, &host).await;
    host
}

/// The same call by a tool that holds a directory; then one that is given it for this call alone,
/// and one that looks into it.
async fn with_a_directory(table: &mut Table, guests: &Guests, host: &Host) {
    let home = tempfile::tempdir().expect("a folder");
    let dirs = format!("dirs = [\"{}=/data:ro\"]", home.path().display());
    let granted = granted(guests, "probe", &dirs, home.path());
    granted.loaded().await;
    // Not in the directory, so that no file system is asked.
    let elsewhere = r#"{"text": "/elsewhere"}"#;
    let dirs = [format!("{}=/data:ro", home.path().display())];
    let (mut without, mut with) = in_turns(
        200,
        50,
        async || call(host, "look", elsewhere, &[]).await,
        async || call(&granted, "look", elsewhere, &[]).await,
    )
    .await;
    let without = table.row("call: without a directory", &mut without, None);
    table.row("call: with one directory grant", &mut with, Some((without, 2.0)));
    let (mut once, mut inside) = in_turns(
        100,
        50,
        async || call(host, "look", elsewhere, &dirs).await,
        async || call(&granted, "look", r#"{"text": "/data/none"}"#, &[]).await,
    )
    .await;
    let free = Some((without, f64::INFINITY));
    table.row("call: a directory for this call alone", &mut once, free);
    table.row("call: looks into its directory", &mut inside, free);
}

/// The same call by a plugin that may send requests, see variables and keep things, and does
/// none of that; against one that was granted nothing.
async fn with_unused_grants(table: &mut Table, guests: &Guests) {
    let (bare, home) =
        (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let nothing = granted(guests, "hostile", "", bare.path());
    let everything = "http = [\"https://api.example.com\"]\nenv = [\"GIVEN\"]\nkv = true\n";
    let everything = granted(guests, "hostile", everything, home.path());
    nothing.loaded().await;
    everything.loaded().await;
    let (mut without, mut with) = in_turns(
        200,
        50,
        async || call(&nothing, "attack", r#"{"steps": []}"#, &[]).await,
        async || call(&everything, "attack", r#"{"steps": []}"#, &[]).await,
    )
    .await;
    let without = table.row("call: without a grant", &mut without, None);
    table.row("call: with http, env and kv, unused", &mut with, Some((without, 1.2)));
}

/// A host that grants this to a guest.
fn granted(guests: &Guests, id: &str, grants: &str, home: &Path) -> Host {
    let plugins = guests.folder().canonicalize().expect("a folder");
    let pin = Pin {
        folder: plugins.clone(),
        id: id.to_owned(),
        digest: digest(&guests.component(id)).to_string(),
    };
    trust_store::pin(home, &pin).expect("pinned");
    let config = config::parse(&format!("[plugins.{id}]\n{grants}"), &Config::default())
        .expect("a configuration");
    let folder = Folder { path: plugins, origin: Origin::Project };
    let state = Some(home.to_owned());
    let value = ("GIVEN".to_owned(), "a value".to_owned());
    let variables = Variables([value].into());
    let settings =
        HostSettings { folders: vec![folder], config, state, variables, ..HostSettings::default() };
    Host::start(settings).expect("a host")
}

/// Two endless loops on two cores: every other tool still answers.
async fn beside_loops(table: &mut Table, host: &Arc<Host>) {
    let loops: Vec<_> = (0..2)
        .map(|_| {
            let host = Arc::clone(host);
            tokio::spawn(async move { host.call(Call::new("spin", "{}")).await })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let mut times = Vec::new();
    for _ in 0..500 {
        let start = Instant::now();
        let host = Arc::clone(host);
        // As a server would: each call is a task of its own.
        tokio::spawn(async move { call(&host, "echo", ARGUMENTS, &[]).await })
            .await
            .expect("a call");
        times.push(start.elapsed());
    }
    table.row_within("call: beside two endless loops", &mut times, Duration::from_millis(20));
    loops.iter().for_each(tokio::task::JoinHandle::abort);
}
