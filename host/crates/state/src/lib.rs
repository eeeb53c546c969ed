//! Text and bytes of files as checked values, shared by any number of processes: configuration,
//! trust, audit log, secrets, and what plugins keep.

pub mod atomic_file;
pub mod audit;
pub mod config;
pub mod failures;
pub mod read;
pub mod secret;
pub mod store;
pub mod trust_store;
