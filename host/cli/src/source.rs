//! What is named on the command line as the source of a plugin, and whether it may be built: building
//! runs its author's code as this user, outside the sandbox.

pub(super) mod of_project;
mod parts;

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::failure::Failure;
use super::grant::listed;
use super::home::{CONFIG_FILE, Home, read_project};
use super::new::BUILT_FROM;
use super::ui::{self, Ui};
use toolhost_core::tool::Origin;
use toolhost_policy::capability::quoted;
use toolhost_sources::folder::{self, Folder};
use toolhost_state::config;
use toolhost_state::read::ReadScope;
use toolhost_state::trust_store::{self, Consent, Lock};
use toolhost_wasm as plugin;
use toolhost_wasm::script;

/// What files that are sources or plugins end in.
const EXTENSIONS: [&str; 5] = ["wasm", "py", "js", "mjs", "ts"];
/// What cargo builds a package by, and its workspace.
const MANIFEST: &str = "Cargo.toml";
/// Bytes of it that are read.
const MANIFEST_BYTES_MAX: u64 = 1 << 20;
/// What the folder of a project has: the file that says what plugins may, or what a repository is known by
/// (Fossil has one of two files there).
const OF_PROJECT: [&str; 11] = [
    CONFIG_FILE,
    ".git",
    ".hg",
    ".jj",
    ".svn",
    ".bzr",
    "_darcs",
    ".pijul",
    "CVS",
    ".fslckout",
    "_FOSSIL_",
];
/// What is built with a source and is another's: how much of it is remembered, and how much is shown.
const PARTS_REMEMBERED_MAX: usize = 100;
const PARTS_SHOWN_MAX: usize = 5;
/// Files with which a folder decides how cargo builds whatever lies below it.
const OF_CARGO: [&str; 5] =
    [".cargo/config.toml", ".cargo/config", "rust-toolchain.toml", "rust-toolchain", MANIFEST];

/// Tells whether a text names a file or folder, and not a plugin by its id: it has a slash, is `.` or
/// `..`, or ends as a plugin's file does.
pub(super) fn is_path(given: &Path) -> bool {
    let has_slash = given.as_os_str().as_encoded_bytes().contains(&b'/');
    let is_dots = given == Path::new(".") || given == Path::new("..");
    let extension = given.extension().and_then(OsStr::to_str);
    let is_file = extension.is_some_and(|extension| EXTENSIONS.contains(&extension));
    has_slash || is_dots || is_file && !given.is_dir()
}

/// What to write instead of a bare word, if a folder or file has that name.
pub(super) fn hint(given: &Path) -> Option<String> {
    let path = Path::new(".").join(given);
    let exists = !given.as_os_str().is_empty() && fs::symlink_metadata(&path).is_ok();
    exists.then(|| format!("`{}` names what lies here", quoted(&path.to_string_lossy())))
}

/// Reads a source: a path.
pub(super) fn read(given: &Path) -> Result<&Path, Failure> {
    if is_path(given) {
        return Ok(given);
    }
    let shown = given.display();
    let failure = Failure::usage(format!(
        "`{shown}` is not a path; a source is named by its path, never by the name of a plugin"
    ));
    Err(failure
        .hint(hint(given).unwrap_or_else(|| format!("name its folder or file, such as ./{shown}"))))
}

/// Where a source really lies. What a script says is shown and copied, so a link out of the project it
/// lies in leads to none, as with `toolhost inspect`.
pub(super) fn real(home: &Home, named: &Path) -> Result<PathBuf, Failure> {
    let failed = |error: io::Error| Failure::usage(format!("{}: {error}", named.display()));
    let whole = script::whole(named);
    let real = fs::canonicalize(&whole).map_err(failed)?;
    let is_script = !real.join(MANIFEST).is_file() && script::language(&real).is_some();
    // `.` and `..` are no links.
    if is_script && whole.file_name().is_some() {
        let own = [&home.bundled, &home.plugins];
        let own = own.map(|path| Folder { path: path.clone(), origin: Origin::User });
        let place = folder::place_of(&own, &whole).map_err(failed)?;
        place.real(&whole).map_err(|error| Failure::usage(error.to_string()))?;
    }
    Ok(script::whole(&real))
}

