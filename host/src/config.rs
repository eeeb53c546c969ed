//! `toolhost.toml`: from text to checked values, once. Unknown keys are errors that name the
//! nearest known one; every error has the line.
//!
//! ```toml
//! [limits]                       # by the names of `toolhost::limits`
//! wall_time_max = "30s"          # a duration
//! memory_bytes_max = "128 MiB"   # a size
//! tools_max = 64                 # a count
//!
//! [plugins.weather]              # by plugin id
//! allow_tool_override = true     # may replace tools and take reserved names
//! dirs = ["/data:ro"]            # HOST[=GUEST]:ro|rw; written by `toolhost grant`
//! http = ["https://api.example.com"]  # [METHODS ][SCHEME://]HOST[:PORT][/PREFIX][ private]
//! env = ["LANG"]                 # environment variables, by name
//! secrets = ["KEY@api.example.com:query=appid"]  # NAME@HOST[:PORT]:header=HEADER|query=PARAMETER
//! kv = true                      # a store of its own
//! hooks = ["pre-call:web_*"]     # EVENT:TOOL
//! exclusive = [["dirs", "http"]] # one call uses only one kind of a group
//! update = "same-needs"          # new bytes that ask for no more keep the grants; else "never"
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
//! A project's own `toolhost.toml` narrows what the user's allows, and no more, until a person
//! has trusted the project with this very file; from then on its `[plugins]` count for the
//! plugins of the project's folder, as if the user had written them, and its servers.

mod edit;
mod reader;
mod server;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use thiserror::Error;
use toml_edit::Document;

use crate::authority::{Exclusive, Grants};
use crate::guardrails::GuardrailSettings;
use crate::limits::Limits;
use crate::tool::PluginId;
use crate::toolset::{Platform, UserToolset};
use reader::Reader;

pub use edit::{with_grants, without_grants};
pub use server::ServerConfig;

/// What an operator configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// The bounds of the host.
    pub limits: Limits,
    /// What is said of single plugins, by id.
    pub plugins: BTreeMap<PluginId, PluginConfig>,
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

/// What an operator says of one plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginConfig {
    /// It may replace tools of others, and take reserved names.
    pub allow_tool_override: bool,
    /// What it may use, if that was granted to its present bytes.
    pub grants: Grants,
    /// Kinds of authority of which one call may use only one.
    pub exclusive: Vec<Exclusive>,
    /// What new bytes of a plugin that was granted something come to.
    pub update: Update,
}

