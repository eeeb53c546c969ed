//! A guest made of a description in its data, as JSON. Tests write the description into the
//! built component, so that one build serves for many plugins:
//!
//! ```json
//! {
//!   "tools": [{ "name": "t", "toolset": "made", "description": "", "parameters": {},
//!               "overrides": false, "requires_env": [], "max_result_size_chars": 1,
//!               "check": "yes", "shared_check": "x", "describe": "text", "answer": "echo",
//!               "examples": [["{}", "expected"]], "read_only": true,
//!               "destructive": false, "output": {} }],
//!   "needs": [{ "kind": "env", "value": {}, "tools": [], "reason": "" }],
//!   "name": "made", "extensions": [["name", "text"]],
//!   "hooks": { "request": "none", "pre_call": "none", "post_call": "none", "transform": "none" }
//! }
//! ```
//!
//! An answer is `echo` (the arguments), or an object with one of `text`, `json`, `fail`, `bad`,
//! `missing`, `repeat` (text and count), `extensions` or `blocks` (how many, and
//! bytes of each), `env` (a variable's value), `kv` (the value of a key, or why
//! there is none), `log` (so many lines), `spin`, `sleep`, `recurse`, `trap` or `grab` (memory until
//! there is none); `structured` and `raw` are JSON text, alone in the structured output or in a JSON
//! block.
//!
//! Text that is too long to stand here (of `parameters`, `output`, `structured` and `raw`) is
//! `{ "generated": [["text", times], ...] }`, with the number of the time in place of each `%`.

use std::hint::black_box;

use serde_json::Value;
use toolhost_sdk::Context;
use toolhost_sdk::bindings::toolhost::plugin::types::{
    Annotations, BadArguments, Content, Example, Need, Registration, Tool, ToolError, ToolOutput,
};
use toolhost_sdk::bindings::{Guest, exports};
use toolhost_sdk::hooks::{Decision, HookedCall, HookedOutcome, Question};

const LENGTH: usize = 16_384;
const PREFIX: &[u8] = b"toolhost-test-made:{}";

/// The marker, and the description.
static MADE: [u8; LENGTH] = {
    let mut bytes = [b' '; LENGTH];
    let mut place = 0;
    while place < PREFIX.len() {
        bytes[place] = PREFIX[place];
        place += 1;
    }
    bytes
};

struct Plugin;

impl Guest for Plugin {
    fn register() -> Result<Registration, String> {
        let made = made();
        let list = |name: &str| made[name].as_array().cloned().unwrap_or_default();
        Ok(Registration {
            name: made["name"].as_str().unwrap_or("made").to_owned(),
            version: "1.0.0".to_owned(),
            tools: list("tools").iter().map(tool).collect(),
            needs: list("needs").iter().map(need).collect(),
            extensions: list("extensions").iter().map(pair).collect(),
        })
    }

    fn call(tool: String, arguments: String, _: Context) -> Result<ToolOutput, ToolError> {
        let answer = find(&tool)["answer"].clone();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let content = match answer.as_object().and_then(|object| object.iter().next()) {
            None => Content::Json(arguments),
            Some((kind, value)) => match kind.as_str() {
                "text" => Content::Text(text(value)),
                "json" => Content::Json(value.to_string()),
                "raw" => Content::Json(generated(value)),
                "structured" => {
                    let structured = Some(generated(value));
                    return Ok(ToolOutput { content: vec![], structured, extensions: vec![] });
                }
                "fail" => return Err(ToolError::Failed(text(value))),
                "missing" => return Err(ToolError::NotAvailable(text(value))),
                "bad" => {
                    let bad = BadArguments { message: text(value), path: None };
                    return Err(ToolError::BadArguments(bad));
                }
                "repeat" => {
                    let count = value[1].as_u64().unwrap_or_default();
                    Content::Text(text(&value[0]).repeat(usize::try_from(count).unwrap_or(0)))
                }
                "extensions" => {
                    return Ok(many(value, |text| ToolOutput {
                        extensions: vec![(String::new(), text.to_owned())],
                        ..empty()
                    }));
                }
                "blocks" => {
                    return Ok(many(value, |text| ToolOutput {
                        content: vec![Content::Text(text.to_owned())],
                        ..empty()
                    }));
                }
                "kv" => Content::Text(match toolhost_sdk::kv::get_text(&text(value)) {
                    Ok(kept) => kept.unwrap_or_default(),
                    Err(error) => error.to_string(),
                }),
                "env" => Content::Text(std::env::var(text(value)).unwrap_or_default()),
                "log" => {
                    let lines = value.as_u64().unwrap_or_default();
                    (0..lines).for_each(|n| toolhost_sdk::log::warn(&format!("line {n}")));
                    Content::Text("said".to_owned())
                }
                "sleep" => sleep(),
                "recurse" => recurse(),
                "trap" => panic!("{}", text(value)),
                "grab" => grab(),
                _ => spin(),
            },
        };
        Ok(ToolOutput { content: vec![content], structured: None, extensions: Vec::new() })
    }
}

