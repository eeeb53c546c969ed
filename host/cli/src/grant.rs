//! `toolhost grant` and `toolhost revoke`

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tokio::sync::watch;

use super::Global;
use super::choose::{Choice, Chooser, CommandWords};
use super::decide::{WantedChange, decide};
use super::failure::Failure;
use super::home::Home;
use super::inspect::need_line;
use super::trust::{self, TrustTarget};
use super::ui::Ui;
use toolhost as host;
use toolhost_core::text;
use toolhost_core::text::suspect::visible;
use toolhost_core::tool::{PluginAddress, PluginId, SourceId};
use toolhost_policy::capability::{self, Access, DirGrant, Grants, Kind};
use toolhost_sources::folder;
use toolhost_sources::reload::{self, Trusted};
use toolhost_state::audit::{Event, GrantEvent};
use toolhost_state::trust_store::Agreed;
use toolhost_wasm::{self as plugin, Loaded};

/// Needs that are named where a grant meets none of them; `toolhost inspect` shows all.
const ASKED_SHOWN_MAX: usize = 10;

/// Lets a plugin use something, from now on.
///
/// The grant is written to the operator's `toolhost.toml`, to the table of this plugin: its folder
/// and its id, such as `[plugins."/home/me/project/plugins/notes"]`, or `[plugins."bundled/json"]`.
/// It holds for the plugin's present bytes: when they change, the new ones wait until `toolhost
/// trust` or another grant. A plugin with the same id in another folder gets none of it. Of a
/// grant, a plugin gets only what it asks for; `toolhost inspect FILE` shows that.
#[derive(Debug, clap::Args)]
pub(super) struct GrantArguments {
    /// The plugin's id: its file name without `.wasm`; where several have that, `bundled/ID`,
    /// `user/ID` or the file.
    #[arg(value_name = "ID|FILE")]
    plugin: String,

    #[command(flatten)]
    grants: GrantFlags,

    /// Grant it even though the plugin does not ask for it yet.
    #[arg(long)]
    anyway: bool,
}

/// Revokes what a plugin was granted: what is named, or else everything and its trust. Or the trust
/// of a project or an MCP server.
#[derive(Debug, clap::Args)]
pub(super) struct RevokeArguments {
    /// The plugin's id: its file name without `.wasm`; where several have that, `bundled/ID`,
    /// `user/ID`, the file, or the folder and the id of one that is gone. A project's folder: `.`, or
    /// with a slash in it. Or `mcp:NAME`.
    #[arg(value_name = "ID|FILE|DIR|mcp:NAME")]
    what: String,

    #[command(flatten)]
    grants: GrantFlags,
}

/// Grants as they are written on the command line: a flag for each kind, which may be repeated.
#[derive(Debug)]
struct GrantFlags(Vec<(Kind, String)>);

impl clap::Args for GrantFlags {
    fn augment_args(command: clap::Command) -> clap::Command {
        let flag = |kind: Kind| {
            let flag = clap::Arg::new(kind.flag()).long(kind.flag()).help(kind.help());
            match kind.value_name() {
                Some(name) => flag.value_name(name).action(clap::ArgAction::Append),
                None => flag.action(clap::ArgAction::SetTrue),
            }
        };
        command.args(Kind::all().map(flag))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        GrantFlags::augment_args(command)
    }
}

impl clap::FromArgMatches for GrantFlags {
    fn from_arg_matches(given: &clap::ArgMatches) -> Result<GrantFlags, clap::Error> {
        let texts = |kind: Kind| -> Vec<(Kind, String)> {
            let flag = kind.flag();
            match kind.value_name() {
                Some(_) => {
                    let texts = given.get_many::<String>(flag).into_iter().flatten();
                    texts.map(|text| (kind, text.clone())).collect()
                }
                None => given.get_flag(flag).then(|| (kind, String::new())).into_iter().collect(),
            }
        };
        Ok(GrantFlags(Kind::all().flat_map(texts).collect()))
    }

    fn update_from_arg_matches(&mut self, given: &clap::ArgMatches) -> Result<(), clap::Error> {
        *self = GrantFlags::from_arg_matches(given)?;
        Ok(())
    }
}

impl GrantFlags {
    fn read(&self) -> Result<Grants, Failure> {
        let here = working_directory()?;
        let mut grants = Grants::default();
        for (kind, text) in &self.0 {
            let added = grants.add(*kind, text, Some(&here));
            added.map_err(|error| Failure::usage(error.to_string()))?;
        }
        Ok(grants)
    }
}

