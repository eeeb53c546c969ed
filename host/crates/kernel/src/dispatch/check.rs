//! Arguments and structured output against the schemas of their tool: both on one path, within the
//! time of the call.
//!
//! Whose fault it is when a check meets a limit: the schema is the plugin's, and so is the output.
//! Arguments are the caller's, and a caller must not bring a plugin into quarantine. So a check of
//! arguments counts as a failure of the plugin only where its schema is so heavy that some
//! kilobytes already take long.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::arguments::GivenArguments;
use super::{Dispatch, fault, too_late};
use crate::checker::{GivenValue, Unchecked};
use crate::registry::Entry;
use crate::session::Session;
use toolhost_core::json::{self, Size};
use toolhost_core::limits::Limits;
use toolhost_core::text;
use toolhost_core::tool::{Call, CallError, Code, ToolOutput};
use toolhost_schema::arguments;

/// Values that a call keeps as such while it waits, beside their text.
const WAITING_NODES_MAX: u64 = 10_000;

impl Dispatch {
    /// Refuses arguments that break the tool's schema.
    pub(super) async fn check_arguments(
        &self,
        session: &Session,
        call: &Call,
        entry: &Entry,
        given: &mut GivenArguments,
    ) -> Result<(), CallError> {
        let time_max = call.time_max.unwrap_or(Duration::MAX).min(self.limits.wall_time_max);
        let deadline = Instant::now() + time_max;
        let spec = entry.tool.spec();
        let mut size = Size::of_members(&given.value);
        size.nodes += 1;
        // A large one takes many times the memory of its text, which is enough to wait with.
        let is_kept = size.nodes <= WAITING_NODES_MAX;
        let value = is_kept.then(|| Value::Object(std::mem::take(&mut given.value)));
        if !is_kept {
            given.drop_value();
        }
        let check = GivenValue { text: &given.text, value: value.as_ref(), size };
        let (who, schema, source) = (entry.who(), &entry.parameters, &spec.parameters);
        let checking = self.checker.check(who, schema, source, check, deadline);
        let checked = tokio::time::timeout_at(deadline.into(), checking).await;
        if let Some(Value::Object(value)) = value {
            given.value = value;
        }
        let error = match checked {
            Ok(Ok(Ok(()))) => return Ok(()),
            Ok(Ok(Err(violations))) => {
                return Err(arguments::explain(spec.name.as_str(), &violations, &spec.parameters));
            }
            Ok(Err(unchecked)) => self.unchecked(entry, "the arguments", unchecked),
            Err(_) => too_late(time_max, time_max < self.limits.wall_time_max),
        };
        if entry.parameters.is_brief() {
            return Err(error);
        }
        let failed = Err(error);
        self.quarantine.begin(entry, session.caller()).await?.end(&failed).await;
        failed.map(|_: ToolOutput| ())
    }

    /// Refuses structured output that breaks the tool's own schema, or is missing though there
    /// is one.
    pub(super) async fn check_output(
        &self,
        entry: &Entry,
        output: &ToolOutput,
        deadline: Instant,
    ) -> Result<(), CallError> {
        let spec = entry.tool.spec();
        let (Some(schema), Some(source)) = (&entry.output, &spec.output) else { return Ok(()) };
        let failed = |why: String| {
            let message = format!("the tool's structured output {why}");
            CallError::new(Code::Failed, text::sanitized(&message))
        };
        let Some(text) = &output.structured else {
            return Err(failed("is missing, though it registered an output schema".to_owned()));
        };
        let size = json::measure(text).map_err(|error| failed(format!("is not JSON: {error}")))?;
        let given = GivenValue { text, value: None, size };
        match self.checker.check(entry.who(), schema, source, given, deadline).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(violations)) => {
                let first = violations.first().map(|violation| violation.message.clone());
                let first = first.unwrap_or_default();
                Err(failed(format!("breaks its own output schema: {first}")))
            }
            Err(unchecked) => Err(self.unchecked(entry, "the structured output", unchecked)),
        }
    }

    /// Why nobody knows whether a value fits.
    fn unchecked(&self, entry: &Entry, what: &str, unchecked: Unchecked) -> CallError {
        match unchecked {
            Unchecked::Time => {
                let allowed = humantime::format_duration(self.limits.schema_check_time_max);
                let message = format!(
                    "stopped: checking {what} against the tool's schema takes more than \
                     `schema_check_time_max` of {allowed}"
                );
                CallError::new(Code::Deadline, message).with("limit", Limits::SCHEMA_CHECK_TIME)
            }
            Unchecked::Memory => {
                let allowed = self.limits.schema_check_memory_bytes_max.0;
                let message = format!(
                    "stopped: checking {what} against the tool's schema takes more than \
                     `schema_check_memory_bytes_max` of {allowed} bytes"
                );
                CallError::new(Code::Memory, message).with("limit", Limits::SCHEMA_CHECK_MEMORY)
            }
            Unchecked::Busy => {
                let message = format!(
                    "busy: too many checks of values against schemas wait for that of {what}; try again"
                );
                CallError::new(Code::Busy, message)
            }
            Unchecked::NoMemory(asked) => {
                let message = format!(
                    "busy: checking {what} takes a process of {asked} bytes, and so much is not left of \
                     `memory_all_bytes_max`; try again"
                );
                CallError::new(Code::Busy, message).with("limit", Limits::MEMORY_ALL)
            }
            Unchecked::NoProcess => {
                let message = format!(
                    "{what} take too long to check in this host, which starts no process for \
                     that (`HostSettings::compiler`); use less"
                );
                CallError::new(Code::OutputTooLarge, message)
            }
            Unchecked::Fault(cause) => fault(entry.tool.spec().name.as_str(), &cause),
        }
    }
}
