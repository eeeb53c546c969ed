//! Sources of every kind: what there is, loaded and published, and again whenever it changes.
//!
//! Starting up is reloading everything from nothing. A definition that is broken, or waits for a
//! person, takes no working tool away: the one that was last in order serves in its place, of a plugin
//! also across restarts. What is published is a function of what there is, of what is remembered and of
//! what the operator configured; a change of any of them is one look, and loads what is new alone.

mod arriving;
mod audit;
mod build;
mod fail_closed;
mod first;
mod gate;
mod persist;
mod reconcile;
mod recorded;
mod reread;
mod rescan;
mod source;
mod starting;
mod status;
mod supervisor;
mod trust_policy;
mod whose;
mod work;

use crate::driver::{Location, SourceFacts};
use toolhost_core::tool::{Need, Origin};
use toolhost_policy::capability::Grants;
use toolhost_policy::diff::Outline;
use toolhost_state::store::Kept;

pub use arriving::Arriving;
pub use audit::note;
pub use gate::Gate;
pub use persist::{Trusted, prune, trust};
pub use status::{Shown, SourceStatus, Status};
pub use supervisor::{Parts, ReloadSettings, Renewed, Reread, Supervisor};
pub use trust_policy::Rule;
pub use whose::{directories, is_bundled, is_the_only_one, may, recorded, said, shares, typed};

/// A build that loaded. Its tools are in the catalog's report on its source, unless it waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ready {
    /// How far it is trusted with names.
    pub origin: Origin,
    /// A person has vouched for it: it is bundled, or its bytes or its project were trusted.
    pub trusted: bool,
    /// The rule that has trusted it just now, if no person has.
    pub trusted_by: Option<Rule>,
    /// What it asks for.
    pub needs: Vec<Need>,
    /// What it declares, in short.
    pub outline: Outline,
    /// What else is known of it.
    pub facts: SourceFacts,
    /// Its bytes, to be kept, if it is made of some.
    pub bytes: Option<Kept>,
    /// What has changed since the build that served before it in this process, if there was one;
    /// a line each, what breaks first.
    pub changes: Vec<String>,
    /// It is not counted: this other one has the same bytes, or is a newer build of the same
    /// bundled plugin.
    pub same_as: Option<Location>,
    /// What it was granted, whether it gives anything or not.
    pub granted: Grants,
    /// Grants that give nothing, each with the reason and what to do.
    pub grants: Vec<String>,
    /// What it waits for, if it does.
    pub pending: Option<Pending>,
}

/// What a build waits for: a person to look at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Why.
    pub why: String,
    /// What happens until then.
    pub meanwhile: String,
    /// What to do, where nobody's trust would help.
    pub repair: Option<String>,
    /// It serves meanwhile, without what it was granted.
    pub serves: bool,
    /// Texts that a person should look at, with their places.
    pub suspicions: Vec<String>,
    /// How it differs from the build before, a line each; the first ones.
    pub differences: Vec<String>,
    /// How many differences there are.
    pub differences_count: usize,
}

#[cfg(test)]
mod tests;
