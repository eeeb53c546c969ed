//! The `toolhost.toml` of a project: the same tables, but of plugins only ids, which are those of
//! its own folder.

use std::collections::BTreeMap;

use toml_edit::{Document, Item, TableLike, Value};

use super::reader::ConfigKey;
use super::{Config, ConfigError, Said};
use toolhost_core::tool::PluginId;

/// Tables, keys and elements of lists in a project's file.
const ENTRIES_MAX: usize = 2_000;

/// A project's file, read on top of a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProjectFile {
    /// What it says, but for plugins.
    pub config: Config,
    /// What it says of plugins, by id.
    pub plugins: BTreeMap<PluginId, Said>,
}

/// Reads a project's file on top of `base`.
///
/// # Errors
/// If the text is not TOML, has a key that is not known, a value that is not allowed, more entries than
/// a project may have, or a plugin with a folder.
pub fn parse_project(text: &str, base: &Config) -> Result<ProjectFile, ConfigError> {
    check_size(text)?;
    let mut project = ProjectFile { config: base.clone(), ..ProjectFile::default() };
    for (key, said, line) in super::read(text, &mut project.config)? {
        match key {
            ConfigKey::Id(id) => {
                project.plugins.insert(id, said);
            }
            ConfigKey::One(address) => {
                let problem = format!(
                    "`{address}` has a folder; a project's file names plugins of its own folder, by their ids: `[plugins.{}]`",
                    address.id
                );
                return Err(ConfigError { line, problem });
            }
        }
    }
    Ok(project)
}

/// Bounds how much a stranger's file says, before anything is made of it.
fn check_size(text: &str) -> Result<(), ConfigError> {
    // What is no TOML is said by whoever reads it.
    let Ok(document) = text.parse::<Document<String>>() else { return Ok(()) };
    let given = entries(document.as_item());
    if given <= ENTRIES_MAX {
        return Ok(());
    }
    let problem = format!(
        "{given} tables, keys and texts of lists; a project's file may have {ENTRIES_MAX}; take out what it need not say"
    );
    Err(ConfigError { line: 1, problem })
}

/// Keys of tables and elements of lists, at all levels. A document is not nested deeply: the parser
/// sees to that.
fn entries(item: &Item) -> usize {
    let below = |values: &toml_edit::Array| -> usize {
        values.iter().map(|value| 1 + entries(&Item::Value(value.clone()))).sum()
    };
    match item {
        Item::None => 0,
        Item::Value(Value::Array(values)) => below(values),
        Item::ArrayOfTables(tables) => tables.iter().map(|table| 1 + of_table(table)).sum(),
        item => item.as_table_like().map_or(0, of_table),
    }
}

fn of_table(table: &dyn TableLike) -> usize {
    table.iter().map(|(_, item)| 1 + entries(item)).sum()
}
