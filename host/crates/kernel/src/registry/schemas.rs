//! The schemas of a registration, compiled: as far as there is room and time for them. What strangers
//! register in one folder has a total of both.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use toolhost_core::limits::Limits;
use toolhost_core::runtime::{self, Stop};
use toolhost_core::tool::{Origin, Reason, Registration, SourceId, ToolSpec};
use toolhost_schema::schema::{Schema, SchemaError};

/// The schemas of a registration.
#[derive(Default)]
pub(super) struct Schemas {
    /// For each tool: its schemas, or why it cannot be used.
    pub(super) of_tools: Vec<Result<Compiled, Reason>>,
    /// Their memory, about.
    bytes: u64,
    /// The CPU time that it took to compile them.
    took: Duration,
}

/// The schemas of a tool.
#[derive(Clone)]
pub(super) struct Compiled {
    pub(super) parameters: Arc<Schema>,
    pub(super) output: Option<Arc<Schema>>,
}

/// What compiling the schemas of a registration may cost yet, and by which limits.
pub(super) struct Budget {
    bytes: u64,
    time: Duration,
    bytes_limit: (&'static str, u64),
    time_limit: (&'static str, Duration),
}

/// What the schemas of strangers have cost, by folder.
#[derive(Default)]
pub(super) struct SchemasSpent(BTreeMap<PathBuf, (u64, Duration)>);

impl SchemasSpent {
    /// Adds what a registration has cost, if it is a stranger's.
    pub(super) fn add(&mut self, registration: &Registration, schemas: &Schemas) {
        let Some(folder) = strangers_folder(registration) else { return };
        let (bytes, time) = self.0.entry(folder.to_owned()).or_default();
        *bytes = bytes.saturating_add(schemas.bytes);
        *time = time.saturating_add(schemas.took);
    }

    /// What a registration may cost.
    pub(super) fn budget(&self, registration: &Registration, limits: &Limits) -> Budget {
        let (bytes, time) = (limits.schemas_bytes_max.0, limits.schemas_time_max);
        let mut budget = Budget {
            bytes,
            time,
            bytes_limit: ("schemas_bytes_max", bytes),
            time_limit: ("schemas_time_max", time),
        };
        let Some(folder) = strangers_folder(registration) else { return budget };
        let (bytes, time) = self.0.get(folder).copied().unwrap_or_default();
        let of_folder = limits.untrusted_schemas_bytes_max.0;
        let bytes_left = of_folder.saturating_sub(bytes);
        if bytes_left < budget.bytes {
            budget.bytes = bytes_left;
            budget.bytes_limit = ("untrusted_schemas_bytes_max", of_folder);
        }
        let of_folder = limits.untrusted_schemas_time_max;
        let time_left = of_folder.saturating_sub(time);
        if time_left < budget.time {
            budget.time = time_left;
            budget.time_limit = ("untrusted_schemas_time_max", of_folder);
        }
        budget
    }
}

/// Tells whether a registration comes from a project, and nobody has vouched for it.
pub(super) fn is_strangers(registration: &Registration) -> bool {
    registration.origin == Origin::Project && !registration.trusted
}

/// The folder of a plugin that lies in a project, and for which nobody has vouched.
fn strangers_folder(registration: &Registration) -> Option<&Path> {
    match &registration.source {
        SourceId::Plugin { folder, .. } if is_strangers(registration) => Some(folder),
        _ => None,
    }
}

/// Compiles the schemas of all tools of a registration. `only_brief`: those that can be checked
/// without a process of their own. What is stopped comes to nothing.
pub(super) fn compile(
    registration: &Registration,
    mut budget: Budget,
    limits: &Limits,
    (only_brief, stop): (bool, &Stop),
) -> Schemas {
    let mut schemas = Schemas::default();
    runtime::at_length(|| {
        let start = runtime::thread_time();
        for tool in &registration.tools {
            let compiled = match schemas.took < budget.time {
                _ if stop.is_stopped() => Err(SchemaError::Stopped.reason()),
                true => budget.compile(tool.spec(), limits, (only_brief, stop)),
                false => Err(budget.time_is_over()),
            };
            schemas.bytes += compiled.as_ref().map_or(0, Compiled::bytes);
            schemas.of_tools.push(compiled);
            schemas.took = runtime::thread_time().saturating_sub(start);
        }
    });
    schemas
}

impl Budget {
    fn compile(
        &mut self,
        spec: &ToolSpec,
        limits: &Limits,
        (only_brief, stop): (bool, &Stop),
    ) -> Result<Compiled, Reason> {
        let mut compile = |name: &str, schema| {
            let compiled = || -> Result<Schema, SchemaError> {
                let compiled = Schema::compile_until(schema, limits, stop)?;
                if only_brief {
                    compiled.check_is_brief()?;
                }
                Ok(compiled)
            };
            let compiled =
                compiled().map_err(|error| error.reason().of(format_args!("`{name}`")))?;
            self.bytes = self.bytes.checked_sub(compiled.bytes()).ok_or_else(|| {
                let (limit, allowed) = self.bytes_limit;
                Reason::new(
                    format!(
                        "`{name}`: with it, the schemas of all tools exceed `{limit}` of {allowed}"
                    ),
                    "use fewer tools, or smaller schemas",
                )
            })?;
            Ok::<_, Reason>(Arc::new(compiled))
        };
        Ok(Compiled {
            parameters: compile("parameters", &spec.parameters)?,
            output: spec.output.as_ref().map(|schema| compile("output", schema)).transpose()?,
        })
    }

    fn time_is_over(&self) -> Reason {
        let (limit, allowed) = self.time_limit;
        let allowed = humantime::format_duration(allowed);
        Reason::new(
            format!(
                "compiling the schemas of all tools takes more CPU time than `{limit}` of {allowed}"
            ),
            "use fewer tools, or simpler schemas",
        )
    }
}

impl Compiled {
    fn bytes(&self) -> u64 {
        self.parameters.bytes() + self.output.as_ref().map_or(0, |schema| schema.bytes())
    }
}
