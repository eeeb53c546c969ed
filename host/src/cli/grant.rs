//! `toolhost grant` and `toolhost revoke`

use std::fs;
use std::io::Write;
use std::path::Path;

use serde_json::json;

use super::Global;
use super::failure::Failure;
use super::home::Home;
use super::ui::Ui;
use crate::authority::DirGrant;
use crate::config::{self, ConfigError};
use crate::lock::{self, Pin};
use crate::plugin;
use crate::reload;
use crate::tool::PluginId;

/// Lets a plugin use a directory, from now on.
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
    #[arg(long, required = true, value_name = "HOST[=GUEST]:ro|rw")]
    dir: Vec<String>,
}

/// Takes back everything that a plugin was granted.
#[derive(Debug, clap::Args)]
pub(super) struct RevokeArguments {
    /// The plugin's id: its file name without `.wasm`.
    id: String,
}

pub(super) fn grant(ui: &Ui, global: &Global, given: &GrantArguments) -> Result<(), Failure> {
    let (home, id) = (Home::from_environment()?, read_id(&given.id)?);
    let dirs = given.dir.iter().map(|dir| read_dir(dir)).collect::<Result<Vec<_>, _>>()?;
    let settings = home.settings(global)?;
    for dir in &dirs {
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
        config::with_dirs(text, &id, &dirs).map(|text| (text, ()))
    })?;
    if ui.json {
        let dirs: Vec<String> = dirs.iter().map(ToString::to_string).collect();
        return ui.json(&json!({ "plugin": id.as_str(), "dirs": dirs, "digest": digest }));
    }
    for dir in &dirs {
        ui.line(&format!("plugin:{id} may use {dir}, as long as its bytes are sha256:{digest}"))?;
    }
    Ok(())
}

pub(super) fn revoke(ui: &Ui, global: &Global, given: &RevokeArguments) -> Result<(), Failure> {
    let (home, id) = (Home::from_environment()?, read_id(&given.id)?);
    let count = edit(&home.operators_file(global), |text| config::without_dirs(text, &id))?;
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
