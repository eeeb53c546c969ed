//! Files of a repository that a stranger wrote, and that are no files, or others' files: whatever
//! lies there, every command ends, and nothing from outside of the repository is shown.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::support::Lab;

/// Stands in a file outside of the repository, as text of each language that is read.
const CANARY: &str = "hunter2canary";

fn canary(lab: &Lab) -> PathBuf {
    let outside = lab.home().join("outside");
    fs::create_dir_all(outside.join("folder")).expect("made");
    let text = format!("{CANARY} = {CANARY}\n[{CANARY}]\n");
    for name in ["credentials", "folder/plugin.py", "folder/x.wasm", "folder/toolhost.toml"] {
        fs::write(outside.join(name), &text).expect("written");
    }
    outside
}

fn pipe(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RWXU, 0).expect("a pipe");
}

/// Runs what looks at a repository; tells everything that was printed.
fn look(lab: &Lab) -> String {
    let commands: [&[&str]; 8] = [
        &["list"],
        &["doctor"],
        &["schema"],
        &["trust", ".", "--yes"],
        &["inspect", "plugins/cred.py"],
        &["inspect", "plugins/x.wasm"],
        &["check", "./plugins/cred.py"],
        &["--plugins", "plugins/folder", "list"],
    ];
    let printed = commands.map(|command| format!("{command:?}: {}\n", lab.run(command)));
    let printed = printed.concat();
    assert!(!printed.contains(CANARY), "{printed}");
    assert!(!printed.contains("exit 70") && !printed.contains("panicked"), "{printed}");
    printed
}

#[test]
fn links_out_of_a_repository_are_not_followed() {
    let lab = Lab::new();
    let outside = canary(&lab);
    let plugins = lab.plugins();
    symlink(outside.join("credentials"), plugins.join("cred.py")).expect("a link");
    symlink(outside.join("credentials"), plugins.join("x.wasm")).expect("a link");
    symlink(outside.join("folder"), plugins.join("folder")).expect("a link");
    symlink("/proc/self/environ", plugins.join("environment.js")).expect("a link");
    // Whether something is there is nobody's business, either.
    symlink(outside.join("nothing"), lab.work().join("second")).expect("a link");
    symlink("../second", plugins.join("gone.py")).expect("a link");
    symlink(outside.join("folder/toolhost.toml"), lab.work().join("toolhost.toml"))
        .expect("a link");
    let printed = look(&lab);
    for name in ["cred.py", "x.wasm", "folder", "environment.js"] {
        let reason = "leads out of its project by a link, so it is not read";
        assert!(printed.contains(&format!("plugins/{name}: {reason}")), "{name}: {printed}");
    }
    let ignored = "warning: the project's toolhost.toml is ignored: it leads out of its project";
    assert!(printed.contains(ignored), "{printed}");
}

/// Nobody learns whether something lies outside, by whatever links a path leads there.
#[test]
fn what_lies_outside_is_not_told_of() {
    let lab = Lab::new();
    let outside = canary(&lab);
    symlink(&outside, lab.work().join("sub")).expect("a link");
    symlink("sub", lab.work().join("again")).expect("a link");
    let targets =
        ["sub/credentials", "sub/gone", "again/gone", "sub/credentials/x", "sub/gone/x", "sub"];
    let file = lab.work().join("toolhost.toml");
    let said = targets.map(|target| {
        let plugin = lab.plugins().join("x.py");
        for link in [&plugin, &file, &lab.work().join("src")] {
            symlink(target, link).expect("a link");
        }
        fs::remove_file(&plugin).expect("removed");
        symlink(Path::new("..").join(target), &plugin).expect("a link");
        let commands: [&[&str]; 6] = [
            &["list"],
            &["inspect", "plugins/x.py"],
            &["check", "./plugins/x.py"],
            &["check", "./src"],
            &["build", "./src", "--yes"],
            &["list", "--plugins", "src"],
        ];
        let said = commands.map(|command| lab.run(command));
        for (command, said) in commands.iter().zip(&said) {
            assert!(said.contains("leads out of its project"), "{target} {command:?}: {said}");
        }
        for link in [&plugin, &file, &lab.work().join("src")] {
            fs::remove_file(link).expect("removed");
        }
        // The folder of plugins names where it leads.
        said[..5].concat()
    });
    for (target, other) in targets.iter().zip(&said) {
        assert_eq!(*other, said[0], "{target}");
    }
}

