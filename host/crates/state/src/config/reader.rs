//! The tables of `toolhost.toml`, key by key.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use toml_edit::{Item, TableLike};

use super::{AuditConfig, ConfigError, Said, Update};
use toolhost_core::limits::{LimitError, Limits};
use toolhost_core::text;
use toolhost_core::tool::{PluginAddress, PluginId};
use toolhost_policy::capability::{Exclusive, Grants, Kind};
use toolhost_policy::guardrails::{GuardrailSettings, Thresholds};
use toolhost_policy::toolset::{Platform, UserToolset, check_user};

/// The key of a plugin's table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ConfigKey {
    /// Every plugin of an id.
    Id(PluginId),
    /// One plugin.
    One(PluginAddress),
}

impl ConfigKey {
    /// Reads a key: what has a slash in it names one plugin.
    pub(super) fn read(key: &str) -> Result<ConfigKey, String> {
        if key.contains('/') {
            return PluginAddress::parse(key)
                .map(ConfigKey::One)
                .map_err(|error| error.to_string());
        }
        PluginId::from_stem(key).map(ConfigKey::Id).map_err(|error| error.to_string())
    }
}

impl fmt::Display for ConfigKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigKey::Id(id) => id.fmt(formatter),
            ConfigKey::One(address) => address.fmt(formatter),
        }
    }
}

/// Reads tables of a text, and names the line of what is wrong.
pub(super) struct ConfigReader<'a> {
    pub(super) text: &'a str,
}

