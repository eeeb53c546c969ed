//! Strings and lists across the boundary, written by hand: what is large in the host and small in
//! the guest, what lies outside of its memory, and what is no text.

use std::fmt::Write as _;

use serde_json::json;
use toolhost_core::tool::Call;
use toolhost_kernel::session::SessionSettings;
use toolhost_schema::schema::Format;

use super::by_hand::{self, ByHand, beside, loads, store, strike, told};
use crate::support::{Lab, guest, made, registering};

/// A tool's output with this list of blocks.
fn blocks(at: u32, length: u32) -> String {
    store(2048 + 4, at) + &store(2048 + 8, length)
}

/// The result is an error of this kind, with a text of this place and length.
fn failed(at: u32, length: u32) -> String {
    [store(2048, 1), store(2048 + 4, 0), store(2048 + 8, at), store(2048 + 12, length)].concat()
}

/// `count` blocks from 131072 on, each the same text of `length` bytes.
fn aliased(count: u32, length: u32) -> String {
    format!(
        "(drop (memory.grow (i32.const 1000)))
         (global.set $next (i32.const 0))
         (loop $again
            (i32.store offset=131076
                (i32.mul (global.get $next) (i32.const 36)) (i32.const 4096))
            (i32.store offset=131080
                (i32.mul (global.get $next) (i32.const 36)) (i32.const {length}))
            (global.set $next (i32.add (global.get $next) (i32.const 1)))
            (br_if $again (i32.lt_u (global.get $next) (i32.const {count}))))"
    ) + &blocks(131_072, count)
}

const TOO_LARGE: &str = "output_too_large: stopped: output of more than 16777216 bytes exceeds `output_bytes_max` of 8388608; ask for less";

