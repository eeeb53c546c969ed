//! Environment variables: which ones a tool sees.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    Asks, Capability, Grant, GrantError, Grants, Kind, ToolNeeds, asks_for_key, needs_for, strings,
    words,
};
use toolhost_core::tool::{Need, ToolSpec};

struct Env;

impl Kind {
    /// Environment variables.
    pub const ENV: Kind = Kind(&Env);
}

impl Capability for Env {
    fn key(&self) -> &'static str {
        "env"
    }

    fn value_name(&self) -> Option<&'static str> {
        Some("NAME")
    }

    fn help(&self) -> &'static str {
        "An environment variable of toolhost's own environment, by its name"
    }

    fn noun(&self) -> &'static str {
        "variable"
    }

    fn read(&self, text: &str, _: Option<&Path>) -> Result<Arc<dyn Grant>, GrantError> {
        check_variable(text)?;
        Ok(Arc::new(VariableGrant(text.to_owned())))
    }

    fn is_asked(&self, asks: &Asks<'_>) -> bool {
        asks_for_key(asks.needs, self.key()) || asks.tools.iter().any(|(_, all)| !all.is_empty())
    }

    fn meets(&self, asks: &Asks<'_>, (tool, requires): ToolNeeds<'_>, grant: &dyn Grant) -> bool {
        let name = grant.to_string();
        !variables(asks.needs, requires, tool, |asked| *asked == name).is_empty()
    }

    fn lacking(&self, _: &Need, value: &Value, held: &Grants) -> Vec<String> {
        let held = held.texts(Kind::ENV);
        strings(&value["names"]).into_iter().filter(|name| !held.contains(name)).collect()
    }

    fn need_words(&self, value: &Map<String, Value>) -> Option<(String, usize)> {
        let names = words::list(value.get("names")?, "`*`")?;
        Some((format!("to read the environment variables {names}"), 1))
    }

    fn imports(&self) -> &'static [(&'static str, &'static str)] {
        &[("wasi:cli/environment", "environment"), ("wasi:config/", "environment")]
    }

    fn value_names(&self, needs: &[Need]) -> Vec<String> {
        asked_variables(needs)
    }

    fn has_values(&self) -> bool {
        true
    }
}

/// The name of a variable that an operator lets a plugin see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableGrant(pub String);

impl fmt::Display for VariableGrant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Values of environment variables, by name. Shown without the values.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Variables(pub BTreeMap<String, String>);

impl fmt::Debug for Variables {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.0.keys()).finish()
    }
}

/// Checks the name of an environment variable.
///
/// # Errors
/// If it is empty, too long, or has other characters than `A-Z a-z 0-9 _`.
pub fn check_variable(name: &str) -> Result<(), GrantError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if (1..=128).contains(&name.len()) && name.bytes().all(allowed) {
        return Ok(());
    }
    let shape = "a name of A-Z a-z 0-9 _, such as WEATHER_TOKEN";
    Err(GrantError::new(name, "variable", "that is no name of an environment variable", shape))
}

/// The value of a need of kind `env`.
#[derive(Debug, Deserialize)]
struct EnvNeed {
    names: Vec<String>,
}

/// The variables that a tool asks for and that `fits` chooses, sorted. What it requires, it asks
/// for.
pub fn variables(
    needs: &[Need],
    requires_env: &[String],
    tool: &str,
    fits: impl Fn(&String) -> bool,
) -> Vec<String> {
    let asked = needs_for::<EnvNeed>(needs, Kind::ENV.key(), tool).flat_map(|need| need.names);
    let mut names: Vec<String> = asked.chain(requires_env.iter().cloned()).filter(fits).collect();
    names.sort();
    names.dedup();
    names
}

/// The variables that needs name, whatever tool they are for.
fn asked_variables(needs: &[Need]) -> Vec<String> {
    let needs = needs.iter().filter(|need| need.kind == Kind::ENV.key());
    let value = |need: &Need| serde_json::from_str::<Value>(&need.value).unwrap_or_default();
    needs.flat_map(|need| strings(&value(need)["names"])).collect()
}

/// The variables without which a tool is unavailable, as what it asks for.
pub fn required(spec: &ToolSpec) -> Option<Need> {
    (!spec.requires_env.is_empty()).then(|| Need {
        kind: Kind::ENV.key().to_owned(),
        value: json!({ "names": spec.requires_env }).to_string(),
        tools: vec![spec.name.to_string()],
        reason: "the tool requires them".to_owned(),
    })
}
