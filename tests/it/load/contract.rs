//! Versions of the contract, and components that have more or less than it asks for.

use serde_json::json;
use toolhost_core::tool::SourceId;

use crate::support::{Lab, answer, built_for, from_wat, guest};

#[tokio::test]
async fn a_later_patch_of_the_contract_loads() {
    let lab = Lab::new().with("probe.wasm", built_for("0.1.1", guest("probe")));
    let host = lab.host().await;
    assert_eq!(answer(&host, "echo", json!({ "text": "hi" })).await, r#"{"result":"hi"}"#);
    assert_eq!(answer(&host, "chatter", json!({ "n": 1 })).await, r#"{"result":"said"}"#);
}

#[tokio::test]
async fn another_minor_is_refused_with_both_versions() {
    let lab = Lab::new()
        .with("new.wasm", built_for("0.2.0", guest("probe")))
        .with("json.wasm", guest("json"));
    assert_eq!(
        lab.status("new.wasm").await,
        "built for contract 0.2.0; this host knows 0.1: update toolhost"
    );
    assert_eq!(lab.status("json.wasm").await, "tools: json_query json_schema_infer");
}

#[tokio::test]
async fn unknown_needs_and_extensions_are_reported_and_harmless() {
    let lab = Lab::new().with("probe.wasm", guest("probe"));
    let host = lab.host().await;
    let statuses = host.loaded().await;
    let ready = statuses[0].state.as_ref().expect("it loads");
    assert_eq!(ready.facts.extensions(), [("vendor.color".to_owned(), "\"red\"".to_owned())]);
    let kinds: Vec<&str> = ready.needs.iter().map(|need| need.kind.as_str()).collect();
    assert_eq!(kinds, ["http", "teleport", "dirs", "dirs"]);
}

#[tokio::test]
async fn a_component_with_more_exports_than_the_world_loads() {
    let lab = Lab::new().with("foreign.wasm", guest("foreign"));
    let host = lab.host().await;
    assert_eq!(answer(&host, "foreign", json!({ "a": 1 })).await, r#"{"a":1}"#);
    // Its flags name interfaces which it does not export.
    let catalog = host.catalog();
    let spec = catalog.find("foreign").expect("the tool").tool.spec();
    assert!(!spec.has_check && !spec.has_dynamic_schema);
}

#[tokio::test]
async fn optional_interfaces_are_recognised() {
    let lab = Lab::new().with("probe.wasm", guest("probe"));
    let catalog = lab.host().await.catalog();
    let flags = |name: &str| {
        let spec = catalog.find(name).expect(name).tool.spec();
        (spec.has_check, spec.has_dynamic_schema)
    };
    assert_eq!(flags("optional"), (true, true));
    assert_eq!(flags("echo"), (false, false));
}

#[tokio::test]
async fn the_registration_arrives_whole() {
    let lab = Lab::new().with("probe.wasm", guest("probe"));
    let host = lab.host().await;
    let catalog = host.catalog();
    let entry = catalog.find("every").expect("the tool");
    let spec = entry.tool.spec();
    assert_eq!(spec.description, "Takes every kind of argument.");
    assert_eq!(spec.emoji.as_deref(), Some("🧪"));
    let needy = catalog.find("needy").expect("the tool");
    assert_eq!(needy.tool.spec().requires_env, ["TOKEN"]);
    assert_eq!(spec.max_result_size_chars, Some(9));
    assert!(matches!(&entry.source, SourceId::Plugin { id, .. } if id.as_str() == "probe"));
    assert_eq!(
        spec.parameters,
        json!({
            "type": "object",
            "properties": {
                "text": { "description": "A text.", "type": "string" },
                "kind": {
                    "description": "A kind.",
                    "oneOf": [
                        { "description": "A small one.", "type": "string", "const": "Small" },
                        { "description": "A large one.", "type": "string", "const": "Large" },
                    ],
                },
                "count": {
                    "description": "A number with a default.",
                    "type": "integer", "format": "uint8", "minimum": 0, "maximum": 255,
                    "default": 7,
                },
                "list": {
                    "description": "A list that may be left out.",
                    "type": ["array", "null"],
                    "items": { "type": "number", "format": "double" },
                },
            },
            "additionalProperties": false,
            "required": ["text", "kind"],
        })
    );
    let echo = catalog.find("echo").expect("the tool").tool.spec().clone();
    assert_eq!(echo.annotations.read_only, Some(true));
    assert_eq!(echo.annotations.destructive, None);
    assert_eq!(echo.examples[0].expected.as_deref(), Some("hello"));
    let open = &catalog.find("open").expect("the tool").tool.spec().parameters;
    assert_eq!(open.get("additionalProperties"), None);
    assert!(catalog.find("structured").expect("the tool").tool.spec().output.is_some());
}

/// A core module whose `register` returns what `body` leaves on the stack: an address.
fn lying(data: &str, body: &str) -> Vec<u8> {
    from_wat(&format!(
        r#"(module
            (memory (export "memory") 1)
            {data}
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) i32.const 4096)
            (func (export "register") (result i32) {body})
            (func (export "call") (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
                (result i32) unreachable)
        )"#
    ))
}

#[tokio::test]
async fn answers_that_break_the_abi_are_crashes_of_the_plugin() {
    let lab = Lab::new()
        // An address beyond the memory.
        .with("beyond.wasm", lying("", "i32.const 0x7ffffff0"))
        // A result that is neither ok nor an error.
        .with("neither.wasm", lying(r#"(data (i32.const 0) "\07")"#, "i32.const 0"))
        // An error text of 2 GiB.
        .with(
            "long.wasm",
            lying(r#"(data (i32.const 0) "\01\00\00\00\00\00\00\00\00\00\00\80")"#, "i32.const 0"),
        )
        // An error text that is not UTF-8.
        .with(
            "bytes.wasm",
            lying(r#"(data (i32.const 0) "\01\00\00\00\20\00\00\00\02\00\00\00") (data (i32.const 32) "\ff\fe")"#, "i32.const 0"),
        )
        .with("json.wasm", guest("json"));
    for file in ["beyond.wasm", "neither.wasm", "long.wasm", "bytes.wasm"] {
        let status = lab.status(file).await;
        assert!(status.starts_with("`register` "), "{file}: {status}");
        assert!(!status.contains('\n') && status.len() < 500, "{file}: {status}");
    }
    assert_eq!(lab.status("json.wasm").await, "tools: json_query json_schema_infer");
}
