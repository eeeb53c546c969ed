//! What tests run against and have to build first: guests, runners of scripts, packages of others.
//!
//! Each is built once for a target folder, by whichever process needs it first. A file lock keeps
//! the others waiting, and a list of the files that it was made of tells whether it is still fresh.
//! So a process for each test costs no more than one for all of them.

use std::fmt::Write;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::UNIX_EPOCH;

use toolhost_author::{self as author, BuildRequest, Places};
use toolhost_wasm::RunnerPlaces;
use toolhost_wasm::script::Language;

/// The repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");
/// What Rust guests are made of, beside their own folder.
const SDK: [&str; 2] = ["sdk", "wit"];
/// Folders with what a build or a package manager leaves.
const LEFT: [&str; 3] = ["target", "node_modules", "__pycache__"];

/// What is built for the tests of one package.
pub struct GuestBuilds {
    program: &'static str,
    temporary: &'static str,
    guests: OnceLock<PathBuf>,
    bundled: OnceLock<PathBuf>,
    scripts: OnceLock<PathBuf>,
    runners: OnceLock<RunnerPlaces>,
    packages: OnceLock<PathBuf>,
}

/// The [`GuestBuilds`] of the package that names this, which has the program.
#[macro_export]
macro_rules! builds {
    () => {
        $crate::GuestBuilds::new(env!("CARGO_BIN_EXE_toolhost"), env!("CARGO_TARGET_TMPDIR"))
    };
}

impl GuestBuilds {
    /// For a program, below a target folder's folder for tests; [`builds!`](crate::builds!) knows both.
    #[must_use]
    pub const fn new(program: &'static str, temporary: &'static str) -> GuestBuilds {
        GuestBuilds {
            program,
            temporary,
            guests: OnceLock::new(),
            bundled: OnceLock::new(),
            scripts: OnceLock::new(),
            runners: OnceLock::new(),
            packages: OnceLock::new(),
        }
    }

