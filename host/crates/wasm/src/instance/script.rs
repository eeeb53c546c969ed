//! `script`: the modules that a runner runs, as they were when the script was loaded, and what it
//! has made of them.

use std::sync::{Arc, OnceLock};

use wasmtime::component::{HasSelf, Linker};

use super::Guest;
use crate::engine::Engine;
use crate::script::Script;
use bindings::toolhost::plugin::script::{self, Host, Module};
use toolhost_core::runtime::MemoryBudget;

mod bindings {
    wasmtime::component::bindgen!({
        interfaces: "import toolhost:plugin/script@0.1.0;",
        path: "../../../wit",
        imports: { default: trappable },
    });
}

/// Links the interface.
pub(super) fn add_to_linker(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    script::add_to_linker::<Guest, HasSelf<Guest>>(linker, |guest| guest)
}

/// A script, and what its runner has made of it.
#[derive(Clone, Debug)]
pub(crate) struct GuestScript {
    pub(crate) script: Arc<Script>,
    kept: Arc<OnceLock<KeptBytes>>,
    bytes_max: u64,
    budget: Arc<MemoryBudget>,
}

/// Bytes that are taken from the memory of all guests.
#[derive(Debug)]
struct KeptBytes {
    bytes: Vec<u8>,
    budget: Arc<MemoryBudget>,
}

impl Drop for KeptBytes {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes.len() as u64);
    }
}

impl GuestScript {
    pub(crate) fn new(script: Arc<Script>, engine: &Engine) -> GuestScript {
        let budget = Arc::clone(&engine.memory);
        GuestScript::within(script, engine.limits.script_kept_bytes_max.0, budget)
    }

    /// A script of which at most `bytes_max` are kept, taken from the budget.
    fn within(script: Arc<Script>, bytes_max: u64, budget: Arc<MemoryBudget>) -> GuestScript {
        GuestScript { script, kept: Arc::default(), bytes_max, budget }
    }

    /// Keeps bytes as long as the script, the first time; tells whether it did.
    fn keep(&self, bytes: Vec<u8>) -> bool {
        let length = bytes.len() as u64;
        if self.kept.get().is_some() || length > self.bytes_max || !self.budget.take(length) {
            return false;
        }
        self.kept.set(KeptBytes { bytes, budget: Arc::clone(&self.budget) }).is_ok()
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
        // What a call makes of the modules may be the caller's doing.
        let registers = self.call().registers;
        let of = self.script.as_ref().filter(|_| registers);
        Ok(of.is_some_and(|of| of.keep(data)))
    }

    fn kept(&mut self) -> wasmtime::Result<Option<Vec<u8>>> {
        self.count_host_call()?;
        let registers = self.call().registers;
        let kept = self.script.as_ref().filter(|_| !registers).and_then(|of| of.kept.get());
        Ok(kept.map(|kept| kept.bytes.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolhost_core::limits::Limits;
    use toolhost_state::read::ReadScope;

    #[test]
    fn what_is_kept_counts_as_memory_of_guests_and_is_given_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.py");
        std::fs::write(&path, "").expect("written");
        let script = Arc::new(
            Script::read(&ReadScope::Own, &path, "r", &Limits::default()).expect("a script"),
        );
        let budget = Arc::new(MemoryBudget::new(100));
        let of =
            |bytes_max| GuestScript::within(Arc::clone(&script), bytes_max, Arc::clone(&budget));
        let (first, second) = (of(80), of(80));
        assert!(!first.keep(vec![0; 81]), "more than one may have");
        assert!(first.keep(vec![0; 80]));
        assert!(!first.keep(vec![0; 1]), "once");
        assert!(!second.keep(vec![0; 21]), "more than all may have");
        assert!(second.keep(vec![0; 20]));
        assert!(!budget.take(1));
        // A build that is renewed has the same.
        let renewed = first.clone();
        drop(first);
        assert!(!budget.take(1));
        drop(renewed);
        assert!(budget.take(80) && !budget.take(1));
    }
}
