//! Whether a build may serve, and with what authority: the rules of trust, on values.
//!
//! Bytes that a person has trusted, or that `make` built, have what they were granted. Other
//! bytes of a plugin that holds a grant wait, and so does whatever has suspect texts. All others
//! serve with no authority.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::build::Build;
use super::{Pending, whose};
use crate::driver::{Blocked, Found, LoadedSource, is_own};
use crate::remembered::Remembered;
use toolhost_core::text;
use toolhost_core::tool::{Origin, PluginAddress};
use toolhost_policy::capability::HookGrant;
use toolhost_policy::diff::{Surface, differences, differences_in_outline};
use toolhost_state::config::{Config, PluginConfig, Update};
use toolhost_state::trust_store::Known;
use toolhost_wasm::LoadAs;

/// Differences that are told of one build; `toolhost inspect` tells all.
const TOLD_MAX: usize = 20;

/// A build that loaded, and what may become of it.
pub(super) struct Judged {
    pub(super) loaded: LoadedSource,
    pub(super) surface: Arc<Surface>,
    pub(super) verdict: TrustVerdict,
    /// How many builds of the same bundled plugin are newer, if it is bundled.
    pub(super) age: Option<usize>,
}

/// What may become of a build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TrustVerdict {
    /// It serves, with what it was granted.
    Trusted {
        /// The rule that trusts it, if no person has yet.
        by: Option<Rule>,
    },
    /// It serves, with no authority.
    Free,
    /// It waits: it is not what was trusted.
    Changed,
    /// It waits, and serves nobody: its source is pinned to another definition.
    Redefined,
    /// It waits: its texts are suspect, in these places.
    Suspect(Vec<String>),
    /// It does not serve: somebody has gone back to an earlier build.
    RolledBack,
    /// It waits for something else than trust.
    Blocked(Blocked),
}

/// What trusts a build in place of what a person has trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The operator's `update = "same-needs"`.
    SameNeeds,
    /// It is what the operator has made of the source they work at, as with `toolhost dev`.
    Own,
    /// It is the script that was trusted, with the runner of another version of this host.
    OtherRunner,
}

impl Rule {
    /// Its name in the audit log.
    pub fn word(self) -> &'static str {
        match self {
            Rule::SameNeeds => "same-needs",
            Rule::Own => "dev",
            Rule::OtherRunner => "other-runner",
        }
    }
}

/// What is said of one source, and remembered of it.
pub(super) struct Case<'a> {
    pub(super) found: &'a Found,
    /// What the operator says of it; nothing of what is no plugin.
    settings: PluginConfig,
    /// The same for the bundled plugin of its id, which it may be.
    bundled: PluginConfig,
    /// Something is granted to its id, without a folder, and nothing tells to whom.
    is_of_id_alone: bool,
    /// What the operator's file grants to it, and nobody has agreed to.
    pub(super) not_agreed: Vec<String>,
    pub(super) known: Option<&'a Known>,
    remembered: &'a Remembered,
}

