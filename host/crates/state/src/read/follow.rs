//! Where a path leads, found out part by part and link by link, without a look at anything outside of the
//! folders that it has to stay in: a link there may lead to a file system that never answers, or that is
//! mounted by looking at it.
//!
//! What lies above these folders is known without a look, since their own paths have no links.

use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

use rustix::io::Errno;

/// Links that are followed one after the other, as the kernel does.
const LINKS_MAX: usize = 40;

/// Why a path leads nowhere.
#[derive(Debug)]
pub enum Astray {
    /// Out of the folders: to this, as far as the path itself says.
    LeadsOut(PathBuf),
    /// What the system says.
    Io(io::Error),
}

/// A part of a path that is still to be gone.
enum PathStep {
    ToRoot,
    Up,
    Down(OsString),
}

/// Follows a path that somebody typed into a project, whose own path has no links. Up to the project,
/// links are of whoever typed them.
pub(super) fn typed(project: &Path, path: &Path) -> Result<PathBuf, Astray> {
    let path = std::path::absolute(path).map_err(Astray::Io)?;
    // From the project on where that is on the way.
    let (from, path) = match path.strip_prefix(project) {
        Ok(below) => (project, below),
        Err(_) => (Path::new("/"), &*path),
    };
    walk(&[project.to_owned()], from, path, from == project)
}

/// Follows a path that stands in a file of the folder `from`. It leads to none but these folders and what
/// lies in them; their paths, and that of `from`, have no links.
///
/// # Errors
/// If it leads out of them, whether something is there or not; or if it leads nowhere.
pub fn within(folders: &[PathBuf], from: &Path, path: &Path) -> Result<PathBuf, Astray> {
    walk(folders, from, path, true)
}

fn walk(
    folders: &[PathBuf],
    from: &Path,
    path: &Path,
    mut has_entered: bool,
) -> Result<PathBuf, Astray> {
    let is_in = |path: &Path| folders.iter().any(|folder| path.starts_with(folder));
    let is_above = |path: &Path| folders.iter().any(|folder| folder.starts_with(path));
    let (mut reached, mut left, mut links_left) = (from.to_owned(), Vec::new(), LINKS_MAX);
    push(&mut left, path);
    while let Some(step) = left.pop() {
        match step {
            PathStep::ToRoot => reached = PathBuf::from("/"),
            PathStep::Up => drop(reached.pop()),
            PathStep::Down(name) => {
                reached.push(name);
                has_entered |= is_in(&reached);
                if folders.contains(&reached) || is_above(&reached) {
                    continue;
                }
                if has_entered && !is_in(&reached) {
                    return Err(Astray::LeadsOut(lexically(reached, left)));
                }
                match rustix::fs::readlink(&reached, Vec::new()) {
                    Ok(target) => {
                        links_left = links_left.checked_sub(1).ok_or(Errno::LOOP).map_err(io)?;
                        reached.pop();
                        push(&mut left, Path::new(as_os_str(target.as_bytes())));
                    }
                    // It is no link.
                    Err(Errno::INVAL) => {}
                    Err(error) => return Err(io(error)),
                }
            }
        }
    }
    match is_in(&reached) {
        true => Ok(reached),
        false => Err(Astray::LeadsOut(reached)),
    }
}

fn io(error: Errno) -> Astray {
    Astray::Io(error.into())
}

fn as_os_str(bytes: &[u8]) -> &std::ffi::OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(bytes)
}

/// Puts the parts of a path before those that are left: the next is the last.
fn push(left: &mut Vec<PathStep>, path: &Path) {
    for part in path.components().rev() {
        left.push(match part {
            Component::RootDir => PathStep::ToRoot,
            Component::ParentDir => PathStep::Up,
            Component::Normal(name) => PathStep::Down(name.to_owned()),
            Component::CurDir | Component::Prefix(_) => continue,
        });
    }
}

/// Where the rest of a path leads if no part of it is a link.
fn lexically(mut reached: PathBuf, mut left: Vec<PathStep>) -> PathBuf {
    while let Some(step) = left.pop() {
        match step {
            PathStep::ToRoot => reached = PathBuf::from("/"),
            PathStep::Up => drop(reached.pop()),
            PathStep::Down(name) => reached.push(name),
        }
    }
    reached
}
