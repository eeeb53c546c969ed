//! From a file to a registration. Every way in which this can fail has a name, a reason on one
//! line, and a repair.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::watch;

use super::account::{Account, Accounts, LoadAs, Standing};
use super::adapter::Offers;
use super::candidate::Candidate;
use super::capability::dirs::directories::DirectoryRules;
use super::capability::secrets::Secrets;
use super::capability::{HostMeans, Shares, Values};
use super::compile;
use super::compile::cache::{CacheError, Caches};
use super::dev_builds::OwnSource;
use super::engine::{Engine, EngineError};
use super::link::{Linked, Links};
use super::load_error::LoadError;
use super::load_queue::{LoadQueue, Use};
use super::loaded::{Facts, Loaded, registration};
use super::plugin::program::LazyProgram;
use super::plugin::{Prepared, Preparing};
use super::read;
use super::runner::{Runner, RunnerPlaces, Runners, check_recorded, runner_name};
use super::source::PluginCode;
use super::stopped::Stopped;
use crate::script::{self, Language, Script, Stamp};
use toolhost_core::limits::Limits;
use toolhost_core::runtime::MemoryBudget;
use toolhost_core::scheduler::Slot;
use toolhost_core::tool::{Meter, PluginId};
use toolhost_egress::Egress;
use toolhost_policy::capability::Variables;
use toolhost_state::read::ReadScope;
use toolhost_state::store::Stores;

