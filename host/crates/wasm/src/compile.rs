//! From a component's bytes to code, which is compiled once and kept.

pub(crate) mod cache;
pub(crate) mod worker;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;
use wasmtime::component::Component;

use super::account::{Account, Standing};
use super::engine::Engine;
use super::load_error::{LoadError, internal, shown, uncompiled};
use cache::{Cache, Caches, CompiledCode, InUse};

/// A component of more bytes takes seconds to compile.
pub(super) const LARGE_BYTES: usize = 4 << 20;

/// What compiles components, and where they are kept.
#[derive(Debug, Default)]
pub(super) struct Compiler {
    /// The program that compiles in a process of its own. Without it, the host does.
    pub(super) program: Option<PathBuf>,
    pub(super) caches: Option<Caches>,
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
        component: Arc<[u8]>,
        digest: &Arc<str>,
        account: &Account<'_>,
    ) -> Result<CompiledCode, LoadError> {
        let cache = self.caches.as_ref().map(|caches| {
            let (cache, bytes_max) = caches.of(account.standing(), &engine.limits);
            (cache.clone(), bytes_max)
        });
        let warn = |error: std::io::Error| {
            tracing::warn!(%error, "a compiled component cannot be kept");
        };
        if let Some((cache, bytes_max)) = cache
            && let Ok(mut file) = cache.begin().map_err(warn)
        {
            let time_max = engine.limits.compile_time_max;
            let _lock = cache.lock(engine, digest, time_max).await;
            // Whoever had the lock before may have compiled it.
            if let Some(code) = self.kept(engine, digest, account.standing()).await? {
                return Ok(code);
            }
            match self.compile_to(&file, engine, Arc::clone(&component), account).await {
                Ok(()) => {
                    let (engine, digest) = (Arc::clone(engine), Arc::clone(digest));
                    let keep = move || cache.keep(&engine, &digest, &mut file, bytes_max);
                    return blocking(keep).await?;
                }
                // The disk may be full.
                Err(LoadError::Internal(error)) => {
                    tracing::warn!("a compiled component cannot be kept: {error}");
                }
                Err(error) => return Err(error),
            }
        }
        let mut code = Vec::new();
        self.compile_into(engine, component, account, &mut code).await?;
        let (engine, bytes) = (Arc::clone(engine), code.len() as u64);
        let component = blocking(move || from_code(&engine, &code)).await?.map_err(uncompiled)?;
        Ok(CompiledCode { component, bytes, in_use: None })
    }

    async fn compile_to(
        &self,
        file: &NamedTempFile,
        engine: &Arc<Engine>,
        component: Arc<[u8]>,
        account: &Account<'_>,
    ) -> Result<(), LoadError> {
        let mut file = tokio::fs::File::from_std(file.reopen().map_err(internal)?);
        self.compile_into(engine, component, account, &mut file).await?;
        file.flush().await.map_err(internal)
    }

    async fn compile_into(
        &self,
        engine: &Arc<Engine>,
        component: Arc<[u8]>,
        account: &Account<'_>,
        output: &mut (impl AsyncWrite + Unpin),
    ) -> Result<(), LoadError> {
        let (limits, speed) = (&engine.limits, engine.speed);
        if let Some(program) = &self.program {
            return worker::compile(program, component, (limits, speed), account, output).await;
        }
        let stack_bytes_max = limits.stack_bytes_max;
        let compile = move || worker::precompile(&component, stack_bytes_max, speed);
        let code = blocking(compile).await?;
        let code = code.map_err(|reason| LoadError::Compile(shown(&reason)))?;
        if code.len() as u64 > limits.code_bytes_max.0 {
            return Err(LoadError::Compile(worker::too_much_code(limits)));
        }
        output.write_all(&code).await.map_err(internal)
    }

    /// Keeps the code of a component from being evicted, if it is kept, as long as the returned value
    /// lives.
    pub(super) fn uses(&self, engine: &Engine, digest: &str, standing: Standing) -> Option<InUse> {
        let cache = self.caches.as_ref()?.find(engine, digest, standing)?;
        Some(cache.uses(cache.path(engine, digest)))
    }

    /// Tells whether the code of a component is kept.
    pub(super) fn has(&self, engine: &Engine, digest: &str) -> bool {
        self.caches.as_ref().is_some_and(|caches| caches.have(engine, digest))
    }

    /// Returns the code of a component that was compiled before.
    pub(super) async fn kept(
        &self,
        engine: &Arc<Engine>,
        digest: &Arc<str>,
        standing: Standing,
    ) -> Result<Option<CompiledCode>, LoadError> {
        let Some(caches) = self.caches.clone() else { return Ok(None) };
        let (engine, digest) = (Arc::clone(engine), Arc::clone(digest));
        let load = move || {
            let cache = caches.find(&engine, &digest, standing)?;
            let path = cache.path(&engine, &digest);
            let bytes = fs::metadata(&path).ok()?.len();
            let loaded = Cache::load(&engine, &path).inspect_err(|error| {
                tracing::warn!(%error, %digest, "a kept component does not load; compiling again");
            });
            if let Err(error) = Cache::touch(&path) {
                tracing::debug!(%error, %digest, "that a kept component is used cannot be kept");
            }
            let in_use = Some(cache.uses(path));
            Some(CompiledCode { component: loaded.ok()?, bytes, in_use })
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
