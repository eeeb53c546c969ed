//! The HTTP client of the host, against servers that behave and misbehave.

mod bounds;
mod messages;

use std::sync::Arc;

use expect_test::expect;
use toolhost_core::limits::Limits;
use toolhost_egress::{Egress, EgressSettings, Times};
use toolhost_policy::capability::address::Reach;

use crate::support::server::{
    FixedNames, Peer, TestServer, at, client, egress, endless, get, root, shown, tls, whole,
};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

async fn answer_once(mut peer: Peer) {
    if peer.request().await.is_some() {
        peer.say(OK).await;
        peer.closed().await;
    }
}

#[tokio::test]
async fn https_with_a_root_of_our_own() {
    let server = TestServer::on("127.0.0.1:0", Some(tls("secure.test", 2100)), answer_once).await;
    let names = FixedNames::new(&["secure.test: 127.0.0.1"]);
    let client = egress(&names, &[]).client();
    let request = get(&server.uri("https://secure.test:PORT/a"));
    let response = client.send(request, Reach::Private, Times::default()).await;
    assert_eq!(shown(response).await, "200 ok");
}

#[tokio::test]
async fn certificates_that_are_not_trusted() {
    let names = FixedNames::new(&["secure.test: 127.0.0.1", "other.test: 127.0.0.1"]);
    let resolver = || Some(Arc::clone(&names) as Arc<dyn toolhost_egress::Resolver>);
    let knows = EgressSettings { resolver: resolver(), roots: vec![root()] };
    let knows_not = EgressSettings { resolver: resolver(), roots: Vec::new() };
    let good = TestServer::on("127.0.0.1:0", Some(tls("secure.test", 2100)), answer_once).await;
    let old = TestServer::on("127.0.0.1:0", Some(tls("secure.test", 2001)), answer_once).await;
    let plain =
        TestServer::new(|mut peer| async move { peer.say("HTTP/1.1 200 OK\r\n\r\n").await }).await;
    let gone = TestServer::new(|peer| async move { drop(peer) }).await;
    let mut found = String::new();
    for (settings, server, host) in [
        (&knows_not, &good, "secure.test"),
        (&knows, &good, "other.test"),
        (&knows, &good, "127.0.0.1"),
        (&knows, &old, "secure.test"),
        (&knows, &plain, "secure.test"),
        (&knows, &gone, "secure.test"),
    ] {
        let egress = Egress::new(settings.clone(), &Limits::default()).expect("roots");
        let request = get(&format!("https://{host}:{}/", server.port));
        let response = egress.client().send(request, Reach::Private, Times::default()).await;
        found += &format!("{}\n", shown(response).await);
    }
    assert_eq!(good.requests(), Vec::<String>::new());
    expect![[r#"
        error: no secure connection to `secure.test`: its certificate was issued by nobody who is trusted
        error: no secure connection to `other.test`: its certificate is for another host
        error: no secure connection to `127.0.0.1`: its certificate is for another host
        error: no secure connection to `secure.test`: its certificate has expired
        error: no secure connection to `secure.test`: received corrupt message of type InvalidContentType
        error: no secure connection to `secure.test`: it closed the connection too early
    "#]].assert_eq(&found);

    let settings = EgressSettings { resolver: None, roots: vec![root(), b"no".to_vec()] };
    let error = Egress::new(settings, &Limits::default()).expect_err("no certificate");
    expect!["root certificate 2 cannot be used: invalid peer certificate: BadEncoding; give the DER bytes of one X.509 certificate"].assert_eq(&error.to_string());
}

#[tokio::test]
async fn addresses_that_may_not_be_reached() {
    let listening = TestServer::answering(OK).await;
    let names = FixedNames::new(&[
        "inside.test: 10.0.0.5",
        "meta.test: 169.254.169.254",
        "mapped.test: ::ffff:127.0.0.1",
        "mixed.test: 1.1.1.1 127.0.0.1",
        "nat.test: 64:ff9b::a00:1",
        "localhost: 127.0.0.1 10.0.0.5",
        "a.localhost: 1.1.1.1",
        "empty.test:",
    ]);
    let client = egress(&names, &[]).client();
    let mut found = String::new();
    for (host, reach) in [
        ("127.0.0.1", Reach::Public),
        ("[::1]", Reach::Public),
        ("[::ffff:127.0.0.1]", Reach::Public),
        ("[64:ff9b::7f00:1]", Reach::Public),
        ("[2002:7f00:1::]", Reach::Private),
        ("[fe80::1]", Reach::Private),
        ("169.254.169.254", Reach::Private),
        ("[fd00:ec2::254]", Reach::Private),
        ("100.100.100.200", Reach::Private),
        ("0.0.0.0", Reach::Named),
        ("[::]", Reach::Named),
        ("224.0.0.1", Reach::Named),
        ("inside.test", Reach::Public),
        ("INSIDE.test", Reach::Named),
        ("meta.test", Reach::Private),
        ("meta.test", Reach::Named),
        ("mapped.test", Reach::Public),
        ("mixed.test", Reach::Public),
        ("nat.test", Reach::Public),
        ("localhost", Reach::Public),
        ("localhost", Reach::Private),
        ("localhost", Reach::Named),
        ("a.localhost", Reach::Named),
        ("empty.test", Reach::Public),
        ("unknown.test", Reach::Public),
    ] {
        let request = get(&format!("http://{host}:{}/", listening.port));
        let response = client.send(request, reach, Times::default()).await;
        found += &format!("{host} {reach:?}: {}\n", shown(response).await);
    }
    assert_eq!(listening.connections(), 0);
    expect![[r#"
        127.0.0.1 Public: error: 127.0.0.1 is refused as loopback; a grant that allows private addresses reaches it
        [::1] Public: error: ::1 is refused as loopback; a grant that allows private addresses reaches it
        [::ffff:127.0.0.1] Public: error: ::ffff:127.0.0.1 is refused as loopback; a grant that allows private addresses reaches it
        [64:ff9b::7f00:1] Public: error: 64:ff9b::7f00:1 is refused as loopback; a grant that allows private addresses reaches it
        [2002:7f00:1::] Private: error: 2002:7f00:1:: is refused as IPv6 transition; only a grant of this very address, not of a name, reaches it
        [fe80::1] Private: error: fe80::1 is refused as link-local; only a grant of this very address, not of a name, reaches it
        169.254.169.254 Private: error: 169.254.169.254 is refused as cloud metadata; only a grant of this very address, not of a name, reaches it
        [fd00:ec2::254] Private: error: fd00:ec2::254 is refused as cloud metadata; only a grant of this very address, not of a name, reaches it
        100.100.100.200 Private: error: 100.100.100.200 is refused as cloud metadata; only a grant of this very address, not of a name, reaches it
        0.0.0.0 Named: error: 0.0.0.0 is refused as unspecified; no grant reaches it
        [::] Named: error: :: is refused as unspecified; no grant reaches it
        224.0.0.1 Named: error: 224.0.0.1 is refused as multicast; no grant reaches it
        inside.test Public: error: 10.0.0.5, an address of `inside.test`, is refused as private; a grant that allows private addresses reaches it
        INSIDE.test Named: error: 10.0.0.5, an address of `inside.test`, is refused as private; a grant that allows private addresses reaches it
        meta.test Private: error: 169.254.169.254, an address of `meta.test`, is refused as cloud metadata; only a grant of this very address, not of a name, reaches it
        meta.test Named: error: 169.254.169.254, an address of `meta.test`, is refused as cloud metadata; only a grant of this very address, not of a name, reaches it
        mapped.test Public: error: ::ffff:127.0.0.1, an address of `mapped.test`, is refused as loopback; a grant that allows private addresses reaches it
        mixed.test Public: error: 127.0.0.1, an address of `mixed.test`, is refused as loopback; a grant that allows private addresses reaches it
        nat.test Public: error: 64:ff9b::a00:1, an address of `nat.test`, is refused as private; a grant that allows private addresses reaches it
        localhost Public: error: 127.0.0.1, an address of `localhost`, is refused as loopback; a grant that allows private addresses reaches it
        localhost Private: error: `localhost` stands for 10.0.0.5, which is not loopback; nothing allows that
        localhost Named: error: `localhost` stands for 10.0.0.5, which is not loopback; nothing allows that
        a.localhost Named: error: `a.localhost` stands for 1.1.1.1, which is not loopback; nothing allows that
        empty.test Public: error: `empty.test` is not found: it has no address
        unknown.test Public: error: `unknown.test` is not found: no such name in the zone
    "#]].assert_eq(&found);
}

#[tokio::test]
async fn what_was_granted_is_reached() {
    let server = TestServer::answering(OK).await;
    let names = FixedNames::new(&["localhost: 127.0.0.1", "inside.test: 127.0.0.1"]);
    let client = egress(&names, &[]).client();
    for (host, reach) in [
        ("127.0.0.1", Reach::Private),
        ("127.0.0.1", Reach::Named),
        ("[::ffff:127.0.0.1]", Reach::Private),
        ("localhost", Reach::Private),
        ("localhost", Reach::Named),
        ("inside.test", Reach::Private),
    ] {
        let request = get(&format!("http://{host}:{}/", server.port));
        let response = client.send(request, reach, Times::default()).await;
        assert_eq!(shown(response).await, "200 ok", "{host} {reach:?}");
    }
    // By the resolver of this machine, too.
    let egress = Egress::new(EgressSettings::default(), &Limits::default()).expect("roots");
    let request = get(&server.uri("http://localhost:PORT/"));
    let response = egress.client().send(request, Reach::Private, Times::default()).await;
    assert_eq!(shown(response).await, "200 ok");
}

#[tokio::test]
async fn names_that_change_their_answer() {
    // Each server ends its connection, so that each request needs a new one.
    let answer = |mut peer: Peer| async move {
        peer.request().await;
        peer.say("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok").await;
    };
    let first = TestServer::new(answer).await;
    let second = TestServer::on(&first.uri("127.0.0.2:PORT"), None, answer).await;
    let names =
        FixedNames::new(&["turns.test: 127.0.0.1, 127.0.0.2, 169.254.169.254, 127.0.0.1 10.0.0.1"]);
    let client = egress(&names, &[]).client();
    let mut found = String::new();
    for reach in [Reach::Private, Reach::Private, Reach::Private, Reach::Public] {
        let request = get(&first.uri("http://turns.test:PORT/"));
        let shown = shown(client.send(request, reach, Times::default()).await).await;
        found += &format!(
            "asked {}, connected {} and {}: {shown}\n",
            names.asked(),
            first.connections(),
            second.connections()
        );
    }
    expect![[r#"
        asked 1, connected 1 and 0: 200 ok
        asked 2, connected 1 and 1: 200 ok
        asked 3, connected 1 and 1: error: 169.254.169.254, an address of `turns.test`, is refused as cloud metadata; only a grant of this very address, not of a name, reaches it
        asked 4, connected 1 and 1: error: 127.0.0.1, an address of `turns.test`, is refused as loopback; a grant that allows private addresses reaches it
    "#]].assert_eq(&found);
}

#[tokio::test]
async fn the_next_address_is_tried() {
    let server = TestServer::answering(OK).await;
    // Nobody listens at the first.
    let names = FixedNames::new(&["two.test: 127.0.0.3 127.0.0.1", "one.test: 127.0.0.3"]);
    let client = egress(&names, &[]).client();
    let request = get(&server.uri("http://two.test:PORT/"));
    let response = client.send(request, Reach::Private, Times::default()).await;
    assert_eq!(shown(response).await, "200 ok");
    let request = get(&server.uri("http://one.test:PORT/"));
    let response = shown(client.send(request, Reach::Private, Times::default()).await).await;
    let response = response.replace(&server.port.to_string(), "PORT");
    expect!["error: `one.test` port PORT cannot be reached: Connection refused (os error 111)"]
        .assert_eq(&response);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_kept_for_their_own_client_and_reach() {
    let server = TestServer::answering(OK).await;
    let names =
        FixedNames::new(&["a.test: 127.0.0.1", "b.test: 127.0.0.1", "localhost: 127.0.0.1"]);
    let egress = egress(&names, &[]);
    let (one, other) = (egress.client(), egress.client());
    for (client, host, reach, connections) in [
        (&one, "a.test", Reach::Private, 1),
        (&one, "a.test", Reach::Private, 1),
        (&one.clone(), "A.test", Reach::Private, 1),
        (&other, "a.test", Reach::Private, 2),
        (&one, "b.test", Reach::Private, 3),
        (&one, "localhost", Reach::Private, 4),
        (&one, "localhost", Reach::Named, 5),
        (&one, "a.test", Reach::Private, 5),
    ] {
        let request = get(&format!("http://{host}:{}/", server.port));
        let response = client.send(request, reach, Times::default()).await;
        assert_eq!(shown(response).await, "200 ok");
        assert_eq!(server.connections(), connections, "{host} {reach:?}");
    }
    assert_eq!(names.asked(), 5);
    // A connection that was opened with more rights is not there for fewer.
    let request = get(&server.uri("http://a.test:PORT/"));
    let error = one.send(request, Reach::Public, Times::default()).await;
    assert!(shown(error).await.contains("refused"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_nobody_reads_keeps_its_connection_if_it_is_empty() {
    let server = TestServer::answering("HTTP/1.1 204 No Content\r\n\r\n").await;
    let client = client(&[]);
    for _ in 0..5 {
        let request = get(&at(&server, "/"));
        let response = client.send(request, Reach::Private, Times::default()).await;
        drop(response.expect("a response"));
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_answers_too_early_is_told_no_more() {
    let server = TestServer::new(|mut peer| async move {
        peer.head().await;
        peer.say(OK).await;
        peer.closed().await;
    })
    .await;
    let client = client(&[]);
    for number in 1..=3 {
        let request = http::Request::post(at(&server, "/")).body(endless()).expect("a request");
        let response = client.send(request, Reach::Private, Times::default()).await;
        assert_eq!(shown(response).await, "200 ok");
        server.closed().await;
        assert_eq!(server.connections(), number);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_response_that_nobody_asked_for() {
    let server = TestServer::new(|mut peer| async move {
        while peer.request().await.is_some() {
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n{}", peer.number);
            peer.say(answer + "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil").await;
        }
    })
    .await;
    let client = client(&[]);
    for number in 1..=9 {
        let request = get(&at(&server, "/"));
        let response = client.send(request, Reach::Private, Times::default()).await;
        assert_eq!(shown(response).await, format!("200 {number}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kept_connection_that_has_ended_is_replaced() {
    let server = TestServer::new(|mut peer| async move {
        peer.request().await;
        peer.say(OK).await;
    })
    .await;
    let client = client(&[]);
    for number in 1..=20 {
        // A body that can be sent only once.
        let request = http::Request::post(at(&server, "/")).body(whole("text")).expect("a request");
        let response = client.send(request, Reach::Private, Times::default()).await;
        // The end may cross the request on its way; then nobody knows whether it was heard.
        match &*shown(response).await {
            "200 ok" => {}
            other => assert_eq!(
                other,
                "error: the server gave no proper response: it closed the connection too early"
            ),
        }
        assert!(server.connections() <= number);
    }
    assert!(server.requests().iter().all(|request| request.ends_with("\r\n\r\ntext")));
}

#[tokio::test]
async fn a_redirect_is_an_answer() {
    let server = TestServer::answering(
        "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1/b\r\nset-cookie: a=b\r\n\
         content-encoding: gzip\r\ncontent-length: 2\r\n\r\nno",
    )
    .await;
    let client = client(&[]);
    for _ in 0..2 {
        let response = client.send(get(&at(&server, "/a")), Reach::Private, Times::default()).await;
        let response = response.expect("a response");
        assert_eq!(response.headers()["location"], "http://127.0.0.1/b");
        assert_eq!(response.headers()["content-encoding"], "gzip");
        assert_eq!(shown(Ok(response)).await, "302 no");
    }
    let requests = server.requests().concat().replace(&server.port.to_string(), "PORT");
    expect![[r#"
        GET /a HTTP/1.1
        host: 127.0.0.1:PORT

        GET /a HTTP/1.1
        host: 127.0.0.1:PORT

    "#]]
    .assert_eq(&requests.replace("\r\n", "\n"));
}
