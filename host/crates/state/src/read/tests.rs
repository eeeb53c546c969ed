//! What is read, and what is not.

use std::os::unix::fs::symlink;

use super::*;

struct FilesWorld {
    _folder: tempfile::TempDir,
    project: PathBuf,
    outside: PathBuf,
}

fn world() -> FilesWorld {
    let folder = tempfile::tempdir().expect("a folder");
    let root = fs::canonicalize(folder.path()).expect("a folder");
    let (project, outside) = (root.join("project"), root.join("outside"));
    for folder in [&project.join("plugins"), &project.join("src"), &outside] {
        fs::create_dir_all(folder).expect("made");
    }
    fs::write(outside.join("canary"), "canary").expect("written");
    fs::write(project.join("src/inner"), "inner").expect("written");
    FilesWorld { _folder: folder, project, outside }
}

fn read(place: &ReadScope, path: &Path) -> String {
    match place.text(path, 100) {
        Ok(text) => text,
        Err(error) => {
            assert!(error.to_string().starts_with(&error.name), "{error}");
            error.problem.to_string()
        }
    }
}

#[test]
fn links_stay_in_their_project() {
    let FilesWorld { project, outside, .. } = &world();
    let plugins = project.join("plugins");
    let place = ReadScope::of_plugins(&plugins).expect("a place");
    let link = |name: &str, target: &Path| {
        let path = plugins.join(name);
        symlink(target, &path).expect("a link");
        read(&place, &path)
    };
    assert_eq!(link("relative", Path::new("../src/inner")), "inner");
    assert_eq!(link("absolute", &project.join("src/inner")), "inner");
    assert_eq!(link("twice", Path::new("relative")), "inner");
    for (name, target) in [
        ("out", outside.join("canary")),
        ("up", PathBuf::from("../../outside/canary")),
        ("gone", outside.join("gone")),
        ("map", PathBuf::from("/proc/self/pagemap")),
        ("magic", PathBuf::from("/proc/self/exe")),
        ("zero", PathBuf::from("/dev/zero")),
        ("terminal", PathBuf::from("/dev/tty")),
    ] {
        let said = link(name, &target);
        // Where there is no such thing on this system, it is not there.
        assert!(said.starts_with("leads out of its project"), "{name}: {said}");
    }
    assert!(link("dangling", Path::new("nowhere")).starts_with("cannot be read"));
    assert!(link("loop", Path::new("loop")).starts_with("cannot be read"));
    symlink(outside, plugins.join("folder")).expect("a link");
    assert!(read(&place, &plugins.join("folder/canary")).starts_with("leads out"));
    assert!(read(&place, &plugins.join("folder/other")).starts_with("leads out"));
    for written in ["plugins/folder", "plugins/folder/", "plugins/folder//", "plugins/folder/."] {
        let place = ReadScope::of_plugins(&project.join(written)).expect("a place");
        assert_eq!(place, ReadScope::Project(project.clone()), "{written}");
    }
    // One that has what a project has is a project of its own.
    for name in MARKS {
        fs::write(plugins.join(name), "").expect("written");
        let place = ReadScope::of_plugins(&plugins).expect("a place");
        assert_eq!(
            place,
            ReadScope::Project(fs::canonicalize(&plugins).expect("a folder")),
            "{name}"
        );
        fs::remove_file(plugins.join(name)).expect("removed");
    }
    // The user's own folder.
    assert_eq!(read(&ReadScope::Own, &plugins.join("out")), "canary");
}

