//! What must run the plugin: loading it twice, its examples, and how long it all takes.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::rules::{self, Declared};
use super::{CheckError, CheckRequest, CheckedPlugin, CheckedTool, Finding, Level};
use toolhost_core::limits::{Count, Limits};
use toolhost_core::text;
use toolhost_core::tool::{self, Call, Code, Example, Meter, Origin, Outcome, Reason, ToolSpec};
use toolhost_egress::{Egress, EgressSettings};
use toolhost_kernel::availability::Availability;
use toolhost_kernel::dispatch::Dispatch;
use toolhost_kernel::quarantine::Quarantine;
use toolhost_kernel::registry::{Owners, Registry, SourceReport};
use toolhost_kernel::session::Session;
use toolhost_policy::capability::{Grants, Kind};
use toolhost_schema::schema::{Definition, Format, tokens};
use toolhost_state::audit::Audit;
use toolhost_state::store::Stores;
use toolhost_wasm::{LoadError, Loaded, Loader, RUNNER_REPAIR};

/// Refusals of an example that are told.
const REFUSALS_MAX: Count = Count(100);
/// Calls whose median is taken.
const CALLS: usize = 5;
/// How long they may take together, the first not counted.
const CALLS_TIME_MAX: Duration = Duration::from_secs(2);
/// A call or a `register` that takes longer is noticed by whoever waits for it.
const SLOW: Duration = Duration::from_millis(100);

/// Checks one plugin: what it declares, whether its examples give what they expect, what it
/// costs. It runs with nothing granted, and sees an empty directory.
///
/// # Errors
/// If nothing can be run on this machine. What is wrong with the plugin is in what is returned.
///
/// # Cancel safety
/// Dropping the future stops whatever runs.
pub async fn check(request: &CheckRequest) -> Result<CheckedPlugin, CheckError> {
    let limits = Limits { refusals_max: REFUSALS_MAX, ..request.limits.clone() };
    let limits = Arc::new(limits);
    let folder = tempfile::tempdir().map_err(CheckError::NoRoom)?;
    let mut loader = loader(request, &limits)?;
    loader.keep(Stores::new(Some(folder.path().to_owned()), Arc::clone(&limits)));
    let (first, second) = (load(&loader, request).await, load(&loader, request).await);
    let (mut loaded, again) = match (first, second) {
        (Ok(first), Ok(second)) => (first, second),
        (Err(error), _) => return Ok(CheckedPlugin::new(vec![not_loaded(&error)])),
        (_, Err(error)) => {
            let message = format!("it loads once, and not a second time: {error}");
            let repair = "make `register` depend on nothing but the plugin itself";
            let finding = Finding::new(Level::Error, "register", "plugin", message, repair);
            return Ok(CheckedPlugin::new(vec![finding]));
        }
    };
    let mut found: Vec<Finding> = unequal(&loaded.0, &again.0).into_iter().collect();
    let register = loaded.1.min(again.1);
    if register > SLOW {
        found.push(slow("register", "plugin", register));
    }
    let facts = loaded.0.facts.clone();
    let idle = loaded.0.grant(&Grants::default(), &[]);
    debug_assert!(idle.is_empty(), "nothing was granted");
    let key = (request.candidate.id.to_string(), facts.digest.to_string());
    let registration = &mut loaded.0.registration;
    registration.allow_tool_override = request.allow_tool_override;
    if request.bundled.contains_key(&key) {
        registration.origin = Origin::Bundled;
    }
    if let Some(unrecorded) = &loaded.0.unrecorded {
        let message = unrecorded.to_string();
        found.push(Finding::new(Level::Error, "runner", "plugin", message, RUNNER_REPAIR));
    }
    let (dispatch, report) = alone(&loaded.0, &limits, request.compiler.clone());
    let declared =
        Declared { registration: &loaded.0.registration, facts: &facts, report: &report };
    found.extend(rules::findings(&declared));
    let session = Session::alone(Arc::default(), &limits);
    let mut tools = Vec::new();
    for tool in &loaded.0.registration.tools {
        if report.tools.iter().any(|name| name == tool.spec().name.as_str()) {
            tools.push(run_examples(&dispatch, &session, tool.spec(), &mut found).await);
        }
    }
    Ok(CheckedPlugin {
        facts: Some(facts),
        tools,
        register: Some(register),
        ..CheckedPlugin::new(found)
    })
}

