//! Folders of plugins: what changes in them, what is loaded, what waits for a person.

pub mod reload;
pub mod watcher;