pub(super) async fn grant(ui: &Ui, global: &Global, given: &GrantArguments) -> Result<(), Failure> {
    let home = Home::from_environment()?;
    let grants = given.grants.read()?;
    if grants.is_empty() {
        let flags = listed(Kind::all().map(|kind| format!("`--{}`", kind.flag())), "or");
        return Err(Failure::usage("nothing to grant")
            .hint(format!("name what: {flags}; `toolhost doctor` shows what plugins ask for")));
    }
    let settings = home.settings(global)?;
    let rules = settings.directory_rules();
    for dir in grants.of() {
        plugin::check_grant(dir, &rules).map_err(Failure::usage)?;
    }
    let rest = grants.flags().join(" ");
    let command = CommandWords { name: "grant", rest: &rest, of_gone: false };
    let chooser = Chooser::new(&home, &settings, home.operators_config(global), command)?;
    let Choice { address, file } = chooser.choose(&given.plugin)?;
    let Some(file) = file else {
        return Err(Failure::usage(format!(
            "{address} is not there, so it can be granted nothing"
        )));
    };
    let (place, id) = (file.path.display().to_string(), address.id.to_string());
    let (_compiling, compiling) = watch::channel(BTreeSet::from([id]));
    let inspected = ui.while_waiting(host::inspect(&file.path, &settings), compiling).await;
    let (loaded, _) = inspected.map_err(|error| Failure::inspect(&place, &error))?;
    if let Some(unrecorded) = &loaded.unrecorded {
        return Err(Failure::rejected(format!("{place} is a script, and {unrecorded}"))
            .hint(plugin::RUNNER_REPAIR));
    }
    if !given.anyway {
        check_asked(&address, &loaded, &grants)?;
    }
    let digest = loaded.facts.digest.to_string();
    let wanted = WantedChange {
        words: &capability::quoted(&given.plugin),
        place: &place,
        digest: &digest,
        is_suspect: !folder::described(&loaded).suspect().is_empty(),
    };
    let limits = &settings.config.limits;
    decide(&home, global, limits, |books| {
        books.grant(&address, &wanted, &grants)?;
        // Last: a grant without a pin gives nothing.
        if let Some(folder) = address.folder() {
            let (id, folder) = (address.id.clone(), folder.to_owned());
            let trusted = [Trusted {
                source: SourceId::Plugin { id, folder },
                digest: digest.clone(),
                bytes: Some(folder::kept(loaded.packed.as_ref(), file.path.clone())),
                agreed: Agreed::More(grants.flags()),
                outline: folder::described(&loaded).surface().outline(),
            }];
            reload::trust(books.lock(), &home.state, &trusted, limits);
        }
        Ok(())
    })?;
    let folder = address.folder().map(Path::to_owned);
    home.audit(&settings.config).note(Event::Grant(Box::new(GrantEvent {
        what: format!("plugin:{}", address.id),
        folder: folder.clone(),
        digest: Some(digest.clone()),
        grants: grants.flags(),
        by: "cli",
    })));
    if ui.json {
        let mut report = to_json(&grants);
        report["plugin"] = address.id.as_str().into();
        report["folder"] = json!(folder);
        report["digest"] = digest.into();
        return ui.json(&report);
    }
    let id = &address.id;
    for (kind, text) in grants.all() {
        let what = kind.grant_words(&text);
        ui.line(&format!("plugin:{id} may use {what}, as long as its bytes are sha256:{digest}"))?;
    }
    Ok(())
}

