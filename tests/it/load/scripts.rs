//! Scripts as plugins, and what is built of them: the same whichever way they run. And components
//! of language runtimes without an SDK: large, many core modules, and all of WASI imported.

use std::fs;
use std::path::Path;

use expect_test::expect;
use serde_json::{Value, json};
use toolhost_author::{self as author, BuildRequest, Built, Places};
use toolhost_core::tool::Code;

use crate::support::{Lab, answer, call, places, script};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// A script that has a bit of everything, by its extension.
fn mixed(extension: &str) -> String {
    let file = Path::new(ROOT).join("tests/it/load/scripts/mixed").with_extension(extension);
    fs::read_to_string(file).expect("a script")
}

fn request(source: &Path, out: &Path) -> BuildRequest {
    BuildRequest {
        source: source.to_owned(),
        out: out.to_owned(),
        places: places(),
        environment: std::env::vars_os().collect(),
        ..BuildRequest::default()
    }
}

/// Builds a component of a script, into another lab.
async fn baked(source: &Path) -> Lab {
    let lab = Lab::new();
    let built: Vec<Built> = author::build(&request(source, &lab.plugins()))
        .await
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(built.len(), 1);
    lab
}

/// What `inspect` says of the only plugin of a lab, without what differs by its nature.
fn inspected(lab: &Lab) -> Value {
    let entry = fs::read_dir(lab.plugins()).expect("a folder").next().expect("a plugin");
    let path = entry.expect("an entry").path();
    let printed = lab.run(&["inspect", "--json", &path.to_string_lossy()]);
    let (_, rest) = printed.split_once("--- stdout\n").expect("stdout");
    let (shown, _) = rest.split_once("--- stderr\n").expect("stderr");
    let mut shown: Value = serde_json::from_str(shown).unwrap_or_else(|_| panic!("{printed}"));
    for differs in ["file", "digest", "bytes", "script", "made_with", "imports", "exports"] {
        shown.as_object_mut().expect("an object").remove(differs);
    }
    shown
}

/// Checks that a script and its component say the same of themselves, and answer alike.
async fn alike(lab: Lab, name: &str, calls: &[(&str, Value)]) {
    let component = baked(&lab.plugins().join(name)).await;
    let registered = inspected(&lab);
    let shown = |value: &Value| serde_json::to_string_pretty(value).expect("JSON");
    assert_eq!(shown(&registered), shown(&inspected(&component)));
    let (left, right) = (lab.host().await, component.host().await);
    let examples = registered["tools"].as_array().expect("tools").iter().flat_map(|tool| {
        let examples = tool["examples"].as_array().cloned().unwrap_or_default();
        examples.into_iter().map(|example| (tool["name"].clone(), example["arguments"].clone()))
    });
    let calls = calls.iter().map(|(tool, arguments)| (json!(tool), arguments.clone()));
    let mut count = 0;
    for (tool, arguments) in examples.chain(calls) {
        let tool = tool.as_str().expect("a name");
        let here = call(&left, tool, arguments.clone()).await;
        let there = call(&right, tool, arguments.clone()).await;
        assert_eq!(here.to_json_text(), there.to_json_text(), "{tool} {arguments}");
        assert_eq!(here.refusals.len(), there.refusals.len(), "{tool} {arguments}");
        count += 1;
    }
    assert!(count > 2, "{registered}");
}

/// Calls of every tool of `mixed`, and every way to fail.
fn calls(ways: &[&str]) -> Vec<(&'static str, Value)> {
    let mut calls = vec![
        ("repeat", json!({ "text": "a", "mode": "loud" })),
        ("repeat", json!({ "text": "a", "times": 10 })),
        ("repeat", json!({ "txt": "a" })),
        ("locate", json!({ "place": { "city": "ulm" } })),
        ("locate", json!({ "place": { "city": "ulm", "zip": "x" }, "tags": [1] })),
        ("show", json!({})),
        ("count", json!({ "by": 3 })),
        ("ask", json!({ "url": "http://localhost:9/" })),
        ("greet", json!({})),
        ("never", json!({})),
    ];
    calls.extend(ways.iter().map(|how| ("fail", json!({ "how": how }))));
    calls
}

#[tokio::test]
async fn a_python_script_and_its_component_behave_alike() {
    let ways = ["say", "arguments", "away", "crash", "cause", "exit"];
    alike(Lab::new().with("mixed.py", mixed("py")), "mixed.py", &calls(&ways)).await;
    let nothing = ("csv_query", json!({ "path": "/nowhere.csv" }));
    let column = ("csv_query", json!({ "text": "a\n1\n", "select": ["b"] }));
    alike(Lab::new().with_folder("plugins/csv-query"), "csv-query", &[nothing, column]).await;
}

