//! Where this user's files are, from the environment; and the settings of a host from them.

mod own_places;

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use etcetera::BaseStrategy;
use etcetera::base_strategy::Xdg;

use super::Global;
use super::failure::Failure;
use super::new::BUILT_FROM;
use super::ui;
use toolhost::HostSettings;
use toolhost_author::Places;
use toolhost_core::tool::Origin;
use toolhost_egress::EgressSettings;
use toolhost_policy::capability::{Grants, SecretGrant, VariableGrant, Variables};
use toolhost_sources::folder::{Folder, FolderError};
use toolhost_sources::reload::Renewed;
use toolhost_sources::remembered::Remembered;
use toolhost_state::config::{self, Config};
use toolhost_state::read::{self, FileProblem, ReadError, ReadScope};
use toolhost_state::secret::{Keyring, SECRETS_FILE, SecretStore};
use toolhost_state::trust_store::{self, LockError};
use toolhost_wasm::script::Language;
use toolhost_wasm::{self as plugin, RunnerPlaces, Secrets};

/// The file an operator writes.
pub(super) const CONFIG_FILE: &str = "toolhost.toml";
/// Bytes of a project's file, which a stranger may have written.
const PROJECT_BYTES_MAX: u64 = 1 << 20;
/// Bytes of a file that the operator names or has written.
const OPERATORS_BYTES_MAX: u64 = 16 << 20;
/// Where a project has its plugins.
pub(super) const PROJECT_PLUGINS: &str = read::PLUGINS;

/// Where this user's files are.
#[derive(Clone, Debug)]
pub(super) struct Home {
    pub(super) config_file: PathBuf,
    pub(super) plugins: PathBuf,
    pub(super) bundled: PathBuf,
    pub(super) state: PathBuf,
    pub(super) cache: PathBuf,
    /// What was installed to run scripts and to build them.
    pub(super) data: PathBuf,
    /// Runners that were installed.
    pub(super) runners: PathBuf,
    /// What was recorded of bundled plugins beside this program, when it was built.
    pub(super) built: Option<PathBuf>,
}

impl Home {
    /// `TOOLHOST_HOME` holds everything; without it, the folders of the XDG specification do.
    pub(super) fn from_environment() -> Result<Home, Failure> {
        let mut home = match variable("TOOLHOST_HOME") {
            Some(home) => Home::in_one_folder(&absolute(Path::new(&home))?),
            None => Home::in_xdg_folders()?,
        };
        if let Some(cache) = variable("TOOLHOST_CACHE") {
            home.cache = absolute(Path::new(&cache))?;
        }
        Ok(home)
    }

    /// A home in one folder.
    pub(super) fn in_one_folder(home: &Path) -> Home {
        Home {
            config_file: home.join(CONFIG_FILE),
            plugins: home.join("plugins"),
            bundled: home.join("bundled"),
            state: home.join("state"),
            cache: home.join("cache"),
            runners: home.join("runners"),
            data: home.to_owned(),
            built: built(),
        }
    }

    pub(super) fn in_xdg_folders() -> Result<Home, Failure> {
        let folders = Xdg::new().map_err(|error| {
            Failure::usage(format!("no home folder: {error}"))
                .hint("set HOME, or TOOLHOST_HOME to a folder for toolhost's files")
        })?;
        let data = folders.data_dir().join("toolhost");
        let state = folders.state_dir().unwrap_or_else(|| folders.data_dir());
        Ok(Home {
            config_file: folders.config_dir().join("toolhost").join(CONFIG_FILE),
            plugins: data.join("plugins"),
            bundled: data.join("bundled"),
            runners: data.join("runners"),
            data,
            built: built(),
            state: state.join("toolhost"),
            cache: folders.cache_dir().join("toolhost"),
        })
    }

    /// What this user's host remembers.
    pub(super) fn remembered(&self) -> Result<Remembered, LockError> {
        Remembered::read(&self.state, self.built.as_deref())
    }

    /// This user's folders of plugins, without links, as far as they are there.
    pub(super) fn folders(&self) -> Vec<PathBuf> {
        [&self.bundled, &self.plugins]
            .into_iter()
            .filter_map(|path| fs::canonicalize(path).ok())
            .collect()
    }

    /// Where compiled components are kept.
    pub(super) fn components(&self) -> PathBuf {
        self.cache.join("components")
    }

