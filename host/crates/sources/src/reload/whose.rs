//! Whose a grant is. The one place where it is decided what of the operator's tables is one
//! plugin's, which plugins there are to take for one another, and by what words each is named.
//!
//! A table that names a folder and an id is that plugin's. One that names only an id is of before:
//! it is whose the lock says that it was given to. Where the lock knows nobody, it gives nothing
//! until somebody trusts the only plugin of this id that there ever was.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::driver::Location;
use crate::remembered::Remembered;
use toolhost_core::text;
use toolhost_core::tool::{Origin, PluginAddress, PluginId};
use toolhost_policy::capability::{DirGrant, quoted};
use toolhost_state::config::{Config, IdShare, PluginConfig};
use toolhost_state::trust_store::Known;

/// Of a table that names only this id: whose what is, as far as that is known.
pub fn shares(id: &PluginId, remembered: &Remembered) -> Vec<(PluginAddress, IdShare)> {
    let is_bundled = |digest: &str| is_bundled(remembered, id, digest);
    let trusted: Vec<(&Known, &str)> = of_id(remembered, id)
        .filter_map(|known| Some((known, known.trusted.as_deref()?)))
        .collect();
    let (bundled, others): (Vec<_>, Vec<_>) =
        trusted.into_iter().partition(|(_, digest)| is_bundled(digest));
    let given = others.iter().filter(|(known, _)| known.grants.as_deref() != Some(&[]));
    let is_the_only_one = given.count() == 1 && bundled.is_empty();
    let has_permissions = others.len() == 1 && bundled.is_empty();
    let share = |(known, _): &(&Known, &str)| {
        let grants = match &known.grants {
            Some(grants) => Some(grants.clone()),
            // All that the file grants to the id, in the days when nobody wrote down to whom.
            None if is_the_only_one => None,
            None => Some(Vec::new()),
        };
        let share = IdShare { grants, permissions: has_permissions };
        (PluginAddress::in_folder(&known.folder, id.clone()), share)
    };
    let mut shares: Vec<(PluginAddress, IdShare)> = others.iter().map(share).collect();
    if remembered.bundled.keys().any(|(known, _)| known == id.as_str()) {
        let share = match others.is_empty() {
            // Its bytes are trusted, and nobody else's are.
            true => Some(IdShare::all()),
            false if bundled.is_empty() => None,
            false => {
                let listed = bundled.iter().filter_map(|(known, _)| known.grants.clone());
                Some(IdShare { grants: Some(listed.flatten().collect()), permissions: false })
            }
        };
        shares.extend(share.map(|share| (PluginAddress::bundled(id.clone()), share)));
    }
    shares
}

/// Tells whether a plugin is the only one of its id that was ever seen. Then what the operator
/// wrote for the id, and nobody was given, can only be meant for it.
pub fn is_the_only_one(address: &PluginAddress, remembered: &Remembered) -> bool {
    let is_bundled_id = remembered.bundled.keys().any(|(id, _)| id == address.id.as_str());
    if is_bundled_id && address.folder().is_some() {
        return false;
    }
    let is_other = |known: &Known| {
        let digest = known.trusted.as_deref();
        let digest = digest.or(known.build.as_ref().map(|build| build.digest.as_str()));
        let is_bundled = digest.is_some_and(|digest| is_bundled(remembered, &address.id, digest));
        !is_bundled && address.folder() != Some(known.folder.as_path())
    };
    !of_id(remembered, &address.id).any(is_other)
}

/// What the operator's file says of a plugin, whether it was agreed or not: what `toolhost trust`
/// would trust it with.
pub fn said(config: &Config, address: &PluginAddress, remembered: &Remembered) -> PluginConfig {
    let share = match config.ids.contains_key(&address.id) {
        true if is_the_only_one(address, remembered) => IdShare::all(),
        true => share(address, remembered),
        false => IdShare::nothing(),
    };
    config.plugin(address, &share, None)
}

/// What a plugin may, if its bytes are those that were trusted.
pub fn may(config: &Config, address: &PluginAddress, remembered: &Remembered) -> PluginConfig {
    let known = address.folder().map(|folder| remembered.plugin(folder, address.id.as_str()));
    let known = known.flatten().filter(|known| known.trusted.is_some());
    match (address.folder(), known) {
        // Nothing yet; this is what waits for somebody to trust it.
        (Some(_), None) => said(config, address, remembered),
        (_, known) => {
            let agreed = known.and_then(|known| known.grants.as_deref());
            let share = match config.ids.contains_key(&address.id) {
                true => share(address, remembered),
                false => IdShare::nothing(),
            };
            config.plugin(address, &share, agreed)
        }
    }
}

