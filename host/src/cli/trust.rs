//! `toolhost trust`

mod show;

use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::failure::Failure;
use super::grant::read_id;
use super::home::{CONFIG_FILE, Home, PROJECT_PLUGINS, read_project};
use super::ui::{self, Ui};
use super::{Global, loaded_with};
use crate::audit::{self, Event, Granted};
use crate::config::{self, Config, PluginConfig, ServerConfig};
use crate::host::HostSettings;
use crate::lock::{self, Agreed, Lock, LockError, Pin, Project, Server};
use crate::plugin;
use crate::reload::{self, Folder, Ready, SourceStatus, Trusted};
use crate::text;
use crate::tool::{Origin, PluginId, SourceId};

/// Trusts a plugin's present bytes, a project, or an MCP server, once you have looked at it.
///
/// It shows what would be trusted: what a plugin asks for and has been granted, texts of it that
/// a person should look at, and how it differs from what was trusted before. Then it asks.
///
/// A plugin has what it was granted as long as its bytes are the trusted ones. Of a project, all
/// plugins are trusted with their present bytes, and its toolhost.toml with its present text:
/// what that grants counts from then on, for the plugins of the project's own folder. A server
/// is trusted with its present entry in toolhost.toml; this version mounts none yet.
/// `toolhost revoke` takes any of it back.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// A plugin's id, or its file; a project's folder: `.`, or with a slash in it; or
    /// `mcp:NAME`.
    #[arg(value_name = "ID|DIR|mcp:NAME")]
    what: String,

    /// Do not ask.
    #[arg(long, short)]
    yes: bool,
}

/// What is to be trusted, as it is named on the command line.
#[derive(Debug)]
pub(super) enum Target {
    Plugin(PluginId),
    File(PathBuf),
    Project(PathBuf),
    Server(String),
}

impl Target {
    pub(super) fn read(what: &str) -> Result<Target, Failure> {
        if let Some(name) = what.strip_prefix("mcp:") {
            return Ok(Target::Server(name.to_owned()));
        }
        if what != "." && what != ".." && !what.contains('/') {
            return read_id(what).map(Target::Plugin);
        }
        let unreadable = |error| Failure::usage(format!("{what} cannot be read: {error}"));
        let path = fs::canonicalize(what).map_err(unreadable)?;
        if path.is_dir() {
            return Ok(Target::Project(path));
        }
        // A link is a plugin by its own name, in the folder it lies in.
        let named = std::path::absolute(what).map_err(unreadable)?;
        match (named.parent(), named.file_name()) {
            (Some(folder), Some(file)) => {
                Ok(Target::File(fs::canonicalize(folder).map_err(unreadable)?.join(file)))
            }
            _ => Ok(Target::File(path)),
        }
    }

    /// The same; a folder may be gone.
    pub(super) fn read_gone(what: &str) -> Result<Target, Failure> {
        let path = Path::new(what);
        if what.contains('/') && !what.starts_with("mcp:") && !path.exists() {
            let path = std::path::absolute(path);
            return path.map(Target::Project).map_err(|error| Failure::usage(error.to_string()));
        }
        Target::read(what)
    }
}

pub(super) async fn run(ui: &Ui, global: &Global, given: &Arguments) -> Result<(), Failure> {
    let home = Home::from_environment()?;
    match Target::read(&given.what)? {
        Target::Plugin(id) => {
            let settings = home.settings(global)?;
            let found = loaded(ui, settings.clone()).await?;
            let of_id = |status: &SourceStatus| matches!(&status.source, Some(SourceId::Plugin { id: known, .. }) if *known == id);
            let found: Vec<SourceStatus> = found.into_iter().filter(of_id).collect();
            let status = only(found, &id)?;
            plugin_file(ui, &home, &settings, &status, given)
        }
        Target::File(path) => {
            let mut settings = home.settings(global)?;
            let folder = path.parent().unwrap_or(Path::new("/")).to_owned();
            settings.folders.push(Folder { path: folder, origin: Origin::Project });
            let found = loaded(ui, settings.clone()).await?;
            let status = found.into_iter().find(|status| status.path == path).ok_or_else(|| {
                Failure::usage(format!("{} is no plugin", path.display()))
                    .hint("name a file that ends in `.wasm`, an id, or a folder")
            })?;
            plugin_file(ui, &home, &settings, &status, given)
        }
        Target::Project(folder) => project(ui, &home, global, &folder, given).await,
        Target::Server(name) => {
            let config = home.config(global)?;
            server(ui, &home, &config, &name, given)
        }
    }
}

