//! `toolhost.toml`: from text to checked values, once. Unknown keys are errors that name the
//! nearest known one; every error has the line.
//!
//! ```toml
//! [limits]                       # by the names of `toolhost::limits`
//! wall_time_max = "30s"          # a duration
//! memory_bytes_max = "128 MiB"   # a size
//! tools_max = 64                 # a count
//!
//! [plugins."/home/me/project/plugins/weather"]  # one plugin: its folder, and its id; or bundled/ID
//! allow_tool_override = true     # may replace tools and take reserved names
//! dirs = ["/data:ro"]            # DIR[=GUEST]:ro|rw; written by `toolhost grant`
//! http = ["https://api.example.com"]  # [METHODS ][SCHEME://]HOST[:PORT][/PREFIX][ private]
//! env = ["LANG"]                 # environment variables, by name
//! secrets = ["KEY@api.example.com:query=appid"]  # NAME@HOST[:PORT]:header=HEADER|query=PARAMETER
//! kv = true                      # a store of its own
//! hooks = ["pre-call:web_*"]     # EVENT:TOOL
//! exclusive = [["dirs", "http"]] # one call uses only one kind of a group
//! update = "same-needs"          # new bytes that ask for no more keep the grants; else "never"
//!
//! [plugins.notes]                # every plugin of an id: what narrows holds for each of them
//! exclusive = [["dirs", "http"]]
//!
//! [toolsets.mine]                # toolsets of one's own
//! description = "What I use"
//! tools = ["json_query"]
//! includes = ["file"]
//!
//! [guardrails]                   # calls that turn in circles, counted by turns
//! warnings_enabled = true        # results are annotated
//! hard_stop_enabled = false      # calls are refused
//! warn_after = { exact_failure = 2, same_tool_failure = 3, idempotent_no_progress = 2 }
//! hard_stop_after = { exact_failure = 5, same_tool_failure = 8, idempotent_no_progress = 5 }
//!
//! [mcp_servers.github]           # read and trusted, and not mounted yet
//! command = "github-mcp"         # or url = "https://..."
//! [audit]                        # what every call, load and grant was; of the operator's file alone
//! enabled = true                 # it is written
//! contents = false               # the beginnings of arguments and results as well as their digests
//!
//! [platforms.cli]                # what `--platform cli` enables
//! toolsets = ["web", "mine"]
//! known = ["data"]               # plugins' toolsets that are off unless listed
//! ```
//!
//! A grant is of one plugin, so its table names a folder and an id. A table that names only an id
//! is of before: what it allows counts for the plugin it was given to, as far as the lock tells
//! (see [`IdShare`]), and the next command that changes anything of the plugin rewrites it.
//!
//! A project's own `toolhost.toml` names ids of its own folder, and narrows what the user's allows
//! to every plugin of an id, and no more, until a person has trusted the project with this very
//! file; from then on its `[plugins]` count for the plugins of the project's folder, as if the user
//! had written them, and its servers.

mod edit;
mod manifest;
mod plugin;
mod project;
mod reader;
mod said;
mod server;

use std::collections::BTreeMap;
use std::path::PathBuf;

use thiserror::Error;
use toml_edit::Document;

use reader::{ConfigKey, ConfigReader};
use toolhost_core::limits::Limits;
use toolhost_core::tool::{PluginAddress, PluginId};
use toolhost_policy::capability::{Grants, SecretGrant, VariableGrant};
use toolhost_policy::guardrails::GuardrailSettings;
use toolhost_policy::toolset::{Platform, UserToolset};

pub use edit::{rewritten, with_grants, without_grants, without_table_of_id};
pub use manifest::{NamedByManifest, has_workspace, named_by_manifest};
pub use plugin::{IdShare, PluginConfig, Update};
pub use project::{ProjectFile, parse_project};
pub use said::Said;
pub use server::ServerConfig;

