//! Values that nobody is shown: no guest, no model, no log, and no person either.
//!
//! A guest names a secret; the host puts its value into the final request. [`SecretStore`] keeps
//! names and values of one user, [`Redactor`] takes values out of what comes back. A value can be
//! set, replaced, removed and used, and there is no way to print it: [`SecretValue`] has neither
//! `Display` nor `Serialize`, its `Debug` is empty, and it is read with [`SecretValue::expose`]
//! alone, which one can search for.

mod escape;
mod forms;
mod keyring;
mod redact;
mod search;
mod store;
mod views;

use std::fmt;
use std::path::PathBuf;

use thiserror::Error;
use zeroize::Zeroizing;

pub use keyring::Keyring;
pub use redact::{RedactStream, Redactor};
pub use store::{KeptSecret, SECRETS_FILE, SecretPlace, SecretStore};

use toolhost_policy::capability;

/// The shortest value in bytes. Shorter ones occur by chance, and redacting them would tear
/// holes into what has nothing to do with them.
pub const VALUE_BYTES_MIN: usize = 8;
/// The longest value in bytes: servers take no longer headers.
pub const VALUE_BYTES_MAX: usize = 8_192;
/// The most secrets of one user.
pub const SECRETS_MAX: usize = 256;

/// A secret's value: 8 to 8,192 bytes of UTF-8 without control characters, without white space
/// at either end. Its memory is zeroed when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretValue(Zeroizing<String>);

impl SecretValue {
    /// Takes a value. A text that is refused is zeroed as well.
    ///
    /// # Errors
    /// If it is too short or too long, has a control character, U+FFFD or white space at an end.
    pub fn new(value: impl Into<Zeroizing<String>>) -> Result<SecretValue, ValueError> {
        let value = value.into();
        let bytes = value.len();
        if bytes > VALUE_BYTES_MAX {
            return Err(ValueError::Long);
        }
        if value.trim() != &**value {
            return Err(ValueError::Space);
        }
        if value.contains(char::is_control) {
            return Err(ValueError::Control);
        }
        // Also what stands in for a value where its name could be mistaken; see `redact`.
        if value.contains(char::REPLACEMENT_CHARACTER) {
            return Err(ValueError::Broken);
        }
        if bytes < VALUE_BYTES_MIN {
            return Err(ValueError::Short { bytes });
        }
        Ok(SecretValue(value))
    }

    /// Returns the value. Whoever calls this answers for where it goes.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SecretValue")
    }
}

/// Why a text is no value of a secret. It says nothing of the text but its length.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ValueError {
    /// It is too short.
    #[error(
        "the value has {bytes} bytes; a secret has at least {VALUE_BYTES_MIN}, since shorter ones occur by chance and could not be redacted"
    )]
    Short {
        /// Its length.
        bytes: usize,
    },
    /// It is too long.
    #[error("the value is longer than the {VALUE_BYTES_MAX} bytes that a secret has at most")]
    Long,
    /// It has white space at an end.
    #[error("the value begins or ends with white space, or is nothing else; leave it out")]
    Space,
    /// It has a control character.
    #[error(
        "the value has a control character, such as a line break, which cannot stand in a header; give one line of text"
    )]
    Control,
    /// It has U+FFFD.
    #[error(
        "the value has a U+FFFD, the mark of text that was read wrongly; copy it again from where you got it"
    )]
    Broken,
}

/// Why secrets cannot be kept or used. No variant has a value in it.
#[derive(Debug, Error)]
pub enum SecretError {
    /// The text is no name of a secret. It is not shown: it might be a value.
    #[error(
        "that is no name of a secret: a name has 1 to 128 of A-Z a-z 0-9 _, such as WEATHER_TOKEN (what was given is not shown, in case it is a value)"
    )]
    Name,
    /// There are too many.
    #[error(
        "there are {SECRETS_MAX} secrets, which is the most; remove one with `toolhost secret remove NAME`"
    )]
    Full,
    /// A file cannot be read or written.
    #[error("{path} cannot be used: {error}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// A file is in the reach of others.
    #[error("{path} {problem}; {repair}", path = path.display())]
    Exposed {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
        /// What to do.
        repair: String,
    },
    /// The file is not what this host writes.
    #[error("{path} is damaged (line {line}, column {column}); remove it, then set the secrets again", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where reading it stopped; 1 is the first.
        line: usize,
        /// Where in the line; 0 is before the first character.
        column: usize,
    },
    /// The keyring that has a value does not give it.
    #[error(
        "the secret {name} lies in the keyring, which {problem}; unlock or start the keyring, or set it again with `toolhost secret set {name}`"
    )]
    Keyring {
        /// The secret.
        name: String,
        /// Why the keyring does not give it.
        problem: String,
    },
    /// What the keyring or the file has under a name is no value.
    #[error(
        "what is kept of the secret {name} cannot be used: {error}; set it again with `toolhost secret set {name}`"
    )]
    Value {
        /// The secret.
        name: String,
        /// Why not.
        error: ValueError,
    },
}

/// Checks the name of a secret.
///
/// # Errors
/// If it is empty, longer than 128 bytes, or has other characters than `A-Z a-z 0-9 _`.
pub fn check_name(name: &str) -> Result<(), SecretError> {
    capability::check_variable(name).map_err(|_| SecretError::Name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Result<SecretValue, ValueError> {
        SecretValue::new(text.to_owned())
    }

    #[test]
    fn values_are_checked() {
        for good in ["12345678", "with a space", "grün und rot", &"x".repeat(8_192)] {
            assert_eq!(value(good).expect("a value").expose(), good);
        }
        for (bad, error) in [
            ("", ValueError::Short { bytes: 0 }),
            ("1234567", ValueError::Short { bytes: 7 }),
            (&*"x".repeat(8_193), ValueError::Long),
            (" 12345678", ValueError::Space),
            ("12345678\n", ValueError::Space),
            ("        ", ValueError::Space),
            ("1234\n5678", ValueError::Control),
            ("1234\u{9b}5678", ValueError::Control),
            ("1234\u{fffd}5678", ValueError::Broken),
        ] {
            assert_eq!(value(bad).expect_err("a refusal"), error);
        }
    }

    #[test]
    fn nothing_is_shown() {
        assert_eq!(format!("{:?}", value("hunter2-hunter2")), "Ok(SecretValue)");
        let message = check_name("TOKEN=hunter2").expect_err("a refusal").to_string();
        assert!(!message.contains("hunter2"), "{message}");
        assert!(check_name("TOKEN_1").is_ok() && check_name(&"x".repeat(129)).is_err());
    }
}
