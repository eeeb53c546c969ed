//! The last step of a load: each source gets its authority, and all are published at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};

use super::fail_closed::Guards;
use super::persist::{self, NewBuild, Seen};
use super::source::Source;
use super::supervisor::Parts;
use super::trust_policy::{Case, Judged, TrustVerdict};
use super::{Pending, Ready, SourceStatus, whose};
use crate::driver::{Failed, Fingerprint, LoadedSource, Location, Phase};
use crate::remembered::Remembered;
use toolhost_core::tool::{
    Origin, PluginAddress, PluginId, Reason, Registration, Rejection, SourceId,
};
use toolhost_kernel::registry::Catalog;
use toolhost_policy::capability::{Exclusive, Grants, Kind};
use toolhost_policy::diff::changes;
use toolhost_state::config::Config;

/// A build with its authority; the same as long as nothing of this changes.
pub(super) struct GivenAuthority {
    grants: Grants,
    exclusive: Vec<Exclusive>,
    /// Of the values of variables and secrets.
    values: u64,
    /// What commands are to call the source.
    words: String,
    loaded: LoadedSource,
    /// Grants that give nothing, each with the reason.
    idle: Vec<String>,
}

/// What was published.
pub(super) struct Settled {
    pub(super) statuses: Vec<SourceStatus>,
    pub(super) seen: Vec<Seen>,
    pub(super) catalog: Arc<Catalog>,
    /// Builds that serve no more.
    pub(super) replaced: Vec<LoadedSource>,
}

/// One source on its way to the registry.
struct Settling<'a> {
    case: Case<'a>,
    source: &'a Source,
    /// What became of its present definition.
    file: Result<Judged, Failed>,
    /// An earlier build, which serves in its place.
    kept: Option<Judged>,
}

