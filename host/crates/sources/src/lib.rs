//! Sources of tools: what there is, what changes, what is loaded, what waits for a person.
//!
//! A [`driver`] for each kind of source says what there is and loads it, such as that of plugins in a
//! [`folder`]; [`reload`] does the rest, the same for all.

pub mod driver;
pub mod folder;
#[doc(hidden)]
pub mod in_memory;
pub mod reload;
pub mod remembered;
pub mod watcher;
