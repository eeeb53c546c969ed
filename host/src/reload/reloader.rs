//! From events to what serves: looks at what lies there, loads what is new, one at a time for each
//! file and all files side by side, and publishes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{Id, JoinError, JoinSet};

use super::gate::{self, Gate};
use super::judge::Case;
use super::scan::{self, Found};
use super::settle::{Guards, Settled};
use super::source::{Source, State};
use super::{Folder, Remembered, SourceStatus, note, remember};
use crate::audit::Audit;
use crate::authority::Variables;
use crate::config::Config;
use crate::limits::Limits;
use crate::plugin::{Candidate, Loaded, Loader, Secrets, runner_name};
use crate::quarantine::Quarantine;
use crate::registry::Registry;
use crate::script::{self, Stamp};
use crate::store::Builds;
use crate::tool::{Meter, Usage};
use crate::watcher::Watcher;

/// What is ready so soon after something else is published with it.
const TOGETHER: Duration = Duration::from_millis(50);

/// What is loaded, and how.
#[derive(Clone, Default)]
pub struct ReloadSettings {
    /// Folders of plugins, the highest rank first.
    pub folders: Vec<Folder>,
    /// Everything is loaded once, and changes are not noticed.
    pub once: bool,
    /// Whether the examples of changed builds are run.
    pub gate: Gate,
    /// Reads anew what the operator configured.
    pub reread: Option<Reread>,
    /// The files that it reads.
    pub configured_by: Vec<PathBuf>,
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

/// The rooms it works with.
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

/// What became of all files.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    /// Every file has loaded or failed at least once, but scripts whose runner is compiled.
    pub started: bool,
    /// Every file has loaded or failed at least once.
    pub settled: bool,
    /// Sorted by path.
    pub statuses: Arc<Vec<SourceStatus>>,
}

/// Keeps what is published in step with what lies in the folders.
pub struct Reloader {
    pub(super) settings: ReloadSettings,
    pub(super) parts: Parts,
    pub(super) config: Config,
    limits: Arc<Limits>,
    pub(super) remembered: Remembered,
    /// Grows when values of variables or secrets may have changed.
    pub(super) values: u64,
    sources: BTreeMap<PathBuf, Source>,
    /// What cannot be a plugin.
    problems: Vec<SourceStatus>,
    /// Why the configuration cannot be read anew.
    pub(super) misconfigured: Option<SourceStatus>,
    guards: Guards,
    work: JoinSet<Done>,
    /// What is worked at, for those that break.
    working: HashMap<Id, PathBuf>,
    shown: watch::Sender<Shown>,
    compiling: watch::Receiver<BTreeSet<String>>,
    watcher: Option<Watcher>,
    /// The states of the files that were read last.
    pub(super) configured: Vec<Stamp>,
    pub(super) known: Vec<Stamp>,
}

/// What was worked at.
struct Done {
    path: PathBuf,
    what: What,
}

enum What {
    /// The file was read.
    Loaded(Result<Loaded, String>, Usage),
    /// Its examples have run.
    Passed(Box<Loaded>, Result<(), String>),
    /// A kept build was read.
    Kept(Candidate, Result<Loaded, String>),
}

impl Reloader {
    /// It does nothing until it runs; `shown` tells what became of files.
    pub fn new(
        settings: ReloadSettings,
        parts: Parts,
        config: Config,
        remembered: Remembered,
        shown: watch::Sender<Shown>,
    ) -> Reloader {
        let limits = Arc::new(config.limits.clone());
        let watcher = (!settings.once).then(Watcher::start);
        let compiling = parts.loader.compiling();
        let mut reloader = Reloader {
            settings,
            parts,
            compiling,
            config,
            limits,
            remembered,
            values: 0,
            sources: BTreeMap::new(),
            problems: Vec::new(),
            misconfigured: None,
            guards: Guards::default(),
            work: JoinSet::new(),
            working: HashMap::new(),
            shown,
            watcher,
            configured: Vec::new(),
            known: Vec::new(),
        };
        reloader.configured = reloader.configured_now();
        reloader.known = reloader.known_now();
        reloader
    }

