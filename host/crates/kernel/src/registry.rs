//! The registry: who has which name, decided on the whole set, published as one value.
//!
//! Readers take the current [`Catalog`] without a lock and see all of it or none. Writers
//! ([`Registry::publish`], [`Registry::retract`]) build the next one from every live
//! registration, so it is a pure function of them: no order of loading, file time or file name
//! decides. What this module does not do: load, run, or ask anyone anything.

mod rules;
mod schemas;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use arc_swap::ArcSwap;
use tokio::sync::watch;

use toolhost_core::limits::Limits;
use toolhost_core::runtime::Stop;
use toolhost_core::scheduler::SourceKey;
use toolhost_core::text;
use toolhost_core::tool::{Hooks, Reason, Registration, Rejection, SourceId, Tool};
use toolhost_policy::toolset;
use toolhost_schema::schema::Schema;

use schemas::{Schemas, SchemasSpent};

pub use rules::{Claim, Owners, Verdict, decide, turn};

/// One immutable snapshot of every tool.
#[derive(Default)]
pub struct Catalog {
    /// Grows by one with every published change; 0 is the empty catalog of the beginning.
    pub generation: u64,
    entries: HashMap<Box<str>, Entry>,
    sources: BTreeMap<SourceId, SourceReport>,
    hooks: Vec<(SourceId, Arc<dyn Hooks>)>,
    /// Made when it is first asked for.
    toolsets: OnceLock<toolset::Live>,
}

/// A tool and what the host knows of it.
#[derive(Clone)]
pub struct Entry {
    /// The tool.
    pub tool: Arc<dyn Tool>,
    /// Its arguments' schema, compiled.
    pub parameters: Arc<Schema>,
    /// Its structured output's schema, compiled.
    pub output: Option<Arc<Schema>>,
    /// Who published it.
    pub source: SourceId,
    /// A person has vouched for its source: it is part of the host, bundled, or trusted.
    pub trusted: bool,
    /// It lies in a project, and nobody has vouched for it.
    pub of_stranger: bool,
    /// SHA-256 of the bytes that it is made of, in hexadecimal, if it is.
    pub digest: Option<Arc<str>>,
    /// As which its source takes turns, whatever it publishes.
    pub key: SourceKey,
    /// The generation in which its source was published, which tells two builds apart.
    pub published: u64,
}

/// What became of one source's registration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceReport {
    /// Names of the tools it has in the catalog, sorted.
    pub tools: Vec<String>,
    /// Tools that were left out, and why.
    pub rejected: Vec<Rejection>,
    /// Those left out because the operator lets another source replace them, and which one does.
    pub replaced: BTreeMap<String, SourceId>,
    /// Tools that wait for a person to look at their source, and why. They cannot be called.
    pub waiting: Vec<Rejection>,
}

impl Catalog {
    /// Returns the tool of this name.
    pub fn find(&self, name: &str) -> Option<&Entry> {
        self.entries.get(name)
    }

    /// All tools, sorted by name.
    pub fn tools(&self) -> Vec<&Entry> {
        let mut entries: Vec<&Entry> = self.entries.values().collect();
        entries.sort_by(|left, right| left.tool.spec().name.cmp(&right.tool.spec().name));
        entries
    }

    /// The hooks of all sources, in the order in which they are asked: by origin, rank and id.
    pub fn hooks(&self) -> &[(SourceId, Arc<dyn Hooks>)] {
        &self.hooks
    }

    /// The toolsets that tools declare, with their members; and the aliases of those of MCP
    /// servers.
    pub fn toolsets(&self) -> &toolset::Live {
        self.toolsets.get_or_init(|| {
            let mut live = toolset::Live::default();
            for entry in self.entries.values() {
                let spec = entry.tool.spec();
                if let Some(members) = live.toolsets.get_mut(&spec.toolset) {
                    members.insert(spec.name.to_string());
                    continue;
                }
                if let Some(server) = spec.toolset.strip_prefix("mcp-") {
                    live.aliases.insert(server.to_owned(), spec.toolset.clone());
                }
                live.toolsets.insert(spec.toolset.clone(), [spec.name.to_string()].into());
            }
            live
        })
    }

    /// The host's own tools.
    pub fn of_the_house(&self) -> impl Iterator<Item = &Entry> {
        let report = self.sources.get(&SourceId::Builtin);
        let names = report.map_or(&[][..], |report| &report.tools);
        names.iter().filter_map(|name| self.find(name))
    }

    /// The names of all tools, in no order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(|name| &**name)
    }

    /// The names most like `name`, the nearest first.
    pub fn nearest(&self, name: &str) -> Vec<String> {
        text::nearest(name, self.entries.keys().map(|known| &**known))
    }

    /// Why a tool of this name waits, and whose it is, if no tool has the name and one waits.
    pub fn waiting(&self, name: &str) -> Option<(&SourceId, &Reason)> {
        let mut waiting = self.sources.iter().flat_map(|(source, report)| {
            report.waiting.iter().map(move |waiting| (source, waiting))
        });
        let (source, waiting) = waiting.find(|(_, waiting)| waiting.tool == name)?;
        Some((source, &waiting.reason))
    }

    /// What became of the registration of `source`, if it has one.
    pub fn report(&self, source: &SourceId) -> Option<&SourceReport> {
        self.sources.get(source)
    }
}

