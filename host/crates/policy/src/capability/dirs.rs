//! Directories: what a need and a grant come to, and what no grant may reach.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Asks, Capability, Grant, GrantError, Grants, Kind, ToolNeeds, needs_for};
use toolhost_core::tool::Need;

struct Dirs;

impl Kind {
    /// Directories.
    pub const DIRS: Kind = Kind(&Dirs);
}

impl Capability for Dirs {
    fn key(&self) -> &'static str {
        "dirs"
    }

    fn flag(&self) -> &'static str {
        "dir"
    }

    fn value_name(&self) -> Option<&'static str> {
        Some("DIR[=GUEST]:ro|rw")
    }

    fn help(&self) -> &'static str {
        "A directory, read-only (`ro`) or read-write (`rw`). DIR may be relative; GUEST is where \
         the plugin sees it, by default at the same path, and the current directory also as `.`"
    }

    fn noun(&self) -> &'static str {
        "directory"
    }

    fn read(&self, text: &str, base: Option<&Path>) -> Result<Arc<dyn Grant>, GrantError> {
        Ok(Arc::new(DirGrant::parse(text, base)?))
    }

    fn is_same(&self, one: &dyn Grant, other: &dyn Grant) -> bool {
        // `/x/` is `/x`.
        let parts = |grant: &DirGrant| {
            (grant.host.clone(), Path::new(&grant.guest).to_owned(), grant.access)
        };
        let [one, other] = [one, other].map(|grant| grant.value().map(parts));
        one == other
    }

    fn meets(&self, asks: &Asks<'_>, (tool, _): ToolNeeds<'_>, grant: &dyn Grant) -> bool {
        grant.value().is_some_and(|grant| access(asks.needs, tool, grant).is_some())
    }

    fn lacking(&self, _: &Need, value: &Value, held: &Grants) -> Vec<String> {
        if held.has(Kind::DIRS) {
            return Vec::new();
        }
        let access = if value["access"] == "rw" { Access::Write } else { Access::Read };
        vec![match value["path"].as_str() {
            Some(path) if path != "*" => format!("DIR={path}:{access}"),
            _ => format!("DIR:{access}"),
        }]
    }

    fn need_words(&self, value: &Map<String, Value>) -> Option<(String, usize)> {
        let may = match value.get("access")?.as_str()? {
            "ro" => "to read",
            "rw" => "to read and change",
            _ => return None,
        };
        let words = match value.get("path")?.as_str()? {
            "*" => format!("{may} a directory of your choice"),
            path => format!("{may} a directory that it sees as `{path}`"),
        };
        Some((words, 2))
    }

    fn grant_words(&self, text: &str) -> String {
        text.to_owned()
    }

    fn imports(&self) -> &'static [(&'static str, &'static str)] {
        &[("wasi:filesystem/", "files")]
    }

    fn used_by(&self) -> Option<&'static str> {
        Some("wasi:filesystem/")
    }

    fn is_imported_by_itself(&self) -> bool {
        true
    }

    fn is_of_paths(&self) -> bool {
        true
    }

    fn can_be_exclusive(&self) -> bool {
        true
    }
}

/// Reading, or reading and changing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// `ro`
    Read,
    /// `rw`
    Write,
}

impl fmt::Display for Access {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Access::Read => "ro",
            Access::Write => "rw",
        })
    }
}

/// A directory that an operator lets a plugin use, with everything below it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirGrant {
    /// Where it is; absolute.
    pub host: PathBuf,
    /// Where the plugin sees it.
    pub guest: String,
    /// What the plugin may do there.
    pub access: Access,
}

