//! Directories of grants, held by handle: a path that is renamed or swapped afterwards changes
//! nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use wasmtime_wasi::{FsPerms, WasiCtxBuilder};

use crate::authority::{self, Access, DirGrant, OwnFolder};

/// An open directory and what may be done there.
#[derive(Clone, Debug)]
pub(super) struct Directory {
    handle: Arc<Dir>,
    pub(super) grant: DirGrant,
    /// It is the working directory, which guests see as `.` too.
    is_working: bool,
}

/// What bounds the directories that can be granted.
#[derive(Clone, Debug, Default)]
pub struct DirectoryRules {
    /// The host's own folders, which no grant may touch.
    pub own: Vec<OwnFolder>,
    /// The directory that guests see as `.` too, if it is granted.
    pub working: Option<PathBuf>,
}

impl Directory {
    /// Opens the directory of a grant, unless it touches a folder of the host's own.
    pub(super) fn open(grant: &DirGrant, rules: &DirectoryRules) -> Result<Directory, String> {
        let shown = grant.host.display();
        let failed = |error: std::io::Error| format!("{shown} cannot be granted: {error}");
        let handle = Dir::open_ambient_dir(&grant.host, ambient_authority()).map_err(failed)?;
        // Of the handle, not of the path, which may lead elsewhere by now.
        let path = std::fs::canonicalize(handle_path(&handle, &grant.host)).map_err(failed)?;
        if let Some(reason) = authority::refusal(&path, grant.access, &rules.own) {
            return Err(format!("{shown} cannot be granted: {reason}"));
        }
        let is_working = rules.working.as_ref() == Some(&path);
        Ok(Directory { handle: Arc::new(handle), grant: grant.clone(), is_working })
    }

    /// Tells whether a guest sees it at this path.
    pub(super) fn is_at(&self, path: &str) -> bool {
        self.grant.guest == path || self.is_working && path == "."
    }

    /// Lets a guest see the directory.
    pub(super) fn preopen(
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
        if self.is_working && self.grant.guest != "." {
            builder.preopened_dir(&path, ".", permissions)?;
        }
        Ok(())
    }
}

/// Checks that the directory of a grant is there, and touches no folder of the host's own.
///
/// # Errors
/// With the reason, and the repair where there is one.
pub fn check(grant: &DirGrant, rules: &DirectoryRules) -> Result<(), String> {
    Directory::open(grant, rules).map(|_| ())
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
