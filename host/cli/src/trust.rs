//! `toolhost trust`

pub(super) mod show;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::choose::{Choice, Chooser, CommandWords, is_known};
use super::decide::{decide, unusable};
use super::failure::Failure;
use super::grant::read_id;
use super::home::{CONFIG_FILE, Home, PROJECT_PLUGINS, read_project};
use super::source;
use super::ui::Ui;
use super::{Global, loaded_anew};
use toolhost::HostSettings;
use toolhost_core::text;
use toolhost_core::tool::{Origin, PluginAddress, SourceId};
use toolhost_sources::folder::Folder;
use toolhost_sources::reload::{self, Ready, SourceStatus, Trusted};
use toolhost_state::audit::{self, Event, GrantEvent};
use toolhost_state::config::{self, Config, ProjectFile, Said, ServerConfig};
use toolhost_state::read::ReadScope;
use toolhost_state::trust_store::{self, Agreed, Lock, Server, TrustedProject};
use toolhost_wasm as plugin;
use toolhost_wasm::script;

/// Trusts a plugin's present bytes, a project, or an MCP server, once you have looked at it.
///
/// It shows what would be trusted: what a plugin asks for and has been granted, text in it that a
/// person should review, and how it differs from what was trusted before. Then it asks.
///
/// A plugin has what it was granted as long as its bytes are the trusted ones. Of a project, all
/// plugins are trusted with their present bytes, and its toolhost.toml with its present text:
/// what that grants counts from then on, for the plugins of the project's own folder. A server
/// is trusted with its present entry in toolhost.toml; this version mounts none yet.
/// `toolhost revoke` takes any of it back.
#[derive(Debug, clap::Args)]
pub(super) struct TrustArguments {
    /// A plugin's id, or its file; a project's folder: `.`, or with a slash in it; or
    /// `mcp:NAME`. Where several plugins have the id, `user/ID` or the file says which.
    #[arg(value_name = "ID|FILE|DIR|mcp:NAME")]
    what: String,

    /// Do not ask.
    #[arg(long, short)]
    yes: bool,
}

/// How the words begin that name one of several plugins of an id.
const OF_PLUGINS: [&str; 2] = ["user/", "bundled/"];

/// What is to be trusted, as it is named on the command line.
#[derive(Debug)]
pub(super) enum TrustTarget {
    /// An id, or what else names a plugin.
    Plugin(String),
    Project(PathBuf),
    Server(String),
}

impl TrustTarget {
    /// A path that is a known plugin's means that plugin, whatever folder lies there by now: hints print
    /// such paths. With a slash at its end it means the folder. A project's folder may be gone.
    pub(super) fn read(home: &Home, global: &Global, what: &str) -> Result<TrustTarget, Failure> {
        let plugin = || TrustTarget::Plugin(what.to_owned());
        if let Some(name) = what.strip_prefix("mcp:") {
            return Ok(TrustTarget::Server(name.to_owned()));
        }
        // So hints name plugins, whatever folder is called so; that is `./user/ID`.
        if OF_PLUGINS.iter().any(|word| what.starts_with(word)) {
            return Ok(plugin());
        }
        let is_dots = what == "." || what == "..";
        if !is_dots && !what.contains('/') {
            return read_id(what).map(|_| plugin());
        }
        if !is_dots && !what.ends_with('/') && is_known(home, global, what)? {
            return Ok(plugin());
        }
        let unreadable = |error| Failure::usage(format!("{what} cannot be read: {error}"));
        match fs::canonicalize(what) {
            Ok(path) if path.is_dir() && !is_plugin(Path::new(what)) => {
                Ok(TrustTarget::Project(path))
            }
            Ok(_) => Ok(plugin()),
            Err(error) if is_dots => Err(unreadable(error)),
            Err(_) => {
                let path = std::path::absolute(what).map_err(unreadable)?;
                let lock = trust_store::load(&home.state).map_err(unusable)?;
                Ok(lock.project(&path).map_or_else(plugin, |_| TrustTarget::Project(path.clone())))
            }
        }
    }
}

/// Tells whether a folder is a script that lies in a plugins folder, and no project.
fn is_plugin(folder: &Path) -> bool {
    let is_there = |name: &str| fs::symlink_metadata(folder.join(name)).is_ok();
    let is_project = is_there(CONFIG_FILE) || is_there(PROJECT_PLUGINS);
    script::language(folder).is_some() && !is_project
}

