//! Folders of plugins: what lies in them, loaded and published.
//!
//! Starting up is reloading everything from nothing. What this room does not do yet: notice
//! changes while the host runs.

mod missing;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::task::{Id, JoinSet};

use crate::authority::{Grants, Kind};
use crate::config::{Config, PluginConfig};
use crate::limits::Limits;
use crate::lock::Pin;
use crate::plugin::{Candidate, Facts, LoadError, Loaded, Loader};
use crate::registry::Registry;
use crate::tool::{Meter, Need, Origin, PluginId, Registration, SourceId, Usage};
use missing::MissingHooks;

/// A folder of plugins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// Where it is.
    pub path: PathBuf,
    /// How far what lies there is trusted with names, unless it is bundled.
    pub origin: Origin,
}

/// One file of a plugins folder, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceStatus {
    /// The file; or the folder, if that cannot be read.
    pub path: PathBuf,
    /// The source, if the file's name is an id.
    pub source: Option<SourceId>,
    /// What it is, or on one line why it is no plugin and what to do.
    pub state: Result<Ready, String>,
    /// What its `register` used, also when it was stopped.
    pub usage: Usage,
}

/// A plugin that loaded. Its tools are in the catalog's report on its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ready {
    /// How far it is trusted with names.
    pub origin: Origin,
    /// What it asks for.
    pub needs: Vec<Need>,
    /// What else is known of it.
    pub facts: Facts,
    /// It is not counted: this other file has the same bytes, or is a newer build of the same
    /// bundled plugin.
    pub same_as: Option<PathBuf>,
    /// Grants that give nothing, each with the reason and what to do.
    pub grants: Vec<String>,
}

/// What this user's host remembers about plugins.
#[derive(Clone, Debug, Default)]
pub struct Remembered {
    /// Ids and digests of bundled plugins, with their ages.
    pub bundled: BTreeMap<(String, String), usize>,
    /// The bytes that grants were given to.
    pub pins: Vec<Pin>,
}

/// Loads everything in `folders`, side by side, and publishes it at once.
///
/// One file's failure is that file's status, and nothing else's.
///
/// # Cancel safety
/// Dropping the future stops the loads; nothing is published then.
pub async fn load_all(
    folders: &[Folder],
    loader: &Arc<Loader>,
    registry: &Registry,
    config: &Config,
    remembered: &Remembered,
) -> Vec<SourceStatus> {
    let (found, mut statuses) = scan_all(folders, &config.limits);
    let (loaded, failed) = load_side_by_side(found, loader).await;
    statuses.extend(failed);
    statuses.extend(publish(loaded, registry, config, remembered));
    statuses.sort_by(|left, right| left.path.cmp(&right.path));
    statuses
}

async fn load_side_by_side(
    found: Vec<Found>,
    loader: &Arc<Loader>,
) -> (Vec<(Found, Loaded, Usage)>, Vec<SourceStatus>) {
    let mut loads = JoinSet::new();
    // Reading and hashing keep a core busy; what compiles waits at the loader's own permits.
    let width = 2 * std::thread::available_parallelism().map_or(1, usize::from);
    let mut waiting = found.into_iter();
    let mut running: HashMap<Id, (Found, Arc<Meter>)> = HashMap::new();
    let (mut loaded, mut failed) = (Vec::new(), Vec::new());
    loop {
        for found in waiting.by_ref().take(width - running.len()) {
            let (loader, candidate) = (Arc::clone(loader), found.candidate.clone());
            let meter = Arc::new(Meter::default());
            let counting = Arc::clone(&meter);
            let load = loads.spawn(async move { loader.load(&candidate, &counting).await });
            running.insert(load.id(), (found, meter));
        }
        let Some(joined) = loads.join_next_with_id().await else { break };
        let (id, result) = match joined {
            Ok((id, result)) => (id, result),
            Err(error) => (error.id(), Err(LoadError::Internal(error.to_string()))),
        };
        let Some((found, meter)) = running.remove(&id) else { continue };
        match result {
            Ok(plugin) => loaded.push((found, plugin, meter.usage())),
            Err(error) => failed.push(status(&found, Err(error.to_string()), meter.usage())),
        }
    }
    (loaded, failed)
}

