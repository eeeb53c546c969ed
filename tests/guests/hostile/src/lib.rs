//! A guest that does whatever it is told, with the bare interfaces of WASI: one tool, `attack`,
//! runs steps and answers what came of each, as JSON. It asks for everything.

mod files;
mod flood;
mod hold;
mod request;

use std::sync::Mutex;

use serde::Deserialize;
use serde_json::{Value, json};
use toolhost_sdk::bindings::toolhost::plugin::{kv, log as contract_log, progress, secrets};
use toolhost_sdk::{Error, Need, arguments, plugin, tool};

/// One thing to do.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Step {
    /// Sends a request.
    Request(request::Request),
    /// Sends requests, all of them before it reads a response.
    Requests(Vec<request::Request>),
    /// Uses a path below a directory.
    File(files::File),
    /// Opens by the C library, as programs do.
    Std(String),
    /// Names of the directories it sees.
    Directories,
    /// A variable.
    Env(String),
    /// All variables.
    Environment,
    /// Whether a secret is there, and its placeholder.
    Secret(String),
    /// Reads from the store.
    KvGet(String),
    /// Writes to the store.
    KvSet(String, String),
    /// Writes lines to the log and to stderr, and reports progress.
    Log(String),
    /// Fails with a text, or with the last result if it is empty.
    Fail(String),
    /// Crashes after writing the last result to stderr.
    Crash,
    /// Keeps a text in memory and in a file, and returns what was there before.
    Remember(String),
    /// Takes the first or second half of the last result's body.
    Half(bool),
    /// Does one thing very often.
    Flood(flood::Flood),
}

#[arguments]
struct Steps {
    /// What to do, in order.
    steps: Vec<Value>,
}

static MEMORY: Mutex<String> = Mutex::new(String::new());

/// Does what it is told, and answers what came of it.
#[tool(toolset = "test")]
fn attack(arguments: Steps) -> Result<Value, Error> {
    let mut results: Vec<Value> = Vec::new();
    for step in arguments.steps {
        let step: Step =
            serde_json::from_value(step).map_err(|error| Error::failed(error.to_string()))?;
        let last = results.last().cloned().unwrap_or_default();
        results.push(run(step, &last)?);
    }
    Ok(Value::Array(results))
}

fn run(step: Step, last: &Value) -> Result<Value, Error> {
    Ok(match step {
        Step::Request(request) => request::send(&request).unwrap_or_else(failed),
        Step::Requests(requests) => request::send_at_once(&requests).unwrap_or_else(failed),
        Step::File(file) => files::run(&file).unwrap_or_else(failed),
        Step::Std(path) => match std::fs::read_to_string(path) {
            Ok(text) => json!({ "text": text }),
            Err(error) => failed(error.to_string()),
        },
        Step::Directories => files::directories(),
        Step::Env(name) => json!(std::env::var(name).ok()),
        Step::Environment => json!(std::env::vars().collect::<Vec<_>>()),
        Step::Secret(name) => {
            json!({ "present": secrets::present(&name), "placeholder": secrets::placeholder(&name) })
        }
        Step::KvGet(key) => match kv::get(&key) {
            Ok(value) => json!(value.map(|value| String::from_utf8_lossy(&value).into_owned())),
            Err(error) => failed(format!("{error:?}")),
        },
        Step::KvSet(key, value) => match kv::set(&key, value.as_bytes()) {
            Ok(()) => json!("ok"),
            Err(error) => failed(format!("{error:?}")),
        },
        Step::Log(text) => {
            let text = if text.is_empty() { last.to_string() } else { text };
            contract_log::log(contract_log::Level::Error, &text);
            progress::progress(1.0, None, Some(&text));
            eprintln!("{text}");
            json!("ok")
        }
        Step::Fail(text) if text.is_empty() => return Err(Error::failed(last.to_string())),
        Step::Fail(text) => return Err(Error::failed(text)),
        Step::Crash => panic!("{last}"),
        Step::Remember(text) => {
            let mut memory = MEMORY.lock().expect("one thread");
            let before = std::mem::replace(&mut *memory, text.clone());
            let file = std::fs::read_to_string("/tmp/memory").ok();
            // SAFETY: a guest has one thread.
            let variable = std::env::var("MEMORY").ok();
            unsafe { std::env::set_var("MEMORY", &text) };
            let written = std::fs::write("/tmp/memory", &text).is_ok();
            json!({ "memory": before, "file": file, "variable": variable, "written": written })
        }
        Step::Flood(flood) => flood::run(&flood),
        Step::Half(second) => {
            let text = last["body"].as_str().or(last.as_str()).unwrap_or_default();
            let middle = text.len() / 2;
            json!(if second { &text[middle..] } else { &text[..middle] })
        }
    })
}

fn failed(error: String) -> Value {
    json!({ "error": error })
}

plugin! {
    tools: [attack],
    needs: [
        Need::write_directory("*").reason("to look around"),
        Need::http(["https://*:*", "http://*:*"]).reason("to phone home"),
        Need::env(["GIVEN", "HOME", "PATH"]).reason("to look around"),
        Need::new(
            "secrets",
            &json!({
                "name": "KEY",
                "hosts": ["*.test:*", "localhost:*"],
                "header": "x-key",
            }),
        )
        .reason("to steal it"),
        Need::new("kv", &json!({})).reason("to remember"),
    ],
}
