//! Changes of `toolhost.toml` by commands: comments and order stay.

use toml_edit::{Array, DocumentMut, Item, TableLike};

use super::reader::ConfigKey;
use super::{ConfigError, IdShare, reader};
use toolhost_core::tool::{PluginAddress, PluginId};
use toolhost_policy::capability::{Grants, Kind};

/// Permissions, though not of a kind.
const PERMISSIONS: [&str; 2] = ["allow_tool_override", "update"];

/// Returns the text with `grants` added to what a plugin is granted.
///
/// # Errors
/// If the text is not TOML, has something else in that place, or the plugin's folder cannot be
/// written as a text.
pub fn with_grants(
    text: &str,
    plugin: &PluginAddress,
    grants: &Grants,
) -> Result<String, ConfigError> {
    let mut document = editable(text)?;
    let plugins = document.entry("plugins").or_insert(implicit());
    let plugins = plugins.as_table_like_mut().ok_or_else(|| misplaced("plugins"))?;
    add(plugins, plugin, grants)?;
    Ok(document.to_string())
}

/// Adds grants to the table of a plugin.
fn add(
    plugins: &mut dyn TableLike,
    plugin: &PluginAddress,
    grants: &Grants,
) -> Result<(), ConfigError> {
    let table = table_of(plugins, plugin)?;
    for (kind, text) in grants.all() {
        let key = kind.key();
        if kind.value_name().is_none() {
            table.insert(key, toml_edit::value(true));
            continue;
        }
        let list = table.entry(key).or_insert(toml_edit::value(Array::new()));
        let list = list.as_array_mut().ok_or_else(|| misplaced(key))?;
        if !list.iter().any(|known| known.as_str() == Some(&text)) {
            list.push(text);
        }
    }
    Ok(())
}

/// The table of a plugin, which is made if need be.
fn table_of<'a>(
    plugins: &'a mut dyn TableLike,
    plugin: &PluginAddress,
) -> Result<&'a mut dyn TableLike, ConfigError> {
    let key = match key_of(plugins, &ConfigKey::One(plugin.clone())) {
        Some(key) => key,
        None => plugin.written().ok_or_else(|| ConfigError {
            line: 1,
            problem: format!("the folder of {plugin} cannot be written as a text; rename it"),
        })?,
    };
    let table = plugins.entry(&key).or_insert(toml_edit::table());
    table.as_table_like_mut().ok_or_else(|| misplaced(&key))
}

/// Returns the text without grants of a plugin: those of `chosen`, or all that its table allows
/// if that is empty. And how much was taken away.
///
/// # Errors
/// If the text is not TOML, or a list in that place is none.
pub fn without_grants(
    text: &str,
    plugin: &PluginAddress,
    chosen: &Grants,
) -> Result<(String, usize), ConfigError> {
    without(text, &ConfigKey::One(plugin.clone()), chosen)
}

/// The same of the table that names only an id.
///
/// # Errors
/// If the text is not TOML, or a list in that place is none.
pub fn without_table_of_id(
    text: &str,
    id: &PluginId,
    chosen: &Grants,
) -> Result<(String, usize), ConfigError> {
    without(text, &ConfigKey::Id(id.clone()), chosen)
}

fn without(
    text: &str,
    plugin: &ConfigKey,
    chosen: &Grants,
) -> Result<(String, usize), ConfigError> {
    let mut document = editable(text)?;
    let plugins = document.get_mut("plugins").and_then(Item::as_table_like_mut);
    let Some(plugins) = plugins else { return Ok((document.to_string(), 0)) };
    let Some(key) = key_of(plugins, plugin) else { return Ok((document.to_string(), 0)) };
    let Some(table) = plugins.get_mut(&key).and_then(Item::as_table_like_mut) else {
        return Ok((document.to_string(), 0));
    };
    let mut count = take(table, chosen);
    if chosen.is_empty() {
        count += PERMISSIONS.iter().filter(|key| table.remove(key).is_some()).count();
    }
    remove_if_empty(plugins, &key);
    Ok((document.to_string(), count))
}

/// Takes grants out of a table: those of `chosen`, or all of them if that is empty. Tells how many.
fn take(table: &mut dyn TableLike, chosen: &Grants) -> usize {
    let mut count = 0;
    for kind in Kind::all() {
        let (key, texts) = (kind.key(), chosen.texts(kind));
        if texts.is_empty() && !chosen.is_empty() {
            continue;
        }
        let Some(item) = table.get_mut(key) else { continue };
        match item.as_array_mut() {
            None => count += usize::from(item.as_bool() == Some(true)),
            Some(list) if chosen.is_empty() => count += list.len(),
            Some(list) => {
                let before = list.len();
                list.retain(|known| known.as_str().is_none_or(|known| !same(kind, known, &texts)));
                count += before - list.len();
                if !list.is_empty() {
                    continue;
                }
            }
        }
        table.remove(key);
    }
    count
}

