//! From a component's bytes to code: compiled once, kept in a folder of our own, mapped.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};
use thiserror::Error;
use tokio::sync::watch;
use wasmtime::component::Component;

use super::child;
use super::engine::Engine;
use super::load_error::LoadError;
use crate::text;

/// A component of more bytes takes seconds to compile.
pub(super) const LARGE_BYTES: usize = 4 << 20;

/// A kept component that is used is younger than this, by its time of change; so that a start
/// seldom writes.
const UNUSED_MIN: Duration = Duration::from_secs(24 * 60 * 60);
/// Nobody writes for so long: a file that is not whole by then was left by a process that is gone.
const UNFINISHED_MAX: Duration = Duration::from_secs(60 * 60);
const UNFINISHED: &str = ".tmp";
const EXTENSION: &str = "cwasm";

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
pub(super) struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// Opens the folder, and makes it if it does not exist.
    pub(super) fn open(folder: &Path) -> Result<Cache, CacheError> {
        let failed = |error| CacheError::Io { path: folder.to_owned(), error };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        let metadata = fs::metadata(folder).map_err(failed)?;
        let ours = metadata.uid() == rustix::process::geteuid().as_raw();
        if !ours || metadata.permissions().mode() & 0o077 != 0 {
            return Err(CacheError::NotPrivate { path: folder.to_owned() });
        }
        Ok(Cache { folder: folder.to_owned() })
    }

    fn path(&self, engine: &Engine, digest: &str) -> PathBuf {
        self.folder.join(format!("{digest}-{:016x}.{EXTENSION}", engine.code_hash))
    }

    #[expect(
        unsafe_code,
        reason = "mapping code that this user's own process compiled and put into a folder \
                  which only this user can enter; nothing else is safe to map"
    )]
    fn load(&self, engine: &Engine, digest: &str) -> wasmtime::Result<Component> {
        // SAFETY: the file was written by `store` below, whole or not at all, into a folder
        // that `open` found to be ours alone, under a name with the digest of its source and
        // the hash of this engine.
        unsafe { Component::deserialize_file(&engine.wasmtime, self.path(engine, digest)) }
    }

    fn store(&self, engine: &Engine, digest: &str, compiled: &[u8]) -> std::io::Result<()> {
        let mut file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(&self.folder)?;
        file.write_all(compiled)?;
        file.persist(self.path(engine, digest)).map_err(|error| error.error)?;
        Ok(())
    }

    /// Remembers that a kept component is of use.
    fn touch(path: &Path) -> std::io::Result<()> {
        let file = fs::File::open(path)?;
        let (now, modified) = (SystemTime::now(), file.metadata()?.modified()?);
        if now.duration_since(modified).unwrap_or_default() >= UNUSED_MIN {
            file.set_modified(now)?;
        }
        Ok(())
    }

    /// Removes what was not used for longest, until all together have at most `bytes_max`; never
    /// `new`, which was just stored. Code that is mapped stays so without its file.
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
        for (_, path, length) in kept.into_iter().filter(|(_, path, _)| path != new) {
            if bytes <= bytes_max {
                break;
            }
            remove(&path)?;
            bytes -= length;
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

/// What compiles components, and where they are kept.
#[derive(Debug, Default)]
pub(super) struct Compiler {
    /// The program that compiles in a process of its own. Without it, the host does.
    pub(super) program: Option<PathBuf>,
    pub(super) cache: Option<Cache>,
}

impl Compiler {
    /// Compiles a component, and keeps its code.
    ///
    /// # Cancel safety
    /// Dropping the future kills the compiling process; what compiles within the host is
    /// finished and lost.
    pub(super) async fn compile(
        &self,
        engine: &Arc<Engine>,
        bytes: Arc<[u8]>,
        digest: &Arc<str>,
    ) -> Result<Component, LoadError> {
        let code = match &self.program {
            Some(program) => child::compile(program, &bytes, &engine.limits, engine.speed).await?,
            None => {
                let engine = Arc::clone(engine);
                let compile = move || engine.wasmtime.precompile_component(&bytes);
                blocking(compile).await?.map_err(|error| LoadError::Compile(reason(&error)))?
            }
        };
        let (engine, cache, digest) = (Arc::clone(engine), self.cache.clone(), Arc::clone(digest));
        let load = move || {
            if let Some(cache) = cache {
                let folder = cache.folder.display();
                match cache.store(&engine, &digest, &code) {
                    Ok(()) => {
                        let loaded = cache.load(&engine, &digest);
                        let new = cache.path(&engine, &digest);
                        if let Err(error) = cache.prune(&new, engine.limits.cache_bytes_max.0) {
                            tracing::warn!(%error, %folder, "compiled components cannot be pruned");
                        }
                        if loaded.is_ok() {
                            return loaded;
                        }
                    }
                    Err(error) => {
                        tracing::warn!(%error, %folder, "a compiled component cannot be kept");
                    }
                }
            }
            // Also where another process has pruned it at this moment.
            from_code(&engine, &code)
        };
        // A refusal of the pool comes here, not when compiling.
        blocking(load).await?.map_err(|error| LoadError::Compile(reason(&error)))
    }

    /// Returns the code of a component that was compiled before.
    pub(super) async fn kept(
        &self,
        engine: &Arc<Engine>,
        digest: &Arc<str>,
    ) -> Result<Option<Component>, LoadError> {
        let Some(cache) = self.cache.clone() else { return Ok(None) };
        let (engine, digest) = (Arc::clone(engine), Arc::clone(digest));
        let load = move || {
            let path = cache.path(&engine, &digest);
            if !path.is_file() {
                return None;
            }
            let loaded = cache.load(&engine, &digest).inspect_err(|error| {
                tracing::warn!(%error, %digest, "a kept component does not load; compiling again");
            });
            if let Err(error) = Cache::touch(&path) {
                tracing::debug!(%error, %digest, "that a kept component is used cannot be kept");
            }
            loaded.ok()
        };
        blocking(load).await
    }
}

pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, LoadError> {
    let joined = tokio::task::spawn_blocking(work).await;
    joined.map_err(|error| LoadError::Internal(error.to_string()))
}

/// Keeps a plugin among those being compiled, as long as it lives.
pub(super) struct Named<'a> {
    names: &'a watch::Sender<BTreeSet<String>>,
    id: &'a str,
}

