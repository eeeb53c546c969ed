//! The host's own places: what runs here, and what that is built of. No grant for writing covers one,
//! whatever leads there.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use toolhost::{Host, HostSettings};
use toolhost_core::tool::Call;
use toolhost_policy::capability::DirGrant;
use toolhost_wasm::script::Language;
use toolhost_wasm::{self as plugin, DirectoryRules};

use crate::support::{Lab, answer, guest};

/// A lab with the guest `probe`, and a copy of the program where `make` would put it: with a runner
/// beside it, in a checkout beside which something else lies.
struct Here {
    lab: Lab,
    program: PathBuf,
}

impl Here {
    fn new() -> Here {
        let lab = Lab::new().with("probe.wasm", guest("probe"));
        let program = lab.work().join("src/target/release/toolhost");
        for folder in ["src/target/release/runners", "src/docs", "other"] {
            fs::create_dir_all(lab.work().join(folder)).expect("made");
        }
        let built = env!("CARGO_BIN_EXE_toolhost");
        if fs::hard_link(built, &program).is_err() {
            fs::copy(built, &program).expect("copied");
        }
        Here { lab, program }
    }

    fn run(&self, folder: &Path, arguments: &[&str]) -> (i32, String) {
        let mut command = self.lab.command(&self.program);
        let output = command.current_dir(folder).args(arguments).output().expect("the program");
        let text = [output.stdout, output.stderr].concat();
        let text =
            String::from_utf8_lossy(&text).replace(&*self.lab.home().to_string_lossy(), "HOME");
        (output.status.code().expect("an exit code"), text)
    }

    #[track_caller]
    fn refused(&self, folder: &Path, grant: &str) -> String {
        let (code, text) = self.run(folder, &["grant", "probe", "--dir", grant]);
        assert!(code == 2 && text.contains("cannot be granted"), "{grant}: {code} {text}");
        text
    }

    #[track_caller]
    fn granted(&self, folder: &Path, grant: &str) {
        let (code, text) = self.run(folder, &["grant", "probe", "--dir", grant]);
        assert_eq!(code, 0, "{grant}: {text}");
    }
}

#[test]
fn the_program_lies_in_no_granted_directory() {
    let here = Here::new();
    let work = here.lab.work();
    let said = here.refused(&work, "src:rw");
    assert_eq!(
        said,
        "error: HOME/project/src cannot be granted: HOME/project/src contains HOME/project/src/target/release/toolhost, which holds the program toolhost; grant a narrower directory, or grant `ro`; narrower is `HOME/project/src/docs:rw`, say\n"
    );
    for (folder, grant) in [
        ("", "src/target:rw"),
        ("", "src/target/release:rw"),
        ("", "src/target/release/runners:rw"),
        ("", "src=elsewhere:rw"),
        ("src", ".:rw"),
        ("src/target/release/runners", ".:rw"),
    ] {
        here.refused(&work.join(folder), grant);
    }
    // Links are names of what they lead to.
    symlink("src/target", work.join("link")).expect("a link");
    here.refused(&work, "link:rw");
    here.refused(&work, "link/release:rw");
    here.refused(&work.join("link"), ".:rw");
    for grant in ["src:ro", "src/target/release:ro", "src/docs:rw", "other:rw"] {
        here.granted(&work, grant);
    }
    // For one call alone, too.
    let call = ["call", "scribble", "--arg", "text=src/new", "--dir", "src:rw"];
    let (code, text) = here.run(&work, &call);
    assert!(code != 0 && text.contains("holds the program toolhost"), "{text}");
    assert!(!work.join("src/new").exists());
}

