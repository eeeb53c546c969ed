//! Hooks that were granted and are not there: whatever they were to decide is refused.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use toolhost_core::tool::{
    Decision, HookEvent, HookedCall, HookedOutcome, Hooks, Origin, Place, PluginAddress, PluginId,
    Registration, SourceId,
};
use toolhost_policy::capability::{self, Grants, HookGrant};
use toolhost_state::config::Config;

/// Stands for the hooks of a plugin that is pending, damaged or gone.
struct MissingHooks {
    /// Of events that could stop or change a call.
    grants: Vec<HookGrant>,
}

impl MissingHooks {
    fn new(grants: &[HookGrant]) -> MissingHooks {
        let decides =
            |grant: &&HookGrant| matches!(grant.event, HookEvent::Request | HookEvent::PreCall);
        MissingHooks { grants: grants.iter().filter(decides).cloned().collect() }
    }

    fn is_empty(&self) -> bool {
        self.grants.is_empty()
    }
}

/// A registration of nothing else, for a plugin that did not load.
fn alone(hooks: Arc<dyn Hooks>, id: &PluginId, folder: PathBuf) -> Registration {
    Registration {
        source: SourceId::Plugin { id: id.clone(), folder },
        origin: Origin::Project,
        rank: usize::MAX,
        allow_tool_override: false,
        tools: Vec::new(),
        needs: Vec::new(),
        hooks: Some(hooks),
        digest: None,
        trusted: false,
        rejected: Vec::new(),
        waiting: Vec::new(),
    }
}

/// Stand-ins where hooks were granted that could stop or change a call, and are not there: a guard
/// that is changed, damaged or removed must not let pass what it was to stop.
#[derive(Default)]
pub(super) struct Guards(HashMap<(PluginId, Option<Place>), StandIn>);

/// What was granted, and what stands for it.
type StandIn = (Vec<HookGrant>, Arc<dyn Hooks>);

impl Guards {
    /// The stand-in for what was granted; the same as long as that is.
    fn of(
        &mut self,
        id: &PluginId,
        place: Option<&Place>,
        grants: &[HookGrant],
    ) -> Option<Arc<dyn Hooks>> {
        let key = (id.clone(), place.cloned());
        if let Some((known, hooks)) = self.0.get(&key)
            && known == grants
        {
            return Some(Arc::clone(hooks));
        }
        let missing = MissingHooks::new(grants);
        if missing.is_empty() {
            return None;
        }
        tracing::warn!(
            "plugin:{id} was granted hooks and gives none, so calls it was to hear of are refused: `toolhost doctor` says why"
        );
        let hooks: Arc<dyn Hooks> = Arc::new(missing);
        self.0.insert(key, (grants.to_vec(), Arc::clone(&hooks)));
        Some(hooks)
    }

    /// Puts them where they are needed.
    ///
    /// A grant is of one plugin: of the same id elsewhere, none stands for it. A table of the
    /// operator's that names only an id is met by whichever plugin of the id has its hooks; those of
    /// a trusted project are for the plugin of its own folder.
    pub(super) fn stand_in(
        &mut self,
        registrations: &mut Vec<Registration>,
        config: &Config,
        hearing: &[(PluginAddress, Grants)],
    ) {
        let of_project = config.project.iter().flat_map(|project| {
            let place = Place::Folder(project.folder.clone());
            project.plugins.iter().map(move |(id, plugin)| (id, Some(place.clone()), plugin))
        });
        let of_ids = config.ids.iter().map(|(id, plugin)| (id, None, plugin));
        let of_one = |(address, plugin)| {
            let PluginAddress { id, place }: &PluginAddress = address;
            (id, Some(place.clone()), plugin)
        };
        for (id, place, plugin) in config.plugins.iter().map(of_one).chain(of_ids).chain(of_project)
        {
            let is_it = |address: &PluginAddress| {
                address.id == *id && place.as_ref().is_none_or(|place| *place == address.place)
            };
            let is_there = hearing.iter().any(|(address, grants)| {
                let has_all = plugin
                    .grants
                    .of::<HookGrant>()
                    .all(|hook| grants.of().any(|held: &HookGrant| held == hook));
                is_it(address) && has_all
            });
            if is_there {
                self.0.remove(&(id.clone(), place));
                continue;
            }
            let hooks: Vec<HookGrant> = plugin.grants.of().cloned().collect();
            let Some(hooks) = self.of(id, place.as_ref(), &hooks) else { continue };
            let mut own = registrations.iter_mut().filter(|registration| {
                registration.hooks.is_none() && is_it_of(registration, &is_it)
            });
            match own.next() {
                Some(registration) => registration.hooks = Some(hooks),
                None => {
                    let folder = match &place {
                        Some(Place::Folder(folder)) => folder.clone(),
                        Some(Place::Bundled) | None => PathBuf::new(),
                    };
                    registrations.push(alone(hooks, id, folder));
                }
            }
        }
    }
}

/// Tells whether a plugin registers that is one of those.
fn is_it_of(registration: &Registration, is_it: &dyn Fn(&PluginAddress) -> bool) -> bool {
    let SourceId::Plugin { id, folder } = &registration.source else { return false };
    is_it(&match registration.origin {
        Origin::Bundled => PluginAddress::bundled(id.clone()),
        _ => PluginAddress::in_folder(folder, id.clone()),
    })
}

fn gone<T: Send + 'static>() -> BoxFuture<'static, Result<T, String>> {
    Box::pin(async { Err("the plugin was granted hooks and gives none".to_owned()) })
}

impl Hooks for MissingHooks {
    fn hears(&self, event: HookEvent, tool: &str) -> bool {
        self.grants.iter().any(|grant| grant.event == event && capability::fits(&grant.tools, tool))
    }

    fn are_missing(&self) -> bool {
        true
    }

    fn request<'a>(&'a self, _: HookedCall<'a>) -> BoxFuture<'a, Result<Option<String>, String>> {
        gone()
    }

    fn pre_call<'a>(&'a self, _: HookedCall<'a>) -> BoxFuture<'a, Result<Decision, String>> {
        gone()
    }

    fn post_call<'a>(
        &'a self,
        _: HookedCall<'a>,
        _: HookedOutcome<'a>,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }

    fn transform<'a>(
        &'a self,
        _: HookedCall<'a>,
        _: HookedOutcome<'a>,
    ) -> BoxFuture<'a, Result<Option<String>, String>> {
        Box::pin(async { Ok(None) })
    }
}
