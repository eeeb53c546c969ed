//! What changes besides files of plugins: what the operator configured, what is remembered, and
//! builds that are given up since they crash at once.

use super::reloader::{Reloader, Renewed};
use super::{Remembered, rollback};
use crate::lock;
use crate::quarantine::Fallen;
use crate::script::{self, Stamp};
use crate::tool::SourceId;

impl Reloader {
    /// Reads anew what the operator configured, and what is remembered, if that has changed.
    pub(super) async fn reread(&mut self) {
        let known = self.known_now();
        if known != self.known {
            self.known = known;
            self.remember_anew();
        }
        let configured = self.configured_now();
        let Some(reread) = self.settings.reread.clone() else { return };
        if configured == self.configured {
            return;
        }
        self.configured = configured;
        let Ok(renewed) = tokio::task::spawn_blocking(move || reread()).await else { return };
        let path = self.settings.configured_by.first().cloned().unwrap_or_default();
        match renewed {
            Ok(Renewed { config, variables, secrets }) => {
                if config.limits != self.config.limits {
                    tracing::warn!("{}: limits count from the next start on", path.display());
                }
                self.misconfigured = None;
                self.config = config;
                self.values += 1;
                self.parts.loader.provide(variables, secrets);
            }
            Err(reason) => {
                tracing::error!("{reason}; what was configured before still counts");
                let reason = format!("{reason}; what was configured before still counts");
                self.misconfigured = Some(super::refused(path, None, reason));
            }
        }
    }

    fn remember_anew(&mut self) {
        let Some(state) = &self.remembered.state else { return };
        match Remembered::read(state) {
            Ok(remembered) if remembered.state.is_some() => self.remembered = remembered,
            Ok(_) => {}
            Err(error) => tracing::error!("{error}; what was known before still counts"),
        }
    }

    pub(super) fn configured_now(&self) -> Vec<Stamp> {
        self.settings.configured_by.iter().map(|path| script::stamp(path)).collect()
    }

    pub(super) fn known_now(&self) -> Vec<Stamp> {
        let state = self.remembered.state.iter();
        let files =
            state.flat_map(|state| [lock::LOCK, lock::BUNDLED].map(|name| state.join(name)));
        files.map(|path| script::stamp(&path)).collect()
    }

    /// A new build crashes at once, and the one before did not: that one serves again.
    pub(super) async fn fell(&mut self, fallen: Fallen) {
        let Fallen { source: SourceId::Plugin { id, folder }, digest, before } = fallen else {
            return;
        };
        let known = self.remembered.state.clone();
        let (to, from) = (before.to_string(), digest.to_string());
        let named = id.clone();
        let done = tokio::task::spawn_blocking(move || {
            let state = known.ok_or_else(|| "this host remembers nothing".to_owned())?;
            rollback::roll_back(&state, &folder, &named, Some(&from), Some(&to))
                .map_err(|error| error.to_string())
        });
        match done.await {
            Ok(Ok(_)) => {
                tracing::warn!(
                    "plugin:{id}: the first calls of its new build crashed, so its build sha256:{} serves again; save another to try that, or see `toolhost rollback --help`",
                    before.get(..12).unwrap_or_default()
                );
                self.remember_anew();
                self.known = self.known_now();
            }
            Ok(Err(reason)) => {
                tracing::warn!(
                    "plugin:{id}: the first calls of its new build crashed, and there is no way back: {reason}"
                );
            }
            Err(error) => tracing::error!(%error, "no way back"),
        }
    }
}
