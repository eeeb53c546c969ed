//! Toolsets that users define in `toolhost.toml`: what is allowed, and where they go in circles.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::table::TABLE;
use super::{Toolsets, is_builtin_toolset, is_every};
use toolhost_core::tool::{ToolName, check_toolset};

/// How many toolsets of a circle a message names.
const SHOWN_MAX: usize = 8;

/// A toolset that a user defines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserToolset {
    /// What it is for.
    pub description: String,
    /// Names of tools. They need not exist.
    pub tools: Vec<String>,
    /// Names of other toolsets whose tools it has too. One that does not exist adds nothing.
    pub includes: Vec<String>,
}

/// Checks the name and the tools of a toolset that a user defines.
///
/// What it includes is not checked: toolsets of plugins and servers come and go.
///
/// # Errors
/// If the name is not 1 to 64 characters of `A-Z a-z 0-9 _ -`, is `all` or that of a built-in
/// toolset of today or of former times, or begins with `mcp-`; or if a tool cannot have such a
/// name. The message is a fragment for whoever wrote the file.
pub fn check_user(name: &str, toolset: &UserToolset) -> Result<(), String> {
    if is_every(name) {
        return Err(format!("`{name}` means every toolset; choose another name"));
    }
    check_toolset(name).map_err(|error| error.to_string())?;
    if is_builtin_toolset(name) {
        return Err(format!(
            "`{name}` is a built-in toolset, which cannot be changed; choose another name, and put `{name}` into its `includes`"
        ));
    }
    if TABLE.legacy.contains_key(name) {
        return Err(format!("`{name}` is an old name of a built-in toolset; choose another name"));
    }
    for tool in &toolset.tools {
        ToolName::new(tool).map_err(|error| format!("toolset `{name}`: {error}"))?;
    }
    Ok(())
}

impl Toolsets<'_> {
    /// Says of each circle among toolsets of users how it goes and how to break it; sorted.
    ///
    /// A circle does no harm, every tool of it is in each of its toolsets; but nobody means it.
    /// Where circles share links, fewer are named than there are; break these and ask again.
    pub fn cycles(&self) -> Vec<String> {
        let mut found = BTreeSet::new();
        let mut done = BTreeSet::new();
        for name in self.user.keys() {
            if !done.contains(&**name) {
                walk(self.user, name, &mut done, &mut found);
            }
        }
        found.into_iter().collect()
    }
}

/// Follows `includes` from `start` depth first, without recursion: the depth is up to a file.
fn walk<'u>(
    user: &'u BTreeMap<String, UserToolset>,
    start: &'u str,
    done: &mut BTreeSet<&'u str>,
    found: &mut BTreeSet<String>,
) {
    let includes = |name: &str| user.get(name).map(|toolset| toolset.includes.iter());
    let mut path = vec![start];
    let mut places = HashMap::from([(start, 0)]);
    let mut rests = Vec::from_iter(includes(start));
    while let (Some(rest), Some(&name)) = (rests.last_mut(), path.last()) {
        let Some(next) = rest.next() else {
            done.insert(name);
            places.remove(name);
            path.pop();
            rests.pop();
            continue;
        };
        if let Some(&place) = places.get(&**next) {
            found.insert(sentence(&path[place..]));
        } else if !done.contains(&**next)
            && !is_builtin_toolset(next)
            && let Some(deeper) = includes(next)
        {
            places.insert(next, path.len());
            path.push(next);
            rests.push(deeper);
        }
    }
}

/// Tells of a circle: each of `names` includes the next, and the last the first.
fn sentence(names: &[&str]) -> String {
    let (first, last) = (names[0], names[names.len() - 1]);
    if names.len() == 1 {
        return format!("toolset `{first}` includes itself; take it out of its `includes`");
    }
    let mut chain: Vec<String> =
        names.iter().take(SHOWN_MAX).map(|name| format!("`{name}`")).collect();
    if names.len() > SHOWN_MAX {
        chain.push(format!("({} more)", names.len() - SHOWN_MAX));
    }
    format!(
        "toolsets include one another in a circle: {} -> `{first}`; take `{first}` out of `includes` of `{last}`",
        chain.join(" -> ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toolset::Live;

    fn including(pairs: &[(&str, &[&str])]) -> BTreeMap<String, UserToolset> {
        let toolset = |includes: &[&str]| UserToolset {
            includes: includes.iter().map(|&name| name.to_owned()).collect(),
            ..UserToolset::default()
        };
        pairs.iter().map(|(name, includes)| ((*name).to_owned(), toolset(includes))).collect()
    }

    #[test]
    fn names_of_the_house_are_refused() {
        let check = |name: &str| check_user(name, &UserToolset::default());
        assert_eq!(check("mine"), Ok(()));
        for (name, why) in [
            ("web", "built-in"),
            ("hermes-cli", "built-in"),
            ("web_tools", "old name"),
            ("all", "every"),
            ("*", "every"),
            ("mcp-github", "MCP"),
            ("MCP-github", "MCP"),
            ("my tools", "not a name"),
            ("", "not a name"),
        ] {
            let message = check(name).expect_err(name);
            assert!(message.contains(why), "{message}");
        }
        let toolset = UserToolset { tools: vec!["a b".to_owned()], ..UserToolset::default() };
        let message = check_user("mine", &toolset).expect_err("a bad tool");
        assert!(message.starts_with("toolset `mine`: `a b` is not a name"), "{message}");
    }

    #[test]
    fn circles_are_told() {
        let live = Live::default();
        let cycles = |pairs: &[(&str, &[&str])]| Toolsets::new(&including(pairs), &live).cycles();
        assert!(cycles(&[("a", &["b", "c"]), ("b", &["d"]), ("c", &["d"]), ("d", &[])]).is_empty());
        assert!(cycles(&[("a", &["web", "gone", "all"])]).is_empty());
        assert_eq!(
            cycles(&[("a", &["b"]), ("b", &["c"]), ("c", &["a", "a"]), ("z", &["z", "a"])]),
            [
                "toolset `z` includes itself; take it out of its `includes`",
                "toolsets include one another in a circle: `a` -> `b` -> `c` -> `a`; take `a` out of `includes` of `c`",
            ]
        );
    }

    #[test]
    fn a_long_circle_is_told_shortly() {
        let names: Vec<String> = (0..100_000).map(|number| format!("t{number:06}")).collect();
        let user = names
            .iter()
            .enumerate()
            .map(|(number, name)| {
                let includes = vec![names[(number + 1) % names.len()].clone()];
                (name.clone(), UserToolset { includes, ..UserToolset::default() })
            })
            .collect();
        let cycles = Toolsets::new(&user, &Live::default()).cycles();
        assert_eq!(cycles.len(), 1);
        assert!(cycles[0].contains("-> (99992 more) -> `t000000`; take"), "{}", cycles[0]);
    }
}
