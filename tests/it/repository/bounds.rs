//! Every limit is held by two tests, and can be set within its range and not beyond.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use toolhost_core::limits::{LimitRow, Limits};
use toolhost_core::tool::{Call, Outcome};

use crate::call::sessions::session;
use crate::support::{Lab, call, guest, made};

/// For each limit, the test in which it is obeyed and the one in which it is violated: functions
/// of modules in `tests`, or of files of a crate: `kernel/quarantine` is `host/crates/kernel/src/quarantine.rs`. Where it is one function, it does both.
const HELD: &[(&str, &str, &str)] = &[
    ("wall_time_max", "call::limits::wall_time_max_obeyed", "call::limits::wall_time_max_violated"),
    ("register_time_max", "call::limits::tools_max_obeyed", "call::misbehaving::endless_loops"),
    ("check_time_max", CHECKED, "call::misbehaving::checks_that_misbehave"),
    ("describe_time_max", DESCRIBED, DESCRIBED),
    ("hook_time_max", "call::hooks::a_request_hook_rewrites_what_is_then_checked", HOOKS_CLOSED),
    ("approval_time_max", "call::hooks::a_human_is_asked_once_or_for_the_session", NO_SILENCE),
    ("batch_calls_max", "call::batch::batch_calls_max", "call::batch::batch_calls_max"),
    ("batch_lines_max", "call::batch::batch_lines_max", "call::batch::batch_lines_max"),
    ("batch_time_max", BATCH, "call::batch::a_batch_ends_in_time"),
    (
        "result_chars_max",
        "repository::bounds::result_chars_max",
        "repository::bounds::result_chars_max",
    ),
    ("turn_chars_max", TURN, TURN),
    ("results_bytes_max", "kernel/session/results/tests::results_bytes_max_obeyed", RESULTS),
    ("memory_bytes_max", "call::limits::memory_bytes_max", "call::limits::memory_bytes_max"),
    (
        "memory_all_bytes_max",
        "call::memory::memory_all_bytes_max",
        "call::memory::memory_all_bytes_max",
    ),
    (
        "table_elements_max",
        "call::misbehaving::table_elements_max",
        "call::misbehaving::table_elements_max",
    ),
    ("stack_bytes_max", "call::limits::stack_bytes_max", "call::limits::stack_bytes_max"),
    (
        "arguments_bytes_max",
        "call::limits::arguments_bytes_max",
        "call::limits::arguments_bytes_max",
    ),
    ("output_bytes_max", "call::limits::output_bytes_max", "call::limits::output_bytes_max"),
    ("error_bytes_max", "call::limits::error_bytes_max", "call::limits::error_bytes_max"),
    ("registration_bytes_max", "call::limits::registration_bytes_max_obeyed", LIES),
    ("tools_max", "call::limits::tools_max_obeyed", LIES),
    ("description_bytes_max", RULES, RULES),
    ("schema_bytes_max", SCHEMAS, SCHEMAS),
    ("schema_depth_max", SCHEMAS, SCHEMAS),
    ("schema_pattern_bytes_max", SCHEMAS, SCHEMAS),
    ("schema_expanded_bytes_max", SCHEMAS, SCHEMAS),
    ("schema_patterns_bytes_max", SCHEMAS, SCHEMAS),
    ("schemas_bytes_max", "call::schemas::schemas_bytes_max", "call::schemas::schemas_bytes_max"),
    ("schemas_time_max", "call::schemas::schemas_time_max", "call::schemas::schemas_time_max"),
    ("schema_check_time_max", "call::schemas::a_caller_brings_no_plugin_into_quarantine", CHECKS),
    ("schema_check_memory_bytes_max", CHECK_MEMORY, CHECK_MEMORY),
    ("component_bytes_max", "repository::bounds::component_bytes_max_obeyed", TOO_LARGE),
    ("compile_cpu_time_max", COMPILED, "load::compiling::compile_cpu_time_max_violated"),
    ("compile_time_max", COMPILED, "load::compiling::compile_time_max_violated"),
    ("compile_memory_bytes_max", COMPILED, "load::compiling::compile_memory_bytes_max_violated"),
    ("code_bytes_max", COMPILED, "load::compiling::code_bytes_max_violated"),
    (
        "cache_bytes_max",
        "load::compiling::cache_bytes_max_obeyed",
        "load::compiling::cache_bytes_max_violated",
    ),
    ("untrusted_cache_bytes_max", STRANGERS_CACHE, STRANGERS_CACHE),
    (
        "untrusted_bytes_max",
        "trust::strangers::untrusted_bytes_max",
        "trust::strangers::untrusted_bytes_max",
    ),
    ("untrusted_code_bytes_max", STRANGERS_CODE, STRANGERS_CODE),
    (
        "untrusted_compile_time_max",
        COMPILED,
        "trust::strangers::untrusted_compile_time_max_violated",
    ),
    ("untrusted_register_time_max", STRANGERS_REGISTER, STRANGERS_REGISTER),
    ("untrusted_schemas_bytes_max", STRANGERS_SCHEMAS, STRANGERS_SCHEMAS),
    ("untrusted_schemas_time_max", STRANGERS_SCHEMAS, STRANGERS_SCHEMAS),
    ("log_lines_max", LOG, LOG),
    ("log_bytes_max", LOG, LOG),
    ("progress_per_second_max", "call::limits::progress_per_second_max", PROGRESS),
    ("host_calls_max", "call::limits::host_calls_max", "call::limits::host_calls_max"),
    ("http_request_bytes_max", REQUEST_BYTES, REQUEST_BYTES),
    ("http_response_bytes_max", RESPONSE_BYTES, RESPONSE_BYTES),
    ("http_head_bytes_max", "sandbox::egress::bounds::http_head_bytes_max", HEAD_BYTES),
    ("http_connect_time_max", "sandbox::egress::bounds::http_head_bytes_max", CONNECT),
    ("http_requests_max", REQUESTS, REQUESTS),
    (
        "http_requests_at_once_max",
        AT_ONCE,
        "sandbox::hostile::network::http_requests_at_once_max_violated",
    ),
    ("kv_entries_max", "sandbox::kv::kv_entries_max", "sandbox::kv::kv_entries_max"),
    ("kv_value_bytes_max", "sandbox::kv::kv_value_bytes_max", "sandbox::kv::kv_value_bytes_max"),
    ("kv_bytes_max", "sandbox::kv::kv_bytes_max", "sandbox::kv::kv_bytes_max"),
    ("kept_builds_max", REMEMBERED, REMEMBERED),
    ("kept_builds_bytes_max", "state/store/builds::the_oldest_make_way", KEPT_BYTES),
    ("refusals_max", "repository::bounds::refusals_max", "repository::bounds::refusals_max"),
    ("stuck_opens_max", STUCK, STUCK),
    (
        "stderr_bytes_max",
        "repository::bounds::stderr_bytes_max",
        "repository::bounds::stderr_bytes_max",
    ),
    ("calls_per_core_max", "call::overload::waiting_max", "call::limits::calls_per_core_max"),
    ("calls_per_source_max", "call::overload::waiting_per_source_max", PERMITS),
    ("waiting_per_source_max", WAITING, WAITING),
    ("waiting_max", "call::overload::waiting_max", "call::overload::waiting_max"),
    ("permit_wait_max", "call::overload::waiting_per_source_max", PERMITS),
    ("quarantine_failures_max", TRIAL, "call::quarantine::the_program_remembers_from_call_to_call"),
    ("quarantine_window", THREE, THREE),
    ("quarantine_time", TRIAL, TRIAL),
    ("quarantine_time_max", DOUBLED, DOUBLED),
    ("list_wait_max", "mcp::serve::greetings_come_before_plugins_are_compiled", LISTS),
    ("requests_max", WAIT, WAIT),
    ("requests_bytes_max", WAIT_BYTES, WAIT_BYTES),
    ("answers_bytes_max", ANSWERS, ANSWERS),
    ("audit_queue_max", "cli::audit::processes_share_it", AUDIT_QUEUE),
    ("audit_file_bytes_max", "cli::audit::processes_share_it", AUDIT_FILES),
    ("audit_bytes_max", "cli::audit::processes_share_it", AUDIT_FILES),
    ("audit_used_max", AUDIT_USED, AUDIT_USED),
    ("drain_time_max", DRAINED, "load::reload::drain_time_max_stops_calls_of_a_replaced_plugin"),
    ("examples_time_max", "load::reload::examples_are_a_gate", "load::reload::examples_time_max"),
    ("script_bytes_max", SCRIPT_BYTES, SCRIPT_BYTES),
    ("script_files_max", SCRIPT_BYTES, SCRIPT_BYTES),
    ("script_kept_bytes_max", "load::scripted::running::script_kept_bytes_max", SCRIPT_KEPT),
    ("plugin_files_max", "call::limits::plugin_files_max", "call::limits::plugin_files_max"),
];

