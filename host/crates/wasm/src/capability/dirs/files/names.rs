//! What paths stand for: every path that leads into no directory by its name comes here, so that
//! a relative one is of the working directory, and one that is not granted is refused by the host,
//! which knows what is, and not by the guest's C library, which does not.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use wasmtime::component::Resource;
use wasmtime_wasi::FsPerms;
use wasmtime_wasi::filesystem::{Descriptor, Dir, OpenMode};
use wasmtime_wasi::p2::bindings::filesystem::preopens;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    DescriptorFlags, ErrorCode, HostDescriptor, OpenFlags, PathFlags,
};
use wasmtime_wasi::p2::{FsError, FsResult};

use super::{GuestFiles, PathUse};
use crate::capability::dirs::directories::DirectoryRules;
use toolhost_policy::capability::paths::{self, GrantedDir, Meant};
use toolhost_policy::capability::{Access, Kind};

/// Through these two every other path leads. The C library takes the last of what fits equally
/// well, and the first slash away, so `.` gets absolute paths too: it drops the slash of a
/// directory's name as it drops that of a path, so no name that the host could give tells the two
/// apart. The arguments do, where they have the path; where they do not, `data/x` may be read for
/// `/data/x`, and a `lib/x` that is missing be looked for as the `/lib/x` that is there; the refusal names both.
const ABSOLUTE: &str = "/";
const RELATIVE: &str = ".";
/// Strings of the arguments that are looked at, to tell how a path was meant.
const STRINGS_MAX: usize = 200;
/// Bytes of one of them; no path is longer.
const STRING_BYTES_MAX: usize = 4_096;

/// What a handle stands for that a guest got as a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    /// Every absolute path.
    Absolute,
    /// Every other.
    Relative,
    /// A granted directory, by its place among the rights.
    Granted(usize),
}

/// What the paths of one guest stand for.
#[derive(Default)]
pub(super) struct Names {
    rules: Arc<DirectoryRules>,
    /// The strings in the arguments of the call.
    strings: Vec<String>,
    /// The same as paths, absolute ones.
    said: Vec<String>,
    bases: Vec<(u32, Base)>,
    /// A handle of each granted directory that the guest does not have, and so cannot close.
    own: Vec<u32>,
    nothing: Option<Dir>,
    /// A handle of the working directory, where that lies below a granted one.
    here: Option<u32>,
}

impl Names {
    pub(super) fn new(rules: &Arc<DirectoryRules>) -> Names {
        Names { rules: Arc::clone(rules), ..Names::default() }
    }

    /// Tells the arguments of the call, as JSON, which may say how a path is meant.
    pub(super) fn said(&mut self, arguments: &str) {
        let arguments = serde_json::from_str(arguments).unwrap_or_default();
        gather(&arguments, &mut self.strings);
        let working = self.working().unwrap_or("/").to_owned();
        let strings = self.strings.iter().filter(|text| !text.is_empty());
        self.said = strings.map(|text| paths::said(text, &working)).collect();
    }

    /// The number will stand for something else.
    pub(super) fn forget(&mut self, handle: u32) {
        self.bases.retain(|(known, _)| *known != handle);
    }

    /// Stands for a directory with nothing below it, whatever is done with it: it is none.
    fn nothing(&mut self) -> std::io::Result<Dir> {
        if let Some(nothing) = &self.nothing {
            return Ok(nothing.clone());
        }
        let file = std::fs::File::open("/dev/null")?;
        let nothing = Dir::new(file, FsPerms::ReadOnly, OpenMode::READ, false);
        Ok(self.nothing.insert(nothing).clone())
    }

    fn base(&self, handle: u32) -> Option<Base> {
        self.bases.iter().find(|(known, _)| *known == handle).map(|(_, base)| *base)
    }

    fn working(&self) -> Option<&str> {
        self.rules.working.as_deref().and_then(Path::to_str)
    }

