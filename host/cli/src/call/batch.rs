//! `toolhost call --batch`: one call a line in, one outcome a line out.

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value, json};

use super::outcome_json;
use crate::failure::Failure;
use crate::ui::Ui;
use crate::{approve, loaded_with};
use toolhost::HostSettings;
use toolhost_core::tool::{Call, CallError, Caller, Code, Outcome, Usage};
use toolhost_kernel::session::{self, SessionSettings};

/// Numbers that are no whole ones of 64 bits lose digits from here on: 2 to the 63rd.
const EXACT_BELOW: f64 = 9_223_372_036_854_775_808.0;

/// One line.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchLine {
    tool: String,
    /// An object, or the text of one as a model wrote it.
    #[serde(default)]
    arguments: Value,
    id: Option<Id>,
}

/// What a caller knows a call by. It stands in the outcome as it was written.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged, expecting = "`id` is a text or a number")]
enum Id {
    Text(String),
    Number(Number),
}

impl Id {
    /// As the tool is told it.
    fn text(&self) -> String {
        match self {
            Id::Text(text) => text.clone(),
            Id::Number(number) => number.to_string(),
        }
    }
}

/// Runs the calls of these lines in one session and prints an outcome for each, in their order.
pub(super) async fn run(
    ui: &Ui,
    settings: HostSettings,
    lines: Vec<(usize, String)>,
    dirs: &[String],
) -> Result<(), Failure> {
    let host = loaded_with(ui, settings).await?;
    let settings = SessionSettings {
        approver: approve::approver(),
        caller: Some(session::COMMAND_LINE.to_owned()),
        ..SessionSettings::default()
    };
    let session = host.session(settings).map_err(|error| Failure::fault(error.to_string()))?;
    // A line that is no call is refused alone, in its place.
    let mut calls = Vec::new();
    let mut read_lines = Vec::new();
    for (number, line) in lines {
        match read(&line, dirs) {
            Ok((id, call)) => {
                calls.push(call);
                read_lines.push(Ok(id));
            }
            Err(problem) => read_lines.push(Err(no_call(number, &problem))),
        }
    }
    let mut outcomes = host.batch(&session, calls).await.into_iter();
    let mut worst: Option<CallError> = None;
    for line in read_lines {
        let (id, outcome) = match line {
            Err(refused) => (None, Some(refused)),
            Ok(id) => (id, outcomes.next()),
        };
        let Some(outcome) = outcome else { break };
        ui.json_text(&with_id(id, outcome_json(&outcome)).to_string())?;
        if let Err(error) = outcome.result
            && worst.as_ref().is_none_or(|known| known.class() < error.class())
        {
            worst = Some(error);
        }
    }
    worst.map_or(Ok(()), |error| Err(Failure::call(&error).silent()))
}

/// The outcome, after the id of its call.
fn with_id(id: Option<Id>, outcome: Value) -> Value {
    match (id, outcome) {
        (Some(id), Value::Object(members)) => {
            let mut object = serde_json::Map::from_iter([("id".to_owned(), json!(id))]);
            object.extend(members);
            Value::Object(object)
        }
        (_, outcome) => outcome,
    }
}

fn read(line: &str, dirs: &[String]) -> Result<(Option<Id>, Call), String> {
    let BatchLine { tool, arguments, id } =
        serde_json::from_str(line).map_err(|error| error.to_string())?;
    if let Some(Id::Number(number)) = &id
        && number.as_f64().is_some_and(|value| number.is_f64() && value.abs() >= EXACT_BELOW)
    {
        return Err(format!(
            "`id` {number} is beyond 64 bits and would change; write it as a string"
        ));
    }
    let arguments = match arguments {
        Value::Null => String::new(),
        Value::String(text) => text,
        value => value.to_string(),
    };
    let caller = Caller { tool_call: id.as_ref().map(Id::text), ..Caller::default() };
    Ok((id, Call { caller, dirs: dirs.to_vec(), ..Call::new(tool, arguments) }))
}

fn no_call(line: usize, problem: &str) -> Outcome {
    let message = format!(
        "line {line} is not a call: {problem}; write {{\"tool\": \"NAME\", \"arguments\": {{}}, \"id\": 1}}"
    );
    Outcome {
        tool: String::new(),
        repairs: Vec::new(),
        result: Err(CallError::new(Code::InvalidArguments, message).with("line", line)),
        is_structured: false,
        usage: Usage::default(),
        refusals: Vec::new(),
        generation: 0,
        elapsed: std::time::Duration::ZERO,
    }
}
