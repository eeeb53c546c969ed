//! A laboratory for one test: a home, a plugins folder, guests to put there.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, LazyLock};

use expect_test::Expect;
use regex::Regex;
use serde_json::Value;
use tempfile::TempDir;
use toolhost::{Host, HostSettings};
use toolhost_author::{self as author, BuildRequest, Places};
use toolhost_core::tool::{Call, Origin, Outcome};
use toolhost_sources::folder::Folder;
use toolhost_sources::reload::SourceStatus;
use toolhost_state::config;
use toolhost_state::config::Config;
use toolhost_state::trust_store::{self, Pin};
use toolhost_wasm::script::{self, Language};
use toolhost_wasm::{self as plugin, RunnerPlaces};

pub(crate) mod component;

pub(crate) use component::from_wat;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const TMP: &str = env!("CARGO_TARGET_TMPDIR");

/// Rust guests of `tests/guests` and the bundled plugins, by id.
static RUST: LazyLock<BTreeMap<String, Vec<u8>>> = LazyLock::new(|| {
    // On a thread of its own, since tests have runtimes already.
    let building = std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let mut built = build("tests/guests", "guests").await;
            built.extend(build("plugins", "bundled").await);
            built
        })
    });
    building.join().expect("guests that build")
});

async fn build(source: &str, out: &str) -> BTreeMap<String, Vec<u8>> {
    let request = BuildRequest {
        source: Path::new(ROOT).join(source),
        out: Path::new(TMP).join(out),
        environment: std::env::vars_os().collect(),
        ..BuildRequest::default()
    };
    let built = author::build(&request).await.unwrap_or_else(|error| panic!("{error}"));
    built.into_iter().map(|built| (built.id.to_string(), read(&built.path))).collect()
}

/// The folder of the guests of script languages, built.
static SCRIPTS: LazyLock<PathBuf> = LazyLock::new(|| {
    // One after the other, since both install the same tools.
    LazyLock::force(&RUNNERS);
    let out = Path::new(TMP).join("scripts");
    sh("tests/guests/scripts/build.sh", &[&out, &tools()]);
    out
});

/// The runners of scripts, built where the program under test looks for them.
pub(crate) static RUNNERS: LazyLock<RunnerPlaces> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_BIN_EXE_toolhost")).with_file_name("runners");
    sh("plugins/setup.sh", &[Path::new("python"), Path::new("javascript")]);
    let place = |language: Language| {
        let word = language.word();
        let runner = folder.join(format!("{word}.wasm"));
        sh(&format!("sdk/{word}/runner.sh"), &[&tools().join(word), &runner]);
        (language, vec![runner])
    };
    Language::ALL.map(place).into()
});

/// Where what builds components of script languages is installed: by make, too.
fn tools() -> PathBuf {
    Path::new(TMP).with_file_name("tools")
}

/// What builds components of scripts.
pub(crate) fn places() -> Places {
    LazyLock::force(&RUNNERS);
    let sdk = fs::canonicalize(Path::new(ROOT).join("sdk")).expect("the SDKs");
    Places { sdks: vec![sdk], tools: vec![tools()] }
}

/// Copies what a repository has of a folder.
fn copy(source: &Path, target: &Path) {
    fs::create_dir_all(target).expect("a folder");
    for entry in fs::read_dir(source).expect("a folder").flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        if path.is_file() {
            fs::copy(&path, target.join(name)).expect("copied");
        } else if name != "__pycache__" && name != "node_modules" {
            copy(&path, &target.join(name));
        }
    }
}

/// Runs a script of the repository.
fn sh(script: &str, arguments: &[&Path]) {
    let script = Path::new(ROOT).join(script);
    let output = Command::new("sh").arg(script).args(arguments).output().expect("sh");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
}

/// Puts a runner somewhere, and records it as `sdk/record.sh` does when it is built.
pub(crate) fn put_runner(place: &Path, bytes: &[u8]) {
    let built = place.with_extension("built");
    fs::write(&built, bytes).expect("written");
    sh("sdk/record.sh", &[Path::new("put"), &built, place]);
}

