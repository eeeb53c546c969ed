//! Loads: from a file to registered tools, again whenever it changes, and from records.

mod bundled;
mod compiling;
mod contract;
mod loading;
mod recorded;
pub(crate) mod registry;
mod reload;
mod reload_others;
mod reload_soak;
mod runners;
mod scripted;
mod scripts;
