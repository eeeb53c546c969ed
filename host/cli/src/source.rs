//! What is named on the command line as the source of a plugin, and whether it may be built: building
//! runs its author's code as this user, outside the sandbox.

pub(super) mod of_project;
mod parts;

use std::ffi::OsStr;
use std::fmt::Display;
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
use toolhost_state::read::{self, FileProblem, ReadError, ReadScope};
use toolhost_state::trust_store::{self, Consent, Lock};
use toolhost_wasm as plugin;
use toolhost_wasm::script;

/// What files that are sources or plugins end in.
const EXTENSIONS: [&str; 5] = ["wasm", "py", "js", "mjs", "ts"];
/// What cargo builds a package by, and its workspace.
const MANIFEST: &str = "Cargo.toml";
/// Bytes of it that are read.
const MANIFEST_BYTES_MAX: u64 = 1 << 20;
/// Times that somebody is asked about one build, each naming what else is built with it.
const QUESTIONS_MAX: usize = 50;
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

/// Makes sure that no stranger's link leads what is named out of the project that the link lies in, before
/// anything there is looked at.
pub(super) fn stays_in_project(home: &Home, named: &Path) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::usage(format!("{}: {error}", named.display()));
    let own = [&home.bundled, &home.plugins];
    let own = own.map(|path| Folder { path: path.clone(), origin: Origin::User });
    // `.` and `..` are no links.
    let place = match named.file_name() {
        Some(_) => Some(folder::place_of(&own, named).map_err(failed)?),
        None => ReadScope::of_links(&home.folders(), named).map_err(failed)?,
    };
    stays(place.as_ref(), named)
}

fn stays(place: Option<&ReadScope>, named: &Path) -> Result<(), Failure> {
    match place.map(|place| place.real(named)) {
        Some(Err(error @ ReadError { problem: FileProblem::LeadsOut, .. })) => {
            Err(Failure::usage(error.to_string()))
        }
        _ => Ok(()),
    }
}

/// Where a source really lies. What it says is shown, copied and built, so a link out of the project it
/// lies in leads to none, as with `toolhost inspect`.
pub(super) fn real(home: &Home, named: &Path) -> Result<PathBuf, Failure> {
    let failed = |error: io::Error| Failure::usage(format!("{}: {error}", named.display()));
    stays_in_project(home, named)?;
    let real = fs::canonicalize(script::whole(named)).map_err(failed)?;
    stays(Some(&ReadScope::of_folder(&real)), &real.join(MANIFEST))?;
    Ok(script::whole(&real))
}

/// Makes sure that somebody has agreed to run the code of this source's author, once for each: asks,
/// unless `yes` answers. Not asked about is what `toolhost new` made, and what lay in a project when it
/// was trusted. The source is named without links.
///
/// What is built with it and is another's is asked about before it is looked at: so it may take a few
/// questions until all of it is known.
pub(super) fn may_build(ui: &Ui, home: &Home, source: &Path, yes: bool) -> Result<(), Failure> {
    let project = trusted_project(home, source);
    let project = project.as_deref();
    let mut may = match (consent_to(home, source)?, project) {
        (Some(Consent::Agreed | Consent::Made), _) => true,
        (_, Some(project)) => of_project::is_of(&home.state, project, source),
        _ => false,
    };
    let mut agreed = trust_store::agreed(&home.state);
    for _ in 0..QUESTIONS_MAX {
        let mut files = foreign_configuration(source, project);
        files.retain(|file| !agreed.contains(file));
        let part = foreign_part(home, source, project, &agreed);
        let part = part.filter(|part| !agreed.contains(part));
        if may && files.is_empty() && part.is_none() {
            return Ok(());
        }
        let mut by = String::new();
        if !files.is_empty() {
            let has = if files.len() == 1 { "has" } else { "have" };
            let files = files.iter().map(|file| file.display().to_string());
            by += &format!(", and {} {has} a say", listed(files, "and"));
        }
        if let Some(part) = &part {
            let part = part.display();
            by += &format!(", and that of {part}, which is of another project");
        }
        let what = format!(
            "building {} runs its author's code as you, outside the sandbox{by}",
            source.display()
        );
        agree(ui, home, source, yes, (&what, "Build it?"))?;
        may = true;
        for path in files.into_iter().chain(part) {
            remember(home, &path, Consent::Part);
            agreed.push(path);
        }
    }
    Err(Failure::rejected(format!(
        "more than {QUESTIONS_MAX} folders of other projects are built with {}",
        source.display()
    ))
    .hint("those before are remembered: run the same command again"))
}

fn consent_to(home: &Home, source: &Path) -> Result<Option<Consent>, Failure> {
    trust_store::consent(&home.state, source).map_err(|error| Failure::usage(error.to_string()))
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
    let failed = |error: &dyn Display| Failure::usage(format!("{}: {error}", out.display()));
    let place = folder.place().map_err(|error| failed(&error))?;
    place.real(out).map(drop).map_err(|error| failed(&error.problem))
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
        lock.projects.iter().any(|known| known.folder == **folder) || read::is_project(folder)
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

/// A folder that is built with a source, and belongs neither to its trusted project nor to itself, nor
/// to toolhost, nor to what was agreed to.
fn foreign_part(
    home: &Home,
    source: &Path,
    project: Option<&Path>,
    agreed: &[PathBuf],
) -> Option<PathBuf> {
    // A file is built with nothing else.
    if !source.is_dir() {
        return None;
    }
    let lock = known_projects(home);
    let places = home.building().sdks.into_iter().chain([PathBuf::from(BUILT_FROM)]);
    let places: Vec<PathBuf> = places.filter_map(|path| fs::canonicalize(path).ok()).collect();
    let is_own = |folder: &Path| {
        places.iter().chain(agreed).any(|place| folder.starts_with(place))
            || match project {
                Some(project) => trusted_project_of(&lock, folder).as_deref() == Some(project),
                None => {
                    let mut between = folder.ancestors().take_while(|above| *above != source);
                    folder.starts_with(source) && !between.any(read::is_project)
                }
            }
    };
    let own = project.unwrap_or(source).to_owned();
    let folders: Vec<PathBuf> = places.iter().chain(agreed).cloned().chain([own]).collect();
    parts::foreign(source, &folders, &is_own)
}

/// The files around a source by which somebody else has a say in how cargo builds it: in a folder above
/// it that is neither of the trusted project, nor this user's home or above, nor what toolhost itself
/// is built from. So has a package above, of whose workspace the source may be a member, unless cargo looks no
/// further: the source is in a workspace of its own, which leaves nothing out but itself.
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
    // Of one that cannot be read nobody knows.
    let is_workspace = |folder: &Path| {
        manifest(folder).is_ok_and(|text| config::has_workspace(&text, folder == source))
    };
    let has_workspace = around.any(is_workspace);
    let above = source.ancestors().skip(1).filter(is_foreign);
    let files = above.flat_map(|folder| OF_CARGO.map(|name| folder.join(name)));
    files
        .filter(|file| !(has_workspace && file.ends_with(MANIFEST)))
        .filter(|file| fs::symlink_metadata(file).is_ok())
        .collect()
}

/// The manifest in a folder without links; nothing, if there is none. It is read as every file of a
/// project is.
fn manifest(folder: &Path) -> Result<String, ReadError> {
    let text = ReadScope::of_folder(folder).text(&folder.join(MANIFEST), MANIFEST_BYTES_MAX);
    match text {
        Err(ReadError { problem: FileProblem::Absent(_), .. }) => Ok(String::new()),
        read => read,
    }
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
