//! What commands print, in words and as JSON.

mod audit;
mod commands;
mod doctor;
pub(crate) mod explain;
mod inspect;
mod usage;
pub(crate) mod watch;
mod wrong;
