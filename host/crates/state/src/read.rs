//! Files that strangers may have put there, read in one way: opened beneath their project, without
//! waiting, regular, and no further than a bound, whatever the system says of their length.
//!
//! Where links lead is found out first, without a look at what lies outside of the project; the file is then opened without following any, so that
//! nobody can exchange one in between. What is wrong with a file is said with its name and without
//! its content. What this module does not do: know what a file means.

mod follow;

use std::fmt;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use thiserror::Error;

use toolhost_core::text;
use toolhost_core::tool::Reason;

pub use follow::{Astray, within};

/// The folder of a project in which its plugins lie.
pub const PLUGINS: &str = "plugins";
/// What the folder of a project has: the file that says what plugins may, or what a repository is known by
/// (Fossil has one of two files there).
const MARKS: [&str; 11] = [
    "toolhost.toml",
    ".git",
    ".hg",
    ".jj",
    ".svn",
    ".bzr",
    "_darcs",
    ".pijul",
    "CVS",
    ".fslckout",
    "_FOSSIL_",
];
/// Systems of files whose files are no files, by the number that the kernel has for each.
#[cfg(target_os = "linux")]
const NOT_ON_DISK: [u32; 10] = [
    0x9fa0,      // proc
    0x6265_6572, // sysfs
    0x6462_6720, // debugfs
    0x7472_6163, // tracefs
    0x7363_6673, // securityfs
    0x6367_7270, // cgroup2
    0x0027_e0eb, // cgroup
    0x6265_6570, // configfs
    0xcafe_4a11, // bpf
    0xde5e_81e4, // efivarfs
];

/// From where files are read, and how far links may lead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadScope {
    /// A stranger's project: nothing leads out of this folder, whose path has no links.
    Project(PathBuf),
    /// A folder of the user's own: links lead to files of the user, or of the system.
    Own,
}

/// Why a file is not read. It has the file's name, and nothing of what stands in it.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{name} {problem}")]
pub struct ReadError {
    /// The file.
    pub name: String,
    /// What is wrong with it.
    pub problem: FileProblem,
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileProblem {
    /// It is not there.
    Absent(String),
    /// It cannot be opened or read.
    Unreadable(String),
    /// A link leads out of its project.
    LeadsOut,
    /// It belongs to somebody else.
    Foreign,
    /// It is a directory, a pipe, a socket, a device, or made by the system.
    NotRegular(&'static str),
    /// It is too large.
    TooLarge {
        /// Bytes that it says to have.
        given: u64,
        /// Bytes allowed.
        allowed: u64,
    },
    /// It is no text.
    NotText,
}

impl FileProblem {
    /// Why, and what to do.
    pub fn reason(&self) -> Reason {
        let (problem, repair) = match self {
            FileProblem::Absent(given) => (format!("cannot be read: {given}"), None),
            FileProblem::Unreadable(given) => (format!("cannot be read: {given}"), None),
            FileProblem::LeadsOut => (
                "leads out of its project by a link, so it is not read".to_owned(),
                Some("put the file itself there, or remove the link".to_owned()),
            ),
            FileProblem::Foreign => (
                "belongs to another user of this machine, so it is not read".to_owned(),
                Some("copy it, or remove the link".to_owned()),
            ),
            FileProblem::NotRegular(given) => {
                (format!("is {given}, not a regular file"), Some("remove it".to_owned()))
            }
            FileProblem::TooLarge { allowed, .. } => {
                (format!("has more than the {allowed} bytes that are allowed"), None)
            }
            FileProblem::NotText => {
                ("is not UTF-8 text".to_owned(), Some("save it as UTF-8".to_owned()))
            }
        };
        Reason { problem, repair }
    }
}

impl fmt::Display for FileProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason().fmt(formatter)
    }
}

impl std::error::Error for FileProblem {}

/// A regular file that is open.
#[derive(Debug)]
pub struct Opened {
    file: File,
    before: Metadata,
}