/// Takes trust back.
pub(super) fn forget(
    ui: &Ui,
    home: &Home,
    config: &Config,
    target: &Target,
) -> Result<(), Failure> {
    let (what, forgotten) = match target {
        Target::Project(folder) => {
            let plugins = folder.join(PROJECT_PLUGINS);
            let forget = |lock: &mut Lock| {
                let known = lock.project(folder).is_some();
                for plugin in &mut lock.plugins {
                    if plugin.folder == *folder || plugin.folder == plugins {
                        plugin.distrust();
                    }
                }
                lock.projects.retain(|project| project.folder != *folder);
                known
            };
            let known = lock::change(&home.state, forget).map_err(damaged)?;
            (format!("the project {}", folder.display()), known)
        }
        Target::Server(name) => {
            let forget = |lock: &mut Lock| {
                let before = lock.servers.len();
                lock.servers.retain(|server| server.name != *name);
                lock.servers.len() < before
            };
            (format!("mcp:{name}"), lock::change(&home.state, forget).map_err(damaged)?)
        }
        Target::Plugin(_) | Target::File(_) => {
            return Err(Failure::usage("name the plugin by its id to take its grants back"));
        }
    };
    home.audit(config).note(Event::Revoke(Box::new(Granted {
        what: what.clone(),
        digest: None,
        grants: Vec::new(),
        by: "cli",
    })));
    if ui.json {
        return ui.json(&json!({ "revoked": what, "was_trusted": forgotten }));
    }
    ui.line(&match forgotten {
        true => format!("{what} is trusted no more"),
        false => format!("{what} was not trusted"),
    })
}

async fn loaded(ui: &Ui, settings: HostSettings) -> Result<Vec<SourceStatus>, Failure> {
    let host = loaded_with(ui, settings).await?;
    Ok(host.loaded().await.to_vec())
}

/// The one file with this id.
fn only(mut found: Vec<SourceStatus>, id: &PluginId) -> Result<SourceStatus, Failure> {
    // A copy of another file is trusted where that is.
    let is_copy =
        |status: &SourceStatus| status.state.as_ref().is_ok_and(|ready| ready.same_as.is_some());
    if found.iter().any(|status| !is_copy(status)) {
        found.retain(|status| !is_copy(status));
    }
    if found.len() > 1 {
        let failure = Failure::usage(format!("{} files have the id `{id}`", found.len()));
        return Err(found.iter().fold(failure, |failure, status| {
            failure
                .hint(format!("name the one you mean: `toolhost trust {}`", status.path.display()))
        }));
    }
    found.pop().ok_or_else(|| {
        Failure::usage(format!("there is no plugin `{id}`")).hint(
            "`toolhost list` shows all plugins; a folder is named with a slash, such as `./x`",
        )
    })
}