/// What is said of a link out of the project does not depend on what lies there.
#[test]
fn what_lies_outside_is_not_looked_at() {
    let FilesWorld { project, outside, .. } = &world();
    let place = ReadScope::Project(project.clone());
    fs::create_dir(project.join(".hg")).expect("made");
    symlink(outside, project.join("sub")).expect("a link");
    symlink("sub", project.join("again")).expect("a link");
    let targets =
        ["sub/canary", "sub/gone", "sub/canary/x", "sub/gone/x", "again/gone", "sub/../x"];
    for (number, target) in targets.into_iter().enumerate() {
        let path = project.join(format!("plugins/{number}.py"));
        symlink(Path::new("..").join(target), &path).expect("a link");
        for path in [path, project.join(target), project.join("src/..").join(target)] {
            let error = place.real(&path).expect_err("a link");
            assert_eq!(error.problem, FileProblem::LeadsOut, "{}", path.display());
        }
        // The same in the middle of a path.
        let below = project.join(target).join("words.py");
        assert_eq!(ReadScope::of_links(&[], &below).expect("found"), Some(place.clone()));
    }
    assert_eq!(place.outside(&project.join("again/a/../gone")), Some(outside.join("gone")));
    assert_eq!(place.outside(&project.join("src/inner")), None);
    // Links that come back do so without a look at what lies on the way.
    let name = project.file_name().expect("a name");
    let back = [
        Path::new("../..").join(name).join("src/inner"),
        Path::new("/nowhere/..")
            .join(project.strip_prefix("/").expect("absolute"))
            .join("src/inner"),
        project.join("src/../src/inner"),
    ];
    for (number, target) in back.iter().enumerate() {
        let path = project.join(format!("plugins/back{number}"));
        symlink(target, &path).expect("a link");
        let is_back = number != 1;
        assert_eq!(read(&place, &path) == "inner", is_back, "{}", target.display());
    }
    // A path that is typed may come to the project by a link.
    let typed = outside.join("typed");
    symlink(project, &typed).expect("a link");
    assert_eq!(read(&place, &typed.join("src/inner")), "inner");
    assert!(read(&place, &typed.join("sub/canary")).starts_with("leads out"));
}

#[test]
fn links_are_followed_as_often_as_by_the_kernel() {
    let FilesWorld { project, .. } = &world();
    let place = ReadScope::Project(project.clone());
    symlink("src/inner", project.join("1")).expect("a link");
    for number in 2..=41 {
        symlink(format!("{}", number - 1), project.join(format!("{number}"))).expect("a link");
    }
    for number in [1, 40, 41] {
        let path = project.join(format!("{number}"));
        assert_eq!(place.real(&path).is_ok(), fs::canonicalize(&path).is_ok(), "{number}");
    }
    assert!(read(&place, &project.join("41")).starts_with("cannot be read"));
}

#[test]
fn a_path_in_a_file_leads_to_known_folders_alone() {
    let FilesWorld { project, outside, .. } = &world();
    let kit = outside.join("kit");
    fs::create_dir_all(kit.join("sdk")).expect("made");
    symlink(&kit, project.join("link")).expect("a link");
    let folders = [project.clone(), kit.clone()];
    let found = |path: &Path| within(&folders, &project.join("src"), path).ok();
    for path in ["../../outside/kit/sdk", "../link/sdk", "../link/../kit/./sdk"] {
        assert_eq!(found(Path::new(path)), Some(kit.join("sdk")), "{path}");
    }
    assert_eq!(found(&kit), Some(kit.clone()));
    for path in
        ["../../outside", "../../outside/gone", "../link/..", "../link/../canary", "/", "/x"]
    {
        let stray = within(&folders, &project.join("src"), Path::new(path));
        assert!(matches!(stray, Err(Astray::LeadsOut(_))), "{path}: {stray:?}");
    }
}

#[test]
fn only_regular_files_are_read_and_bounded() {
    let FilesWorld { project, .. } = &world();
    let place = ReadScope::Project(project.clone());
    let pipe = project.join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, Mode::RWXU).expect("a pipe");
    let _socket = std::os::unix::net::UnixListener::bind(project.join("s")).expect("a socket");
    File::create(project.join("sparse")).expect("made").set_len(10 << 30).expect("grown");
    fs::write(project.join("large"), "x".repeat(101)).expect("written");
    fs::write(project.join("whole"), "x".repeat(100)).expect("written");
    fs::write(project.join("binary"), [0xff]).expect("written");
    let said = |name: &str| read(&place, &project.join(name));
    assert_eq!(said("pipe"), "is a named pipe, not a regular file; remove it");
    assert_eq!(said("s"), "is a socket, not a regular file; remove it");
    assert_eq!(said("src"), "is a directory, not a regular file; remove it");
    for name in ["sparse", "large"] {
        assert_eq!(said(name), "has more than the 100 bytes that are allowed");
    }
    assert_eq!(said("whole").len(), 100);
    assert_eq!(said("binary"), "is not UTF-8 text; save it as UTF-8");
}

