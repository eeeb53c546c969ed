//! Tells when files have changed, once whoever writes them has finished.
//!
//! Where the system tells of changes, they are heard at once; an event says only that something
//! changed, and whoever hears it looks for itself. Since events get lost, and some file systems
//! have none, there is a look every few seconds as well. What this module does not do: read files.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use notify::event::{AccessKind, AccessMode, CreateKind, ModifyKind};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;

/// When nothing was heard for so long, the writer has finished.
#[cfg(target_os = "linux")]
const QUIET: Duration = Duration::from_millis(5);
/// Elsewhere nobody tells when a file is closed.
#[cfg(not(target_os = "linux"))]
const QUIET: Duration = Duration::from_millis(100);
/// It is told after this time though more and more is heard.
const QUIET_WAIT_MAX: Duration = Duration::from_millis(100);
/// A file that was made counts as being written for so long, unless more is heard of it: it may be
/// a link, which nobody closes.
const MADE: Duration = Duration::from_millis(50);
/// A file that was written to counts as being written for so long, unless it is closed: it may be
/// a mapped one.
const WRITTEN: Duration = Duration::from_secs(5);
/// Files that may be known as being written; of more, all are looked at.
const WRITING_MAX: usize = 10_000;
/// How often there is a look where the system tells of changes.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// And where it does not.
const LOOK_EVERY_WITHOUT_EVENTS: Duration = Duration::from_millis(500);

/// Watches files and folders.
pub struct Watcher {
    heard: Arc<Heard>,
    /// None if the system has no more, or no events at all.
    events: Option<RecommendedWatcher>,
    /// Folders with events, by path; with what tells one folder of this name from the next, and
    /// since when.
    watched: BTreeMap<PathBuf, ((u64, u64), Instant)>,
}

#[derive(Default)]
struct Heard {
    state: Mutex<WatcherState>,
    changed: Notify,
}

#[derive(Default)]
struct WatcherState {
    /// When something was heard first and last, since it was told.
    since: Option<(Instant, Instant)>,
    /// Files being written, each with the time when it no longer counts.
    writing: HashMap<PathBuf, Instant>,
    /// What is of concern: these, and what lies in them.
    concern: BTreeSet<PathBuf>,
    /// What was removed or renamed. The system has forgotten it, and the next of its name may have
    /// the same number.
    gone: BTreeSet<PathBuf>,
}

impl Watcher {
    /// Watches nothing yet.
    pub fn start() -> Watcher {
        let heard = Arc::new(Heard::default());
        let hearing = Arc::clone(&heard);
        let events = notify::recommended_watcher(move |event: notify::Result<Event>| {
            hearing.hear(event);
        });
        let events = events.inspect_err(|error| {
            tracing::warn!(%error, "no events of files; they are looked at every {LOOK_EVERY_WITHOUT_EVENTS:?}");
        });
        Watcher { heard, events: events.ok(), watched: BTreeMap::new() }
    }

    /// Watches these from now on, and nothing else: folders with what lies right in them, and
    /// files. What is not there is waited for.
    pub fn watch(&mut self, paths: &BTreeSet<PathBuf>) {
        let gone = {
            let mut state = self.heard.state();
            state.concern.clone_from(paths);
            std::mem::take(&mut state.gone)
        };
        let Some(events) = &mut self.events else { return };
        // A file or link is seen from its folder, and what is not there from where it would be. Links are
        // not followed here: they may lead out of a project.
        let folders = paths.iter().filter_map(|path| {
            path.ancestors().find_map(|folder| {
                let metadata = std::fs::symlink_metadata(folder).ok();
                let metadata = metadata.filter(std::fs::Metadata::is_dir)?;
                Some((folder.to_owned(), (metadata.dev(), metadata.ino())))
            })
        });
        let wanted: BTreeMap<PathBuf, (u64, u64)> = folders.collect();
        self.watched.retain(|folder, known| {
            let stays = wanted.get(folder) == Some(&known.0) && !gone.contains(folder);
            if !stays {
                // It fails where the folder is gone, and the system has forgotten it by itself.
                let _ = events.unwatch(folder);
            }
            stays
        });
        for (folder, identity) in wanted {
            if self.watched.contains_key(&folder) {
                continue;
            }
            match events.watch(&folder, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    self.watched.insert(folder, (identity, Instant::now()));
                    // What happened before is not told.
                    self.heard.something();
                }
                Err(error) => {
                    tracing::debug!(%error, folder = %folder.display(), "no events; it is looked at now and then");
                }
            }
        }
    }

    /// Waits until something has changed and nobody writes there any more, or it is time for a
    /// look.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn changed(&self) {
        let every = if self.events.is_some() { LOOK_EVERY } else { LOOK_EVERY_WITHOUT_EVENTS };
        let look = tokio::time::sleep(every);
        tokio::pin!(look);
        loop {
            let now = Instant::now();
            let wake = self.heard.state().next(now);
            if wake.is_some_and(|due| due <= now) {
                return self.heard.state().told(now);
            }
            let due = async {
                match wake {
                    Some(due) => tokio::time::sleep_until(due.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = &mut look => return,
                () = self.heard.changed.notified() => {}
                () = due => {}
            }
        }
    }

    /// Tells whether a file, or one below a folder, is being written; if it `counts`.
    pub fn is_written(&self, path: &Path, counts: &dyn Fn(&Path) -> bool) -> bool {
        let now = Instant::now();
        let state = self.heard.state();
        state
            .writing
            .iter()
            .any(|(file, until)| *until > now && file.starts_with(path) && counts(file))
    }

    /// Tells whether whoever writes a file, or one right in a folder, is heard of: not behind a
    /// link, not where there are no events, and not of what was written before.
    pub fn hears(&self, path: &Path) -> bool {
        let Ok(metadata) = std::fs::symlink_metadata(path) else { return false };
        let folder = if metadata.is_dir() { Some(path) } else { path.parent() };
        let since = folder.and_then(|folder| self.watched.get(folder));
        !metadata.is_symlink() && since.is_some_and(|(_, since)| since.elapsed() > QUIET_WAIT_MAX)
    }
}

