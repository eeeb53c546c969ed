//! Nothing survives a call but what was kept in the store, and mutual exclusion holds.

use std::fs;

use serde_json::json;

use super::{attack, error, host, lab};
use crate::support::server::{FixedNames, TestServer, at};

#[tokio::test(flavor = "multi_thread")]
async fn no_call_finds_what_another_left() {
    let lab = lab("env = [\"GIVEN\"]");
    let host = host(&lab, &FixedNames::new(&[])).await;
    for secret in ["first", "second"] {
        let results = attack(&host, json!([{ "remember": secret }, { "remember": "x" }])).await;
        assert_eq!(
            results[0],
            json!({ "memory": "", "file": null, "variable": null, "written": false }),
        );
        assert_eq!(results[1]["memory"], secret);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn variables_are_those_that_were_granted() {
    let lab = lab("env = [\"GIVEN\", \"NOT_ASKED\"]");
    let mut settings = lab.settings();
    let values = [("GIVEN", "1"), ("NOT_ASKED", "2"), ("HOME", "/root")];
    settings.variables.0 =
        values.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let host = toolhost::Host::start(settings).expect("a host");
    host.loaded().await;
    let results = attack(&host, json!(["environment", { "env": "HOME" }])).await;
    assert_eq!(results, [json!([["GIVEN", "1"]]), json!(null)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_call_uses_one_side() {
    let server = TestServer::answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
    let lab = lab("");
    fs::create_dir(lab.work().join("in")).expect("a folder");
    fs::write(lab.work().join("in/mine"), "mine").expect("written");
    let lab = {
        let grants = format!(
            "dirs = [\"{}/in=/in:ro\"]\nhttp = [\"http://127.0.0.1:*\"]\nkv = true\nexclusive = [[\"dirs\", \"http\"]]",
            lab.work().display()
        );
        lab.config(&format!("[plugins.hostile]\n{grants}\n"))
    };
    let host = host(&lab, &FixedNames::new(&[])).await;
    let authority = at(&server, "").replace("http://", "");
    let request = json!({ "request": { "scheme": "http", "authority": authority, "path": "/" } });
    let read = json!({ "file": { "at": "/in", "do": "read", "path": "mine" } });
    let look = json!({ "file": { "at": "/in", "do": "stat", "path": "mine" } });
    let missed = json!({ "file": { "at": "/in", "do": "stat", "path": "none" } });

    let results = attack(&host, json!(["directories", read, request])).await;
    assert_eq!(results[1]["text"], "mine");
    assert!(error(&results[2]).contains("has used `dirs`"), "{}", results[2]);
    let results = attack(&host, json!(["directories", look, request])).await;
    error(&results[2]);
    // A directory of its own tells something, too, before and after.
    let handle = json!({ "file": { "at": "/in", "do": "handle", "path": "" } });
    let kind = json!({ "file": { "at": "/in", "do": "readlink", "path": "mine" } });
    for touching in [&handle, &kind] {
        let results = attack(&host, json!([touching, request])).await;
        error(&results[1]);
    }
    let results = attack(&host, json!([request, handle])).await;
    assert_eq!(error(&results[1]), "not-permitted");
    // What is not there says nothing.
    let results = attack(&host, json!(["directories", missed, request, read, look, missed])).await;
    assert_eq!(results[2]["status"], 200);
    for result in &results[3..] {
        assert_eq!(error(result), "not-permitted");
    }
    assert_eq!(server.requests().len(), 2);

    // The store of one side is not that of the other, nor of none.
    let set = json!({ "kv_set": ["found", "mine"] });
    let get = json!({ "kv_get": "found" });
    assert_eq!(attack(&host, json!([read, set])).await[1], "ok");
    assert_eq!(attack(&host, json!([read, get])).await[1], "mine");
    assert_eq!(attack(&host, json!([request, get])).await[1], json!(null));
    assert_eq!(attack(&host, json!([get, request])).await[0], json!(null));
}