#[test]
fn what_make_install_writes_lies_in_no_granted_directory() {
    let here = Here::new();
    let (lab, home) = (&here.lab, here.lab.home().to_owned());
    let linked = lab.work().join("built/tools/python");
    fs::create_dir_all(&linked).expect("made");
    fs::create_dir_all(home.join("tools")).expect("made");
    symlink(&linked, home.join("tools/python")).expect("a link");
    let sdk = fs::canonicalize(concat!(env!("CARGO_MANIFEST_DIR"), "/../../sdk")).expect("there");
    let mut places =
        vec![home.join("tools"), linked.clone(), lab.work().join("built"), sdk.clone()];
    // Of the checkout, all that is built anew.
    let checkout = sdk.parent().expect("the checkout");
    places.push(checkout.to_owned());
    for below in ["plugins/json/src", "sdk/rust", "host/src"] {
        places.push(checkout.join(below));
    }
    for name in ["runners", "sdk", "sdk/python", "wit", "bundled", "plugins", "tools/javascript"] {
        fs::create_dir_all(home.join(name)).expect("made");
        places.push(home.join(name));
    }
    for place in places {
        here.refused(&lab.work(), &format!("{}:rw", place.display()));
        // The tests' cache is in the checkout.
        if place != checkout {
            here.granted(&lab.work(), &format!("{}:ro", place.display()));
        }
    }
}

