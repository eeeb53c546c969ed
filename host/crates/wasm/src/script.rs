//! Scripts: what in a plugins folder is one, and its text, read once.
//!
//! A script is a file, or a folder with a main file named `plugin` and more modules beside and below
//! it. Hidden files, tests, what package managers leave and folders of plugins are no part of it; links
//! within a folder are not followed. Nothing is run here.

mod error;
mod language;
mod packed;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use toolhost_core::limits::Limits;
use toolhost_state::read::{FileProblem, ReadScope};

pub use error::ScriptError;
pub use language::Language;
pub use packed::{runner_of, unpack};

/// The stem of the main file of a folder.
const MAIN: &str = "plugin";
/// How deep modules may lie.
const DEPTH_MAX: usize = 8;
/// Entries of a script's folders that are looked at.
const ENTRIES_MAX: usize = 10_000;
/// Entries of all scripts' folders in one plugins folder that are looked at, for each of
/// `plugin_files_max`.
const ENTRIES_PER_PLUGIN_FILE: usize = 10;
/// Modules of a script that are looked at where no limits are known: as many as these may allow.
pub const MODULES_MAX: usize = 5_000;
/// Folders that hold no modules of a script; `plugins` is where `toolhost dev .` puts a copy of it.
const OTHER_FOLDERS: [&str; 6] =
    ["__pycache__", "node_modules", "plugins", "test", "tests", "target"];
/// Entries of a folder that are looked at to see whether it is meant as a script.
const LOOKED_AT_MAX: usize = 1_000;

/// Returns the language of what lies there, if it is a script: a file by its name, a folder by
/// its main file.
pub fn language(path: &Path) -> Option<Language> {
    let name = path.file_name()?.to_str()?;
    if is_folder(path) {
        return (!name.starts_with('.'))
            .then(|| mains(path).into_iter().next())
            .flatten()
            .map(|main| main.1);
    }
    // A module that is no plugin of its own begins so in Python.
    Language::of(name).filter(|_| !name.starts_with('_'))
}

/// The same whatever its name: a file that is named to be looked at need be no plugin where it lies.
pub fn written_in(path: &Path) -> Option<Language> {
    match is_folder(path) {
        true => language(path),
        false => Language::of_extension(path.extension()?.to_str()?),
    }
}

/// Tells whether there is a folder that may be a script; one that is called a component is none.
fn is_folder(path: &Path) -> bool {
    path.extension() != Some(OsStr::new("wasm")) && path.is_dir()
}

/// What may still be looked at in the folders that lie in one plugins folder. A stranger may have filled
/// them, each as far as a script's own bounds allow.
#[derive(Debug)]
pub struct EntriesLeft {
    left: usize,
    allowed: usize,
}

impl EntriesLeft {
    /// For one look at a plugins folder.
    pub fn new(limits: &Limits) -> EntriesLeft {
        let allowed = limits.plugin_files_max.0.saturating_mul(ENTRIES_PER_PLUGIN_FILE);
        EntriesLeft { left: allowed, allowed }
    }

    fn take(&mut self) -> Result<(), ScriptError> {
        self.left = self.left.checked_sub(1).ok_or(ScriptError::TooCrowded(self.allowed))?;
        Ok(())
    }

    /// Counts what of a script is looked at, if it is a folder. What else is wrong with it is said when
    /// it is read.
    ///
    /// # Errors
    /// If that, with what was counted before, is more than is looked at.
    pub fn count(&mut self, script: &Path, limits: &Limits) -> Result<(), ScriptError> {
        if !script.is_dir() {
            return Ok(());
        }
        match modules(script, limits.script_files_max.0, self) {
            Err(error @ ScriptError::TooCrowded(_)) => Err(error),
            _ => Ok(()),
        }
    }
}