#[tokio::test(flavor = "multi_thread")]
async fn lists_that_are_larger_in_the_host() {
    let cases = vec![
        // A million blocks that are all the same 60,000 bytes.
        ('a', aliased(1_000_000, 60_000)),
        // A million blocks of nothing.
        ('b', aliased(1_000_000, 0)),
        // As many as are allowed.
        ('c', aliased(1_000, 8)),
        // A hundred million blocks, which the guest's memory does not hold.
        ('d', blocks(65_536, 100_000_000)),
        // Lists whose size in bytes is more than an address can say.
        ('e', blocks(65_536, 0x0800_0000)),
        ('f', blocks(0, 0xffff_ffff)),
        ('g', blocks(0xffff_fff0, 1)),
        // Not where a block may lie.
        ('h', blocks(65_537, 1)),
        // Extensions: none of them is shown, and they are bounded all the same.
        ('i', store(2048 + 24, 131_072) + &store(2048 + 28, 60_000)),
        ('j', store(2048 + 24, 65_536) + &store(2048 + 28, 500_000_000)),
        // A kind of block that there is not.
        ('k', blocks(65_536, 1) + "(i32.store8 (i32.const 65536) (i32.const 9))"),
    ];
    let bytes = ByHand { cases, pages: Some("100".into()), ..ByHand::default() }.build();
    let outside = "trap: the tool crashed: list pointer/length out of bounds of memory";
    for (case, expected) in [
        ("a", TOO_LARGE),
        ("b", TOO_LARGE),
        ("d", outside),
        ("e", outside),
        ("f", outside),
        ("g", outside),
        ("h", "trap: the tool crashed: list pointer is not aligned"),
        ("i", "output_too_large: stopped: output of 60000 extensions exceeds the allowed 64"),
        ("j", outside),
        ("k", "trap: the tool crashed: unexpected discriminant: 9"),
    ] {
        strike("", &bytes, json!({ "n": case }), expected).await;
    }
    let (_lab, host) = by_hand::host("", &bytes).await;
    let outcome = beside(&host, Call::new("strike", r#"{"n":"c"}"#)).await;
    assert_eq!(outcome.result.expect("it fits").content.len(), 1_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_that_are_none() {
    let fields = r#"
        (data (i32.const 3000) "\ff\fe\80")
        (data (i32.const 3010) "\ed\a0\80\ed\b0\80")
        (data (i32.const 3020) "\c0\80")
        (data (i32.const 3030) "\f4\90\80\80")
        (data (i32.const 3040) "a\f0\9f")"#;
    let cases = vec![
        ('a', failed(3000, 3)),
        // Halves of a pair, each as if it were a character.
        ('b', failed(3010, 6)),
        // The longer form of a zero, and more than there are characters.
        ('c', failed(3020, 2)),
        ('d', failed(3030, 4)),
        // It ends within a character.
        ('e', failed(3040, 3)),
        ('f', failed(0xffff_fff0, 32)),
        ('g', failed(1, 0x7fff_ffff)),
        // Zeros are a text like any other.
        ('h', failed(60_000, 1_000)),
        // A text of 1 GiB, if its memory held that.
        ('i', failed(0, 1 << 30)),
    ];
    let bytes = ByHand { fields: fields.to_owned(), cases, ..ByHand::default() }.build();
    let outside = "trap: the tool crashed: string pointer/length out of bounds of memory";
    for (case, expected) in [
        ("a", "trap: the tool crashed: invalid utf-8 sequence of 1 bytes from index 0"),
        ("b", "trap: the tool crashed: invalid utf-8 sequence of 1 bytes from index 0"),
        ("c", "trap: the tool crashed: invalid utf-8 sequence of 1 bytes from index 0"),
        ("d", "trap: the tool crashed: invalid utf-8 sequence of 1 bytes from index 0"),
        ("e", "trap: the tool crashed: incomplete utf-8 byte sequence from index 1"),
        ("f", outside),
        ("g", outside),
        ("i", outside),
    ] {
        strike("", &bytes, json!({ "n": case }), expected).await;
    }
    let (_lab, host) = by_hand::host("", &bytes).await;
    let outcome = beside(&host, Call::new("strike", r#"{"n":"h"}"#)).await;
    let error = outcome.result.expect_err("it fails");
    assert_eq!(error.message, format!("[TOOL_ERROR] {}", "\0".repeat(1_000)));
    // Whoever shows it shows the zeros as such.
    assert!(!error.to_json().to_string().contains('\0'));
}

/// A log line and a progress message of 200 MiB, which the host does not take over.
#[tokio::test(flavor = "multi_thread")]
async fn texts_of_a_whole_memory() {
    let imports = r#"
        (import "toolhost:plugin/log@0.1.0" "log" (func $log (param i32 i32 i32)))
        (import "toolhost:plugin/progress@0.1.0" "progress"
            (func $progress (param f64 i32 f64 i32 i32 i32)))
        (import "toolhost:plugin/kv@0.1.0" "get" (func $get (param i32 i32 i32)))
        (import "toolhost:plugin/secrets@0.1.0" "present" (func $present (param i32 i32) (result i32)))"#;
    let length = 200 << 20;
    let cases = vec![
        ('l', format!("(call $log (i32.const 1) (i32.const 0) (i32.const {length}))")),
        (
            'p',
            format!(
                "(call $progress (f64.const nan) (i32.const 0) (f64.const inf) (i32.const 1) (i32.const 0) (i32.const {length}))"
            ),
        ),
        ('k', format!("(call $get (i32.const 0) (i32.const {length}) (i32.const 2048))")),
        ('s', format!("(drop (call $present (i32.const 0) (i32.const {length})))")),
        // A level that there is not.
        ('v', "(call $log (i32.const 77) (i32.const 0) (i32.const 1))".to_owned()),
    ];
    let pages = Some("3300".to_owned());
    let bytes = ByHand { imports: imports.to_owned(), cases, pages, ..ByHand::default() }.build();
    for (case, expected) in [
        ("l", TOO_LARGE),
        ("p", TOO_LARGE),
        ("k", TOO_LARGE),
        ("s", TOO_LARGE),
        ("v", "trap: the tool crashed: unexpected discriminant: 77"),
    ] {
        strike("", &bytes, json!({ "n": case }), expected).await;
    }
}

/// A registration as it lies in memory: its tools, needs and extensions by place and count.
fn registration(tools: (u32, u32), needs: (u32, u32), extensions: (u32, u32)) -> Vec<u8> {
    let mut register = "(drop (memory.grow (i32.const 1000)))".to_owned();
    for (at, (place, count)) in [(20, tools), (28, needs), (36, extensions)] {
        let _ = write!(register, "{}{}", store(at, place), store(at + 4, count));
    }
    ByHand { register, ..ByHand::default() }.build()
}

#[tokio::test(flavor = "multi_thread")]
async fn registrations_without_measure() {
    let none = (0, 0);
    let too_large = "`register` returned more than `registration_bytes_max` of 8388608 bytes; the plugin must register less";
    let empty = 1 << 20;
    for (bytes, expected) in [
        // Places that hold nothing but zeros: records without a name or a text.
        (registration((empty, 100_000), none, none), too_large),
        (registration(none, (empty, 1_000_000), none), too_large),
        (registration(none, none, (empty, 1_000_000)), too_large),
        (
            registration((empty, 10_000), none, none),
            "registers 10000 tools, and `tools_max` is 256; raise that in toolhost.toml, or split the plugin",
        ),
        (registration(none, (empty, 65), none), "registers nonsense: 65 needs; allowed are 64"),
        (
            registration(none, none, (empty, 100_000)),
            "registers nonsense: 100000 extensions; allowed are 64",
        ),
        (
            registration((empty, 1), none, none),
            "tools: \nleft out ``: `` is not a name: allowed are 1 to 64 characters of A-Z a-z 0-9 _ -",
        ),
    ] {
        assert_eq!(loads("", &bytes).await, expected);
    }
    let name = "n".repeat(200);
    assert_eq!(
        loads("", &made(&json!({ "name": name, "tools": [] }))).await,
        "registers nonsense: its name may have 128 bytes and its version 64"
    );
    // One million bytes of description, which the limit of a tool refuses.
    assert_eq!(
        loads("", &registering("describe 1048576")).await,
        "tools: good\nleft out `wordy`: description of 1048576 exceeds the allowed 8192"
    );
}

/// Schemas that are small and stand for much.
#[tokio::test(flavor = "multi_thread")]
async fn schemas_that_grow() {
    let many: Vec<u32> = (0..3_000).collect();
    // Each definition stands for ten of the next: 10^12 places of one text.
    let mut definitions = serde_json::Map::new();
    for n in 0..12 {
        let next = json!({ "$ref": format!("#/$defs/d{}", n + 1) });
        definitions.insert(format!("d{n}"), json!({ "anyOf": vec![next; 10] }));
    }
    definitions.insert("d12".to_owned(), json!({ "type": "string" }));
    let tools = json!([
        { "name": "wide", "parameters": { "type": "object", "properties": { "a": { "enum": many } } } },
        { "name": "mirror", "parameters": {
            "type": "object", "properties": { "a": { "$ref": "#" } },
        } },
    ]);
    let expanding = json!([{ "name": "grows", "parameters": {
        "type": "object", "properties": { "a": { "$ref": "#/$defs/d0" } }, "$defs": definitions,
    } }]);
    for tools in [tools, expanding] {
        let bytes = made(&json!({ "tools": tools }));
        let lab = Lab::new().with("x.wasm", &bytes).with("json.wasm", guest("json"));
        let host = lab.host().await;
        let session = host.session(SessionSettings::default()).expect("a session");
        for format in Format::ALL {
            let listing = host.definitions(&session, format);
            let listed = tokio::time::timeout(by_hand::PATIENCE, listing).await.expect("it ends");
            let size = listed.values.iter().map(|value| value.to_string().len()).sum::<usize>();
            assert!(size < 1 << 20, "{size}");
        }
        by_hand::the_other_works(&host).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_overlaps_itself() {
    // The list of blocks is the result itself, which holds the place of the list.
    let cases = vec![('o', blocks(2048, 1)), ('s', blocks(2048, 1 << 20))];
    let bytes = ByHand { cases, ..ByHand::default() }.build();
    let (_lab, host) = by_hand::host("", &bytes).await;
    for case in ["o", "s"] {
        let outcome = beside(&host, Call::new("strike", json!({ "n": case }).to_string())).await;
        assert!(told(&outcome).len() < 300, "{}", told(&outcome));
    }
}
