//! A small store of the plugin's own, which outlives its calls.
//!
//! A plugin asks for it with [`Need::kv`](crate::Need::kv). Every function is atomic, also
//! between processes, and what it has written is on disk when it returns.
//!
//! ```
//! use toolhost_sdk::{Error, Json, Need, arguments, kv, plugin, tool};
//!
//! #[arguments]
//! struct Nothing {}
//!
//! /// Counts its calls.
//! #[tool(toolset = "text")]
//! fn count(_: Nothing) -> Result<Json<u64>, Error> {
//!     loop {
//!         let before = kv::get("calls")?;
//!         let count = before.as_deref().map(serde_json::from_slice).transpose()?.unwrap_or(0) + 1;
//!         // Another call may have been faster; then it is to be counted as well.
//!         if kv::swap("calls", before.as_deref(), Some(count.to_string().as_bytes()))? {
//!             return Ok(Json(count));
//!         }
//!     }
//! }
//!
//! plugin!(tools: [count], needs: [Need::kv().reason("to count across calls")]);
//! # fn main() {
//! # let count = || toolhost_sdk::testing::call::<count>("{}").unwrap().text();
//! # assert_eq!((count(), count()), ("1".to_owned(), "2".to_owned()));
//! # }
//! ```
//!
//! Outside of a host, in the author's unit tests, the store is in memory and each thread has its
//! own; see [`testing::clear_kv`](crate::testing::clear_kv).

use std::collections::BTreeMap;
use std::{cell::RefCell, fmt, vec};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bindings::toolhost::plugin::kv as host;

/// Bytes of a key, for the store in memory.
const KEY_BYTES_MAX: usize = 512;
/// Bytes of a value, by default.
const VALUE_BYTES_MAX: usize = 1 << 20;
/// Keys returned at once.
const PAGE: usize = 1_000;

/// Why an operation was not done. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The store was not granted; the text says how that is done.
    NotGranted(String),
    /// A key or a value is too large, or a key is empty.
    Invalid(String),
    /// There is no room; the text says which limit it is.
    Full(String),
    /// The store cannot be read or written at present.
    Unavailable(String),
    /// A value is not of the kind that was asked for.
    Malformed(String),
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Error::NotGranted(text)
        | Error::Invalid(text)
        | Error::Full(text)
        | Error::Unavailable(text)
        | Error::Malformed(text)) = self;
        formatter.write_str(text)
    }
}

impl std::error::Error for Error {}

impl From<host::Error> for Error {
    fn from(error: host::Error) -> Error {
        match error {
            host::Error::NotGranted(text) => Error::NotGranted(text),
            host::Error::Invalid(text) => Error::Invalid(text),
            host::Error::Full(text) => Error::Full(text),
            host::Error::Unavailable(text) => Error::Unavailable(text),
        }
    }
}

/// Returns the value of `key`, or none if it has none. A key is 1 to 512 bytes.
///
/// # Errors
/// If the store was not granted, the key is empty or too long, or the store cannot be read.
pub fn get(key: &str) -> Result<Option<Vec<u8>>, Error> {
    if cfg!(target_family = "wasm") {
        return Ok(host::get(key)?);
    }
    check_key(key)?;
    Ok(MEMORY.with_borrow(|memory| memory.get(key).cloned()))
}

/// Returns the value of `key` as text.
///
/// # Errors
/// As for [`get`], and if the value is not UTF-8.
pub fn get_text(key: &str) -> Result<Option<String>, Error> {
    let malformed = |_| Error::Malformed(format!("the value of `{key}` is no text"));
    get(key)?.map(|value| String::from_utf8(value).map_err(malformed)).transpose()
}

/// Returns the value of `key`, read as JSON.
///
/// # Errors
/// As for [`get`], and if the value is no JSON of a `T`.
pub fn get_json<T: DeserializeOwned>(key: &str) -> Result<Option<T>, Error> {
    let malformed =
        |error| Error::Malformed(format!("the value of `{key}` is no such JSON: {error}"));
    get(key)?.map(|value| serde_json::from_slice(&value).map_err(malformed)).transpose()
}

/// Sets the value of `key`.
///
/// # Errors
/// If the store was not granted, the key is empty or too long, the value is too large (1 MiB by
/// default), there is no room, or the store cannot be written.
pub fn set(key: &str, value: &[u8]) -> Result<(), Error> {
    if cfg!(target_family = "wasm") {
        return Ok(host::set(key, value)?);
    }
    check_key(key)?;
    check_value(value)?;
    MEMORY.with_borrow_mut(|memory| memory.insert(key.to_owned(), value.to_owned()));
    Ok(())
}

/// Sets the value of `key` to a text.
///
/// # Errors
/// As for [`set`].
pub fn set_text(key: &str, value: &str) -> Result<(), Error> {
    set(key, value.as_bytes())
}

/// Sets the value of `key` to JSON.
///
/// # Errors
/// As for [`set`], and if the value cannot be written as JSON.
pub fn set_json(key: &str, value: &impl Serialize) -> Result<(), Error> {
    let malformed =
        |error| Error::Malformed(format!("the value for `{key}` cannot be written: {error}"));
    set(key, &serde_json::to_vec(value).map_err(malformed)?)
}

