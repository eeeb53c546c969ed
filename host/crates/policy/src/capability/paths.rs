//! Paths as plugins say them: which granted directory one leads into.
//!
//! A path that the operator chose for a directory comes first. A relative path is of the caller's
//! working directory, which is a base for names and grants nothing.

use std::path::Path;

/// A granted directory.
#[derive(Clone, Copy, Debug)]
pub struct GrantedDir<'a> {
    /// Where the plugin sees it.
    pub guest: &'a str,
    /// Where it is, as the grant names it.
    pub host: &'a Path,
    /// Where it is, without links.
    pub real: &'a Path,
}

/// What is known of how a path was meant. The C library of WASI takes the first slash away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meant {
    /// It is absolute, with or without its slash.
    Absolute,
    /// It is relative.
    Relative,
    /// It may be either; relative comes first.
    Either,
}

/// The directory that a path leads into, by its place among these, and the path below it.
///
/// `..` is taken by the letter. Of several directories that hold it the narrowest counts, and of
/// several at one path the last, as in C.
pub fn lead(
    path: &str,
    meant: Meant,
    working: Option<&str>,
    places: &[GrantedDir<'_>],
) -> Option<(usize, String)> {
    let named = |steps: &Steps<'_>| {
        narrowest(steps, places, |place| Some(Steps::of(place.guest)))
            .or_else(|| narrowest(steps, places, |place| place.host.to_str().map(Steps::of)))
            .or_else(|| narrowest(steps, places, |place| place.real.to_str().map(Steps::of)))
    };
    let absolute = || named(&Steps::absolute(path));
    let relative = || {
        narrowest(&Steps::relative(path), places, |place| Some(Steps::of(place.guest)))
            .or_else(|| named(&Steps::of(&whole(path, working?))))
    };
    match meant {
        Meant::Absolute => absolute(),
        Meant::Relative => relative(),
        // What leads up from nowhere cannot be absolute.
        Meant::Either if Steps::relative(path).ups > 0 => relative(),
        Meant::Either => relative().or_else(absolute),
    }
}

/// A path of the working directory as an absolute one, without `.` and `..`.
pub fn whole(path: &str, working: &str) -> String {
    format!("/{}", Steps::absolute(&format!("{working}/{path}")).names.join("/"))
}

/// Tells whether a path, taken as absolute, leads to a directory above one of these.
pub fn is_above<'a>(path: &str, mut others: impl Iterator<Item = &'a str>) -> bool {
    let above = Steps::absolute(path);
    let is_above = |other: &str| Steps::of(other).below(&above).is_some_and(|rest| rest != ".");
    others.any(is_above)
}

/// Tells how a path, which came without its first slash, was said in these arguments, if it was:
/// it, or a directory above it, is one of their strings. The more exact one counts.
pub fn meant(path: &str, strings: &[String], working: Option<&str>) -> Option<Meant> {
    let working = working.unwrap_or("/");
    let said = |is_absolute: bool, is_exact: bool| {
        let path = whole(path, if is_absolute { "/" } else { working });
        let path = Steps::of(&path);
        strings.iter().filter(|text| text.starts_with('/') == is_absolute).any(|text| {
            let said = said(text, working);
            match path.below(&Steps::of(&said)).as_deref() {
                Some(".") => true,
                // Below the root, `.` or `..` is whatever there is.
                Some(_) => !is_exact && !Steps::of(text).names.is_empty(),
                None => false,
            }
        })
    };
    [true, false].into_iter().find_map(|is_exact| {
        match (said(true, is_exact), said(false, is_exact)) {
            (true, false) => Some(Meant::Absolute),
            (false, true) => Some(Meant::Relative),
            (true, true) => Some(Meant::Either),
            (false, false) => None,
        }
    })
}

/// A string of arguments as the absolute path that it is, if it is one.
pub fn said(text: &str, working: &str) -> String {
    whole(text, if text.starts_with('/') { "/" } else { working })
}

/// The names on a path, without `.`, and without `..` as far as something stands before it.
#[derive(Debug, PartialEq, Eq)]
struct Steps<'a> {
    is_absolute: bool,
    /// How often it leads up from where it starts.
    ups: usize,
    names: Vec<&'a str>,
}

