//! From events to what serves: looks at what there is, loads what is new, one at a time for each source
//! and all sources side by side, and publishes.
//!
//! It knows no kind of source: drivers say what there is, and load it.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::{BoxFuture, select_all};
use tokio::sync::{mpsc, watch};
use tokio::task::{Id, JoinSet};

use super::arriving::{self, Arriving};
use super::fail_closed::Guards;
use super::gate::Gate;
use super::reconcile::Settled;
use super::source::Source;
use super::work::{Done, What, Work};
use super::{Shown, SourceStatus, audit, persist, whose};
use crate::driver::Driver;
use crate::remembered::Remembered;
use crate::watcher::Watcher;
use toolhost_core::limits::Limits;
use toolhost_core::tool::SourceId;
use toolhost_kernel::quarantine::Quarantine;
use toolhost_kernel::registry::Registry;
use toolhost_policy::capability::Variables;
use toolhost_state::audit::Audit;
use toolhost_state::config::Config;
use toolhost_wasm::Secrets;
use toolhost_wasm::script::Stamp;

/// What is ready so soon after something else is published with it.
const TOGETHER: Duration = Duration::from_millis(50);

/// Sources that turn out not to be what is recorded of them, and wait to be loaded.
const MISFITS_MAX: usize = 1_000;

/// What is loaded, and how.
#[derive(Clone, Default)]
pub struct ReloadSettings {
    /// Everything is loaded once, and changes are not noticed.
    pub once: bool,
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
    /// What finds and loads sources, a driver for each kind. Where two find the same source, the first
    /// has it.
    pub drivers: Vec<Arc<dyn Driver>>,
    /// Where it publishes.
    pub registry: Arc<Registry>,
    /// Tells of new builds that crash at once.
    pub quarantine: Arc<Quarantine>,
    /// Hears of loads.
    pub audit: Arc<Audit>,
}