/// The folder with packages of others that tests run against, installed: those of model vendors
/// and MCP clients.
pub(crate) static PACKAGES: LazyLock<PathBuf> = LazyLock::new(|| {
    let out = Path::new(TMP).join("packages");
    fs::create_dir_all(&out).expect("a folder");
    let lock = fs::File::create(out.join("lock")).expect("a lock");
    lock.lock().expect("locked");
    let script = Path::new(ROOT).join("tests/it/packages.sh");
    let output = Command::new("sh").arg(script).arg(&out).output().expect("sh");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    out
});

/// The component of a Rust guest or a bundled plugin.
pub(crate) fn guest(id: &str) -> Vec<u8> {
    RUST.get(id).unwrap_or_else(|| panic!("there is no guest {id}")).clone()
}

/// The component of a guest in Python (`words-py`) or JavaScript (`words-js`).
pub(crate) fn script(id: &str) -> Vec<u8> {
    read(&SCRIPTS.join(format!("{id}.wasm")))
}

/// The guest `register`, made to register in the way that `mode` says.
pub(crate) fn registering(mode: &str) -> Vec<u8> {
    const MARKER: &[u8] = b"toolhost-test-mode:one first ";
    const PREFIX: usize = "toolhost-test-mode:".len();
    const LENGTH: usize = 96;
    let mut bytes = guest("register");
    let place = bytes.windows(MARKER.len()).position(|window| window == MARKER);
    let place = place.expect("the marker") + PREFIX;
    let padded = format!("{mode:<width$}", width = LENGTH - PREFIX);
    assert_eq!(padded.len(), LENGTH - PREFIX, "too long: {mode}");
    bytes[place..place + padded.len()].copy_from_slice(padded.as_bytes());
    bytes
}

/// The guest `made`, made of this description; its source says what that can hold.
pub(crate) fn made(description: &Value) -> Vec<u8> {
    const MARKER: &[u8] = b"toolhost-test-made:{";
    const PREFIX: usize = "toolhost-test-made:".len();
    const LENGTH: usize = 16_384;
    let mut bytes = guest("made");
    let place = bytes.windows(MARKER.len()).position(|window| window == MARKER);
    let place = place.expect("the marker") + PREFIX;
    let mut padded = description.to_string().into_bytes();
    assert!(padded.len() <= LENGTH - PREFIX, "too long: {description}");
    padded.resize(LENGTH - PREFIX, b' ');
    bytes[place..place + padded.len()].copy_from_slice(&padded);
    bytes
}

/// A component as if it had been built for another version of the contract.
pub(crate) fn built_for(version: &str, mut bytes: Vec<u8>) -> Vec<u8> {
    let known = b"@0.1.0";
    assert_eq!(version.len() + 1, known.len());
    for interface in ["types", "log", "progress", "availability", "schema-override", "hooks"] {
        let name = format!("toolhost:plugin/{interface}");
        let whole = [name.as_bytes(), known].concat();
        let places: Vec<usize> = (0..bytes.len().saturating_sub(whole.len()))
            .filter(|&start| bytes[start..].starts_with(&whole))
            .collect();
        for start in places {
            let end = start + whole.len();
            bytes[end - version.len()..end].copy_from_slice(version.as_bytes());
        }
    }
    bytes
}

/// A home and a plugins folder that go with the test.
pub(crate) struct Lab {
    home: TempDir,
}

impl Lab {
    pub(crate) fn new() -> Lab {
        let home = TempDir::new().expect("a folder");
        fs::create_dir(home.path().join("project")).expect("a folder");
        fs::create_dir(home.path().join("project/plugins")).expect("a folder");
        Lab { home }
    }

    /// Puts a file into the plugins folder.
    pub(crate) fn with(self, name: &str, bytes: impl AsRef<[u8]>) -> Lab {
        fs::write(self.plugins().join(name), bytes).expect("written");
        self
    }

    /// Puts a folder of the repository into the plugins folder, without what is no part of it.
    pub(crate) fn with_folder(self, source: &str) -> Lab {
        let source = Path::new(ROOT).join(source);
        let name = source.file_name().expect("a name");
        copy(&source, &self.plugins().join(name));
        self
    }

