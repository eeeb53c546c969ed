//! Toolsets: named groups of tools, and what a selection of them comes to.
//!
//! A name can mean a toolset of the static table (`host/data/toolsets.json`), one that a user
//! defines in `toolhost.toml`, one that live registrations declare, the alias of such a one, or
//! a name of former times. The hard part is that these meet: tools of plugins join the static or
//! user toolset of the same name, while an alias never does, so that an MCP server called
//! `terminal` does not slip into what users switched on under that name. Toolsets include one
//! another, also in circles; each counts once.
//!
//! The names of the table are the host's own: a file dropped into a folder must not pass for a
//! core tool or slip into a toolset that is on. So they are reserved for bundled plugins, and
//! others need the operator's `allow_tool_override`; the registry sees to it.
//!
//! What this module does not do: know which tools exist or are available (a selection may name
//! tools that nobody registered), read the environment, or keep anything between two questions.

mod distribution;
mod platform;
mod selection;
mod table;
mod user;

use std::collections::{BTreeMap, BTreeSet, HashSet};

pub use distribution::{Sampled, UnknownDistribution, distribution, distributions, sample};
pub use platform::Platform;
pub use selection::{Selected, Selection, Unknown};
pub use table::{core_tools, is_agent_loop_tool, is_builtin_toolset, is_core_tool};
pub use user::{UserToolset, check_user};

use table::{StaticToolset, TABLE};

/// The two names that mean every toolset.
const EVERY: [&str; 2] = ["all", "*"];

/// What live registrations add to the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Live {
    /// The names of their tools, by the toolset they declare.
    pub toolsets: BTreeMap<String, BTreeSet<String>>,
    /// Other names for these toolsets, such as `github` for `mcp-github`. One whose toolset is
    /// gone means nothing.
    pub aliases: BTreeMap<String, String>,
}

/// All toolsets of one moment: the table, the user's, and those of live registrations.
#[derive(Clone, Copy, Debug)]
pub struct Toolsets<'a> {
    user: &'a BTreeMap<String, UserToolset>,
    live: &'a Live,
}

/// Where a toolset is defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ToolsetOrigin {
    /// In the static table. Live tools may have joined it.
    Static,
    /// In `toolhost.toml`. Live tools may have joined it.
    User,
    /// By live registrations only.
    Registry,
    /// It is a name of former times.
    Legacy,
}

/// What there is to say of one toolset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// The name; for an alias, the name of the toolset it stands for.
    pub name: String,
    /// What it is for; empty if nobody said so.
    pub description: String,
    /// The tools it names itself, and live ones that declare it; sorted.
    pub direct_tools: BTreeSet<String>,
    /// The toolsets it includes, as they were written.
    pub includes: Vec<String>,
    /// All its tools, with those of included toolsets; sorted.
    pub resolved_tools: BTreeSet<String>,
    /// It includes other toolsets.
    pub is_composite: bool,
    /// Where it is defined.
    pub origin: ToolsetOrigin,
}