    /// The program under test.
    #[must_use]
    pub fn program(&self) -> &'static Path {
        Path::new(self.program)
    }

    /// The cache folder that the tests' programs share, and keep between runs.
    #[must_use]
    pub fn cache(&self) -> PathBuf {
        Path::new(self.temporary).join("cache")
    }

    /// Compiled components, shared by all tests and kept between runs.
    #[must_use]
    pub fn components(&self) -> PathBuf {
        self.cache().join("components")
    }

    /// The component of a Rust guest of `tests/guests`, or of a bundled plugin.
    #[must_use]
    pub fn guest(&self, id: &str) -> Vec<u8> {
        let file = format!("{id}.wasm");
        let path = self.guests().join(&file);
        if path.is_file() {
            return read(&path);
        }
        let path = self.bundled.get_or_init(|| self.rust("plugins", "bundled")).join(&file);
        assert!(path.is_file(), "there is no guest {id}");
        read(&path)
    }

    /// The folder with the components of `tests/guests` that are written in Rust.
    #[must_use]
    pub fn guests(&self) -> &Path {
        self.guests.get_or_init(|| self.rust("tests/guests", "guests"))
    }

    /// The component of a guest in Python (`words-py`) or JavaScript (`words-js`).
    #[must_use]
    pub fn script(&self, id: &str) -> Vec<u8> {
        let folder = self.scripts.get_or_init(|| {
            // One after the other, since both install the same tools.
            self.runners();
            let out = Path::new(self.temporary).join("scripts");
            self.once(&out, &["tests/guests/scripts", "sdk", "wit"], || {
                sh("tests/guests/scripts/build.sh", &[&out, &self.tools()]);
            });
            out
        });
        read(&folder.join(format!("{id}.wasm")))
    }

    /// The runners of scripts, built where the program under test looks for them.
    pub fn runners(&self) -> &RunnerPlaces {
        self.runners.get_or_init(|| {
            let folder = self.program().with_file_name("runners");
            let place = |language: Language| folder.join(format!("{}.wasm", language.word()));
            self.once(&folder, &SDK, || {
                sh("plugins/setup.sh", &[Path::new("python"), Path::new("javascript")]);
                for language in Language::ALL {
                    let word = language.word();
                    let runner = format!("sdk/{word}/runner.sh");
                    sh(&runner, &[&self.tools().join(word), &place(language)]);
                }
            });
            Language::ALL.map(|language| (language, vec![place(language)])).into()
        })
    }

    /// What builds components of scripts.
    #[must_use]
    pub fn places(&self) -> Places {
        self.runners();
        let sdk = fs::canonicalize(Path::new(ROOT).join("sdk")).expect("the SDKs");
        Places { sdks: vec![sdk], tools: vec![self.tools()] }
    }

    /// The folder with packages of others that tests run against, installed: those of model
    /// vendors and MCP clients.
    #[must_use]
    pub fn packages(&self) -> &Path {
        self.packages.get_or_init(|| {
            let out = Path::new(self.temporary).join("packages");
            self.once(&out, &["tests/it/packages.sh"], || sh("tests/it/packages.sh", &[&out]));
            out
        })
    }

    /// Where what builds components of script languages is installed: by make, too.
    fn tools(&self) -> PathBuf {
        Path::new(self.temporary).with_file_name("tools")
    }

    /// Builds the Rust components of a folder of the repository; returns where they are.
    fn rust(&self, source: &str, name: &str) -> PathBuf {
        let out = Path::new(self.temporary).join(name);
        let sources = [&[source][..], &SDK].concat();
        self.once(&out, &sources, || {
            let request = BuildRequest {
                source: Path::new(ROOT).join(source),
                out: out.clone(),
                environment: std::env::vars_os().collect(),
                ..BuildRequest::default()
            };
            // On a thread of its own, since tests have runtimes already.
            let building = std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let built = runtime.expect("a runtime").block_on(author::build(&request));
                built.unwrap_or_else(|error| panic!("{error}"))
            });
            let built = building.join().expect("guests that build");
            // No component of a guest that is gone stays.
            for entry in fs::read_dir(&out).expect("a folder").flatten() {
                let path = entry.path();
                let is_component = path.extension().is_some_and(|extension| extension == "wasm");
                if is_component && built.iter().all(|built| built.path != path) {
                    fs::remove_file(path).expect("removed");
                }
            }
        });
        out
    }

    /// Fills a folder, unless it was filled by this program from the same files; one process
    /// after the other.
    fn once(&self, out: &Path, sources: &[&str], fill: impl FnOnce()) {
        fs::create_dir_all(out).expect("a folder");
        let lock = File::create(Path::new(self.temporary).join("builds.lock")).expect("a lock");
        lock.lock().expect("locked");
        let made_of = self.made_of(sources);
        let record = out.join("made-of");
        if fs::read_to_string(&record).is_ok_and(|recorded| recorded == made_of) {
            return;
        }
        // It is written last, so that an interrupted build is done again.
        let _ = fs::remove_file(&record);
        fill();
        fs::write(record, made_of).expect("written");
    }

    /// A line for the program, which has what builds, and for each file of these folders.
    fn made_of(&self, sources: &[&str]) -> String {
        let mut files = vec![self.program().to_owned()];
        let mut left: Vec<PathBuf> = sources.iter().map(|of| Path::new(ROOT).join(of)).collect();
        while let Some(path) = left.pop() {
            if path.symlink_metadata().is_ok_and(|of| of.is_dir()) {
                let entries = fs::read_dir(&path).expect("a folder").flatten();
                let entries = entries.filter(|entry| {
                    let name = entry.file_name();
                    !LEFT.iter().any(|left| name == *left)
                });
                left.extend(entries.map(|entry| entry.path()));
            } else if path.extension().is_none_or(|extension| extension != "wasm") {
                files.push(path);
            }
        }
        files.sort();
        let mut lines = String::new();
        for path in files {
            // A link that leads nowhere is no source.
            let Ok(of) = fs::metadata(&path) else { continue };
            let changed = of.modified().expect("a time").duration_since(UNIX_EPOCH);
            let changed = changed.unwrap_or_default().as_nanos();
            writeln!(lines, "{} {} {changed}", path.display(), of.len()).expect("a line");
        }
        lines
    }
}

/// Runs a script of the repository.
pub(crate) fn sh(script: &str, arguments: &[&Path]) {
    let script = Path::new(ROOT).join(script);
    let output = Command::new("sh").arg(script).args(arguments).output().expect("sh");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
}

/// Puts a runner somewhere, and records it as `sdk/record.sh` does when it is built.
pub fn put_runner(place: &Path, bytes: &[u8]) {
    let built = place.with_extension("built");
    fs::write(&built, bytes).expect("written");
    sh("sdk/record.sh", &[Path::new("put"), &built, place]);
}

/// A folder of the repository.
pub(crate) fn of_repository(folder: &str) -> PathBuf {
    Path::new(ROOT).join(folder)
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
