//! What changes besides files of plugins: what the operator configured, what is remembered, and
//! builds that are given up since they crash at once.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::SourceStatus;
use super::supervisor::{Renewed, Supervisor};
use crate::driver::{Driver, Location, Phase};
use crate::remembered::Remembered;
use toolhost_kernel::quarantine::Fallen;
use toolhost_state::read::ReadScope;
use toolhost_state::trust_store;
use toolhost_wasm::script::{self, Stamp};

impl Supervisor {
    /// Reads anew what the operator configured, and what is remembered, if that has changed.
    pub(super) async fn reread(&mut self) {
        let known = self.known_now();
        if known != self.known {
            self.known = known;
            self.reread_due |= self.remember_anew();
        }
        let configured = self.configured_now();
        let Some(reread) = self.settings.reread.clone() else { return };
        if configured == self.configured && !self.reread_due {
            return;
        }
        // A file that is cut off is emptied first, and an empty one is valid.
        let is_written = |path: &PathBuf| {
            let watcher = self.watcher.as_ref()?;
            let path = std::path::absolute(path).ok()?;
            watcher.is_written(&path, &|_| true).then_some(())
        };
        if self.settings.configured_by.iter().any(|path| is_written(path).is_some()) {
            return;
        }
        let renewed = tokio::task::spawn_blocking(move || reread()).await;
        let renewed = renewed.unwrap_or_else(|error| Err(error.to_string()));
        if self.configured_now() != configured {
            // There is another event.
            return;
        }
        self.reread_due = false;
        // What could not be read is tried again.
        self.configured = if renewed.is_ok() { configured } else { Vec::new() };
        let before = self.misconfigured.take();
        let path = self.settings.configured_by.first().cloned().unwrap_or_default();
        match renewed {
            Ok(Renewed { config, variables, secrets }) => {
                if config.limits != self.config.limits {
                    tracing::warn!("{}: limits count from the next start on", path.display());
                }
                self.changed |= config != self.config;
                self.config = config;
                let provide = |driver: Arc<dyn Driver>| driver.provide(&variables, &secrets);
                // Each is told.
                if self.drivers().map(provide).fold(false, |before, now| before | now) {
                    self.values += 1;
                    self.changed = true;
                }
            }
            Err(reason) => {
                let reason = format!("{reason}; what was configured before still counts");
                let location = Location::File(path);
                let refused = SourceStatus::refused(location, None, Phase::Read, reason.clone());
                if before.as_ref() != Some(&refused) {
                    tracing::error!("{reason}");
                }
                self.misconfigured = Some(refused);
            }
        }
        self.changed |= self.misconfigured != before;
    }

    /// Reads what is remembered. Tells whether a project or a server was trusted, or no longer is:
    /// what is configured depends on it.
    fn remember_anew(&mut self) -> bool {
        let Some(state) = &self.remembered.state else { return false };
        match Remembered::read(state, self.remembered.built.as_deref()) {
            Ok(remembered) if remembered.state.is_some() => {
                let (lock, before) = (&remembered.lock, &self.remembered.lock);
                let is_decided =
                    (&lock.projects, &lock.servers) != (&before.projects, &before.servers);
                self.changed |= lock != before || remembered.bundled != self.remembered.bundled;
                self.remembered = Arc::new(remembered);
                is_decided
            }
            Ok(_) => false,
            Err(error) => {
                tracing::error!("{error}; what was known before still counts");
                false
            }
        }
    }

    pub(super) fn configured_now(&self) -> Vec<Stamp> {
        // What is named from the working directory may be the project's there. Where it leads out of that,
        // it is not read.
        let here = fs::canonicalize(".").map(ReadScope::Project);
        let leads_out = |path: &Path| {
            path.is_relative() && here.as_ref().is_ok_and(|here| here.outside(path).is_some())
        };
        let stamp = |path: &PathBuf| match leads_out(path) {
            true => script::stamp_of_link(path),
            false => script::stamp_of_file(path),
        };
        self.settings.configured_by.iter().map(stamp).collect()
    }

    pub(super) fn known_now(&self) -> Vec<Stamp> {
        let state = self.remembered.state.iter();
        let files = state.flat_map(|state| {
            [trust_store::LOCK, trust_store::BUNDLED].map(|name| state.join(name))
        });
        files.map(|path| script::stamp(&path)).collect()
    }

    /// A new build crashes at once, and the one before did not: that one serves again.
    pub(super) async fn fell(&mut self, fallen: Fallen) {
        let Fallen { source: id, digest, before } = fallen;
        let Some(source) = self.sources.get(&id) else { return };
        let driver = Arc::clone(&source.driver);
        match driver.go_back(&id, &digest, &before).await {
            Ok(()) => {
                tracing::warn!(
                    "{id}: the first calls of its new build crashed, so its build sha256:{} serves again; save another to try that, or see `toolhost rollback --help`",
                    before.get(..12).unwrap_or_default()
                );
                self.remember_anew();
                self.known = self.known_now();
            }
            Err(reason) => {
                tracing::warn!(
                    "{id}: the first calls of its new build crashed, and there is no way back: {reason}"
                );
            }
        }
    }
}
