//! `toolhost grant` and `toolhost revoke`

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tokio::sync::watch;

use super::Global;
use super::failure::Failure;
use super::home::Home;
use super::trust::{self, Target};
use super::ui::Ui;
use crate::audit::{Event, Granted};
use crate::authority::{DirGrant, Grants, Kind};
use crate::config::{self, Config, ConfigError};
use crate::host;
use crate::lock::{self, Agreed, Pin};
use crate::plugin;
use crate::record;
use crate::reload::{self, Trusted};
use crate::tool::PluginId;

/// Lets a plugin use something, from now on.
///
/// The grant is written to the operator's `toolhost.toml` and holds for the plugin's present
/// bytes: when they change, the new ones wait until `toolhost trust` or another grant. A plugin gets of a grant
/// what it asks for; `toolhost inspect FILE` shows that.
#[derive(Debug, clap::Args)]
pub(super) struct GrantArguments {
    /// The plugin's id: its file name without `.wasm`.
    id: String,

    #[command(flatten)]
    grants: GrantFlags,
}

/// Takes back what a plugin was granted: what is named, or else everything and that it is trusted.
/// Or that a project or an MCP server is trusted.
#[derive(Debug, clap::Args)]
pub(super) struct RevokeArguments {
    /// The plugin's id: its file name without `.wasm`; a project's folder: `.`, or with a slash
    /// in it; or `mcp:NAME`.
    #[arg(value_name = "ID|DIR|mcp:NAME")]
    what: String,

    #[command(flatten)]
    grants: GrantFlags,
}

/// Grants, as they are written on the command line; each may be repeated.
#[derive(Debug, clap::Args)]
struct GrantFlags {
    /// A directory, read (`ro`) or read and changed (`rw`). HOST may be relative; GUEST is where
    /// the plugin sees it, by default at the same path, and the current directory also as `.`.
    #[arg(long, value_name = "HOST[=GUEST]:ro|rw")]
    dir: Vec<String>,

    /// Requests: `[METHODS ][SCHEME://]HOST[:PORT][/PREFIX][ private]`, such as
    /// `https://api.example.com` or `GET https://*.example.com/v1/`. Loopback and
    /// private addresses are refused unless HOST is such an address or `localhost`, or the word
    /// `private` follows.
    #[arg(long, value_name = "HOST")]
    http: Vec<String>,

    /// An environment variable of toolhost's own environment, by its name.
    #[arg(long, value_name = "NAME")]
    env: Vec<String>,

    /// A secret, put into one header or query parameter of requests to one host; the plugin
    /// never sees it. `toolhost secret set NAME` sets its value.
    #[arg(long, value_name = "NAME@HOST:header=HEADER|query=PARAMETER")]
    secret: Vec<String>,

    /// A small store of its own that outlives calls.
    #[arg(long)]
    kv: bool,

    /// Let it hear of, change or stop calls of other plugins' tools. EVENT is request, pre-call,
    /// post-call or transform; TOOL a name, or the beginning of one and `*`.
    #[arg(long, value_name = "EVENT:TOOL")]
    hook: Vec<String>,
}

impl GrantFlags {
    fn read(&self) -> Result<Grants, Failure> {
        let here = working_directory()?;
        let mut grants = Grants { kv: self.kv, ..Grants::default() };
        let given = [
            (Kind::Dirs, &self.dir),
            (Kind::Http, &self.http),
            (Kind::Env, &self.env),
            (Kind::Secrets, &self.secret),
            (Kind::Hooks, &self.hook),
        ];
        for (kind, texts) in given {
            for text in texts {
                let added = grants.add(kind, text, Some(&here));
                added.map_err(|error| Failure::usage(error.to_string()))?;
            }
        }
        Ok(grants)
    }
}

