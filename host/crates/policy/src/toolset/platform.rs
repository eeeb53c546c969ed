//! Which toolsets a platform (a command line, a messenger) has, when its user chose, and when not.

use std::collections::{BTreeSet, HashSet};

use super::table::TABLE;
use super::{Members, Toolsets, is_builtin_toolset, is_every};

/// The preset of platforms that the table does not know: exactly the core tools.
const OTHER_PRESET: &str = "hermes-cli";

/// What is saved about one platform.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Platform {
    /// The toolsets its user chose; `None` if there was no choice yet.
    pub toolsets: Option<Vec<String>>,
    /// Toolsets of plugins that the user has been shown. Those of them that are not chosen are
    /// off; a toolset that was never shown is on.
    pub known: Vec<String>,
}

impl Toolsets<'_> {
    /// Returns the names of the toolsets to enable on the platform `name`, sorted.
    ///
    /// Without a choice these are the toolsets a user can be asked about (`configurable` in the
    /// table) that lie within the platform's preset, but for those that are off at first. A
    /// preset or another composite within a choice counts for the same toolsets; what these do
    /// not cover stays under its own name, so nothing that a user wrote is dropped. Toolsets of
    /// plugins follow [`Platform::known`]; `mcp_servers`, the enabled ones, are added.
    ///
    /// It does not know of credentials: who has some for a toolset that is off at first, such as
    /// `homeassistant`, adds its name.
    pub fn platform(&self, name: &str, platform: &Platform, mcp_servers: &[String]) -> Vec<String> {
        let preset = [preset_of(name)];
        let chosen = platform.toolsets.as_deref().unwrap_or(&preset).iter().map(String::as_str);
        let (asked, others): (Vec<&str>, Vec<&str>) =
            chosen.partition(|name| TABLE.configurable.contains(*name));
        let asked = asked.into_iter().chain(self.within(&others));
        let mut enabled: BTreeSet<String> = asked.map(str::to_owned).collect();
        let covered = self.collect(enabled.iter().map(String::as_str), Members::Static);
        let left: Vec<&str> =
            others.into_iter().filter(|name| !self.is_covered(name, &covered)).collect();
        enabled.extend(left.into_iter().map(str::to_owned));
        enabled.extend(self.of_plugins(&platform.known).cloned());
        enabled.extend(mcp_servers.iter().map(|server| self.of_server(server)));
        enabled.into_iter().collect()
    }

    /// The toolsets, on at first, whose static members all lie within `composites`. One without
    /// members lies nowhere, or else every preset would have what joins it.
    fn within<'t>(&'t self, composites: &[&'t str]) -> impl Iterator<Item = &'t str> + use<'t> {
        let tools = self.collect(composites.iter().copied(), Members::Static);
        let at_first = TABLE.configurable.difference(&TABLE.default_off).map(String::as_str);
        at_first.filter(move |name| {
            let mut members = TABLE.toolsets[*name].tools().peekable();
            members.peek().is_some() && members.all(|tool| tools.contains(tool))
        })
    }

    /// Tells whether a chosen composite has been said by other names: as a preset, or because all
    /// it has is in `covered`.
    fn is_covered(&self, name: &str, covered: &BTreeSet<&str>) -> bool {
        let is_preset = self.find(name).is_some_and(|group| group.is_preset());
        let tools = self.collect([name], Members::All);
        is_preset || !tools.is_empty() && tools.is_subset(covered)
    }

    /// Toolsets of plugins that are on although nobody chose them: their user never saw them.
    ///
    /// Not those that join a toolset with members of its own, which would come on with them.
    fn of_plugins(&self, known: &[String]) -> impl Iterator<Item = &String> {
        let known: HashSet<&str> = known.iter().map(String::as_str).collect();
        self.live.toolsets.keys().filter(move |name| {
            let is_off = TABLE.default_off.contains(*name) || known.contains(name.as_str());
            let is_own = match TABLE.toolsets.get(*name) {
                Some(table) => table.is_empty(),
                None => !self.user.contains_key(*name),
            };
            is_own && !is_off && !name.starts_with("mcp-")
        })
    }

    /// The toolset of a server: its alias, unless that means something else, such as `terminal`.
    fn of_server(&self, server: &str) -> String {
        let is_free = !is_every(server)
            && !is_builtin_toolset(server)
            && !TABLE.legacy.contains_key(server)
            && !self.user.contains_key(server)
            && !self.live.toolsets.contains_key(server);
        match self.live.aliases.get(server) {
            _ if is_free => server.to_owned(),
            Some(target) => target.clone(),
            None => format!("mcp-{server}"),
        }
    }
}

