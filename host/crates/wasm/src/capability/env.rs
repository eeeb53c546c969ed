//! Variables: those of WASI. Where a tool is probed, a look at them tells which it asked for in
//! vain; nothing says which of them it meant, since it always gets all.

use std::sync::Arc;

use wasmtime::component::{HasData, Linker};
use wasmtime_wasi::cli::WasiCliView;
use wasmtime_wasi::p2::bindings::cli::environment::{self, Host};

use super::secrets::SecretRight;
use super::{Asker, Given, KindRights, Provider, shadow};
use crate::instance::Guest;
use crate::instance::call::{CallBasics, CallPart};
use crate::rights::{Right, Rights};
use toolhost_core::tool::{Held, Reason, ToolSpec};
use toolhost_policy::capability::{self, Kind, VariableGrant};

/// Provides variables.
pub(super) struct EnvProvider;

/// The variables of one tool.
#[derive(Debug, Default)]
struct EnvRight {
    /// With their values, as far as these are set.
    variables: Vec<(String, String)>,
    /// Names of those that are asked for and granted, whether they are set or not.
    granted: Vec<String>,
    /// Names of those that are asked for and not there.
    lacking: Vec<String>,
}

impl Provider for EnvProvider {
    fn kind(&self) -> Kind {
        Kind::ENV
    }

    fn link(&self, linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
        shadow(linker, |linker| {
            environment::add_to_linker::<Guest, HasEnvironment>(linker, |guest| Environment(guest))
        })
    }

    fn grant(&self, askers: &[Asker<'_>], given: &Given<'_>) -> KindRights {
        let values = &given.values.variables.0;
        KindRights::new(askers, |asker| {
            let asked = |fits: &dyn Fn(&String) -> bool| {
                capability::variables(asker.needs, asker.requires_env, asker.tool, fits)
            };
            let granted =
                asked(&|name| given.grants.of().any(|VariableGrant(granted)| granted == name));
            let mut lacking = asked(&|name| !granted.contains(name));
            // A secret of that name will do.
            let secrets = capability::asked_secrets(asker.needs);
            lacking.retain(|name| !secrets.iter().any(|asked| asked.name == *name));
            let variable = |name: &String| Some((name.clone(), values.get(name)?.clone()));
            let variables = granted.iter().filter_map(variable).collect();
            EnvRight { variables, granted, lacking }
        })
    }

    /// What it requires may be a variable, or a secret of that name.
    fn unmet(&self, spec: &ToolSpec, rights: &Rights) -> Vec<Reason> {
        let (variables, secrets) = (rights.get::<EnvRight>(), rights.get::<SecretRight>());
        let words = rights.words();
        let unmet = |name: &String| match secrets.unmet(name, words) {
            Some(unmet) => unmet,
            None => variables.unmet(name, words),
        };
        spec.requires_env.iter().filter_map(unmet).collect()
    }
}

impl Right for EnvRight {
    fn kind(&self) -> Kind {
        Kind::ENV
    }

    fn is_held(&self) -> bool {
        !self.variables.is_empty()
    }

    fn tell(&self, held: &mut Held) {
        held.variables = self.is_held();
    }
}

impl EnvRight {
    /// Why a tool that requires a variable does not have it.
    fn unmet(&self, name: &String, words: &str) -> Option<Reason> {
        let mut set = self.variables.iter().filter(|(_, value)| !value.is_empty());
        if !self.granted.contains(name) {
            Some(Reason::new(
                format!("it requires the variable `{name}`, which it was not granted"),
                format!("run `toolhost grant {words} --env {name}`"),
            ))
        } else if !set.any(|(known, _)| known == name) {
            Some(Reason::new(
                format!("it requires the variable `{name}`, which is granted and not set"),
                format!("set `{name}` in the environment of toolhost"),
            ))
        } else {
            None
        }
    }
}

/// What one call keeps of its variables.
struct EnvPart {
    right: Arc<EnvRight>,
    is_probed: bool,
}

impl CallPart for EnvPart {
    fn new(call: &CallBasics<'_>) -> EnvPart {
        EnvPart { right: call.call_log.rights.get(), is_probed: call.is_probed }
    }
}

/// The variables of a guest.
struct Environment<'a>(&'a mut Guest);

struct HasEnvironment;

impl HasData for HasEnvironment {
    type Data<'a> = Environment<'a>;
}

impl Host for Environment<'_> {
    fn get_environment(&mut self) -> wasmtime::Result<Vec<(String, String)>> {
        let view = self.0.part::<EnvPart>();
        let (EnvPart { right, is_probed }, call_log) = (view.part, view.call_log);
        if *is_probed {
            for name in &right.lacking {
                call_log.not_granted(Kind::ENV, name, &format!("the variable {name}"));
            }
        }
        // All are handed over at once, whichever the guest wants.
        for (name, _) in &right.variables {
            call_log.used(Kind::ENV, name);
        }
        Ok(right.variables.clone())
    }

    fn get_arguments(&mut self) -> wasmtime::Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn initial_cwd(&mut self) -> wasmtime::Result<Option<String>> {
        self.0.cli().initial_cwd()
    }
}
