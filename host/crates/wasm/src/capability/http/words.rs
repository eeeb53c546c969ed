//! Fields, words and bodies of requests that a guest prepares, and of responses that it keeps: those of
//! WASI, each of them bounded, and all of them memory of the guest. WASI's own are of any length, and
//! a guest may hold a thousand, each with words that are memory of the host.

use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi_http::p2::HeaderResult;
use wasmtime_wasi_http::p2::bindings::http::types::{
    ErrorCode, FutureIncomingResponse, FutureTrailers, HeaderError, Host, HostFields,
    HostFutureIncomingResponse, HostFutureTrailers, HostOutgoingBody, HostOutgoingRequest,
    HostOutgoingResponse, IncomingResponse, Method, OutgoingBody, OutgoingRequest,
    OutgoingResponse, Trailers,
};
use wasmtime_wasi_http::{FieldMap, WasiHttpCtxView, WasiHttpView};

use super::HttpPart;
use crate::capability::shadow;
use crate::instance::Guest;
use crate::memory::{BODY_BYTES, fields_bytes};

/// As WASI calls the interface, in the version that wasmtime gives.
const TYPES: &str = "wasi:http/types@0.2.12";
/// A name of a host has 253 bytes, its port has 6.
const AUTHORITY_BYTES_MAX: usize = 512;
/// The longest method that is registered has 17.
const METHOD_BYTES_MAX: usize = 64;

/// The longest path that WASI takes.
const PATH_BYTES_MAX: usize = 64 << 10;
/// What a field takes beside its text: a place among the others, as they grow.
const FIELD_BYTES: usize = 512;

/// Puts these words in the place of WASI's own.
pub(super) fn add_to_linker(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    shadow(linker, functions)
}

fn functions(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    let mut types = linker.instance(TYPES)?;
    types.func_wrap("[static]fields.from-list", fields_of_list)?;
    types.func_wrap("[method]fields.set", set_field)?;
    types.func_wrap("[method]fields.append", append_field)?;
    types.func_wrap("[method]fields.delete", delete_field)?;
    types.func_wrap("[method]fields.clone", clone_fields)?;
    types.func_wrap("[method]outgoing-request.set-authority", set_authority)?;
    types.func_wrap("[method]outgoing-request.set-method", set_method)?;
    types.func_wrap("[method]outgoing-request.set-path-with-query", set_path)?;
    types.func_wrap("[method]outgoing-request.body", request_body)?;
    types.func_wrap("[method]outgoing-response.body", response_body)?;
    types.func_wrap("[static]outgoing-body.finish", finish_body)?;
    types.func_wrap("[method]future-incoming-response.get", response)?;
    types.func_wrap("[method]future-trailers.get", trailers)
}

type Store<'a> = StoreContextMut<'a, Guest>;
/// An answer of a function on fields.
type Fields<T> = wasmtime::Result<(Result<T, HeaderError>,)>;

/// What this field may take of the memory of the host.
fn field_bytes(name: &str, value: &[u8]) -> usize {
    name.len() + value.len() + FIELD_BYTES
}

fn fields_of_list(
    mut store: Store<'_>,
    (entries,): (Vec<(String, Vec<u8>)>,),
) -> Fields<Resource<FieldMap>> {
    let guest = store.data_mut();
    // Of what is over its bound, nothing is kept.
    let bytes = entries.iter().map(|(name, value)| field_bytes(name, value)).sum::<usize>();
    guest.foretell(bytes as u64)?;
    let mut http = guest.http();
    let made = http.from_list(entries);
    said(&mut http, made)
}

fn set_field(
    mut store: Store<'_>,
    (fields, name, values): (Resource<FieldMap>, String, Vec<Vec<u8>>),
) -> Fields<()> {
    let guest = store.data_mut();
    let bytes = values.iter().map(|value| field_bytes(&name, value)).sum::<usize>();
    guest.foretell(bytes as u64)?;
    let (again, before) = (Resource::new_borrow(fields.rep()), further(guest, &fields)?);
    let set = HostFields::set(&mut guest.http(), fields, name, values);
    compact(guest, &again, before)?;
    said(&mut guest.http(), set)
}

fn append_field(
    mut store: Store<'_>,
    (fields, name, value): (Resource<FieldMap>, String, Vec<u8>),
) -> Fields<()> {
    let guest = store.data_mut();
    guest.foretell(field_bytes(&name, &value) as u64)?;
    let mut http = guest.http();
    let appended = http.append(fields, name, value);
    said(&mut http, appended)
}

fn delete_field(mut store: Store<'_>, (fields, name): (Resource<FieldMap>, String)) -> Fields<()> {
    let guest = store.data_mut();
    let (again, before) = (Resource::new_borrow(fields.rep()), further(guest, &fields)?);
    let deleted = HostFields::delete(&mut guest.http(), fields, name);
    compact(guest, &again, before)?;
    said(&mut guest.http(), deleted)
}

fn clone_fields(
    mut store: Store<'_>,
    (fields,): (Resource<FieldMap>,),
) -> wasmtime::Result<(Resource<FieldMap>,)> {
    let guest = store.data_mut();
    let bytes = fields_bytes(guest.table().get(&fields)?);
    guest.foretell(bytes)?;
    Ok((HostFields::clone(&mut guest.http(), fields)?,))
}