fn empty() -> ToolOutput {
    ToolOutput { content: Vec::new(), structured: None, extensions: Vec::new() }
}

/// So many of one thing, each with so many bytes.
fn many(value: &Value, one: impl Fn(&str) -> ToolOutput) -> ToolOutput {
    let number = |place: usize| value[place].as_u64().unwrap_or_default() as usize;
    let text = "x".repeat(number(1));
    (0..number(0)).fold(empty(), |mut all, _| {
        let one = one(&text);
        all.content.extend(one.content);
        all.extensions.extend(one.extensions);
        all
    })
}

#[allow(clippy::empty_loop)]
fn spin() -> ! {
    loop {
        black_box(());
    }
}

fn recurse() -> ! {
    #[allow(unconditional_recursion)]
    fn deeper(n: u64) -> u64 {
        black_box(deeper(black_box(n + 1)) + 1)
    }
    panic!("{}", deeper(0))
}

/// Takes memory and touches it, until it is refused.
fn grab() -> ! {
    let mut blocks = Vec::new();
    loop {
        blocks.push(black_box(vec![1_u8; 1 << 20]));
    }
}

fn sleep() -> ! {
    std::thread::sleep(std::time::Duration::from_secs(3_600));
    panic!("awake")
}

impl exports::toolhost::plugin::availability::Guest for Plugin {
    fn check(tool: String) -> Result<(), String> {
        match find(&tool)["check"].as_str().unwrap_or("yes") {
            "yes" => Ok(()),
            "loop" => spin(),
            "recurse" => recurse(),
            "sleep" => sleep(),
            "trap" => panic!("cannot check"),
            reason => Err(reason.to_owned()),
        }
    }
}

impl exports::toolhost::plugin::schema_override::Guest for Plugin {
    fn describe(tool: String, available: Vec<String>) -> Option<String> {
        match find(&tool)["describe"].as_str()? {
            "none" => None,
            "loop" => spin(),
            "recurse" => recurse(),
            "sleep" => sleep(),
            "trap" => panic!("cannot describe"),
            text => Some(text.replace("VISIBLE", &available.join(" "))),
        }
    }
}

/// What a hook does: `none`, `loop`, `recurse`, `sleep`, `trap`, `error`, or an object.
fn hook(event: &str) -> Result<Option<(String, Value)>, String> {
    match &made()["hooks"][event] {
        Value::Object(object) => Ok(object.iter().next().map(|(k, v)| (k.clone(), v.clone()))),
        Value::String(word) => match word.as_str() {
            "loop" => spin(),
            "recurse" => recurse(),
            "sleep" => sleep(),
            "trap" => panic!("cannot hook"),
            "error" => Err("the hook says no".to_owned()),
            _ => Ok(None),
        },
        _ => Ok(None),
    }
}

impl exports::toolhost::plugin::hooks::Guest for Plugin {
    fn request(call: HookedCall) -> Result<Option<String>, String> {
        Ok(hook("request")?.map(|(kind, value)| match kind.as_str() {
            // A letter at the end of the argument `text`.
            "append" => {
                let mut arguments: Value =
                    serde_json::from_str(&call.arguments).unwrap_or_default();
                let text = arguments["text"].as_str().unwrap_or_default().to_owned();
                arguments["text"] = format!("{text}{}", value.as_str().unwrap_or_default()).into();
                arguments.to_string()
            }
            _ => value.as_str().unwrap_or_default().to_owned(),
        }))
    }

