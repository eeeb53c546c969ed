//! What tests and benchmarks share: a home of their own with the program in it ([`lab`]), an MCP
//! client ([`client`]), an HTTP server ([`server`]), guests that are built once ([`builds`](mod@builds)) and
//! changed for a test ([`guests`], [`component`]), a folder of plugins that never rests ([`churn`]).
//!
//! Only tests and benchmarks depend on it. It knows no program: who uses it names one, with
//! [`builds!`](crate::builds!), since Cargo tells a package's own tests alone where its program is.

pub mod builds;
pub mod churn;
pub mod client;
pub mod component;
pub mod guests;
pub mod lab;
pub mod server;
pub mod text;

pub use builds::{GuestBuilds, put_runner};
pub use lab::{Lab, Tested};