    /// Sets the operator's configuration.
    pub(crate) fn config(self, config: &str) -> Lab {
        fs::write(self.home.path().join("toolhost.toml"), config).expect("written");
        self
    }

    /// Puts a plugin into the folder, and pins its bytes as `toolhost grant` does.
    pub(crate) fn granted(self, id: &str, bytes: Vec<u8>) -> Lab {
        let folder = fs::canonicalize(self.plugins()).expect("a folder");
        let digest = plugin::digest(&bytes).to_string();
        let pin = Pin { folder, id: id.to_owned(), digest };
        trust_store::pin(&self.home.path().join("state"), &pin).expect("pinned");
        self.with(&format!("{id}.wasm"), bytes)
    }

    /// Remembers a guest as bundled, as `make` does.
    pub(crate) fn record_bundled(&self, id: &str) {
        bundled(self, id, &guest(id));
    }

    /// What the operator configured, `toolhost grant` included.
    fn config_text(&self) -> String {
        fs::read_to_string(self.home.path().join("toolhost.toml")).unwrap_or_default()
    }

    fn has_scripts(&self) -> bool {
        let entries = fs::read_dir(self.plugins()).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).any(|path| script::language(&path).is_some())
    }

    /// The folder in which the program runs.
    pub(crate) fn work(&self) -> PathBuf {
        self.home.path().join("project")
    }

    pub(crate) fn plugins(&self) -> PathBuf {
        self.work().join("plugins")
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn settings(&self) -> HostSettings {
        HostSettings {
            folders: vec![Folder { path: self.plugins(), origin: Origin::Project }],
            config: config::parse(&self.config_text(), &Config::default())
                .expect("a configuration"),
            cache: Some(cache()),
            compiler: Some(env!("CARGO_BIN_EXE_toolhost").into()),
            runners: if self.has_scripts() { RUNNERS.clone() } else { RunnerPlaces::new() },
            state: Some(self.home.path().join("state")),
            once: true,
            ..HostSettings::default()
        }
    }

    /// A host on the plugins folder, with everything loaded.
    pub(crate) async fn host(&self) -> Host {
        let host = Host::start(self.settings()).expect("a host");
        host.loaded().await;
        host
    }

    /// What became of one file, in words.
    pub(crate) async fn status(&self, file: &str) -> String {
        let host = self.host().await;
        let statuses = host.loaded().await;
        let found = statuses.iter().find(|status| status.location.ends_with(file));
        shown(found.unwrap_or_else(|| panic!("no status of {file}")), &host)
    }

    /// A command that finds the lab where a user's home would be.
    /// If there is a script in the lab by now, its runners are built.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        if has_scripts_below(self.home.path()) {
            LazyLock::force(&RUNNERS);
        }
        let mut command = Command::new(program);
        command
            .current_dir(self.work())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("TOOLHOST_HOME", self.home.path())
            .env("TOOLHOST_CACHE", Path::new(TMP).join("cache"))
            // Tests keep their secrets out of the developer's keyring.
            .env("TOOLHOST_KEYRING", "none");
        command
    }

    /// Runs the program and returns exit code, stdout and stderr in one block.
    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        self.run_with(arguments, "")
    }

    /// The same with something on stdin.
    pub(crate) fn run_with(&self, arguments: &[&str], stdin: &str) -> String {
        let input = self.home.path().join("stdin");
        fs::write(&input, stdin).expect("written");
        let output = self
            .command(env!("CARGO_BIN_EXE_toolhost"))
            .args(arguments)
            .stdin(fs::File::open(&input).expect("opened"))
            .output()
            .expect("the program");
        let text = |bytes: &[u8]| {
            let text = String::from_utf8(bytes.to_vec()).expect("UTF-8");
            let text = text.replace(&*self.home.path().to_string_lossy(), "HOME");
            let text = without_line_numbers(&text);
            match text.trim_end() {
                "" => String::new(),
                text => format!("{text}\n"),
            }
        };
        let code = output.status.code().expect("an exit code");
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        format!("exit {code}\n--- stdout\n{stdout}--- stderr\n{stderr}")
    }
}