    fn pre_call(_: HookedCall) -> Result<Decision, String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(match hook("pre_call")? {
            None => Decision::Allow,
            Some((kind, value)) if kind == "block" => Decision::Block(text(&value)),
            Some((_, value)) => Decision::Ask(Question {
                message: text(&value[0]),
                rule_key: value[1].as_str().map(str::to_owned),
            }),
        })
    }

    fn post_call(call: HookedCall, outcome: HookedOutcome) -> Result<(), String> {
        if hook("post_call")?.is_some() {
            return Err(format!("{} {:?} {}", call.tool, outcome.code, outcome.result));
        }
        Ok(())
    }

    fn transform(_: HookedCall, outcome: HookedOutcome) -> Result<Option<String>, String> {
        Ok(hook("transform")?.map(|(kind, value)| match kind.as_str() {
            "append" => format!("{}{}", outcome.result, value.as_str().unwrap_or_default()),
            _ => value.as_str().unwrap_or_default().to_owned(),
        }))
    }
}

toolhost_sdk::bindings::export!(Plugin with_types_in toolhost_sdk::bindings);

fn made() -> Value {
    // Out of the compiler's sight, so that it does not read it at build time. As one array read
    // with `read_volatile` it would be copied byte by byte, in a function of 300 KB.
    let bytes = black_box(&MADE);
    let text = String::from_utf8_lossy(&bytes[PREFIX.len() - 2..]).into_owned();
    serde_json::from_str(text.trim_end()).expect("a description")
}

fn find(tool: &str) -> Value {
    let made = made();
    let tools = made["tools"].as_array().cloned().unwrap_or_default();
    tools.into_iter().find(|known| known["name"] == tool).unwrap_or_default()
}

fn tool(made: &Value) -> Tool {
    let text = |name: &str, default: &str| made[name].as_str().unwrap_or(default).to_owned();
    let texts = |name: &str| {
        let list = made[name].as_array().cloned().unwrap_or_default();
        list.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
    };
    let parameters = match &made["parameters"] {
        Value::Null if made.get("parameters").is_none() => r#"{"type":"object"}"#.to_owned(),
        schema => generated(schema),
    };
    let shared = made["shared_check"].as_str();
    Tool {
        name: text("name", "made"),
        toolset: text("toolset", "made"),
        description: text("description", "Made for a test."),
        parameters,
        output: made.get("output").map(generated),
        emoji: None,
        requires_env: texts("requires_env"),
        max_result_size_chars: made["max_result_size_chars"].as_u64().map(|chars| chars as u32),
        overrides: made["overrides"] == true,
        has_check: made.get("check").is_some(),
        has_dynamic_schema: made.get("describe").is_some(),
        annotations: Annotations {
            read_only: made["read_only"].as_bool(),
            destructive: made["destructive"].as_bool(),
            idempotent: None,
            open_world: None,
        },
        examples: made["examples"].as_array().into_iter().flatten().map(example).collect(),
        extensions: shared
            .map(|name| ("check".to_owned(), format!("{name:?}")))
            .into_iter()
            .collect(),
    }
}

/// A text: as it stands, as parts and how often each comes, or JSON.
fn generated(value: &Value) -> String {
    let parts = match (value, &value["generated"]) {
        (Value::String(text), _) => return text.clone(),
        (_, Value::Array(parts)) => parts,
        _ => return value.to_string(),
    };
    let mut text = String::new();
    for part in parts {
        let (unit, times) = (part[0].as_str().unwrap_or_default(), part[1].as_u64().unwrap_or(1));
        for time in 0..times {
            if unit.contains('%') {
                text.push_str(&unit.replace('%', &time.to_string()));
            } else {
                text.push_str(unit);
            }
        }
    }
    text
}

fn need(made: &Value) -> Need {
    let tools = made["tools"].as_array().cloned().unwrap_or_default();
    Need {
        kind: made["kind"].as_str().unwrap_or_default().to_owned(),
        value: made["value"].to_string(),
        tools: tools.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        reason: made["reason"].as_str().unwrap_or_default().to_owned(),
    }
}

fn pair(made: &Value) -> (String, String) {
    let text = |place: usize| made[place].as_str().unwrap_or_default().to_owned();
    (text(0), text(1))
}

fn example(made: &Value) -> Example {
    let (arguments, expected) = pair(made);
    Example { arguments, expected: Some(expected) }
}
