//! What this user's host remembers about plugins, in the home and never in a project.
//!
//! `bundled.json` has the digests of the plugins that `make` built. Only bytes with one of these
//! digests count as bundled, wherever they lie; so a copied name gains nothing. `toolhost.lock`
//! has what was seen and what was trusted: for each plugin (a folder and an id) the bytes that a
//! person trusted, the build that was last in order, and the builds that are kept; who has which
//! name; and which projects and MCP servers were trusted. `sources.json` has the sources of plugins
//! that may be built. Any number of processes share these files. A host remembers what it sees here; only a person's command trusts.

mod bundled;
mod entry;
mod project;
mod room;
mod sources;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::atomic_file;
use toolhost_policy::diff::Outline;

pub use bundled::{BUNDLED, bundled_digests, counts, record_bundled};
pub use entry::{entry, source};
pub use project::TrustedProject;
pub use room::NamesOfFolders;
pub use sources::{Consent, agreed, consent, record_consent, sources};

/// Owners remembered for one name, each in a folder of its own.
const OWNERS_MAX: usize = 16;
/// Bytes remembered of one plugin that were trusted before others; then the oldest make way.
const TRUSTED_BEFORE_MAX: usize = 16;
/// The name of its file.
pub const LOCK: &str = "toolhost.lock";

/// Why the file cannot be used.
#[derive(Debug, Error)]
pub enum LockError {
    /// It cannot be read or written.
    #[error("{path} cannot be used: {error}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// It is not what this host writes.
    #[error("{path} is damaged ({problem}); remove it, then run `make` or trust and grant again", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}

/// `toolhost.lock` as it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    /// What is known of plugins.
    #[serde(default)]
    pub plugins: Vec<Known>,
    /// Who had a name first: for each name its owners, the first one first.
    #[serde(default)]
    pub names: BTreeMap<String, Vec<Owner>>,
    /// Projects that were trusted.
    #[serde(default)]
    pub projects: Vec<TrustedProject>,
    /// MCP servers that were trusted.
    #[serde(default)]
    pub servers: Vec<Server>,
}

/// What is known of one source; see [`entry`] for those that are no plugins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    /// The folder of the plugin, without links; none of another source.
    pub folder: PathBuf,
    /// Its id; of another source its whole name.
    pub id: String,
    /// SHA-256 of the bytes that were trusted, in hexadecimal, if any were: what it was granted
    /// was granted to them.
    #[serde(default, alias = "digest", skip_serializing_if = "Option::is_none")]
    pub trusted: Option<String>,
    /// What was granted to the trusted bytes, as flags of `toolhost grant`; if that is not known,
    /// all that the operator's file grants to the plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grants: Option<Vec<String>>,
    /// Bytes that were trusted before, the newest last. Whoever goes back to them has looked at them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trusted_before: Vec<TrustedBefore>,
    /// The build that was last in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<KnownBuild>,
    /// Digests of the builds that are kept, the newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<String>,
    /// Digests of builds that were given up for an earlier one, and do not serve.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
    /// It lies in a project, and nobody has vouched for it: its builds make way for all others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub of_stranger: bool,
    /// When it was first seen, as RFC 3339 in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_seen: Option<String>,
}

/// Bytes that a plugin was trusted with before others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustedBefore {
    /// SHA-256 of the bytes, in hexadecimal.
    pub digest: String,
    /// What was granted to them, as in [`Known::grants`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grants: Option<Vec<String>>,
}

/// One build of a plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownBuild {
    /// SHA-256 of its bytes, in hexadecimal.
    pub digest: String,
    /// What it declared.
    pub outline: Outline,
}

/// The plugin that had a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Owner {
    /// The folder of the plugin.
    pub folder: PathBuf,
    /// Its id.
    pub id: String,
}

/// An MCP server that was trusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Its name in the configuration.
    pub name: String,
    /// SHA-256 of its entry there.
    pub digest: String,
}

/// The bytes that a plugin is trusted with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// The folder of the plugin, without links.
    pub folder: PathBuf,
    /// Its id.
    pub id: String,
    /// SHA-256 of its bytes, in hexadecimal.
    pub digest: String,
}

