//! Errors of streams: those of WASI, without what is the host's own business. WASI's would show
//! a guest the stack of the host, with its paths, where `RUST_BACKTRACE` is set.

use wasmtime::component::{HasData, Linker, Resource, ResourceTable};
use wasmtime_wasi::p2::bindings::io::error::{self, Host, HostError};

use crate::instance::Guest;
use toolhost_core::text;

/// Characters of what is said of one error.
const WORDS_CHARS_MAX: usize = 500;

/// The errors of a guest's streams.
struct Errors<'a>(&'a mut ResourceTable);

struct HasErrors;

impl HasData for HasErrors {
    type Data<'a> = Errors<'a>;
}

/// Puts these errors in the place of WASI's own.
pub(super) fn add_to_linker(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    error::add_to_linker::<Guest, HasErrors>(linker, |guest| Errors(guest.table()))?;
    linker.allow_shadowing(false);
    Ok(())
}

impl Host for Errors<'_> {}

impl HostError for Errors<'_> {
    fn to_debug_string(&mut self, error: Resource<wasmtime::Error>) -> wasmtime::Result<String> {
        let error = self.0.get(&error)?;
        Ok(text::cut(&text::one_line(&format!("{error:#}")), WORDS_CHARS_MAX))
    }

    fn drop(&mut self, error: Resource<wasmtime::Error>) -> wasmtime::Result<()> {
        self.0.delete(error)?;
        Ok(())
    }
}
