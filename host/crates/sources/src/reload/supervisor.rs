//! From events to what serves: looks at what lies there, loads what is new, one at a time for each
//! file and all files side by side, and publishes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};
use tokio::task::{Id, JoinError, JoinSet};

use super::arriving::{self, Arriving};
use super::build::Build;
use super::files::{self, Files};
use super::gate::{self, Gate};
use super::reconcile::{Guards, Settled};
use super::source::Source;
use super::trust_policy::Case;
use super::{Failed, Shown, SourceStatus, audit, persist, recorded, whose};
use crate::folder::Folder;
use crate::remembered::Remembered;
use crate::watcher::Watcher;
use toolhost_core::limits::Limits;
use toolhost_core::tool::{SourceId, Usage};
use toolhost_kernel::quarantine::Quarantine;
use toolhost_kernel::registry::Registry;
use toolhost_policy::capability::Variables;
use toolhost_state::audit::Audit;
use toolhost_state::config::Config;
use toolhost_state::store::Builds;
use toolhost_wasm::script::Stamp;
use toolhost_wasm::{LoadError, Loaded, Loader, Phase, Secrets};

/// What is ready so soon after something else is published with it.
const TOGETHER: Duration = Duration::from_millis(50);

/// Sources that turn out not to be what is recorded of them, and wait to be loaded.
const MISFITS_MAX: usize = 1_000;

/// What is loaded, and how.
#[derive(Clone, Default)]
pub struct ReloadSettings {
    /// Folders of plugins, the highest rank first.
    pub folders: Vec<Folder>,
    /// Everything is loaded once, and changes are not noticed.
    pub once: bool,
    /// Also what is recorded, and looks as it did then, is loaded before it is needed.
    pub load_all: bool,
    /// Whether the examples of changed builds are run.
    pub gate: Gate,
    /// Reads anew what the operator configured.
    pub reread: Option<Reread>,
    /// The files that it reads.
    pub configured_by: Vec<PathBuf>,
    /// Where everything is loaded once: a tool that is wanted before all others. As soon as it can be
    /// called, nothing else is loaded.
    pub first: Option<String>,
}

/// Reads what the operator configured; it may block.
pub type Reread = Arc<dyn Fn() -> Result<Renewed, String> + Send + Sync>;

/// What the operator configured, read anew.
pub struct Renewed {
    /// Of this, what is said of plugins counts. Limits and toolsets stay what they were.
    pub config: Config,
    /// Values of variables that plugins may be granted.
    pub variables: Variables,
    /// Values of secrets that plugins may be granted.
    pub secrets: Secrets,
}

/// The parts it works with.
pub struct Parts {
    /// Loads.
    pub loader: Arc<Loader>,
    /// Where it publishes.
    pub registry: Arc<Registry>,
    /// Tells of new builds that crash at once.
    pub quarantine: Arc<Quarantine>,
    /// Hears of loads.
    pub audit: Arc<Audit>,
}

/// Keeps what is published in step with what lies in the folders.
pub struct Supervisor {
    pub(super) settings: ReloadSettings,
    pub(super) parts: Parts,
    pub(super) config: Config,
    pub(super) limits: Arc<Limits>,
    pub(super) remembered: Arc<Remembered>,
    /// Grows when values of variables or secrets may have changed.
    pub(super) values: u64,
    pub(super) sources: BTreeMap<SourceId, Source>,
    /// How many sources there were so far.
    pub(super) sources_count: u64,
    /// What cannot be a plugin.
    pub(super) problems: Vec<SourceStatus>,
    /// Where folders are, as far as that was ever known.
    pub(super) real_folders: BTreeMap<PathBuf, PathBuf>,
    /// Something has changed since it was published last.
    pub(super) changed: bool,
    /// When it began.
    pub(super) since: Instant,
    /// Since when something that was seen is not remembered.
    pub(super) unsaved: Option<(Instant, String)>,
    /// Why the configuration cannot be read anew.
    pub(super) misconfigured: Option<SourceStatus>,
    guards: Guards,
    /// Most files are not to be loaded.
    pub(super) is_partial: bool,
    /// ... and what was to be loaded first is there.
    pub(super) is_first_there: bool,
    pub(super) work: JoinSet<Done>,
    /// What is worked at, for those that break.
    pub(super) working: HashMap<Id, Work>,
    pub(super) shown: watch::Sender<Shown>,
    pub(super) compiling: watch::Receiver<BTreeSet<String>>,
    pub(super) watcher: Option<Watcher>,
    /// The states of the files that were read last.
    pub(super) configured: Vec<Stamp>,
    pub(super) known: Vec<Stamp>,
    /// What was remembered has a say in what is configured, and has changed.
    pub(super) reread_due: bool,
    /// What files looked like when they were loaded last.
    pub(super) files: Files,
    pub(super) limits_key: String,
    /// Sources that are not what is recorded of them.
    pub(super) misfits: (mpsc::Sender<SourceId>, mpsc::Receiver<SourceId>),
}

