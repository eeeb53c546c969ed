//! What `make run` records beside the program counts in every home, as long as nobody else can write
//! there.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use crate::support::{Lab, RUNNERS};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// A program with the runners beside it, as `make run` leaves them; what it records is the lab's.
fn program(lab: &Lab) -> PathBuf {
    LazyLock::force(&RUNNERS);
    let built = Path::new(env!("CARGO_BIN_EXE_toolhost"));
    let folder = lab.home().join("target/release");
    fs::create_dir_all(&folder).expect("a folder");
    let program = folder.join("toolhost");
    fs::copy(built, &program).expect("copied");
    symlink(built.with_file_name("runners"), folder.join("runners")).expect("a link");
    program
}

/// Runs the program with its files in another home of the lab, and returns all it says.
fn run(lab: &Lab, program: &Path, home: &str, arguments: &[&str]) -> String {
    let mut command = lab.command(program);
    let output = command.env("TOOLHOST_HOME", lab.home().join(home)).args(arguments).output();
    let output = output.expect("the program");
    let said = [output.stdout, output.stderr].concat();
    let code = output.status.code().expect("a code");
    format!("exit {code}\n{}", String::from_utf8_lossy(&said))
}

/// Records the bundled scripts as `make` does.
fn record(lab: &Lab, program: &Path, home: &str, flags: &[&str]) {
    let scripts = ["csv-query", "html-to-markdown"];
    let scripts = scripts.map(|name| format!("{ROOT}/plugins/{name}"));
    let scripts = scripts.iter().map(String::as_str);
    let arguments: Vec<&str> =
        ["record-bundled"].into_iter().chain(flags.iter().copied()).chain(scripts).collect();
    let said = run(lab, program, home, &arguments);
    assert!(said.starts_with("exit 0\n"), "{said}");
}

#[test]
fn bundled_is_bundled_in_every_home() {
    let lab = Lab::new();
    let program = program(&lab);
    record(&lab, &program, "first", &[]);
    let plugins = Path::new(ROOT).join("plugins");
    let plugins = plugins.to_string_lossy();
    let state = |home: &str, tool: &str| {
        let listed = run(&lab, &program, home, &["list", "--plugins", &plugins]);
        let line = listed.lines().find(|line| line.starts_with(tool));
        line.unwrap_or_else(|| panic!("no {tool}: {listed}")).to_owned()
    };
    for tool in ["csv_query", "html_to_markdown"] {
        assert!(!state("another", tool).contains("untrusted"), "{tool}");
    }
    // Another program has nothing of it.
    let other = run(
        &lab,
        Path::new(env!("CARGO_BIN_EXE_toolhost")),
        "third",
        &["list", "--plugins", &plugins],
    );
    assert!(other.contains("ready, untrusted") && !other.contains("ready, bundled"), "{other}");

    // Where others can write, it counts no more.
    let made = program.with_file_name("bundled");
    for path in [made.clone(), made.join("bundled.json")] {
        let mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode));
        mode(0o777).expect("changed");
        assert!(state("another", "csv_query").contains("ready, untrusted"));
        mode(0o755).expect("changed");
    }
    assert!(!state("another", "csv_query").contains("untrusted"));
    // No grant for writing reaches it.
    for dir in [made.clone(), lab.home().join("target")] {
        let grant = format!("{}:rw", dir.display());
        let arguments = ["grant", "csv-query", "--plugins", &plugins, "--dir", &grant];
        let refused = run(&lab, &program, "another", &arguments);
        assert!(refused.starts_with("exit 2\n"), "{refused}");
        assert!(refused.contains("the program toolhost"), "{refused}");
    }
}

#[test]
fn the_bundled_scripts_are_installed() {
    let lab = Lab::new();
    let program = program(&lab);
    record(&lab, &program, "home", &["--install"]);
    // From any directory, by the home alone.
    let listed = run(&lab, Path::new(env!("CARGO_BIN_EXE_toolhost")), "home", &["list"]);
    let bundled = listed.lines().filter(|line| line.contains("ready, bundled"));
    let names: Vec<&str> = bundled.filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names, ["csv_query", "html_to_markdown"], "{listed}");
    // Without tests and the like.
    let files = fs::read_dir(lab.home().join("home/bundled/csv-query")).expect("a folder");
    let mut files: Vec<String> =
        files.flatten().map(|file| file.file_name().to_string_lossy().into_owned()).collect();
    files.sort();
    assert!(files.contains(&"plugin.py".to_owned()), "{files:?}");
    assert!(files.iter().all(|file| !file.contains("test")), "{files:?}");
    // Once more changes nothing.
    record(&lab, &program, "home", &["--install"]);
    assert!(run(&lab, &program, "home", &["list"]).contains("csv_query"));
}
