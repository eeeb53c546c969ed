//! Sources that are published from the record, or listed from it: their definitions look as they did when
//! they were loaded last, and what they registered then is recorded by their driver. They are loaded when
//! something of them is to run; or their tools are listed meanwhile, and a call waits.
//!
//! Who may have what is decided on the record as on a definition that was loaded, and what cannot be
//! decided so is loaded at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::arriving;
use super::build::Build;
use super::source::Source;
use super::supervisor::Supervisor;
use super::trust_policy::Case;
use crate::driver::{Driver, Job, Recorded, RecordedTools, Serving, Wanted, is_own};
use toolhost_core::tool::{
    CallError, Code, Invocation, Origin, Reason, Registration, SourceId, Tool, ToolOutput, ToolSpec,
};
use toolhost_wasm::OnMisfit;

/// What is known of a build that is not loaded yet.
pub(super) struct Recalled {
    digest: Arc<str>,
    tools: Vec<Arc<dyn Tool>>,
}

impl Recalled {
    fn new((digest, tools): RecordedTools) -> Recalled {
        let tool = |spec| Arc::new(RecalledTool(spec)) as Arc<dyn Tool>;
        Recalled { digest, tools: tools.into_iter().map(tool).collect() }
    }

    /// The names it has, as a reader takes them.
    pub(super) fn names(&self) -> BTreeSet<String> {
        self.tools.iter().map(|tool| tool.spec().name.skeleton()).collect()
    }

    pub(super) fn has(&self, tool: &str) -> bool {
        self.tools.iter().any(|known| known.spec().name.as_str() == tool)
    }
}

/// A tool whose plugin is being loaded.
struct RecalledTool(ToolSpec);

impl Tool for RecalledTool {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn call<'a>(&'a self, _: Invocation<'a>) -> BoxFuture<'a, Result<ToolOutput, CallError>> {
        let refused = CallError::new(Code::Unavailable, COMING);
        Box::pin(async { Err(refused) })
    }

    fn unmet(&self) -> Vec<Reason> {
        // Whether it has them is not known yet.
        match self.0.requires_env.is_empty() {
            true => Vec::new(),
            false => vec![Reason::without_repair(COMING)],
        }
    }
}

/// What is said of a tool whose plugin is being loaded.
const COMING: &str = "its plugin is being loaded; call it again in a moment";

impl Supervisor {
    /// Finds what is recorded of sources whose load takes long.
    pub(super) async fn recall(&mut self) {
        let mut recalled = Vec::new();
        for (id, source) in &self.sources {
            // What looks as it is recorded needs not be read for that.
            if source.found.problem.is_some() || source.looks_like.is_some() {
                continue;
            }
            let load_as = arriving::load_as(&source.found, &self.remembered);
            let case = Case::new(&source.found, &self.config, &self.remembered);
            let known = case.listable(&load_as);
            if let Some(listed) = source.driver.listed(&source.found, &load_as, &known).await {
                recalled.push((id.clone(), Recalled::new(listed)));
            }
        }
        for (id, found) in recalled {
            let Some(source) = self.sources.get_mut(&id) else { continue };
            source.recalled = Some(found);
            self.changed = true;
        }
    }

