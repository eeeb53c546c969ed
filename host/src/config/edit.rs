//! Changes of `toolhost.toml` by commands: comments and order stay.

use toml_edit::{Array, DocumentMut, Item, TableLike};

use super::{ConfigError, reader};
use crate::authority::{Grants, Kind};
use crate::tool::PluginId;

/// Returns the text with `grants` added to what a plugin is granted.
///
/// # Errors
/// If the text is not TOML, or has something else in that place.
pub fn with_grants(text: &str, id: &PluginId, grants: &Grants) -> Result<String, ConfigError> {
    let mut document = editable(text)?;
    let misplaced =
        |what: &str| ConfigError { line: 1, problem: format!("`{what}` must be a table") };
    let plugins = document.entry("plugins").or_insert(toml_edit::table());
    let plugins = plugins.as_table_like_mut().ok_or_else(|| misplaced("plugins"))?;
    let key = key_of(plugins, id).unwrap_or_else(|| id.to_string());
    let plugin = plugins.entry(&key).or_insert(toml_edit::table());
    let plugin = plugin.as_table_like_mut().ok_or_else(|| misplaced("plugins"))?;
    for (kind, text) in grants.all() {
        let key = kind.key();
        if kind == Kind::Kv {
            plugin.insert(key, toml_edit::value(true));
            continue;
        }
        let list = plugin.entry(key).or_insert(toml_edit::value(Array::new()));
        let list = list.as_array_mut().ok_or_else(|| misplaced(key))?;
        if !list.iter().any(|known| known.as_str() == Some(&text)) {
            list.push(text);
        }
    }
    Ok(document.to_string())
}

/// Returns the text without grants of a plugin, and how many were taken away: those of
/// `chosen`, or all of them if that is empty.
///
/// # Errors
/// If the text is not TOML, or a list in that place is none.
pub fn without_grants(
    text: &str,
    id: &PluginId,
    chosen: &Grants,
) -> Result<(String, usize), ConfigError> {
    let mut document = editable(text)?;
    let plugin =
        document.get_mut("plugins").and_then(Item::as_table_like_mut).and_then(|plugins| {
            let key = key_of(plugins, id)?;
            plugins.get_mut(&key)?.as_table_like_mut()
        });
    let Some(plugin) = plugin else { return Ok((document.to_string(), 0)) };
    let mut count = 0;
    for kind in Kind::ALL {
        let (key, texts) = (kind.key(), chosen.texts(kind));
        if texts.is_empty() && !chosen.is_empty() {
            continue;
        }
        let Some(item) = plugin.get_mut(key) else { continue };
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
        plugin.remove(key);
    }
    if chosen.is_empty() {
        // Permissions, though not of a kind.
        let permissions = ["allow_tool_override", "update"];
        count += permissions.iter().filter(|key| plugin.remove(key).is_some()).count();
    }
    Ok((document.to_string(), count))
}

/// The key of a plugin's table, which may be written in another way than its id.
fn key_of(plugins: &dyn TableLike, id: &PluginId) -> Option<String> {
    let mut keys = plugins.iter().map(|(key, _)| key);
    let is_same = |key: &&str| PluginId::from_stem(key).as_ref() == Ok(id);
    keys.find(is_same).map(str::to_owned)
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
    use crate::authority::DirGrant;
    use crate::config::{Config, parse};

    #[test]
    fn grants_are_edited_in_place() {
        let id = PluginId::from_stem("files").expect("an id");
        let dir = |text: &&str| DirGrant::parse(text, None).expect(text);
        let dirs =
            |texts: &[&str]| Grants { dirs: texts.iter().map(dir).collect(), ..Grants::default() };
        let more = Grants { env: vec!["TOKEN".to_owned()], ..dirs(&["/a:ro"]) };
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
        assert!(config.plugins[&id].grants.is_empty());
        assert!(revoked.starts_with(text), "{revoked}");
        let folded = with_grants("[plugins.FILES]\nkv = true\n", &id, &more).expect("edited");
        let config = parse(&folded, &Config::default()).expect("a configuration");
        assert_eq!(config.plugins[&id].grants.flags(), ["--dir /a:ro", "--env TOKEN", "--kv"]);
        assert_eq!(without_grants(&folded, &id, &Grants::default()).expect("edited").1, 3);
    }
}
