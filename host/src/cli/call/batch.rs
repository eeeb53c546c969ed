//! `toolhost call --batch`: one call a line in, one outcome a line out.

use serde::Deserialize;
use serde_json::Value;

use super::outcome_json;
use crate::cli::failure::Failure;
use crate::cli::ui::Ui;
use crate::cli::{Global, approve, loaded_host};
use crate::session::SessionSettings;
use crate::tool::{Call, CallError, Caller, Code, Outcome, Usage};

/// One line.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    tool: String,
    /// An object, or the text of one as a model wrote it.
    #[serde(default)]
    arguments: Value,
    id: Option<String>,
}

/// Runs the calls of `text` in one session and prints an outcome for each, in their order.
pub(super) async fn run(
    ui: &Ui,
    global: &Global,
    text: &str,
    dirs: &[String],
) -> Result<(), Failure> {
    let host = loaded_host(ui, global).await?;
    let allowed = host.limits().batch_lines_max.0;
    let lines: Vec<(usize, &str)> =
        text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).collect();
    if lines.len() > allowed {
        let given = lines.len();
        return Err(Failure::usage(format!(
            "{given} calls exceed `batch_lines_max` of {allowed}; split the file"
        )));
    }
    let settings = SessionSettings { approver: approve::approver(), ..SessionSettings::default() };
    let session = host.session(settings).map_err(|error| Failure::fault(error.to_string()))?;
    // A line that is no call is refused alone, in its place.
    let mut calls = Vec::new();
    let mut refused = Vec::new();
    for (number, line) in lines {
        match read(line, dirs) {
            Ok(call) => {
                calls.push(call);
                refused.push(None);
            }
            Err(problem) => refused.push(Some(no_call(number + 1, &problem))),
        }
    }
    let mut outcomes = host.batch(&session, calls).await.into_iter();
    let mut worst: Option<CallError> = None;
    for refused in refused {
        let Some(outcome) = refused.or_else(|| outcomes.next()) else { break };
        ui.json_text(&outcome_json(&outcome).to_string())?;
        if let Err(error) = outcome.result
            && worst.as_ref().is_none_or(|known| known.code.class() < error.code.class())
        {
            worst = Some(error);
        }
    }
    worst.map_or(Ok(()), |error| Err(Failure::call(&error).silent()))
}

fn read(line: &str, dirs: &[String]) -> Result<Call, String> {
    let Line { tool, arguments, id } =
        serde_json::from_str(line).map_err(|error| error.to_string())?;
    let arguments = match arguments {
        Value::Null => String::new(),
        Value::String(text) => text,
        value => value.to_string(),
    };
    let caller = Caller { tool_call: id, ..Caller::default() };
    Ok(Call { caller, dirs: dirs.to_vec(), ..Call::new(tool, arguments) })
}

fn no_call(line: usize, problem: &str) -> Outcome {
    let message = format!(
        "line {line} is no call: {problem}; write {{\"tool\": \"NAME\", \"arguments\": {{}}, \"id\": \"any\"}}"
    );
    Outcome {
        tool: String::new(),
        repairs: Vec::new(),
        result: Err(CallError::new(Code::InvalidArguments, message).with("line", line)),
        usage: Usage::default(),
        refusals: Vec::new(),
        generation: 0,
        elapsed: std::time::Duration::ZERO,
    }
}