impl Heard {
    fn state(&self) -> MutexGuard<'_, WatcherState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn something(&self) {
        self.state().heard(Instant::now());
        self.changed.notify_one();
    }

    /// Takes in an event. It runs on the thread of the system's events.
    fn hear(&self, event: notify::Result<Event>) {
        // Errors are of events that were lost.
        let Ok(event) = event else { return self.something() };
        let is_gone =
            matches!(event.kind, EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_)));
        let writes = match event.kind {
            EventKind::Access(AccessKind::Close(AccessMode::Write)) => None,
            // This program's own reading.
            EventKind::Access(_) => return,
            EventKind::Create(CreateKind::File) => Some(MADE),
            EventKind::Modify(ModifyKind::Data(_)) => Some(WRITTEN),
            _ => None,
        };
        let now = Instant::now();
        let mut state = self.state();
        if event.paths.is_empty() {
            state.heard(now);
        }
        for path in event.paths {
            if !state.concerns(&path) {
                continue;
            }
            if is_gone && state.gone.len() < WRITING_MAX {
                state.gone.insert(path.clone());
            }
            match writes {
                Some(time) if state.writing.len() < WRITING_MAX => {
                    state.writing.insert(path, now + time);
                }
                Some(_) => state.writing.clear(),
                None => {
                    state.writing.remove(&path);
                }
            }
            state.heard(now);
        }
        drop(state);
        self.changed.notify_one();
    }
}

impl WatcherState {
    fn concerns(&self, path: &Path) -> bool {
        self.concern.iter().any(|of| path.starts_with(of) || of.starts_with(path))
    }

    fn heard(&mut self, now: Instant) {
        self.since = Some((self.since.map_or(now, |(first, _)| first), now));
    }

    /// When something is to be told next, if there is anything.
    fn next(&self, now: Instant) -> Option<Instant> {
        let heard = self.since.map(|(first, last)| (last + QUIET).min(first + QUIET_WAIT_MAX));
        // Who never closes a file has finished when the time is over.
        let closed = self.writing.values().copied().min();
        let closed = closed.map(|until| until.max(now));
        heard.into_iter().chain(closed).min()
    }

    fn told(&mut self, now: Instant) {
        self.since = None;
        self.writing.retain(|_, until| *until > now);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::Write;

    use super::*;

    const SOON: Duration = Duration::from_secs(1);

    fn watching(paths: &[&Path]) -> Watcher {
        let mut watcher = Watcher::start();
        watcher.watch(&paths.iter().map(|path| path.to_path_buf()).collect());
        watcher
    }

    /// Waits for the next change, and tells whether it came from an event: a mere look takes
    /// longer.
    async fn hears(watcher: &Watcher) -> bool {
        tokio::time::timeout(SOON, watcher.changed()).await.is_ok()
    }

    #[tokio::test]
    async fn a_file_is_written_until_it_is_closed() {
        let folder = tempfile::tempdir().expect("a folder");
        let watcher = watching(&[folder.path()]);
        assert!(hears(&watcher).await, "a folder is looked at when it is watched first");
        let path = folder.path().join("a.wasm");
        let mut file = File::create(&path).expect("made");
        file.write_all(b"half").expect("written");
        file.flush().expect("written");
        assert!(hears(&watcher).await);
        assert!(
            watcher.is_written(&path, &|_| true) && watcher.is_written(folder.path(), &|_| true)
        );
        drop(file);
        while watcher.is_written(&path, &|_| true) {
            assert!(hears(&watcher).await);
        }
        // Renamed over it: whole at once.
        let other = folder.path().join("b.part");
        fs::write(&other, "whole").expect("written");
        fs::rename(&other, &path).expect("renamed");
        assert!(hears(&watcher).await);
        assert!(!watcher.is_written(&path, &|_| true));
    }

    #[tokio::test]
    async fn what_is_not_there_is_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let plugins = folder.path().join("deep/plugins");
        let paths: BTreeSet<PathBuf> = [plugins.clone()].into();
        let mut watcher = watching(&[&plugins]);
        assert!(hears(&watcher).await);
        // Others of the same folder are of no concern.
        fs::write(folder.path().join("other"), "").expect("written");
        fs::create_dir_all(&plugins).expect("made");
        assert!(hears(&watcher).await);
        watcher.watch(&paths);
        assert!(hears(&watcher).await);
        fs::remove_dir(&plugins).expect("removed");
        assert!(hears(&watcher).await);
        fs::create_dir(&plugins).expect("made");
        watcher.watch(&paths);
        assert!(hears(&watcher).await);
        fs::write(plugins.join("a.wasm"), "").expect("written");
        assert!(hears(&watcher).await);
    }

    #[tokio::test]
    async fn a_storm_of_events_is_told_as_few() {
        let folder = tempfile::tempdir().expect("a folder");
        let watcher = watching(&[folder.path()]);
        let path = folder.path().join("a.wasm");
        for round in 0..2_000 {
            fs::write(&path, [round as u8]).expect("written");
        }
        let mut told = 0;
        while hears(&watcher).await {
            told += 1;
        }
        assert!((1..100).contains(&told), "{told}");
        assert!(!watcher.is_written(&path, &|_| true));
    }
}
