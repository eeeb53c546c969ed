//! jq filters, run by jaq. The hard part is its errors: they carry slices of the filter, from
//! which a message with the position is made here.

use jaq_core::load::{Arena, File, Loader, lex, parse};
use jaq_core::{Compiler, Ctx, Vars, data, load};
use jaq_json::{Val, read};
use toolhost_sdk::Error;

/// The results of a filter.
#[derive(serde::Serialize)]
pub struct Results {
    results: Vec<Box<serde_json::value::RawValue>>,
    truncated: bool,
}

/// Runs `filter` on each of `inputs`, which are JSON texts, until there are `limit` results.
pub(crate) fn run(filter: &str, inputs: &[String], limit: usize) -> Result<Results, Error> {
    let defs = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs());
    let functions =
        jaq_core::funs::<data::JustLut<Val>>().chain(jaq_std::funs()).chain(jaq_json::funs());
    let arena = Arena::default();
    let modules =
        Loader::new(defs).load(&arena, File { code: filter, path: () }).map_err(|errors| {
            not_jq(
                filter,
                &errors
                    .iter()
                    .flat_map(|(file, error)| load_errors(file.code, error))
                    .collect::<Vec<_>>(),
            )
        })?;
    let compiled = Compiler::default().with_funs(functions).compile(modules).map_err(|errors| {
        let places = errors.iter().flat_map(|(file, errors)| {
            errors.iter().map(|(name, kind)| {
                (offset(file.code, name), format!("there is no {} `{name}`", kind.as_str()))
            })
        });
        not_jq(filter, &places.collect::<Vec<_>>())
    })?;

    let mut results = Vec::new();
    for input in inputs {
        let value = read::parse_single(input.as_bytes())
            .map_err(|error| Error::failed(format!("the JSON cannot be read: {error}")))?;
        let context = Ctx::<data::JustLut<Val>>::new(&compiled.lut, Vars::new([]));
        for result in compiled.id.run((context, value)) {
            let value = match result.map_err(|exception| exception.get_err()) {
                Ok(value) => value,
                Err(Ok(error)) => return Err(Error::failed(format!("the filter failed: {error}"))),
                Err(Err(_)) => {
                    return Err(Error::failed("the filter failed: `halt` has no meaning here"));
                }
            };
            if results.len() == limit {
                return Ok(Results { results, truncated: true });
            }
            results.push(raw(&value)?);
        }
    }
    Ok(Results { results, truncated: false })
}

/// jaq knows values beyond JSON (NaN, byte strings, keys that are no strings).
fn raw(value: &Val) -> Result<Box<serde_json::value::RawValue>, Error> {
    let text = value.to_string();
    serde_json::from_str::<Box<serde_json::value::RawValue>>(&text)
        .map_err(|_| Error::failed(format!("the filter returned {text}, which is not JSON")))
}

type Place = (usize, String);

fn load_errors(code: &str, error: &load::Error<&str>) -> Vec<Place> {
    match error {
        load::Error::Io(errors) => errors
            .iter()
            .map(|(path, _)| {
                (
                    offset(code, path),
                    format!("module `{path}` does not exist: there are no modules"),
                )
            })
            .collect(),
        load::Error::Lex(errors) => errors.iter().map(|error| lex_error(code, error)).collect(),
        load::Error::Parse(errors) => errors.iter().map(|error| parse_error(code, error)).collect(),
    }
}

fn lex_error(code: &str, (expected, found): &lex::Error<&str>) -> Place {
    (offset(code, found), format!("expected {}", expected.as_str()))
}

fn parse_error(code: &str, (expected, found): &parse::Error<&str>) -> Place {
    let found_text = if found.is_empty() { "the end".to_owned() } else { format!("`{found}`") };
    (offset(code, found), format!("expected {}, found {found_text}", expected.as_str()))
}

/// Where `part`, a slice of `code`, begins, in bytes. An empty slice stands for the end.
fn offset(code: &str, part: &str) -> usize {
    let start = (part.as_ptr() as usize).wrapping_sub(code.as_ptr() as usize);
    start.min(code.len())
}

fn not_jq(filter: &str, places: &[Place]) -> Error {
    let (offset, problem) = places.first().cloned().unwrap_or((0, "cannot be read".to_owned()));
    let position = filter.get(..offset).map_or(0, |before| before.chars().count()) + 1;
    Error::bad_argument("/filter", format!("`filter` is not jq: {problem} at character {position}"))
}
