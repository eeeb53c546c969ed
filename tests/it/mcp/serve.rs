//! The MCP door: transcripts byte by byte, and the official clients.

mod promises;
mod traffic;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::support::client::{McpClient, PATIENCE};
use crate::support::{Lab, PACKAGES, guest, made, script};

/// Plugins have to be compiled, beside other tests.
const PATIENT: &str = "[limits]\nlist_wait_max = \"60s\"\n";

fn probe() -> Lab {
    Lab::new().with("probe.wasm", guest("probe")).config(PATIENT)
}

/// A plugin with this many tools.
fn many(prefix: &str, count: usize) -> Vec<u8> {
    let tool = |number| {
        let name = format!("{prefix}{number:03}");
        json!({ "name": name, "toolset": prefix, "description": "", "parameters": {} })
    };
    made(&json!({ "tools": (0..count).map(tool).collect::<Vec<_>>() }))
}

fn has(names: &[String], name: &str) -> bool {
    names.iter().any(|known| known == name)
}

#[test]
fn clients_of_both_eras_are_greeted() {
    let lab = Lab::new();
    let mut client = McpClient::start(&lab, &[]);
    let greeting = client.initialize();
    expect![[r#"{"jsonrpc":"2.0","id":"start","result":{"protocolVersion":"2025-06-18","capabilities":{"logging":{},"tools":{"listChanged":true}},"serverInfo":{"name":"toolhost","version":"0.1.0"},"instructions":"Tools that run in a sandbox; an error says whose move is next. No plugin was granted a directory. Relative paths are of HOME/project."}}"#]]
        .assert_eq(&greeting.to_string().replace(&*lab.home().to_string_lossy(), "HOME"));
    assert_eq!(client.end(), (0, String::new()));

    let mut client = McpClient::start(&lab, &[]);
    client.ask_modern(1, "server/discover", json!({}));
    let found = client.answer(1);
    assert_eq!(found["result"]["supportedVersions"][4], "2026-07-28", "{found}");
    assert_eq!(found["result"]["cacheScope"], "private", "{found}");
    client.ask_modern(2, "tools/list", json!({}));
    let listed = client.answer(2);
    assert_eq!(listed["result"]["cacheScope"], "private", "{listed}");
    assert_eq!(listed["result"]["ttlMs"], 0, "{listed}");
    // Having begun in the newer way, each request says who asks.
    client.ask(3, "tools/list", json!({}));
    assert_eq!(client.answer(3)["error"]["code"], -32602);
    assert_eq!(client.end(), (0, String::new()));
}

#[test]
fn what_is_no_message_does_no_harm() {
    let lab = probe();
    let mut client = McpClient::start(&lab, &[]);
    // Before the client has said how it will talk, and after.
    for round in 0..2 {
        for line in [
            "garbage",
            "",
            "{",
            "{\"jsonrpc\": \"2.0\", \"id\": 1,",
            "null",
            "[]",
            "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]",
            "{\"foo\":1}",
            "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}",
            "{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}",
            "{\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{}}",
            "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}",
            "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":77}}",
            "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/nothing\"}",
        ] {
            client.say(line);
        }
        client.write(b"\xff\xfe\x00\n");
        client.say(&"[".repeat(100_000));
        client.write(&vec![b'x'; 17 << 20]);
        client.write(b"\n");
        let id = format!("round {round}");
        client.ask(id.as_str(), "ping", json!({}));
        assert_eq!(client.answer(id.as_str())["result"], json!({}));
        if round == 0 {
            client.initialize();
        }
    }
    let refused =
        |message: &Value| matches!(message["error"]["code"].as_i64(), Some(-32700 | -32600));
    assert!(client.heard.iter().all(refused), "{:#?}", client.heard);
    assert!(!client.heard.is_empty());

    let mut check = |method: &str, parameters: Value, code: i64| {
        client.ask("odd", method, parameters);
        let answer = client.answer("odd");
        assert_eq!(answer["error"]["code"], code, "{method}: {answer}");
    };
    check("tools/call", json!({}), -32602);
    check("tools/call", json!({ "name": "echo", "arguments": ["text"] }), -32602);
    check("no/such/method", json!({}), -32601);
    let answer = client.call(5, "echo", json!({ "text": "still here" }));
    assert_eq!(answer["result"]["content"][0]["text"], "still here", "{answer}");
    client.write(b"{\"jsonrpc\":\"2.0\",\"id\":6,\"method\":\"pi");
    assert_eq!(client.end().0, 0);
}

