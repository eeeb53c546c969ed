//! The SDK's HTTP client in its sandbox: what a Rust plugin sends, and what it is told.

use expect_test::expect;
use serde_json::{Value, json};
use toolhost::Host;

use crate::support::server::{Peer, TestServer};
use crate::support::{Lab, answer, guest};

/// Answers by path.
async fn serve(mut peer: Peer) {
    while let Some(request) = peer.request().await {
        let (head, body) = request.split_once("\r\n\r\n").expect("a head");
        match head.split(' ').nth(1).expect("a path") {
            "/moved" => {
                peer.say("HTTP/1.1 302 \r\nlocation: /other\r\ncontent-length: 0\r\n\r\n").await;
            }
            "/large" => {
                peer.say("HTTP/1.1 200 \r\ncontent-length: 5242880\r\n\r\n").await;
                peer.say(vec![b'x'; 5 << 20]).await;
            }
            "/broken" => {
                peer.say("HTTP/1.1 200 \r\ncontent-length: 9\r\n\r\nx").await;
                return;
            }
            "/slow" => peer.head().await,
            "/length" => {
                let length = body.len().to_string();
                let sized = head.contains(&format!("content-length: {length}"));
                let body = if sized { length } else { "no length".to_owned() };
                let size = body.len();
                peer.say(format!("HTTP/1.1 201 \r\ncontent-length: {size}\r\n\r\n{body}")).await;
            }
            path => panic!("no such path: {path}"),
        }
    }
}

async fn sent(host: &Host, server: &TestServer, arguments: Value) -> String {
    let answer = answer(host, "send", arguments).await;
    answer.replace(&server.port.to_string(), "PORT")
}

#[tokio::test]
async fn what_is_sent_and_what_comes_back() {
    let server = TestServer::new(serve).await;
    let at = |path: &str| server.uri(&format!("http://127.0.0.1:PORT/{path}"));
    let config = format!("[plugins.sender]\nhttp = [\"{}\"]\n", at(""));
    let host = Lab::new().config(&config).granted("sender", guest("sender"));
    let host = host.host().await;
    let mut said = String::new();
    for arguments in [
        json!({ "url": at("length"), "body_bytes": 0 }),
        // More than one piece, of which the last is not full.
        json!({ "url": at("length"), "body_bytes": 99_999 }),
        json!({ "url": at("moved") }),
        json!({ "url": at("large") }),
        json!({ "url": at("large"), "body_bytes_max": 5 << 20 }),
        json!({ "url": at("broken") }),
        json!({ "url": at("slow"), "timeout_ms": 100 }),
        json!({ "url": at("length"), "header": ["host", "other.example"] }),
        json!({ "url": at("length"), "header": ["a b", "c"] }),
        json!({ "url": "/length" }),
        json!({ "url": "https://other.example/length", "body_bytes": 99_999 }),
    ] {
        said += &format!("{}\n", sent(&host, &server, arguments).await);
    }
    expect![[r#"
        {"result":"201 to nowhere, 1 bytes"}
        {"result":"201 to nowhere, 5 bytes"}
        {"result":"302 to /other, 0 bytes"}
        {"error":"[TOOL_ERROR] Tool execution failed: HttpError: the answer of 127.0.0.1:PORT is larger than the 4194304 bytes that this tool reads","code":"failed"}
        {"result":"200 to nowhere, 5242880 bytes"}
        {"error":"[TOOL_ERROR] Tool execution failed: HttpError: no answer of 127.0.0.1:PORT: the exchange failed, and the host does not say how","code":"failed"}
        {"error":"[TOOL_ERROR] Tool execution failed: HttpError: no answer of 127.0.0.1:PORT: it takes too long","code":"failed"}
        {"error":"[TOOL_ERROR] Tool execution failed: HttpError: the header `host` is set by the host alone","code":"failed"}
        {"error":"[TOOL_ERROR] Tool execution failed: HttpError: the header `a b` has a name or a value that cannot be sent","code":"failed"}
        {"error":"[TOOL_ERROR] Tool execution failed: HttpError: `/length` cannot be requested: it has no scheme; a URL is written https://HOST[:PORT][/PATH][?QUERY]","code":"failed"}
        {"error":"[TOOL_ERROR] POST https://other.example/length is not granted: run `toolhost grant sender --http https://other.example`","code":"failed"}
    "#]]
    .assert_eq(&said);
}
