//! The last step of a load: each plugin gets its authority, and all are published at once.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use super::fail_closed::MissingHooks;
use super::persist::{self, NewBuild, Seen};
use super::source::Source;
use super::supervisor::Parts;
use super::trust_policy::{Case, Judged, Verdict, surface};
use super::{Failed, Location, Pending, Ready, SourceStatus, whose};
use crate::remembered::Remembered;
use toolhost_core::tool::{
    Hooks, Origin, Place, PluginAddress, PluginId, Registration, Rejection, SourceId,
};
use toolhost_kernel::registry::Catalog;
use toolhost_policy::capability::{Exclusive, Grants, HookGrant, Kind};
use toolhost_policy::diff::changes;
use toolhost_state::config::Config;
use toolhost_state::store::{Builds, Kept};
use toolhost_wasm::{Candidate, Loaded, Phase};

/// A build with its authority; the same as long as nothing of this changes.
pub(super) struct Given {
    grants: Grants,
    exclusive: Vec<Exclusive>,
    /// Of the values of variables and secrets.
    values: u64,
    /// What commands are to call the plugin.
    words: String,
    loaded: Loaded,
    /// Grants that give nothing, each with the reason.
    idle: Vec<String>,
}

/// What was published.
pub(super) struct Settled {
    pub(super) statuses: Vec<SourceStatus>,
    pub(super) seen: Vec<Seen>,
    pub(super) catalog: Arc<Catalog>,
    /// Builds that serve no more.
    pub(super) replaced: Vec<Loaded>,
}

/// One plugin on its way to the registry.
struct Plugin<'a> {
    case: Case<'a>,
    source: &'a Source,
    /// What became of its file.
    file: Result<Judged, Failed>,
    /// An earlier build, which serves in its place.
    kept: Option<Judged>,
}

