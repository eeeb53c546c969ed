//! Who has a name: a pure function of all claims at once.
//!
//! Claims are taken in the order of their origin, never in the order of loading, and each meets
//! whoever holds the name by then. Names that a reader takes for one are one name here.

use std::collections::HashMap;

use toolhost_core::text;
use toolhost_core::tool::{
    Origin, PluginAddress, Reason, Registration, SourceId, ToolName, ToolSpec,
};
use toolhost_policy::toolset;

/// What one source wants: one name.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// Who claims.
    pub source: &'a SourceId,
    /// How far it is trusted with names.
    pub origin: Origin,
    /// Its place among sources of its origin; lower comes first.
    pub rank: usize,
    /// The name it claims.
    pub name: &'a ToolName,
    /// The toolset it declares.
    pub toolset: &'a str,
    /// It asks to replace the holder.
    pub overrides: bool,
    /// The operator lets it.
    pub allow_tool_override: bool,
}

/// Who had a name before, across restarts: for each name, as a reader takes it
/// ([`ToolName::skeleton`]), the sources that had it, the first one first.
pub type Owners = HashMap<String, Vec<SourceId>>;

/// What becomes of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It has the name.
    Registered,
    /// It had the name, and returns when the source that replaced it goes.
    Shadowed {
        /// Who has the name now.
        by: SourceId,
    },
    /// It does not get the name; why, and what to do.
    Rejected(Reason),
}

impl<'a> Claim<'a> {
    /// The claim of one tool of a registration.
    pub fn new(registration: &'a Registration, spec: &'a ToolSpec) -> Claim<'a> {
        Claim {
            source: &registration.source,
            origin: registration.origin,
            rank: registration.rank,
            name: &spec.name,
            toolset: &spec.toolset,
            overrides: spec.overrides,
            allow_tool_override: registration.allow_tool_override,
        }
    }

    /// Bundled plugins are the operator's own choice.
    fn may_override(&self) -> bool {
        self.allow_tool_override || matches!(self.origin, Origin::Builtin | Origin::Bundled)
    }
}

/// The place in which the turn of a source comes that claims a name.
///
/// The recorded owner of a name comes before others who want it, but a project's plugin never before
/// one of the user's own folder. Within a place, the lower rank comes first, then the source.
pub fn turn(origin: Origin, source: &SourceId, name: &ToolName, owners: &Owners) -> (u8, usize) {
    // Most of the time, nobody has had any name.
    let owned = (!owners.is_empty()).then(|| owners.get(&name.skeleton())).flatten();
    let place = owned.and_then(|owners| owners.iter().position(|owner| owner == source));
    let turn = match (origin, place.is_some()) {
        (Origin::Builtin, _) => 0,
        (Origin::Bundled, _) => 1,
        (Origin::User | Origin::Mcp, true) => 2,
        (Origin::User, false) => 3,
        (Origin::Project, true) => 4,
        (Origin::Project, false) => 5,
        (Origin::Mcp, false) => 6,
    };
    (turn, place.unwrap_or_default())
}