    /// A path as an absolute one, if it is worth telling: it was said in the arguments, or it is on
    /// this machine, or would be made there. What an interpreter looks for among its own files is not.
    fn shown(
        &self,
        path: &str,
        meant: Meant,
        what: PathUse<'_>,
        places: &[GrantedDir<'_>],
        is_probed: bool,
    ) -> Option<String> {
        let is_there = |path: &str| match what.access {
            Access::Read => self.is_there(path),
            // It may be made.
            Access::Write => Path::new(path)
                .parent()
                .and_then(Path::to_str)
                .is_none_or(|path| self.is_there(path)),
        };
        let absolute = paths::whole(path, "/");
        let shown = match (meant, self.working().map(|working| paths::whole(path, working))) {
            (Meant::Absolute, _) | (_, None) => absolute,
            (Meant::Relative, Some(relative)) => relative,
            // Where both are there, it is the one that is looked for first.
            (Meant::Either, Some(relative)) => {
                let is_absolute =
                    !paths::leads_out(path) && !is_there(&relative) && is_there(&absolute);
                if is_absolute { absolute } else { relative }
            }
        };
        if self.said.contains(&shown) {
            return Some(shown);
        }
        // Who looks at a directory on the way to another wants nothing of it.
        let above = |others: &mut dyn Iterator<Item = &str>| paths::is_above(&shown, others);
        let is_here = self.working().is_some_and(|working| Path::new(&shown).starts_with(working));
        let is_on_the_way = !what.is_directory
            && (above(&mut places.iter().map(|place| place.guest).chain(self.working()))
                || (!is_here && above(&mut self.said.iter().map(String::as_str))));
        // A probe counts what is not there, but for what an interpreter looks for.
        let is_counted = || what.access == Access::Write || self.is_there(&first(&shown));
        let is_told = || is_there(&shown) || (is_probed && is_counted());
        (!is_on_the_way && is_told()).then_some(shown)
    }

    /// Tells whether a path is on this machine. Below the working directory and elsewhere no link is
    /// followed: where it leads may be anybody's choice, and what is there is not asked.
    fn is_there(&self, path: &str) -> bool {
        let path = Path::new(path);
        let (mut at, rest) = match self.rules.working.as_deref() {
            Some(working) if path.starts_with(working) => {
                (working.to_owned(), path.strip_prefix(working))
            }
            _ => (PathBuf::from("/"), path.strip_prefix("/")),
        };
        for name in rest.unwrap_or(path) {
            at.push(name);
            match at.symlink_metadata() {
                // Those at the root are the system's, such as `/lib`.
                Ok(found) if found.is_symlink() && at.parent() != Some(Path::new("/")) => {
                    return true;
                }
                Ok(_) => {}
                Err(_) => return false,
            }
        }
        true
    }
}

/// The directory at the root that a path leads through.
fn first(path: &str) -> String {
    path.split('/')
        .find(|name| !name.is_empty())
        .map_or_else(|| "/".to_owned(), |name| format!("/{name}"))
}

/// Gathers the strings in a value.
fn gather(value: &Value, strings: &mut Vec<String>) {
    match value {
        _ if strings.len() >= STRINGS_MAX => {}
        Value::String(text) if text.len() <= STRING_BYTES_MAX => strings.push(text.clone()),
        Value::Array(values) => values.iter().for_each(|value| gather(value, strings)),
        Value::Object(fields) => fields.values().for_each(|value| gather(value, strings)),
        _ => {}
    }
}

impl GuestFiles<'_> {
    /// The directories that a guest gets: those that were granted, and after them, if it may
    /// have any, the two that every other path leads through. Where the operator gave one of
    /// these names to a directory, every path leads there.
    pub(super) fn directories(&mut self) -> wasmtime::Result<Vec<(Resource<Descriptor>, String)>> {
        if let Some(error) = self.no_longer_there {
            return Err(error.clone().into());
        }
        let mut all = preopens::Host::get_directories(&mut self.inner)?;
        for (place, (fd, _)) in all.iter().enumerate() {
            self.roots.add(fd.rep(), place);
            self.names.forget(fd.rep());
            self.names.bases.push((fd.rep(), Base::Granted(place)));
        }
        let is_taken =
            all.iter().any(|(_, path)| path.split('/').all(|name| matches!(name, "" | ".")));
        let has_names = self.is_probed || self.right.may_have_some();
        if has_names && !is_taken {
            for (name, base) in [(ABSOLUTE, Base::Absolute), (RELATIVE, Base::Relative)] {
                let nothing = Descriptor::Dir(self.names.nothing()?);
                let fd = self.inner.table.push(nothing)?;
                self.names.bases.push((fd.rep(), base));
                all.push((fd, name.to_owned()));
            }
        }
        Ok(all)
    }