#[tokio::test]
async fn a_javascript_script_and_its_component_behave_alike() {
    let ways = ["say", "arguments", "away", "crash", "cause", "reject"];
    alike(Lab::new().with("mixed.js", mixed("js")), "mixed.js", &calls(&ways)).await;
    let wrong = ("html_to_markdown", json!({ "html": "a", "base_url": "b" }));
    alike(Lab::new().with_folder("plugins/html-to-markdown"), "html-to-markdown", &[wrong]).await;
}

#[tokio::test]
async fn what_cannot_be_built_says_why() {
    let lab = Lab::new();
    let source = |name: &str, text: &str| {
        let path = lab.work().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(&path, text).expect("written");
        path
    };
    let refused = async |source: &Path, change: fn(&mut BuildRequest)| {
        let mut request = request(source, &lab.plugins());
        change(&mut request);
        let error = author::build(&request).await.expect_err("refused").to_string();
        let error = error.replace(&*lab.work().to_string_lossy(), "WORK");
        let sdk = fs::canonicalize(Path::new(ROOT).join("sdk")).expect("the SDKs");
        error.replace(&*sdk.to_string_lossy(), "SDK")
    };
    let python = source("words.py", "import numpy\n");
    let javascript = source("words.js", "import x from 'lodash';\n");
    let broken = source("broken.py", "def x(:\n");
    let syntax = source("broken.mjs", "let = ;\n");
    source("both/plugin.py", "");
    let both = source("both/plugin.js", "");
    let other = source("README.md", "");
    fs::write(lab.plugins().join("taken.js"), "").expect("written");
    let taken = source("Taken.py", "");
    let same: fn(&mut BuildRequest) = |_| {};
    let said = [
        refused(&python, same).await,
        refused(&broken, same).await,
        refused(&javascript, same).await,
        refused(&syntax, same).await,
        refused(both.parent().expect("a folder"), same).await,
        refused(&other, same).await,
        refused(&taken, same).await,
        refused(&lab.work().join("none"), same).await,
        refused(&javascript, |request| request.packages = vec!["x".into()]).await,
        refused(&python, |request| request.places = Places::default()).await,
        refused(&python, |request| request.places.sdks = vec!["/a".into(), "/b".into()]).await,
        refused(&python, |request| {
            request.places.tools = vec!["/a".into(), "/b".into()];
            request.environment.clear();
        })
        .await,
        refused(&javascript, |request| request.places.tools = vec!["/a".into()]).await,
        refused(&javascript, |request| request.environment.clear()).await,
    ];
    assert_eq!(fs::read_dir(lab.plugins()).expect("a folder").count(), 1, "nothing is written");
    expect![[r#"
        WORK/words.py cannot be built: words.py:1: no module named 'numpy': it is neither a module of the script nor installed where this was built
        WORK/broken.py cannot be built: broken.py:1: SyntaxError: invalid syntax
        WORK/words.js cannot be built: Could not resolve "lodash": a package that the script imports must be installed in its folder or one above, and must not need Node.js
        WORK/broken.mjs cannot be built: broken.mjs:1: SyntaxError: Unexpected strict mode reserved word
        `plugin.py` and `plugin.js` could all be the main file; keep one
        WORK/README.md is nothing to build; name a folder with Cargo.toml (Rust), plugin.py (Python) or plugin.js, .mjs or .ts (JavaScript), or the file of a script
        WORK/plugins has the script `taken.js`; beside it `taken.wasm` would have the same plugin id, and neither would be loaded. Put the component elsewhere, with `--out dist`
        WORK/none: No such file or directory (os error 2)
        `--packages` is for Python alone: cargo takes packages from Cargo.toml, and npm puts them beside a script
        a Python script is built with the SDK in `sdk/python` of toolhost's repository, and there is none (it was looked for nowhere); run `make install` in a clone of it, or name its folder with `--sdk`
        a Python script is built with the SDK in `sdk/python` of toolhost's repository, and there is none (looked into /a and /b); run `make install` in a clone of it, or name its folder with `--sdk`
        componentize-py, which builds Python plugins, is not installed; run `sh SDK/python/tools.sh /b/python`, then build again
        componentize-js, which builds JavaScript plugins, is not installed; run `sh SDK/javascript/tools.sh /a/javascript`, then build again
        Node.js 20 or later, which builds JavaScript plugins, is not installed; run `apt-get install nodejs npm`, then build again
    "#]].assert_eq(&(said.join("\n") + "\n"));
}

#[tokio::test]
async fn components_without_an_sdk_load_and_answer() {
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