#[test]
fn what_is_not_there_yet_is_not_granted_either() {
    let lab = Lab::new().with("probe.wasm", guest("probe"));
    let home = lab.work().join("user");
    for folder in
        [".local/share/toolhost", ".local/state", ".config", ".cache", "notes", ".cargo/bin"]
    {
        fs::create_dir_all(home.join(folder)).expect("made");
    }
    // Where `make install` will write, behind a link that leads nowhere yet.
    symlink("../../gone/sdk", home.join(".local/share/toolhost/sdk")).expect("a link");
    fs::create_dir(home.join(".local/gone")).expect("made");
    let granted = |folder: &str, access: &str, toolhost_home: Option<&Path>| {
        let mut command: Command = lab.command(env!("CARGO_BIN_EXE_toolhost"));
        command.env_remove("TOOLHOST_HOME");
        let output = command
            .envs(toolhost_home.map(|home| ("TOOLHOST_HOME", home)))
            .env("HOME", &home)
            .args(["grant", "probe", "--dir", &format!("{}:{access}", home.join(folder).display())])
            .output()
            .expect("the program");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let grant = |folder: &str, toolhost_home| granted(folder, "rw", toolhost_home);
    let places = ["", ".local", ".local/share", ".local/share/toolhost", ".local/gone", ".cargo"];
    for folder in places.into_iter().chain([".cargo/bin"]) {
        let (code, said) = grant(folder, None);
        assert!(code == Some(2) && said.contains("cannot be granted"), "{folder}: {said}");
    }
    assert_eq!(grant("notes", None), (Some(0), String::new()));
    // They are others' places under another home.
    for folder in [".local/share/toolhost", ".cargo/bin", ".config"] {
        let (code, said) = grant(folder, Some(lab.home()));
        assert!(code == Some(2) && said.contains("cannot be granted"), "{folder}: {said}");
    }
    // Secrets and grants lie in some, which are not to be read either.
    for folder in ["", ".local", ".local/state", ".config", ".cache"] {
        let (code, said) = granted(folder, "ro", Some(lab.home()));
        assert!(code == Some(2) && said.contains("has without TOOLHOST_HOME"), "{folder}: {said}");
    }
    for folder in [".local/share", ".local/share/toolhost", "notes"] {
        assert_eq!(granted(folder, "ro", Some(lab.home())), (Some(0), String::new()), "{folder}");
    }
}

#[tokio::test]
async fn a_grant_of_before_gives_nothing() {
    let lab = Lab::new().granted("probe", guest("probe"));
    let folder = lab.work().join("src");
    fs::create_dir_all(folder.join("runners")).expect("made");
    fs::write(folder.join("runners/python.wasm"), "").expect("written");
    let lab = lab.config(&format!("[plugins.probe]\ndirs = [\"{}=/src:rw\"]\n", folder.display()));
    // A user of the library, who says nothing of directories.
    let runners = [(Language::Python, vec![folder.join("runners/python.wasm")])].into();
    let host = Host::start(HostSettings { runners, ..lab.settings() }).expect("a host");
    let statuses = host.loaded().await;
    let grants = statuses[0].state.as_ref().expect("it loads").grants.join("\n");
    assert!(grants.contains("which holds what runs scripts"), "{grants}");
    let said = answer(&host, "scribble", json!({ "text": "/src/runners/python.wasm" })).await;
    assert!(said.contains(r#""code":"failed""#), "{said}");
    let dirs = vec![format!("{}=/src:rw", folder.display())];
    let call = Call::new("scribble", r#"{"text": "/src/runners/python.wasm"}"#);
    let said = host.call(Call { dirs, ..call }).await.to_json_text();
    assert!(said.contains("which holds what runs scripts"), "{said}");
    assert_eq!(fs::read(folder.join("runners/python.wasm")).expect("there"), b"");
}

#[test]
fn a_grant_of_before_is_told_of() {
    let here = Here::new();
    let work = here.lab.work();
    here.granted(&work, "other:rw");
    // As if it had been granted before the program came there.
    fs::create_dir_all(work.join("other/release")).expect("made");
    let moved = work.join("other/release/toolhost");
    fs::rename(&here.program, &moved).expect("moved");
    let here = Here { program: moved, lab: here.lab };
    for command in ["list", "doctor"] {
        let (_, text) = here.run(&work, &[command]);
        assert!(text.contains("which holds the program toolhost; grant a narrower"), "{text}");
    }
    let (code, text) = here.run(&work, &["call", "scribble", "--arg", "text=other/x"]);
    assert!(code != 0 && !work.join("other/x").exists(), "{text}");
}

/// A small world of folders and links, by chance.
struct World {
    root: PathBuf,
    random: ChaCha8Rng,
}

impl World {
    fn new(root: &Path, seed: u64) -> World {
        let mut world = World { root: root.to_owned(), random: ChaCha8Rng::seed_from_u64(seed) };
        for _ in 0..world.random.random_range(2..7) {
            let folder = world.path(3);
            // Where a link stands already, it may lead nowhere.
            let _ = fs::create_dir_all(folder);
        }
        for _ in 0..world.random.random_range(0..5) {
            let (link, target) = (world.path(2), world.path(3));
            let target = match world.random.random_range(0..3) {
                0 => target,
                1 => Path::new("..").join(target.strip_prefix(&world.root).expect("below")),
                _ => PathBuf::from(target.file_name().expect("a name")),
            };
            let _ = symlink(target, link);
        }
        world
    }

    /// A path of names that are often the same.
    fn path(&mut self, parts_max: usize) -> PathBuf {
        let parts = self.random.random_range(1..=parts_max);
        let names = (0..parts).map(|_| ["a", "b", "c"][self.random.random_range(0..3)]);
        let names: PathBuf = names.collect();
        self.root.join(names)
    }
}

/// Which file it is, without following a link.
fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Every file below a folder.
fn below(folder: &Path, found: &mut BTreeSet<(u64, u64)>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        found.extend(identity(&entry.path()));
        if entry.file_type().expect("known").is_dir() {
            below(&entry.path(), found);
        }
    }
}

/// Every file that the system comes past on its way to a place; and the last of them as it is followed,
/// where the place is to be.
fn steps(place: &Path) -> (BTreeSet<(u64, u64)>, PathBuf) {
    let (mut seen, mut at) = (BTreeSet::new(), PathBuf::from("/"));
    let mut todo: Vec<_> = place.iter().rev().map(PathBuf::from).collect();
    let mut links = 0;
    while let Some(part) = todo.pop() {
        let next = at.join(&part);
        if part == Path::new("..") {
            at = at.parent().unwrap_or(&at).to_owned();
            continue;
        }
        seen.extend(identity(&next));
        match fs::read_link(&next) {
            Ok(target) if links < 40 => {
                links += 1;
                todo.extend(target.iter().rev().map(PathBuf::from));
            }
            _ => at = next,
        }
    }
    (seen, at)
}

/// Whoever can change a place, or what leads there, does not get the grant; whoever cannot, does.
#[test]
fn no_grant_covers_a_place_whatever_leads_there() {
    let (mut refused, mut given) = (0, 0);
    for seed in 0..1_500 {
        let folder = tempfile::tempdir().expect("a folder");
        let root = fs::canonicalize(folder.path()).expect("a folder");
        let mut world = World::new(&root, seed);
        let place = world.path(4);
        let mut rules = DirectoryRules::default();
        rules.keep(&place, "what runs", true);
        for _ in 0..4 {
            let asked = world.path(3);
            let Ok(real) = fs::canonicalize(&asked) else { continue };
            let grant = |access| {
                let text = format!("{}:{access}", asked.display());
                let grant = DirGrant::parse(&text, None).expect("a grant");
                plugin::check_grant(&grant, &rules)
            };
            let mut reached = BTreeSet::new();
            below(&real, &mut reached);
            let (steps, at) = steps(&place);
            // What is not there can be made in the last folder that is.
            let there = at.ancestors().find(|path| path.exists()).expect("the root");
            let may_make = !at.exists() && there.starts_with(&real);
            let can_change = !reached.is_disjoint(&steps) || may_make || real.starts_with(&at);
            let said = grant("rw");
            assert_eq!(
                said.is_err(),
                can_change,
                "seed {seed}: {} with {} kept: {said:?}",
                asked.display(),
                place.display()
            );
            if can_change {
                refused += 1
            } else {
                given += 1
            }
            assert_eq!(grant("ro"), Ok(()), "seed {seed}");
        }
    }
    assert!(refused > 300 && given > 300, "{refused} refused, {given} given");
}

/// What is built is built of what cargo keeps: whoever writes there, writes the next build.
#[test]
fn what_cargo_keeps_for_builds_is_not_granted_for_writing() {
    let lab = Lab::new().with("probe.wasm", guest("probe"));
    let cargo = lab.home().join("cargo");
    for folder in ["registry/src", "git", "bin", "other"] {
        fs::create_dir_all(cargo.join(folder)).expect("made");
    }
    let grant = |directory: &Path| {
        let mut command = lab.command(env!("CARGO_BIN_EXE_toolhost"));
        let dir = format!("{}:rw", directory.display());
        command.env("CARGO_HOME", &cargo).args(["grant", "probe", "--dir", &dir]);
        let output = command.output().expect("the program");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for folder in ["registry", "registry/src", "git", "bin", ""] {
        let said = grant(&cargo.join(folder));
        assert!(said.contains("cannot be granted"), "{folder}: {said}");
    }
    let said = grant(&cargo.join("other"));
    assert!(!said.contains("cannot be granted"), "{said}");
}

/// Builds, and whoever works here, take programs from there.
#[test]
fn folders_of_path_are_not_granted_for_writing() {
    let lab = Lab::new().with("probe.wasm", guest("probe"));
    for folder in ["shims/bin", "shims/data"] {
        fs::create_dir_all(lab.home().join(folder)).expect("made");
    }
    let mut path = lab.home().join("shims/bin").into_os_string();
    path.push(":relative::");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let grant = |directory: &str, access: &str| {
        let mut command = lab.command(env!("CARGO_BIN_EXE_toolhost"));
        let dir = format!("{}:{access}", lab.home().join(directory).display());
        let output = command.env("PATH", &path).args(["grant", "probe", "--dir", &dir]).output();
        String::from_utf8_lossy(&output.expect("the program").stderr).into_owned()
    };
    for folder in ["shims/bin", "shims"] {
        let said = grant(folder, "rw");
        assert!(said.contains("holds programs of PATH"), "{folder}: {said}");
    }
    let said = grant("shims/data", "rw") + &grant("shims/bin", "ro");
    assert!(!said.contains("cannot be granted"), "{said}");
}
