//! Compiled components on disk: in a folder of our own, whole or not at all, and mapped.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, TryLockError};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime};

use tempfile::NamedTempFile;
use thiserror::Error;
use wasmtime::component::Component;

use crate::account::Standing;
use crate::engine::Engine;
use crate::load_error::{LoadError, internal, uncompiled};
use toolhost_core::limits::Limits;

/// A kept component that is used is younger than this, by its time of change; so that a start
/// seldom writes.
const UNUSED_MIN: Duration = Duration::from_secs(24 * 60 * 60);
/// Nobody writes for so long: a file that is not whole by then was left by a process that is gone.
const UNFINISHED_MAX: Duration = Duration::from_secs(60 * 60);
const UNFINISHED: &str = ".tmp";
/// How often it is looked whether another process has compiled what is needed here.
const OTHERS_CHECKED: Duration = Duration::from_millis(20);
const EXTENSION: &str = "cwasm";
/// The folder, in the other, of what strangers' projects have compiled.
const UNTRUSTED: &str = "untrusted";

/// Why a folder cannot hold compiled components.
#[derive(Debug, Error)]
pub enum CacheError {
    /// It cannot be made or looked at.
    #[error("the cache folder {path} cannot be used: {error}", path = path.display())]
    Io {
        /// The folder.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// Others could put code there.
    #[error(
        "the cache folder {path} is not ours alone: whoever can write there could have their code \
         run; `chmod 700` it, or choose another with TOOLHOST_CACHE",
        path = path.display()
    )]
    NotPrivate {
        /// The folder.
        path: PathBuf,
    },
}

/// A folder of compiled components that only this user can enter.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    folder: PathBuf,
    /// Of the files, what is in use here.
    in_use: Arc<Mutex<HashMap<PathBuf, Weak<()>>>>,
}

/// Keeps code from being evicted from its cache, as long as it lives.
pub(crate) type InUse = Arc<()>;

/// The folders of compiled components: those of projects that nobody has trusted lie in one of their
/// own, so that they evict no others.
#[derive(Clone, Debug)]
pub(crate) struct Caches {
    own: Cache,
    untrusted: Cache,
}

/// A component as code.
pub(crate) struct CompiledCode {
    pub(crate) component: Component,
    /// Bytes of the code.
    pub(crate) bytes: u64,
    /// It lies in a cache.
    pub(crate) in_use: Option<InUse>,
}

impl Caches {
    /// Opens the folders, and makes them if they do not exist.
    pub(crate) fn open(folder: &Path) -> Result<Caches, CacheError> {
        let own = Cache::open(folder)?;
        Ok(Caches { own, untrusted: Cache::open(&folder.join(UNTRUSTED))? })
    }

    /// Where code is kept, and how much of it.
    pub(crate) fn of(&self, standing: Standing, limits: &Limits) -> (&Cache, u64) {
        match standing {
            Standing::User | Standing::Project => (&self.own, limits.cache_bytes_max.0),
            Standing::Untrusted => (&self.untrusted, limits.untrusted_cache_bytes_max.0),
        }
    }

    /// Tells whether one of them has this code.
    pub(crate) fn have(&self, engine: &Engine, digest: &str) -> bool {
        [&self.own, &self.untrusted].iter().any(|cache| cache.path(engine, digest).is_file())
    }

    /// The cache with this code, if one has it. What is no stranger's any more moves to the others.
    pub(crate) fn find(&self, engine: &Engine, digest: &str, standing: Standing) -> Option<&Cache> {
        if self.own.path(engine, digest).is_file() {
            return Some(&self.own);
        }
        let path = self.untrusted.path(engine, digest);
        if !path.is_file() {
            return None;
        }
        let moves = standing != Standing::Untrusted
            && fs::rename(&path, self.own.path(engine, digest)).is_ok();
        Some(if moves { &self.own } else { &self.untrusted })
    }
}

impl Cache {
    /// Opens the folder, and makes it if it does not exist.
    fn open(folder: &Path) -> Result<Cache, CacheError> {
        let failed = |error| CacheError::Io { path: folder.to_owned(), error };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        let metadata = fs::metadata(folder).map_err(failed)?;
        let ours = metadata.uid() == rustix::process::geteuid().as_raw();
        if !ours || metadata.permissions().mode() & 0o077 != 0 {
            return Err(CacheError::NotPrivate { path: folder.to_owned() });
        }
        Ok(Cache { folder: folder.to_owned(), in_use: Arc::default() })
    }

    pub(crate) fn path(&self, engine: &Engine, digest: &str) -> PathBuf {
        self.folder.join(format!("{digest}-{:016x}.{EXTENSION}", engine.code_hash))
    }

    /// Says that code is in use, for as long as the returned value lives.
    pub(crate) fn uses(&self, path: PathBuf) -> InUse {
        let mut in_use = self.in_use();
        in_use.retain(|_, used| used.strong_count() > 0);
        if let Some(used) = in_use.get(&path).and_then(Weak::upgrade) {
            return used;
        }
        let used = InUse::default();
        in_use.insert(path, Arc::downgrade(&used));
        used
    }

