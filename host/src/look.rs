//! One file, looked at without making it callable: what it says of itself, and what it tries.

use std::path::Path;
use std::sync::Arc;

use thiserror::Error;

use crate::HostSettings;
use crate::host::{StartError, audit, loader};
use toolhost_core::limits::{Count, Limits};
use toolhost_core::tool::{Call, Need, Origin, Outcome, PluginAddress, PluginId};
use toolhost_kernel::availability::Availability;
use toolhost_kernel::dispatch::Dispatch;
use toolhost_kernel::quarantine::Quarantine;
use toolhost_kernel::registry::{Owners, Registry, SourceReport};
use toolhost_kernel::session::Session;
use toolhost_policy::capability::Grants;
use toolhost_sources::folder;
use toolhost_sources::reload;
use toolhost_sources::remembered::Remembered;
use toolhost_state::config::PluginConfig;
use toolhost_state::store::Stores;
use toolhost_wasm::{Candidate, LoadAs, LoadError, Loaded, RUNNER_REPAIR, Unrecorded, script};

/// Refusals that a probe names: all that a patient reader wants to see.
const PROBED_REFUSALS_MAX: Count = Count(1_000);

/// Why a file cannot be looked at.
#[derive(Debug, Error)]
pub enum InspectError {
    /// The host does not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// There is no room for what a probed plugin stores.
    #[error("no temporary directory can be made: {0}")]
    NoRoom(std::io::Error),
    /// It is no plugin.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// It is a script, and its runner is to have no authority.
    #[error("{0}; {RUNNER_REPAIR}")]
    Unrecorded(Unrecorded),
}

/// Loads one file without making it callable, to look at it.
///
/// # Errors
/// With the reason why it is no plugin, and the repair.
pub async fn inspect(
    path: &Path,
    settings: &HostSettings,
) -> Result<(Loaded, SourceReport), InspectError> {
    let limits = Arc::new(settings.config.limits.clone());
    let candidate = candidate(path, settings)?;
    let loader = loader(Arc::clone(&limits), 1, settings, settings.directory_rules())?;
    let mut loaded = loader.load(&candidate, &Arc::default()).await?;
    let (address, plugin) = said(&candidate, &loaded, settings)?;
    loaded.registration.allow_tool_override = plugin.allow_tool_override;
    if address.folder().is_none() {
        loaded.registration.origin = Origin::Bundled;
    }
    let mut registry = Registry::new(limits, Owners::new());
    if settings.compiler.is_none() {
        registry.only_brief_checks();
    }
    let catalog = registry.publish([loaded.registration.clone()]);
    let report = catalog.report(&loaded.registration.source).cloned().unwrap_or_default();
    Ok((loaded, report))
}

/// The digest of what lies at a path, as trust and grants are bound to it: of a script, with that of its
/// runner. Nothing is compiled or run.
///
/// # Errors
/// If it cannot be read, or is a script without a runner.
pub async fn digest(path: &Path, settings: &HostSettings) -> Result<Arc<str>, InspectError> {
    let limits = Arc::new(settings.config.limits.clone());
    let candidate = candidate(path, settings)?;
    let loader = loader(limits, 1, settings, settings.directory_rules())?;
    Ok(loader.digest(&candidate, &LoadAs::default()).await?)
}

/// What a probed call came to.
#[derive(Debug)]
pub struct Probed {
    /// Its outcome; `refusals` are what it tried in vain.
    pub outcome: Outcome,
    /// Grants that give nothing, each with the reason.
    pub idle: Vec<String>,
    /// What the plugin asks for, whether the call came to it or not.
    pub needs: Vec<Need>,
}

/// Runs one call of a file's tool with these grants and no others, and sees what it tries.
///
/// The tool need not be available: what it requires is not asked for. It sees an empty directory
/// wherever it was granted none, and a store that is thrown away. No name is too good for it.
///
/// # Errors
/// With the reason why it is no plugin, and the repair.
///
/// # Cancel safety
/// Dropping the future stops the call.
pub async fn probe(
    path: &Path,
    call: Call,
    grants: &Grants,
    settings: &HostSettings,
) -> Result<Probed, InspectError> {
    let limits = Limits { refusals_max: PROBED_REFUSALS_MAX, ..settings.config.limits.clone() };
    let limits = Arc::new(limits);
    let candidate = candidate(path, settings)?;
    let mut loader = loader(Arc::clone(&limits), 2, settings, settings.directory_rules())?;
    let folder = tempfile::tempdir().map_err(InspectError::NoRoom)?;
    loader.keep(Stores::new(Some(folder.path().to_owned()), Arc::clone(&limits)));
    loader.probe();
    let mut loaded = loader.load(&candidate, &Arc::default()).await?;
    if let Some(unrecorded) = &loaded.unrecorded {
        return Err(InspectError::Unrecorded(Unrecorded::clone(unrecorded)));
    }
    let (_, plugin) = said(&candidate, &loaded, settings)?;
    let idle = loaded.grant(grants, &plugin.exclusive);
    loaded.registration.origin = Origin::Bundled;
    let needs = loaded.registration.needs.clone();
    let registry = Arc::new(Registry::new(Arc::clone(&limits), Owners::new()));
    registry.publish([loaded.registration]);
    let availability = Arc::new(Availability::new(&limits));
    let session = Session::alone(Arc::default(), &limits);
    // What is probed may crash as often as it likes.
    let quarantine = Arc::new(Quarantine::open(&limits, None));
    let audit = Arc::new(audit(settings));
    let program = settings.compiler.clone();
    let dispatch = Dispatch::new(registry, availability, quarantine, limits, 1, audit, program);
    Ok(Probed { outcome: dispatch.call(&session, call).await, idle, needs })
}

/// Which plugin this file is, and what the operator's file says of it.
fn said(
    candidate: &Candidate,
    loaded: &Loaded,
    settings: &HostSettings,
) -> Result<(PluginAddress, PluginConfig), StartError> {
    let remembered = settings.state.as_deref();
    let remembered = remembered.map(|state| Remembered::read(state, settings.built.as_deref()));
    let remembered = remembered.transpose()?;
    let remembered = remembered.unwrap_or_default();
    let folder = std::fs::canonicalize(&candidate.folder);
    let folder = folder.unwrap_or_else(|_| candidate.folder.clone());
    let id = candidate.id.clone();
    let address = match reload::is_bundled(&remembered, &id, &loaded.facts.digest) {
        true => PluginAddress::bundled(id),
        false => PluginAddress::in_folder(&folder, id),
    };
    let said = reload::said(&settings.config, &address, &remembered);
    Ok((address, said))
}

fn candidate(path: &Path, settings: &HostSettings) -> Result<Candidate, InspectError> {
    let path = folder::whole(&settings.folders, path);
    let place = folder::place_of(&settings.folders, &path);
    let place = place.map_err(|error| LoadError::Unreadable(error.to_string()))?;
    // Before anything is asked of what lies there.
    place.real(&path).map_err(LoadError::from)?;
    let stem = script::stem(&path);
    Ok(Candidate {
        place,
        id: PluginId::from_stem(&stem).unwrap_or_else(|_| PluginId::of_any(&stem)),
        folder: path.parent().unwrap_or(Path::new(".")).to_owned(),
        path,
    })
}