impl DirGrant {
    /// Reads a grant. A relative host path is taken from `base`, if there is one.
    ///
    /// # Errors
    /// If the access is missing or unknown, a path is empty, the host path has `..`, or is
    /// relative without a base.
    pub fn parse(text: &str, base: Option<&Path>) -> Result<DirGrant, GrantError> {
        let error = |problem| {
            let shape = "DIR[=GUEST]:ro or DIR[=GUEST]:rw, such as /data:ro or /data=input:rw";
            GrantError::new(text, "directory", problem, shape)
        };
        let (paths, access) = text.rsplit_once(':').ok_or(error("it says neither ro nor rw"))?;
        let access = match access {
            "ro" => Access::Read,
            "rw" => Access::Write,
            _ => return Err(error("after the last `:` stands ro or rw")),
        };
        let (host, guest) = match paths.split_once('=') {
            Some((host, guest)) => (host, Some(guest)),
            None => (paths, None),
        };
        if host.is_empty() || guest == Some("") {
            return Err(error("a path is empty"));
        }
        let given = Path::new(host);
        if given.components().any(|part| part == Component::ParentDir) {
            return Err(error("the path has `..`"));
        }
        let host = match (given.is_absolute(), base) {
            (true, _) => given.to_owned(),
            // Without its `.` parts.
            (false, Some(base)) => base.join(given).components().collect(),
            (false, None) => return Err(error("the path is relative")),
        };
        // It is kept as a text, which must read back as the same directory.
        let as_text = host.to_str().ok_or(error("the path is not UTF-8"))?;
        if as_text.contains('=') {
            return Err(error("the path has a `=`, which separates DIR and GUEST"));
        }
        let guest = guest.map_or_else(|| as_text.to_owned(), str::to_owned);
        Ok(DirGrant { host, guest, access })
    }
}

impl fmt::Display for DirGrant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.host.to_string_lossy();
        if host == self.guest {
            write!(formatter, "{host}:{}", self.access)
        } else {
            write!(formatter, "{host}={}:{}", self.guest, self.access)
        }
    }
}

/// The value of a need of kind `dirs`.
#[derive(Debug, Deserialize)]
struct DirNeed {
    path: String,
    access: String,
}

/// What a grant comes to for one tool: the access that is both needed and granted, if any.
///
/// A need for the path `*` is met by any directory; one for another path by a directory that the
/// plugin sees there or below.
pub fn access(needs: &[Need], tool: &str, grant: &DirGrant) -> Option<Access> {
    let needed = needs_for::<DirNeed>(needs, Kind::DIRS.key(), tool);
    let met =
        needed.filter(|need| need.path == "*" || Path::new(&grant.guest).starts_with(&need.path));
    let needed =
        met.map(|need| if need.access == "rw" { Access::Write } else { Access::Read }).max();
    needed.map(|needed| needed.min(grant.access))
}

/// A place of the host's own: a folder, or a single file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnFolder {
    /// Where it is, without links.
    pub path: PathBuf,
    /// What is in it, for people.
    pub what: &'static str,
    /// Reading it is harmless: what runs plugins, and plugins themselves, everybody may read.
    pub readable: bool,
}

/// Folders of the system that show this process from outside, or are no files at all.
const SYSTEM: [(&str, &str); 3] = [
    ("/proc", "what the system knows of processes, toolhost among them"),
    ("/sys", "the system's devices and settings"),
    ("/dev", "devices"),
];
/// Where the system has its programs and its configuration, which is anybody's to read.
const PROGRAMS: [&str; 29] = [
    "/bin",
    "/boot",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/sbin",
    "/usr/bin",
    "/usr/include",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/libexec",
    "/usr/libx32",
    "/usr/sbin",
    "/usr/share",
    "/usr/local/bin",
    "/usr/local/etc",
    "/usr/local/lib",
    "/usr/local/lib64",
    "/usr/local/libexec",
    "/usr/local/sbin",
    "/run/systemd",
    "/var/lib/systemd",
    "/var/spool/at",
    "/var/spool/cron",
    "/private/etc",
    "/System",
];
/// Memory as files, which lies among the devices and is none.
const MEMORY: &str = "/dev/shm";

/// Why a directory overlaps with a folder that holds something.
fn holds(host: &Path, folder: &Path, what: &str) -> String {
    let (given, path) = (host.display(), folder.display());
    match (host == folder, host.starts_with(folder)) {
        (true, _) => format!("it holds {what}"),
        (false, true) => format!("{given} lies inside {path}, which holds {what}"),
        (false, false) => format!("{given} contains {path}, which holds {what}"),
    }
}

/// Says why a directory, named without links, may not be granted, and what to do instead.
pub fn refusal(host: &Path, access: Access, own: &[OwnFolder]) -> Option<String> {
    kept(host, access, own)
        .map(|kept| format!("{}; {}", holds(host, kept.path, kept.what), kept.repair))
}

