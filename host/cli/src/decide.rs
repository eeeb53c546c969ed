//! What a person decides about authority: `toolhost.toml` and the lock are read, judged and written
//! as one, so that commands side by side come to what they come to one after the other.
//!
//! The file is written before the lock: a grant that nobody agreed to gives nothing, so a crash in
//! between leaves less authority and not more.

use std::fs;
use std::io::Write;
use std::path::Path;

use super::Global;
use super::failure::Failure;
use super::home::Home;
use toolhost_core::limits::Limits;
use toolhost_core::tool::{PluginAddress, PluginId};
use toolhost_policy::capability::Grants;
use toolhost_sources::reload;
use toolhost_sources::remembered::Remembered;
use toolhost_state::config::{self, Config, ConfigError, IdShare, PluginConfig};
use toolhost_state::trust_store::{self, Lock, LockError};

#[cfg(test)]
mod tests;

/// What the operator wrote, and what is remembered, while nobody else changes it.
pub(super) struct Books {
    /// The operator's file.
    text: String,
    /// What it says.
    config: Config,
    /// What is known of plugins.
    remembered: Remembered,
}

/// Decides something: changes both, or neither if it fails.
pub(super) fn decide<T>(
    home: &Home,
    global: &Global,
    limits: &Limits,
    change: impl FnOnce(&mut Books) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let named = home.operators_file(global);
    // What a link leads to is changed, and the link stays.
    let file = &fs::canonicalize(&named).unwrap_or(named);
    let bundled =
        || trust_store::bundled_digests(&home.state, home.built.as_deref()).map_err(unusable);
    let decided = trust_store::change(&home.state, |lock| {
        let before = read(file)?;
        let config = parse(file, &before)?;
        let state = Some(home.state.clone());
        let (bundled, built) = (bundled()?, home.built.clone());
        let mut remembered = Remembered::default().with_lock(lock.clone());
        (remembered.bundled, remembered.state, remembered.built) = (bundled, state, built);
        let mut books = Books { text: before.clone(), config, remembered };
        let value = change(&mut books)?;
        if books.text != before {
            // It must be readable: nobody could decide anything otherwise.
            parse(file, &books.text)?;
            write(file, &books.text).map_err(|error| failed(file, &error))?;
        }
        let after = books.remembered.lock().clone();
        if after != *lock {
            reload::prune(&after, &home.state, limits);
            *lock = after;
        }
        Ok(value)
    });
    decided.map_err(unusable)?
}

/// What is to be granted something.
pub(super) struct WantedChange<'a> {
    /// What commands call it.
    pub(super) words: &'a str,
    /// Its file.
    pub(super) place: &'a str,
    /// The digest of its present bytes.
    pub(super) digest: &'a str,
    /// It has texts that a person should look at.
    pub(super) is_suspect: bool,
}

impl Books {
    /// The lock, to be changed.
    pub(super) fn lock(&mut self) -> &mut Lock {
        self.remembered.lock_mut()
    }

    /// Writes a grant into the operator's file, if these bytes of the plugin may have it beside all
    /// that the plugin holds. They are still to be trusted with it.
    pub(super) fn grant(
        &mut self,
        plugin: &PluginAddress,
        wanted: &WantedChange<'_>,
        grants: &Grants,
    ) -> Result<(), Failure> {
        let WantedChange { words, place, digest, is_suspect } = *wanted;
        self.rewrite(&plugin.id)?;
        let is_known = self.trusts(plugin, digest);
        if plugin.folder().is_none() && !is_known {
            return Err(Failure::usage(format!("{place} has changed, and is no longer bundled"))
                .hint("run the same command again"));
        }
        if !is_known && is_suspect {
            return Err(Failure::rejected(format!(
                "{place} has texts that a person should look at before it is granted anything"
            ))
            .hint(format!("`toolhost trust {words}` shows them; grant it then")));
        }
        if let Some(folder) = plugin.folder() {
            let held = match self.lock().plugin(folder, plugin.id.as_str()) {
                Some(known) if known.trusted.is_some() => self.may(plugin).grants,
                _ => Grants::default(),
            };
            if !is_known && !covers(grants, &held) {
                let mut all = held.clone();
                all.extend(grants);
                let all = all.flags().join(" ");
                let (id, held) = (&plugin.id, held.flags().join(" "));
                return Err(Failure::usage(format!(
                    "{place} is not what plugin:{id} was when it was granted {held}, and would have that as well"
                ))
                .hint(format!("if that is meant, look at it with `toolhost inspect {place}`, then run `toolhost grant {words} {all}`"))
                .hint(format!("`toolhost trust {words}` shows what has changed; if that is not meant, run `toolhost revoke {words}` first")));
            }
            let known = self.lock().plugin_mut(folder, plugin.id.as_str());
            if is_known && known.grants.is_none() {
                known.grants = Some(held.flags());
            }
        }
        self.edit(|text| config::with_grants(text, plugin, grants))
    }

