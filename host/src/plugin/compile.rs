//! From a component's bytes to code: compiled once, kept in a folder of our own, mapped.

use std::fs;
use std::hash::{Hash, Hasher};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};
use thiserror::Error;
use wasmtime::component::Component;

use super::engine::Engine;
use super::loader::LoadError;
use crate::text;

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
    /// Of everything that has an effect on the code: wasmtime's version, its settings, the CPU.
    engine_hash: u64,
}

impl Cache {
    /// Opens the folder, and makes it if it does not exist.
    pub(super) fn open(folder: &Path, engine: &Engine) -> Result<Cache, CacheError> {
        let failed = |error| CacheError::Io { path: folder.to_owned(), error };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        let metadata = fs::metadata(folder).map_err(failed)?;
        let ours = metadata.uid() == rustix::process::geteuid().as_raw();
        if !ours || metadata.permissions().mode() & 0o077 != 0 {
            return Err(CacheError::NotPrivate { path: folder.to_owned() });
        }
        let mut hasher = StableHasher(Sha256::new());
        engine.wasmtime.precompile_compatibility_hash().hash(&mut hasher);
        Ok(Cache { folder: folder.to_owned(), engine_hash: hasher.finish() })
    }

    fn path(&self, digest: &str) -> PathBuf {
        self.folder.join(format!("{digest}-{:016x}.cwasm", self.engine_hash))
    }

    #[expect(
        unsafe_code,
        reason = "mapping code that this user's own process compiled and put into a folder \
                  which only this user can enter; nothing else is safe to map"
    )]
    fn load(&self, engine: &Engine, digest: &str) -> Option<Component> {
        let path = self.path(digest);
        if !path.is_file() {
            return None;
        }
        // SAFETY: the file was written by `store` below, whole or not at all, into a folder
        // that `open` found to be ours alone, under a name with the digest of its source and
        // the hash of this engine.
        match unsafe { Component::deserialize_file(&engine.wasmtime, &path) } {
            Ok(component) => Some(component),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "a cached component does not load; compiling again");
                None
            }
        }
    }

    fn store(&self, digest: &str, compiled: &[u8]) -> std::io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
        file.write_all(compiled)?;
        file.persist(self.path(digest)).map_err(|error| error.error)?;
        Ok(())
    }
}

/// Returns the code of a component, from the cache if it is there.
///
/// It takes seconds for a component of many megabytes, so it must not run on a thread that
/// has other things to do.
pub(super) fn component(
    engine: &Engine,
    cache: Option<&Cache>,
    bytes: &[u8],
    digest: &str,
) -> Result<Component, LoadError> {
    if let Some(component) = cache.and_then(|cache| cache.load(engine, digest)) {
        return Ok(component);
    }
    let refused = |error: wasmtime::Error| LoadError::Compile(reason(&error));
    let Some(cache) = cache else {
        return Component::new(&engine.wasmtime, bytes).map_err(refused);
    };
    let compiled = engine.wasmtime.precompile_component(bytes).map_err(refused)?;
    if let Err(error) = cache.store(digest, &compiled) {
        tracing::warn!(%error, folder = %cache.folder.display(), "a compiled component cannot be kept");
        return Component::new(&engine.wasmtime, bytes).map_err(refused);
    }
    // A refusal of the pool comes here, not when compiling.
    cache
        .load(engine, digest)
        .map_or_else(|| Component::new(&engine.wasmtime, bytes).map_err(refused), Ok)
}

/// Returns the SHA-256 digest of a component's bytes, as hexadecimal text.
pub fn digest(bytes: &[u8]) -> Arc<str> {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
}

/// The whole chain of an error of wasmtime on one line, bounded.
pub(super) fn reason(error: &wasmtime::Error) -> String {
    text::cut(&text::one_line(&format!("{error:#}")), 400)
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
