//! On whose account a load goes: what plugins may cost together that lie in a project which nobody
//! has trusted.
//!
//! Everything a load costs the host is charged here, for each file of such a folder: what is held of
//! it, compiled code, and the time for compiling and registering. A file that is loaded anew is
//! charged anew, and one that is gone no more. What belongs to this user, or was trusted, has the
//! limits of one plugin alone.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use super::candidate::Candidate;
use super::load_error::LoadError;
use toolhost_core::limits::Limits;
use toolhost_core::scheduler::SourceKey;

/// The part of `register_time_max` that is not charged...
const REGISTER_PART_FREE: u32 = 5;
/// ... and the part that is left to each plugin of a folder that has spent its own...
const REGISTER_PART_LEFT: u32 = 25;
/// ... until so many were stopped after it: the others are not tried.
const STOPPED_MAX: u32 = 25;

/// Whose a plugin is, for what its load may cost. The first goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Standing {
    /// This user's own, bundled, or of bytes that a person has trusted.
    #[default]
    User,
    /// It lies in a project that was trusted.
    Project,
    /// It lies in a project that nobody has trusted.
    Untrusted,
}

/// As whose a candidate is loaded.
#[derive(Clone, Debug, Default)]
pub struct LoadAs {
    /// By the folder in which it lies.
    pub standing: Standing,
    /// Digests, in hexadecimal, of bytes that are the user's wherever they lie: bundled, or trusted.
    pub trusted: HashSet<String>,
    /// Where the digest of its bytes stands, as soon as that is known.
    pub digest: Arc<OnceLock<Arc<str>>>,
}

/// What the files of one folder have cost.
struct FolderAccount {
    key: SourceKey,
    files: HashMap<PathBuf, Spent>,
    total: Spent,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Spent {
    bytes: u64,
    code_bytes: u64,
    compile_time: Duration,
    register_time: Duration,
    /// How many were stopped while they registered.
    stopped: u32,
}

impl Spent {
    fn add(&mut self, other: Spent) {
        self.bytes += other.bytes;
        self.code_bytes += other.code_bytes;
        self.compile_time += other.compile_time;
        self.register_time += other.register_time;
        self.stopped += other.stopped;
    }

    fn take(&mut self, other: Spent) {
        self.bytes = self.bytes.saturating_sub(other.bytes);
        self.code_bytes = self.code_bytes.saturating_sub(other.code_bytes);
        self.compile_time = self.compile_time.saturating_sub(other.compile_time);
        self.register_time = self.register_time.saturating_sub(other.register_time);
        self.stopped = self.stopped.saturating_sub(other.stopped);
    }
}

/// The accounts of all folders.
pub(super) struct Accounts {
    limits: Arc<Limits>,
    folders: Mutex<HashMap<PathBuf, FolderAccount>>,
}

/// The account of one load.
pub(super) struct Account<'a> {
    accounts: &'a Accounts,
    candidate: &'a Candidate,
    load_as: &'a LoadAs,
    standing: Standing,
}

impl Accounts {
    pub(super) fn new(limits: Arc<Limits>) -> Accounts {
        Accounts { limits, folders: Mutex::default() }
    }

