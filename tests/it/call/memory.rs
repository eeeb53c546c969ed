//! The memory of guests: their tables count, and all of them share one budget.

use std::sync::Arc;
use std::time::Instant;

use serde_json::json;
use tokio::task::JoinSet;
use toolhost::Host;
use toolhost_core::tool::Code;

use crate::call::misbehaving::table_of;
use crate::support::client::PATIENCE;
use crate::support::{Lab, answer, call, from_wat, guest};

/// A guest of 30 MiB with one tool, `hold`, that never ends.
fn holding() -> Vec<u8> {
    from_wat(
        r#"(module
            (memory (export "memory") 480)
            (data (i32.const 20) "\00\01\00\00\01\00\00\00")
            (data (i32.const 256)
                "\00\04\00\00\04\00\00\00\08\04\00\00\01\00\00\00\00\00\00\00\00\00\00\00\0c\04\00\00\02\00\00\00")
            (data (i32.const 1024) "hold\00\00\00\00t\00\00\00{}")
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) i32.const 8192)
            (func (export "register") (result i32) i32.const 0)
            (func (export "call") (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
                (result i32)
                (loop $ever (br $ever))
                i32.const 2048)
        )"#,
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_all_bytes_max() {
    let lab = Lab::new()
        .config("[limits]\nmemory_all_bytes_max = \"64 MiB\"\nwall_time_max = \"3s\"")
        .with("x.wasm", holding())
        .with("probe.wasm", guest("probe"));
    let host: Arc<Host> = Arc::new(lab.host().await);
    let mut calls = JoinSet::new();
    for _ in 0..6 {
        let host = Arc::clone(&host);
        calls.spawn(async move { call(&host, "hold", json!({})).await });
    }
    let mut errors = Vec::new();
    for _ in 0..4 {
        let outcome = calls.join_next().await.expect("six").expect("no panic");
        errors.push(outcome.result.expect_err("no end"));
    }
    for error in &errors {
        assert_eq!(error.code, Code::Memory, "{error:?}");
        assert_eq!(
            error.message,
            "stopped: memory of 31457280 bytes is not left; all tools together may use 67108864 (`memory_all_bytes_max`); try again later"
        );
        assert_eq!(error.details["limit"], "memory_all_bytes_max");
    }
    // The others go on: small guests find room, and the two that hold it run to their end.
    assert_eq!(answer(&host, "echo", json!({ "text": "a" })).await, r#"{"result":"a"}"#);
    while let Some(outcome) = calls.join_next().await {
        assert_eq!(outcome.expect("no panic").result.expect_err("no end").code, Code::Deadline);
    }
    // Four that found no room and two that took too long: only these are the plugin's fault.
    assert!(host.quarantined().is_empty());
    // All of it is given back, as soon as the stopped guests are gone.
    let start = Instant::now();
    let code = loop {
        let code = call(&host, "hold", json!({})).await.result.expect_err("no end").code;
        if code != Code::Memory || start.elapsed() > PATIENCE {
            break code;
        }
    };
    assert_eq!(code, Code::Deadline);
    assert!(host.quarantined().contains_key("hold"), "the third that took too long");
}

#[tokio::test]
async fn tables_count_as_memory() {
    for (elements, fits) in [(100_000, true), (200_000, false)] {
        let lab = Lab::new()
            .config("[limits]\nmemory_bytes_max = \"1 MiB\"\ntable_elements_max = 1000000")
            .with("x.wasm", table_of(elements));
        let outcome = call(&lab.host().await, "grow", json!({})).await;
        let used = outcome.usage.memory_bytes;
        match outcome.result {
            Ok(_) => assert!(fits && used == 65_536 + 8 * elements as u64, "{used}"),
            Err(error) => {
                assert!(!fits);
                assert_eq!(
                    error.message,
                    "stopped: memory of 1665536 bytes exceeds `memory_bytes_max` of 1048576"
                );
            }
        }
    }
}
