//! What plugins keep: a durable store of keys and values for each plugin of each folder.
//!
//! A store is one SQLite file (`store/file.rs`) below the host's state folder, made when it is
//! first used. Any number of processes share it: each operation is one transaction, totals are
//! kept within the same transaction, and what was written is on disk when the operation returns.
//!
//! Reads of small values run where they are called, since they take microseconds. Everything
//! else runs on a thread for blocking work, one operation of a store at a time, so that waiting
//! for the disk or for another process never holds up a call of another plugin.
//!
//! What it does not do: decide who may use a store (the rights of a tool do), or delete one.

mod builds;
mod file;

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use arc_swap::ArcSwapOption;
use thiserror::Error;

pub use builds::{Builds, Kept, Worth};
use file::{Connections, Expected, KeyChange, Lookup, StorePlace, StoreProblem};
use toolhost_core::limits::Limits;
use toolhost_core::runtime::HomeRuntime;

/// Bytes of a key.
pub const KEY_BYTES_MAX: usize = 512;
/// Keys returned at once.
pub const KEYS_MAX: usize = 1_000;

/// The stores of one host.
#[derive(Debug)]
pub struct Stores {
    folder: Option<PathBuf>,
    limits: Arc<Limits>,
    /// Those in use, so that a store has one set of connections in this process.
    in_use: Mutex<HashMap<(PathBuf, String), Weak<Kv>>>,
}

impl Stores {
    /// Keeps stores in the folder `kv` of the host's state folder; without one, every store is
    /// unavailable. Nothing is made or opened until a store is used.
    pub fn new(state: Option<PathBuf>, limits: Arc<Limits>) -> Stores {
        Stores { folder: state.map(|state| state.join("kv")), limits, in_use: Mutex::default() }
    }

    /// The store of the plugin `id` of `folder`, which is a path without links. It costs no more
    /// than a look into a table.
    pub fn of(&self, folder: &Path, id: &str) -> Arc<Kv> {
        let mut in_use = self.in_use.lock().unwrap_or_else(PoisonError::into_inner);
        let whose = (folder.to_owned(), id.to_owned());
        if let Some(kv) = in_use.get(&whose).and_then(Weak::upgrade) {
            return kv;
        }
        in_use.retain(|_, kv| kv.strong_count() > 0);
        let kv = Arc::new(Kv {
            id: id.to_owned(),
            place: self.folder.as_deref().map(|state| StorePlace::new(state, folder, id)),
            limits: Arc::clone(&self.limits),
            home: HomeRuntime::here(),
            connections: ArcSwapOption::empty(),
            opening: tokio::sync::Mutex::default(),
        });
        in_use.insert(whose, Arc::downgrade(&kv));
        kv
    }
}

/// Why an operation was not done. Nothing has changed then.
///
/// The texts are for the author of a plugin and for a model; no path of this machine is in them.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum StoreError {
    /// A key or a value is not allowed, whatever the store holds.
    #[error("{0}")]
    Invalid(String),
    /// There is no room.
    #[error("{0}")]
    Full(String),
    /// The store cannot be read or written at present.
    #[error("{0}")]
    Unavailable(String),
}

/// The store of one plugin.
///
/// Each operation names a *side*: each side has keys of its own, and the limits are on all sides
/// together. Where nothing is exclusive, the side is empty.
pub struct Kv {
    id: String,
    place: Option<StorePlace>,
    limits: Arc<Limits>,
    connections: ArcSwapOption<Connections>,
    home: HomeRuntime,
    /// Held while the connections are made.
    opening: tokio::sync::Mutex<()>,
}

