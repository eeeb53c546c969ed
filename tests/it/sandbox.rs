//! What guests try, and what they may: files, network, stores, secrets.

pub(crate) mod egress;
mod files;
pub(crate) mod hostile;
mod kv;
mod paths;
mod probe;
mod secrets;
