//! The vectors of the system that toolhost rebuilds, row by row, through the library and the
//! program. Where we do other than it, the row has our outcome and says why (`differs`).

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use toolhost::Host;
use toolhost_core::limits::Limits;
use toolhost_core::tool::{Call, Caller, Origin, Registration, SourceId};
use toolhost_kernel::registry::Registry;
use toolhost_kernel::result;
use toolhost_kernel::session::SessionSettings;
use toolhost_policy::toolset::{Selection, Toolsets};
use toolhost_schema::arguments;
use toolhost_schema::schema::Format;

use crate::load::registry::{registration, tool_of};
use crate::support::{Lab, bundled, made};

const ROWS: &str = include_str!("vectors.json");

/// Runs the rows whose number begins with a letter.
async fn rows(letter: char) {
    let rows: Vec<Value> = serde_json::from_str(ROWS).expect("rows");
    let rows: Vec<&Value> = rows.iter().filter(|row| number(row).starts_with(letter)).collect();
    assert!(rows.len() > 2, "{letter}");
    for row in rows {
        known_keys(row);
        match row["steps"].as_array() {
            Some(steps) => {
                for step in steps {
                    known_keys(step);
                    check(row, step).await;
                }
            }
            None => check(row, row).await,
        }
    }
}

fn number(row: &Value) -> &str {
    row["n"].as_str().expect("a number")
}

/// A key that nobody reads would be a test that cannot fail.
fn known_keys(row: &Value) {
    const KNOWN: [&str; 25] = [
        "n",
        "what",
        "differs",
        "steps",
        "plugins",
        "bundled",
        "config",
        "calls",
        "calls_in",
        "list",
        "left_out",
        "unavailable",
        "available",
        "claims",
        "resolves",
        "resolves_static",
        "known",
        "same",
        "unions",
        "remembered",
        "schema",
        "cases",
        "cleaned",
        "stems",
        "owner",
    ];
    for key in row.as_object().expect("an object").keys() {
        assert!(KNOWN.contains(&key.as_str()), "{}: {key}?", row["n"]);
    }
}

async fn check(row: &Value, step: &Value) {
    let lab = lab(step);
    let host = lab.host().await;
    let name = number(row);
    calls(name, &lab, &host, &step["calls"], &Selection::default()).await;
    if let Some(within) = step.get("calls_in") {
        session_calls(name, &host, &within["calls"], selection(within)).await;
    }
    for listing in list(&step["list"]) {
        listed(name, &lab, &host, listing).await;
    }
    for (plugin, tools) in object(&step["left_out"]) {
        for (tool, expected) in object(tools) {
            left_out(name, &lab, &host, plugin, tool, text(expected));
        }
    }
    let unavailable = host.unavailable().await;
    for (tool, expected) in object(&step["unavailable"]) {
        assert!(unavailable[tool].reason.contains(text(expected)), "{name}: {unavailable:?}");
    }
    for (toolset, expected) in object(&step["available"]) {
        available(name, &lab, toolset, expected.as_bool().expect("yes or no"));
    }
    resolved(name, &host, step);
    list(&step["claims"]).iter().for_each(|claims| claimed(name, claims));
    if step.get("remembered").is_some() {
        remembered(&host).await;
    }
    if let Some(schema) = step.get("schema") {
        coerced(name, schema, &step["cases"]).await;
    }
    for pair in list(&step["cleaned"]) {
        cleaned(name, &pair[0], &pair[1]).await;
    }
    for pair in list(&step["stems"]) {
        assert_eq!(result::stem(text(&pair[0])), text(&pair[1]), "{name}");
    }
}

fn lab(step: &Value) -> Lab {
    let mut lab = Lab::new();
    if let Some(config) = step["config"].as_str() {
        lab = lab.config(config);
    }
    let bundle: Vec<&str> = list(&step["bundled"]).iter().map(text).collect();
    for (id, description) in object(&step["plugins"]) {
        let bytes = made(description);
        if bundle.contains(&id.as_str()) {
            bundled(&lab, id, &bytes);
        }
        // What a configuration allows, it allows to trusted bytes.
        lab = match step["config"] {
            Value::Null => lab.with(&format!("{id}.wasm"), bytes),
            _ => lab.granted(id, bytes),
        };
    }
    lab
}

