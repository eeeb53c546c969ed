//! A call as clients make it: in a session with the audit log on, and over stdio.

use std::cell::RefCell;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use toolhost::{Host, HostSettings, SessionSettings};
use toolhost_core::tool::{Call, Origin};
use toolhost_sources::folder::Folder;
use toolhost_state::config::{AuditConfig, Config};
use toolhost_testing::client::McpClient;

use crate::calls::ARGUMENTS;
use crate::guests::{BUILDS, Guests};
use crate::table::{Table, in_turns};

/// The ratios are to the same call through the library; they have no budget yet.
pub(crate) async fn run(table: &mut Table, guests: &Guests, library: Duration) {
    let home = tempfile::tempdir().expect("a folder");
    let folder = Folder { path: guests.folder(), origin: Origin::Project };
    let config =
        Config { audit: AuditConfig { enabled: true, contents: false }, ..Config::default() };
    let state = Some(home.path().join("library"));
    let settings = HostSettings { folders: vec![folder], config, state, ..HostSettings::default() };
    let host = Host::start(settings).expect("a host");
    host.loaded().await;
    let session = host.session(SessionSettings::default()).expect("a session");

    let mut command = Command::new(BUILDS.program());
    command.args(["serve", "--plugins"]).arg(guests.folder());
    command.env("TOOLHOST_HOME", home.path().join("served")).env("TOOLHOST_KEYRING", "none");
    let mut client = McpClient::with(command);
    client.initialize();
    let arguments: Value = serde_json::from_str(ARGUMENTS).expect("JSON");
    let client = RefCell::new((client, 0));
    let (mut in_session, mut over_stdio) = in_turns(
        200,
        20,
        async || {
            let outcome = host.call_in(&session, Call::new("echo", ARGUMENTS)).await;
            assert!(outcome.result.is_ok(), "{outcome:?}");
        },
        async || {
            let mut client = client.borrow_mut();
            client.1 += 1;
            let id = client.1;
            let answer = client.0.call(id, "echo", arguments.clone());
            assert_eq!(answer["result"]["isError"], json!(false), "{answer}");
        },
    )
    .await;
    let against = Some((library, f64::INFINITY));
    table.row("call: in a session, audit on", &mut in_session, against);
    table.row("call: over stdio, audit on", &mut over_stdio, against);
    client.into_inner().0.end();
    host.stop().await;
}