impl ReadScope {
    /// The project of a folder of plugins: the folder that `plugins`, or a link, lies in; or else the
    /// folder itself, also where it is called so and has what a project has: that of a repository, or a
    /// toolhost.toml.
    ///
    /// # Errors
    /// If it cannot be found.
    pub fn of_plugins(folder: &Path) -> io::Result<ReadScope> {
        // Without the slash at the end, with which a link is the folder it leads to.
        let folder: PathBuf = std::path::absolute(folder)?.components().collect();
        let is_link = fs::symlink_metadata(&folder).is_ok_and(|found| found.is_symlink());
        let project = match (folder.file_name(), folder.parent()) {
            // A link is of the project that it lies in.
            (Some(_), Some(above)) if is_link && above.file_name() != Some(PLUGINS.as_ref()) => {
                above
            }
            (Some(_), Some(above)) if is_link => return ReadScope::of_plugins(above),
            (Some(name), Some(above)) if name == PLUGINS && !is_project(&folder) => above,
            _ => &folder,
        };
        Ok(ReadScope::Project(fs::canonicalize(project)?))
    }

    /// The project out of which a link in the middle of a path leads that somebody typed, if there is
    /// one. Below the working directory a path is always of a project; what lies in none, or in one of
    /// these folders, is of whoever typed it.
    ///
    /// # Errors
    /// If the working directory cannot be found.
    pub fn of_links(own: &[PathBuf], path: &Path) -> io::Result<Option<ReadScope>> {
        let here = fs::canonicalize(".")?;
        let Some(folder) = path.parent() else { return Ok(None) };
        let mut above = if folder.is_absolute() { PathBuf::from("/") } else { here.clone() };
        for part in folder.components() {
            let next = match part {
                Component::Normal(name) => above.join(name),
                Component::ParentDir => {
                    above.pop();
                    continue;
                }
                _ => continue,
            };
            match fs::symlink_metadata(&next) {
                Ok(found) if found.is_symlink() => {}
                Ok(_) => {
                    above = next;
                    continue;
                }
                Err(_) => break,
            }
            let is_own = own.iter().any(|own| above.starts_with(own));
            let here = above.starts_with(&here).then_some(here.as_path());
            let project = project_of(&above).or(here).filter(|_| !is_own);
            let scope =
                project.map_or(ReadScope::Own, |found| ReadScope::Project(found.to_owned()));
            above = match scope.find(&next) {
                Ok(real) => real,
                Err(_) if scope == ReadScope::Own => break,
                Err(_) => return Ok(Some(scope)),
            };
        }
        Ok(None)
    }

    /// The project that a folder lies in, or else the folder itself: of the files right in it. Its path has
    /// no links.
    pub fn of_folder(folder: &Path) -> ReadScope {
        ReadScope::Project(project_of(folder).unwrap_or(folder).to_owned())
    }

    /// The folder that something really lies in: for what was read before, and is known by its
    /// digest.
    ///
    /// # Errors
    /// If it cannot be found.
    pub fn beside(path: &Path) -> io::Result<ReadScope> {
        let real = fs::canonicalize(path)?;
        Ok(ReadScope::Project(real.parent().unwrap_or(Path::new("/")).to_owned()))
    }

    /// Where a path really leads, if nothing is in the way of that.
    ///
    /// # Errors
    /// If it leads out of the project, or nowhere.
    pub fn real(&self, path: &Path) -> Result<PathBuf, ReadError> {
        self.find(path).map_err(|problem| named(path, problem))
    }

    /// Where a path leads that leads out of the project, as far as can be told without a look at what
    /// lies there.
    pub fn outside(&self, path: &Path) -> Option<PathBuf> {
        let ReadScope::Project(project) = self else { return None };
        match follow::typed(project, path) {
            Err(Astray::LeadsOut(target)) => Some(target),
            _ => None,
        }
    }

