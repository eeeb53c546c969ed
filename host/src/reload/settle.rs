//! The last step of a load: each plugin gets its authority, and all are published at once.

use std::path::PathBuf;
use std::sync::Arc;

use super::judge::{Case, Judged, Verdict};
use super::missing::MissingHooks;
use super::remember::{self, NewBuild, Seen};
use super::{Pending, Plugin, Ready, SourceStatus};
use crate::authority::{Grants, Kind};
use crate::config::Config;
use crate::plugin::Candidate;
use crate::registry::Registry;
use crate::store::Kept;
use crate::tool::{Origin, PluginId, Registration, Rejection, SourceId};

/// Gives each plugin its authority, and publishes all of them at once.
pub(super) fn publish(
    mut plugins: Vec<Plugin<'_>>,
    registry: &Registry,
    config: &Config,
) -> (Vec<SourceStatus>, Vec<Seen>) {
    // Whoever comes first counts.
    plugins.sort_by_cached_key(Plugin::turn);
    let (mut registrations, mut counted, mut statuses) = (Vec::new(), Vec::new(), Vec::new());
    let (mut seen, mut hearing) = (Vec::new(), Vec::new());
    for mut plugin in plugins {
        let twin = plugin.serving().and_then(|serving| {
            let id = &plugin.case.found.candidate.id;
            let is_twin = |(known, digest, bundled, _): &&Counted| {
                digest == serving.digest() || (serving.age.is_some() && *bundled && known == id)
            };
            counted.iter().find(is_twin).map(|(.., path)| path.clone())
        });
        if twin.is_none() {
            seen.push(plugin.seen());
            if let Some(serving) = plugin.serving() {
                let Candidate { id, path, .. } = &plugin.case.found.candidate;
                let (digest, bundled) = (Arc::clone(serving.digest()), serving.age.is_some());
                counted.push((id.clone(), digest, bundled, path.clone()));
            }
        }
        let (status, registration) = plugin.settle(twin);
        if let (Some(hears), Some(serving)) = (&registration, plugin.serving())
            && hears.hooks.is_some()
        {
            let granted = plugin.case.settings(serving).grants.clone();
            hearing.push((hears.source.clone(), granted));
        }
        registrations.extend(registration);
        statuses.push(status);
    }
    guard(&mut registrations, config, &hearing);
    let catalog = registry.publish(registrations);
    for (seen, source) in seen.iter_mut().map(|seen| {
        let source = SourceId::Plugin { id: seen.id.clone(), folder: seen.folder.clone() };
        (seen, source)
    }) {
        seen.names = remember::names(&catalog, &source);
    }
    (statuses, seen)
}

/// Where the bytes of a build are, to be kept.
pub fn kept(packed: Option<&Arc<[u8]>>, path: PathBuf) -> Kept {
    packed.cloned().map_or(Kept::File(path), Kept::Bytes)
}

/// A plugin that counts: its id, its digest, whether it is bundled, and its file.
type Counted = (PluginId, Arc<str>, bool, PathBuf);

impl Plugin<'_> {
    /// What is to be remembered of it.
    fn seen(&self) -> Seen {
        let Candidate { id, folder, path } = self.case.found.candidate.clone();
        let in_order = self
            .file
            .as_ref()
            .ok()
            .filter(|file| matches!(file.verdict, Verdict::Trusted { .. } | Verdict::Free));
        let known = self.case.known.and_then(|known| known.build.as_ref());
        let is_new = |file: &&Judged| known.is_none_or(|known| *known.digest != **file.digest());
        let build = in_order.filter(is_new).map(|file| NewBuild {
            bytes: kept(file.loaded.packed.as_ref(), path),
            digest: Arc::clone(file.digest()),
            outline: file.surface.outline(),
            trust: file.verdict == Verdict::Trusted { by_rule: true },
            judged_by: (
                self.case.known.and_then(|known| known.trusted.clone()),
                known.map(|known| known.digest.clone()),
            ),
        });
        Seen { folder, id, build, names: Vec::new() }
    }

    /// Gives the build that serves its authority. Returns what is to be told, and published.
    fn settle(&mut self, twin: Option<PathBuf>) -> (SourceStatus, Option<Registration>) {
        let case = &self.case;
        let found = case.found;
        let ready = |judged: &Judged| Ready {
            origin: if judged.age.is_some() { Origin::Bundled } else { found.origin },
            trusted: judged.is_trusted(),
            trusted_by_rule: judged.verdict == Verdict::Trusted { by_rule: true },
            needs: judged.loaded.registration.needs.clone(),
            outline: judged.surface.outline(),
            facts: judged.loaded.facts.clone(),
            packed: judged.loaded.packed.clone(),
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
                let idle = authorise(case, serving);
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
                match (&mut kept, &mut state) {
                    (Some(ready), _) => ready.grants = idle,
                    (None, Ok(ready)) => ready.grants = idle,
                    (None, Err(_)) => {}
                }
            }
        }
        if let Ok(ready) = &mut state
            && ready.same_as.is_none()
        {
            ready.pending = pending;
        }
        let Candidate { id, folder, path } = found.candidate.clone();
        let source = Some(SourceId::Plugin { id, folder });
        (SourceStatus { path, source, state, kept, usage: self.usage }, registration)
    }
}

