//! Where plugins and sources of this user lie, in whatever project: who could write there would have what
//! was granted to others, or would run as this user with the next build.
//!
//! What is known of them is read when a host starts.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::HostSettings;
use toolhost_core::tool::{Origin, PluginId};
use toolhost_state::read::PLUGINS;
use toolhost_state::trust_store::{self, Lock};
use toolhost_wasm::{DirectoryRules, script};

/// Entries of a folder of plugins that are looked at.
const ENTRIES_MAX: usize = 10_000;

const GRANTED: &str = "plugins that were granted something or trusted";
const LINKED: &str = "what a plugin is linked to";
const OF_PROJECT: &str = "plugins of a trusted project";
const SOURCE: &str = "the source of a plugin, which is built unasked";

/// Keeps them all from grants for writing.
pub(crate) fn keep(rules: &mut DirectoryRules, settings: &HostSettings, lock: &Lock) {
    let of_user = settings.folders.iter().filter(|folder| folder.origin == Origin::User);
    of_user.for_each(|folder| links(rules, &folder.path));
    let trusted = lock.plugins.iter().filter(|known| known.trusted.is_some());
    let trusted = trusted
        .filter_map(|known| Some((known.folder.clone(), PluginId::from_stem(&known.id).ok()?)));
    let tables = settings.config.plugins.iter().filter(|(_, table)| !table.allows_nothing());
    let tables =
        tables.filter_map(|(address, _)| Some((address.folder()?.to_owned(), address.id.clone())));
    let plugins: BTreeSet<(PathBuf, PluginId)> = trusted.chain(tables).collect();
    let mut whole = BTreeSet::new();
    for (folder, id) in plugins {
        match folder.file_name().is_some_and(|name| name == PLUGINS) {
            true => _ = whole.insert(folder),
            // Another folder has more than plugins.
            false => files(rules, &folder, &id),
        }
    }
    for folder in &whole {
        rules.keep(folder, GRANTED, true);
        links(rules, folder);
    }
    for project in &lock.projects {
        rules.keep(&project.folder.join(PLUGINS), OF_PROJECT, true);
    }
    let agreed = settings.state.as_deref().map(trust_store::sources).unwrap_or_default();
    agreed.iter().for_each(|source| rules.keep(source, SOURCE, true));
}

/// Keeps what the plugins of a folder are linked to.
fn links(rules: &mut DirectoryRules, folder: &Path) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(ENTRIES_MAX);
    for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink())) {
        rules.keep(&entry.path(), LINKED, true);
    }
}

/// Keeps a plugin's files in a folder that is not one of plugins alone.
fn files(rules: &mut DirectoryRules, folder: &Path, id: &PluginId) {
    // Where nothing lies by now, something may be put.
    rules.keep(&folder.join(format!("{id}.wasm")), GRANTED, true);
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(ENTRIES_MAX);
    let is_it = |path: &PathBuf| PluginId::from_stem(&script::stem(path)).is_ok_and(|of| of == *id);
    for path in entries.map(|entry| entry.path()).filter(is_it) {
        rules.keep(&path, GRANTED, true);
    }
}