/// Gives each plugin its authority, and publishes all of them at once. Kept builds that have to be
/// loaded first come into `wanted`.
pub(super) fn settle(
    sources: &mut BTreeMap<SourceId, Source>,
    config: &Config,
    remembered: &Remembered,
    parts: &Parts,
    guards: &mut Guards,
    (values, builds): (u64, Option<&Builds>),
    wanted: &mut Vec<(SourceId, String, Candidate)>,
) -> Settled {
    let (mut plugins, mut statuses) = (Vec::new(), Vec::new());
    let (mut registrations, mut awaited) = (Vec::new(), BTreeSet::new());
    let mut all = whose::recorded(config, remembered);
    for source in sources.values() {
        let case = Case::new(&source.found, config, remembered);
        let Some(file) = source.judged(&case) else {
            let address = case.address(None);
            all.entry(address.id.clone()).or_default().insert(address);
            statuses.push(source.loading());
            registrations.extend(source.registers(&case));
            continue;
        };
        let address = case.address(file.as_ref().ok());
        all.entry(address.id.clone()).or_default().insert(address);
        let (kept, missing) = match &file {
            Ok(judged) if judged.is_in_order() => (None, None),
            _ => source.stand_in(&case, builds),
        };
        let is_awaited = kept.is_none() && missing.is_some();
        let id = || source.found.source.clone();
        wanted.extend(missing.map(|(digest, candidate)| (id(), digest, candidate)));
        if is_awaited && file.is_ok() {
            // No call meets bytes that wait while the build that stands in for them is read.
            awaited.insert(id());
            statuses.push(source.loading());
            registrations.extend(source.registers(&case));
            continue;
        }
        plugins.push(Plugin { case, source, file, kept });
    }
    // Whoever comes first counts.
    plugins.sort_by_cached_key(Plugin::turn);
    let mut counted = Vec::new();
    let (mut seen, mut hearing, mut serving) = (Vec::new(), Vec::new(), Vec::new());
    let mut replaced = Vec::new();
    let mut to_load = Vec::new();
    for mut plugin in plugins {
        let twin = plugin.serving().and_then(|serving| {
            let id = &plugin.case.found.candidate.id;
            let is_twin = |(known, digest, bundled, _): &&Counted| {
                digest == serving.digest() || (serving.age.is_some() && *bundled && known == id)
            };
            counted.iter().find(is_twin).map(|(.., location)| location.clone())
        });
        if twin.is_none() {
            seen.push(plugin.seen());
            if let Some(serving) = plugin.serving() {
                let Candidate { id, path, .. } = &plugin.case.found.candidate;
                let (digest, bundled) = (Arc::clone(serving.digest()), serving.age.is_some());
                counted.push((id.clone(), digest, bundled, Location::File(path.clone())));
            }
        }
        let replaced_before = replaced.len();
        let (status, registration) = plugin.settle(twin, &all, (values, parts), &mut replaced);
        let has_other_authority = replaced.len() > replaced_before;
        let is_to_be_loaded = |file: &Judged| {
            file.is_to_be_loaded() || file.loaded.is_recorded() && has_other_authority
        };
        if plugin.file.as_ref().is_ok_and(is_to_be_loaded) && plugin.source.busy.is_none() {
            to_load.push(plugin.case.found.source.clone());
        }
        if let (Some(hears), Some(serving)) = (&registration, plugin.serving())
            && hears.hooks.is_some()
        {
            let granted = plugin.case.settings(serving).grants.clone();
            hearing.push((plugin.case.address(Some(serving)), granted));
        }
        let id = plugin.case.found.source.clone();
        let last = plugin.file.as_ref().ok().filter(|file| file.is_in_order());
        let last = last.map(|file| Arc::clone(file.digest()));
        let serves = registration.as_ref().and_then(|published| published.digest.clone());
        let may_stand_in: Vec<String> = match &plugin.file {
            Ok(file) if file.is_in_order() => Vec::new(),
            _ => plugin.case.stand_ins().into_iter().map(str::to_owned).collect(),
        };
        serving.push((id, serves, last, may_stand_in));
        registrations.extend(registration);
        statuses.push(status);
    }
    guards.stand_in(&mut registrations, config, &hearing);
    let catalog = parts.registry.settle(registrations, remembered.owners());
    for seen in &mut seen {
        let source = SourceId::Plugin { id: seen.id.clone(), folder: seen.folder.clone() };
        seen.names = persist::names(&catalog, &source);
    }
    for (id, source) in sources.iter_mut() {
        source.is_awaited = awaited.contains(id);
    }
    for (id, serves, last, may_stand_in) in serving {
        let Some(source) = sources.get_mut(&id) else { continue };
        if let (Some(before), Some(now)) = (&source.serving, &serves)
            && before != now
        {
            parts.quarantine.fresh(id, Arc::clone(now), Arc::clone(before));
        }
        source.serving = serves;
        source.last = last.or_else(|| source.last.take());
        source.trim(&may_stand_in);
    }
    for id in to_load {
        sources.get_mut(&id).into_iter().for_each(Source::load_again);
    }
    Settled { statuses, seen, catalog, replaced }
}

/// Where the bytes of a build are, to be kept.
pub fn kept(packed: Option<&Arc<[u8]>>, path: PathBuf) -> Kept {
    packed.cloned().map_or(Kept::File(path), Kept::Bytes)
}

/// A plugin that counts: its id, its digest, whether it is bundled, and where it is.
type Counted = (PluginId, Arc<str>, bool, Location);

impl Source {
    /// What is told of a source that was not read yet.
    fn loading(&self) -> SourceStatus {
        let reason = "it is being loaded".to_owned();
        let location = Location::File(self.found.candidate.path.clone());
        let source = Some(self.found.source.clone());
        let refused = SourceStatus::refused(location, source, Phase::Read, reason);
        SourceStatus { loading: true, ..refused }
    }