fn plugin_file(
    ui: &Ui,
    home: &Home,
    settings: &HostSettings,
    status: &SourceStatus,
    given: &Arguments,
) -> Result<(), Failure> {
    let ready = status.state.as_ref().map_err(|reason| {
        Failure::rejected(format!("{} cannot be trusted: {reason}", status.path.display()))
    })?;
    if ready.origin == Origin::Bundled {
        return ui.line(&format!("{} is bundled, and trusted as such", show::name(status)));
    }
    let said = show::id(status).and_then(|id| settings.config.plugins.get(id)).cloned();
    let said = said.unwrap_or_default();
    let trusted = trusted(status, ready, Agreed::These(said.grants.flags()));
    if !ui.json {
        show::plugin(ui, &said, status, ready)?;
    }
    agreed(ui, given, "Trust these bytes?")?;
    let pin = trusted.pin.clone();
    reload::trust(&home.state, &[trusted], &settings.config.limits, |_| ()).map_err(damaged)?;
    note(home, &settings.config, [(show::name(status), pin.digest)]);
    if ui.json {
        return ui.json(&json!({ "trusted": [show::to_json(status, ready)] }));
    }
    let digest = &ready.facts.digest;
    ui.line(&format!("{} is trusted, as long as its bytes are sha256:{digest}", show::name(status)))
}

async fn project(
    ui: &Ui,
    home: &Home,
    global: &Global,
    folder: &Path,
    given: &Arguments,
) -> Result<(), Failure> {
    let file = folder.join(CONFIG_FILE);
    let text = read_project(&file)
        .map_err(|problem| Failure::usage(format!("{}: {problem}", file.display())))?;
    let config = match &text {
        Some(text) => config::parse(text, &Config::default()).map_err(|error| {
            Failure::usage(format!("{}: {error}", file.display()))
                .hint("a project is trusted with its whole file, so that has to be right")
        })?,
        None => Config::default(),
    };
    // Plugins that lie elsewhere are not the project's.
    let plugins = folder.join(PROJECT_PLUGINS);
    if let Ok(real) = fs::canonicalize(&plugins)
        && real != plugins
    {
        return Err(Failure::rejected(format!(
            "{} leads to {}, so a project cannot be trusted with it",
            plugins.display(),
            real.display()
        ))
        .hint("trust those plugins by their files, or put them into the project"));
    }
    let mut settings = home.settings(global)?;
    let project = |path: PathBuf| Folder { path, origin: Origin::Project };
    settings.folders.retain(|known| known.origin != Origin::Project);
    settings.folders.extend([plugins.clone(), folder.to_owned()].map(project));
    let mut found = loaded(ui, settings.clone()).await?;
    found.retain(|status| match &status.source {
        Some(SourceId::Plugin { folder: known, .. }) => known == folder || *known == plugins,
        _ => false,
    });
    let ready: Vec<(&SourceStatus, &Ready)> = found
        .iter()
        .filter_map(|status| Some((status, status.state.as_ref().ok()?)))
        .filter(|(_, ready)| ready.origin != Origin::Bundled)
        .collect();
    if ready.is_empty() && text.is_none() {
        let folder = folder.display();
        return Err(Failure::usage(format!("there is nothing to trust in {folder}"))
            .hint(format!("a project has plugins in `{PROJECT_PLUGINS}`, or a {CONFIG_FILE}")));
    }
    if !ui.json {
        for (status, ready) in &ready {
            let said = show::id(status).and_then(|id| config.plugins.get(id));
            show::plugin(ui, said.unwrap_or(&PluginConfig::default()), status, ready)?;
        }
        let broken = found.iter().filter_map(|status| Some((status, status.state.as_ref().err()?)));
        for (status, reason) in broken {
            ui.line(&format!("{} does not load and is not trusted: {reason}", show::name(status)))?;
        }
        show::config(ui, &file, text.as_deref())?;
    }
    agreed(ui, given, "Trust this project?")?;
    let digest = text.as_deref().map(|text| plugin::digest(text.as_bytes()).to_string());
    let trusted: Vec<Trusted> = ready
        .iter()
        .map(|(status, ready)| trusted(status, ready, Agreed::More(Vec::new())))
        .collect();
    let record = Project { folder: folder.to_owned(), config: digest.clone() };
    reload::trust(&home.state, &trusted, &settings.config.limits, |lock| {
        lock.trust_project(record)
    })
    .map_err(damaged)?;
    let plugins = trusted
        .iter()
        .map(|trusted| (format!("plugin:{}", trusted.pin.id), trusted.pin.digest.clone()));
    let file = digest.iter().map(|digest| (file.display().to_string(), digest.clone()));
    note(home, &settings.config, plugins.chain(file));
    if ui.json {
        let plugins: Vec<_> =
            ready.iter().map(|(status, ready)| show::to_json(status, ready)).collect();
        return ui.json(&json!({
            "project": folder.display().to_string(),
            "config": digest.map(|digest| format!("sha256:{digest}")),
            "trusted": plugins,
        }));
    }
    let plugins = match ready.len() {
        1 => "1 plugin".to_owned(),
        count => format!("{count} plugins"),
    };
    let with = if text.is_some() { format!(" and its {CONFIG_FILE}") } else { String::new() };
    ui.line(&format!(
        "the project {} is trusted, with {plugins}{with} as they are now",
        folder.display()
    ))
}

