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
//! ```

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;
use toml_edit::{Document, DocumentMut, Item, TableLike};

use crate::authority::DirGrant;
use crate::limits::{LimitError, Limits};
use crate::text;
use crate::tool::PluginId;

/// What an operator configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// The bounds of the host.
    pub limits: Limits,
    /// What is said of single plugins, by id.
    pub plugins: BTreeMap<PluginId, PluginConfig>,
}

/// What an operator says of one plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginConfig {
    /// It may replace tools of others, and take reserved names.
    pub allow_tool_override: bool,
    /// Directories it may use, if they were granted to its present bytes.
    pub dirs: Vec<DirGrant>,
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
    /// Takes over from `project` what allows less, and returns the ids of plugins for which it
    /// asked for more, in vain.
    ///
    /// `project` is a configuration read on top of this one.
    pub fn narrow(&mut self, project: &Config) -> Vec<PluginId> {
        self.limits.narrow(&project.limits);
        let mut refused = Vec::new();
        for (id, theirs) in &project.plugins {
            let ours = self.plugins.entry(id.clone()).or_default();
            let more_dirs = theirs.dirs.iter().any(|dir| !ours.dirs.contains(dir));
            if (theirs.allow_tool_override && !ours.allow_tool_override) || more_dirs {
                refused.push(id.clone());
            }
            ours.allow_tool_override &= theirs.allow_tool_override;
            ours.dirs.retain(|dir| theirs.dirs.contains(dir));
        }
        refused
    }
}

/// Reads a configuration on top of `base`: what the text does not mention stays as it is there.
///
/// # Errors
/// If the text is not TOML, has a key that is not known, or a value that is not allowed.
pub fn parse(text: &str, base: &Config) -> Result<Config, ConfigError> {
    let document = text.parse::<Document<String>>().map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        ConfigError { line: line(text, start), problem: error.message().to_owned() }
    })?;
    let reader = Reader { text };
    let mut config = base.clone();
    for (key, item) in reader.entries(document.as_table(), &["limits", "plugins"])? {
        let table = reader.table(key, item)?;
        match key {
            "limits" => reader.limits(table, &mut config.limits)?,
            _ => reader.plugins(table, &mut config.plugins)?,
        }
    }
    Ok(config)
}

/// Returns the text with these directories added to what a plugin is granted. Comments and
/// order stay.
///
/// # Errors
/// If the text is not TOML, or has something else in that place.
pub fn with_dirs(text: &str, id: &PluginId, dirs: &[DirGrant]) -> Result<String, ConfigError> {
    let mut document = editable(text)?;
    let misplaced =
        |what: &str| ConfigError { line: 1, problem: format!("`{what}` must be a table") };
    let plugins = document.entry("plugins").or_insert(toml_edit::table());
    let plugins = plugins.as_table_like_mut().ok_or_else(|| misplaced("plugins"))?;
    let plugin = plugins.entry(id.as_str()).or_insert(toml_edit::table());
    let plugin = plugin.as_table_like_mut().ok_or_else(|| misplaced("plugins"))?;
    let list = plugin.entry("dirs").or_insert(toml_edit::value(toml_edit::Array::new()));
    let list = list.as_array_mut().ok_or_else(|| misplaced("dirs"))?;
    for dir in dirs {
        let dir = dir.to_string();
        if !list.iter().any(|known| known.as_str() == Some(&dir)) {
            list.push(dir);
        }
    }
    Ok(document.to_string())
}

/// Returns the text without any directory that a plugin is granted, and how many there were.
///
/// # Errors
/// If the text is not TOML.
pub fn without_dirs(text: &str, id: &PluginId) -> Result<(String, usize), ConfigError> {
    let mut document = editable(text)?;
    let dirs = document
        .get_mut("plugins")
        .and_then(Item::as_table_like_mut)
        .and_then(|plugins| plugins.get_mut(id.as_str()))
        .and_then(Item::as_table_like_mut)
        .and_then(|plugin| plugin.remove("dirs"));
    let count = dirs.as_ref().and_then(Item::as_array).map_or(0, toml_edit::Array::len);
    Ok((document.to_string(), count))
}

fn editable(text: &str) -> Result<DocumentMut, ConfigError> {
    text.parse::<DocumentMut>().map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        ConfigError { line: line(text, start), problem: error.message().to_owned() }
    })
}

struct Reader<'a> {
    text: &'a str,
}

