//! Folders of plugins: what lies in them, from where it is read, what is recorded of it, and the way back
//! to what lay there before.

mod driver;
mod files;
mod plugin;
mod records;
mod rollback;
mod scan;

use std::path::{Path, PathBuf};

use toolhost_core::tool::Origin;
use toolhost_state::read::ReadScope;
use toolhost_wasm::script;

pub use driver::FolderDriver;
pub use plugin::{described, kept};
pub use records::record_definitions;
pub use rollback::{RollbackError, RolledBack, roll_back};
pub use scan::{find, ids, stem};

/// A folder of plugins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// Where it is.
    pub path: PathBuf,
    /// How far what lies there is trusted with names, unless it is bundled.
    pub origin: Origin,
}

/// What a path names as a plugin: the folder of a script, where this is the main file of one and does not
/// lie in one of these folders itself.
pub fn whole(folders: &[Folder], path: &Path) -> PathBuf {
    let real = |folder: &Path| {
        let folder = if folder == Path::new("") { Path::new(".") } else { folder };
        std::fs::canonicalize(folder).ok()
    };
    let above = path.parent().and_then(real);
    match above.is_some() && folders.iter().any(|folder| real(&folder.path) == above) {
        true => path.to_owned(),
        false => script::whole(path),
    }
}

impl Folder {
    /// From where the plugins of the folder are read.
    ///
    /// # Errors
    /// If it is a project's, and leads out of the project.
    pub fn place(&self) -> Result<ReadScope, String> {
        if self.origin != Origin::Project {
            return Ok(ReadScope::Own);
        }
        let unknown = |error: std::io::Error| error.to_string();
        let place = match ReadScope::of_links(&[], &self.path).map_err(unknown)? {
            Some(place) => place,
            None => ReadScope::of_plugins(&self.path).map_err(unknown)?,
        };
        place.real(&self.path).map_err(|error| {
            let real = std::fs::canonicalize(&self.path).unwrap_or_default();
            format!(
                "{}; if that folder is meant, name it: `--plugins {}`",
                error.problem,
                real.display()
            )
        })?;
        Ok(place)
    }
}

/// From where a file is read that is named on the command line: as a plugin of the folder it lies
/// in, if that is one of `folders`; else as one of a stranger's project. No link on the way to it leads
/// out of a project.
///
/// # Errors
/// If its folder cannot be found.
pub fn place_of(folders: &[Folder], path: &Path) -> std::io::Result<ReadScope> {
    let own = folders.iter().filter(|known| known.origin != Origin::Project);
    let own: Vec<PathBuf> =
        own.filter_map(|known| std::fs::canonicalize(&known.path).ok()).collect();
    if let Some(place) = ReadScope::of_links(&own, path)? {
        return Ok(place);
    }
    let path = std::path::absolute(path)?;
    let folder = std::fs::canonicalize(path.parent().unwrap_or(Path::new("/")))?;
    match own.contains(&folder) {
        true => Ok(ReadScope::Own),
        false => ReadScope::of_plugins(&folder),
    }
}
