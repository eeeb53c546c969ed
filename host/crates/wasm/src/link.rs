//! From a component's bytes to what can be instantiated: compiled once, linked, and shared by all
//! copies of it.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use semver::Version;
use tokio::sync::{SemaphorePermit, watch};

use super::account::Account;
use super::adapter::contract;
use super::adapter::contract::bindings::PluginPre;
use super::adapter::contract::convert::Exported;
use super::candidate::Candidate;
use super::compile::cache::{Code, InUse};
use super::compile::{self, Compiler, Named};
use super::dev_builds::OwnBuilds;
use super::engine::Engine;
use super::instance::Guest;
use super::load_error::{self, LoadError};
use super::load_queue::{LoadQueue, Use};
use super::plugin::questions::Optional;
use super::read;
use super::surface::{self, Surface};

/// A component that is compiled and linked.
pub(super) struct Linked {
    pub(super) engine: Arc<Engine>,
    pub(super) digest: Arc<str>,
    pub(super) contract: Version,
    pub(super) surface: Surface,
    pub(super) exported: Exported,
    pub(super) pre: PluginPre<Guest>,
    pub(super) optional: Optional,
    _in_use: Option<InUse>,
}

/// Compiles and links, and knows what is in use.
pub(super) struct Links {
    pub(super) engine: Arc<Engine>,
    pub(super) compiler: Compiler,
    pub(super) own_builds: OwnBuilds,
    /// What is being compiled at this moment, or waits for that: plugins by id, and runners.
    pub(super) now_compiling: watch::Sender<BTreeSet<String>>,
    /// Components that are in use, by digest.
    in_use: Mutex<HashMap<Arc<str>, Weak<Linked>>>,
}

impl Links {
    pub(super) fn new(engine: Arc<Engine>) -> Links {
        Links {
            engine,
            compiler: Compiler::default(),
            own_builds: OwnBuilds::default(),
            now_compiling: watch::Sender::default(),
            in_use: Mutex::default(),
        }
    }

    /// Compiles a component, or gets its code from the cache, and links it. What was compiled
    /// before waits for nothing that is compiled now; and what waits to be compiled is not held
    /// meanwhile, but read again.
    pub(super) async fn link(
        &self,
        turns: &LoadQueue,
        (used_as, name): (Use, &str),
        (file, bytes): (&Candidate, Vec<u8>),
        reading: SemaphorePermit<'_>,
        account: &Account<'_>,
    ) -> Result<Arc<Linked>, LoadError> {
        let digest = compile::digest(&bytes);
        let surface = surface::read(&bytes)?;
        // Before anything is compiled.
        contract::version(&surface)?;
        if let Some(linked) = self.linked(&digest, &surface, account).await? {
            return Ok(linked);
        }
        let length = bytes.len() as u64;
        drop((bytes, reading));
        let _named = Named::new(&self.now_compiling, name);
        let _permit = turns.compile(used_as, account.standing(), length).await?;
        // What makes way for it in the cache must not be what others are about to use.
        turns.others_have_read(account.standing()).await?;
        // A copy of it may have been compiled meanwhile.
        if let Some(linked) = self.linked(&digest, &surface, account).await? {
            return Ok(linked);
        }
        let bytes: Arc<[u8]> = read::component(&file.place, &file.path, length).await?.into();
        if compile::digest(&bytes) != digest {
            return Err(LoadError::Changing);
        }
        if let Some(quick) = self.own_builds.engine(&digest, &self.engine) {
            let compiling = self.compiler.compile(&quick, Arc::clone(&bytes), &digest, account);
            match compiling.await {
                Ok(code) => return self.linked_of(quick, code, digest, surface, account),
                Err(error) => tracing::debug!(%error, "what compiles quickly does not know all"),
            }
        }
        let code = self.compiler.compile(&self.engine, bytes, &digest, account).await?;
        self.linked_of(Arc::clone(&self.engine), code, digest, surface, account)
    }

    /// Tells whether a component with this digest needs not be compiled.
    pub(super) fn is_compiled(&self, digest: &str) -> bool {
        self.known().get(digest).is_some_and(|linked| linked.strong_count() > 0)
            || self.compiler.has(&self.engine, digest)
    }

    /// A component that needs not be compiled: it is in use already, or its code is kept.
    async fn linked(
        &self,
        digest: &Arc<str>,
        surface: &Surface,
        account: &Account<'_>,
    ) -> Result<Option<Arc<Linked>>, LoadError> {
        if let Some(linked) = self.known().get(digest).and_then(Weak::upgrade) {
            return Ok(Some(linked));
        }
        let kept = self.compiler.kept(&self.engine, digest, account.standing()).await?;
        let Some(code) = kept else { return Ok(None) };
        let (engine, digest) = (Arc::clone(&self.engine), Arc::clone(digest));
        self.linked_of(engine, code, digest, surface.clone(), account).map(Some)
    }

    fn linked_of(
        &self,
        engine: Arc<Engine>,
        code: Code,
        digest: Arc<str>,
        surface: Surface,
        account: &Account<'_>,
    ) -> Result<Arc<Linked>, LoadError> {
        account.map(code.bytes)?;
        let misfit = |error: wasmtime::Error| LoadError::Link(load_error::reason(&error));
        let contract = contract::version(&surface)?;
        let exported = Exported::of(&surface.exports);
        let pre = engine.linker.instantiate_pre(&code.component).map_err(misfit)?;
        let optional = Optional::find(exported, &pre).map_err(misfit)?;
        let pre = PluginPre::new(pre).map_err(misfit)?;
        let (digest_of, _in_use) = (Arc::clone(&digest), code.in_use);
        let linked = Linked { engine, digest, contract, surface, exported, pre, optional, _in_use };
        let linked = Arc::new(linked);
        let mut known = self.known();
        known.retain(|_, linked| linked.strong_count() > 0);
        known.insert(digest_of, Arc::downgrade(&linked));
        Ok(linked)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Arc<str>, Weak<Linked>>> {
        self.in_use.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
