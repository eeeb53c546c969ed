//! Which plugin a command means: an id that only one plugin has, or words that name one of several.
//!
//! An id is never guessed at: where it fits several plugins, or one that does not lie here, the
//! answer is an error with the exact words for each of them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::Global;
use super::failure::Failure;
use super::home::Home;
use toolhost::HostSettings;
use toolhost_core::text;
use toolhost_core::tool::{Origin, Place, PluginAddress, PluginId};
use toolhost_sources::folder::{self, Folder};
use toolhost_sources::reload;
use toolhost_sources::remembered::Remembered;
use toolhost_state::config::Config;
use toolhost_state::read::{FileProblem, ReadScope};
use toolhost_wasm::script;
use toolhost_wasm::{self as plugin, Candidate};

/// The plugin that is meant.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub(super) address: PluginAddress,
    /// Its file, if it is there.
    pub(super) file: Option<Candidate>,
}

/// A command that is about one plugin.
#[derive(Clone, Copy, Debug)]
pub(super) struct CommandWords<'a> {
    /// Its name, such as `grant`.
    pub(super) name: &'a str,
    /// What else was given, for the words that choose.
    pub(super) rest: &'a str,
    /// It is about plugins whose files are gone, too.
    pub(super) of_gone: bool,
}

/// Where plugins are looked for.
pub(super) struct Chooser<'a> {
    home: &'a Home,
    settings: &'a HostSettings,
    /// What the operator says. A project that narrows that hides nothing here.
    config: Config,
    remembered: Remembered,
    command: CommandWords<'a>,
}

/// One plugin that may be meant.
struct Fitting {
    choice: Choice,
    /// It lies in a folder that is looked at here, or its file is gone from one.
    is_here: bool,
}

