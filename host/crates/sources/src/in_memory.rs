//! Sources that are values of this process: they come, change, fail and go as whoever holds them says.
//!
//! For tests, which so see what the supervisor does for any kind of source; each of them is named like
//! an MCP server.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::sync::watch;

use crate::driver::{
    Backoff, Driver, Failed, Fingerprint, Found, LoadedSource, Location, Phase, Scanned,
    SourceFacts, SourceHandle,
};
use toolhost_core::limits::Limits;
use toolhost_core::tool::{
    CallError, Content, Invocation, Meter, Origin, Registration, SourceId, Tool, ToolName,
    ToolOutput, ToolSpec,
};
use toolhost_wasm::{LoadAs, digest};

/// What a source is at one moment.
pub type MemoryDefinition = Result<Vec<Arc<dyn Tool>>, Failed>;

/// Sources of this process.
pub struct InMemory {
    sources: Mutex<BTreeMap<String, MemorySource>>,
    told: watch::Sender<()>,
    hears: tokio::sync::Mutex<watch::Receiver<()>>,
    counts: Arc<Counts>,
    backoff: Option<Backoff>,
    is_pinned: bool,
    /// How long a load takes.
    takes: Duration,
}

struct MemorySource {
    definition: MemoryDefinition,
    /// Grows with every change that was told.
    version: u64,
}

/// What was done with sources.
#[derive(Debug, Default)]
pub struct Counts {
    /// Loads that were begun.
    pub loads: AtomicUsize,
    /// Loads that run at present.
    pub running: AtomicUsize,
    /// The most that ran at once.
    pub at_once: AtomicUsize,
    /// Definitions that were told that they serve no more.
    pub retired: AtomicUsize,
}

impl Default for InMemory {
    fn default() -> InMemory {
        let (told, hears) = watch::channel(());
        InMemory {
            sources: Mutex::default(),
            told,
            hears: tokio::sync::Mutex::new(hears),
            counts: Arc::default(),
            backoff: None,
            is_pinned: false,
            takes: Duration::ZERO,
        }
    }
}

impl InMemory {
    /// A changed definition of a source waits for a person.
    #[must_use]
    pub fn pinned(self) -> InMemory {
        InMemory { is_pinned: true, ..self }
    }

    /// Loads that fail are tried again.
    #[must_use]
    pub fn retried(self, backoff: Backoff) -> InMemory {
        InMemory { backoff: Some(backoff), ..self }
    }

    /// A load takes so long.
    #[must_use]
    pub fn taking(self, takes: Duration) -> InMemory {
        InMemory { takes, ..self }
    }

    /// The id of a source.
    pub fn id(name: &str) -> SourceId {
        SourceId::Mcp(name.to_owned())
    }

    /// A source is this from now on, and says so.
    pub fn put(&self, name: &str, definition: MemoryDefinition) {
        {
            let mut sources = self.sources();
            let version = sources.get(name).map_or(0, |held| held.version + 1);
            sources.insert(name.to_owned(), MemorySource { definition, version });
        }
        self.told.send_replace(());
    }

    /// A source is this from now on, and nobody is told: its next load finds out.
    pub fn put_unseen(&self, name: &str, definition: MemoryDefinition) {
        if let Some(held) = self.sources().get_mut(name) {
            held.definition = definition;
        }
    }

    /// A source is gone.
    pub fn remove(&self, name: &str) {
        self.sources().remove(name);
        self.told.send_replace(());
    }

    /// What was done with sources so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    fn sources(&self) -> MutexGuard<'_, BTreeMap<String, MemorySource>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn definition(&self, source: &SourceId) -> MemoryDefinition {
        let gone = || {
            let (cause, repair) = ("it is gone".to_owned(), None);
            Err(Failed { phase: Phase::Find, cause, repair })
        };
        let SourceId::Mcp(name) = source else { return gone() };
        self.sources().get(name).map_or_else(gone, |held| held.definition.clone())
    }
}

/// A tool that answers its own description.
pub fn tool(name: &ToolName, description: &str) -> Arc<dyn Tool> {
    let parameters = json!({ "type": "object", "properties": {} });
    Arc::new(Described(ToolSpec::new(name.clone(), "mcp-memory", description, parameters)))
}

struct Described(ToolSpec);

impl Tool for Described {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn call<'a>(&'a self, _: Invocation<'a>) -> BoxFuture<'a, Result<ToolOutput, CallError>> {
        let content = vec![Content::Text(self.0.description.clone())];
        Box::pin(async { Ok(ToolOutput { content, ..ToolOutput::default() }) })
    }
}

/// Counts what is retired.
struct CountedHandle(Arc<Counts>);

impl SourceHandle for CountedHandle {
    fn retire(&self) {
        self.0.retired.fetch_add(1, Ordering::Relaxed);
    }
}

impl Driver for InMemory {
    fn kind(&self) -> &'static str {
        "memory"
    }

    fn scan(&self, _: &Limits) -> Scanned {
        let found = |(rank, (name, held)): (usize, (&String, &MemorySource))| {
            let found = Found {
                source: InMemory::id(name),
                origin: Origin::Mcp,
                rank,
                location: Location::Named(format!("{name} in memory")),
                named: Location::Named(name.clone()),
                is_pinned: self.is_pinned,
                problem: None,
            };
            (found, Fingerprint::Text(held.version.to_string().into()))
        };
        Scanned {
            found: self.sources().iter().enumerate().map(found).collect(),
            ..Scanned::default()
        }
    }

    fn load<'a>(
        &'a self,
        found: &'a Found,
        _: &'a LoadAs,
        _: &'a Arc<Meter>,
    ) -> BoxFuture<'a, Result<LoadedSource, Failed>> {
        Box::pin(async move {
            let counts = &self.counts;
            counts.loads.fetch_add(1, Ordering::Relaxed);
            let running = counts.running.fetch_add(1, Ordering::Relaxed) + 1;
            counts.at_once.fetch_max(running, Ordering::Relaxed);
            let definition = self.definition(&found.source);
            tokio::time::sleep(self.takes).await;
            counts.running.fetch_sub(1, Ordering::Relaxed);
            let tools = definition?;
            let specs: Vec<String> =
                tools.iter().map(|tool| format!("{:?}", tool.spec())).collect();
            let digest = digest(specs.join("\n").as_bytes());
            let registration = Registration {
                source: found.source.clone(),
                origin: Origin::Mcp,
                rank: usize::MAX,
                allow_tool_override: false,
                tools,
                needs: Vec::new(),
                hooks: None,
                digest: None,
                trusted: false,
                rejected: Vec::new(),
                waiting: Vec::new(),
            };
            let name = found.named.to_string();
            let facts = SourceFacts { name, version: "1".to_owned(), digest, plugin: None };
            let handle = Arc::new(CountedHandle(Arc::clone(counts)));
            Ok(LoadedSource { registration, facts, handle })
        })
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // The sender is here.
            let _ = self.hears.lock().await.changed().await;
        })
    }

    fn retries(&self) -> Option<Backoff> {
        self.backoff
    }
}