impl Entry {
    /// Whose turn a call of it takes, and whether that is a stranger.
    pub fn who(&self) -> (SourceKey, bool) {
        (self.key, self.of_stranger)
    }
}

/// Holds the current catalog, and makes the next one.
pub struct Registry {
    current: ArcSwap<Catalog>,
    live: Mutex<BTreeMap<SourceId, LiveSource>>,
    generation: watch::Sender<u64>,
    limits: Arc<Limits>,
    /// No process checks values against schemas, so schemas must make brief checks.
    only_brief_checks: bool,
    /// Nothing is published any more.
    stop: Stop,
    /// The sources which had a name before.
    owners: Mutex<Owners>,
}

/// A registration with its schemas compiled.
struct LiveSource {
    registration: Registration,
    compiled: Schemas,
    key: SourceKey,
    published: u64,
}

impl Registry {
    /// An empty registry. `owners` are the sources which had a name before.
    pub fn new(limits: Arc<Limits>, owners: Owners) -> Registry {
        Registry {
            current: ArcSwap::from_pointee(Catalog::default()),
            live: Mutex::default(),
            generation: watch::Sender::new(0),
            limits,
            only_brief_checks: false,
            stop: Stop::default(),
            owners: Mutex::new(owners),
        }
    }

    /// Refuses from now on what can take long to check, since nobody starts a process that could be
    /// stopped.
    pub fn only_brief_checks(&mut self) {
        self.only_brief_checks = true;
    }

    /// Publishes nothing any more: what is being prepared for that is stopped, on whatever thread.
    pub fn stop(&self) {
        self.stop.stop();
    }

    /// The catalog of this moment.
    pub fn current(&self) -> Arc<Catalog> {
        self.current.load_full()
    }

    /// Tells of every new generation.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    /// Publishes registrations at once, each replacing its source's previous one.
    ///
    /// It never fails: what cannot be used is left out, with the reason in the catalog's report
    /// on its source.
    pub fn publish(&self, registrations: impl IntoIterator<Item = Registration>) -> Arc<Catalog> {
        let prepared = self.compile(registrations.into_iter().collect());
        if self.stop.is_stopped() {
            return self.current();
        }
        self.change(|live, published| put(live, prepared, published))
    }

    /// Publishes all that sources have now, besides the host itself: what is new or has changed replaces
    /// what they had, and sources that are not among these have nothing any more. `owners` are the sources which had
    /// a name before. Where nothing changes, the catalog stays the same, with its generation.
    pub fn settle(&self, registrations: Vec<Registration>, owners: Owners) -> Arc<Catalog> {
        let is_known = {
            let live = self.live();
            let is_known = |registration: &Registration| {
                live.get(&registration.source)
                    .is_some_and(|live| same(&live.registration, registration))
            };
            let known: Vec<bool> = registrations.iter().map(is_known).collect();
            known
        };
        let sources: BTreeSet<SourceId> =
            registrations.iter().map(|registration| registration.source.clone()).collect();
        let changed = registrations.into_iter().zip(is_known).filter(|(_, is_known)| !is_known);
        let changed = self.compile(changed.map(|(registration, _)| registration).collect());
        let is_gone = |source: &SourceId| *source != SourceId::Builtin && !sources.contains(source);
        if self.stop.is_stopped() {
            return self.current();
        }
        *self.owners() = owners;
        if changed.is_empty() && !self.live().keys().any(is_gone) {
            return self.current();
        }
        self.change(|live, published| {
            live.retain(|source, _| !is_gone(source));
            put(live, changed, published);
        })
    }

    /// Takes back all that `source` has published. Tools it had shadowed return.
    pub fn retract(&self, source: &SourceId) -> Arc<Catalog> {
        self.change(|live, _| {
            live.remove(source);
        })
    }

    /// Compiles the schemas of registrations; that needs no lock.
    fn compile(&self, registrations: Vec<Registration>) -> Vec<(Registration, Schemas)> {
        let is_new = |source: &SourceId| registrations.iter().any(|new| new.source == *source);
        let mut spent = SchemasSpent::default();
        for (_, live) in self.live().iter().filter(|(source, _)| !is_new(source)) {
            spent.add(&live.registration, &live.compiled);
        }
        let compile = |registration: Registration| {
            let budget = spent.budget(&registration, &self.limits);
            let how = (self.only_brief_checks, &self.stop);
            let compiled = schemas::compile(&registration, budget, &self.limits, how);
            spent.add(&registration, &compiled);
            (registration, compiled)
        };
        registrations.into_iter().map(compile).collect()
    }