    /// Where runners of scripts may lie: installed, or beside this program, where `make` puts
    /// them.
    pub(super) fn runners(&self) -> RunnerPlaces {
        let beside = env::current_exe().ok();
        let beside = beside.as_deref().and_then(Path::parent).map(|folder| folder.join("runners"));
        let of = |language: Language| {
            let name = format!("{}.wasm", language.word());
            let places = beside.iter().chain([&self.runners]);
            (language, places.map(|folder| folder.join(&name)).collect())
        };
        Language::ALL.map(of).into()
    }

    /// Where what builds scripts may lie: in the repository this program was built in, or
    /// installed from there.
    pub(super) fn building(&self) -> Places {
        let sdk = fs::canonicalize(Path::new(BUILT_FROM).join("sdk")).ok();
        let sdk = sdk.filter(|folder| folder.is_dir());
        let mut tools = self.tools();
        // What is missing is to be installed in the last one.
        let last = tools.pop();
        tools.retain(|folder| folder.is_dir());
        tools.extend(last);
        Places { sdks: sdk.into_iter().chain([self.data.join("sdk")]).collect(), tools }
    }

    /// Where tools that build scripts may lie.
    pub(super) fn tools(&self) -> Vec<PathBuf> {
        let program = env::current_exe().ok();
        // TARGET/release/toolhost
        let target = program.as_deref().and_then(|path| path.ancestors().nth(2));
        let beside = target.map(|target| target.join("tools"));
        beside.into_iter().chain([self.data.join("tools")]).collect()
    }

    /// This user's secrets.
    pub(super) fn secrets(&self) -> Result<SecretStore, Failure> {
        Ok(SecretStore::open(&self.state, keyring()?))
    }

    /// The settings of a host for one command.
    pub(super) fn settings(&self, global: &Global) -> Result<HostSettings, Failure> {
        self.settings_with(global, &Grants::default())
    }

    /// The same, for a command that grants more itself.
    pub(super) fn settings_with(
        &self,
        global: &Global,
        more: &Grants,
    ) -> Result<HostSettings, Failure> {
        let mut folders = vec![
            Folder { path: self.bundled.clone(), origin: Origin::User },
            Folder { path: self.plugins.clone(), origin: Origin::User },
        ];
        let named: Vec<PathBuf> = match global.plugins.as_slice() {
            [] => vec![PathBuf::from(PROJECT_PLUGINS)],
            named => named.iter().map(|folder| checked_folder(folder)).collect::<Result<_, _>>()?,
        };
        folders.extend(named.into_iter().map(|path| Folder { path, origin: Origin::Project }));
        // The host keeps those itself that lead out of their project, without a look at them.
        let near: Vec<Folder> =
            folders.iter().filter(|folder| folder.place().is_ok()).cloned().collect();
        let config = self.config(global)?;
        let (variables, secrets) = self.values(&config, more)?;
        Ok(HostSettings {
            variables,
            secrets,
            egress: EgressSettings::default(),
            runners: self.runners(),
            directories: own_places::rules(self, &near, &absolute(&self.operators_file(global))?),
            folders,
            config,
            cache: Some(self.components()),
            // Without a path to itself, the host compiles.
            compiler: env::current_exe().ok(),
            state: Some(self.state.clone()),
            built: self.built.clone(),
            once: true,
            ends_soon: true,
            ..HostSettings::default()
        })
    }

    /// Values of the variables and secrets that were granted. Of the environment, the host learns
    /// these and no more.
    fn values(&self, config: &Config, more: &Grants) -> Result<(Variables, Secrets), Failure> {
        let value = |name: String| env::var(&name).ok().map(|value| (name, value));
        let names =
            config.variables().into_iter().chain(more.of().map(|VariableGrant(name)| name.clone()));
        let variables = Variables(names.filter_map(value).collect());
        let names = config
            .secrets()
            .into_iter()
            .chain(more.of().map(|grant: &SecretGrant| grant.name.clone()));
        Ok((variables, self.secret_values(names)?))
    }

    /// The settings of a host that goes on: it notices when plugins change, or what is configured.
    pub(super) fn lasting_settings(&self, global: &Global) -> Result<HostSettings, Failure> {
        let settings = self.settings(global)?;
        let (home, of) = (self.clone(), global.clone());
        let reread = move || {
            let config = home.config(&of).map_err(Failure::into_message)?;
            let (variables, secrets) =
                home.values(&config, &Grants::default()).map_err(Failure::into_message)?;
            Ok(Renewed { config, variables, secrets })
        };
        let configured_by = vec![
            self.operators_file(global),
            PathBuf::from(CONFIG_FILE),
            self.state.join(SECRETS_FILE),
        ];
        Ok(HostSettings {
            once: false,
            ends_soon: false,
            reread: Some(Arc::new(reread)),
            configured_by,
            ..settings
        })
    }

