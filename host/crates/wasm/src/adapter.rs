//! How a component becomes tools.

pub(crate) mod contract;
