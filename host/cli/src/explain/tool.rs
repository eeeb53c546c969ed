//! The second part of the chain: the tool that has the name, from its toolset to the listing.

use super::{ExplainView, Section};
use toolhost_core::tool::{Held, HookEvent, Reason};
use toolhost_kernel::registry::Entry;
use toolhost_policy::toolset::Selection;

/// What becomes of the tool that has the name, if one has.
pub(super) async fn section(view: &ExplainView<'_>) -> Option<Section> {
    let entry = view.catalog.find(view.name)?;
    let spec = entry.tool.spec();
    let others = view.toolsets_with_it();
    let others: Vec<&str> =
        others.iter().map(String::as_str).filter(|name| *name != spec.toolset).collect();
    let toolset = match others.as_slice() {
        [] => spec.toolset.clone(),
        others => format!("{}; also in {}", spec.toolset, others.join(", ")),
    };
    let requires = match spec.requires_env.as_slice() {
        [] => "nothing".to_owned(),
        names => format!("the variables {}", names.join(", ")),
    };
    let quarantined = view.host.quarantined().remove(view.name);
    let available = match (quarantined, view.host.unavailable().await.remove(view.name)) {
        (Some(quarantined), _) => format!("no, it is quarantined: {quarantined}"),
        (None, Some(unavailable)) => format!("no: {}", unavailable.reason),
        (None, None) if spec.has_check => "yes, its check says".to_owned(),
        (None, None) => "yes".to_owned(),
    };
    let is_listed = view.listed.names.iter().any(|name| name == view.name);
    let steps = vec![
        ("toolset", toolset),
        ("requires", requires),
        ("available", available),
        ("may", held(entry.tool.held())),
        ("session", session(view)),
        ("hooks", hooks(view, entry)),
        ("listed", if is_listed { "yes" } else { "no: hidden from the model" }.to_owned()),
    ];
    Some(Section { title: format!("{} of {}", view.name, entry.source), steps })
}

/// What to change so that the tool is listed, if it is not.
pub(super) async fn change(view: &ExplainView<'_>, entry: &Entry) -> Option<String> {
    let mut changes = Vec::new();
    let unmet = entry.tool.unmet();
    let is_met = unmet.is_empty();
    changes.extend(unmet.into_iter().map(|Reason { problem, repair }| repair.unwrap_or(problem)));
    if is_met && let Some(unavailable) = view.host.unavailable().await.remove(view.name) {
        changes.push(format!("see to what its check asks for ({})", unavailable.reason));
    }
    if !view.session.has(view.catalog, view.name) {
        changes.extend(enabling(view, entry));
    }
    if let Some(quarantined) = view.host.quarantined().remove(view.name)
        && let Some(until) = quarantined.until()
    {
        changes.push(format!("wait until {until}, or rebuild {}", entry.source));
    }
    for (source, hooks) in view.catalog.hooks() {
        if hooks.are_missing()
            && HookEvent::ALL.into_iter().any(|event| hooks.hears(event, view.name))
        {
            changes.push(format!(
                "put {source} back and grant it again, or revoke it: without its hooks the call is refused"
            ));
        }
    }
    (!changes.is_empty()).then(|| changes.join("; then "))
}

/// How the session gets the tool: what enables it, and what must not disable it.
fn enabling(view: &ExplainView<'_>, entry: &Entry) -> Vec<String> {
    let mut changes = Vec::new();
    let toolset = &entry.tool.spec().toolset;
    if !is_enabled(view) {
        changes.push(match view.platform {
            Some(platform) => {
                format!("add `{toolset}` to `toolsets` of [platforms.{platform}] in toolhost.toml")
            }
            None => format!("add one of its toolsets to --enable, such as `--enable {toolset}`"),
        });
    }
    let disabling = disabling(view);
    if !disabling.is_empty() {
        changes.push(format!("take `{}` out of --disable", disabling.join("` and `")));
    }
    changes
}

fn session(view: &ExplainView<'_>) -> String {
    let disabling = disabling(view);
    if view.session.has_all() {
        "has it, as it has every tool".to_owned()
    } else if view.session.has(view.catalog, view.name) {
        "has it".to_owned()
    } else if is_enabled(view) {
        format!("does not have it: disabled by `{}`", disabling.join("` and `"))
    } else {
        "does not have it: none of its toolsets is enabled".to_owned()
    }
}

/// Tells whether the session would have the tool if nothing were disabled.
fn is_enabled(view: &ExplainView<'_>) -> bool {
    let enabled = view.session.selection().enabled.clone();
    let selection = Selection { enabled, disabled: Vec::new() };
    view.toolsets().select(&selection).tools.contains(view.name)
}

/// The disabled toolsets that take the tool away.
fn disabling(view: &ExplainView<'_>) -> Vec<String> {
    let toolsets = view.toolsets();
    let takes_it = |name: &&String| {
        let selection = Selection { enabled: None, disabled: vec![(*name).clone()] };
        !toolsets.select(&selection).tools.contains(view.name)
    };
    view.session.selection().disabled.iter().filter(takes_it).cloned().collect()
}

/// What authority it holds at present, in words.
fn held(held: Held) -> String {
    let words = [
        (held.reads, "read directories"),
        (held.writes, "change directories"),
        (held.variables, "see variables"),
        (held.http, "send requests"),
        (held.processes, "run processes"),
        (held.hooks, "hear of other tools' calls"),
    ];
    let words: Vec<&str> = words.iter().filter(|(has, _)| *has).map(|(_, word)| *word).collect();
    match words.as_slice() {
        [] => "only compute and answer".to_owned(),
        words => words.join(", "),
    }
}

/// Who hears of its calls, and of what. Nobody hears of a source that has hooks itself.
fn hooks(view: &ExplainView<'_>, entry: &Entry) -> String {
    let all = view.catalog.hooks();
    if all.iter().any(|(source, hooks)| *source == entry.source && !hooks.are_missing()) {
        return "none: its source has hooks itself".to_owned();
    }
    let heard = all.iter().filter_map(|(source, hooks)| {
        let events = HookEvent::ALL.into_iter().filter(|event| hooks.hears(*event, view.name));
        let events: Vec<&str> = events.map(HookEvent::as_str).collect();
        let verb = if hooks.are_missing() { "is missing, and was to hear" } else { "hears" };
        (!events.is_empty()).then(|| format!("{source} {verb} {}", events.join(", ")))
    });
    let heard: Vec<String> = heard.collect();
    if heard.is_empty() { "none".to_owned() } else { heard.join("; ") }
}