    /// Loads and publishes, and goes on with it until it is dropped; or, if everything is to be
    /// loaded once, until that is done.
    ///
    /// # Cancel safety
    /// Dropping the future stops the loads. What was published stays.
    pub async fn run(mut self) {
        self.look().await;
        loop {
            self.start();
            // What is renamed is gone and new at once.
            self.take_more().await;
            // What is loaded once is published once; or twice, if a runner is compiled first.
            if self.watcher.is_some() || self.work.is_empty() || self.waits_for_runners() {
                self.publish().await;
            }
            if !self.wait().await {
                return;
            }
        }
    }

    /// Waits until there is something new. Returns false if there will not be.
    async fn wait(&mut self) -> bool {
        let Reloader { work, watcher, parts, compiling, shown, .. } = self;
        // What is compiled is of concern at the start alone.
        let is_starting = !shown.borrow().started;
        let Some(watcher) = watcher else {
            tokio::select! {
                done = work.join_next_with_id() => match done {
                    Some(done) => self.take(done),
                    None => return false,
                },
                Ok(()) = compiling.changed(), if is_starting => {}
            }
            return true;
        };
        tokio::select! {
            Some(done) = work.join_next_with_id() => {
                self.take(done);
            }
            Ok(()) = compiling.changed(), if is_starting => {}
            () = watcher.changed() => self.look().await,
            fallen = parts.quarantine.fell() => self.fell(fallen).await,
        }
        true
    }

