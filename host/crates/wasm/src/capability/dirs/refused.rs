//! What is said of a path that may not be used, and which grant would help.

use std::path::Path;

use super::DirRight;
use super::directories::{self, Directory};
use crate::call_log::{CallLog, WORDS_CHARS_MAX};
use crate::capability::FailedCall;
use toolhost_core::tool::Refusal;
use toolhost_policy::capability::{Access, DirGrant, Kind};

/// Granted directories that a refusal names.
const GRANTED_SHOWN_MAX: usize = 5;

impl DirRight {
    /// Notes that a call makes use of a directory, by its place.
    pub(super) fn used(&self, call_log: &CallLog, place: usize, access: Access) {
        if let Some((directory, _)) = self.directories.get(place) {
            call_log.used(Kind::DIRS, &format!("{}:{access}", directory.grant.guest));
        }
    }

    /// Remembers that a path is in no directory that was granted. `said` is what is said of it.
    pub(super) fn lacks(
        &self,
        call_log: &CallLog,
        access: Access,
        (what, said): (&str, &str),
    ) -> String {
        let directory = directories::narrowest(Path::new(what));
        let guest = directory.display().to_string();
        let wanted = DirGrant { host: directory.to_owned(), guest, access };
        let grant = format!("{}:{access}", directory.display());
        if !self.is_asked {
            return call_log.not_asked(Kind::DIRS, &grant, said);
        }
        let repair = match (self.command_for(call_log, &wanted), directory == Path::new(what)) {
            (Ok(command), _) => command,
            (Err(reason), true) => {
                format!("no grant of it is proposed, since {reason}; name a narrower directory")
            }
            (Err(reason), false) => format!(
                "no grant of the directory it is in is proposed, since {reason}; move it to another one"
            ),
        };
        call_log.refuse(Refusal {
            what: said.to_owned(),
            why: format!("is not granted{}", self.granted_instead()),
            repair,
            grant: Some((Kind::DIRS.key().to_owned(), grant)),
        })
    }

    /// Remembers that a path in a granted directory may not be used so, or leads out of it.
    pub(super) fn lacks_within(
        &self,
        call_log: &CallLog,
        place: usize,
        access: Access,
        path: &str,
    ) {
        let Some((directory, may)) = self.directories.get(place) else { return };
        let (grant, guest) = (&directory.grant, &directory.grant.guest);
        let wanted = DirGrant { access, ..grant.clone() };
        if access <= *may {
            call_log.refuse(Refusal {
                what: format!("{path} in {guest}"),
                why: format!("leads out of what is granted{}", self.granted_instead()),
                repair: "name it by the path of the directory that it leads to".to_owned(),
                grant: None,
            });
        } else if access <= grant.access {
            let what = format!("changing {path} in {guest}");
            call_log.not_asked(Kind::DIRS, &wanted.to_string(), &what);
        } else {
            call_log.refuse(Refusal {
                what: format!("changing {path} in {guest}"),
                why: format!("is not granted{}", self.granted_instead()),
                repair: self.command_for(call_log, &wanted).unwrap_or_else(|reason| {
                    format!("no grant for changing it is proposed, since {reason}")
                }),
                grant: Some((Kind::DIRS.key().to_owned(), wanted.to_string())),
            });
        }
    }

    /// The command that gives a directory grant, if one is to be proposed; else the reason.
    fn command_for(&self, call_log: &CallLog, wanted: &DirGrant) -> Result<String, String> {
        directories::proposed(wanted, &self.share.rules)?;
        let flag = Kind::DIRS.flag_for(&wanted.to_string());
        let command = format!("run `toolhost grant {} {flag}`", call_log.words());
        // Cut, it would mean another directory.
        match command.chars().count() <= WORDS_CHARS_MAX {
            true => Ok(command),
            false => Err("its path is too long to be shown".to_owned()),
        }
    }

    /// Which directories are granted, as it goes on after that something is not.
    fn granted_instead(&self) -> String {
        let all: Vec<String> = self.directories.iter().map(granted).collect();
        let (shown, more) = all.split_at(all.len().min(GRANTED_SHOWN_MAX));
        match (shown, more.len()) {
            ([], _) => ", and no directory is".to_owned(),
            ([one], 0) => format!(", but {one} is"),
            (shown, 0) => format!(", but {} are", shown.join(", ")),
            (shown, more) => format!(", but {} and {more} more are", shown.join(", ")),
        }
    }
}

/// A granted directory as the plugin names it, with what may be done there.
fn granted((directory, access): &(Directory, Access)) -> String {
    format!("{}:{access}", directory.grant.guest)
}

/// What is said of a call that failed and has no directory at all, if it may well have wanted one.
pub(super) fn none_at_all(failed: &FailedCall<'_>, is_asked: bool) -> Option<Refusal> {
    let (tool, words) = (failed.tool, failed.rights.words());
    if is_asked {
        // A guest without any directory asks the host for none, so its text is all there is to go by. Some
        // name the command themselves.
        let may_want =
            !failed.message.contains("toolhost grant") && speaks_of_files(failed.message);
        return may_want.then(|| Refusal {
            what: format!("any directory, which `{tool}` asks for,"),
            why: "is not granted".to_owned(),
            repair: format!("if it needs one here, run `toolhost grant {words} --dir DIR:ro`"),
            grant: None,
        });
    }
    is_of_files(failed.message).then(|| Refusal {
        what: "any directory".to_owned(),
        why: format!(
            "is nothing that `{tool}` asks for, so none is granted, and no path leads anywhere"
        ),
        repair: format!(
            "if it is to use files of this machine, its author must add a need of kind \
             `dirs`; `toolhost grant {words} --dir DIR:ro` grants one then"
        ),
        grant: None,
    })
}

/// Tells whether an error has to do with files, in whatever words.
fn speaks_of_files(message: &str) -> bool {
    let words = ["file", "director", "folder", "path", "not granted"];
    let message_lower = message.to_lowercase();
    is_of_files(message) || words.iter().any(|word| message_lower.contains(word))
}

/// Tells whether an error is one of files, as Python, JavaScript, Rust and C say it.
fn is_of_files(message: &str) -> bool {
    let words = [
        "FileNotFoundError",
        "PermissionError",
        "NotADirectoryError",
        "ENOENT",
        "EPERM",
        "ENOTCAPABLE",
        "EBADF",
        "No such file or directory",
        "Capabilities insufficient",
        "Operation not permitted",
        "failed to find a pre-opened file descriptor",
    ];
    words.iter().any(|word| message.contains(word))
}
