//! What one call does with its rights: which mutually exclusive sides it has touched, and what it
//! was refused. The imports share it, since some of their work goes on beside the guest.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::redaction::Redaction;
use super::rights::Rights;
use toolhost_core::limits::Limits;
use toolhost_core::text;
use toolhost_core::tool::{Meter, Refusal};
use toolhost_policy::capability::{Kind, Sides};
use toolhost_state::secret::VALUE_BYTES_MAX;

/// Characters of a text that are searched for secrets before it is cut: of one that was cut, the rest
/// would not be found. The longest has room in them, however it is escaped.
const SEARCHED_CHARS_MAX: usize = 16 * VALUE_BYTES_MAX;
/// Characters of what was asked for, in a refusal.
const WHAT_CHARS_MAX: usize = 200;
/// Characters of why, and of what to do.
pub(super) const WORDS_CHARS_MAX: usize = 500;

/// What one call has touched and was refused.
#[derive(Debug)]
pub(super) struct CallLog {
    pub(super) plugin: Arc<str>,
    pub(super) rights: Arc<Rights>,
    redaction: Arc<Redaction>,
    sides: Mutex<Sides>,
    meter: Arc<Meter>,
    refusals_max: usize,
    used_max: usize,
}

impl CallLog {
    pub(super) fn new(
        plugin: &Arc<str>,
        rights: Arc<Rights>,
        redaction: &Arc<Redaction>,
        meter: &Arc<Meter>,
        limits: &Limits,
    ) -> Arc<CallLog> {
        Arc::new(CallLog {
            plugin: Arc::clone(plugin),
            redaction: Arc::clone(redaction),
            sides: Mutex::new(rights.sides()),
            rights,
            meter: Arc::clone(meter),
            refusals_max: limits.refusals_max.0,
            used_max: limits.audit_used_max.0,
        })
    }

    /// What commands call the plugin.
    pub(super) fn words(&self) -> &str {
        self.rights.words()
    }

    fn sides(&self) -> MutexGuard<'_, Sides> {
        self.sides.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The side of the call, as a name; empty as long as it has touched nothing exclusive.
    pub(super) fn side(&self) -> String {
        self.sides().side()
    }

    /// Closes what excludes `kind`.
    pub(super) fn touch(&self, kind: Kind) {
        self.sides().touch(kind);
    }

    /// Notes that the call makes use of something it may: of what kind, and what exactly.
    pub(super) fn used(&self, kind: Kind, what: &str) {
        let mut what = text::cut(what, SEARCHED_CHARS_MAX);
        self.redaction.redact(&mut what);
        let what = text::one_line(&text::cut(&what, WHAT_CHARS_MAX));
        let key = kind.key();
        self.meter.used(
            if what.is_empty() { key.into() } else { format!("{key}:{what}") },
            self.used_max,
        );
    }

    /// Says why `kind` is closed for this call, if it is, and remembers the refusal.
    pub(super) fn closed(&self, kind: Kind, what: &str) -> Option<String> {
        let other = self.sides().closed_by(kind)?;
        Some(self.refuse(Refusal {
            what: what.to_owned(),
            why: format!(
                "is closed, because this call has used `{}`, and the operator lets one call of plugin:{} use only one of the two (`exclusive`)",
                other.key(), self.plugin
            ),
            repair: "use the other in a call of its own".to_owned(),
            grant: None,
        }))
    }

    /// Remembers that the tool lacks something, and returns the sentence for the guest: whether
    /// a grant would help is known by whether it asks for the kind at all.
    pub(super) fn lacks(&self, kind: Kind, grant: &str, what: &str) -> String {
        if self.rights.asks(kind) {
            self.not_granted(kind, grant, what)
        } else {
            self.not_asked(kind, grant, what)
        }
    }

    /// Remembers that something was not granted, and returns the sentence for the guest.
    pub(super) fn not_granted(&self, kind: Kind, grant: &str, what: &str) -> String {
        let flag = kind.flag_for(grant);
        self.refuse(Refusal {
            what: what.to_owned(),
            why: "is not granted".to_owned(),
            repair: format!("run `toolhost grant {} {flag}`", self.words()),
            grant: Some((kind.key().to_owned(), grant.to_owned())),
        })
    }

    /// Remembers that the tool does not ask for something, and returns the sentence for the
    /// guest. `grant` is what it would have to ask for.
    pub(super) fn not_asked(&self, kind: Kind, grant: &str, what: &str) -> String {
        self.refuse(Refusal {
            what: what.to_owned(),
            why: format!(
                "is nothing that this tool of plugin:{} asks for, so no grant would help",
                self.plugin
            ),
            repair: format!("its author must add `{grant}` to its needs of kind `{}`", kind.key()),
            grant: Some((kind.key().to_owned(), grant.to_owned())),
        })
    }

    /// What no text may show.
    pub(super) fn redaction(&self) -> &Arc<Redaction> {
        &self.redaction
    }

    /// Remembers a refusal, and returns the sentence for the guest.
    pub(super) fn refuse(&self, refusal: Refusal) -> String {
        // The guest has written into all of it: names, paths, and hosts, which are shown in lower
        // case.
        let safe = |text: &str, chars_max| {
            let mut text = text::cut(text, SEARCHED_CHARS_MAX);
            self.redaction.redact_any_case(&mut text);
            text::one_line(&text::cut(&text, chars_max))
        };
        let refusal = Refusal {
            what: safe(&refusal.what, WHAT_CHARS_MAX),
            why: safe(&refusal.why, WORDS_CHARS_MAX),
            repair: safe(&refusal.repair, WORDS_CHARS_MAX),
            grant: refusal.grant.map(|(kind, text)| (kind, safe(&text, WORDS_CHARS_MAX))),
        };
        let sentence = refusal.to_string();
        tracing::info!("plugin:{}: {sentence}", self.plugin);
        self.meter.refused(refusal, self.refusals_max);
        sentence
    }
}
