//! The library's face: wires the rooms together, and nothing else.

mod look;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::audit::{Audit, AuditSettings, Redact};
use crate::authority::Variables;
use crate::availability::{Availability, Unavailable};
use crate::builtin;
use crate::config::Config;
use crate::definitions::{Definitions, Listed};
use crate::dispatch::Dispatch;
use crate::egress::{Egress, EgressSettings, RootError};
use crate::limits::Limits;
use crate::lock::LockError;
use crate::plugin::{DirectoryRules, EngineError, LoadError, Loader, RunnerPlaces, Secrets};
use crate::quarantine::{Quarantine, Quarantined};
use crate::registry::{Catalog, Entry, Registry};
use crate::reload::{
    Folder, Gate, Parts, ReloadSettings, Reloader, Remembered, Reread, Shown, SourceStatus, Status,
};
use crate::schema::Format;
use crate::secret::Redactor;
use crate::session::{Session, SessionError, SessionSettings};
use crate::store::Stores;
use crate::tool::{Call, Outcome};
use crate::toolset::UserToolset;

pub use look::{InspectError, Probed, inspect, probe};

/// What a host is started with. It reads no environment and no home of its own.
#[derive(Clone, Default)]
pub struct HostSettings {
    /// Folders of plugins, the highest rank first. One that does not exist holds no plugins.
    pub folders: Vec<Folder>,
    /// What the operator configured.
    pub config: Config,
    /// Where compiled components are kept. Without it, each start compiles everything.
    pub cache: Option<PathBuf>,
    /// The program that compiles components, in a process of its own for each; see
    /// [`Loader::compile_with`](crate::plugin::Loader::compile_with). Without it the host
    /// compiles, and a hostile component can exhaust it.
    pub compiler: Option<PathBuf>,
    /// The components that run scripts. Without one for its language, a script says that it has
    /// none.
    pub runners: RunnerPlaces,
    /// What bounds the directories that can be granted: the host's own folders above all.
    pub directories: DirectoryRules,
    /// Values of the variables that plugins may be granted. The host reads no environment.
    pub variables: Variables,
    /// Values of the secrets that plugins may be granted.
    pub secrets: Secrets,
    /// How requests of plugins find and trust the hosts they go to. No configuration and no
    /// variable decides that.
    pub egress: EgressSettings,
    /// Where this user's host remembers things. Without it, no plugin counts as bundled, none
    /// has a store, and there is no audit log. With it there is one, unless `config.audit` says
    /// otherwise.
    pub state: Option<PathBuf>,
    /// Plugins are loaded once, and changes of their files are not noticed.
    pub once: bool,
    /// Whether the examples of a changed build are run before it serves.
    pub gate: Gate,
    /// Reads anew what the operator configured, when one of `configured_by` has changed. What it
    /// says of plugins counts from then on; limits, toolsets and the audit log stay.
    pub reread: Option<Reread>,
    /// The files that `reread` reads, the operator's own first.
    pub configured_by: Vec<PathBuf>,
    /// Scripts in plugins folders that whoever uses this host works at: what is saved there is
    /// trusted in place of what was trusted before, as with [`Host::own`].
    pub own: Vec<PathBuf>,
}

/// Why a host does not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The engine refuses this machine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// What the host remembers cannot be read.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A certificate authority is none.
    #[error(transparent)]
    Root(#[from] RootError),
}

/// A running host.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use toolhost::{Call, Folder, Host, HostSettings, Origin};
///
/// let folder = Folder { path: "plugins".into(), origin: Origin::Project };
/// let settings = HostSettings { folders: vec![folder], ..HostSettings::default() };
/// let host = Host::start(settings)?;
/// host.loaded().await;
/// let outcome = host.call(Call::new("json_query", r#"{"filter": ".a", "json": {"a": 1}}"#)).await;
/// println!("{}", outcome.to_json_text());
/// # Ok(()) }
/// ```
pub struct Host {
    registry: Arc<Registry>,
    availability: Arc<Availability>,
    quarantine: Arc<Quarantine>,
    definitions: Definitions,
    dispatch: Arc<Dispatch>,
    limits: Arc<Limits>,
    config: Arc<Config>,
    toolsets: Arc<BTreeMap<String, UserToolset>>,
    /// What calls without a session belong to.
    alone: Session,
    sources: watch::Receiver<Shown>,
    loading: JoinHandle<()>,
    loader: Arc<Loader>,
    audit: Arc<Audit>,
}

