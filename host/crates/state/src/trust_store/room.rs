//! How much is remembered, and of whom: one folder takes no place of another.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{Known, Owner};

/// Plugins remembered; then those make way that nobody trusted: such as are gone, and then the oldest
/// of the folder with the most.
pub(super) const PLUGINS_MAX: usize = 4_096;
/// Plugins remembered of one folder that nobody trusted; then no more are.
const PLUGINS_OF_FOLDER_MAX: usize = 2_048;
/// Names remembered with their owners; then those make way of plugins that are gone, and then some of
/// the folder with the most.
const NAMES_MAX: usize = 65_536;
/// Names remembered that only plugins of one folder have; then no more are.
const NAMES_OF_FOLDER_MAX: usize = 8_192;
/// Names that make way at once.
const NAMES_THAT_GO: usize = 1_024;
/// What is remembered of what one build declares; of a larger one, only the digest.
const OUTLINE_BYTES_MAX: usize = 64 << 10;
/// The same of all builds of one folder that nobody trusted.
const OUTLINES_OF_FOLDER_BYTES_MAX: usize = 4 << 20;
/// The same of all folders.
const OUTLINES_BYTES_MAX: usize = 32 << 20;

/// How many bytes are remembered of what a build of this plugin declares.
pub(super) fn for_outline(plugins: &[Known], folder: &Path, id: &str) -> usize {
    let is_it = |known: &Known| known.id == id && known.folder == folder;
    if plugins.iter().any(|known| known.trusted.is_some() && is_it(known)) {
        return OUTLINE_BYTES_MAX;
    }
    let (mut of_folder, mut of_all) = (0, 0);
    for known in plugins.iter().filter(|known| known.trusted.is_none() && !is_it(known)) {
        let bytes = known.build.as_ref().map_or(0, |build| build.outline.bytes());
        of_all += bytes;
        if known.folder == folder {
            of_folder += bytes;
        }
    }
    let left = OUTLINES_OF_FOLDER_BYTES_MAX.saturating_sub(of_folder);
    left.min(OUTLINES_BYTES_MAX.saturating_sub(of_all)).min(OUTLINE_BYTES_MAX)
}

/// Tells whether there is room for one more plugin of this folder that nobody trusted.
pub(super) fn for_plugin(plugins: &[Known], folder: &Path) -> bool {
    let is_of_it = |known: &&Known| known.trusted.is_none() && known.folder == folder;
    plugins.iter().filter(is_of_it).count() < PLUGINS_OF_FOLDER_MAX
}

/// Forgets plugins that nobody trusted and whose folders are gone, if there are too many; then the
/// oldest that nobody trusted, of the folder with the most of these.
pub(super) fn make_way(plugins: &mut Vec<Known>) {
    if plugins.len() < PLUGINS_MAX {
        return;
    }
    plugins.retain(|known| known.trusted.is_some() || known.folder.is_dir());
    if plugins.len() < PLUGINS_MAX {
        return;
    }
    let untrusted = plugins.iter().filter(|known| known.trusted.is_none());
    let most = with_the_most(untrusted.map(|known| &*known.folder));
    let is_oldest = |known: &Known| known.trusted.is_none() && Some(&*known.folder) == most;
    let oldest = plugins.iter().position(is_oldest);
    if let Some(oldest) = oldest {
        plugins.remove(oldest);
    }
}

/// How many names only plugins of one folder have had, counted once while many are remembered.
#[derive(Debug, Default)]
pub struct NamesOfFolders(BTreeMap<PathBuf, usize>);