/// What an operator configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// The bounds of the host.
    pub limits: Limits,
    /// What is said of single plugins.
    pub plugins: BTreeMap<PluginAddress, PluginConfig>,
    /// What is said of ids, without a folder. It narrows every plugin of the id; what it allows
    /// counts for those it was given to.
    pub ids: BTreeMap<PluginId, PluginConfig>,
    /// Toolsets of the operator's own, by name.
    pub toolsets: BTreeMap<String, UserToolset>,
    /// What platforms enable, by name.
    pub platforms: BTreeMap<String, Platform>,
    /// When calls that turn in circles are warned of or refused.
    pub guardrails: GuardrailSettings,
    /// Whether there is an audit log, and what stands in it.
    pub audit: AuditConfig,
    /// MCP servers, by name. They can be trusted; this version does not mount them.
    pub servers: BTreeMap<String, ServerConfig>,
    /// What a trusted project says of the plugins in its own folder.
    pub project: Option<Project>,
    /// `turn_chars_max` was set, by whomever.
    pub turn_is_bounded: bool,
    /// A project has lowered limits, so what fails here may work elsewhere.
    pub limits_are_lowered: bool,
}

/// What a trusted project says of its own plugins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Project {
    /// The folder of its plugins, without links.
    pub folder: PathBuf,
    /// What it says of them, by id.
    pub plugins: BTreeMap<PluginId, PluginConfig>,
}

/// What an operator says of the audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditConfig {
    /// It is written.
    pub enabled: bool,
    /// The beginnings of arguments and results stand in it, besides their digests.
    pub contents: bool,
}

impl Default for AuditConfig {
    fn default() -> AuditConfig {
        AuditConfig { enabled: true, contents: false }
    }
}

/// What is wrong with a configuration, and where.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("line {line}: {problem}")]
pub struct ConfigError {
    /// The line, counted from 1.
    pub line: usize,
    /// What was given, what is allowed.
    pub problem: String,
}

impl Config {
    /// What is said of one plugin: in its own table, in that of its id as far as that is its
    /// (`share`), and in a trusted project's file, if it lies in the project's folder. Of what the
    /// operator's file grants, those grants count that stand among `agreed`, as flags of `toolhost
    /// grant`; all of them if that is nothing.
    pub fn plugin(
        &self,
        address: &PluginAddress,
        share: &IdShare,
        agreed: Option<&[String]>,
    ) -> PluginConfig {
        let mut ours = self.plugins.get(address).cloned().unwrap_or_default();
        if let Some(of_id) = self.ids.get(&address.id) {
            ours.add(&share.of(of_id));
        }
        if let Some(agreed) = agreed {
            ours.grants.retain(agreed);
        }
        let project = self.project.as_ref().filter(|project| {
            // What is bundled is nobody's project, wherever it lies.
            address.folder() == Some(project.folder.as_path())
        });
        if let Some(theirs) = project.and_then(|project| project.plugins.get(&address.id)) {
            ours.add(theirs);
        }
        ours
    }

    /// Takes over what a trusted project says, for the plugins of `folder`, which is a path
    /// without links. `project` is a configuration read on its own; its limits only narrow.
    pub fn trust(&mut self, project: ProjectFile, folder: PathBuf) {
        self.narrow_house(&project.config);
        let plugins = project.plugins.into_iter().map(|(id, said)| (id, said.alone())).collect();
        for (name, server) in project.config.servers {
            self.servers.entry(name).or_insert(server);
        }
        self.project = Some(Project { folder, plugins });
    }

    /// Lowers limits, and takes over what gives no right. What it says of the audit log counts
    /// for nothing, neither way.
    fn narrow_house(&mut self, project: &Config) {
        let ours = self.limits.clone();
        self.limits.narrow(&project.limits);
        self.limits = Limits {
            // A hook that is stopped early may be a guard.
            hook_time_max: ours.hook_time_max,
            // A log with less room is one that forgets, and so is a store of builds, and what all
            // folders have compiled.
            audit_queue_max: ours.audit_queue_max,
            audit_file_bytes_max: ours.audit_file_bytes_max,
            audit_bytes_max: ours.audit_bytes_max,
            audit_used_max: ours.audit_used_max,
            // What a project calls a failure is none in other folders.
            quarantine_failures_max: ours.quarantine_failures_max,
            quarantine_window: ours.quarantine_window,
            quarantine_time: ours.quarantine_time,
            quarantine_time_max: ours.quarantine_time_max,
            kept_builds_max: ours.kept_builds_max,
            kept_builds_bytes_max: ours.kept_builds_bytes_max,
            cache_bytes_max: ours.cache_bytes_max,
            untrusted_cache_bytes_max: ours.untrusted_cache_bytes_max,
            ..self.limits.clone()
        };
        self.limits_are_lowered |= self.limits != ours;
        self.turn_is_bounded |= project.turn_is_bounded;
        for (name, toolset) in &project.toolsets {
            self.toolsets.entry(name.clone()).or_insert_with(|| toolset.clone());
        }
        for (name, platform) in &project.platforms {
            self.platforms.entry(name.clone()).or_insert_with(|| platform.clone());
        }
    }