    /// What a plugin is trusted with, once a person was shown what the operator's file says of it:
    /// that, as far as it still stands there, since somebody may have granted or revoked something
    /// meanwhile.
    pub(super) fn trust(
        &mut self,
        plugin: &PluginAddress,
        digest: &str,
        shown: &PluginConfig,
    ) -> Result<Vec<String>, Failure> {
        self.adopt(plugin)?;
        let now = self.said(plugin);
        if now.allow_tool_override && !shown.allow_tool_override || now.update != shown.update {
            return Err(Failure::usage(format!("what plugin:{} may has changed", plugin.id))
                .hint("run the same command again"));
        }
        let mut grants = now.grants;
        grants.retain(&shown.grants.flags());
        if self.trusts(plugin, digest) {
            // What was granted to these very bytes by then is granted.
            grants.extend(&self.may(plugin).grants);
        }
        Ok(grants.flags())
    }

    /// Takes what is chosen from a plugin, or everything and that it is trusted. Returns how many
    /// grants and permissions that were, and whether it was trusted.
    pub(super) fn revoke(
        &mut self,
        plugin: &PluginAddress,
        chosen: &Grants,
    ) -> Result<(usize, bool), Failure> {
        let is_the_only_one = reload::is_the_only_one(plugin, &self.remembered);
        self.rewrite(&plugin.id)?;
        let held = self.said(plugin).grants;
        let chosen = &chosen.as_held(&held);
        check_held(&plugin.id, &held, chosen)?;
        let mut count = 0;
        self.edit(|text| {
            let (mut text, own) = config::without_grants(text, plugin, chosen)?;
            count = own;
            if is_the_only_one {
                // What is left there by now was given to nobody, and can be meant for nobody else.
                let (rest, of_id) = config::without_table_of_id(&text, &plugin.id, chosen)?;
                (text, count) = (rest, own + of_id);
            }
            Ok(text)
        })?;
        let id = plugin.id.as_str();
        let was_trusted = match plugin.folder() {
            Some(folder) if chosen.is_empty() => self.lock().distrust(folder, id),
            Some(folder) => {
                self.lock().withdraw(folder, id, &chosen.flags());
                false
            }
            None => {
                if chosen.is_empty() {
                    self.forget_bundled(&plugin.id);
                }
                false
            }
        };
        Ok((count, was_trusted))
    }

    /// Takes what is chosen from a table that names only an id, which no plugin has; or all of it.
    /// Returns how many grants and permissions that were.
    pub(super) fn revoke_of_id(
        &mut self,
        id: &PluginId,
        chosen: &Grants,
    ) -> Result<usize, Failure> {
        let said = self.config.ids.get(id).cloned().unwrap_or_default();
        let chosen = &chosen.as_held(&said.grants);
        check_held(id, &said.grants, chosen)?;
        let mut count = 0;
        self.edit(|text| {
            let (text, taken) = config::without_table_of_id(text, id, chosen)?;
            count = taken;
            Ok(text)
        })?;
        Ok(count)
    }

    /// Puts what the table of an id allows into tables of the plugins that it was given to, before
    /// something else is decided about one of them.
    pub(super) fn rewrite(&mut self, id: &PluginId) -> Result<(), Failure> {
        if !self.config.ids.contains_key(id) {
            return Ok(());
        }
        let shares = reload::shares(id, &self.remembered);
        let only = shares.iter().map(|(address, _)| address).find(|address| {
            shares.len() == 1 && reload::is_the_only_one(address, &self.remembered)
        });
        // Who has all of it is to have what it has now, and not what somebody writes there later.
        for (address, share) in &shares {
            let (None, Some(folder)) = (&share.grants, address.folder()) else { continue };
            let flags = self.may(address).grants.flags();
            self.remembered.lock_mut().plugin_mut(folder, id.as_str()).grants = Some(flags);
        }
        self.edit(|text| config::rewritten(text, id, &shares, only))
    }

