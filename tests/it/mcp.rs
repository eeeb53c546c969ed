//! The MCP server, with real clients.

mod agents;
pub(crate) mod serve;
