//! Changes of `toolhost.toml` by commands: comments and order stay.

use toml_edit::{Array, DocumentMut, Item};

use super::{ConfigError, reader};
use crate::authority::Grants;
use crate::tool::PluginId;

/// The keys of a plugin's table that hold grants.
const KEYS: [&str; 3] = ["dirs", "env", "hooks"];

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
    let plugin = plugins.entry(id.as_str()).or_insert(toml_edit::table());
    let plugin = plugin.as_table_like_mut().ok_or_else(|| misplaced("plugins"))?;
    let texts: [Vec<String>; 3] = [
        grants.dirs.iter().map(ToString::to_string).collect(),
        grants.env.clone(),
        grants.hooks.iter().map(ToString::to_string).collect(),
    ];
    for (key, texts) in KEYS.into_iter().zip(texts) {
        if texts.is_empty() {
            continue;
        }
        let list = plugin.entry(key).or_insert(toml_edit::value(Array::new()));
        let list = list.as_array_mut().ok_or_else(|| misplaced(key))?;
        for text in texts {
            if !list.iter().any(|known| known.as_str() == Some(&text)) {
                list.push(text);
            }
        }
    }
    Ok(document.to_string())
}

/// Returns the text without any grant of a plugin, and how many there were.
///
/// # Errors
/// If the text is not TOML.
pub fn without_grants(text: &str, id: &PluginId) -> Result<(String, usize), ConfigError> {
    let mut document = editable(text)?;
    let plugin = document
        .get_mut("plugins")
        .and_then(Item::as_table_like_mut)
        .and_then(|plugins| plugins.get_mut(id.as_str()))
        .and_then(Item::as_table_like_mut);
    let mut count = 0;
    if let Some(plugin) = plugin {
        for key in KEYS {
            let removed = plugin.remove(key);
            count += removed.as_ref().and_then(Item::as_array).map_or(0, Array::len);
        }
    }
    Ok((document.to_string(), count))
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
        let (revoked, count) = without_grants(&granted, &id).expect("edited");
        assert_eq!(count, 3);
        let config = parse(&revoked, &Config::default()).expect("a configuration");
        assert!(config.plugins[&id].grants.is_empty());
        assert!(revoked.starts_with(text), "{revoked}");
    }
}
