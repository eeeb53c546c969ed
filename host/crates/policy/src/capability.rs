//! What a plugin may do: what it needs *and* was granted. Pure; nothing is opened here.
//!
//! Each kind of authority is one module, which implements [`Capability`] and stands once in
//! [`Kind::ALL`]; nothing else lists kinds. Each kind of grant has one way to be written, in
//! `toolhost.toml` and on the command line alike. No grant reaches the host's own state, so that
//! no tool can widen what it may do.

pub mod address;
mod asked;
mod dirs;
mod env;
mod exclusive;
mod grants;
mod hooks;
mod http;
mod kv;
pub mod paths;
mod secrets;
mod words;

use std::cmp::Ordering;
use std::fmt;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};
use thiserror::Error;

use toolhost_core::text;
use toolhost_core::tool::Need;

pub use address::Reach;
pub use asked::{Asks, ToolNeeds, only_read, unasked};
pub use dirs::{Access, DirGrant, OwnFolder, access, names, refusal, refusal_within};
pub use env::{VariableGrant, Variables, check_variable, required, variables};
pub use exclusive::{Exclusive, Sides};
pub use grants::{Grant, Grants};
pub use hooks::{HookGrant, fits, hears};
pub use http::{HttpGrant, HttpRefusal, HttpRights, Target};
pub use secrets::{SecretGrant, SecretRights, SecretSlot, asked_secrets};
pub use words::{is_known, need_words};

/// What there is to know of one kind of authority: how it is asked for, granted and told.
pub trait Capability: Sync {
    /// The name in needs and in `toolhost.toml`.
    fn key(&self) -> &'static str;

    /// The flag of `toolhost grant`, without its dashes.
    fn flag(&self) -> &'static str {
        self.key()
    }

    /// What stands for the value of the flag in `--help`; nothing if it has none: what is granted
    /// or not, and `true` or `false` in `toolhost.toml`.
    fn value_name(&self) -> Option<&'static str>;

    /// What the flag is for, in `--help`.
    fn help(&self) -> &'static str;

    /// One of it, for people.
    fn noun(&self) -> &'static str;

    /// Reads a grant. Relative directories are taken from `base`, if there is one.
    ///
    /// # Errors
    /// If the text is no grant of this kind.
    fn read(&self, text: &str, base: Option<&Path>) -> Result<Arc<dyn Grant>, GrantError>;

    /// Tells whether two grants are the same, if differently written.
    fn is_same(&self, one: &dyn Grant, other: &dyn Grant) -> bool {
        one.to_string() == other.to_string()
    }

    /// It may be a guard, and fewer guards are no less authority: whoever may only narrow cannot
    /// take it away.
    fn may_guard(&self) -> bool {
        false
    }

    /// Tells whether a plugin asks for anything of this kind, and can make use of it.
    fn is_asked(&self, asks: &Asks<'_>) -> bool {
        asks_for_key(asks.needs, self.key())
    }

    /// Tells whether a tool, or a hook if it has no name, asks for something that a grant is for.
    fn meets(&self, asks: &Asks<'_>, tool: ToolNeeds<'_>, grant: &dyn Grant) -> bool;

    /// The grants that a need still lacks, as they are written. Empty if it is met.
    ///
    /// What somebody granted in part, they may well want in part.
    fn lacking(&self, need: &Need, value: &Value, held: &Grants) -> Vec<String>;

    /// A need in words, and how many members of its value they tell; nothing if the value does
    /// not have the shape of the kind.
    fn need_words(&self, value: &Map<String, Value>) -> Option<(String, usize)>;

    /// A grant, in the middle of a sentence.
    fn grant_words(&self, text: &str) -> String {
        format!("the {} {text}", self.noun())
    }

    /// How names of interfaces begin that refuse without a grant of this kind, each with a word
    /// or two for it.
    fn imports(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// How the name of the interface begins without which a plugin makes no use of a grant, if
    /// an import tells at all.
    fn used_by(&self) -> Option<&'static str> {
        None
    }

    /// What else makes use of it, if it is not imported.
    fn used_otherwise_by(&self) -> Option<&'static str> {
        None
    }

    /// How the name of the interface begins that a plugin must export to make use of it, if it must.
    fn used_by_export(&self) -> Option<&'static str> {
        None
    }

    /// A kind that a plugin must ask for too, to make use of this; with what is said where it does not,
    /// and what to do.
    fn goes_with(&self) -> Option<(Kind, &'static str, &'static str)> {
        None
    }

    /// A standard library imports it by itself, so an import does not say that it is used.
    fn is_imported_by_itself(&self) -> bool {
        false
    }

    /// A use of it is seen, so that it can exclude others within one call.
    fn can_be_exclusive(&self) -> bool {
        false
    }

    /// A tool that is called alone can make use of it, so that it can be granted to a probe.
    fn can_be_probed(&self) -> bool {
        true
    }

    /// A plugin that has no tool can make use of it.
    fn is_of_use_without_tools(&self) -> bool {
        false
    }

    /// What is granted are paths of this machine.
    fn is_of_paths(&self) -> bool {
        false
    }

    /// Names that needs ask for, of values that a tool may require.
    fn value_names(&self, _needs: &[Need]) -> Vec<String> {
        Vec::new()
    }

    /// Grants of it name values that are set elsewhere.
    fn has_values(&self) -> bool {
        false
    }
}

