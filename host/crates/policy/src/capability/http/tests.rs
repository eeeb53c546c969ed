//! Requests: needs, grants, and what they come to.

use super::*;

#[test]
fn grants_are_read_and_written() {
    for (text, written) in [
        ("api.example.com", "https://api.example.com"),
        ("https://API.example.com:443/", "https://api.example.com"),
        ("http://localhost:8080", "http://localhost:8080"),
        ("*", "https://*"),
        ("*.example.com", "https://*.example.com"),
        ("GET,POST https://a.b/v1/ private", "GET,POST https://a.b/v1/ private"),
        ("http://127.0.0.1:*/x", "http://127.0.0.1:*/x"),
        ("https://[::1]:8443", "https://[::1]:8443"),
        ("http://2130706433/", "http://127.0.0.1"),
        ("https://bücher.example", "https://xn--bcher-kva.example"),
    ] {
        let grant = HttpGrant::parse(text).expect(text);
        assert_eq!(grant.to_string(), written);
        assert_eq!(HttpGrant::parse(written), Ok(grant));
    }
    for bad in [
        "",
        "private",
        "get https://a",
        "ftp://a",
        "https://u@a",
        "https://a?b",
        "https://a#b",
        "a*.example.com",
        "*.*.com",
        "https://a b c",
        "https://a.example./",
        "https://",
        ", https://a",
        "GET,,POST https://a",
        "https://a/%2f",
    ] {
        assert!(HttpGrant::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn requests_are_need_and_grant() {
    let rights = |asked: &[&str], granted: &[&str]| {
        let read =
            |texts: &[&str]| texts.iter().map(|text| HttpGrant::parse(text).expect(text)).collect();
        HttpRights { asked: read(asked), granted: read(granted) }
    };
    let check = |rights: &HttpRights, request: &str| {
        let (method, url) = request.split_once(' ').expect("a method");
        rights.decide(&Target::new(method, url).expect(request))
    };
    let any = rights(
        &["https://*:*", "http://*:*"],
        &["https://a.example", "GET http://b.example:81/v1"],
    );
    let public = Ok(Reach::Public);
    assert_eq!(check(&any, "POST https://a.example/x?y"), public);
    assert_eq!(check(&any, "POST https://A.EXAMPLE:443/x"), public);
    for refused in [
        "GET http://a.example/",
        "GET https://a.example:444/",
        "GET https://x.a.example/",
        "GET https://a.example.evil/",
        "POST http://b.example:81/v1",
        "GET http://b.example:81/v10",
        "GET http://b.example:81/v1/../admin",
        "GET http://b.example:81/v1/%2e%2e/admin",
        "GET http://b.example:81/v1/..%2fadmin",
        "GET http://b.example:81/v1/%252e%252e/admin",
        "GET http://b.example:81/v1/..;/admin",
        "GET http://b.example:81/v1\\..\\admin",
    ] {
        assert_eq!(check(&any, refused), Err(HttpRefusal::NotGranted), "{refused}");
    }
    assert_eq!(check(&any, "GET http://b.example:81/v1"), public);
    assert_eq!(check(&any, "GET http://b.example:81/v1/x"), public);
    assert_eq!(
        check(&rights(&["b.example"], &["*"]), "GET https://a.example"),
        Err(HttpRefusal::NotAsked)
    );

    let below = rights(&["*"], &["*.example.com"]);
    assert_eq!(check(&below, "GET https://a.b.example.com"), public);
    assert!(check(&below, "GET https://example.com").is_err());
    assert!(check(&below, "GET https://notexample.com").is_err());

    let near = rights(
        &["*", "http://*:*"],
        &["nas.example private", "http://localhost:80", "http://10.0.0.1", "*"],
    );
    assert_eq!(check(&near, "GET https://nas.example"), Ok(Reach::Private));
    assert_eq!(check(&near, "GET http://localhost"), Ok(Reach::Named));
    assert_eq!(check(&near, "GET http://0x0a000001/"), Ok(Reach::Named));
    assert_eq!(check(&near, "GET https://10.0.0.1"), public);
}

#[test]
fn odd_requests_have_no_target() {
    for bad in [
        "ftp://a/",
        "https://u@a/",
        "https://u:p@a/",
        "https://a.example./",
        "https:///",
        "a/b",
        "https://a b/",
        "",
    ] {
        assert!(Target::new("GET", bad).is_err(), "{bad}");
    }
    assert!(Target::new("CONNECT", "https://a/").is_err());
    let target = Target::new("GET", "https://a/b?key=value#x").expect("a target");
    assert_eq!(target.to_string(), "GET https://a/b");
    assert_eq!(target.url().as_str(), "https://a/b?key=value");
}
