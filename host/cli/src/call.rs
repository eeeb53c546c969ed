//! `toolhost call`

mod batch;
mod given;

use std::io::ErrorKind;
use std::time::Duration;

use serde_json::{Value, json};

use super::failure::Failure;
use super::home::Home;
use super::ui::{self, Ui};
use super::{Global, approve, host_with_tool};
use toolhost_core::limits::Bytes;
use toolhost_core::tool::{
    Call, Class, Content, Outcome, Progress, ProgressSink, ToolOutput, Usage,
};
use toolhost_kernel::registry::Catalog;
use toolhost_kernel::session::SessionSettings;
use toolhost_schema::arguments;

pub(super) use given::text as read_text;

/// Calls one tool and prints its answer.
///
/// Text and JSON are printed as they are, except that control characters are escaped; `--json`
/// prints the whole outcome. Images and audio are only named; `--json` has their bytes.
///
/// With `--batch FILE` the calls share a session: adjacent calls that cannot interfere run in
/// parallel, and large results are kept for `result_read`. The exit code is that of the worst
/// outcome.
#[derive(Debug, clap::Args)]
pub(super) struct CallArguments {
    /// The tool's name.
    #[arg(required_unless_present = "batch")]
    tool: Option<String>,

    /// The arguments as a JSON object; `@FILE` reads them from a file, `-` from stdin.
    #[arg(value_name = "JSON", conflicts_with = "arg")]
    arguments: Option<String>,

    /// One argument; may be repeated. The value is text if the tool's schema says so, and
    /// otherwise JSON if it is JSON. `KEY=@FILE` takes the value from a file; `KEY=@@...` is a
    /// value that begins with `@`.
    #[arg(long, value_name = "KEY=VALUE")]
    arg: Vec<String>,

    /// Let the tool use a directory for this one call; may be repeated. DIR may be relative;
    /// GUEST is where the tool sees it, by default at the same path, and the current directory
    /// also as `.`.
    #[arg(long, value_name = "DIR[=GUEST]:ro|rw")]
    dir: Vec<String>,

    /// Stop the call after this time, such as `10s`; the operator's limit holds as well.
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    timeout: Option<Duration>,

    /// Run the calls of this file (`-` is stdin), one a line:
    /// `{"tool": "NAME", "arguments": {"path": "x"}, "id": 1}`. `arguments` may also be the text of an
    /// object, or be left out; so may `id`, a text or a number, which stands in the outcome. Each line
    /// printed is one outcome, in the same order: `{"id": 1, "tool": "NAME", "ok": true, ...}`, then
    /// `content`, or `error`.
    #[arg(long, value_name = "FILE.jsonl", conflicts_with_all = ["tool", "arguments", "arg", "timeout"])]
    batch: Option<String>,
}

pub(super) async fn run(ui: &Ui, global: &Global, given: &CallArguments) -> Result<(), Failure> {
    let dirs = given.dir.iter().map(|dir| read_dir(dir)).collect::<Result<Vec<_>, _>>()?;
    let settings = Home::from_environment()?.settings(global)?;
    let limits = &settings.config.limits;
    if let Some(file) = &given.batch {
        let lines = given::lines(file, limits)?;
        return batch::run(ui, settings, lines, &dirs).await;
    }
    let tool = given.tool.as_deref().unwrap_or_default();
    let allowed = limits.arguments_bytes_max;
    let pairs = given.arg.iter().map(|pair| read_pair(pair, allowed));
    let pairs = pairs.collect::<Result<Vec<_>, _>>()?;
    let text = given.arguments.as_deref().map(|text| read_text(text, allowed)).transpose()?;
    let host = host_with_tool(ui, settings, tool).await?;
    let arguments = match text {
        Some(text) => text,
        None => from_pairs(&host.catalog(), tool, &pairs),
    };
    let call = Call {
        time_max: given.timeout,
        dirs,
        progress: Some(ProgressSink::new(|progress| ui::error_line(&progress_line(&progress)))),
        ..Call::new(tool, arguments)
    };
    let settings = SessionSettings {
        approver: approve::approver(),
        is_one_call: true,
        ..SessionSettings::default()
    };
    let session = host.session(settings).map_err(|error| Failure::fault(error.to_string()))?;
    let outcome = host.call_in(&session, call).await;
    for repair in &outcome.repairs {
        ui::error_line(&format!("note: {repair}"));
    }
    for refusal in untold(&outcome) {
        ui::error_line(&format!("refused: {refusal}"));
    }
    if ui.json {
        ui.json(&outcome_json(&outcome))?;
    }
    match &outcome.result {
        Ok(_) if ui.json => Ok(()),
        Ok(output) => print_output(ui, output),
        Err(error) => {
            let mut failure = Failure::call(error);
            if let Some(stderr) = &error.stderr {
                failure = failure.hint(format!(
                    "the tail of the tool's stderr:
{stderr}"
                ));
            } else if error.class() == Class::Aborted && error.log.is_some() {
                failure = failure.hint("`-vv` logs where in the tool it happened");
            }
            Err(if ui.json { failure.silent() } else { failure })
        }
    }
}

