//! Variables: those of WASI. Where a tool is probed, a look at them tells which it asked for in
//! vain; nothing says which of them it meant, since it always gets all.

use std::sync::Arc;

use wasmtime::component::{HasData, Linker};
use wasmtime_wasi::cli::{WasiCliCtxView, WasiCliView};
use wasmtime_wasi::p2::bindings::cli::environment::{self, Host};

use crate::call_log::CallLog;
use crate::instance::Guest;
use toolhost_policy::capability::Kind;

/// The variables of a guest.
pub(crate) struct Environment<'a> {
    inner: WasiCliCtxView<'a>,
    conduct: Arc<CallLog>,
    /// Where the tool is probed.
    is_probed: bool,
}

struct HasEnvironment;

impl HasData for HasEnvironment {
    type Data<'a> = Environment<'a>;
}

/// Puts these variables in the place of WASI's own.
pub(crate) fn add_to_linker(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    environment::add_to_linker::<Guest, HasEnvironment>(linker, |guest| {
        let (conduct, is_probed) = (Arc::clone(&guest.conduct), guest.is_probed());
        Environment { inner: guest.cli(), conduct, is_probed }
    })?;
    linker.allow_shadowing(false);
    Ok(())
}

impl Host for Environment<'_> {
    fn get_environment(&mut self) -> wasmtime::Result<Vec<(String, String)>> {
        let conduct = &self.conduct;
        if self.is_probed {
            for name in &conduct.rights.variables_lacking {
                conduct.not_granted(Kind::ENV, name, &format!("the variable {name}"));
            }
        }
        // All are handed over at once, whichever the guest wants.
        for (name, _) in &conduct.rights.variables {
            conduct.used(Kind::ENV, name);
        }
        self.inner.get_environment()
    }

    fn get_arguments(&mut self) -> wasmtime::Result<Vec<String>> {
        self.inner.get_arguments()
    }

    fn initial_cwd(&mut self) -> wasmtime::Result<Option<String>> {
        self.inner.initial_cwd()
    }
}
