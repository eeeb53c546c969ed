//! The driver of plugins in folders: what lies there is looked at, and loaded as components or scripts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::watch;

use super::files::{self, Files, Looked};
use super::plugin::{self, Shared};
use super::records::{self, RecordedBuild, Records, ToRecord};
use super::scan::{FolderScan, scan_all};
use super::{Folder, rollback};
use crate::driver::{
    Driver, Failed, Fingerprint, Found, Job, LoadedSource, Location, Recorded, RecordedTools,
    Scanned, Serving, Wanted, is_own,
};
use crate::remembered::Remembered;
use crate::watcher::Watcher;
use toolhost_core::limits::Limits;
use toolhost_core::scheduler::Slot;
use toolhost_core::tool::{Meter, SourceId};
use toolhost_policy::capability::Variables;
use toolhost_state::read::ReadScope;
use toolhost_wasm::{Candidate, LoadAs, LoadError, Loader, OnMisfit, Secrets, runner_name, script};

/// Where the system tells of no writes, a file that is older than this has no writer any more; and a
/// file that was written so shortly before it was read may be written again without looking otherwise.
const SETTLED_AFTER: Duration = Duration::from_secs(2);
/// Records that one thread reads at least.
const RECORDS_OF_ONE_MIN: usize = 50;

/// Plugins in folders.
pub struct FolderDriver {
    folders: Vec<Folder>,
    shared: Arc<Shared>,
    /// What `make` recorded beside the program.
    built: Option<PathBuf>,
    /// What is recorded is loaded as well before it is needed.
    load_all: bool,
    limits_key: String,
    seen: Mutex<SeenFolders>,
    compiling: tokio::sync::Mutex<watch::Receiver<BTreeSet<String>>>,
}

/// What was seen at the last scan.
#[derive(Default)]
struct SeenFolders {
    /// Where configured folders are, as far as that was ever known.
    real: BTreeMap<PathBuf, PathBuf>,
    /// From where the plugins of a folder are read.
    places: BTreeMap<PathBuf, ReadScope>,
    /// There was a plugin.
    has_some: bool,
    /// What files looked like when they were loaded last.
    files: Files,
}

impl FolderDriver {
    /// Plugins in these folders, the highest rank first. What is recorded of them is used, unless
    /// everything is loaded (`load_all`).
    pub fn new(
        folders: Vec<Folder>,
        loader: Arc<Loader>,
        limits: Arc<Limits>,
        remembered: &Remembered,
        load_all: bool,
    ) -> FolderDriver {
        let limits_key = records::key(&limits);
        let compiling = tokio::sync::Mutex::new(loader.compiling());
        FolderDriver {
            folders,
            shared: Arc::new(Shared { loader, limits, state: remembered.state.clone() }),
            built: remembered.built.clone(),
            load_all,
            limits_key,
            seen: Mutex::default(),
            compiling,
        }
    }