/// Tells whether there is a script's file in a folder or below.
fn has_scripts_below(folder: &Path) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => has_scripts_below(&path),
            Ok(kind) => kind.is_file() && script::is_module(&path),
            Err(_) => false,
        }
    })
}

pub(crate) fn shown(status: &SourceStatus, host: &Host) -> String {
    let mut lines = Vec::new();
    match &status.state {
        Err(failed) => lines.push(failed.to_string()),
        Ok(_) => {
            let catalog = host.catalog();
            let report = status.source.as_ref().and_then(|source| catalog.report(source));
            let report = report.expect("a report");
            lines.push(format!("tools: {}", report.tools.join(" ")));
            lines.extend(
                report.rejected.iter().map(|rejection| {
                    format!("left out `{}`: {}", rejection.tool, rejection.reason)
                }),
            );
        }
    }
    lines.join("\n")
}

/// Compiled components, shared by all tests and kept between runs.
pub(crate) fn cache() -> PathBuf {
    Path::new(TMP).join("cache/components")
}

/// Calls a tool, with arguments as a JSON value.
pub(crate) async fn call(host: &Host, tool: &str, arguments: Value) -> Outcome {
    host.call(Call::new(tool, arguments.to_string())).await
}

/// What a model reads of a call.
pub(crate) async fn answer(host: &Host, tool: &str, arguments: Value) -> String {
    call(host, tool, arguments).await.to_json_text()
}

/// A host with the guest `probe`.
pub(crate) async fn probe() -> Arc<Host> {
    Arc::new(Lab::new().with("probe.wasm", guest("probe")).host().await)
}

/// A folder with the bundled plugin `json` and the guest `probe`.
pub(crate) fn json_and_probe() -> Lab {
    let lab = Lab::new().with("json.wasm", guest("json")).with("probe.wasm", guest("probe"));
    lab.record_bundled("json");
    lab
}

/// Runs the program in such a folder and compares all it printed.
pub(crate) fn check_program(arguments: &[&str], expected: &Expect) {
    expected.assert_eq(&json_and_probe().run(arguments));
}

/// Where in a guest's source something happened is of no concern.
fn without_line_numbers(text: &str) -> String {
    let mut parts = text.split("lib.rs:");
    let mut stable = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        stable.push_str("lib.rs:");
        stable.push_str(
            part.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == ':'),
        );
    }
    stable
}

/// What a command prints of times, on a machine of any speed: their numbers, the width of the
/// column they stand in, and notes that there are only where something takes long.
pub(crate) fn without_times(text: &str) -> String {
    let (mut lines, mut slow, mut in_table) = (Vec::new(), 0, false);
    for line in TIMES.replace_all(text, "N ms").lines() {
        in_table = (in_table || line.starts_with("TOOL ")) && !line.is_empty();
        if line.starts_with("note[time] ") {
            slow += 1;
        } else if in_table {
            lines.push(line.split_whitespace().collect::<Vec<_>>().join(" "));
        } else if let Some((before, count)) = NOTES
            .captures(line)
            .map(|found| found.extract().1)
            .map(|[before, count]| (before, count.parse::<usize>().expect("a number") - slow))
        {
            let plural = if count == 1 { "" } else { "s" };
            lines.push(format!("{before}{count} note{plural}"));
        } else {
            lines.push(line.to_owned());
        }
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// The last line of `check`: what it found.
static NOTES: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new("^([0-9]+ errors?, [0-9]+ warnings?, )([0-9]+) notes?$").expect("a pattern")
});

static TIMES: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("[0-9]+([.][0-9]+)? ms").expect("a pattern"));

/// Digests change with every runner.
pub(crate) fn without_digests(text: &str) -> String {
    let mut parts = text.split("sha256:");
    let mut stable = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        stable.push_str("sha256:DIGEST");
        stable.push_str(part.trim_start_matches(|letter: char| letter.is_ascii_hexdigit()));
    }
    stable
}

/// Remembers bytes as those of a bundled plugin.
pub(crate) fn bundled(lab: &Lab, id: &str, bytes: &[u8]) {
    let digest = plugin::digest(bytes).to_string();
    trust_store::record_bundled(&lab.home().join("state"), &[(id.to_owned(), digest)])
        .expect("recorded");
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
