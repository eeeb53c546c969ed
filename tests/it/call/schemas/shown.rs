//! What schemas of strangers cost where no value is checked: places that a validator keeps, builds
//! that are compared, definitions that are shown; and what clients are promised of output.

use std::sync::Arc;

use serde_json::{Value, json};
use toolhost_kernel::session::SessionSettings;
use toolhost_schema::schema::Format;

use super::{generated, lab, left_out, tool};
use crate::support::call;
use crate::support::client::McpClient;

/// Schemas without keywords, so many below one long name.
fn empty_below_a_long_name(open: &str, one: &str, count: usize, close: &str) -> Value {
    generated(json!([
        [r#"{"type":"object","properties":{""#, 1],
        ["n", 32_000],
        [format!(r#"":{{{open}"#), 1],
        [one, count],
        [format!("{close}}}}}}}"), 1],
    ]))
}

#[tokio::test(flavor = "multi_thread")]
async fn places_of_empty_schemas_count() {
    for schema in [
        empty_below_a_long_name(r#""properties":{"#, r#""p%":{},"#, 3_000, r#""z":{}}"#),
        empty_below_a_long_name(r#""properties":{"#, r#""p%":true,"#, 2_500, r#""z":{}}"#),
        empty_below_a_long_name(r#""allOf":["#, "{},", 3_900, "{}]"),
        empty_below_a_long_name(r#""anyOf":["#, "true,", 3_900, "{}]"),
        empty_below_a_long_name(r#""prefixItems":["#, "{},", 3_900, "{}]"),
    ] {
        let text = left_out("", schema).await;
        assert!(text.contains("`schema_expanded_bytes_max`"), "{text}");
        assert!(text.contains("tools: u"), "{text}");
    }
}

/// Each waits for what the tool says of itself before it renders.
#[tokio::test(flavor = "multi_thread")]
async fn who_lists_at_once_shares_one_rendering() {
    let lab = lab("", &[tool("t", json!({ "describe": r#"{"description":"d"}"# }))]);
    let host = lab.host().await;
    let session = host.session(SessionSettings::default()).expect("a session");
    for format in Format::ALL {
        let list = || host.definitions(&session, format);
        let (one, two, three) = tokio::join!(list(), list(), list());
        assert!(Arc::ptr_eq(&one, &two) && Arc::ptr_eq(&two, &three), "{format}");
    }
}

/// Of output that refers to itself only some levels are checked, so clients are promised nothing.
#[tokio::test(flavor = "multi_thread")]
async fn output_that_is_not_checked_wholly_is_not_promised() {
    let recursive = json!({
        "type": "object",
        "properties": { "next": { "$ref": "#" }, "value": { "type": "integer" } },
    });
    let plain = json!({
        "type": "object",
        "properties": { "value": { "$ref": "#/$defs/number" } },
        "$defs": { "number": { "type": "integer" } },
    });
    let deep = (0..8).fold(json!({ "value": "wrong" }), |inner, _| json!({ "next": inner }));
    let tools = [
        tool("deep", json!({ "output": recursive, "answer": { "structured": deep.to_string() } })),
        tool(
            "shallow",
            json!({
                "output": recursive,
                "answer": { "structured": r#"{"value":"wrong"}"# },
            }),
        ),
        tool("plain", json!({ "output": plain, "answer": { "structured": r#"{"value":1}"# } })),
    ];
    let lab = lab("", &tools);
    let host = lab.host().await;
    call(&host, "shallow", json!({})).await.result.expect_err("wrong where it is checked");
    drop(host);
    let mut client = McpClient::initialized(&lab, &[]);
    client.ask("list", "tools/list", json!({}));
    let listed = client.answer("list");
    let promised = |name: &str| {
        let tools = listed["result"]["tools"].as_array().expect("tools");
        let tool = tools.iter().find(|tool| tool["name"] == name).expect(name);
        tool.get("outputSchema").is_some()
    };
    assert!(promised("plain"), "{listed}");
    assert!(!promised("deep") && !promised("shallow"), "{listed}");
    let answer = client.call(1, "deep", json!({}));
    assert_eq!(answer["result"]["structuredContent"], deep, "{answer}");
    assert_eq!(client.end().0, 0);
}
