//! Folders of plugins: what changes in them, what is loaded, what waits for a person.

pub mod folder;
pub mod reload;
pub mod remembered;
pub mod watcher;