    /// Takes over from `project` what allows less, to every plugin of the ids that it names, and
    /// returns what it asked for in vain, as tables of its file.
    ///
    /// `project` is a file read on top of this one. Its toolsets and platforms give no right, so
    /// they count, unless this one has others of the same name.
    pub fn narrow(&mut self, project: &ProjectFile) -> Vec<String> {
        self.narrow_house(&project.config);
        let mut refused: Vec<&PluginId> = Vec::new();
        for (id, said) in &project.plugins {
            let ours = self.plugins.iter_mut().filter(|(address, _)| address.id == *id);
            let asked: Vec<bool> = ours.map(|(_, table)| table.narrow(said)).collect();
            let is_known = !asked.is_empty() && !self.ids.contains_key(id);
            // Plugins without a table are narrowed as well.
            let of_id = self.ids.entry(id.clone()).or_default().narrow(said);
            let asks_more = asked.contains(&true) || of_id && !is_known;
            if asks_more {
                refused.push(id);
            }
        }
        let servers = project.config.servers.iter();
        let servers = servers.filter(|(name, server)| self.servers.get(*name) != Some(server));
        let tables = refused.iter().map(|id| format!("plugins.{id}"));
        tables.chain(servers.map(|(name, _)| format!("mcp_servers.{name}"))).collect()
    }

    /// The names of all variables that some plugin was granted, sorted.
    pub fn variables(&self) -> Vec<String> {
        self.names(|grants| grants.of().map(|VariableGrant(name)| name.clone()).collect())
    }

    /// The names of all secrets that some plugin was granted, sorted.
    pub fn secrets(&self) -> Vec<String> {
        self.names(|grants| grants.of().map(|grant: &SecretGrant| grant.name.clone()).collect())
    }

    fn names(&self, of: impl Fn(&Grants) -> Vec<String>) -> Vec<String> {
        let project = self.project.iter().flat_map(|project| project.plugins.values());
        let plugins = self.plugins.values().chain(self.ids.values()).chain(project);
        let mut names: Vec<String> = plugins.flat_map(|plugin| of(&plugin.grants)).collect();
        names.sort();
        names.dedup();
        names
    }
}

/// Reads a configuration on top of `base`: what the text does not mention stays as it is there.
///
/// # Errors
/// If the text is not TOML, has a key that is not known, or a value that is not allowed.
pub fn parse(text: &str, base: &Config) -> Result<Config, ConfigError> {
    let mut config = base.clone();
    for (key, said, _) in read(text, &mut config)? {
        said.over(match key {
            ConfigKey::Id(id) => config.ids.entry(id).or_default(),
            ConfigKey::One(address) => config.plugins.entry(address).or_default(),
        });
    }
    Ok(config)
}