impl<'a> Case<'a> {
    pub(super) fn new(
        found: &'a Found,
        config: &'a Config,
        remembered: &'a Remembered,
    ) -> Case<'a> {
        let known = remembered.source(&found.source);
        let Some((id, folder)) = found.source.plugin() else {
            let (settings, bundled) = (PluginConfig::default(), PluginConfig::default());
            let (is_of_id_alone, not_agreed) = (false, Vec::new());
            return Case {
                found,
                settings,
                bundled,
                is_of_id_alone,
                not_agreed,
                known,
                remembered,
            };
        };
        let address = PluginAddress::in_folder(folder, id.clone());
        let settings = whose::may(config, &address, remembered);
        let mut not_agreed = whose::said(config, &address, remembered).grants;
        not_agreed.remove(&settings.grants);
        let not_agreed = not_agreed.flags();
        let is_of_id_alone = found.origin == Origin::Project
            && config.ids.get(id).is_some_and(|table| !table.allows_nothing())
            && !config.plugins.contains_key(&address)
            && known.is_none_or(|known| known.trusted.is_none());
        let bundled = PluginAddress::bundled(id.clone());
        let bundled = whose::may(config, &bundled, remembered);
        Case { found, settings, bundled, is_of_id_alone, not_agreed, known, remembered }
    }

    /// What it was granted to hear of, whichever build of it lies there.
    pub(super) fn hooks(&self) -> impl Iterator<Item = &HookGrant> {
        self.settings.grants.of().chain(self.bundled.grants.of())
    }

    /// Tells whether it may replace tools of others, whichever build of it lies there.
    pub(super) fn may_take_names(&self) -> bool {
        self.settings.allow_tool_override || self.bundled.allow_tool_override
    }

    /// Whose grants a build has, if it is a plugin's.
    pub(super) fn address(&self, judged: Option<&Judged>) -> Option<PluginAddress> {
        let (id, folder) = self.found.source.plugin()?;
        Some(match judged.is_some_and(|judged| judged.age.is_some()) {
            true => PluginAddress::bundled(id.clone()),
            false => PluginAddress::in_folder(folder, id.clone()),
        })
    }

    /// What commands call it where no other has its id.
    pub(super) fn name(&self) -> String {
        match self.found.source.plugin() {
            Some((id, _)) => id.to_string(),
            None => self.found.source.to_string(),
        }
    }

    /// Digests of definitions whose tools may be listed before it is loaded.
    pub(super) fn listable(&self, load_as: &LoadAs) -> BTreeSet<String> {
        let last = self.known.and_then(|known| Some(known.build.as_ref()?.digest.as_str()));
        let last = last.filter(|last| is_own(load_as, last));
        let bundled = self.remembered.bundled_digests(&self.found.source);
        let all = last.into_iter().chain(bundled);
        all.filter(|digest| !self.is_refused(digest)).map(str::to_owned).collect()
    }

    /// What is said of the plugin, for one build of it.
    pub(super) fn settings(&self, judged: &Judged) -> &PluginConfig {
        if judged.age.is_some() { &self.bundled } else { &self.settings }
    }

    /// Judges a build that loaded.
    pub(super) fn judge(&self, build: &Build) -> Judged {
        let age = self.age(build.digest());
        let verdict = self.verdict(build, age.is_some());
        let (loaded, surface) = (build.loaded.clone(), Arc::clone(&build.surface));
        Judged { loaded, surface, verdict, age }
    }

    fn verdict(&self, build: &Build, is_bundled: bool) -> TrustVerdict {
        let Build { loaded, surface, .. } = build;
        if self.is_refused(&loaded.facts.digest) {
            return TrustVerdict::RolledBack;
        }
        // Whatever was trusted, or is bundled, is so with what comes with this host.
        if let Some(blocked) = loaded.handle.blocked() {
            return TrustVerdict::Blocked(blocked);
        }
        let trusted = self.known.and_then(|known| known.trusted.as_deref());
        if is_bundled || trusted == Some(&*loaded.facts.digest) {
            return TrustVerdict::Trusted { by: None };
        }
        if trusted.is_some_and(|trusted| loaded.handle.is_rebuilt(trusted)) {
            return TrustVerdict::Trusted { by: Some(Rule::OtherRunner) };
        }
        let suspect = build.suspect();
        if !suspect.is_empty() {
            return TrustVerdict::Suspect(suspect.to_vec());
        }
        let last = self.known.and_then(|known| known.build.as_ref());
        let last = last.map(|build| build.digest.as_str());
        if self.found.is_pinned
            && trusted.or(last).is_some_and(|pinned| *pinned != *loaded.facts.digest)
        {
            return TrustVerdict::Redefined;
        }
        let Some(trusted) = trusted else { return TrustVerdict::Free };
        if loaded.handle.is_own() {
            return TrustVerdict::Trusted { by: Some(Rule::Own) };
        }
        if self.settings.grants.is_empty() && !self.settings.allow_tool_override {
            return TrustVerdict::Free;
        }
        let build = self.known.and_then(|known| known.build.as_ref());
        let build = build.filter(|build| build.digest == trusted);
        let outline = surface.outline();
        let asks_no_more = build.is_some_and(|build| {
            // Who may replace others' tools might take any name otherwise.
            let names = || outline.tools.keys().all(|name| build.outline.tools.contains_key(name));
            outline.asks_no_more_than(&build.outline)
                && (!self.settings.allow_tool_override || names())
        });
        match self.settings.update {
            Update::SameNeeds if asks_no_more => {
                TrustVerdict::Trusted { by: Some(Rule::SameNeeds) }
            }
            _ => TrustVerdict::Changed,
        }
    }

    /// Tells whether a build with this digest is bundled. The bytes of one plugin under the name of
    /// another are a stranger's.
    pub(super) fn is_bundled(&self, digest: &str) -> bool {
        self.age(digest).is_some()
    }

    /// How many builds of the same bundled plugin are newer, if it is bundled.
    fn age(&self, digest: &str) -> Option<usize> {
        let (id, _) = self.found.source.plugin()?;
        self.remembered.bundled.get(&(id.to_string(), digest.to_owned())).copied()
    }

    /// Tells whether somebody has gone back from a build.
    pub(super) fn is_refused(&self, digest: &str) -> bool {
        self.known.is_some_and(|known| known.refused.iter().any(|refused| refused == digest))
    }

    /// Digests of the kept builds that may serve in place of the file, the best first.
    pub(super) fn stand_ins(&self) -> Vec<&'a str> {
        let Some(known) = self.known else { return Vec::new() };
        let build = known.build.as_ref().map(|build| build.digest.as_str());
        let kept = known.kept.iter().rev().map(String::as_str);
        let mut digests: Vec<&str> = Vec::new();
        for digest in known.trusted.as_deref().into_iter().chain(build).chain(kept) {
            if !digests.contains(&digest) && !self.is_refused(digest) {
                digests.push(digest);
            }
        }
        digests
    }

    /// Where something is granted to its id without a folder, and nothing tells to whom: why it has
    /// nothing of it, and the repair. Nobody is asked to trust what may be another folder's.
    pub(super) fn of_id_alone(&self) -> Option<(&'static str, String)> {
        let why = "`toolhost.toml` grants something to its id and does not say of which folder";
        let address = self.address(None).filter(|_| self.is_of_id_alone)?;
        let address = text::one_line(&address.to_string());
        Some((why, format!("if that is meant for it, name it there: `[plugins.\"{address}\"]`")))
    }

    /// What a build waits for, if it does. `kept` serves meanwhile.
    pub(super) fn pending(&self, judged: &Judged, kept: Option<&Judged>) -> Option<Pending> {
        let why = match &judged.verdict {
            TrustVerdict::Trusted { .. } | TrustVerdict::Free => return None,
            TrustVerdict::Changed if let Some((why, _)) = self.of_id_alone() => why.to_owned(),
            TrustVerdict::Changed => "its bytes are not those that were trusted".to_owned(),
            TrustVerdict::Redefined => {
                match self.known.is_some_and(|known| known.trusted.is_some()) {
                    true => "its definition is not the one that was trusted".to_owned(),
                    false => "its definition is not the one that it had before".to_owned(),
                }
            }
            TrustVerdict::RolledBack => {
                "it was given up for an earlier build; a build that is saved anew is tried again"
                    .to_owned()
            }
            // What it says there is not repeated: this may come before a model.
            TrustVerdict::Suspect(_) => {
                "it has texts that a person should look at first".to_owned()
            }
            TrustVerdict::Blocked(blocked) => blocked.why.clone(),
        };
        let meanwhile = match (kept, &judged.verdict) {
            (Some(kept), _) => format!(
                "its build sha256:{} keeps serving",
                kept.digest().get(..12).unwrap_or_default()
            ),
            (None, TrustVerdict::Changed) => "it serves without what it was granted".to_owned(),
            (None, _) => "until then none of its tools can be called".to_owned(),
        };
        let suspicions = match &judged.verdict {
            TrustVerdict::Suspect(places) => places.clone(),
            _ => Vec::new(),
        };
        let repair = match &judged.verdict {
            TrustVerdict::Blocked(blocked) => Some(blocked.repair.clone()),
            TrustVerdict::Changed => self.of_id_alone().map(|(_, repair)| repair),
            _ => None,
        };
        let build = self.known.and_then(|known| known.build.as_ref());
        let found = match (kept, build) {
            (Some(kept), _) => differences(&kept.surface, &judged.surface),
            (None, Some(build)) => {
                differences_in_outline(&build.outline, &judged.surface.outline())
            }
            (None, None) => Vec::new(),
        };
        Some(Pending {
            why,
            meanwhile,
            repair,
            serves: kept.is_none() && judged.may_serve(),
            suspicions,
            differences: found.iter().take(TOLD_MAX).map(ToString::to_string).collect(),
            differences_count: found.len(),
        })
    }

    /// Tells whether the operator's permission to replace others' tools counts for these bytes.
    pub(super) fn may_override(&self, judged: &Judged) -> bool {
        self.settings(judged).allow_tool_override && judged.is_trusted()
    }
}

impl Judged {
    pub(super) fn is_trusted(&self) -> bool {
        matches!(self.verdict, TrustVerdict::Trusted { .. })
    }

    /// The rule that trusts it, if no person has.
    pub(super) fn trusted_by(&self) -> Option<Rule> {
        match self.verdict {
            TrustVerdict::Trusted { by } => by,
            _ => None,
        }
    }

    /// Tells whether it serves where nothing else does.
    pub(super) fn may_serve(&self) -> bool {
        matches!(
            self.verdict,
            TrustVerdict::Trusted { .. } | TrustVerdict::Free | TrustVerdict::Changed
        )
    }

    /// Tells whether nothing is in its way.
    pub(super) fn is_in_order(&self) -> bool {
        matches!(self.verdict, TrustVerdict::Trusted { .. } | TrustVerdict::Free)
    }

    pub(super) fn digest(&self) -> &Arc<str> {
        self.loaded.digest()
    }

    /// Tells whether what it was recorded from is not enough to decide about it, or to show it.
    pub(super) fn is_to_be_loaded(&self) -> bool {
        let is_decided =
            matches!(self.verdict, TrustVerdict::Trusted { by: None } | TrustVerdict::Free);
        self.loaded.is_recorded() && !is_decided
    }
}
