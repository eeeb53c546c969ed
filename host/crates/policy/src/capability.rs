//! What a plugin may do: what it needs *and* was granted. Pure; nothing is opened here.
//!
//! Each kind of grant has one way to be written, in `toolhost.toml` and on the command line
//! alike; see the `parse` of each. No grant reaches the host's own state, so that no tool can
//! widen what it may do.

pub mod address;
mod asked;
mod dirs;
mod exclusive;
mod hooks;
mod http;
pub mod paths;
mod secrets;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::Deserialize;
use thiserror::Error;

use toolhost_core::text;
use toolhost_core::tool::Need;

pub use address::Reach;
pub use asked::{ToolNeeds, only_read, unasked};
pub use dirs::{Access, DirGrant, OwnFolder, access, names, refusal, refusal_within};
pub use exclusive::{Exclusive, Sides};
pub use hooks::{HookGrant, fits, hears};
pub use http::{HttpGrant, HttpRefusal, HttpRights, Target};
pub use secrets::{SecretGrant, SecretRights, Slot, asked_secrets};

/// A kind of authority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Directories.
    Dirs,
    /// Requests over HTTP.
    Http,
    /// Environment variables.
    Env,
    /// Secrets, put into requests.
    Secrets,
    /// A store of its own.
    Kv,
    /// Calls of other plugins' tools.
    Hooks,
}

impl Kind {
    /// Every kind, in the order they are shown.
    pub const ALL: [Kind; 6] =
        [Kind::Dirs, Kind::Http, Kind::Env, Kind::Secrets, Kind::Kv, Kind::Hooks];

    /// The name in needs and in `toolhost.toml`.
    pub fn key(self) -> &'static str {
        match self {
            Kind::Dirs => "dirs",
            Kind::Http => "http",
            Kind::Env => "env",
            Kind::Secrets => "secrets",
            Kind::Kv => "kv",
            Kind::Hooks => "hooks",
        }
    }

    /// The flag of `toolhost grant`, without its dashes.
    pub fn flag(self) -> &'static str {
        match self {
            Kind::Dirs => "dir",
            Kind::Secrets => "secret",
            Kind::Hooks => "hook",
            other => other.key(),
        }
    }

    /// One of it, for people.
    pub fn noun(self) -> &'static str {
        match self {
            Kind::Dirs => "directory",
            Kind::Http => "HTTP host",
            Kind::Env => "variable",
            Kind::Secrets => "secret",
            Kind::Kv => "store",
            Kind::Hooks => "hook",
        }
    }

    /// The kind of this key.
    pub fn of_key(key: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.key() == key)
    }

    /// A grant of this kind as a flag of `toolhost grant`, quoted for a shell where it must be.
    pub fn flag_for(self, text: &str) -> String {
        match self {
            Kind::Kv => "--kv".to_owned(),
            _ => format!("--{} {}", self.flag(), quoted(text)),
        }
    }
}

/// Quotes a text for a shell, if it has characters that mean something to one.
pub fn quoted(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:=@,+%".contains(&byte);
    if !text.is_empty() && text.bytes().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Everything an operator grants to one plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    /// Directories.
    pub dirs: Vec<DirGrant>,
    /// Requests.
    pub http: Vec<HttpGrant>,
    /// Names of environment variables.
    pub env: Vec<String>,
    /// Secrets, each bound to a host and a slot.
    pub secrets: Vec<SecretGrant>,
    /// A store of its own.
    pub kv: bool,
    /// Hooks.
    pub hooks: Vec<HookGrant>,
}

/// Values of environment variables, by name. Shown without the values.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Variables(pub BTreeMap<String, String>);

/// Why a text is no grant.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("`{given}` is no {kind} grant: {problem}; write {shape}")]
pub struct GrantError {
    given: String,
    kind: &'static str,
    problem: String,
    shape: &'static str,
}

impl GrantError {
    fn new(given: &str, kind: &'static str, problem: &str, shape: &'static str) -> GrantError {
        let given = text::one_line(&text::cut(given, 200));
        GrantError { given, kind, problem: problem.to_owned(), shape }
    }
}

