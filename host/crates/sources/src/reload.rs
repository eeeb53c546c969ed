//! Folders of plugins: what lies in them, loaded and published, and again whenever it changes.
//!
//! Starting up is reloading everything from nothing. A file that is broken, or waits for a
//! person, takes no working tool away: the build that was last in order is kept, also across
//! restarts, and serves in its place. What is published is a function of what lies there, of what
//! is remembered and of what the operator configured; a change of any of them is one look, and
//! loads what is new alone.

mod arriving;
mod audit;
mod build;
mod fail_closed;
mod files;
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

use std::sync::Arc;

use crate::remembered::Remembered;
use toolhost_core::tool::{Need, Origin};
use toolhost_policy::capability::Grants;
use toolhost_policy::diff::Outline;
use toolhost_wasm::Facts;

pub use arriving::Arriving;
pub use audit::note;
pub use gate::Gate;
pub use persist::{Trusted, prune, trust};
pub use reconcile::kept;
pub use recorded::record_definitions;
pub use status::{Failed, Location, Shown, SourceStatus, Status};
pub use supervisor::{Parts, ReloadSettings, Renewed, Reread, Supervisor};
pub use trust_policy::{Rule, surface, suspect};
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
    pub facts: Facts,
    /// Of a script: its bytes, as they are kept.
    pub packed: Option<Arc<[u8]>>,
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
