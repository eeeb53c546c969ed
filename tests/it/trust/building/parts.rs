//! What else is built with a source of a trusted project: clones within it, members of a workspace, and
//! dependencies by a path are their authors'.

use std::fs;
use std::path::Path;

use super::{run, stranger};
use crate::support::Lab;

/// A trusted project with the package `mine`, whose manifest says more.
pub(super) fn trusted(more: &str) -> Lab {
    let lab = Lab::new();
    stranger(&lab.work().join("mine"));
    say(&lab, more);
    fs::write(lab.work().join("toolhost.toml"), "# Nothing.\n").expect("written");
    assert_eq!(run(&lab, &["trust", ".", "--yes"]).0, 0);
    lab
}

pub(super) fn say(lab: &Lab, more: &str) {
    let manifest = format!(
        "[package]\nname = \"json\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[lib]\ncrate-type = [\"cdylib\"]\n{more}\n"
    );
    fs::write(lab.work().join("mine/Cargo.toml"), manifest).expect("written");
}

pub(super) fn package(folder: &Path, name: &str) {
    fs::create_dir_all(folder.join("src")).expect("made");
    fs::write(folder.join("src/lib.rs"), "").expect("written");
    fs::write(folder.join("build.rs"), "fn main() { std::fs::write(\"ran\", \"\").unwrap(); }\n")
        .expect("written");
    let manifest =
        format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
    fs::write(folder.join("Cargo.toml"), manifest).expect("written");
}

#[track_caller]
fn asks_about(lab: &Lab, source: &str, part: &str) {
    let (code, said) = run(lab, &["build", source]);
    let expected = format!("and that of HOME/{part}, which is of another project");
    assert!(code == 3 && said.contains(&expected), "{said}");
}

#[test]
fn a_clone_of_any_kind_is_a_strangers() {
    let lab = trusted("[workspace]");
    stranger(&lab.work().join("clone/json"));
    for mark in [".git", ".hg", ".jj", ".svn", "_darcs", ".fslckout", ".bzr", "CVS"] {
        let mark = lab.work().join("clone").join(mark);
        fs::create_dir(&mark).expect("made");
        let (code, said) = run(&lab, &["build", "./clone/json"]);
        assert!(code == 3 && said.contains("nobody can be asked"), "{}: {said}", mark.display());
        fs::remove_dir(&mark).expect("removed");
    }
}

#[test]
fn a_member_that_is_a_clone_is_asked_about() {
    let lab = trusted("");
    fs::create_dir(lab.work().join("ws")).expect("made");
    fs::rename(lab.work().join("mine"), lab.work().join("ws/mine")).expect("moved");
    package(&lab.work().join("ws/theirs"), "theirs");
    fs::create_dir(lab.work().join("ws/theirs/.git")).expect("made");
    for members in ["*", "th*s", "theirs", "t?eirs", "**"] {
        let manifest = format!("[workspace]\nmembers = [\"{members}\"]\n");
        fs::write(lab.work().join("ws/Cargo.toml"), manifest).expect("written");
        for source in ["./ws", "./ws/mine"] {
            asks_about(&lab, source, "project/ws/theirs");
        }
    }
    assert!(!lab.work().join("ws/theirs/ran").exists());
}

#[test]
fn a_dependency_that_is_a_clone_is_asked_about() {
    let lab = trusted("[workspace]");
    package(&lab.home().join("out"), "dep");
    package(&lab.work().join("dep"), "dep");
    for table in [
        "[dependencies]",
        "[dev-dependencies]",
        "[build-dependencies]",
        "[target.'cfg(unix)'.dependencies]",
        "[patch.crates-io]",
        "[workspace.dependencies]",
    ] {
        say(&lab, &format!("[workspace]\n{table}\ndep = {{ path = \"../../out\" }}"));
        asks_about(&lab, "./mine", "out");
        say(&lab, &format!("[workspace]\n{table}\ndep = {{ path = \"../dep\" }}"));
        fs::create_dir(lab.work().join("dep/.git")).expect("made");
        asks_about(&lab, "./mine", "project/dep");
        fs::remove_dir(lab.work().join("dep/.git")).expect("removed");
    }
    // One dependency further.
    let manifest = fs::read_to_string(lab.work().join("dep/Cargo.toml")).expect("there");
    let more = format!("{manifest}[dependencies]\nfar = {{ path = \"../../out\" }}\n");
    fs::write(lab.work().join("dep/Cargo.toml"), more).expect("written");
    say(&lab, "[workspace]\n[dependencies]\ndep = { path = \"../dep\" }");
    asks_about(&lab, "./mine", "out");
    // What is the project's own is built.
    fs::write(lab.work().join("dep/Cargo.toml"), manifest).expect("written");
    let (_, said) = run(&lab, &["build", "./mine"]);
    assert!(!said.contains("author's code") && lab.work().join("dep/ran").exists(), "{said}");
}

