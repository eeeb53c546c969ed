//! `toolhost grant` and `toolhost revoke`

use std::fs;
use std::io::Write;
use std::path::Path;

use serde_json::json;

use super::Global;
use super::failure::Failure;
use super::home::Home;
use super::ui::Ui;
use crate::authority::{self, DirGrant, Grants, HookGrant};
use crate::config::{self, ConfigError};
use crate::lock::{self, Pin};
use crate::plugin;
use crate::reload;
use crate::tool::PluginId;

/// Lets a plugin use a directory, a variable or a hook, from now on.
///
/// The grant is written to the operator's `toolhost.toml` and holds for the plugin's present
/// bytes: when they change, it gives nothing until it is granted again. A plugin gets of a grant
/// what it asks for; `toolhost inspect FILE` shows that.
#[derive(Debug, clap::Args)]
pub(super) struct GrantArguments {
    /// The plugin's id: its file name without `.wasm`.
    id: String,

    /// The directory, read (`ro`) or read and changed (`rw`); may be repeated. HOST may be
    /// relative; GUEST is where the plugin sees it, by default at the same path, and the current
    /// directory also as `.`.
    #[arg(long, value_name = "HOST[=GUEST]:ro|rw")]
    dir: Vec<String>,

    /// An environment variable of toolhost's own environment, by its name; may be repeated.
    #[arg(long, value_name = "NAME")]
    env: Vec<String>,

    /// Let it hear of, change or stop calls of other plugins' tools; may be repeated. EVENT is
    /// request, pre-call, post-call or transform; TOOL a name, or the beginning of one and `*`.
    #[arg(long, value_name = "EVENT:TOOL")]
    hook: Vec<String>,
}

/// Takes back everything that a plugin was granted.
#[derive(Debug, clap::Args)]
pub(super) struct RevokeArguments {
    /// The plugin's id: its file name without `.wasm`.
    id: String,
}

pub(super) fn grant(ui: &Ui, global: &Global, given: &GrantArguments) -> Result<(), Failure> {
    let (home, id) = (Home::from_environment()?, read_id(&given.id)?);
    let grants = read_grants(given)?;
    let settings = home.settings(global)?;
    for dir in &grants.dirs {
        plugin::check_grant(dir, &settings.directories).map_err(Failure::usage)?;
    }
    let candidates = reload::find(&settings.folders, &id, &settings.config.limits);
    let Some(candidate) = candidates.into_iter().next() else {
        return Err(Failure::usage(format!("there is no plugin `{id}`"))
            .hint("`toolhost list` shows all plugins; `--plugins DIR` names another folder"));
    };
    let bytes = plugin::read_component(&candidate.path, &settings.config.limits)
        .map_err(|error| Failure::usage(format!("{}: {error}", candidate.path.display())))?;
    let digest = plugin::digest(&bytes).to_string();
    // The pin first: a grant without one gives nothing, a pin without a grant neither.
    let pin = Pin { folder: candidate.folder, id: id.to_string(), digest: digest.clone() };
    lock::pin(&home.state, &pin).map_err(|error| Failure::usage(error.to_string()))?;
    edit(&home.operators_file(global), |text| {
        config::with_grants(text, &id, &grants).map(|text| (text, ()))
    })?;
    let dirs: Vec<String> = grants.dirs.iter().map(ToString::to_string).collect();
    let hooks: Vec<String> = grants.hooks.iter().map(ToString::to_string).collect();
    if ui.json {
        return ui.json(&json!({
            "plugin": id.as_str(), "dirs": dirs, "env": grants.env, "hooks": hooks, "digest": digest,
        }));
    }
    let env = grants.env.iter().map(|name| format!("the variable {name}"));
    let hooks = hooks.iter().map(|hook| format!("the hook {hook}"));
    for what in dirs.into_iter().chain(env).chain(hooks) {
        ui.line(&format!("plugin:{id} may use {what}, as long as its bytes are sha256:{digest}"))?;
    }
    Ok(())
}

fn read_grants(given: &GrantArguments) -> Result<Grants, Failure> {
    let grants = Grants {
        dirs: given.dir.iter().map(|dir| read_dir(dir)).collect::<Result<_, _>>()?,
        env: given.env.clone(),
        hooks: given
            .hook
            .iter()
            .map(|hook| HookGrant::parse(hook))
            .collect::<Result<_, _>>()
            .map_err(|error| Failure::usage(error.to_string()))?,
    };
    for name in &grants.env {
        authority::check_variable(name).map_err(|error| Failure::usage(error.to_string()))?;
    }
    if grants.is_empty() {
        return Err(Failure::usage("nothing to grant")
            .hint("name what: `--dir HOST:ro|rw`, `--env NAME` or `--hook EVENT:TOOL`"));
    }
    Ok(grants)
}

pub(super) fn revoke(ui: &Ui, global: &Global, given: &RevokeArguments) -> Result<(), Failure> {
    let (home, id) = (Home::from_environment()?, read_id(&given.id)?);
    let count = edit(&home.operators_file(global), |text| config::without_grants(text, &id))?;
    lock::unpin(&home.state, id.as_str()).map_err(|error| Failure::usage(error.to_string()))?;
    if ui.json {
        return ui.json(&json!({ "plugin": id.as_str(), "revoked": count }));
    }
    ui.line(&match count {
        0 => format!("plugin:{id} had no grant"),
        count => format!("plugin:{id} has lost {count} grant{}", if count == 1 { "" } else { "s" }),
    })
}

/// Reads a directory grant from the command line, where relative paths are of here.
pub(super) fn read_dir(text: &str) -> Result<DirGrant, Failure> {
    let here = std::env::current_dir()
        .and_then(fs::canonicalize)
        .map_err(|error| Failure::usage(format!("the current directory is gone: {error}")))?;
    DirGrant::parse(text, Some(&here)).map_err(|error| Failure::usage(error.to_string()))
}

fn read_id(text: &str) -> Result<PluginId, Failure> {
    PluginId::from_stem(text).map_err(|error| Failure::usage(error.to_string()))
}

/// Rewrites a configuration in one step.
fn edit<T>(
    file: &Path,
    change: impl FnOnce(&str) -> Result<(String, T), ConfigError>,
) -> Result<T, Failure> {
    let failed = |error: std::io::Error| Failure::usage(format!("{}: {error}", file.display()));
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(failed(error)),
    };
    let (changed, value) =
        change(&text).map_err(|error| Failure::usage(format!("{}: {error}", file.display())))?;
    if changed != text {
        let folder =
            file.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(failed)?;
        let mut part = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
        part.write_all(changed.as_bytes()).map_err(failed)?;
        part.persist(file).map_err(|error| failed(error.error))?;
    }
    Ok(value)
}