fn loader(request: &CheckRequest, limits: &Arc<Limits>) -> Result<Loader, CheckError> {
    let egress = Egress::new(EgressSettings::default(), limits)?;
    let mut loader = Loader::new(Arc::clone(limits), 2, egress)?;
    loader.end_soon();
    loader.run_scripts_with(request.runners.clone());
    if let Some(program) = &request.compiler {
        loader.compile_with(program.clone());
    }
    if let Some(cache) = &request.cache
        && let Err(error) = loader.open_cache(cache)
    {
        tracing::warn!("{error}; until then every check compiles anew");
    }
    // Whatever it tries in vain is remembered, so that it can be told what an example needs.
    loader.probe();
    Ok(loader)
}

async fn load(loader: &Loader, request: &CheckRequest) -> Result<(Loaded, Duration), LoadError> {
    let meter = Arc::new(Meter::default());
    let loaded = loader.load(&request.candidate, &meter).await?;
    Ok((loaded, meter.guest_time()))
}

fn not_loaded(error: &LoadError) -> Finding {
    let Reason { problem, repair } = error.reason();
    let repair = repair.unwrap_or_else(|| "repair it".to_owned());
    Finding::new(Level::Error, "load", "plugin", format!("it does not load: {problem}"), repair)
}

/// A catalog of this plugin alone. It may crash as often as it likes, and nobody writes it down.
fn alone(
    loaded: &Loaded,
    limits: &Arc<Limits>,
    program: Option<PathBuf>,
) -> (Dispatch, SourceReport) {
    let mut registry = Registry::new(Arc::clone(limits), Owners::new());
    if program.is_none() {
        registry.only_brief_checks();
    }
    let registry = Arc::new(registry);
    let catalog = registry.publish([loaded.registration.clone()]);
    let report = catalog.report(&loaded.registration.source).cloned().unwrap_or_default();
    let availability = Arc::new(Availability::new(limits));
    let quarantine = Arc::new(Quarantine::open(limits, None));
    let audit = Arc::new(Audit::off());
    let limits = Arc::clone(limits);
    (Dispatch::new(registry, availability, quarantine, limits, 1, audit, program), report)
}

/// What two registrations of the same bytes differ in.
fn unequal(first: &Loaded, second: &Loaded) -> Option<Finding> {
    let specs = |loaded: &Loaded| -> Vec<ToolSpec> {
        loaded.registration.tools.iter().map(|tool| tool.spec().clone()).collect()
    };
    let (before, after) = (specs(first), specs(second));
    let what = if let Some((tool, _)) =
        before.iter().zip(&after).find(|(before, after)| before != after)
    {
        format!("the tool `{}`", tool.name)
    } else if before.len() != after.len()
        || first.registration.rejected != second.registration.rejected
    {
        "the tools".to_owned()
    } else if first.registration.needs != second.registration.needs {
        "the needs".to_owned()
    } else if first.facts != second.facts {
        "the name, the version or the extensions".to_owned()
    } else {
        return None;
    };
    let message = format!("`register` gave something else the second time: {what}");
    let repair = "make it depend on nothing but the plugin itself: no clock, no chance";
    Some(Finding::new(Level::Error, "register", "plugin", message, repair))
}

