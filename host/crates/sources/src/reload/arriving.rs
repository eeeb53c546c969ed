//! What a call waits for while plugins are being loaded: its own plugin, guards that cover the call,
//! and plugins that would have the tool's name first. Of those whose bytes are known from before, it
//! is remembered which names they have; the others might have any.

use std::collections::{BTreeMap, BTreeSet};

use super::recorded::Recalled;
use super::source::Source;
use super::trust_policy::Case;
use crate::driver::Found;
use crate::remembered::Remembered;
use toolhost_core::tool::{Origin, SourceId, ToolName};
use toolhost_kernel::registry::{self, Catalog, Owners};
use toolhost_policy::capability::{self, HookGrant};
use toolhost_state::config::Config;
use toolhost_wasm::{LoadAs, Standing};

/// A plugin that was not loaded yet.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Coming {
    origin: Origin,
    rank: usize,
    /// Its names as a reader takes them, if these are known.
    names: Option<BTreeSet<String>>,
    /// What it was granted to hear of.
    hooks: Vec<HookGrant>,
    /// It may replace tools of others.
    may_override: bool,
}

/// Which plugins are yet to come, and what they could have to do with a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arriving {
    coming: BTreeMap<SourceId, Coming>,
    /// Origin and rank of those that are there.
    there: BTreeMap<SourceId, (Origin, usize)>,
    owners: Owners,
}

impl Arriving {
    /// Looks at all sources.
    pub(super) fn of(
        sources: &BTreeMap<SourceId, Source>,
        config: &Config,
        remembered: &Remembered,
    ) -> Arriving {
        let (mut coming, mut there) = (BTreeMap::new(), BTreeMap::new());
        for (id, source) in sources {
            let case = Case::new(&source.found, config, remembered);
            let digest = source.load_as.digest.get().or(source.looks_like.as_ref());
            // As long as its bytes are not known, they may be those of a bundled plugin.
            let bundled = match digest {
                Some(digest) => case.is_bundled(digest),
                None => remembered.bundled_digests(id).next().is_some(),
            };
            let origin = if bundled { Origin::Bundled } else { source.found.origin };
            let rank = source.found.rank;
            if source.file.is_some() && !source.is_awaited {
                there.insert(id.clone(), (origin, rank));
                continue;
            }
            let build = case.known.and_then(|known| known.build.as_ref());
            let build =
                build.filter(|build| digest.is_some_and(|digest| **digest == *build.digest));
            coming.insert(
                id.clone(),
                Coming {
                    origin,
                    rank,
                    names: source
                        .recalled
                        .as_ref()
                        .map(Recalled::names)
                        .or_else(|| build.and_then(|build| build.outline.names())),
                    hooks: case.hooks().cloned().collect(),
                    may_override: case.may_take_names(),
                },
            );
        }
        let owners = if coming.is_empty() { Owners::new() } else { remembered.owners() };
        Arriving { coming, there, owners }
    }

    /// Tells whether a call of this tool has to wait, though the catalog has the tool.
    pub fn keeps_waiting(&self, tool: &str, catalog: &Catalog) -> bool {
        let Some(entry) = catalog.find(tool) else { return !self.coming.is_empty() };
        // A catalog may be newer than this.
        let is_of_host = entry.source == SourceId::Builtin;
        let is_there = is_of_host || self.there.contains_key(&entry.source);
        !is_there || !self.waited_for(tool, catalog).is_empty()
    }

    /// The sources that a call waits for of a tool which the catalog has.
    pub(super) fn waited_for(&self, tool: &str, catalog: &Catalog) -> Vec<SourceId> {
        let holder = catalog.find(tool).map(|entry| &entry.source);
        let name = ToolName::new(tool).ok();
        let turn = |source: &SourceId, origin: Origin, rank: usize| {
            let name = name.as_ref()?;
            Some((registry::turn(origin, source, name, &self.owners), rank, source.clone()))
        };
        let of_holder = holder.and_then(|source| {
            let (origin, rank) = self.there.get(source).copied()?;
            turn(source, origin, rank)
        });
        let matters = |source: &SourceId, coming: &Coming| {
            let Coming { origin, rank, names, hooks, may_override } = coming;
            let covers = hooks.iter().any(|hook| capability::fits(&hook.tools, tool));
            let skeleton = name.as_ref().map(ToolName::skeleton);
            let may_have = match (names, &skeleton) {
                (Some(names), Some(skeleton)) => names.contains(skeleton),
                _ => true,
            };
            // What is part of the host has its name before all others.
            let comes_first = of_holder.as_ref().is_some_and(|of_holder| {
                turn(source, *origin, *rank).is_some_and(|turn| turn < *of_holder)
            });
            covers || may_have && (comes_first || *may_override)
        };
        let found = self.coming.iter().filter(|(source, coming)| matters(source, coming));
        found.map(|(source, _)| source.clone()).collect()
    }
}

/// The sources that a call of a tool begins with: guards that cover it, and plugins that had it before;
/// or, if nobody is known to have it, all that are not a project's.
pub(super) fn begin_with(
    tool: &str,
    is_there: bool,
    sources: &BTreeMap<SourceId, Source>,
    config: &Config,
    remembered: &Remembered,
) -> Vec<SourceId> {
    let skeleton = ToolName::new(tool).ok().map(|name| name.skeleton());
    let (mut found, mut rest, mut is_known) = (Vec::new(), Vec::new(), is_there);
    for (id, source) in sources {
        let case = Case::new(&source.found, config, remembered);
        let build = case.known.and_then(|known| known.build.as_ref());
        let names = build.and_then(|build| build.outline.names()).unwrap_or_default();
        let is_recalled = source.recalled.as_ref().is_some_and(|recalled| recalled.has(tool));
        let has_it =
            is_recalled || skeleton.as_ref().is_some_and(|skeleton| names.contains(skeleton));
        is_known |= has_it;
        if has_it || case.hooks().any(|hook| capability::fits(&hook.tools, tool)) {
            found.push(id.clone());
        } else if source.found.origin != Origin::Project {
            rest.push(id.clone());
        }
    }
    if !is_known {
        found.append(&mut rest);
    }
    found
}

/// As whose a source is loaded.
pub(super) fn load_as(found: &Found, remembered: &Remembered) -> LoadAs {
    let is_trusted = || {
        let within =
            found.source.folder().into_iter().flat_map(|folder| folder.ancestors().take(2));
        within.into_iter().any(|folder| remembered.lock.project(folder).is_some())
    };
    let standing = match found.origin {
        Origin::Builtin | Origin::Bundled | Origin::User => Standing::User,
        Origin::Project | Origin::Mcp if is_trusted() => Standing::Project,
        Origin::Project | Origin::Mcp => Standing::Untrusted,
    };
    let bundled = remembered.bundled_digests(&found.source);
    let known = remembered.source(&found.source);
    let trusted = known.and_then(|known| known.trusted.clone());
    LoadAs {
        standing,
        trusted: bundled.map(str::to_owned).chain(trusted).collect(),
        ..LoadAs::default()
    }
}
