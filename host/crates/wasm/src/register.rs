//! A plugin registers: its `register` is called, with no authority and within a time of its own.

use std::sync::Arc;
use std::time::Duration;

use super::account::Account;
use super::adapter::{Registered, bounded};
use super::load_error::{self, LoadError};
use super::loader::Loader;
use super::plugin::Prepared;
use super::plugin::program::Program;
use toolhost_core::text;
use toolhost_core::tool::Meter;

/// What is shown of a `register` that refuses: the SDKs name what is allowed.
const REFUSED_CHARS_MAX: usize = 600;

impl Loader {
    pub(super) async fn register(
        &self,
        prepared: &Arc<Prepared>,
        program: Arc<Program>,
        account: &Account<'_>,
        meter: &Arc<Meter>,
    ) -> Result<Registered, LoadError> {
        let limits = &self.engine.limits;
        self.check_not_stopped(account)?;
        let _slot = self.load_queue.register(account.standing(), account.key()).await?;
        let time_max = account.register_time_left()?;
        let offers = program.linked.offers;
        let (answer, took) = prepared.register(program, time_max, Arc::clone(meter)).await;
        account.registered(took, answer.is_none());
        let Some(answer) = answer else {
            self.remember_that_stopped(account, time_max);
            return Err(account.registered_too_long(time_max));
        };
        let answer = answer.map_err(|error| load_error::of_register(error, limits))?;
        let registration = answer.map_err(|message| {
            let message = bounded(message, limits.error_bytes_max.as_usize());
            LoadError::RegisterRefused(text::cut(&text::one_line(&message), REFUSED_CHARS_MAX))
        })?;
        account.hold(registration.bytes())?;
        let registered = registration.check(offers, limits)?;
        account.hold(registered.schemas_bytes())?;
        Ok(registered)
    }

    /// Refuses bytes that did not return from `register` lately.
    fn check_not_stopped(&self, account: &Account<'_>) -> Result<(), LoadError> {
        let (Some((stopped, true)), Some(digest)) = (&self.stopped, account.digest()) else {
            return Ok(());
        };
        let allowed = self.engine.limits.register_time_max;
        match stopped.again_in(digest, allowed) {
            Some(again) => Err(LoadError::RegisterTimeBefore {
                allowed: humantime::format_duration(allowed).to_string(),
                again: format!("{}min", again.as_secs().div_ceil(60)),
            }),
            None => Ok(()),
        }
    }

    /// Remembers bytes that had the whole time to register, and did not return.
    fn remember_that_stopped(&self, account: &Account<'_>, had: Duration) {
        let (Some((stopped, _)), Some(digest)) = (&self.stopped, account.digest()) else { return };
        if had >= self.engine.limits.register_time_max
            && let Err(error) = stopped.add(digest, had)
        {
            tracing::warn!(%error, "that a plugin does not register in time cannot be remembered");
        }
    }
}