impl Grants {
    /// Reads one grant and adds it. Relative directories are taken from `base`, if there is one.
    ///
    /// # Errors
    /// If the text is no grant of its kind.
    pub fn add(&mut self, kind: Kind, text: &str, base: Option<&Path>) -> Result<(), GrantError> {
        fn push<T: PartialEq>(list: &mut Vec<T>, grant: T) {
            if !list.contains(&grant) {
                list.push(grant);
            }
        }
        match kind {
            Kind::Dirs => push(&mut self.dirs, DirGrant::parse(text, base)?),
            Kind::Http => push(&mut self.http, HttpGrant::parse(text)?),
            Kind::Env => {
                check_variable(text)?;
                push(&mut self.env, text.to_owned());
            }
            Kind::Secrets => push(&mut self.secrets, SecretGrant::parse(text)?),
            Kind::Kv => self.kv = true,
            Kind::Hooks => push(&mut self.hooks, HookGrant::parse(text)?),
        }
        Ok(())
    }

    /// Takes the grants of one kind from `other`, in place of the present ones.
    pub fn replace(&mut self, kind: Kind, other: Grants) {
        match kind {
            Kind::Dirs => self.dirs = other.dirs,
            Kind::Http => self.http = other.http,
            Kind::Env => self.env = other.env,
            Kind::Secrets => self.secrets = other.secrets,
            Kind::Kv => self.kv = other.kv,
            Kind::Hooks => self.hooks = other.hooks,
        }
    }

    /// The grants of one kind, as they are written; a store has no text of its own.
    pub fn texts(&self, kind: Kind) -> Vec<String> {
        fn texts<T: ToString>(list: &[T]) -> Vec<String> {
            list.iter().map(T::to_string).collect()
        }
        match kind {
            Kind::Dirs => texts(&self.dirs),
            Kind::Http => texts(&self.http),
            Kind::Env => self.env.clone(),
            Kind::Secrets => texts(&self.secrets),
            Kind::Kv => self.kv.then(|| "kv".to_owned()).into_iter().collect(),
            Kind::Hooks => texts(&self.hooks),
        }
    }

    /// Every grant with its kind, as it is written.
    pub fn all(&self) -> Vec<(Kind, String)> {
        let of_kind = |kind| self.texts(kind).into_iter().map(move |text| (kind, text));
        Kind::ALL.into_iter().flat_map(of_kind).collect()
    }

    /// Tells whether nothing is granted.
    pub fn is_empty(&self) -> bool {
        *self == Grants::default()
    }

    /// Each grant as flags of `toolhost grant`.
    pub fn flags(&self) -> Vec<String> {
        self.all().into_iter().map(|(kind, text)| kind.flag_for(&text)).collect()
    }

    /// Keeps only the grants that stand among `flags`, as flags of `toolhost grant`.
    pub fn retain(&mut self, flags: &[String]) {
        let keep = |kind: Kind, text: String| flags.contains(&kind.flag_for(&text));
        self.dirs.retain(|grant| keep(Kind::Dirs, grant.to_string()));
        self.http.retain(|grant| keep(Kind::Http, grant.to_string()));
        self.env.retain(|name| keep(Kind::Env, name.clone()));
        self.secrets.retain(|grant| keep(Kind::Secrets, grant.to_string()));
        self.hooks.retain(|grant| keep(Kind::Hooks, grant.to_string()));
        self.kv &= keep(Kind::Kv, String::new());
    }

    /// Adds all that `other` grants.
    pub fn extend(&mut self, other: &Grants) {
        fn extend<T: Clone + PartialEq>(ours: &mut Vec<T>, theirs: &[T]) {
            for grant in theirs {
                if !ours.contains(grant) {
                    ours.push(grant.clone());
                }
            }
        }
        extend(&mut self.dirs, &other.dirs);
        extend(&mut self.http, &other.http);
        extend(&mut self.env, &other.env);
        extend(&mut self.secrets, &other.secrets);
        extend(&mut self.hooks, &other.hooks);
        self.kv |= other.kv;
    }

    /// Takes away all that `other` grants.
    pub fn remove(&mut self, other: &Grants) {
        self.dirs.retain(|grant| !other.dirs.contains(grant));
        self.http.retain(|grant| !other.http.contains(grant));
        self.env.retain(|name| !other.env.contains(name));
        self.secrets.retain(|grant| !other.secrets.contains(grant));
        self.hooks.retain(|grant| !other.hooks.contains(grant));
        self.kv &= !other.kv;
    }