/// What is worked at.
#[derive(Clone)]
pub(super) struct Work {
    /// Of which source.
    pub(super) source: SourceId,
    /// The source's number: the next one with this id is another.
    number: u64,
    /// The digest of the kept build, if it is not the file.
    pub(super) kept: Option<String>,
}

/// What was worked at.
pub(super) struct Done {
    work: Work,
    what: What,
}

pub(super) enum What {
    /// The file was read.
    Loaded(Result<Loaded, LoadError>, Usage),
    /// Its examples have run.
    Passed(Box<Build>, Result<(), String>),
    /// A kept build was read.
    Kept(Result<Loaded, LoadError>),
}

impl Supervisor {
    /// It does nothing until it runs; `shown` tells what became of sources.
    pub fn new(
        settings: ReloadSettings,
        parts: Parts,
        config: Config,
        remembered: Remembered,
        shown: watch::Sender<Shown>,
    ) -> Supervisor {
        let limits = Arc::new(config.limits.clone());
        let limits_key = files::key(&limits);
        let watcher = (!settings.once).then(Watcher::start);
        let compiling = parts.loader.compiling();
        let mut supervisor = Supervisor {
            settings,
            parts,
            compiling,
            config,
            limits,
            remembered: Arc::new(remembered),
            values: 0,
            sources: BTreeMap::new(),
            sources_count: 0,
            problems: Vec::new(),
            real_folders: BTreeMap::new(),
            changed: true,
            since: Instant::now(),
            unsaved: None,
            misconfigured: None,
            guards: Guards::default(),
            is_partial: false,
            is_first_there: false,
            work: JoinSet::new(),
            working: HashMap::new(),
            shown,
            watcher,
            configured: Vec::new(),
            known: Vec::new(),
            reread_due: false,
            files: Files::default(),
            limits_key,
            misfits: mpsc::channel(MISFITS_MAX),
        };
        supervisor.configured = supervisor.configured_now();
        supervisor.known = supervisor.known_now();
        supervisor
    }

    /// Loads and publishes, and goes on with it until it is dropped; or, if everything is to be
    /// loaded once, until that is done.
    ///
    /// # Cancel safety
    /// Dropping the future stops the loads. What was published stays.
    pub async fn run(mut self) {
        self.look().await;
        self.recall().await;
        if let Some(tool) = self.settings.first.clone()
            && self.load_first(&tool).await
        {
            return;
        }
        self.take_recorded(None).await;
        loop {
            self.start(None);
            // What is renamed is gone and new at once.
            self.take_more().await;
            // What is loaded once is published once; or twice, if a runner is compiled first.
            let is_time = self.watcher.is_some()
                || self.settings.first.is_some()
                || self.work.is_empty()
                || self.waits_for_runners()
                || self.is_listed() && !self.shown.borrow().listed;
            if is_time && std::mem::take(&mut self.changed) {
                self.publish().await;
            }
            if !self.wait().await {
                return;
            }
        }
    }

    /// Waits until there is something new. Returns false if there will not be.
    async fn wait(&mut self) -> bool {
        let Supervisor { work, watcher, parts, compiling, shown, misfits, .. } = self;
        // What is compiled is of concern at the start alone.
        let is_starting = !shown.borrow().started;
        let Some(watcher) = watcher else {
            tokio::select! {
                done = work.join_next_with_id() => match done {
                    Some(done) => self.take(done),
                    None => return false,
                },
                Ok(()) = compiling.changed(), if is_starting => self.changed = true,
            }
            return true;
        };
        tokio::select! {
            Some(done) = work.join_next_with_id() => {
                self.take(done);
            }
            Ok(()) = compiling.changed(), if is_starting => self.changed = true,
            () = watcher.changed() => self.look().await,
            Some(source) = misfits.1.recv() => self.load_again(&source),
            fallen = parts.quarantine.fell() => self.fell(fallen).await,
        }
        true
    }

