//! A running host: wires the crates together, and nothing else.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use toolhost_core::limits::Limits;
use toolhost_core::tool::{Call, Outcome};
use toolhost_egress::{Egress, RootError};
use toolhost_kernel::availability::{Availability, Unavailable};
use toolhost_kernel::builtin;
use toolhost_kernel::definitions::{Definitions, Listed};
use toolhost_kernel::dispatch::Dispatch;
use toolhost_kernel::quarantine::{Quarantine, Quarantined};
use toolhost_kernel::registry::{Catalog, Entry, Registry};
use toolhost_kernel::session::{Session, SessionError, SessionSettings};
use toolhost_policy::toolset::UserToolset;
use toolhost_schema::schema::Format;
use toolhost_sources::driver::Driver;
use toolhost_sources::folder::FolderDriver;
use toolhost_sources::reload::{Parts, ReloadSettings, Shown, SourceStatus, Status, Supervisor};
use toolhost_sources::remembered::Remembered;
use toolhost_state::audit::{Audit, AuditSettings, Redact};
use toolhost_state::config::Config;
use toolhost_state::secret::Redactor;
use toolhost_state::store::Stores;
use toolhost_state::trust_store::LockError;
use toolhost_wasm::{DirectoryRules, EngineError, LoadError, Loader};