#[track_caller]
fn check_call(client: &mut McpClient, tool: &str, arguments: Value, expected: &Expect) {
    let mut answer = client.call(1, tool, arguments);
    let result = answer.as_object_mut().expect("an answer");
    result.retain(|name, _| name == "result" || name == "error");
    expected.assert_eq(&answer.to_string());
}

#[test]
fn calls_become_results() {
    let lab = probe();
    let mut client = McpClient::initialized(&lab, &[]);
    let mut check = |tool: &str, arguments: Value, expected: Expect| {
        check_call(&mut client, tool, arguments, &expected);
    };
    check(
        "blocks",
        json!({}),
        expect![[
            r#"{"result":{"content":[{"type":"text","text":"text"},{"type":"text","text":"{\"a\":1}"},{"type":"image","data":"AQID","mimeType":"image/png"},{"type":"audio","data":"BA==","mimeType":"audio/wav"},{"type":"resource","resource":{"uri":"file:///x","mimeType":"text/plain","text":"inside"}}],"isError":false}}"#
        ]],
    );
    check(
        "structured",
        json!({ "n": "3" }),
        expect![[
            r#"{"result":{"content":[{"type":"text","text":"{\"sum\":3}"}],"structuredContent":{"sum":3},"isError":false}}"#
        ]],
    );
    check(
        "fail",
        json!({ "text": "no" }),
        expect![[
            r#"{"result":{"content":[{"type":"text","text":"{\"error\":\"[TOOL_ERROR] no\",\"code\":\"failed\"}"}],"isError":true}}"#
        ]],
    );
    check(
        "Echo",
        json!({ "text": "x" }),
        expect![[
            r#"{"error":{"code":-32602,"message":"Unknown tool: Echo; did you mean `echo`?","data":{"error":"Unknown tool: Echo; did you mean `echo`?","code":"unknown_tool","near":["echo"]}}}"#
        ]],
    );
    check(
        "no_such_tool_at_all",
        json!({}),
        expect![[
            r#"{"error":{"code":-32602,"message":"Unknown tool: no_such_tool_at_all","data":{"error":"Unknown tool: no_such_tool_at_all","code":"unknown_tool","near":[]}}}"#
        ]],
    );
    let context = client.call(8, "context", json!({}));
    let context = context["result"]["content"][0]["text"].as_str().expect("a text");
    let context: Value = serde_json::from_str(context).expect("JSON");
    assert_eq!(context["call"], "8");
    assert!(context["session"].as_str().expect("a session").starts_with("mcp-"));
    let wrong = client.call(9, "echo", json!({}));
    assert_eq!(wrong["result"]["isError"], true, "{wrong}");
}

#[test]
fn a_cancelled_call_stops() {
    let limits = "calls_per_source_max = 1\npermit_wait_max = \"50ms\"\n";
    let lab = probe().config(&format!("{PATIENT}{limits}"));
    let mut client = McpClient::initialized(&lab, &[]);
    client.ask_tool(1, "spin", json!({}));
    let is_busy = |client: &mut McpClient| {
        let answer = client.call(2, "echo", json!({ "text": "here" }));
        answer["result"]["content"][0]["text"].as_str().expect("a text").contains("\"busy\"")
    };
    let start = Instant::now();
    while !is_busy(&mut client) {
        assert!(start.elapsed() < PATIENCE, "it never began");
    }
    let cancelled = json!({
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": { "requestId": 1, "reason": "enough" },
    });
    client.say(&cancelled.to_string());
    let start = Instant::now();
    while is_busy(&mut client) {
        assert!(start.elapsed() < Duration::from_secs(30), "it goes on");
    }
    client.ask(3, "ping", json!({}));
    client.answer(3);
    assert!(client.heard.is_empty(), "nothing more is said of it: {:#?}", client.heard);
    assert_eq!(client.end().0, 0);
}