/// What a person has agreed that a plugin has, as flags of `toolhost grant`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Agreed {
    /// These grants.
    These(Vec<String>),
    /// These, and what was agreed before of the same bytes.
    More(Vec<String>),
}

impl Known {
    /// Trusts these bytes in place of those before, with what these were granted.
    pub fn trust(&mut self, digest: &str) {
        if self.trusted.as_deref() == Some(digest) {
            return;
        }
        self.trusted_before.retain(|before| before.digest != digest);
        if let Some(before) = self.trusted.replace(digest.to_owned()) {
            let grants = self.grants.clone();
            self.trusted_before.push(TrustedBefore { digest: before, grants });
        }
        let more = self.trusted_before.len().saturating_sub(TRUSTED_BEFORE_MAX);
        self.trusted_before.drain(..more);
    }

    /// Goes back to bytes: with what they were granted when they were trusted, or else with nothing.
    pub fn go_back(&mut self, digest: &str) {
        let before = self.trusted_before.iter().find(|before| before.digest == digest).cloned();
        match before {
            Some(TrustedBefore { digest, grants }) => {
                self.trust(&digest);
                self.grants = grants;
            }
            None => {
                if let Some(digest) = self.trusted.take() {
                    let grants = self.grants.take();
                    self.trusted_before.push(TrustedBefore { digest, grants });
                }
            }
        }
    }

    /// Trusts no bytes any more.
    pub fn distrust(&mut self) {
        (self.trusted, self.grants) = (None, None);
        self.trusted_before.clear();
    }
}

impl Lock {
    /// What is known of a plugin.
    pub fn plugin(&self, folder: &Path, id: &str) -> Option<&Known> {
        // The id first: paths are compared part by part.
        self.plugins.iter().find(|known| known.id == id && known.folder == folder)
    }

    /// The same, to be changed; what was not known is first seen now.
    pub fn plugin_mut(&mut self, folder: &Path, id: &str) -> &mut Known {
        let is_it = |known: &Known| known.id == id && known.folder == folder;
        let index = self.plugins.iter().position(is_it).unwrap_or_else(|| {
            room::make_way(&mut self.plugins);
            let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
            self.plugins.push(Known {
                folder: folder.to_owned(),
                id: id.to_owned(),
                first_seen: Some(now),
                ..Known::default()
            });
            self.plugins.len() - 1
        });
        &mut self.plugins[index]
    }

    /// Tells whether these bytes of a plugin were trusted.
    pub fn trusts(&self, folder: &Path, id: &str, digest: &str) -> bool {
        self.plugin(folder, id).is_some_and(|known| known.trusted.as_deref() == Some(digest))
    }

    /// Trusts bytes of a plugin with some grants, in place of what was trusted before.
    pub fn trust(&mut self, pin: &Pin, agreed: &Agreed) {
        let known = self.plugin_mut(&pin.folder, &pin.id);
        let same_bytes = known.trusted.as_deref() == Some(&pin.digest);
        known.trust(&pin.digest);
        match (agreed, &mut known.grants) {
            (Agreed::More(more), Some(grants)) if same_bytes => {
                let new = more.iter().filter(|flag| !grants.contains(flag)).cloned();
                let new: Vec<String> = new.collect();
                grants.extend(new);
            }
            (Agreed::More(_), None) if same_bytes => {}
            (Agreed::These(flags) | Agreed::More(flags), grants) => *grants = Some(flags.clone()),
        }
    }

    /// Trusts no bytes of a plugin any more. Tells whether any were trusted.
    pub fn distrust(&mut self, folder: &Path, id: &str) -> bool {
        let is_it = |known: &&mut Known| known.folder == folder && known.id == id;
        let Some(known) = self.plugins.iter_mut().find(is_it) else { return false };
        let was_trusted = known.trusted.is_some();
        known.distrust();
        was_trusted
    }

    /// Takes single grants, as flags of `toolhost grant`, from what a plugin was granted.
    pub fn withdraw(&mut self, folder: &Path, id: &str, flags: &[String]) {
        let is_it = |known: &&mut Known| known.folder == folder && known.id == id;
        let Some(known) = self.plugins.iter_mut().find(is_it) else { return };
        let before = known.trusted_before.iter_mut().map(|before| &mut before.grants);
        for grants in before.chain([&mut known.grants]).flatten() {
            grants.retain(|flag| !flags.contains(flag));
        }
    }