#[test]
fn a_source_that_leads_out_is_not_read() {
    let lab = Lab::new();
    let outside = canary(&lab);
    symlink(outside.join("folder"), lab.work().join("tools")).expect("a link");
    symlink(outside.join("folder/plugin.py"), lab.work().join("words.py")).expect("a link");
    for source in ["./tools", "tools/plugin.py", "./words.py"] {
        for command in [&["check"][..], &["build", "--yes"], &["dev", "--once", "--yes"]] {
            let said = lab.run(&[command, &[source]].concat());
            assert!(!said.starts_with("exit 0\n"), "{command:?} {source}: {said}");
            assert!(said.contains("leads out of its project by a link"), "{source}: {said}");
            assert!(!said.contains(CANARY), "{command:?} {source}: {said}");
        }
    }
    assert!(fs::read_dir(lab.plugins()).expect("a folder").next().is_none());
    // Named itself it is read, wherever it lies; and so is where a link within the project leads.
    let named = outside.join("folder").to_string_lossy().into_owned();
    assert!(lab.run(&["check", &named]).contains(CANARY));
    fs::create_dir(lab.work().join("in")).expect("made");
    fs::write(lab.work().join("in/plugin.py"), CANARY).expect("written");
    symlink("in", lab.work().join("link")).expect("a link");
    for source in ["./link", "in/../in/", "in/plugin.py"] {
        assert!(lab.run(&["check", source]).contains(CANARY), "{source}");
    }
}

#[test]
fn a_link_in_the_middle_of_a_typed_path_does_not_lead_out() {
    let lab = Lab::new();
    let outside = canary(&lab);
    symlink(&outside, lab.work().join("link")).expect("a link");
    symlink(&outside, lab.plugins().join("deep")).expect("a link");
    fs::create_dir(outside.join("folder/more")).expect("made");
    fs::write(outside.join("folder/more/x.py"), CANARY).expect("written");
    let absolute = lab.plugins().join("deep/folder/plugin.py");
    let absolute = absolute.to_string_lossy();
    let named = [
        "link/folder/more/x.py",
        "link/folder/plugin.py",
        "./link/folder",
        "link/folder/x.wasm",
        "plugins/../link/folder/x.wasm",
        &absolute,
    ];
    for source in named {
        for command in
            [&["inspect"][..], &["check"], &["trust", "--yes"], &["dev", "--once", "--yes"]]
        {
            // One builds sources, and the other trusts projects by their folders.
            let is_other = match command[0] {
                "dev" => source.ends_with(".wasm"),
                "trust" => source == "./link/folder",
                _ => false,
            };
            if is_other {
                continue;
            }
            let said = lab.run(&[command, &[source]].concat());
            assert!(!said.starts_with("exit 0\n"), "{command:?} {source}: {said}");
            assert!(!said.contains(CANARY), "{command:?} {source}: {said}");
            assert!(
                said.contains("leads out of its project by a link"),
                "{command:?} {source}: {said}"
            );
        }
    }
    // Where there is no project, links are of whoever typed them; so are those in a folder of the user's.
    let other = tempfile::tempdir().expect("a folder");
    symlink(&outside, other.path().join("link")).expect("a link");
    let typed = other.path().join("link/folder/plugin.py").to_string_lossy().into_owned();
    assert!(lab.run(&["check", &typed]).contains(CANARY));
}

#[test]
fn a_folder_of_plugins_that_leads_out_is_not_read() {
    let lab = Lab::new();
    let outside = canary(&lab);
    fs::remove_dir(lab.plugins()).expect("removed");
    symlink(outside.join("folder"), lab.plugins()).expect("a link");
    let printed = lab.run(&["list"]);
    assert!(printed.contains("plugins: leads out of its project by a link"), "{printed}");
    assert!(printed.contains("--plugins "), "{printed}");
    assert!(!printed.contains("x.wasm"), "{printed}");
    look(&lab);
}

