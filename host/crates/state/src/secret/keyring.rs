//! The keyring of this user's desktop: the secret service on Linux, the keychain on macOS.
//!
//! Everything here blocks, for [`WAIT`] at most: a keyring may ask a person for its password. An
//! error is the end of a sentence that begins with "the keyring".

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use zeroize::Zeroizing;

/// How long a keyring may take to answer.
const WAIT: Duration = Duration::from_secs(5);

/// Where values lie if not in the file. It is a value that the host is given, since what there
/// is depends on the session it runs in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Keyring {
    /// There is none that this process can reach.
    #[default]
    None,
    /// The secret service on a session bus of D-Bus.
    #[cfg(target_os = "linux")]
    SecretService {
        /// The address of the bus, as it stands in `DBUS_SESSION_BUS_ADDRESS`.
        address: String,
    },
    /// The user's default keychain.
    #[cfg(target_os = "macos")]
    Keychain,
}

impl Keyring {
    /// Keeps a value, in place of the one before.
    pub(super) fn set(&self, folder: &Path, name: &str, value: &str) -> Result<(), String> {
        match self {
            Keyring::None => Err(unreachable_here()),
            #[cfg(target_os = "linux")]
            Keyring::SecretService { address } => service::set(address, folder, name, value),
            #[cfg(target_os = "macos")]
            Keyring::Keychain => keychain::set(folder, name, value),
        }
    }

    /// Returns the values of those names that it has.
    pub(super) fn values(
        &self,
        folder: &Path,
        names: &[&str],
    ) -> Result<BTreeMap<String, Zeroizing<String>>, String> {
        match self {
            Keyring::None => Err(unreachable_here()),
            #[cfg(target_os = "linux")]
            Keyring::SecretService { address } => service::values(address, folder, names),
            #[cfg(target_os = "macos")]
            Keyring::Keychain => keychain::values(folder, names),
        }
    }

    /// Forgets a value. If it has none of that name, that is fine.
    pub(super) fn remove(&self, folder: &Path, name: &str) -> Result<(), String> {
        match self {
            Keyring::None => Err(unreachable_here()),
            #[cfg(target_os = "linux")]
            Keyring::SecretService { address } => service::remove(address, folder, name),
            #[cfg(target_os = "macos")]
            Keyring::Keychain => keychain::remove(folder, name),
        }
    }
}

fn unreachable_here() -> String {
    "cannot be reached from here (DBUS_SESSION_BUS_ADDRESS names no session bus)".to_owned()
}

fn no_answer() -> String {
    format!("has not answered within {} s", WAIT.as_secs())
}

/// A value out of a keyring, which may hold anything under our name.
fn text(name: &str, bytes: Vec<u8>) -> Result<Zeroizing<String>, String> {
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Zeroizing::new(text)),
        Err(error) => {
            drop(Zeroizing::new(error.into_bytes()));
            Err(format!("has something else than UTF-8 as `{name}`"))
        }
    }
}

#[cfg(target_os = "linux")]
mod service {
    //! The secret service, in a runtime of its own that lasts for one question.

    use std::collections::{BTreeMap, HashMap};
    use std::path::Path;

    use secret_service::{EncryptionType, Error, Item, SecretService};
    use zeroize::Zeroizing;

    use super::{WAIT, no_answer};
    use toolhost_core::text;

    /// The most characters shown of what a keyring says.
    const SAID_CHARS_MAX: usize = 200;

    pub(super) fn set(address: &str, folder: &Path, name: &str, value: &str) -> Result<(), String> {
        ask(address, async |service| {
            let collection = service.get_default_collection().await?;
            if collection.is_locked().await? {
                collection.unlock().await?;
            }
            let (label, folder) = (format!("toolhost secret {name}"), folder.to_string_lossy());
            let attributes = attributes(&folder, name);
            collection
                .create_item(&label, attributes, value.as_bytes(), true, "text/plain")
                .await
                .map(|_| ())
        })
    }

    pub(super) fn values(
        address: &str,
        folder: &Path,
        names: &[&str],
    ) -> Result<BTreeMap<String, Zeroizing<String>>, String> {
        let found = ask(address, async |service| {
            let mut found = Vec::new();
            for name in names {
                if let Some(item) = items(&service, folder, name).await?.first() {
                    found.push(((*name).to_owned(), item.get_secret().await?));
                }
            }
            Ok(found)
        })?;
        found
            .into_iter()
            .map(|(name, bytes)| super::text(&name, bytes).map(|value| (name, value)))
            .collect()
    }

