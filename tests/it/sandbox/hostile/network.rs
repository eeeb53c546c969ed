//! Attacks by the network: every form of an address, redirects, names that change their answers,
//! bodies without end, and requests that mean two things.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use serde_json::{Value, json};
use tokio::sync::Barrier;

use super::{attack, error, host, lab};
use crate::support::server::{FixedNames, TestServer, at, tls};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

fn request(scheme: &str, authority: &str, path: &str) -> Value {
    json!({ "request": { "scheme": scheme, "authority": authority, "path": path } })
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_grant_nothing_is_sent() {
    let lab = lab("");
    let names = FixedNames::new(&[]);
    let host = host(&lab, &names).await;
    let results = attack(&host, json!([request("https", "api.test", "/v1?q=secret")])).await;
    assert_eq!(
        error(&results[0]),
        "GET https://api.test/v1 is not granted: run `toolhost grant hostile --http https://api.test`"
    );
    assert_eq!(names.asked(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_form_of_an_address_leads_inside() {
    let server = TestServer::answering(OK).await;
    // Every host may be asked, as far as its address is public.
    let lab = lab("http = [\"https://*:*\", \"http://*:*\"]");
    let host = host(&lab, &FixedNames::new(&[])).await;
    let hosts = [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "017700000001",
        "0.0.0.0",
        "0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "[fe80::1]",
        "[fd00:ec2::254]",
        "[fc00::1]",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.0.1",
        "100.64.0.1",
        "169.254.169.254",
        "100.100.100.200",
        "224.0.0.1",
        "255.255.255.255",
        "１２７.0.0.1",
        "127。0。0。1",
        "localhost",
        "LOCALHOST",
        "a.localhost",
    ];
    let steps: Vec<Value> =
        hosts.iter().map(|host| request("http", &format!("{host}:{}", server.port), "/")).collect();
    let results = attack(&host, json!(steps)).await;
    for (host, result) in hosts.iter().zip(&results) {
        assert!(!error(result).is_empty(), "{host}: {result}");
    }
    assert_eq!((server.connections(), server.requests().len()), (0, 0));
    assert!(
        error(&results[0]).contains("run `toolhost grant hostile --http http://127.0.0.1:"),
        "{}",
        results[0]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_mean_two_things() {
    let inside = TestServer::answering(OK).await;
    let lab = lab("http = [\"http://good.test:* private\"]");
    let names = FixedNames::new(&["good.test: 127.0.0.1", "evil.test: 127.0.0.1"]);
    let good = TestServer::answering(OK).await;
    let host = host(&lab, &names).await;
    let (evil, port) = (format!("evil.test:{}", inside.port), good.port);
    let ours = format!("good.test:{port}");
    let bad = [
        // An absolute form, whose host is another's.
        (ours.clone(), format!("http://{evil}/")),
        (ours.clone(), format!("//{evil}/")),
        (format!("{ours}@{evil}"), "/".to_owned()),
        (format!("{evil}#@{ours}"), "/".to_owned()),
        (format!("{evil}\\@{ours}"), "/".to_owned()),
        (format!("{evil}/@{ours}"), "/".to_owned()),
        (format!("{evil} {ours}"), "/".to_owned()),
        (format!("good.test.:{port}"), "/".to_owned()),
        (ours.clone(), "/ HTTP/1.1\r\nhost: evil.test\r\n\r\nGET /".to_owned()),
        (ours.clone(), "/a\r\nx: y".to_owned()),
    ];
    let steps: Vec<Value> = bad.iter().map(|(host, path)| request("http", host, path)).collect();
    let results = attack(&host, json!(steps)).await;
    for ((host, path), result) in bad.iter().zip(&results) {
        // Refused, or sent to the host that was granted, as a path of its own.
        assert!(result["error"].is_string() || result["status"] == 200, "{host} {path}: {result}");
    }
    assert_eq!(inside.connections(), 0);
    for request in good.requests() {
        assert!(request.starts_with("GET /"), "{request}");
        assert!(request.contains(&format!("\r\nhost: good.test:{port}\r\n")), "{request}");
        assert!(!request.contains("\r\nx: y"), "{request}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_that_smuggle() {
    let server = TestServer::answering(OK).await;
    let lab = lab("http = [\"http://127.0.0.1:*\"]");
    let host = host(&lab, &FixedNames::new(&[])).await;
    let authority = at(&server, "").replace("http://", "");
    let with = |name: &str, value: &str| {
        json!({ "request": {
            "method": "POST", "scheme": "http", "authority": authority, "path": "/",
            "headers": [[name, value]], "body": "GET /smuggled HTTP/1.1\r\n\r\n",
        } })
    };
    let steps = [
        with("host", "evil.test"),
        with("transfer-encoding", "chunked"),
        with("connection", "keep-alive, x"),
        with("upgrade", "websocket"),
        with("te", "trailers"),
        with("trailer", "x"),
        with("expect", "100-continue"),
        with("proxy-authorization", "x"),
        with("keep-alive", "x"),
        with("content-length", "3"),
        with("content-length", "+30"),
        with("x", "a\r\nhost: evil.test"),
        with("x\r\nhost", "evil.test"),
        with("x", "fine"),
    ];
    let results = attack(&host, json!(steps)).await;
    for result in &results[..13] {
        error(result);
    }
    assert_eq!(results[13]["status"], 200);
    // What came was one request, whole, and to the host it was sent to.
    for request in server.requests() {
        assert!(request.contains("\r\nx: fine\r\n") && !request.contains("evil"), "{request}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn methods_that_are_tunnels() {
    let lab = lab("http = [\"http://*:*\"]");
    let host = host(&lab, &FixedNames::new(&[])).await;
    let with = |method: &str| json!({ "request": { "method": method, "scheme": "http", "authority": "a.test", "path": "/" } });
    for result in
        attack(&host, json!([with("CONNECT"), with("TRACE"), with("G T"), with("connect")])).await
    {
        error(&result);
    }
    let odd = json!([
        { "request": { "scheme": "ftp", "authority": "a.test", "path": "/" } },
        { "request": { "scheme": "file", "authority": "", "path": "/etc/passwd" } },
        { "request": { "scheme": "http", "path": "/" } },
    ]);
    for result in attack(&host, odd).await {
        error(&result);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_is_not_followed() {
    let inside = TestServer::answering(OK).await;
    let location = at(&inside, "/admin");
    let server = TestServer::new(move |mut peer| {
        let location = location.clone();
        async move {
            while peer.request().await.is_some() {
                let head = format!(
                    "HTTP/1.1 302 Found\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n"
                );
                peer.say(head).await;
            }
        }
    })
    .await;
    let lab =
        lab(&format!("http = [\"http://public.test:{} private\", \"http://*:*\"]", server.port));
    let host = host(&lab, &FixedNames::new(&["public.test: 127.0.0.1"])).await;
    let authority = format!("public.test:{}", server.port);
    let results = attack(&host, json!([request("http", &authority, "/")])).await;
    assert_eq!(results[0]["status"], 302);
    // The guest follows it by itself, and comes no further.
    let next = at(&inside, "").replace("http://", "");
    let results = attack(&host, json!([request("http", &next, "/admin")])).await;
    error(&results[0]);
    assert_eq!(inside.connections(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_changes_its_answer() {
    let inside = TestServer::answering(OK).await;
    let lab = lab("http = [\"http://*:*\"]");
    // First an address that nobody answers at, then the machine itself, then both at once.
    let names = FixedNames::new(&["rebind.test: 192.0.0.9, 127.0.0.1, 127.0.0.1 192.0.0.9"]);
    let host = host(&lab, &names).await;
    let authority = format!("rebind.test:{}", inside.port);
    let steps: Vec<Value> = (0..4).map(|_| request("http", &authority, "/")).collect();
    for result in attack(&host, json!(steps)).await {
        error(&result);
    }
    assert_eq!((inside.connections(), names.asked()), (0, 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_without_end() {
    let server = TestServer::new(|mut peer| async move {
        while let Some(request) = peer.request().await {
            if request.starts_with("GET /length") {
                peer.say("HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n").await;
            } else if request.starts_with("GET /endless") {
                peer.say("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
                let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
                for _ in 0..100 {
                    peer.say(&chunk).await;
                }
            } else if request.starts_with("GET /head") {
                peer.say("HTTP/1.1 200 OK\r\n").await;
                for _ in 0..20_000 {
                    peer.say("x: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n").await;
                }
            } else {
                // A head that never comes.
                std::future::pending::<()>().await;
            }
        }
    })
    .await;
    let lab = lab("http = [\"http://127.0.0.1:*\"]").config(
        "[limits]\nhttp_response_bytes_max = \"1 MiB\"\nwall_time_max = \"20s\"\n\
         [plugins.hostile]\nhttp = [\"http://127.0.0.1:*\"]\n",
    );
    let host = host(&lab, &FixedNames::new(&[])).await;
    let authority = at(&server, "").replace("http://", "");
    let get = |path: &str| {
        json!({ "request": {
            "scheme": "http", "authority": authority, "path": path, "keep": 10, "wait": 300,
        } })
    };
    let steps = json!([get("/length"), get("/endless"), get("/head"), get("/slow")]);
    let results = attack(&host, steps).await;
    assert_eq!(error(&results[0]), "ErrorCode::HttpResponseBodySize(Some(1048576))");
    assert_eq!(results[1]["body_error"], "HTTP response body size exceeds limit: 1048576 bytes");
    assert!(results[1]["bytes"].as_u64().expect("a count") <= 1_048_576);
    assert_eq!(error(&results[2]), "ErrorCode::HttpResponseHeaderSectionSize(Some(65536))");
    assert_eq!(error(&results[3]), "ErrorCode::ConnectionReadTimeout");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_server_holds_a_call_no_longer_than_its_time() {
    let server = TestServer::new(|mut peer| async move {
        while peer.request().await.is_some() {
            peer.say("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nx").await;
        }
    })
    .await;
    let lab = lab("").config(
        "[limits]\nwall_time_max = \"700ms\"\n[plugins.hostile]\nhttp = [\"http://127.0.0.1:*\"]\n",
    );
    let host = host(&lab, &FixedNames::new(&[])).await;
    let authority = at(&server, "").replace("http://", "");
    let started = Instant::now();
    let steps = json!({ "steps": [request("http", &authority, "/")] });
    let text = crate::support::answer(&host, "attack", steps).await;
    assert!(text.contains("\"code\":\"deadline\""), "{text}");
    assert!(started.elapsed().as_secs() < 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_counted_and_bounded() {
    let server = TestServer::answering(OK).await;
    let lab = lab("").config(
        "[limits]\nhttp_requests_max = 3\nhttp_request_bytes_max = \"8 KiB\"\n\
         [plugins.hostile]\nhttp = [\"http://127.0.0.1:*\"]\n",
    );
    let host = host(&lab, &FixedNames::new(&[])).await;
    let authority = at(&server, "").replace("http://", "");
    let get = request("http", &authority, "/");
    let results = attack(&host, json!([get, get, get, get])).await;
    assert_eq!(results[2]["status"], 200);
    assert!(error(&results[3]).contains("at most `http_requests_max` of 3 requests"));
    let large = json!({ "request": {
        "method": "POST", "scheme": "http", "authority": authority, "path": "/", "body_bytes": 9_000,
    } });
    assert_eq!(
        error(&attack(&host, json!([large])).await[0]),
        "ErrorCode::HttpRequestBodySize(Some(8192))"
    );
}

/// The most requests that a server has at once, of four that are sent before a response is read;
/// it answers as soon as it has `allowed` of them.
async fn most_at_once(allowed: usize) -> usize {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (barrier, seen) = (Arc::new(Barrier::new(allowed)), Arc::clone(&most));
    let server = TestServer::new(move |mut peer| {
        let (now, most, barrier) = (Arc::clone(&now), Arc::clone(&most), Arc::clone(&barrier));
        async move {
            while peer.request().await.is_some() {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                barrier.wait().await;
                now.fetch_sub(1, Ordering::SeqCst);
                peer.say(OK).await;
            }
        }
    })
    .await;
    let lab = lab("").config(&format!(
        "[limits]\nhttp_requests_at_once_max = {allowed}\n\
         [plugins.hostile]\nhttp = [\"http://127.0.0.1:*\"]\n"
    ));
    let host = host(&lab, &FixedNames::new(&[])).await;
    let get = &request("http", &at(&server, "").replace("http://", ""), "/")["request"];
    let results = attack(&host, json!([{ "requests": [get, get, get, get] }])).await;
    let statuses = results[0].as_array().expect("four answers").iter();
    assert!(statuses.map(|answer| &answer["status"]).all(|status| status == 200), "{results:?}");
    seen.load(Ordering::SeqCst)
}

#[tokio::test(flavor = "multi_thread")]
async fn http_requests_at_once_max_obeyed() {
    assert_eq!(most_at_once(4).await, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn http_requests_at_once_max_violated() {
    // The third and fourth wait, whatever the guest would like.
    assert_eq!(most_at_once(2).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_must_be_trusted() {
    let names = FixedNames::new(&["api.test: 127.0.0.1", "other.test: 127.0.0.1"]);
    let serve = |mut peer: crate::support::server::Peer| async move {
        while peer.request().await.is_some() {
            peer.say(OK).await;
        }
    };
    let server = TestServer::on("127.0.0.1:0", Some(tls("api.test", 2100)), serve).await;
    let lab = lab("http = [\"https://api.test:* private\", \"https://other.test:* private\"]");
    let host = host(&lab, &names).await;
    let results = attack(
        &host,
        json!([
            request("https", &format!("api.test:{}", server.port), "/"),
            request("https", &format!("other.test:{}", server.port), "/"),
            request("http", &format!("api.test:{}", server.port), "/"),
        ]),
    )
    .await;
    assert_eq!(results[0]["status"], 200);
    error(&results[1]);
    error(&results[2]);
}