pub(super) async fn grant(ui: &Ui, global: &Global, given: &GrantArguments) -> Result<(), Failure> {
    let (home, id) = (Home::from_environment()?, read_id(&given.id)?);
    let grants = given.grants.read()?;
    if grants.is_empty() {
        return Err(Failure::usage("nothing to grant").hint(
            "name what: `--dir`, `--http`, `--env`, `--secret`, `--kv` or `--hook`; `toolhost doctor` shows what plugins ask for",
        ));
    }
    let settings = home.settings(global)?;
    for dir in &grants.dirs {
        plugin::check_grant(dir, &settings.directories).map_err(Failure::usage)?;
    }
    let candidates = reload::find(&settings.folders, &id, &settings.config.limits);
    let Some(candidate) = candidates.into_iter().next() else {
        return Err(Failure::usage(format!("there is no plugin `{id}`"))
            .hint("`toolhost list` shows all plugins; `--plugins DIR` names another folder"));
    };
    let place = candidate.path.display().to_string();
    let (_compiling, compiling) = watch::channel(BTreeSet::from([id.to_string()]));
    let inspected = ui.while_waiting(host::inspect(&candidate.path, &settings), compiling).await;
    let (loaded, _) = inspected.map_err(|error| Failure::inspect(&place, &error))?;
    let digest = loaded.facts.digest.to_string();
    let pin = Pin { folder: candidate.folder, id: id.to_string(), digest: digest.clone() };
    let known = is_known(&home, &pin)?;
    if !known && !reload::suspect(&loaded).is_empty() {
        return Err(Failure::rejected(format!(
            "{place} has texts that a person should look at before it is granted anything"
        ))
        .hint(format!("`toolhost trust {id}` shows them; grant it then")));
    }
    let agreed = agreed(&home, &pin)?;
    let untold = edit(&home, global, |text| {
        let held = config::parse(text, &Config::default())?.plugins.remove(&id);
        let mut held = held.map(|plugin| plugin.grants).unwrap_or_default();
        if let Some(agreed) = &agreed {
            held.retain(agreed);
        }
        if !known && !covers(&grants, &held) {
            return Ok((text.to_owned(), held.flags()));
        }
        config::with_grants(text, &id, &grants).map(|text| (text, Vec::new()))
    })?;
    if !untold.is_empty() {
        let (held, given) = (untold.join(" "), grants.flags().join(" "));
        return Err(Failure::usage(format!(
            "{place} is not what plugin:{id} was when it was granted {held}, and would have that as well"
        ))
        .hint(format!("if that is meant, look at it with `toolhost inspect {place}`, then run `toolhost grant {id} {held} {given}`"))
        .hint(format!("`toolhost trust {id}` shows what has changed; if that is not meant, run `toolhost revoke {id}` first")));
    }
    // Last: a grant without a pin gives nothing.
    let outline = reload::surface(&loaded).outline();
    let agreed = Agreed::More(grants.flags());
    let bytes = reload::kept(loaded.packed.as_ref(), candidate.path);
    let trusted = [Trusted { pin, bytes, agreed, outline }];
    reload::trust(&home.state, &trusted, &settings.config.limits, |_| ())
        .map_err(|error| Failure::usage(error.to_string()))?;
    home.audit(&settings.config).note(Event::Grant(Box::new(Granted {
        what: format!("plugin:{id}"),
        digest: Some(digest.clone()),
        grants: grants.flags(),
        by: "cli",
    })));
    if ui.json {
        let mut report = to_json(&grants);
        report["plugin"] = id.as_str().into();
        report["digest"] = digest.into();
        return ui.json(&report);
    }
    for (kind, text) in grants.all() {
        let what = in_words(kind, &text);
        ui.line(&format!("plugin:{id} may use {what}, as long as its bytes are sha256:{digest}"))?;
    }
    Ok(())
}

/// Tells whether the present bytes are those that grants were given to.
fn is_known(home: &Home, pin: &Pin) -> Result<bool, Failure> {
    let failed = |error: lock::LockError| Failure::usage(error.to_string());
    let bundled = lock::bundled_digests(&home.state).map_err(failed)?;
    let lock = lock::load(&home.state).map_err(failed)?;
    let is_bundled = bundled.contains_key(&(pin.id.clone(), pin.digest.clone()));
    Ok(is_bundled || lock.trusts(&pin.folder, &pin.id, &pin.digest))
}