/// Calls through the library, and through `call --batch`.
async fn calls(name: &str, lab: &Lab, host: &Host, calls: &Value, selection: &Selection) {
    session_calls(name, host, calls, selection.clone()).await;
    let lines: Vec<String> = list(calls)
        .iter()
        .map(|call| {
            let mut line = json!({ "tool": call["tool"], "arguments": call["arguments"] });
            if let Some(id) = call.get("id") {
                line["id"] = id.clone();
            }
            line.to_string()
        })
        .collect();
    if lines.is_empty() {
        return;
    }
    fs::write(lab.work().join("calls.jsonl"), lines.join("\n")).expect("written");
    let output = lab.run(&["call", "--batch", "calls.jsonl"]);
    let printed = output.lines().skip(2).take_while(|line| *line != "--- stderr");
    let outcomes: Vec<Value> =
        printed.map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(outcomes.len(), lines.len(), "{name}: {output}");
    for (call, outcome) in list(calls).iter().zip(outcomes) {
        expected(name, call, &as_read(&outcome));
    }
}

async fn session_calls(name: &str, host: &Host, calls: &Value, selection: Selection) {
    let settings = SessionSettings { selection, ..SessionSettings::default() };
    let session = host.session(settings).expect("a session");
    for call in list(calls) {
        let arguments = match &call["arguments"] {
            Value::Null => String::new(),
            arguments => arguments.to_string(),
        };
        let tool_call = call["id"].as_str().map(str::to_owned);
        let caller = Caller { tool_call, ..Caller::default() };
        let given = Call { caller, ..Call::new(text(&call["tool"]), arguments) };
        let read = host.call_in(&session, given).await.to_json_text();
        expected(name, call, &serde_json::from_str(&read).expect("JSON"));
    }
}

/// What a model reads, from what the program prints of an outcome.
fn as_read(outcome: &Value) -> Value {
    if let Some(error) = outcome.get("error") {
        return error.clone();
    }
    match list(&outcome["content"]) {
        [block] if block["type"] == "text" => json!({ "result": block["text"] }),
        [block] if block["type"] == "json" => block["json"].clone(),
        blocks => json!({ "content": blocks }),
    }
}

fn expected(name: &str, call: &Value, read: &Value) {
    let mut said_something = false;
    if let Some(is) = call.get("is") {
        assert_eq!(read, is, "{name}");
        said_something = true;
    }
    if let Some(begins) = call["begins"].as_str() {
        assert!(text(&read["error"]).starts_with(begins), "{name}: {read}");
        said_something = true;
    }
    if let Some(code) = call.get("code") {
        assert_eq!(&read["code"], code, "{name}: {read}");
        said_something = true;
    }
    for part in list(&call["contains"]) {
        assert!(read.to_string().contains(text(part)), "{name}: {read}");
        said_something = true;
    }
    assert!(said_something, "{name}: {call}");
}

fn selection(given: &Value) -> Selection {
    let names = |key: &str| list(&given[key]).iter().map(|name| text(name).to_owned()).collect();
    let enabled = given.get("enable").map(|_| names("enable"));
    Selection { enabled, disabled: names("disable") }
}

/// Definitions through the library, and through `schema`.
async fn listed(name: &str, lab: &Lab, host: &Host, listing: &Value) {
    let names: Vec<&str> = list(&listing["names"]).iter().map(text).collect();
    let selection = selection(listing);
    let flags: Vec<String> = selection
        .enabled
        .iter()
        .map(|names| format!("--enable={}", names.join(",")))
        .chain(
            (!selection.disabled.is_empty())
                .then(|| format!("--disable={}", selection.disabled.join(","))),
        )
        .collect();
    let settings = SessionSettings { selection, is_one_call: true, ..SessionSettings::default() };
    let session = host.session(settings).expect("a session");
    let listed = host.definitions(&session, Format::OpenAi).await;
    assert_eq!(listed.names, names, "{name}");
    let unknown: Vec<&str> = list(&listing["unknown"]).iter().map(text).collect();
    let found: Vec<&str> = listed.selected.unknown.iter().map(|unknown| &*unknown.name).collect();
    assert_eq!(found, unknown, "{name}");
    let flags: Vec<&str> = ["schema"].into_iter().chain(flags.iter().map(String::as_str)).collect();
    let output = lab.run(&flags);
    let printed: Vec<Value> = serde_json::from_str(stdout(&output)).expect("a list");
    let printed: Vec<&str> =
        printed.iter().map(|definition| text(&definition["function"]["name"])).collect();
    assert_eq!(printed, names, "{name}: {output}");
    for unknown in unknown {
        assert!(output.contains(&format!("Unknown toolset: {unknown}")), "{name}: {output}");
    }
}

