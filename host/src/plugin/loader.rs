//! From a file to a registration. Every way in which this can fail has a name, a reason on one
//! line, and a repair.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use tempfile::TempDir;
use tokio::sync::{Semaphore, watch};
use wasmtime::component::Component;

use super::bindings::PluginPre;
use super::compile::{self, Cache, CacheError, Compiler, LARGE_BYTES, Named};
use super::contract::{self, Surface};
use super::convert::{self, Exported};
use super::directories::DirectoryRules;
use super::engine::{Engine, EngineError};
use super::imports::script::GuestScript;
use super::instance::{PluginTool, Prepared, Values};
use super::load_error::LoadError;
use super::loaded::{Facts, Loaded};
use super::optional::Optional;
use super::own::OwnBuilds;
use super::read;
use super::runner::{RunnerPlaces, Runners, runner_name};
use super::secrets::Secrets;
use super::store::Guest;
use crate::authority::Variables;
use crate::egress::Egress;
use crate::limits::Limits;
use crate::script::{self, Language, Script, Stamp};
use crate::store::Stores;
use crate::text;
use crate::tool::{Code, Meter, Origin, PluginId, Registration, SourceId, Tool};
use crate::turns::Party;

/// What is shown of a `register` that refuses: the SDKs name what is allowed.
const REFUSED_CHARS_MAX: usize = 600;

/// A file that may be a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its id.
    pub id: PluginId,
    /// The folder it lies in.
    pub folder: PathBuf,
    /// The file itself.
    pub path: PathBuf,
}

/// Loads plugins. It holds the engine they all share.
pub struct Loader {
    engine: Arc<Engine>,
    own_builds: OwnBuilds,
    own_sources: Vec<PathBuf>,
    compiler: Compiler,
    rules: Arc<DirectoryRules>,
    stores: Stores,
    values: ArcSwap<Values>,
    egress: Egress,
    /// What it loads is probed.
    decoy: Option<Arc<TempDir>>,
    /// The plugins being compiled at this moment, by id.
    now_compiling: watch::Sender<BTreeSet<String>>,
    /// Compiling fills a core, so there are as many permits as cores.
    compiling: Semaphore,
    /// What takes seconds is compiled one at a time, so that the rest need not wait for it.
    compiling_large: Semaphore,
    /// Runners keep no plugin waiting that needs none.
    compiling_runners: Semaphore,
    runners: Runners,
}