const DRAINED: &str = "load::reload::calls_under_way_end_on_the_old_code";
const SCRIPT_BYTES: &str = "wasm/script/tests::what_is_no_script_says_why";
const SCRIPT_KEPT: &str =
    "wasm/instance/script::what_is_kept_counts_as_memory_of_guests_and_is_given_back";
const CHECKED: &str = "call::availability::a_tool_whose_check_says_no_is_refused_with_the_reason";
const DESCRIBED: &str = "call::sessions::a_definition_may_depend_on_what_is_visible";
const HOOKS_CLOSED: &str = "call::hooks::request_and_pre_call_fail_closed";
const NO_SILENCE: &str = "call::hooks::a_no_silence_and_nobody_refuse";
const BATCH: &str = "call::batch::a_batch_keeps_its_order_and_goes_side_by_side";
const TURN: &str = "call::batch::results_of_a_batch_share_the_turns_budget";
const RESULTS: &str = "kernel/session/results/tests::results_bytes_max_violated";
const LIES: &str = "call::misbehaving::lies_of_register";
const RULES: &str = "load::loading::tools_that_break_a_rule_are_left_out_alone";
const SCHEMAS: &str = "repository::bounds::schemas_are_bounded";
const CHECKS: &str = "call::schemas::a_check_that_takes_too_long_is_the_plugins_fault";
const CHECK_MEMORY: &str = "call::schemas::schema_check_memory_bytes_max";
const TOO_LARGE: &str = "load::loading::a_file_over_the_size_limit";
const COMPILED: &str = "load::compiling::a_component_is_compiled_by_a_process_of_its_own";
const STRANGERS_CACHE: &str = "trust::strangers::untrusted_cache_bytes_max";
const STRANGERS_CODE: &str = "trust::strangers::untrusted_code_bytes_max";
const STRANGERS_SCHEMAS: &str = "call::schemas::what_strangers_register_in_a_folder_has_a_total";
const STRANGERS_REGISTER: &str = "trust::strangers::untrusted_register_time_max";
const LOG: &str = "call::limits::log_lines_max_and_log_bytes_max";
const PROGRESS: &str = "wasm/instance/progress::the_rate_is_bounded_per_second";
const REQUEST_BYTES: &str = "sandbox::egress::bounds::http_request_bytes_max";
const RESPONSE_BYTES: &str = "sandbox::egress::bounds::http_response_bytes_max";
const HEAD_BYTES: &str = "sandbox::egress::bounds::http_head_bytes_max";
const CONNECT: &str = "sandbox::egress::bounds::http_connect_time_max";
const REQUESTS: &str = "sandbox::hostile::network::requests_are_counted_and_bounded";
const AT_ONCE: &str = "sandbox::hostile::network::http_requests_at_once_max_obeyed";
const STUCK: &str = "wasm/capability/dirs/files/stuck::stuck_opens_max";
const REMEMBERED: &str = "trust::pins::what_was_seen_is_remembered";
const KEPT_BYTES: &str = "trust::pins::kept_builds_are_bounded_in_bytes";
const AUDIT_QUEUE: &str = "state/audit/tests::what_does_not_fit_into_the_queue_is_a_gap";
const AUDIT_FILES: &str = "state/audit/tests::a_full_file_makes_way_and_the_oldest_is_removed";
const AUDIT_USED: &str = "core/tool/outcome::audit_used_max";
const PERMITS: &str = "call::limits::calls_per_source_max_and_permit_wait_max";
const WAITING: &str = "call::overload::waiting_per_source_max";
const TRIAL: &str = "call::quarantine::one_call_is_let_through_and_success_ends_it";
const THREE: &str = "kernel/quarantine/tests::three_failures_within_a_minute";
const DOUBLED: &str = "kernel/quarantine/tests::a_trial_that_fails_doubles_up_to_ten_minutes";
const WAIT: &str = "mcp::serve::traffic::requests_max";
const WAIT_BYTES: &str = "mcp::serve::traffic::requests_bytes_max";
const ANSWERS: &str = "mcp/server/traffic::answers_bytes_max";
const LISTS: &str = "mcp::serve::clients_hear_of_another_list";

