//! What is worked at for a source, one thing at a time, and how it is taken in.

use std::sync::Arc;

use tokio::task::{Id, JoinError};

use super::build::Build;
use super::gate::{self, Gate};
use super::supervisor::Supervisor;
use super::trust_policy::Case;
use crate::driver::{Failed, LoadedSource, Phase};
use toolhost_core::tool::{SourceId, Usage};

/// What is worked at.
#[derive(Clone)]
pub(super) struct Work {
    /// Of which source.
    pub(super) source: SourceId,
    /// The source's number: the next one with this id is another.
    number: u64,
    /// The digest of the kept build, if it is not the present definition.
    pub(super) kept: Option<String>,
}

/// What was worked at.
pub(super) struct Done {
    work: Work,
    what: What,
}

pub(super) enum What {
    /// The present definition was loaded.
    Loaded(Result<LoadedSource, Failed>, Usage),
    /// Its examples have run.
    Passed(Box<Build>, Result<(), String>),
    /// A kept build was loaded.
    Kept(Result<LoadedSource, Failed>),
}

impl Supervisor {
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
                let cause = format!("could not be loaded: {error}");
                let broken = Err(Failed { phase: Phase::Compile, cause, repair: None });
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
                    Err(failed) => source.failed(failed, self.watcher.is_some()),
                }
            }
            What::Passed(build, passed) => match passed {
                Ok(()) => source.accept(*build),
                Err(cause) => {
                    let repair = Some("correct the tool or its example".to_owned());
                    source.file = Some(Err(Failed { phase: Phase::Examples, cause, repair }));
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
        let mut tried = build.loaded.renewed();
        if self.settings.gate == Gate::WithGrants && judged.is_trusted() {
            let settings = case.settings(&judged);
            // What gives nothing is said when it serves.
            let words = case.name();
            (tried, _) = tried.authorised(&words, &settings.grants, &settings.exclusive);
        }
        let (limits, driver) = (Arc::clone(&self.limits), Arc::clone(&source.driver));
        let (found, load_as) = (source.found.clone(), source.load_as.clone());
        self.spawn(id.clone(), None, async move {
            let _slot = driver.slot(&found, &load_as).await;
            let passed = gate::pass(&tried, &limits).await;
            What::Passed(Box::new(build), passed)
        });
    }
}
