//! The session of a connection, and which tools it has.
//!
//! What a platform has depends on the toolsets of plugins, and these come while the session
//! runs. So a platform's session is another one when that changes.

use std::sync::{Arc, Mutex, PoisonError};

use super::{Backend, Offer};
use toolhost_kernel::session::{Session, SessionError, SessionSettings};
use toolhost_policy::toolset::{Selection, Toolsets};

/// Knows the session of the moment.
pub(super) struct Binding {
    host: Arc<dyn Backend>,
    offer: Offer,
    caller: String,
    /// With the generation of the catalog that it was made for.
    session: Mutex<(u64, Arc<Session>)>,
}

impl Binding {
    /// `caller` is whom all of its sessions belong to.
    pub(super) fn new(
        host: Arc<dyn Backend>,
        offer: Offer,
        caller: String,
    ) -> Result<Binding, SessionError> {
        let selection = match &offer {
            Offer::Toolsets(selection) => selection.clone(),
            // Until it is asked for.
            Offer::Platform { .. } => Selection { enabled: Some(Vec::new()), disabled: Vec::new() },
        };
        let session = Mutex::new((u64::MAX, open(&*host, &caller, selection)?));
        Ok(Binding { host, offer, caller, session })
    }

    /// The session of this moment.
    pub(super) fn session(&self) -> Arc<Session> {
        let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        let catalog = self.host.catalog();
        let Offer::Platform { name, saved, disabled } = &self.offer else {
            return Arc::clone(&session.1);
        };
        if session.0 != catalog.generation {
            let toolsets = Toolsets::new(session.1.user_toolsets(), catalog.toolsets());
            let enabled = Some(toolsets.platform(name, saved, &[]));
            let selection = Selection { enabled, disabled: disabled.clone() };
            if *session.1.selection() != selection {
                match open(&*self.host, &self.caller, selection) {
                    Ok(opened) => session.1 = opened,
                    Err(error) => tracing::error!("the session stays as it was: {error}"),
                }
            }
            session.0 = catalog.generation;
        }
        Arc::clone(&session.1)
    }

    /// Logs what is odd about the selection, once plugins have loaded.
    pub(super) fn report(&self) {
        let selected = self.session().scope(&self.host.catalog());
        for unknown in &selected.unknown {
            tracing::warn!("{unknown}");
        }
        for advisory in &selected.advisories {
            tracing::warn!("{advisory}");
        }
    }
}

fn open(
    host: &dyn Backend,
    caller: &str,
    selection: Selection,
) -> Result<Arc<Session>, SessionError> {
    host.session(SessionSettings {
        selection,
        caller: Some(caller.to_owned()),
        exact_names: true,
        keeps_structure: true,
        turns_are_unbounded: !host.turn_is_bounded(),
        ..SessionSettings::default()
    })
}