    /// Opens the account of a load; what the file cost before counts no more.
    pub(super) fn open<'a>(&'a self, candidate: &'a Candidate, load_as: &'a LoadAs) -> Account<'a> {
        self.forget(candidate);
        Account { accounts: self, candidate, load_as, standing: load_as.standing }
    }

    /// A file is gone.
    pub(super) fn forget(&self, candidate: &Candidate) {
        let mut folders = self.folders();
        if let Some(folder) = folders.get_mut(&candidate.folder)
            && let Some(spent) = folder.files.remove(&candidate.path)
        {
            folder.total.take(spent);
        }
    }

    /// Tells whether the plugins of a folder that nobody has trusted have used up the time that they
    /// may take to register.
    pub(super) fn has_registered_too_long(&self, folder: &Path) -> bool {
        let folders = self.folders();
        let allowed = self.limits.untrusted_register_time_max;
        folders.get(folder).is_some_and(|folder| folder.total.register_time >= allowed)
    }

    /// In whose queue the plugins of a folder wait.
    pub(super) fn key(&self, folder: &Path) -> SourceKey {
        Accounts::of(&mut self.folders(), folder).key
    }

    fn of<'a>(
        folders: &'a mut HashMap<PathBuf, FolderAccount>,
        path: &Path,
    ) -> &'a mut FolderAccount {
        folders.entry(path.to_owned()).or_insert_with(|| FolderAccount {
            key: SourceKey::new(),
            files: HashMap::new(),
            total: Spent::default(),
        })
    }

    fn folders(&self) -> MutexGuard<'_, HashMap<PathBuf, FolderAccount>> {
        self.folders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Account<'_> {
    /// Whose the plugin is.
    pub(super) fn standing(&self) -> Standing {
        self.standing
    }

    /// In whose queue it waits.
    pub(super) fn key(&self) -> SourceKey {
        self.accounts.key(&self.candidate.folder)
    }

    /// The digest of its bytes is known; so it may be the user's after all.
    pub(super) fn learn(&mut self, digest: &Arc<str>, is_own: bool) {
        self.load_as.digest.get_or_init(|| Arc::clone(digest));
        if self.standing != Standing::User && (is_own || self.load_as.trusted.contains(&**digest)) {
            self.accounts.forget(self.candidate);
            self.standing = Standing::User;
        }
    }

    /// The digest of its bytes, as soon as that is known.
    pub(super) fn digest(&self) -> Option<&Arc<str>> {
        self.load_as.digest.get()
    }

    /// How many bytes may be read of it.
    pub(super) fn bytes_left(&self) -> Result<u64, LoadError> {
        let allowed = self.limits().untrusted_bytes_max.0;
        match self.left(|total| allowed.saturating_sub(total.bytes), u64::MAX) {
            0 => Err(self.held_too_much()),
            left => Ok(left),
        }
    }

    /// So many more bytes are held of it from now on.
    pub(super) fn hold(&self, bytes: u64) -> Result<(), LoadError> {
        let allowed = self.limits().untrusted_bytes_max.0;
        let fits = |total: &Spent| total.bytes <= allowed;
        let charged = self.charge(Spent { bytes, ..Spent::default() }, fits);
        if charged { Ok(()) } else { Err(self.held_too_much()) }
    }

    /// Why no more is held of it.
    pub(super) fn held_too_much(&self) -> LoadError {
        let allowed = self.limits().untrusted_bytes_max;
        self.spent("untrusted_bytes_max", format!("{} bytes", allowed.0))
    }

    /// Its code has so many bytes.
    pub(super) fn map(&self, code_bytes: u64) -> Result<(), LoadError> {
        let allowed = self.limits().untrusted_code_bytes_max.0;
        let fits = |total: &Spent| total.code_bytes <= allowed;
        if self.charge(Spent { code_bytes, ..Spent::default() }, fits) {
            return Ok(());
        }
        Err(self.spent("untrusted_code_bytes_max", format!("{allowed} bytes")))
    }

    /// For how long it may be compiled.
    pub(super) fn compile_time_left(&self) -> Result<Duration, LoadError> {
        let allowed = self.limits().untrusted_compile_time_max;
        let of_one = self.limits().compile_cpu_time_max;
        match self.left(|total| allowed.saturating_sub(total.compile_time), of_one) {
            Duration::ZERO => Err(self.compiled_too_long()),
            left => Ok(left.min(of_one)),
        }
    }

    /// It was compiled for so long.
    pub(super) fn compiled(&self, compile_time: Duration) {
        self.charge(Spent { compile_time, ..Spent::default() }, |_| true);
    }

    /// Why it was not compiled any longer.
    pub(super) fn compiled_too_long(&self) -> LoadError {
        let allowed = self.limits().untrusted_compile_time_max;
        self.spent("untrusted_compile_time_max", humantime::format_duration(allowed).to_string())
    }

    /// How long it may register.
    pub(super) fn register_time_left(&self) -> Result<Duration, LoadError> {
        let of_one = self.limits().register_time_max;
        let allowed = self.limits().untrusted_register_time_max;
        let left = |total: Spent| match allowed.saturating_sub(total.register_time) {
            Duration::ZERO if total.stopped >= STOPPED_MAX => Duration::ZERO,
            Duration::ZERO => of_one / REGISTER_PART_LEFT,
            left => of_one / REGISTER_PART_FREE + left,
        };
        match self.left(left, of_one).min(of_one) {
            Duration::ZERO => {
                let allowed = humantime::format_duration(allowed).to_string();
                Err(LoadError::NotTried { stopped: STOPPED_MAX, allowed })
            }
            left => Ok(left),
        }
    }

    /// It registered for so long; then it was done, or was stopped.
    pub(super) fn registered(&self, took: Duration, is_stopped: bool) {
        let free = self.limits().register_time_max / REGISTER_PART_FREE;
        let register_time = took.saturating_sub(free);
        let stopped = u32::from(is_stopped);
        self.charge(Spent { register_time, stopped, ..Spent::default() }, |_| true);
    }

    /// Why it was stopped while it registered, after the time it was allowed.
    pub(super) fn registered_too_long(&self, allowed: Duration) -> LoadError {
        let shown = |time| humantime::format_duration(time).to_string();
        let of_one = self.limits().register_time_max;
        if allowed >= of_one {
            return LoadError::RegisterTime(shown(of_one));
        }
        self.spent("untrusted_register_time_max", shown(self.limits().untrusted_register_time_max))
    }

    fn limits(&self) -> &Limits {
        &self.accounts.limits
    }

    /// What is left of the folder's; `unbounded` if that pays nothing.
    fn left<T>(&self, left: impl FnOnce(Spent) -> T, unbounded: T) -> T {
        if self.standing != Standing::Untrusted {
            return unbounded;
        }
        let mut folders = self.accounts.folders();
        left(Accounts::of(&mut folders, &self.candidate.folder).total)
    }

    /// Charges the folder, if it has to pay, and what it has spent then is allowed. Tells whether it
    /// is.
    fn charge(&self, more: Spent, is_allowed: impl FnOnce(&Spent) -> bool) -> bool {
        if self.standing != Standing::Untrusted {
            return true;
        }
        let mut folders = self.accounts.folders();
        let folder = Accounts::of(&mut folders, &self.candidate.folder);
        let mut total = folder.total;
        total.add(more);
        let is_allowed = is_allowed(&total);
        if is_allowed {
            folder.total = total;
            folder.files.entry(self.candidate.path.clone()).or_default().add(more);
        }
        is_allowed
    }

    fn spent(&self, limit: &'static str, allowed: String) -> LoadError {
        LoadError::FolderSpent { limit, allowed }
    }
}