    fn live(&self) -> MutexGuard<'_, BTreeMap<SourceId, LiveSource>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn owners(&self) -> MutexGuard<'_, Owners> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(
        &self,
        change: impl FnOnce(&mut BTreeMap<SourceId, LiveSource>, u64),
    ) -> Arc<Catalog> {
        let mut live = self.live();
        let generation = self.current.load().generation + 1;
        change(&mut live, generation);
        let catalog = Arc::new(assemble(&live, &self.owners(), generation));
        self.current.store(Arc::clone(&catalog));
        // Within the lock, so that generations are told in order.
        self.generation.send_replace(generation);
        catalog
    }
}

fn put(
    live: &mut BTreeMap<SourceId, LiveSource>,
    registrations: Vec<(Registration, Schemas)>,
    published: u64,
) {
    for (registration, compiled) in registrations {
        let source = registration.source.clone();
        let key = live.get(&source).map_or_else(SourceKey::new, |previous| previous.key);
        live.insert(source, LiveSource { registration, compiled, key, published });
    }
}

/// Tells whether two registrations of one source are the same for everybody.
fn same(left: &Registration, right: &Registration) -> bool {
    let hooks = match (&left.hooks, &right.hooks) {
        (None, None) => true,
        (Some(left), Some(right)) => Arc::ptr_eq(left, right),
        _ => false,
    };
    let tools = left.tools.iter().zip(&right.tools);
    hooks
        && left.tools.len() == right.tools.len()
        && tools.into_iter().all(|(left, right)| Arc::ptr_eq(left, right))
        && (left.origin, left.rank, left.allow_tool_override, left.trusted)
            == (right.origin, right.rank, right.allow_tool_override, right.trusted)
        && left.digest == right.digest
        && left.needs == right.needs
        && left.rejected == right.rejected
        && left.waiting == right.waiting
}

fn assemble(live: &BTreeMap<SourceId, LiveSource>, owners: &Owners, generation: u64) -> Catalog {
    let mut sources: BTreeMap<SourceId, SourceReport> = BTreeMap::new();
    let (mut claims, mut claimed) = (Vec::new(), Vec::new());
    for (source, live) in live {
        let LiveSource { registration, compiled, .. } = live;
        let report = sources.entry(source.clone()).or_default();
        report.rejected.extend(registration.rejected.iter().cloned());
        report.waiting.extend(registration.waiting.iter().cloned());
        for (tool, compiled) in registration.tools.iter().zip(&compiled.of_tools) {
            match compiled {
                Ok(compiled) => {
                    claims.push(Claim::new(registration, tool.spec()));
                    claimed.push((tool, compiled, live));
                }
                Err(reason) => report
                    .rejected
                    .push(Rejection { tool: tool.spec().name.to_string(), reason: reason.clone() }),
            }
        }
    }
    let mut entries = HashMap::with_capacity(claims.len());
    let verdicts = decide(&claims, owners);
    for ((claim, verdict), (tool, compiled, live)) in claims.iter().zip(verdicts).zip(claimed) {
        let report = sources.entry(claim.source.clone()).or_default();
        let name = claim.name.to_string();
        match verdict {
            Verdict::Registered => {
                report.tools.push(name.clone());
                let entry = Entry {
                    tool: Arc::clone(tool),
                    parameters: Arc::clone(&compiled.parameters),
                    output: compiled.output.clone(),
                    source: claim.source.clone(),
                    trusted: live.registration.trusted,
                    of_stranger: schemas::is_strangers(&live.registration),
                    digest: live.registration.digest.clone(),
                    key: live.key,
                    published: live.published,
                };
                entries.insert(name.into_boxed_str(), entry);
            }
            Verdict::Shadowed { by } => {
                let reason = format!("replaced by the tool of the same name of {by}");
                let reason = Reason::without_repair(reason);
                report.replaced.insert(name.clone(), by);
                report.rejected.push(Rejection { tool: name, reason });
            }
            Verdict::Rejected(reason) => report.rejected.push(Rejection { tool: name, reason }),
        }
    }
    for report in sources.values_mut() {
        report.tools.sort();
        report.rejected.sort_by(|left, right| left.tool.cmp(&right.tool));
    }
    Catalog { generation, entries, sources, hooks: hooks(live), toolsets: OnceLock::new() }
}

/// The hooks of all registrations, in the order in which they are asked.
fn hooks(live: &BTreeMap<SourceId, LiveSource>) -> Vec<(SourceId, Arc<dyn Hooks>)> {
    let mut registrations: Vec<&Registration> =
        live.values().map(|live| &live.registration).collect();
    registrations.sort_by_key(|registration| {
        (registration.origin, registration.rank, registration.source.clone())
    });
    let hooks = |registration: &Registration| {
        Some((registration.source.clone(), Arc::clone(registration.hooks.as_ref()?)))
    };
    registrations.into_iter().filter_map(hooks).collect()
}
