//! Clients as they are met: that send what is broken, ask too much, or do not read.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{PATIENT, probe};
use crate::support::client::{McpClient, PATIENCE};
use crate::support::{Lab, guest, made};

/// One call of the probe at a time, and calls that end when they are told to.
const ONE_AT_A_TIME: &str =
    "calls_per_source_max = 1\npermit_wait_max = \"10min\"\nwall_time_max = \"10min\"\n";

fn lab(limits: &str) -> Lab {
    probe().config(&format!("{PATIENT}{limits}"))
}

/// A client whose first call does not return.
fn spinning(lab: &Lab) -> McpClient {
    let mut client = McpClient::initialized(lab, &[]);
    client.call(0, "echo", json!({ "text": "loaded" }));
    client.ask_tool(1, "spin", json!({}));
    client
}

fn cancel(client: &mut McpClient, id: i64) {
    let params = json!({ "requestId": id });
    client.say(
        &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params })
            .to_string(),
    );
}

fn said(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("a text: {answer}"))
}

#[test]
fn every_request_gets_an_answer() {
    let lab = lab("");
    let mut client = McpClient::initialized(&lab, &[]);
    let mut check = |line: &str, expected: &[(Value, i64)]| {
        client.say(line);
        for (id, code) in expected {
            let answer = match id {
                Value::Null => client.without_id(),
                id => client.answer(id.clone()),
            };
            assert_eq!(answer["error"]["code"], *code, "{line}: {answer}");
        }
        client.ask("then", "ping", json!({}));
        client.answer("then");
        assert!(client.heard.is_empty(), "{line}: {:#?}", client.heard);
    };
    let null = Value::Null;
    check("garbage", &[(null.clone(), -32700)]);
    check("{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"ping\"", &[(json!(5), -32700)]);
    check(
        "{\"method\":\"tools/call\",\"params\":{\"name\":tru},\"id\":\"a\"}",
        &[(json!("a"), -32700)],
    );
    check(
        "{\"jsonrpc\":\"2.0\",\"id\":6,\"method\":\"ping\"}{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}",
        &[(json!(6), -32700), (json!(7), -32700)],
    );
    check("[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", &[(json!(1), -32600)]);
    let ids = || (0..1_500).map(|id| format!("{{\"id\":{id},\"method\":\"ping\"}}"));
    let expected: Vec<_> =
        (0..1_024).map(|id| (json!(id), -32700)).chain([(null.clone(), -32700)]).collect();
    check(&ids().collect::<String>(), &expected);
    let expected: Vec<_> = (0..1_500).map(|id| (json!(id), -32600)).collect();
    check(&format!("[{}]", ids().collect::<Vec<_>>().join(",")), &expected);
    for (line, code) in [("[]", -32600), ("[1]", -32600), ("[[]]", -32600), ("[1", -32700)] {
        check(line, &[(null.clone(), code)]);
    }
    let (id, far) = ("x".repeat(604), "x".repeat(100_000));
    for (id, expected) in [(&id, json!(id)), (&far, null.clone())] {
        check(
            &format!("{{\"jsonrpc\":\"2.0\",\"id\":\"{id}\",\"method\":\"ping\"}}"),
            &[(expected, -32600)],
        );
        check(&format!("{{\"jsonrpc\":\"2.0\",\"id\":\"{id}\",\"result\":{{}}}}"), &[]);
    }
    check(&format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{far}\"}}"), &[(json!(1), -32600)]);
    for cursor in ["5", "{}", "[]", "true", "\"none\""] {
        check(
            &format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{{\"cursor\":{cursor}}}}}"
            ),
            &[(json!(1), -32602)],
        );
    }
    check("{\"foo\":1}", &[(null.clone(), -32600)]);
    check("{\"jsonrpc\":\"1.0\",\"id\":8,\"method\":\"ping\"}", &[(json!(8), -32600)]);
    check("{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}", &[(null.clone(), -32600)]);
    check("{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", &[(null.clone(), -32600)]);
    check("{\"jsonrpc\":\"2.0\",\"id\":9}", &[(json!(9), -32600)]);
    for params in ["5", "[1]", "\"text\"", "{\"_meta\":5}", "{\"_meta\":[]}"] {
        for method in ["ping", "tools/list", "tools/call", "initialize", "logging/setLevel"] {
            let line = format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"{method}\",\"params\":{params}}}"
            );
            check(&line, &[(json!(9), -32602)]);
        }
    }
    let name = "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"tools/call\",\"params\":{\"name\":5}}";
    check(name, &[(json!(9), -32602)]);
    let long = "x".repeat(17 << 20);
    check(
        &format!("{{\"jsonrpc\":\"2.0\",\"method\":\"ping\",\"params\":\"{long}\",\"id\":10}}"),
        &[(json!(10), -32600)],
    );
    check(&long, &[(null, -32600)]);
    // Nobody waits for an answer to these.
    check("{\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{}}", &[]);
    check("{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32700,\"message\":\"echoed\"}}", &[]);
    check("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/nothing\"}", &[]);
    check("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":5}", &[]);
    check("", &[]);
    // What stands at the end without a line break was said too.
    client.write(b"{\"jsonrpc\":\"2.0\",\"id\":11,\"method\":\"ping\"}");
    client.close();
    assert_eq!(client.answer(11)["result"], json!({}));
}

