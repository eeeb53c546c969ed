//! The shelf: what is published is seen whole, what goes makes room for what it had shadowed.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use serde_json::json;
use toolhost_core::limits::Bytes;
use toolhost_core::limits::Limits;
use toolhost_core::tool::{
    CallError, Content, Invocation, Origin, PluginId, Registration, SourceId, Tool, ToolName,
    ToolOutput, ToolSpec,
};
use toolhost_kernel::registry::Registry;

/// A tool that answers with a word of its own.
struct Word {
    spec: ToolSpec,
}

impl Tool for Word {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, _: Invocation<'a>) -> BoxFuture<'a, Result<ToolOutput, CallError>> {
        let content = vec![Content::Text(self.spec.description.clone())];
        Box::pin(async { Ok(ToolOutput { content, ..ToolOutput::default() }) })
    }
}

fn word(name: &str, overrides: bool, parameters: serde_json::Value) -> Arc<dyn Tool> {
    Arc::new(Word { spec: ToolSpec { parameters, overrides, ..spec(name) } })
}

/// A tool of a toolset.
pub(crate) fn tool_of(name: &str, toolset: &str) -> Arc<dyn Tool> {
    Arc::new(Word { spec: ToolSpec { toolset: toolset.to_owned(), ..spec(name) } })
}

/// A tool without anything special.
pub(crate) fn spec(name: &str) -> ToolSpec {
    ToolSpec::new(ToolName::new(name).expect(name), "words", name, json!({}))
}

pub(crate) fn registration(id: &str, tools: Vec<Arc<dyn Tool>>) -> Registration {
    let id = PluginId::from_stem(id).expect(id);
    Registration {
        source: SourceId::Plugin { id, folder: PathBuf::from("/plugins") },
        origin: Origin::User,
        rank: 0,
        allow_tool_override: true,
        tools,
        needs: Vec::new(),
        hooks: None,
        digest: None,
        trusted: false,
        rejected: Vec::new(),
        waiting: Vec::new(),
    }
}

pub(crate) fn registry() -> Registry {
    Registry::new(Arc::new(Limits::default()), HashMap::new())
}

#[test]
fn what_was_shadowed_returns_when_the_other_goes() {
    let registry = registry();
    let first = registration("first", vec![word("x", false, json!({}))]);
    let second = registration("second", vec![word("x", true, json!({}))]);
    let source = second.source.clone();
    registry.publish([first]);
    let catalog = registry.publish([second]);
    assert_eq!(catalog.find("x").expect("x").source, source);
    let catalog = registry.retract(&source);
    assert_eq!(catalog.find("x").expect("x").source.to_string(), "plugin:first");
    assert!(catalog.report(&source).is_none());
}

#[test]
fn every_change_is_a_generation_and_old_catalogs_stay_whole() {
    let registry = registry();
    let generations = registry.subscribe();
    let old = registry.publish([registration("a", vec![word("x", false, json!({}))])]);
    let new = registry.publish([registration("a", vec![word("y", false, json!({}))])]);
    assert_eq!((old.generation, new.generation), (1, 2));
    assert_eq!(*generations.borrow(), 2);
    assert!(old.find("x").is_some() && old.find("y").is_none());
    assert!(new.find("x").is_none() && new.find("y").is_some());
}

#[test]
fn a_tool_with_a_hostile_schema_is_left_out_alone() {
    let registry = registry();
    let hostile = json!({ "allOf": [{ "$ref": "https://a.example/schema" }] });
    let tools = vec![word("good", false, json!({})), word("bad", false, hostile)];
    let registration = registration("a", tools);
    let source = registration.source.clone();
    let catalog = registry.publish([registration]);
    let report = catalog.report(&source).expect("a report");
    assert_eq!(report.tools, ["good"]);
    assert_eq!(report.rejected[0].tool, "bad");
    assert!(report.rejected[0].reason.to_string().contains("never reads files or the network"));
}

#[test]
fn what_is_prepared_stops_when_nobody_wants_it_any_more() {
    // Each takes some milliseconds, as slow to read as is allowed.
    let pattern = |n: usize| format!("^{n}[a-z]{}$", "\\p{L}\\s".repeat(60));
    let schema = |n: usize| {
        let properties: serde_json::Map<_, _> = (0..8)
            .map(|of| (format!("p{of}"), json!({ "pattern": pattern(n * 8 + of) })))
            .collect();
        json!({ "type": "object", "properties": properties })
    };
    let limits = Limits {
        schemas_time_max: Duration::from_secs(600),
        schemas_bytes_max: Bytes(u64::MAX),
        ..Limits::default()
    };
    let registry = Registry::new(Arc::new(limits), HashMap::new());
    let tools = (0..3_000).map(|n| word(&format!("t{n}"), false, schema(n))).collect();
    let registration = registration("slow", tools);
    std::thread::scope(|scope| {
        let publishing = scope.spawn(|| registry.publish([registration]));
        std::thread::sleep(Duration::from_millis(300));
        assert!(!publishing.is_finished(), "too quick to be stopped");
        let since = Instant::now();
        registry.stop();
        let catalog = publishing.join().expect("a catalog");
        assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
        assert_eq!(catalog.tools().len(), 0);
    });
}