    /// Publishes, of these sources if there are such, those that look as they did when they were loaded
    /// last.
    pub(super) async fn take_recorded(&mut self, only: Option<&BTreeSet<SourceId>>) {
        let mut wanted: Vec<(Arc<dyn Driver>, Vec<Wanted>)> =
            self.drivers().map(|driver| (driver, Vec::new())).collect();
        for (id, source) in &self.sources {
            let is_wanted = only.is_none_or(|only| only.contains(id));
            if let Some(digest) =
                source.looks_like.as_ref().filter(|_| is_wanted && source.is_new())
                && let Some((_, of_driver)) =
                    wanted.iter_mut().find(|(driver, _)| Arc::ptr_eq(driver, &source.driver))
            {
                of_driver.push(Wanted {
                    found: source.found.clone(),
                    load_as: arriving::load_as(&source.found, &self.remembered),
                    digest: Arc::clone(digest),
                    on_misfit: self.on_misfit(id),
                });
            }
        }
        for (driver, wanted) in wanted {
            let load_as: BTreeMap<SourceId, _> = wanted
                .iter()
                .map(|wanted| (wanted.found.source.clone(), wanted.load_as.clone()))
                .collect();
            for (id, recorded) in driver.recorded(wanted).await {
                let (Some(source), Some(load_as)) = (self.sources.get_mut(&id), load_as.get(&id))
                else {
                    continue;
                };
                let (loaded, suspect, usage) = match recorded {
                    Recorded::Whole { loaded, suspect, usage } => (*loaded, suspect, usage),
                    Recorded::Tools(listed) => {
                        source.recalled = Some(Recalled::new(listed));
                        continue;
                    }
                };
                let digest = Arc::clone(loaded.digest());
                let build = Build::recorded(loaded, suspect);
                let case = Case::new(&source.found, &self.config, &self.remembered);
                if case.judge(&build).is_to_be_loaded() {
                    continue;
                }
                source.load_as = load_as.clone();
                source.read = Some(source.now.clone());
                source.usage = usage;
                source.recorded = Some(digest);
                source.accept(build);
                self.changed = true;
            }
        }
    }

    /// Whoever finds that a definition is not the one that is recorded says so here.
    fn on_misfit(&self, source: &SourceId) -> OnMisfit {
        let (source, misfits) = (source.clone(), self.misfits.0.clone());
        Arc::new(move || {
            // Who is told already needs not be told again.
            let _ = misfits.try_send(source.clone());
            Box::pin(async {})
        })
    }

    /// The definition of a source is not the one that is recorded, or does not load.
    pub(super) fn load_again(&mut self, source: &SourceId) {
        let Some(source) = self.sources.get_mut(source) else { return };
        source.load_again();
        self.changed = true;
    }

    /// What drivers record of the sources that serve.
    pub(super) fn jobs_of_drivers(&mut self) -> Vec<Job> {
        let mut jobs = Vec::new();
        for driver in self.drivers().collect::<Vec<_>>() {
            let of_driver =
                self.sources.values().filter(|source| Arc::ptr_eq(&source.driver, &driver));
            let serving: Vec<Serving<'_>> = of_driver.filter_map(Source::serving_now).collect();
            jobs.extend(driver.record(&serving, &self.remembered));
        }
        for source in self.sources.values_mut() {
            let digest = source.serving_now().map(|serving| Arc::clone(serving.loaded.digest()));
            if digest.is_some() {
                source.recorded = digest;
            }
        }
        jobs
    }
}

impl Source {
    /// Its present definition, if that serves.
    fn serving_now(&self) -> Option<Serving<'_>> {
        let build = self.file.as_ref()?.as_ref().ok()?;
        let digest = build.digest();
        if self.serving.as_ref() != Some(digest) {
            return None;
        }
        let is_new = self.recorded.as_ref() != Some(digest);
        Some(Serving {
            found: &self.found,
            loaded: &build.loaded,
            looked: self.read.as_ref().filter(|read| **read == self.now),
            is_new,
            of_stranger: !is_own(&self.load_as, digest),
            suspect: if is_new { build.suspect() } else { &[] },
            usage: self.usage,
        })
    }
}

impl Source {
    /// What it registers until it is loaded, if that is recorded.
    pub(super) fn registers(&self, case: &Case<'_>) -> Option<Registration> {
        let Recalled { digest, tools } = self.recalled.as_ref()?;
        let is_bundled = case.is_bundled(digest);
        let trusted = case.known.and_then(|known| known.trusted.as_deref());
        let is_trusted = is_bundled || trusted == Some(&**digest);
        Some(Registration {
            source: self.found.source.clone(),
            origin: if is_bundled { Origin::Bundled } else { self.found.origin },
            rank: self.found.rank,
            allow_tool_override: is_trusted && case.may_take_names(),
            tools: tools.clone(),
            needs: Vec::new(),
            hooks: None,
            digest: Some(Arc::clone(digest)),
            trusted: is_trusted,
            rejected: Vec::new(),
            waiting: Vec::new(),
        })
    }
}