    /// The same for a plugin that is trusted with what the table of its id allows, which nobody else
    /// was given.
    fn adopt(&mut self, plugin: &PluginAddress) -> Result<(), Failure> {
        self.rewrite(&plugin.id)?;
        if !reload::is_the_only_one(plugin, &self.remembered) {
            return Ok(());
        }
        let shares = [(plugin.clone(), IdShare::all())];
        self.edit(|text| config::rewritten(text, &plugin.id, &shares, None))
    }

    /// What the operator's file says of a plugin, whether it was agreed or not.
    fn said(&self, plugin: &PluginAddress) -> PluginConfig {
        reload::said(&self.config, plugin, &self.remembered)
    }

    /// What a plugin may, if its bytes are the trusted ones.
    fn may(&self, plugin: &PluginAddress) -> PluginConfig {
        reload::may(&self.config, plugin, &self.remembered)
    }

    /// Tells whether these bytes of a plugin were trusted.
    fn trusts(&self, plugin: &PluginAddress, digest: &str) -> bool {
        match plugin.folder() {
            None => reload::is_bundled(&self.remembered, &plugin.id, digest),
            Some(folder) => self.remembered.lock().trusts(folder, plugin.id.as_str(), digest),
        }
    }

    /// Forgets that folders were trusted with the bundled plugin of an id, as was done in the days
    /// before.
    fn forget_bundled(&mut self, id: &PluginId) {
        let bundled = self.remembered.bundled.clone();
        let lock = self.remembered.lock_mut();
        let is_it = |digest: &String| bundled.contains_key(&(id.to_string(), digest.clone()));
        for known in lock.plugins.iter_mut().filter(|known| known.id == id.as_str()) {
            if known.trusted.as_ref().is_some_and(is_it) {
                known.distrust();
            }
        }
    }

    /// Changes the operator's file.
    fn edit(
        &mut self,
        change: impl FnOnce(&str) -> Result<String, ConfigError>,
    ) -> Result<(), Failure> {
        let wrong = |error: ConfigError| Failure::usage(error.to_string());
        let text = change(&self.text).map_err(wrong)?;
        self.config = config::parse(&text, &Config::default()).map_err(wrong)?;
        self.text = text;
        Ok(())
    }
}

/// Tells whether all that is held is among what is given.
fn covers(given: &Grants, held: &Grants) -> bool {
    let given = given.all();
    held.all().iter().all(|grant| given.contains(grant))
}

/// Checks that everything that is chosen is held.
fn check_held(id: &PluginId, held: &Grants, chosen: &Grants) -> Result<(), Failure> {
    let mut missing = chosen.clone();
    missing.remove(held);
    if missing.is_empty() {
        return Ok(());
    }
    let missing = missing.flags().join(" ");
    let failure =
        Failure::usage(format!("plugin:{id} had no such grant: {missing}; nothing is taken back"));
    Err(match held.flags().join(" ") {
        held if held.is_empty() => failure.hint("it holds no grant"),
        held => failure.hint(format!("it holds {held}")),
    })
}

/// The text of the operator's file.
fn read(file: &Path) -> Result<String, Failure> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(failed(file, &error)),
    }
}

/// Writes the operator's file in one step.
fn write(file: &Path, text: &str) -> std::io::Result<()> {
    let folder = file.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut part = tempfile::NamedTempFile::new_in(folder)?;
    part.write_all(text.as_bytes())?;
    // The lock, which is written later, must not be on the disk before it.
    part.as_file().sync_all()?;
    part.persist(file).map_err(|error| error.error)?;
    Ok(())
}

fn parse(file: &Path, text: &str) -> Result<Config, Failure> {
    config::parse(text, &Config::default())
        .map_err(|error| Failure::usage(format!("{}: {error}", file.display())))
}

fn failed(file: &Path, error: &std::io::Error) -> Failure {
    Failure::usage(format!("{}: {error}", file.display()))
}

pub(super) fn unusable(error: LockError) -> Failure {
    Failure::usage(error.to_string())
}
