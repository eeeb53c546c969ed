//! `script`: the modules that a runner runs, as they were when the script was loaded, and what it
//! has made of them.

use std::sync::{Arc, OnceLock};

use crate::plugin::bindings::script::{Host, Module};
use crate::plugin::store::Guest;
use crate::script::Script;

/// Bytes that are kept for one script.
const KEPT_BYTES_MAX: usize = 16 << 20;

/// A script, and what its runner has made of it.
#[derive(Clone, Debug)]
pub(crate) struct GuestScript {
    pub(crate) script: Arc<Script>,
    kept: Arc<OnceLock<Arc<[u8]>>>,
}

impl GuestScript {
    pub(crate) fn new(script: Arc<Script>) -> GuestScript {
        GuestScript { script, kept: Arc::default() }
    }
}

impl Host for Guest {
    fn modules(&mut self) -> wasmtime::Result<Vec<Module>> {
        self.count_host_call()?;
        let modules = self.script.iter().flat_map(|of| &of.script.modules);
        let module = |module: &crate::script::Module| Module {
            path: module.path.clone(),
            text: module.text.clone(),
        };
        Ok(modules.map(module).collect())
    }

    fn keep(&mut self, data: Vec<u8>) -> wasmtime::Result<bool> {
        self.count_host_call()?;
        let Some(of) = &self.script else { return Ok(false) };
        // What a call makes of the modules may be the caller's doing.
        let may_keep = self.registers && data.len() <= KEPT_BYTES_MAX;
        Ok(may_keep && of.kept.set(data.into()).is_ok())
    }

    fn kept(&mut self) -> wasmtime::Result<Option<Vec<u8>>> {
        self.count_host_call()?;
        let kept = self.script.as_ref().filter(|_| !self.registers).and_then(|of| of.kept.get());
        Ok(kept.map(|bytes| bytes.to_vec()))
    }
}