    /// It is gone, and serves no more.
    pub(super) fn retire(&self) {
        if let Some(work) = &self.busy {
            work.abort();
        }
        let given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(given) = &*given {
            given.loaded.retire();
        }
    }
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

    /// What is to be remembered of it.
    fn seen(&self) -> Seen {
        let Candidate { id, folder, path, .. } = self.case.found.candidate.clone();
        let in_order = self.file.as_ref().ok().filter(|file| file.is_in_order());
        let known = self.case.known.and_then(|known| known.build.as_ref());
        let is_new = |file: &&Judged| known.is_none_or(|known| *known.digest != **file.digest());
        let build = in_order.filter(is_new).map(|file| NewBuild {
            bytes: kept(file.loaded.packed.as_ref(), path),
            digest: Arc::clone(file.digest()),
            outline: file.surface.outline(),
            trust: file.trusted_by().is_some(),
            judged_by: (
                self.case.known.and_then(|known| known.trusted.clone()),
                known.map(|known| known.digest.clone()),
            ),
        });
        let is_trusted = self.serving().is_some_and(Judged::is_trusted);
        let of_stranger = self.case.found.origin == Origin::Project && !is_trusted;
        Seen { folder, id, of_stranger, build, names: Vec::new() }
    }

    /// Gives the build that serves its authority. Returns what is to be told, and published.
    fn settle(
        &mut self,
        twin: Option<Location>,
        all: &BTreeMap<PluginId, BTreeSet<PluginAddress>>,
        (values, parts): (u64, &Parts),
        replaced: &mut Vec<Loaded>,
    ) -> (SourceStatus, Option<Registration>) {
        let case = &self.case;
        let found = case.found;
        let address = case.address(self.file.as_ref().ok());
        let words = whose::words(&address, found.origin, &found.named, all);
        let ready = |judged: &Judged| Ready {
            origin: if judged.age.is_some() { Origin::Bundled } else { found.origin },
            trusted: judged.is_trusted(),
            trusted_by: judged.trusted_by(),
            needs: judged.loaded.registration.needs.clone(),
            outline: judged.surface.outline(),
            facts: judged.loaded.facts.clone(),
            packed: judged.loaded.packed.clone(),
            changes: Vec::new(),
            same_as: None,
            granted: case.settings(judged).grants.clone(),
            grants: Vec::new(),
            pending: None,
        };
        let mut state = self.file.as_ref().map(ready).map_err(Clone::clone);
        let mut kept = self.kept.as_ref().map(|judged| Box::new(ready(judged)));
        let mut registration = None;
        let pending = self.file.as_ref().ok();
        let pending = pending.and_then(|file| case.pending(file, self.kept.as_ref()));
        if let Some(twin) = twin {
            if let Ok(ready) = &mut state {
                ready.same_as = Some(twin);
            }
            kept = None;
        } else {
            let waiting = match (&self.kept, &self.file, &pending) {
                (None, Ok(file), Some(pending)) if !pending.serves => waiting(file, pending),
                _ => Vec::new(),
            };
            let serving = match (&mut self.kept, &mut self.file) {
                (Some(kept), _) => Some(kept),
                (None, Ok(file)) => Some(file),
                (None, Err(_)) => None,
            };
            if let Some(serving) = serving {
                let idle =
                    authorise(case, serving, (self.source, &words), (values, parts), replaced);
                let published = Registration {
                    origin: if serving.age.is_some() { Origin::Bundled } else { found.origin },
                    rank: found.rank,
                    allow_tool_override: case.may_override(serving),
                    trusted: serving.is_trusted(),
                    ..serving.loaded.registration.clone()
                };
                registration = Some(match waiting.is_empty() {
                    true => published,
                    false => Registration { tools: Vec::new(), hooks: None, waiting, ..published },
                });
                let changes = self.source.changes.lock().unwrap_or_else(PoisonError::into_inner);
                let ready = kept.as_deref_mut().or(state.as_mut().ok());
                if let Some(ready) = ready {
                    (ready.grants, ready.changes) = (idle, changes.clone());
                }
            }
        }
        if let Ok(ready) = &mut state
            && ready.same_as.is_none()
        {
            ready.pending = pending;
        }
        let source = Some(found.source.clone());
        let location = Location::File(found.candidate.path.clone());
        let (loading, usage) = (self.source.busy.is_some(), self.source.usage);
        let read = self.source.read.as_ref().map(|(stamp, _)| stamp.clone());
        let status = SourceStatus { source, location, words, state, loading, read, kept, usage };
        (status, registration)
    }
}

