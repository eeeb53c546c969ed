//! Attacks on a secret that the guest may use and never sees.

use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use toolhost::Host;
use toolhost_core::tool::{Call, ProgressSink};

use super::{KEY, attack, error, host, lab};
use crate::support::server::{FixedNames, Peer, TestServer, tls};
use crate::support::{Lab, made};

/// A server that says what it was sent: in the body, in a header, in pieces, encoded.
async fn echo(mut peer: Peer) {
    while let Some(request) = peer.request().await {
        let field = |name: &str| {
            let line = request.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
            line.unwrap_or_default().to_owned()
        };
        let (key, path) =
            (field("x-key"), request.split(' ').nth(1).unwrap_or_default().to_owned());
        let chunked = |pieces: Vec<String>| {
            let pieces = pieces.iter().map(|piece| format!("{:x}\r\n{piece}\r\n", piece.len()));
            format!(
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{}0\r\n\r\n",
                pieces.collect::<String>()
            )
        };
        let whole = |body: String| {
            format!(
                "HTTP/1.1 200 OK\r\nx-echo: {key}\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )
        };
        let answer = match path.as_str() {
            "/pieces" => chunked(key.chars().map(String::from).collect()),
            "/base64" => whole(BASE64.encode(format!("user:{key}"))),
            "/json" => whole(json!({ "key": key }).to_string()),
            "/hex" => whole(key.bytes().map(|byte| format!("{byte:02x}")).collect()),
            "/packed" => format!(
                "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n{key}",
                key.len()
            ),
            "/packed-on-the-way" | "/packed-in-two-fields" => {
                let between = match path.as_str() {
                    "/packed-on-the-way" => ", ",
                    _ => "\r\ntransfer-encoding: ",
                };
                format!(
                    "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip{between}chunked\r\n\r\n\
                     {:x}\r\n{key}\r\n0\r\n\r\n",
                    key.len()
                )
            }
            "/part" => whole(key.clone()).replace("200 OK", "206 Partial Content"),
            "/percent" => whole(key.bytes().map(|byte| format!("%{byte:02x}")).collect()),
            "/unicode" => whole(key.bytes().map(|byte| format!("\\u{byte:04X}")).collect()),
            "/colons" => whole(key.bytes().map(|byte| format!("{byte:02x}:")).collect()),
            "/wrapped" => {
                let text = BASE64.encode(format!("user:{key}"));
                let lines = text.as_bytes().chunks(10).map(String::from_utf8_lossy);
                whole(lines.collect::<Vec<_>>().join("\r\n"))
            }
            // Names have no quotes and slashes, and come in lower case.
            "/name" => {
                let name: String = key.bytes().map(|byte| format!("%{byte:02X}")).collect();
                format!("HTTP/1.1 200 OK\r\nx-{name}: 1\r\ncontent-length: 0\r\n\r\n")
            }
            "/into-the-next-name" => {
                let hex: String = key.bytes().map(|byte| format!("{byte:02x}")).collect();
                let (first, second) = hex.split_at(hex.len() / 2);
                format!(
                    "HTTP/1.1 200 OK\r\nx-part: {first}\r\n{second}: 1\r\ncontent-length: 0\r\n\r\n"
                )
            }
            "/over-three" => {
                let hex: String = key.bytes().map(|byte| format!("{byte:02x}")).collect();
                let (first, rest) = hex.split_at(hex.len() / 3);
                let (second, third) = rest.split_at(rest.len() / 2);
                format!(
                    "HTTP/1.1 200 OK\r\nx-part: {first}\r\n{second}: {third}\r\ncontent-length: 0\r\n\r\n"
                )
            }
            "/split" => {
                let (first, second) = key.split_at(key.len() / 2);
                format!(
                    "HTTP/1.1 200 OK\r\nx-part: {first}\r\nx-part: {second}\r\n\
                     content-length: 0\r\n\r\n"
                )
            }
            "/reversed" => whole(key.chars().rev().collect()),
            _ => whole(format!("you sent {key}; {request}")),
        };
        peer.say(answer).await;
    }
}

struct World {
    _lab: Lab,
    host: Host,
    server: TestServer,
    other: TestServer,
}

async fn world() -> World {
    let server = TestServer::on("127.0.0.1:0", Some(tls("api.test", 2100)), echo).await;
    let other = TestServer::on("127.0.0.1:0", Some(tls("other.test", 2100)), echo).await;
    let lab = lab("").config(&format!(
        "[plugins.hostile]\n\
         http = [\"https://*:* private\", \"http://*:* private\", \"http://127.0.0.1:*\"]\n\
         secrets = [\"KEY@api.test:{}:header=x-key\", \"KEY@api.test:*:header=x-key\"]\nkv = true\n",
        server.port
    ));
    let names = FixedNames::new(&["api.test: 127.0.0.1", "other.test: 127.0.0.1"]);
    let host = host(&lab, &names).await;
    World { _lab: lab, host, server, other }
}

impl World {
    fn get(&self, path: &str) -> Value {
        json!({ "request": {
            "authority": format!("api.test:{}", self.server.port), "path": path,
            "headers": [["x-key", "whatever"], ["range", "bytes=0-3"], ["accept-encoding", "gzip"]],
        } })
    }
}

/// No form of the secret that is caught may be in a text.
fn assert_clean(text: &str) {
    let json = serde_json::to_string(KEY).expect("JSON");
    let inner = BASE64.encode(KEY);
    for form in [KEY, json.trim_matches('"'), &inner[..12]] {
        assert!(!text.contains(form), "`{form}` is in {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_echo_is_redacted_in_every_form() {
    let world = world().await;
    let paths = [
        "/", "/pieces", "/base64", "/json", "/hex", "/percent", "/unicode", "/colons", "/wrapped",
        "/split",
    ];
    let steps: Vec<Value> = paths.iter().map(|path| world.get(path)).collect();
    for (path, result) in paths.iter().zip(attack(&world.host, json!(steps)).await) {
        let text = result.to_string();
        assert_eq!(result["status"], 200, "{path}: {text}");
        assert!(text.contains("[REDACTED:KEY]"), "{path}: {text}");
        assert_clean(&text);
        assert!(!text.contains(&KEY[..8]), "{path}: {text}");
    }
    // The server did get it, whole, in its slot, and nothing that would hide an echo.
    for request in world.server.requests() {
        assert!(request.contains(&format!("\r\nx-key: {KEY}\r\n")), "{request}");
        assert!(!request.contains("range:") && !request.contains("gzip"), "{request}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_of_a_header_is_redacted() {
    let world = world().await;
    let result = attack(&world.host, json!([world.get("/name")])).await.remove(0);
    let text = result.to_string();
    assert_eq!(result["status"], 200, "{text}");
    assert!(text.contains("\"redacted\"") && !text.contains("%73%33"), "{text}");
    // Nor the second half of one that begins in the field before.
    let result = attack(&world.host, json!([world.get("/into-the-next-name")])).await.remove(0);
    let (text, half) = (result.to_string(), &KEY[KEY.len() / 2..]);
    let half: String = half.bytes().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(result["status"], 200, "{text}");
    assert!(text.contains("\"redacted\"") && !text.contains(&half), "{text}");
    // Nor a third in the value behind that name.
    let result = attack(&world.host, json!([world.get("/over-three")])).await.remove(0);
    let text = result.to_string();
    let hex: String = KEY.bytes().map(|byte| format!("{byte:02x}")).collect();
    let (first, last) = (&hex[..hex.len() / 3], &hex[hex.len() * 2 / 3 + 1..]);
    assert_eq!(result["status"], 200, "{text}");
    assert!(!text.contains(first) && !text.contains(last), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_packed_answer_is_refused() {
    let world = world().await;
    let paths = ["/packed", "/packed-on-the-way", "/packed-in-two-fields", "/part", "/pieces"];
    let steps: Vec<Value> = paths.iter().map(|path| world.get(path)).collect();
    let results = attack(&world.host, json!(steps)).await;
    assert_eq!(error(&results[0]), "ErrorCode::HttpResponseContentCoding(None)");
    assert_eq!(error(&results[1]), "ErrorCode::HttpResponseTransferCoding(None)");
    assert_eq!(error(&results[2]), "ErrorCode::HttpResponseTransferCoding(None)");
    assert!(error(&results[3]).contains("with a part (206), which was not asked for"));
    assert_eq!(results[4]["status"], 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_transforms_is_not_caught() {
    let world = world().await;
    let results = attack(&world.host, json!([world.get("/reversed")])).await;
    let reversed: String = KEY.chars().rev().collect();
    assert_eq!(results[0]["body"], reversed.as_str());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_goes_to_its_host_only() {
    let world = world().await;
    let placeholder = "{{secret:KEY}}";
    let to = |scheme: &str, authority: String, path: &str, header: &str| {
        json!({ "request": {
            "scheme": scheme, "authority": authority, "path": path, "headers": [["x-key", header]],
        } })
    };
    let other = format!("other.test:{}", world.other.port);
    let api = format!("api.test:{}", world.server.port);
    let results = attack(
        &world.host,
        json!([
            { "secret": "KEY" },
            { "secret": "OTHER" },
            to("https", other.clone(), "/", "x"),
            to("https", other.clone(), "/", placeholder),
            to("https", other.clone(), "/?k=%7B%7Bsecret%3AKEY%7D%7D", "x"),
            to("http", api.clone(), "/", "x"),
            to("https", api.clone(), &format!("/?k={placeholder}"), "x"),
            to("https", api.clone(), "/", &format!("Bearer {placeholder}")),
        ]),
    )
    .await;
    assert_eq!(results[0], json!({ "present": true, "placeholder": placeholder }));
    assert_eq!(results[1], json!({ "present": false, "placeholder": null }));
    assert_eq!(results[2]["status"], 200);
    for number in [3, 4, 5, 6] {
        error(&results[number]);
    }
    assert_eq!(results[7]["status"], 200);
    for request in world.other.requests() {
        assert_clean(&request);
    }
    let last = world.server.requests().pop().expect("a request");
    assert!(last.contains(&format!("x-key: Bearer {KEY}\r\n")), "{last}");
}

#[tokio::test(flavor = "multi_thread")]
async fn results_errors_and_logs_are_scanned() {
    // As if a value had come by another way: the guest knows it from its own bytes.
    let world = world().await;
    let encoded = BASE64.encode(KEY);
    let heard = Arc::new(Mutex::new(String::new()));
    let hears = Arc::clone(&heard);
    for steps in [
        json!([{ "fail": KEY }]),
        json!([{ "fail": format!("Basic {encoded}") }]),
        json!([{ "log": KEY }, { "fail": "" }]),
        json!([{ "kv_set": ["k", KEY] }, { "kv_get": "k" }]),
        json!([{ "env": KEY }, { "half": false }, world.get("/")]),
        json!([world.get("/"), "crash"]),
        json!([{ "std": KEY }, "crash"]),
        json!([{ "secret": KEY }, { "secret": "OTHER" }, { "fail": "no" }]),
        json!([
            { "request": { "authority": "none.test", "path": "/s3cr3t-value%2F%2B%3D%221" } },
            { "fail": "no" },
        ]),
    ] {
        let hears = Arc::clone(&hears);
        let call = Call {
            progress: Some(ProgressSink::new(move |progress| {
                hears.lock().expect("alive").push_str(&format!("{progress:?}"));
            })),
            ..Call::new("attack", json!({ "steps": steps }).to_string())
        };
        let outcome = world.host.call(call).await;
        assert_clean(&outcome.to_json_text());
        assert_clean(&format!("{outcome:?}"));
    }
    let heard = heard.lock().expect("alive").clone();
    assert!(heard.contains("[REDACTED:KEY]"), "{heard}");
    assert_clean(&heard);
}

/// As if a plugin had worked the value out, and writes it as the bytes it is made of.
#[tokio::test(flavor = "multi_thread")]
async fn a_value_in_numbers_of_a_result_is_redacted() {
    let numbers = |write: &dyn Fn(u8) -> Value| KEY.bytes().map(write).collect::<Vec<_>>();
    let indexed: serde_json::Map<String, Value> =
        KEY.bytes().enumerate().map(|(index, byte)| (index.to_string(), json!(byte))).collect();
    let backwards: serde_json::Map<String, Value> = indexed.clone().into_iter().rev().collect();
    let encoded = BASE64.encode(KEY).bytes().map(|byte| json!(byte)).collect::<Vec<_>>();
    let within = [numbers(&|byte| json!(byte)), vec![json!(7)]].concat();
    let ways = [
        json!(numbers(&|byte| json!(byte))),
        json!({ "deep": [[1, 2, 3], numbers(&|byte| json!(f64::from(byte)))] }),
        json!(indexed),
        json!({ "deep": backwards }),
        json!(encoded),
        json!(["x", [7, "x", within]]),
    ];
    let harmless = json!({ "n": (0..200).collect::<Vec<u8>>(), "0": 1, "1": 2.5 });
    let tool = |name: String, answer: Value| json!({ "name": name, "answer": answer });
    let mut tools = Vec::new();
    for (place, way) in ways.iter().chain([&harmless]).enumerate() {
        tools.push(tool(format!("json_{place}"), json!({ "json": way })));
        tools.push(tool(format!("structured_{place}"), json!({ "structured": way.to_string() })));
    }
    let need = json!({
        "kind": "secrets", "reason": "to use it",
        "value": { "name": "KEY", "hosts": ["localhost:1"], "header": "x-key" },
    });
    let lab = Lab::new()
        .granted("made", made(&json!({ "tools": tools, "needs": [need] })))
        .config("[plugins.made]\nsecrets = [\"KEY@localhost:1:header=x-key\"]\n");
    let host = host(&lab, &FixedNames::new(&[])).await;
    for place in 0..=ways.len() {
        for kind in ["json", "structured"] {
            let name = format!("{kind}_{place}");
            let text = host.call(Call::new(&name, "{}")).await.to_json_text();
            assert!(!text.contains("error"), "{name}: {text}");
            assert_eq!(text.contains("[REDACTED:KEY]"), place < ways.len(), "{name}: {text}");
            assert_eq!(text.contains("115"), place == ways.len(), "{name}: {text}");
        }
    }
}

/// The limit that the README states: of one value in two results nobody sees more than a half.
#[tokio::test(flavor = "multi_thread")]
async fn halves_in_two_results_are_not_caught() {
    let world = world().await;
    let half = KEY.len() / 2;
    let mut collected = String::new();
    for part in [&KEY[..half], &KEY[half..]] {
        let outcome = world
            .host
            .call(Call::new("attack", json!({ "steps": [{ "fail": part }] }).to_string()))
            .await;
        collected += &outcome.result.expect_err("it fails").message.replace("[TOOL_ERROR] ", "");
    }
    assert_eq!(collected, KEY);
}

/// Of a value that stands where a text is cut, nothing is left.
#[tokio::test(flavor = "multi_thread")]
async fn a_value_is_hidden_before_a_text_is_cut() {
    let lab = lab("secrets = [\"KEY@localhost:1:header=x-key\"]");
    let host = host(&lab, &FixedNames::new(&[])).await;
    let mut cases = Vec::new();
    // 4,096 bytes of an error are kept, of a refusal's URL 200 characters; both with an end.
    for before in 4_072..4_096 {
        cases.push(json!([{ "fail": format!("{}{}{KEY}", "€".repeat(before / 3), "x".repeat(before % 3)) }]));
    }
    for before in (60..200).step_by(6) {
        let path = format!("/{}s3cr3t-value%2F%2B%3D%221", "a".repeat(before));
        cases.push(
            json!([{ "request": { "authority": "none.test", "path": path } }, { "fail": "no" }]),
        );
    }
    for steps in cases {
        let call = Call::new("attack", json!({ "steps": steps }).to_string());
        let outcome = host.call(call).await;
        let text = format!("{} {outcome:?}", outcome.to_json_text());
        assert!(!text.contains(&KEY[..6]), "{text}");
    }
}

#[test]
fn the_log_is_scanned() {
    let lab = lab("secrets = [\"KEY@localhost:header=x-key\"]");
    let set = lab.run_with(&["secret", "set", "KEY"], KEY);
    assert!(set.starts_with("exit 0"), "{set}");
    let steps =
        json!({ "steps": [{ "log": KEY }, { "secret": KEY }, { "fail": KEY }] }).to_string();
    let output = lab
        .command(env!("CARGO_BIN_EXE_toolhost"))
        .args(["call", "attack", &steps, "-vv"])
        .output()
        .expect("the program");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("hostile: [REDACTED:KEY]"), "{said}");
    assert_clean(&said);
}