impl<'a> Chooser<'a> {
    pub(super) fn new(
        home: &'a Home,
        settings: &'a HostSettings,
        config: Config,
        command: CommandWords<'a>,
    ) -> Result<Chooser<'a>, Failure> {
        let remembered = home.remembered().map_err(super::decide::unusable)?;
        Ok(Chooser { home, settings, config, remembered, command })
    }

    /// The plugin of an id; of `bundled/ID` or `user/ID`; of a file; or of a folder and an id.
    ///
    /// # Errors
    /// If there is none, or the id is that of several.
    pub(super) fn choose(&self, what: &str) -> Result<Choice, Failure> {
        if what == "." || what == ".." {
            return Err(Failure::usage(format!("`{what}` is no plugin")));
        }
        let short = |prefix| what.strip_prefix(prefix).and_then(|id| PluginId::from_stem(id).ok());
        if let Some(id) = short("bundled/") {
            return self.bundled(what, id);
        }
        if let Some(id) = short("user/") {
            return self.of_user(what, &id);
        }
        if what.contains('/') {
            return self.at(what);
        }
        let id = super::grant::read_id(what)?;
        self.only(self.fitting(&id), &id)
    }

    /// The one plugin that fits, or words for each.
    fn only(&self, mut fitting: Vec<Fitting>, id: &PluginId) -> Result<Choice, Failure> {
        match fitting.as_slice() {
            [] => Err(self.none(id)),
            [one] if one.is_here => Ok(fitting.remove(0).choice),
            [one] => {
                let place = one.choice.address.to_string();
                let failure = Failure::usage(format!(
                    "there is no plugin `{id}` here; what is recorded is of {}",
                    text::one_line(&place)
                ));
                Err(failure.hint(self.words(&one.choice)))
            }
            several => {
                let failure =
                    Failure::usage(format!("{} plugins have the id `{id}`", several.len()));
                Err(several
                    .iter()
                    .fold(failure, |failure, one| failure.hint(self.words(&one.choice))))
            }
        }
    }

    /// The words that reach a plugin and no other.
    fn words(&self, choice: &Choice) -> String {
        let name = match (&choice.address.place, &choice.file) {
            (Place::Folder(_), Some(file)) => file.path.clone().into_os_string(),
            (Place::Folder(folder), None) => folder.join(choice.address.id.as_str()).into(),
            (Place::Bundled, _) => choice.address.to_string().into(),
        };
        let Some(name) = reload::typed(Path::new(&name)) else {
            // What is shown of it would name another one, or none.
            let shown = text::one_line(&name.to_string_lossy());
            return format!("go to the project of {shown}, and name it from there");
        };
        let CommandWords { name: command, rest, .. } = self.command;
        let words = format!("toolhost {command} {name} {rest}");
        format!("name the one you mean: `{}`", text::one_line(words.trim_end()))
    }

    fn none(&self, id: &PluginId) -> Failure {
        let failure = Failure::nobody(format!("there is no plugin `{id}`"));
        let mut known = folder::ids(&self.settings.folders, &self.settings.config.limits);
        if self.command.of_gone {
            known.extend(reload::recorded(&self.config, &self.remembered).into_keys());
            known.extend(self.config.ids.keys().cloned());
        }
        let near = text::nearest(id.as_str(), known.iter().map(PluginId::as_str));
        let failure = match near.as_slice() {
            [] => failure,
            near => failure.hint(format!("did you mean `{}`?", near.join("` or `"))),
        };
        failure.hint("`toolhost list` shows all plugins; `--plugins DIR` names another folder")
    }

    /// Every plugin of an id: those that lie here, and those of which something is recorded.
    fn fitting(&self, id: &PluginId) -> Vec<Fitting> {
        let recorded = reload::recorded(&self.config, &self.remembered);
        let recorded = recorded.get(id).cloned().unwrap_or_default();
        let mut fitting = self.here(id, &recorded);
        for address in recorded {
            if fitting.iter().any(|known| known.choice.address == address) {
                continue;
            }
            let file = address.folder().and_then(|folder| self.file_in(folder, id));
            let is_it = |file: &Candidate| self.address_of(file) == address;
            let file = file.filter(is_it);
            // What was granted to the bundled plugin of an id is nobody's who has taken its place.
            let is_bundled = address.folder().is_none() && !fitting.is_empty();
            if file.is_some() || self.command.of_gone || is_bundled {
                let is_here = match address.folder() {
                    None => true,
                    Some(folder) => file.is_none() && self.is_looked_at(folder),
                };
                fitting.push(Fitting { choice: Choice { address, file }, is_here });
            }
        }
        fitting
    }

    /// The plugins of an id that lie in the folders here. Copies of one are one.
    fn here(&self, id: &PluginId, recorded: &BTreeSet<PluginAddress>) -> Vec<Fitting> {
        let (mut fitting, mut digests) = (Vec::<Fitting>::new(), Vec::new());
        let mut bundled: Option<(usize, Candidate)> = None;
        for (file, _) in folder::find(&self.settings.folders, id, &self.settings.config.limits) {
            let digest = self.digest_of(&file);
            if let Some(age) = digest.as_ref().and_then(|digest| self.age(id, digest)) {
                // The newest build counts, and of equals the first.
                if bundled.as_ref().is_none_or(|(known, _)| age < *known) {
                    bundled = Some((age, file));
                }
                continue;
            }
            let address = PluginAddress::in_folder(&file.folder, id.clone());
            let is_copy = digest.is_some() && digests.contains(&digest);
            digests.push(digest);
            // What has the same bytes is not counted, and can be granted nothing; but it may have been.
            if !is_copy || recorded.contains(&address) {
                let choice = Choice { address, file: Some(file) };
                fitting.push(Fitting { choice, is_here: true });
            }
        }
        let bundled = bundled.map(|(_, file)| {
            let address = PluginAddress::bundled(id.clone());
            Fitting { choice: Choice { address, file: Some(file) }, is_here: true }
        });
        bundled.into_iter().chain(fitting).collect()
    }

    /// The bundled plugin of an id.
    fn bundled(&self, what: &str, id: PluginId) -> Result<Choice, Failure> {
        let address = PluginAddress::bundled(id);
        let found = self.fitting(&address.id);
        if let Some(found) = found.into_iter().find(|found| found.choice.address == address) {
            return Ok(found.choice);
        }
        Err(self.unknown(what, &address))
    }

    /// The plugin of an id in the user's own folders.
    fn of_user(&self, what: &str, id: &PluginId) -> Result<Choice, Failure> {
        let of_user = |folder: &&Folder| folder.origin == Origin::User;
        let folders: Vec<Folder> = self.settings.folders.iter().filter(of_user).cloned().collect();
        let found = folder::find(&folders, id, &self.settings.config.limits);
        let mut fitting: Vec<Fitting> = Vec::new();
        for (file, _) in found {
            let address = self.address_of(&file);
            if address.folder().is_some() {
                let choice = Choice { address, file: Some(file) };
                fitting.push(Fitting { choice, is_here: true });
            }
        }
        if fitting.is_empty() {
            let folder = real(&self.home.plugins);
            let address = PluginAddress::in_folder(&folder, id.clone());
            return self.gone(what, address);
        }
        self.only(fitting, id)
    }

    /// The plugin of a file, or of a folder and an id.
    fn at(&self, what: &str) -> Result<Choice, Failure> {
        let unreadable = |error| Failure::usage(format!("{what} cannot be read: {error}"));
        let whole = folder::whole(&self.settings.folders, Path::new(what));
        let named = std::path::absolute(whole).map_err(unreadable)?;
        let (Some(folder), Some(name)) = (named.parent(), named.file_name()) else {
            return Err(Failure::usage(format!("{what} is no plugin")));
        };
        let place = folder::place_of(&self.settings.folders, &named);
        // What was recorded is of the folder that lay there, and not of where a link leads by now.
        if self.command.of_gone && real(folder) != folder {
            let typed = id_of(&named).map(|id| PluginAddress::in_folder(folder, id));
            if let Some(address) = typed.filter(|typed| self.is_recorded(typed)) {
                return Ok(Choice { address, file: None });
            }
        }
        // Nothing is looked at that a stranger's link leads out to.
        let leads_out = |place: &ReadScope| {
            place.real(&named).is_err_and(|error| error.problem == FileProblem::LeadsOut)
        };
        if place.as_ref().is_ok_and(leads_out) {
            return Err(Failure::usage(format!("{what} {}", FileProblem::LeadsOut)));
        }
        // A link is a plugin by its own name, in the folder it lies in.
        let folder = real(folder);
        let path = folder.join(name);
        let stem = folder::stem(&path).map(|stem| PluginId::from_stem(&stem));
        if path.exists()
            && let Some(id) = stem
        {
            let id = id.map_err(|error| Failure::usage(error.to_string()))?;
            let place = place.map_err(unreadable)?;
            let file = Candidate { id, folder, path, place };
            return Ok(Choice { address: self.address_of(&file), file: Some(file) });
        }
        let id = id_of(&path);
        let no_plugin = |_| {
            Failure::usage(format!("{} is no plugin", path.display()))
                .hint("name a file that ends in `.wasm`, an id, or a folder")
        };
        let Some(id) = id else {
            return Err(path.symlink_metadata().map_or_else(unreadable, no_plugin));
        };
        if let Some(file) = self.file_in(&folder, &id) {
            return Ok(Choice { address: self.address_of(&file), file: Some(file) });
        }
        let gone = self.gone(what, PluginAddress::in_folder(&folder, id));
        gone.map_err(|error| path.symlink_metadata().map_or(error, no_plugin))
    }

    /// A plugin whose file is not there.
    fn gone(&self, what: &str, address: PluginAddress) -> Result<Choice, Failure> {
        if self.command.of_gone && self.is_recorded(&address) {
            return Ok(Choice { address, file: None });
        }
        Err(self.unknown(what, &address))
    }

    fn is_recorded(&self, address: &PluginAddress) -> bool {
        is_recorded(&self.config, &self.remembered, address)
    }

    fn unknown(&self, what: &str, address: &PluginAddress) -> Failure {
        let what = text::one_line(&text::cut(what, 200));
        let more = if self.command.of_gone { ", and nothing is recorded of one" } else { "" };
        let failure = Failure::usage(format!("there is no plugin {what}{more}"));
        let recorded = reload::recorded(&self.config, &self.remembered);
        let of_id = recorded.get(&address.id).cloned().unwrap_or_default();
        match of_id.is_empty() || !self.command.of_gone {
            true => failure,
            false => {
                let of_id: Vec<String> = of_id.iter().map(ToString::to_string).collect();
                failure.hint(text::one_line(&format!(
                    "something is recorded of {}",
                    of_id.join(" and of ")
                )))
            }
        }
    }

    fn file_in(&self, folder: &Path, id: &PluginId) -> Option<Candidate> {
        let folders = [Folder { path: folder.to_owned(), origin: Origin::Project }];
        let found = folder::find(&folders, id, &self.settings.config.limits);
        found.into_iter().next().map(|(file, _)| file)
    }

    fn is_looked_at(&self, folder: &Path) -> bool {
        let absolute = |path: &PathBuf| std::path::absolute(path).map(|path| real(&path));
        let mut folders = self.settings.folders.iter().map(|known| absolute(&known.path));
        folders.any(|known| known.is_ok_and(|known| known == folder))
    }

    /// Whose grants a file has.
    pub(super) fn address_of(&self, file: &Candidate) -> PluginAddress {
        let age = self.digest_of(file).and_then(|digest| self.age(&file.id, &digest));
        match age {
            Some(_) => PluginAddress::bundled(file.id.clone()),
            None => PluginAddress::in_folder(&file.folder, file.id.clone()),
        }
    }

    /// The digest of a component; what is bundled is one.
    fn digest_of(&self, file: &Candidate) -> Option<String> {
        if script::language(&file.path).is_some() {
            return None;
        }
        let bytes =
            plugin::read_component(&file.place, &file.path, &self.settings.config.limits).ok()?;
        Some(plugin::digest(&bytes).to_string())
    }

    fn age(&self, id: &PluginId, digest: &str) -> Option<usize> {
        self.remembered.bundled.get(&(id.to_string(), digest.to_owned())).copied()
    }
}