impl Host {
    /// Starts a host. It answers at once; plugins appear when they have loaded.
    ///
    /// It must be called within a tokio runtime.
    ///
    /// # Errors
    /// If the engine refuses this machine, or what the host remembers is damaged.
    pub fn start(settings: HostSettings) -> Result<Host, StartError> {
        let remembered = match &settings.state {
            Some(state) => Remembered::read(state)?,
            None => Remembered::default(),
        };
        let limits = Arc::new(settings.config.limits.clone());
        let calls_max = limits.calls_per_core_max.0 * cores();
        // Plugins register beside the calls, as many at once as are loaded side by side.
        let instances_max = calls_max + 2 * cores();
        let loader = Arc::new(loader(Arc::clone(&limits), instances_max, &settings)?);
        let registry = Arc::new(Registry::new(Arc::clone(&limits), remembered.owners()));
        registry.publish([builtin::registration()]);
        let availability = Arc::new(Availability::new(&limits));
        let quarantine = Arc::new(Quarantine::open(&limits, shared_failures(&settings)));
        let audit = Arc::new(audit(&settings));
        let dispatch = Arc::new(Dispatch::new(
            Arc::clone(&registry),
            Arc::clone(&availability),
            Arc::clone(&quarantine),
            Arc::clone(&limits),
            calls_max,
            Arc::clone(&audit),
        ));
        let definitions = Definitions::new(Arc::clone(&availability), Arc::clone(&limits));
        let toolsets = Arc::new(settings.config.toolsets.clone());
        let alone = Session::alone(Arc::clone(&toolsets), &limits);
        let config = Arc::new(settings.config.clone());
        let (shown, sources) = watch::channel(Shown::default());
        let parts = Parts {
            loader: Arc::clone(&loader),
            registry: Arc::clone(&registry),
            quarantine: Arc::clone(&quarantine),
            audit: Arc::clone(&audit),
        };
        let reload = ReloadSettings {
            folders: settings.folders,
            once: settings.once,
            gate: settings.gate,
            reread: settings.reread,
            configured_by: settings.configured_by,
        };
        let reloader = Reloader::new(reload, parts, settings.config, remembered, shown);
        let loading = tokio::spawn(reloader.run());
        Ok(Host {
            registry,
            availability,
            quarantine,
            definitions,
            dispatch,
            limits,
            config,
            toolsets,
            alone,
            sources,
            loading,
            loader,
            audit,
        })
    }

    /// Waits until every plugin has loaded or failed once, and returns what became of each.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn loaded(&self) -> Arc<Vec<SourceStatus>> {
        let mut sources = self.sources.clone();
        match sources.wait_for(|shown| shown.settled).await {
            Ok(shown) => Arc::clone(&shown.statuses),
            // Loading was stopped.
            Err(_) => Arc::clone(&self.sources.borrow().statuses),
        }
    }

    /// Waits until every plugin has loaded or failed once, but scripts whose runner is still being
    /// compiled: that takes as long as all else together, and is done once.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn started(&self) {
        let mut sources = self.sources.clone();
        // Otherwise loading was stopped.
        let _ = sources.wait_for(|shown| shown.started).await;
    }

    /// What became of every plugin so far, whenever that changes.
    pub fn sources(&self) -> watch::Receiver<Shown> {
        self.sources.clone()
    }

    /// What the operator configured when the host started.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The plugins being compiled, by id, as they come and go.
    pub fn compiling(&self) -> watch::Receiver<BTreeSet<String>> {
        self.loader.compiling()
    }

    /// Asks every tool that can tell whether it can work at present, side by side; returns the
    /// tools that cannot, with the reason.
    ///
    /// It takes at most twice the limit of one check, however many there are; answers are kept
    /// for a while, see [`Availability`].
    ///
    /// # Cancel safety
    /// Dropping the future stops the checks.
    pub async fn unavailable(&self) -> BTreeMap<String, Unavailable> {
        let catalog = self.registry.current();
        self.availability.of_all(catalog.tools()).await.unavailable
    }

    /// The tools whose plugins crashed or broke their limits too often, by name. They stay listed
    /// to models, since they come back soon.
    pub fn quarantined(&self) -> BTreeMap<String, Quarantined> {
        let catalog = self.registry.current();
        let found =
            |entry: &Entry| Some((entry.tool.spec().name.to_string(), self.quarantine.of(entry)?));
        catalog.tools().into_iter().filter_map(found).collect()
    }

    /// Says that what lies at `path` now is made by whoever uses this host, and lasts until its next
    /// build. It is compiled several times as fast, for slower calls; and where bytes of its plugin
    /// were trusted, it is trusted in their place, once its examples have passed. Say so before it
    /// comes into a plugins folder.
    ///
    /// # Errors
    /// If it cannot be read, or is a script without a runner.
    ///
    /// # Cancel safety
    /// Dropping the future says nothing.
    pub async fn own(&self, path: &Path) -> Result<(), LoadError> {
        self.loader.own(path).await
    }

    /// The digests of the runners that run scripts here, in hexadecimal; such as have run one.
    pub async fn runner_digests(&self) -> Vec<Arc<str>> {
        self.loader.runner_digests().await
    }

    /// What a plugin is at present, by what became of its file.
    pub fn status(&self, of: &SourceStatus) -> Status {
        let status = of.status();
        let catalog = self.registry.current();
        let report = of.source.as_ref().and_then(|source| catalog.report(source));
        let is_quarantined = || {
            let tools = report.iter().flat_map(|report| &report.tools);
            let mut entries = tools.filter_map(|tool| catalog.find(tool));
            entries.any(|entry| {
                Some(&entry.source) == of.source.as_ref() && self.quarantine.of(entry).is_some()
            })
        };
        match status {
            Status::Live if is_quarantined() => Status::Quarantined,
            status => status,
        }
    }

    /// Makes a session: the calls of one caller, with the toolsets it has.
    ///
    /// # Errors
    /// If an interceptor is no tool of an agent's loop, or its schema cannot be used.
    pub fn session(&self, mut settings: SessionSettings) -> Result<Arc<Session>, SessionError> {
        settings.guardrails.get_or_insert_with(|| self.config.guardrails.clone());
        Session::new(settings, Arc::clone(&self.toolsets), &self.limits).map(Arc::new)
    }

    /// Runs one call that belongs to no session: it has every tool, nobody can be asked, and
    /// its result is returned whole. It never fails: whatever happens is in the outcome.
    ///
    /// # Cancel safety
    /// Dropping the future stops the call.
    pub async fn call(&self, call: Call) -> Outcome {
        self.dispatch.call(&self.alone, call).await
    }

    /// Runs one call of a session. It never fails: whatever happens is in the outcome.
    ///
    /// # Cancel safety
    /// Dropping the future stops the call.
    pub async fn call_in(&self, session: &Session, call: Call) -> Outcome {
        self.dispatch.call(session, call).await
    }

    /// Runs several calls of a session, side by side where none is in another's way; the
    /// outcomes are in the order of the calls. See [`Dispatch::batch`].
    ///
    /// # Cancel safety
    /// Dropping the future stops every call.
    pub async fn batch(&self, session: &Arc<Session>, calls: Vec<Call>) -> Vec<Outcome> {
        self.dispatch.batch(session, calls).await
    }

    /// Returns the definitions of the tools that a session has and that can work at present.
    ///
    /// # Cancel safety
    /// Dropping the future stops the checks and dynamic definitions it waits for.
    pub async fn definitions(&self, session: &Session, format: Format) -> Arc<Listed> {
        let catalog = self.registry.current();
        self.definitions.list(&catalog, session, format).await
    }

    /// The catalog of this moment.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.registry.current()
    }

    /// The bounds of this host.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Tells of every new generation of the catalog.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.registry.subscribe()
    }

    /// Stops loading. Calls under way end when their futures are dropped. What the audit log was
    /// told is written, as far as that takes no longer than two seconds.
    pub async fn stop(mut self) {
        self.loading.abort();
        // Aborted is how it ends.
        let _ = (&mut self.loading).await;
        let audit = Arc::clone(&self.audit);
        // Beside the runtime's own work, since a disk may be slow.
        let _ = tokio::task::spawn_blocking(move || audit.flush()).await;
    }
}

