//! What one call does with its rights: which mutually exclusive sides it has touched, and what it
//! was refused. The imports share it, since some of their work goes on beside the guest.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::capability::dirs::directories::{self, Directory, DirectoryRules};
use super::redaction::PluginSecrets;
use super::rights::Rights;
use toolhost_core::limits::Limits;
use toolhost_core::text;
use toolhost_core::tool::{Meter, Refusal};
use toolhost_policy::capability::{Access, DirGrant, Kind, Sides};

/// Characters of what was asked for, in a refusal.
const WHAT_CHARS_MAX: usize = 200;
/// Characters of why, and of what to do.
const WORDS_CHARS_MAX: usize = 500;

/// Granted directories that a refusal names.
const GRANTED_SHOWN_MAX: usize = 5;

/// What one call has touched and was refused.
#[derive(Debug)]
pub(super) struct CallLog {
    pub(super) plugin: Arc<str>,
    pub(super) rights: Arc<Rights>,
    secrets: Arc<PluginSecrets>,
    sides: Mutex<Sides>,
    meter: Arc<Meter>,
    refusals_max: usize,
    used_max: usize,
}

impl CallLog {
    pub(super) fn new(
        plugin: &Arc<str>,
        rights: Arc<Rights>,
        secrets: &Arc<PluginSecrets>,
        meter: &Arc<Meter>,
        limits: &Limits,
    ) -> Arc<CallLog> {
        Arc::new(CallLog {
            plugin: Arc::clone(plugin),
            secrets: Arc::clone(secrets),
            sides: Mutex::new(rights.sides()),
            rights,
            meter: Arc::clone(meter),
            refusals_max: limits.refusals_max.0,
            used_max: limits.audit_used_max.0,
        })
    }

    /// What commands call the plugin.
    pub(super) fn words(&self) -> &str {
        if self.rights.words.is_empty() { &self.plugin } else { &self.rights.words }
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
        let mut what = text::one_line(&text::cut(what, WHAT_CHARS_MAX));
        self.secrets.redact(&mut what);
        let key = kind.key();
        self.meter.used(
            if what.is_empty() { key.into() } else { format!("{key}:{what}") },
            self.used_max,
        );
    }

    /// Notes the same of a directory, by its place among the rights.
    pub(super) fn used_directory(&self, place: usize, access: Access) {
        if let Some((directory, _)) = self.rights.directories.get(place) {
            self.used(Kind::DIRS, &format!("{}:{access}", directory.grant.guest));
        }
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
        if self.rights.asks.contains(&kind) {
            self.not_granted(kind, grant, what)
        } else {
            self.not_asked(kind, grant, what)
        }
    }

    /// Remembers that a path is in no directory that was granted. `said` is what is said of it.
    pub(super) fn lacks_directory(
        &self,
        rules: &DirectoryRules,
        access: Access,
        (what, said): (&str, &str),
    ) -> String {
        let directory = directories::narrowest(Path::new(what));
        let guest = directory.display().to_string();
        let wanted = DirGrant { host: directory.to_owned(), guest, access };
        let grant = format!("{}:{access}", directory.display());
        if !self.rights.asks.contains(&Kind::DIRS) {
            return self.not_asked(Kind::DIRS, &grant, said);
        }
        let repair = match (self.command_for(&wanted, rules), directory == Path::new(what)) {
            (Ok(command), _) => command,
            (Err(reason), true) => {
                format!("no grant of it is proposed, since {reason}; name a narrower directory")
            }
            (Err(reason), false) => format!(
                "no grant of the directory it is in is proposed, since {reason}; move it to another one"
            ),
        };
        self.refuse(Refusal {
            what: said.to_owned(),
            why: format!("is not granted{}", self.granted_instead()),
            repair,
            grant: Some((Kind::DIRS.key().to_owned(), grant)),
        })
    }

    /// Remembers that a path in a granted directory may not be used so, or leads out of it.
    pub(super) fn lacks_within(
        &self,
        rules: &DirectoryRules,
        place: usize,
        access: Access,
        path: &str,
    ) {
        let Some((directory, may)) = self.rights.directories.get(place) else { return };
        let (grant, guest) = (&directory.grant, &directory.grant.guest);
        let wanted = DirGrant { access, ..grant.clone() };
        if access <= *may {
            self.refuse(Refusal {
                what: format!("{path} in {guest}"),
                why: format!("leads out of what is granted{}", self.granted_instead()),
                repair: "name it by the path of the directory that it leads to".to_owned(),
                grant: None,
            });
        } else if access <= grant.access {
            self.not_asked(Kind::DIRS, &wanted.to_string(), &format!("changing {path} in {guest}"));
        } else {
            self.refuse(Refusal {
                what: format!("changing {path} in {guest}"),
                why: format!("is not granted{}", self.granted_instead()),
                repair: self.command_for(&wanted, rules).unwrap_or_else(|reason| {
                    format!("no grant for changing it is proposed, since {reason}")
                }),
                grant: Some((Kind::DIRS.key().to_owned(), wanted.to_string())),
            });
        }
    }

    /// The command that gives a directory grant, if one is to be proposed; else the reason.
    fn command_for(&self, wanted: &DirGrant, rules: &DirectoryRules) -> Result<String, String> {
        directories::proposed(wanted, rules)?;
        let flag = Kind::DIRS.flag_for(&wanted.to_string());
        let command = format!("run `toolhost grant {} {flag}`", self.words());
        // Cut, it would mean another directory.
        match command.chars().count() <= WORDS_CHARS_MAX {
            true => Ok(command),
            false => Err("its path is too long to be shown".to_owned()),
        }
    }

    /// Which directories are granted, as it goes on after that something is not.
    fn granted_instead(&self) -> String {
        let all: Vec<String> = self.rights.directories.iter().map(granted).collect();
        let (shown, more) = all.split_at(all.len().min(GRANTED_SHOWN_MAX));
        match (shown, more.len()) {
            ([], _) => ", and no directory is".to_owned(),
            ([one], 0) => format!(", but {one} is"),
            (shown, 0) => format!(", but {} are", shown.join(", ")),
            (shown, more) => format!(", but {} and {more} more are", shown.join(", ")),
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

    /// Remembers a refusal, and returns the sentence for the guest.
    pub(super) fn refuse(&self, refusal: Refusal) -> String {
        // The guest has written into all of it: names, hosts, paths.
        let safe = |text: &str, chars_max| {
            let mut text = text::one_line(&text::cut(text, chars_max));
            self.secrets.redact(&mut text);
            text
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

/// A granted directory as the plugin names it, with what may be done there.
fn granted((directory, access): &(Directory, Access)) -> String {
    format!("{}:{access}", directory.grant.guest)
}