/// Why something in a plugins folder, which is no script, may have been meant as one.
pub fn ignored(path: &Path, entries_left: &mut EntriesLeft) -> Option<String> {
    let name = path.file_name()?.to_string_lossy();
    if name.starts_with('.') || OTHER_FOLDERS.contains(&&*name) {
        return None;
    }
    let is_folder = path.is_dir();
    if path.file_name()?.to_str().is_none() && (is_folder || Language::of(&name).is_some()) {
        return Some("its name is not UTF-8; rename it".to_owned());
    }
    if !is_folder {
        return None;
    }
    let unreadable = |error| format!("the folder cannot be read: {error}; check its permissions");
    let entries = match fs::read_dir(path).map_err(unreadable) {
        Ok(entries) => entries,
        Err(why) => return Some(why),
    };
    let mut entries = entries.flatten().take(LOOKED_AT_MAX);
    let mut entries = entries.by_ref().take_while(|_| entries_left.take().is_ok());
    // A link is not followed: it may lead out of the project.
    let is_file = |kind: fs::FileType| !kind.is_dir();
    entries.any(|entry| is_module(&entry.path()) && entry.file_type().is_ok_and(is_file)).then(|| {
        format!(
            "a folder without a main file; name the one that has the tools {MAIN}.py, {MAIN}.js, {MAIN}.mjs or {MAIN}.ts"
        )
    })
}

/// The stem of a script's name.
pub fn stem(path: &Path) -> String {
    let stem = if path.is_dir() { path.file_name() } else { path.file_stem() };
    stem.unwrap_or_default().to_string_lossy().into_owned()
}

/// The folder of a script, where this is the main file of one; else the path itself. A folder `plugins`
/// is no script.
pub fn whole(path: &Path) -> PathBuf {
    let is_main = path.file_stem().is_some_and(|stem| stem == MAIN);
    match path.parent() {
        Some(folder) if is_main && path.is_file() && language(path).is_some() => {
            let here = folder == Path::new("");
            // By its name, which is the script's.
            let real = here.then(|| fs::canonicalize(".").ok()).flatten();
            let folder = real.unwrap_or_else(|| folder.to_owned());
            if folder.ends_with("plugins") { path.to_owned() } else { folder }
        }
        _ => path.to_owned(),
    }
}

/// The main file of a script.
///
/// # Errors
/// If a folder has several that could be it, or a link in its place.
pub fn main_file(path: &Path) -> Result<PathBuf, ScriptError> {
    if !path.is_dir() {
        return Ok(path.to_owned());
    }
    let mut mains = mains(path);
    if mains.len() > 1 {
        let names: Vec<String> = mains.drain(..).map(|(name, _)| format!("`{name}`")).collect();
        return Err(ScriptError::Mains(names.join(" and ")));
    }
    let Some((name, _)) = mains.pop() else { return Ok(path.to_owned()) };
    let main = path.join(&name);
    match main.is_symlink() {
        true => Err(ScriptError::Link(name)),
        false => Ok(main),
    }
}

/// The main files of a folder, and links that stand in place of one.
fn mains(folder: &Path) -> Vec<(String, Language)> {
    let names = ["py", "js", "mjs", "ts"].map(|extension| format!("{MAIN}.{extension}"));
    let there = |name: String| {
        let language = Language::of(&name)?;
        let kind = fs::symlink_metadata(folder.join(&name)).ok()?.file_type();
        (kind.is_file() || kind.is_symlink()).then_some((name, language))
    };
    names.into_iter().filter_map(there).collect()
}

/// One file of a script.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Module {
    /// Its path below the script, with `/`.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// The text of a script.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// Always 1: the version of this shape.
    #[serde(rename = "toolhost-script")]
    version: u8,
    /// What it is written in.
    pub language: Language,
    /// SHA-256 of the runner that runs it, in hexadecimal.
    pub runner: String,
    /// Its modules, the main one first.
    pub modules: Vec<Module>,
}

/// A module that has not been read yet.
struct FoundModule {
    name: String,
    path: PathBuf,
}

