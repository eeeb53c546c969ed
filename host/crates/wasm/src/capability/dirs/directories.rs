//! Directories of grants, held by handle: a path that is renamed or swapped afterwards changes
//! nothing. And the places of the host's own, which no grant may touch.

use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use wasmtime_wasi::{FsPerms, WasiCtxBuilder};

use toolhost_core::text;
use toolhost_policy::capability::paths::GrantedDir;
use toolhost_policy::capability::{self, Access, DirGrant, OwnFolder};

/// An open directory and what may be done there.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    handle: Arc<Dir>,
    pub(crate) grant: DirGrant,
    /// Where it is, without links.
    real: PathBuf,
}

/// Links that are followed to find what a path leads to.
const LINKS_MAX: usize = 40;
/// Folders below a refused one that are looked at, to name a narrower grant.
const NARROWER_MAX: usize = 200;

/// What bounds the directories that can be granted.
#[derive(Clone, Debug, Default)]
pub struct DirectoryRules {
    /// The places of the host's own, which no grant may touch; see [`DirectoryRules::keep`].
    pub own: Vec<OwnFolder>,
    /// The directory that relative paths are of. It is a base for names, and grants nothing.
    pub working: Option<PathBuf>,
    /// This user's home, which is proposed to nobody: it is all that they have.
    pub home: Option<PathBuf>,
}

impl DirectoryRules {
    /// Adds a place of the host's own, also one that is not there yet. A grant for writing that
    /// contains it or lies inside it is refused, and one for reading, unless that is harmless
    /// (`readable`). Where links lead there, each of them may not be changed either.
    pub fn keep(&mut self, path: &Path, what: &'static str, readable: bool) {
        let (real, links) = resolved(path);
        self.add(OwnFolder { path: real, what, readable });
        links.into_iter().for_each(|path| self.add(OwnFolder { path, what, readable: true }));
    }

    /// The same for a place as it is written, where nothing may be looked at.
    pub fn keep_as_written(&mut self, path: &Path, what: &'static str, readable: bool) {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        self.add(OwnFolder { path, what, readable });
    }

    fn add(&mut self, place: OwnFolder) {
        if !self.own.contains(&place) {
            self.own.push(place);
        }
    }

    /// Says why a directory, named without links, may not be granted.
    fn refusal(&self, path: &Path, access: Access) -> Option<String> {
        let names = capability::names(path, &mounts());
        names.iter().find_map(|name| capability::refusal(name, access, &self.own))
    }

    /// Tells whether a directory is all that some user has, or that all users have.
    fn is_a_home(&self, path: &Path) -> bool {
        const HOMES: [&str; 2] = ["/home", "/Users"];
        let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let path = real(path);
        self.home.as_ref().is_some_and(|home| real(home).starts_with(&path))
            || path == Path::new("/root")
            || HOMES
                .map(Path::new)
                .iter()
                .any(|homes| homes.starts_with(&path) || path.parent() == Some(*homes))
    }

    /// A directory below one that may not be changed which may be, if one is easily found.
    fn narrower(&self, path: &Path) -> Option<String> {
        // Below the root lies what is the system's.
        path.parent()?;
        let entries = fs::read_dir(path).into_iter().flatten().flatten().take(NARROWER_MAX);
        let below = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let below = below.filter_map(|entry| entry.file_name().into_string().ok());
        // What needs no quotes, and is not hidden.
        let mut below: Vec<String> = below
            .filter(|name| !name.starts_with('.') && capability::quoted(name) == *name)
            .collect();
        below.sort();
        let may = |name: &String| self.refusal(&path.join(name), Access::Write).is_none();
        below.into_iter().find(may)
    }
}

/// Where a path leads, without links, as far as it is there; and the links on the way.
fn resolved(path: &Path) -> (PathBuf, Vec<PathBuf>) {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let (mut at, mut links) = (PathBuf::from("/"), Vec::new());
    let mut todo: Vec<PathBuf> = parts(&path);
    while let Some(part) = todo.pop() {
        match part.components().next() {
            Some(Component::ParentDir) => {
                at.pop();
            }
            Some(Component::Normal(name)) => {
                let next = at.join(name);
                match fs::read_link(&next) {
                    Ok(target) if links.len() < LINKS_MAX => {
                        links.push(next);
                        todo.extend(parts(&target));
                    }
                    _ => at = next,
                }
            }
            // An absolute one starts over.
            Some(Component::RootDir) => at = PathBuf::from("/"),
            _ => {}
        }
    }
    (at, links)
}

/// The parts of a path, the last one first.
fn parts(path: &Path) -> Vec<PathBuf> {
    path.components().rev().map(|part| PathBuf::from(part.as_os_str())).collect()
}

/// What is mounted where, as far as the system says it.
fn mounts() -> String {
    let text = if cfg!(target_os = "linux") { fs::read("/proc/self/mountinfo").ok() } else { None };
    text.map_or_else(String::new, |text| String::from_utf8_lossy(&text).into_owned())
}