#[test]
fn an_open_id_is_refused_and_the_first_can_be_cancelled() {
    let lab = lab(ONE_AT_A_TIME);
    let mut client = spinning(&lab);
    client.ask_tool(1, "echo", json!({ "text": "second" }));
    assert_eq!(client.answer(1)["error"]["code"], -32600);
    client.ask(3, "ping", json!({}));
    client.answer(3);
    assert!(client.heard.is_empty(), "the first goes on: {:#?}", client.heard);
    cancel(&mut client, 1);
    // It would wait for ten minutes otherwise.
    assert_eq!(said(&client.call(2, "echo", json!({ "text": "has a turn" }))), "has a turn");
    // Whoever handled the first may be a moment behind.
    client.ask(1, "ping", json!({}));
    assert_eq!(client.answer(1)["error"]["code"], -32600);
}

#[test]
fn ids_are_read_as_json() {
    let lab = lab("");
    let mut client = McpClient::initialized(&lab, &[]);
    client.say(r#"{"jsonrpc":"2.0","\u0069d":7,"method":"ping"}"#);
    assert_eq!(client.answer(7)["result"], json!({}));
    client.say(r#"{"jsonrpc":"2.0","id":8,"\u006dethod":"ping"}"#);
    assert_eq!(client.answer(8)["result"], json!({}));
    // The longest that is taken, with its two marks.
    let id = "x".repeat(510);
    client.ask(id.as_str(), "ping", json!({}));
    assert_eq!(client.answer(id.as_str())["result"], json!({}));
    let id = "x".repeat(511);
    client.ask(id.as_str(), "ping", json!({}));
    let message = client.answer(id.as_str())["error"]["message"].take();
    assert_eq!(message, "`id` takes 513 bytes, and at most 512 are allowed");
}

#[test]
fn batches_are_of_the_first_revisions() {
    let batch = r#" [{"jsonrpc":"2.0","id":1,"method":"ping"}, {"jsonrpc":"2.0","method":"notifications/nothing"},5,{"jsonrpc":"2.0","id":2,"method":"ping"}] "#;
    let lab = lab(&format!("{ONE_AT_A_TIME}requests_max = 16\n"));
    for revision in ["2024-11-05", "2025-03-26"] {
        let mut client = McpClient::start(&lab, &[]);
        client.begin_with(revision);
        assert_eq!(client.answer("start")["result"]["protocolVersion"], revision);
        client.say(batch);
        for id in [1, 2] {
            assert_eq!(client.answer(id)["result"], json!({}));
        }
        let message = client.without_id()["error"]["message"].take();
        assert!(message.as_str().is_some_and(|why| why.starts_with("a message is an object")));
        assert!(client.heard.is_empty(), "{:#?}", client.heard);
        // They are admitted one by one.
        let spin = json!({ "name": "spin", "arguments": {} });
        let spin =
            |id| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": spin });
        client.say(&json!((1..=17).chain([3]).map(spin).collect::<Vec<_>>()).to_string());
        assert!(said(&client.answer(17)).contains("`requests_max` is 16"));
        assert_eq!(client.answer(3)["error"]["code"], -32600);
    }
    for revision in ["2025-06-18", "2025-11-25"] {
        let mut client = McpClient::start(&lab, &[]);
        client.begin_with(revision);
        client.say(batch);
        for id in [1, 2] {
            let message = client.answer(id)["error"]["message"].take();
            assert!(message.as_str().is_some_and(|why| why.contains("have batches")), "{message}");
        }
    }
}

#[test]
fn requests_max() {
    let lab = lab(&format!("{ONE_AT_A_TIME}requests_max = 16\n"));
    let mut client = spinning(&lab);
    for id in 2..=16 {
        client.ask_tool(id, "spin", json!({}));
    }
    client.ask_tool(17, "echo", json!({ "text": "one too many" }));
    let busy = client.answer(17);
    assert_eq!(busy["result"]["isError"], true);
    assert_eq!(busy["result"].get("resultType"), None);
    let expected =
        "busy: 16 requests wait, and `requests_max` is 16; wait for answers, then try again";
    assert!(said(&busy).contains(expected), "{busy}");
    client.ask(18, "ping", json!({}));
    let busy = client.answer(18);
    assert_eq!(
        (&busy["error"]["code"], &busy["error"]["data"]["code"]),
        (&json!(-32603), &json!("busy"))
    );
    // A cancellation is heard, and makes room.
    cancel(&mut client, 1);
    client.ask(19, "ping", json!({}));
    assert_eq!(client.answer(19)["result"], json!({}));
}

#[test]
fn requests_bytes_max() {
    let lab = lab(&format!("{ONE_AT_A_TIME}requests_bytes_max = \"1 MiB\"\n"));
    let mut client = spinning(&lab);
    let spin = json!({ "name": "spin", "_meta": { "padding": "x".repeat(600 << 10) } });
    client.ask(2, "tools/call", spin.clone());
    client.ask(3, "tools/call", spin.clone());
    let busy = client.answer(3);
    assert!(said(&busy).contains("and `requests_bytes_max` is 1048576"), "{busy}");
    // Many small values take more memory than their text.
    client.ask_tool(4, "echo", json!({ "text": vec![1; 100_000] }));
    let error = client.answer(4)["error"].take();
    assert_eq!(error["code"], -32600);
    assert!(error["message"].as_str().expect("a text").contains("`requests_bytes_max`"), "{error}");
    cancel(&mut client, 2);
    client.ask(5, "tools/call", spin);
    client.ask(6, "ping", json!({}));
    client.answer(6);
    assert!(client.heard.is_empty(), "there is room again: {:#?}", client.heard);
}

/// A client that began, and has read nothing since its output was full.
fn stuffed(lab: &Lab) -> McpClient {
    let mut command = lab.command(env!("CARGO_BIN_EXE_toolhost"));
    command.arg("serve");
    let mut client = McpClient::deaf(command);
    client.begin();
    client.ask_tool(1, "spin", json!({}));
    for id in 100..200 {
        client.ask(id, "tools/list", json!({}));
    }
    client
}

#[test]
fn a_cancellation_is_heard_while_nobody_reads() {
    let lab = Lab::new();
    let place = lab.work().join("data");
    fs::create_dir(&place).expect("a folder");
    let grant = format!("[plugins.probe]\ndirs = [\"{}:rw\"]\n", place.display());
    let config = format!("{PATIENT}{ONE_AT_A_TIME}{grant}");
    let lab = lab.config(&config).granted("probe", guest("probe"));
    let file = place.join("heard");
    let mut client = stuffed(&lab);
    client.ask_tool(2, "scribble", json!({ "text": file }));
    cancel(&mut client, 1);
    exists(&file);
    client.listen();
    assert_eq!(said(&client.answer(2)), "written");
    assert!(client.answer(199)["result"]["tools"].is_array());
}

fn exists(file: &Path) {
    let start = Instant::now();
    while fs::metadata(file).is_err() {
        assert!(start.elapsed() < PATIENCE, "it was not heard");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_end_comes_though_nobody_reads() {
    let lab = lab(ONE_AT_A_TIME);
    let mut client = stuffed(&lab);
    client.close();
    assert_eq!(client.unread_end(), 0);
    // Nor with more open than there is room for.
    let mut client = stuffed(&lab);
    for id in 1_000..4_000 {
        client.ask(id, "tools/list", json!({}));
    }
    client.close();
    assert_eq!(client.unread_end(), 0);
}

#[cfg(target_os = "linux")]
#[test]
fn a_signal_ends_it_though_the_client_stays() {
    use rustix::process::{Pid, Signal, kill_process};
    let lab = lab(ONE_AT_A_TIME);
    for signal in [Signal::TERM, Signal::INT] {
        let mut client = spinning(&lab);
        client.ask(2, "ping", json!({}));
        client.answer(2);
        let id = Pid::from_raw(client.id().cast_signed()).expect("a process");
        kill_process(id, signal).expect("a signal");
        assert_eq!(client.wait().0, 0);
    }
}

#[test]
fn no_listing_waits_for_a_check() {
    // The check of `checked_for_ever` would take this long.
    let lab = lab("check_time_max = \"5s\"\n");
    let mut client = McpClient::initialized(&lab, &[]);
    client.call(1, "echo", json!({ "text": "loaded" }));
    let (names, _) = client.list();
    let has = |names: &[String], name: &str| names.iter().any(|known| known == name);
    // Nobody has answered yet, so they are there.
    for name in ["checked_away", "checked_for_ever", "optional"] {
        assert!(has(&names, name), "{name}");
    }
    // What requires a variable that is not there needs no check to be known.
    assert!(!has(&names, "needy"));
    // A call waits for the answer.
    let away = client.call(2, "checked_away", json!({}));
    assert!(said(&away).contains("is not available"), "{away}");
    // Answers come one by one, and each is told.
    let mut names = names;
    while has(&names, "checked_away") || has(&names, "checked_for_ever") {
        client.notification("notifications/tools/list_changed");
        names = client.list().0;
    }
    assert!(has(&names, "optional"));
}

#[test]
fn each_era_has_its_own_methods() {
    let lab = lab("");
    let mut client = McpClient::initialized(&lab, &[]);
    let mut check = |method: &str, params: Value, code: Option<i64>| {
        client.ask("m", method, params);
        let answer = client.answer("m");
        assert_eq!(answer["error"]["code"].as_i64(), code, "{method}: {answer}");
    };
    for method in ["prompts/list", "resources/list", "resources/templates/list", "prompts/get"] {
        check(method, json!({ "name": "x" }), Some(-32601));
    }
    check("completion/complete", json!({}), Some(-32601));
    check("subscriptions/listen", json!({ "notifications": {} }), Some(-32601));
    check("logging/setLevel", json!({ "level": "warning" }), None);
    check("logging/setLevel", json!({ "level": "loud" }), Some(-32602));

    let mut client = McpClient::start(&lab, &[]);
    client.ask_modern(1, "tools/call", json!({ "name": "echo", "arguments": { "text": "a" } }));
    let answer = client.answer(1);
    let server = &answer["result"]["_meta"]["io.modelcontextprotocol/serverInfo"];
    assert_eq!(server["name"], "toolhost", "{answer}");
    client.ask_modern(2, "tools/list", json!({}));
    let answer = client.answer(2);
    let server = &answer["result"]["_meta"]["io.modelcontextprotocol/serverInfo"];
    assert_eq!(server["name"], "toolhost");
    for (id, method, params) in [
        (
            3,
            "initialize",
            json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "a", "version": "1" } }),
        ),
        (4, "ping", json!({})),
        (5, "logging/setLevel", json!({ "level": "warning" })),
        (6, "prompts/list", json!({})),
        (7, "resources/list", json!({})),
    ] {
        client.ask_modern(id, method, params);
        let answer = client.answer(id);
        assert_eq!(answer["error"]["code"], -32601, "{method}: {answer}");
    }
}

#[test]
fn a_subscription_that_is_refused_is_not_acknowledged() {
    let lab = lab("");
    let mut client = McpClient::start(&lab, &[]);
    let wanted = json!({ "notifications": { "toolsListChanged": true } });
    for id in 1..=16 {
        client.ask_modern(id, "subscriptions/listen", wanted.clone());
        let told = client.notification("notifications/subscriptions/acknowledged");
        assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], id);
    }
    client.ask_modern(17, "subscriptions/listen", wanted);
    assert_eq!(client.answer(17)["error"]["code"], -32600);
    assert!(client.heard.is_empty(), "{:#?}", client.heard);
}

