//! From what somebody enabled and disabled to the tools that are meant.

use std::collections::{BTreeSet, HashSet};
use std::fmt;

use super::{Members, Toolsets, is_core_tool, owned};
use toolhost_core::text;

/// Of how many unknown names the nearest known ones are looked up: each costs a walk over all.
const LOOKED_UP_MAX: usize = 16;
/// The longest name for which a near one is looked up.
const LOOKED_UP_CHARS_MAX: usize = 64;
/// How many characters of a list an advisory shows.
const LISTED_CHARS_MAX: usize = 200;

/// Toolsets that are enabled and disabled, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Selection {
    /// `None` enables every toolset, an empty list none.
    pub enabled: Option<Vec<String>>,
    /// Taken away last, whatever is enabled.
    pub disabled: Vec<String>,
}

/// A name that is no toolset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// The name as it was given.
    pub name: String,
    /// The few known names most like it, the nearest first.
    pub near: Vec<String>,
}

impl fmt::Display for Unknown {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = text::cut(&text::one_line(&self.name), LOOKED_UP_CHARS_MAX);
        write!(formatter, "Unknown toolset: {name}")?;
        match &*self.near {
            [] => Ok(()),
            near => write!(formatter, "; did you mean `{}`?", near.join("` or `")),
        }
    }
}

/// What a [`Selection`] comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selected {
    /// The names of the tools. Not each must exist.
    pub tools: BTreeSet<String>,
    /// Names, enabled or disabled, that are no toolsets; each once, as they were given.
    pub unknown: Vec<Unknown>,
    /// A sentence for each disabled preset, because less is taken away than one may think.
    pub advisories: Vec<String>,
}

impl Toolsets<'_> {
    /// Returns the tools that a selection means.
    ///
    /// What is disabled is taken away at the end, core tools included; but of a `hermes-*` preset
    /// and of a posture such as `coding` only what is not core, with an advisory.
    pub fn select(&self, selection: &Selection) -> Selected {
        let mut tools = match &selection.enabled {
            None => self.collect(["all"], Members::All),
            Some(names) => self.collect(names.iter().map(String::as_str), Members::All),
        };
        let mut advisories = BTreeSet::new();
        for name in &selection.disabled {
            let mut taken = self.collect([&**name], Members::All);
            if self.find(name).is_some_and(|group| group.is_preset()) {
                taken.retain(|tool| !is_core_tool(tool));
                advisories.insert(advisory(name, &taken));
            }
            tools.retain(|tool| !taken.contains(tool));
        }
        Selected {
            tools: owned(tools),
            unknown: self.unknown_of(selection),
            advisories: advisories.into_iter().collect(),
        }
    }

    /// Returns the name, which is no toolset, with the known ones most like it.
    pub fn unknown(&self, name: &str) -> Unknown {
        let near = match name.chars().nth(LOOKED_UP_CHARS_MAX) {
            Some(_) => Vec::new(),
            None => {
                let aliases = self.live.aliases.keys().map(String::as_str);
                let known: BTreeSet<&str> =
                    self.own_names().chain(aliases).chain(["all"]).collect();
                text::nearest(name, known)
            }
        };
        Unknown { name: name.to_owned(), near }
    }

    fn unknown_of(&self, selection: &Selection) -> Vec<Unknown> {
        let mut seen = HashSet::new();
        let given = selection.enabled.iter().flatten().chain(&selection.disabled);
        let strange = given.filter(|name| seen.insert(*name) && !self.is_known(name));
        let look_up = |(index, name): (usize, &String)| match index < LOOKED_UP_MAX {
            true => self.unknown(name),
            false => Unknown { name: name.clone(), near: Vec::new() },
        };
        strange.enumerate().map(look_up).collect()
    }
}

fn advisory(name: &str, taken: &BTreeSet<&str>) -> String {
    let what = match taken.len() {
        0 => "no tool, since all it has are core tools".to_owned(),
        _ => {
            let taken = Vec::from_iter(taken.iter().copied()).join(", ");
            format!("only what it adds to the core tools: {}", text::cut(&taken, LISTED_CHARS_MAX))
        }
    };
    format!(
        "disabling `{name}` takes away {what}; to take away core tools, disable their toolsets, such as `terminal` or `web`"
    )
}