use crate::granted::Granted;
use crate::missing;
use crate::settings::HostSettings;

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
    granted: Granted,
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
            Some(state) => Remembered::read(state, settings.built.as_deref())?,
            None => Remembered::default(),
        };
        let limits = Arc::new(settings.config.limits.clone());
        let calls_max = limits.calls_per_core_max.0 * cores();
        // Plugins register beside the calls, as many at once as are loaded side by side.
        let instances_max = calls_max + 2 * cores();
        let rules = settings.directory_rules_with(remembered.lock());
        let mut loader = loader(Arc::clone(&limits), instances_max, &settings, rules)?;
        if let Some(state) = &settings.state {
            loader.remember_stopped(state.join("stopped"), !settings.load_all);
        }
        let loader = Arc::new(loader);
        let mut registry = Registry::new(Arc::clone(&limits), remembered.owners());
        if settings.compiler.is_none() {
            registry.only_brief_checks();
        }
        let registry = Arc::new(registry);
        registry.publish([builtin::registration()]);
        let availability = Arc::new(Availability::new(&limits));
        let quarantine = Arc::new(Quarantine::open(&limits, shared_failures(&settings)));
        let audit = Arc::new(audit(&settings));
        let mut dispatch = Dispatch::new(
            Arc::clone(&registry),
            Arc::clone(&availability),
            Arc::clone(&quarantine),
            Arc::clone(&limits),
            calls_max,
            Arc::clone(&audit),
            settings.compiler.clone(),
        );
        dispatch.count_checks_in(loader.memory());
        let dispatch = Arc::new(dispatch);
        let definitions = Definitions::new(Arc::clone(&availability), Arc::clone(&limits));
        let toolsets = Arc::new(settings.config.toolsets.clone());
        let alone = Session::alone(Arc::clone(&toolsets), &limits);
        let config = Arc::new(settings.config.clone());
        let granted = Granted::new(&settings, &remembered);
        let (shown, sources) = watch::channel(Shown::default());
        let plugins = FolderDriver::new(
            settings.folders,
            Arc::clone(&loader),
            Arc::clone(&limits),
            &remembered,
            settings.load_all,
        );
        let mut drivers: Vec<Arc<dyn Driver>> = vec![Arc::new(plugins)];
        drivers.extend(settings.drivers);
        let parts = Parts {
            drivers,
            registry: Arc::clone(&registry),
            quarantine: Arc::clone(&quarantine),
            audit: Arc::clone(&audit),
        };
        let reload = ReloadSettings {
            once: settings.once,
            gate: settings.gate,
            reread: settings.reread,
            configured_by: settings.configured_by,
            first: settings.first.filter(|_| settings.once),
        };
        let supervisor = Supervisor::new(reload, parts, settings.config, remembered, shown);
        let loading = tokio::spawn(supervisor.run());
        Ok(Host {
            registry,
            availability,
            quarantine,
            definitions,
            dispatch,
            limits,
            config,
            granted,
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

    /// Waits until of every plugin is known what it registers, or why it does not: it has loaded or
    /// failed once, or what its bytes registered is recorded, and its code is compiled meanwhile.
    /// Returns what became of each.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn listed(&self) -> Arc<Vec<SourceStatus>> {
        let mut sources = self.sources.clone();
        match sources.wait_for(|shown| shown.listed).await {
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

    /// Waits until a call of this tool can be made: until its plugin is there, and whatever could
    /// guard the call or have the tool's name first; or until every plugin has loaded or failed once.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn ready_for(&self, tool: &str) {
        let mut sources = self.sources.clone();
        let is_ready = |shown: &Shown| {
            shown.settled
                || shown.tried && self.catalog().find(tool).is_none()
                || self.catalog().find(tool).is_some()
                    && shown.is_known
                    && !shown.arriving.keeps_waiting(tool, &self.catalog())
        };
        // Otherwise loading was stopped.
        let _ = sources.wait_for(is_ready).await;
    }

    /// Waits until the plugin of a tool has loaded or failed, if the tool is listed before that, since
    /// it is recorded what the plugin registers.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn arrived(&self, tool: &str) {
        let mut sources = self.sources.clone();
        let is_there = |shown: &Shown| {
            let catalog = self.catalog();
            let Some(entry) = catalog.find(tool) else { return true };
            let is_its = |status: &&SourceStatus| status.source.as_ref() == Some(&entry.source);
            let status = shown.statuses.iter().find(is_its);
            status.is_none_or(|status| !status.loading || status.serving().is_some())
        };
        // Otherwise loading was stopped.
        let _ = sources.wait_for(is_there).await;
    }

    /// What became of every plugin so far, whenever that changes.
    pub fn sources(&self) -> watch::Receiver<Shown> {
        self.sources.clone()
    }

    /// The directories that plugins are granted at present; as long as nothing was looked at, those
    /// that they were granted when the host started.
    pub fn granted(&self) -> Granted {
        match &self.sources.borrow().directories {
            Some(directories) => self.granted.with(directories),
            None => self.granted.clone(),
        }
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

    /// The tools whose plugins crashed or broke their limits too often, by name: for several
    /// callers, or for the command line and other calls without a session. They stay listed to
    /// models, since they come back soon.
    pub fn quarantined(&self) -> BTreeMap<String, Quarantined> {
        let catalog = self.registry.current();
        let found = |entry: &Entry| {
            Some((
                entry.tool.spec().name.to_string(),
                self.quarantine.of(entry, self.alone.caller())?,
            ))
        };
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
                Some(&entry.source) == of.source.as_ref()
                    && self.quarantine.of(entry, self.alone.caller()).is_some()
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
        missing::told(self.dispatch.call(&self.alone, call).await, &self.sources.borrow().statuses)
    }

    /// Runs one call of a session. It never fails: whatever happens is in the outcome.
    ///
    /// # Cancel safety
    /// Dropping the future stops the call.
    pub async fn call_in(&self, session: &Session, call: Call) -> Outcome {
        missing::told(self.dispatch.call(session, call).await, &self.sources.borrow().statuses)
    }

    /// Runs several calls of a session, side by side where none is in another's way; the
    /// outcomes are in the order of the calls. See [`Dispatch::batch`].
    ///
    /// # Cancel safety
    /// Dropping the future stops every call.
    pub async fn batch(&self, session: &Arc<Session>, calls: Vec<Call>) -> Vec<Outcome> {
        let outcomes = self.dispatch.batch(session, calls).await;
        let statuses = Arc::clone(&self.sources.borrow().statuses);
        outcomes.into_iter().map(|outcome| missing::told(outcome, &statuses)).collect()
    }

    /// Returns the definitions of the tools that a session has and that can work at present.
    ///
    /// # Cancel safety
    /// Dropping the future stops the checks and dynamic definitions it waits for.
    pub async fn definitions(&self, session: &Session, format: Format) -> Arc<Listed> {
        let catalog = self.registry.current();
        self.definitions.list(&catalog, session, format).await
    }

    /// The same without asking checks: what each said last counts, and a tool whose check was
    /// never asked is there. [`Host::unavailable`] asks them, and [`Host::checks_changed`] tells.
    ///
    /// # Cancel safety
    /// Dropping the future stops the dynamic definitions it waits for.
    pub async fn known_definitions(&self, session: &Session, format: Format) -> Arc<Listed> {
        let catalog = self.registry.current();
        self.definitions.list_known(&catalog, session, format).await
    }

    /// Counts how often a check answered otherwise than before.
    pub fn checks_changed(&self) -> watch::Receiver<u64> {
        self.availability.changes()
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
        self.written().await;
    }

    /// Waits until what the audit log was told so far is written, at most two seconds.
    pub async fn written(&self) {
        let audit = Arc::clone(&self.audit);
        // Beside the runtime's own work, since a disk may be slow.
        let _ = tokio::task::spawn_blocking(move || audit.flush()).await;
    }
}

/// Waits as [`Host::stop`] does until the audit log is written, and says what is lost.
impl Drop for Host {
    fn drop(&mut self) {
        self.loading.abort();
        self.registry.stop();
        self.audit.end();
    }
}

/// Where hosts tell each other of failures; not under limits that a project has lowered, since
/// what breaks these says nothing in other folders.
fn shared_failures(settings: &HostSettings) -> Option<PathBuf> {
    settings.state.clone().filter(|_| !settings.config.limits_are_lowered)
}

/// The audit log of a host, unless the operator wants none, or there is nowhere to write it.
pub(crate) fn audit(settings: &HostSettings) -> Audit {
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
pub(crate) fn loader(
    limits: Arc<Limits>,
    instances_max: usize,
    settings: &HostSettings,
    rules: DirectoryRules,
) -> Result<Loader, StartError> {
    let egress = Egress::new(settings.egress.clone(), &limits)?;
    let mut loader = Loader::new(Arc::clone(&limits), instances_max, egress)?;
    if let Some(program) = &settings.compiler {
        loader.compile_with(program.clone());
    }
    if settings.ends_soon {
        loader.end_soon();
    }
    loader.run_scripts_with(settings.runners.clone());
    loader.own_sources(settings.own.clone());
    loader.bound_directories(rules);
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
