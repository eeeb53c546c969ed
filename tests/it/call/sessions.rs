//! What calls of one session add up to: repairs, circles, large results, batches; and what a
//! model is shown.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use toolhost::Host;
use toolhost_core::tool::{
    Call, CallError, Caller, Content, Invocation, Tool, ToolOutput, ToolSpec,
};
use toolhost_kernel::session::{Session, SessionError, SessionSettings};
use toolhost_policy::toolset::Selection;
use toolhost_schema::schema::Format;

use crate::load::registry::spec;
use crate::support::{Lab, answer, bundled, made};

fn tool(name: &str, answer: Value) -> Value {
    json!({ "name": name, "answer": answer })
}

async fn host(config: &str, tools: Value) -> Host {
    Lab::new().config(config).with("x.wasm", made(&json!({ "tools": tools }))).host().await
}

pub(crate) fn session(host: &Host) -> Arc<Session> {
    host.session(SessionSettings::default()).expect("a session")
}

async fn say(host: &Host, session: &Session, tool: &str, arguments: &str) -> String {
    host.call_in(session, Call::new(tool, arguments)).await.to_json_text()
}

#[tokio::test]
async fn a_name_is_repaired_where_no_harm_can_come_of_it() {
    let host = Lab::new()
        .config("[plugins.probe]\ndirs = [\"/nowhere:rw\"]")
        .with("x.wasm", made(&json!({ "tools": [tool("list_words", json!({ "text": "here" }))] })))
        .host()
        .await;
    for name in ["List-Words", "ListWords", "list-words", "list_words_tool", "LIST WORDS\"x"] {
        let outcome = host.call(Call::new(name, "")).await;
        assert_eq!(outcome.to_json_text(), r#"{"result":"here"}"#, "{name}");
        assert_eq!(outcome.tool, "list_words");
        assert!(outcome.repairs[0].ends_with("was read as `list_words`"), "{:?}", outcome.repairs);
    }
    // What is merely like it is another name; and with a directory to write to, a wrong tool could
    // do harm.
    for (name, dirs) in [("list_wrods", vec![]), ("list-words", vec!["/tmp:rw".to_owned()])] {
        let outcome = host.call(Call { dirs, ..Call::new(name, "") }).await;
        assert_eq!(
            outcome.to_json_text(),
            format!(
                r#"{{"error":"Unknown tool: {name}; did you mean `list_words`?","code":"unknown_tool","near":["list_words"]}}"#
            )
        );
    }
    let blank = answer(&host, " ", json!({})).await;
    assert!(blank.contains("is data, not a call"), "{blank}");
}

#[tokio::test]
async fn arguments_are_repaired_or_explained() {
    let host = host("", json!([tool("say", json!("echo"))])).await;
    let session = session(&host);
    for (given, expected) in [
        ("", "{}"),
        ("None", "{}"),
        (r#"{"a": 1,}"#, r#"{"a":1}"#),
        (r#"{"a": {"b": 1"#, r#"{"a":{"b":1}}"#),
        ("{\"a\": \"x\ny\"}", r#"{"a":"x\ny"}"#),
        (r#"{"a": 1}}"#, r#"{"a":1}"#),
    ] {
        let outcome = host.call_in(&session, Call::new("say", given)).await;
        assert_eq!(outcome.to_json_text(), expected, "{given}");
        assert_eq!(outcome.repairs.is_empty(), given.is_empty(), "{given}");
    }
    let deep = format!(r#"{{"a": {}{}}}"#, "[".repeat(10_000), "]".repeat(10_000));
    let huge = format!(r#"{{"a": "{}"}}"#, "x".repeat(10 << 20));
    for (given, expected) in [
        (deep.as_str(), "recursion limit"),
        (&huge, "arguments of 10485769 bytes exceed `arguments_bytes_max` of 1048576"),
        (r#"{"a": 1, "b": {"c": 1, "c": 2}}"#, "c"),
        (r#"{"a": NaN}"#, "not JSON"),
        (r#"{"a": 1e999}"#, "not JSON: number out of range"),
        (r#"{"a": "\ud800"}"#, "not JSON"),
        ("[1]", "given is an array"),
    ] {
        let text = say(&host, &session, "say", given).await;
        assert!(text.contains(r#""code":"invalid_arguments""#), "{text}");
        assert!(text.contains(expected) && text.len() < 1_000, "{expected}: {text}");
    }
}

#[tokio::test]
async fn a_model_that_turns_in_circles_is_told() {
    let tools = json!([tool("fails", json!({ "fail": "no" })), tool("works", json!("echo"))]);
    let config = "[guardrails]\nhard_stop_enabled = true\nhard_stop_after = { exact_failure = 3 }";
    let host = host(config, tools).await;
    let session = session(&host);
    let first = say(&host, &session, "fails", "{}").await;
    assert_eq!(first, r#"{"error":"[TOOL_ERROR] no","code":"failed"}"#);
    let second = say(&host, &session, "fails", "{}").await;
    assert!(
        second.contains("[Tool loop warning: repeated_exact_failure_warning; count=2;"),
        "{second}"
    );
    say(&host, &session, "fails", "{}").await;
    let blocked = say(&host, &session, "fails", "{}").await;
    let blocked: Value = serde_json::from_str(&blocked).expect("JSON");
    assert_eq!(blocked["guardrail"]["code"], "repeated_exact_failure_block");
    // A new turn begins anew, and another session counts for itself.
    assert_eq!(say(&host, &self::session(&host), "fails", "{}").await, first);
    session.begin_turn();
    assert_eq!(say(&host, &session, "fails", "{}").await, first);
    assert_eq!(say(&host, &session, "works", "{}").await, "{}");
}

#[tokio::test]
async fn a_turn_ends_after_thirty_seconds_without_a_call() {
    let host = host("", json!([tool("fails", json!({ "fail": "no" }))])).await;
    let session = session(&host);
    // What loads must take its real time; from here on only turns do.
    tokio::time::pause();
    for (wait, warned) in [(0, false), (29, true), (30, false)] {
        tokio::time::advance(Duration::from_secs(wait)).await;
        let text = say(&host, &session, "fails", "{}").await;
        assert_eq!(text.contains("Tool loop warning"), warned, "{wait}: {text}");
    }
}

#[tokio::test]
async fn what_was_read_is_not_read_again() {
    let lab = Lab::new();
    let bytes = made(&json!({ "tools": [
        { "name": "read_file", "answer": { "json": { "content": "1|x" } } }, { "name": "other" },
    ] }));
    bundled(&lab, "files", &bytes);
    let host = lab.with("files.wasm", bytes).host().await;
    let session = session(&host);
    let read = async || say(&host, &session, "read_file", r#"{"path": "a"}"#).await;
    assert_eq!(read().await, r#"{"content":"1|x"}"#);
    let second: Value = serde_json::from_str(&read().await).expect("JSON");
    assert_eq!((&second["status"], &second["dedup"]), (&json!("unchanged"), &json!(true)));
    let third: Value = serde_json::from_str(&read().await).expect("JSON");
    assert_eq!(third["already_read"], 3);
    let text = third["error"].as_str().expect("a text");
    assert!(text.starts_with("BLOCKED: You have called read_file on this exact region 3 times"));
    // Another region, and after the context was compressed the first.
    assert!(say(&host, &session, "read_file", r#"{"path": "b"}"#).await.contains("content"));
    session.forget_reads();
    assert_eq!(read().await, r#"{"content":"1|x"}"#);
}

#[tokio::test]
async fn what_is_too_large_is_kept_and_read_in_parts() {
    let tools = json!([
        { "name": "big", "answer": { "repeat": ["0123456789", 500] }, "max_result_size_chars": 4_999 },
    ]);
    let host = host("", tools).await;
    let session = session(&host);
    let caller = Caller { tool_call: Some("call/1".to_owned()), ..Caller::default() };
    let outcome = host.call_in(&session, Call { caller, ..Call::new("big", "") }).await;
    let Ok(ToolOutput { content, .. }) = outcome.result else { panic!("an output") };
    let [Content::Text(shown)] = content.as_slice() else { panic!("{content:?}") };
    assert!(shown.starts_with("<persisted-output>"), "{shown}");
    assert!(
        shown.contains("This tool result was too large (5,000 characters, 4.9 KB)."),
        "{shown}"
    );
    let id = shown.split('"').nth(1).expect("an id in quotes");
    assert!(id.starts_with("call_1_"), "{id}");
    let read = json!({ "id": id, "offset": 4_995, "limit": 100 }).to_string();
    assert_eq!(
        say(&host, &session, "result_read", &read).await,
        r#"{"text":"56789","offset":4995,"total_chars":5000,"next_offset":null}"#
    );
    // It is this session's alone.
    let text = say(&host, &self::session(&host), "result_read", &read).await;
    assert!(text.contains("is kept in this session"), "{text}");
    // A call without a session shows everything.
    let whole = answer(&host, "big", json!({})).await;
    assert_eq!(whole.len(), r#"{"result":""}"#.len() + 5_000);
}

/// A tool of an agent's loop, as whoever runs the model has it.
struct Todo(ToolSpec);

impl Tool for Todo {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn call<'a>(&'a self, _: Invocation<'a>) -> BoxFuture<'a, Result<ToolOutput, CallError>> {
        let content = vec![Content::Text("done".to_owned())];
        Box::pin(async { Ok(ToolOutput { content, ..ToolOutput::default() }) })
    }
}

#[tokio::test]
async fn a_session_can_stand_in_for_tools_of_the_loop() {
    let host = host("", json!([])).await;
    let with = |name: &str| SessionSettings {
        interceptors: vec![Arc::new(Todo(spec(name)))],
        selection: Selection { enabled: Some(vec![]), disabled: vec![] },
        ..SessionSettings::default()
    };
    let session = host.session(with("todo")).expect("a session");
    assert_eq!(say(&host, &session, "todo", "{}").await, r#"{"result":"done"}"#);
    let listed = host.definitions(&session, Format::OpenAi).await;
    assert_eq!(listed.names, ["result_read", "todo"]);
    let refused = host.session(with("terminal")).expect_err("not of the loop");
    assert_eq!(refused, SessionError::NotOfTheLoop("terminal".to_owned()));
}

#[tokio::test]
async fn a_definition_may_depend_on_what_is_visible() {
    let changed = r#"{"description": "Knows VISIBLE.", "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}}}"#;
    let described =
        |name: &str, text: &str| json!({ "name": name, "toolset": name, "describe": text });
    let config = "[limits]\ndescribe_time_max = \"500ms\"";
    let host = host(
        config,
        json!([
            described("good", changed),
            described("none", "none"),
            described("broken", "{"),
            described("surplus", r#"{"name": "other"}"#),
            described("crash", "trap"),
            described("endless", "loop"),
        ]),
    )
    .await;
    let listed = |enabled: Option<Vec<&str>>| {
        let enabled = enabled.map(|names| names.into_iter().map(str::to_owned).collect());
        let selection = Selection { enabled, disabled: vec!["endless".to_owned()] };
        let settings = SessionSettings { selection, is_one_call: true, ..Default::default() };
        let session = host.session(settings).expect("a session");
        let host = &host;
        async move {
            let listed = host.definitions(&session, Format::Mcp).await;
            let good = listed.names.iter().position(|name| name == "good").expect("listed");
            (listed.names.len(), listed.values[good]["description"].clone())
        }
    };
    let all = "Knows broken crash good none surplus.";
    assert_eq!(listed(None).await, (5, json!(all)));
    assert_eq!(listed(Some(vec!["good", "none"])).await, (2, json!("Knows good none.")));
    // Whatever goes wrong, the definition stays as registered.
    let listed = host.definitions(&session(&host), Format::Mcp).await;
    for (name, value) in listed.names.iter().zip(&listed.values) {
        if !["good", "result_read"].contains(&name.as_str()) {
            assert_eq!(value["description"], "Made for a test.", "{name}");
        }
    }
}

#[tokio::test]
async fn listings_are_byte_identical() {
    let tools: Vec<Value> = (0..50).map(|n| tool(&format!("t{n}"), json!("echo"))).collect();
    let mut texts = Vec::new();
    for _ in 0..3 {
        let host = host("", json!(tools)).await;
        let listed = host.definitions(&session(&host), Format::OpenAiStrict).await;
        assert!(listed.names.is_sorted());
        texts.push(serde_json::to_string(&listed.values).expect("JSON"));
    }
    assert!(texts.iter().all(|text| *text == texts[0]));
}
