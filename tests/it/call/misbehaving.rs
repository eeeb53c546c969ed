//! Guests that misbehave, each a real component: the exact outcome, what it used, and that the
//! next call of another tool in the same host works.

use std::fmt::Write as _;

use serde_json::{Value, json};
use toolhost::{Host, HostSettings};
use toolhost_core::tool::Usage;

use crate::support::{Lab, answer, call, from_wat, guest, registering, shown};

/// A host with the guest as `x.wasm`, and another plugin beside it.
async fn host(limits: &str, bytes: Vec<u8>) -> (Lab, Host) {
    let lab = Lab::new()
        .config(&format!("[limits]\n{limits}"))
        .with("x.wasm", bytes)
        .with("json.wasm", guest("json"));
    // Compiled from nothing, so that compiling is part of what is tested.
    let cache = Some(lab.home().join("cache"));
    let host = Host::start(HostSettings { cache, ..lab.settings() }).expect("a host");
    host.loaded().await;
    (lab, host)
}

/// What was used, in words that no build changes.
fn used(usage: Usage) -> String {
    let Usage { memory_bytes, host_calls, log_lines, log_lines_dropped, output_bytes } = usage;
    let memory = match memory_bytes {
        0 => "no memory",
        1..=0xffff => "less than a page",
        0x1_0000..=0x1000_0000 => "memory within its limit",
        _ => "too much memory",
    };
    let counts = [
        (host_calls, "host calls"),
        (log_lines, "log lines"),
        (log_lines_dropped, "log lines dropped"),
        (output_bytes, "bytes of output"),
    ];
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    counts.fold(memory.to_owned(), |text, (count, what)| format!("{text}, {count} {what}"))
}

