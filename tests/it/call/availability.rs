//! Which tools can work at present: variables, checks, their cache and their grace.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::json;
use toolhost::{Host, HostSettings};
use toolhost_core::limits::Limits;
use toolhost_core::tool::{CallError, Invocation, Meter, Tool, ToolOutput, ToolSpec};
use toolhost_kernel::availability::Availability;
use toolhost_kernel::registry::Catalog;
use toolhost_policy::capability::Variables;

use crate::load::registry::{registration, registry, spec};
use crate::support::{Lab, answer, made};

/// A tool with a check that says what it is told, and counts how often it ran.
struct Checked {
    spec: ToolSpec,
    works: Arc<AtomicBool>,
    ran: Arc<AtomicUsize>,
    takes: Duration,
}

impl Tool for Checked {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, _: Invocation<'a>) -> BoxFuture<'a, Result<ToolOutput, CallError>> {
        Box::pin(async { Ok(ToolOutput::default()) })
    }

    fn check(&self, _: Arc<Meter>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async {
            self.ran.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(self.takes).await;
            if self.works.load(Ordering::Relaxed) { Ok(()) } else { Err("gone".to_owned()) }
        })
    }
}

struct Shelf {
    catalog: Arc<Catalog>,
    works: Arc<AtomicBool>,
    ran: Arc<AtomicUsize>,
    availability: Availability,
}

/// Tools by name, each with the check it shares if it does.
fn shelf(tools: &[(&str, Option<&str>)], takes: Duration) -> Shelf {
    let (works, ran) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
    let tool = |(name, shared): &(&str, Option<&str>)| {
        let extensions = shared.map(|shared| ("check".to_owned(), format!("{shared:?}")));
        let extensions = extensions.into_iter().collect();
        let spec = ToolSpec { has_check: true, extensions, ..spec(name) };
        let (works, ran) = (Arc::clone(&works), Arc::clone(&ran));
        Arc::new(Checked { spec, works, ran, takes }) as Arc<dyn Tool>
    };
    let catalog = registry().publish([registration("checked", tools.iter().map(tool).collect())]);
    let availability = Availability::new(&Limits::default());
    Shelf { catalog, works, ran, availability }
}

impl Shelf {
    async fn unavailable(&self) -> Vec<String> {
        let listing = self.availability.of_all(self.catalog.tools()).await;
        listing.unavailable.into_keys().collect()
    }

