//! The places of the host's own, which no grant may touch: what is private to it, and what runs here.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use super::{BUILT_FROM, Home, variable};
use toolhost_sources::folder::Folder;
use toolhost_wasm::DirectoryRules;
use toolhost_wasm::script::Language;

/// The places of the host's own, which no grant may touch; and where `.` is.
pub(super) fn rules(home: &Home, folders: &[Folder], operators_file: &Path) -> DirectoryRules {
    let working = env::current_dir().and_then(fs::canonicalize).ok();
    let user = variable("HOME").map(PathBuf::from);
    let mut rules = DirectoryRules { own: Vec::new(), working, home: user };
    rules.keep(&home.config_file, "toolhost's configuration", false);
    rules.keep(operators_file, "toolhost's configuration", false);
    rules.keep(&home.state, "toolhost's state", false);
    rules.keep(&home.cache, "toolhost's cache", false);
    // What this user has that runs without TOOLHOST_HOME.
    if let Ok(Home { config_file, state, cache, data, .. }) = Home::in_xdg_folders() {
        const ELSEWHERE: &str = "what toolhost has without TOOLHOST_HOME";
        for private in [config_file, state, cache] {
            rules.keep(&private, ELSEWHERE, false);
        }
        rules.keep(&data, ELSEWHERE, true);
    }
    for folder in folders {
        rules.keep(&folder.path, "plugins", true);
    }
    for (place, what) in running(home) {
        rules.keep(&place, what, true);
    }
    rules
}

/// What runs here, and what that and later builds are made of: whoever could write there could
/// do whatever this user can.
fn running(home: &Home) -> Vec<(PathBuf, &'static str)> {
    const PROGRAM: &str = "the program toolhost";
    const SOURCES: &str = "what toolhost is built of";
    const BUILDING: &str = "what plugins are built with";
    let mut places = Vec::new();
    if let Ok(program) = env::current_exe() {
        let above: Vec<&Path> = program.ancestors().skip(1).take(2).collect();
        places.push((program.clone(), PROGRAM));
        if let [folder, rest @ ..] = above.as_slice() {
            // Not all that a user has, where it lies right in their home.
            let is_home = variable("HOME").is_some_and(|home| Path::new(&home).starts_with(folder));
            if !is_home && folder.parent().is_some() {
                places.push(((*folder).to_owned(), PROGRAM));
            }
            // Cargo marks its target folder so.
            let target = rest.first().filter(|target| target.join("CACHEDIR.TAG").is_file());
            places.extend(target.map(|target| ((*target).to_owned(), SOURCES)));
        }
    }
    let checkout = Path::new(BUILT_FROM);
    if checkout.join("host/Cargo.toml").is_file() && checkout.join("sdk").is_dir() {
        places.push((checkout.to_owned(), SOURCES));
    }
    // Where `make install` puts the program, whichever one runs here.
    let roots = [variable("CARGO_INSTALL_ROOT"), variable("CARGO_HOME")];
    let roots = roots.into_iter().flatten().map(PathBuf::from);
    let usual = variable("HOME").map(|home| Path::new(&home).join(".cargo"));
    for root in roots.chain(usual) {
        // The sources of what is built lie there, too.
        for of_cargo in ["registry", "git"] {
            places.push((root.join(of_cargo), BUILDING));
        }
        places.push((root.join("bin"), "what cargo installs"));
    }
    let usual = variable("HOME").map(|home| Path::new(&home).join(".rustup"));
    let rustup = variable("RUSTUP_HOME").map(PathBuf::from);
    places.extend(rustup.into_iter().chain(usual).map(|root| (root, BUILDING)));
    places.push((home.runners.clone(), "what runs scripts"));
    places.extend(in_path().map(|folder| (folder, "programs of PATH")));
    let sdks = [checkout.join("sdk"), checkout.join("wit"), home.data.join("sdk")];
    places.extend(sdks.into_iter().chain([home.data.join("wit")]).map(|place| (place, BUILDING)));
    for tools in home.tools() {
        // `make install` puts links there.
        let each = Language::ALL.map(|language| (tools.join(language.word()), BUILDING));
        places.push((tools, BUILDING));
        places.extend(each);
    }
    places
}

/// The folders of `PATH`, from which builds and this user's shell take programs. A home or a folder
/// above it has more than programs.
fn in_path() -> impl Iterator<Item = PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = env::split_paths(&path).filter(|path| path.is_absolute()).collect();
    let home = variable("HOME").map(PathBuf::from);
    folders.into_iter().filter(move |folder| {
        !home.as_ref().is_some_and(|home| home.starts_with(folder)) && folder.is_dir()
    })
}