    fn in_use(&self) -> MutexGuard<'_, HashMap<PathBuf, Weak<()>>> {
        self.in_use.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[expect(
        unsafe_code,
        reason = "mapping code that this user's own process compiled and put into a folder \
                  which only this user can enter; nothing else is safe to map"
    )]
    pub(crate) fn load(engine: &Engine, path: &Path) -> wasmtime::Result<Component> {
        // SAFETY: our own compiler wrote the file, in a folder that `open` found to be ours alone.
        // It is whole: it has its name from `keep`, which gives it when the compiler has ended well,
        // with the digest of its source and the hash of this engine; or `keep` has just come to it.
        unsafe { Component::deserialize_file(&engine.wasmtime, path) }
    }

    /// Keeps code that has come, as far as there is room, and maps it.
    pub(crate) fn keep(
        &self,
        engine: &Engine,
        digest: &str,
        file: &mut NamedTempFile,
        bytes_max: u64,
    ) -> Result<CompiledCode, LoadError> {
        let bytes = file.as_file().metadata().map_err(internal)?.len();
        let path = self.path(engine, digest);
        // A file that cannot get its name is mapped all the same.
        let (from, in_use) = match fs::rename(file.path(), &path) {
            Ok(()) => (path.clone(), Some(self.uses(path.clone()))),
            Err(error) => {
                tracing::warn!(%error, "a compiled component cannot be kept");
                (file.path().to_owned(), None)
            }
        };
        let component = Cache::load(engine, &from);
        let tidied = match &component {
            Ok(_) if in_use.is_some() => self.prune(&path, bytes_max),
            Ok(_) => Ok(()),
            Err(_) => remove(&from),
        };
        if let Err(error) = tidied {
            let folder = self.folder.display();
            tracing::warn!(%error, %folder, "compiled components cannot be pruned");
        }
        Ok(CompiledCode { component: component.map_err(uncompiled)?, bytes, in_use })
    }

    /// Waits while another process compiles the same, but no longer than that may take.
    pub(super) async fn lock(
        &self,
        engine: &Engine,
        digest: &str,
        time_max: Duration,
    ) -> Option<CompileLock> {
        let path = self.folder.join(format!("{UNFINISHED}-{digest}-{:016x}", engine.code_hash));
        let file = fs::File::create(&path).ok()?;
        let until = Instant::now() + time_max;
        loop {
            match file.try_lock() {
                Ok(()) => return Some(CompileLock { path, _locked: file }),
                Err(TryLockError::WouldBlock) if Instant::now() < until => {
                    tokio::time::sleep(OTHERS_CHECKED).await;
                }
                // Where a file system has no locks, both compile.
                Err(_) => return None,
            }
        }
    }

    /// A file for code that is about to come. It is gone when it is dropped, unless it is kept.
    pub(crate) fn begin(&self) -> std::io::Result<NamedTempFile> {
        tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(&self.folder)
    }

    /// Remembers that a kept component is of use.
    pub(crate) fn touch(path: &Path) -> std::io::Result<()> {
        let file = fs::File::open(path)?;
        let (now, modified) = (SystemTime::now(), file.metadata()?.modified()?);
        if now.duration_since(modified).unwrap_or_default() >= UNUSED_MIN {
            file.set_modified(now)?;
        }
        Ok(())
    }

    /// Removes what was not used for longest, until all together have at most `bytes_max`. What is
    /// in use here stays: where there is too much of that, `new` goes, which was just stored, since
    /// whatever made way for it would be missing at the next start. Alone it stays, so that the next
    /// start finds it. Code that is mapped stays so without its file.
    fn prune(&self, new: &Path, bytes_max: u64) -> std::io::Result<()> {
        let (now, mut kept) = (SystemTime::now(), Vec::new());
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            // Another process may have removed it by now.
            let Ok(metadata) = entry.metadata() else { continue };
            let (path, modified) = (entry.path(), metadata.modified()?);
            let age = now.duration_since(modified).unwrap_or_default();
            if path.extension().is_some_and(|extension| extension == EXTENSION) {
                kept.push((modified, path, metadata.len()));
            } else if is_unfinished(&entry.file_name()) && age >= UNFINISHED_MAX {
                remove(&path)?;
            }
        }
        kept.sort();
        let mut bytes: u64 = kept.iter().map(|(.., length)| length).sum();
        let used: HashSet<PathBuf> = {
            let in_use = self.in_use();
            let live = in_use.iter().filter(|(_, used)| used.strong_count() > 0);
            live.map(|(path, _)| path.clone()).collect()
        };
        let (mut rest, mut in_use) = (Vec::new(), false);
        for (_, path, length) in kept.into_iter().filter(|(_, path, _)| path != new) {
            if used.contains(&path) {
                in_use = true;
            } else {
                rest.push((path, length));
            }
        }
        for (path, length) in rest {
            if bytes <= bytes_max {
                break;
            }
            remove(&path)?;
            bytes -= length;
        }
        if bytes > bytes_max && in_use {
            remove(new)?;
        }
        Ok(())
    }
}

/// Tells whether a file is being written, by the name that it has until then.
fn is_unfinished(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(UNFINISHED.as_bytes())
}

/// Removes a file that another process may have removed by now.
fn remove(path: &Path) -> std::io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The lock for compiling a component: while one process has it, others wait for its code.
pub(crate) struct CompileLock {
    path: PathBuf,
    _locked: fs::File,
}

impl Drop for CompileLock {
    fn drop(&mut self) {
        // Those who wait have it open; who comes later finds the code.
        if let Err(error) = remove(&self.path) {
            tracing::debug!(%error, "the lock of a compiled component is left behind");
        }
    }
}