#[test]
fn arguments_are_read_as_everywhere() {
    let lab = lab("");
    let mut client = McpClient::initialized(&lab, &[]);
    for (id, arguments, why) in [
        (1, r#"{"text":"a","\u0074ext":"b"}"#, "`text` stands twice in one object"),
        (2, r#"{"text":1e400}"#, "out of range"),
    ] {
        client.say(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo","arguments":{arguments}}}}}"#
        ));
        let answer = client.answer(id);
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
        let message = answer["error"]["message"].as_str().expect("a message");
        assert!(message.starts_with("`params` is no JSON for every reader: "), "{message}");
        assert!(message.contains(why), "{message}");
    }
    assert_eq!(client.call(3, "echo", json!({ "text": "a" }))["result"]["isError"], false);
}

/// Many who ask for the tools at once are given one listing, in turn, and the end does not wait.
#[test]
fn many_listings_at_once_are_made_once() {
    let tool = |number: usize| {
        json!({ "name": format!("t{number:02}"), "toolset": "made", "description": "", "parameters": {
            "generated": [
                ["{\"type\":\"object\",\"properties\":{", 1],
                ["\"p%\":{\"type\":\"string\"},", 700],
                ["\"last\":{}}}", 1],
            ],
        } })
    };
    let tools: Vec<Value> = (0..40).map(tool).collect();
    let lab = Lab::new().config(PATIENT).with("made.wasm", made(&json!({ "tools": tools })));
    let mut client = McpClient::initialized(&lab, &[]);
    let since = Instant::now();
    let (names, _) = client.list();
    let one = since.elapsed();
    // With `result_read`.
    assert_eq!(names.len(), 41);
    for id in 100..120 {
        client.ask(id, "tools/list", json!({}));
    }
    for id in 100..120 {
        let answer = client.answer(id);
        assert_eq!(answer["result"]["tools"].as_array().map(Vec::len), Some(41), "{id}");
    }
    for id in 200..260 {
        client.ask(id, "tools/list", json!({}));
    }
    let since = Instant::now();
    client.close();
    client.wait();
    // However slow the machine, it is no sixty listings.
    let most = Duration::from_secs(5) + 10 * one;
    assert!(since.elapsed() < most, "{:?} of {most:?}", since.elapsed());
}