#[test]
fn a_client_may_go_away_any_time() {
    let lab = probe();
    // Mid-call: the call alone would take a minute.
    let mut client = spinning(&lab);
    let start = Instant::now();
    client.close();
    assert_eq!(client.wait().0, 0);
    assert!(start.elapsed() < Duration::from_secs(30));
    // With nobody to write to.
    let mut client = spinning(&lab);
    client.deafen();
    let start = Instant::now();
    let ping = json!({ "jsonrpc": "2.0", "id": 3, "method": "ping" });
    while client.try_say(&ping.to_string()) {
        assert!(start.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(client.wait().0, 0);
    // Without a word.
    assert_eq!(McpClient::start(&Lab::new(), &[]).end(), (0, String::new()));
}

/// A client whose call does not return.
fn spinning(lab: &Lab) -> McpClient {
    let mut client = McpClient::initialized(lab, &[]);
    client.call(1, "echo", json!({ "text": "loaded" }));
    client.ask_tool(2, "spin", json!({}));
    client
}

#[test]
fn what_was_asked_before_the_end_is_answered() {
    let lab = probe();
    let mut client = McpClient::initialized(&lab, &[]);
    client.call(0, "echo", json!({ "text": "loaded" }));
    client.ask_tool(1, "echo", json!({ "text": "last words" }));
    client.close();
    let answer = client.answer(1);
    assert_eq!(answer["result"]["content"][0]["text"], "last words", "{answer}");
    assert_eq!(client.wait().0, 0);
}

#[test]
fn greetings_come_before_plugins_are_compiled() {
    let lab = Lab::new().with("json.wasm", guest("json")).config(PATIENT);
    let cache = lab.home().join("fresh");
    let mut command = lab.command(env!("CARGO_BIN_EXE_toolhost"));
    command.arg("serve").env("TOOLHOST_CACHE", &cache);
    let mut client = McpClient::with(command);
    client.initialize();
    let components = || fs::read_dir(cache.join("components/untrusted")).map_or(0, Iterator::count);
    let before = components();
    client.ask_tool(1, "json_query", json!({ "filter": ".", "json": 1 }));
    client.ask(2, "ping", json!({}));
    client.answer(2);
    assert!(client.heard.is_empty(), "the call waits: {:#?}", client.heard);
    assert!(has(&client.list().0, "json_query"));
    let answer = client.answer(1);
    let text = "{\"results\":[1],\"truncated\":false}";
    assert_eq!(answer["result"]["content"][0]["text"], text, "{answer}");
    assert!(components() > before, "it was not compiled before");
    assert_eq!(client.end(), (0, String::new()));
}

#[test]
fn clients_hear_of_another_list() {
    // Nothing is waited for, so the first list comes too early.
    let lab = Lab::new()
        .with("words-js.wasm", script("words-js"))
        .config("[limits]\nlist_wait_max = \"1ms\"");
    let connect = |cache: &str| {
        let mut command = lab.command(env!("CARGO_BIN_EXE_toolhost"));
        command.arg("serve").env("TOOLHOST_CACHE", lab.home().join(cache));
        McpClient::with(command)
    };
    const CHANGED: &str = "notifications/tools/list_changed";

    let (mut client, mut modern) = (connect("fresh"), connect("as fresh"));
    modern.ask_modern(1, "tools/list", json!({}));
    modern.answer(1);
    modern.ask_modern(
        2,
        "subscriptions/listen",
        json!({ "notifications": { "toolsListChanged": true } }),
    );
    client.initialize();
    assert!(!has(&client.list().0, "count_words_js"));
    let early = client.call(1, "count_words_js", json!({ "text": "one" }));
    assert_eq!(early["error"]["code"], -32602, "{early}");
    client.notification(CHANGED);
    assert!(has(&client.list().0, "count_words_js"));
    let call = client.call(2, "count_words_js", json!({ "text": "one" }));
    assert_eq!(call["result"]["content"][0]["text"], "{\"words\":1}");
    assert!(client.heard.is_empty(), "told once: {:#?}", client.heard);

    let mut client = modern;
    client.notification("notifications/subscriptions/acknowledged");
    let changed = client.notification(CHANGED);
    assert_eq!(changed["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 2);
    client.close();
    assert_eq!(client.answer(2)["result"]["resultType"], "complete");
    assert!(client.heard.is_empty(), "only who listens hears: {:#?}", client.heard);
    assert_eq!(client.wait().0, 0);
}

#[test]
fn lists_come_in_pages() {
    let lab =
        Lab::new().with("a.wasm", many("a", 130)).with("b.wasm", many("b", 130)).config(PATIENT);
    let mut client = McpClient::initialized(&lab, &[]);
    let (names, pages) = client.list();
    assert!(names.len() >= 260);
    assert!(names.is_sorted());
    assert_eq!(pages, 2);
    assert_eq!(client.list().0, names);
    for cursor in ["", "x", "250", "0000000000000000-250"] {
        client.ask("odd", "tools/list", json!({ "cursor": cursor }));
        let answer = client.answer("odd");
        assert_eq!(answer["error"]["code"], -32602, "{cursor}: {answer}");
    }
}

#[test]
fn toolsets_bound_what_is_offered() {
    let platforms = "[platforms.desk]\ntoolsets = [\"a\"]\nknown = [\"probe\", \"data\"]\n\
                     [platforms.other]\ntoolsets = []\nknown = [\"a\"]\n";
    let lab = probe()
        .with("json.wasm", guest("json"))
        .with("a.wasm", many("a", 1))
        .config(&format!("{PATIENT}{platforms}"));
    let check = |arguments: &[&str], echo: bool, a000: bool| {
        let mut client = McpClient::initialized(&lab, arguments);
        let (names, _) = client.list();
        assert_eq!((has(&names, "echo"), has(&names, "a000")), (echo, a000), "{arguments:?}");
        let answer = client.call(1, "echo", json!({ "text": "x" }));
        assert_eq!(answer["result"]["isError"], !echo, "{answer}");
        client.end().1
    };
    check(&[], true, true);
    check(&["--enable", "a,data"], false, true);
    check(&["--enable", "a,probe", "--disable", "a"], true, false);
    check(&["--platform", "desk"], false, true);
    check(&["--platform", "other"], true, false);
    check(&["--platform", "other", "--disable", "probe"], false, false);
    let log = check(&["--disable", "prob"], true, true);
    assert!(log.contains("Unknown toolset: prob; did you mean `probe`?"), "{log}");
    let refused = lab.run(&["serve", "--enable", "a", "--platform", "desk"]);
    assert!(refused.starts_with("exit 2\n"), "{refused}");
    let refused = lab.run(&["serve", "--schema-profile", "openia"]);
    assert!(refused.contains("did you mean `openai`?"), "{refused}");
}

#[test]
fn schemas_have_the_form_that_was_asked_for() {
    let lab = probe();
    let check = |profile: &str, expected: Expect| {
        let mut client = McpClient::initialized(&lab, &["--schema-profile", profile]);
        client.ask(1, "tools/list", json!({}));
        let listed = client.answer(1);
        let tools = listed["result"]["tools"].as_array().expect("tools");
        assert!(tools.iter().all(|tool| tool["inputSchema"]["type"] == "object"), "{profile}");
        let structured = tools.iter().find(|tool| tool["name"] == "structured").expect("the tool");
        assert_eq!(structured["outputSchema"]["properties"]["sum"]["type"], "integer");
        expected.assert_eq(&structured["inputSchema"].to_string());
    };
    check(
        "mcp",
        expect![[
            r#"{"type":"object","additionalProperties":false,"properties":{"n":{"type":"integer","format":"uint64","minimum":0,"description":"How much."}},"required":["n"]}"#
        ]],
    );
    check(
        "openai",
        expect![[
            r#"{"type":"object","additionalProperties":false,"properties":{"n":{"type":"integer","format":"uint64","minimum":0,"description":"How much."}},"required":["n"]}"#
        ]],
    );
    check(
        "openai-strict",
        expect![[
            r#"{"type":"object","properties":{"n":{"type":"integer","description":"How much.","minimum":0}},"required":["n"],"additionalProperties":false}"#
        ]],
    );
    check(
        "anthropic",
        expect![[
            r#"{"type":"object","additionalProperties":false,"properties":{"n":{"type":"integer","format":"uint64","minimum":0,"description":"How much."}},"required":["n"]}"#
        ]],
    );
    check(
        "gemini",
        expect![[
            r#"{"type":"object","properties":{"n":{"type":"integer","description":"How much.","minimum":0}},"propertyOrdering":["n"],"required":["n"]}"#
        ]],
    );
}

#[test]
fn progress_grows_and_ends_with_the_call() {
    let lab = probe();
    let mut client = McpClient::initialized(&lab, &[]);
    let call = |token: Option<&str>| {
        let mut call = json!({ "name": "report", "arguments": { "n": 500 } });
        if let Some(token) = token {
            call["_meta"] = json!({ "progressToken": token });
        }
        call
    };
    client.ask(1, "tools/call", call(None));
    client.answer(1);
    assert!(client.heard.is_empty(), "nobody asked for it: {:#?}", client.heard);
    client.ask(2, "tools/call", call(Some("p")));
    client.answer(2);
    let heard = std::mem::take(&mut client.heard);
    let done: Vec<f64> = heard
        .iter()
        .filter(|message| message["params"]["progressToken"] == "p")
        .map(|message| message["params"]["progress"].as_f64().expect("a number"))
        .collect();
    assert!(done.is_sorted_by(|before, after| before < after), "{done:?}");
    assert_eq!(done.last(), Some(&499.0));
    client.ask(3, "ping", json!({}));
    client.answer(3);
    assert!(client.heard.is_empty(), "none after the result: {:#?}", client.heard);
}

const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/it/mcp/serve");

/// Runs a client's program against the probe, and returns what it saw.
fn seen(program: &Path, arguments: &[&str]) -> String {
    let output = probe()
        .command(program)
        .args(arguments)
        .arg(env!("CARGO_BIN_EXE_toolhost"))
        .output()
        .expect("a client");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn the_python_client_is_content() {
    let python = PACKAGES.join("python/bin/python");
    let client = format!("{SCRIPTS}/client.py");
    for (mode, version) in [("legacy", "2025-11-25"), ("auto", "2026-07-28")] {
        let seen = seen(&python, &[&client, mode]);
        let rest = seen.strip_prefix(&format!("version: \"{version}\"\n"));
        expect![[r#"
            server: "toolhost"
            listed: ["blocks", "spin"]
            blocks: ["text", "text", "image", "audio", "resource"]
            structured: [{"sum": 3}, "{\"sum\":3}"]
            failed: [true, "{\"error\":\"[TOOL_ERROR] no\",\"code\":\"failed\"}"]
            unknown: [-32602, "Unknown tool: no_such_tool_at_all"]
            last report: [1.0, 2.0, "step"]
            after spin: "here"
        "#]]
        .assert_eq(rest.unwrap_or(&seen));
    }
}

#[test]
fn the_typescript_client_is_content() {
    let packages = PACKAGES.join("javascript");
    let client = format!("{SCRIPTS}/client.mjs");
    let arguments = [client.as_str(), packages.to_str().expect("UTF-8")];
    expect![[r#"
        server: "toolhost"
        listed: ["blocks","spin"]
        blocks: ["text","text","image","audio","resource"]
        structured: [{"sum":3},"{\"sum\":3}"]
        failed: [true,"{\"error\":\"[TOOL_ERROR] no\",\"code\":\"failed\"}"]
        unknown: [-32602,"MCP error -32602: Unknown tool: no_such_tool_at_all"]
        after spin: "here"
    "#]]
    .assert_eq(&seen(Path::new("node"), &arguments));
}