    fn find(&self, path: &Path) -> Result<PathBuf, FileProblem> {
        match self {
            ReadScope::Own => fs::canonicalize(path).map_err(|error| problem(&error)),
            ReadScope::Project(project) => {
                follow::typed(project, path).map_err(|astray| match astray {
                    Astray::LeadsOut(_) => FileProblem::LeadsOut,
                    Astray::Io(error) => problem(&error),
                })
            }
        }
    }

    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// If it is none, or lies elsewhere than the place allows.
    pub fn open(&self, path: &Path) -> Result<Opened, ReadError> {
        let opened = self.find(path).and_then(|real| self.open_real(&real));
        opened.map_err(|problem| named(path, problem))
    }

    fn open_real(&self, real: &Path) -> Result<Opened, FileProblem> {
        let root = match self {
            ReadScope::Project(project) => project,
            ReadScope::Own => Path::new("/"),
        };
        let below = real.strip_prefix(root).map_err(|_| FileProblem::LeadsOut)?;
        let below = if below == Path::new("") { Path::new(".") } else { below };
        let file = beneath(root, below).map_err(|error| match error {
            // It has become a link since it was looked at.
            error if is(&error, Errno::LOOP) || is(&error, Errno::XDEV) => FileProblem::LeadsOut,
            // As opening a socket fails.
            _ if fs::symlink_metadata(real).is_ok_and(|found| found.file_type().is_socket()) => {
                FileProblem::NotRegular("a socket")
            }
            error => problem(&error),
        })?;
        let before = file.metadata().map_err(|error| problem(&error))?;
        let kind = before.file_type();
        if !kind.is_file() {
            return Err(FileProblem::NotRegular(match kind {
                _ if kind.is_dir() => "a directory",
                _ if kind.is_fifo() => "a named pipe",
                _ if kind.is_socket() => "a socket",
                _ => "a device",
            }));
        }
        if is_made_by_the_system(&file) {
            return Err(FileProblem::NotRegular("made by the system as it is read"));
        }
        let users = [rustix::process::geteuid().as_raw(), 0];
        if *self == ReadScope::Own && !users.contains(&before.uid()) {
            return Err(FileProblem::Foreign);
        }
        Ok(Opened { file, before })
    }

    /// Reads a regular file of at most `bytes_max` bytes.
    ///
    /// # Errors
    /// As [`ReadScope::open`]; or if it is larger or cannot be read.
    pub fn bytes(&self, path: &Path, bytes_max: u64) -> Result<Vec<u8>, ReadError> {
        let read = self.open(path)?.bytes(bytes_max);
        read.map_err(|problem| named(path, problem))
    }

    /// Reads a text file of at most `bytes_max` bytes.
    ///
    /// # Errors
    /// As [`ReadScope::bytes`]; or if it is no text.
    pub fn text(&self, path: &Path, bytes_max: u64) -> Result<String, ReadError> {
        let bytes = self.bytes(path, bytes_max)?;
        String::from_utf8(bytes).map_err(|_| named(path, FileProblem::NotText))
    }
}

impl Opened {
    /// Reads it whole.
    ///
    /// # Errors
    /// If it has more than `bytes_max` bytes, or cannot be read.
    pub fn bytes(&self, bytes_max: u64) -> Result<Vec<u8>, FileProblem> {
        let too_large = |given| FileProblem::TooLarge { given, allowed: bytes_max };
        if self.before.len() > bytes_max {
            return Err(too_large(self.before.len()));
        }
        let expected = usize::try_from(self.before.len()).unwrap_or_default();
        let mut bytes = Vec::with_capacity(expected);
        let mut part = (&self.file).take(bytes_max.saturating_add(1));
        part.read_to_end(&mut bytes).map_err(|error| problem(&error))?;
        match bytes.len() as u64 {
            given if given > bytes_max => Err(too_large(given)),
            _ => Ok(bytes),
        }
    }