/// Waits as [`Host::stop`] does until the audit log is written.
impl Drop for Host {
    fn drop(&mut self) {
        self.loading.abort();
        self.audit.flush();
    }
}

/// Where hosts tell each other of failures; not under limits that a project has lowered, since
/// what breaks these says nothing in other folders.
fn shared_failures(settings: &HostSettings) -> Option<PathBuf> {
    settings.state.clone().filter(|_| !settings.config.limits_are_lowered)
}

/// The audit log of a host, unless the operator wants none, or there is nowhere to write it.
fn audit(settings: &HostSettings) -> Audit {
    let HostSettings { config, state, secrets, .. } = settings;
    let Some(state) = state.as_ref().filter(|_| config.audit.enabled) else {
        return Audit::off();
    };
    let secrets: Vec<_> = secrets.iter().map(|(name, value)| (name.as_str(), value)).collect();
    let redactor = Redactor::new(&secrets);
    let redact = move |text: &mut String| {
        if let Cow::Owned(redacted) = redactor.text(text) {
            *text = redacted;
        }
    };
    Audit::open(AuditSettings {
        contents: config.audit.contents,
        redact: (!secrets.is_empty()).then(|| Arc::new(redact) as Redact),
        ..AuditSettings::new(state, &config.limits)
    })
}

/// A loader without a cache is slower, and otherwise the same.
fn loader(
    limits: Arc<Limits>,
    instances_max: usize,
    settings: &HostSettings,
) -> Result<Loader, StartError> {
    let egress = Egress::new(settings.egress.clone(), &limits)?;
    let mut loader = Loader::new(Arc::clone(&limits), instances_max, egress)?;
    if let Some(program) = &settings.compiler {
        loader.compile_with(program.clone());
    }
    loader.run_scripts_with(settings.runners.clone());
    loader.own_sources(settings.own.clone());
    loader.bound_directories(settings.directories.clone());
    loader.keep(Stores::new(settings.state.clone(), limits));
    loader.provide(settings.variables.clone(), settings.secrets.clone());
    if let Some(folder) = &settings.cache
        && let Err(error) = loader.open_cache(folder)
    {
        tracing::warn!("{error}; until then every start compiles every plugin");
    }
    Ok(loader)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
