//! Looks at what there is, and begins to load what is new.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::SourceStatus;
use super::arriving::load_as;
use super::source::Source;
use super::supervisor::Supervisor;
use super::work::What;
use crate::driver::{Driver, Failed, Fingerprint, Found, NoSource, Phase, Scanned};
use toolhost_core::tool::{Meter, SourceId};
use toolhost_state::trust_store;

/// How long until what could not be remembered is tried again.
const SAVE_AGAIN_AFTER: Duration = Duration::from_secs(30);

/// What all drivers have found.
#[derive(Default)]
struct FoundByAll {
    sources: BTreeMap<SourceId, (Arc<dyn Driver>, Found, Fingerprint)>,
    problems: Vec<NoSource>,
    /// Folders that may hold more than was found.
    unreadable: BTreeSet<PathBuf>,
    folders: Vec<PathBuf>,
}

impl FoundByAll {
    fn add(&mut self, driver: &Arc<dyn Driver>, scanned: Scanned) {
        let Scanned { found, problems, unreadable, folders } = scanned;
        for (found, now) in found {
            if let Some((first, ..)) = self.sources.get(&found.source) {
                let reason = format!(
                    "{} has the name {} already; rename one of the two",
                    first.kind(),
                    found.source
                );
                let (location, source) = (found.location, Some(found.source));
                self.problems.push(NoSource { location, source, reason });
                continue;
            }
            self.sources.insert(found.source.clone(), (Arc::clone(driver), found, now));
        }
        self.problems.extend(problems);
        self.unreadable.extend(unreadable);
        self.folders.extend(folders);
    }
}

impl Supervisor {
    /// Looks at what there is.
    pub(super) async fn look(&mut self) {
        self.reread().await;
        let (drivers, limits) = (self.drivers().collect::<Vec<_>>(), Arc::clone(&self.limits));
        let looking = tokio::task::spawn_blocking(move || {
            let mut all = FoundByAll::default();
            for driver in &drivers {
                all.add(driver, driver.scan(&limits));
            }
            all
        });
        let Ok(all) = looking.await else { return };
        let FoundByAll { sources, problems, unreadable, folders } = all;
        let problems: Vec<SourceStatus> = problems.into_iter().map(SourceStatus::none).collect();
        self.changed |= self.problems != problems;
        (self.problems, self.folders) = (problems, folders);
        let changed = &mut self.changed;
        self.sources.retain(|id, source| {
            // What cannot be read now is not gone.
            let is_unread = id.folder().is_some_and(|folder| unreadable.contains(folder));
            let stays = sources.contains_key(id) || is_unread;
            if !stays {
                *changed = true;
                source.retire();
                source.driver.forget(&source.found);
            }
            stays
        });
        for (id, (driver, found, now)) in sources {
            match self.sources.get_mut(&id) {
                Some(source) => {
                    if source.found != found {
                        self.changed = true;
                        let (before, now) = (&source.found, &found);
                        if (&before.location, &before.problem) != (&now.location, &now.problem) {
                            // It is another one by now, or may be loaded after all.
                            source.driver.forget(before);
                            source.load_again();
                        }
                    }
                    (source.driver, source.found) = (driver, found);
                    source.before = Some(std::mem::replace(&mut source.now, now));
                }
                None => {
                    self.sources_count += 1;
                    let looks_like = driver.looks_like(&found, &now);
                    let mut source = Source::new(self.sources_count, driver, found, now);
                    source.looks_like = looks_like;
                    self.sources.insert(id, source);
                    self.changed = true;
                }
            }
        }
        // What was of no use for a while is tried again.
        let forgiven =
            self.sources.values_mut().filter_map(|source| source.forgives().then_some(()));
        self.changed |= forgiven.count() > 0 || !self.shown.borrow().settled;
        let is_unsaved = |(since, _): &(Instant, String)| since.elapsed() > SAVE_AGAIN_AFTER;
        self.changed |= self.unsaved.as_ref().is_some_and(is_unsaved);
        self.watch();
    }

    /// Tells the watcher what is of concern.
    fn watch(&mut self) {
        let Some(watcher) = &mut self.watcher else { return };
        let mut watched = Vec::new();
        for driver in &self.parts.drivers {
            let sources = self.sources.values();
            let of_driver = sources.filter(|source| Arc::ptr_eq(&source.driver, driver));
            watched.extend(driver.watched(&mut of_driver.map(|source| &source.found)));
        }
        let state = self.remembered.state.iter().map(|state| state.join(trust_store::LOCK));
        let configured = self.settings.configured_by.iter().cloned();
        let paths = watched.into_iter().chain(state).chain(configured);
        let absolute = paths.filter_map(|path| std::path::absolute(path).ok());
        watcher.watch(&absolute.collect());
    }

    /// Begins to load what has changed; of `only` these sources, if there are such.
    pub(super) fn start(&mut self, only: Option<&BTreeSet<SourceId>>) {
        let mut stale = Vec::new();
        let watcher = self.watcher.as_ref();
        let is_wanted = |id: &SourceId| only.is_none_or(|only| only.contains(id));
        for (id, source) in self.sources.iter_mut().filter(|(id, _)| is_wanted(id)) {
            let is_written = || {
                let (now, before) = (&source.now, source.before.as_ref());
                watcher.is_some_and(|watcher| {
                    source.driver.is_being_written(&source.found, now, before, watcher)
                })
            };
            if !source.is_stale() || is_written() {
                continue;
            }
            source.read = Some(source.now.clone());
            if let Some(cause) = source.found.problem.clone() {
                source.file = Some(Err(Failed { phase: Phase::Find, cause, repair: None }));
                self.changed = true;
                continue;
            }
            source.load_as = load_as(&source.found, &self.remembered);
            stale.push(id.clone());
        }
        for id in stale {
            let Some(source) = self.sources.get(&id) else { continue };
            let (driver, found) = (Arc::clone(&source.driver), source.found.clone());
            let load_as = source.load_as.clone();
            self.spawn(id, None, async move {
                let meter = Arc::new(Meter::default());
                let loaded = driver.load(&found, &load_as, &meter).await;
                What::Loaded(loaded, meter.usage())
            });
        }
    }
}
