//! The library's face: wires the rooms together, and nothing else.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use thiserror::Error;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::config::Config;
use crate::dispatch::Dispatch;
use crate::limits::Limits;
use crate::lock::{self, LockError};
use crate::plugin::{Candidate, DirectoryRules, EngineError, LoadError, Loaded, Loader};
use crate::registry::{Catalog, Registry, SourceReport};
use crate::reload::{self, Folder, Remembered, SourceStatus};
use crate::tool::{Call, Meter, Outcome, PluginId, PluginIdError, Usage};

/// What a host is started with. It reads no environment and no home of its own.
#[derive(Clone, Debug, Default)]
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
    /// What bounds the directories that can be granted: the host's own folders above all.
    pub directories: DirectoryRules,
    /// Where this user's host remembers things. Without it, no plugin counts as bundled.
    pub state: Option<PathBuf>,
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
}

/// Why a file cannot be inspected.
#[derive(Debug, Error)]
pub enum InspectError {
    /// Its name is no id.
    #[error(transparent)]
    Id(#[from] PluginIdError),
    /// The engine refuses this machine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// It is no plugin.
    #[error(transparent)]
    Load(#[from] LoadError),
}

/// Why a tool cannot work at present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable {
    /// In one sentence.
    pub reason: String,
    /// What its check used.
    pub usage: Usage,
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
    dispatch: Dispatch,
    sources: watch::Receiver<Option<Arc<Vec<SourceStatus>>>>,
    loading: JoinHandle<()>,
    compiling: watch::Receiver<BTreeSet<String>>,
    check_time_max: Duration,
}

/// Checks of tools that run side by side.
const CHECKS_AT_ONCE: usize = 16;

impl Host {
    /// Starts a host. It answers at once; plugins appear when they have loaded.
    ///
    /// It must be called within a tokio runtime.
    ///
    /// # Errors
    /// If the engine refuses this machine, or what the host remembers is damaged.
    pub fn start(settings: HostSettings) -> Result<Host, StartError> {
        let remembered = match &settings.state {
            Some(state) => {
                Remembered { bundled: lock::bundled_digests(state)?, pins: lock::pins(state)? }
            }
            None => Remembered::default(),
        };
        let limits = Arc::new(settings.config.limits.clone());
        let calls_max = limits.calls_per_core_max.0 * cores();
        // Plugins register beside the calls, as many at once as are loaded side by side.
        let instances_max = calls_max + 2 * cores();
        let loader = Arc::new(loader(Arc::clone(&limits), instances_max, &settings)?);
        // The recorded owners of names join with the lock file.
        let registry = Arc::new(Registry::new(Arc::clone(&limits), HashMap::new()));
        let dispatch = Dispatch::new(Arc::clone(&registry), limits, calls_max);
        let check_time_max = settings.config.limits.check_time_max;
        let compiling = loader.compiling();
        let (loaded, sources) = watch::channel(None);
        let shelf = Arc::clone(&registry);
        let loading = tokio::spawn(async move {
            let HostSettings { folders, config, .. } = settings;
            let statuses = reload::load_all(&folders, &loader, &shelf, &config, &remembered).await;
            loaded.send_replace(Some(Arc::new(statuses)));
        });
        Ok(Host { registry, dispatch, sources, loading, compiling, check_time_max })
    }

    /// Waits until every plugin has loaded or failed, and returns what became of each.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn loaded(&self) -> Arc<Vec<SourceStatus>> {
        let mut sources = self.sources.clone();
        match sources.wait_for(Option::is_some).await {
            Ok(statuses) => statuses.clone().unwrap_or_default(),
            // Loading was stopped.
            Err(_) => Arc::default(),
        }
    }

    /// The plugins being compiled, by id, as they come and go.
    pub fn compiling(&self) -> watch::Receiver<BTreeSet<String>> {
        self.compiling.clone()
    }

    /// Asks every tool that can tell whether it can work at present, side by side; returns the
    /// tools that cannot, with the reason.
    ///
    /// It takes at most twice the limit of one check, however many there are.
    ///
    /// # Cancel safety
    /// Dropping the future stops the checks.
    pub async fn unavailable(&self) -> BTreeMap<String, Unavailable> {
        let catalog = self.registry.current();
        let asked: Vec<_> = catalog
            .tools()
            .into_iter()
            .filter(|entry| entry.tool.spec().has_check)
            .map(|entry| (entry.tool.spec().name.to_string(), Arc::clone(&entry.tool)))
            .collect();
        let mut left: BTreeSet<String> = asked.iter().map(|(name, _)| name.clone()).collect();
        let checks = asked.into_iter().map(|(name, tool)| async move {
            let meter = Arc::new(Meter::default());
            let answer = tool.check(Arc::clone(&meter)).await;
            (name, answer, meter.usage())
        });
        let mut answers = futures_util::stream::iter(checks).buffer_unordered(CHECKS_AT_ONCE);
        let mut unavailable = BTreeMap::new();
        let collect = async {
            while let Some((name, answer, usage)) = answers.next().await {
                left.remove(&name);
                if let Err(reason) = answer {
                    unavailable.insert(name, Unavailable { reason, usage });
                }
            }
        };
        // Whoever was not asked in time is named as well.
        let _ = tokio::time::timeout(2 * self.check_time_max, collect).await;
        let late = Unavailable {
            reason: "it was not checked in time".to_owned(),
            usage: Usage::default(),
        };
        unavailable.extend(left.into_iter().map(|name| (name, late.clone())));
        unavailable
    }

    /// Runs one call. It never fails: whatever happens is in the outcome.
    ///
    /// # Cancel safety
    /// Dropping the future stops the call.
    pub async fn call(&self, call: Call) -> Outcome {
        self.dispatch.call(call).await
    }

    /// The catalog of this moment.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.registry.current()
    }

    /// Tells of every new generation of the catalog.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.registry.subscribe()
    }

    /// Stops loading. Calls under way end when their futures are dropped.
    pub async fn stop(self) {
        self.loading.abort();
        // Aborted is how it ends.
        let _ = self.loading.await;
    }
}

/// Loads one file without making it callable, to look at it.
///
/// # Errors
/// With the reason why it is no plugin, and the repair.
pub async fn inspect(
    path: &Path,
    settings: &HostSettings,
) -> Result<(Loaded, SourceReport), InspectError> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let candidate = Candidate {
        id: PluginId::from_stem(&stem)?,
        folder: path.parent().unwrap_or(Path::new(".")).to_owned(),
        path: path.to_owned(),
    };
    let limits = Arc::new(settings.config.limits.clone());
    let loader = loader(Arc::clone(&limits), 1, settings)?;
    let mut loaded = loader.load(&candidate, &Arc::default()).await?;
    let plugin = settings.config.plugins.get(&candidate.id).cloned().unwrap_or_default();
    loaded.registration.allow_tool_override = plugin.allow_tool_override;
    let registry = Registry::new(limits, HashMap::new());
    let catalog = registry.publish([loaded.registration.clone()]);
    let report = catalog.report(&loaded.registration.source).cloned().unwrap_or_default();
    Ok((loaded, report))
}

/// A loader without a cache is slower, and otherwise the same.
fn loader(
    limits: Arc<Limits>,
    instances_max: usize,
    settings: &HostSettings,
) -> Result<Loader, EngineError> {
    let mut loader = Loader::new(limits, instances_max)?;
    if let Some(program) = &settings.compiler {
        loader.compile_with(program.clone());
    }
    loader.bound_directories(settings.directories.clone());
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