/// Gives each plugin its authority, and publishes all of them at once.
fn publish(
    mut loaded: Vec<(Found, Loaded, Usage)>,
    registry: &Registry,
    config: &Config,
    remembered: &Remembered,
) -> Vec<SourceStatus> {
    // The newest build of a bundled plugin first, then by rank: whoever comes first counts.
    // The bytes of one plugin under the name of another are a stranger's.
    let age = |found: &Found, plugin: &Loaded| {
        let known = (found.candidate.id.to_string(), plugin.facts.digest.to_string());
        remembered.bundled.get(&known).copied()
    };
    loaded.sort_by_cached_key(|(found, plugin, _)| {
        (age(found, plugin).unwrap_or(usize::MAX), found.rank, found.candidate.path.clone())
    });
    let (mut registrations, mut counted, mut statuses) = (Vec::new(), Vec::new(), Vec::new());
    for (found, mut plugin, usage) in loaded {
        let is_bundled = age(&found, &plugin).is_some();
        let twin = counted.iter().find(|(id, digest, twin_bundled, _)| {
            *digest == plugin.facts.digest
                || (is_bundled && *twin_bundled && *id == found.candidate.id)
        });
        let (id, digest) = (found.candidate.id.clone(), Arc::clone(&plugin.facts.digest));
        let mut ready = Ready {
            origin: if is_bundled { Origin::Bundled } else { found.origin },
            needs: plugin.registration.needs.clone(),
            facts: plugin.facts.clone(),
            same_as: None,
            grants: Vec::new(),
        };
        if let Some((_, _, _, path)) = twin {
            ready.same_as = Some(PathBuf::clone(path));
        } else {
            counted.push((id.clone(), digest, is_bundled, found.candidate.path.clone()));
            let settings = config.plugins.get(&id).cloned().unwrap_or_default();
            ready.grants =
                authorise(&found.candidate, &mut plugin, &settings, is_bundled, remembered);
            registrations.push(Registration {
                origin: ready.origin,
                rank: found.rank,
                allow_tool_override: settings.allow_tool_override,
                ..plugin.registration
            });
        }
        statuses.push(status(&found, Ok(ready), usage));
    }
    guard(&mut registrations, config);
    registry.publish(registrations);
    statuses
}

/// Puts stand-ins where hooks were granted that could stop or change a call, and are not there:
/// a guard that is changed, damaged or removed must not let pass what it was to stop.
fn guard(registrations: &mut Vec<Registration>, config: &Config) {
    for (id, plugin) in &config.plugins {
        let missing = MissingHooks::new(&plugin.grants.hooks);
        let is_of = |registration: &&mut Registration| matches!(&registration.source, SourceId::Plugin { id: known, .. } if known == id);
        let mut own: Vec<&mut Registration> = registrations.iter_mut().filter(is_of).collect();
        if missing.is_empty() || own.iter().any(|registration| registration.hooks.is_some()) {
            continue;
        }
        tracing::warn!(
            "plugin:{id} was granted hooks and gives none, so calls it was to hear of are refused: `toolhost doctor` says why"
        );
        match own.first_mut() {
            Some(registration) => registration.hooks = Some(Arc::new(missing)),
            None => registrations.push(missing.alone(id)),
        }
    }
}

/// Gives a plugin what it was granted, if it is made of the bytes that the grants were given to.
/// Returns why a grant gives nothing.
fn authorise(
    candidate: &Candidate,
    plugin: &mut Loaded,
    settings: &PluginConfig,
    is_bundled: bool,
    remembered: &Remembered,
) -> Vec<String> {
    let PluginConfig { grants, exclusive, .. } = settings;
    let pinned = remembered
        .pins
        .iter()
        .find(|pin| pin.folder == candidate.folder && pin.id == candidate.id.as_str());
    let trusted = is_bundled || pinned.is_some_and(|pin| pin.digest == *plugin.facts.digest);
    if trusted || grants.is_empty() {
        return plugin.grant(grants, exclusive);
    }
    plugin.grant(&Grants::default(), exclusive);
    let id = &candidate.id;
    let why = match pinned {
        Some(_) => "its bytes have changed since it was granted",
        None => "nobody has granted it to these bytes",
    };
    let all = grants.flags().join(" ");
    let pending = |(_, what): (Kind, String)| {
        format!(
            "{what} is pending: {why}; look at it with `toolhost inspect {}`, then `toolhost grant {id} {all}`",
            candidate.path.display()
        )
    };
    grants.all().into_iter().map(pending).collect()
}

