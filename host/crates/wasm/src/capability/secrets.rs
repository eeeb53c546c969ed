//! `secrets`: which secrets are there, and texts that stand for them. Values never pass here: they go
//! into requests, see [`inject`].

pub(super) mod inject;

use std::collections::BTreeMap;
use std::sync::Arc;

use wasmtime::component::{HasSelf, Linker};

use super::{Asker, Given, KindRights, Provider};
use crate::instance::Guest;
use crate::rights::Right;
use bindings::toolhost::plugin::secrets::{self, Host};
use toolhost_core::tool::{Reason, Refusal};
use toolhost_policy::capability::{Kind, SecretGrant, SecretRights, check_variable};
use toolhost_state::secret::SecretValue;

mod bindings {
    wasmtime::component::bindgen!({
        interfaces: "import toolhost:plugin/secrets@0.1.0;",
        path: "../../../wit",
        imports: { default: trappable },
    });
}

/// Values of secrets, by name. Shown without the values.
pub type Secrets = BTreeMap<String, SecretValue>;

/// Provides secrets.
pub(super) struct SecretProvider;

/// The secrets of one tool.
#[derive(Debug, Default)]
pub(super) struct SecretRight {
    rights: SecretRights,
    /// Of all secrets that its plugin was granted, as far as they are set.
    values: Arc<Secrets>,
}

impl Provider for SecretProvider {
    fn kind(&self) -> Kind {
        Kind::SECRETS
    }

    fn link(&self, linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
        secrets::add_to_linker::<Guest, HasSelf<Guest>>(linker, |guest| guest)
    }

    fn grant(&self, askers: &[Asker<'_>], given: &Given<'_>) -> KindRights {
        let set = self.hidden(given).into_iter();
        let values: Secrets = set.map(|(name, value)| (name.to_owned(), value.clone())).collect();
        let values = Arc::new(values);
        KindRights::new(askers, |asker| SecretRight {
            rights: SecretRights::new(asker.needs, asker.tool, given.grants.of()),
            values: Arc::clone(&values),
        })
    }

    fn unset(&self, given: &Given<'_>) -> Vec<String> {
        let mut unset: Vec<&str> =
            given.grants.of().map(|grant: &SecretGrant| grant.name.as_str()).collect();
        unset.retain(|name| !given.values.secrets.contains_key(*name));
        unset.sort_unstable();
        unset.dedup();
        unset.into_iter().map(|name| not_set(name).to_string()).collect()
    }

    fn hidden<'a>(&self, given: &Given<'a>) -> Vec<(&'a str, &'a SecretValue)> {
        let granted: BTreeMap<&str, &SecretValue> = given
            .grants
            .of::<SecretGrant>()
            .filter_map(|grant| given.values.secrets.get_key_value(&grant.name))
            .map(|(name, value)| (name.as_str(), value))
            .collect();
        granted.into_iter().collect()
    }
}

impl Right for SecretRight {
    fn kind(&self) -> Kind {
        Kind::SECRETS
    }

    fn is_held(&self) -> bool {
        !self.values.is_empty()
    }
}

impl SecretRight {
    /// The value of a secret that the plugin was granted, if it is set.
    fn value(&self, name: &str) -> Option<&SecretValue> {
        self.values.get(name)
    }

    /// Of what a tool requires: why it does not have the secret of this name, if so; and nothing at all
    /// if it neither has nor asks for one.
    pub(super) fn unmet(&self, name: &str, words: &str) -> Option<Option<Reason>> {
        if self.rights.has(name) {
            return Some(self.value(name).is_none().then(|| {
                Reason::new(
                    format!("it requires the secret `{name}`, which is granted and not set"),
                    format!("run `toolhost secret set {name}`"),
                )
            }));
        }
        let flag = Kind::SECRETS.flag_for(&self.rights.asked(name)?.to_string());
        Some(Some(Reason::new(
            format!("it requires the secret `{name}`, which it was not granted"),
            format!("run `toolhost grant {words} {flag}`"),
        )))
    }
}

impl Guest {
    /// Tells whether a secret is there for this tool; if not, the reason is remembered.
    fn has_secret(&mut self, name: &str) -> bool {
        if check_variable(name).is_err() {
            return false;
        }
        let call_log = &self.call().call_log;
        let right: Arc<SecretRight> = call_log.rights.get();
        let what = format!("the secret {name}");
        if right.rights.has(name) {
            let is_set = right.value(name).is_some();
            if !is_set {
                call_log.refuse(not_set(name));
            }
            return is_set;
        }
        match right.rights.asked(name) {
            Some(asked) => call_log.not_granted(Kind::SECRETS, &asked.to_string(), &what),
            None => call_log.not_asked(Kind::SECRETS, name, &what),
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

/// The text that stands for a secret in its slot.
fn placeholder(name: &str) -> String {
    format!("{{{{secret:{name}}}}}")
}

/// A secret that is granted and has no value.
fn not_set(name: &str) -> Refusal {
    Refusal {
        what: format!("the secret {name}"),
        why: "is granted and not set".to_owned(),
        repair: format!("run `toolhost secret set {name}`"),
        grant: None,
    }
}