#[test]
fn a_folder_that_is_named_leads_nowhere_else_by_how_it_is_written() {
    let lab = Lab::new();
    let outside = canary(&lab);
    symlink(&outside, lab.work().join("evil")).expect("a link");
    fs::write(lab.work().join("mine.py"), "").expect("written");
    let before = fs::read_dir(&outside).expect("a folder").count();
    for folder in ["evil", "evil/", "evil//", "evil/.", "./evil/", "evil/folder", "evil/folder/.."]
    {
        let listed = lab.run(&["list", "--plugins", folder]);
        assert!(listed.contains("leads out of its project by a link"), "{folder}: {listed}");
        assert!(!listed.contains("credentials") && !listed.contains("x.wasm"), "{listed}");
        let build = ["build", "./mine.py", "--yes", "--out", folder];
        let dev = ["dev", "./mine.py", "--yes", "--once", "--out", folder];
        let new = ["new", "fresh", "--lang", "python", "--dir", folder];
        for arguments in [&build[..], &dev[..], &new[..]] {
            let said = lab.run(arguments);
            assert!(said.starts_with("exit 2"), "{arguments:?}: {said}");
            assert!(said.contains("leads out of its project by a link"), "{arguments:?}: {said}");
        }
    }
    let said = lab.run(&["new", "fresh", "--lang", "python", "--dir", "evil/none/deep"]);
    assert!(said.starts_with("exit 2") && said.contains("leads out of its project"), "{said}");
    let dev = ["dev", "./mine.py", "--yes", "--once", "--out", "evil/none/deep"];
    let said = lab.run(&dev);
    assert!(said.starts_with("exit 2") && said.contains("leads out of its project"), "{said}");
    let said = lab.run(&["build", "./mine.py", "--yes", "--out", "evil/none/deep"]);
    assert!(said.starts_with("exit 2") && said.contains("leads out of its project"), "{said}");
    assert_eq!(fs::read_dir(&outside).expect("a folder").count(), before);
    // Within the project a link leads where it likes.
    fs::create_dir(lab.work().join("parts")).expect("made");
    symlink("parts", lab.work().join("link")).expect("a link");
    let made = lab.run(&["new", "fresh", "--lang", "python", "--dir", "link/"]);
    assert!(made.starts_with("exit 0"), "{made}");
    assert!(!lab.run(&["list", "--plugins", "link/"]).contains("leads out"));
}

#[test]
fn a_configuration_that_is_no_file_is_ignored_by_name() {
    let lab = Lab::new();
    let file = lab.work().join("toolhost.toml");
    let ignored = |reason: &str| {
        let listed = lab.run(&["list"]);
        let warning = format!("warning: the project's toolhost.toml is ignored: it {reason}");
        assert!(listed.starts_with("exit 0") && listed.contains(&warning), "{reason}: {listed}");
        if file.is_dir() { fs::remove_dir(&file) } else { fs::remove_file(&file) }
            .expect("removed");
    };
    for target in ["/proc/self/pagemap", "/proc/self/mem", "/dev/zero", "/dev/tty", "/etc/passwd"] {
        symlink(target, &file).expect("a link");
        ignored("leads out of its project");
    }
    pipe(&file);
    ignored("is a named pipe, not a regular file");
    fs::create_dir(&file).expect("made");
    ignored("is a directory, not a regular file");
    fs::File::create(&file).expect("made").set_len(10 << 30).expect("grown");
    ignored("has more than the 1048576 bytes that are allowed");
    fs::write(&file, [0xff, 0xfe]).expect("written");
    ignored("is not UTF-8 text");
}

#[test]
fn a_configuration_that_says_too_much_is_ignored() {
    let lab = Lab::new();
    let many = |each: &dyn Fn(usize) -> String| -> String { (0..4_000).map(each).collect() };
    let texts = [
        many(&|n| format!("[plugins.p{n}]\nkv = true\n")),
        format!("[plugins.p]\nenv = [{}]\n", many(&|n| format!("\"A{n}\","))),
        format!("[plugins.p]\nhttp = [{}]\n", many(&|n| format!("\"https://a{n}.com\","))),
    ];
    for text in texts {
        fs::write(lab.work().join("toolhost.toml"), text).expect("written");
        let listed = lab.run(&["list"]);
        assert!(listed.starts_with("exit 0"), "{listed}");
        assert!(listed.contains("a project's file may have 2000"), "{listed}");
    }
}

