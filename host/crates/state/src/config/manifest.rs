//! What a manifest of cargo says of folders around it: whose code is run when it is built.

use toml_edit::{DocumentMut, Item, TableLike};

/// Folders and files that a manifest names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedByManifest {
    /// Members of its workspace, as patterns.
    pub members: Vec<String>,
    /// Whatever is named by a path: dependencies of all kinds, also of targets, of the workspace and of
    /// patches; build scripts; and the workspace that it belongs to.
    pub paths: Vec<String>,
}

/// What a manifest names; nothing, if it is none.
pub fn named_by_manifest(manifest: &str) -> NamedByManifest {
    let mut named = NamedByManifest::default();
    let Ok(manifest) = manifest.parse::<DocumentMut>() else { return named };
    paths(manifest.as_table(), &mut named.paths);
    let text = |item: Option<&Item>| item.and_then(Item::as_str).map(str::to_owned);
    let package = manifest.get("package").and_then(Item::as_table_like);
    for key in ["build", "workspace"] {
        named.paths.extend(package.and_then(|package| text(package.get(key))));
    }
    let workspace = manifest.get("workspace").and_then(Item::as_table_like);
    let members = workspace.and_then(|workspace| workspace.get("members")?.as_array());
    let members = members.into_iter().flatten();
    named.members = members.filter_map(|member| Some(member.as_str()?.to_owned())).collect();
    named
}

/// Every `path` of a table, wherever it stands; cargo reads no `metadata`.
fn paths(table: &dyn TableLike, found: &mut Vec<String>) {
    for (key, item) in table.iter().filter(|(key, _)| *key != "metadata") {
        match item {
            _ if key == "path" && item.is_str() => found.extend(item.as_str().map(str::to_owned)),
            Item::ArrayOfTables(tables) => tables.iter().for_each(|table| paths(table, found)),
            _ => item.as_table_like().into_iter().for_each(|table| paths(table, found)),
        }
        // `bin = [{ path = "x.rs" }]`
        let values = item.as_array().into_iter().flatten();
        let tables = values.filter_map(|value| value.as_inline_table());
        tables.for_each(|table| paths(table, found));
    }
}

/// Tells whether a manifest of cargo has a workspace; of another package's (`is_own` is false), only
/// one that leaves nothing out.
pub fn has_workspace(manifest: &str, is_own: bool) -> bool {
    let manifest: Option<DocumentMut> = manifest.parse().ok();
    let workspace = manifest.as_ref().and_then(|manifest| manifest.get("workspace"));
    workspace.is_some_and(|workspace| is_own || workspace.get("exclude").is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_a_manifest_names_is_found() {
        let named = named_by_manifest(
            r#"
            [package]
            build = "b.rs"
            workspace = "../ws"
            metadata.x = { path = "no" }
            [lib]
            path = "l.rs"
            [[bin]]
            path = "m.rs"
            [dependencies]
            a = { path = "a" }
            not = "1"
            [dependencies.c]
            path = "c"
            [target.'cfg(unix)'.build-dependencies]
            d = { path = "d" }
            [workspace]
            members = ["*", "x/y"]
            dependencies.e = { path = "e" }
            [patch.crates-io]
            f = { path = "f" }
            "#,
        );
        let mut paths = named.paths;
        paths.sort();
        assert_eq!(paths, ["../ws", "a", "b.rs", "c", "d", "e", "f", "l.rs", "m.rs"]);
        assert_eq!(named.members, ["*", "x/y"]);
        assert_eq!(named_by_manifest("no manifest ["), NamedByManifest::default());
    }
}
