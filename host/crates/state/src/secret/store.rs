//! Where the secrets of one user lie: in the keyring where there is one, otherwise in a file.
//!
//! `secrets.json` has every name, since a keyring cannot list, and the values that no keyring
//! has. Any number of processes share it.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::{Keyring, SECRETS_MAX, SecretError, SecretValue, check_name};
use crate::atomic_file;

/// The name of the file.
pub const SECRETS_FILE: &str = "secrets.json";
/// The most that is read of the file: more than all secrets can take.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// The names and values of one user's secrets.
///
/// Its methods block: on the disk, on other processes that change secrets, and up to 5 seconds
/// on the keyring. Call them where blocking is allowed (`tokio::task::spawn_blocking`).
#[derive(Clone, Debug)]
pub struct SecretStore {
    folder: PathBuf,
    keyring: Keyring,
}

/// Where a value lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretPlace {
    /// In the keyring.
    Keyring,
    /// In the file.
    File,
}

impl SecretPlace {
    /// The place as one word.
    pub fn as_str(self) -> &'static str {
        match self {
            SecretPlace::Keyring => "keyring",
            SecretPlace::File => "file",
        }
    }
}

impl fmt::Display for SecretPlace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

/// What became of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptSecret {
    /// Where it lies now.
    pub place: SecretPlace,
    /// There was a value of this name before.
    pub replaced: bool,
    /// What a person should know, such as that the keyring did not answer.
    pub warning: Option<String>,
}

/// The file as it is written.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SecretsFile {
    secrets: BTreeMap<String, StoredSecret>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredSecret {
    Keyring,
    File(Zeroizing<String>),
}

impl StoredSecret {
    fn place(&self) -> SecretPlace {
        match self {
            StoredSecret::Keyring => SecretPlace::Keyring,
            StoredSecret::File(_) => SecretPlace::File,
        }
    }
}

impl SecretStore {
    /// Takes the folder of this user's state, which need not be there yet, and the keyring. It
    /// reads nothing yet.
    pub fn open(folder: &Path, keyring: Keyring) -> SecretStore {
        SecretStore { folder: folder.to_owned(), keyring }
    }

    /// The file with the names, and with the values that no keyring has.
    pub fn file(&self) -> PathBuf {
        self.folder.join(SECRETS_FILE)
    }

    /// Keeps a value, in place of the one before. With a keyring it goes there; if that does not
    /// take it within 5 seconds, it goes into the file, and [`KeptSecret::warning`] says so.
    ///
    /// # Errors
    /// If the name is none, there are 256 secrets, or the file cannot be used, is damaged or lies
    /// open to others.
    pub fn set(&self, name: &str, value: &SecretValue) -> Result<KeptSecret, SecretError> {
        check_name(name)?;
        let locked = atomic_file::lock(&self.folder).map_err(|error| self.io(error))?;
        let mut written = self.read()?;
        let before = written.secrets.get(name).map(StoredSecret::place);
        if before.is_none() && written.secrets.len() >= SECRETS_MAX {
            return Err(SecretError::Full);
        }
        let asked = match &self.keyring {
            Keyring::None => Err(None),
            keyring => keyring.set(&self.owner()?, name, value.expose()).map_err(Some),
        };
        let mut warnings = Vec::new();
        let entry = match asked {
            Ok(()) => StoredSecret::Keyring,
            Err(problem) => {
                if let Some(problem) = problem {
                    warnings
                        .push(format!("the keyring {problem}, so the value is kept in the file"));
                }
                if before == Some(SecretPlace::Keyring) {
                    warnings.push("the keyring still has the value from before".to_owned());
                }
                StoredSecret::File(Zeroizing::new(value.expose().to_owned()))
            }
        };
        let place = entry.place();
        written.secrets.insert(name.to_owned(), entry);
        self.write(&locked, &written)?;
        let warning = (!warnings.is_empty()).then(|| warnings.join("; "));
        if let Some(warning) = &warning {
            tracing::debug!("secret {name}: {warning}");
        }
        Ok(KeptSecret { place, replaced: before.is_some(), warning })
    }

    /// Forgets a secret; tells whether there was one of this name.
    ///
    /// # Errors
    /// If the name is none, the keyring has the value and does not answer, or the file cannot be
    /// used, is damaged or lies open to others. The secret is then still there.
    pub fn remove(&self, name: &str) -> Result<bool, SecretError> {
        check_name(name)?;
        if !self.read()?.secrets.contains_key(name) {
            return Ok(false);
        }
        let locked = atomic_file::lock(&self.folder).map_err(|error| self.io(error))?;
        let mut written = self.read()?;
        let Some(entry) = written.secrets.remove(name) else { return Ok(false) };
        if let StoredSecret::Keyring = entry {
            self.keyring.remove(&self.owner()?, name).map_err(|problem| keyring(name, problem))?;
        }
        self.write(&locked, &written)?;
        Ok(true)
    }

    /// The names of all secrets, sorted, and where each value lies. No keyring is asked.
    ///
    /// # Errors
    /// If the file cannot be used, is damaged or lies open to others.
    pub fn names(&self) -> Result<Vec<(String, SecretPlace)>, SecretError> {
        let secrets = self.read()?.secrets;
        Ok(secrets.into_iter().map(|(name, entry)| (name, entry.place())).collect())
    }