/// Makes sure that somebody has agreed to run the code of this source's author, once for each: asks,
/// unless `yes` answers. Not asked about is what `toolhost new` made, and what lay in a project when it
/// was trusted. The source is named without links.
pub(super) fn may_build(ui: &Ui, home: &Home, source: &Path, yes: bool) -> Result<(), Failure> {
    let known = consent_to(home, source)?;
    let project = trusted_project(home, source);
    let files = foreign_configuration(source, project.as_deref());
    let parts = foreign_parts(home, source, project.as_deref());
    let foreign: Vec<PathBuf> = files.iter().chain(&parts).cloned().collect();
    let mut new = Vec::new();
    for path in foreign {
        if !matches!(consent_to(home, &path)?, Some(Consent::Agreed | Consent::Part)) {
            new.push(path);
        }
    }
    let may = match (known, &project) {
        (Some(Consent::Agreed | Consent::Made), _) => true,
        (_, Some(project)) => of_project::is_of(&home.state, project, source),
        _ => false,
    };
    if may && new.is_empty() {
        return Ok(());
    }
    let (new_files, new_parts): (Vec<&PathBuf>, Vec<&PathBuf>) =
        new.iter().partition(|path| files.contains(path));
    let mut by = String::new();
    if !new_files.is_empty() {
        let has = if new_files.len() == 1 { "has" } else { "have" };
        by += &format!(", and {} {has} a say", shown(&new_files));
    }
    if !new_parts.is_empty() {
        let are =
            if new_parts.len() == 1 { "is of another project" } else { "are of other projects" };
        by += &format!(", and that of {}, which {are}", shown(&new_parts));
    }
    let what = format!(
        "building {} runs its author's code as you, outside the sandbox{by}",
        source.display()
    );
    agree(ui, home, source, yes, (&what, "Build it?"))?;
    for part in new.iter().take(PARTS_REMEMBERED_MAX) {
        remember(home, part, Consent::Part);
    }
    Ok(())
}

fn consent_to(home: &Home, source: &Path) -> Result<Option<Consent>, Failure> {
    trust_store::consent(&home.state, source).map_err(|error| Failure::usage(error.to_string()))
}

fn shown(paths: &[&PathBuf]) -> String {
    let texts = paths.iter().take(PARTS_SHOWN_MAX).map(|path| path.display().to_string());
    let more = paths.len().saturating_sub(PARTS_SHOWN_MAX);
    let more = (more > 0).then(|| format!("{more} more"));
    listed(texts.chain(more), "and")
}

/// Makes sure that somebody has agreed that what is made of this script has what the plugin in whose
/// place it comes was granted, as [`may_build`] does.
pub(super) fn may_have_grants(
    ui: &Ui,
    home: &Home,
    source: &Path,
    yes: bool,
    (words, grants): (&str, &[String]),
) -> Result<(), Failure> {
    let known = consent_to(home, source)?;
    if matches!(known, Some(Consent::Agreed | Consent::Made))
        || trusted_project(home, source).is_some()
    {
        return Ok(());
    }
    let what = format!(
        "what is made of {} replaces plugin {words}, and gets what that was granted: {}",
        source.display(),
        grants.join("; ")
    );
    agree(ui, home, source, yes, (&what, "Put it there?"))
}

/// Makes sure that a folder which plugins are put into is no stranger's link to somewhere else.
pub(super) fn may_write(out: &Path) -> Result<(), Failure> {
    if fs::symlink_metadata(out).is_err() {
        return Ok(());
    }
    let folder = Folder { path: out.to_owned(), origin: Origin::Project };
    let place = folder.place().map(drop);
    place.map_err(|error| Failure::usage(format!("{}: {error}", out.display())))
}

fn agree(
    ui: &Ui,
    home: &Home,
    source: &Path,
    yes: bool,
    (what, question): (&str, &str),
) -> Result<(), Failure> {
    ui::error_line(what);
    let agreed = match yes {
        true => Some(true),
        false => ui.ask(question)?,
    };
    match agreed {
        Some(true) => {}
        Some(false) => return Err(Failure::rejected("nothing is built")),
        None => {
            return Err(Failure::rejected("nobody can be asked here, so nothing is built")
                .hint("look at it; to build it, add `--yes`"));
        }
    }
    remember(home, source, Consent::Agreed);
    Ok(())
}

fn remember(home: &Home, path: &Path, by: Consent) {
    if let Err(error) = trust_store::record_consent(&home.state, path, by) {
        ui::error_line(&format!("warning: you will be asked again: {error}"));
    }
}

