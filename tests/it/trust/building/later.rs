//! What comes into a trusted project, or to a source that was agreed to, is asked about; and no plugin may
//! write to what is not.

use std::fs;

use super::parts::{package, say, trusted};
use super::{ran, run, stranger};
use crate::support::{Lab, guest};

/// Whether the plugin `scribe` is refused a directory for writing.
fn refused(lab: &Lab, folder: &str) -> bool {
    fs::write(lab.plugins().join("scribe.wasm"), guest("probe")).expect("written");
    let dir = format!("{}:rw", lab.home().join(folder).display());
    let (_, said) = run(lab, &["grant", "scribe", "--dir", &dir, "--anyway"]);
    said.contains("which is built unasked") || said.contains("cannot be granted")
}

#[test]
fn sources_that_come_after_the_trust_are_asked_about() {
    let lab = trusted("[workspace]");
    run(&lab, &["build", "./mine"]);
    assert!(ran(&lab, "mine") && refused(&lab, "project/mine"));
    for folder in ["data/tool", ".hidden", "target/tool", "node_modules/tool"] {
        stranger(&lab.work().join(folder));
        let (code, said) = run(&lab, &["build", &format!("./{folder}")]);
        assert!(code == 3 && said.contains("nobody can be asked"), "{folder}: {said}");
        assert!(!ran(&lab, folder), "{folder}");
        assert!(!refused(&lab, &format!("project/{folder}")), "{folder}");
    }
    // What a new look at the project finds is trusted with it, and is not where nobody looks.
    assert_eq!(run(&lab, &["trust", ".", "--yes"]).0, 0);
    run(&lab, &["build", "./data/tool"]);
    assert!(ran(&lab, "data/tool") && refused(&lab, "project/data"));
    assert_eq!(run(&lab, &["build", "./.hidden"]).0, 3);
}

#[test]
fn a_script_of_one_file_is_asked_about_unless_it_is_a_plugin() {
    let lab = trusted("[workspace]");
    fs::create_dir(lab.work().join("scripts")).expect("made");
    fs::write(lab.work().join("scripts/words.py"), "import toolhost\n").expect("written");
    fs::write(lab.plugins().join("words.py"), "import toolhost\n").expect("written");
    let (code, said) = run(&lab, &["build", "./scripts/words.py", "--out", "dist"]);
    assert!(code == 3 && said.contains("nobody can be asked"), "{said}");
    let (_, said) = run(&lab, &["build", "./plugins/words.py", "--out", "dist"]);
    assert!(!said.contains("nobody can be asked"), "{said}");
}

#[test]
fn what_is_built_with_an_agreed_source_is_kept_and_what_comes_to_it_is_asked_about() {
    let lab = Lab::new();
    stranger(&lab.work().join("mine"));
    say(&lab, "[workspace]\n[dependencies]\ndep = { path = \"../../out/dep\" }");
    package(&lab.home().join("out/dep"), "dep");
    fs::create_dir_all(lab.work().join(".cargo")).expect("made");
    fs::write(lab.work().join(".cargo/config.toml"), "").expect("written");
    let (code, said) = run(&lab, &["build", "./mine"]);
    let expected = "outside the sandbox, and HOME/project/.cargo/config.toml has a say, and that of HOME/out/dep, which is of another project\n";
    assert!(code == 3 && said.contains(expected), "{said}");
    run(&lab, &["build", "./mine", "--yes"]);
    for folder in ["out", "out/dep", "out/dep/src", "project/.cargo"] {
        assert!(refused(&lab, folder), "{folder}");
    }
    let (_, said) = run(&lab, &["build", "./mine"]);
    assert!(!said.contains("nobody can be asked"), "{said}");
    // Agreed to is the build that it is part of.
    let (code, said) = run(&lab, &["build", &lab.home().join("out/dep").display().to_string()]);
    assert!(code == 3, "{said}");
    package(&lab.home().join("out/more"), "more");
    fs::write(
        lab.home().join("out/dep/Cargo.toml"),
        "[package]\nname = \"dep\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\nmore = { path = \"../more\" }\n",
    )
    .expect("written");
    let (code, said) = run(&lab, &["build", "./mine"]);
    assert!(code == 3 && said.contains("sandbox, and that of HOME/out/more, which"), "{said}");
}