pub(super) async fn run(ui: &Ui, global: &Global, given: &TrustArguments) -> Result<(), Failure> {
    let home = Home::from_environment()?;
    match TrustTarget::read(&home, global, &given.what)? {
        TrustTarget::Plugin(words) => {
            let mut settings = home.settings(global)?;
            let rest = if given.yes { "--yes" } else { "" };
            let command = CommandWords { name: "trust", rest, of_gone: false };
            let config = home.operators_config(global);
            let choice = Chooser::new(&home, &settings, config, command)?.choose(&words)?;
            let Choice { address, file: Some(file) } = choice else {
                return Err(Failure::usage(format!("there is no file of plugin {words}")));
            };
            settings.folders.push(Folder { path: file.folder.clone(), origin: Origin::Project });
            let found = loaded(ui, settings.clone()).await?;
            let status = found.into_iter().find(|status| status.location.is(&file.path));
            let status = status.ok_or_else(|| {
                Failure::usage(format!("{} is no plugin", file.path.display()))
                    .hint("name a file that ends in `.wasm`, an id, or a folder")
            })?;
            let of = (Some(&address), &status);
            definition(ui, (&home, global), &settings.config, of, given.yes)
        }
        TrustTarget::Project(folder) => project(ui, &home, global, &folder, given).await,
        TrustTarget::Server(name) => {
            let config = home.config(global)?;
            if let Some(entry) = config.servers.get(&name) {
                return server(ui, &home, &config, (&name, entry), given);
            }
            // What is no entry of the configuration may be a source all the same.
            let found = loaded(ui, home.settings(global)?).await?;
            let id = Some(SourceId::Mcp(name.clone()));
            match found.iter().find(|status| status.source == id) {
                Some(status) => definition(ui, (&home, global), &config, (None, status), given.yes),
                None => Err(no_server(&name, config.servers.keys().map(String::as_str))),
            }
        }
    }
}

/// Takes trust back.
pub(super) fn forget(
    ui: &Ui,
    home: &Home,
    global: &Global,
    target: &TrustTarget,
) -> Result<(), Failure> {
    let (what, forgotten) = match target {
        TrustTarget::Project(folder) => {
            let plugins = folder.join(PROJECT_PLUGINS);
            let forget = |lock: &mut Lock| {
                let known = lock.projects.iter().any(|project| project.folder == *folder);
                let of_project = |plugin: &&mut trust_store::Known| {
                    plugin.folder == *folder || plugin.folder == plugins
                };
                lock.plugins.iter_mut().filter(of_project).for_each(trust_store::Known::distrust);
                lock.projects.retain(|project| project.folder != *folder);
                known
            };
            let known = trust_store::change(&home.state, forget).map_err(unusable)?;
            (format!("the project {}", folder.display()), known)
        }
        TrustTarget::Server(name) => {
            let forget = |lock: &mut Lock| {
                let before = lock.servers.len();
                lock.servers.retain(|server| server.name != *name);
                let source = SourceId::Mcp(name.clone());
                let (folder, id) = trust_store::entry(&source);
                lock.distrust(folder, &id) | (lock.servers.len() < before)
            };
            let known = trust_store::change(&home.state, forget).map_err(unusable)?;
            let servers = home.config(global)?.servers;
            if !known && !servers.contains_key(name) {
                return Err(no_server(name, servers.keys().map(String::as_str)));
            }
            (format!("mcp:{name}"), known)
        }
        TrustTarget::Plugin(words) => return Err(Failure::usage(format!("{words} is no project"))),
    };
    home.audit(&home.operators_config(global)).note(Event::Revoke(Box::new(GrantEvent {
        what: what.clone(),
        folder: None,
        digest: None,
        grants: Vec::new(),
        by: "cli",
    })));
    if ui.json {
        return ui.json(&json!({ "revoked": what, "was_trusted": forgotten }));
    }
    ui.line(&match forgotten {
        true => format!("{what} is no longer trusted"),
        false => format!("{what} was not trusted"),
    })
}