/// What the tool asked for in vain, as far as its own error does not say it.
fn untold(outcome: &Outcome) -> Vec<String> {
    match &outcome.result {
        Ok(_) => outcome.refusals.iter().map(ToString::to_string).collect(),
        Err(error) => {
            let untold = error.details.get("refused").and_then(Value::as_array);
            let untold = untold.into_iter().flatten().filter_map(Value::as_str);
            untold.map(str::to_owned).collect()
        }
    }
}

fn from_pairs(catalog: &Catalog, tool: &str, pairs: &[(String, String)]) -> String {
    let pairs = pairs.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let parameters = catalog.find(tool).map(|entry| &entry.tool.spec().parameters);
    Value::Object(arguments::from_pairs(pairs, parameters.unwrap_or(&Value::Null))).to_string()
}

/// Reads a directory grant for this call. One that is not there is wrong usage, as for
/// `toolhost grant`.
fn read_dir(text: &str) -> Result<String, Failure> {
    let grant = super::grant::read_dir(text)?;
    let found = std::fs::metadata(&grant.host).and_then(|found| match found.is_dir() {
        true => Ok(()),
        false => Err(ErrorKind::NotADirectory.into()),
    });
    found.map_err(|error| {
        Failure::usage(format!("{} cannot be granted: {error}", grant.host.display()))
    })?;
    Ok(grant.to_string())
}

fn read_pair(pair: &str, allowed: Bytes) -> Result<(String, String), Failure> {
    let Some((key, value)) = pair.split_once('=') else {
        return Err(Failure::usage(format!("`--arg {pair}` has no `=`"))
            .hint("write `--arg KEY=VALUE`, or give all arguments as one JSON object"));
    };
    let value = match value.strip_prefix('@') {
        None => value.to_owned(),
        Some(rest) if rest.starts_with('@') => rest.to_owned(),
        Some(file) => given::of_file(file, allowed)?,
    };
    Ok((key.to_owned(), value))
}

pub(super) fn print_output(ui: &Ui, output: &ToolOutput) -> Result<(), Failure> {
    for block in &output.content {
        match block {
            Content::Text(text) => ui.line(text)?,
            Content::Json(json) => ui.json_text(json)?,
            Content::Image { media_type, data } => {
                ui.line(&format!("[image, {media_type}, {} bytes; see --json]", data.len()))?;
            }
            Content::Audio { media_type, data } => {
                ui.line(&format!("[audio, {media_type}, {} bytes; see --json]", data.len()))?;
            }
            Content::Resource { uri, text, .. } => {
                ui.line(&format!("[resource {uri}]"))?;
                if let Some(text) = text {
                    ui.line(text)?;
                }
            }
        }
    }
    match (&output.structured, output.content.is_empty()) {
        (Some(structured), true) => ui.json_text(structured),
        _ => Ok(()),
    }
}

pub(super) fn outcome_json(outcome: &Outcome) -> Value {
    let Usage { memory_bytes, host_calls, log_lines, log_lines_dropped, output_bytes } =
        outcome.usage;
    let mut object = json!({
        "tool": outcome.tool,
        "repairs": outcome.repairs,
        "ok": outcome.result.is_ok(),
        "usage": {
            "memory_bytes": memory_bytes,
            "host_calls": host_calls,
            "log_lines": log_lines,
            "log_lines_dropped": log_lines_dropped,
            "output_bytes": output_bytes,
        },
        "refusals": outcome.refusals.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "generation": outcome.generation,
        "elapsed_ms": outcome.elapsed.as_secs_f64() * 1_000.0,
    });
    match &outcome.result {
        Ok(output) => {
            object["content"] = output.content.iter().map(Content::to_json).collect();
            if let Some(structured) = &output.structured {
                object["structured"] =
                    serde_json::from_str(structured).unwrap_or_else(|_| json!(structured));
            }
        }
        Err(error) => {
            object["error"] = error.to_json();
            object["log"] = json!(error.log);
            object["stderr"] = json!(error.stderr);
        }
    }
    object
}

fn progress_line(progress: &Progress) -> String {
    let total = progress.total.map(|total| format!(" of {total}")).unwrap_or_default();
    let message = progress.message.as_deref().map(|message| format!(": {message}"));
    toolhost_core::text::one_line(&format!(
        "progress {}{total}{}",
        progress.done,
        message.unwrap_or_default()
    ))
}
