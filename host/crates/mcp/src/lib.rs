//! The MCP side of toolhost: a server that offers the tools of a host.

pub mod server;
