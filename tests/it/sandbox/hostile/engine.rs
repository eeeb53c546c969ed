//! What WebAssembly offers beyond what a plugin needs: each proposal that is off is refused with a
//! clear word, and what is on is bounded: memories, tables, instances, and the time to compile.

use std::fmt::Write as _;

use serde_json::json;

use super::by_hand::{ByHand, loads, strike};

/// A plugin that has this in its module besides.
fn with(fields: &str) -> Vec<u8> {
    ByHand { fields: fields.to_owned(), ..ByHand::default() }.build()
}

/// A component that looks like a plugin from outside, with this inside.
fn component(inside: &str) -> Vec<u8> {
    wat::parse_str(format!(
        r#"(component
            (import "toolhost:plugin/types@0.1.0" (instance))
            (core module $m (func (export "f")))
            (core instance $i (instantiate $m))
            (func $f (canon lift (core func $i "f")))
            (export "register" (func $f))
            (export "call" (func $f))
            {inside})"#
    ))
    .expect("valid WAT")
}

/// A nested module, which is checked and compiled like every other.
fn module(fields: &str) -> Vec<u8> {
    component(&format!("(core module {fields})"))
}

/// Each is refused, on one line, with words that tell what it was.
async fn refused(plugins: &[(Vec<u8>, &str)]) {
    let mut wrong = Vec::new();
    for (bytes, expected) in plugins {
        let status = loads("", bytes).await;
        let is_bounded = !status.contains('\n') && status.len() < 600;
        if !status.contains(expected) || !is_bounded {
            wrong.push(format!("{status:?} lacks {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn proposals_that_are_off() {
    let proposals = [
        ("(memory 1) (memory 1)", "multiple memories"),
        ("(memory i64 1)", "memory64"),
        ("(memory 1 2 shared)", "threads must be enabled for shared memories"),
        ("(table i64 1 funcref)", "memory64"),
        (
            "(func (result v128) (i32x4.relaxed_trunc_f32x4_s (v128.const i32x4 0 0 0 0)))",
            "relaxed SIMD support is not enabled",
        ),
        ("(tag) (func (throw 0))", "exceptions proposal not enabled"),
        ("(type (struct (field i32))) (func (drop (struct.new_default 0)))", "gc"),
        ("(type $a (array i8))", "gc"),
    ];
    refused(&proposals.map(|(fields, expected)| (module(fields), expected))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_parts_than_a_plugin_has() {
    let mut tables = String::new();
    (0..9).for_each(|_| tables += "(table 1 funcref)");
    let mut instances = String::new();
    for n in 0..70 {
        let _ = write!(instances, "(core instance $i{n} (instantiate $m))");
    }
    let mut memories = String::from("(core module $memory (memory 1))");
    for n in 0..3 {
        let _ = write!(memories, "(core instance $memory{n} (instantiate $memory))");
    }
    refused(&[
        (with(&tables), "defined tables count of 9 exceeds the per-instance limit of 1"),
        (
            component(&instances),
            "contains 71 core module instances, which exceeds the configured maximum of 64",
        ),
        (
            component(&memories),
            "contains 3 Wasm linear memories, which exceeds the configured maximum of 1",
        ),
        (with("(table 20001 funcref)"), "table"),
        (ByHand { pages: Some("4097".into()), ..ByHand::default() }.build(), "memory"),
        (ByHand { pages: Some("65536".into()), ..ByHand::default() }.build(), "memory"),
    ])
    .await;
}

/// What is on, at its largest: it works, or is stopped by the limit it meets.
#[tokio::test(flavor = "multi_thread")]
async fn parts_at_their_largest() {
    let table = "(table $table 10000 funcref)";
    let fill =
        |at: u32| format!("(table.fill $table (i32.const {at}) (ref.null func) (i32.const 10000))");
    let cases = vec![
        // One page at a time, until there is no more.
        ('m', "(loop $more (br_if $more (i32.ne (memory.grow (i32.const 1)) (i32.const -1)))) unreachable".to_owned()),
        ('t', "(loop $more (br_if $more (i32.ne (table.grow $table (ref.null func) (i32.const 1)) (i32.const -1)))) unreachable".to_owned()),
        ('b', "(drop (table.grow $table (ref.null func) (i32.const -1))) unreachable".to_owned()),
        ('f', format!("(loop $again {} (br $again))", fill(0))),
        ('o', fill(1)),
        ('c', "(memory.copy (i32.const 0) (i32.const 1) (i32.const -1))".to_owned()),
        ('i', "(call_indirect $table (i32.const 0))".to_owned()),
        ('d', "(drop (i32.div_s (i32.const 1) (i32.const 0)))".to_owned()),
    ];
    let bytes = ByHand { fields: table.to_owned(), cases, ..ByHand::default() }.build();
    let limits = "wall_time_max = \"2s\"";
    for (case, expected) in [
        ("m", "memory: stopped: memory of 268449920 bytes exceeds `memory_bytes_max` of 268435456"),
        ("t", "memory: stopped: a table of 20001 elements exceeds `table_elements_max` of 20000"),
        (
            "b",
            "memory: stopped: a table of 4294977295 elements exceeds `table_elements_max` of 20000",
        ),
        ("f", "deadline: stopped: not done within `wall_time_max` of 2s"),
        ("o", "trap: the tool crashed: wasm trap: undefined element: out of bounds table access"),
        ("c", "trap: the tool crashed: wasm trap: out of bounds memory access"),
        ("i", "trap: the tool crashed: wasm trap: uninitialized element"),
        ("d", "trap: the tool crashed: wasm trap: integer divide by zero"),
    ] {
        strike(limits, &bytes, json!({ "n": case }), expected).await;
    }
}

/// Calls that need no stack are loops by another name.
#[tokio::test(flavor = "multi_thread")]
async fn tail_calls_without_end() {
    let fields = "(func $round (return_call $round)) (func $there (return_call $back)) (func $back (return_call $there))";
    let cases = vec![('r', "(call $round)".to_owned()), ('t', "(call $there)".to_owned())];
    let bytes = ByHand { fields: fields.to_owned(), cases, ..ByHand::default() }.build();
    for case in ["r", "t"] {
        let expected = "deadline: stopped: not done within `wall_time_max` of 300ms";
        strike("wall_time_max = \"300ms\"", &bytes, json!({ "n": case }), expected).await;
    }
}

/// What takes a compiler long: bounded by its CPU time and its memory, in a process of its own.
#[tokio::test(flavor = "multi_thread")]
async fn bombs_for_the_compiler() {
    let limits = "compile_cpu_time_max = \"2s\"\ncompile_memory_bytes_max = \"512 MiB\"";
    // It compiled, and then does not fit, since its functions are of no plugin.
    let compiled = "does not fit this host: ";
    let bounded = [
        compiled,
        "does not compile: it takes more than `compile_cpu_time_max` of 2s",
        "does not compile: it takes more than `compile_memory_bytes_max` of 536870912 bytes",
        "does not compile: ",
    ];
    let targets = "0 ".repeat(1_000_000);
    let locals = "i64 ".repeat(50_000);
    let simd = "local.get 0 local.get 0 i16x8.mul local.set 0 ".repeat(60_000);
    let calls = "call 0 ".repeat(200_000);
    let branches = "local.get 0 if local.get 0 br_if 0 end ".repeat(50_000);
    let nested = format!(
        "{}{}",
        "local.get 0 if (result i32) local.get 0 else ".repeat(5_000),
        "local.get 0 end ".repeat(5_000)
    );
    for (what, fields) in [
        (
            "a table of a million branches",
            format!("(func (param i32) local.get 0 br_table {targets})"),
        ),
        ("fifty thousand locals", format!("(func (local {locals}))")),
        ("sixty thousand vectors", format!("(func (param v128) {simd})")),
        ("two hundred thousand calls", format!("(func {calls})")),
        ("fifty thousand branches", format!("(func (param i32) {branches})")),
        ("five thousand nested branches", format!("(func (param i32) (result i32) {nested})")),
        ("a hundred thousand globals", "(global (mut i64) (i64.const 0))".repeat(100_000)),
        ("ten thousand types", "(type (func (param i32 i64 f32 f64) (result i32)))".repeat(10_000)),
    ] {
        let status = loads(limits, &module(&fields)).await;
        assert!(bounded.iter().any(|begin| status.starts_with(begin)), "{what}: {status}");
        assert!(!status.contains('\n') && status.len() < 600, "{what}: {status}");
    }
}
