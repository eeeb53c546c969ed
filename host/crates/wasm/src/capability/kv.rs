//! `kv`: a small store of a plugin's own, for tools, checks and hooks that asked and were granted.

use std::sync::Arc;

use crate::adapter::contract::bindings::base::toolhost::plugin::kv::{Error, Host};
use crate::instance::Guest;
use toolhost_policy::capability::Kind;
use toolhost_state::store::{Kv, StoreError};

impl Guest {
    /// The store of this guest and the side it is on, or why it has none.
    fn kept(&self) -> wasmtime::Result<Result<(Arc<Kv>, String), Error>> {
        self.count_host_call()?;
        let conduct = &self.conduct;
        if let Some(kv) = &conduct.rights.kv {
            conduct.used(Kind::KV, "");
            return Ok(Ok((Arc::clone(kv), self.side())));
        }
        let what = format!("the store of plugin:{}", conduct.plugin);
        Ok(Err(Error::NotGranted(conduct.lacks(Kind::KV, "kv", &what))))
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
        let _charge = self.memory.charge(value.len() as u64)?;
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
        let _charge = self.memory.charge(length(&expected) + length(&value))?;
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
