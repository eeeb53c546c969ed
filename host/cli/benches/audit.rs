//! What the audit log costs a call: the same call with it off and on, in turns.

use std::sync::atomic::{AtomicU64, Ordering};

use toolhost::{Host, HostSettings};
use toolhost_core::tool::{Call, Origin};
use toolhost_sources::folder::Folder;
use toolhost_state::audit;
use toolhost_state::config::{AuditConfig, Config};

use crate::guests::Guests;
use crate::table::{Table, in_turns};

pub(crate) async fn run(table: &mut Table, guests: &Guests) {
    let (quiet, noted) =
        (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let off = host(guests, quiet.path(), false);
    let on = host(guests, noted.path(), true);
    off.loaded().await;
    on.loaded().await;
    let calls = AtomicU64::new(0);
    for (name, text) in [("75 bytes", 50), ("16 KiB", 16 << 10)] {
        let arguments = serde_json::json!({ "text": "x".repeat(text) }).to_string();
        let call = async |host: &Host| {
            let outcome = host.call(Call::new("echo", arguments.as_str())).await;
            assert!(outcome.result.is_ok(), "{outcome:?}");
        };
        let (mut without, mut with) = in_turns(
            400,
            50,
            async || call(&off).await,
            async || {
                call(&on).await;
                calls.fetch_add(1, Ordering::Relaxed);
            },
        )
        .await;
        let without = table.row(&format!("call of {name}: audit off"), &mut without, None);
        table.row(&format!("call of {name}: audit on"), &mut with, Some((without, 1.15)));
    }
    on.stop().await;
    let parts = audit::parts(&audit::folder(noted.path())).expect("files");
    let found = audit::verify(parts.into_iter().map(|part| (part.name.clone(), part)));
    assert_eq!(found.problems, []);
    // Not bought by leaving lines out: every call and load is there, or counted.
    let noted = found.records - found.gaps + found.lost;
    assert!(noted >= calls.into_inner(), "{found:?}");
    table.note(&format!("audit: {} lines, {} lost", found.records, found.lost));
}

fn host(guests: &Guests, state: &std::path::Path, enabled: bool) -> Host {
    let folder = Folder { path: guests.folder(), origin: Origin::Project };
    let config = Config { audit: AuditConfig { enabled, contents: false }, ..Config::default() };
    let state = Some(state.to_owned());
    let settings = HostSettings { folders: vec![folder], config, state, ..HostSettings::default() };
    Host::start(settings).expect("a host")
}