/// The tools of a build that waits and has no stand-in.
fn waiting(file: &Judged, pending: &Pending) -> Vec<Rejection> {
    let reason = format!("its plugin waits for the operator: {}", pending.why);
    let tools = file.loaded.registration.tools.iter();
    tools
        .map(|tool| Rejection { tool: tool.spec().name.to_string(), reason: reason.clone() })
        .collect()
}

/// Puts stand-ins where hooks were granted that could stop or change a call, and are not there:
/// a guard that is changed, damaged or removed must not let pass what it was to stop.
///
/// The operator's grants name an id, and hold for the plugin that was given them; those of a
/// trusted project are for the plugin of its own folder. A plugin of the same id elsewhere stands
/// for neither.
fn guard(registrations: &mut Vec<Registration>, config: &Config, hearing: &[(SourceId, Grants)]) {
    let project = config.project.as_ref();
    let of_project = project.iter().flat_map(|project| {
        project.plugins.iter().map(|(id, plugin)| (id, Some(&project.folder), plugin))
    });
    let of_operator = config.plugins.iter().map(|(id, plugin)| (id, None, plugin));
    for (id, folder, plugin) in of_operator.chain(of_project) {
        let missing = MissingHooks::new(&plugin.grants.hooks);
        let is_it = |source: &SourceId| match source {
            SourceId::Plugin { id: known, folder: its } => {
                known == id && folder.is_none_or(|folder| folder == its)
            }
            _ => false,
        };
        let is_there = hearing.iter().any(|(source, grants)| {
            let has_all = plugin.grants.hooks.iter().all(|hook| grants.hooks.contains(hook));
            is_it(source) && has_all
        });
        if missing.is_empty() || is_there {
            continue;
        }
        tracing::warn!(
            "plugin:{id} was granted hooks and gives none, so calls it was to hear of are refused: `toolhost doctor` says why"
        );
        let mut own = registrations
            .iter_mut()
            .filter(|registration| is_it(&registration.source) && registration.hooks.is_none());
        match own.next() {
            Some(registration) => registration.hooks = Some(Arc::new(missing)),
            None => registrations.push(missing.alone(id, folder.cloned().unwrap_or_default())),
        }
    }
}

/// Gives a build what its plugin was granted, if it is trusted. Returns why a grant gives nothing.
fn authorise(case: &Case<'_>, judged: &mut Judged) -> Vec<String> {
    let settings = case.settings(judged);
    let trusted = judged.is_trusted();
    let nothing = Grants::default();
    let grants = if trusted { &settings.grants } else { &nothing };
    let mut idle = judged.loaded.grant(grants, &settings.exclusive);
    let Candidate { id, path, .. } = &case.found.candidate;
    if trusted {
        let given = |flag: &String| {
            format!(
                "{flag} was not granted to the plugin of this folder; if it is meant for it, run `toolhost trust {id}`"
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
    idle.extend(pending.into_iter().map(|what| {
        format!(
            "{what} is pending: nobody has trusted these bytes; look at them with `toolhost inspect {}`, then run `toolhost trust {id}`",
            path.display()
        )
    }));
    idle
}