impl<'a> Toolsets<'a> {
    /// Brings together what a user defined and what is live. Toolsets of `user` that
    /// [`check_user`] refuses for their name may come to nothing.
    pub fn new(user: &'a BTreeMap<String, UserToolset>, live: &'a Live) -> Toolsets<'a> {
        Toolsets { user, live }
    }

    /// The names of all toolsets, sorted; without aliases, names of former times, and `all`.
    pub fn names(&self) -> Vec<String> {
        let names: BTreeSet<&str> = self.own_names().collect();
        names.into_iter().map(str::to_owned).collect()
    }

    /// Tells whether `name` means something: a toolset, an alias, a name of former times, or `all`.
    pub fn is_known(&self, name: &str) -> bool {
        is_every(name) || self.find(name).is_some()
    }

    /// Returns the tools of a toolset and of all it includes; none if it is unknown.
    pub fn resolve(&self, name: &str) -> BTreeSet<String> {
        owned(self.collect([name], Members::All))
    }

    /// Like [`Toolsets::resolve`], without the tools of live registrations.
    pub fn resolve_static(&self, name: &str) -> BTreeSet<String> {
        owned(self.collect([name], Members::Static))
    }

    /// Returns the tools of several toolsets together; unknown names add nothing.
    pub fn resolve_all<S: AsRef<str>>(
        &self,
        names: impl IntoIterator<Item = S>,
    ) -> BTreeSet<String> {
        let names: Vec<S> = names.into_iter().collect();
        owned(self.collect(names.iter().map(AsRef::as_ref), Members::All))
    }

    /// Says what there is to say of a toolset; `None` if it is unknown.
    pub fn info(&self, name: &str) -> Option<Info> {
        if is_every(name) {
            return Some(Info {
                name: name.to_owned(),
                description: "Every toolset there is.".to_owned(),
                direct_tools: BTreeSet::new(),
                includes: self.names(),
                resolved_tools: self.resolve(name),
                is_composite: true,
                origin: ToolsetOrigin::Static,
            });
        }
        let group = self.find(name)?;
        Some(Info {
            name: group.name.to_owned(),
            description: group.description(),
            direct_tools: owned(group.tools(Members::All)),
            includes: group.includes().to_vec(),
            resolved_tools: self.resolve(group.name),
            is_composite: !group.includes().is_empty(),
            origin: group.origin(),
        })
    }

    /// Names of toolsets, some perhaps twice.
    fn own_names(&self) -> impl Iterator<Item = &str> {
        TABLE.toolsets.keys().chain(self.user.keys()).chain(self.live.toolsets.keys()).map(|n| &**n)
    }

    /// What a name means, in the order in which meanings go before others.
    fn find<'t>(&'t self, name: &'t str) -> Option<NamedTools<'t>> {
        let table = TABLE.toolsets.get(name);
        let user = if table.is_none() { self.user.get(name) } else { None };
        let live = self.live.toolsets.get(name);
        let group = NamedTools { name, table, user, live, legacy: &[] };
        if table.is_some() || user.is_some() || live.is_some() {
            return Some(group);
        }
        if let Some(target) = self.live.aliases.get(name)
            && let Some(live) = self.live.toolsets.get(target)
        {
            return Some(NamedTools { name: target, live: Some(live), ..group });
        }
        TABLE.legacy.get(name).map(|legacy| NamedTools { legacy, ..group })
    }

    /// The tools of `names` and all they include. A loop and not a recursion: how deep toolsets
    /// include one another is up to a file.
    fn collect<'t>(
        &'t self,
        names: impl IntoIterator<Item = &'t str>,
        members: Members,
    ) -> BTreeSet<&'t str> {
        let mut pending: Vec<&str> = names.into_iter().collect();
        let (mut seen, mut tools) = (HashSet::new(), Vec::new());
        while let Some(name) = pending.pop() {
            if !seen.insert(name) {
                continue;
            }
            if is_every(name) {
                pending.extend(self.own_names());
            } else if let Some(group) = self.find(name) {
                tools.extend(group.tools(members));
                pending.extend(group.includes().iter().map(String::as_str));
            }
        }
        // In one go: ten thousand insertions one by one take several times as long.
        tools.into_iter().collect()
    }
}

/// Which members of toolsets count.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Members {
    All,
    /// Those of the table and of users.
    Static,
}

/// What one name means.
struct NamedTools<'t> {
    name: &'t str,
    table: Option<&'static StaticToolset>,
    user: Option<&'t UserToolset>,
    live: Option<&'t BTreeSet<String>>,
    /// The tools of a name of former times.
    legacy: &'static [String],
}

impl<'t> NamedTools<'t> {
    fn origin(&self) -> ToolsetOrigin {
        match (self.table, self.user, self.live) {
            (Some(_), ..) => ToolsetOrigin::Static,
            (None, Some(_), _) => ToolsetOrigin::User,
            (None, None, Some(_)) => ToolsetOrigin::Registry,
            (None, None, None) => ToolsetOrigin::Legacy,
        }
    }

    fn description(&self) -> String {
        match (self.table, self.user) {
            (Some(table), _) => table.description.clone(),
            (None, Some(user)) => user.description.clone(),
            (None, None) => String::new(),
        }
    }

    fn includes(&self) -> &'t [String] {
        match (self.table, self.user) {
            (Some(table), _) => &table.includes,
            (None, Some(user)) => &user.includes,
            (None, None) => &[],
        }
    }

    /// Its own tools, some perhaps twice.
    fn tools(&self, members: Members) -> impl Iterator<Item = &'t str> + use<'t> {
        let live = self.live.filter(|_| members == Members::All);
        let table = self.table.into_iter().flat_map(StaticToolset::tools);
        let user = self.user.into_iter().flat_map(|user| &user.tools);
        let named = user.chain(self.legacy).chain(live.into_iter().flatten());
        table.chain(named.map(String::as_str))
    }

    /// It stands for a platform or a way of working: whoever disables it does not mean the core.
    fn is_preset(&self) -> bool {
        self.table.is_some_and(|table| table.posture || self.name.starts_with("hermes-"))
    }
}

fn is_every(name: &str) -> bool {
    EVERY.contains(&name)
}

fn owned<'t>(names: impl IntoIterator<Item = &'t str>) -> BTreeSet<String> {
    names.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests;