/// What the plugin of this folder was granted, as flags; nothing if it was never trusted. Without
/// a list, it is all that the operator's file grants to its id.
fn agreed(home: &Home, pin: &Pin) -> Result<Option<Vec<String>>, Failure> {
    let lock = lock::load(&home.state).map_err(|error| Failure::usage(error.to_string()))?;
    Ok(match lock.plugin(&pin.folder, &pin.id) {
        Some(known) if known.trusted.is_some() => known.grants.clone(),
        _ => Some(Vec::new()),
    })
}

/// Tells whether all that is held is among what is given.
fn covers(given: &Grants, held: &Grants) -> bool {
    let given = given.all();
    held.all().iter().all(|grant| given.contains(grant))
}

/// The grants by their keys.
fn to_json(grants: &Grants) -> Value {
    let mut report = json!({});
    for kind in Kind::ALL {
        report[kind.key()] = match kind {
            Kind::Kv => grants.kv.into(),
            kind => grants.texts(kind).into(),
        };
    }
    report
}

/// A grant, in the middle of a sentence.
fn in_words(kind: Kind, text: &str) -> String {
    match kind {
        Kind::Dirs => text.to_owned(),
        Kind::Kv => "a store of its own".to_owned(),
        kind => format!("the {} {text}", kind.noun()),
    }
}

pub(super) fn revoke(ui: &Ui, global: &Global, given: &RevokeArguments) -> Result<(), Failure> {
    let (home, target) = (Home::from_environment()?, Target::read_gone(&given.what)?);
    let chosen = given.grants.read()?;
    let Target::Plugin(id) = target else {
        return trust::forget(ui, &home, &home.operators_config(global), &target);
    };
    let count = edit(&home, global, |text| config::without_grants(text, &id, &chosen))?;
    let failed = |error: lock::LockError| Failure::usage(error.to_string());
    let was_trusted = if chosen.is_empty() {
        lock::unpin(&home.state, id.as_str()).map_err(failed)?
    } else {
        lock::withdraw(&home.state, id.as_str(), &chosen.flags()).map_err(failed)?;
        false
    };
    if count > 0 || was_trusted {
        home.audit(&home.operators_config(global)).note(Event::Revoke(Box::new(Granted {
            what: format!("plugin:{id}"),
            digest: None,
            grants: chosen.flags(),
            by: "cli",
        })));
    }
    if ui.json {
        return ui
            .json(&json!({ "plugin": id.as_str(), "revoked": count, "was_trusted": was_trusted }));
    }
    ui.line(&match count {
        0 if was_trusted => format!("plugin:{id} had no grant, and is trusted no more"),
        0 if chosen.is_empty() => format!("plugin:{id} had no grant"),
        0 => format!("plugin:{id} had no such grant"),
        count => format!("plugin:{id} has lost {count} grant{}", if count == 1 { "" } else { "s" }),
    })
}

/// Reads a directory grant from the command line, where relative paths are of here.
pub(super) fn read_dir(text: &str) -> Result<DirGrant, Failure> {
    DirGrant::parse(text, Some(&working_directory()?))
        .map_err(|error| Failure::usage(error.to_string()))
}

pub(super) fn working_directory() -> Result<PathBuf, Failure> {
    std::env::current_dir()
        .and_then(fs::canonicalize)
        .map_err(|error| Failure::usage(format!("the current directory is gone: {error}")))
}

pub(super) fn read_id(text: &str) -> Result<PluginId, Failure> {
    PluginId::from_stem(text).map_err(|error| Failure::usage(error.to_string()))
}

/// Rewrites the operator's configuration in one step, and one command at a time.
fn edit<T>(
    home: &Home,
    global: &Global,
    change: impl FnOnce(&str) -> Result<(String, T), ConfigError>,
) -> Result<T, Failure> {
    let named = home.operators_file(global);
    // What a link leads to is changed, and the link stays.
    let file = &fs::canonicalize(&named).unwrap_or(named);
    let failed = |error: std::io::Error| Failure::usage(format!("{}: {error}", file.display()));
    let _locked = record::lock(&home.state).map_err(failed)?;
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
