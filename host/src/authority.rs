//! What a plugin may do: what it needs *and* was granted. Pure; nothing is opened here.
//!
//! A grant of a directory is written `HOST[=GUEST]:ro|rw`, in `toolhost.toml` and on the command
//! line alike; a variable by its name; a hook `EVENT:TOOL`. No grant reaches the host's own state, so that no tool can widen what it may do.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;
use thiserror::Error;

use crate::tool::{HookEvent, Need};

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

/// An event of calls of certain tools that an operator lets a plugin hear of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HookGrant {
    /// The event.
    pub event: HookEvent,
    /// A tool's name, or the beginning of names followed by `*`.
    pub tools: String,
}

/// Everything an operator grants to one plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    /// Directories.
    pub dirs: Vec<DirGrant>,
    /// Names of environment variables.
    pub env: Vec<String>,
    /// Hooks.
    pub hooks: Vec<HookGrant>,
}

/// Values of environment variables, by name. Shown without the values.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Variables(pub BTreeMap<String, String>);

/// Why a text is no grant.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("`{given}` is no {kind} grant: {problem}; write {shape}")]
pub struct GrantError {
    given: String,
    kind: &'static str,
    problem: &'static str,
    shape: &'static str,
}

fn dir_error(given: &str, problem: &'static str) -> GrantError {
    GrantError {
        given: crate::text::cut(given, 200),
        kind: "directory",
        problem,
        shape: "HOST[=GUEST]:ro or HOST[=GUEST]:rw, such as /data:ro or /data=input:rw",
    }
}

impl Grants {
    /// Tells whether nothing is granted.
    pub fn is_empty(&self) -> bool {
        self.dirs.is_empty() && self.env.is_empty() && self.hooks.is_empty()
    }

    /// How many things are granted.
    pub fn count(&self) -> usize {
        self.dirs.len() + self.env.len() + self.hooks.len()
    }

    /// Each grant as flags of `toolhost grant`.
    pub fn flags(&self) -> Vec<String> {
        let dirs = self.dirs.iter().map(|dir| format!("--dir {dir}"));
        let env = self.env.iter().map(|name| format!("--env {name}"));
        let hooks = self.hooks.iter().map(|hook| format!("--hook {hook}"));
        dirs.chain(env).chain(hooks).collect()
    }

    /// Keeps only what `other` grants as well, and tells whether `other` grants more.
    pub fn narrow(&mut self, other: &Grants) -> bool {
        fn narrow<T: PartialEq>(ours: &mut Vec<T>, theirs: &[T]) -> bool {
            let more = theirs.iter().any(|grant| !ours.contains(grant));
            ours.retain(|grant| theirs.contains(grant));
            more
        }
        let dirs = narrow(&mut self.dirs, &other.dirs);
        let env = narrow(&mut self.env, &other.env);
        narrow(&mut self.hooks, &other.hooks) || dirs || env
    }
}

impl fmt::Debug for Variables {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.0.keys()).finish()
    }
}

impl HookGrant {
    /// Reads a grant written `EVENT:TOOL`.
    ///
    /// # Errors
    /// If the event is unknown, or the tool is no name and no beginning of one.
    pub fn parse(text: &str) -> Result<HookGrant, GrantError> {
        let error = |problem| GrantError {
            given: crate::text::cut(text, 200),
            kind: "hook",
            problem,
            shape: "EVENT:TOOL, such as pre-call:* or transform:web_*; events are request, pre-call, post-call, transform",
        };
        let (event, tools) = text.split_once(':').ok_or(error("it has no `:`"))?;
        let event = event.parse().map_err(|()| error("there is no such event"))?;
        let name = tools.strip_suffix('*').unwrap_or(tools);
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if tools.is_empty() || !name.bytes().all(allowed) {
            return Err(error(
                "after the `:` stands a tool's name, or the beginning of one and `*`",
            ));
        }
        Ok(HookGrant { event, tools: tools.to_owned() })
    }
}

impl fmt::Display for HookGrant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.event, self.tools)
    }
}

/// Checks the name of an environment variable.
///
/// # Errors
/// If it is empty, too long, or has other characters than `A-Z a-z 0-9 _`.
pub fn check_variable(name: &str) -> Result<(), GrantError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if (1..=128).contains(&name.len()) && name.bytes().all(allowed) {
        return Ok(());
    }
    Err(GrantError {
        given: crate::text::one_line(&crate::text::cut(name, 200)),
        kind: "variable",
        problem: "that is no name of an environment variable",
        shape: "a name of A-Z a-z 0-9 _, such as WEATHER_TOKEN",
    })
}