    /// Where a path below a handle leads: there, or where its name leads from a directory that
    /// the guest got. What leads into no granted directory is refused.
    pub(super) fn lead(&mut self, what: PathUse<'_>) -> FsResult<(Resource<Descriptor>, String)> {
        let unchanged = || (Resource::new_borrow(what.fd), what.path.to_owned());
        let Some(base) = self.names.base(what.fd) else { return Ok(unchanged()) };
        let places = self.right.places();
        let (path, meant) = match base {
            Base::Granted(_) if !paths::leads_out(what.path) => return Ok(unchanged()),
            Base::Granted(place) => {
                let guest = places[place].guest;
                let meant = if guest.starts_with('/') { Meant::Absolute } else { Meant::Relative };
                (format!("{guest}/{}", what.path), meant)
            }
            Base::Absolute => (what.path.to_owned(), Meant::Absolute),
            Base::Relative => {
                let names = &self.names;
                let said = paths::meant(what.path, &names.strings, names.working());
                (what.path.to_owned(), said.unwrap_or(Meant::Either))
            }
        };
        if let Some((place, below)) = paths::lead(&path, meant, self.names.working(), &places) {
            return Ok((self.own(place)?, below));
        }
        if self.call_log.closed(Kind::DIRS, what.path).is_none()
            && let Some(shown) = self.names.shown(&path, meant, what, &places, self.is_probed)
        {
            // Without its slash nobody knows which one was meant.
            let is_guessed = meant == Meant::Either
                && self.names.working().is_some()
                && shown == paths::whole(&path, "/");
            let said = match is_guessed && !self.names.said.contains(&shown) {
                true => format!("{path} (or {shown})"),
                false => shown.clone(),
            };
            self.right.lacks(self.call_log, what.access, (&shown, &said));
        }
        Err(ErrorCode::NotPermitted.into())
    }

    /// The host's own handle of a granted directory, for a use.
    fn own(&mut self, place: usize) -> FsResult<Resource<Descriptor>> {
        if self.names.own.is_empty() {
            let granted =
                preopens::Host::get_directories(&mut self.inner).map_err(FsError::trap)?;
            for (place, (fd, _)) in granted.iter().enumerate() {
                self.roots.add(fd.rep(), place);
                self.names.own.push(fd.rep());
            }
        }
        let own = self.names.own.get(place).copied();
        own.map(Resource::new_borrow).ok_or_else(|| ErrorCode::NotPermitted.into())
    }

    /// Remembers why a path in a granted directory was refused.
    pub(super) fn tell(&self, what: PathUse<'_>, error: &FsError) {
        let code = error.downcast_ref();
        let is_refusal = matches!(code, Some(ErrorCode::NotPermitted | ErrorCode::ReadOnly));
        if let Some(place) = self.roots.of(what.fd).filter(|_| is_refusal) {
            self.right.lacks_within(self.call_log, place, what.access, what.path);
        }
    }

    /// The directory itself that a handle stands for, to look at it.
    pub(super) async fn itself(
        &mut self,
        fd: Resource<Descriptor>,
        access: Access,
    ) -> FsResult<Resource<Descriptor>> {
        if matches!(self.names.base(fd.rep()), None | Some(Base::Granted(_))) {
            return Ok(fd);
        }
        let what = PathUse { is_directory: true, ..PathUse::new(&fd, ".", access) };
        let (fd, below) = self.lead(what)?;
        if below == "." {
            return Ok(fd);
        }
        // The working directory, which stays open.
        if let Some(here) = self.names.here {
            return Ok(Resource::new_borrow(here));
        }
        let what = PathUse { is_directory: true, ..PathUse::new(&fd, &below, access) };
        let flags = DescriptorFlags::READ;
        let opened = self
            .using(what, async |files| {
                let follow = PathFlags::SYMLINK_FOLLOW;
                files.open_at(fd, follow, below.clone(), OpenFlags::DIRECTORY, flags).await
            })
            .await?;
        self.roots.add_below(what.fd, opened.rep());
        self.names.here = Some(opened.rep());
        Ok(opened)
    }
}
