//! Components of language runtimes: large, many core modules, and all of WASI imported.

use serde_json::{Value, json};
use toolhost::tool::Code;

use crate::support::{Lab, answer, call, script};

#[tokio::test]
async fn python_and_javascript_load_and_answer() {
    let lab = Lab::new()
        .with("words-py.wasm", script("words-py"))
        .with("words-js.wasm", script("words-js"));
    let host = lab.host().await;
    for (tool, failed) in [("count_words_py", "words-py"), ("count_words_js", "words-js")] {
        let ask = async |text: &str| answer(&host, tool, json!({ "text": text })).await;
        let words: Value = serde_json::from_str(&ask("one two three").await).expect(failed);
        assert_eq!(words, json!({ "words": 3 }), "{tool}");
        assert_eq!(
            ask("fail").await,
            r#"{"error":"[TOOL_ERROR] the script says no","code":"failed"}"#
        );
        let crash = call(&host, tool, json!({ "text": "crash" })).await;
        let crash = crash.result.expect_err("a crash");
        assert_eq!(crash.code, Code::Trap);
        let stderr = crash.stderr.expect("a traceback");
        assert!(stderr.contains("the script crashed"), "{stderr}");
        let found: Value = serde_json::from_str(&ask("peek").await).expect(failed);
        assert_eq!(found["network"], false, "{tool}: {found}");
        assert!(found["root"].is_null(), "{tool}: {found}");
    }
}
