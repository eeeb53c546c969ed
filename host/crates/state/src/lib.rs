//! Text and bytes of files as checked values, shared by any number of processes: configuration,
//! trust, audit log, secrets, and what plugins keep.

pub mod audit;
pub mod config;
pub mod failures;
pub mod lock;
pub mod read;
pub mod record;
pub mod secret;
pub mod store;