/// Tells one state of a script's files from another: their names, and what the file system knows
/// of each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp(Vec<(String, [i64; 6])>);

/// What the file system knows of a plugin's file, or of all files of a script; the same as long
/// as nothing was written. Empty where nothing can be read.
pub fn stamp(path: &Path) -> Stamp {
    stamp_within(path, MODULES_MAX)
}

/// The same for a script of at most so many modules; of one with more, what the file system knows of its
/// folder.
pub fn stamp_within(path: &Path, files_max: usize) -> Stamp {
    if !path.is_dir() {
        return stamp_of_file(path);
    }
    let files = match own_modules(path, files_max) {
        Ok(files) => files,
        Err(ScriptError::TooMany(_) | ScriptError::TooDeep) => return stamp_of_file(path),
        Err(_) => Vec::new(),
    };
    let files = files.into_iter().filter_map(|found| Some((found.name, known(&found.path)?)));
    // Main files of other languages: with two of them the folder is no script. A link is not followed.
    let others = mains(path).into_iter().skip(1);
    let others = others.filter_map(|(name, _)| {
        let metadata = fs::symlink_metadata(path.join(&name)).ok()?;
        Some((name, known_of(&metadata)))
    });
    Stamp(files.chain(others).collect())
}

/// What the file system knows of a file or folder itself, without what is in it.
pub fn stamp_of_file(path: &Path) -> Stamp {
    Stamp(known(path).map(|known| (String::new(), known)).into_iter().collect())
}

/// The same of a link itself, wherever it leads.
pub fn stamp_of_link(path: &Path) -> Stamp {
    let metadata = fs::symlink_metadata(path).ok();
    Stamp(metadata.map(|metadata| (String::new(), known_of(&metadata))).into_iter().collect())
}

fn known(path: &Path) -> Option<[i64; 6]> {
    fs::metadata(path).ok().map(|metadata| known_of(&metadata))
}

fn known_of(metadata: &fs::Metadata) -> [i64; 6] {
    [
        metadata.dev().cast_signed(),
        metadata.ino().cast_signed(),
        metadata.len().cast_signed(),
        metadata.mtime(),
        metadata.mtime_nsec(),
        metadata.ctime_nsec() ^ metadata.ctime(),
    ]
}

/// Tells whether a folder of this name within the folder of a script holds no modules of it.
pub fn is_other_folder(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| name.starts_with('.') || OTHER_FOLDERS.contains(&name))
}

/// Tells whether a file within the folder of a script may be a module of it, by its name.
pub fn is_module(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    name.to_str().is_some_and(|name| Language::of(name).is_some())
}

/// The folders in which the modules of a script lie; none if it is a file. Of one with more modules than
/// that, its own.
pub fn folders(path: &Path, files_max: usize) -> Vec<PathBuf> {
    if !path.is_dir() {
        return Vec::new();
    }
    let modules = own_modules(path, files_max).unwrap_or_default();
    let mut folders: Vec<PathBuf> =
        modules.iter().filter_map(|found| Some(found.path.parent()?.to_owned())).collect();
    folders.push(path.to_owned());
    folders.sort();
    folders.dedup();
    folders
}

impl Stamp {
    /// Tells whether none of the files was written since so long.
    pub fn is_older_than(&self, age: Duration) -> bool {
        let limit = SystemTime::now().checked_sub(age);
        let limit = limit.and_then(|limit| limit.duration_since(SystemTime::UNIX_EPOCH).ok());
        let Some(limit) = limit else { return false };
        self.0.iter().all(|(_, [.., seconds, _, _])| {
            u64::try_from(*seconds).is_ok_and(|seconds| seconds < limit.as_secs())
        })
    }
}