/// The tools of a build that waits and has no stand-in.
fn waiting(file: &Judged, pending: &Pending) -> Vec<Rejection> {
    let reason = format!("its plugin is pending review: {}", pending.why);
    let tools = file.loaded.registration.tools.iter();
    tools
        .map(|tool| Rejection { tool: tool.spec().name.to_string(), reason: reason.clone() })
        .collect()
}

/// Stand-ins where hooks were granted that could stop or change a call, and are not there: a guard
/// that is changed, damaged or removed must not let pass what it was to stop.
#[derive(Default)]
pub(super) struct Guards(HashMap<(PluginId, Option<Place>), StandIn>);

/// What was granted, and what stands for it.
type StandIn = (Vec<HookGrant>, Arc<dyn Hooks>);

impl Guards {
    /// The stand-in for what was granted; the same as long as that is.
    fn of(
        &mut self,
        id: &PluginId,
        place: Option<&Place>,
        grants: &[HookGrant],
    ) -> Option<Arc<dyn Hooks>> {
        let key = (id.clone(), place.cloned());
        if let Some((known, hooks)) = self.0.get(&key)
            && known == grants
        {
            return Some(Arc::clone(hooks));
        }
        let missing = MissingHooks::new(grants);
        if missing.is_empty() {
            return None;
        }
        tracing::warn!(
            "plugin:{id} was granted hooks and gives none, so calls it was to hear of are refused: `toolhost doctor` says why"
        );
        let hooks: Arc<dyn Hooks> = Arc::new(missing);
        self.0.insert(key, (grants.to_vec(), Arc::clone(&hooks)));
        Some(hooks)
    }

    /// Puts them where they are needed.
    ///
    /// A grant is of one plugin: of the same id elsewhere, none stands for it. A table of the
    /// operator's that names only an id is met by whichever plugin of the id has its hooks; those of
    /// a trusted project are for the plugin of its own folder.
    fn stand_in(
        &mut self,
        registrations: &mut Vec<Registration>,
        config: &Config,
        hearing: &[(PluginAddress, Grants)],
    ) {
        let of_project = config.project.iter().flat_map(|project| {
            let place = Place::Folder(project.folder.clone());
            project.plugins.iter().map(move |(id, plugin)| (id, Some(place.clone()), plugin))
        });
        let of_ids = config.ids.iter().map(|(id, plugin)| (id, None, plugin));
        let of_one = |(address, plugin)| {
            let PluginAddress { id, place }: &PluginAddress = address;
            (id, Some(place.clone()), plugin)
        };
        for (id, place, plugin) in config.plugins.iter().map(of_one).chain(of_ids).chain(of_project)
        {
            let is_it = |address: &PluginAddress| {
                address.id == *id && place.as_ref().is_none_or(|place| *place == address.place)
            };
            let is_there = hearing.iter().any(|(address, grants)| {
                let has_all = plugin
                    .grants
                    .of::<HookGrant>()
                    .all(|hook| grants.of().any(|held: &HookGrant| held == hook));
                is_it(address) && has_all
            });
            if is_there {
                self.0.remove(&(id.clone(), place));
                continue;
            }
            let hooks: Vec<HookGrant> = plugin.grants.of().cloned().collect();
            let Some(hooks) = self.of(id, place.as_ref(), &hooks) else { continue };
            let mut own = registrations.iter_mut().filter(|registration| {
                registration.hooks.is_none() && is_it_of(registration, &is_it)
            });
            match own.next() {
                Some(registration) => registration.hooks = Some(hooks),
                None => {
                    let folder = match &place {
                        Some(Place::Folder(folder)) => folder.clone(),
                        Some(Place::Bundled) | None => PathBuf::new(),
                    };
                    registrations.push(super::fail_closed::alone(hooks, id, folder));
                }
            }
        }
    }
}

