//! What plugins ask for and were not granted, with the command that grants it.

use serde_json::Value;

use super::inspect::need_line;
use toolhost_core::tool::Need;
use toolhost_policy::capability::{self, Grants, HookGrant, HttpGrant, Kind};

/// Says of each need for which nothing is granted what it is, and how to grant it: `words` is what
/// commands call the plugin.
///
/// Whether what is granted is all of what is asked for, only the one who granted it can tell.
pub(super) fn unmet(words: &str, needs: &[Need], grants: &Grants) -> Vec<String> {
    let line = |need: &Need| {
        let (flags, need) = (flags(need, grants)?, need_line(need));
        let repair = match flags.as_slice() {
            [] => "this version of toolhost cannot grant that".to_owned(),
            flags => format!("to grant it, run `toolhost grant {words} {}`", flags.join(" ")),
        };
        Some(format!("asks for {need}; {repair}"))
    };
    needs.iter().filter_map(line).collect()
}

/// The flags of `toolhost grant` that a need lacks, or nothing if it is met.
fn flags(need: &Need, grants: &Grants) -> Option<Vec<String>> {
    let value: Value = serde_json::from_str(&need.value).unwrap_or_default();
    // What `grant` has no flag for is not met, whatever was granted.
    let Some(kind) = Kind::of_key(&need.kind) else { return Some(Vec::new()) };
    let asked: Vec<String> = match kind {
        Kind::Dirs if !grants.dirs.is_empty() => Vec::new(),
        Kind::Dirs => {
            let access = if value["access"] == "rw" { "rw" } else { "ro" };
            vec![match value["path"].as_str() {
                Some(path) if path != "*" => format!("DIR={path}:{access}"),
                _ => format!("DIR:{access}"),
            }]
        }
        Kind::Http => {
            let read =
                |host: String| HttpGrant::parse(&host).ok().map(|grant| grant.without_private());
            texts(&value["hosts"]).into_iter().filter_map(read).collect()
        }
        Kind::Env => texts(&value["names"]),
        Kind::Secrets => {
            let asked = capability::asked_secrets(std::slice::from_ref(need));
            asked.iter().map(ToString::to_string).collect()
        }
        Kind::Kv => vec!["kv".to_owned()],
        Kind::Hooks => {
            let (events, tools) = (texts(&value["events"]), texts(&value["tools"]));
            let with_tools =
                |event: &String| tools.iter().map(|tool| format!("{event}:{tool}")).collect();
            let all: Vec<String> = events.iter().flat_map::<Vec<String>, _>(with_tools).collect();
            let lacks = |hook: &String| {
                let parsed = HookGrant::parse(hook);
                // A grant of another pattern may well be what the operator wants.
                parsed.is_ok_and(|hook| !grants.hooks.iter().any(|held| held.event == hook.event))
            };
            all.into_iter().filter(lacks).collect()
        }
    };
    let held = grants.texts(kind);
    // What somebody granted in part, they may well want in part.
    let lacks = |text: &&String| match kind {
        Kind::Http => held.is_empty(),
        _ => !held.contains(text),
    };
    let flags: Vec<String> = asked.iter().filter(lacks).map(|text| kind.flag_for(text)).collect();
    (!flags.is_empty()).then_some(flags)
}

fn texts(list: &Value) -> Vec<String> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}