/// Checks that a plugin asks for what it is granted.
fn check_asked(plugin: &PluginAddress, loaded: &Loaded, grants: &Grants) -> Result<(), Failure> {
    let id = &plugin.id;
    let unasked = loaded.unasked(grants);
    if unasked.is_empty() {
        let Some(dir) = loaded.only_read(grants).into_iter().next() else { return Ok(()) };
        let read = DirGrant { access: Access::Read, ..dir.clone() };
        return Err(Failure::usage(format!(
            "plugin:{id} only asks to read that: `--dir {dir}` would give it no more than `ro`"
        ))
        .hint(format!("grant `--dir {}`", capability::quoted(&read.to_string())))
        .hint("to grant it all the same, add `--anyway`"));
    }
    let needs = &loaded.registration.needs;
    let kinds: Vec<Kind> = Kind::all().filter(|kind| unasked.has(*kind)).collect();
    let flags = unasked.flags().join("` and `");
    let failure = Failure::usage(match kinds.as_slice() {
        [kind] if !capability::asks_for(needs, *kind) => {
            format!("plugin:{id} asks for no {}, so `{flags}` would give it nothing", kind.noun())
        }
        _ => format!("plugin:{id} does not ask for that: `{flags}` would give it nothing"),
    });
    let asks = needs.iter().map(|need| text::one_line(&visible(&need_line(need))));
    let specs = loaded.registration.tools.iter().map(|tool| tool.spec());
    let requires = specs.flat_map(|spec| {
        let tool = &spec.name;
        spec.requires_env
            .iter()
            .map(move |name| format!("env {}, which `{tool}` requires", visible(name)))
    });
    let asks: Vec<String> = asks.chain(requires).collect();
    let failure = match asks.as_slice() {
        [] => failure.hint("it asks for nothing at all"),
        asks => asks
            .iter()
            .take(ASKED_SHOWN_MAX)
            .fold(failure, |failure, need| failure.hint(format!("it asks for {need}"))),
    };
    Err(failure.hint("to grant it all the same, add `--anyway`"))
}

/// The grants by their keys.
fn to_json(grants: &Grants) -> Value {
    let mut report = json!({});
    for kind in Kind::all() {
        report[kind.key()] = match kind.value_name() {
            None => grants.has(kind).into(),
            Some(_) => grants.texts(kind).into(),
        };
    }
    report
}

/// Texts in the middle of a sentence, with a word before the last one.
pub(super) fn listed(texts: impl Iterator<Item = String>, word: &str) -> String {
    let texts: Vec<String> = texts.collect();
    match texts.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} {word} {last}", rest.join(", ")),
        _ => texts.join(""),
    }
}

pub(super) fn revoke(ui: &Ui, global: &Global, given: &RevokeArguments) -> Result<(), Failure> {
    let home = Home::from_environment()?;
    let target = TrustTarget::read(&home, global, &given.what)?;
    let chosen = given.grants.read()?;
    let TrustTarget::Plugin(words) = target else {
        if !chosen.is_empty() {
            return Err(Failure::usage("single grants are taken from plugins only")
                .hint("without flags, the project or the server is no longer trusted"));
        }
        return trust::forget(ui, &home, global, &target);
    };
    let settings = home.settings(global)?;
    let rest = chosen.flags().join(" ");
    let command = CommandWords { name: "revoke", rest: &rest, of_gone: true };
    let config = home.operators_config(global);
    let of_id = PluginId::from_stem(&words).ok().filter(|id| config.ids.contains_key(id));
    let chosen_plugin = Chooser::new(&home, &settings, config, command)?.choose(&words);
    let address = match (chosen_plugin, of_id) {
        (Ok(choice), _) => GrantTarget::Plugin(choice.address),
        // A table of an id that there is no plugin of.
        (Err(error), Some(id)) if error.is_of_nobody() => GrantTarget::Id(id),
        (Err(error), _) => return Err(error),
    };
    let limits = &settings.config.limits;
    let (count, was_trusted) = decide(&home, global, limits, |books| match &address {
        GrantTarget::Plugin(address) => books.revoke(address, &chosen),
        GrantTarget::Id(id) => books.revoke_of_id(id, &chosen).map(|count| (count, false)),
    })?;
    let (id, folder) = match &address {
        GrantTarget::Plugin(address) => (&address.id, address.folder().map(Path::to_owned)),
        GrantTarget::Id(id) => (id, None),
    };
    if count > 0 || was_trusted {
        home.audit(&home.operators_config(global)).note(Event::Revoke(Box::new(GrantEvent {
            what: format!("plugin:{id}"),
            folder: folder.clone(),
            digest: None,
            grants: chosen.flags(),
            by: "cli",
        })));
    }
    if ui.json {
        return ui.json(&json!({
            "plugin": id.as_str(),
            "folder": folder,
            "revoked": count,
            "was_trusted": was_trusted,
        }));
    }
    ui.line(&match count {
        0 if was_trusted => format!("plugin:{id} had no grant, and is no longer trusted"),
        0 => format!("plugin:{id} had no grant"),
        count => format!("plugin:{id} has lost {count} grant{}", if count == 1 { "" } else { "s" }),
    })
}

/// Whose grants are taken.
enum GrantTarget {
    Plugin(PluginAddress),
    /// Nobody's: what a table says that names only an id.
    Id(PluginId),
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
