//! Puts a plugin into a plugins folder in one step: a component that was built elsewhere, or a copy
//! of a script.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use super::{BuildError, io, refuse_twin};
use toolhost_core::limits::Limits;
use toolhost_core::tool::PluginId;
use toolhost_state::read::ReadScope;
use toolhost_wasm::script::{self, Script};

/// How a folder begins in which something lies for a moment, in the folder that it goes to.
const STAGE: &str = ".toolhost-dev-";
/// How long nobody removes such a folder, whatever its lock says.
const AT_WORK: Duration = Duration::from_secs(10);

/// A folder of its own for what is being made. It is gone when it is dropped; one that a killed
/// process left, when the next is made beside it.
#[derive(Debug)]
pub struct StagedBuild {
    folder: TempDir,
    /// Says that somebody is at work there.
    _lock: fs::File,
}

impl StagedBuild {
    /// Makes one in `folder`, which is made where it is missing. Where what is made is run or
    /// trusted later, that is a folder that no plugin can write to.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn new(folder: &Path) -> Result<StagedBuild, BuildError> {
        fs::create_dir_all(folder).map_err(io(folder))?;
        remove_left(folder);
        let made = tempfile::Builder::new().prefix(STAGE).tempdir_in(folder);
        let folder = made.map_err(io(folder))?;
        let lock = fs::File::open(folder.path()).map_err(io(folder.path()))?;
        lock.lock().map_err(io(folder.path()))?;
        Ok(StagedBuild { folder, _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Puts a copy of what lies at `from` to `out`, under its own name, in place of what was there. What
/// it takes meanwhile is gone afterwards, and so is what a process left that was killed over it.
///
/// # Errors
/// If it cannot be copied or moved.
pub fn put(from: &Path, out: &Path) -> Result<PathBuf, BuildError> {
    let stage = StagedBuild::new(out)?;
    let name = from.file_name().unwrap_or_default();
    let (staged, to) = (stage.path().join(name), out.join(name));
    copy(from, &staged)?;
    if staged.is_dir() && to.is_dir() {
        exchange(&staged, &to).map_err(io(&to))?;
    } else {
        fs::rename(&staged, &to).map_err(io(&to))?;
    }
    Ok(to)
}

fn copy(from: &Path, to: &Path) -> Result<(), BuildError> {
    if !from.is_dir() {
        return fs::copy(from, to).map(|_| ()).map_err(io(to));
    }
    fs::create_dir(to).map_err(io(to))?;
    for entry in fs::read_dir(from).map_err(io(from))? {
        let entry = entry.map_err(io(from))?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

/// Removes what is left in a folder of processes that were killed: whoever is at work holds a lock.
fn remove_left(out: &Path) {
    let entries = fs::read_dir(out).into_iter().flatten().flatten();
    let is_stage = |entry: &fs::DirEntry| {
        entry.file_name().as_encoded_bytes().starts_with(STAGE.as_bytes())
            && entry.file_type().is_ok_and(|kind| kind.is_dir())
    };
    for stage in entries.filter(is_stage).map(|entry| entry.path()) {
        // One that was made a moment ago may not be locked yet.
        let is_old = fs::metadata(&stage).and_then(|metadata| metadata.modified());
        let is_old =
            is_old.ok().and_then(|made| made.elapsed().ok()).is_some_and(|age| age > AT_WORK);
        let is_left = fs::File::open(&stage).is_ok_and(|folder| folder.try_lock().is_ok());
        if is_old
            && is_left
            && let Err(error) = fs::remove_dir_all(&stage)
        {
            tracing::warn!(path = %stage.display(), %error, "what a killed process left stays");
        }
    }
}

/// Two folders change places, so that at each moment there is a whole one.
#[cfg(target_os = "linux")]
fn exchange(from: &Path, to: &Path) -> std::io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};

    Ok(renameat_with(CWD, from, CWD, to, RenameFlags::EXCHANGE)?)
}

#[cfg(not(target_os = "linux"))]
fn exchange(from: &Path, to: &Path) -> std::io::Result<()> {
    let away = from.with_extension("old");
    fs::rename(to, &away)?;
    fs::rename(from, to)
}

/// Copies the modules of a script into `folder`, under the script's own name; returns the copy.
///
/// # Errors
/// If it is no script, `out` has a component of its id, or something cannot be read or written.
pub fn copy_script(
    source: &Path,
    folder: &Path,
    out: &Path,
    limits: &Limits,
) -> Result<PathBuf, BuildError> {
    let id = PluginId::from_stem(&script::stem(source))?;
    let component = out.join(format!("{id}.wasm"));
    if fs::symlink_metadata(&component).is_ok_and(|found| !found.is_dir()) {
        return Err(BuildError::TwinOfComponent { component, id });
    }
    let copy = folder.join(source.file_name().unwrap_or_default());
    let entries = fs::read_dir(out).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut others = entries.filter(|path| path.file_name() != source.file_name());
    if others.any(|path| {
        stem_of_script(&path).and_then(|stem| PluginId::from_stem(&stem).ok()) == Some(id.clone())
    }) {
        refuse_twin(out, &id)?;
    }
    let place = ReadScope::of_plugins(source.parent().unwrap_or(source)).map_err(io(source))?;
    let script = Script::read(&place, source, "", limits)?;
    if source.is_dir() {
        for module in &script.modules {
            let path = copy.join(&module.path);
            let above = path.parent().unwrap_or(&copy);
            fs::create_dir_all(above).map_err(io(above))?;
            fs::write(&path, &module.text).map_err(io(&path))?;
        }
    } else {
        for module in &script.modules {
            fs::write(&copy, &module.text).map_err(io(&copy))?;
        }
    }
    Ok(copy)
}

/// The stem of what may be a script. A link is taken for one by its name: where it leads is not looked at.
fn stem_of_script(path: &Path) -> Option<String> {
    if fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) {
        let may_be = path.extension().is_none() || script::is_module(path);
        return may_be.then(|| path.file_stem().unwrap_or_default().to_string_lossy().into_owned());
    }
    script::language(path).map(|_| script::stem(path))
}