/// What new bytes of a trusted plugin come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Update {
    /// They wait until a person trusts them.
    #[default]
    Never,
    /// They are trusted if they ask for nothing that the trusted ones did not ask for, and have
    /// no suspect texts.
    SameNeeds,
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
    /// What is said of the plugin `id` of `folder`. The operator's file names plugins by id alone,
    /// so of its grants those count that were given to the plugin of this folder: `agreed`, as
    /// flags of `toolhost grant`; all of them if that is not known.
    pub fn plugin(&self, id: &PluginId, folder: &Path, agreed: Option<&[String]>) -> PluginConfig {
        let mut ours = self.plugins.get(id).cloned().unwrap_or_default();
        if let Some(agreed) = agreed {
            ours.grants.retain(agreed);
        }
        let project = self.project.as_ref().filter(|project| project.folder == folder);
        if let Some(theirs) = project.and_then(|project| project.plugins.get(id)) {
            ours.grants.extend(&theirs.grants);
            ours.allow_tool_override |= theirs.allow_tool_override;
            let new = theirs.exclusive.iter().filter(|group| !ours.exclusive.contains(group));
            let new: Vec<Exclusive> = new.cloned().collect();
            ours.exclusive.extend(new);
            if ours.update == Update::Never {
                ours.update = theirs.update;
            }
        }
        ours
    }

    /// Takes over what a trusted project says, for the plugins of `folder`, which is a path
    /// without links. `project` is a configuration read on its own; its limits only narrow.
    pub fn trust(&mut self, project: Config, folder: PathBuf) {
        self.narrow_house(&project);
        for (name, server) in project.servers {
            self.servers.entry(name).or_insert(server);
        }
        self.project = Some(Project { folder, plugins: project.plugins });
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
            ..self.limits.clone()
        };
        self.limits_are_lowered |= self.limits != ours;
        for (name, toolset) in &project.toolsets {
            self.toolsets.entry(name.clone()).or_insert_with(|| toolset.clone());
        }
        for (name, platform) in &project.platforms {
            self.platforms.entry(name.clone()).or_insert_with(|| platform.clone());
        }
    }

    /// Takes over from `project` what allows less, and returns what it asked for in vain, as
    /// tables of its file.
    ///
    /// `project` is a configuration read on top of this one. Its toolsets and platforms give
    /// no right, so they count, unless this one has others of the same name.
    pub fn narrow(&mut self, project: &Config) -> Vec<String> {
        self.narrow_house(project);
        let mut refused: Vec<PluginId> = Vec::new();
        for (id, theirs) in &project.plugins {
            let ours = self.plugins.entry(id.clone()).or_default();
            let more = ours.grants.narrow(&theirs.grants);
            if (theirs.allow_tool_override && !ours.allow_tool_override) || more {
                refused.push(id.clone());
            }
            ours.allow_tool_override &= theirs.allow_tool_override;
            // Read on top of ours, so what is missing there was written over.
            let missing = ours.exclusive.iter().any(|group| !theirs.exclusive.contains(group))
                || (theirs.update, ours.update) == (Update::SameNeeds, Update::Never);
            if theirs.update == Update::Never {
                ours.update = Update::Never;
            }
            ours.exclusive.extend(
                theirs
                    .exclusive
                    .iter()
                    .filter(|group| !ours.exclusive.contains(group))
                    .cloned()
                    .collect::<Vec<_>>(),
            );
            if missing && !refused.contains(id) {
                refused.push(id.clone());
            }
        }
        let servers =
            project.servers.iter().filter(|(name, server)| self.servers.get(*name) != Some(server));
        let tables = refused.iter().map(|id| format!("plugins.{id}"));
        tables.chain(servers.map(|(name, _)| format!("mcp_servers.{name}"))).collect()
    }

    /// The names of all variables that some plugin was granted, sorted.
    pub fn variables(&self) -> Vec<String> {
        self.names(|grants| grants.env.clone())
    }

    /// The names of all secrets that some plugin was granted, sorted.
    pub fn secrets(&self) -> Vec<String> {
        self.names(|grants| grants.secrets.iter().map(|grant| grant.name.clone()).collect())
    }

    fn names(&self, of: impl Fn(&Grants) -> Vec<String>) -> Vec<String> {
        let project = self.project.iter().flat_map(|project| project.plugins.values());
        let plugins = self.plugins.values().chain(project);
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
    let document = text.parse::<Document<String>>().map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        ConfigError { line: reader::line(text, start), problem: error.message().to_owned() }
    })?;
    let reader = Reader { text };
    let mut config = base.clone();
    let known =
        ["limits", "plugins", "toolsets", "platforms", "guardrails", "mcp_servers", "audit"];
    for (key, item) in reader.entries(document.as_table(), &known)? {
        let table = reader.table(key, item)?;
        match key {
            "limits" => reader.limits(table, &mut config.limits)?,
            "plugins" => reader.plugins(table, &mut config.plugins)?,
            "guardrails" => reader.guardrails(table, &mut config.guardrails)?,
            "audit" => reader.audit(table, &mut config.audit)?,
            "toolsets" => reader.toolsets(table, &mut config.toolsets)?,
            "mcp_servers" => reader.servers(table, &mut config.servers)?,
            _ => reader.platforms(table, &mut config.platforms)?,
        }
    }
    Ok(config)
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
        assert!(config.plugins[&id].allow_tool_override);
        assert_eq!(parse("", &config).expect("an empty one"), config);
    }

    #[test]
    fn a_project_only_narrows() {
        let text = "[limits]\nwall_time_max = \"2min\"\n[plugins.a]\nallow_tool_override = true";
        let mut ours = parse(text, &Config::default()).expect("ours");
        let text = "[limits]\nwall_time_max = \"5min\"\ntools_max = 3\ncache_bytes_max = 1\n\
                    [plugins.a]\nallow_tool_override = false\n\
                    [plugins.b]\nallow_tool_override = true";
        let project = parse(text, &ours).expect("the project's");
        let refused = ours.narrow(&project);
        assert_eq!(ours.limits.wall_time_max, Duration::from_secs(120));
        assert_eq!(ours.limits.tools_max.0, 3);
        // All folders share what was compiled.
        assert_eq!(ours.limits.cache_bytes_max, Limits::default().cache_bytes_max);
        assert!(ours.plugins.values().all(|plugin| !plugin.allow_tool_override));
        assert_eq!(refused, ["plugins.b"]);
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
        assert_eq!(config.plugins[&id].grants.flags(), ["--env TOKEN", "--hook 'pre-call:*'"]);
        let text = "[guardrails]\nhard_stop_enabled = true\nwarn_after = { exact_failure = 4 }";
        let config = parse(text, &Config::default()).expect("a configuration");
        assert!(config.guardrails.hard_stop_enabled && config.guardrails.warnings_enabled);
        assert_eq!(config.guardrails.warn_after.exact_failure, 4);
        refused(
            "[guardrails]\nwarn_after = { exact = 4 }",
            "line 2: unknown key `exact`; known are exact_failure, same_tool_failure, idempotent_no_progress",
        );
        refused("[toolsets.a]\ntools = \"x\"", "line 2: `tools` must be a list of texts");
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