#[cfg(target_os = "linux")]
#[test]
fn what_the_system_makes_is_no_file() {
    for name in ["/proc/self/pagemap", "/proc/self/environ", "/proc/self/mem", "/proc/cpuinfo"] {
        let said = read(&ReadScope::Own, Path::new(name));
        assert_eq!(said, "is made by the system as it is read, not a regular file; remove it");
    }
    assert!(read(&ReadScope::Own, Path::new("/dev/zero")).starts_with("is a device"));
}

/// What is found out of a path and what is opened are the same, whoever exchanges what meanwhile.
#[test]
fn nobody_exchanges_a_file_for_a_link() {
    let FilesWorld { project, outside, .. } = &world();
    let place = ReadScope::Project(project.clone());
    let (path, canary) = (project.join("src/inner"), outside.join("canary"));
    fs::remove_file(&path).expect("removed");
    symlink(&canary, &path).expect("a link");
    // As if it had been a file when it was looked at.
    assert_eq!(place.open_real(&path).expect_err("a link"), FileProblem::LeadsOut);
    fs::rename(project.join("src"), project.join("old")).expect("renamed");
    symlink(outside, project.join("src")).expect("a link");
    let below = project.join("src/canary");
    assert_eq!(place.open_real(&below).expect_err("a link"), FileProblem::LeadsOut);
    let root = || rustix::fs::open(project, FOLDER, Mode::empty()).expect("a folder");
    for below in ["src/canary", "old/inner", "../outside/canary", "/etc/passwd"] {
        step_by_step(root(), Path::new(below)).expect_err(below);
    }
    fs::write(project.join("old/new"), "new").expect("written");
    assert_eq!(
        io::read_to_string(step_by_step(root(), Path::new("old/new")).expect("a file"))
            .expect("read"),
        "new"
    );
}

/// Links at random places, to random ones: what is found is what the kernel finds, and what it finds
/// outside of the project never is.
#[test]
fn links_lead_where_the_kernel_follows_them() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 11).expect("64 bits") % below
    };
    let (mut put, mut inside, mut outside_too, mut nowhere) = (0, 0, 0, 0);
    for _ in 0..150 {
        let FilesWorld { project, outside, .. } = &world();
        fs::create_dir_all(project.join("a/b/c")).expect("made");
        fs::create_dir_all(outside.join("a/b")).expect("made");
        let names = ["a", "b", "c", "x", "y", "z", "src", "inner", "canary", "..", "."];
        let mut path_of = |start: &Path| {
            let mut path = start.to_owned();
            (0..1 + random(4)).for_each(|_| path.push(names[random(names.len())]));
            path
        };
        let starts =
            [PathBuf::new(), PathBuf::new(), project.clone(), project.join("a"), outside.clone()];
        for number in 0..12 {
            let (link, target) = (path_of(project), path_of(&starts[number % starts.len()]));
            // Where something lies already, none is put.
            put += usize::from(symlink(target, &link).is_ok());
        }
        let place = ReadScope::Project(project.clone());
        for _ in 0..60 {
            let path = path_of(project);
            match (fs::canonicalize(&path), place.real(&path)) {
                (Ok(real), Ok(found)) => {
                    assert!(real == found && found.starts_with(project), "{}", path.display());
                    inside += 1;
                }
                (Ok(real), Err(error)) => {
                    // It is outside, or the way back is not looked for.
                    assert_eq!(error.problem, FileProblem::LeadsOut, "{}", path.display());
                    outside_too += usize::from(!real.starts_with(project));
                }
                // What stands behind a file is taken for the file, or for what it lies in.
                (Err(error), Ok(found)) => {
                    assert_eq!(error.kind(), io::ErrorKind::NotADirectory, "{}", path.display());
                    assert!(found.starts_with(project), "{}", path.display());
                }
                (Err(_), Err(_)) => nowhere += 1,
            }
        }
    }
    let counted = format!("{put} put; {inside} inside, {outside_too} outside, {nowhere} nowhere");
    assert!(put > 300 && inside > 300 && outside_too > 100 && nowhere > 300, "{counted}");
}
