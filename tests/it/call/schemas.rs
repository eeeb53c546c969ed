//! Work on the schemas and the JSON of strangers: metered, stopped with the call, bounded in memory;
//! and whose fault it is.

mod generated;
mod shown;

use std::fs;
use std::time::Instant;

use serde_json::{Value, json};
use toolhost::{Host, HostSettings};
use toolhost_core::tool::{Call, CallError, Code, Origin};
use toolhost_sources::folder::Folder;

use crate::support::client::{McpClient, PATIENCE};
use crate::support::{Lab, answer, call, guest, made};

/// A pattern that takes thousands of steps for each byte, and has fewer bytes than steps.
const SLOW: &str = r#"{"type":"object","properties":{"a":{"pattern":"^[ab]*a[ab]{5000}cN"}}}"#;

fn generated(parts: Value) -> Value {
    json!({ "generated": parts })
}

/// Text for [`SLOW`] which it does not match, of so many bytes.
fn slow_value(bytes: usize) -> Value {
    generated(json!([[r#"{"a":""#, 1], ["ab", bytes / 2], [r#""}"#, 1]]))
}

/// 900 alternatives for each element of an array, of which none fits.
fn alternatives() -> Value {
    generated(json!([
        [r#"{"type":"object","properties":{"a":{"items":{"anyOf":["#, 1],
        [r#"{"required":["k%"]},"#, 900],
        [r#"{"required":["k"]}]}}}}"#, 1],
    ]))
}

/// An array of empty objects.
fn empty_objects(count: usize) -> Value {
    generated(json!([[r#"{"a":["#, 1], ["{},", count - 1], ["{}]}", 1]]))
}

fn tool(name: &str, more: Value) -> Value {
    let mut tool = json!({ "name": name, "toolset": "made", "description": "" });
    let members = more.as_object().expect("members").clone();
    tool.as_object_mut().expect("a tool").extend(members);
    tool
}

fn plugin(tools: &[Value]) -> Vec<u8> {
    made(&json!({ "tools": tools }))
}

#[tokio::test]
async fn what_is_nullable_takes_null() {
    let parameters = |property: Value| {
        let property = json!({ "i": property });
        json!({ "parameters": { "type": "object", "properties": property, "required": ["i"] } })
    };
    let lab = lab(
        "",
        &[
            tool("may_be_null", parameters(json!({ "type": "integer", "nullable": true }))),
            tool("never_null", parameters(json!({ "type": "integer" }))),
        ],
    );
    let host = lab.host().await;
    for given in [json!(null), json!("null")] {
        let outcome = call(&host, "may_be_null", json!({ "i": given })).await;
        assert!(outcome.result.is_ok(), "{}", outcome.to_json_text());
    }
    for (tool, value) in [("never_null", json!(null)), ("may_be_null", json!([]))] {
        let error = call(&host, tool, json!({ "i": value })).await.result.expect_err(tool);
        assert_eq!(error.code, Code::InvalidArguments);
    }
    // Models are told the same.
    let shown = lab.run(&["schema", "--format", "gemini"]);
    assert!(shown.contains(r#""nullable": true"#), "{shown}");
}

/// A lab with the tools as one plugin, and another plugin beside it.
fn lab(limits: &str, tools: &[Value]) -> Lab {
    Lab::new()
        .config(&format!("[limits]\n{limits}"))
        .with("x.wasm", plugin(tools))
        .with("json.wasm", guest("json"))
}

async fn refused(host: &Host, tool: &str, arguments: Value) -> CallError {
    call(host, tool, arguments).await.result.expect_err("a refusal")
}

async fn the_other_works(host: &Host) {
    let given = json!({ "filter": ".", "json": 1 });
    let text = answer(host, "json_query", given).await;
    assert_eq!(text, r#"{"results":[1],"truncated":false}"#);
}

/// What is said of a tool that is left out.
async fn left_out(limits: &str, schema: Value) -> String {
    let tools = [tool("t", json!({ "parameters": schema })), tool("u", json!({ "output": {} }))];
    lab(limits, &tools).status("x.wasm").await
}

/// 6,000 values, and 800 references to them.
fn clones() -> Value {
    generated(json!([
        [r#"{"type":"object","$defs":{"e":{"enum":["#, 1],
        ["\"%\",", 5_000],
        [r#""v"]}},"properties":{"#, 1],
        [r##""p%":{"$ref":"#/$defs/e"},"##, 700],
        [r#""q":{}}}"#, 1],
    ]))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_much_is_refused_with_the_keyword() {
    let text = left_out("", clones()).await;
    assert!(text.contains("keyword `enum` at /properties/p"), "{text}");
    assert!(text.contains("`schema_expanded_bytes_max`"), "{text}");
    assert!(text.contains("tools: u"), "{text}");

    let patterns = generated(json!([
        [r#"{"type":"object","properties":{"#, 1],
        [r#""p%":{"pattern":"^[ab]*a[ab]{5000}c%N"},"#, 800],
        [r#""q":{}}}"#, 1],
    ]));
    let text = left_out("", patterns).await;
    assert!(text.contains("keyword `pattern` at /properties/p"), "{text}");
    assert!(text.contains("`schema_patterns_bytes_max`"), "{text}");

    // The validator keeps the place of each keyword.
    let places = generated(json!([
        [
            r#"{"type":"object","$defs":{"l":{"minLength":1,"maxLength":9,"minItems":1,"minimum":1},"m":{"allOf":["#,
            1
        ],
        [r##"{"$ref":"#/$defs/l"},"##, 59],
        [r##"{}]}},"properties":{""##, 1],
        ["name", 2_500],
        [r#"":{"allOf":["#, 1],
        [r##"{"$ref":"#/$defs/m"},"##, 24],
        ["{}]}}}", 1],
    ]));
    let text = left_out("", places).await;
    assert!(text.contains("`schema_expanded_bytes_max`"), "{text}");
    // What is negated is kept at each level.
    let negated = generated(json!([
        [r#"{"type":"object","$defs":{"z":{"const":["#, 1],
        ["1,", 3_000],
        ["1]},\"a\":", 1],
        [r#"{"not":"#, 12],
        [r##"{"$ref":"#/$defs/z"}"##, 1],
        ["}", 12],
        [",\"b\":", 1],
        [r#"{"not":"#, 12],
        [r##"{"$ref":"#/$defs/a"}"##, 1],
        ["}", 12],
        [r##"},"properties":{"p":{"$ref":"#/$defs/b"},"q":{"$ref":"#/$defs/b"}}}"##, 1],
    ]));
    let text = left_out("", negated).await;
    assert!(text.contains("keyword `not` at /properties/"), "{text}");
    // Reading a pattern again and again, and making large classes that match nothing.
    for class in [r"\\s", r"\\p{L}{0}", "(?i:[^a]){0}"] {
        let dear = generated(json!([
            [r#"{"type":"object","properties":{"p":{"pattern":"(?:x"#, 1],
            [class, 4_000 / class.len()],
            [r#"){0}"},"q":{"pattern":"(?:y"#, 1],
            [class, 4_000 / class.len()],
            [r#"){0}"}}}"#, 1],
        ]));
        let text = left_out("", dear).await;
        assert!(text.contains("keyword `pattern` at /properties/"), "{text}");
        assert!(text.contains("the patterns of the schema take too long to read"), "{text}");
    }

    // Each level is compiled twice for the one above it.
    let unevaluated = generated(json!([
        [r#"{"type":"object","unevaluatedProperties":false,"allOf":["#, 1],
        [r#"{"unevaluatedProperties":false,"allOf":["#, 13],
        ["{}", 1],
        ["]}", 14],
    ]));
    let text = left_out("", unevaluated).await;
    assert!(text.contains("keyword `unevaluatedProperties` at /allOf/"), "{text}");
}

#[test]
fn looking_at_it_is_bounded_too() {
    let lab = Lab::new();
    let file = lab.work().join("x.wasm");
    fs::write(&file, plugin(&[tool("t", json!({ "parameters": clones() }))])).expect("written");
    let text = lab.run(&["inspect", "x.wasm"]);
    assert!(text.contains("`schema_expanded_bytes_max`"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn alternatives_are_not_described_one_by_one() {
    let output =
        json!({ "output": alternatives(), "answer": { "structured": empty_objects(2_000_000) } });
    let arguments = json!({ "parameters": alternatives() });
    let lab = lab("", &[tool("t", output), tool("u", arguments)]);
    let host = lab.host().await;
    let error = refused(&host, "t", json!({})).await;
    assert_eq!(error.code, Code::Failed, "{error:?}");
    assert!(error.message.contains("breaks its own output schema"), "{error:?}");
    let given = json!({ "a": vec![json!({}); 300_000] });
    let error = refused(&host, "u", given).await;
    assert_eq!(error.code, Code::InvalidArguments, "{error:?}");
    assert!(error.message.contains("'anyOf'"), "{error:?}");
    assert!(error.message.len() < 1_000, "{error:?}");
    the_other_works(&host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_that_takes_too_long_is_the_plugins_fault() {
    let limits = "schema_check_time_max = \"1s\"\nquarantine_failures_max = 1\n";
    let output = json!({ "output": SLOW, "answer": { "structured": slow_value(8_000_000) } });
    let output = lab(limits, &[tool("t", output)]);
    let host = output.host().await;
    let error = refused(&host, "t", json!({})).await;
    assert_eq!(error.code, Code::Deadline, "{error:?}");
    assert!(error.message.contains("`schema_check_time_max` of 1s"), "{error:?}");
    assert_eq!(refused(&host, "t", json!({})).await.code, Code::Quarantined);
    the_other_works(&host).await;

    // A schema of which some kilobytes take long is the plugin's fault, whoever wrote these.
    let arguments = lab(limits, &[tool("t", json!({ "parameters": SLOW }))]);
    let host = arguments.host().await;
    let given = json!({ "a": "ab".repeat(500_000) });
    let error = refused(&host, "t", given.clone()).await;
    assert_eq!(error.code, Code::Deadline, "{error:?}");
    assert_eq!(refused(&host, "t", given).await.code, Code::Quarantined);
    the_other_works(&host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn schema_check_memory_bytes_max() {
    let numbers =
        |count: usize| generated(json!([[r#"{"a":["#, 1], ["1,", count - 1], ["1]}", 1]]));
    let numbers = |name: &str, count| {
        tool(name, json!({ "output": {}, "answer": { "structured": numbers(count) } }))
    };
    let limits = "schema_check_memory_bytes_max = \"256 MiB\"\nquarantine_failures_max = 1\n";
    let lab = lab(limits, &[numbers("some", 100_000), numbers("many", 4_000_000)]);
    let host = lab.host().await;
    call(&host, "some", json!({})).await.result.expect("an output that fits");
    let error = refused(&host, "many", json!({})).await;
    assert_eq!(error.code, Code::Memory, "{error:?}");
    assert!(error.message.contains("`schema_check_memory_bytes_max` of 268435456"), "{error:?}");
    assert_eq!(refused(&host, "some", json!({})).await.code, Code::Quarantined);
    the_other_works(&host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_brings_no_plugin_into_quarantine() {
    let schema = json!({
        "type": "object",
        "properties": { "a": { "type": "array", "items": { "type": "integer" } } },
    });
    let limits = "quarantine_failures_max = 1\n";
    let lab = lab(limits, &[tool("t", json!({ "parameters": schema }))]);
    let host = lab.host().await;
    let large = |last: Value| {
        let mut numbers = vec![json!(1); 400_000];
        numbers.push(last);
        Call::new("t", json!({ "a": numbers }).to_string())
    };
    let mut hurried = large(json!(1));
    hurried.time_max = Some(std::time::Duration::from_millis(1));
    let error = host.call(hurried).await.result.expect_err("no time");
    assert_eq!(error.code, Code::Deadline, "{error:?}");
    let error = host.call(large(json!("x"))).await.result.expect_err("no integer");
    assert!(error.message.contains(r#"/a/400000: "x" is not of type "integer""#), "{error:?}");
    call(&host, "t", json!({ "a": [1] })).await.result.expect("no quarantine");
    host.call(large(json!(1))).await.result.expect("an answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_process_only_brief_checks_are_made() {
    let linear = json!({
        "type": "object",
        "properties": { "a": { "type": "array", "items": { "type": "integer" } } },
    });
    let tools = [
        tool("slow", json!({ "parameters": SLOW })),
        tool("linear", json!({ "parameters": linear })),
    ];
    let lab = lab("", &tools);
    let host = Host::start(HostSettings { compiler: None, ..lab.settings() }).expect("a host");
    host.loaded().await;
    let catalog = host.catalog();
    let source = &catalog.find("linear").expect("the other tool").source;
    let rejected = &catalog.report(source).expect("a report").rejected;
    assert_eq!(rejected.len(), 1, "{rejected:?}");
    let reason = rejected[0].reason.to_string();
    assert!(reason.contains("keyword `pattern` at /properties/a/pattern"), "{reason}");
    assert!(reason.contains("`HostSettings::compiler`"), "{reason}");
    let numbers = vec![1; 200_000];
    call(&host, "linear", json!({ "a": numbers })).await.result.expect("an answer");
    let error = refused(&host, "linear", json!({ "a": [1, "x"] })).await;
    assert!(error.message.contains(r#""x" is not of type "integer""#), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn schemas_bytes_max() {
    let parameters = json!({ "type": "object", "properties": { "a": { "enum": vec!["x"; 40] } } });
    let tools: Vec<Value> =
        (0..60).map(|n| tool(&format!("t{n}"), json!({ "parameters": parameters }))).collect();
    let status = |limits: &'static str| {
        let lab = lab(limits, &tools);
        async move { lab.status("x.wasm").await }
    };
    let text = status("schemas_bytes_max = \"64 KiB\"").await;
    assert!(text.contains("tools: t0 "), "{text}");
    assert!(text.contains("exceed `schemas_bytes_max` of 65536"), "{text}");
    let text = status("schemas_bytes_max = \"1 MiB\"").await;
    assert!(!text.contains("schemas_bytes_max"), "{text}");
}

/// Tools whose schemas take a while to compile, and some memory.
fn tools_with_patterns() -> Vec<Value> {
    let parameters = generated(json!([
        [r#"{"type":"object","properties":{"#, 1],
        [r#""p%":{"pattern":"^[a-z]{%}x{60}$"},"#, 20],
        [r#""q":{}}}"#, 1],
    ]));
    (0..60).map(|n| tool(&format!("t{n}"), json!({ "parameters": parameters }))).collect()
}

#[tokio::test]
async fn schemas_time_max() {
    let status = |limits: &'static str| async move {
        lab(limits, &tools_with_patterns()).status("x.wasm").await
    };
    let text = status("schemas_time_max = \"1ms\"").await;
    let said =
        "compiling the schemas of all tools takes more CPU time than `schemas_time_max` of 1ms";
    assert!(text.contains(said), "{text}");
    // As long as it takes on a slow machine.
    let text = status("schemas_time_max = \"1m\"\nuntrusted_schemas_time_max = \"10m\"").await;
    assert!(!text.contains("schemas_time_max") && text.contains("t59"), "{text}");
}

#[tokio::test]
async fn what_strangers_register_in_a_folder_has_a_total() {
    for (limit, value) in
        [("untrusted_schemas_bytes_max", "64 KiB"), ("untrusted_schemas_time_max", "1ms")]
    {
        let bytes = plugin(&tools_with_patterns());
        let config = format!("[limits]\n{limit} = \"{value}\"\nschemas_time_max = \"1m\"");
        let lab = Lab::new().config(&config).with("x.wasm", &bytes);
        let text = lab.status("x.wasm").await;
        assert!(text.contains(&format!("`{limit}` of ")), "{text}");
        // The user's own have no such total.
        let folders = vec![Folder { path: lab.plugins(), origin: Origin::User }];
        let host = Host::start(HostSettings { folders, ..lab.settings() }).expect("a host");
        host.loaded().await;
        assert!(host.catalog().find("t59").is_some(), "{limit}");
    }
}

/// Structured output and JSON blocks that no reader takes.
fn broken() -> Vec<(&'static str, Value)> {
    vec![
        ("large", json!(r#"{"a":1e400}"#)),
        ("lone", json!(r#"{"a":"\ud800"}"#)),
        ("twice", json!(r#"{"a":1,"a":2}"#)),
        ("deep", generated(json!([["[", 200], ["]", 200]]))),
        ("abyss", generated(json!([["[", 60_000], ["]", 60_000]]))),
        ("none", json!("{\"a\":")),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_output_is_the_tools_failure() {
    let mut tools = Vec::new();
    for (name, text) in broken() {
        for (kind, schema) in [("structured", true), ("structured", false), ("raw", false)] {
            let mut more = json!({ "answer": { kind: text } });
            if schema {
                more["output"] = json!({});
            }
            tools.push(tool(&format!("{name}_{kind}_{schema}"), more));
        }
    }
    let lab = lab("quarantine_failures_max = 1\n", &tools);
    let host = lab.host().await;
    for tool in &tools {
        let name = tool["name"].as_str().expect("a name");
        let error = refused(&host, name, json!({})).await;
        assert_eq!(error.code, Code::Failed, "{name}: {error:?}");
        assert!(error.message.contains("that is not JSON ("), "{name}: {error:?}");
        assert!(error.message.contains("line 1 column "), "{name}: {error:?}");
        assert!(error.message.len() < 400, "{name}: {error:?}");
    }

    let mut client = McpClient::initialized(&lab, &[]);
    for (name, _) in broken() {
        let answer = client.call(1, &format!("{name}_structured_false"), json!({}));
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        let text = answer["result"]["content"][0]["text"].as_str().expect("a text");
        assert!(text.contains("that is not JSON"), "{text}");
    }
    assert_eq!(client.end().0, 0);
    let shown = lab.run(&["call", "deep_structured_true"]);
    assert!(shown.contains("that is not JSON (recursion limit exceeded"), "{shown}");
    assert!(shown.contains("exit 1\n"), "{shown}");
}

#[test]
fn structured_output_is_never_lost() {
    // More than a session shows, and no other block.
    let large = generated(json!([[r#"{"a":""#, 1], ["x", 150_000], [r#""}"#, 1]]));
    let tools = [
        tool("large", json!({ "answer": { "structured": large } })),
        tool("digits", json!({ "answer": { "raw": "123456789012345678901234567890" } })),
    ];
    let lab = lab("", &tools);
    let mut client = McpClient::initialized(&lab, &[]);
    let answer = client.call(1, "large", json!({}));
    let text = answer["result"]["content"][0]["text"].as_str().expect("a text");
    assert!(text.contains("persisted-output"), "{text}");
    let answer = client.call(2, "digits", json!({}));
    assert_eq!(answer["result"]["content"][0]["text"], "123456789012345678901234567890");
    assert_eq!(client.end().0, 0);
}

/// Processes that the program has started to check values.
fn checking(client: &McpClient) -> usize {
    let parent = client.id().to_string();
    let is_one = |entry: &fs::DirEntry| {
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let of_parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1));
        let command = fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
        of_parent == Some(parent.as_str()) && command.contains("check-value")
    };
    fs::read_dir("/proc").expect("/proc").flatten().filter(is_one).count()
}

/// Waits until so many checks run.
fn until_checking(client: &mut McpClient, count: usize) {
    let start = Instant::now();
    while checking(client) != count {
        assert!(start.elapsed() < PATIENCE, "{} and not {count}", checking(client));
        client.ask("ping", "ping", json!({}));
        client.answer("ping");
    }
}

#[test]
fn a_check_stops_with_its_call_and_holds_nobody_up() {
    let limits =
        "list_wait_max = \"60s\"\nwall_time_max = \"600s\"\nschema_check_time_max = \"600s\"\n";
    let slow = |kind: &str| match kind {
        "output" => json!({ "output": SLOW, "answer": { "structured": slow_value(8_000_000) } }),
        _ => json!({ "parameters": SLOW }),
    };
    let lab = Lab::new()
        .config(&format!("[limits]\n{limits}"))
        .with("x.wasm", plugin(&[tool("out", slow("output"))]))
        .with("y.wasm", plugin(&[tool("in", slow("parameters"))]))
        .with("json.wasm", guest("json"));
    fs::create_dir(lab.home().join("plugins")).expect("a folder");
    let own = tool("own", json!({ "parameters": SLOW, "answer": "echo" }));
    fs::write(lab.home().join("plugins/own.wasm"), plugin(&[own])).expect("written");
    let mut client = McpClient::initialized(&lab, &[]);
    client.ask_tool(1, "out", json!({}));
    client.ask_tool(2, "in", json!({ "a": "ab".repeat(500_000) }));
    // Of strangers, one at a time on two cores; nobody else waits for them.
    let at_once = std::thread::available_parallelism().map_or(1, usize::from).div_ceil(2).min(2);
    until_checking(&mut client, at_once);
    let answer = client.call(3, "json_query", json!({ "filter": ".", "json": 1 }));
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    // Neither does a check of the user's own plugin, which is made by a process as well.
    let answer = client.call(5, "own", json!({ "a": format!("{}cN", "a".repeat(5_001)) }));
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    until_checking(&mut client, at_once);
    for (id, left) in [(1, 1), (2, 0)] {
        let cancelled = json!({
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": { "requestId": id },
        });
        client.say(&cancelled.to_string());
        until_checking(&mut client, left);
    }
    // Nobody waits for the answer any more.
    client.ask_tool(4, "out", json!({}));
    until_checking(&mut client, 1);
    let start = Instant::now();
    assert_eq!(client.end().0, 0);
    assert!(start.elapsed() < PATIENCE, "it waited for the check");
}
