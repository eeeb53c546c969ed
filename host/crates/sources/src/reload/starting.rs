//! What is waited for at the start, and what is not: sources that wait for the host themselves, as scripts
//! do whose runner is compiled, those that are listed from the record, and those of strangers who have
//! used up their time come later.

use std::time::Duration;

use super::source::Source;
use super::supervisor::Supervisor;
use super::work::Work;

/// At the start, a file that is being written is waited for so long.
const TRIED_WITHIN: Duration = Duration::from_secs(5);

impl Supervisor {
    /// Tells whether nothing is being loaded but sources that wait for the host, what is known from
    /// before, and strangers' sources that have had their time.
    pub(super) fn waits_for_host(&self) -> bool {
        let waits = |work: &Work| {
            let Some(source) = self.sources.get(&work.source) else { return false };
            source.recalled.is_some()
                || source.has_had_its_time()
                || source.driver.waits_for_host(&source.found)
        };
        self.working.values().all(waits)
    }

    /// Tells whether nothing is being loaded but sources of such strangers.
    pub(super) fn waits_for_strangers(&self) -> bool {
        let mut sources = self.working.values().map(|work| self.sources.get(&work.source));
        sources.all(|source| source.is_some_and(Source::has_had_its_time))
    }

    /// Tells whether of every source is known what it registers, or why it does not.
    pub(super) fn is_listed(&self) -> bool {
        let is_known = |source: &Source| source.file.is_some() || source.recalled.is_some();
        // What is loaded to stand in for a file is waited for.
        let stands_in = |work: &Work| work.kept.is_some();
        let is_awaited = self.working.values().any(stands_in);
        self.is_tried() && !is_awaited && self.sources.values().all(is_known)
    }

    /// Tells whether every source was looked into, or has had its time: one that is written again and again
    /// keeps nobody waiting.
    pub(super) fn is_tried(&self) -> bool {
        self.since.elapsed() > TRIED_WITHIN
            || self.sources.values().all(|source| source.read.is_some())
    }
}

impl Source {
    /// Tells whether it is of strangers who have used up the time in which others wait for them.
    fn has_had_its_time(&self) -> bool {
        self.driver.has_had_its_time(&self.found, &self.load_as)
    }
}
