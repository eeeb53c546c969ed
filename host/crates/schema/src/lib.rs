//! JSON Schemas of strangers, bounded; arguments that are coerced, checked and explained by them.

pub mod arguments;
pub mod repair;
pub mod schema;
