//! Who has which name, and one call from its name to its outcome.

pub mod availability;
pub mod batch;
pub mod builtin;
pub mod checker;
pub mod definitions;
pub mod dispatch;
pub mod quarantine;
pub mod registry;
pub mod result;
pub mod session;
