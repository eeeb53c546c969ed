//! Where a source of any kind stands in the lock, which names plugins by folder and id.

use std::borrow::Cow;
use std::path::Path;

use super::Pin;
use toolhost_core::tool::{PluginId, SourceId};

/// Under which folder and id a source stands here: a plugin under its own; any other source under no
/// folder, and its whole name, such as `mcp:github`, which is no id of a plugin.
pub fn entry(source: &SourceId) -> (&Path, Cow<'_, str>) {
    match source.plugin() {
        Some((id, folder)) => (folder, Cow::from(id.as_str())),
        None => (Path::new(""), Cow::from(source.to_string())),
    }
}

/// The source that stands here under a folder and an id, if one can.
pub fn source(folder: &Path, id: &str) -> Option<SourceId> {
    if let Some(server) = id.strip_prefix("mcp:") {
        return Some(SourceId::Mcp(server.to_owned()));
    }
    let id = PluginId::from_stem(id).ok()?;
    Some(SourceId::Plugin { id, folder: folder.to_owned() })
}

impl Pin {
    /// What a source is trusted with.
    pub fn new(source: &SourceId, digest: &str) -> Pin {
        let (folder, id) = entry(source);
        Pin { folder: folder.to_owned(), id: id.into_owned(), digest: digest.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Agreed, Lock, parse};
    use super::*;

    #[test]
    fn every_source_has_an_entry_of_its_own() {
        let id = PluginId::from_stem("files").expect("an id");
        let plugin = SourceId::Plugin { id, folder: "/a".into() };
        let server = SourceId::Mcp("files".to_owned());
        let mut lock = Lock::default();
        for source in [&plugin, &server] {
            lock.trust(&Pin::new(source, &source.to_string()), &Agreed::These(Vec::new()));
        }
        let text = serde_json::to_string(&lock).expect("JSON");
        let lock = parse(&text).expect("a lock");
        for source in [&plugin, &server] {
            let (folder, id) = entry(source);
            assert!(lock.trusts(folder, &id, &source.to_string()), "{text}");
            assert_eq!(super::source(folder, &id).as_ref(), Some(source));
        }
    }
}
