//! A guest that keeps things: every use of its store, in tools, in a check and in a hook.

use serde_json::{Value, json};
use toolhost_sdk::hooks::{Decision, HookedCall, Hooks};
use toolhost_sdk::kv::{self, Error as KvError};
use toolhost_sdk::{Error, Json, Need, arguments, plugin, secrets, tool};

#[arguments]
struct Steps {
    /// Operations such as `["set", "key", "value"]`; null is no value, and a number is so many
    /// bytes.
    steps: Vec<Vec<Value>>,
}

#[arguments]
struct Times {
    /// How often.
    n: u64,
}

#[arguments]
struct Nothing {}

/// Does one operation after the other, and returns what each says.
#[tool(toolset = "keeper")]
fn keep(arguments: Steps) -> Result<Json<Vec<Value>>, Error> {
    Ok(Json(arguments.steps.iter().map(|step| done(step).unwrap_or_else(refused)).collect()))
}

fn refused(error: KvError) -> Value {
    let kind = match &error {
        KvError::NotGranted(_) => "not-granted",
        KvError::Invalid(_) => "invalid",
        KvError::Full(_) => "full",
        KvError::Unavailable(_) => "unavailable",
        _ => "malformed",
    };
    json!({ kind: error.to_string() })
}

fn done(step: &[Value]) -> Result<Value, KvError> {
    let at = |place: usize| step.get(place).unwrap_or(&Value::Null);
    let bytes = |place| match at(place) {
        Value::Null => None,
        Value::Number(count) => Some(vec![b'x'; count.as_u64().unwrap_or_default() as usize]),
        text => Some(text.as_str().unwrap_or_default().as_bytes().to_vec()),
    };
    let text = |place| String::from_utf8(bytes(place).unwrap_or_default()).unwrap_or_default();
    let key = text(1);
    Ok(match at(0).as_str().unwrap_or_default() {
        "get" => kv::get_text(&key)?.into(),
        "length" => kv::get(&key)?.map(|value| value.len()).into(),
        "set" => json!(kv::set(&key, &bytes(2).unwrap_or_default())?),
        "delete" => kv::delete(&key)?.into(),
        "swap" => kv::swap(&key, bytes(2).as_deref(), bytes(3).as_deref())?.into(),
        "keys" => kv::keys(&key).collect::<Result<Vec<_>, _>>()?.into(),
        "fill" => {
            for number in 0..at(2).as_u64().unwrap_or_default() {
                kv::set(&format!("{key}{number:05}"), b"")?;
            }
            Value::Null
        }
        other => panic!("there is no operation {other}"),
    })
}

/// Counts, without losing what others count at the same time.
#[tool(toolset = "keeper")]
fn count_up(arguments: Times) -> Result<Json<u64>, Error> {
    let mut count = 0;
    for _ in 0..arguments.n {
        loop {
            let before = kv::get("count")?;
            count = before.as_deref().map(serde_json::from_slice).transpose()?.unwrap_or(0) + 1;
            if kv::swap("count", before.as_deref(), Some(count.to_string().as_bytes()))? {
                break;
            }
        }
    }
    Ok(Json(count))
}

/// Reads one value again and again.
#[tool(toolset = "keeper")]
fn read_often(arguments: Times) -> Result<Json<usize>, Error> {
    let mut length = 0;
    for _ in 0..arguments.n {
        length += kv::get("read")?.map_or(0, |value| value.len());
    }
    Ok(Json(length))
}

/// Writes values of one letter each and so many bytes, for ever.
#[tool(toolset = "keeper")]
fn write_for_ever(arguments: Times) -> Result<String, Error> {
    loop {
        for letter in b'a'..=b'z' {
            kv::set("written", &vec![letter; arguments.n as usize])?;
        }
    }
}

fn is_open() -> Result<(), String> {
    match kv::get_text("gate") {
        Ok(Some(gate)) if gate == "open" => Ok(()),
        Ok(_) => Err("the gate is closed".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Can be called while the gate is open.
#[tool(toolset = "keeper", check = is_open)]
fn gated(_: Nothing) -> Result<String, Error> {
    Ok("through".to_owned())
}

/// Says what is known of a secret.
#[tool(toolset = "keeper")]
fn whisper(_: Nothing) -> Result<Json<Value>, Error> {
    Ok(Json(json!([secrets::present("TOKEN"), secrets::placeholder("TOKEN")])))
}

/// Public, since nothing makes one.
pub struct Counter;

impl Hooks for Counter {
    fn pre_call(call: &HookedCall) -> Result<Decision, String> {
        kv::set_text("heard", &call.tool).map_err(|error| error.to_string())?;
        Ok(Decision::Allow)
    }
}

plugin! {
    tools: [keep, count_up, read_often, write_for_ever, gated, whisper],
    hooks: Counter,
    needs: [
        Need::kv().reason("to remember"),
        Need::hooks(["pre-call"], ["*"]).reason("to remember what it hears"),
    ],
}