/// The trusted project that a file or folder lies in: its folder, if its `toolhost.toml` is what was
/// trusted. A project begins at the nearest folder that was trusted, is a repository (of any kind) or has that file: a
/// stranger's that lies within a trusted one is still the stranger's.
pub(super) fn trusted_project(home: &Home, path: &Path) -> Option<PathBuf> {
    trusted_project_of(&known_projects(home), path)
}

/// What is known of projects. The host says what is wrong with a lock; such a one trusts nobody.
fn known_projects(home: &Home) -> Lock {
    trust_store::load(&home.state).unwrap_or_default()
}

fn trusted_project_of(lock: &Lock, path: &Path) -> Option<PathBuf> {
    let is_project = |folder: &&Path| {
        lock.projects.iter().any(|known| known.folder == **folder) || is_border(folder)
    };
    let is_trusted = |folder: &&Path| {
        lock.project(folder).is_some_and(|project| {
            let text = read_project(&folder.join(CONFIG_FILE));
            let digest = text.map(|text| text.map(|text| plugin::digest(text.as_bytes())));
            digest.is_ok_and(|digest| digest.as_deref() == project.config.as_deref())
        })
    };
    path.ancestors().find(is_project).filter(is_trusted).map(Path::to_owned)
}

/// Tells whether a project begins at a folder, whoever trusts it.
fn is_border(folder: &Path) -> bool {
    OF_PROJECT.into_iter().any(|name| fs::symlink_metadata(folder.join(name)).is_ok())
}

/// The folders that are built with a source, and belong neither to its trusted project nor to itself, nor
/// to toolhost.
fn foreign_parts(home: &Home, source: &Path, project: Option<&Path>) -> Vec<PathBuf> {
    let lock = known_projects(home);
    let places = home.building().sdks.into_iter().chain([PathBuf::from(BUILT_FROM)]);
    let places: Vec<PathBuf> = places.filter_map(|path| fs::canonicalize(path).ok()).collect();
    let is_own = |folder: &Path| {
        places.iter().any(|place| folder.starts_with(place))
            || match project {
                Some(project) => trusted_project_of(&lock, folder).as_deref() == Some(project),
                None => {
                    let mut between = folder.ancestors().take_while(|above| *above != source);
                    folder.starts_with(source) && !between.any(is_border)
                }
            }
    };
    parts::foreign(source, &is_own)
}

/// The files around a source by which somebody else has a say in how cargo builds it: in a folder above
/// it that is neither of the trusted project, nor this user's home or above, nor what toolhost itself
/// is built from. So has a package above, of whose workspace the source may be a member, unless the
/// source is in one of its own.
fn foreign_configuration(source: &Path, project: Option<&Path>) -> Vec<PathBuf> {
    if !source.join(MANIFEST).is_file() {
        return Vec::new();
    }
    let own = [super::home::variable("HOME").map(PathBuf::from), Some(PathBuf::from(BUILT_FROM))];
    let own: Vec<PathBuf> =
        own.into_iter().flatten().filter_map(|path| fs::canonicalize(path).ok()).collect();
    let is_foreign = |folder: &&Path| {
        !project.is_some_and(|project| folder.starts_with(project))
            && !own.iter().any(|own| own.starts_with(folder))
    };
    let is_of_it = |folder: &&Path| {
        *folder == source || project.is_some_and(|project| folder.starts_with(project))
    };
    let mut around = source.ancestors().take_while(is_of_it);
    let has_workspace = around.any(|folder| is_workspace(&folder.join(MANIFEST), folder == source));
    let above = source.ancestors().skip(1).filter(is_foreign);
    let files = above.flat_map(|folder| OF_CARGO.map(|name| folder.join(name)));
    files
        .filter(|file| !(has_workspace && file.ends_with(MANIFEST)))
        .filter(|file| fs::symlink_metadata(file).is_ok())
        .collect()
}

/// Tells whether cargo looks no further for the workspace of a package below: this manifest has one,
/// and leaves nothing out of it but itself.
fn is_workspace(manifest: &Path, is_own: bool) -> bool {
    let text = ReadScope::Own.text(manifest, MANIFEST_BYTES_MAX).unwrap_or_default();
    config::has_workspace(&text, is_own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_a_path() {
        for path in ["./json", "json/", "/json", ".", "..", "../x", "x.py", "x.wasm", "a/b"] {
            assert!(is_path(Path::new(path)), "{path}");
        }
        for word in ["json", "json.d", "", "...", ".json", "x.py.txt", "wasm", ".py"] {
            assert!(!is_path(Path::new(word)), "{word}");
        }
    }
}
