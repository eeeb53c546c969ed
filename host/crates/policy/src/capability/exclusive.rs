//! Mutually exclusive: kinds of authority of which one call uses only one.
//!
//! Whichever a call touches first closes the others for the life of its instance, so that what
//! it reads on one side cannot leave by the other. A model can still carry a text from one call
//! to the next.

use super::Kind;

/// Kinds of authority that exclude each other within one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exclusive(Vec<Kind>);

impl Exclusive {
    /// Reads the kinds of one group.
    ///
    /// # Errors
    /// If there are fewer than two, one stands twice, or a use of one cannot be seen.
    pub fn new(kinds: &[&str]) -> Result<Exclusive, String> {
        let allowed: Vec<Kind> = Kind::all().filter(|kind| kind.can_be_exclusive()).collect();
        let mut read = Vec::new();
        for &name in kinds {
            let kind = allowed.iter().copied().find(|kind| kind.key() == name);
            let kind = kind.ok_or_else(|| {
                let shown = toolhost_core::text::one_line(&toolhost_core::text::cut(name, 60));
                let known: Vec<&str> = allowed.iter().map(|kind| kind.key()).collect();
                format!("`{shown}` cannot be exclusive; allowed are {}", known.join(", "))
            })?;
            if read.contains(&kind) {
                return Err(format!("`{name}` stands twice in one group"));
            }
            read.push(kind);
        }
        if read.len() < 2 {
            return Err("a group has at least two kinds, such as [\"dirs\", \"http\"]".to_owned());
        }
        Ok(Exclusive(read))
    }
}

/// What one call has touched, and what is therefore closed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sides {
    groups: Vec<Exclusive>,
    touched: Vec<Kind>,
}

impl Sides {
    /// Of a call that can use `held` at all. Where it can use only one kind of a group, that is
    /// its side from the beginning.
    pub fn new(groups: &[Exclusive], held: &[Kind]) -> Sides {
        let mut sides = Sides { groups: groups.to_vec(), touched: Vec::new() };
        for group in groups {
            let mut usable = group.0.iter().filter(|kind| held.contains(kind));
            if let (Some(&only), None) = (usable.next(), usable.next())
                && !sides.touched.contains(&only)
            {
                sides.touched.push(only);
            }
        }
        sides
    }

    /// The kind that closes `kind`, if one does.
    pub fn closed_by(&self, kind: Kind) -> Option<Kind> {
        let group = self.groups.iter().filter(|group| group.0.contains(&kind));
        let mut others = group.flat_map(|group| &group.0).filter(|other| **other != kind);
        others.find(|other| self.touched.contains(other)).copied()
    }

    /// Remembers that the call has used `kind`.
    pub fn touch(&mut self, kind: Kind) {
        if !self.groups.is_empty() && !self.touched.contains(&kind) {
            self.touched.push(kind);
        }
    }

    /// The side of the call, as a name; empty as long as it has touched nothing exclusive.
    pub fn side(&self) -> String {
        let exclusive = |kind: &Kind| self.groups.iter().any(|group| group.0.contains(kind));
        let mut names: Vec<&str> =
            self.touched.iter().filter(|kind| exclusive(kind)).map(|kind| kind.key()).collect();
        names.sort_unstable();
        names.join("+")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_touched_first_closes_the_other() {
        let group = Exclusive::new(&["dirs", "http"]).expect("a group");
        let both = [Kind::DIRS, Kind::HTTP];
        let mut sides = Sides::new(std::slice::from_ref(&group), &both);
        assert_eq!((sides.closed_by(Kind::DIRS), sides.side().as_str()), (None, ""));
        sides.touch(Kind::DIRS);
        assert_eq!(sides.closed_by(Kind::HTTP), Some(Kind::DIRS));
        assert_eq!((sides.closed_by(Kind::DIRS), sides.side().as_str()), (None, "dirs"));
        let one = Sides::new(std::slice::from_ref(&group), &[Kind::HTTP, Kind::KV]);
        assert_eq!(one.side(), "http");
        let mut none = Sides::new(&[], &both);
        none.touch(Kind::DIRS);
        assert_eq!((none.closed_by(Kind::HTTP), none.side().as_str()), (None, ""));
    }

    #[test]
    fn groups_are_checked() {
        let error = |kinds: &[&str]| Exclusive::new(kinds).expect_err("a refusal");
        assert_eq!(error(&["env", "http"]), "`env` cannot be exclusive; allowed are dirs, http");
        assert_eq!(error(&["http", "http"]), "`http` stands twice in one group");
        assert!(error(&["http"]).starts_with("a group has at least two kinds"));
    }
}