async fn loaded(ui: &Ui, settings: HostSettings) -> Result<Vec<SourceStatus>, Failure> {
    let host = loaded_anew(ui, settings).await?;
    Ok(host.loaded().await.to_vec())
}

/// Trusts the present definition of a source. `address` says whose grants it has, if it is a plugin.
pub(super) fn definition(
    ui: &Ui,
    (home, global): (&Home, &Global),
    config: &Config,
    (address, status): (Option<&PluginAddress>, &SourceStatus),
    yes: bool,
) -> Result<(), Failure> {
    let cannot = || Failure::rejected(format!("{} cannot be trusted", show::name(status)));
    let ready = status.state.as_ref().map_err(|reason| {
        Failure::rejected(format!("{} cannot be trusted: {reason}", status.location))
    })?;
    if ready.origin == Origin::Bundled {
        return ui.line(&format!("{} is bundled, and trusted as such", show::name(status)));
    }
    if let Some(repair) = no_trust_helps(ready) {
        return Err(cannot().hint(repair));
    }
    if address.is_some_and(|address| address.folder().is_none()) {
        return Err(Failure::usage(format!(
            "{} has changed, and is no longer bundled",
            show::name(status)
        ))
        .hint("run the same command again"));
    }
    let remembered = home.remembered().map_err(unusable)?;
    let operators = home.operators_config(global);
    let said = address.map(|address| reload::said(&operators, address, &remembered));
    let said = said.unwrap_or_default();
    let trusted = trusted(status, ready, Agreed::These(said.grants.flags())).ok_or_else(cannot)?;
    if !ui.json {
        show::plugin(ui, &said, status, ready)?;
    }
    let (question, what) = match address {
        Some(_) => ("Trust these bytes?", "bytes are"),
        None => ("Trust this definition?", "definition is"),
    };
    agreed(ui, yes, question)?;
    let (folder, digest) = (trusted.source.folder().map(Path::to_owned), trusted.digest.clone());
    decide(home, global, &config.limits, |books| {
        let agreed = match address {
            Some(address) => Agreed::These(books.trust(address, &digest, &said)?),
            None => trusted.agreed.clone(),
        };
        let trusted = [Trusted { agreed, ..trusted }];
        reload::trust(books.lock(), &home.state, &trusted, &config.limits);
        Ok(())
    })?;
    note(home, config, [(show::name(status), folder, digest.clone())]);
    if ui.json {
        return ui.json(&json!({ "trusted": [show::to_json(status, ready)] }));
    }
    ui.line(&format!("{} is trusted, as long as its {what} sha256:{digest}", show::name(status)))
}

