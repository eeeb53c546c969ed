//! Folders of plugins: what lies in them, loaded and published.
//!
//! Starting up is reloading everything from nothing. A file that is broken, or waits for a
//! person, takes no working tool away: the build that was last in order is kept, also across
//! restarts, and serves in its place. What this room does not do yet: notice changes while the
//! host runs.

mod judge;
mod missing;
mod note;
mod remember;
mod scan;
mod settle;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

use tokio::task::{Id, JoinSet};

use crate::authority::Grants;
use crate::config::Config;
use crate::difference::Outline;
use crate::lock::{Lock, Owner};
use crate::plugin::{Candidate, Facts, LoadError, Loaded, Loader};
use crate::registry::{Owners, Registry};
use crate::store::Builds;
use crate::tool::{Meter, Need, Origin, PluginId, SourceId, Usage};
use judge::{Case, Judged, Verdict};
use scan::scan_all;
use settle::publish;

pub use judge::{surface, suspect};
pub use remember::{Trusted, trust};
pub use scan::find;
pub use settle::kept;

pub use note::note;

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
    /// An earlier build, which serves in its place.
    pub kept: Option<Box<Ready>>,
    /// What its `register` used, also when it was stopped.
    pub usage: Usage,
}

impl SourceStatus {
    /// The build whose tools are in the catalog, if there is one.
    pub fn serving(&self) -> Option<&Ready> {
        let file = || self.state.as_ref().ok().filter(|ready| ready.same_as.is_none());
        let serves = |ready: &&Ready| ready.pending.as_ref().is_none_or(|pending| pending.serves);
        self.kept.as_deref().or_else(|| file().filter(serves))
    }
}

/// A build that loaded. Its tools are in the catalog's report on its source, unless it waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ready {
    /// How far it is trusted with names.
    pub origin: Origin,
    /// A person has vouched for it: it is bundled, or its bytes or its project were trusted.
    pub trusted: bool,
    /// The operator's rule (`update`) has trusted it just now.
    pub trusted_by_rule: bool,
    /// What it asks for.
    pub needs: Vec<Need>,
    /// What it declares, in short.
    pub outline: Outline,
    /// What else is known of it.
    pub facts: Facts,
    /// Of a script: its bytes, as they are kept.
    pub packed: Option<Arc<[u8]>>,
    /// It is not counted: this other file has the same bytes, or is a newer build of the same
    /// bundled plugin.
    pub same_as: Option<PathBuf>,
    /// What it was granted, whether it gives anything or not.
    pub granted: Grants,
    /// Grants that give nothing, each with the reason and what to do.
    pub grants: Vec<String>,
    /// What it waits for, if it does.
    pub pending: Option<Pending>,
}

/// What a build waits for: a person to look at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Why.
    pub why: String,
    /// What happens until then.
    pub meanwhile: String,
    /// It serves meanwhile, without what it was granted.
    pub serves: bool,
    /// Texts that a person should look at, with their places.
    pub suspicions: Vec<String>,
    /// How it differs from the build before, a line each; the first ones.
    pub differences: Vec<String>,
    /// How many differences there are.
    pub differences_count: usize,
}

/// What this user's host remembers about plugins.
#[derive(Clone, Debug, Default)]
pub struct Remembered {
    /// Ids and digests of bundled plugins, with their ages.
    pub bundled: BTreeMap<(String, String), usize>,
    /// What was seen and what was trusted.
    pub lock: Lock,
    /// Where it is remembered, and where builds are kept.
    pub state: Option<PathBuf>,
}

impl Remembered {
    /// Who had which name, for the registry.
    pub fn owners(&self) -> Owners {
        let source = |owner: &Owner| {
            let id = PluginId::from_stem(&owner.id).ok()?;
            Some(SourceId::Plugin { id, folder: owner.folder.clone() })
        };
        let of_name = |(name, owners): (&String, &Vec<Owner>)| {
            (name.clone(), owners.iter().filter_map(source).collect())
        };
        self.lock.names.iter().map(of_name).collect()
    }
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
    let cases: Vec<Case<'_>> =
        found.iter().map(|found| Case::new(found, config, remembered)).collect();
    let mut plugins = load_files(cases, loader).await;
    load_stand_ins(&mut plugins, loader, remembered).await;
    let (published, seen) = publish(plugins, registry, config);
    statuses.extend(published);
    statuses.sort_by(|left, right| left.path.cmp(&right.path));
    let (remembered, limits) = (remembered.clone(), config.limits.clone());
    let remember = move || remember::remember(&remembered, &seen, &limits);
    if let Err(error) = tokio::task::spawn_blocking(remember).await {
        tracing::error!(%error, "what was seen of plugins is not remembered");
    }
    statuses
}

/// One plugin on its way to the shelf.
struct Plugin<'a> {
    case: Case<'a>,
    /// What became of its file.
    file: Result<Judged, String>,
    usage: Usage,
    /// An earlier build, which serves in its place.
    kept: Option<Judged>,
}

