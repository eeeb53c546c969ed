//! `kv`: a small store of a plugin's own, for tools, checks and hooks that asked and were granted.

use std::sync::Arc;

use wasmtime::component::{HasSelf, Linker};

use super::{Asker, Given, HostMeans, KindRights, Provider, Share};
use crate::instance::Guest;
use crate::rights::Right;
use bindings::toolhost::plugin::kv::{self, Error, Host};
use toolhost_core::tool::Held;
use toolhost_policy::capability::{self, Kind};
use toolhost_state::store::{Kv, StoreError};

mod bindings {
    wasmtime::component::bindgen!({
        interfaces: "import toolhost:plugin/kv@0.1.0;",
        path: "../../../wit",
        imports: { default: async | trappable },
    });
}

/// Provides stores.
pub(super) struct KvProvider;

/// The store of a tool's plugin, if the tool may use it.
#[derive(Debug, Default)]
struct KvRight(Option<Arc<Kv>>);

impl Provider for KvProvider {
    fn kind(&self) -> Kind {
        Kind::KV
    }

    fn link(&self, linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
        kv::add_to_linker::<Guest, HasSelf<Guest>>(linker, |guest| guest)
    }

    fn share(&self, means: &HostMeans<'_>) -> Option<Share> {
        Some(means.stores.of(means.folder, means.id))
    }

    fn grant(&self, askers: &[Asker<'_>], given: &Given<'_>) -> KindRights {
        let store = given.shares.get().filter(|_| given.grants.has(Kind::KV));
        KindRights::new(askers, |asker| {
            let is_asked = capability::asks_for_tool(asker.needs, Kind::KV, asker.tool);
            KvRight(store.clone().filter(|_| is_asked))
        })
    }
}

impl Right for KvRight {
    fn kind(&self) -> Kind {
        Kind::KV
    }

    fn is_held(&self) -> bool {
        self.0.is_some()
    }

    fn tell(&self, held: &mut Held) {
        held.kv = self.is_held();
    }
}

impl Guest {
    /// The store of this guest and the side it is on, or why it has none.
    fn kept(&mut self) -> wasmtime::Result<Result<(Arc<Kv>, String), Error>> {
        self.count_host_call()?;
        let call_log = &self.call().call_log;
        let KvRight(store) = &*call_log.rights.get();
        if let Some(kv) = store {
            call_log.used(Kind::KV, "");
            return Ok(Ok((Arc::clone(kv), call_log.side())));
        }
        let what = format!("the store of plugin:{}", call_log.plugin);
        Ok(Err(Error::NotGranted(call_log.lacks(Kind::KV, "kv", &what))))
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Error {
        match error {
            StoreError::Invalid(text) => Error::Invalid(text),
            StoreError::Full(text) => Error::Full(text),
            StoreError::Unavailable(text) => Error::Unavailable(text),
        }
    }
}

impl Host for Guest {
    async fn get(&mut self, key: String) -> wasmtime::Result<Result<Option<Vec<u8>>, Error>> {
        let (kv, side) = match self.kept()? {
            Ok(kept) => kept,
            Err(refused) => return Ok(Err(refused)),
        };
        Ok(kv.get(&side, &key).await.map_err(Error::from))
    }

    async fn set(&mut self, key: String, value: Vec<u8>) -> wasmtime::Result<Result<(), Error>> {
        let (kv, side) = match self.kept()? {
            Ok(kept) => kept,
            Err(refused) => return Ok(Err(refused)),
        };
        // It waits for the disk, and for whoever else writes.
        let _charge = self.memory().charge(value.len() as u64)?;
        Ok(kv.set(&side, &key, value).await.map_err(Error::from))
    }

    async fn delete(&mut self, key: String) -> wasmtime::Result<Result<bool, Error>> {
        let (kv, side) = match self.kept()? {
            Ok(kept) => kept,
            Err(refused) => return Ok(Err(refused)),
        };
        Ok(kv.delete(&side, &key).await.map_err(Error::from))
    }

    async fn swap(
        &mut self,
        key: String,
        expected: Option<Vec<u8>>,
        value: Option<Vec<u8>>,
    ) -> wasmtime::Result<Result<bool, Error>> {
        let (kv, side) = match self.kept()? {
            Ok(kept) => kept,
            Err(refused) => return Ok(Err(refused)),
        };
        let length = |value: &Option<Vec<u8>>| value.as_ref().map_or(0, Vec::len) as u64;
        let _charge = self.memory().charge(length(&expected) + length(&value))?;
        Ok(kv.swap(&side, &key, expected, value).await.map_err(Error::from))
    }

    async fn keys(
        &mut self,
        prefix: String,
        after: Option<String>,
    ) -> wasmtime::Result<Result<Vec<String>, Error>> {
        let (kv, side) = match self.kept()? {
            Ok(kept) => kept,
            Err(refused) => return Ok(Err(refused)),
        };
        Ok(kv.keys(&side, &prefix, after.as_deref()).await.map_err(Error::from))
    }
}
