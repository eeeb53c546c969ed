//! `secrets`: which secrets are there, and texts that stand for them. Values never pass here.

pub(crate) mod inject;

use crate::adapter::contract::bindings::base::toolhost::plugin::secrets::Host;
use crate::instance::Guest;
use crate::redaction::placeholder;
use inject::not_set;
use toolhost_policy::capability::{Kind, check_variable};

impl Guest {
    /// Tells whether a secret is there for this tool; if not, the reason is remembered.
    fn has_secret(&self, name: &str) -> bool {
        if check_variable(name).is_err() {
            return false;
        }
        let (conduct, secrets) = (&self.conduct, &self.conduct.rights.secrets);
        let what = format!("the secret {name}");
        if secrets.has(name) {
            let is_set = self.secrets.value(name).is_some();
            if !is_set {
                conduct.refuse(not_set(name));
            }
            return is_set;
        }
        match secrets.asked(name) {
            Some(asked) => conduct.not_granted(Kind::SECRETS, &asked.to_string(), &what),
            None => conduct.not_asked(Kind::SECRETS, name, &what),
        };
        false
    }
}

impl Host for Guest {
    fn present(&mut self, name: String) -> wasmtime::Result<bool> {
        self.count_host_call()?;
        Ok(self.has_secret(&name))
    }

    fn placeholder(&mut self, name: String) -> wasmtime::Result<Option<String>> {
        self.count_host_call()?;
        Ok(self.has_secret(&name).then(|| placeholder(&name)))
    }
}