    /// Keeps only what `other` grants as well, and tells whether `other` grants more.
    pub fn narrow(&mut self, other: &Grants) -> bool {
        fn narrow<T: PartialEq>(ours: &mut Vec<T>, theirs: &[T]) -> bool {
            let more = theirs.iter().any(|grant| !ours.contains(grant));
            ours.retain(|grant| theirs.contains(grant));
            more
        }
        let more = [
            narrow(&mut self.dirs, &other.dirs),
            narrow(&mut self.http, &other.http),
            narrow(&mut self.env, &other.env),
            narrow(&mut self.secrets, &other.secrets),
            other.kv && !self.kv,
            // A hook may be a guard, and fewer guards are no less authority.
            self.hooks != other.hooks,
        ];
        self.kv &= other.kv;
        more.contains(&true)
    }
}

impl fmt::Debug for Variables {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.0.keys()).finish()
    }
}

/// Checks the name of an environment variable.
///
/// # Errors
/// If it is empty, too long, or has other characters than `A-Z a-z 0-9 _`.
pub fn check_variable(name: &str) -> Result<(), GrantError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if (1..=128).contains(&name.len()) && name.bytes().all(allowed) {
        return Ok(());
    }
    let shape = "a name of A-Z a-z 0-9 _, such as WEATHER_TOKEN";
    Err(GrantError::new(name, "variable", "that is no name of an environment variable", shape))
}

/// The value of a need of kind `env`.
#[derive(Debug, Deserialize)]
struct EnvNeed {
    names: Vec<String>,
}

/// The needs of one kind that are for a tool.
fn needs_for<'a, T: serde::de::DeserializeOwned>(
    needs: &'a [Need],
    kind: &'a str,
    tool: &'a str,
) -> impl Iterator<Item = T> + 'a {
    let for_tool = move |need: &&Need| {
        need.kind == kind && (need.tools.is_empty() || need.tools.iter().any(|name| name == tool))
    };
    needs.iter().filter(for_tool).filter_map(|need| serde_json::from_str(&need.value).ok())
}

/// The variables that a tool asks for and that `fits` chooses, sorted. What it requires, it asks
/// for.
pub fn variables(
    needs: &[Need],
    requires_env: &[String],
    tool: &str,
    fits: impl Fn(&String) -> bool,
) -> Vec<String> {
    let asked = needs_for::<EnvNeed>(needs, "env", tool).flat_map(|need| need.names);
    let mut names: Vec<String> = asked.chain(requires_env.iter().cloned()).filter(fits).collect();
    names.sort();
    names.dedup();
    names
}

/// Tells whether `needs` ask for anything of a kind.
pub fn asks_for(needs: &[Need], kind: Kind) -> bool {
    needs.iter().any(|need| need.kind == kind.key())
}

/// Tells whether `needs` ask for anything of a kind for a tool.
pub fn asks_for_tool(needs: &[Need], kind: Kind, tool: &str) -> bool {
    needs_for::<serde::de::IgnoredAny>(needs, kind.key(), tool).next().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolhost_core::tool::HookEvent;

    #[test]
    fn variables_and_hooks_are_need_and_grant() {
        let need = |kind: &str, value: &str, tools: &[&str]| Need {
            kind: kind.to_owned(),
            value: value.to_owned(),
            tools: tools.iter().map(|&tool| tool.to_owned()).collect(),
            reason: String::new(),
        };
        let names = |list: &[&str]| list.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let needs = [
            need("env", r#"{"names": ["A", "B"]}"#, &["t"]),
            need("hooks", r#"{"events": ["pre-call"], "tools": ["web_*", "x"]}"#, &[]),
        ];
        let granted = names(&["B", "C", "D"]);
        assert_eq!(
            variables(&needs, &names(&["C"]), "t", |name| granted.contains(name)),
            ["B", "C"]
        );
        assert_eq!(variables(&needs, &[], "u", |name| granted.contains(name)), [""; 0]);
        let hears = |grant: &str, event, tool: &str| {
            self::hears(&needs, &[HookGrant::parse(grant).expect(grant)], event, tool)
        };
        assert!(hears("pre-call:*", HookEvent::PreCall, "web_search"));
        assert!(hears("pre-call:x", HookEvent::PreCall, "x"));
        assert!(!hears("pre-call:x", HookEvent::PreCall, "web_search"));
        assert!(!hears("pre-call:*", HookEvent::PreCall, "terminal"));
        assert!(!hears("transform:*", HookEvent::Transform, "x"));
        for bad in ["pre-call", "before:*", "pre-call:", "pre-call:a*b", "pre-call:a b"] {
            assert!(HookGrant::parse(bad).is_err(), "{bad}");
        }
        assert!(check_variable("TOKEN_1").is_ok());
        assert!(check_variable("A=B").is_err() && check_variable("").is_err());
    }
}