/// Returns the text in which what the table of an id allows stands in tables of the plugins it was
/// given to. `leftover` is whose the grants are that nobody was given; without one they stay where
/// they are, and so does what narrows every plugin of the id.
///
/// # Errors
/// If the text is not TOML, or the folder of a plugin cannot be written as a text.
pub fn rewritten(
    text: &str,
    id: &PluginId,
    shares: &[(PluginAddress, IdShare)],
    leftover: Option<&PluginAddress>,
) -> Result<String, ConfigError> {
    let mut document = editable(text)?;
    let plugins = document.get_mut("plugins").and_then(Item::as_table_like_mut);
    let Some(plugins) = plugins else { return Ok(text.to_owned()) };
    let Some(key) = key_of(plugins, &ConfigKey::Id(id.clone())) else { return Ok(text.to_owned()) };
    let Some(table) = plugins.get_mut(&key).and_then(Item::as_table_like_mut) else {
        return Ok(text.to_owned());
    };
    let mut all = Grants::default();
    for kind in Kind::all() {
        let item = table.get(kind.key());
        let list = item.and_then(Item::as_array).into_iter().flatten();
        let is_on = kind.value_name().is_none() && item.and_then(Item::as_bool) == Some(true);
        for text in list.filter_map(toml_edit::Value::as_str).chain(is_on.then_some("")) {
            // What cannot be read is no grant.
            let _ = all.add(kind, text, None);
        }
    }
    let permissions: Vec<(&str, Item)> =
        PERMISSIONS.into_iter().filter_map(|key| Some((key, table.get(key)?.clone()))).collect();
    let (mut rest, mut given) = (all.clone(), Vec::new());
    for (address, share) in shares {
        let mut grants = all.clone();
        if let Some(flags) = &share.grants {
            grants.retain(flags);
        }
        rest.remove(&grants);
        given.push((address, grants, share.permissions));
    }
    let mut moved = Grants::default();
    for (address, mut grants, has_permissions) in given {
        if leftover == Some(address) {
            grants.extend(&rest);
        }
        if grants.is_empty() && (!has_permissions || permissions.is_empty()) {
            continue;
        }
        moved.extend(&grants);
        let is_alone = shares.len() == 1;
        let keeps = plugins.get(&key).and_then(Item::as_table_like);
        let narrows = keeps.is_some_and(|table| table.contains_key("exclusive"));
        let is_new = key_of(plugins, &ConfigKey::One(address.clone())).is_none();
        if is_alone && is_new && grants == all && !narrows {
            // All of it is one plugin's: comments go along.
            if let (Some(item), Some(written)) = (plugins.remove(&key), address.written()) {
                plugins.insert(&written, item);
                return Ok(document.to_string());
            }
            return Err(ConfigError { line: 1, problem: format!("{address} cannot be written") });
        }
        add(plugins, address, &grants)?;
        if has_permissions {
            let table = table_of(plugins, address)?;
            for (key, item) in &permissions {
                table.insert(key, item.clone());
            }
        }
    }
    let has_permissions = shares.iter().any(|(_, share)| share.permissions);
    if let Some(table) = plugins.get_mut(&key).and_then(Item::as_table_like_mut) {
        if !moved.is_empty() {
            take(table, &moved);
        }
        if has_permissions {
            for key in PERMISSIONS {
                table.remove(key);
            }
        }
    }
    remove_if_empty(plugins, &key);
    Ok(document.to_string())
}

/// Removes a table with nothing in it.
fn remove_if_empty(plugins: &mut dyn TableLike, key: &str) {
    let table = plugins.get(key).and_then(Item::as_table_like);
    if table.is_some_and(TableLike::is_empty) {
        plugins.remove(key);
    }
}

/// The key of a plugin's table, which may be written in another way.
fn key_of(plugins: &dyn TableLike, plugin: &ConfigKey) -> Option<String> {
    let mut keys = plugins.iter().map(|(key, _)| key);
    let is_same = |key: &&str| ConfigKey::read(key).as_ref() == Ok(plugin);
    keys.find(is_same).map(str::to_owned)
}

fn misplaced(what: &str) -> ConfigError {
    ConfigError { line: 1, problem: format!("`{what}` must be a table") }
}

/// A table that has no line of its own.
fn implicit() -> Item {
    let mut table = toml_edit::Table::new();
    table.set_implicit(true);
    Item::Table(table)
}

/// Tells whether a text stands for one of these grants, however it is written.
fn same(kind: Kind, known: &str, texts: &[String]) -> bool {
    let mut read = Grants::default();
    // What cannot be read is no grant at all, and stays for its owner to mend.
    read.add(kind, known, None).is_ok() && read.texts(kind).iter().all(|text| texts.contains(text))
}

