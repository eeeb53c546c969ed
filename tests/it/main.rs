//! The tests of the whole: real components, the real program, data in and text out.

mod author;
mod call;
mod cli;
mod load;
mod mcp;
mod repository;
mod sandbox;
mod support;
mod trust;
