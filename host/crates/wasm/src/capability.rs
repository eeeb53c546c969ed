//! Kinds of authority, as guests meet them: what each links, what a tool may use of it, and what a
//! guest is told where it may not.
//!
//! Each kind is one module, which implements [`Provider`] and stands once in [`PROVIDERS`]; nothing
//! else lists kinds. What a kind is for operators is in `toolhost_policy::capability`.

pub(super) mod authority;
pub(super) mod dirs;
mod env;
pub(super) mod hooks;
mod http;
mod kv;
pub(super) mod secrets;

use std::any::Any;
use std::path::Path;
use std::sync::Arc;

use wasmtime::component::Linker;

use super::instance::Guest;
use super::rights::{Right, Rights};
use dirs::directories::DirectoryRules;
use secrets::Secrets;
use toolhost_core::tool::{CallError, Meter, Need, Reason, Refusal, ToolSpec};
use toolhost_egress::Egress;
use toolhost_policy::capability::{Exclusive, Grants, Kind, Variables};
use toolhost_state::secret::SecretValue;
use toolhost_state::store::Stores;

/// What provides each kind, in the order of [`Kind::ALL`].
const PROVIDERS: &[&dyn Provider] = &[
    &dirs::DirProvider,
    &http::HttpProvider,
    &env::EnvProvider,
    &secrets::SecretProvider,
    &kv::KvProvider,
    &hooks::HookProvider,
];

/// What provides one kind of authority to guests.
trait Provider: Sync {
    /// The kind.
    fn kind(&self) -> Kind;

    /// Links what guests import for it, in place of what is linked without it.
    fn link(&self, _linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
        Ok(())
    }

    /// What all calls of a plugin share, as long as the plugin is there.
    fn share(&self, _means: &HostMeans<'_>) -> Option<Share> {
        None
    }

    /// Gives each of those who ask its right, in their order.
    fn grant(&self, askers: &[Asker<'_>], given: &Given<'_>) -> KindRights;

    /// For each grant whose value is set nowhere, what is said of it.
    fn unset(&self, _given: &Given<'_>) -> Vec<String> {
        Vec::new()
    }

    /// Values that the plugin may use and not see, with their names.
    fn hidden<'a>(&self, _given: &Given<'a>) -> Vec<(&'a str, &'a SecretValue)> {
        Vec::new()
    }

    /// A plugin that was granted it hears of calls.
    fn hears_calls(&self) -> bool {
        false
    }

    /// Why a tool cannot work with these rights, for each thing that it cannot be without.
    fn unmet(&self, _spec: &ToolSpec, _rights: &Rights) -> Vec<Reason> {
        Vec::new()
    }

    /// Adds what was granted for one call alone.
    ///
    /// # Errors
    /// If it cannot be granted, or the tool does not ask for it.
    fn add_for_call(
        &self,
        _rights: &mut Arc<Rights>,
        _extra: &GrantedForCall<'_>,
    ) -> Result<(), CallError> {
        Ok(())
    }

    /// What the host can say of a call in which the tool itself failed, if it may well have failed
    /// for want of this.
    fn explain(&self, _failed: &FailedCall<'_>) -> Option<Refusal> {
        None
    }
}

/// What all calls of a plugin share of one kind of authority.
type Share = Arc<dyn Any + Send + Sync>;

/// What all calls of a plugin share; at most one of each type.
#[derive(Clone, Default)]
pub(super) struct Shares(Vec<Share>);

/// What the host has to give to a plugin.
pub(super) struct HostMeans<'a> {
    /// The plugin's folder.
    pub(super) folder: &'a Path,
    /// The plugin's id.
    pub(super) id: &'a str,
    pub(super) rules: &'a Arc<DirectoryRules>,
    pub(super) stores: &'a Stores,
    pub(super) egress: &'a Egress,
}

/// Values that the operator has set, for whoever is granted them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Values {
    pub(super) variables: Variables,
    pub(super) secrets: Secrets,
}

/// What a plugin was granted, and what there is of it.
pub(super) struct Given<'a> {
    /// What commands call the plugin.
    pub(super) words: &'a str,
    pub(super) grants: &'a Grants,
    pub(super) exclusive: &'a [Exclusive],
    pub(super) values: &'a Values,
    pub(super) shares: &'a Shares,
}

/// Who asks: a tool; or hooks, if it has no name.
#[derive(Clone, Copy)]
struct Asker<'a> {
    needs: &'a [Need],
    requires_env: &'a [String],
    tool: &'a str,
}

/// What one kind comes to.
struct KindRights {
    /// For each of those who ask.
    rights: Vec<Arc<dyn Right>>,
    /// For each grant that cannot be given, why.
    problems: Vec<String>,
    /// Something of what was granted can be given.
    is_there: bool,
}

/// What is granted for one call alone, of a tool.
pub(super) struct GrantedForCall<'a> {
    /// The plugin's id.
    pub(super) plugin: &'a str,
    pub(super) tool: &'a str,
    pub(super) needs: &'a [Need],
    /// Directories, as grants are written.
    pub(super) dirs: &'a [String],
}

/// A call in which the tool itself failed.
pub(super) struct FailedCall<'a> {
    pub(super) tool: &'a str,
    pub(super) rights: &'a Rights,
    pub(super) meter: &'a Meter,
    /// What the tool said.
    pub(super) message: &'a str,
}

impl Shares {
    /// What the calls of a plugin are to share.
    pub(super) fn new(means: &HostMeans<'_>) -> Shares {
        Shares(PROVIDERS.iter().filter_map(|provider| provider.share(means)).collect())
    }

    /// The share of one type, if there is one.
    fn get<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.0.iter().find_map(|share| Arc::clone(share).downcast().ok())
    }
}

impl KindRights {
    /// Rights that take nothing but what was granted and asked for.
    fn new<R: Right>(askers: &[Asker<'_>], right: impl Fn(&Asker<'_>) -> R) -> KindRights {
        let rights = askers.iter().map(|asker| Arc::new(right(asker)) as Arc<dyn Right>);
        KindRights { rights: rights.collect(), problems: Vec::new(), is_there: true }
    }
}

/// Links what guests import for every kind.
pub(super) fn link(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    PROVIDERS.iter().try_for_each(|provider| provider.link(linker))
}

/// Why a tool cannot work with these rights, for each thing that it cannot be without.
pub(super) fn unmet(spec: &ToolSpec, rights: &Rights) -> Vec<Reason> {
    PROVIDERS.iter().flat_map(|provider| provider.unmet(spec, rights)).collect()
}

/// Adds what was granted for one call alone.
///
/// # Errors
/// If it cannot be granted, or the tool does not ask for it.
pub(super) fn add_for_call(
    rights: &mut Arc<Rights>,
    extra: &GrantedForCall<'_>,
) -> Result<(), CallError> {
    PROVIDERS.iter().try_for_each(|provider| provider.add_for_call(rights, extra))
}

/// What the host can say of a call in which the tool itself failed.
pub(super) fn explain(failed: &FailedCall<'_>) -> Vec<Refusal> {
    PROVIDERS.iter().filter_map(|provider| provider.explain(failed)).collect()
}

/// Puts what `link` links in place of what is linked already.
fn shadow(
    linker: &mut Linker<Guest>,
    link: impl FnOnce(&mut Linker<Guest>) -> wasmtime::Result<()>,
) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    link(linker)?;
    linker.allow_shadowing(false);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_provided() {
        let provided: Vec<Kind> = PROVIDERS.iter().map(|provider| provider.kind()).collect();
        assert_eq!(provided, Kind::ALL);
    }
}
