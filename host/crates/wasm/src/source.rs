//! What a plugin is made of: a component of its own, or a script and what runs it.

use std::sync::Arc;

use super::compile;
use super::instance::script::GuestScript;
use super::link::Linked;
use super::plugin::program::Program;
use super::runner::{Runner, Unrecorded};
use crate::script::Script;

/// What a plugin is made of.
pub(super) struct PluginCode {
    pub(super) code: Arc<Linked>,
    pub(super) script: Option<Arc<Script>>,
    /// Of the component, or of the script and its runner.
    pub(super) digest: Arc<str>,
    pub(super) bytes: u64,
    /// The script as bytes that have the digest.
    pub(super) packed: Option<Arc<[u8]>>,
    /// Why its runner does not count, if it does not.
    pub(super) unrecorded: Option<Arc<Unrecorded>>,
}

impl PluginCode {
    /// What it runs.
    pub(super) fn program(&self) -> Program {
        let linked = Arc::clone(&self.code);
        let script = self.script.clone();
        let script = script.map(|script| GuestScript::new(script, &linked.engine));
        Program { linked, script }
    }

    pub(super) fn of_script(script: Script, runner: Runner) -> PluginCode {
        let packed: Arc<[u8]> = script.pack().into();
        PluginCode {
            digest: compile::digest(&packed),
            bytes: script.bytes(),
            packed: Some(packed),
            script: Some(Arc::new(script)),
            code: runner.code,
            unrecorded: runner.unrecorded,
        }
    }
}