/// Keeps what is published in step with what there is.
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
    /// What looks like a source and is none.
    pub(super) problems: Vec<SourceStatus>,
    /// Folders that were looked at.
    pub(super) folders: Vec<PathBuf>,
    /// Something has changed since it was published last.
    pub(super) changed: bool,
    /// When it began.
    pub(super) since: Instant,
    /// Since when something that was seen is not remembered.
    pub(super) unsaved: Option<(Instant, String)>,
    /// Why the configuration cannot be read anew.
    pub(super) misconfigured: Option<SourceStatus>,
    guards: Guards,
    /// Most sources are not to be loaded.
    pub(super) is_partial: bool,
    /// ... and what was to be loaded first is there.
    pub(super) is_first_there: bool,
    pub(super) work: JoinSet<Done>,
    /// What is worked at, for those that break.
    pub(super) working: HashMap<Id, Work>,
    pub(super) shown: watch::Sender<Shown>,
    pub(super) watcher: Option<Watcher>,
    /// The states of the files that were read last.
    pub(super) configured: Vec<Stamp>,
    pub(super) known: Vec<Stamp>,
    /// What was remembered has a say in what is configured, and has changed.
    pub(super) reread_due: bool,
    /// Sources that are not what is recorded of them.
    pub(super) misfits: (mpsc::Sender<SourceId>, mpsc::Receiver<SourceId>),
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
        let watcher = (!settings.once).then(Watcher::start);
        let mut supervisor = Supervisor {
            settings,
            parts,
            config,
            limits,
            remembered: Arc::new(remembered),
            values: 0,
            sources: BTreeMap::new(),
            sources_count: 0,
            problems: Vec::new(),
            folders: Vec::new(),
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
                || self.waits_for_host()
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
        let now = Instant::now();
        let next_retry = self.sources.values().filter_map(|source| source.retry_at).min();
        let retry = async {
            match next_retry {
                Some(at) => tokio::time::sleep(at.saturating_duration_since(now)).await,
                None => std::future::pending().await,
            }
        };
        let Supervisor { work, watcher, parts, shown, misfits, .. } = self;
        // What the host prepares once is of concern at the start alone.
        let is_starting = !shown.borrow().started;
        let progressed = first_of(&parts.drivers, |driver| driver.progressed());
        let Some(watcher) = watcher else {
            tokio::select! {
                done = work.join_next_with_id() => match done {
                    Some(done) => self.take(done),
                    None => return false,
                },
                () = progressed, if is_starting => self.changed = true,
            }
            return true;
        };
        tokio::select! {
            Some(done) = work.join_next_with_id() => {
                self.take(done);
            }
            () = progressed, if is_starting => self.changed = true,
            () = watcher.changed() => self.look().await,
            () = first_of(&parts.drivers, |driver| driver.changed()) => self.look().await,
            () = retry => self.retry(),
            Some(source) = misfits.1.recv() => self.load_again(&source),
            fallen = parts.quarantine.fell() => self.fell(fallen).await,
        }
        true
    }

    /// What finds and loads sources.
    pub(super) fn drivers(&self) -> impl Iterator<Item = Arc<dyn Driver>> {
        self.parts.drivers.iter().cloned()
    }

    /// Tries again what it is time for.
    fn retry(&mut self) {
        let now = Instant::now();
        self.sources.values_mut().for_each(|source| _ = source.is_retried(now));
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

    /// Publishes what there is, and tells what became of sources.
    pub(super) async fn publish(&mut self) {
        let mut wanted = Vec::new();
        let settled = super::reconcile::settle(
            &mut self.sources,
            &self.config,
            &self.remembered,
            &self.parts,
            &mut self.guards,
            self.values,
            &mut wanted,
        );
        let Settled { mut statuses, mut seen, catalog, replaced } = settled;
        if self.is_partial {
            // Whose a name is, is decided on the whole set.
            seen.iter_mut().for_each(|seen| seen.names.clear());
        }
        for loaded in replaced {
            loaded.handle.retire();
        }
        for (id, digest) in wanted {
            let source = self.sources.get(&id).filter(|source| source.busy.is_none());
            let Some(source) = source else { continue };
            let load_as = arriving::load_as(&source.found, &self.remembered);
            let (driver, found) = (Arc::clone(&source.driver), source.found.clone());
            self.spawn(id, Some(digest.clone()), async move {
                What::Kept(driver.load_kept(&found, &load_as, &digest).await)
            });
        }
        statuses.extend(self.problems.iter().chain(&self.misconfigured).cloned());
        statuses.sort_by(|left, right| left.location.cmp(&right.location));
        let before = self.shown.borrow().clone();
        let is_tried = self.is_tried();
        let is_settled = before.settled || self.work.is_empty() && is_tried && !self.is_partial;
        let is_started = before.started || is_settled || self.waits_for_host() && is_tried;
        let is_had = is_tried && !self.is_partial && self.waits_for_strangers();
        let is_listed = is_settled || before.listed || self.is_listed();
        // Who waits for one tool goes on before all is settled.
        let tells_early = self.settings.first.is_some();
        if is_settled || tells_early {
            let news = audit::news(&before, &statuses, before.settled || tells_early);
            audit::note(&self.parts.audit, &news, &catalog);
        }
        let (remembered, limits) = (Arc::clone(&self.remembered), Arc::clone(&self.limits));
        let jobs = self.jobs_of_drivers();
        let remember = move || {
            let lock = persist::remember(&remembered, &seen, &limits);
            jobs.into_iter().for_each(|job| job());
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
        let directories = whose::directories(&self.config, &self.remembered, &self.folders);
        let directories = Some(directories);
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

/// Waits for the first driver that this comes to an end of.
async fn first_of<'a>(
    drivers: &'a [Arc<dyn Driver>],
    waits: impl Fn(&'a dyn Driver) -> BoxFuture<'a, ()>,
) {
    if drivers.is_empty() {
        std::future::pending::<()>().await;
    }
    select_all(drivers.iter().map(|driver| waits(&**driver))).await;
}