impl<'a> Named<'a> {
    pub(super) fn new(names: &'a watch::Sender<BTreeSet<String>>, id: &'a str) -> Named<'a> {
        names.send_modify(|names| {
            names.insert(id.to_owned());
        });
        Named { names, id }
    }
}

impl Drop for Named<'_> {
    fn drop(&mut self) {
        self.names.send_modify(|names| {
            names.remove(self.id);
        });
    }
}

#[expect(unsafe_code, reason = "loading code that our own compiler has just given")]
fn from_code(engine: &Engine, code: &[u8]) -> wasmtime::Result<Component> {
    // SAFETY: the bytes come from `precompile_component`, in this process or in the one that
    // this program started for it.
    unsafe { Component::deserialize(&engine.wasmtime, code) }
}

/// Returns the SHA-256 digest of a component's bytes, as hexadecimal text.
pub fn digest(bytes: &[u8]) -> Arc<str> {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
}

/// The whole chain of an error of wasmtime on one line, bounded.
pub(super) fn reason(error: &wasmtime::Error) -> String {
    text::cut(&text::one_line(&format!("{error:#}")), 400)
}

/// The hash of everything that has an effect on the code: wasmtime's version, its settings, the CPU.
pub(super) fn code_hash(engine: &wasmtime::Engine) -> u64 {
    let mut hasher = StableHasher(Sha256::new());
    engine.precompile_compatibility_hash().hash(&mut hasher);
    hasher.finish()
}

/// The same in every process, unlike the standard library's hasher of maps.
struct StableHasher(Sha256);

impl Hasher for StableHasher {
    fn finish(&self) -> u64 {
        let digest = self.0.clone().finalize();
        u64::from_be_bytes(digest[..8].try_into().expect("a SHA-256 digest has 32 bytes"))
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }
}