/// Tells whether there is a test of this name.
fn is_a_test(name: &str) -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (module, function) = name.rsplit_once("::").expect("a module");
    let file = match module.split_once('/') {
        Some((package, file)) => format!("host/crates/{package}/src/{file}.rs"),
        None => format!("tests/it/{}.rs", module.replace("::", "/")),
    };
    let text =
        fs::read_to_string(root.join(&file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    let mut attribute = "";
    for line in text.lines().map(str::trim) {
        let head = line.strip_prefix("async ").unwrap_or(line);
        if head.strip_prefix("fn ").is_some_and(|rest| rest.starts_with(&format!("{function}()"))) {
            return attribute == "#[test]" || attribute.starts_with("#[tokio::test");
        }
        attribute = line;
    }
    false
}

#[test]
fn every_limit_is_held_by_two_tests() {
    let held: Vec<&str> = HELD.iter().map(|(limit, ..)| *limit).collect();
    assert_eq!(held, Limits::NAMES);
    let tests: BTreeSet<&str> =
        HELD.iter().flat_map(|(_, obeyed, violated)| [*obeyed, *violated]).collect();
    for test in tests {
        assert!(is_a_test(test), "there is no test {test}");
    }
    assert!(!is_a_test("call::limits::host") && !is_a_test("call::limits::nothing"));
}

#[test]
fn every_limit_has_a_range() {
    let beyond = |text: &str, more: bool| -> Option<String> {
        if let Ok(count) = text.parse::<u64>() {
            return if more {
                Some((count + 1).to_string())
            } else {
                count.checked_sub(1).map(|n| n.to_string())
            };
        }
        if let Some((size, unit)) = text.split_once(' ') {
            let size: f64 = size.parse().expect("a size");
            let other = if more { size + 1.0 } else { size - 1.0 };
            return (size > 0.0).then(|| format!("{other} {unit}"));
        }
        match (text, more) {
            ("half", _) => None,
            (time, true) => Some(format!("{time} 1ms")),
            (_, false) => Some("0s".to_owned()),
        }
    };
    for LimitRow { name, least, most, .. } in Limits::default().rows() {
        for text in [&least, &most] {
            let mut limits = Limits::default();
            assert_eq!(limits.set(name, text), Ok(()), "{name}");
            let row = limits.rows().into_iter().find(|row| row.name == name).expect("a row");
            assert_eq!(&row.value, text, "{name}");
        }
        for text in [beyond(&least, false), beyond(&most, true)].into_iter().flatten() {
            let before = Limits::default();
            let mut limits = before.clone();
            let error = limits.set(name, &text).expect_err(name).to_string();
            assert_eq!(error, format!("`{name}` is {text}; allowed is {least} to {most}"));
            assert_eq!(limits, before, "{name}");
        }
    }
}

#[tokio::test]
async fn result_chars_max() {
    let say =
        |name: &str, count: u32| json!({ "name": name, "answer": { "repeat": ["x", count] } });
    let lab = Lab::new()
        .config("[limits]\nresult_chars_max = 1000")
        .with("x.wasm", made(&json!({ "tools": [say("fits", 1_000), say("more", 1_001)] })));
    let host = lab.host().await;
    let session = session(&host);
    let is_whole = |outcome: Outcome| !outcome.to_json_text().contains("persisted-output");
    assert!(is_whole(host.call_in(&session, Call::new("fits", "")).await));
    assert!(!is_whole(host.call_in(&session, Call::new("more", "")).await));
}

/// What becomes of a tool with this schema: it is registered, or why not.
async fn registered(limits: &str, schema: Value) -> String {
    let tools = json!({ "tools": [{ "name": "good" }, { "name": "x", "parameters": schema }] });
    let lab = Lab::new().config(&format!("[limits]\n{limits}")).with("x.wasm", made(&tools));
    lab.status("x.wasm").await
}

#[tokio::test]
async fn schemas_are_bounded() {
    let both = "tools: good x";
    let titled = |bytes: usize| {
        let empty = json!({ "title": "" }).to_string().len();
        json!({ "title": "x".repeat(bytes - empty) })
    };
    assert_eq!(registered("schema_bytes_max = \"1 KiB\"", titled(1_024)).await, both);
    let text = registered("schema_bytes_max = \"1 KiB\"", titled(1_025)).await;
    assert!(text.contains("`schema_bytes_max`"), "{text}");

    let nested = |levels: usize| (1..levels).fold(json!({}), |inner, _| json!({ "not": inner }));
    assert_eq!(registered("schema_depth_max = 4", nested(4)).await, both);
    let text = registered("schema_depth_max = 4", nested(6)).await;
    assert!(text.contains("`schema_depth_max`"), "{text}");

    let pattern =
        |length: usize| json!({ "properties": { "a": { "pattern": "a".repeat(length) } } });
    assert_eq!(registered("schema_pattern_bytes_max = 16", pattern(16)).await, both);
    let text = registered("schema_pattern_bytes_max = 16", pattern(17)).await;
    assert!(text.contains("`schema_pattern_bytes_max`"), "{text}");

    let copied = |times: usize| {
        let schema = (0..times).map(|n| (format!("p{n}"), json!({ "$ref": "#/$defs/e" })));
        let properties: Value = Value::Object(schema.collect());
        json!({ "$defs": { "e": { "enum": ["a", "b", "c"] } }, "properties": properties })
    };
    assert_eq!(registered("schema_expanded_bytes_max = \"16 KiB\"", copied(3)).await, both);
    let text = registered("schema_expanded_bytes_max = \"16 KiB\"", copied(30)).await;
    assert!(text.contains("keyword `"), "{text}");
    assert!(text.contains("`schema_expanded_bytes_max` of 16384"), "{text}");

    let repeated =
        |times: usize| json!({ "properties": { "a": { "pattern": format!("a{{{times}}}") } } });
    assert_eq!(registered("schema_patterns_bytes_max = \"16 KiB\"", repeated(3)).await, both);
    let text = registered("schema_patterns_bytes_max = \"16 KiB\"", repeated(300)).await;
    assert!(text.contains("`schema_patterns_bytes_max` of 16384"), "{text}");
}

#[tokio::test]
async fn component_bytes_max_obeyed() {
    let bytes = guest("json");
    let limit = format!("[limits]\ncomponent_bytes_max = {}", bytes.len());
    let lab = Lab::new().config(&limit).with("json.wasm", bytes);
    assert!(lab.status("json.wasm").await.starts_with("tools: "));
}

#[tokio::test]
async fn refusals_max() {
    let file = |path: &str| json!({ "request": { "authority": path, "path": "/" } });
    for (steps, named) in [(vec!["a.example"], 1), (vec!["a.example", "b.example", "c.example"], 2)]
    {
        let lab =
            Lab::new().config("[limits]\nrefusals_max = 2").with("hostile.wasm", guest("hostile"));
        let steps: Vec<Value> = steps.into_iter().map(file).collect();
        let outcome = call(&lab.host().await, "attack", json!({ "steps": steps })).await;
        assert_eq!(outcome.refusals.len(), named, "{:?}", outcome.refusals);
    }
}

#[tokio::test]
async fn stderr_bytes_max() {
    let lab =
        Lab::new().config("[limits]\nstderr_bytes_max = 2000").with("probe.wasm", guest("probe"));
    let host = lab.host().await;
    let stderr = async |length: usize| {
        let text = format!("begin{}", "x".repeat(length));
        let error = call(&host, "crash", json!({ "text": text })).await.result.expect_err("crash");
        error.stderr.expect("the tail of its stderr")
    };
    let whole = stderr(100).await;
    assert!(whole.contains("begin") && whole.len() < 2_000, "{whole}");
    let tail = stderr(3_000).await;
    // The line break at its end is not shown.
    assert!(!tail.contains("begin") && tail.len() == 1_999, "{}", tail.len());
}