impl<'a> Steps<'a> {
    fn of(path: &'a str) -> Steps<'a> {
        if path.starts_with('/') { Steps::absolute(path) } else { Steps::relative(path) }
    }

    fn absolute(path: &'a str) -> Steps<'a> {
        Steps { is_absolute: true, ups: 0, ..Steps::relative(path) }
    }

    fn relative(path: &'a str) -> Steps<'a> {
        let mut steps = Steps { is_absolute: false, ups: 0, names: Vec::new() };
        for name in path.split('/') {
            match name {
                "" | "." => {}
                ".." if steps.names.pop().is_none() => steps.ups += 1,
                ".." => {}
                name => steps.names.push(name),
            }
        }
        steps
    }

    /// The path from `above` to here, if it lies there; `.` for the same.
    fn below(&self, above: &Steps<'_>) -> Option<String> {
        if self.is_absolute != above.is_absolute || self.ups > 0 || above.ups > 0 {
            return None;
        }
        let rest = self.names.strip_prefix(above.names.as_slice())?;
        Some(if rest.is_empty() { ".".to_owned() } else { rest.join("/") })
    }
}

fn narrowest<'a>(
    steps: &Steps<'_>,
    places: &[GrantedDir<'a>],
    named: impl Fn(&GrantedDir<'a>) -> Option<Steps<'a>>,
) -> Option<(usize, String)> {
    let holding = places.iter().enumerate().filter_map(|(index, place)| {
        let at = named(place)?;
        Some((at.names.len(), index, steps.below(&at)?))
    });
    holding.max_by_key(|(length, index, _)| (*length, *index)).map(|(_, index, rest)| (index, rest))
}

/// Tells whether a path leads up out of where it starts.
pub fn leads_out(path: &str) -> bool {
    Steps::relative(path).ups > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Directories as `GUEST` or `HOST=GUEST`.
    fn check(directories: &[&str], path: &str, meant: Meant, expected: Option<(usize, &str)>) {
        let places: Vec<GrantedDir<'_>> = directories
            .iter()
            .map(|text| {
                let (host, guest) = text.split_once('=').unwrap_or((text, text));
                GrantedDir { guest, host: Path::new(host), real: Path::new(host) }
            })
            .collect();
        let found = lead(path, meant, Some("/w/sub"), &places);
        let found = found.as_ref().map(|(index, rest)| (*index, rest.as_str()));
        assert_eq!(found, expected, "{path} {meant:?} in {directories:?}");
    }

    #[test]
    fn a_relative_path_is_of_the_working_directory() {
        use Meant::{Absolute, Either, Relative};
        check(&["/w"], "a", Relative, Some((0, "sub/a")));
        check(&["/w"], "./a/../b/", Relative, Some((0, "sub/b")));
        check(&["/w"], "../a", Relative, Some((0, "a")));
        check(&["/w"], ".", Relative, Some((0, "sub")));
        check(&["/w/sub"], ".", Relative, Some((0, ".")));
        check(&["/w/sub/data"], "data", Either, Some((0, ".")));
        check(&["/w/sub/data"], "data/x", Either, Some((0, "x")));
        check(&["/w/sub/data"], "other/x", Either, None);
        check(&["/w/sub/data"], "../x", Either, None);
        check(&["/w/other"], "../other/x", Either, Some((0, "x")));
        check(&["/w/other"], "../../../../w/other/x", Either, Some((0, "x")));
        // The narrowest, and the last at one path.
        check(&["/w", "/w/sub"], "a", Relative, Some((1, "a")));
        check(&["/w/sub", "/w"], "a", Relative, Some((0, "a")));
        check(&["/x=/w", "/y=/w"], "a", Relative, Some((1, "sub/a")));
        // A path that the operator chose comes first, absolute or relative.
        check(&["/w/sub", "/x=data"], "data/a", Relative, Some((1, "a")));
        check(&["/w/sub/data", "/x=/w/sub/data"], "data/a", Relative, Some((1, "a")));
        check(&["/w/sub", "/x=."], "a", Either, Some((1, "a")));
        // Nobody need say it as the plugin sees it.
        check(&["/w/sub/data=/in"], "data/a", Relative, Some((0, "a")));
        check(&["/w/sub/data=/in"], "w/sub/data/a", Absolute, Some((0, "a")));
        check(&["/w/sub/data=/in", "/x=/w/sub"], "w/sub/data/a", Absolute, Some((1, "data/a")));
        // What is absolute is not of here.
        check(&["/w/sub/data"], "data/a", Absolute, None);
        check(&["/w/sub/data", "/data"], "data/a", Absolute, Some((1, "a")));
        check(&["/etc"], "etc/a", Either, Some((0, "a")));
        check(&["/etc"], "x/../etc/./a", Absolute, Some((0, "a")));
        check(&["/etc"], "etc/a", Relative, None);
        check(&["/etc"], "etcetera", Absolute, None);
    }

    #[test]
    fn arguments_tell_how_a_path_was_meant() {
        let strings = ["/data/x", "./in", "src", "..", "/"].map(str::to_owned);
        let check = |path: &str, expected| {
            assert_eq!(meant(path, &strings, Some("/w/sub")), expected, "{path}");
        };
        check("data/x", Some(Meant::Absolute));
        check("data/x/y", Some(Meant::Absolute));
        check("data", None);
        check("in/a", Some(Meant::Relative));
        check("src/../src/a", Some(Meant::Relative));
        check("etc/passwd", None);
        check("..", Some(Meant::Either));
        check("../sub/..", Some(Meant::Either));
        check("../x", None);
        check(".", Some(Meant::Absolute));
        assert_eq!(said("../x", "/w/sub"), "/w/x");
        assert_eq!(said("/x/", "/w/sub"), "/x");
        assert_eq!(whole("../a", "/w/sub"), "/w/a");
        assert!(is_above("w", ["/w/sub"].into_iter()) && is_above("/", ["/w"].into_iter()));
        assert!(!is_above("x", ["/w/sub"].into_iter()) && !is_above("/w", ["/w"].into_iter()));
    }
}
