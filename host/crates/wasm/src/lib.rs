//! A component as a registration: compile, link, register, run one call.
//!
//! The only crate that names wasmtime. Above it, a plugin is a set of [`Tool`](toolhost_core::tool::Tool)s
//! like any other. What it does not do: decide about names (the registry does), authority, or
//! deadlines of calls (dispatch drops the future).

mod account;
mod adapter;
mod call_log;
mod candidate;
mod capability;
mod clock;
mod compile;
mod cpu_isolation;
mod dev_builds;
mod engine;
mod guest_time;
mod instance;
mod link;
mod load_error;
mod load_queue;
mod loaded;
mod loader;
mod memory;
mod plugin;
mod priority;
mod read;
mod recorded;
mod redaction;
mod register;
mod rights;
mod runner;
pub mod script;
mod source;
mod stopped;
mod surface;
mod toolchain;

pub use account::{LoadAs, Standing};
pub use adapter::contract::{KNOWN_CONTRACT, check as check_contract};
pub use candidate::Candidate;
pub use capability::dirs::directories::{
    DirectoryRules, check as check_grant, narrowest as narrowest_directory,
    proposed as proposed_grant,
};
pub use capability::secrets::Secrets;
pub use compile::cache::CacheError;
pub use compile::digest;
pub use compile::worker::{COMPILE_COMMAND, compile_here};
pub use dev_builds::OwnSource;
pub use engine::EngineError;
pub use load_error::{LoadError, Phase, RunnerError};
pub use loaded::{Facts, Loaded};
pub use loader::Loader;
pub use read::read_component;
pub use recorded::{BuildRecord, OnMisfit};
pub use runner::{RUNNER_REPAIR, RunnerPlaces, Unrecorded, check_runner, runner_name};
pub use surface::ContractError;
pub use toolchain::{Runtime, Toolchain};

/// For benchmarks: what a call costs without the host around it.
#[doc(hidden)]
pub mod bare {
    pub use super::engine::{Speed, config};
}