async fn project(
    ui: &Ui,
    home: &Home,
    global: &Global,
    folder: &Path,
    given: &TrustArguments,
) -> Result<(), Failure> {
    let file = folder.join(CONFIG_FILE);
    let text = read_project(&file)
        .map_err(|problem| Failure::usage(format!("{}: {problem}", file.display())))?;
    let config = match &text {
        Some(text) => config::parse_project(text, &Config::default()).map_err(|error| {
            Failure::usage(format!("{}: {error}", file.display()))
                .hint("a project is trusted with its whole file, so that has to be right")
        })?,
        None => ProjectFile::default(),
    };
    // Plugins that lie elsewhere are not the project's.
    let plugins = folder.join(PROJECT_PLUGINS);
    let scope = ReadScope::Project(folder.to_owned());
    let leads_to = scope.outside(&plugins).or_else(|| scope.real(&plugins).ok());
    if let Some(elsewhere) = leads_to.filter(|real| *real != plugins) {
        return Err(Failure::rejected(format!(
            "{} leads to {}, so a project cannot be trusted with it",
            plugins.display(),
            elsewhere.display()
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
        .filter(|(_, ready)| ready.origin != Origin::Bundled && no_trust_helps(ready).is_none())
        .collect();
    if ready.is_empty() && text.is_none() {
        let folder = folder.display();
        return Err(Failure::usage(format!("there is nothing to trust in {folder}"))
            .hint(format!("a project has plugins in `{PROJECT_PLUGINS}`, or a {CONFIG_FILE}")));
    }
    if !ui.json {
        for (status, ready) in &ready {
            let said = show::id(status).and_then(|id| config.plugins.get(id));
            show::plugin(ui, &said.map(Said::alone).unwrap_or_default(), status, ready)?;
        }
        let broken = found.iter().filter_map(|status| Some((status, status.state.as_ref().err()?)));
        for (status, reason) in broken {
            ui.line(&format!("{} does not load and is not trusted: {reason}", show::name(status)))?;
        }
        for status in &found {
            let repair = status.state.as_ref().ok().and_then(no_trust_helps);
            repair.map_or(Ok(()), |repair| {
                ui.line(&format!("{} waits and is not trusted: {repair}", show::name(status)))
            })?;
        }
        show::config(ui, &file, text.as_deref())?;
    }
    agreed(ui, given.yes, "Trust this project?")?;
    let digest = text.as_deref().map(|text| plugin::digest(text.as_bytes()).to_string());
    let trusted: Vec<Trusted> = ready
        .iter()
        .filter_map(|(status, ready)| trusted(status, ready, Agreed::More(Vec::new())))
        .collect();
    let record = TrustedProject::of(folder, digest.clone());
    decide(home, global, &settings.config.limits, |books| {
        for (status, _) in &ready {
            // What an id was given before is whose it was, and not the project's.
            show::id(status).map_or(Ok(()), |id| books.rewrite(id))?;
        }
        reload::trust(books.lock(), &home.state, &trusted, &settings.config.limits);
        books.lock().trust_project(record);
        Ok(())
    })?;
    source::of_project::record(&home.state, folder);
    let plugins = trusted.iter().map(|Trusted { source, digest, .. }| {
        (source.to_string(), source.folder().map(Path::to_owned), digest.clone())
    });
    let file = digest.iter().map(|digest| (file.display().to_string(), None, digest.clone()));
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
    (name, entry): (&str, &ServerConfig),
    given: &TrustArguments,
) -> Result<(), Failure> {
    if !ui.json {
        show::server(ui, name, entry)?;
    }
    agreed(ui, given.yes, "Trust this server?")?;
    let digest = ServerConfig::digest(entry);
    let server = Server { name: name.to_owned(), digest: digest.clone() };
    trust_store::change(&home.state, |lock| lock.trust_server(server)).map_err(unusable)?;
    note(home, config, [(format!("mcp:{name}"), None, digest.clone())]);
    if ui.json {
        return ui.json(&json!({ "server": name, "digest": format!("sha256:{digest}") }));
    }
    ui.line(&format!(
        "mcp:{name} is trusted, as long as its entry is this one; this version mounts no server yet"
    ))
}

/// What to do about a plugin that waits for something else than a person who looks at it.
fn no_trust_helps(ready: &Ready) -> Option<String> {
    ready.pending.as_ref().and_then(|pending| pending.repair.clone())
}

fn no_server<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Failure {
    let hint = match text::nearest(name, known).first() {
        Some(near) => format!("did you mean `mcp:{near}`?"),
        None => format!("add `[mcp_servers.{name}]` to toolhost.toml first"),
    };
    let name = text::one_line(&text::cut(name, 60));
    Failure::usage(format!("there is no server `{name}`")).hint(hint)
}

/// Writes to the audit log what was trusted: by name, folder and digest.
fn note(
    home: &Home,
    config: &Config,
    trusted: impl IntoIterator<Item = (String, Option<PathBuf>, String)>,
) {
    let audit = home.audit(config);
    for (what, folder, digest) in trusted {
        audit.note(audit::TrustEvent { what, folder, digest, by: "cli" });
    }
}

/// A definition that is to be trusted, if it is of something that can be.
fn trusted(status: &SourceStatus, ready: &Ready, agreed: Agreed) -> Option<Trusted> {
    Some(Trusted {
        source: status.source.clone()?,
        digest: ready.facts.digest.to_string(),
        bytes: ready.bytes.clone(),
        agreed,
        outline: ready.outline.clone(),
    })
}

/// Asks the person at the terminal, unless they have said so already.
fn agreed(ui: &Ui, yes: bool, question: &str) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    match ui.ask(question)? {
        Some(true) => Ok(()),
        Some(false) => Err(Failure::rejected("nothing is trusted")),
        None => Err(Failure::usage("nobody can be asked here, so nothing is trusted")
            .hint("to trust it all the same, add `--yes`")),
    }
}
