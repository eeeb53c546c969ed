//! Scripts that run: what of them is kept between calls, and what ends them.

use std::fs;
use std::sync::{Arc, Mutex};

use serde_json::json;
use tokio::sync::oneshot;
use toolhost::{Host, HostSettings};
use toolhost_core::tool::{Call, Code, ProgressSink};

use crate::support::client::PATIENCE;
use crate::support::{Lab, answer, call, guest};

/// A script in Python and one in JavaScript, with one tool each.
fn sayers() -> [(&'static str, &'static str); 2] {
    let python = "from toolhost import tool\n\n@tool()\ndef say_py() -> str:\n    \"\"\"Says.\"\"\"\n    return \"py\"\n";
    let javascript = "import { tool } from 'toolhost-sdk';\n\n/** Says. */\nexport function say_js() {\n  return 'js';\n}\n\ntool(say_js);\n";
    [("say_py", python), ("say_js", javascript)]
}

#[tokio::test]
async fn script_kept_bytes_max() {
    let [(_, python), (_, javascript)] = sayers();
    // How often a call of each asks the host for something.
    let asked = async |limit: &str| {
        let lab = Lab::new().config(limit).with("py.py", python).with("js.js", javascript);
        let host = lab.host().await;
        let mut asked = Vec::new();
        for (tool, said) in [("say_py", r#"{"result":"py"}"#), ("say_js", r#"{"result":"js"}"#)] {
            let outcome = call(&host, tool, json!({})).await;
            assert_eq!(outcome.to_json_text(), said);
            asked.push(outcome.usage.host_calls);
        }
        asked
    };
    let kept = asked("[limits]\nscript_kept_bytes_max = \"1 MiB\"").await;
    // What is not kept is made anew, of the modules, for each call.
    let anew: Vec<u64> = kept.iter().map(|calls| calls + 1).collect();
    assert_eq!(asked("[limits]\nscript_kept_bytes_max = 10").await, anew);
    assert_eq!(asked("").await, kept);
}

/// Waits for a file, after it has said that it runs.
const WAITS: &str = r#"import os
import time

from toolhost import need, progress, tool

need.read_directory("*")


@tool()
def wait_for(path: str) -> str:
    """Waits for a file."""
    progress(1)
    while not os.path.exists(path):
        time.sleep(0.01)
    return "it is there"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_script_that_is_removed_during_a_call_ends_it_with_its_answer() {
    let lab = Lab::new().with("waits.py", WAITS);
    let gate = lab.home().join("gate");
    fs::create_dir(&gate).expect("a folder");
    let host = Host::start(HostSettings { once: false, ..lab.settings() }).expect("a host");
    let host = Arc::new(host);
    host.loaded().await;
    let (begun, has_begun) = oneshot::channel();
    let begun = Mutex::new(Some(begun));
    let hear = move |_| {
        if let Some(begun) = begun.lock().expect("no panic").take() {
            begun.send(()).expect("heard");
        }
    };
    let calling = Call {
        progress: Some(ProgressSink::new(hear)),
        dirs: vec![format!("{}=gate:ro", gate.display())],
        ..Call::new("wait_for", r#"{"path": "gate/open"}"#)
    };
    let running = Arc::clone(&host);
    let running = tokio::spawn(async move { running.call(calling).await });
    let begun = tokio::time::timeout(PATIENCE, has_begun).await.expect("in time");
    begun.expect("it runs");

    fs::remove_file(lab.plugins().join("waits.py")).expect("removed");
    let mut sources = host.sources();
    let gone = sources.wait_for(|shown| shown.statuses.is_empty());
    tokio::time::timeout(PATIENCE, gone).await.expect("in time").expect("a host");
    assert!(!running.is_finished());
    fs::write(gate.join("open"), "").expect("written");
    let outcome = running.await.expect("no panic");
    assert_eq!(outcome.to_json_text(), r#"{"result":"it is there"}"#);
    let error = call(&host, "wait_for", json!({ "path": "gate/open" })).await.result;
    assert_eq!(error.expect_err("gone").code, Code::UnknownTool);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_whose_import_never_ends_is_not_loaded_and_others_are() {
    let [(_, python), (_, javascript)] = sayers();
    let lab = Lab::new()
        .config("[limits]\nregister_time_max = \"4s\"")
        .with("py.py", python)
        .with("js.js", javascript)
        .with("json.wasm", guest("json"));
    fs::create_dir(lab.plugins().join("slow")).expect("a folder");
    let lab = lab
        .with("slow/plugin.py", "import forever\n")
        .with("slow/forever.py", "while True:\n    pass\n")
        .with("endless.js", "for (;;) {}\n");
    let host = lab.host().await;
    for status in host.loaded().await.iter() {
        let name = status.location.short();
        let name = name.split('.').next().unwrap_or_default().to_owned();
        let reason = status.state.as_ref().err().cloned();
        match name.as_str() {
            "slow" | "endless" => assert_eq!(
                reason.map(|failed| failed.to_string()).as_deref(),
                Some(
                    "`register` did not return within `register_time_max` of 4s; the plugin must not loop or wait there"
                ),
                "{name}"
            ),
            _ => assert_eq!(reason, None, "{name}"),
        }
    }
    assert_eq!(answer(&host, "say_py", json!({})).await, r#"{"result":"py"}"#);
    assert_eq!(answer(&host, "say_js", json!({})).await, r#"{"result":"js"}"#);
    let query = json!({ "filter": ".", "json": 1 });
    assert_eq!(answer(&host, "json_query", query).await, r#"{"results":[1],"truncated":false}"#);
}