/// Gives each source its authority, and publishes all of them at once. Kept builds that have to be
/// loaded first come into `wanted`.
pub(super) fn settle(
    sources: &mut BTreeMap<SourceId, Source>,
    config: &Config,
    remembered: &Remembered,
    parts: &Parts,
    guards: &mut Guards,
    values: u64,
    wanted: &mut Vec<(SourceId, String)>,
) -> Settled {
    let (mut plugins, mut statuses) = (Vec::new(), Vec::new());
    let (mut registrations, mut awaited) = (Vec::new(), BTreeSet::new());
    let mut all = whose::recorded(config, remembered);
    for source in sources.values() {
        let case = Case::new(&source.found, config, remembered);
        let Some(file) = source.judged(&case) else {
            note(&mut all, case.address(None));
            statuses.push(source.loading());
            registrations.extend(source.registers(&case));
            continue;
        };
        note(&mut all, case.address(file.as_ref().ok()));
        let (kept, missing) = match &file {
            Ok(judged) if judged.is_in_order() => (None, None),
            _ => source.stand_in(&case),
        };
        let is_awaited = kept.is_none() && missing.is_some();
        let id = || source.found.source.clone();
        wanted.extend(missing.map(|digest| (id(), digest)));
        if is_awaited && file.is_ok() {
            // No call meets bytes that wait while the build that stands in for them is read.
            awaited.insert(id());
            statuses.push(source.loading());
            registrations.extend(source.registers(&case));
            continue;
        }
        plugins.push(Settling { case, source, file, kept });
    }
    // Whoever comes first counts.
    plugins.sort_by_cached_key(Settling::turn);
    let mut counted = Vec::new();
    let (mut seen, mut hearing, mut serving) = (Vec::new(), Vec::new(), Vec::new());
    let mut replaced = Vec::new();
    let mut to_load = Vec::new();
    for mut plugin in plugins {
        let twin = plugin.serving().and_then(|serving| {
            // Only files are copied.
            let (id, _) = plugin.case.found.source.plugin()?;
            let is_twin = |(known, digest, bundled, _): &&CountedSource| {
                digest == serving.digest() || (serving.age.is_some() && *bundled && known == id)
            };
            counted.iter().find(is_twin).map(|(.., location)| location.clone())
        });
        if twin.is_none() {
            seen.push(plugin.seen());
            let found = plugin.case.found;
            if let (Some(serving), Some((id, _))) = (plugin.serving(), found.source.plugin()) {
                let (digest, bundled) = (Arc::clone(serving.digest()), serving.age.is_some());
                counted.push((id.clone(), digest, bundled, found.location.clone()));
            }
        }
        let replaced_before = replaced.len();
        let (status, registration) = plugin.settle(twin, &all, values, &mut replaced);
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
            hearing.extend(plugin.case.address(Some(serving)).map(|address| (address, granted)));
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
        seen.names = persist::names(&catalog, &seen.source);
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

/// Notes that there is a plugin.
fn note(all: &mut BTreeMap<PluginId, BTreeSet<PluginAddress>>, address: Option<PluginAddress>) {
    let Some(address) = address else { return };
    all.entry(address.id.clone()).or_default().insert(address);
}

/// A plugin that counts: its id, its digest, whether it is bundled, and where it is.
type CountedSource = (PluginId, Arc<str>, bool, Location);

impl Source {
    /// What is told of a source that was not read yet.
    fn loading(&self) -> SourceStatus {
        let reason = "it is being loaded".to_owned();
        let location = self.found.location.clone();
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
            given.loaded.handle.retire();
        }
    }
}

impl Settling<'_> {
    /// The build that serves, if one does.
    fn serving(&self) -> Option<&Judged> {
        let file = self.file.as_ref().ok().filter(|file| file.may_serve());
        self.kept.as_ref().or(file)
    }

    /// Whose turn it is: the newest build of a bundled plugin first, then by rank.
    fn turn(&self) -> (usize, usize, Location) {
        let age = self.serving().and_then(|serving| serving.age).unwrap_or(usize::MAX);
        (age, self.case.found.rank, self.case.found.location.clone())
    }

    /// What is to be remembered of it.
    fn seen(&self) -> Seen {
        let in_order = self.file.as_ref().ok().filter(|file| file.is_in_order());
        let known = self.case.known.and_then(|known| known.build.as_ref());
        let is_new = |file: &&Judged| known.is_none_or(|known| *known.digest != **file.digest());
        let build = in_order.filter(is_new).map(|file| NewBuild {
            bytes: file.loaded.handle.bytes(),
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
        let source = self.case.found.source.clone();
        Seen { source, of_stranger, build, names: Vec::new() }
    }

    /// Gives the build that serves its authority. Returns what is to be told, and published.
    fn settle(
        &mut self,
        twin: Option<Location>,
        all: &BTreeMap<PluginId, BTreeSet<PluginAddress>>,
        values: u64,
        replaced: &mut Vec<LoadedSource>,
    ) -> (SourceStatus, Option<Registration>) {
        let case = &self.case;
        let found = case.found;
        let words = match case.address(self.file.as_ref().ok()) {
            Some(address) => whose::words(&address, found.origin, &found.named, all),
            None => found.source.to_string(),
        };
        let ready = |judged: &Judged| Ready {
            origin: if judged.age.is_some() { Origin::Bundled } else { found.origin },
            trusted: judged.is_trusted(),
            trusted_by: judged.trusted_by(),
            needs: judged.loaded.registration.needs.clone(),
            outline: judged.surface.outline(),
            facts: judged.loaded.facts.clone(),
            bytes: judged.loaded.handle.bytes(),
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
                let idle = authorise(case, serving, (self.source, &words), values, replaced);
                // Nobody hears of calls who was not granted that.
                let settings = case.settings(serving);
                let may_hear = serving.is_trusted() && settings.grants.has(Kind::HOOKS);
                let registration_of = &serving.loaded.registration;
                let published = Registration {
                    source: found.source.clone(),
                    digest: Some(Arc::clone(serving.digest())),
                    hooks: registration_of.hooks.clone().filter(|_| may_hear),
                    origin: if serving.age.is_some() { Origin::Bundled } else { found.origin },
                    rank: found.rank,
                    allow_tool_override: case.may_override(serving),
                    trusted: serving.is_trusted(),
                    ..registration_of.clone()
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
        let location = found.location.clone();
        let (loading, usage) = (self.source.busy.is_some(), self.source.usage);
        let read = self.source.read.as_ref().and_then(Fingerprint::files).cloned();
        let is_retried = self.source.retry_at.is_some();
        let status =
            SourceStatus { source, location, words, state, loading, read, kept, usage, is_retried };
        (status, registration)
    }
}

/// The tools of a build that waits and has no stand-in.
fn waiting(file: &Judged, pending: &Pending) -> Vec<Rejection> {
    let reason = format!("its plugin is pending review: {}", pending.why);
    let reason = Reason::without_repair(reason);
    let tools = file.loaded.registration.tools.iter();
    tools
        .map(|tool| Rejection { tool: tool.spec().name.to_string(), reason: reason.clone() })
        .collect()
}

/// Gives a build what its plugin was granted, if it is trusted. Returns why a grant gives nothing.
fn authorise(
    case: &Case<'_>,
    judged: &mut Judged,
    (source, words): (&Source, &str),
    values: u64,
    replaced: &mut Vec<LoadedSource>,
) -> Vec<String> {
    let settings = case.settings(judged);
    let trusted = judged.is_trusted();
    let grants = if trusted { settings.grants.clone() } else { Grants::default() };
    // Values are of concern to those who were granted some.
    let values = if grants.has_values() { values } else { 0 };
    let mut idle = {
        let mut given = source.given.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |given: &GivenAuthority| {
            (&given.grants, &given.exclusive, given.values, &given.loaded.facts.digest)
                == (&grants, &settings.exclusive, values, judged.digest())
                && given.words == words
                && given.loaded.is_recorded() == judged.loaded.is_recorded()
        };
        if !given.as_ref().is_some_and(is_same) {
            let loaded = match judged.loaded.handle.is_authorised() || values > 0 {
                true => judged.loaded.renewed(),
                false => judged.loaded.clone(),
            };
            let (loaded, idle) = loaded.authorised(words, &grants, &settings.exclusive);
            let (exclusive, words) = (settings.exclusive.clone(), words.to_owned());
            let now = GivenAuthority { grants, exclusive, values, words, loaded, idle };
            if let Some(before) = given.replace(now) {
                if before.loaded.facts.digest != *judged.digest() {
                    let found = changes(&before.loaded.surface(), &judged.surface);
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
    if judged.verdict != TrustVerdict::Free {
        // What waits says so itself.
        pending.clear();
    }
    if settings.allow_tool_override {
        pending.push("`allow_tool_override`".to_owned());
    }
    let path = &case.found.location;
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
