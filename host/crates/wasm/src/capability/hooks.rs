//! Hooks: calls of others that a plugin hears of. They are exported, so nothing is linked.

use super::authority::Authority;
use super::{Asker, Given, KindRights, Provider};
use crate::rights::Right;
use toolhost_core::tool::{Held, HookEvent};
use toolhost_policy::capability::{self, Kind};

/// Provides hooks.
pub(super) struct HookProvider;

/// Tells whether the plugin of a tool was granted any.
#[derive(Debug, Default)]
struct HookRight(bool);

impl Provider for HookProvider {
    fn kind(&self) -> Kind {
        Kind::HOOKS
    }

    fn grant(&self, askers: &[Asker<'_>], given: &Given<'_>) -> KindRights {
        let is_granted = given.grants.has(Kind::HOOKS);
        KindRights::new(askers, |_| HookRight(is_granted))
    }

    fn hears_calls(&self) -> bool {
        true
    }
}

impl Right for HookRight {
    fn kind(&self) -> Kind {
        Kind::HOOKS
    }

    fn is_held(&self) -> bool {
        self.0
    }

    fn tell(&self, held: &mut Held) {
        held.hooks = self.0;
    }
}

impl Authority {
    /// Tells whether the plugin both asked for and was granted to hear of an event of a tool.
    pub(crate) fn hears(&self, event: HookEvent, tool: &str) -> bool {
        capability::hears(&self.needs, &self.grants, event, tool)
    }
}
