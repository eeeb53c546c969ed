//! A definition that a driver has loaded: what it publishes, what is known of it, and what can be done
//! with it.

use std::sync::Arc;

use toolhost_core::tool::Registration;
use toolhost_policy::capability::{Exclusive, Grants};
use toolhost_policy::diff::Surface;
use toolhost_policy::review::{Suspicion, Texts, suspicions, to_wait_for};
use toolhost_state::store::Kept;
use toolhost_wasm::{BuildRecord, Facts};

/// Suspicions that are told of one definition; `toolhost inspect` tells all.
const SUSPICIONS_MAX: usize = 20;

/// A definition that loaded.
#[derive(Clone)]
pub struct LoadedSource {
    /// What it publishes. Origin, rank and trust are set by whoever decides about them.
    pub registration: Registration,
    /// What else there is to know.
    pub facts: SourceFacts,
    /// What can be done with it.
    pub handle: Arc<dyn SourceHandle>,
}

/// What is known of a definition besides its tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFacts {
    /// Its own name.
    pub name: String,
    /// Its own version.
    pub version: String,
    /// SHA-256 in hexadecimal of what it was made of: two definitions are the same if this is.
    pub digest: Arc<str>,
    /// Of a plugin: what else its component says of itself.
    pub plugin: Option<Arc<Facts>>,
}

impl SourceFacts {
    /// Names of its registration that the host does not know, with JSON text.
    pub fn extensions(&self) -> &[(String, String)] {
        self.plugin.as_ref().map_or(&[], |plugin| &plugin.extensions)
    }

    /// The contract it was built for, if it was built for one.
    pub fn contract(&self) -> Option<String> {
        self.plugin.as_ref().map(|plugin| plugin.contract.to_string())
    }
}

/// Why a definition serves nobody, whatever is trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// Why.
    pub why: String,
    /// What to do.
    pub repair: String,
}

/// What can be done with a definition. A kind of source that is given no authority, and holds nothing
/// beside its tools, needs none of it.
pub trait SourceHandle: Send + Sync {
    /// Its bytes, to be kept for when a later definition is broken or waits.
    fn bytes(&self) -> Option<Kept> {
        None
    }

    /// Whoever uses this host is making it: it is trusted where another one was.
    fn is_own(&self) -> bool {
        false
    }

    /// It was published from a record. What is not in that is known once it is loaded.
    fn is_recorded(&self) -> bool {
        false
    }

    /// What is to be recorded of it so that it can be published before it is loaded, if it can be.
    fn build_record(&self) -> Option<BuildRecord> {
        None
    }

    /// Why it is not to serve at all, if it is not.
    fn blocked(&self) -> Option<Blocked> {
        None
    }

    /// Tells whether it differs from the definition that was trusted only in what comes with this
    /// host.
    fn is_rebuilt(&self, _trusted: &str) -> bool {
        false
    }

    /// Tells whether it was given its authority.
    fn is_authorised(&self) -> bool {
        false
    }

    /// The same definition once more, with no authority, and values of this moment.
    fn renewed(&self, loaded: &LoadedSource) -> LoadedSource {
        loaded.clone()
    }

    /// The same definition with its authority; and of each grant that gives nothing, why. `words` is
    /// what commands call the source.
    fn authorised(
        &self,
        loaded: &LoadedSource,
        _words: &str,
        _grants: &Grants,
        _exclusive: &[Exclusive],
    ) -> (LoadedSource, Vec<String>) {
        (loaded.clone(), Vec::new())
    }

    /// It serves no more. Calls under way end by themselves, or are stopped after a while. It is
    /// called within a tokio runtime.
    fn retire(&self) {}
}

/// A definition that is its tools and nothing else.
impl SourceHandle for () {}

impl LoadedSource {
    /// What tells it from another definition of the same source.
    pub fn digest(&self) -> &Arc<str> {
        &self.facts.digest
    }

    /// It was published from a record.
    pub fn is_recorded(&self) -> bool {
        self.handle.is_recorded()
    }

    /// What it declares.
    pub fn surface(&self) -> Surface {
        let contract = self.facts.contract().unwrap_or_default();
        let imports = self.facts.plugin.as_ref().map_or(&[][..], |plugin| &plugin.imports);
        Surface::new(&contract, imports, &self.registration)
    }

    /// The suspect texts for which it waits, a line each.
    pub fn suspect(&self) -> Vec<String> {
        let texts = Texts {
            name: &self.facts.name,
            version: &self.facts.version,
            registration: &self.registration,
            extensions: self.facts.extensions(),
        };
        let found = suspicions(&texts, std::iter::empty());
        to_wait_for(&found).take(SUSPICIONS_MAX).map(Suspicion::to_string).collect()
    }

    /// The same with no authority, and values of this moment.
    pub fn renewed(&self) -> LoadedSource {
        self.handle.renewed(self)
    }

    /// The same with its authority; see [`SourceHandle::authorised`].
    pub fn authorised(
        &self,
        words: &str,
        grants: &Grants,
        exclusive: &[Exclusive],
    ) -> (LoadedSource, Vec<String>) {
        self.handle.authorised(self, words, grants, exclusive)
    }
}
