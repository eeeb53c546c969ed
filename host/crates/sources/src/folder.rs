//! Folders of plugins: what lies in them, from where it is read, what is recorded of it, and the way back
//! to what lay there before.

mod driver;
mod files;
mod plugin;
mod records;
mod rollback;
mod scan;

use std::path::{Path, PathBuf};

use thiserror::Error;

use toolhost_core::tool::Origin;
use toolhost_state::read::{FileProblem, ReadScope};
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

/// Why nothing is read from a folder.
#[derive(Debug, Error)]
pub enum FolderError {
    /// It is a project's, and leads out of the project.
    #[error("{}; if that folder is meant, name it: `--plugins {}`", FileProblem::LeadsOut, .0.display())]
    LeadsOut(PathBuf),
    /// What the system says.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// What a path names as a plugin: the folder of a script, where this is the main file of one and does not
/// lie in one of these folders itself. A path that leads out of its project is not looked at.
pub fn whole(folders: &[Folder], path: &Path) -> PathBuf {
    let is_there = place_of(folders, path).is_ok_and(|place| place.real(path).is_ok());
    if !is_there {
        return path.to_owned();
    }
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let above = std::fs::canonicalize(folder.unwrap_or(Path::new("."))).ok();
    match above.is_some() && folders.iter().any(|folder| folder.real().ok() == above) {
        true => path.to_owned(),
        false => script::whole(path),
    }
}

impl Folder {
    /// From where the plugins of the folder are read; it need not be there.
    ///
    /// # Errors
    /// If it is a project's, and leads out of the project; or if that cannot be found.
    pub fn place(&self) -> Result<ReadScope, FolderError> {
        if self.origin != Origin::Project {
            return Ok(ReadScope::Own);
        }
        let place = match ReadScope::of_links(&[], &self.path)? {
            Some(place) => place,
            None => ReadScope::of_plugins(&self.path)?,
        };
        match place.outside(&self.path) {
            Some(target) => Err(FolderError::LeadsOut(target)),
            None => Ok(place),
        }
    }

    /// Where the folder really is. Nothing is looked at where it leads out of its project.
    ///
    /// # Errors
    /// As [`Folder::place`]; or if it is not there.
    pub fn real(&self) -> Result<PathBuf, FolderError> {
        self.place()?;
        Ok(std::fs::canonicalize(&self.path)?)
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