    /// The value of a secret, if there is one of this name.
    ///
    /// # Errors
    /// As [`SecretStore::values`].
    pub fn value(&self, name: &str) -> Result<Option<SecretValue>, SecretError> {
        Ok(self.values([name])?.remove(name))
    }

    /// The values of some secrets, by name; names of none are left out. All that lie in the
    /// keyring are asked for at once.
    ///
    /// # Errors
    /// If a value lies in the keyring and that does not give it within 5 seconds, what is kept
    /// under a name is no value, or the file cannot be used, is damaged or lies open to others.
    pub fn values<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<BTreeMap<String, SecretValue>, SecretError> {
        let mut secrets = self.read()?.secrets;
        let (mut values, mut in_keyring) = (BTreeMap::new(), Vec::new());
        for name in names {
            match secrets.remove(name) {
                None => {}
                Some(StoredSecret::Keyring) => in_keyring.push(name),
                Some(StoredSecret::File(text)) => {
                    values.insert(name.to_owned(), checked(name, text)?);
                }
            }
        }
        let Some(first) = in_keyring.first() else { return Ok(values) };
        let found = self.keyring.values(&self.owner()?, &in_keyring);
        let mut found = found.map_err(|problem| keyring(first, problem))?;
        for name in in_keyring {
            let text = found
                .remove(name)
                .ok_or_else(|| keyring(name, "has no value of this name any more".to_owned()))?;
            values.insert(name.to_owned(), checked(name, text)?);
        }
        Ok(values)
    }

    /// The folder as the keyring knows it: without links.
    fn owner(&self) -> Result<PathBuf, SecretError> {
        fs::canonicalize(&self.folder).map_err(|error| self.io(error))
    }

    fn read(&self) -> Result<SecretsFile, SecretError> {
        let path = self.file();
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = match rustix::fs::open(&path, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(SecretsFile::default()),
            Err(Errno::LOOP) => {
                let repair = "remove it, and put the file itself in its place".to_owned();
                return Err(SecretError::Exposed {
                    path,
                    problem: "is a symbolic link".to_owned(),
                    repair,
                });
            }
            Err(error) => return Err(self.io(error.into())),
        };
        let folder = fs::metadata(&self.folder).map_err(|error| self.io(error))?;
        // Who can write to a folder can put another file in the place of this one.
        check_access(&self.folder, &folder, 0o022, "700")?;
        let metadata = file.metadata().map_err(|error| self.io(error))?;
        if !metadata.is_file() {
            let (problem, repair) = ("is no regular file".to_owned(), "remove it".to_owned());
            return Err(SecretError::Exposed { path, problem, repair });
        }
        check_access(&path, &metadata, 0o077, "600")?;
        // Room for all of it at once: what a vector outgrows is not zeroed.
        let length = metadata.len().min(FILE_BYTES_MAX) + 1;
        let mut text = Zeroizing::new(Vec::with_capacity(usize::try_from(length).unwrap_or(0)));
        file.take(FILE_BYTES_MAX).read_to_end(&mut text).map_err(|error| self.io(error))?;
        // The parser's own words may quote what it read, so only the place is told.
        serde_json::from_slice(&text).map_err(|error| SecretError::Damaged {
            path,
            line: error.line(),
            column: error.column(),
        })
    }

    fn write(
        &self,
        locked: &atomic_file::Locked,
        written: &SecretsFile,
    ) -> Result<(), SecretError> {
        let text = serde_json::to_vec_pretty(written).map(Zeroizing::new);
        let text = text.map_err(|error| self.io(error.into()))?;
        atomic_file::replace(locked, &self.folder, SECRETS_FILE, &text)
            .map_err(|error| self.io(error))
    }

    fn io(&self, error: std::io::Error) -> SecretError {
        SecretError::Io { path: self.file(), error }
    }
}

/// Refuses what is not ours, or what others can reach in a way that `forbidden` has the bits of.
fn check_access(
    path: &Path,
    metadata: &fs::Metadata,
    forbidden: u32,
    mode: &str,
) -> Result<(), SecretError> {
    let (owner, we) = (metadata.uid(), rustix::process::geteuid().as_raw());
    let given = metadata.mode() & 0o777;
    let (problem, repair) = if owner != we {
        (
            format!("belongs to user {owner}, and you are user {we}"),
            format!("run toolhost as its owner, or run `chown {we} {}`", quoted(path)),
        )
    } else if given & forbidden != 0 {
        (
            format!("lies open to other users (mode {given:03o})"),
            format!(
                "run `chmod {mode} {}`, and replace the secrets if somebody may have read them",
                quoted(path)
            ),
        )
    } else {
        return Ok(());
    };
    Err(SecretError::Exposed { path: path.to_owned(), problem, repair })
}

/// The path as a word of a shell.
fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+".contains(letter);
    if text.chars().all(plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

fn keyring(name: &str, problem: String) -> SecretError {
    SecretError::Keyring { name: name.to_owned(), problem }
}

fn checked(name: &str, text: Zeroizing<String>) -> Result<SecretValue, SecretError> {
    SecretValue::new(text).map_err(|error| SecretError::Value { name: name.to_owned(), error })
}

#[cfg(test)]
mod tests;