/// Tells whether a path is that of a plugin: one of which something is recorded, whatever lies there,
/// or a script's folder in one of the folders that are looked at.
pub(super) fn is_known(home: &Home, global: &Global, what: &str) -> Result<bool, Failure> {
    let Ok(path) = std::path::absolute(what) else { return Ok(false) };
    let (Some(folder), Some(id)) = (path.parent(), id_of(&path)) else { return Ok(false) };
    let remembered = home.remembered().map_err(super::decide::unusable)?;
    let config = home.operators_config(global);
    let addresses =
        [folder, &*real(folder)].map(|folder| PluginAddress::in_folder(folder, id.clone()));
    if addresses.iter().any(|address| is_recorded(&config, &remembered, address)) {
        return Ok(true);
    }
    // What is wrong with the settings is said where they are used.
    let folders = home.settings(global).map(|settings| settings.folders).unwrap_or_default();
    let absolute = |known: Folder| std::path::absolute(known.path).map(|path| real(&path));
    let is_there = |known: std::io::Result<PathBuf>| known.is_ok_and(|known| known == real(folder));
    Ok(script::language(&path).is_some() && folders.into_iter().map(absolute).any(is_there))
}

fn is_recorded(config: &Config, remembered: &Remembered, address: &PluginAddress) -> bool {
    let recorded = reload::recorded(config, remembered);
    recorded.get(&address.id).is_some_and(|known| known.contains(address))
}

/// The id that a path has as a plugin's.
fn id_of(path: &Path) -> Option<PluginId> {
    let bare = path.extension().is_none().then(|| path.file_name()).flatten();
    let id = bare.map(|name| name.to_string_lossy().into_owned());
    id.or_else(|| folder::stem(path)).and_then(|id| PluginId::from_stem(&id).ok())
}

/// A folder without links, as far as it is there.
fn real(folder: &Path) -> PathBuf {
    fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned())
}
