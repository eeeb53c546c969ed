//! Runs WebAssembly components as sandboxed tools for AI agents.
//!
//! Start with [`Host`]: it loads the plugins of its folders, runs calls, and tells of changes. What it
//! takes and gives is re-exported here; everything else is internal, in crates that nobody should depend
//! on.

mod granted;
mod host;
mod kept;
mod look;
mod missing;
mod serve;
mod settings;

pub use toolhost_core::limits::{Bytes, Count, Limits};
pub use toolhost_core::tool::{
    Call, CallError, Caller, Code, Origin, Outcome, PluginAddress, PluginId, Registration,
    SourceId, Tool, ToolSpec, Usage,
};
pub use toolhost_kernel::availability::Unavailable;
pub use toolhost_kernel::definitions::Listed;
pub use toolhost_kernel::quarantine::Quarantined;
pub use toolhost_kernel::registry::{Catalog, Entry};
pub use toolhost_kernel::session::{Session, SessionError, SessionSettings};
pub use toolhost_mcp::server::{Offer, ServerSettings, serve, standard_streams};
pub use toolhost_policy::toolset::{Platform, Selection};
pub use toolhost_schema::schema::Format;
pub use toolhost_sources::folder::Folder;
pub use toolhost_sources::reload::{Shown, SourceStatus, Status};
pub use toolhost_state::config::Config;

pub use granted::Granted;
pub use host::{Host, StartError};
pub use look::{InspectError, Probed, digest, inspect, probe};
pub use settings::HostSettings;