fn server(
    ui: &Ui,
    home: &Home,
    config: &Config,
    name: &str,
    given: &Arguments,
) -> Result<(), Failure> {
    let Some(entry) = config.servers.get(name) else {
        let near = text::nearest(name, config.servers.keys().map(String::as_str));
        let hint = match near.first() {
            Some(near) => format!("did you mean `mcp:{near}`?"),
            None => format!("add `[mcp_servers.{name}]` to toolhost.toml first"),
        };
        let name = text::one_line(&text::cut(name, 60));
        return Err(Failure::usage(format!("there is no server `{name}`")).hint(hint));
    };
    if !ui.json {
        show::server(ui, name, entry)?;
    }
    agreed(ui, given, "Trust this server?")?;
    let digest = ServerConfig::digest(entry);
    let server = Server { name: name.to_owned(), digest: digest.clone() };
    lock::change(&home.state, |lock| lock.trust_server(server)).map_err(damaged)?;
    note(home, config, [(format!("mcp:{name}"), digest.clone())]);
    if ui.json {
        return ui.json(&json!({ "server": name, "digest": format!("sha256:{digest}") }));
    }
    ui.line(&format!(
        "mcp:{name} is trusted, as long as its entry is this one; this version mounts no server yet"
    ))
}

/// Writes to the audit log what was trusted, by name and digest.
fn note(home: &Home, config: &Config, trusted: impl IntoIterator<Item = (String, String)>) {
    let audit = home.audit(config);
    for (what, digest) in trusted {
        audit.note(audit::Trusted { what, digest, by: "cli" });
    }
}

fn trusted(status: &SourceStatus, ready: &Ready, agreed: Agreed) -> Trusted {
    let (folder, id) = match &status.source {
        Some(SourceId::Plugin { id, folder }) => (folder.clone(), id.to_string()),
        _ => (PathBuf::new(), String::new()),
    };
    let digest = ready.facts.digest.to_string();
    Trusted {
        pin: Pin { folder, id, digest },
        bytes: reload::kept(ready.packed.as_ref(), status.path.clone()),
        agreed,
        outline: ready.outline.clone(),
    }
}

/// Asks the person at the terminal, unless they have said so already.
fn agreed(ui: &Ui, given: &Arguments, question: &str) -> Result<(), Failure> {
    if given.yes {
        return Ok(());
    }
    let somebody = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if ui.json || !somebody {
        return Err(Failure::usage("nobody can be asked here, so nothing is trusted")
            .hint("to trust it all the same, add `--yes`"));
    }
    ui::prompt(&format!("{question} [y/N] "));
    let mut line = String::new();
    let read = std::io::stdin().read_line(&mut line);
    read.map_err(|error| Failure::usage(format!("no answer can be read: {error}")))?;
    match line.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::rejected("nothing is trusted")),
    }
}

fn damaged(error: LockError) -> Failure {
    Failure::usage(error.to_string())
}