fn status(found: &Found, state: Result<Ready, String>, usage: Usage) -> SourceStatus {
    let Candidate { id, folder, path } = found.candidate.clone();
    SourceStatus { path, source: Some(SourceId::Plugin { id, folder }), state, usage }
}

/// The status of what was never loaded.
fn refused(path: PathBuf, source: Option<SourceId>, reason: String) -> SourceStatus {
    SourceStatus { path, source, state: Err(reason), usage: Usage::default() }
}

/// A file that is worth a try.
struct Found {
    candidate: Candidate,
    origin: Origin,
    rank: usize,
}

/// Returns the files with this id in `folders`, the highest rank first.
pub fn find(folders: &[Folder], id: &PluginId, limits: &Limits) -> Vec<Candidate> {
    let (found, _) = scan_all(folders, limits);
    let mut found: Vec<Found> =
        found.into_iter().filter(|found| found.candidate.id == *id).collect();
    found.sort_by_key(|found| found.rank);
    found.into_iter().map(|found| found.candidate).collect()
}

fn scan_all(folders: &[Folder], limits: &Limits) -> (Vec<Found>, Vec<SourceStatus>) {
    let (mut found, mut statuses) = (Vec::new(), Vec::new());
    let mut seen = BTreeSet::new();
    for (rank, folder) in folders.iter().enumerate() {
        // A folder that is not there holds no plugins.
        let Ok(path) = std::fs::canonicalize(&folder.path) else { continue };
        if !seen.insert(path.clone()) {
            continue;
        }
        match scan(&path, limits) {
            Ok((candidates, problems)) => {
                let origin = folder.origin;
                found.extend(candidates.into_iter().map(|candidate| Found {
                    candidate,
                    origin,
                    rank,
                }));
                statuses.extend(problems);
            }
            Err(reason) => statuses.push(refused(path, None, reason)),
        }
    }
    (found, statuses)
}

/// Lists the files of one folder whose names end in `.wasm`; it does not look into folders.
fn scan(folder: &Path, limits: &Limits) -> Result<(Vec<Candidate>, Vec<SourceStatus>), String> {
    let failed = |error: std::io::Error| {
        format!("the folder cannot be read: {error}; check its permissions")
    };
    let mut candidates: BTreeMap<PluginId, Vec<PathBuf>> = BTreeMap::new();
    let mut statuses = Vec::new();
    let files_max = limits.plugin_files_max.0;
    for (count, entry) in std::fs::read_dir(folder).map_err(failed)?.enumerate() {
        if count == files_max {
            return Err(format!(
                "the folder holds more than `plugin_files_max` of {files_max} files; plugins need a folder of their own"
            ));
        }
        let path = entry.map_err(failed)?.path();
        let Some(stem) = wasm_stem(&path) else { continue };
        match PluginId::from_stem(&stem) {
            Ok(id) => candidates.entry(id).or_default().push(path),
            Err(error) => {
                statuses.push(refused(path, None, format!("{error}; rename the file")));
            }
        }
    }
    let mut found = Vec::new();
    for (id, paths) in candidates {
        let folder = folder.to_owned();
        match <[PathBuf; 1]>::try_from(paths) {
            Ok([path]) => found.push(Candidate { id, folder, path }),
            Err(paths) => statuses.extend(twins(&id, &folder, &paths)),
        }
    }
    Ok((found, statuses))
}

/// The stem of a file name that ends in `.wasm`. Hidden files are of no concern.
fn wasm_stem(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_string_lossy();
    let (stem, extension) = name.rsplit_once('.')?;
    (extension.eq_ignore_ascii_case("wasm") && !name.starts_with('.')).then(|| stem.to_owned())
}

/// Files of one folder with one id: all are refused, and each names the others.
fn twins(id: &PluginId, folder: &Path, paths: &[PathBuf]) -> Vec<SourceStatus> {
    let names: Vec<String> = paths
        .iter()
        .map(|path| format!("`{}`", path.file_name().unwrap_or_default().to_string_lossy()))
        .collect();
    let reason = format!(
        "{} have the same plugin id `{id}`; rename or remove all but one",
        names.join(" and ")
    );
    paths
        .iter()
        .map(|path| {
            let source = SourceId::Plugin { id: id.clone(), folder: folder.to_owned() };
            refused(path.clone(), Some(source), reason.clone())
        })
        .collect()
}