    /// Takes what is ready at about the same time.
    async fn take_more(&mut self) {
        let until = tokio::time::Instant::now() + TOGETHER;
        while let Ok(Some(done)) =
            tokio::time::timeout_at(until, self.work.join_next_with_id()).await
        {
            self.take(done);
        }
    }

    /// Works for a source, which is busy until that is taken in.
    pub(super) fn spawn(
        &mut self,
        id: SourceId,
        kept: Option<String>,
        work: impl Future<Output = What> + Send + 'static,
    ) {
        let Some(source) = self.sources.get_mut(&id) else { return };
        let of = Work { source: id, number: source.number, kept };
        let known = of.clone();
        let handle = self.work.spawn(async move { Done { work: of, what: work.await } });
        self.working.insert(handle.id(), known);
        source.busy = Some(handle);
        self.changed = true;
    }

    /// Takes in what was worked at.
    pub(super) fn take(&mut self, done: Result<(Id, Done), JoinError>) {
        self.changed = true;
        let (Work { source: id, number, kept }, what) = match done {
            Ok((id, Done { work, what })) => {
                self.working.remove(&id);
                (work, what)
            }
            Err(error) => {
                let Some(work) = self.working.remove(&error.id()) else { return };
                let broken = Err(LoadError::Internal(error.to_string()));
                let what = match &work.kept {
                    Some(_) => What::Kept(broken),
                    None => What::Loaded(broken, Usage::default()),
                };
                (work, what)
            }
        };
        // It may be gone by now, and another be there.
        let source = self.sources.get_mut(&id).filter(|source| source.number == number);
        let Some(source) = source else { return };
        source.busy = None;
        match what {
            What::Loaded(loaded, usage) => {
                source.usage = usage;
                match loaded {
                    Ok(loaded) => self.loaded(&id, Build::new(loaded)),
                    Err(error) => source.file = Some(Err(error.into())),
                }
            }
            What::Passed(build, passed) => match passed {
                Ok(()) => source.accept(*build),
                Err(reason) => {
                    let reason = format!("{reason}; correct the tool or its example");
                    source.file = Some(Err(Failed { phase: Phase::Examples, reason }));
                }
            },
            What::Kept(loaded) => {
                let digest = kept.unwrap_or_default();
                match loaded {
                    Ok(loaded) => {
                        source.builds.insert(digest.into(), Build::new(loaded));
                    }
                    Err(error) => {
                        let reason = error.to_string();
                        if source.refuses(digest, &reason) {
                            tracing::warn!("a kept build of {id} does not serve: {reason}");
                        }
                    }
                }
            }
        }
    }

    /// A source is read: it is the same as before, passes its examples first, or is accepted.
    fn loaded(&mut self, id: &SourceId, build: Build) {
        let Some(source) = self.sources.get_mut(id) else { return };
        if let Some(Ok(before)) = &source.file
            && before.digest() == build.digest()
        {
            if before.loaded.is_recorded() {
                source.accept(build);
            }
            return;
        }
        let case = Case::new(&source.found, &self.config, &self.remembered);
        let before =
            source.last.as_deref().or_else(|| Some(case.known?.build.as_ref()?.digest.as_str()));
        let is_changed = before.is_some_and(|before| before != &**build.digest());
        let has_examples =
            build.loaded.registration.tools.iter().any(|tool| !tool.spec().examples.is_empty());
        let judged = case.judge(&build);
        if !is_changed || !has_examples || self.settings.gate == Gate::Off || !judged.is_in_order()
        {
            source.accept(build);
            return;
        }
        let mut tried = self.parts.loader.renew(&build.loaded);
        if self.settings.gate == Gate::WithGrants && judged.is_trusted() {
            let settings = case.settings(&judged);
            // What gives nothing is said when it serves.
            let _ = tried.grant(&settings.grants, &settings.exclusive);
        }
        let (limits, loader) = (Arc::clone(&self.limits), Arc::clone(&self.parts.loader));
        let (folder, standing) = (source.found.candidate.folder.clone(), source.load_as.standing);
        self.spawn(id.clone(), None, async move {
            let _turn = loader.turn(&folder, standing).await;
            let passed = gate::pass(&tried, &limits).await;
            What::Passed(Box::new(build), passed)
        });
    }