impl Script {
    /// Reads the script that lies at `path` in its place, for a runner with this digest.
    ///
    /// # Errors
    /// If it is none, or too large.
    pub fn read(
        place: &ReadScope,
        path: &Path,
        runner: &str,
        limits: &Limits,
    ) -> Result<Script, ScriptError> {
        place.real(path).map_err(|error| refused(&shown(path), error.problem, limits))?;
        let Some(language) = written_in(path) else {
            let reason = "there is no script".to_owned();
            return Err(ScriptError::Unreadable { path: shown(path), reason });
        };
        let found = if path.is_dir() {
            main_file(path)?;
            own_modules(path, limits.script_files_max.0)?
        } else {
            vec![FoundModule { name: shown(path), path: path.to_owned() }]
        };
        let (mut left, mut modules) = (limits.script_bytes_max.0, Vec::new());
        for FoundModule { name, path } in found {
            let text = place.text(&path, left);
            let text = text.map_err(|error| refused(&name, error.problem, limits))?;
            left -= text.len() as u64;
            modules.push(Module { path: name, text });
        }
        let runner = runner.to_owned();
        Ok(Script { version: 1, language, runner, modules })
    }

    /// The script as bytes, which [`unpack`] reads; equal scripts for one runner have equal ones.
    pub fn pack(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts and numbers can always be written")
    }

    /// Bytes of all its text.
    pub fn bytes(&self) -> u64 {
        self.modules.iter().map(|module| module.text.len() as u64).sum()
    }
}

fn shown(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The modules of a folder alone.
fn own_modules(folder: &Path, files_max: usize) -> Result<Vec<FoundModule>, ScriptError> {
    modules(folder, files_max, &mut EntriesLeft { left: usize::MAX, allowed: usize::MAX })
}

/// The modules of a folder, the main one first and the others by name. It looks no further than these
/// bounds.
fn modules(
    folder: &Path,
    files_max: usize,
    of_all: &mut EntriesLeft,
) -> Result<Vec<FoundModule>, ScriptError> {
    let Some((main, language)) = mains(folder).into_iter().next() else { return Ok(Vec::new()) };
    let (mut found, mut entries_left) = (Vec::new(), ENTRIES_MAX);
    let mut folders = vec![(folder.to_owned(), String::new(), 0)];
    while let Some((folder, above, depth)) = folders.pop() {
        let unreadable = |error: std::io::Error| ScriptError::Unreadable {
            path: if above.is_empty() { shown(&folder) } else { above.clone() },
            reason: error.to_string(),
        };
        for entry in fs::read_dir(&folder).map_err(unreadable)? {
            of_all.take()?;
            entries_left = entries_left.checked_sub(1).ok_or(ScriptError::TooDeep)?;
            let entry = entry.map_err(unreadable)?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let kind = entry.file_type().map_err(unreadable)?;
            let below = format!("{above}{name}");
            if kind.is_dir() && !is_other_folder(name.as_ref()) {
                if depth == DEPTH_MAX {
                    return Err(ScriptError::TooDeep);
                }
                folders.push((entry.path(), format!("{below}/"), depth + 1));
            } else if kind.is_file() && Language::of(&name) == Some(language) {
                if found.len() == files_max {
                    return Err(ScriptError::TooMany(files_max));
                }
                found.push(FoundModule { name: below, path: entry.path() });
            }
        }
    }
    found.sort_by(|left, right| {
        (left.name != main, &left.name).cmp(&(right.name != main, &right.name))
    });
    Ok(found)
}

fn refused(name: &str, problem: FileProblem, limits: &Limits) -> ScriptError {
    match problem {
        FileProblem::TooLarge { .. } => ScriptError::TooLarge(limits.script_bytes_max.0),
        FileProblem::NotText => ScriptError::NotText(name.to_owned()),
        FileProblem::Absent(reason) | FileProblem::Unreadable(reason) => {
            ScriptError::Unreadable { path: name.to_owned(), reason }
        }
        problem => ScriptError::Elsewhere { path: name.to_owned(), problem },
    }
}

#[cfg(test)]
mod tests;