impl Kv {
    /// Returns the value of `key`, or none if it has none.
    ///
    /// # Errors
    /// If the key is empty or too long, or the store cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn get(&self, side: &str, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        check_key(key)?;
        let connections = self.connections().await?;
        match connections.read(|connection| file::look_up(connection, side, key)) {
            Ok(Lookup::Small(value)) => return Ok(value),
            Ok(Lookup::Large) => {}
            Err(problem) if problem.is_busy() => {}
            Err(problem) => return Err(self.explain(problem)),
        }
        let (side, key) = (side.to_owned(), key.to_owned());
        self.on_thread(&connections, move |connection| file::get(connection, &side, &key)).await
    }

    /// Sets the value of `key`.
    ///
    /// # Errors
    /// If the key is empty or too long, the value is too large, there is no room, or the store
    /// cannot be written.
    ///
    /// # Cancel safety
    /// When the future is dropped, the value is set or not, and never half.
    pub async fn set(&self, side: &str, key: &str, value: Vec<u8>) -> Result<(), StoreError> {
        self.change(side, key, Expected::Anything, Some(value)).await.map(|_| ())
    }

    /// Removes `key`, and tells whether it was there.
    ///
    /// # Errors
    /// If the key is empty or too long, or the store cannot be written.
    ///
    /// # Cancel safety
    /// When the future is dropped, the key is removed or not.
    pub async fn delete(&self, side: &str, key: &str) -> Result<bool, StoreError> {
        self.change(side, key, Expected::Anything, None).await.map(|changed| changed.was_there)
    }

    /// Sets the value of `key`, or removes it if `value` is none, only if its present value is
    /// `expected` (none: it has no value), and tells whether it was.
    ///
    /// # Errors
    /// As for [`set`](Kv::set).
    ///
    /// # Cancel safety
    /// When the future is dropped, the value is set or not, and never half.
    pub async fn swap(
        &self,
        side: &str,
        key: &str,
        expected: Option<Vec<u8>>,
        value: Option<Vec<u8>>,
    ) -> Result<bool, StoreError> {
        let expected = Expected::Exactly(expected);
        self.change(side, key, expected, value).await.map(|changed| changed.was_expected)
    }

    /// Returns keys that begin with `prefix` and sort after `after`, in the order of their bytes,
    /// at most [`KEYS_MAX`].
    ///
    /// # Errors
    /// If `prefix` or `after` is longer than a key may be, or the store cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn keys(
        &self,
        side: &str,
        prefix: &str,
        after: Option<&str>,
    ) -> Result<Vec<String>, StoreError> {
        check_length("prefix", prefix)?;
        check_length("key", after.unwrap_or_default())?;
        let connections = self.connections().await?;
        match connections.read(|connection| file::keys(connection, side, prefix, after)) {
            Err(problem) if problem.is_busy() => {}
            done => return done.map_err(|problem| self.explain(problem)),
        }
        let (side, prefix) = (side.to_owned(), prefix.to_owned());
        let after = after.map(str::to_owned);
        self.on_thread(&connections, move |connection| {
            file::keys(connection, &side, &prefix, after.as_deref())
        })
        .await
    }

    /// The file of the store, whether it is there or not; none without a state folder.
    pub fn file(&self) -> Option<PathBuf> {
        self.place.as_ref().map(StorePlace::path)
    }

    async fn change(
        &self,
        side: &str,
        key: &str,
        expected: Expected,
        value: Option<Vec<u8>>,
    ) -> Result<file::Changed, StoreError> {
        check_key(key)?;
        if let Some(value) = &value {
            self.check_value(value)?;
        }
        let connections = self.connections().await?;
        let change = KeyChange { side: side.to_owned(), key: key.to_owned(), expected, value };
        let (id, limits) = (self.id.clone(), Arc::clone(&self.limits));
        self.on_thread(&connections, move |connection| {
            file::change(connection, &change, &limits, &id)
        })
        .await
    }

    fn check_value(&self, value: &[u8]) -> Result<(), StoreError> {
        let (given, allowed) = (value.len(), self.limits.kv_value_bytes_max);
        if given as u64 <= allowed.0 {
            return Ok(());
        }
        Err(StoreError::Invalid(format!(
            "value of {given} bytes exceeds `kv_value_bytes_max` of {}; store it in parts",
            allowed.0
        )))
    }

    /// The connections to the file, made at first use, and anew when the file was moved away.
    async fn connections(&self) -> Result<Arc<Connections>, StoreError> {
        let Some(place) = &self.place else {
            return Err(StoreError::Unavailable(
                "this host keeps no stores: it was started without a state folder".to_owned(),
            ));
        };
        let present = || self.connections.load_full().filter(|open| open.is_of(place));
        if let Some(connections) = present() {
            return Ok(connections);
        }
        let _turn = self.opening.lock().await;
        if let Some(connections) = present() {
            return Ok(connections);
        }
        let (place, limits) = (place.clone(), Arc::clone(&self.limits));
        let opened = self.blocking(move || file::open(&place, &limits)).await?;
        let connections = Arc::new(opened.map_err(|problem| self.explain(problem))?);
        self.connections.store(Some(Arc::clone(&connections)));
        Ok(connections)
    }

    /// Does something on a thread for blocking work, when it is its turn.
    async fn on_thread<T: Send + 'static>(
        &self,
        connections: &Connections,
        work: impl FnOnce(&mut rusqlite::Connection) -> Result<T, StoreProblem> + Send + 'static,
    ) -> Result<T, StoreError> {
        // The turn goes with the work, also when the caller goes away.
        let mut writer = Arc::clone(&connections.writer).lock_owned().await;
        let done = self.blocking(move || work(&mut writer)).await?;
        done.map_err(|problem| self.explain(problem))
    }

    /// On a thread of the host, not of a guest that runs long: others wait for its end.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, StoreError> {
        let done = self.home.run(async { tokio::task::spawn_blocking(work).await }).await;
        done.and_then(|done| done).map_err(|_| self.stopping())
    }

    fn stopping(&self) -> StoreError {
        StoreError::Unavailable(format!("the store of plugin:{} is closing", self.id))
    }

    /// Says what is in the way: to whoever called without paths, to the log with all there is.
    fn explain(&self, problem: StoreProblem) -> StoreError {
        let id = &self.id;
        let (name, path) = match &self.place {
            Some(place) => (place.name(), place.path().display().to_string()),
            None => Default::default(),
        };
        let text = match problem {
            StoreProblem::Refused(error) => return error,
            StoreProblem::Full => {
                return StoreError::Full(format!(
                    "no room: the file of the store of plugin:{id} cannot grow, since the disk is full or the file is far over `kv_bytes_max`"
                ));
            }
            StoreProblem::Busy => format!(
                "the store of plugin:{id} is held by another process for longer than {}; try again",
                humantime::format_duration(file::BUSY_WAIT)
            ),
            StoreProblem::Damaged(reason) => {
                // The next use looks again, since somebody may have moved it away by then.
                self.connections.store(None);
                format!(
                    "the store of plugin:{id} is damaged ({reason}): restore kv/{name} in toolhost's state folder from a copy, or move it away with its -wal and -shm to begin with an empty one; nothing was deleted"
                )
            }
            StoreProblem::Newer { found, known } => format!(
                "the store of plugin:{id} was written by a newer toolhost (schema {found}, and this one knows {known}): update toolhost, or move kv/{name} in toolhost's state folder away"
            ),
            StoreProblem::LogAlone => format!(
                "kv/{name} is gone from toolhost's state folder, and kv/{name}-wal is left, which has the newest entries of the store of plugin:{id}: put the file back, or move the rest away as well"
            ),
            StoreProblem::Other(reason) => {
                format!("the store of plugin:{id} cannot be used at present: {reason}")
            }
        };
        tracing::warn!("{path}: {text}");
        StoreError::Unavailable(text)
    }
}

impl fmt::Debug for Kv {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Kv").field("id", &self.id).finish_non_exhaustive()
    }
}

fn check_key(key: &str) -> Result<(), StoreError> {
    if key.is_empty() {
        return Err(StoreError::Invalid(format!(
            "a key is empty; allowed are 1 to {KEY_BYTES_MAX} bytes"
        )));
    }
    check_length("key", key)
}

fn check_length(what: &str, text: &str) -> Result<(), StoreError> {
    let given = text.len();
    if given <= KEY_BYTES_MAX {
        return Ok(());
    }
    Err(StoreError::Invalid(format!(
        "{what} of {given} bytes exceeds the {KEY_BYTES_MAX} of a key"
    )))
}
