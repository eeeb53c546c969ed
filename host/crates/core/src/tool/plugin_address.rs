//! Whose a grant is: a plugin is an id in a folder, or an id among what is bundled.

use std::fmt;
use std::path::{Component, Path, PathBuf};

use thiserror::Error;

use super::PluginId;

/// Where a plugin is at home.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// It has the bytes that `make` recorded for its id, wherever they lie.
    Bundled,
    /// It lies in this folder, which is absolute and without links.
    Folder(PathBuf),
}

/// One plugin, as grants, trust and commands name it.
///
/// It is written `bundled/ID`, or as its folder and its id: `/home/me/project/plugins/notes`. The
/// same id in another folder is another plugin.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PluginAddress {
    /// Where it is at home.
    pub place: Place,
    /// Its id.
    pub id: PluginId,
}

/// How the address of a bundled plugin begins.
const BUNDLED: &str = "bundled/";

/// Why a text is no address of a plugin.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "`{given}` is no plugin: {problem}; write bundled/ID, or its absolute folder and its id, such as /home/me/project/plugins/notes"
)]
pub struct PluginAddressError {
    given: String,
    problem: String,
}

impl PluginAddress {
    /// The bundled plugin of this id.
    pub fn bundled(id: PluginId) -> PluginAddress {
        PluginAddress { place: Place::Bundled, id }
    }

    /// The plugin of this id in a folder.
    pub fn in_folder(folder: &Path, id: PluginId) -> PluginAddress {
        PluginAddress { place: Place::Folder(folder.to_owned()), id }
    }

    /// Reads an address.
    ///
    /// # Errors
    /// If it ends in no id, or names a folder that is relative, or has a `.` or `..` in it.
    pub fn parse(text: &str) -> Result<PluginAddress, PluginAddressError> {
        let error = |problem: String| {
            let given = text.chars().take(200).flat_map(char::escape_debug).collect();
            PluginAddressError { given, problem }
        };
        let read = |id: &str| PluginId::from_stem(id).map_err(|problem| error(problem.to_string()));
        if let Some(id) = text.strip_prefix(BUNDLED) {
            return Ok(PluginAddress::bundled(read(id)?));
        }
        let none = || error("it has no folder".to_owned());
        let (folder, id) = text.rsplit_once('/').ok_or_else(none)?;
        // A folder may be the root of all.
        let folder = Path::new(if folder.is_empty() { "/" } else { folder });
        let plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
        // Parts of `.` are left out by `components`.
        let has_dots = text.split('/').any(|part| part == "." || part == "..");
        if !folder.is_absolute() || has_dots || !folder.components().all(plain) {
            return Err(error("its folder is not absolute, or has a `.` or `..` in it".to_owned()));
        }
        let folder: PathBuf = folder.components().collect();
        Ok(PluginAddress { place: Place::Folder(folder), id: read(id)? })
    }

    /// The address as it is written, or nothing if its folder has no such form.
    pub fn written(&self) -> Option<String> {
        let written = match &self.place {
            Place::Bundled => format!("{BUNDLED}{}", self.id),
            Place::Folder(folder) => folder.join(self.id.as_str()).to_str()?.to_owned(),
        };
        (PluginAddress::parse(&written).as_ref() == Ok(self)).then_some(written)
    }

    /// The folder, if it is not bundled.
    pub fn folder(&self) -> Option<&Path> {
        match &self.place {
            Place::Bundled => None,
            Place::Folder(folder) => Some(folder),
        }
    }
}

impl fmt::Display for PluginAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Bundled => write!(formatter, "{BUNDLED}{}", self.id),
            Place::Folder(folder) => {
                write!(formatter, "{}", folder.join(self.id.as_str()).display())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for (text, written) in [
            ("bundled/json", "bundled/json"),
            ("bundled/My_Tool", "bundled/my-tool"),
            ("/home/me/plugins/notes", "/home/me/plugins/notes"),
            ("/home//me/plugins/notes", "/home/me/plugins/notes"),
            ("/notes", "/notes"),
            ("/a b/ü \"x\"/notes", "/a b/ü \"x\"/notes"),
        ] {
            let address = PluginAddress::parse(text).expect(text);
            assert_eq!(address.written().as_deref(), Some(written));
            assert_eq!(address.to_string(), written);
            assert_eq!(PluginAddress::parse(written), Ok(address));
        }
        for bad in [
            "notes",
            "",
            "/",
            "./notes",
            "plugins/notes",
            "bundled/",
            "bundled/a/b",
            "/a/../b/notes",
            "/a/./notes",
            "/a/notes.wasm",
            "/a/b c",
            "\u{1b}[31m/x",
        ] {
            let message = PluginAddress::parse(bad).expect_err(bad).to_string();
            assert!(message.contains("bundled/ID") && !message.contains('\u{1b}'), "{message}");
        }
        // What cannot be written gets no table.
        let strange = Path::new("relative");
        let id = PluginId::from_stem("notes").expect("an id");
        assert_eq!(PluginAddress::in_folder(strange, id).written(), None);
    }
}