/// A stranger's workspace is looked at before anybody is asked: in little time, and nowhere else.
#[test]
fn members_are_looked_for_in_the_project_alone() {
    let lab = trusted("");
    package(&lab.home().join("out/theirs"), "theirs");
    fs::create_dir(lab.work().join("mine").join("a".repeat(200))).expect("made");
    std::os::unix::fs::symlink(lab.home().join("out"), lab.work().join("mine/link"))
        .expect("a link");
    let absolute = lab.home().join("out").to_string_lossy().into_owned();
    let members = |member: &str| say(&lab, &format!("[workspace]\nmembers = [\"{member}\"]"));
    for (member, part) in [
        ("../../out/*", "out"),
        ("../../none/*", "none"),
        ("link/*", "out"),
        ("l*k", "out"),
        ("l*k/theirs", "out"),
        (&*format!("{absolute}/*"), "out"),
        ("a*/../../../out", "project/mine/aaa"),
    ] {
        members(member);
        let (code, said) = run(&lab, &["build", "./mine"]);
        let expected = format!("and that of HOME/{part}");
        assert!(code == 3 && said.contains(&expected), "{member}: {said}");
    }
    for member in ["************z", "a*a*a*a*a*a*a*a*a*a*a*z", "**/**/**/**/**/**/**/**"] {
        members(member);
        let begun = std::time::Instant::now();
        let (_, said) = run(&lab, &["build", "./mine"]);
        assert!(!said.contains("author's code"), "{member}: {said}");
        assert!(begun.elapsed() < std::time::Duration::from_secs(60), "{member}");
    }
}

#[test]
fn a_manifest_is_read_as_other_files_of_a_project() {
    let lab = trusted("");
    package(&lab.home().join("out"), "out");
    let manifest = lab.work().join("mine/Cargo.toml");
    for target in ["../../out/Cargo.toml", "../../out/gone", "/proc/self/pagemap", "/dev/zero"] {
        fs::remove_file(&manifest).expect("removed");
        std::os::unix::fs::symlink(target, &manifest).expect("a link");
        for command in [&["check", "./mine"], &["build", "./mine"]] {
            let (code, said) = run(&lab, command);
            let expected = "mine/Cargo.toml leads out of its project by a link";
            assert!(code == 2 && said.contains(expected), "{command:?} {target}: {said}");
        }
    }
    fs::remove_file(&manifest).expect("removed");
    // So is that of a part.
    say(&lab, "[workspace]\n[dependencies]\ndep = { path = \"../dep\" }");
    fs::create_dir(lab.work().join("dep")).expect("made");
    std::os::unix::fs::symlink("../../out/Cargo.toml", lab.work().join("dep/Cargo.toml"))
        .expect("a link");
    asks_about(&lab, "./mine", "project/dep/Cargo.toml");
}

#[test]
fn another_repository_at_the_path_of_a_trusted_one_is_not_trusted() {
    let lab = Lab::new();
    let mine = lab.work().join("mine");
    stranger(&mine.join("json"));
    fs::create_dir(mine.join("plugins")).expect("made");
    let words = crate::support::made(&serde_json::json!({
        "tools": [{ "name": "say", "answer": { "text": "a" } }],
    }));
    fs::write(mine.join("plugins/say.wasm"), words).expect("written");
    let (code, said) = run(&lab, &["trust", "./mine", "--yes"]);
    assert_eq!(code, 0, "{said}");
    fs::rename(&mine, lab.work().join("moved")).expect("moved");
    stranger(&mine.join("json"));
    let (code, said) = run(&lab, &["build", "./mine/json"]);
    assert!(code == 3 && said.contains("nobody can be asked"), "{said}");
    assert!(!mine.join("json/ran").exists());
    fs::rename(&mine, lab.work().join("theirs")).expect("moved");
    fs::rename(lab.work().join("moved"), &mine).expect("moved back");
    let (_, said) = run(&lab, &["build", "./mine/json"]);
    assert!(!said.contains("author's code"), "{said}");
}
