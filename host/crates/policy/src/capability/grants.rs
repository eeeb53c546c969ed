//! Everything that one plugin was granted, by kind; it knows no kind in particular.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use super::{GrantError, Kind};

/// A value that an operator grants. As a text it is what stands in `toolhost.toml`, and two of one
/// kind are equal if their texts are.
pub trait Grant: Any + fmt::Debug + fmt::Display + Send + Sync {}

impl<T: Any + fmt::Debug + fmt::Display + Send + Sync> Grant for T {}

impl dyn Grant {
    /// The value, if it is of this type; each kind has a type of its own.
    pub fn value<T: Any>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }
}

/// One grant with its text, which is what is compared.
#[derive(Clone, Debug)]
struct GrantText {
    value: Arc<dyn Grant>,
    text: String,
}

impl PartialEq for GrantText {
    fn eq(&self, other: &GrantText) -> bool {
        self.text == other.text
    }
}

impl Eq for GrantText {}

/// Everything an operator grants to one plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    /// None of the lists is empty.
    by_kind: BTreeMap<Kind, Vec<GrantText>>,
}

impl Grants {
    /// Reads one grant and adds it. Relative directories are taken from `base`, if there is one.
    ///
    /// # Errors
    /// If the text is no grant of its kind.
    pub fn add(&mut self, kind: Kind, text: &str, base: Option<&Path>) -> Result<(), GrantError> {
        let value = kind.read(text, base)?;
        let text = value.to_string();
        self.push(kind, GrantText { value, text });
        Ok(())
    }

    fn push(&mut self, kind: Kind, grant: GrantText) {
        let list = self.by_kind.entry(kind).or_default();
        if !list.contains(&grant) {
            list.push(grant);
        }
    }

    fn keep(&mut self, keep: impl Fn(Kind, &GrantText) -> bool) {
        for (kind, list) in &mut self.by_kind {
            list.retain(|grant| keep(*kind, grant));
        }
        self.by_kind.retain(|_, list| !list.is_empty());
    }

    fn contains(&self, kind: Kind, grant: &GrantText) -> bool {
        self.by_kind.get(&kind).is_some_and(|list| list.contains(grant))
    }

    /// The grants of one type, in the order they were given.
    pub fn of<T: Any>(&self) -> impl Iterator<Item = &T> {
        self.by_kind.values().flatten().filter_map(|grant| grant.value.value())
    }

    /// Tells whether anything of a kind is granted.
    pub fn has(&self, kind: Kind) -> bool {
        self.by_kind.contains_key(&kind)
    }

    /// Takes the grants of one kind from `other`, in place of the present ones.
    pub fn replace(&mut self, kind: Kind, mut other: Grants) {
        match other.by_kind.remove(&kind) {
            Some(list) => self.by_kind.insert(kind, list),
            None => self.by_kind.remove(&kind),
        };
    }

    /// The grants of one kind, as they are written.
    pub fn texts(&self, kind: Kind) -> Vec<String> {
        let list = self.by_kind.get(&kind).into_iter().flatten();
        list.map(|grant| grant.text.clone()).collect()
    }

    /// Every grant with its kind, as it is written.
    pub fn all(&self) -> Vec<(Kind, String)> {
        let of_kind = |kind| self.texts(kind).into_iter().map(move |text| (kind, text));
        Kind::all().flat_map(of_kind).collect()
    }

    /// Tells whether nothing is granted.
    pub fn is_empty(&self) -> bool {
        self.by_kind.is_empty()
    }

    /// Tells whether something is granted whose value is set elsewhere.
    pub fn has_values(&self) -> bool {
        self.by_kind.keys().any(|kind| kind.has_values())
    }

    /// Tells whether something is granted that may be a guard.
    pub fn has_guards(&self) -> bool {
        self.by_kind.keys().any(|kind| kind.may_guard())
    }

    /// Each grant as flags of `toolhost grant`.
    pub fn flags(&self) -> Vec<String> {
        self.all().into_iter().map(|(kind, text)| kind.flag_for(&text)).collect()
    }

    /// Keeps only the grants that stand among `flags`, as flags of `toolhost grant`.
    pub fn retain(&mut self, flags: &[String]) {
        self.keep(|kind, grant| flags.contains(&kind.flag_for(&grant.text)));
    }

    /// Keeps only the grants that `fits` chooses.
    pub(super) fn retain_where(&mut self, fits: impl Fn(Kind, &dyn Grant) -> bool) {
        self.keep(|kind, grant| fits(kind, &*grant.value));
    }

    /// Adds all that `other` grants.
    pub fn extend(&mut self, other: &Grants) {
        for (kind, list) in &other.by_kind {
            for grant in list {
                self.push(*kind, grant.clone());
            }
        }
    }

    /// Takes away all that `other` grants.
    pub fn remove(&mut self, other: &Grants) {
        self.keep(|kind, grant| !other.contains(kind, grant));
    }

    /// Keeps only what `other` grants as well, and tells whether `other` grants more.
    pub fn narrow(&mut self, other: &Grants) -> bool {
        let more = Kind::all().any(|kind| match kind.may_guard() {
            true => self.by_kind.get(&kind) != other.by_kind.get(&kind),
            false => {
                let mut theirs = other.by_kind.get(&kind).into_iter().flatten();
                theirs.any(|grant| !self.contains(kind, grant))
            }
        });
        self.keep(|kind, grant| kind.may_guard() || other.contains(kind, grant));
        more
    }

    /// The same grants, each as `held` has it, if that has the same in another way of writing.
    #[must_use]
    pub fn as_held(&self, held: &Grants) -> Grants {
        let mut same = Grants::default();
        for (kind, list) in &self.by_kind {
            for grant in list {
                let mut known = held.by_kind.get(kind).into_iter().flatten();
                let known = known.find(|known| kind.is_same(&*known.value, &*grant.value));
                same.push(*kind, known.unwrap_or(grant).clone());
            }
        }
        same
    }
}