impl Loader {
    /// Starts the engine, with room for `instances_max` guests at once, whose requests go out by
    /// `egress`.
    ///
    /// # Errors
    /// If wasmtime refuses this machine.
    pub fn new(
        limits: Arc<Limits>,
        instances_max: usize,
        egress: Egress,
    ) -> Result<Loader, EngineError> {
        let engine = Arc::new(Engine::start(limits, instances_max)?);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Loader {
            stores: Stores::new(None, Arc::clone(&engine.limits)),
            engine,
            own_builds: OwnBuilds::default(),
            own_sources: Vec::new(),
            compiler: Compiler::default(),
            rules: Arc::default(),
            values: ArcSwap::default(),
            egress,
            decoy: None,
            now_compiling: watch::Sender::default(),
            compiling: Semaphore::new(cores),
            compiling_large: Semaphore::new(1),
            compiling_runners: Semaphore::new(1),
            runners: Runners::default(),
        })
    }

    /// Keeps compiled components in this folder, which must be this user's alone.
    ///
    /// # Errors
    /// If it cannot be made, or others can enter it. The loader goes on without it.
    pub fn open_cache(&mut self, folder: &Path) -> Result<(), CacheError> {
        self.compiler.cache = Some(Cache::open(folder)?);
        Ok(())
    }

    /// What is being compiled or waits for that, as it comes and goes: plugins by id, and runners,
    /// see [`runner_name`].
    pub fn compiling(&self) -> watch::Receiver<BTreeSet<String>> {
        self.now_compiling.subscribe()
    }

    /// Bounds the directories that can be granted.
    pub fn bound_directories(&mut self, rules: DirectoryRules) {
        self.rules = Arc::new(rules);
    }

    /// Gives the values of variables and secrets that plugins may be granted; tells whether they
    /// are others than before. Plugins that have their authority already keep what they had.
    pub fn provide(&self, variables: Variables, secrets: Secrets) -> bool {
        let values = Values { variables, secrets };
        let is_new = **self.values.load() != values;
        if is_new {
            self.values.store(Arc::new(values));
        }
        is_new
    }

    /// From now on loads plugins to probe them: they see an empty directory wherever they were
    /// granted none, nothing they require is asked for, and whatever they try is remembered.
    ///
    /// # Errors
    /// If no temporary directory can be made.
    pub fn probe(&mut self) -> std::io::Result<()> {
        self.decoy = Some(Arc::new(tempfile::tempdir()?));
        Ok(())
    }

    /// The state of the files of all runners.
    pub fn runners_stamp(&self) -> Vec<Stamp> {
        self.runners.stamp()
    }

    /// Renews a build with the values of this moment, without authority.
    pub fn renew(&self, loaded: &Loaded) -> Loaded {
        loaded.renewed(self.values.load_full())
    }

    /// Runs scripts with the components that lie there.
    pub fn run_scripts_with(&mut self, places: RunnerPlaces) {
        self.runners = Runners::new(places);
    }

    /// Gives the stores that plugins may be granted; without this, every store is unavailable.
    pub fn keep(&mut self, stores: Stores) {
        self.stores = stores;
    }

    /// Compiles with this program, in a process of its own for each component: it is run with
    /// the argument [`COMPILE_COMMAND`](super::COMPILE_COMMAND) and calls
    /// [`compile_here`](super::compile_here). Without one the host compiles, and a hostile
    /// component can exhaust it.
    pub fn compile_with(&mut self, program: PathBuf) {
        self.compiler.program = Some(program);
    }

    /// Says that whatever lies at these paths is made by whoever uses this host.
    pub fn own_sources(&mut self, paths: Vec<PathBuf>) {
        self.own_sources = paths;
    }

    /// Says that what lies at `path` now is made by whoever uses this host, and lasts until the
    /// next build: it is compiled quickly, for calls that are slower, and trusted in place of what
    /// was trusted before.
    ///
    /// # Errors
    /// If it cannot be read, or is a script without a runner.
    pub async fn own(&self, path: &Path) -> Result<(), LoadError> {
        let digest = match script::language(path) {
            Some(language) => {
                let runner = self.runner(language).await?;
                let (path, limits) = (path.to_owned(), Arc::clone(&self.engine.limits));
                let read = move || read::script(&path, &runner.digest, &limits);
                compile::digest(&compile::blocking(read).await??.pack())
            }
            None => compile::digest(&read::component(path, &self.engine.limits).await?),
        };
        self.own_builds.add(&digest);
        Ok(())
    }

    /// The digests of the runners that run scripts here.
    pub async fn runner_digests(&self) -> Vec<Arc<str>> {
        self.runners.known().await.iter().map(|runner| Arc::clone(&runner.digest)).collect()
    }

    /// Loads one plugin: reads, checks, compiles, links and registers it.
    ///
    /// The registration has the origin of least trust; the caller knows better. `meter` counts
    /// what `register` uses, also when it is stopped.
    ///
    /// # Errors
    /// With the reason and the repair, for whoever put the file there.
    ///
    /// # Cancel safety
    /// Dropping the future stops the plugin's `register`, and kills a compiling process.
    pub async fn load(
        &self,
        candidate: &Candidate,
        meter: &Arc<Meter>,
    ) -> Result<Loaded, LoadError> {
        self.load_only(candidate, None, meter).await
    }

    /// Loads one plugin, if its bytes have this digest: nothing of others is compiled or run.
    ///
    /// # Errors
    /// As [`Loader::load`]; or if the bytes are others.
    ///
    /// # Cancel safety
    /// As [`Loader::load`].
    pub async fn load_kept(
        &self,
        candidate: &Candidate,
        digest: &str,
    ) -> Result<Loaded, LoadError> {
        self.load_only(candidate, Some(digest), &Arc::default()).await
    }

    async fn load_only(
        &self,
        candidate: &Candidate,
        only: Option<&str>,
        meter: &Arc<Meter>,
    ) -> Result<Loaded, LoadError> {
        let Source { code, script, digest, bytes, packed } = self.source(candidate, only).await?;
        let prepared = Arc::new(self.prepare(candidate, &code, script));
        let Linked { surface, exported, .. } = &*code;
        let own = self.own_builds.has(&digest) || self.own_sources.contains(&candidate.path);
        let registered = self.register(&prepared, *exported, meter).await?;
        let tool = |spec| Arc::new(PluginTool::new(spec, Arc::clone(&prepared))) as Arc<dyn Tool>;
        Ok(Loaded {
            registration: Registration {
                source: SourceId::Plugin {
                    id: candidate.id.clone(),
                    folder: candidate.folder.clone(),
                },
                origin: Origin::Project,
                rank: usize::MAX,
                allow_tool_override: false,
                tools: registered.specs.into_iter().map(tool).collect(),
                needs: registered.needs,
                hooks: None,
                digest: Some(Arc::clone(&digest)),
                trusted: false,
                rejected: registered.rejected,
                waiting: Vec::new(),
            },
            facts: Facts {
                name: registered.name,
                version: registered.version,
                contract: surface.contract.clone(),
                digest,
                bytes,
                imports: surface.imports.clone(),
                exports: surface.exports.clone(),
                toolchain: surface.toolchain.clone(),
                extensions: registered.extensions,
                script: prepared.script.as_ref().map(|of| of.script.language),
            },
            packed,
            own,
            prepared,
        })
    }

    /// What a candidate is made of: a component of its own, or a script and its runner.
    async fn source(&self, candidate: &Candidate, only: Option<&str>) -> Result<Source, LoadError> {
        let limits = &self.engine.limits;
        if let Some(language) = script::language(&candidate.path) {
            let runner = self.runner(language).await?;
            let (path, digest) = (candidate.path.clone(), Arc::clone(&runner.digest));
            let limits = Arc::clone(limits);
            let read = move || read::script(&path, &digest, &limits);
            return Ok(Source::of_script(compile::blocking(read).await??, runner));
        }
        let bytes = read::component(&candidate.path, &self.engine.limits).await?;
        if only.is_some_and(|only| *compile::digest(&bytes) != *only) {
            return Err(LoadError::NotKept);
        }
        if let Some(script) = Script::unpack(&bytes) {
            let runner = self.runner(script.language).await?;
            if script.runner != *runner.digest {
                return Err(LoadError::OtherRunner);
            }
            return Ok(Source::of_script(script, runner));
        }
        let length = bytes.len() as u64;
        let permits =
            if bytes.len() > LARGE_BYTES { &self.compiling_large } else { &self.compiling };
        let code = self.link(&candidate.id.to_string(), bytes, permits).await?;
        let digest = Arc::clone(&code.digest);
        Ok(Source { code: Arc::new(code), script: None, digest, bytes: length, packed: None })
    }

    async fn runner(&self, language: Language) -> Result<Arc<Linked>, LoadError> {
        let (path, stamp, mut known) = self.runners.find(language).await?;
        if let Some(runner) = known.as_ref().filter(|(of, _)| *of == stamp) {
            return Ok(Arc::clone(&runner.1));
        }
        let bytes = read::component(&path, &self.engine.limits).await?;
        let runner =
            Arc::new(self.link(&runner_name(language), bytes, &self.compiling_runners).await?);
        *known = Some((stamp, Arc::clone(&runner)));
        Ok(runner)
    }

    /// Compiles a component, or gets its code from the cache, and links it. What was compiled
    /// before waits for nothing that is compiled now.
    async fn link(
        &self,
        name: &str,
        bytes: Vec<u8>,
        permits: &Semaphore,
    ) -> Result<Linked, LoadError> {
        let digest = compile::digest(&bytes);
        let surface = contract::read(&bytes)?;
        let exported = exported(&surface);
        let (engine, component) = match self.compiler.kept(&self.engine, &digest).await? {
            Some(component) => (Arc::clone(&self.engine), component),
            None => self.compile(name, bytes, permits, &digest).await?,
        };
        let misfit = |error: wasmtime::Error| LoadError::Link(compile::reason(&error));
        let pre = engine.linker.instantiate_pre(&component).map_err(misfit)?;
        let optional = Optional::find(exported, &pre).map_err(misfit)?;
        let pre = PluginPre::new(pre).map_err(misfit)?;
        Ok(Linked { engine, digest, surface, exported, pre, optional })
    }

    async fn compile(
        &self,
        name: &str,
        bytes: Vec<u8>,
        permits: &Semaphore,
        digest: &Arc<str>,
    ) -> Result<(Arc<Engine>, Component), LoadError> {
        let _named = Named::new(&self.now_compiling, name);
        let permit = permits.acquire().await;
        let _permit = permit.map_err(|error| LoadError::Internal(error.to_string()))?;
        let bytes: Arc<[u8]> = bytes.into();
        if let Some(quick) = self.own_builds.engine(digest, &self.engine) {
            match self.compiler.compile(&quick, Arc::clone(&bytes), digest).await {
                Ok(component) => return Ok((quick, component)),
                Err(error) => tracing::debug!(%error, "what compiles quickly does not know all"),
            }
        }
        let component = self.compiler.compile(&self.engine, bytes, digest).await?;
        Ok((Arc::clone(&self.engine), component))
    }

    fn prepare(
        &self,
        candidate: &Candidate,
        code: &Linked,
        script: Option<Arc<Script>>,
    ) -> Prepared {
        let id = candidate.id.to_string();
        Prepared {
            store: self.stores.of(&candidate.folder, &id),
            engine: Arc::clone(&code.engine),
            pre: code.pre.clone(),
            optional: code.optional.clone(),
            script: script.map(|script| GuestScript::new(script, &code.engine)),
            id: id.into(),
            party: Party::new(),
            rules: Arc::clone(&self.rules),
            stuck_opens: Arc::default(),
            client: self.egress.client(),
            habit: Arc::default(),
            decoy: self.decoy.clone(),
            values: self.values.load_full(),
            retired: watch::Sender::new(false),
            authority: OnceLock::new(),
        }
    }

    async fn register(
        &self,
        prepared: &Arc<Prepared>,
        exported: Exported,
        meter: &Arc<Meter>,
    ) -> Result<convert::Registered, LoadError> {
        let limits = &self.engine.limits;
        let time_max = limits.register_time_max;
        let Ok(answer) = tokio::time::timeout(time_max, prepared.register(Arc::clone(meter))).await
        else {
            return Err(LoadError::RegisterTime(humantime::format_duration(time_max).to_string()));
        };
        let answer = answer.map_err(|error| match error.code {
            Code::OutputTooLarge => LoadError::RegisterTooLarge(limits.registration_bytes_max.0),
            _ => LoadError::RegisterStopped {
                message: error.message,
                log: last_words(error.stderr.as_deref().unwrap_or_default()),
            },
        })?;
        let registration = answer.map_err(|message| {
            let message = convert::bounded(message, limits.error_bytes_max.as_usize());
            LoadError::RegisterRefused(text::cut(&text::one_line(&message), REFUSED_CHARS_MAX))
        })?;
        convert::registration(registration, exported, limits)
    }
}

