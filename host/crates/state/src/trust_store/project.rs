//! Projects that were trusted, each as the folder that it was.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::sources::which;

/// A project that was trusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustedProject {
    /// Its folder, without links.
    pub folder: PathBuf,
    /// SHA-256 of its `toolhost.toml` at that time, if it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// Which folder of that path it was: another one there is another's. Records of earlier versions
    /// lack it, and count for whatever lies there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub which: Option<String>,
}

impl TrustedProject {
    /// A project as it lies there now, with the digest of its `toolhost.toml`.
    pub fn of(folder: &Path, config: Option<String>) -> TrustedProject {
        TrustedProject { folder: folder.to_owned(), config, which: which(folder) }
    }

    /// Tells whether another folder has come to its path.
    pub(super) fn is_another(&self) -> bool {
        self.which.is_some() && which(&self.folder).is_some_and(|now| self.which != Some(now))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::trust_store::Lock;

    #[test]
    fn another_folder_at_the_path_of_a_project_is_not_trusted() {
        let home = tempfile::tempdir().expect("a folder");
        let folder = home.path().join("project");
        fs::create_dir(&folder).expect("made");
        let mut lock = Lock::default();
        lock.trust_project(TrustedProject::of(&folder, None));
        assert!(lock.project(&folder).is_some());
        // While the first is there, their numbers differ.
        let moved = home.path().join("moved");
        fs::rename(&folder, &moved).expect("renamed");
        fs::create_dir(&folder).expect("made");
        assert!(lock.project(&folder).is_none());
        fs::remove_dir(&folder).expect("removed");
        fs::rename(&moved, &folder).expect("renamed");
        assert!(lock.project(&folder).is_some());
        // A record of before counts for whatever lies there.
        let before = TrustedProject { which: None, ..TrustedProject::of(&folder, None) };
        let text = serde_json::to_string(&before).expect("JSON");
        assert!(!text.contains("which"), "{text}");
        lock.trust_project(serde_json::from_str(&text).expect("a record"));
        fs::rename(&folder, &moved).expect("renamed");
        fs::create_dir(&folder).expect("made");
        assert!(lock.project(&folder).is_some());
    }
}
