//! Bounds on size and time: obeyed, and violated; and what is left when a request is dropped.

use std::time::Duration;

use bytes::Bytes;
use expect_test::expect;
use futures_util::stream;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use toolhost_egress::{Body, SendError, Times};
use toolhost_policy::capability::address::Reach;

use crate::support::server::{
    FixedNames, TestServer, at, client, egress, endless, get, shown, whole,
};

/// Short enough to wait for, of something that never comes.
const SHORT: Duration = Duration::from_millis(200);
/// Longer than a machine that does other things as well needs.
const LONG: Duration = Duration::from_secs(30);

/// A body in pieces, of unknown length.
fn pieces(pieces: impl IntoIterator<Item = Result<&'static str, SendError>>) -> Body {
    let frames: Vec<_> = pieces
        .into_iter()
        .map(|piece| piece.map(|piece| Frame::data(Bytes::from_static(piece.as_bytes()))))
        .collect();
    StreamBody::new(stream::iter(frames)).boxed_unsync()
}

#[tokio::test]
async fn http_response_bytes_max() {
    let limits = [("http_response_bytes_max", "10")];
    let mut found = String::new();
    for answer in [
        "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n0123456789",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n01234\r\n5\r\n56789\r\n0\r\n\r\n",
        // Refused before a byte of it has come.
        "HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n",
        // Refused although it never ends.
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n01234\r\n6\r\n56789a\r\n",
        "HTTP/1.1 200 OK\r\n\r\n0123456789a",
    ] {
        let server = TestServer::new(move |mut peer| async move {
            peer.request().await;
            peer.say(answer).await;
            peer.closed().await;
        })
        .await;
        let client = client(&limits);
        let response = client.send(get(&at(&server, "/")), Reach::Private, Times::default()).await;
        found += &format!("{}\n", shown(response).await);
        drop(client);
        // Nothing more is read.
        server.closed().await;
    }
    expect![[r#"
        200 0123456789
        200 0123456789
        error: the response is larger than `http_response_bytes_max` of 10 bytes
        200, then error: the response is larger than `http_response_bytes_max` of 10 bytes
        200, then error: the response is larger than `http_response_bytes_max` of 10 bytes
    "#]]
    .assert_eq(&found);

    // The length of what HEAD would have given is no length of what it gives.
    let server = TestServer::answering("HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n").await;
    let request = http::Request::head(at(&server, "/")).body(whole("")).expect("a request");
    let response = client(&limits).send(request, Reach::Private, Times::default()).await;
    assert_eq!(shown(response).await, "200 ");
}

#[tokio::test]
async fn http_request_bytes_max() {
    let server = TestServer::answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
    let client = client(&[("http_request_bytes_max", "10")]);
    let mut found = String::new();
    for (length, body) in [
        (None, whole("0123456789")),
        (None, pieces([Ok("01234"), Ok("56789")])),
        (Some("10"), pieces([Ok("01234"), Ok("56789")])),
        (None, whole("0123456789a")),
        (None, pieces([Ok("01234"), Ok("56789a")])),
        (Some("11"), pieces([])),
        (Some("6"), pieces([Ok("01234")])),
        (Some("4"), pieces([Ok("01234")])),
        (None, pieces([Ok("01"), Err(SendError::RequestBody { reason: "no more".to_owned() })])),
    ] {
        let mut request = http::Request::post(at(&server, "/"));
        if let Some(length) = length {
            request = request.header("content-length", length);
        }
        let request = request.body(body).expect("a request");
        let response = client.send(request, Reach::Private, Times::default()).await;
        found += &format!("{}\n", shown(response).await);
    }
    expect![[r#"
        200 ok
        200 ok
        200 ok
        error: the request is larger than `http_request_bytes_max` of 10 bytes
        error: the request is larger than `http_request_bytes_max` of 10 bytes
        error: the request is larger than `http_request_bytes_max` of 10 bytes
        error: the request cannot be sent: its body is shorter than its `content-length` says
        error: the request cannot be sent: its body is longer than its `content-length` says
        error: the request's body ended early: no more
    "#]]
    .assert_eq(&found);
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn http_head_bytes_max() {
    let limits = [("http_head_bytes_max", "8 KiB")];
    let field = |bytes: usize| format!("HTTP/1.1 200 OK\r\na: {}\r\n", "b".repeat(bytes));
    let mut found = String::new();
    for (what, head, ends) in [
        ("nearly", field(8_000) + "content-length: 2\r\n\r\nok", true),
        ("over", field(8_200) + "content-length: 2\r\n\r\nok", true),
        ("endless", field(1_000), false),
        ("fields", format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(101)), true),
    ] {
        let server = TestServer::new(move |mut peer| {
            let head = head.clone();
            async move {
                peer.request().await;
                peer.say(&head).await;
                if !ends {
                    // As much as the client takes.
                    for _ in 0..10_000 {
                        peer.say(&head["HTTP/1.1 200 OK\r\n".len()..]).await;
                    }
                }
                peer.closed().await;
            }
        })
        .await;
        let client = client(&limits);
        let response = client.send(get(&at(&server, "/")), Reach::Private, Times::default()).await;
        found += &format!("{what}: {}\n", shown(response).await);
        drop(client);
        server.closed().await;
    }
    let mut request = get("http://127.0.0.1/");
    request.headers_mut().insert("a", "b".repeat(8_192).parse().expect("a value"));
    let response = client(&limits).send(request, Reach::Private, Times::default()).await;
    found += &format!("request: {}\n", shown(response).await);
    expect![[r#"
        nearly: 200 ok
        over: error: the head of the response is larger than `http_head_bytes_max` of 8192 bytes, or has more than 100 fields
        endless: error: the head of the response is larger than `http_head_bytes_max` of 8192 bytes, or has more than 100 fields
        fields: error: the head of the response is larger than `http_head_bytes_max` of 8192 bytes, or has more than 100 fields
        request: error: the request cannot be sent: its URI and fields exceed `http_head_bytes_max` of 8192 bytes
    "#]].assert_eq(&found);
}

#[tokio::test]
async fn http_connect_time_max() {
    // It accepts, and never says a word.
    let silent = TestServer::new(|peer| peer.closed()).await;
    let names = FixedNames::new(&["silent.test: 127.0.0.1"]);
    let limits = [("http_connect_time_max", "200ms")];
    let short = Times { connect: Some(SHORT), ..Times::default() };
    let long = Times { connect: Some(LONG), ..Times::default() };
    let mut found = String::new();
    for (limits, times, uri) in [
        (&limits[..], Times::default(), "http://never.test/"),
        (&limits, long, "http://never.test/"),
        (&[], short, "http://never.test/"),
        (&[], short, "https://silent.test:PORT/"),
    ] {
        let client = egress(&names, limits).client();
        let response = client.send(get(&silent.uri(uri)), Reach::Private, times).await;
        found += &format!("{}\n", shown(response).await);
    }
    silent.closed().await;
    expect![[r#"
        error: `never.test` was not connected to within 200ms
        error: `never.test` was not connected to within 200ms
        error: `never.test` was not connected to within 200ms
        error: `silent.test` was not connected to within 200ms
    "#]]
    .assert_eq(&found);
}

#[tokio::test]
async fn first_byte_and_between_bytes() {
    let server = TestServer::new(|mut peer| async move {
        let request = peer.request().await.expect("a request");
        if !request.starts_with("GET /never ") {
            peer.say("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n").await;
            peer.say("ha").await;
        }
        if request.starts_with("GET /whole ") {
            peer.say("lf").await;
        }
        peer.closed().await;
    })
    .await;
    let client = client(&[]);
    let times = |first_byte, between_bytes| Times {
        first_byte: Some(first_byte),
        between_bytes: Some(between_bytes),
        connect: None,
    };
    let mut found = String::new();
    for (path, times) in [
        ("/never", times(SHORT, LONG)),
        ("/half", times(LONG, SHORT)),
        ("/whole", times(LONG, LONG)),
    ] {
        let response = client.send(get(&at(&server, path)), Reach::Private, times).await;
        found += &format!("{path} {}\n", shown(response).await);
    }
    expect![[r#"
        /never error: no response came within 200ms
        /half 200, then error: the response paused for longer than 200ms
        /whole 200 half
    "#]]
    .assert_eq(&found);
    // What was late is closed; what was whole is kept.
    server.closed().await;
    server.closed().await;
    drop(client);
    server.closed().await;
}

#[tokio::test]
async fn dropping_closes() {
    let server = TestServer::new(|mut peer| async move {
        if let Some(request) = peer.request().await
            && request.starts_with("GET /half ")
        {
            peer.say("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nha").await;
        }
        peer.closed().await;
    })
    .await;
    let client = client(&[]);
    // While it waits for the head.
    let sending = client.send(get(&at(&server, "/never")), Reach::Private, Times::default());
    tokio::select! {
        _ = sending => panic!("no response was sent"),
        () = server.requested() => {}
    }
    server.closed().await;
    // In the middle of the body.
    let response = client.send(get(&at(&server, "/half")), Reach::Private, Times::default()).await;
    let mut body = response.expect("a response").into_body();
    let frame = body.frame().await.expect("a frame").expect("data");
    assert_eq!(frame.data_ref().map(|data| &data[..]), Some(&b"ha"[..]));
    drop(body);
    server.closed().await;
    // While the request's own body is on its way, and never ends.
    let request = http::Request::post(at(&server, "/")).body(endless()).expect("a request");
    let sending = client.send(request, Reach::Private, Times::default());
    assert!(tokio::time::timeout(SHORT, sending).await.is_err());
    server.closed().await;
    assert_eq!(server.connections(), 3);
}

#[tokio::test]
async fn kept_connections_end_with_their_time() {
    let server = TestServer::new(|mut peer| async move {
        peer.request().await;
        peer.say("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
        peer.closed().await;
    })
    .await;
    let client = client(&[]);
    let response = client.send(get(&at(&server, "/")), Reach::Private, Times::default()).await;
    assert_eq!(shown(response).await, "200 ok");
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(31)).await;
    tokio::time::resume();
    server.closed().await;
}

#[tokio::test]
async fn lookups_that_nobody_waits_for_count() {
    let names = FixedNames::new(&[]);
    let egress = egress(&names, &[]);
    let (greedy, other) = (egress.client(), egress.client());
    let soon = Times { connect: Some(Duration::from_millis(20)), ..Times::default() };
    for _ in 0..12 {
        let response = greedy.send(get("http://never.test/"), Reach::Public, soon).await;
        assert!(matches!(response, Err(SendError::ConnectTimeout { .. })));
    }
    assert_eq!(names.asked(), 8);
    let response = other.send(get("http://unknown.test/"), Reach::Public, Times::default()).await;
    assert!(matches!(response, Err(SendError::NameNotFound { .. })));
}
