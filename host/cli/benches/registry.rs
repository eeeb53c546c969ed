//! The registry: publishing into many tools, and finding one among them.

use std::collections::HashMap;
use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use serde_json::json;
use toolhost_core::limits::Limits;
use toolhost_core::tool::{
    CallError, Invocation, Origin, PluginId, Registration, SourceId, Tool, ToolName, ToolOutput,
    ToolSpec,
};
use toolhost_kernel::registry::Registry;

use crate::table::Table;

struct BenchTool(ToolSpec);

impl Tool for BenchTool {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn call<'a>(&'a self, _: Invocation<'a>) -> BoxFuture<'a, Result<ToolOutput, CallError>> {
        Box::pin(async { Ok(ToolOutput::default()) })
    }
}

fn tool(name: &str) -> Arc<dyn Tool> {
    let parameters = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
    let name = ToolName::new(name).expect(name);
    Arc::new(BenchTool(ToolSpec::new(name, "bench", "Has a name.", parameters)))
}

/// A registration of ten tools.
pub(crate) fn registration(number: usize) -> Registration {
    let id = PluginId::from_stem(&format!("p{number}")).expect("an id");
    Registration {
        source: SourceId::Plugin { id, folder: PathBuf::from("/plugins") },
        origin: Origin::User,
        rank: 0,
        allow_tool_override: false,
        tools: (0..10).map(|n| tool(&format!("tool_{number}_{n}_x"))).collect(),
        needs: Vec::new(),
        hooks: None,
        digest: None,
        trusted: false,
        rejected: Vec::new(),
        waiting: Vec::new(),
    }
}

pub(crate) fn run(table: &mut Table) {
    for tools in [10, 1_000, 10_000] {
        let registry = Registry::new(Arc::new(Limits::default()), HashMap::new());
        registry.publish((0..tools / 10).map(registration));
        let mut times: Vec<Duration> = (0..50)
            .map(|_| {
                let more = registration(tools);
                let start = Instant::now();
                black_box(registry.publish([more]));
                start.elapsed()
            })
            .collect();
        table.row(&format!("publish: 10 tools into {tools}"), &mut times, None);
        if tools == 10_000 {
            find(table, &registry);
        }
    }
}

fn find(table: &mut Table, registry: &Registry) {
    let names: Vec<String> = (0..1_000).map(|n| format!("tool_{n}_{}_x", n % 10)).collect();
    let mut times = Vec::new();
    for _ in 0..200 {
        let start = Instant::now();
        for name in &names {
            let catalog = registry.current();
            assert!(black_box(catalog.find(name)).is_some());
        }
        times.push(start.elapsed() / 1_000);
    }
    table.row_within("look-up among 10,000 tools", &mut times, Duration::from_nanos(200));
}
