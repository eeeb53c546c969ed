//! Requests as a server gets them, requests that nobody gets, and answers that are none.

use bytes::Bytes;
use expect_test::expect;
use http::header::{HOST, HeaderName, HeaderValue};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use toolhost_egress::Times;
use toolhost_policy::capability::address::Reach;

use super::OK;
use crate::support::server::{TestServer, at, client, get, shown, whole};

#[tokio::test]
async fn what_is_sent() {
    let server = TestServer::answering(OK).await;
    let client = client(&[]);
    for uri in [at(&server, "/a//../b?c=d&e"), at(&server, "?q"), at(&server, "")] {
        let mut request = get(&uri);
        let headers = request.headers_mut();
        headers.insert(HOST, HeaderValue::from_static("evil.test"));
        headers.append(HOST, HeaderValue::from_static("worse.test"));
        for (name, value) in [
            ("connection", "keep-alive, x-kept"),
            ("keep-alive", "timeout=9"),
            ("proxy-authorization", "Basic eA=="),
            ("proxy-authenticate", "Basic"),
            ("proxy-connection", "keep-alive"),
            ("te", "trailers"),
            ("trailer", "x-late"),
            ("transfer-encoding", "gzip, chunked"),
            ("upgrade", "websocket"),
            ("http2-settings", "AAMAAABkAAQAAP__"),
            ("expect", "100-continue"),
            ("x-kept", "yes"),
        ] {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let response = client.send(request, Reach::Private, Times::default()).await;
        assert_eq!(shown(response).await, "200 ok");
    }
    let request = http::Request::put(at(&server, "/")).body(whole("text")).expect("a request");
    client.send(request, Reach::Private, Times::default()).await.expect("a response");
    let request = http::Request::post(at(&server, "/")).body(whole("")).expect("a request");
    client.send(request, Reach::Private, Times::default()).await.expect("a response");
    let frames = futures_util::stream::iter([Ok(Frame::data(Bytes::from_static(b"text")))]);
    let body = StreamBody::new(frames).boxed_unsync();
    let request = http::Request::post(at(&server, "/")).body(body).expect("a request");
    client.send(request, Reach::Private, Times::default()).await.expect("a response");
    let requests = server.requests().concat().replace(&server.port.to_string(), "PORT");
    expect![[r#"
        GET /a//../b?c=d&e HTTP/1.1
        host: 127.0.0.1:PORT
        x-kept: yes

        GET /?q HTTP/1.1
        host: 127.0.0.1:PORT
        x-kept: yes

        GET / HTTP/1.1
        host: 127.0.0.1:PORT
        x-kept: yes

        PUT / HTTP/1.1
        host: 127.0.0.1:PORT
        content-length: 4

        textPOST / HTTP/1.1
        host: 127.0.0.1:PORT
        content-length: 0

        POST / HTTP/1.1
        host: 127.0.0.1:PORT
        transfer-encoding: chunked

        4
        text
        0

    "#]]
    .assert_eq(&requests.replace("\r\n", "\n"));
    assert!(HeaderValue::from_str("a\r\nx-evil: b").is_err());
    assert!(HeaderName::from_bytes(b"x-evil\r\n").is_err());
    assert!("/a\r\nx-evil: b".parse::<http::Uri>().is_err());
}

#[tokio::test]
async fn requests_that_cannot_be_sent() {
    let client = client(&[]);
    let mut found = String::new();
    for uri in [
        "/only/a/path",
        "ftp://a.test/",
        "http://user@a.test/",
        "http://user:word@a.test/",
        "http://a.test:0/",
        "http://a.test:/",
        "http://a.test:99999/",
        "http://127.1/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://0x7f000001/",
        "http://0177.0.0.1/",
        "http://[fe80::1%25eth0]/",
        "http://a.test./",
        "http://a..test/",
        "http://a%2etest/",
        "http://:80/",
    ] {
        match uri.parse::<http::Uri>() {
            Err(error) => found += &format!("{uri}: no URI: {error}\n"),
            Ok(_) => {
                let response = client.send(get(uri), Reach::Named, Times::default()).await;
                found += &format!("{uri}: {}\n", shown(response).await);
            }
        }
    }
    for method in ["CONNECT", "TRACE", "connect"] {
        let request = http::Request::builder().method(method).uri("http://127.0.0.1/");
        let request = request.body(whole("")).expect("a request");
        let response = client.send(request, Reach::Named, Times::default()).await;
        found += &format!("{method}: {}\n", shown(response).await);
    }
    for lengths in [&["3"][..], &["4", "4"], &["+4"], &["4, 4"], &["999999999999"]] {
        let mut request = http::Request::post("http://127.0.0.1/");
        for length in lengths {
            request = request.header("content-length", *length);
        }
        let response = client
            .send(request.body(whole("text")).expect("a request"), Reach::Named, Times::default())
            .await;
        found += &format!("{lengths:?}: {}\n", shown(response).await);
    }
    expect![[r#"
        /only/a/path: error: the request cannot be sent: its URI does not begin with `http://` or `https://`
        ftp://a.test/: error: the request cannot be sent: its URI does not begin with `http://` or `https://`
        http://user@a.test/: error: the request cannot be sent: its URI has a user name or password before the host
        http://user:word@a.test/: error: the request cannot be sent: its URI has a user name or password before the host
        http://a.test:0/: error: the request cannot be sent: `a.test:0` is no host; write a name such as api.example.com, an address such as 192.0.2.1 or [2001:db8::1], and a port such as :8080 behind it
        http://a.test:/: error: the request cannot be sent: `a.test:` is no host; write a name such as api.example.com, an address such as 192.0.2.1 or [2001:db8::1], and a port such as :8080 behind it
        http://a.test:99999/: error: the request cannot be sent: `a.test:99999` is no host; write a name such as api.example.com, an address such as 192.0.2.1 or [2001:db8::1], and a port such as :8080 behind it
        http://127.1/: error: the request cannot be sent: `127.1` is no host; write a name such as api.example.com, an address such as 192.0.2.1 or [2001:db8::1], and a port such as :8080 behind it
        http://2130706433/: error: the request cannot be sent: `2130706433` is no host; write a name such as api.example.com, an address such as 192.0.2.1 or [2001:db8::1], and a port such as :8080 behind it
        http://0x7f.1/: error: the request cannot be sent: `0x7f.1` is no host; write a name such as api.example.com, an address such as 192.0.2.1 or [2001:db8::1], and a port such as :8080 behind it
        http://0x7f000001/: error: the request cannot be sent: `0x7f000001` is no host; write a name such as api.example.com, an address such as 192.0.2.1 or [2001:db8::1], and a port such as :8080 behind it
        http://0177.0.0.1/: error: the request cannot be sent: `0177.0.0.1` is no host; write a name such as api.example.com, an address such as 192.0.2.1 or [2001:db8::1], and a port such as :8080 behind it
        http://[fe80::1%25eth0]/: error: the request cannot be sent: `[fe80::1%25eth0]` is no host; write a name such as api.example.com, an address such as 192.0.2.1 or [2001:db8::1], and a port such as :8080 behind it
        http://a.test./: error: the request cannot be sent: `a.test.` is no host; write a name such as api.example.com, an address such as 192.0.2.1 or [2001:db8::1], and a port such as :8080 behind it
        http://a..test/: error: the request cannot be sent: `a..test` is no host; write a name such as api.example.com, an address such as 192.0.2.1 or [2001:db8::1], and a port such as :8080 behind it
        http://a%2etest/: no URI: invalid authority
        http://:80/: error: the request cannot be sent: `:80` is no host; write a name such as api.example.com, an address such as 192.0.2.1 or [2001:db8::1], and a port such as :8080 behind it
        CONNECT: error: the request cannot be sent: the method CONNECT is not allowed
        TRACE: error: the request cannot be sent: the method TRACE is not allowed
        connect: error: the request cannot be sent: the method CONNECT is not allowed
        ["3"]: error: the request cannot be sent: its `content-length` is 3, and its body has 4 bytes
        ["4", "4"]: error: the request cannot be sent: its `content-length` is not one whole number
        ["+4"]: error: the request cannot be sent: its `content-length` is not one whole number
        ["4, 4"]: error: the request cannot be sent: its `content-length` is not one whole number
        ["999999999999"]: error: the request cannot be sent: its `content-length` is 999999999999, and its body has 4 bytes
    "#]].assert_eq(&found);
}

#[tokio::test]
async fn responses_that_are_none() {
    let mut found = String::new();
    for answer in [
        "",
        "HTTP/1.1 200 OK\r\ncontent-le",
        "SSH-2.0-OpenSSH_9.9\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ncontent-length: -2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nno number",
        "HTTP/1.1 200 OK\r\na b: c\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\nuntil the end",
    ] {
        let server = TestServer::new(move |mut peer| async move {
            peer.request().await;
            peer.say(answer).await;
        })
        .await;
        let response =
            client(&[]).send(get(&at(&server, "/")), Reach::Private, Times::default()).await;
        found += &format!("{answer:?}: {}\n", shown(response).await);
    }
    expect![[r#"
        "": error: the server gave no proper response: it closed the connection too early
        "HTTP/1.1 200 OK\r\ncontent-le": error: the server gave no proper response: it closed the connection too early
        "SSH-2.0-OpenSSH_9.9\r\n": error: the server gave no proper response: what it sends is not HTTP/1.1
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n": error: the server gave no proper response: it switches to another protocol, which nobody asked for
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok": error: the server gave no proper response: what it sends is not HTTP/1.1
        "HTTP/1.1 200 OK\r\ncontent-length: -2\r\n\r\nok": error: the server gave no proper response: what it sends is not HTTP/1.1
        "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok": 200, then error: the server gave no proper response: it closed the connection too early
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nno number": 200, then error: the server gave no proper response: Invalid chunk size line: missing size digit
        "HTTP/1.1 200 OK\r\na b: c\r\n\r\n": error: the server gave no proper response: what it sends is not HTTP/1.1
        "HTTP/1.1 200 OK\r\n\r\nuntil the end": 200 until the end
    "#]].assert_eq(&found);
}
