//! Builds that are published from what is recorded of them: their bytes are read before anything of them
//! is run.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::account::LoadAs;
use super::adapter;
use super::candidate::Candidate;
use super::compile::cache::InUse;
use super::load_error::LoadError;
use super::loaded::{Facts, Loaded, registration};
use super::loader::Loader;
use super::plugin::Prepared;
use super::plugin::program::{LazyProgram, LoadLater, Program};
use toolhost_core::tool::{Need, Registration, Rejection, ToolSpec};

/// What is recorded of a build, so that it can be published before it is loaded.
#[derive(Clone, Debug)]
pub struct BuildRecord {
    /// What is known of it besides its tools.
    pub facts: Facts,
    /// The digest of the runner that runs it, if it is a script.
    pub runner: Option<Arc<str>>,
    /// What its tools registered.
    pub tools: Vec<ToolSpec>,
    /// What it asks for.
    pub needs: Vec<Need>,
    /// What it declared that is no tool.
    pub rejected: Vec<Rejection>,
}

impl BuildRecord {
    /// What is to be recorded of a build, if it is such that it can be published from that: nobody
    /// works at it, and of a script, its runner counts.
    pub fn of(loaded: &Loaded) -> Option<BuildRecord> {
        if loaded.own || loaded.unrecorded.is_some() {
            return None;
        }
        let Registration { tools, needs, rejected, .. } = &loaded.registration;
        Some(BuildRecord {
            facts: loaded.facts.clone(),
            runner: loaded.runner.clone(),
            tools: tools.iter().map(|tool| tool.spec().clone()).collect(),
            needs: needs.clone(),
            rejected: rejected.clone(),
        })
    }
}

/// Whoever wants to hear that bytes are not what was recorded of them.
pub type OnMisfit = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// The bytes that a record speaks of.
struct RecordedBytes {
    loader: Arc<Loader>,
    candidate: Candidate,
    load_as: LoadAs,
    digest: Arc<str>,
    on_misfit: OnMisfit,
    /// Its code is not evicted before it is loaded.
    _in_use: Option<InUse>,
}

impl LoadLater for RecordedBytes {
    fn load<'a>(
        &'a self,
        plugin: &'a Arc<Prepared>,
    ) -> BoxFuture<'a, Result<Arc<Program>, LoadError>> {
        Box::pin(async move {
            let loaded = self.loader.load_recorded(self, plugin).await;
            if loaded.is_err() {
                (self.on_misfit)().await;
            }
            loaded
        })
    }
}

impl Loader {
    /// Tells whether a build can be published from its record: nothing has to be compiled for it, it was
    /// not made by whoever uses this host, and its runner counts.
    pub fn needs_no_load(&self, candidate: &Candidate, record: &BuildRecord) -> bool {
        let is_there = match (record.facts.script, &record.runner) {
            (None, None) => self.links.is_compiled(&record.facts.digest),
            (Some(language), Some(runner)) => {
                self.links.is_compiled(runner) && self.runners.counts(language, runner)
            }
            _ => false,
        };
        is_there && !self.is_own(candidate, &record.facts.digest)
    }

    /// A build as it is recorded, whose bytes lie there as far as anybody knows. They are read, and
    /// compared with the digest, before anything of them is run: at its first call, check, description
    /// or hook. `on_misfit` hears if they are others, or cannot be loaded.
    ///
    /// It is held in so many bytes.
    ///
    /// # Errors
    /// If the plugins of its folder hold more than they may, or it is of no contract that this host knows.
    pub fn recorded(
        self: &Arc<Self>,
        candidate: &Candidate,
        load_as: &LoadAs,
        (record, bytes): (BuildRecord, u64),
        on_misfit: OnMisfit,
    ) -> Result<Loaded, LoadError> {
        let BuildRecord { facts, runner, tools, needs, rejected } = record;
        let digest = Arc::clone(&facts.digest);
        let mut account = self.accounts.open(candidate, load_as);
        account.learn(&digest, false);
        account.hold(bytes)?;
        let code = runner.as_ref().unwrap_or(&digest);
        let program = LazyProgram::recorded(RecordedBytes {
            _in_use: self.links.uses(code, account.standing()),
            loader: Arc::clone(self),
            candidate: candidate.clone(),
            load_as: load_as.clone(),
            digest: Arc::clone(&digest),
            on_misfit,
        });
        let recognised = adapter::recognise(&facts.imports, &facts.exports);
        let offers = recognised.map(|recognised| recognised.offers)?;
        let prepared = Arc::new(self.prepare(candidate, offers, &self.engine, program));
        let registration = registration(candidate, &prepared, &digest, (tools, needs, rejected));
        let (packed, unrecorded) = (None, None);
        Ok(Loaded { registration, facts, packed, own: false, runner, unrecorded, prepared })
    }

    /// Loads what a record speaks of: nothing of other bytes is compiled or run. A script registers
    /// once more, for what its runner keeps of it; what it registers is recorded.
    async fn load_recorded(
        &self,
        bytes: &RecordedBytes,
        prepared: &Arc<Prepared>,
    ) -> Result<Arc<Program>, LoadError> {
        let RecordedBytes { candidate, load_as, digest, .. } = bytes;
        let mut account = self.accounts.open(candidate, load_as);
        let source = self.source(candidate, &mut account, Some(digest)).await?;
        if source.digest != *digest {
            return Err(LoadError::Changing);
        }
        let program = Arc::new(source.program());
        if program.script.is_some() {
            self.register(prepared, Arc::clone(&program), &account, &Arc::default()).await?;
        }
        Ok(program)
    }
}