    fn seen(&self) -> MutexGuard<'_, SeenFolders> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn loader(&self) -> &Arc<Loader> {
        &self.shared.loader
    }

    /// The file of a source, as it is read.
    fn candidate(&self, found: &Found) -> Option<Candidate> {
        let (id, folder) = found.source.plugin()?;
        let place = self.seen().places.get(folder)?.clone();
        let path = found.location.file()?.to_owned();
        Some(Candidate { id: id.clone(), folder: folder.to_owned(), path, place })
    }

    /// What is recorded of a source, if its record is to be used.
    fn of_record(&self, wanted: &Wanted, recorded: RecordedBuild) -> Option<Recorded> {
        let Wanted { found, load_as, .. } = wanted;
        let RecordedBuild { build, suspect, usage, bytes } = recorded;
        let candidate = self.candidate(found)?;
        if !self.loader().needs_no_load(&candidate, &build) {
            let digest = Arc::clone(&build.facts.digest);
            return is_own(load_as, &digest).then(|| Recorded::Tools((digest, build.tools)));
        }
        let on_misfit = self.on_misfit(&candidate.path, &wanted.on_misfit);
        let loaded = self.loader().recorded(&candidate, load_as, (build, bytes), on_misfit);
        // Whatever is in the way is told when it is loaded.
        let loaded = plugin::source(loaded.ok()?, &candidate.path, &self.shared);
        Some(Recorded::Whole { loaded: Box::new(loaded), suspect, usage })
    }

    /// The bytes of a file are not those that are recorded: that is forgotten, besides.
    fn on_misfit(&self, path: &Path, told: &OnMisfit) -> OnMisfit {
        let (path, state) = (path.to_str().map(str::to_owned), self.shared.state.clone());
        let told = Arc::clone(told);
        Arc::new(move || {
            let (told, path, state) = (told(), path.clone(), state.clone());
            Box::pin(async move {
                told.await;
                let (Some(state), Some(path)) = (state, path) else { return };
                let forgotten = tokio::task::spawn_blocking(move || files::forget(&state, &path));
                if let Err(error) = forgotten.await {
                    tracing::debug!(%error, "what a file looked like is still remembered");
                }
            })
        })
    }

    /// What a file looks like whose build serves, if nobody knows that yet.
    fn looked(&self, files: &mut Files, serving: &Serving<'_>) -> Option<(String, Looked)> {
        let Some(Fingerprint::Files(stamp, of_runners)) = serving.looked else { return None };
        if serving.loaded.is_recorded() || !stamp.is_older_than(SETTLED_AFTER) {
            return None;
        }
        let path = serving.found.location.file()?.to_str()?.to_owned();
        let digest = Arc::clone(serving.loaded.digest());
        let looked = Looked { state: (stamp.clone(), of_runners.clone()), digest };
        files.note(&path, &looked).then_some((path, looked))
    }
}