fn left_out(name: &str, lab: &Lab, host: &Host, plugin: &str, tool: &str, expected: &str) {
    let catalog = host.catalog();
    let folder = fs::canonicalize(lab.plugins()).expect("a folder");
    let id = toolhost_core::tool::PluginId::from_stem(plugin).expect("an id");
    let report = catalog.report(&SourceId::Plugin { id, folder }).expect("a report");
    let reason = report.rejected.iter().find(|rejection| rejection.tool == tool);
    assert!(
        reason.is_some_and(|known| known.reason.to_string().contains(expected)),
        "{name}: {report:?}"
    );
    let output = lab.run(&["list", "--json"]);
    assert!(output.contains(expected), "{name}: {output}");
}

fn available(name: &str, lab: &Lab, toolset: &str, expected: bool) {
    let output = lab.run(&["toolsets", "--json"]);
    let toolsets: Value = serde_json::from_str(stdout(&output)).expect("JSON");
    let found = list(&toolsets).iter().find(|known| known["name"] == toolset);
    let found = found.unwrap_or_else(|| panic!("{name}: no {toolset} in {output}"));
    assert_eq!(found["available"], expected, "{name}: {found}");
}

fn resolved(name: &str, host: &Host, step: &Value) {
    let (user, catalog) = (BTreeMap::new(), host.catalog());
    let toolsets = Toolsets::new(&user, catalog.toolsets());
    resolved_in(name, &toolsets, step);
    for (toolset, tools) in object(&step["resolves_static"]) {
        let expected: Vec<&str> = list(tools).iter().map(text).collect();
        assert!(toolsets.resolve_static(toolset).iter().eq(&expected), "{name}");
    }
    for pair in list(&step["unions"]) {
        let names: Vec<&str> = list(&pair[0]).iter().map(text).collect();
        let expected: Vec<&str> = list(&pair[1]).iter().map(text).collect();
        let union = toolsets.resolve_all(names);
        assert!(expected.iter().all(|tool| union.contains(*tool)), "{name}: {union:?}");
        // `terminal` has tools of the registry too, none of which are here.
        assert_eq!(union.len(), expected.len(), "{name}: {union:?}");
    }
    if let [first, second] = list(&step["same"]) {
        assert_eq!(toolsets.resolve(text(first)), toolsets.resolve(text(second)), "{name}");
        assert!(!toolsets.resolve(text(first)).is_empty());
    }
}

fn resolved_in(name: &str, toolsets: &Toolsets<'_>, step: &Value) {
    for (toolset, tools) in object(&step["resolves"]) {
        let expected: Vec<&str> = list(tools).iter().map(text).collect();
        assert!(toolsets.resolve(toolset).iter().eq(&expected), "{name}");
    }
    for (toolset, known) in object(&step["known"]) {
        assert_eq!(toolsets.is_known(toolset), known.as_bool().expect("yes or no"), "{name}");
    }
}

/// Claims of sources that no file can make yet, through the registry.
fn claimed(name: &str, claims: &Value) {
    let registry = Registry::new(Arc::new(Limits::default()), HashMap::new());
    let mut by_source: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    let mut order = Vec::new();
    for claim in list(&claims["of"]) {
        let (source, tool, toolset) = (text(&claim[0]), text(&claim[1]), text(&claim[2]));
        if !order.contains(&source) {
            order.push(source);
        }
        by_source.entry(source).or_default().push((tool, toolset));
    }
    let registrations: Vec<Registration> = order
        .iter()
        .enumerate()
        .map(|(rank, source)| {
            let tools = by_source[source].iter().map(|(tool, toolset)| tool_of(tool, toolset));
            let (kind, id) = source.split_once(':').expect("a source");
            let registration = registration(id, tools.collect());
            match kind {
                "mcp" => Registration {
                    source: SourceId::Mcp(id.to_owned()),
                    origin: Origin::Mcp,
                    rank,
                    ..registration
                },
                _ => Registration { allow_tool_override: false, ..registration },
            }
        })
        .collect();
    let catalog = registry.publish(registrations);
    for (tool, owner) in object(&claims["owner"]) {
        assert_eq!(catalog.find(tool).expect("a tool").source.to_string(), text(owner), "{name}");
    }
    for (source, reason) in object(&claims["rejected"]) {
        let id = source.strip_prefix("mcp:").expect("a server");
        let report = catalog.report(&SourceId::Mcp(id.to_owned())).expect("a report");
        assert!(report.rejected[0].reason.to_string().contains(text(reason)), "{name}: {report:?}");
    }
    let user = BTreeMap::new();
    resolved_in(name, &Toolsets::new(&user, catalog.toolsets()), claims);
}