/// The directories that plugins were granted which are bundled or lie in these folders, each with
/// the id: what can be said of them before any has loaded.
pub fn directories(
    config: &Config,
    remembered: &Remembered,
    folders: &[PathBuf],
) -> Vec<(PluginId, DirGrant)> {
    let mut all = recorded(config, remembered);
    let is_bundled =
        |id: &&PluginId| remembered.bundled.keys().any(|(known, _)| known == id.as_str());
    for id in config.ids.keys().filter(is_bundled) {
        all.entry(id.clone()).or_default().insert(PluginAddress::bundled(id.clone()));
    }
    let is_trusted = |address: &&PluginAddress| match address.folder() {
        None => true,
        Some(folder) => {
            let known = remembered.plugin(folder, address.id.as_str());
            folders.iter().any(|known| known == folder)
                && known.is_some_and(|known| known.trusted.is_some())
        }
    };
    let addresses = all.values().flatten().filter(is_trusted);
    let granted = addresses.flat_map(|address| {
        let grants = may(config, address, remembered).grants;
        let dirs: Vec<DirGrant> = grants.of().cloned().collect();
        dirs.into_iter().map(|grant| (address.id.clone(), grant))
    });
    granted.collect()
}

fn share(address: &PluginAddress, remembered: &Remembered) -> IdShare {
    let shares = shares(&address.id, remembered);
    let own = shares.into_iter().find(|(known, _)| known == address);
    own.map_or_else(IdShare::nothing, |(_, share)| share)
}

/// Plugins of which something is recorded: a table that allows something, or that their bytes are
/// trusted.
pub fn recorded(
    config: &Config,
    remembered: &Remembered,
) -> BTreeMap<PluginId, BTreeSet<PluginAddress>> {
    let mut recorded: BTreeMap<PluginId, BTreeSet<PluginAddress>> = BTreeMap::new();
    let tables = config.plugins.iter().filter(|(_, table)| !table.allows_nothing());
    for (address, _) in tables {
        recorded.entry(address.id.clone()).or_default().insert(address.clone());
    }
    for known in &remembered.lock.plugins {
        let Some(digest) = &known.trusted else { continue };
        let Ok(id) = PluginId::from_stem(&known.id) else { continue };
        let address = match is_bundled(remembered, &id, digest) {
            true => PluginAddress::bundled(id.clone()),
            false => PluginAddress::in_folder(&known.folder, id.clone()),
        };
        recorded.entry(id).or_default().insert(address);
    }
    recorded
}

/// How a plugin is named so that a command reaches it and no other: by its id, if no other has
/// that; else as a bundled one, as one of the user's own folder, or by its file.
pub(super) fn words(
    address: &PluginAddress,
    origin: Origin,
    location: &Location,
    all: &BTreeMap<PluginId, BTreeSet<PluginAddress>>,
) -> String {
    let is_other = |known: &PluginAddress| known != address;
    if !all.get(&address.id).is_some_and(|known| known.iter().any(is_other)) {
        return address.id.to_string();
    }
    match (address.folder(), origin) {
        (None, _) => address.to_string(),
        (Some(_), Origin::User) => format!("user/{}", address.id),
        // Whoever names an id of several is told which there are.
        (Some(_), _) => location.file().and_then(typed).unwrap_or_else(|| address.id.to_string()),
    }
}

/// A path as somebody types it at a prompt; none if what can be shown of it would not reach it.
pub fn typed(path: &Path) -> Option<String> {
    let text = path.to_str().filter(|text| text::one_line(text) == **text)?;
    Some(quoted(text))
}

/// Tells whether bytes are those of the bundled plugin of an id.
pub fn is_bundled(remembered: &Remembered, id: &PluginId, digest: &str) -> bool {
    remembered.bundled.contains_key(&(id.to_string(), digest.to_owned()))
}

fn of_id<'a>(remembered: &'a Remembered, id: &PluginId) -> impl Iterator<Item = &'a Known> {
    remembered.of_id(id.as_str())
}
