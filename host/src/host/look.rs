//! One file, looked at without making it callable: what it says of itself, and what it tries.

use std::path::Path;
use std::sync::Arc;

use thiserror::Error;

use super::{HostSettings, StartError, audit, loader};
use crate::authority::Grants;
use crate::availability::Availability;
use crate::dispatch::Dispatch;
use crate::limits::{Count, Limits};
use crate::plugin::{Candidate, LoadError, Loaded};
use crate::quarantine::Quarantine;
use crate::registry::{Owners, Registry, SourceReport};
use crate::script;
use crate::session::Session;
use crate::store::Stores;
use crate::tool::{Call, Need, Origin, Outcome, PluginId, PluginIdError};

/// Refusals that a probe names: all that a patient reader wants to see.
const PROBED_REFUSALS_MAX: Count = Count(1_000);

/// Why a file cannot be looked at.
#[derive(Debug, Error)]
pub enum InspectError {
    /// Its name is no id.
    #[error(transparent)]
    Id(#[from] PluginIdError),
    /// The host does not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// There is no room for an empty directory that a probed plugin sees.
    #[error("no temporary directory can be made: {0}")]
    Decoy(std::io::Error),
    /// It is no plugin.
    #[error(transparent)]
    Load(#[from] LoadError),
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
    let candidate = candidate(path)?;
    let loader = loader(Arc::clone(&limits), 1, settings)?;
    let mut loaded = loader.load(&candidate, &Arc::default()).await?;
    let plugin = settings.config.plugin(&candidate.id, &candidate.folder, None);
    loaded.registration.allow_tool_override = plugin.allow_tool_override;
    let registry = Registry::new(limits, Owners::new());
    let catalog = registry.publish([loaded.registration.clone()]);
    let report = catalog.report(&loaded.registration.source).cloned().unwrap_or_default();
    Ok((loaded, report))
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
    let candidate = candidate(path)?;
    let plugin = settings.config.plugin(&candidate.id, &candidate.folder, None);
    let mut loader = loader(Arc::clone(&limits), 2, settings)?;
    let folder = tempfile::tempdir().map_err(InspectError::Decoy)?;
    loader.keep(Stores::new(Some(folder.path().to_owned()), Arc::clone(&limits)));
    loader.probe().map_err(InspectError::Decoy)?;
    let mut loaded = loader.load(&candidate, &Arc::default()).await?;
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
    let dispatch = Dispatch::new(registry, availability, quarantine, limits, 1, audit);
    Ok(Probed { outcome: dispatch.call(&session, call).await, idle, needs })
}

fn candidate(path: &Path) -> Result<Candidate, PluginIdError> {
    let path = script::whole(path);
    Ok(Candidate {
        id: PluginId::from_stem(&script::stem(&path))?,
        folder: path.parent().unwrap_or(Path::new(".")).to_owned(),
        path,
    })
}