/// A listing is made once for each of eight selections.
async fn remembered(host: &Host) {
    let session = |toolset: &str| {
        let selection =
            Selection { enabled: Some(vec![toolset.to_owned()]), ..Selection::default() };
        host.session(SessionSettings { selection, ..SessionSettings::default() })
    };
    let list = async |toolset: &str| {
        host.definitions(&session(toolset).expect("a session"), Format::OpenAi).await
    };
    let first = list("s0").await;
    // What a caller does with its copy is its own concern.
    let mut copy = first.values.clone();
    copy.clear();
    assert!(Arc::ptr_eq(&first, &list("s0").await));
    for other in 1..9 {
        list(&format!("s{other}")).await;
    }
    let again = list("s0").await;
    assert!(!Arc::ptr_eq(&first, &again));
    assert_eq!(format!("{:?}", first.values), format!("{:?}", again.values));
}

/// Coercion as a function, then through a call whose tool returns what it gets.
async fn coerced(name: &str, schema: &Value, cases: &Value) {
    let parameters = json!({ "type": "object", "properties": { "x": schema } });
    let tool = json!({ "name": "echo_x", "parameters": parameters, "answer": "echo" });
    let lab = Lab::new().with("echo.wasm", made(&json!({ "tools": [tool] })));
    let host = lab.host().await;
    let mut through_calls = Vec::new();
    for case in list(cases) {
        let given = Map::from_iter([("x".to_owned(), case[0].clone())]);
        let expected = if case[1] == "<unchanged>" { &case[0] } else { &case[1] };
        let mut coerced = given.clone();
        let changed = arguments::coerce(&mut coerced, &parameters);
        assert_eq!(&coerced["x"], expected, "{name}");
        assert_eq!(changed, case[1] != "<unchanged>", "{name}: {case}");
        let valid = toolhost_schema::schema::Schema::compile(&parameters, &Limits::default());
        let valid = valid.expect("a schema").check(&Value::Object(coerced)).is_ok();
        let mut call = json!({ "tool": "echo_x", "arguments": given });
        match valid {
            true => call["is"] = json!({ "x": expected }),
            // Left out, as models of strict schemas do it.
            false if expected.is_null() => call["is"] = json!({}),
            false => call["code"] = json!("invalid_arguments"),
        }
        through_calls.push(call);
    }
    calls(name, &lab, &host, &Value::Array(through_calls), &Selection::default()).await;
}

async fn cleaned(name: &str, schema: &Value, expected: &Value) {
    assert_eq!(&toolhost_schema::schema::clean(schema), expected, "{name}");
    // What can be registered is shown cleaned.
    let tool = json!({ "name": "shaped", "parameters": schema.to_string(), "answer": "echo" });
    let lab = Lab::new().with("x.wasm", made(&json!({ "tools": [tool] })));
    let output = lab.run(&["schema"]);
    let printed: Vec<Value> = serde_json::from_str(stdout(&output)).expect("a list");
    let is_refused = schema["properties"]["a"].is_string();
    match printed.as_slice() {
        [definition] => assert_eq!(&definition["function"]["parameters"], expected, "{name}"),
        other => assert!(other.is_empty() && is_refused, "{name}: {output}"),
    }
}

fn stdout(output: &str) -> &str {
    let rest = output.split_once("--- stdout\n").expect("stdout").1;
    rest.split("--- stderr").next().expect("an end")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn object(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

#[tokio::test]
async fn a_registry() {
    rows('A').await;
}

#[tokio::test]
async fn b_sanitiser() {
    rows('B').await;
}

#[tokio::test]
async fn c_toolsets() {
    rows('C').await;
}

#[tokio::test]
async fn e_arguments_and_schemas() {
    rows('E').await;
}

#[tokio::test]
async fn g_results() {
    rows('G').await;
}