#[test]
fn a_repository_that_is_called_plugins_is_a_project_of_its_own() {
    let lab = Lab::new();
    let outside = canary(&lab);
    symlink(outside.join("credentials"), lab.plugins().join("cred.py")).expect("a link");
    // Within what is its project otherwise.
    fs::copy(outside.join("credentials"), lab.work().join("secret")).expect("copied");
    symlink("../secret", lab.plugins().join("near.py")).expect("a link");
    for mark in [".git", ".hg", ".jj", ".svn", "_darcs", "CVS", ".fslckout", ".bzr", ".pijul"] {
        let mark = lab.plugins().join(mark);
        fs::create_dir(&mark).expect("made");
        let listed = lab.run(&["list"]);
        let refused = "plugins/near.py: leads out of its project";
        assert!(listed.contains(refused), "{}: {listed}", mark.display());
        assert!(!listed.contains(CANARY), "{}: {listed}", mark.display());
        fs::remove_dir(&mark).expect("removed");
    }
    fs::create_dir(lab.plugins().join(".git")).expect("made");
    look(&lab);
}

#[test]
fn links_within_a_repository_are_followed() {
    let lab = Lab::new();
    fs::write(lab.work().join("shared.toml"), "[limits]\ntools_max = 3\n").expect("written");
    symlink("shared.toml", lab.work().join("toolhost.toml")).expect("a link");
    fs::write(lab.work().join("built.wasm"), "(no component)").expect("written");
    symlink("../built.wasm", lab.plugins().join("x.wasm")).expect("a link");
    let listed = lab.run(&["list"]);
    assert!(!listed.contains("is ignored") && !listed.contains("leads out"), "{listed}");
    assert!(listed.contains("x.wasm: not WebAssembly"), "{listed}");
}

/// What may lie in a repository, at random.
fn plant(random: &mut ChaCha8Rng, folder: &Path, outside: &Path, depth: usize) {
    let names: [&[u8]; 12] = [
        b"x.wasm",
        b"cred.py",
        b"plugin.py",
        b"plugin.js",
        b"folder",
        b"a.ts",
        b"toolhost.toml",
        b"plugins",
        b"package.json",
        b"\xff\xfe.py",
        b"Cargo.toml",
        b".hidden.wasm",
    ];
    for _ in 0..random.random_range(1..9) {
        let name = names[random.random_range(0..names.len())];
        let path = folder.join(std::ffi::OsStr::from_bytes(name));
        if path.symlink_metadata().is_ok() {
            continue;
        }
        let linked = |target: &Path| symlink(target, &path).expect("a link");
        match random.random_range(0..13) {
            0 => linked(&outside.join("credentials")),
            1 => linked(&outside.join("folder")),
            2 => linked(Path::new("/proc/self/pagemap")),
            3 => linked(Path::new("/proc/self/root")),
            4 => linked(Path::new("/proc/self/fd/0")),
            5 => linked(Path::new("/dev/zero")),
            6 => linked(Path::new("..")),
            7 => linked(Path::new("x.wasm")),
            8 => pipe(&path),
            9 => fs::File::create(&path).expect("made").set_len(1 << 40).expect("grown"),
            10 => fs::write(&path, "x = 1\n").expect("written"),
            _ if depth < 4 => {
                fs::create_dir(&path).expect("made");
                plant(random, &path, outside, depth + 1);
            }
            _ => fs::write(&path, [0xff; 100]).expect("written"),
        }
    }
}

#[test]
fn whatever_lies_in_a_repository_every_command_ends() {
    for seed in 0..6 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let lab = Lab::new();
        let outside = canary(&lab);
        if random.random_bool(0.3) {
            fs::remove_dir(lab.plugins()).expect("removed");
        } else {
            plant(&mut random, &lab.plugins(), &outside, 0);
        }
        plant(&mut random, &lab.work(), &outside, 0);
        look(&lab);
    }
}
