//! The gate before a changed build: its own examples, run before it replaces the build before.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::driver::LoadedSource;
use toolhost_core::limits::Limits;
use toolhost_core::text;
use toolhost_core::tool::{CallError, Caller, Code, Example, Invocation, Meter, Tool, fits};

/// Whether the examples of a changed build are run before it serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gate {
    /// They are, without authority; what is refused for want of it is passed over.
    #[default]
    WithoutAuthority,
    /// They are, with what the plugin was granted, if its bytes are trusted.
    WithGrants,
    /// They are not.
    Off,
}

/// Runs all examples of a build, one after the other.
///
/// # Errors
/// With the first that does not give what it expects, in one sentence.
///
/// # Cancel safety
/// Dropping the future stops the example that runs.
pub(super) async fn pass(loaded: &LoadedSource, limits: &Limits) -> Result<(), String> {
    let time_max = limits.examples_time_max;
    let all = async {
        for tool in &loaded.registration.tools {
            for (number, one) in tool.spec().examples.iter().enumerate() {
                run(tool, one, limits).await.map_err(|reason| {
                    let name = &tool.spec().name;
                    format!("example {} of `{name}`: {reason}", number + 1)
                })?;
            }
        }
        Ok(())
    };
    tokio::time::timeout(time_max, all).await.unwrap_or_else(|_| {
        let time_max = humantime::format_duration(time_max);
        Err(format!("its examples were not done within `examples_time_max` of {time_max}"))
    })
}

async fn run(tool: &Arc<dyn Tool>, one: &Example, limits: &Limits) -> Result<(), String> {
    if !tool.unmet().is_empty() {
        return Ok(());
    }
    let meter = Arc::new(Meter::default());
    let invocation = Invocation {
        arguments: &one.arguments,
        caller: &Caller::default(),
        deadline: Instant::now() + limits.wall_time_max.min(Duration::from_secs(60)),
        meter: Arc::clone(&meter),
        progress: None,
        dirs: &[],
        kept: None,
    };
    match (tool.call(invocation).await, &one.expected) {
        // Who was refused something cannot be blamed.
        (Err(_), _) | (Ok(_), Some(_)) if !meter.refusals().is_empty() => Ok(()),
        // Nor is whoever found no room.
        (Err(error), _) if is_of_the_host(&error) => Ok(()),
        (Err(error), _) => {
            let given = text::one_line(&text::cut(&error.message, 300));
            Err(format!("expected an answer, and it fails: {given}"))
        }
        (Ok(output), Some(expected)) => {
            fits(expected, &output).map_err(|mismatch| mismatch.to_string())
        }
        (Ok(_), None) => Ok(()),
    }
}

/// Tells whether a call failed for want of what all guests share, and not by its own doing.
fn is_of_the_host(error: &CallError) -> bool {
    match error.code {
        Code::Busy | Code::Internal => true,
        Code::Memory => error.limit() == Some(Limits::MEMORY_ALL),
        _ => false,
    }
}