    /// Publishes what there is, and tells what became of sources.
    pub(super) async fn publish(&mut self) {
        let builds = self.remembered.state.as_deref().map(Builds::new);
        let mut wanted = Vec::new();
        let settled = super::reconcile::settle(
            &mut self.sources,
            &self.config,
            &self.remembered,
            &self.parts,
            &mut self.guards,
            (self.values, builds.as_ref()),
            &mut wanted,
        );
        let Settled { mut statuses, mut seen, catalog, replaced } = settled;
        if self.is_partial {
            // Whose a name is, is decided on the whole set.
            seen.iter_mut().for_each(|seen| seen.names.clear());
        }
        for loaded in replaced {
            loaded.retire();
        }
        for (id, digest, candidate) in wanted {
            let source = self.sources.get(&id).filter(|source| source.busy.is_none());
            let Some(source) = source else { continue };
            let load_as = arriving::load_as(&source.found, &self.remembered);
            let (loader, builds) = (Arc::clone(&self.parts.loader), builds.clone());
            self.spawn(id, Some(digest.clone()), async move {
                let loaded = loader.load_kept(&candidate, &load_as, &digest).await;
                if let (Err(LoadError::NotKept), Some(builds)) = (&loaded, builds)
                    && let Err(error) = builds.discard(&digest)
                {
                    tracing::warn!(%error, "a damaged build cannot be removed");
                }
                What::Kept(loaded)
            });
        }
        statuses.extend(self.problems.iter().chain(&self.misconfigured).cloned());
        statuses.sort_by(|left, right| left.location.cmp(&right.location));
        let before = self.shown.borrow().clone();
        let is_tried = self.is_tried();
        let is_settled = before.settled || self.work.is_empty() && is_tried && !self.is_partial;
        let is_started = before.started || is_settled || self.waits_for_runners() && is_tried;
        let is_had = is_tried && !self.is_partial && self.waits_for_strangers();
        let is_listed = is_settled || before.listed || self.is_listed();
        // Who waits for one tool goes on before all is settled.
        let tells_early = self.settings.first.is_some();
        if is_settled || tells_early {
            let news = audit::news(&before, &statuses, before.settled || tells_early);
            audit::note(&self.parts.audit, &news, &catalog);
        }
        let (remembered, limits) = (Arc::clone(&self.remembered), Arc::clone(&self.limits));
        let (unrecorded, looked) = (self.unrecorded(), self.looked());
        let remember = move || {
            let lock = persist::remember(&remembered, &seen, &limits);
            recorded::record(&remembered, &unrecorded);
            if let Some(state) = &remembered.state {
                files::remember(state, looked);
            }
            lock
        };
        let unsaved = match tokio::task::spawn_blocking(remember).await {
            Ok(Ok(lock)) => {
                if let Some(lock) = lock {
                    let remembered = (*self.remembered).clone().with_lock(lock);
                    self.remembered = Arc::new(remembered);
                }
                None
            }
            Ok(Err(error)) => Some(error.to_string()),
            Err(error) => Some(error.to_string()),
        };
        self.unsaved = unsaved.map(|reason| {
            if self.unsaved.as_ref().is_none_or(|(_, before)| *before != reason) {
                tracing::warn!("what was seen of plugins is not remembered: {reason}");
            }
            (Instant::now(), reason)
        });
        // What is told is remembered.
        let is_known = !self.is_partial || self.is_first_there;
        let is_same =
            (before.is_known, before.started, before.listed, before.settled, before.tried)
                == (
                    is_known,
                    is_started,
                    is_listed,
                    is_settled,
                    before.tried || is_had || is_settled,
                );
        let folders = self.real_folders.values().cloned().collect::<Vec<_>>();
        let directories = Some(whose::directories(&self.config, &self.remembered, &folders));
        let arriving = Arriving::of(&self.sources, &self.config, &self.remembered);
        let is_same = is_same && before.directories.as_deref() == directories.as_ref();
        if *before.statuses != statuses || *before.arriving != arriving || !is_same {
            let statuses = Arc::new(statuses);
            self.shown.send_replace(Shown {
                is_known,
                started: is_started,
                listed: is_listed,
                settled: is_settled,
                tried: is_settled || before.tried || is_had,
                statuses,
                arriving: Arc::new(arriving),
                directories: directories.map(Arc::new),
            });
        }
    }
}