fn preset_of(platform: &str) -> String {
    let preset = format!("hermes-{}", platform.replace('_', "-"));
    if is_builtin_toolset(&preset) { preset } else { OTHER_PRESET.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::toolset::{Live, UserToolset};

    fn strings(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn chosen(names: &[&str]) -> Platform {
        Platform { toolsets: Some(strings(names)), known: Vec::new() }
    }

    fn live(toolsets: &[(&str, &str)]) -> Live {
        let pair = |(toolset, tool): &(&str, &str)| {
            ((*toolset).to_owned(), BTreeSet::from([(*tool).to_owned()]))
        };
        Live { toolsets: toolsets.iter().map(pair).collect(), aliases: BTreeMap::new() }
    }

    fn check(name: &str, platform: &Platform, expected: &str) {
        let (user, live) = (BTreeMap::new(), Live::default());
        let enabled = Toolsets::new(&user, &live).platform(name, platform, &[]);
        assert_eq!(enabled.join(" "), expected, "{name} {platform:?}");
    }

    #[test]
    fn without_a_choice_a_platform_has_its_preset() {
        let core = "browser clarify code_execution computer_use cronjob delegation file image_gen memory session_search skills terminal todo tts vision web";
        for name in ["cli", "telegram", "discord", "wecom_callback", "elsewhere"] {
            check(name, &Platform::default(), core);
        }
        check("webhook", &Platform::default(), "clarify vision web");
        check("yuanbao", &Platform::default(), &format!("{core} yuanbao"));
        let api = "browser code_execution cronjob delegation file image_gen memory session_search skills terminal todo vision web";
        check("api_server", &Platform::default(), api);
    }

    #[test]
    fn a_choice_is_obeyed() {
        check("cli", &chosen(&["web", "spotify"]), "spotify web");
        check("cli", &chosen(&[]), "");
        check("cli", &chosen(&["hermes-webhook"]), "clarify vision web");
        check("cli", &chosen(&["tts", "debugging"]), "file terminal tts web");
        check("discord", &chosen(&["discord", "hermes-webhook"]), "clarify discord vision web");
        // What the toolsets one is asked about do not cover keeps its name, unknown ones too.
        check("cli", &chosen(&["kanban", "nope"]), "kanban nope");
        check("cli", &chosen(&["web", "search", "web_tools"]), "web");
    }

    #[test]
    fn toolsets_of_plugins_are_on_until_seen() {
        let user = BTreeMap::from([("mine".to_owned(), UserToolset::default())]);
        let live = live(&[
            ("data", "json_query"),
            ("mine", "joined"),
            ("safe", "joined_too"),
            ("maps", "route"),
            ("mcp-git", "mcp__git__log"),
            ("spotify", "spotify_search"),
            ("context_engine", "recall"),
        ]);
        let toolsets = Toolsets::new(&user, &live);
        let enabled = |names: &[&str], known: &[&str]| {
            let platform = Platform { known: strings(known), ..chosen(names) };
            toolsets.platform("cli", &platform, &[]).join(" ")
        };
        assert_eq!(enabled(&["web"], &[]), "context_engine data maps web");
        assert_eq!(enabled(&["web"], &["data", "context_engine"]), "maps web");
        assert_eq!(enabled(&["web", "data"], &["data", "maps"]), "context_engine data web");
    }

    #[test]
    fn servers_are_added_under_a_name_that_is_theirs() {
        let user = BTreeMap::from([("mine".to_owned(), UserToolset::default())]);
        let mut live = live(&[("mcp-git", "mcp__git__log"), ("mcp-term", "mcp__terminal__run")]);
        live.aliases.insert("git".to_owned(), "mcp-git".to_owned());
        live.aliases.insert("terminal".to_owned(), "mcp-term".to_owned());
        let servers = strings(&["git", "terminal", "mine", "all", "away"]);
        let enabled = Toolsets::new(&user, &live).platform("cli", &chosen(&["web"]), &servers);
        assert_eq!(enabled.join(" "), "away git mcp-all mcp-mine mcp-term web");
    }

    #[test]
    fn a_toolset_of_the_user_keeps_its_name() {
        let toolset = |tools: &[&str]| UserToolset { tools: strings(tools), ..Default::default() };
        let user = BTreeMap::from([
            ("mine".to_owned(), toolset(&["web_search", "web_extract", "json_query"])),
            ("empty".to_owned(), UserToolset::default()),
        ]);
        let live = Live::default();
        let platform = chosen(&["mine", "empty"]);
        let enabled = Toolsets::new(&user, &live).platform("cli", &platform, &[]);
        assert_eq!(enabled.join(" "), "empty mine web");
    }
}