fn editable(text: &str) -> Result<DocumentMut, ConfigError> {
    text.parse::<DocumentMut>().map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        ConfigError { line: reader::line(text, start), problem: error.message().to_owned() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, parse};

    #[test]
    fn grants_are_edited_in_place() {
        let id = PluginId::from_stem("files").expect("an id");
        let id = PluginAddress::in_folder(std::path::Path::new("/p"), id);
        let dirs = |texts: &[&str]| {
            let mut grants = Grants::default();
            for text in texts {
                grants.add(Kind::DIRS, text, None).expect(text);
            }
            grants
        };
        let mut more = dirs(&["/a:ro"]);
        more.add(Kind::ENV, "TOKEN", None).expect("a grant");
        let text = "# mine\n[limits]\ntools_max = 7 # few\n";
        let granted = with_grants(text, &id, &dirs(&["/a:ro", "/b=c:rw"])).expect("edited");
        assert!(granted.starts_with(text), "{granted}");
        let granted = with_grants(&granted, &id, &more).expect("edited");
        let config = parse(&granted, &Config::default()).expect("a configuration");
        assert_eq!(
            config.plugins[&id].grants.flags(),
            ["--dir /a:ro", "--dir /b=c:rw", "--env TOKEN"]
        );
        let (revoked, count) = without_grants(&granted, &id, &dirs(&["/a:ro"])).expect("edited");
        assert_eq!(count, 1);
        let config = parse(&revoked, &Config::default()).expect("a configuration");
        assert_eq!(config.plugins[&id].grants.flags(), ["--dir /b=c:rw", "--env TOKEN"]);
        let (revoked, count) = without_grants(&granted, &id, &Grants::default()).expect("edited");
        assert_eq!(count, 3);
        let config = parse(&revoked, &Config::default()).expect("a configuration");
        assert!(!config.plugins.contains_key(&id));
        assert!(revoked.starts_with(text), "{revoked}");
        let folded = "[plugins.'/p/FILES']\nkv = true\n";
        let folded = with_grants(folded, &id, &more).expect("edited");
        let config = parse(&folded, &Config::default()).expect("a configuration");
        assert_eq!(config.plugins[&id].grants.flags(), ["--dir /a:ro", "--env TOKEN", "--kv"]);
        let (revoked, count) = without_grants(&folded, &id, &Grants::default()).expect("edited");
        assert_eq!((revoked.as_str(), count), ("", 3));
    }

    fn check(before: &str, shares: &[(PluginAddress, IdShare)], after: &str) {
        let id = PluginId::from_stem("files").expect("an id");
        let leftover = match shares {
            [(address, _)] => Some(address),
            _ => None,
        };
        let text = rewritten(before, &id, shares, leftover).expect("rewritten");
        assert_eq!(text, after);
        // Once is enough.
        assert_eq!(rewritten(&text, &id, shares, leftover).expect("rewritten"), after);
    }

    #[test]
    fn what_was_given_by_id_alone_is_rewritten() {
        let id = PluginId::from_stem("files").expect("an id");
        let in_folder =
            |folder: &str| PluginAddress::in_folder(std::path::Path::new(folder), id.clone());
        let these = |flags: &[&str]| IdShare {
            grants: Some(flags.iter().map(|&flag| flag.to_owned()).collect()),
            permissions: false,
        };
        // One plugin has all of it.
        check(
            "# Mine.\n[limits]\ntools_max = 7\n\n# For files.\n[plugins.files] # here\nkv = true # why\nupdate = \"never\"\n\n[audit]\n",
            &[(in_folder("/a"), IdShare::all())],
            "# Mine.\n[limits]\ntools_max = 7\n\n# For files.\n[plugins.\"/a/files\"] # here\nkv = true # why\nupdate = \"never\"\n\n[audit]\n",
        );
        // Each has what it was given; what nobody was given stays, and gives nothing.
        check(
            "[plugins.files]\nkv = true\nenv = [\"A\", \"B\", \"C\"]\nexclusive = [[\"dirs\", \"http\"]]\n",
            &[
                (in_folder("/a"), these(&["--env A", "--kv"])),
                (in_folder("/b"), these(&["--env B"])),
                (PluginAddress::bundled(id.clone()), these(&[])),
            ],
            "[plugins.files]\nenv = [ \"C\"]\nexclusive = [[\"dirs\", \"http\"]]\n\n[plugins.\"/a/files\"]\nenv = [\"A\"]\nkv = true\n\n[plugins.\"/b/files\"]\nenv = [\"B\"]\n",
        );
        // What nobody was given is of the one that there is.
        check(
            "[plugins.files]\nenv = [\"A\", \"B\"]\nallow_tool_override = true\n[plugins.'/a/files']\nkv = true\n",
            &[(in_folder("/a"), IdShare { permissions: true, ..these(&["--env A"]) })],
            "[plugins.'/a/files']\nkv = true\nenv = [\"A\", \"B\"]\nallow_tool_override = true\n",
        );
        check("plugins.files.kv = true\n", &[], "plugins.files.kv = true\n");
    }
}
