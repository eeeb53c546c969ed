//! The directories that plugins were granted, in a sentence for whoever calls their tools.

use std::fmt;
use std::path::PathBuf;

use crate::HostSettings;
use toolhost_core::text;
use toolhost_core::tool::PluginId;
use toolhost_policy::capability::DirGrant;
use toolhost_sources::reload;
use toolhost_sources::remembered::Remembered;

/// Directories that are named.
const SHOWN_MAX: usize = 20;
/// Characters of one of them.
const SHOWN_CHARS_MAX: usize = 200;

/// The directories that plugins were granted, and which one relative paths
/// are of. As a text it is a sentence or two.
#[derive(Clone, Debug, Default)]
pub struct Granted {
    directories: Vec<(PluginId, DirGrant)>,
    working: Option<PathBuf>,
}

impl Granted {
    pub(crate) fn new(settings: &HostSettings, remembered: &Remembered) -> Granted {
        let folders = settings.folders.iter();
        let folders: Vec<PathBuf> = folders.filter_map(|folder| folder.real().ok()).collect();
        Granted {
            directories: reload::directories(&settings.config, remembered, &folders),
            working: settings.directories.working.clone(),
        }
    }
}

impl Granted {
    /// The same with what is granted by now.
    pub(super) fn with(&self, directories: &[(PluginId, DirGrant)]) -> Granted {
        Granted { directories: directories.to_vec(), working: self.working.clone() }
    }
}

impl fmt::Display for Granted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |(id, grant): &(PluginId, DirGrant)| {
            let line = format!("{}:{} ({id})", grant.guest, grant.access);
            text::one_line(&text::cut(&line, SHOWN_CHARS_MAX))
        };
        let all: Vec<String> = self.directories.iter().take(SHOWN_MAX).map(shown).collect();
        match self.directories.len().saturating_sub(SHOWN_MAX) {
            _ if all.is_empty() => write!(formatter, "No plugin was granted a directory.")?,
            0 => write!(formatter, "Directories that plugins were granted: {}.", all.join(", "))?,
            more => write!(
                formatter,
                "Directories that plugins were granted: {}, and {more} more.",
                all.join(", ")
            )?,
        }
        match &self.working {
            Some(working) => write!(
                formatter,
                " Relative paths are of {}.",
                text::one_line(&text::cut(&working.display().to_string(), SHOWN_CHARS_MAX))
            ),
            None => Ok(()),
        }
    }
}
