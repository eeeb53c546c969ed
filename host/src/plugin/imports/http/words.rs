//! Words of a request that a guest prepares: those of WASI, bounded. WASI's own are of any length,
//! and a guest may hold a thousand requests, each with words that are memory of the host.

use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi_http::WasiHttpView;
use wasmtime_wasi_http::p2::bindings::http::types::{HostOutgoingRequest, Method, OutgoingRequest};

use crate::plugin::store::Guest;

/// As WASI calls the interface, in the version that wasmtime gives.
const TYPES: &str = "wasi:http/types@0.2.12";
/// A name of a host has 253 bytes, its port has 6.
const AUTHORITY_BYTES_MAX: usize = 512;
/// The longest method that is registered has 17.
const METHOD_BYTES_MAX: usize = 64;

/// Puts these words in the place of WASI's own.
pub(crate) fn add_to_linker(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    let mut types = linker.instance(TYPES)?;
    types.func_wrap("[method]outgoing-request.set-authority", set_authority)?;
    types.func_wrap("[method]outgoing-request.set-method", set_method)?;
    linker.allow_shadowing(false);
    Ok(())
}

type Answer = wasmtime::Result<(Result<(), ()>,)>;

fn set_authority(
    mut store: StoreContextMut<'_, Guest>,
    (request, authority): (Resource<OutgoingRequest>, Option<String>),
) -> Answer {
    if authority.as_ref().is_some_and(|authority| authority.len() > AUTHORITY_BYTES_MAX) {
        return Ok((Err(()),));
    }
    Ok((store.data_mut().http().set_authority(request, authority)?,))
}

fn set_method(
    mut store: StoreContextMut<'_, Guest>,
    (request, method): (Resource<OutgoingRequest>, Method),
) -> Answer {
    if matches!(&method, Method::Other(name) if name.len() > METHOD_BYTES_MAX) {
        return Ok((Err(()),));
    }
    Ok((store.data_mut().http().set_method(request, method)?,))
}
