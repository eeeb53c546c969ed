//! Puts a plugin into a plugins folder in one step: a component that was built elsewhere, or a copy
//! of a script.

use std::fs;
use std::path::{Path, PathBuf};

use super::{BuildError, io, refuse_twin};
use crate::limits::Limits;
use crate::script::{self, Script};
use crate::tool::PluginId;

/// Puts what lies at `from` to `out`, under its own name, in place of what was there. Both must be
/// on one file system.
///
/// # Errors
/// If it cannot be moved.
pub fn put(from: &Path, out: &Path) -> Result<PathBuf, BuildError> {
    let to = out.join(from.file_name().unwrap_or_default());
    if from.is_dir() && to.is_dir() {
        exchange(from, &to).map_err(io(&to))?;
    } else {
        fs::rename(from, &to).map_err(io(&to))?;
    }
    Ok(to)
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
    if component.is_file() {
        return Err(BuildError::TwinOfComponent { component, id });
    }
    let copy = folder.join(source.file_name().unwrap_or_default());
    let is_other = |path: &Path| path.file_name() != source.file_name();
    let entries = fs::read_dir(out).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut others = entries.filter(|path| is_other(path) && script::language(path).is_some());
    if others.any(|path| PluginId::from_stem(&script::stem(&path)).is_ok_and(|other| other == id)) {
        refuse_twin(out, &id)?;
    }
    let script = Script::read(source, "", limits)?;
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