/// Loads plugins. It holds the engine they all share.
pub struct Loader {
    pub(super) engine: Arc<Engine>,
    pub(super) links: Links,
    own_sources: Vec<OwnSource>,
    rules: Arc<DirectoryRules>,
    stores: Stores,
    values: ArcSwap<Values>,
    egress: Egress,
    /// What it loads is probed.
    is_probed: bool,
    /// Where bytes are remembered whose `register` did not return, and whether these are skipped.
    pub(super) stopped: Option<(Stopped, bool)>,
    pub(super) load_queue: LoadQueue,
    pub(super) accounts: Accounts,
    pub(super) runners: Runners,
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
        let accounts = Accounts::new(Arc::clone(&limits));
        let engine = Arc::new(Engine::start(limits, instances_max)?);
        Ok(Loader {
            stores: Stores::new(None, Arc::clone(&engine.limits)),
            links: Links::new(Arc::clone(&engine))?,
            engine,
            own_sources: Vec::new(),
            rules: Arc::default(),
            values: ArcSwap::default(),
            egress,
            is_probed: false,
            stopped: None,
            load_queue: LoadQueue::new(cores()),
            accounts,
            runners: Runners::default(),
        })
    }

    /// The process ends soon, and is not to wait for the end of idle threads.
    pub fn end_soon(&mut self) {
        self.engine.long.end_soon();
    }

    /// Remembers in this folder which bytes did not return from `register`. With `skips`, those of
    /// the last hour are not tried again.
    pub fn remember_stopped(&mut self, folder: PathBuf, skips: bool) {
        self.stopped = Some((Stopped(folder), skips));
    }

    /// Tells whether the plugins of a folder that nobody has trusted have used up the time that they
    /// may take to register: nobody waits for those that are left.
    pub fn has_registered_too_long(&self, folder: &Path) -> bool {
        self.accounts.has_registered_too_long(folder)
    }

    /// What is left of the memory of all guests, for others to take of it too.
    pub fn memory(&self) -> Arc<MemoryBudget> {
        Arc::clone(&self.engine.memory)
    }

    /// Keeps compiled components in this folder, which must be this user's alone.
    ///
    /// # Errors
    /// If it cannot be made, or others can enter it. The loader goes on without it.
    pub fn open_cache(&mut self, folder: &Path) -> Result<(), CacheError> {
        self.links.compiler.caches = Some(Caches::open(folder)?);
        Ok(())
    }

    /// What is being compiled or waits for that, as it comes and goes: plugins by id, and runners,
    /// see [`runner_name`].
    pub fn compiling(&self) -> watch::Receiver<BTreeSet<String>> {
        self.links.now_compiling.subscribe()
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

    /// From now on loads plugins to probe them: nothing they require is asked for, and whatever
    /// they try is remembered.
    pub fn probe(&mut self) {
        self.is_probed = true;
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
        self.links.compiler.program = Some(program);
    }

    /// Says that what is saved there from now on is made by whoever uses this host.
    pub fn own_sources(&mut self, sources: Vec<OwnSource>) {
        self.own_sources = sources;
    }

    /// Says that what lies at `path` now is made by whoever uses this host, and lasts until the
    /// next build: it is compiled quickly, for calls that are slower, and trusted in place of what
    /// was trusted before.
    ///
    /// # Errors
    /// If it cannot be read, or is a script without a runner.
    pub async fn own(&self, path: &Path) -> Result<(), LoadError> {
        let digest = match script::written_in(path) {
            Some(language) => {
                let runner = self.runner(language).await?;
                let (path, limits) = (path.to_owned(), Arc::clone(&self.engine.limits));
                let read =
                    move || read::script(&ReadScope::Own, &path, &runner.code.digest, &limits);
                compile::digest(&compile::blocking(read).await??.pack())
            }
            None => compile::digest(&self.own_bytes(path).await?),
        };
        self.links.own_builds.add(&digest);
        Ok(())
    }

    /// Tells whether nothing has to be compiled for a plugin with this digest.
    pub async fn is_compiled(&self, candidate: &Candidate, digest: &str) -> bool {
        let Some(language) = script::written_in(&candidate.path) else {
            return self.links.is_compiled(digest);
        };
        let runner = self.runners.digest(language, &self.engine.limits).await;
        runner.is_ok_and(|runner| self.links.is_compiled(&runner))
    }

    /// The digests of the runners that run scripts here, and count.
    pub async fn runner_digests(&self) -> Vec<Arc<str>> {
        self.runners.known().await.iter().map(|runner| Arc::clone(&runner.digest)).collect()
    }

    /// Loads one plugin: reads, checks, compiles, links and registers it.
    ///
    /// Its origin is that of least trust; the caller knows better. `meter` counts what `register` uses.
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
        self.load_as(candidate, &LoadAs::default(), meter).await
    }

    /// The same for a plugin that is not this user's own; see [`LoadAs`].
    ///
    /// # Errors
    /// As [`Loader::load`]; or if the plugins of its folder have cost more than they may.
    ///
    /// # Cancel safety
    /// As [`Loader::load`].
    pub async fn load_as(
        &self,
        candidate: &Candidate,
        load_as: &LoadAs,
        meter: &Arc<Meter>,
    ) -> Result<Loaded, LoadError> {
        self.load_only(candidate, load_as, None, meter).await
    }

    /// Loads one plugin, if its bytes have this digest: nothing of others is compiled or run.
    ///
    /// # Errors
    /// As [`Loader::load_as`]; or if the bytes are others.
    ///
    /// # Cancel safety
    /// As [`Loader::load`].
    pub async fn load_kept(
        &self,
        candidate: &Candidate,
        load_as: &LoadAs,
        digest: &str,
    ) -> Result<Loaded, LoadError> {
        self.load_only(candidate, load_as, Some(digest), &Arc::default()).await
    }

    /// The plugin of a candidate is gone.
    pub fn forget(&self, candidate: &Candidate) {
        self.accounts.forget(candidate);
    }

    /// Waits for a slot to run what a load runs of a plugin beside `register`.
    ///
    /// # Errors
    /// Never, as long as the loader lives.
    pub async fn slot(&self, folder: &Path, standing: Standing) -> Result<Slot<'_>, LoadError> {
        self.load_queue.register(standing, self.accounts.key(folder)).await
    }

    /// The digest of a candidate's present bytes: of a script, together with its runner's.
    ///
    /// # Errors
    /// If it cannot be read, or is a script without a runner.
    pub async fn digest(
        &self,
        candidate: &Candidate,
        load_as: &LoadAs,
    ) -> Result<Arc<str>, LoadError> {
        let limits = &self.engine.limits;
        let _reading = self.load_queue.read(load_as.standing).await?;
        let Some(language) = script::written_in(&candidate.path) else {
            let bytes =
                read::component(&candidate.place, &candidate.path, limits.component_bytes_max.0)
                    .await?;
            return Ok(compile::digest(&bytes));
        };
        let runner = self.runners.digest(language, limits).await?;
        let (path, limits) = (candidate.path.clone(), Arc::clone(limits));
        let place = candidate.place.clone();
        let read = move || read::script(&place, &path, &runner, &limits);
        Ok(compile::digest(&compile::blocking(read).await??.pack()))
    }

    async fn own_bytes(&self, path: &Path) -> Result<Vec<u8>, LoadError> {
        read::component(&ReadScope::Own, path, self.engine.limits.component_bytes_max.0).await
    }

    async fn load_only(
        &self,
        candidate: &Candidate,
        load_as: &LoadAs,
        only: Option<&str>,
        meter: &Arc<Meter>,
    ) -> Result<Loaded, LoadError> {
        let mut account = self.accounts.open(candidate, load_as);
        let source = self.source(candidate, &mut account, only).await?;
        let program = source.program();
        let PluginCode { code, script, digest, bytes, packed, unrecorded } = source;
        let runner = script.as_ref().map(|_| Arc::clone(&code.digest));
        let Linked { contract, surface, offers, .. } = &*code;
        let own = self.is_own(candidate, &digest);
        let prepared = self.prepare(candidate, *offers, &code.engine, LazyProgram::loaded(program));
        let prepared = Arc::new(prepared);
        let program = prepared.program().await?;
        let registered = self.register(&prepared, program, &account, meter).await?;
        let (specs, needs) = (registered.specs, registered.needs);
        Ok(Loaded {
            registration: registration(
                candidate,
                &prepared,
                &digest,
                (specs, needs, registered.rejected),
            ),
            facts: Facts {
                name: registered.name,
                version: registered.version,
                contract: contract.clone(),
                digest,
                bytes,
                imports: surface.imports.clone(),
                exports: surface.exports.clone(),
                toolchain: surface.toolchain.clone(),
                extensions: registered.extensions,
                script: script.map(|script| script.language),
            },
            packed,
            runner,
            own,
            unrecorded,
            prepared,
        })
    }

    /// What a candidate is made of: a component of its own, or a script and its runner.
    pub(super) async fn source(
        &self,
        candidate: &Candidate,
        account: &mut Account<'_>,
        only: Option<&str>,
    ) -> Result<PluginCode, LoadError> {
        let limits = &self.engine.limits;
        if let Some(language) = script::written_in(&candidate.path) {
            let runner = self.runner(language).await?;
            let _reading = self.load_queue.read(account.standing()).await?;
            account.bytes_left()?;
            let (path, digest) = (candidate.path.clone(), Arc::clone(&runner.code.digest));
            let (limits, place) = (Arc::clone(limits), candidate.place.clone());
            let read = move || read::script(&place, &path, &digest, &limits);
            let read = compile::blocking(read).await??;
            return self.of_script(candidate, read, runner, account);
        }
        let reading = self.load_queue.read(account.standing()).await?;
        let (bytes_max, left) = (limits.component_bytes_max.0, account.bytes_left()?);
        let (place, path) = (&candidate.place, &candidate.path);
        let bytes = match read::component(place, path, bytes_max.min(left)).await {
            // It is not too large, but what is left to its folder is too little.
            Err(LoadError::TooLarge { given, .. }) if given <= bytes_max => {
                return Err(account.held_too_much());
            }
            Err(LoadError::TooLarge { given, .. }) => {
                return Err(LoadError::TooLarge { given, allowed: bytes_max });
            }
            read => read?,
        };
        if only.is_some_and(|only| *compile::digest(&bytes) != *only) {
            return Err(LoadError::NotKept);
        }
        if let Some(script) = script::unpack(&bytes, limits)? {
            drop((bytes, reading));
            let runner = self.runner(script.language).await?;
            if script.runner != *runner.code.digest {
                return Err(LoadError::OtherRunner);
            }
            return self.of_script(candidate, script, runner, account);
        }
        let length = bytes.len() as u64;
        let digest = compile::digest(&bytes);
        account.learn(&digest, self.is_own(candidate, &digest));
        account.hold(length)?;
        let name = candidate.id.to_string();
        let file = (candidate, bytes);
        let used_as = (Use::Plugin, &*name);
        let code = self.links.link(&self.load_queue, used_as, file, reading, account).await?;
        Ok(PluginCode { code, script: None, digest, bytes: length, packed: None, unrecorded: None })
    }

    fn of_script(
        &self,
        candidate: &Candidate,
        script: Script,
        runner: Runner,
        account: &mut Account<'_>,
    ) -> Result<PluginCode, LoadError> {
        let source = PluginCode::of_script(script, runner);
        account.learn(&source.digest, self.is_own(candidate, &source.digest));
        // Its text is held, and what has its digest.
        account
            .hold(source.bytes + source.packed.as_ref().map_or(0, |packed| packed.len() as u64))?;
        Ok(source)
    }

    pub(super) fn is_own(&self, candidate: &Candidate, digest: &str) -> bool {
        let is_it = |own: &OwnSource| own.is(&candidate.path, digest);
        self.links.own_builds.has(digest) || self.own_sources.iter().any(is_it)
    }

    async fn runner(&self, language: Language) -> Result<Runner, LoadError> {
        let (path, stamp, mut known) = self.runners.find(language).await?;
        if let Some(runner) = known.as_ref().filter(|(of, _)| *of == stamp) {
            return Ok(runner.1.clone());
        }
        // A runner is the user's own, whoever needs it first.
        let candidate = Candidate {
            id: PluginId::from_stem(language.word())
                .map_err(|error| LoadError::Internal(error.to_string()))?,
            folder: PathBuf::new(),
            path,
            place: ReadScope::Own,
        };
        let load_as = LoadAs::default();
        let account = self.accounts.open(&candidate, &load_as);
        let reading = self.load_queue.read(Standing::User).await?;
        let bytes = self.own_bytes(&candidate.path).await?;
        let (file, name) = ((&candidate, bytes), runner_name(language));
        let used_as = (Use::Runner, &*name);
        let code = self.links.link(&self.load_queue, used_as, file, reading, &account).await?;
        // Of the bytes that were linked, whatever lies there by now.
        let unrecorded = check_recorded(&candidate.path, &code.digest).err().map(Arc::new);
        let runner = Runner { code, unrecorded };
        *known = Some((stamp, runner.clone()));
        Ok(runner)
    }

    pub(super) fn prepare(
        &self,
        candidate: &Candidate,
        offers: Offers,
        engine: &Arc<Engine>,
        program: LazyProgram,
    ) -> Prepared {
        let id = candidate.id.to_string();
        let means = HostMeans {
            folder: &candidate.folder,
            id: &id,
            rules: &self.rules,
            stores: &self.stores,
            egress: &self.egress,
        };
        Prepared::new(Preparing {
            shares: Shares::new(&means),
            engine: Arc::clone(engine),
            program: Arc::new(program),
            offers,
            id: id.into(),
            values: self.values.load_full(),
            is_probed: self.is_probed,
        })
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