/// Removes `key`, and says whether it was there.
///
/// # Errors
/// If the store was not granted, the key is empty or too long, or the store cannot be written.
pub fn delete(key: &str) -> Result<bool, Error> {
    if cfg!(target_family = "wasm") {
        return Ok(host::delete(key)?);
    }
    check_key(key)?;
    Ok(MEMORY.with_borrow_mut(|memory| memory.remove(key).is_some()))
}

/// Sets the value of `key`, or removes it if `value` is none, only if its present value is
/// `expected` (none: it has no value), and says whether it was.
///
/// # Errors
/// As for [`set`].
pub fn swap(key: &str, expected: Option<&[u8]>, value: Option<&[u8]>) -> Result<bool, Error> {
    if cfg!(target_family = "wasm") {
        return Ok(host::swap(key, expected, value)?);
    }
    check_key(key)?;
    value.map_or(Ok(()), check_value)?;
    MEMORY.with_borrow_mut(|memory| {
        if memory.get(key).map(Vec::as_slice) != expected {
            return Ok(false);
        }
        match value {
            Some(value) => memory.insert(key.to_owned(), value.to_owned()),
            None => memory.remove(key),
        };
        Ok(true)
    })
}

/// Returns every key that begins with `prefix`, in the order of their bytes.
///
/// Keys are fetched a thousand at a time. One that is set or deleted meanwhile is among them or
/// not; all others are.
pub fn keys(prefix: &str) -> Keys {
    Keys { prefix: prefix.to_owned(), page: Vec::new().into_iter(), last: None, is_done: false }
}

/// The keys that [`keys`] returns; after an error there are no more.
#[derive(Debug)]
pub struct Keys {
    prefix: String,
    page: vec::IntoIter<String>,
    last: Option<String>,
    is_done: bool,
}

impl Iterator for Keys {
    type Item = Result<String, Error>;

    fn next(&mut self) -> Option<Result<String, Error>> {
        if let Some(key) = self.page.next() {
            return Some(Ok(key));
        }
        if self.is_done {
            return None;
        }
        match page(&self.prefix, self.last.as_deref()) {
            Ok(keys) => {
                self.is_done = keys.len() < PAGE;
                self.last = keys.last().cloned();
                self.page = keys.into_iter();
                self.page.next().map(Ok)
            }
            Err(error) => {
                self.is_done = true;
                Some(Err(error))
            }
        }
    }
}

fn page(prefix: &str, after: Option<&str>) -> Result<Vec<String>, Error> {
    if cfg!(target_family = "wasm") {
        return Ok(host::keys(prefix, after)?);
    }
    let fits =
        |key: &&String| key.starts_with(prefix) && after.is_none_or(|after| key.as_str() > after);
    Ok(MEMORY.with_borrow(|memory| memory.keys().filter(fits).take(PAGE).cloned().collect()))
}

thread_local! {
    /// The store outside of a host.
    static MEMORY: RefCell<BTreeMap<String, Vec<u8>>> = const { RefCell::new(BTreeMap::new()) };
}

pub(crate) fn clear() {
    MEMORY.with_borrow_mut(BTreeMap::clear);
}

fn check_key(key: &str) -> Result<(), Error> {
    if (1..=KEY_BYTES_MAX).contains(&key.len()) {
        return Ok(());
    }
    Err(Error::Invalid(format!("key of {} bytes; allowed are 1 to {KEY_BYTES_MAX}", key.len())))
}

fn check_value(value: &[u8]) -> Result<(), Error> {
    if value.len() <= VALUE_BYTES_MAX {
        return Ok(());
    }
    Err(Error::Invalid(format!("value of {} bytes exceeds {VALUE_BYTES_MAX}", value.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_in_memory_is_like_the_hosts() {
        assert_eq!(get("a"), Ok(None));
        assert_eq!(set_json("a", &[1, 2]), Ok(()));
        assert_eq!((get_text("a"), get_json("a")), (Ok(Some("[1,2]".into())), Ok(Some([1, 2]))));
        assert!(matches!(get_json::<bool>("a"), Err(Error::Malformed(_))));
        assert_eq!(swap("a", None, Some(b"x")), Ok(false));
        assert_eq!(swap("a", Some(b"[1,2]"), None), Ok(true));
        assert_eq!(
            (delete("a"), set("", b"")),
            (Ok(false), Err(Error::Invalid("key of 0 bytes; allowed are 1 to 512".into())))
        );
        for number in 0..2_500 {
            set_text(&format!("n{number:04}"), "").expect("set");
        }
        set_text("other", "").expect("set");
        let all: Result<Vec<String>, Error> = keys("n").collect();
        let all = all.expect("keys");
        assert_eq!((all.len(), all[0].as_str(), all[2_499].as_str()), (2_500, "n0000", "n2499"));
        crate::testing::clear_kv();
        assert_eq!(keys("").count(), 0);
    }
}
