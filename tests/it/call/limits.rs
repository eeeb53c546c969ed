//! Every limit of a call: obeyed, and violated with both numbers.

use std::fs;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolhost::Host;
use toolhost_core::tool::{Call, Code, Progress, ProgressSink};

use crate::support::{Lab, answer, call, guest, made, registering};

async fn host(limits: &str) -> Host {
    Lab::new()
        .config(&format!("[limits]\n{limits}"))
        .with("probe.wasm", guest("probe"))
        .host()
        .await
}

async fn stopped(host: &Host, tool: &str, arguments: Value, code: Code, message: &str) {
    let outcome = call(host, tool, arguments).await;
    let error = outcome.result.expect_err(tool);
    assert_eq!((error.code, &*error.message), (code, message));
    // What it used is known, however it ended; what never ran used nothing.
    let ran = code != Code::InvalidArguments;
    assert_eq!(outcome.usage.memory_bytes >= 64 << 10, ran, "{:?}", outcome.usage);
    assert_eq!(answer(host, "echo", json!({ "text": "a" })).await, r#"{"result":"a"}"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn wall_time_max_violated() {
    let host = host("wall_time_max = \"300ms\"").await;
    let message = "stopped: not done within `wall_time_max` of 300ms";
    // In the guest's own code, and while it waits in the host.
    stopped(&host, "spin", json!({}), Code::Deadline, message).await;
    stopped(&host, "sleep", json!({ "n": 60_000 }), Code::Deadline, message).await;
}

#[tokio::test]
async fn wall_time_max_obeyed() {
    let host = host("wall_time_max = \"30s\"").await;
    assert_eq!(answer(&host, "sleep", json!({ "n": 20 })).await, r#"{"result":"awake"}"#);
}

#[tokio::test]
async fn a_caller_can_only_shorten_the_time() {
    let host = host("wall_time_max = \"300ms\"").await;
    let stop = async |time_max| {
        let call = Call { time_max: Some(time_max), ..Call::new("spin", "{}") };
        host.call(call).await.result.expect_err("stopped").message
    };
    assert_eq!(
        stop(Duration::from_millis(50)).await,
        "stopped: not done within the time the caller gave of 50ms"
    );
    assert_eq!(
        stop(Duration::from_secs(9)).await,
        "stopped: not done within `wall_time_max` of 300ms"
    );
}

#[tokio::test]
async fn a_dropped_call_stops() {
    let host = host("calls_per_source_max = 1\npermit_wait_max = \"20s\"").await;
    let running = tokio::time::timeout(Duration::from_millis(100), call(&host, "spin", json!({})));
    assert!(running.await.is_err());
    // Its permit is free again.
    assert_eq!(answer(&host, "echo", json!({ "text": "a" })).await, r#"{"result":"a"}"#);
}

#[tokio::test]
async fn memory_bytes_max() {
    let host = host("memory_bytes_max = \"32 MiB\"").await;
    assert_eq!(answer(&host, "grab", json!({ "n": 16 })).await, r#"{"result":"16 MiB"}"#);
    let error = call(&host, "grab", json!({ "n": 64 })).await.result.expect_err("too much");
    assert_eq!(error.code, Code::Memory);
    assert!(error.message.ends_with("exceeds `memory_bytes_max` of 33554432"), "{}", error.message);
    // A guest that copes with a refusal goes on.
    assert_eq!(answer(&host, "try_grab", json!({ "n": 64 })).await, r#"{"result":"did without"}"#);
}

#[tokio::test]
async fn output_bytes_max() {
    let host = host("output_bytes_max = \"64 KiB\"").await;
    let outcome = call(&host, "flood", json!({ "n": 65_536 })).await;
    assert_eq!(outcome.usage.output_bytes, 65_536);
    let message =
        "stopped: output of 65537 bytes exceeds `output_bytes_max` of 65536; ask for less";
    stopped(&host, "flood", json!({ "n": 65_537 }), Code::OutputTooLarge, message).await;
    // More than the host takes over at all.
    let message = "stopped: output of more than 8454144 bytes exceeds `output_bytes_max` of 65536; ask for less";
    stopped(&host, "flood", json!({ "n": 20_000_000 }), Code::OutputTooLarge, message).await;
}

/// Whatever else comes along counts too, and there are not so many that their places add up.
#[tokio::test]
async fn output_bytes_max_of_extensions_and_blocks() {
    for (answer, told) in [
        (json!({ "extensions": [64, 1_024] }), "65536 bytes"),
        (
            json!({ "extensions": [1, 65_537] }),
            "output of 65537 bytes exceeds `output_bytes_max` of 65536",
        ),
        (json!({ "extensions": [65, 0] }), "output of 65 extensions exceeds the allowed 64"),
        (json!({ "blocks": [4_096, 1] }), "4096 bytes"),
        (json!({ "blocks": [4_097, 0] }), "output of 4097 blocks exceeds the allowed 4096"),
    ] {
        let tool = json!({ "name": "t", "toolset": "made", "description": "d", "parameters": {}, "answer": answer });
        let lab = Lab::new()
            .config("[limits]\noutput_bytes_max = \"64 KiB\"")
            .with("made.wasm", made(&json!({ "tools": [tool] })));
        let outcome = call(&lab.host().await, "t", json!({})).await;
        let said = match outcome.result {
            Ok(_) => format!("{} bytes", outcome.usage.output_bytes),
            Err(error) => {
                assert_eq!(error.code, Code::OutputTooLarge);
                error.message
            }
        };
        assert!(said.contains(told), "{answer}: {said}");
    }
}

#[tokio::test]
async fn arguments_bytes_max() {
    let host = host("arguments_bytes_max = \"1 KiB\"").await;
    let text = "x".repeat(1_000);
    assert!(call(&host, "echo", json!({ "text": text })).await.result.is_ok());
    let text = "x".repeat(2_000);
    let message = "arguments of 2011 bytes exceed `arguments_bytes_max` of 1024";
    stopped(&host, "echo", json!({ "text": text }), Code::InvalidArguments, message).await;
}

#[tokio::test]
async fn error_bytes_max() {
    let host = host("error_bytes_max = 256").await;
    let error = |length: usize| call(&host, "fail", json!({ "text": "é".repeat(length) }));
    assert_eq!(
        error(128).await.result.expect_err("no").message,
        format!("[TOOL_ERROR] {}", "é".repeat(128))
    );
    let message = error(1_000).await.result.expect_err("no").message;
    assert!(message.len() <= 270 && message.ends_with("é..."), "{message}");
}

#[tokio::test]
async fn stack_bytes_max() {
    let host = host("stack_bytes_max = \"64 KiB\"").await;
    let message =
        "the tool crashed: its stack overflowed `stack_bytes_max` (endless recursion, most likely)";
    stopped(&host, "recurse", json!({}), Code::Trap, message).await;
}

#[tokio::test]
async fn log_lines_max_and_log_bytes_max() {
    let host = host("log_lines_max = 10\nlog_bytes_max = 100").await;
    let usage = call(&host, "chatter", json!({ "n": 15 })).await.usage;
    // Eight lines of eleven bytes fit into a hundred.
    assert_eq!((usage.log_lines, usage.log_lines_dropped), (9, 6));
    let usage = call(&host, "shout", json!({ "n": 100 })).await.usage;
    assert_eq!((usage.log_lines, usage.log_lines_dropped), (1, 0));
    let usage = call(&host, "shout", json!({ "n": 101 })).await.usage;
    assert_eq!((usage.log_lines, usage.log_lines_dropped), (0, 1));
}

#[tokio::test]
async fn host_calls_max() {
    let host = host("host_calls_max = 100").await;
    assert!(call(&host, "chatter", json!({ "n": 100 })).await.result.is_ok());
    let message = "stopped: more host calls than `host_calls_max` of 100";
    stopped(&host, "chatter", json!({ "n": 101 }), Code::Trap, message).await;
}

#[tokio::test]
async fn progress_per_second_max() {
    let host = host("progress_per_second_max = 3").await;
    let heard: Arc<Mutex<Vec<f64>>> = Arc::default();
    let ear = Arc::clone(&heard);
    let hear = move |report: Progress| ear.lock().expect("heard").push(report.done);
    let progress = Some(ProgressSink::new(hear));
    let started = Instant::now();
    host.call(Call { progress, ..Call::new("report", r#"{"n": 50}"#) }).await;
    let heard = heard.lock().expect("heard").clone();
    // The first and the last, and between them three a second.
    assert_eq!((heard.first(), heard.last()), (Some(&0.0), Some(&49.0)));
    let seconds = usize::try_from(started.elapsed().as_secs()).expect("not long");
    assert!(heard.len() <= 5 + 3 * seconds, "{heard:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_per_source_max_and_permit_wait_max() {
    let lab = Lab::new()
        .config("[limits]\ncalls_per_source_max = 1\npermit_wait_max = \"100ms\"")
        .with("probe.wasm", guest("probe"))
        .with("other.wasm", registering("one other"));
    let host = Arc::new(lab.host().await);
    let spinning = {
        let host = Arc::clone(&host);
        tokio::spawn(async move { call(&host, "spin", json!({})).await })
    };
    let busy = loop {
        let outcome = call(&host, "echo", json!({ "text": "a" })).await;
        if let Err(error) = outcome.result {
            break error;
        }
    };
    assert_eq!(busy.code, Code::Busy);
    assert_eq!(
        busy.message,
        "busy: plugin:probe runs 1 call, and `calls_per_source_max` is 1; no slot became free within `permit_wait_max` of 100ms; try again in 100ms"
    );
    // A caller that gives its call less time waits no longer than that.
    let echo = toolhost_core::tool::Call::new("echo", r#"{"text": "a"}"#);
    let hurried = toolhost_core::tool::Call { time_max: Some(Duration::from_millis(50)), ..echo };
    let error = host.call(hurried).await.result.expect_err("busy");
    let expected = "no slot became free within the time the caller gave of 50ms; try again in";
    assert!(error.code == Code::Busy && error.message.contains(expected), "{}", error.message);
    // Another source is not concerned.
    assert_eq!(answer(&host, "other", json!({})).await, r#"{"result":"other of one other"}"#);
    spinning.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn loops_on_every_core_do_not_stop_the_others() {
    let host = Arc::new(host("wall_time_max = \"5m\"").await);
    let spinning: Vec<_> = (0..2)
        .map(|_| {
            let host = Arc::clone(&host);
            tokio::spawn(async move { call(&host, "spin", json!({})).await })
        })
        .collect();
    let start = Instant::now();
    for _ in 0..20 {
        assert_eq!(answer(&host, "echo", json!({ "text": "a" })).await, r#"{"result":"a"}"#);
    }
    assert!(start.elapsed() < Duration::from_secs(200), "the loops hold the host");
    spinning.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn registration_bytes_max_obeyed() {
    let lab = Lab::new()
        .config("[limits]\nregistration_bytes_max = \"64 MiB\"")
        .with("x.wasm", registering("huge"));
    // Now it is the tool that breaks a rule, not the registration.
    assert!(lab.status("x.wasm").await.contains("left out `huge`: description of 10485760"));
}

#[tokio::test]
async fn tools_max_obeyed() {
    let lab =
        Lab::new().config("[limits]\ntools_max = 300").with("x.wasm", registering("many 300"));
    assert_eq!(lab.host().await.catalog().tools().len(), 301);
}

#[tokio::test]
async fn plugin_files_max() {
    let lab = Lab::new()
        .config("[limits]\nplugin_files_max = 2")
        .with("json.wasm", guest("json"))
        .with("a.txt", "");
    assert_eq!(lab.host().await.catalog().tools().len(), 3);
    let lab = lab.with("b.txt", "");
    let status = lab.status("plugins").await;
    assert_eq!(
        status,
        "the folder holds more than `plugin_files_max` of 2 files, so what is new there is not loaded; plugins need a folder of their own"
    );
}

/// What lies in the folders there is counted as well, and no more of it is looked at.
#[test]
fn plugin_files_max_of_script_folders() {
    let lab = Lab::new().config("[limits]\nplugin_files_max = 3\nscript_files_max = 5");
    let put = |name: &str| {
        let path = lab.plugins().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, "").expect("written");
    };
    for number in 0..20 {
        put(&format!("a/{number}.txt"));
        put(&format!("b/{number}.py"));
    }
    ["a/plugin.py", "b/plugin.py"].iter().for_each(|name| put(name));
    let listed = lab.run(&["list"]);
    assert!(listed.contains("plugins/b: it has more than `script_files_max` of 5"), "{listed}");
    assert!(!listed.contains("plugins/a: the folders"), "{listed}");
    (0..20).for_each(|number| put(&format!("a/more/{number}.txt")));
    let listed = lab.run(&["list"]);
    let too_many = "the folders in its plugins folder have more than 30 entries together, 10 times `plugin_files_max`; raise that";
    for name in ["a", "b"] {
        let refused = format!("plugins/{name}: {too_many}");
        assert!(listed.starts_with("exit 0") && listed.contains(&refused), "{listed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_per_core_max() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let lab = Lab::new()
        .config("[limits]\ncalls_per_core_max = 1\npermit_wait_max = \"100ms\"")
        .with("probe.wasm", guest("probe"))
        .with("other.wasm", registering("one other"));
    let host = Arc::new(lab.host().await);
    assert_eq!(answer(&host, "other", json!({})).await, r#"{"result":"other of one other"}"#);
    let spinning: Vec<_> = (0..cores)
        .map(|_| {
            let host = Arc::clone(&host);
            tokio::spawn(async move { call(&host, "spin", json!({})).await })
        })
        .collect();
    let half = cores.div_ceil(2);
    let calls = if half == 1 { "1 call".to_owned() } else { format!("{half} calls") };
    let busy = loop {
        if let Err(error) = call(&host, "other", json!({})).await.result {
            break error;
        }
    };
    assert_eq!(
        busy.message,
        format!(
            "busy: the host runs {calls} of projects that are not trusted, and lets {half} run, half of what `calls_per_core_max` lets run in all; no slot became free within `permit_wait_max` of 100ms; try again in 100ms"
        )
    );
    spinning.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_loops_are_refused_within_bounds() {
    let lab = Lab::new()
        .config("[limits]\nwall_time_max = \"2s\"\npermit_wait_max = \"200ms\"\nquarantine_failures_max = 100")
        .with("probe.wasm", guest("probe"))
        .with("other.wasm", registering("one other"));
    let host = Arc::new(lab.host().await);
    let loops: Vec<_> = (0..64)
        .map(|_| {
            let host = Arc::clone(&host);
            tokio::spawn(async move { call(&host, "spin", json!({})).await })
        })
        .collect();
    // Another source answers all the while.
    assert_eq!(answer(&host, "other", json!({})).await, r#"{"result":"other of one other"}"#);
    let (mut stopped, mut busy) = (0, 0);
    for spinning in loops {
        match spinning.await.expect("no panic").result.expect_err("no end").code {
            Code::Deadline => stopped += 1,
            Code::Busy => busy += 1,
            other => panic!("{other}"),
        }
    }
    assert_eq!((stopped, busy), (16, 48));
    assert_eq!(answer(&host, "echo", json!({ "text": "a" })).await, r#"{"result":"a"}"#);
}
