//! Loads for one call, where everything is loaded once: what the call waits for, and nothing else.

use super::arriving::{self, Arriving};
use super::source::Source;
use super::supervisor::Supervisor;
use toolhost_core::tool::SourceId;

impl Supervisor {
    /// Loads what a call of this tool waits for and nothing else, if the tool is there then.
    pub(super) async fn load_first(&mut self, tool: &str) -> bool {
        let is_there = self.parts.registry.current().find(tool).is_some();
        let (config, remembered) = (&self.config, &self.remembered);
        let mut wanted = arriving::begin_with(tool, is_there, &self.sources, config, remembered);
        self.is_partial = true;
        'more: while !wanted.is_empty() {
            let of = wanted.into_iter().collect();
            self.take_recorded(Some(&of)).await;
            self.start(Some(&of));
            while let Some(done) = self.work.join_next_with_id().await {
                self.take(done);
                if self.work.is_empty() {
                    // It may want kept builds.
                    self.publish().await;
                } else if self.is_loaded(tool) {
                    self.publish().await;
                    if self.has(tool) && self.waited_for(tool).await.is_empty() {
                        // What is loaded beside it has no part in the call.
                        break 'more;
                    }
                }
            }
            // What is not even tried takes no work.
            self.publish().await;
            wanted = self.waited_for(tool).await;
        }
        self.is_partial = self.parts.registry.current().find(tool).is_some();
        if self.is_partial {
            // The last thing that is done: whoever waits may be gone then.
            self.is_first_there = true;
            self.publish().await;
        }
        self.is_partial
    }

    fn has(&self, tool: &str) -> bool {
        self.parts.registry.current().find(tool).is_some()
    }

    /// Tells whether a source was loaded that registers the tool.
    fn is_loaded(&self, tool: &str) -> bool {
        let registers = |source: &Source| {
            let Some(Ok(build)) = &source.file else { return false };
            build.loaded.registration.tools.iter().any(|of| of.spec().name.as_str() == tool)
        };
        self.sources.values().any(registers)
    }

    /// What a call of this tool waits for yet. Those that might matter are read first, since most have
    /// not changed since it was remembered which names they have.
    async fn waited_for(&mut self, tool: &str) -> Vec<SourceId> {
        let catalog = self.parts.registry.current();
        if catalog.find(tool).is_none() {
            return Vec::new();
        }
        let arriving = |of: &Supervisor| Arriving::of(&of.sources, &of.config, &of.remembered);
        for id in arriving(self).waited_for(tool, &catalog) {
            let Some(source) = self.sources.get_mut(&id) else { continue };
            if source.looks_like.is_some()
                || source.load_as.digest.get().is_some() && source.busy.is_some()
            {
                continue;
            }
            if source.busy.is_none() {
                source.load_as = arriving::load_as(&source.found, &self.remembered);
            }
            let (found, load_as) = (&source.found, &source.load_as);
            if let Some(digest) = source.driver.digest(found, load_as).await {
                source.load_as.digest.get_or_init(|| digest);
            }
        }
        arriving(self).waited_for(tool, &catalog)
    }
}