/// A kind of authority. In the order of [`Kind::ALL`].
#[derive(Clone, Copy)]
pub struct Kind(&'static dyn Capability);

impl Kind {
    /// Every kind, in the order they are shown.
    pub const ALL: &'static [Kind] =
        &[Kind::DIRS, Kind::HTTP, Kind::ENV, Kind::SECRETS, Kind::KV, Kind::HOOKS];

    /// Every kind, in the order they are shown.
    pub fn all() -> impl Iterator<Item = Kind> {
        Kind::ALL.iter().copied()
    }

    /// The kind of this key.
    pub fn of_key(key: &str) -> Option<Kind> {
        Kind::all().find(|kind| kind.key() == key)
    }

    /// A grant of this kind as a flag of `toolhost grant`, quoted for a shell where it must be.
    pub fn flag_for(self, text: &str) -> String {
        match self.value_name() {
            None => format!("--{}", self.flag()),
            Some(_) => format!("--{} {}", self.flag(), quoted(text)),
        }
    }

    fn place(self) -> Option<usize> {
        Kind::ALL.iter().position(|kind| kind.key() == self.key())
    }
}

impl Deref for Kind {
    type Target = dyn Capability;

    fn deref(&self) -> &Self::Target {
        self.0
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.key())
    }
}

impl PartialEq for Kind {
    fn eq(&self, other: &Kind) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Kind {}

impl PartialOrd for Kind {
    fn partial_cmp(&self, other: &Kind) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Kind {
    fn cmp(&self, other: &Kind) -> Ordering {
        self.place().cmp(&other.place())
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

/// Tells whether `needs` ask for anything of a kind.
pub fn asks_for(needs: &[Need], kind: Kind) -> bool {
    asks_for_key(needs, kind.key())
}

fn asks_for_key(needs: &[Need], key: &str) -> bool {
    needs.iter().any(|need| need.kind == key)
}

/// Tells whether `needs` ask for anything of a kind for a tool.
pub fn asks_for_tool(needs: &[Need], kind: Kind, tool: &str) -> bool {
    needs_for::<serde::de::IgnoredAny>(needs, kind.key(), tool).next().is_some()
}

/// The strings of a JSON array; none if it is no array.
fn strings(list: &Value) -> Vec<String> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
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
            let mut granted = Grants::default();
            granted.add(Kind::HOOKS, grant, None).expect(grant);
            self::hears(&needs, &granted, event, tool)
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