impl Plugin<'_> {
    /// The build that serves, if one does.
    fn serving(&self) -> Option<&Judged> {
        let file = self.file.as_ref().ok().filter(|file| file.may_serve());
        self.kept.as_ref().or(file)
    }

    /// Whose turn it is: the newest build of a bundled plugin first, then by rank.
    fn turn(&self) -> (usize, usize, PathBuf) {
        let age = self.serving().and_then(|serving| serving.age).unwrap_or(usize::MAX);
        (age, self.case.found.rank, self.case.found.candidate.path.clone())
    }
}

async fn load_files<'a>(cases: Vec<Case<'a>>, loader: &Arc<Loader>) -> Vec<Plugin<'a>> {
    let candidates = cases.iter().enumerate().filter(|(_, case)| case.found.twins.is_none());
    let candidates =
        candidates.map(|(place, case)| (place, case.found.candidate.clone())).collect();
    let mut loads: HashMap<usize, Load> = load_side_by_side(candidates, loader).await;
    let plugin = |(place, case): (usize, Case<'a>)| {
        let (result, usage) = loads.remove(&place).unwrap_or_else(|| {
            let reason = case.found.twins.clone().unwrap_or_default();
            (Err(reason), Usage::default())
        });
        let file = result.map(|loaded| case.judge(loaded));
        Plugin { case, file, usage, kept: None }
    };
    cases.into_iter().enumerate().map(plugin).collect()
}

/// Loads kept builds where a file is broken or waits.
async fn load_stand_ins(plugins: &mut [Plugin<'_>], loader: &Arc<Loader>, remembered: &Remembered) {
    let Some(builds) = remembered.state.as_deref().map(Builds::new) else { return };
    let mut left: HashMap<usize, VecDeque<&str>> = HashMap::new();
    for (place, plugin) in plugins.iter().enumerate() {
        let is_in_order =
            |file: &Judged| matches!(file.verdict, Verdict::Trusted { .. } | Verdict::Free);
        if !plugin.file.as_ref().is_ok_and(is_in_order) {
            left.insert(place, plugin.case.stand_ins().into());
        }
    }
    // Where the best does not serve, the next one may.
    loop {
        let (mut tried, mut candidates) = (HashMap::new(), Vec::new());
        for (place, digests) in &mut left {
            while let Some(digest) = digests.pop_front() {
                if let Some(path) = builds.find(digest) {
                    let candidate = plugins[*place].case.found.candidate.clone();
                    candidates.push((*place, Candidate { path, ..candidate }));
                    tried.insert(*place, digest);
                    break;
                }
            }
        }
        if candidates.is_empty() {
            return;
        }
        for (place, (result, _)) in load_side_by_side(candidates, loader).await {
            let plugin = &mut plugins[place];
            let digest = tried.get(&place).copied().unwrap_or_default();
            match stand_in(&plugin.case, result, digest, &builds) {
                Ok(judged) => {
                    plugin.kept = Some(judged);
                    left.remove(&place);
                }
                Err(reason) => {
                    let id = &plugin.case.found.candidate.id;
                    tracing::warn!("a kept build of plugin:{id} does not serve: {reason}");
                }
            }
        }
    }
}

/// Judges a kept build. What lies there may have been changed, and what was in order may be so no
/// more.
fn stand_in(
    case: &Case<'_>,
    result: Result<Loaded, String>,
    digest: &str,
    builds: &Builds,
) -> Result<Judged, String> {
    let judged = case.judge(result?);
    if **judged.digest() != *digest {
        // So that it can be kept again.
        let discarded = builds.discard(digest);
        let why = discarded.err().map(|error| format!(", and cannot be removed: {error}"));
        return Err(format!("it is not what was kept{}", why.unwrap_or_default()));
    }
    match judged.verdict {
        Verdict::Trusted { by_rule: false } | Verdict::Free => Ok(judged),
        _ => Err("it waits for a person itself".to_owned()),
    }
}

type Load = (Result<Loaded, String>, Usage);

/// Loads candidates, each with a number of its own.
async fn load_side_by_side(
    candidates: Vec<(usize, Candidate)>,
    loader: &Arc<Loader>,
) -> HashMap<usize, Load> {
    let mut loads = JoinSet::new();
    // Reading and hashing keep a core busy; what compiles waits at the loader's own permits.
    let width = 2 * std::thread::available_parallelism().map_or(1, usize::from);
    let mut waiting = candidates.into_iter();
    let mut running: HashMap<Id, (usize, Arc<Meter>)> = HashMap::new();
    let mut done = HashMap::new();
    loop {
        for (place, candidate) in waiting.by_ref().take(width - running.len()) {
            let loader = Arc::clone(loader);
            let meter = Arc::new(Meter::default());
            let counting = Arc::clone(&meter);
            let load = loads.spawn(async move { loader.load(&candidate, &counting).await });
            running.insert(load.id(), (place, meter));
        }
        let Some(joined) = loads.join_next_with_id().await else { break };
        let (id, result) = match joined {
            Ok((id, result)) => (id, result),
            Err(error) => (error.id(), Err(LoadError::Internal(error.to_string()))),
        };
        let Some((place, meter)) = running.remove(&id) else { continue };
        done.insert(place, (result.map_err(|error| error.to_string()), meter.usage()));
    }
    done
}

/// The status of what was never loaded.
fn refused(path: PathBuf, source: Option<SourceId>, reason: String) -> SourceStatus {
    SourceStatus { path, source, state: Err(reason), kept: None, usage: Usage::default() }
}
