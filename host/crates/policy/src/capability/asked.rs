//! Which grants give nothing, since the plugin asks for nothing that they meet.

use super::{Access, DirGrant, Grants, access};
use toolhost_core::tool::Need;

/// A tool: its name, and the variables that it requires.
pub type ToolNeeds<'a> = (&'a str, &'a [String]);

/// What a plugin asks for.
#[derive(Clone, Copy, Debug)]
pub struct Asks<'a> {
    /// Its needs.
    pub needs: &'a [Need],
    /// Its tools.
    pub tools: &'a [ToolNeeds<'a>],
    /// It has hooks, whether it asks to hear of anything or not.
    pub has_hooks: bool,
}

/// Those of `grants` that no tool of a plugin asks for, and no hook, if it has some.
///
/// What is asked for widely, such as any directory or any host, is met by any grant of the kind; a
/// grant that is wider than what is asked for gives what is asked for.
pub fn unasked(asks: &Asks<'_>, grants: &Grants) -> Grants {
    // What hooks ask for names no tool.
    let all = || asks.tools.iter().copied().chain([("", [].as_slice())]);
    let mut unasked = grants.clone();
    unasked.retain_where(|kind, grant| !all().any(|tool| kind.meets(asks, tool, grant)));
    unasked
}

/// Those directories of `grants` that may be changed, and that the plugin only asks to read.
pub fn only_read(needs: &[Need], tools: &[ToolNeeds<'_>], grants: &Grants) -> Vec<DirGrant> {
    let names = || tools.iter().map(|(name, _)| *name).chain([""]);
    let asked = |grant: &DirGrant| names().filter_map(|tool| access(needs, tool, grant)).max();
    let is_one =
        |grant: &&DirGrant| grant.access == Access::Write && asked(grant) == Some(Access::Read);
    grants.of::<DirGrant>().filter(is_one).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::Kind;

    #[test]
    fn a_grant_meets_what_is_asked_for() {
        let need = |kind: &str, value: &str, tools: &[&str]| Need {
            kind: kind.to_owned(),
            value: value.to_owned(),
            tools: tools.iter().map(|&tool| tool.to_owned()).collect(),
            reason: String::new(),
        };
        let check = |needs: &[Need], flag: &str, is_asked: bool| {
            let (kind, text) = flag.split_once(' ').unwrap_or((flag, ""));
            let kind = Kind::all().find(|known| known.flag() == kind).expect(flag);
            let mut grants = Grants::default();
            grants.add(kind, text, None).expect(flag);
            let requires = ["REQUIRED".to_owned()];
            let tools = [("t", requires.as_slice()), ("u", &[])];
            let asks = |has_hooks| Asks { needs, tools: &tools, has_hooks };
            let found = unasked(&asks(true), &grants);
            assert_eq!(found.is_empty(), is_asked, "{flag} of {needs:?}");
            let without_hooks = unasked(&asks(false), &grants);
            assert_eq!(without_hooks.is_empty(), is_asked && kind != Kind::HOOKS, "{flag}");
        };
        for (kind, value, asked, not_asked) in [
            ("kv", "{}", &["kv"][..], &["env A", "dir /a:ro", "http a"][..]),
            ("env", r#"{"names": ["A"]}"#, &["env A", "env REQUIRED"], &["env B", "kv"]),
            ("dirs", r#"{"path": "*", "access": "ro"}"#, &["dir /a:ro", "dir /a=b:rw"], &["kv"]),
            (
                "dirs",
                r#"{"path": "/in", "access": "ro"}"#,
                &["dir /a=/in:ro", "dir /a=/in/b:ro"],
                &["dir /a:ro", "dir /a=/inn:ro"],
            ),
            (
                "http",
                r#"{"hosts": ["GET https://*.a.example/v1"]}"#,
                &[
                    "http *",
                    "http b.a.example",
                    "http *.a.example",
                    "http *.b.a.example",
                    "http *.example",
                    "http GET,POST https://b.a.example/v1/x private",
                    "http https://b.a.example:*",
                ],
                &[
                    "http a.example",
                    "http http://b.a.example",
                    "http POST https://b.a.example",
                    "http https://b.a.example/v2",
                    "http https://b.a.example:8443",
                    "http *.b.example",
                ],
            ),
            ("http", r#"{"hosts": ["*"]}"#, &["http a", "http *.a.b", "http 127.0.0.1"], &["kv"]),
            (
                "secrets",
                r#"{"name": "K", "hosts": ["*.a.example"], "header": "x-key"}"#,
                &["secret K@b.a.example:header=x-key", "secret K@*.a.example:*:header=x-key"],
                &[
                    "secret L@b.a.example:header=x-key",
                    "secret K@b.a.example:header=y-key",
                    "secret K@b.a.example:query=x-key",
                    "secret K@a.example:header=x-key",
                ],
            ),
            (
                "hooks",
                r#"{"events": ["pre-call"], "tools": ["web_*", "x"]}"#,
                &[
                    "hook pre-call:*",
                    "hook pre-call:web_search",
                    "hook pre-call:w*",
                    "hook pre-call:x",
                ],
                &["hook transform:*", "hook pre-call:y", "hook pre-call:file_*"],
            ),
        ] {
            for flag in asked {
                check(&[need(kind, value, &[])], flag, true);
                // A need of no tool that there is, is none.
                if *flag != "env REQUIRED" {
                    check(&[need(kind, value, &["gone"])], flag, false);
                }
                if kind != "hooks" {
                    check(&[need("teleport", "{}", &[]), need(kind, value, &["u"])], flag, true);
                }
            }
            for flag in not_asked {
                check(&[need(kind, value, &[])], flag, false);
            }
        }
        check(&[], "env REQUIRED", true);
        check(&[], "kv", false);
        check(&[need("http", "nonsense", &[])], "http a", false);
    }
}