async fn the_other_works(host: &Host) {
    let arguments = json!({ "filter": ".", "json": 1 });
    let answer = answer(host, "json_query", arguments).await;
    assert_eq!(answer, r#"{"results":[1],"truncated":false}"#);
}

/// Loads a guest: what became of it, and what its `register` used.
async fn loads(limits: &str, bytes: Vec<u8>, expected: &str, usage: &str) {
    let (_lab, host) = host(limits, bytes).await;
    let statuses = host.loaded().await;
    let status =
        statuses.iter().find(|status| status.location.ends_with("x.wasm")).expect("a status");
    assert_eq!(shown(status, &host), expected);
    assert_eq!(used(status.usage), usage, "{expected}");
    the_other_works(&host).await;
}

const MEMORY: &str = "memory within its limit";
const NO_MEMORY: &str = "no memory";

/// Calls a tool of the guest `probe`: the code, the message, and what was used.
async fn calls(limits: &str, tool: &str, arguments: Value, expected: &str, usage: &str) {
    let (_lab, host) = host(limits, guest("probe")).await;
    let outcome = call(&host, tool, arguments).await;
    let text = match &outcome.result {
        Ok(output) => output.to_json_text(),
        Err(error) => format!("{}: {}", error.code, error.message),
    };
    assert_eq!(text, expected);
    assert_eq!(used(outcome.usage), usage, "{expected}");
    the_other_works(&host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_loops() {
    let limits = "wall_time_max = \"300ms\"";
    let stopped = "deadline: stopped: not done within `wall_time_max` of 300ms";
    calls(limits, "spin", json!({}), stopped, MEMORY).await;
    calls(limits, "sleep", json!({ "n": 60_000 }), stopped, MEMORY).await;
    for mode in ["loop", "sleep"] {
        let message = "`register` did not return within `register_time_max` of 1s; the plugin must not loop or wait there";
        loads("register_time_max = \"1s\"", registering(mode), message, MEMORY).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn checks_that_misbehave() {
    let (_lab, host) = host("check_time_max = \"1s\"", guest("probe")).await;
    let unavailable = host.unavailable().await;
    let shown: Vec<String> = unavailable
        .into_iter()
        .map(|(name, why)| format!("{name}: {} ({})", why.reason, used(why.usage)))
        .collect();
    let expected = [
        "checked_away: no TOKEN\\u{1b} (memory within its limit)",
        "checked_broken: the tool crashed: it aborted (a panic, most likely) (memory within its limit)",
        "checked_for_ever: its check did not answer within `check_time_max` of 1s (memory within its limit)",
        "needy: it requires the variable `TOKEN`, which it was not granted: run `toolhost grant x --env TOKEN` (no memory)",
    ];
    assert_eq!(shown, expected);
    the_other_works(&host).await;
}

#[tokio::test]
async fn grabs() {
    let message =
        "memory: stopped: memory of 33619968 bytes exceeds `memory_bytes_max` of 33554432";
    let (_lab, host) = host("memory_bytes_max = \"32 MiB\"", guest("probe")).await;
    let outcome = call(&host, "grab", json!({ "n": 64 })).await;
    let error = outcome.result.expect_err("too much");
    // Where it meets the limit depends on its allocator.
    let asked = error.message.split(' ').nth(3).expect("a number").to_owned();
    assert_eq!(format!("{}: {}", error.code, error.message), message.replace("33619968", &asked));
    assert!(asked.parse::<u64>().expect("a number") > 32 << 20, "{asked}");
    assert_eq!(used(outcome.usage), MEMORY);
    the_other_works(&host).await;
}

#[tokio::test]
async fn crashes() {
    for (tool, arguments, expected) in [
        ("crash", json!({ "text": "boo" }), "it aborted (a panic, most likely)"),
        (
            "recurse",
            json!({}),
            "its stack overflowed `stack_bytes_max` (endless recursion, most likely)",
        ),
        ("exit", json!({ "n": 0 }), "it ended its own process"),
    ] {
        let expected = format!("trap: the tool crashed: {expected}");
        calls("", tool, arguments, &expected, MEMORY).await;
    }
}

#[tokio::test]
async fn floods() {
    let limits = "output_bytes_max = \"64 KiB\"";
    let message = "output_too_large: stopped: output of 65537 bytes exceeds `output_bytes_max` of 65536; ask for less";
    calls(limits, "flood", json!({ "n": 65_537 }), message, MEMORY).await;
    let usage = "memory within its limit, 10000 host calls, 1000 log lines, 9000 log lines dropped, 4 bytes of output";
    calls("", "chatter", json!({ "n": 10_000 }), r#"{"result":"said"}"#, usage).await;
    let message = "trap: stopped: more host calls than `host_calls_max` of 100";
    let usage = "memory within its limit, 101 host calls, 100 log lines";
    calls("host_calls_max = 100", "chatter", json!({ "n": 1_000 }), message, usage).await;
}

#[tokio::test]
async fn lies_of_register() {
    let schema = |text: &str| registering(&format!("schema {text}"));
    for (bytes, expected) in [
        (
            registering("panic"),
            "`register` failed: the tool crashed: it aborted (a panic, most likely) (the tail of its stderr: cannot register\\u{7})",
        ),
        (registering("refuse"), "`register` says: \\u{1b}[31mnot today"),
        (
            registering("huge"),
            "`register` returned more than `registration_bytes_max` of 8388608 bytes; the plugin must register less",
        ),
        (
            registering("many 5000"),
            "registers 5000 tools, and `tools_max` is 256; raise that in toolhost.toml, or split the plugin",
        ),
        (
            registering("two same same"),
            "tools: same\nleft out `same`: plugin:x declares `same` twice; rename one of the two",
        ),
        (
            registering("name"),
            "tools: good\nleft out `\\u{1b}[31mred\\u{202e}`: `\\u{1b}[31mred\\u{202e}` is not a name: allowed are 1 to 64 characters of A-Z a-z 0-9 _ -",
        ),
        (
            schema("{"),
            "tools: good\nleft out `shaped`: `parameters`: schema is not JSON: EOF while parsing an object at line 1 column 1",
        ),
        (
            schema(r#"{"allOf":[{"$ref":"file:///etc/passwd"}]}"#),
            "tools: good\nleft out `shaped`: `parameters`: `$ref` to `file:///etc/passwd` is refused: a schema never reads files or the network; move the definition into `$defs` and refer to `#/$defs/...`",
        ),
        (
            registering("deep"),
            "tools: good\nleft out `shaped`: `parameters`: schema is nested more than 32 levels deep, the value of `schema_depth_max`",
        ),
        // Repaired: nothing declared is read as an object without properties.
        (schema("null"), "tools: good shaped"),
        (schema("{}"), "tools: good shaped"),
    ] {
        loads("", bytes, expected, MEMORY).await;
    }
}

#[tokio::test]
async fn five_thousand_tools() {
    let (_lab, host) = host("tools_max = 5000", registering("many 5000")).await;
    assert_eq!(host.catalog().tools().len(), 5_003);
    let outcome = call(&host, "tool_4999", json!({})).await;
    assert_eq!(outcome.to_json_text(), r#"{"result":"tool_4999 of many 5000"}"#);
    assert_eq!(used(outcome.usage), "memory within its limit, 22 bytes of output");
    the_other_works(&host).await;
}

/// A guest with one tool, `grow`, that crashes unless its table can grow to so many elements.
pub(crate) fn table_of(elements: usize) -> Vec<u8> {
    // The registration as it lies in memory: a list of one tool, whose fields are all absent
    // but for its name, its toolset and the schema of its arguments.
    from_wat(&format!(
        r#"(module
            (memory (export "memory") 1)
            (table $table 1 funcref)
            (data (i32.const 20) "\00\01\00\00\01\00\00\00")
            (data (i32.const 256)
                "\00\04\00\00\04\00\00\00\08\04\00\00\01\00\00\00\00\00\00\00\00\00\00\00\0c\04\00\00\02\00\00\00")
            (data (i32.const 1024) "grow\00\00\00\00t\00\00\00{{}}")
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) i32.const 8192)
            (func (export "register") (result i32) i32.const 0)
            (func (export "call") (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
                (result i32)
                (if (i32.eq (table.grow $table (ref.null func) (i32.const {more})) (i32.const -1))
                    (then unreachable))
                i32.const 2048)
        )"#,
        more = elements - 1
    ))
}

#[tokio::test]
async fn table_elements_max() {
    let limits = "table_elements_max = 10000";
    for (elements, expected) in [
        (10_000, r#"{"content":[]}"#),
        (
            10_001,
            r#"{"error":"stopped: a table of 10001 elements exceeds `table_elements_max` of 10000","code":"memory","limit":"table_elements_max"}"#,
        ),
    ] {
        let (_lab, host) = host(limits, table_of(elements)).await;
        let outcome = call(&host, "grow", json!({})).await;
        assert_eq!((&*outcome.to_json_text(), &*used(outcome.usage)), (expected, MEMORY));
        the_other_works(&host).await;
    }
}

/// A plugin whose module has `more` besides; its `register` traps.
fn module_with(more: &str) -> Vec<u8> {
    from_wat(&format!(
        r#"(module
            {more}
            (memory (export "memory") 1)
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) unreachable)
            (func (export "register") (result i32) unreachable)
            (func (export "call") (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
                (result i32) unreachable))"#
    ))
}

/// A component that looks like a plugin from outside, with `more` inside.
fn component_with(more: &str) -> Vec<u8> {
    let component = format!(
        r#"(component
            (import "toolhost:plugin/types@0.1.0" (instance))
            (core module $m (func (export "f")))
            (core instance $i (instantiate $m))
            (func $f (canon lift (core func $i "f")))
            (export "register" (func $f))
            (export "call" (func $f))
            {more})"#
    );
    wat::parse_str(component).expect("valid WAT")
}

const FIVE_SECONDS: &str = "compile_cpu_time_max = \"5s\"";
const TOO_LONG: &str = "does not compile: it takes more than `compile_cpu_time_max` of 5s";
/// It compiled, and then trapped in `register`, as it is made to.
const COMPILED: &str = "`register` failed: the tool crashed: it aborted (a panic, most likely)";

#[tokio::test]
async fn a_huge_function_ends() {
    let body = "local.get 0 i32.const 7 i32.mul local.set 0 ".repeat(200_000);
    loads("", module_with(&format!("(func (param i32) {body})")), COMPILED, MEMORY).await;
}

#[tokio::test]
async fn deep_nesting_ends() {
    let levels = 20_000;
    let body = format!("{}{}", "block ".repeat(levels), "end ".repeat(levels));
    loads("", module_with(&format!("(func {body})")), COMPILED, MEMORY).await;
}

#[tokio::test]
async fn hundreds_of_thousands_of_functions_end() {
    loads(FIVE_SECONDS, module_with(&"(func)".repeat(300_000)), TOO_LONG, NO_MEMORY).await;
}

#[tokio::test]
async fn a_hundred_thousand_exports_end() {
    let mut functions = String::new();
    for n in 0..100_000 {
        let _ = write!(functions, "(func (export \"f{n}\"))");
    }
    // The tool that makes components drops core exports which it does not know, so they stand
    // in a component of their own.
    let bomb = component_with(&format!("(core module {functions})"));
    let message = "does not compile: module instance size does not fit in pooling allocator requirements: instance allocation for this module requires 3200176 bytes which exceeds the configured maximum of 524288 bytes; breakdown of allocation requirement:   * 99.99% - 3200000 bytes - module functions ";
    loads("", bomb, message, NO_MEMORY).await;
    let mut exports = String::new();
    for n in 0..100_000 {
        let _ = write!(exports, "(export \"e{n}\" (func $f))");
    }
    loads("", component_with(&exports), "does not fit this host: type-checking export func `call`: expected 3-tuple, found 0-tuple; build it with the SDK of this version", NO_MEMORY).await;
}

#[tokio::test]
async fn giant_types_end() {
    let mut types = String::from("(type $t0 (tuple u64 u64))");
    for n in 1..60 {
        let _ = write!(types, "(type $t{n} (tuple $t{m} $t{m}))", m = n - 1);
    }
    let message = "does not compile: failed to parse WebAssembly module: effective type size exceeds the limit of 1000000 (at offset 0xde)";
    loads("", component_with(&types), message, NO_MEMORY).await;
}