impl DirGrant {
    /// Reads a grant. A relative host path is taken from `base`, if there is one.
    ///
    /// # Errors
    /// If the access is missing or unknown, a path is empty, the host path has `..`, or is
    /// relative without a base.
    pub fn parse(text: &str, base: Option<&Path>) -> Result<DirGrant, GrantError> {
        let error = |problem| dir_error(text, problem);
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
        let guest = guest.map_or_else(|| host.to_string_lossy().into_owned(), str::to_owned);
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
    let needed = needs_for::<DirNeed>(needs, "dirs", tool);
    let met =
        needed.filter(|need| need.path == "*" || Path::new(&grant.guest).starts_with(&need.path));
    let needed =
        met.map(|need| if need.access == "rw" { Access::Write } else { Access::Read }).max();
    needed.map(|needed| needed.min(grant.access))
}

/// The value of a need of kind `env`.
#[derive(Debug, Deserialize)]
struct EnvNeed {
    names: Vec<String>,
}

/// The value of a need of kind `hooks`.
#[derive(Debug, Deserialize)]
struct HooksNeed {
    events: Vec<String>,
    tools: Vec<String>,
}

/// Tells whether `pattern`, a name or the beginning of names followed by `*`, fits `name`.
pub fn fits(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => pattern == name,
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

/// The variables that a tool both asks for and was granted, sorted. What it requires, it asks
/// for.
pub fn variables(
    needs: &[Need],
    requires_env: &[String],
    tool: &str,
    granted: &[String],
) -> Vec<String> {
    let asked = needs_for::<EnvNeed>(needs, "env", tool).flat_map(|need| need.names);
    let mut names: Vec<String> =
        asked.chain(requires_env.iter().cloned()).filter(|name| granted.contains(name)).collect();
    names.sort();
    names.dedup();
    names
}

/// Tells whether a plugin both asked for and was granted to hear of an event of a tool.
pub fn hears(needs: &[Need], granted: &[HookGrant], event: HookEvent, tool: &str) -> bool {
    let asks = |need: HooksNeed| {
        need.events.iter().any(|name| name == event.as_str())
            && need.tools.iter().any(|pattern| fits(pattern, tool))
    };
    granted.iter().any(|grant| grant.event == event && fits(&grant.tools, tool))
        && needs_for::<HooksNeed>(needs, "hooks", "").any(asks)
}

/// Tells whether `needs` ask for anything of a kind.
pub fn asks_for(needs: &[Need], kind: &str) -> bool {
    needs.iter().any(|need| need.kind == kind)
}

/// A folder of the host's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnFolder {
    /// Where it is, without links.
    pub path: PathBuf,
    /// What is in it, for people.
    pub what: &'static str,
    /// Reading it is harmless: plugins folders hold what everybody may read.
    pub readable: bool,
}

/// Says why a directory, named without links, may not be granted.
pub fn refusal(host: &Path, access: Access, own: &[OwnFolder]) -> Option<String> {
    let touched = own.iter().find(|folder| {
        let overlaps = host.starts_with(&folder.path) || folder.path.starts_with(host);
        overlaps && (access == Access::Write || !folder.readable)
    })?;
    let (given, path, what) = (host.display(), touched.path.display(), touched.what);
    let relation = if host.starts_with(&touched.path) { "lies inside" } else { "contains" };
    let narrower = if touched.readable { ", or grant `ro`" } else { "" };
    Some(format!(
        "{given} {relation} {path}, which holds {what}; grant a narrower directory{narrower}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(text: &str) -> DirGrant {
        DirGrant::parse(text, Some(Path::new("/project"))).expect(text)
    }

    #[test]
    fn grants_are_read_and_written() {
        for (text, written) in [
            ("/data:ro", "/data:ro"),
            ("/data=/in:rw", "/data=/in:rw"),
            (".:ro", "/project:ro"),
            ("./a/b=b:ro", "/project/a/b=b:ro"),
        ] {
            assert_eq!(grant(text).to_string(), written);
            assert_eq!(grant(written), grant(text));
        }
        for bad in ["/data", "/data:rx", ":ro", "/data=:ro", "../x:ro", ""] {
            assert!(DirGrant::parse(bad, Some(Path::new("/project"))).is_err(), "{bad}");
        }
        assert!(DirGrant::parse("data:ro", None).is_err());
    }

    #[test]
    fn authority_is_need_and_grant() {
        let need = |path: &str, access: &str, tools: &[&str]| Need {
            kind: "dirs".to_owned(),
            value: format!(r#"{{"path": "{path}", "access": "{access}"}}"#),
            tools: tools.iter().map(|&tool| tool.to_owned()).collect(),
            reason: String::new(),
        };
        let check = |needs: &[Need], tool: &str, text: &str, expected: Option<Access>| {
            assert_eq!(access(needs, tool, &grant(text)), expected, "{text}");
        };
        let any = [need("*", "ro", &["read"])];
        check(&any, "read", "/data:ro", Some(Access::Read));
        check(&any, "read", "/data:rw", Some(Access::Read));
        check(&any, "write", "/data:rw", None);
        let both = [need("*", "ro", &[]), need("/out", "rw", &[])];
        check(&both, "t", "/data=/out:rw", Some(Access::Write));
        check(&both, "t", "/data=/out/x:rw", Some(Access::Write));
        check(&both, "t", "/data=/outer:rw", Some(Access::Read));
        check(&[], "t", "/data:ro", None);
        let nonsense = Need { value: "{".to_owned(), ..need("*", "ro", &[]) };
        check(&[nonsense], "t", "/data:ro", None);
    }

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
        assert_eq!(variables(&needs, &names(&["C"]), "t", &granted), ["B", "C"]);
        assert_eq!(variables(&needs, &[], "u", &granted), [""; 0]);
        let hears = |grant: &str, event, tool: &str| {
            self::hears(&needs, &[HookGrant::parse(grant).expect(grant)], event, tool)
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

    #[test]
    fn the_hosts_own_folders_are_refused() {
        let own = [
            OwnFolder { path: "/home/u/.state".into(), what: "state", readable: false },
            OwnFolder { path: "/project/plugins".into(), what: "plugins", readable: true },
        ];
        let refused = |path: &str, access| refusal(Path::new(path), access, &own).is_some();
        assert!(refused("/home/u/.state", Access::Read));
        assert!(refused("/home/u/.state/x", Access::Read));
        assert!(refused("/home/u", Access::Read));
        assert!(refused("/", Access::Read));
        assert!(!refused("/home/u/.stately", Access::Write));
        assert!(!refused("/project", Access::Read));
        assert!(refused("/project", Access::Write));
        assert!(refused("/project/plugins/x", Access::Write));
        assert!(!refused("/project/src", Access::Write));
    }
}