impl Driver for FolderDriver {
    fn kind(&self) -> &'static str {
        "folder"
    }

    fn scan(&self, limits: &Limits) -> Scanned {
        let FolderScan { found, problems, mut unreadable, real } = scan_all(&self.folders, limits);
        let runners = self.loader().runners_stamp();
        let fingerprint = |path: &Path, is_tried: bool| {
            let stamp = match is_tried {
                true => script::stamp_within(path, limits.script_files_max.0),
                false => script::stamp_of_file(path),
            };
            let is_script = script::language(path).is_some();
            Fingerprint::Files(stamp, if is_script { runners.clone() } else { Vec::new() })
        };
        let mut seen = self.seen();
        if !seen.has_some && !self.load_all {
            seen.files = self.shared.state.as_deref().map(Files::read).unwrap_or_default();
        }
        seen.has_some = !found.is_empty();
        for folder in &mut unreadable {
            if let Some(real) = seen.real.get(folder) {
                folder.clone_from(real);
            }
        }
        seen.real.extend(real);
        let folders = seen.real.values().cloned().collect();
        let mut plugins = Vec::new();
        for file in found {
            let Candidate { id, folder, path, place } = file.candidate;
            let fingerprint = fingerprint(&path, file.problem.is_none());
            seen.places.insert(folder.clone(), place);
            let found = Found {
                source: SourceId::Plugin { id, folder },
                origin: file.origin,
                rank: file.rank,
                location: Location::File(path),
                named: Location::File(file.named),
                is_pinned: false,
                problem: file.problem,
            };
            plugins.push((found, fingerprint));
        }
        Scanned { found: plugins, problems, unreadable, folders }
    }

    fn load<'a>(
        &'a self,
        found: &'a Found,
        load_as: &'a LoadAs,
        meter: &'a Arc<Meter>,
    ) -> BoxFuture<'a, Result<LoadedSource, Failed>> {
        Box::pin(async move {
            let candidate = self.candidate(found).ok_or_else(plugin::gone)?;
            let loaded = self.loader().load_as(&candidate, load_as, meter).await;
            let loaded = loaded.map_err(|error| plugin::failed(&error))?;
            Ok(plugin::source(loaded, &candidate.path, &self.shared))
        })
    }

    fn watched(&self, found: &mut dyn Iterator<Item = &Found>) -> Vec<PathBuf> {
        let real = |folder: &Folder| folder.real().unwrap_or_else(|_| folder.path.clone());
        let scripts = found.filter_map(|found| {
            let path = found.location.file()?;
            Some(match found.problem {
                Some(_) => vec![path.to_owned()],
                None => script::folders(path, self.shared.limits.script_files_max.0),
            })
        });
        let scripts = scripts.flatten();
        self.folders.iter().map(real).chain(scripts).collect()
    }

    fn is_being_written(
        &self,
        found: &Found,
        now: &Fingerprint,
        before: Option<&Fingerprint>,
        watcher: &Watcher,
    ) -> bool {
        let Some(path) = found.location.file() else { return false };
        // As far as two looks can tell, or its age.
        let has_settled = || {
            before == Some(now)
                || now.files().is_some_and(|stamp| stamp.is_older_than(SETTLED_AFTER))
        };
        watcher.is_written(path, &|file| file == path || script::is_module(file))
            || !watcher.hears(path) && !has_settled()
    }

    fn digest<'a>(
        &'a self,
        found: &'a Found,
        load_as: &'a LoadAs,
    ) -> BoxFuture<'a, Option<Arc<str>>> {
        Box::pin(async move {
            let candidate = self.candidate(found)?;
            self.loader().digest(&candidate, load_as).await.ok()
        })
    }

    fn keeps(&self, digest: &str) -> bool {
        self.shared.builds().is_some_and(|builds| builds.find(digest).is_some())
    }

    fn load_kept<'a>(
        &'a self,
        found: &'a Found,
        load_as: &'a LoadAs,
        digest: &'a str,
    ) -> BoxFuture<'a, Result<LoadedSource, Failed>> {
        Box::pin(async move {
            let builds = self.shared.builds().ok_or_else(plugin::gone)?;
            let candidate = self.candidate(found).ok_or_else(plugin::gone)?;
            let path = builds.find(digest).ok_or_else(plugin::gone)?;
            let candidate = Candidate { path, place: ReadScope::Own, ..candidate };
            let loaded = self.loader().load_kept(&candidate, load_as, digest).await;
            if let Err(LoadError::NotKept) = &loaded
                && let Err(error) = builds.discard(digest)
            {
                tracing::warn!(%error, "a damaged build cannot be removed");
            }
            let loaded = loaded.map_err(|error| plugin::failed(&error))?;
            Ok(plugin::source(loaded, &candidate.path, &self.shared))
        })
    }

    fn go_back<'a>(
        &'a self,
        source: &'a SourceId,
        from: &'a str,
        to: &'a str,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let Some((id, folder)) = source.plugin() else {
                return Err(format!("{source} is no plugin"));
            };
            let (id, folder) = (id.clone(), folder.to_owned());
            let (from, to) = (from.to_owned(), to.to_owned());
            let state = self.shared.state.clone();
            let runners = self.loader().runner_digests().await;
            let back = tokio::task::spawn_blocking(move || {
                let state = state.ok_or_else(|| "this host remembers nothing".to_owned())?;
                let back =
                    rollback::roll_back(&state, &folder, &id, Some(&from), Some(&to), &runners);
                back.map_err(|error| error.to_string())
            });
            back.await.unwrap_or_else(|error| Err(error.to_string())).map(|_| ())
        })
    }

    fn forget(&self, found: &Found) {
        if let Some(candidate) = self.candidate(found) {
            self.loader().forget(&candidate);
        }
    }

    fn provide(&self, variables: &Variables, secrets: &Secrets) -> bool {
        self.loader().provide(variables.clone(), secrets.clone())
    }

    fn slot<'a>(
        &'a self,
        found: &'a Found,
        load_as: &'a LoadAs,
    ) -> BoxFuture<'a, Option<Slot<'a>>> {
        Box::pin(async move {
            let folder = found.source.folder()?;
            self.loader().slot(folder, load_as.standing).await.ok()
        })
    }

    /// The runner of a script is compiled: that takes as long as all else together, and is done once.
    fn waits_for_host(&self, found: &Found) -> bool {
        let language = found.location.file().and_then(script::language);
        let compiling = self.loader().compiling();
        language.is_some_and(|language| compiling.borrow().contains(&runner_name(language)))
    }

    fn progressed(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if self.compiling.lock().await.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }

    /// It is of strangers who have used up what they may take to register.
    fn has_had_its_time(&self, found: &Found, load_as: &LoadAs) -> bool {
        let folder = found.source.folder();
        folder.is_some_and(|folder| self.loader().has_registered_too_long(folder))
            && !may_be_trusted(load_as)
    }

    fn looks_like(&self, found: &Found, now: &Fingerprint) -> Option<Arc<str>> {
        self.seen().files.digest(found.location.file()?, now)
    }

    fn recorded<'a>(&'a self, wanted: Vec<Wanted>) -> BoxFuture<'a, Vec<(SourceId, Recorded)>> {
        Box::pin(async move {
            let Some(state) = self.shared.state.clone().filter(|_| !self.load_all) else {
                return Vec::new();
            };
            // On two threads, since a start waits for it.
            let of_one = wanted.len().div_ceil(2).max(RECORDS_OF_ONE_MIN);
            let digests: Vec<Arc<str>> =
                wanted.iter().map(|wanted| Arc::clone(&wanted.digest)).collect();
            let reading: Vec<_> = digests
                .chunks(of_one)
                .map(|digests| {
                    let (digests, state) = (digests.to_vec(), state.clone());
                    let limits = self.limits_key.clone();
                    tokio::task::spawn_blocking(move || {
                        records::read_all(&digests, &state, &limits)
                    })
                })
                .collect();
            let mut builds = Vec::new();
            for (reading, digests) in reading.into_iter().zip(digests.chunks(of_one)) {
                let read = reading.await;
                builds.extend(read.unwrap_or_else(|_| digests.iter().map(|_| None).collect()));
            }
            let recorded = wanted.iter().zip(builds).filter_map(|(wanted, build)| {
                Some((wanted.found.source.clone(), self.of_record(wanted, build?)?))
            });
            recorded.collect()
        })
    }

    fn listed<'a>(
        &'a self,
        found: &'a Found,
        load_as: &'a LoadAs,
        known: &'a BTreeSet<String>,
    ) -> BoxFuture<'a, Option<RecordedTools>> {
        Box::pin(async move {
            let candidate = self.candidate(found)?;
            let places = self.built.iter().chain(&self.shared.state);
            let records: Vec<Records> = places.map(|place| Records::new(place)).collect();
            let is_recorded = |digest: &&String| records.iter().any(|records| records.has(digest));
            let known: BTreeSet<&str> =
                known.iter().filter(is_recorded).map(String::as_str).collect();
            let mut is_compiled = true;
            for digest in &known {
                is_compiled &= self.loader().is_compiled(&candidate, digest).await;
            }
            if is_compiled {
                return None;
            }
            let digest = self.loader().digest(&candidate, load_as).await.ok()?;
            if !known.contains(&*digest) {
                return None;
            }
            let tools = records.iter().find_map(|of| of.tools(&digest, &self.shared.limits))?;
            Some((digest, tools))
        })
    }

    fn record(&self, serving: &[Serving<'_>], remembered: &Arc<Remembered>) -> Option<Job> {
        let state = self.shared.state.clone()?;
        let files = &mut self.seen().files;
        let looked: Vec<(String, Looked)> =
            serving.iter().filter_map(|serving| self.looked(files, serving)).collect();
        let of = |serving| ToRecord::of(serving, &self.limits_key);
        let unrecorded: Vec<ToRecord> = serving.iter().filter_map(of).collect();
        if looked.is_empty() && unrecorded.is_empty() {
            return None;
        }
        let remembered = Arc::clone(remembered);
        Some(Box::new(move || {
            records::record(&state, &remembered, &unrecorded);
            files::remember(&state, looked);
        }))
    }
}

/// Tells whether a file may be of bytes that are trusted or bundled, as far as that is known.
fn may_be_trusted(load_as: &LoadAs) -> bool {
    let LoadAs { standing, trusted, digest } = load_as;
    let is_it = |digest: &Arc<str>| trusted.contains(&**digest);
    *standing != toolhost_wasm::Standing::Untrusted
        || !trusted.is_empty() && digest.get().is_none_or(is_it)
}
