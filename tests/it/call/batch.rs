//! Several calls at once, through the library and through `call --batch`.

use std::time::{Duration, Instant};

use expect_test::expect;
use serde_json::json;
use toolhost::Host;
use toolhost_core::tool::{Call, Outcome};

use crate::call::sessions::session;
use crate::support::{Lab, guest, made};

async fn probe(limits: &str) -> Host {
    let config = format!("[limits]\n{limits}");
    Lab::new().config(&config).with("probe.wasm", guest("probe")).host().await
}

fn sleep(ms: u64) -> Call {
    Call::new("sleep", json!({ "n": ms }).to_string())
}

#[tokio::test]
async fn results_of_a_batch_share_the_turns_budget() {
    let big =
        |name: &str, count: u32| json!({ "name": name, "answer": { "repeat": ["x", count] } });
    let config = "[limits]\nturn_chars_max = 10500";
    let tools = json!([big("four", 4_000), big("six", 6_000)]);
    let lab = Lab::new().config(config).with("x.wasm", made(&json!({ "tools": tools })));
    let host = lab.host().await;
    let calls = ["four", "six", "four"].map(|name| Call::new(name, "")).to_vec();
    let outcomes = host.batch(&session(&host), calls).await;
    let is_kept = |outcome: &Outcome| outcome.to_json_text().contains("persisted-output");
    // The largest goes first, and then the rest fits.
    assert_eq!(outcomes.iter().map(is_kept).collect::<Vec<_>>(), [false, true, false]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_keeps_its_order_and_goes_side_by_side() {
    let host = probe("").await;
    let session = session(&host);
    let echo = |text: &str| Call::new("echo", json!({ "text": text }).to_string());
    let calls = vec![
        sleep(1_000),
        sleep(1_000),
        sleep(1_000),
        sleep(1_000),
        echo("a"),
        Call::new("no", ""),
    ];
    let start = Instant::now();
    let outcomes = host.batch(&session, calls).await;
    let wall = start.elapsed();
    let sum: Duration = outcomes.iter().map(|outcome| outcome.elapsed).sum();
    assert!(wall * 2 < sum, "one after the other: {wall:?} for calls of {sum:?}");
    let texts: Vec<String> = outcomes.iter().map(Outcome::to_json_text).collect();
    assert_eq!(texts[4], r#"{"result":"a"}"#);
    assert!(texts[5].contains("Unknown tool: no"));
    assert!(texts[..4].iter().all(|text| text == r#"{"result":"awake"}"#), "{texts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_ends_in_time() {
    let host = probe("batch_time_max = \"3s\"").await;
    let calls = vec![Call::new("echo", r#"{"text": "a"}"#), Call::new("spin", "{}")];
    let outcomes = host.batch(&session(&host), calls).await;
    assert_eq!(outcomes[0].to_json_text(), r#"{"result":"a"}"#);
    let late = outcomes[1].to_json_text();
    assert!(
        late.starts_with(r#"{"error":"Error executing tool 'spin': timed out after "#),
        "{late}"
    );
    assert!(late.contains(r#""code":"deadline""#));
}

#[tokio::test]
async fn a_line_can_read_what_one_before_it_kept() {
    let tools = json!([{ "name": "big", "answer": { "repeat": ["x", 3_000] }, "max_result_size_chars": 2_500 }, { "name": "clarify" }]);
    let lab = Lab::new().with("x.wasm", made(&json!({ "tools": tools })));
    crate::support::bundled(&lab, "x", &made(&json!({ "tools": tools })));
    let host = lab.host().await;
    let read = json!({ "id": "big-1", "offset": 2_990 }).to_string();
    let calls =
        vec![Call::new("big", ""), Call::new("clarify", ""), Call::new("result_read", read)];
    let outcomes = host.batch(&session(&host), calls).await;
    assert_eq!(
        outcomes[2].to_json_text(),
        r#"{"text":"xxxxxxxxxx","offset":2990,"total_chars":3000,"next_offset":null}"#
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn batch_calls_max() {
    let host = probe("batch_calls_max = 2").await;
    let start = Instant::now();
    let outcomes = host.batch(&session(&host), vec![sleep(300), sleep(300), sleep(300)]).await;
    assert!(outcomes.iter().all(|outcome| outcome.result.is_ok()));
    // The third waits for one of the others.
    assert!(start.elapsed() >= Duration::from_millis(600), "{:?}", start.elapsed());
}

/// The lines printed for a batch on stdin: exit code, then tool and answer of each.
fn printed(lab: &Lab, lines: &str) -> String {
    let output = lab.run_with(&["call", "--batch", "-"], lines);
    let (code, rest) = output.split_once("\n--- stdout\n").expect("a code");
    let (stdout, stderr) = rest.split_once("--- stderr\n").expect("stderr");
    let shown = stdout.lines().map(|line| {
        let outcome: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let answer = outcome.get("error").unwrap_or(&outcome["content"]);
        format!("{} {answer}\n", outcome["tool"])
    });
    format!("{code}\n{}{stderr}", shown.collect::<String>())
}

#[test]
fn every_line_has_its_outcome() {
    let lab = Lab::new().with("x.wasm", made(&json!({ "tools": [{ "name": "say" }] })));
    let lines = r#"{"tool": "say", "arguments": {"a": 1}, "id": "c1"}
{"tool": "say", "arguments": "{\"a\": 2,}"}

{"tool": "nobody"}
garbage
{"tool": "say", "argument": {}}
{"tool": "say"}"#;
    expect![[r#"
        exit 3
        "say" [{"type":"json","json":{"a":1}}]
        "say" [{"type":"json","json":{"a":2}}]
        "nobody" {"error":"Unknown tool: nobody","code":"unknown_tool","near":[]}
        "" {"error":"line 5 is not a call: expected value at line 1 column 1; write {\"tool\": \"NAME\", \"arguments\": {}, \"id\": 1}","code":"invalid_arguments","line":5}
        "" {"error":"line 6 is not a call: unknown field `argument`, expected one of `tool`, `arguments`, `id` at line 1 column 26; write {\"tool\": \"NAME\", \"arguments\": {}, \"id\": 1}","code":"invalid_arguments","line":6}
        "say" [{"type":"json","json":{}}]
         WARN toolhost_kernel::dispatch: `say` was called with a repair: removed 1 trailing comma
    "#]].assert_eq(&printed(&lab, lines));
    expect![[r#"
        exit 0
    "#]]
    .assert_eq(&printed(&lab, ""));
}

#[test]
fn ids_come_back_as_they_were_given() {
    let lab = Lab::new().with("x.wasm", made(&json!({ "tools": [{ "name": "say" }] })));
    let exact = ["18446744073709551615", "-9223372036854775808", "1.5", "\"1\""];
    let beyond = ["18446744073709551616", "-9223372036854775809", "123456789012345678901234567890"];
    let line = |id: &&str| format!("{{\"tool\": \"say\", \"id\": {id}}}\n");
    let lines: String = exact.iter().chain(&beyond).map(line).collect();
    let output = lab.run_with(&["call", "--batch", "-"], &lines);
    let lines: Vec<&str> = output.lines().filter(|line| line.starts_with('{')).collect();
    assert_eq!(lines.len(), exact.len() + beyond.len(), "{output}");
    for (line, id) in lines.iter().zip(exact) {
        assert!(line.starts_with(&format!("{{\"id\":{id},")), "{line}");
    }
    for line in &lines[exact.len()..] {
        assert!(line.contains("is beyond 64 bits and would change"), "{line}");
        assert!(!line.contains("\"id\":"), "{line}");
    }
}

#[test]
fn what_has_no_end_is_not_read_to_its_end() {
    let lab = Lab::new().with("x.wasm", made(&json!({ "tools": [{ "name": "say" }] })));
    std::os::unix::fs::symlink("/dev/zero", lab.work().join("zero")).expect("a link");
    let allowed = "has more than the 1048576 bytes that `arguments_bytes_max` allows";
    for arguments in [&["call", "say", "@zero"][..], &["call", "say", "--arg", "a=@zero"]] {
        let said = lab.run(arguments);
        assert!(said.starts_with("exit 2\n"), "{said}");
        assert!(said.contains(&format!("error: the file zero {allowed}")), "{said}");
    }
    let said = lab.run_with(&["call", "say", "-"], &" ".repeat((1 << 20) + 1));
    assert!(said.starts_with("exit 2\n") && said.contains(&format!("stdin {allowed}")), "{said}");
    let said = lab.run(&["call", "--batch", "zero"]);
    expect![[r#"
        exit 2
        --- stdout
        --- stderr
        error: line 1 of the file zero has more than 16777216 bytes, which no call has with arguments within `arguments_bytes_max` of 1048576
    "#]]
    .assert_eq(&said);
    // A pipe and a link to a file are as good as a file.
    std::fs::write(lab.work().join("a.json"), "{\"a\": 1}").expect("written");
    std::os::unix::fs::symlink("a.json", lab.work().join("link")).expect("a link");
    assert!(lab.run(&["call", "say", "@link"]).starts_with("exit 0"));
    assert!(lab.run_with(&["call", "say", "@/dev/stdin"], "{}").starts_with("exit 0"));
}

#[test]
fn batch_lines_max() {
    let lab = Lab::new()
        .config("[limits]\nbatch_lines_max = 2")
        .with("x.wasm", made(&json!({ "tools": [{ "name": "say" }] })));
    let line = "{\"tool\": \"say\"}\n";
    assert!(printed(&lab, &line.repeat(2)).starts_with("exit 0\n"));
    expect![[r#"
        exit 2
        error: stdin has more calls than `batch_lines_max` of 2; split it
    "#]]
    .assert_eq(&printed(&lab, &line.repeat(3)));
    expect![[r#"
        exit 2
        --- stdout
        --- stderr
        error: the file nowhere.jsonl cannot be read: No such file or directory (os error 2)
    "#]]
    .assert_eq(&lab.run(&["call", "--batch", "nowhere.jsonl"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn guardrails_count_in_the_order_of_the_calls() {
    let tools = json!({ "tools": [{ "name": "fails", "answer": { "fail": "no" } }] });
    let lab = Lab::new().with("x.wasm", made(&tools));
    let host = lab.host().await;
    for _ in 0..20 {
        let calls = (0..20).map(|_| Call::new("fails", "{}")).collect();
        let outcomes = host.batch(&session(&host), calls).await;
        for (place, outcome) in outcomes.iter().enumerate() {
            let text = outcome.to_json_text();
            let expected = match place {
                0 => "{\"error\":\"[TOOL_ERROR] no\",\"code\":\"failed\"}".to_owned(),
                _ => format!("count={};", place + 1),
            };
            assert!(text.contains(&expected), "{place}: {text}");
        }
    }
    // Where calls are refused, those before count too.
    let config = "[guardrails]\nhard_stop_enabled = true\nhard_stop_after = { exact_failure = 3 }";
    let host = Lab::new().config(config).with("x.wasm", made(&tools)).host().await;
    let calls = (0..20).map(|_| Call::new("fails", "{}")).collect();
    let outcomes = host.batch(&session(&host), calls).await;
    let refused = outcomes.iter().map(|outcome| outcome.to_json_text().contains("_block\""));
    assert!(refused.enumerate().all(|(place, refused)| refused == (place >= 3)));
}