    /// Tells whether nothing is being loaded but scripts whose runner is compiled.
    fn waits_for_runners(&self) -> bool {
        let compiling = self.compiling.borrow();
        let waits = |path: &PathBuf| {
            script::language(path)
                .is_some_and(|language| compiling.contains(&runner_name(language)))
        };
        self.working.values().all(waits)
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

    /// Looks at what lies there.
    async fn look(&mut self) {
        self.reread().await;
        let (folders, limits) = (self.settings.folders.clone(), Arc::clone(&self.limits));
        let looking = tokio::task::spawn_blocking(move || {
            let (found, problems) = scan::scan_all(&folders, &limits);
            let state = |found: Found| (script::stamp(&found.candidate.path), found);
            let found: Vec<(Stamp, Found)> = found.into_iter().map(state).collect();
            (found, problems)
        });
        let Ok((found, problems)) = looking.await else { return };
        self.problems = problems;
        let runners = self.parts.loader.runners_stamp();
        let paths: BTreeSet<PathBuf> =
            found.iter().map(|(_, found)| found.candidate.path.clone()).collect();
        self.sources.retain(|path, source| {
            let stays = paths.contains(path);
            if !stays {
                source.retire();
            }
            stays
        });
        for (stamp, found) in found {
            let path = found.candidate.path.clone();
            let is_script = script::language(&path).is_some();
            let now: State = (stamp, if is_script { runners.clone() } else { Vec::new() });
            match self.sources.get_mut(&path) {
                Some(source) => (source.found, source.now) = (found, now),
                None => {
                    self.sources.insert(path, Source::new(found, now));
                }
            }
        }
        self.watch();
    }

    /// Tells the watcher what is of concern.
    fn watch(&mut self) {
        let Some(watcher) = &mut self.watcher else { return };
        let folders = self.settings.folders.iter().map(|folder| {
            std::fs::canonicalize(&folder.path).unwrap_or_else(|_| folder.path.clone())
        });
        let scripts = self.sources.keys().flat_map(|path| script::folders(path));
        let state = self.remembered.state.iter().map(|state| state.join(crate::lock::LOCK));
        let configured = self.settings.configured_by.iter().cloned();
        let paths = folders.chain(scripts).chain(state).chain(configured);
        let absolute = paths.filter_map(|path| std::path::absolute(path).ok());
        watcher.watch(&absolute.collect());
    }

    /// Begins to load what has changed.
    fn start(&mut self) {
        let mut stale = Vec::new();
        for (path, source) in &mut self.sources {
            let is_written =
                || self.watcher.as_ref().is_some_and(|watcher| watcher.is_written(path));
            if !source.is_stale() || is_written() {
                continue;
            }
            source.read = Some(source.now.clone());
            if let Some(reason) = &source.found.twins {
                source.file = Some(Err(reason.clone()));
                continue;
            }
            source.busy = true;
            stale.push(source.found.candidate.clone());
        }
        for candidate in stale {
            let loader = Arc::clone(&self.parts.loader);
            let path = candidate.path.clone();
            self.spawn(path, async move {
                let meter = Arc::new(Meter::default());
                let loaded = loader.load(&candidate, &meter).await;
                What::Loaded(loaded.map_err(|error| error.to_string()), meter.usage())
            });
        }
    }

    fn spawn(&mut self, path: PathBuf, work: impl Future<Output = What> + Send + 'static) {
        let of = path.clone();
        let handle = self.work.spawn(async move { Done { path: of, what: work.await } });
        self.working.insert(handle.id(), path);
    }

    /// Takes in what was worked at.
    fn take(&mut self, done: Result<(Id, Done), JoinError>) {
        let (path, what) = match done {
            Ok((id, Done { path, what })) => {
                self.working.remove(&id);
                (path, what)
            }
            Err(error) => {
                let Some(path) = self.working.remove(&error.id()) else { return };
                let reason = format!("could not be loaded: {error}");
                (path, What::Loaded(Err(reason), Usage::default()))
            }
        };
        // It may be gone by now.
        let Some(source) = self.sources.get_mut(&path) else { return };
        match what {
            What::Loaded(loaded, usage) => {
                (source.busy, source.usage) = (false, usage);
                match loaded {
                    Ok(loaded) => self.loaded(&path, loaded),
                    Err(reason) => source.file = Some(Err(reason)),
                }
            }
            What::Passed(loaded, passed) => {
                source.busy = false;
                match passed {
                    Ok(()) => source.accept(*loaded),
                    Err(reason) => {
                        let repair = "correct the tool or its example";
                        source.file = Some(Err(format!("{reason}; {repair}")));
                    }
                }
            }
            What::Kept(candidate, loaded) => {
                source.busy = false;
                let digest = candidate.path.file_stem().unwrap_or_default();
                let digest = digest.to_string_lossy().into_owned();
                let id = &candidate.id;
                match loaded {
                    Ok(loaded) if *loaded.facts.digest == *digest => {
                        source.builds.insert(digest.into(), loaded);
                    }
                    Ok(_) => {
                        tracing::warn!(
                            "a kept build of plugin:{id} does not serve: it is not what was kept"
                        );
                        // So that it can be kept again.
                        if let Err(error) = std::fs::remove_file(&candidate.path) {
                            tracing::warn!(%error, "and it cannot be removed");
                        }
                        source.unusable.insert(digest);
                    }
                    Err(reason) => {
                        tracing::warn!("a kept build of plugin:{id} does not serve: {reason}");
                        source.unusable.insert(digest);
                    }
                }
            }
        }
    }

    /// A file is read: it is the same as before, passes its examples first, or is accepted.
    fn loaded(&mut self, path: &PathBuf, loaded: Loaded) {
        let Some(source) = self.sources.get_mut(path) else { return };
        if let Some(Ok(before)) = &source.file
            && before.facts.digest == loaded.facts.digest
        {
            return;
        }
        let case = Case::new(&source.found, &self.config, &self.remembered);
        let before =
            source.last.as_deref().or_else(|| Some(case.known?.build.as_ref()?.digest.as_str()));
        let is_changed = before.is_some_and(|before| before != &*loaded.facts.digest);
        let has_examples =
            loaded.registration.tools.iter().any(|tool| !tool.spec().examples.is_empty());
        let judged = case.judge(loaded.clone());
        if !is_changed || !has_examples || self.settings.gate == Gate::Off || !judged.is_in_order()
        {
            source.accept(loaded);
            return;
        }
        source.busy = true;
        let mut tried = self.parts.loader.renew(&loaded);
        if self.settings.gate == Gate::WithGrants && judged.is_trusted() {
            let settings = case.settings(&judged);
            // What gives nothing is said when it serves.
            let _ = tried.grant(&settings.grants, &settings.exclusive);
        }
        let limits = Arc::clone(&self.limits);
        self.spawn(path.clone(), async move {
            let passed = gate::pass(&tried, &limits).await;
            What::Passed(Box::new(loaded), passed)
        });
    }

    /// Publishes what there is, and tells what became of files.
    async fn publish(&mut self) {
        let builds = self.remembered.state.as_deref().map(Builds::new);
        let mut wanted = Vec::new();
        let settled = super::settle::settle(
            &mut self.sources,
            &self.config,
            &self.remembered,
            &self.parts,
            &mut self.guards,
            (self.values, builds.as_ref()),
            &mut wanted,
        );
        let Settled { mut statuses, seen, catalog, replaced } = settled;
        for loaded in replaced {
            loaded.retire();
        }
        for candidate in wanted {
            // The name of a kept file tells whose it is no more.
            let found = self.sources.iter_mut().find(|(_, source)| {
                let own = &source.found.candidate;
                (&own.folder, &own.id) == (&candidate.folder, &candidate.id)
            });
            let Some((path, source)) = found else { continue };
            if source.busy {
                continue;
            }
            source.busy = true;
            let (path, loader) = (path.clone(), Arc::clone(&self.parts.loader));
            self.spawn(path, async move {
                let loaded = loader.load(&candidate, &Arc::default()).await;
                What::Kept(candidate, loaded.map_err(|error| error.to_string()))
            });
        }
        statuses.extend(self.problems.iter().chain(&self.misconfigured).cloned());
        statuses.sort_by(|left, right| left.path.cmp(&right.path));
        let before = self.shown.borrow().clone();
        let is_settled = before.settled || self.work.is_empty();
        let is_started = before.started || is_settled || self.waits_for_runners();
        if is_settled {
            note(&self.parts.audit, &news(&before, &statuses), &catalog);
        }
        let (remembered, limits) = (self.remembered.clone(), Arc::clone(&self.limits));
        let remember = move || remember::remember(&remembered, &seen, &limits);
        match tokio::task::spawn_blocking(remember).await {
            Ok(Some(lock)) => self.remembered.lock = lock,
            Ok(None) => {}
            Err(error) => tracing::error!(%error, "what was seen of plugins is not remembered"),
        }
        // What is told is remembered.
        let is_same = (before.started, before.settled) == (is_started, is_settled);
        if *before.statuses != statuses || !is_same {
            let statuses = Arc::new(statuses);
            self.shown.send_replace(Shown { started: is_started, settled: is_settled, statuses });
        }
    }
}

/// Statuses that say something new, for the audit log.
fn news(before: &Shown, statuses: &[SourceStatus]) -> Vec<SourceStatus> {
    let known: HashMap<&PathBuf, &SourceStatus> =
        before.statuses.iter().map(|status| (&status.path, status)).collect();
    let told = |status: &SourceStatus| {
        let digest = |ready: &super::Ready| Arc::clone(&ready.facts.digest);
        let state = status.state.as_ref().map(|ready| (digest(ready), ready.pending.clone()));
        (state.map_err(Clone::clone), status.kept.as_deref().map(digest), status.loading)
    };
    let is_news = |status: &&SourceStatus| {
        !status.loading
            && (!before.settled
                || known.get(&status.path).is_none_or(|known| told(known) != told(status)))
    };
    statuses.iter().filter(is_news).cloned().collect()
}