    /// Values of secrets. Where they cannot be had, this is said, and tools that require them are
    /// not available; the others are.
    fn secret_values(&self, names: impl Iterator<Item = String>) -> Result<Secrets, Failure> {
        let names: Vec<String> = names.collect();
        if names.is_empty() {
            return Ok(Secrets::new());
        }
        let values = self.secrets()?.values(names.iter().map(String::as_str));
        Ok(values.unwrap_or_else(|error| {
            ui::error_line(&format!("warning: no secret can be used: {error}"));
            Secrets::new()
        }))
    }

    /// The file that an operator writes: the one named on the command line, or the user's.
    pub(super) fn operators_file(&self, global: &Global) -> PathBuf {
        global.config.clone().unwrap_or_else(|| self.config_file.clone())
    }

    /// The operator's configuration, narrowed by the project's if there is one.
    pub(super) fn config(&self, global: &Global) -> Result<Config, Failure> {
        let base = Config::default();
        let mut config = match &global.config {
            Some(file) => read_config(file, &base)?.ok_or_else(|| {
                Failure::usage(format!("there is no configuration {}", file.display()))
            })?,
            None => read_config(&self.config_file, &base)?.unwrap_or(base),
        };
        self.add_project(&mut config)?;
        Ok(config)
    }

    /// The operator's configuration, with what a trusted project says of the plugins of its folder, if
    /// `plugins` is one. It is named without links.
    pub(super) fn config_of(&self, global: &Global, plugins: &Path) -> Config {
        let mut config = self.operators_config(global);
        let is_of_project = plugins.file_name().is_some_and(|name| name == PROJECT_PLUGINS);
        let project = plugins.parent().filter(|_| is_of_project);
        let Some(text) = project.and_then(|folder| self.trusted_text(folder)) else {
            return config;
        };
        if let Ok(project) = config::parse_project(&text, &Config::default()) {
            config.trust(project, plugins.to_owned());
        }
        config
    }

    /// The text of a project's file, if the project was trusted with this very text.
    fn trusted_text(&self, folder: &Path) -> Option<String> {
        let lock = trust_store::load(&self.state).unwrap_or_default();
        let text = read_project(&folder.join(CONFIG_FILE)).ok().flatten()?;
        let trusted = lock.project(folder)?.config.as_deref();
        (trusted == Some(&*plugin::digest(text.as_bytes()))).then_some(text)
    }

    /// Adds what the file of the project here says: all of it if the project was trusted with
    /// this very file, else only what narrows.
    fn add_project(&self, config: &mut Config) -> Result<(), Failure> {
        let file = Path::new(CONFIG_FILE);
        let text = match read_project(file) {
            Ok(Some(text)) => text,
            Ok(None) => return Ok(()),
            Err(problem) => {
                ui::error_line(&format!(
                    "warning: the project's {CONFIG_FILE} is ignored: {problem}"
                ));
                return Ok(());
            }
        };
        let folder = fs::canonicalize(".").map_err(|error| Failure::usage(error.to_string()))?;
        // The host says what is wrong with a lock; such a one trusts nobody.
        let lock = trust_store::load(&self.state).unwrap_or_default();
        let trusted = lock.project(&folder).map(|project| project.config.as_deref());
        if trusted == Some(Some(&*plugin::digest(text.as_bytes()))) {
            let project = config::parse_project(&text, &Config::default())
                .map_err(|error| Failure::usage(format!("{}: {error}", file.display())))?;
            // Not where a link leads: plugins that lie elsewhere are not the project's.
            config.trust(project, folder.join(PROJECT_PLUGINS));
            return Ok(());
        }
        let changed = match trusted {
            Some(_) => "the file has changed since the project was trusted",
            None => "nobody has trusted this project",
        };
        let repair = format!(
            "look at it, then run `toolhost trust .`; until then it can only narrow what {} allows",
            self.config_file.display()
        );
        match config::parse_project(&text, config) {
            Ok(project) => {
                if project.config.audit != config.audit {
                    ui::error_line(&format!(
                        "warning: `[audit]` in the project's {CONFIG_FILE} is ignored: a project does not decide whether its calls are recorded; set it in {}",
                        self.config_file.display()
                    ));
                }
                for table in config.narrow(&project) {
                    ui::error_line(&format!(
                        "warning: what `[{table}]` in the project's {CONFIG_FILE} allows is ignored: {changed}; {repair}"
                    ));
                }
            }
            // A stranger's file must not keep the user from calling anything.
            Err(error) => ui::error_line(&format!(
                "warning: the project's {CONFIG_FILE} is ignored: {error}; none of it counts, not even what narrows"
            )),
        }
        Ok(())
    }
}