fn slow(rule: &'static str, place: &str, time: Duration) -> Finding {
    let (time, most) = (humantime::format_duration(time), humantime::format_duration(SLOW));
    let (message, repair) = match rule {
        "register" => (
            format!("`register` takes {time}, and every start of a host waits for it"),
            format!("do less there; {most} are enough"),
        ),
        _ => (
            format!("a call takes {time}"),
            format!("do less in one call, if {most} can be enough"),
        ),
    };
    Finding::new(Level::Note, "time", place, message, repair)
}

/// What became of an example.
#[derive(Debug, PartialEq, Eq)]
enum ExampleRun {
    Passed,
    /// It cannot work without authority; why, in words.
    Skipped(String),
    Failed(String),
}

async fn run_examples(
    dispatch: &Dispatch,
    session: &Session,
    spec: &ToolSpec,
    found: &mut Vec<Finding>,
) -> CheckedTool {
    let name = spec.name.to_string();
    let tokens = tokens(&Definition::of(spec).render(Format::OpenAi));
    let mut checked = CheckedTool { name, tokens, call: None, passed: 0, skipped: 0, failed: 0 };
    for (index, example) in spec.examples.iter().enumerate() {
        let call = || Call::new(&checked.name, &example.arguments);
        let outcome = dispatch.call(session, call()).await;
        let place = format!("{} /examples/{index}", checked.name);
        match judge(example, &outcome) {
            ExampleRun::Passed => {
                if checked.call.is_none() {
                    let median = median(dispatch, session, &call).await;
                    if median > SLOW {
                        found.push(slow("time", &checked.name, median));
                    }
                    checked.call = Some(median);
                }
                checked.passed += 1;
            }
            ExampleRun::Skipped(why) => {
                checked.skipped += 1;
                let message = format!("skipped: {why}");
                let repair = "try it with `toolhost probe --with`, or add one that needs nothing";
                found.push(Finding::new(Level::Note, "example", place, message, repair));
                continue;
            }
            ExampleRun::Failed(reason) => {
                checked.failed += 1;
                let repair = "repair the tool or its example";
                found.push(Finding::new(Level::Error, "example", place, reason, repair));
                continue;
            }
        }
        if example.expected.as_deref().unwrap_or_default().is_empty() {
            let message = "it expects nothing of the output, so it says little and tests little";
            let repair = "add a text that the output has";
            found.push(Finding::new(Level::Note, "example", place, message, repair));
        }
    }
    checked
}

/// What an outcome says of its example.
fn judge(example: &Example, outcome: &Outcome) -> ExampleRun {
    let reason = match &outcome.result {
        Ok(output) => {
            let expected = example.expected.as_deref().unwrap_or_default();
            match tool::fits(expected, output) {
                Ok(()) => return ExampleRun::Passed,
                Err(mismatch) => mismatch.to_string(),
            }
        }
        Err(error) => {
            let message = text::without_error_mark(&error.message);
            if error.code == Code::Unavailable {
                return ExampleRun::Skipped(format!("the tool cannot work here: {message}"));
            }
            format!("it fails [{}]: {message}", error.code)
        }
    };
    if outcome.refusals.is_empty() {
        return ExampleRun::Failed(reason);
    }
    let needed = outcome.refusals.iter().map(|refusal| match &refusal.grant {
        Some((kind, text)) => match Kind::of_key(kind) {
            Some(kind) => format!("`{}`", kind.flag_for(text)),
            None => refusal.what.clone(),
        },
        None => refusal.what.clone(),
    });
    let mut needed: Vec<String> = needed.collect();
    needed.dedup();
    ExampleRun::Skipped(format!("needs {}", needed.join(", ")))
}

/// The median wall time of a call that has passed once already.
async fn median(dispatch: &Dispatch, session: &Session, call: &impl Fn() -> Call) -> Duration {
    let (mut times, mut spent) = (Vec::new(), Duration::ZERO);
    while times.len() < CALLS && spent < CALLS_TIME_MAX {
        let outcome = dispatch.call(session, call()).await;
        spent += outcome.elapsed;
        times.push(outcome.elapsed);
    }
    times.sort_unstable();
    times[times.len() / 2]
}