impl Directory {
    /// Opens the directory of a grant, unless it touches a place of the host's own.
    pub(crate) fn open(grant: &DirGrant, rules: &DirectoryRules) -> Result<Directory, String> {
        let shown = grant.host.display();
        let failed = |error: std::io::Error| format!("{shown} cannot be granted: {error}");
        let handle = Dir::open_ambient_dir(&grant.host, ambient_authority()).map_err(failed)?;
        // Of the handle, not of the path, which may lead elsewhere by now.
        let path = fs::canonicalize(handle_path(&handle, &grant.host)).map_err(failed)?;
        if let Some(reason) = rules.refusal(&path, grant.access) {
            let narrower = rules.narrower(&path).filter(|_| grant.access == Access::Write);
            let narrower = narrower.map_or_else(String::new, |name| {
                format!("; narrower is `{}:rw`, say", grant.host.join(name).display())
            });
            return Err(format!("{shown} cannot be granted: {reason}{narrower}"));
        }
        Ok(Directory { handle: Arc::new(handle), grant: grant.clone(), real: path })
    }

    /// The directory, as paths lead into it.
    pub(crate) fn place(&self) -> GrantedDir<'_> {
        GrantedDir { guest: &self.grant.guest, host: &self.grant.host, real: &self.real }
    }

    /// Lets a guest see the directory.
    pub(crate) fn preopen(
        &self,
        builder: &mut WasiCtxBuilder,
        access: Access,
    ) -> wasmtime::Result<()> {
        let permissions = match access {
            Access::Read => FsPerms::ReadOnly,
            Access::Write => FsPerms::ReadWrite,
        };
        let path = handle_path(&self.handle, &self.grant.host);
        builder.preopened_dir(&path, &self.grant.guest, permissions)?;
        Ok(())
    }
}

/// Checks that the directory of a grant is there, and touches no place of the host's own.
///
/// # Errors
/// With the reason, and the repair where there is one.
pub fn check(grant: &DirGrant, rules: &DirectoryRules) -> Result<(), String> {
    Directory::open(grant, rules).map(|_| ())
}

/// Says why nobody should be told to give a grant, if so: it cannot be given, is of more than a plugin
/// should have, or a command with it would mean another directory.
///
/// # Errors
/// With the reason, for the plugin too.
pub fn proposed(grant: &DirGrant, rules: &DirectoryRules) -> Result<(), String> {
    if rules.is_a_home(&grant.host) {
        return Err("it holds the home of a user".to_owned());
    }
    let text = grant.to_string();
    if text::one_line(&text) != text {
        return Err("its path has characters that cannot be typed".to_owned());
    }
    if DirGrant::parse(&text, None).as_ref() != Ok(grant) {
        return Err(
            "its path cannot be written as a grant, in which `=` separates two paths".into()
        );
    }
    let Err(error) = check(grant, rules) else { return Ok(()) };
    let real = fs::canonicalize(&grant.host).unwrap_or_default();
    let mut names = capability::names(&real, &mounts()).into_iter();
    Err(match names.find_map(|name| capability::refusal_within(&name, grant.access, &rules.own)) {
        Some(reason) => reason,
        None => error,
    })
}

/// The narrowest directory that is there and holds a path: itself, if it is one, since what is to
/// be made is made in what is there.
pub fn narrowest(path: &Path) -> &Path {
    path.ancestors().find(|above| above.is_dir()).unwrap_or(path)
}

/// A path that leads to the open directory itself.
#[cfg(target_os = "linux")]
fn handle_path(handle: &Dir, _: &Path) -> PathBuf {
    use std::os::fd::AsRawFd;

    PathBuf::from(format!("/proc/self/fd/{}", handle.as_raw_fd()))
}

/// Elsewhere a handle has no path, and the one it was opened by has to do.
#[cfg(not(target_os = "linux"))]
fn handle_path(_: &Dir, path: &Path) -> PathBuf {
    path.to_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn places_are_known_by_where_they_lead() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = fs::canonicalize(folder.path()).expect("a folder");
        fs::create_dir_all(root.join("a/b")).expect("made");
        symlink("a", root.join("link")).expect("a link");
        symlink("gone/there", root.join("dangling")).expect("a link");
        symlink(root.join("dangling"), root.join("twice")).expect("a link");
        symlink("loop", root.join("loop")).expect("a link");
        let check = |path: &str, leads_to: &str, links: &[&str]| {
            let links: Vec<PathBuf> = links.iter().map(|link| root.join(link)).collect();
            assert_eq!(resolved(&root.join(path)), (root.join(leads_to), links), "{path}");
        };
        check("a/b", "a/b", &[]);
        check("a/b/../c", "a/c", &[]);
        check("link/b", "a/b", &["link"]);
        check("link/c/d", "a/c/d", &["link"]);
        check("link/..", "", &["link"]);
        check("dangling/x", "gone/there/x", &["dangling"]);
        check("twice/x/y", "gone/there/x/y", &["twice", "dangling"]);
        check("none/x", "none/x", &[]);
        let (end, links) = resolved(&root.join("loop/x"));
        assert_eq!((end, links.len()), (root.join("loop/x"), LINKS_MAX));
    }
}
