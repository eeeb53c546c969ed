//! What plugins ask for and were not granted, with the command that grants it.

use serde_json::Value;

use super::inspect::need_line;
use toolhost_core::tool::Need;
use toolhost_policy::capability::{Grants, Kind};

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
    let lacking = kind.lacking(need, &value, grants);
    let flags: Vec<String> = lacking.iter().map(|text| kind.flag_for(text)).collect();
    (!flags.is_empty()).then_some(flags)
}
