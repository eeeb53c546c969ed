//! What a tool's output schema promises: every success has structured content that conforms,
//! however large it is and however much was said before.

use serde_json::{Value, json};

use super::PATIENT;
use crate::support::client::McpClient;
use crate::support::{Lab, made};

/// A tool that promises an object with a text, and answers this.
fn promising(name: &str, answer: Value) -> Value {
    let output = json!({
        "type": "object",
        "properties": { "text": { "type": "string" } },
        "required": ["text"],
    });
    json!({ "name": name, "toolset": "made", "output": output, "answer": answer })
}

/// A structured answer of so many characters.
fn long(chars: usize) -> Value {
    json!({ "structured": { "generated": [["{\"text\":\"", 1], ["x", chars], ["\"}", 1]] } })
}

/// The lab must outlive its client.
fn client(tools: Value, limits: &str) -> (Lab, McpClient) {
    let lab = Lab::new()
        .config(&format!("{PATIENT}{limits}"))
        .with("x.wasm", made(&json!({ "tools": tools })));
    let client = McpClient::initialized(&lab, &[]);
    (lab, client)
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("a text: {result}"))
}

fn chars(result: &Value) -> usize {
    let text = result["structuredContent"]["text"].as_str();
    text.unwrap_or_else(|| panic!("the promised text: {result}")).len()
}

#[test]
fn a_large_result_keeps_its_structure() {
    let (_lab, mut client) = client(json!([promising("long", long(150_000))]), "");
    let result = client.call(1, "long", json!({}))["result"].take();
    assert_eq!(result["isError"], false);
    assert_eq!(chars(&result), 150_000);
    // The text is shortened, and kept whole.
    let shown = text(&result);
    assert!(shown.starts_with("<persisted-output>") && shown.len() < 3_000, "{shown}");
    let id = shown.split("Full output saved to: ").nth(1).and_then(|rest| rest.lines().next());
    let read = json!({ "id": id.expect("an id"), "offset": 150_000, "limit": 100 });
    let read = client.call(2, "result_read", read)["result"].take();
    assert!(text(&read).contains("xxx\\\"}"), "{read}");
}

#[test]
fn results_are_whole_however_many_there_are() {
    let (_lab, mut client) = client(json!([promising("some", long(5_000))]), "");
    for id in 0..50 {
        let result = client.call(id, "some", json!({}))["result"].take();
        assert_eq!(chars(&result), 5_000, "{id}");
        assert!(text(&result).starts_with("{\"text\":\"xxx"), "{id}");
    }
}

#[test]
fn a_turn_has_a_budget_where_it_is_configured() {
    let (_lab, mut client) =
        client(json!([promising("some", long(5_000))]), "turn_chars_max = 12000\n");
    for id in 0..10 {
        let result = client.call(id, "some", json!({}))["result"].take();
        assert_eq!(chars(&result), 5_000, "{id}");
        assert_eq!(text(&result).starts_with("<persisted-output>"), id >= 2, "{id}");
    }
}

#[test]
fn what_promises_nothing_is_shortened_as_a_whole() {
    let mut tool = promising("long", long(150_000));
    tool.as_object_mut().expect("a tool").remove("output");
    let (_lab, mut client) = client(json!([tool]), "");
    let result = client.call(1, "long", json!({}))["result"].take();
    assert_eq!(result.get("structuredContent"), None);
    assert_eq!(result["isError"], false);
    assert!(text(&result).starts_with("<persisted-output>"));
}

#[test]
fn a_broken_promise_is_an_error() {
    let tools = json!([
        promising("none", json!({ "text": "just text" })),
        promising("other", json!({ "structured": "{\"text\":1}" })),
        promising(
            "dense",
            json!({
                "structured": { "generated": [["{\"text\":\"\",\"n\":[1", 1], [",1", 600_000], ["]}", 1]] }
            })
        ),
    ]);
    let (_lab, mut client) = client(tools, "");
    let mut check = |tool: &str, expected: &str| {
        let result = client.call(1, tool, json!({}))["result"].take();
        assert_eq!(result["isError"], true, "{result}");
        assert_eq!(result.get("structuredContent"), None);
        assert!(text(&result).contains(expected), "{}", text(&result));
    };
    check("none", "the tool's structured output is missing, though it registered an output schema");
    check("other", "breaks its own output schema");
    check("dense", "has 600004 values, and MCP clients are sent at most 500000");
}

#[test]
fn what_strangers_wrote_promises_nothing() {
    let lab = Lab::new().config(PATIENT).with(
        "x.wasm",
        made(
            &json!({ "tools": [promising("browser_read", long(50)), promising("some", long(50))] }),
        ),
    );
    let mut client = McpClient::initialized(&lab, &[]);
    client.ask(1, "tools/list", json!({}));
    let listed = client.answer(1);
    let tools = listed["result"]["tools"].as_array().expect("tools");
    let promises = |name: &str| {
        let tool = tools.iter().find(|tool| tool["name"] == name).expect("the tool");
        tool.get("outputSchema").is_some()
    };
    assert!(promises("some") && !promises("browser_read"));
    let result = client.call(2, "browser_read", json!({}))["result"].take();
    assert_eq!(result["isError"], false);
    assert_eq!(result.get("structuredContent"), None);
    assert!(text(&result).contains("untrusted_tool_result"), "{result}");
}
