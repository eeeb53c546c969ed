//! `script`: the modules that a runner runs, as they were when the script was loaded.

use crate::plugin::bindings::script::{Host, Module};
use crate::plugin::store::Guest;

impl Host for Guest {
    fn modules(&mut self) -> wasmtime::Result<Vec<Module>> {
        self.count_host_call()?;
        let modules = self.script.iter().flat_map(|script| &script.modules);
        Ok(modules
            .map(|module| Module { path: module.path.clone(), text: module.text.clone() })
            .collect())
    }
}
