//! The store of a plugin: through the store alone, and by a guest.

use std::sync::Arc;
use std::time::{Duration, Instant};

use toolhost::{Host, HostSettings};
use toolhost_core::tool::{Call, Origin};
use toolhost_sources::folder::Folder;
use toolhost_state::config;
use toolhost_state::config::Config;
use toolhost_state::store::Stores;
use toolhost_state::trust_store::{self, Pin};
use toolhost_wasm::digest;

use crate::guests::Guests;
use crate::table::Table;

/// Operations in one measurement.
const GETS: u32 = 1_000;

pub(crate) async fn run(table: &mut Table, guests: &Guests) {
    let state = tempfile::tempdir().expect("a folder");
    let plugins = guests.folder().canonicalize().expect("a folder");
    let kv = Stores::new(Some(state.path().to_owned()), Arc::default()).of(&plugins, "keeper");
    kv.set("", "read", vec![b'x'; 100]).await.expect("set");

    let mut gets = Vec::new();
    for _ in 0..200 {
        let start = Instant::now();
        for _ in 0..GETS {
            assert!(kv.get("", "read").await.expect("a store").is_some());
        }
        gets.push(start.elapsed() / GETS);
    }
    table.row_within("kv: get of 100 bytes", &mut gets, Duration::from_micros(20));

    let mut sets = Vec::new();
    for _ in 0..300 {
        let start = Instant::now();
        kv.set("", "written", vec![b'x'; 100]).await.expect("set");
        sets.push(start.elapsed());
    }
    table.row("kv: set of 100 bytes, on disk", &mut sets, None);

    let digest = digest(&guests.component("keeper")).to_string();
    let pin = Pin { folder: plugins.clone(), id: "keeper".to_owned(), digest };
    trust_store::pin(state.path(), &pin).expect("pinned");
    let config = config::parse("[plugins.keeper]\nkv = true", &Config::default());
    let settings = HostSettings {
        folders: vec![Folder { path: plugins, origin: Origin::Project }],
        config: config.expect("a configuration"),
        state: Some(state.path().to_owned()),
        ..HostSettings::default()
    };
    let host = Host::start(settings).expect("a host");
    host.loaded().await;
    let mut gets = Vec::new();
    for _ in 0..200 {
        let start = Instant::now();
        let outcome = host.call(Call::new("read_often", format!("{{\"n\": {GETS}}}"))).await;
        assert!(outcome.result.is_ok(), "{outcome:?}");
        gets.push(start.elapsed() / GETS);
    }
    table.row_within(
        "kv: get by a guest, of 1000 in one call",
        &mut gets,
        Duration::from_micros(40),
    );
}
