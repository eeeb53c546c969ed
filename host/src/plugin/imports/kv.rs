//! `kv`: a small store of a plugin's own.

use crate::plugin::bindings::base::toolhost::plugin::kv::{Error, Host};
use crate::plugin::store::Guest;

impl Guest {
    fn no_store<T>(&self) -> wasmtime::Result<Result<T, Error>> {
        self.count_host_call()?;
        let plugin = &self.plugin;
        Ok(Err(Error::NotGranted(format!(
            "the store of plugin:{plugin} is not granted: run `toolhost grant {plugin} --kv`"
        ))))
    }
}

impl Host for Guest {
    fn get(&mut self, _key: String) -> wasmtime::Result<Result<Option<Vec<u8>>, Error>> {
        self.no_store()
    }

    fn set(&mut self, _key: String, _value: Vec<u8>) -> wasmtime::Result<Result<(), Error>> {
        self.no_store()
    }

    fn delete(&mut self, _key: String) -> wasmtime::Result<Result<bool, Error>> {
        self.no_store()
    }

    fn swap(
        &mut self,
        _key: String,
        _expected: Option<Vec<u8>>,
        _value: Option<Vec<u8>>,
    ) -> wasmtime::Result<Result<bool, Error>> {
        self.no_store()
    }

    fn keys(
        &mut self,
        _prefix: String,
        _after: Option<String>,
    ) -> wasmtime::Result<Result<Vec<String>, Error>> {
        self.no_store()
    }
}
