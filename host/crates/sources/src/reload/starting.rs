//! What is waited for at the start, and what is not: scripts whose runner is compiled, plugins that
//! are listed from the record, and those of strangers who have used up their time come later.

use std::time::Duration;

use super::source::Source;
use super::supervisor::{Supervisor, Work};
use toolhost_wasm::{LoadAs, Standing, runner_name, script};

/// At the start, a file that is being written is waited for so long.
const TRIED_WITHIN: Duration = Duration::from_secs(5);

impl Supervisor {
    /// Tells whether nothing is being loaded but scripts whose runner is compiled, what is known from
    /// before, and strangers' plugins that have had their time.
    pub(super) fn waits_for_runners(&self) -> bool {
        let compiling = self.compiling.borrow();
        let waits = |work: &Work| {
            let Some(source) = self.sources.get(&work.source) else { return false };
            let language = script::language(&source.found.candidate.path);
            source.recalled.is_some()
                || self.has_had_its_time(source)
                || language.is_some_and(|language| compiling.contains(&runner_name(language)))
        };
        self.working.values().all(waits)
    }

    /// Tells whether a file is of strangers who have used up what they may take to register.
    fn has_had_its_time(&self, source: &Source) -> bool {
        let LoadAs { standing, trusted, digest } = &source.load_as;
        let may_be_trusted =
            !trusted.is_empty() && digest.get().is_none_or(|digest| trusted.contains(&**digest));
        *standing == Standing::Untrusted
            && !may_be_trusted
            && self.parts.loader.has_registered_too_long(&source.found.candidate.folder)
    }

    /// Tells whether nothing is being loaded but plugins of such strangers.
    pub(super) fn waits_for_strangers(&self) -> bool {
        let mut sources = self.working.values().map(|work| self.sources.get(&work.source));
        sources.all(|source| source.is_some_and(|source| self.has_had_its_time(source)))
    }

    /// Tells whether of every file is known what it registers, or why it does not.
    pub(super) fn is_listed(&self) -> bool {
        let is_known = |source: &Source| source.file.is_some() || source.recalled.is_some();
        // What is loaded to stand in for a file is waited for.
        let stands_in = |work: &Work| work.kept.is_some();
        let is_awaited = self.working.values().any(stands_in);
        self.is_tried() && !is_awaited && self.sources.values().all(is_known)
    }

    /// Tells whether every file was read, or has had its time: one that is written again and again
    /// keeps nobody waiting.
    pub(super) fn is_tried(&self) -> bool {
        self.since.elapsed() > TRIED_WITHIN
            || self.sources.values().all(|source| source.read.is_some())
    }
}