    fn ran(&self) -> usize {
        self.ran.load(Ordering::Relaxed)
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_kept_for_thirty_seconds() {
    let shelf = shelf(&[("a", None)], Duration::ZERO);
    shelf.works.store(false, Ordering::Relaxed);
    assert_eq!(shelf.unavailable().await, ["a"]);
    shelf.works.store(true, Ordering::Relaxed);
    tokio::time::advance(Duration::from_secs(29)).await;
    assert_eq!(shelf.unavailable().await, ["a"]);
    assert_eq!(shelf.ran(), 1);
    tokio::time::advance(Duration::from_secs(2)).await;
    assert!(shelf.unavailable().await.is_empty());
    assert_eq!(shelf.ran(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_no_within_a_minute_of_a_yes_is_passed_over() {
    let shelf = shelf(&[("a", None)], Duration::ZERO);
    assert!(shelf.unavailable().await.is_empty());
    shelf.works.store(false, Ordering::Relaxed);
    tokio::time::advance(Duration::from_secs(31)).await;
    // Passed over, and not kept: each listing asks again.
    assert!(shelf.unavailable().await.is_empty());
    assert!(shelf.unavailable().await.is_empty());
    assert_eq!(shelf.ran(), 3);
    tokio::time::advance(Duration::from_secs(30)).await;
    assert_eq!(shelf.unavailable().await, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_shared_check_runs_once() {
    let tools = [("a", Some("token")), ("b", Some("token")), ("c", None)];
    let shelf = shelf(&tools, Duration::from_millis(100));
    let listing = shelf.availability.of_all(shelf.catalog.tools()).await;
    assert!(listing.unavailable.is_empty());
    assert_eq!(shelf.ran(), 2);
    // Whoever waited for the other's run may rely on its answer as long.
    let fresh = listing.fresh_until.expect("a time").duration_since(tokio::time::Instant::now());
    assert!(fresh > Duration::from_secs(29), "{fresh:?}");
    // So do listings side by side.
    tokio::time::advance(Duration::from_secs(31)).await;
    tokio::join!(shelf.unavailable(), shelf.unavailable());
    assert_eq!(shelf.ran(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_listing_never_waits_longer_than_its_limit() {
    let names: Vec<String> = (0..100).map(|n| format!("t{n}")).collect();
    let tools: Vec<(&str, Option<&str>)> = names.iter().map(|name| (&**name, None)).collect();
    let shelf = shelf(&tools, Duration::from_secs(3_600));
    let start = tokio::time::Instant::now();
    assert_eq!(shelf.unavailable().await.len(), 100);
    assert_eq!(start.elapsed(), 2 * Limits::default().check_time_max);
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_checks_of_one_plugin_take_no_other_plugins_turns() {
    let slow: Vec<serde_json::Value> =
        (0..64).map(|n| json!({ "name": format!("slow_{n}"), "check": "loop" })).collect();
    let quick = json!([{ "name": "quick", "check": "yes" }]);
    let host = Lab::new()
        .config("[limits]\ncheck_time_max = \"3s\"")
        .with("a.wasm", made(&json!({ "tools": slow })))
        .with("b.wasm", made(&json!({ "tools": quick })))
        .host()
        .await;
    let unavailable = host.unavailable().await;
    assert_eq!(unavailable.len(), 64);
    assert!(!unavailable.contains_key("quick"));
}

fn weather() -> Vec<u8> {
    made(&json!({
        "tools": [
            { "name": "now", "requires_env": ["TOKEN"], "answer": { "env": "TOKEN" } },
            { "name": "old", "answer": { "env": "TOKEN" } },
        ],
    }))
}

async fn with_variables(lab: &Lab, variables: &[(&str, &str)]) -> Host {
    let pairs = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let variables = Variables(pairs.collect());
    let host = Host::start(HostSettings { variables, ..lab.settings() }).expect("a host");
    host.loaded().await;
    host
}

#[tokio::test]
async fn a_required_variable_must_be_granted_and_set() {
    let lab = Lab::new().with("weather.wasm", weather());
    let host = with_variables(&lab, &[("TOKEN", "t")]).await;
    assert_eq!(
        answer(&host, "now", json!({})).await,
        r#"{"error":"`now` is not available: it requires the variable `TOKEN`, which it was not granted: run `toolhost grant weather --env TOKEN`","code":"unavailable"}"#
    );
    assert_eq!(host.unavailable().await.into_keys().collect::<Vec<_>>(), ["now"]);

    let granted = || Lab::new().config("[plugins.weather]\nenv = [\"TOKEN\"]");
    let lab = granted().granted("weather", weather());
    let host = with_variables(&lab, &[]).await;
    let text = answer(&host, "now", json!({})).await;
    assert!(text.contains("which is granted and not set"), "{text}");
    let host = with_variables(&lab, &[("TOKEN", "t"), ("OTHER", "o")]).await;
    assert_eq!(answer(&host, "now", json!({})).await, r#"{"result":"t"}"#);
    // The tool that does not ask for it does not see it.
    assert_eq!(answer(&host, "old", json!({})).await, r#"{"result":""}"#);

    // Other bytes in its place have nothing; where the trusted ones are kept, those serve.
    let other = || made(&json!({ "tools": [{ "name": "now", "requires_env": ["TOKEN"] }] }));
    let lab = lab.with("weather.wasm", other());
    let host = with_variables(&lab, &[("TOKEN", "t")]).await;
    assert_eq!(answer(&host, "now", json!({})).await, r#"{"result":"t"}"#);
    let lab = granted().granted("weather", weather()).with("weather.wasm", other());
    let host = with_variables(&lab, &[("TOKEN", "t")]).await;
    assert_eq!(host.unavailable().await.len(), 1);
}

#[tokio::test]
async fn a_tool_whose_check_says_no_is_refused_with_the_reason() {
    let lab = Lab::new().with(
        "x.wasm",
        made(&json!({ "tools": [
            { "name": "away", "check": "no TOKEN" },
            { "name": "here", "check": "yes" },
        ] })),
    );
    let host = lab.host().await;
    assert_eq!(
        answer(&host, "away", json!({})).await,
        r#"{"error":"[TOOL_ERROR] `away` is not available: no TOKEN","code":"unavailable"}"#
    );
    assert_eq!(answer(&host, "here", json!({})).await, "{}");
}