impl Home {
    /// What the operator says, for the audit log of a command that needs no configuration
    /// otherwise. A file that cannot be read says nothing.
    pub(super) fn operators_config(&self, global: &Global) -> Config {
        let config = read_config(&self.operators_file(global), &Config::default());
        config.ok().flatten().unwrap_or_default()
    }
}

/// Where it is recorded beside this program what `make` built.
fn built() -> Option<PathBuf> {
    Some(env::current_exe().ok()?.parent()?.join("bundled"))
}

/// The keyring of this session; none if the user wants none.
fn keyring() -> Result<Keyring, Failure> {
    match variable("TOOLHOST_KEYRING") {
        None => {}
        Some(value) if value == "none" => return Ok(Keyring::None),
        Some(value) => {
            let given = value.to_string_lossy();
            return Err(Failure::usage(format!(
                "TOOLHOST_KEYRING is `{given}`; allowed is `none`"
            ))
            .hint("unset it to use the keyring where there is one"));
        }
    }
    #[cfg(target_os = "linux")]
    if let Ok(address) = env::var("DBUS_SESSION_BUS_ADDRESS")
        && !address.is_empty()
    {
        return Ok(Keyring::SecretService { address });
    }
    #[cfg(target_os = "macos")]
    return Ok(Keyring::Keychain);
    #[cfg(not(target_os = "macos"))]
    Ok(Keyring::None)
}

pub(super) fn variable(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path)
        .map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
}

/// A folder that was named must be there. One that leads out of its project is not looked at; the host
/// says so.
fn checked_folder(path: &Path) -> Result<PathBuf, Failure> {
    let folder = Folder { path: path.to_owned(), origin: Origin::Project };
    if let Err(FolderError::LeadsOut(_)) = folder.place() {
        return Ok(folder.path);
    }
    let folder = path;
    match fs::metadata(folder) {
        Ok(metadata) if metadata.is_dir() => Ok(folder.to_owned()),
        Ok(_) => Err(Failure::usage(format!("{} is not a folder", folder.display())).hint(
            "`--plugins` takes the folder the plugin lies in; `toolhost inspect` takes a file",
        )),
        Err(error) => {
            Err(Failure::usage(format!("the folder {} cannot be read: {error}", folder.display()))
                .hint("name a folder that exists, or leave `--plugins` out to scan ./plugins"))
        }
    }
}

fn read_config(file: &Path, base: &Config) -> Result<Option<Config>, Failure> {
    read_text(file)?.map(|text| parse(file, &text, base)).transpose()
}

fn parse(file: &Path, text: &str, base: &Config) -> Result<Config, Failure> {
    config::parse(text, base)
        .map_err(|error| Failure::usage(format!("{}: {error}", file.display())))
}

/// The text of a project's file, if it is there and something that somebody has written.
pub(super) fn read_project(file: &Path) -> Result<Option<String>, String> {
    let folder = match file.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let folder = match fs::canonicalize(folder) {
        Ok(folder) => folder,
        Err(error) => return Err(format!("its folder cannot be read: {error}")),
    };
    match ReadScope::Project(folder).text(file, PROJECT_BYTES_MAX) {
        Ok(text) => Ok(Some(text)),
        Err(ReadError { problem: FileProblem::Absent(_), .. }) => Ok(None),
        Err(ReadError { problem, .. }) => Err(format!("it {problem}")),
    }
}

/// The text of a file of the operator's own, if it is there.
fn read_text(file: &Path) -> Result<Option<String>, Failure> {
    let mut text = String::new();
    let read = fs::File::open(file)
        .and_then(|file| file.take(OPERATORS_BYTES_MAX + 1).read_to_string(&mut text));
    match read {
        Ok(bytes) if bytes as u64 > OPERATORS_BYTES_MAX => Err(Failure::usage(format!(
            "{} has more than the {OPERATORS_BYTES_MAX} bytes that are allowed",
            file.display()
        ))),
        Ok(_) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::usage(format!("{} cannot be read: {error}", file.display()))),
    }
}
