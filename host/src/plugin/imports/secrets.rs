//! `secrets`: which secrets are there, and texts that stand for them. Values never pass here.

use crate::plugin::bindings::base::toolhost::plugin::secrets::Host;
use crate::plugin::store::Guest;

impl Host for Guest {
    fn present(&mut self, _name: String) -> wasmtime::Result<bool> {
        self.count_host_call()?;
        Ok(false)
    }

    fn placeholder(&mut self, _name: String) -> wasmtime::Result<Option<String>> {
        self.count_host_call()?;
        Ok(None)
    }
}
