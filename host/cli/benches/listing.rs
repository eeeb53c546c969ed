//! What a model is shown and writes: definitions, the check of arguments, and batches.

use std::collections::{BTreeMap, HashMap};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use toolhost::Host;
use toolhost_core::limits::Limits;
use toolhost_core::tool::Call;
use toolhost_kernel::availability::Availability;
use toolhost_kernel::definitions::Definitions;
use toolhost_kernel::registry::Registry;
use toolhost_kernel::session::{Session, SessionSettings};
use toolhost_schema::arguments;
use toolhost_schema::schema::{Format, Schema};

use crate::registry::registration;
use crate::table::Table;

pub(crate) async fn run(table: &mut Table, host: &Arc<Host>) {
    for tools in [10, 1_000, 10_000] {
        definitions(table, tools).await;
    }
    ten_properties(table);
    batch(table, host).await;
}

async fn definitions(table: &mut Table, tools: usize) {
    let limits = Arc::new(Limits::default());
    let registry = Registry::new(Arc::clone(&limits), HashMap::new());
    let catalog = registry.publish((0..tools / 10).map(registration));
    let session = Session::new(SessionSettings::default(), Arc::new(BTreeMap::new()), &limits)
        .expect("a session");
    let new = || {
        let availability = Arc::new(Availability::new(&limits));
        Definitions::new(availability, Arc::clone(&limits))
    };
    let mut first = Vec::new();
    for _ in 0..20 {
        let definitions = new();
        let start = Instant::now();
        black_box(definitions.list(&catalog, &session, Format::OpenAi).await);
        first.push(start.elapsed());
    }
    table.row(&format!("definitions of {tools} tools, first time"), &mut first, None);
    let known = new();
    known.list(&catalog, &session, Format::OpenAi).await;
    let mut again = Vec::new();
    for _ in 0..200 {
        let start = Instant::now();
        for _ in 0..100 {
            black_box(known.list(&catalog, &session, Format::OpenAi).await);
        }
        again.push(start.elapsed() / 100);
    }
    let name = format!("definitions of {tools} tools, remembered");
    table.row_within(&name, &mut again, Duration::from_micros(1));
}

/// Reading, coercing and checking ten arguments, half of which need coercion.
fn ten_properties(table: &mut Table) {
    let property = |n: usize| {
        let kind = ["string", "integer", "number", "boolean", "array"][n % 5];
        (format!("property_{n}"), json!({ "type": kind }))
    };
    let properties: serde_json::Map<_, _> = (0..10).map(property).collect();
    let parameters = json!({
        "type": "object", "properties": properties, "required": ["property_0"],
        "additionalProperties": false,
    });
    let limits = Limits::default();
    let schema = Schema::compile(&parameters, &limits).expect("a schema");
    let text = r#"{"property_0": "a text", "property_1": "5", "property_2": 1.5, "property_3": "true", "property_4": [1, 2], "property_5": "more", "property_6": 7, "property_7": "2.5", "property_8": false, "property_9": "[1]"}"#;
    let mut times = Vec::new();
    for _ in 0..200 {
        let start = Instant::now();
        for _ in 0..100 {
            let mut read = arguments::parse(black_box(text), &limits).expect("arguments");
            assert!(arguments::coerce(&mut read.value, &parameters));
            let value = serde_json::Value::Object(read.value);
            assert!(schema.check(&value).is_ok());
        }
        times.push(start.elapsed() / 100);
    }
    let name = "arguments: read, coerce, check 10";
    table.row_within(name, &mut times, Duration::from_micros(5));
}

/// The same 64 calls one after the other, and as a batch.
async fn batch(table: &mut Table, host: &Arc<Host>) {
    let session = host.session(SessionSettings::default()).expect("a session");
    let text = "word ".repeat(100_000);
    let call = || Call::new("count_words", json!({ "text": text }).to_string());
    let (mut alone, mut together) = (Vec::new(), Vec::new());
    for _ in 0..10 {
        let start = Instant::now();
        for _ in 0..64 {
            let outcome = host.call_in(&session, call()).await;
            assert!(outcome.result.is_ok(), "{outcome:?}");
        }
        alone.push(start.elapsed());
        let calls = (0..64).map(|_| call()).collect();
        let start = Instant::now();
        let outcomes = host.batch(&session, calls).await;
        together.push(start.elapsed());
        assert!(outcomes.iter().all(|outcome| outcome.result.is_ok()));
    }
    let alone = table.row("64 calls, one after the other", &mut alone, None);
    let cores = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    // A fifth more than what the cores could do at best.
    let budget = 1.2 / cores as f64;
    table.row("64 calls as a batch", &mut together, Some((alone, budget)));
}