    pub(super) fn remove(address: &str, folder: &Path, name: &str) -> Result<(), String> {
        ask(address, async |service| {
            for item in items(&service, folder, name).await? {
                item.delete().await?;
            }
            Ok(())
        })
    }

    /// What finds a value again. Homes side by side each have their own.
    fn attributes<'a>(folder: &'a str, name: &'a str) -> HashMap<&'a str, &'a str> {
        HashMap::from([("application", "toolhost"), ("folder", folder), ("name", name)])
    }

    /// The items of a name, unlocked.
    async fn items<'a>(
        service: &'a SecretService<'_>,
        folder: &Path,
        name: &str,
    ) -> Result<Vec<Item<'a>>, Error> {
        let folder = folder.to_string_lossy();
        let found = service.search_items(attributes(&folder, name)).await?;
        for item in &found.locked {
            item.unlock().await?;
        }
        Ok(found.unlocked.into_iter().chain(found.locked).collect())
    }

    /// Asks the service on a thread and a runtime of their own, so that callers may be within
    /// another runtime, and nothing is left of a question that is given up.
    fn ask<T: Send>(
        address: &str,
        question: impl AsyncFnOnce(SecretService<'static>) -> Result<T, Error> + Send,
    ) -> Result<T, String> {
        let run = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(|error| format!("cannot be asked: {error}"))?;
            runtime.block_on(async {
                let answer = async {
                    let bus = zbus::connection::Builder::address(address)?.build().await?;
                    // Encrypted also on the bus, which other programs of this user may watch.
                    let encryption = EncryptionType::Dh;
                    let service = SecretService::connect_with_existing(encryption, bus).await?;
                    question(service).await
                };
                match tokio::time::timeout(WAIT, answer).await {
                    Ok(answer) => answer.map_err(|error| said(&error)),
                    Err(_) => Err(no_answer()),
                }
            })
        };
        std::thread::scope(|scope| scope.spawn(run).join())
            .unwrap_or_else(|_| Err("could not be asked".to_owned()))
    }

    fn said(error: &Error) -> String {
        match error {
            Error::NoResult => "has no default collection".to_owned(),
            Error::Prompt => "was not unlocked: its question was dismissed".to_owned(),
            Error::Locked => "is locked".to_owned(),
            error => {
                let words = text::one_line(&text::cut(&error.to_string(), SAID_CHARS_MAX));
                format!("does not work ({words})")
            }
        }
    }
}

#[cfg(target_os = "macos")]
mod keychain {
    //! The keychain, asked on a thread that may outlive the question: nothing can stop it.

    use std::collections::BTreeMap;
    use std::path::Path;
    use std::sync::mpsc;

    use security_framework::base::Error;
    use security_framework::passwords;
    use zeroize::Zeroizing;

    use super::{WAIT, no_answer};

    /// `errSecItemNotFound`.
    const NOT_FOUND: i32 = -25300;

    pub(super) fn set(folder: &Path, name: &str, value: &str) -> Result<(), String> {
        let (service, name) = (service(folder), name.to_owned());
        let value = Zeroizing::new(value.to_owned());
        ask(move || passwords::set_generic_password(&service, &name, value.as_bytes()))?;
        Ok(())
    }

    pub(super) fn values(
        folder: &Path,
        names: &[&str],
    ) -> Result<BTreeMap<String, Zeroizing<String>>, String> {
        let mut values = BTreeMap::new();
        for name in names {
            let (service, account) = (service(folder), (*name).to_owned());
            let found = ask(move || passwords::get_generic_password(&service, &account))?;
            if let Some(bytes) = found {
                values.insert((*name).to_owned(), super::text(name, bytes)?);
            }
        }
        Ok(values)
    }

    pub(super) fn remove(folder: &Path, name: &str) -> Result<(), String> {
        let (service, name) = (service(folder), name.to_owned());
        ask(move || passwords::delete_generic_password(&service, &name))?;
        Ok(())
    }

    /// Homes side by side each have their own.
    fn service(folder: &Path) -> String {
        format!("toolhost {}", folder.display())
    }

    /// Asks; nothing is found if there is no such item.
    fn ask<T: Send + 'static>(
        question: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<Option<T>, String> {
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || sender.send(question()));
        match receiver.recv_timeout(WAIT) {
            Ok(Ok(answer)) => Ok(Some(answer)),
            Ok(Err(error)) if error.code() == NOT_FOUND => Ok(None),
            Ok(Err(error)) => Err(format!("does not work ({error})")),
            Err(_) => Err(no_answer()),
        }
    }
}