/// Decides all claims, in their order. `owners` are the sources which had a name before.
pub fn decide(claims: &[Claim<'_>], owners: &Owners) -> Vec<Verdict> {
    let mut order: Vec<usize> = (0..claims.len()).collect();
    let turns: Vec<_> = claims
        .iter()
        .map(|claim| (turn(claim.origin, claim.source, claim.name, owners), claim.rank))
        .collect();
    order.sort_by(|&left, &right| {
        let by_source = || claims[left].source.cmp(claims[right].source);
        turns[left].cmp(&turns[right]).then_with(by_source).then(left.cmp(&right))
    });

    let mut verdicts = vec![Verdict::Registered; claims.len()];
    let mut holders: HashMap<String, Holder> = HashMap::with_capacity(claims.len());
    for index in order {
        let claim = &claims[index];
        if let Some(reason) = reserved(claim) {
            verdicts[index] = Verdict::Rejected(reason);
            continue;
        }
        let skeleton = claim.name.skeleton();
        let Some(holder) = holders.get(&skeleton) else {
            holders.insert(skeleton, Holder { claim: index, replaced: false });
            continue;
        };
        match meet(&claims[holder.claim], claim, holder.replaced) {
            Ok(()) => {
                verdicts[holder.claim] = Verdict::Shadowed { by: claim.source.clone() };
                let replaced = claim.origin != Origin::Mcp;
                holders.insert(skeleton, Holder { claim: index, replaced });
            }
            Err(reason) => verdicts[index] = Verdict::Rejected(reason),
        }
    }
    verdicts
}

struct Holder {
    claim: usize,
    /// It has the name by overriding another.
    replaced: bool,
}

/// Says why a name or a toolset is not for this claimant.
fn reserved(claim: &Claim<'_>) -> Option<Reason> {
    let (name, toolset) = (claim.name, claim.toolset);
    if claim.origin != Origin::Mcp && toolset.starts_with("mcp-") {
        return Some(Reason::without_repair(format!(
            "toolset `{toolset}` begins with `mcp-`, which is for MCP servers"
        )));
    }
    if claim.may_override() {
        return None;
    }
    let skeleton = name.skeleton();
    if toolset::core_tools().any(|core| core == skeleton) {
        return Some(Reason::new(
            format!("`{name}` is the name of a core tool"),
            format!("rename it, or set {} in toolhost.toml", config_key(claim.source)),
        ));
    }
    if toolset::is_builtin_toolset(toolset) {
        return Some(Reason::new(
            format!("`{toolset}` is a built-in toolset"),
            format!("choose another, or set {} in toolhost.toml", config_key(claim.source)),
        ));
    }
    None
}

/// Decides whether `claimant` replaces `holder`, or why not.
fn meet(holder: &Claim<'_>, claimant: &Claim<'_>, replaced: bool) -> Result<(), Reason> {
    let name = claimant.name;
    let (owner, other) = told_apart(holder.source, claimant.source);
    if holder.source == claimant.source {
        return Err(match holder.name == name {
            true => {
                Reason::new(format!("{other} declares `{name}` twice"), "rename one of the two")
            }
            false => Reason::new(
                format!(
                    "{other} declares `{}` and `{name}`, which a reader takes for one",
                    holder.name
                ),
                "rename one",
            ),
        });
    }
    if holder.name != name {
        return Err(Reason::new(
            format!(
                "{other} declares `{name}`, which a reader takes for `{}` of {owner}",
                holder.name
            ),
            "rename it",
        ));
    }
    let (held_by_mcp, claimed_by_mcp) =
        (holder.origin == Origin::Mcp, claimant.origin == Origin::Mcp);
    match (held_by_mcp, claimed_by_mcp) {
        (true, true) => {
            tracing::debug!(
                "{other} replaces `{name}` of {owner}: it comes later in the configuration"
            );
            return Ok(());
        }
        (false, true) => {
            return Err(Reason::new(
                format!(
                    "`{name}` is already registered by {owner}, and an MCP server ({other}) replaces nothing else"
                ),
                "rename the tool at the server, or leave it out",
            ));
        }
        _ => {}
    }
    if !claimant.overrides {
        return Err(Reason::new(
            format!("`{name}` is already registered by {owner}"),
            format!("remove {owner} or {other}, or rename the tool of one of them"),
        ));
    }
    if !claimant.may_override() {
        let key = config_key(claimant.source);
        tracing::error!("{other} may not replace `{name}` of {owner}: set {key} in toolhost.toml");
        return Err(Reason::new(
            format!("{other} asks to replace `{name}` of {owner} and may not"),
            format!("set {key} in toolhost.toml"),
        ));
    }
    if replaced {
        return Err(Reason::new(
            format!(
                "`{name}` has been replaced by {owner} already; a second override ({other}) is refused"
            ),
            "take `allow_tool_override` from one of the two",
        ));
    }
    tracing::info!("{other} replaces `{name}` of {owner}, as the operator allows");
    Ok(())
}

/// What two sources are called beside each other: with their folders, where the ids are the same.
fn told_apart(one: &SourceId, other: &SourceId) -> (String, String) {
    let [said, also] = [one, other].map(ToString::to_string);
    if one == other || said != also {
        return (said, also);
    }
    let with_folder = |source: &SourceId| match source {
        SourceId::Plugin { folder, .. } if !folder.as_os_str().is_empty() => {
            format!("{source} of {}", text::one_line(&folder.display().to_string()))
        }
        _ => source.to_string(),
    };
    (with_folder(one), with_folder(other))
}

fn config_key(source: &SourceId) -> String {
    match source {
        SourceId::Plugin { id, folder } => {
            let plugin = PluginAddress::in_folder(folder, id.clone());
            // One that is only looked at may lie anywhere.
            let plugin = plugin.written().unwrap_or_else(|| format!("FOLDER/{id}"));
            format!("`plugins.\"{plugin}\".allow_tool_override = true`")
        }
        SourceId::Builtin | SourceId::Mcp(_) => "`allow_tool_override = true`".to_owned(),
    }
}

#[cfg(test)]
mod tests;
