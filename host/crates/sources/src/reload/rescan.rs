//! Looks at what lies in the folders, and begins to load what is new.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::Failed;
use super::arriving::load_as;
use super::files::Files;
use super::source::{Source, State};
use super::supervisor::{Supervisor, What};
use crate::folder::{self, Found, Scanned};
use toolhost_core::tool::{Meter, SourceId};
use toolhost_state::trust_store;
use toolhost_wasm::Phase;
use toolhost_wasm::script::{self, Stamp};

/// How long until what could not be remembered is tried again.
const SAVE_AGAIN_AFTER: Duration = Duration::from_secs(30);
/// Where the system tells of no writes, a file that is older than this has no writer any more.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

impl Supervisor {
    /// Looks at what lies there.
    pub(super) async fn look(&mut self) {
        self.reread().await;
        let (folders, limits) = (self.settings.folders.clone(), Arc::clone(&self.limits));
        let state = self
            .remembered
            .state
            .clone()
            .filter(|_| self.sources.is_empty() && !self.settings.load_all);
        let looking = tokio::task::spawn_blocking(move || {
            let mut scanned = folder::scan_all(&folders, &limits);
            let found = std::mem::take(&mut scanned.found);
            let stamped = |found: Found| (script::stamp(&found.candidate.path), found);
            let found = found.into_iter().map(stamped).collect::<Vec<(Stamp, Found)>>();
            (found, scanned, state.map(|state| Files::read(&state)))
        });
        let Ok((found, scanned, files)) = looking.await else { return };
        self.files = files.unwrap_or(std::mem::take(&mut self.files));
        let Scanned { problems, unreadable, real, .. } = scanned;
        self.changed |= self.problems != problems;
        self.problems = problems;
        // What cannot be read now is not gone.
        let unreadable: BTreeSet<PathBuf> = unreadable
            .into_iter()
            .map(|folder| self.real_folders.get(&folder).cloned().unwrap_or(folder))
            .collect();
        self.real_folders.extend(real);
        let there: BTreeSet<SourceId> =
            found.iter().map(|(_, found)| found.source.clone()).collect();
        let changed = &mut self.changed;
        self.sources.retain(|id, source| {
            let stays = there.contains(id) || unreadable.contains(&source.found.candidate.folder);
            if !stays {
                *changed = true;
                source.retire();
                self.parts.loader.forget(&source.found.candidate);
            }
            stays
        });
        let runners = self.parts.loader.runners_stamp();
        for (stamp, found) in found {
            let (id, path) = (found.source.clone(), &found.candidate.path);
            let is_script = script::language(path).is_some();
            let now: State = (stamp, if is_script { runners.clone() } else { Vec::new() });
            match self.sources.get_mut(&id) {
                Some(source) => {
                    if source.found != found {
                        self.changed = true;
                        let (before, now) = (&source.found, &found);
                        if (&before.candidate, &before.twins) != (&now.candidate, &now.twins) {
                            // It is another file by now, or may be loaded after all.
                            self.parts.loader.forget(&before.candidate);
                            source.load_again();
                        }
                    }
                    source.found = found;
                    source.before = Some(std::mem::replace(&mut source.now, now));
                }
                None => {
                    self.sources_count += 1;
                    let looks_like = self.files.digest(path, &now);
                    let mut source = Source::new(self.sources_count, found, now);
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
        let is_unsaved =
            |(since, _): &(std::time::Instant, String)| since.elapsed() > SAVE_AGAIN_AFTER;
        self.changed |= self.unsaved.as_ref().is_some_and(is_unsaved);
        self.watch();
    }

    /// Tells the watcher what is of concern.
    fn watch(&mut self) {
        let Some(watcher) = &mut self.watcher else { return };
        let folders = self.settings.folders.iter().map(|folder| {
            std::fs::canonicalize(&folder.path).unwrap_or_else(|_| folder.path.clone())
        });
        let sources = self.sources.values();
        let scripts = sources.flat_map(|source| script::folders(&source.found.candidate.path));
        let state = self.remembered.state.iter().map(|state| state.join(trust_store::LOCK));
        let configured = self.settings.configured_by.iter().cloned();
        let paths = folders.chain(scripts).chain(state).chain(configured);
        let absolute = paths.filter_map(|path| std::path::absolute(path).ok());
        watcher.watch(&absolute.collect());
    }

    /// Begins to load what has changed; of `only` these sources, if there are such.
    pub(super) fn start(&mut self, only: Option<&BTreeSet<SourceId>>) {
        let mut stale = Vec::new();
        let watcher = self.watcher.as_ref();
        let is_wanted = |id: &SourceId| only.is_none_or(|only| only.contains(id));
        for (id, source) in self.sources.iter_mut().filter(|(id, _)| is_wanted(id)) {
            let path = &source.found.candidate.path;
            let is_written = || {
                watcher.is_some_and(|watcher| {
                    watcher.is_written(path, &|file| file == path || script::is_module(file))
                        || !watcher.hears(path) && !source.has_settled(SETTLED_AFTER)
                })
            };
            if !source.is_stale() || is_written() {
                continue;
            }
            source.read = Some(source.now.clone());
            if let Some(reason) = &source.found.twins {
                let reason = reason.clone();
                source.file = Some(Err(Failed { phase: Phase::Find, reason }));
                self.changed = true;
                continue;
            }
            source.load_as = load_as(&source.found, &self.remembered);
            stale.push((id.clone(), source.found.candidate.clone(), source.load_as.clone()));
        }
        for (id, candidate, load_as) in stale {
            let loader = Arc::clone(&self.parts.loader);
            self.spawn(id, None, async move {
                let meter = Arc::new(Meter::default());
                let loaded = loader.load_as(&candidate, &load_as, &meter).await;
                What::Loaded(loaded, meter.usage())
            });
        }
    }
}
