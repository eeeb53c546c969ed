//! What a probed tool tried in vain, as far as it is worth telling: paths that are on this machine
//! or that it was told of, and grants that could be given.

use std::path::Path;

use serde_json::Value;

use toolhost::Probed;
use toolhost_core::tool::Refusal;
use toolhost_policy::capability::{self, DirGrant, Grants, Kind, paths};
use toolhost_wasm::{DirectoryRules, narrowest_directory, proposed_grant};

/// What a tool tried in vain.
pub(super) struct Tried<'a> {
    /// Each with the kind and the text of a grant that would let it pass, if one could be given.
    pub(super) attempts: Vec<(&'a Refusal, Option<(Kind, String)>)>,
    /// Paths that nobody told it of, and that are not here.
    pub(super) elsewhere: usize,
    /// The grants, each once.
    pub(super) grants: Grants,
}

impl<'a> Tried<'a> {
    pub(super) fn new(
        probed: &'a Probed,
        tool: &str,
        arguments: &str,
        rules: &DirectoryRules,
    ) -> Tried<'a> {
        let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
        let known = Machine { arguments: &arguments, rules };
        let mut tried = Tried { attempts: Vec::new(), elsewhere: 0, grants: Grants::default() };
        for refusal in &probed.outcome.refusals {
            let grant = refusal.grant.as_ref();
            let grant = grant.and_then(|(key, text)| Some((Kind::of_key(key)?, text.clone())));
            let grant = match grant {
                Some((kind, _)) if kind.is_of_paths() && !known.knows(&refusal.what) => {
                    tried.elsewhere += 1;
                    continue;
                }
                Some((kind, text)) if kind.is_of_paths() => known
                    .narrowest(&refusal.what, &text)
                    .filter(|grant| {
                        let asked = capability::access(&probed.needs, tool, grant);
                        asked.is_some_and(|asked| asked >= grant.access)
                    })
                    .map(|grant| (kind, grant.to_string())),
                other => other,
            };
            if let Some((kind, text)) = &grant {
                // What a grant cannot say is among the attempts all the same.
                let _ = tried.grants.add(*kind, text, None);
            }
            tried.attempts.push((refusal, grant));
        }
        tried
    }
}

/// What is known of paths here.
struct Machine<'a> {
    arguments: &'a Value,
    rules: &'a DirectoryRules,
}

impl Machine<'_> {
    /// Tells whether a path is here, or was in the arguments.
    fn knows(&self, path: &str) -> bool {
        !path.starts_with('/')
            || Path::new(path).symlink_metadata().is_ok()
            || says(self.arguments, &mut |text| {
                let working = self.rules.working.as_deref().and_then(Path::to_str);
                path == paths::said(text, working.unwrap_or("/"))
            })
    }

    /// The narrowest directory that would do and that can be granted.
    fn narrowest(&self, path: &str, grant: &str) -> Option<DirGrant> {
        let grant = DirGrant::parse(grant, None).ok()?;
        let wanted = Path::new(path);
        let wanted = if wanted.is_absolute() { wanted } else { &grant.host };
        let host = narrowest_directory(wanted).to_owned();
        let guest = match host == grant.host {
            true => grant.guest.clone(),
            false => host.to_str()?.to_owned(),
        };
        let narrowest = DirGrant { host, guest, ..grant };
        proposed_grant(&narrowest, self.rules).is_ok().then_some(narrowest)
    }
}

/// Tells whether one of the texts in a value fits.
fn says(value: &Value, fits: &mut impl FnMut(&str) -> bool) -> bool {
    match value {
        Value::String(text) => fits(text),
        Value::Array(values) => values.iter().any(|value| says(value, fits)),
        Value::Object(fields) => fields.values().any(|value| says(value, fits)),
        _ => false,
    }
}
