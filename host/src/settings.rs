//! What a host is started with.

use std::path::PathBuf;
use std::sync::Arc;

use crate::kept;
use toolhost_egress::EgressSettings;
use toolhost_policy::capability::Variables;
use toolhost_sources::driver::Driver;
use toolhost_sources::folder::{Folder, FolderError};
use toolhost_sources::reload::{Gate, Reread};
use toolhost_state::config::Config;
use toolhost_state::trust_store::{self, Lock};
use toolhost_wasm::{DirectoryRules, OwnSource, RunnerPlaces, Secrets};

/// What a host is started with. It reads no environment and no home of its own.
#[derive(Clone, Default)]
pub struct HostSettings {
    /// Folders of plugins, the highest rank first. One that does not exist holds no plugins.
    pub folders: Vec<Folder>,
    /// What the operator configured.
    pub config: Config,
    /// Where compiled components are kept. Without it, each start compiles everything.
    pub cache: Option<PathBuf>,
    /// The program that compiles components, in a process of its own for each; see
    /// [`Loader::compile_with`](toolhost_wasm::Loader::compile_with). Without it the host
    /// compiles, and a hostile component can exhaust it.
    pub compiler: Option<PathBuf>,
    /// The components that run scripts, each with a record of its build. Without one for its
    /// language, a script says that it has none.
    pub runners: RunnerPlaces,
    /// What bounds the directories that can be granted: the host's own places above all. Those that
    /// these settings name are among them, see [`HostSettings::directory_rules`].
    pub directories: DirectoryRules,
    /// Values of the variables that plugins may be granted. The host reads no environment.
    pub variables: Variables,
    /// Values of the secrets that plugins may be granted.
    pub secrets: Secrets,
    /// How requests of plugins find and trust the hosts they go to. No configuration and no
    /// variable decides that.
    pub egress: EgressSettings,
    /// Where this user's host remembers things. Without it, no plugin counts as bundled, none
    /// has a store, and there is no audit log. With it there is one, unless `config.audit` says
    /// otherwise.
    pub state: Option<PathBuf>,
    /// What was recorded of plugins and runners when this program was built, as `toolhost
    /// record-bundled` writes it. It counts if this user or root alone can write there.
    pub built: Option<PathBuf>,
    /// Where else tools come from, besides `folders`: each kind of source has its driver.
    #[doc(hidden)]
    pub drivers: Vec<Arc<dyn Driver>>,
    /// The process ends soon after this host, as that of a command does. Long calls then use no
    /// threads of the kernel's idle class, whose end it would wait for where others keep all cores busy.
    pub ends_soon: bool,
    /// Plugins are loaded once, and changes of their files are not noticed.
    pub once: bool,
    /// Every plugin is loaded when the host starts. Otherwise, one whose files look as they did when it
    /// was loaded last is published from what is recorded of it in `state`, and loaded when something of
    /// it is to run; its bytes are compared with the record before.
    pub load_all: bool,
    /// With `once`: a tool that is wanted before all others. As soon as it can be called, nothing else
    /// is loaded, and [`Host::loaded`](super::Host::loaded) returns.
    pub first: Option<String>,
    /// Whether the examples of a changed build are run before it serves.
    pub gate: Gate,
    /// Reads anew what the operator configured, when one of `configured_by` has changed. What it
    /// says of plugins counts from then on; limits, toolsets and the audit log stay.
    pub reread: Option<Reread>,
    /// The files that `reread` reads, the operator's own first.
    pub configured_by: Vec<PathBuf>,
    /// Scripts in plugins folders that whoever uses this host works at: what is saved there while it
    /// runs is trusted in place of what was trusted before, as with [`Host::own`](super::Host::own).
    pub own: Vec<OwnSource>,
}

impl HostSettings {
    /// What bounds the directories that can be granted: what `directories` says, and every place
    /// that these settings name: no grant, whoever gives it, reaches what runs this host or what it
    /// remembers. Nor, for writing, plugins that anything was granted to, in whatever folder, what they
    /// are linked to, and what is built unasked; as far as `state` and `config` know of them by now.
    pub fn directory_rules(&self) -> DirectoryRules {
        // Starting says what is wrong with it.
        let lock = self.state.as_deref().map(|state| trust_store::load(state).unwrap_or_default());
        self.directory_rules_with(&lock.unwrap_or_default())
    }

    /// The same, with what is remembered in `state`.
    pub(crate) fn directory_rules_with(&self, lock: &Lock) -> DirectoryRules {
        let mut rules = self.directories.clone();
        let hidden = [
            (self.configured_by.first(), "toolhost's configuration"),
            (self.state.as_ref(), "toolhost's state"),
            (self.cache.as_ref(), "toolhost's cache"),
        ];
        for (place, what) in hidden {
            place.into_iter().for_each(|path| rules.keep(path, what, false));
        }
        self.built.iter().for_each(|path| rules.keep(path, "the program toolhost", true));
        for folder in &self.folders {
            match folder.place() {
                Err(FolderError::LeadsOut(target)) => {
                    for path in [&folder.path, &target] {
                        rules.keep_as_written(path, "plugins", true);
                    }
                }
                _ => rules.keep(&folder.path, "plugins", true),
            }
        }
        for runner in self.runners.values().flatten() {
            rules.keep(runner, RUNNERS, true);
            runner.parent().into_iter().for_each(|folder| rules.keep(folder, RUNNERS, true));
        }
        self.compiler.iter().for_each(|program| rules.keep(program, "the program toolhost", true));
        kept::keep(&mut rules, self, lock);
        rules
    }
}

/// What a folder of runners holds, for people.
const RUNNERS: &str = "what runs scripts";
