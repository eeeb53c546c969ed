//! Guests that attack: real components, told step by step what to do, with everything asked for
//! and only some of it granted. Each test says what they get to see.

mod bombs;
mod boundary;
pub(crate) mod by_hand;
mod engine;
mod files;
mod flood;
mod granted;
mod handles;
mod held;
mod loops;
mod mutants;
mod names;
mod network;
mod places;
mod secrets;
mod state;
mod storms;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use toolhost::Host;
use toolhost_egress::{EgressSettings, Resolver};
use toolhost_state::secret::SecretValue;

use crate::support::server::{FixedNames, root};
use crate::support::{Lab, answer, guest};

/// The value of the secret `KEY`.
const KEY: &str = "s3cr3t-value/+=\"1";
/// Grants a store.
const KV: &str = "kv = true";

/// A lab with the hostile guest, granted what these lines of its table say.
fn lab(grants: &str) -> Lab {
    Lab::new()
        .granted("hostile", guest("hostile"))
        .config(&format!("[plugins.hostile]\n{grants}\n"))
}

/// A host that finds hosts by these names, trusts the tests' authority and knows the secret.
async fn host(lab: &Lab, names: &Arc<FixedNames>) -> Host {
    let resolver: Arc<dyn Resolver> = Arc::<FixedNames>::clone(names);
    let value = SecretValue::new(KEY.to_owned()).expect("a value");
    let mut settings = lab.settings();
    settings.egress = EgressSettings { resolver: Some(resolver), roots: vec![root()] };
    settings.secrets = BTreeMap::from([("KEY".to_owned(), value)]);
    let host = Host::start(settings).expect("a host");
    host.loaded().await;
    host
}

/// What came of each step.
async fn attack(host: &Host, steps: Value) -> Vec<Value> {
    let text = answer(host, "attack", json!({ "steps": steps })).await;
    match serde_json::from_str(&text).expect("JSON") {
        Value::Array(results) => results,
        other => panic!("no results: {other}"),
    }
}

/// The error of a step.
fn error(result: &Value) -> &str {
    result["error"].as_str().unwrap_or_else(|| panic!("no error: {result}"))
}
