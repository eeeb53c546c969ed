//! A laboratory for one test: a home, a plugins folder, the program.

use std::fs;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;
use toolhost::{Host, HostSettings};
use toolhost_core::tool::{Call, Origin, Outcome};
use toolhost_sources::folder::Folder;
use toolhost_sources::reload::SourceStatus;
use toolhost_state::config;
use toolhost_state::config::Config;
use toolhost_state::trust_store::{self, Pin};
use toolhost_wasm::{RunnerPlaces, digest, script};

use crate::builds::{GuestBuilds, of_repository};
use crate::text::without_line_numbers;

/// Tests of one package, which has the program.
pub trait Tested {
    /// What they are built against.
    fn builds() -> &'static GuestBuilds;
}

/// A home and a plugins folder that go with the test.
pub struct Lab<T> {
    home: TempDir,
    tested: PhantomData<T>,
}

impl<T: Tested> Default for Lab<T> {
    fn default() -> Lab<T> {
        Lab::new()
    }
}

impl<T: Tested> Lab<T> {
    /// An empty one.
    #[must_use]
    pub fn new() -> Lab<T> {
        let home = TempDir::new().expect("a folder");
        fs::create_dir(home.path().join("project")).expect("a folder");
        fs::create_dir(home.path().join("project/plugins")).expect("a folder");
        Lab { home, tested: PhantomData }
    }

    /// Puts a file into the plugins folder.
    pub fn with(self, name: &str, bytes: impl AsRef<[u8]>) -> Lab<T> {
        fs::write(self.plugins().join(name), bytes).expect("written");
        self
    }

    /// Puts a folder of the repository into the plugins folder, without what is no part of it.
    pub fn with_folder(self, source: &str) -> Lab<T> {
        let source = of_repository(source);
        let name = source.file_name().expect("a name");
        copy(&source, &self.plugins().join(name));
        self
    }

    /// Sets the operator's configuration.
    pub fn config(self, config: &str) -> Lab<T> {
        fs::write(self.home.path().join("toolhost.toml"), config).expect("written");
        self
    }

    /// Puts a plugin into the folder, and pins its bytes as `toolhost grant` does.
    pub fn granted(self, id: &str, bytes: Vec<u8>) -> Lab<T> {
        let folder = fs::canonicalize(self.plugins()).expect("a folder");
        let digest = digest(&bytes).to_string();
        let pin = Pin { folder, id: id.to_owned(), digest };
        trust_store::pin(&self.home.path().join("state"), &pin).expect("pinned");
        self.with(&format!("{id}.wasm"), bytes)
    }

    /// Remembers a guest as bundled, as `make` does.
    pub fn record_bundled(&self, id: &str) {
        bundled(self, id, &T::builds().guest(id));
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
    pub fn work(&self) -> PathBuf {
        self.home.path().join("project")
    }

    /// Its plugins folder.
    pub fn plugins(&self) -> PathBuf {
        self.work().join("plugins")
    }

    /// Its home.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Settings of a host on it.
    pub fn settings(&self) -> HostSettings {
        HostSettings {
            folders: vec![Folder { path: self.plugins(), origin: Origin::Project }],
            config: config::parse(&self.config_text(), &Config::default())
                .expect("a configuration"),
            cache: Some(T::builds().components()),
            compiler: Some(T::builds().program().into()),
            runners: if self.has_scripts() {
                T::builds().runners().clone()
            } else {
                RunnerPlaces::new()
            },
            state: Some(self.home.path().join("state")),
            once: true,
            ..HostSettings::default()
        }
    }

    /// A host on the plugins folder, with everything loaded.
    pub async fn host(&self) -> Host {
        let host = Host::start(self.settings()).expect("a host");
        host.loaded().await;
        host
    }

    /// What became of one file, in words.
    pub async fn status(&self, file: &str) -> String {
        let host = self.host().await;
        let statuses = host.loaded().await;
        let found = statuses.iter().find(|status| status.location.ends_with(file));
        shown(found.unwrap_or_else(|| panic!("no status of {file}")), &host)
    }

    /// A command that finds the lab where a user's home would be.
    /// If there is a script in the lab by now, its runners are built.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        if has_scripts_below(self.home.path()) {
            T::builds().runners();
        }
        let mut command = Command::new(program);
        command
            .current_dir(self.work())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("TOOLHOST_HOME", self.home.path())
            .env("TOOLHOST_CACHE", T::builds().cache())
            // Tests keep their secrets out of the developer's keyring.
            .env("TOOLHOST_KEYRING", "none");
        command
    }

    /// Runs the program and returns exit code, stdout and stderr in one block.
    pub fn run(&self, arguments: &[&str]) -> String {
        self.run_with(arguments, "")
    }

    /// The same with something on stdin.
    pub fn run_with(&self, arguments: &[&str], stdin: &str) -> String {
        let input = self.home.path().join("stdin");
        fs::write(&input, stdin).expect("written");
        let output = self
            .command(T::builds().program())
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

/// What became of a source, in words.
pub fn shown(status: &SourceStatus, host: &Host) -> String {
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

/// Calls a tool, with arguments as a JSON value.
pub async fn call(host: &Host, tool: &str, arguments: Value) -> Outcome {
    host.call(Call::new(tool, arguments.to_string())).await
}

/// What a model reads of a call.
pub async fn answer(host: &Host, tool: &str, arguments: Value) -> String {
    call(host, tool, arguments).await.to_json_text()
}

/// Remembers bytes as those of a bundled plugin.
pub fn bundled<T: Tested>(lab: &Lab<T>, id: &str, bytes: &[u8]) {
    let digest = digest(bytes).to_string();
    trust_store::record_bundled(&lab.home().join("state"), &[(id.to_owned(), digest)])
        .expect("recorded");
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