/// A component that is compiled and linked.
pub(super) struct Linked {
    engine: Arc<Engine>,
    pub(super) digest: Arc<str>,
    surface: Surface,
    exported: Exported,
    pre: PluginPre<Guest>,
    optional: Optional,
}

/// What a plugin is made of.
struct Source {
    code: Arc<Linked>,
    script: Option<Arc<Script>>,
    /// Of the component, or of the script and its runner.
    digest: Arc<str>,
    bytes: u64,
    /// The script as bytes that have the digest.
    packed: Option<Arc<[u8]>>,
}

impl Source {
    fn of_script(script: Script, runner: Arc<Linked>) -> Source {
        let packed: Arc<[u8]> = script.pack().into();
        Source {
            digest: compile::digest(&packed),
            bytes: script.bytes(),
            packed: Some(packed),
            script: Some(Arc::new(script)),
            code: runner,
        }
    }
}

fn exported(surface: &Surface) -> Exported {
    let exports = |interface: &str| {
        surface
            .exports
            .iter()
            .any(|name| name.strip_prefix(interface).is_some_and(|rest| rest.starts_with("@0.1.")))
    };
    Exported {
        availability: exports("toolhost:plugin/availability"),
        schema_override: exports("toolhost:plugin/schema-override"),
        hooks: exports("toolhost:plugin/hooks"),
    }
}

/// The last line that says something, of what a guest wrote before it died.
fn last_words(stderr: &str) -> String {
    let says_something = |line: &&str| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with("note:")
    };
    match stderr.lines().rev().find(says_something) {
        Some(line) => format!(" (its last words: {})", text::cut(line.trim(), 200)),
        None => String::new(),
    }
}