impl ConfigReader<'_> {
    pub(super) fn limits(
        &self,
        table: &dyn TableLike,
        limits: &mut Limits,
        turn_is_bounded: &mut bool,
    ) -> Result<(), ConfigError> {
        for (key, item) in self.entries(table, Limits::NAMES)? {
            *turn_is_bounded |= key == Limits::TURN_CHARS;
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

    /// The tables of plugins, each with its line.
    pub(super) fn plugins(
        &self,
        table: &dyn TableLike,
    ) -> Result<Vec<(ConfigKey, Said, usize)>, ConfigError> {
        let (mut seen, mut read) = (BTreeSet::new(), Vec::new());
        for (name, item) in table.iter() {
            let key = ConfigKey::read(name).map_err(|problem| self.error(item, problem))?;
            if !seen.insert(key.clone()) {
                return Err(self.error(item, format!("plugin `{key}` stands here twice")));
            }
            let said = self.plugin(self.table(name, item)?)?;
            let start = item.span().map_or(0, |span| span.start);
            read.push((key, said, line(self.text, start)));
        }
        Ok(read)
    }

    fn plugin(&self, table: &dyn TableLike) -> Result<Said, ConfigError> {
        let mut said = Said::default();
        let mut known = vec!["allow_tool_override", "exclusive", "update"];
        known.extend(Kind::all().map(|kind| kind.key()));
        for (name, item) in self.entries(table, &known)? {
            match (name, Kind::of_key(name)) {
                ("update", _) => said.update = Some(self.update(name, item)?),
                ("exclusive", _) => said.exclusive = Some(self.exclusive(name, item)?),
                (_, Some(kind)) => {
                    let mut read = Grants::default();
                    let texts = match kind.value_name() {
                        Some(_) => self.texts(name, item)?,
                        None => self.flag(name, item)?.then(String::new).into_iter().collect(),
                    };
                    for text in texts {
                        let added = read.add(kind, &text, None);
                        added.map_err(|error| self.error(item, error.to_string()))?;
                    }
                    said.grants.insert(kind, read);
                }
                _ => said.allow_tool_override = Some(self.flag(name, item)?),
            }
        }
        Ok(said)
    }

    pub(super) fn guardrails(
        &self,
        table: &dyn TableLike,
        guardrails: &mut GuardrailSettings,
    ) -> Result<(), ConfigError> {
        let known = ["warnings_enabled", "hard_stop_enabled", "warn_after", "hard_stop_after"];
        for (key, item) in self.entries(table, &known)? {
            match key {
                "warn_after" => self.thresholds(key, item, &mut guardrails.warn_after)?,
                "hard_stop_after" => self.thresholds(key, item, &mut guardrails.hard_stop_after)?,
                "warnings_enabled" => guardrails.warnings_enabled = self.flag(key, item)?,
                _ => guardrails.hard_stop_enabled = self.flag(key, item)?,
            }
        }
        Ok(())
    }

    pub(super) fn audit(
        &self,
        table: &dyn TableLike,
        audit: &mut AuditConfig,
    ) -> Result<(), ConfigError> {
        for (key, item) in self.entries(table, &["enabled", "contents"])? {
            match key {
                "enabled" => audit.enabled = self.flag(key, item)?,
                _ => audit.contents = self.flag(key, item)?,
            }
        }
        Ok(())
    }

    fn thresholds(
        &self,
        key: &str,
        item: &Item,
        thresholds: &mut Thresholds,
    ) -> Result<(), ConfigError> {
        let known = ["exact_failure", "same_tool_failure", "idempotent_no_progress"];
        for (name, item) in self.entries(self.table(key, item)?, &known)? {
            let count = item.as_integer().and_then(|count| usize::try_from(count).ok());
            let must = || self.error(item, format!("`{name}` must be a whole number from 1 on"));
            let count = count.filter(|count| *count > 0).ok_or_else(must)?;
            match name {
                "exact_failure" => thresholds.exact_failure = count,
                "same_tool_failure" => thresholds.same_tool_failure = count,
                _ => thresholds.idempotent_no_progress = count,
            }
        }
        Ok(())
    }

    fn update(&self, key: &str, item: &Item) -> Result<Update, ConfigError> {
        match item.as_str() {
            Some("never") => Ok(Update::Never),
            Some("same-needs") => Ok(Update::SameNeeds),
            _ => Err(self.error(item, format!("`{key}` must be \"never\" or \"same-needs\""))),
        }
    }

    fn flag(&self, key: &str, item: &Item) -> Result<bool, ConfigError> {
        item.as_bool().ok_or_else(|| self.error(item, format!("`{key}` must be true or false")))
    }

    pub(super) fn toolsets(
        &self,
        table: &dyn TableLike,
        toolsets: &mut BTreeMap<String, UserToolset>,
    ) -> Result<(), ConfigError> {
        for (name, item) in table.iter() {
            let mut toolset = UserToolset::default();
            let settings = self.table(name, item)?;
            for (key, item) in self.entries(settings, &["description", "tools", "includes"])? {
                match key {
                    "tools" => toolset.tools = self.texts(key, item)?,
                    "includes" => toolset.includes = self.texts(key, item)?,
                    _ => {
                        let must = format!("`{key}` must be a text");
                        let text = item.as_str().ok_or_else(|| self.error(item, must))?;
                        toolset.description = text.to_owned();
                    }
                }
            }
            check_user(name, &toolset).map_err(|problem| self.error(item, problem))?;
            toolsets.insert(name.to_owned(), toolset);
        }
        Ok(())
    }

    pub(super) fn platforms(
        &self,
        table: &dyn TableLike,
        platforms: &mut BTreeMap<String, Platform>,
    ) -> Result<(), ConfigError> {
        for (name, item) in table.iter() {
            let platform = platforms.entry(name.to_owned()).or_default();
            let settings = self.table(name, item)?;
            for (key, item) in self.entries(settings, &["toolsets", "known"])? {
                match key {
                    "toolsets" => platform.toolsets = Some(self.texts(key, item)?),
                    _ => platform.known = self.texts(key, item)?,
                }
            }
        }
        Ok(())
    }

    pub(super) fn texts(&self, key: &str, item: &Item) -> Result<Vec<String>, ConfigError> {
        self.list(key, item, |text| Ok::<_, std::convert::Infallible>(text.to_owned()))
    }

    /// Groups of kinds, such as `[["dirs", "http"]]`.
    fn exclusive(&self, key: &str, item: &Item) -> Result<Vec<Exclusive>, ConfigError> {
        let must = || {
            let shape = "a list of groups, such as [[\"dirs\", \"http\"]]";
            self.error(item, format!("`{key}` must be {shape}"))
        };
        let groups = item.as_array().ok_or_else(must)?;
        let group = |group: &toml_edit::Value| {
            let kinds = group.as_array().ok_or_else(must)?;
            let kinds = kinds.iter().map(toml_edit::Value::as_str).collect::<Option<Vec<_>>>();
            let read = Exclusive::new(&kinds.ok_or_else(must)?);
            read.map_err(|problem| self.error(item, format!("`{key}`: {problem}")))
        };
        groups.iter().map(group).collect()
    }

    /// An array of strings, each of which `read` understands.
    fn list<T, E: std::fmt::Display>(
        &self,
        key: &str,
        item: &Item,
        read: impl Fn(&str) -> Result<T, E>,
    ) -> Result<Vec<T>, ConfigError> {
        let must = || self.error(item, format!("`{key}` must be an array of strings"));
        let list = item.as_array().ok_or_else(must)?;
        list.iter()
            .map(|value| {
                let text = value.as_str().ok_or_else(must)?;
                read(text).map_err(|error| self.error(item, error.to_string()))
            })
            .collect()
    }

    /// The entries of a table, all of them known.
    pub(super) fn entries<'t>(
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

    pub(super) fn table<'t>(
        &self,
        key: &str,
        item: &'t Item,
    ) -> Result<&'t dyn TableLike, ConfigError> {
        item.as_table_like().ok_or_else(|| self.error(item, format!("`{key}` must be a table")))
    }

    pub(super) fn error(&self, item: &Item, problem: String) -> ConfigError {
        let start = item.span().map_or(0, |span| span.start);
        ConfigError { line: line(self.text, start), problem }
    }
}

/// The line of an offset, counted from 1.
pub(super) fn line(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}