/// Reads all tables into `config`, but those of plugins, which it returns, each with its line.
fn read(text: &str, config: &mut Config) -> Result<Vec<(ConfigKey, Said, usize)>, ConfigError> {
    let document = text.parse::<Document<String>>().map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        ConfigError { line: reader::line(text, start), problem: error.message().to_owned() }
    })?;
    let reader = ConfigReader { text };
    let mut plugins = Vec::new();
    let known =
        ["limits", "plugins", "toolsets", "platforms", "guardrails", "mcp_servers", "audit"];
    for (key, item) in reader.entries(document.as_table(), &known)? {
        let table = reader.table(key, item)?;
        match key {
            "limits" => {
                reader.limits(table, &mut config.limits, &mut config.turn_is_bounded)?;
            }
            "plugins" => plugins = reader.plugins(table)?,
            "guardrails" => reader.guardrails(table, &mut config.guardrails)?,
            "audit" => reader.audit(table, &mut config.audit)?,
            "toolsets" => reader.toolsets(table, &mut config.toolsets)?,
            "mcp_servers" => reader.servers(table, &mut config.servers)?,
            _ => reader.platforms(table, &mut config.platforms)?,
        }
    }
    Ok(plugins)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn refused(text: &str, expected: &str) {
        assert_eq!(parse(text, &Config::default()).expect_err(text).to_string(), expected);
    }

    #[test]
    fn values_are_read() {
        let config = parse(
            "[limits]\nwall_time_max = \"30s\"\ntools_max = 7\n\
             [plugins.My_Tool]\nallow_tool_override = true\n",
            &Config::default(),
        )
        .expect("a configuration");
        assert_eq!(config.limits.wall_time_max, Duration::from_secs(30));
        assert_eq!(config.limits.tools_max.0, 7);
        let id = PluginId::from_stem("my-tool").expect("an id");
        assert!(config.ids[&id].allow_tool_override);
        assert_eq!(parse("", &config).expect("an empty one"), config);
    }

    #[test]
    fn a_project_only_narrows() {
        let text = "[limits]\nwall_time_max = \"2min\"\n[plugins.a]\nallow_tool_override = true";
        let mut ours = parse(text, &Config::default()).expect("ours");
        let text = "[limits]\nwall_time_max = \"5min\"\ntools_max = 3\ncache_bytes_max = 1\n\
                    [plugins.a]\nallow_tool_override = false\n\
                    [plugins.b]\nallow_tool_override = true";
        let project = parse_project(text, &ours).expect("the project's");
        let refused = ours.narrow(&project);
        assert_eq!(ours.limits.wall_time_max, Duration::from_secs(120));
        assert_eq!(ours.limits.tools_max.0, 3);
        // All folders share what was compiled.
        assert_eq!(ours.limits.cache_bytes_max, Limits::default().cache_bytes_max);
        assert!(ours.ids.values().all(|plugin| !plugin.allow_tool_override));
        assert_eq!(refused, ["plugins.b"]);
    }

    #[test]
    fn a_table_is_one_plugins() {
        let text = "[plugins.'/a/notes']\nkv = true\n[plugins.'bundled/notes']\nenv = ['A']\n\
                    [plugins.notes]\nenv = ['B']\nupdate = 'same-needs'\nexclusive = [['dirs', 'http']]\n";
        let mut config = parse(text, &Config::default()).expect("a configuration");
        let may = |config: &Config, address: &str, share: &IdShare| {
            let address = PluginAddress::parse(address).expect(address);
            let plugin = config.plugin(&address, share, None);
            (plugin.grants.flags().join(" "), plugin.update, plugin.exclusive.len())
        };
        let (none, all) = (IdShare::nothing(), IdShare::all());
        let flags = |flags: &str| flags.to_owned();
        assert_eq!(may(&config, "/a/notes", &none), (flags("--kv"), Update::Never, 1));
        assert_eq!(may(&config, "/a/notes", &all), (flags("--env B --kv"), Update::SameNeeds, 1));
        assert_eq!(may(&config, "/b/notes", &none), (flags(""), Update::Never, 1));
        assert_eq!(may(&config, "bundled/notes", &none), (flags("--env A"), Update::Never, 1));
        // A trusted project's file is for plugins of its own folder, and for none that is bundled.
        let project = parse_project("[plugins.notes]\nhttp = ['a']\n", &Config::default());
        config.trust(project.expect("a project's"), PathBuf::from("/b"));
        assert_eq!(may(&config, "/b/notes", &none).0, "--http https://a");
        assert_eq!(may(&config, "/a/notes", &none).0, "--kv");
        assert_eq!(may(&config, "bundled/notes", &none).0, "--env A");
        // An untrusted one narrows every plugin of an id.
        let text = "[plugins.notes]\nkv = false\nenv = ['B']\n";
        let project = parse_project(text, &config).expect("a project's");
        assert_eq!(config.narrow(&project), ["plugins.notes"]);
        assert_eq!(may(&config, "/a/notes", &all), (flags("--env B"), Update::SameNeeds, 1));
        assert_eq!(may(&config, "bundled/notes", &none), (flags(""), Update::Never, 1));
        let text = "[plugins.others]\nexclusive = [['dirs', 'http']]\n";
        config.narrow(&parse_project(text, &config).expect("a project's"));
        assert_eq!(may(&config, "/c/others", &none), (flags(""), Update::Never, 1));
        let text = "\n[plugins.'/a/notes']\nkv = true\n";
        assert_eq!(
            parse_project(text, &Config::default()).expect_err("a folder").to_string(),
            "line 2: `/a/notes` has a folder; a project's file names plugins of its own folder, by their ids: `[plugins.notes]`"
        );
        refused(
            "[plugins.'notes/x']\nkv = true",
            "line 1: `notes/x` is no plugin: its folder is not absolute, or has a `.` or `..` in it; write bundled/ID, or its absolute folder and its id, such as /home/me/project/plugins/notes",
        );
        refused(
            "[plugins.'/a/notes']\n[plugins.'/a//NOTES']",
            "line 2: plugin `/a/notes` stands here twice",
        );
    }

    #[test]
    fn toolsets_and_platforms_are_read() {
        let text = "[toolsets.mine]\ndescription = \"d\"\ntools = [\"a\"]\nincludes = [\"web\"]\n\
                    [platforms.cli]\ntoolsets = []\nknown = [\"data\"]\n\
                    [plugins.a]\nenv = [\"TOKEN\"]\nhooks = [\"pre-call:*\"]\n";
        let config = parse(text, &Config::default()).expect("a configuration");
        assert_eq!(config.toolsets["mine"].includes, ["web"]);
        assert_eq!(config.platforms["cli"].toolsets, Some(vec![]));
        assert_eq!(config.variables(), ["TOKEN"]);
        let id = PluginId::from_stem("a").expect("an id");
        assert_eq!(config.ids[&id].grants.flags(), ["--env TOKEN", "--hook 'pre-call:*'"]);
        let text = "[guardrails]\nhard_stop_enabled = true\nwarn_after = { exact_failure = 4 }";
        let config = parse(text, &Config::default()).expect("a configuration");
        assert!(config.guardrails.hard_stop_enabled && config.guardrails.warnings_enabled);
        assert_eq!(config.guardrails.warn_after.exact_failure, 4);
        refused(
            "[guardrails]\nwarn_after = { exact = 4 }",
            "line 2: unknown key `exact`; known are exact_failure, same_tool_failure, idempotent_no_progress",
        );
        refused("[toolsets.a]\ntools = \"x\"", "line 2: `tools` must be an array of strings");
        refused("[toolsets.a]\ntool = []", "line 2: unknown key `tool`; did you mean `tools`?");
        assert!(parse("[toolsets.web]\ntools = []", &Config::default()).is_err());
        refused(
            "[plugins.a]\nhooks = [\"x\"]",
            "line 2: `x` is no hook grant: it has no `:`; write EVENT:TOOL, such as pre-call:* or transform:web_*; events are request, pre-call, post-call, transform",
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        refused("\n[limts]\n", "line 2: unknown key `limts`; did you mean `limits`?");
        refused(
            "[limits]\nwall_time = \"1s\"",
            "line 2: unknown key `wall_time`; did you mean `wall_time_max`?",
        );
        refused(
            "[limits]\ntools_max = -1",
            "line 2: `tools_max` is -1, which is not a whole number such as `16`",
        );
        refused(
            "[limits]\nwall_time_max = \"1h\"",
            "line 2: `wall_time_max` is 1h; allowed is 1ms to 10m",
        );
        refused(
            "[plugins.\"a b\"]",
            "line 1: `a b` is no plugin id: allowed are 1 to 40 characters of a-z 0-9 - (case and _ are folded)",
        );
        refused(
            "[plugins.a]\nallow_tool_override = 1",
            "line 2: `allow_tool_override` must be true or false",
        );
        refused("limits = 3", "line 1: `limits` must be a table");
        assert!(
            parse("a = \n", &Config::default())
                .expect_err("broken")
                .to_string()
                .starts_with("line 1: ")
        );
    }
}