impl NamesOfFolders {
    /// Tells whether there is room for a name of a plugin of this folder, and counts it; others may
    /// make way for it.
    pub(super) fn have_room(
        &mut self,
        names: &mut BTreeMap<String, Vec<Owner>>,
        name: &str,
        folder: &Path,
    ) -> bool {
        if names.contains_key(name) {
            // It may belong to several folders from now on, which only leaves more room.
            return true;
        }
        // Most of the time there are few of all.
        if names.len() >= NAMES_OF_FOLDER_MAX && self.of(names, folder) >= NAMES_OF_FOLDER_MAX {
            return false;
        }
        if names.len() >= NAMES_MAX {
            names.retain(|_, owners| owners.iter().any(|owner| owner.folder.is_dir()));
            self.0.clear();
        }
        if names.len() >= NAMES_MAX {
            let first = names.values().filter_map(|owners| owners.first());
            let most = with_the_most(first.map(|owner| &*owner.folder)).map(Path::to_owned);
            let mut left = NAMES_THAT_GO;
            names.retain(|_, owners| {
                let is_of_it = |owner: &Owner| Some(&owner.folder) == most.as_ref();
                let goes = left > 0 && owners.iter().all(is_of_it);
                left -= usize::from(goes);
                !goes
            });
        }
        if names.len() >= NAMES_MAX {
            return false;
        }
        if let Some(count) = self.0.get_mut(folder) {
            *count += 1;
        }
        true
    }

    fn of(&mut self, names: &BTreeMap<String, Vec<Owner>>, folder: &Path) -> usize {
        if let Some(count) = self.0.get(folder) {
            return *count;
        }
        let count = names_of(names, folder);
        self.0.insert(folder.to_owned(), count);
        count
    }
}

/// Names that only plugins of this folder have had.
fn names_of(names: &BTreeMap<String, Vec<Owner>>, folder: &Path) -> usize {
    let is_only = |owners: &&Vec<Owner>| owners.iter().all(|owner| owner.folder == folder);
    names.values().filter(is_only).count()
}

fn with_the_most<'a>(folders: impl Iterator<Item = &'a Path>) -> Option<&'a Path> {
    let mut counts: BTreeMap<&Path, usize> = BTreeMap::new();
    for folder in folders {
        *counts.entry(folder).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(folder, _)| folder)
}

#[cfg(test)]
mod tests {
    use super::super::Lock;
    use super::*;
    use toolhost_policy::diff::Outline;

    #[test]
    fn one_folder_takes_no_place_of_another() {
        let mut lock = Lock::default();
        let here = tempfile::tempdir().expect("a folder");
        lock.plugin_mut(here.path(), "mine");
        let names = &mut NamesOfFolders::default();
        lock.own(names, "mine", Owner { folder: here.path().to_owned(), id: "mine".to_owned() });
        let others: Vec<_> = (0..9).map(|_| tempfile::tempdir().expect("a folder")).collect();
        for folder in others.iter().map(|folder| folder.path()) {
            for number in 0..PLUGINS_OF_FOLDER_MAX {
                assert!(lock.has_room(folder), "{number}");
                lock.plugin_mut(folder, &number.to_string());
                if number == 700 {
                    break;
                }
            }
        }
        assert!(lock.plugins.len() <= PLUGINS_MAX && lock.plugin(here.path(), "mine").is_some());
        let stranger = others[0].path();
        for number in 0..2 * NAMES_OF_FOLDER_MAX {
            let owner = Owner { folder: stranger.to_owned(), id: "a".to_owned() };
            lock.own(names, &format!("t{number}"), owner);
        }
        assert_eq!(names_of(&lock.names, stranger), NAMES_OF_FOLDER_MAX);
        assert_eq!(lock.names["mine"][0].id, "mine");
    }

    #[test]
    fn what_builds_declare_is_remembered_as_far_as_there_is_room() {
        let outline = |names: usize| Outline {
            tools: (0..names).map(|name| (format!("t{name:060}"), "x".repeat(64))).collect(),
            ..Outline::default()
        };
        let (folder, mut lock) = (Path::new("/a"), Lock::default());
        assert!(!lock.build((folder, "a"), "1", &outline(256)).outline.is_cut);
        assert!(lock.build((folder, "a"), "1", &outline(1_000)).outline.is_cut);
        for number in 0..1_000 {
            let build = lock.build((folder, &number.to_string()), "1", &outline(256));
            lock.plugin_mut(folder, &number.to_string()).build = Some(build);
        }
        let text = serde_json::to_string(&lock).expect("JSON");
        assert!(text.len() < 6 << 20, "{}", text.len());
        // Other folders have their own room.
        assert!(!lock.build((Path::new("/b"), "a"), "1", &outline(256)).outline.is_cut);
    }
}
