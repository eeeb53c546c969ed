//! Compiling in a process of its own: what it gives, and what hostile components do to it.

use std::path::{Path, PathBuf};

use serde_json::json;
use toolhost::{Host, HostSettings};

use crate::support::{Lab, answer, guest, registering, script};

/// What became of `x.wasm`, compiled from nothing; with a proof that another plugin works.
async fn compiled(lab: &Lab, compiler: Option<&str>) -> String {
    let cache = Some(lab.home().join("cache"));
    let compiler = match compiler {
        Some(program) => Some(PathBuf::from(program)),
        None => lab.settings().compiler,
    };
    let host = Host::start(HostSettings { cache, compiler, ..lab.settings() }).expect("a host");
    let statuses = host.loaded().await;
    let status = statuses.iter().find(|status| status.path.ends_with("x.wasm"));
    match &status.expect("a status").state {
        Err(failed) => failed.reason.clone(),
        Ok(ready) => format!("loaded {}", ready.facts.name),
    }
}

async fn check(bytes: Vec<u8>, limits: &str, expected: &str) {
    let lab = Lab::new().config(&format!("[limits]\n{limits}")).with("x.wasm", bytes);
    let status = compiled(&lab, None).await;
    assert!(status.contains(expected), "{status}");
    assert!(!status.contains('\n') && status.len() < 600, "{status}");
    // The house stands.
    let other = Lab::new().with("json.wasm", guest("json"));
    let host = other.host().await;
    assert_eq!(
        answer(&host, "json_query", json!({ "filter": ".", "json": 1 })).await,
        r#"{"results":[1],"truncated":false}"#
    );
}

#[tokio::test]
async fn a_component_is_compiled_by_a_process_of_its_own() {
    check(registering("one first"), "", "loaded register").await;
}

#[tokio::test]
async fn without_a_program_the_host_compiles() {
    let lab = Lab::new().with("x.wasm", registering("one first"));
    let cache = Some(lab.home().join("cache"));
    let settings = HostSettings { cache, compiler: None, ..lab.settings() };
    let host = Host::start(settings).expect("a host");
    host.loaded().await;
    assert_eq!(answer(&host, "first", json!({})).await, r#"{"result":"first of one first"}"#);
}

#[tokio::test]
async fn a_program_that_is_no_compiler_is_named() {
    let lab = Lab::new().with("x.wasm", registering("one first"));
    for (program, expected) in [
        ("/nowhere/toolhost", "/nowhere/toolhost cannot be run"),
        ("/bin/false", "the compiler failed"),
        // Gives what it gets, which is no code.
        ("/bin/cat", "does not compile"),
        ("/bin/true", "does not compile"),
    ] {
        if program == "/nowhere/toolhost" || Path::new(program).exists() {
            let status = compiled(&lab, Some(program)).await;
            assert!(status.contains(expected), "{program}: {status}");
        }
    }
}

#[tokio::test]
async fn compile_cpu_time_max_violated() {
    let message = "it takes more than `compile_cpu_time_max` of 1s";
    check(script("words-py"), "compile_cpu_time_max = \"1s\"", message).await;
}

#[tokio::test]
async fn compile_memory_bytes_max_violated() {
    let message = "it takes more than `compile_memory_bytes_max` of 268435456 bytes";
    check(script("words-js"), "compile_memory_bytes_max = \"256 MiB\"", message).await;
}

#[tokio::test]
async fn compile_time_max_violated() {
    let message = "not done within `compile_time_max` of 1s";
    check(script("words-js"), "compile_time_max = \"1s\"", message).await;
}