impl Reader<'_> {
    fn limits(&self, table: &dyn TableLike, limits: &mut Limits) -> Result<(), ConfigError> {
        for (key, item) in self.entries(table, Limits::NAMES)? {
            let value = item.as_value().map(|value| match value.as_str() {
                Some(text) => text.to_owned(),
                None => value.to_string().trim().to_owned(),
            });
            let value =
                value.ok_or_else(|| self.error(item, format!("`{key}` must be a value")))?;
            limits
                .set(key, &value)
                .map_err(|error: LimitError| self.error(item, error.to_string()))?;
        }
        Ok(())
    }

    fn plugins(
        &self,
        table: &dyn TableLike,
        plugins: &mut BTreeMap<PluginId, PluginConfig>,
    ) -> Result<(), ConfigError> {
        let mut seen = BTreeSet::new();
        for (key, item) in table.iter() {
            let id =
                PluginId::from_stem(key).map_err(|error| self.error(item, error.to_string()))?;
            if !seen.insert(id.clone()) {
                return Err(self.error(item, format!("plugin `{id}` stands here twice")));
            }
            let settings = self.table(key, item)?;
            let config = plugins.entry(id).or_default();
            for (name, item) in self.entries(settings, &["allow_tool_override", "dirs"])? {
                match name {
                    "dirs" => config.dirs = self.dirs(item)?,
                    _ => {
                        let must = format!("`{name}` must be true or false");
                        let value = item.as_bool().ok_or_else(|| self.error(item, must))?;
                        config.allow_tool_override = value;
                    }
                }
            }
        }
        Ok(())
    }

    fn dirs(&self, item: &Item) -> Result<Vec<DirGrant>, ConfigError> {
        let must = || self.error(item, "`dirs` must be a list of texts".to_owned());
        let list = item.as_array().ok_or_else(must)?;
        list.iter()
            .map(|value| {
                let text = value.as_str().ok_or_else(must)?;
                DirGrant::parse(text, None).map_err(|error| self.error(item, error.to_string()))
            })
            .collect()
    }

    /// The entries of a table, all of them known.
    fn entries<'t>(
        &self,
        table: &'t dyn TableLike,
        known: &[&str],
    ) -> Result<Vec<(&'t str, &'t Item)>, ConfigError> {
        for (key, item) in table.iter() {
            if known.contains(&key) {
                continue;
            }
            let shown = text::one_line(&text::cut(key, 60));
            let hint = match text::nearest(key, known.iter().copied()).first() {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known are {}", known.join(", ")),
            };
            let line = table
                .key(key)
                .and_then(toml_edit::Key::span)
                .or_else(|| item.span())
                .map_or(1, |span| line(self.text, span.start));
            let problem = format!("unknown key `{shown}`; {hint}");
            return Err(ConfigError { line, problem });
        }
        Ok(table.iter().collect())
    }

    fn table<'t>(&self, key: &str, item: &'t Item) -> Result<&'t dyn TableLike, ConfigError> {
        item.as_table_like().ok_or_else(|| self.error(item, format!("`{key}` must be a table")))
    }

    fn error(&self, item: &Item, problem: String) -> ConfigError {
        let start = item.span().map_or(0, |span| span.start);
        ConfigError { line: line(self.text, start), problem }
    }
}

fn line(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
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
    fn grants_are_edited_in_place() {
        let id = PluginId::from_stem("files").expect("an id");
        let dir = |text| DirGrant::parse(text, None).expect(text);
        let text = "# mine\n[limits]\ntools_max = 7 # few\n";
        let granted = with_dirs(text, &id, &[dir("/a:ro"), dir("/b=c:rw")]).expect("edited");
        assert!(granted.starts_with(text), "{granted}");
        let granted = with_dirs(&granted, &id, &[dir("/a:ro")]).expect("edited");
        let config = parse(&granted, &Config::default()).expect("a configuration");
        assert_eq!(config.plugins[&id].dirs, [dir("/a:ro"), dir("/b=c:rw")]);
        let (revoked, count) = without_dirs(&granted, &id).expect("edited");
        assert_eq!(count, 2);
        let config = parse(&revoked, &Config::default()).expect("a configuration");
        assert!(config.plugins[&id].dirs.is_empty());
        assert!(revoked.starts_with(text), "{revoked}");
        refused(
            "[plugins.a]\ndirs = [\"data:ro\"]",
            "line 2: `data:ro` is no directory grant: the path is relative; write HOST[=GUEST]:ro or HOST[=GUEST]:rw, such as /data:ro or /data=input:rw",
        );
    }

    #[test]
    fn a_project_only_narrows() {
        let text = "[limits]\nwall_time_max = \"2min\"\n[plugins.a]\nallow_tool_override = true";
        let mut ours = parse(text, &Config::default()).expect("ours");
        let text = "[limits]\nwall_time_max = \"5min\"\ntools_max = 3\n\
                    [plugins.a]\nallow_tool_override = false\n\
                    [plugins.b]\nallow_tool_override = true";
        let project = parse(text, &ours).expect("the project's");
        let refused = ours.narrow(&project);
        assert_eq!(ours.limits.wall_time_max, Duration::from_secs(120));
        assert_eq!(ours.limits.tools_max.0, 3);
        assert!(ours.plugins.values().all(|plugin| !plugin.allow_tool_override));
        assert_eq!(refused, [PluginId::from_stem("b").expect("an id")]);
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
