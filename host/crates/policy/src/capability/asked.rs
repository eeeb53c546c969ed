//! Which grants give nothing, since the plugin asks for nothing that they meet.

use super::http::HostPattern;
use super::{
    Access, DirGrant, Grants, HookGrant, Kind, access, hooks, http, needs_for, secrets, variables,
};
use toolhost_core::tool::Need;

/// A tool: its name, and the variables that it requires.
pub type ToolNeeds<'a> = (&'a str, &'a [String]);

/// Those of `grants` that no tool of a plugin asks for, and no hook, if it `has_hooks`.
///
/// What is asked for widely, such as any directory or any host, is met by any grant of the kind; a
/// grant that is wider than what is asked for gives what is asked for.
pub fn unasked(
    needs: &[Need],
    tools: &[ToolNeeds<'_>],
    has_hooks: bool,
    grants: &Grants,
) -> Grants {
    // What hooks ask for names no tool.
    let all = || tools.iter().copied().chain([("", [].as_slice())]);
    let asks = |asks: &dyn Fn(ToolNeeds<'_>) -> bool| all().any(asks);
    let mut unasked = grants.clone();
    unasked.dirs.retain(|grant| !asks(&|(tool, _)| access(needs, tool, grant).is_some()));
    unasked.http.retain(|grant| !asks(&|(tool, _)| http::asks(needs, tool, grant)));
    unasked.env.retain(|name| {
        !asks(&|(tool, requires)| {
            !variables(needs, requires, tool, |asked| asked == name).is_empty()
        })
    });
    unasked.secrets.retain(|grant| !asks(&|(tool, _)| secrets::asks(needs, tool, grant)));
    let asks_for_kv = |tool: &str| {
        needs_for::<serde::de::IgnoredAny>(needs, Kind::Kv.key(), tool).next().is_some()
    };
    unasked.kv &= !asks(&|(tool, _)| asks_for_kv(tool));
    let hears = |grant: &HookGrant| has_hooks && hooks::asks(needs, grant);
    unasked.hooks.retain(|grant| !hears(grant));
    unasked
}

/// Those directories of `grants` that may be changed, and that the plugin only asks to read.
pub fn only_read(needs: &[Need], tools: &[ToolNeeds<'_>], grants: &Grants) -> Vec<DirGrant> {
    let names = || tools.iter().map(|(name, _)| *name).chain([""]);
    let asked = |grant: &DirGrant| names().filter_map(|tool| access(needs, tool, grant)).max();
    let is_one =
        |grant: &&DirGrant| grant.access == Access::Write && asked(grant) == Some(Access::Read);
    grants.dirs.iter().filter(is_one).cloned().collect()
}

impl HostPattern {
    /// Tells whether there is a host that both cover.
    pub(super) fn meets(&self, other: &HostPattern) -> bool {
        let is_below = |name: &str, above: &str| {
            name.strip_suffix(above).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        match (self, other) {
            (HostPattern::Any, _) | (_, HostPattern::Any) => true,
            (pattern, HostPattern::Exactly(host)) | (HostPattern::Exactly(host), pattern) => {
                pattern.covers(host)
            }
            (HostPattern::Below(one), HostPattern::Below(other)) => {
                is_below(one, other) || is_below(other, one)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let kind = Kind::ALL.into_iter().find(|known| known.flag() == kind).expect(flag);
            let mut grants = Grants::default();
            grants.add(kind, text, None).expect(flag);
            let requires = ["REQUIRED".to_owned()];
            let tools = [("t", requires.as_slice()), ("u", &[])];
            let found = unasked(needs, &tools, true, &grants);
            assert_eq!(found.is_empty(), is_asked, "{flag} of {needs:?}");
            let without_hooks = unasked(needs, &tools, false, &grants);
            assert_eq!(without_hooks.is_empty(), is_asked && kind != Kind::Hooks, "{flag}");
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
