//! The last step of a load: each plugin gets its authority, and all are published at once.

use std::path::PathBuf;
use std::sync::Arc;

use super::judge::{Case, Judged, Verdict};
use super::missing::MissingHooks;
use super::remember::{self, NewBuild, Seen};
use super::{Pending, Plugin, Ready, Remembered, SourceStatus};
use crate::authority::{Grants, Kind};
use crate::config::Config;
use crate::plugin::Candidate;
use crate::registry::Registry;
use crate::tool::{Origin, PluginId, Registration, Rejection, SourceId};

/// Gives each plugin its authority, and publishes all of them at once.
pub(super) fn publish(
    mut plugins: Vec<Plugin<'_>>,
    registry: &Registry,
    config: &Config,
    remembered: &Remembered,
) -> (Vec<SourceStatus>, Vec<Seen>) {
    // Whoever comes first counts.
    plugins.sort_by_cached_key(Plugin::turn);
    let (mut registrations, mut counted, mut statuses) = (Vec::new(), Vec::new(), Vec::new());
    let mut seen = Vec::new();
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
        let (status, registration) = plugin.settle(twin, remembered);
        registrations.extend(registration);
        statuses.push(status);
    }
    guard(&mut registrations, config);
    let catalog = registry.publish(registrations);
    for (seen, source) in seen.iter_mut().map(|seen| {
        let source = SourceId::Plugin { id: seen.id.clone(), folder: seen.folder.clone() };
        (seen, source)
    }) {
        seen.names = remember::names(&catalog, &source);
    }
    (statuses, seen)
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
            file: path,
            digest: Arc::clone(file.digest()),
            outline: file.surface.outline(),
            trust: file.verdict == Verdict::Trusted { by_rule: true },
        });
        Seen { folder, id, build, names: Vec::new() }
    }

    /// Gives the build that serves its authority. Returns what is to be told, and published.
    fn settle(
        &mut self,
        twin: Option<PathBuf>,
        remembered: &Remembered,
    ) -> (SourceStatus, Option<Registration>) {
        let case = &self.case;
        let found = case.found;
        let folder_trusted = remembered.lock.trusts_folder(&found.candidate.folder);
        let ready = |judged: &Judged| Ready {
            origin: if judged.age.is_some() { Origin::Bundled } else { found.origin },
            trusted: judged.is_trusted() || folder_trusted,
            trusted_by_rule: judged.verdict == Verdict::Trusted { by_rule: true },
            needs: judged.loaded.registration.needs.clone(),
            outline: judged.surface.outline(),
            facts: judged.loaded.facts.clone(),
            same_as: None,
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

/// Gives a build what its plugin was granted, if it is trusted. Returns why a grant gives nothing.
fn authorise(case: &Case<'_>, judged: &mut Judged) -> Vec<String> {
    let settings = &case.settings;
    let trusted = judged.is_trusted();
    let nothing = Grants::default();
    let grants = if trusted { &settings.grants } else { &nothing };
    let mut idle = judged.loaded.grant(grants, &settings.exclusive);
    // What waits says so itself.
    if trusted || judged.verdict != Verdict::Free {
        return idle;
    }
    let Candidate { id, path, .. } = &case.found.candidate;
    let mut pending: Vec<String> =
        settings.grants.all().into_iter().map(|(_, what): (Kind, String)| what).collect();
    if settings.allow_tool_override && !case.may_override(judged) {
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
