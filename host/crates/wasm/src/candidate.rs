//! What may be a plugin, before anybody has read it.

use std::path::PathBuf;

use toolhost_core::tool::PluginId;
use toolhost_state::read::ReadScope;

/// A file that may be a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its id.
    pub id: PluginId,
    /// The folder it lies in.
    pub folder: PathBuf,
    /// The file itself.
    pub path: PathBuf,
    /// From where it is read.
    pub place: ReadScope,
}