/// How many values fields have beyond the first of each name.
fn further(guest: &mut Guest, fields: &Resource<FieldMap>) -> wasmtime::Result<usize> {
    let fields = guest.table().get(fields)?;
    Ok(fields.len() - fields.keys_len())
}

/// Makes fields anew once they have fewer such values than before: the map keeps the places of those
/// that are gone, where nobody can count them.
fn compact(guest: &mut Guest, fields: &Resource<FieldMap>, before: usize) -> wasmtime::Result<()> {
    if further(guest, fields)? >= before {
        return Ok(());
    }
    let mut made = FieldMap::new_mutable(guest.part::<HttpPart>().part.head_bytes_max);
    let fields = guest.table().get_mut(fields)?;
    for (name, value) in fields.iter() {
        made.append_raw(name.clone(), value.clone())?;
    }
    *fields = made;
    Ok(())
}

/// What became of fields, as WASI says it.
fn said<T>(http: &mut WasiHttpCtxView<'_>, result: HeaderResult<T>) -> Fields<T> {
    Ok((match result {
        Ok(value) => Ok(value),
        Err(error) => Err(http.convert_header_error(error)?),
    },))
}

type AnswerHead = wasmtime::Result<(Result<(), ()>,)>;

fn set_authority(
    mut store: Store<'_>,
    (request, authority): (Resource<OutgoingRequest>, Option<String>),
) -> AnswerHead {
    if authority.as_ref().is_some_and(|authority| authority.len() > AUTHORITY_BYTES_MAX) {
        return Ok((Err(()),));
    }
    Ok((store.data_mut().http().set_authority(request, authority)?,))
}

fn set_method(
    mut store: Store<'_>,
    (request, method): (Resource<OutgoingRequest>, Method),
) -> AnswerHead {
    if matches!(&method, Method::Other(name) if name.len() > METHOD_BYTES_MAX) {
        return Ok((Err(()),));
    }
    Ok((store.data_mut().http().set_method(request, method)?,))
}

fn set_path(
    mut store: Store<'_>,
    (request, path): (Resource<OutgoingRequest>, Option<String>),
) -> AnswerHead {
    let guest = store.data_mut();
    // A path that is longer than 64 KiB is refused, and not kept.
    guest.foretell(path.as_ref().map_or(0, |path| path.capacity().min(PATH_BYTES_MAX)) as u64)?;
    Ok((guest.http().set_path_with_query(request, path)?,))
}

fn request_body(
    mut store: Store<'_>,
    (request,): (Resource<OutgoingRequest>,),
) -> wasmtime::Result<(Result<Resource<OutgoingBody>, ()>,)> {
    let guest = store.data_mut();
    guest.foretell(BODY_BYTES)?;
    Ok((HostOutgoingRequest::body(&mut guest.http(), request)?,))
}

fn response_body(
    mut store: Store<'_>,
    (response,): (Resource<OutgoingResponse>,),
) -> wasmtime::Result<(Result<Resource<OutgoingBody>, ()>,)> {
    let guest = store.data_mut();
    guest.foretell(BODY_BYTES)?;
    Ok((HostOutgoingResponse::body(&mut guest.http(), response)?,))
}

/// Trailers leave the table of handles with the body, and nobody tells when they are sent: so they are
/// charged until the guest ends.
fn finish_body(
    mut store: Store<'_>,
    (body, trailers): (Resource<OutgoingBody>, Option<Resource<Trailers>>),
) -> wasmtime::Result<(Result<(), ErrorCode>,)> {
    let guest = store.data_mut();
    if let Some(trailers) = &trailers {
        let bytes = fields_bytes(guest.table().get(trailers)?);
        guest.hold_to_the_end(bytes)?;
    }
    let mut http = guest.http();
    let finished = HostOutgoingBody::finish(&mut http, body, trailers);
    Ok((match finished {
        Ok(()) => Ok(()),
        Err(error) => Err(http.convert_error_code(error)?),
    },))
}

type MaybeResponse = Option<Result<Result<Resource<IncomingResponse>, ErrorCode>, ()>>;

/// Fields of a response are charged with its exchange until they are here, which may be over then.
fn response(
    mut store: Store<'_>,
    (response,): (Resource<FutureIncomingResponse>,),
) -> wasmtime::Result<(MaybeResponse,)> {
    let guest = store.data_mut();
    let answer = HostFutureIncomingResponse::get(&mut guest.http(), response)?;
    if let Some(Ok(Ok(response))) = &answer {
        let bytes = fields_bytes(&guest.table().get(response)?.headers);
        guest.foretell(bytes)?;
    }
    Ok((answer,))
}

type MaybeTrailers = Option<Result<Result<Option<Resource<Trailers>>, ErrorCode>, ()>>;

fn trailers(
    mut store: Store<'_>,
    (trailers,): (Resource<FutureTrailers>,),
) -> wasmtime::Result<(MaybeTrailers,)> {
    let guest = store.data_mut();
    let answer = HostFutureTrailers::get(&mut guest.http(), trailers)?;
    if let Some(Ok(Ok(Some(trailers)))) = &answer {
        let bytes = fields_bytes(guest.table().get(trailers)?);
        guest.foretell(bytes)?;
    }
    Ok((answer,))
}
