//! What plugins ask for and were not granted, with the command that grants it.

use serde_json::Value;

use super::inspect::need_line;
use crate::authority::{Grants, HookGrant};
use crate::tool::{Need, PluginId};

/// Says of each need for which nothing is granted what it is, and how to grant it.
///
/// Whether what is granted is all of what is asked for, only the one who granted it can tell.
pub(super) fn unmet(id: &PluginId, needs: &[Need], grants: &Grants) -> Vec<String> {
    let line = |need: &Need| {
        let (flags, need) = (flags(need, grants)?, need_line(need));
        let repair = match flags.as_slice() {
            [] => "this version of toolhost cannot grant that".to_owned(),
            flags => format!("to grant it, run `toolhost grant {id} {}`", flags.join(" ")),
        };
        Some(format!("asks for {need}; {repair}"))
    };
    needs.iter().filter_map(line).collect()
}

/// The flags of `toolhost grant` that a need lacks, or nothing if it is met.
fn flags(need: &Need, grants: &Grants) -> Option<Vec<String>> {
    // What `grant` has no flag for is not met, whatever was granted.
    let value: Value = serde_json::from_str(&need.value).unwrap_or_default();
    let flags: Vec<String> = match need.kind.as_str() {
        "dirs" if !grants.dirs.is_empty() => Vec::new(),
        "dirs" => {
            let access = if value["access"] == "rw" { "rw" } else { "ro" };
            vec![match value["path"].as_str() {
                Some(path) if path != "*" => format!("--dir HOST={path}:{access}"),
                _ => format!("--dir HOST:{access}"),
            }]
        }
        "env" => {
            let names = texts(&value["names"]);
            let lacking = names.iter().filter(|name| !grants.env.contains(name));
            lacking.map(|name| format!("--env {name}")).collect()
        }
        "hooks" => {
            let tools = texts(&value["tools"]);
            let events = texts(&value["events"]);
            let all = events
                .iter()
                .flat_map(|event| tools.iter().map(move |tool| format!("{event}:{tool}")));
            let lacks = |hook: &String| {
                let parsed = HookGrant::parse(hook);
                // A grant of another pattern may well be what the operator wants.
                parsed.is_ok_and(|hook| !grants.hooks.iter().any(|held| held.event == hook.event))
            };
            all.filter(lacks).map(|hook| format!("--hook {hook}")).collect()
        }
        _ => return Some(Vec::new()),
    };
    (!flags.is_empty()).then_some(flags)
}

fn texts(list: &Value) -> Vec<String> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}