/// Tells whether a plugin registers that is one of those.
fn is_it_of(registration: &Registration, is_it: &dyn Fn(&PluginAddress) -> bool) -> bool {
    let SourceId::Plugin { id, folder } = &registration.source else { return false };
    is_it(&match registration.origin {
        Origin::Bundled => PluginAddress::bundled(id.clone()),
        _ => PluginAddress::in_folder(folder, id.clone()),
    })
}

/// Gives a build what its plugin was granted, if it is trusted. Returns why a grant gives nothing.
fn authorise(
    case: &Case<'_>,
    judged: &mut Judged,
    (source, words): (&Source, &str),
    (values, parts): (u64, &Parts),
    replaced: &mut Vec<Loaded>,
) -> Vec<String> {
    let settings = case.settings(judged);
    let trusted = judged.is_trusted();
    let grants = if trusted { settings.grants.clone() } else { Grants::default() };
    // Values are of concern to those who were granted some.
    let values = if grants.has_values() { values } else { 0 };
    let mut idle = {
        let mut given = source.given.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |given: &Given| {
            (&given.grants, &given.exclusive, given.values, &given.loaded.facts.digest)
                == (&grants, &settings.exclusive, values, judged.digest())
                && given.words == words
                && given.loaded.is_recorded() == judged.loaded.is_recorded()
        };
        if !given.as_ref().is_some_and(is_same) {
            let mut loaded = match judged.loaded.is_granted() || values > 0 {
                true => parts.loader.renew(&judged.loaded),
                false => judged.loaded.clone(),
            };
            let idle = loaded.grant_to(words, &grants, &settings.exclusive);
            let (exclusive, words) = (settings.exclusive.clone(), words.to_owned());
            let now = Given { grants, exclusive, values, words, loaded, idle };
            if let Some(before) = given.replace(now) {
                if before.loaded.facts.digest != *judged.digest() {
                    let found = changes(&surface(&before.loaded), &judged.surface);
                    let found = found.iter().map(ToString::to_string).collect();
                    *source.changes.lock().unwrap_or_else(PoisonError::into_inner) = found;
                }
                replaced.push(before.loaded);
            }
        }
        let Some(given) = &*given else { return Vec::new() };
        judged.loaded = given.loaded.clone();
        given.idle.clone()
    };
    let path = &case.found.candidate.path;
    if trusted {
        let given = |flag: &String| {
            format!(
                "{flag} stands in toolhost.toml, and nobody has granted it yet; if it is meant, run `toolhost trust {words}`"
            )
        };
        idle.extend(case.not_agreed.iter().filter(|_| judged.age.is_none()).map(given));
        return idle;
    }
    let mut pending: Vec<String> =
        settings.grants.all().into_iter().map(|(_, what): (Kind, String)| what).collect();
    if judged.verdict != Verdict::Free {
        // What waits says so itself.
        pending.clear();
    }
    if settings.allow_tool_override {
        pending.push("`allow_tool_override`".to_owned());
    }
    let path = path.display();
    let repair = match case.of_id_alone() {
        Some((why, repair)) => {
            format!("{why}; look at it with `toolhost inspect {path}`; {repair}")
        }
        None => format!(
            "nobody has trusted these bytes; look at them with `toolhost inspect {path}`, then run `toolhost trust {words}`"
        ),
    };
    idle.extend(pending.into_iter().map(|what| format!("{what} is pending: {repair}")));
    idle
}
