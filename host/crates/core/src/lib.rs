//! The words of toolhost: values that every other crate speaks in, without files, network or guests.

pub mod json;
pub mod limits;
pub mod runtime;
pub mod scheduler;
pub mod text;
pub mod tool;