/// Says why a directory may not be granted to somebody who knows of this directory alone, and not of
/// where else something lies.
pub fn refusal_within(host: &Path, access: Access, own: &[OwnFolder]) -> Option<String> {
    let RefusedDirectory { path, what, .. } = kept(host, access, own)?;
    Some(match path.strip_prefix(host) {
        Ok(below) if below != Path::new("") => {
            format!("`./{}` in it holds {what}", below.display())
        }
        Ok(_) => format!("it holds {what}"),
        Err(_) => format!("it lies in what holds {what}"),
    })
}

/// Why a directory may not be granted.
struct RefusedDirectory<'a> {
    /// What it overlaps with.
    path: &'a Path,
    /// What that holds.
    what: &'a str,
    repair: &'static str,
}

fn kept<'a>(host: &Path, access: Access, own: &'a [OwnFolder]) -> Option<RefusedDirectory<'a>> {
    let overlaps = |path: &Path| host.starts_with(path) || path.starts_with(host);
    let of_system = SYSTEM.iter().find(|(path, _)| overlaps(Path::new(path)));
    if let Some((path, what)) = of_system
        && !host.starts_with(MEMORY)
    {
        return Some(RefusedDirectory {
            path: Path::new(path),
            what,
            repair: "grant another directory",
        });
    }
    let of_programs = PROGRAMS.iter().find(|path| overlaps(Path::new(path)));
    if access == Access::Write
        && let Some(path) = of_programs
    {
        let what = "the system's programs or configuration";
        let repair = "grant another directory, or grant `ro`";
        return Some(RefusedDirectory { path: Path::new(path), what, repair });
    }
    let touched = own
        .iter()
        .find(|folder| overlaps(&folder.path) && (access == Access::Write || !folder.readable))?;
    let repair = match touched.readable {
        true => "grant a narrower directory, or grant `ro`",
        false => "grant a narrower directory",
    };
    Some(RefusedDirectory { path: &touched.path, what: touched.what, repair })
}

/// Every name of a directory, itself first; and those of the mounts within it. `mounts` is what
/// Linux says in `/proc/self/mountinfo`: where a folder is mounted a second time, a path says
/// nothing of what it leads to.
pub fn names(path: &Path, mounts: &str) -> Vec<PathBuf> {
    let mounts: Vec<Mount> = mounts.lines().filter_map(Mount::read).collect();
    // Of several mounts at one place, the last is seen.
    let seen_at = |path: &Path| {
        let above = mounts.iter().filter(|mount| path.starts_with(&mount.at));
        above.max_by_key(|mount| mount.at.components().count())
    };
    let mut names = vec![path.to_owned()];
    let here = seen_at(path).into_iter().map(|mount| (mount, path));
    let within = mounts.iter().filter(|mount| mount.at.starts_with(path) && mount.at != path);
    for (mount, path) in here.chain(within.map(|mount| (mount, mount.at.as_path()))) {
        let rest = path.strip_prefix(&mount.at).unwrap_or(Path::new(""));
        let inside = joined(&mount.root, rest);
        let same = mounts.iter().filter(|other| other.device == mount.device);
        for other in same {
            // Another mount shows what holds it, or a part of it.
            let name = match (inside.strip_prefix(&other.root), other.root.starts_with(&inside)) {
                (Ok(rest), _) => joined(&other.at, rest),
                (Err(_), true) => other.at.clone(),
                (Err(_), false) => continue,
            };
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

/// Joined with nothing, a path would end in a slash.
fn joined(path: &Path, rest: &Path) -> PathBuf {
    if rest == Path::new("") { path.to_owned() } else { path.join(rest) }
}

/// One line of `/proc/self/mountinfo`.
struct Mount<'a> {
    /// The file system, as its two numbers.
    device: &'a str,
    /// The folder of the file system that is mounted.
    root: PathBuf,
    /// Where it is mounted.
    at: PathBuf,
}

impl Mount<'_> {
    fn read(line: &str) -> Option<Mount<'_>> {
        let mut fields = line.split(' ').skip(2);
        let (device, root, at) = (fields.next()?, fields.next()?, fields.next()?);
        Some(Mount { device, root: unescaped(root), at: unescaped(at) })
    }
}

/// A path as it is, of one in which spaces and such stand as `\040`.
fn unescaped(text: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, more @ ..] = rest {
        let code = more.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = code.filter(|_| *first == b'\\');
        rest = match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                &more[3..]
            }
            None => {
                bytes.push(*first);
                more
            }
        };
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests;
