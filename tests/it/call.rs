//! Calls: from a name and arguments to an outcome, and the bounds of that.

mod availability;
mod batch;
mod calls;
mod formats;
pub(crate) mod hooks;
mod limits;
mod lossless;
mod memory;
pub(crate) mod misbehaving;
mod overload;
mod quarantine;
mod requests;
mod schemas;
pub(crate) mod sessions;
pub(crate) mod toolsets;
mod vectors;