    /// The project of this folder, if it was trusted and no other folder has come to its path.
    pub fn project(&self, folder: &Path) -> Option<&TrustedProject> {
        let known = self.projects.iter().find(|project| project.folder == folder);
        known.filter(|project| !project.is_another())
    }

    /// Trusts a project, in place of what was trusted of it before.
    pub fn trust_project(&mut self, project: TrustedProject) {
        self.projects.retain(|known| known.folder != project.folder);
        self.projects.push(project);
    }

    /// Trusts a server, in place of what was trusted before under its name.
    pub fn trust_server(&mut self, server: Server) {
        self.servers.retain(|known| known.name != server.name);
        self.servers.push(server);
    }

    /// The build of a plugin that is to be remembered: with what it declares, as far as there is room.
    pub fn build(
        &self,
        (folder, id): (&Path, &str),
        digest: &str,
        outline: &Outline,
    ) -> KnownBuild {
        let bytes_max = room::for_outline(&self.plugins, folder, id);
        KnownBuild { digest: digest.to_owned(), outline: outline.clone().within(bytes_max) }
    }

    /// Tells whether one more plugin of a folder can be remembered that nobody trusted.
    pub fn has_room(&self, folder: &Path) -> bool {
        room::for_plugin(&self.plugins, folder)
    }

    /// Remembers that a plugin has a name, if there is room; `counted` is used for many names in a row.
    pub fn own(&mut self, counted: &mut NamesOfFolders, name: &str, owner: Owner) {
        if counted.have_room(&mut self.names, name, &owner.folder) {
            let owners = self.names.entry(name.to_owned()).or_default();
            if owners.len() < OWNERS_MAX && !owners.contains(&owner) {
                owners.push(owner);
            }
        }
    }
}

/// Reads the lock. Without the file it is empty.
///
/// # Errors
/// If the file exists and cannot be read, or is damaged.
pub fn load(state: &Path) -> Result<Lock, LockError> {
    read(&state.join(LOCK))
}

/// Reads a lock from its text.
///
/// # Errors
/// In one sentence, if it is not what this host writes.
pub fn parse(text: &str) -> Result<Lock, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// Changes the lock, while no other process does; writes it only if it has changed.
///
/// # Errors
/// If the file cannot be read or written, or is damaged.
pub fn change<T>(state: &Path, change: impl FnOnce(&mut Lock) -> T) -> Result<T, LockError> {
    rewrite(state, LOCK, change)
}

/// Trusts bytes of a plugin, in place of what was trusted before, with all that the operator's file
/// grants to it.
///
/// # Errors
/// If the file cannot be read or written, or is damaged.
pub fn pin(state: &Path, pin: &Pin) -> Result<(), LockError> {
    change(state, |lock| {
        lock.plugin_mut(&pin.folder, &pin.id).trust(&pin.digest);
    })
}

/// Trusts no bytes of a plugin any more. Tells whether any were trusted.
///
/// # Errors
/// If the file cannot be read or written, or is damaged.
pub fn unpin(state: &Path, folder: &Path, id: &str) -> Result<bool, LockError> {
    change(state, |lock| lock.distrust(folder, id))
}

/// Reads, changes and writes a file, while no other process does.
fn rewrite<F: Clone + Default + PartialEq + Serialize + DeserializeOwned, T>(
    state: &Path,
    name: &str,
    change: impl FnOnce(&mut F) -> T,
) -> Result<T, LockError> {
    let path = state.join(name);
    let failed = |error| LockError::Io { path: path.clone(), error };
    let locked = atomic_file::lock(state).map_err(failed)?;
    let before: F = read(&path)?;
    let mut after = before.clone();
    let value = change(&mut after);
    if after != before {
        let text = serde_json::to_string_pretty(&after).map_err(|error| failed(error.into()))?;
        atomic_file::replace(&locked, state, name, text.as_bytes()).map_err(failed)?;
    }
    Ok(value)
}