    /// What can be read of it, up to so many bytes.
    pub fn part(&self, bytes_max: u64) -> impl Read {
        (&self.file).take(bytes_max)
    }

    /// Tells whether it stayed the same since it was opened, and is still what lies at `path`, when
    /// so many bytes were read of it.
    pub fn stayed(&self, path: &Path, bytes_read: usize) -> bool {
        let stamp = |metadata: &Metadata| {
            let time = (metadata.mtime(), metadata.mtime_nsec());
            (metadata.dev(), metadata.ino(), metadata.len(), time)
        };
        let before = stamp(&self.before);
        let is_same = |found: io::Result<Metadata>| found.is_ok_and(|now| stamp(&now) == before);
        is_same(self.file.metadata())
            && is_same(fs::metadata(path))
            && self.before.len() == bytes_read as u64
    }
}

/// The project that a folder lies in, by what lies in that, or as its plugins do.
fn project_of(folder: &Path) -> Option<&Path> {
    folder.ancestors().find_map(|above| match above.file_name() {
        _ if is_project(above) => Some(above),
        Some(name) if name == PLUGINS => above.parent(),
        _ => None,
    })
}

/// Tells whether a project begins at a folder, by what lies in it.
pub fn is_project(folder: &Path) -> bool {
    MARKS.iter().any(|name| fs::symlink_metadata(folder.join(name)).is_ok())
}

fn named(path: &Path, problem: FileProblem) -> ReadError {
    ReadError { name: text::one_line(&path.display().to_string()), problem }
}

fn problem(error: &io::Error) -> FileProblem {
    match error.kind() {
        io::ErrorKind::NotFound => FileProblem::Absent(error.to_string()),
        _ => FileProblem::Unreadable(error.to_string()),
    }
}

fn is(error: &io::Error, kind: Errno) -> bool {
    error.raw_os_error() == Some(kind.raw_os_error())
}

/// Without waiting for a writer, or making a terminal this program's own.
const FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOCTTY)
    .union(OFlags::NOFOLLOW);

/// A folder that something is opened below. It need not be one that can be listed.
#[cfg(target_os = "linux")]
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Opens what lies below a folder, without any link on the way.
fn beneath(root: &Path, below: &Path) -> io::Result<File> {
    let root = rustix::fs::open(root, FOLDER, Mode::empty())?;
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::ResolveFlags;
        let resolve = ResolveFlags::BENEATH
            .union(ResolveFlags::NO_SYMLINKS)
            .union(ResolveFlags::NO_MAGICLINKS);
        match rustix::fs::openat2(&root, below, FLAGS, Mode::empty(), resolve) {
            Ok(file) => return Ok(File::from(file)),
            // An older kernel, or one that does not let this program, or something moved.
            Err(Errno::NOSYS | Errno::PERM | Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
    }
    step_by_step(root, below)
}

/// The same with one call for each folder on the way.
fn step_by_step(root: OwnedFd, below: &Path) -> io::Result<File> {
    let mut reached = root;
    let mut parts = below.components().peekable();
    while let Some(part) = parts.next() {
        let name = match part {
            Component::Normal(name) => name,
            Component::CurDir => ".".as_ref(),
            _ => return Err(Errno::XDEV.into()),
        };
        let flags = match parts.peek() {
            Some(_) => FOLDER.union(OFlags::NOFOLLOW),
            None => FLAGS,
        };
        reached = rustix::fs::openat(reached.as_fd(), name, flags, Mode::empty())?;
    }
    Ok(File::from(reached))
}

#[cfg(target_os = "linux")]
fn is_made_by_the_system(file: &File) -> bool {
    let kind = rustix::fs::fstatfs(file).map(|of| u32::try_from(of.f_type));
    kind.is_ok_and(|kind| kind.is_ok_and(|kind| NOT_ON_DISK.contains(&kind)))
}

#[cfg(not(target_os = "linux"))]
fn is_made_by_the_system(_: &File) -> bool {
    false
}

#[cfg(test)]
mod tests;
