//! Runs WebAssembly components as sandboxed tools for AI agents.
//!
//! Start with [`Host`]. The rooms, from the words at the bottom to the doors at the top; each
//! uses only rooms above it in this list:
//!
//! | room | what it is |
//! |---|---|
//! | [`limits`], [`record`], [`runtime`], [`text`], [`turns`] | every bound; files that many processes change; where work is at home; text of strangers made safe to show, or suspect; who goes next |
//! | [`json`], [`read`], [`tool`] | what JSON is; files of strangers, read in one way; the words: tool, call, outcome, registration |
//! | [`authority`], [`toolset`], [`schema`], [`arguments`] | rules, pure |
//! | [`repair`], [`batch`], [`result`] | names nearly right, calls at once, results too large |
//! | [`guardrails`], [`suspicion`], [`difference`] | models that turn in circles; texts to look at twice; builds that differ |
//! | [`audit`], [`config`], [`lock`], [`process`], [`script`] | what happened; files and commands; texts that a runner runs |
//! | [`egress`], [`failures`], [`secret`], [`store`] | outgoing HTTP; how calls failed lately; values nobody is shown; what plugins keep |
//! | [`checker`], [`plugin`], [`watcher`] | values checked against schemas, where that can be stopped; a component as a registration; when files have changed |
//! | [`registry`] | who has which name; the catalog |
//! | [`availability`], [`quarantine`], [`session`] | which tools can work; which crash too often; what one caller's calls add up to |
//! | [`definitions`], [`dispatch`] | what a model is shown; one call, from its name to its outcome |
//! | [`author`], [`builtin`], [`reload`] | building, scaffolding and checking plugins; the house's own tools; folders of plugins |
//! | [`host`] | wires everything |
//! | [`server`] | a door for MCP clients |
//! | [`cli`] | the command line |

pub mod limits;
pub mod record;
pub mod runtime;
pub mod text;
pub mod turns;

pub mod json;
pub mod read;
pub mod tool;

pub mod arguments;
pub mod authority;
pub mod batch;
pub mod difference;
pub mod guardrails;
pub mod repair;
pub mod result;
pub mod schema;
pub mod suspicion;
pub mod toolset;

pub mod audit;
pub mod config;
pub mod egress;
pub mod failures;
pub mod lock;
pub mod process;
pub mod script;
pub mod secret;
pub mod store;

pub mod checker;
pub mod plugin;
pub mod watcher;

pub mod registry;

pub mod availability;
pub mod quarantine;
pub mod session;

pub mod definitions;
pub mod dispatch;

pub mod author;
pub mod builtin;
pub mod reload;

pub mod host;

pub mod server;

#[doc(hidden)]
pub mod cli;

pub use config::Config;
pub use host::{Host, HostSettings};
pub use limits::Limits;
pub use reload::Folder;
pub use tool::{Call, Origin, Outcome};