fn read<T: Default + DeserializeOwned>(path: &Path) -> Result<T, LockError> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(T::default()),
        Err(error) => return Err(LockError::Io { path: path.to_owned(), error }),
    };
    serde_json::from_str(&text)
        .map_err(|error| LockError::Damaged { path: path.to_owned(), problem: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pinned(folder: &str, digest: &str) -> Pin {
        Pin { folder: folder.into(), id: "files".to_owned(), digest: digest.to_owned() }
    }

    #[test]
    fn a_pin_replaces_the_one_before() {
        let home = tempfile::tempdir().expect("a folder");
        for entry in [pinned("/a", "1"), pinned("/b", "1"), pinned("/a", "2")] {
            pin(home.path(), &entry).expect("pinned");
        }
        let lock = load(home.path()).expect("a lock");
        assert!(lock.trusts(Path::new("/a"), "files", "2"));
        assert!(!lock.trusts(Path::new("/a"), "files", "1"));
        assert!(lock.trusts(Path::new("/b"), "files", "1"));
        assert!(unpin(home.path(), Path::new("/a"), "files").expect("unpinned"));
        assert!(!unpin(home.path(), Path::new("/c"), "files").expect("unpinned"));
        let lock = load(home.path()).expect("a lock");
        // Of the same id elsewhere nothing is taken.
        assert!(!lock.trusts(Path::new("/a"), "files", "2"));
        assert!(lock.trusts(Path::new("/b"), "files", "1"));
        assert!(lock.plugins.iter().all(|known| known.first_seen.is_some()));
    }

    #[test]
    fn locks_of_before_are_read() {
        let text = r#"{"plugins": [{"folder": "/a", "id": "files", "digest": "1"}]}"#;
        assert!(parse(text).expect("a lock").trusts(Path::new("/a"), "files", "1"));
        assert!(parse(r#"{"plugins": [], "more": 1}"#).is_err());
    }

    #[test]
    fn grants_are_of_the_bytes_they_were_given_to() {
        let flags = |flags: &[&str]| flags.iter().map(|flag| (*flag).to_owned()).collect();
        let mut lock = Lock::default();
        let mut agree = |pin: &Pin, agreed: Agreed| {
            lock.trust(pin, &agreed);
            lock.plugin(&pin.folder, "files").and_then(|known| known.grants.clone())
        };
        let (one, two) = (pinned("/a", "1"), pinned("/a", "2"));
        assert_eq!(agree(&one, Agreed::More(flags(&["--kv"]))), Some(flags(&["--kv"])));
        let both = flags(&["--kv", "--env A"]);
        assert_eq!(agree(&one, Agreed::More(flags(&["--env A"]))), Some(both));
        // Other bytes have what is named, and no more.
        assert_eq!(agree(&two, Agreed::More(flags(&["--env B"]))), Some(flags(&["--env B"])));
        assert_eq!(agree(&two, Agreed::These(flags(&[]))), Some(flags(&[])));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut lock = Lock::default();
        for number in 0..room::PLUGINS_MAX + 10 {
            lock.plugin_mut(Path::new("/nowhere"), &number.to_string());
        }
        assert!(lock.plugins.len() <= room::PLUGINS_MAX);
        for number in 0..OWNERS_MAX + 10 {
            lock.own(
                &mut NamesOfFolders::default(),
                "t",
                Owner { folder: number.to_string().into(), id: "a".to_owned() },
            );
        }
        assert_eq!(lock.names["t"].len(), OWNERS_MAX);
        assert_eq!(lock.names["t"][0].folder, Path::new("0"));
    }

    #[test]
    fn writers_do_not_lose_each_other() {
        let home = tempfile::tempdir().expect("a folder");
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let state = home.path();
                scope.spawn(move || pin(state, &pinned(&format!("/{writer}"), "1")).expect("done"));
            }
        });
        assert_eq!(load(home.path()).expect("a lock").plugins.len(), 8);
    }

    #[test]
    fn a_damaged_file_is_an_error() {
        let home = tempfile::tempdir().expect("a folder");
        fs::write(home.path().join(LOCK), "{").expect("written");
        let message = load(home.path()).expect_err("damaged").to_string();
        assert!(message.contains("trust and grant again"), "{message}");
    }
}
