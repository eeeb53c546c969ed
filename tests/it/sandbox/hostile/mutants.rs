//! Hostile files: real components changed in many ways, bombs, and what only looks like one. Each
//! is refused with its reason on one line, and the good plugin beside it loads.

use std::fmt::Write as _;
use std::fs;
use std::ops::Range;

use expect_test::expect;
use regex::Regex;
use serde_json::json;
use toolhost::Host;

use super::by_hand::{ByHand, PATIENCE, the_other_works};
use crate::support::{Lab, answer, built_for, guest, registering};

/// A component by hand, whose sections are known.
fn real() -> Vec<u8> {
    ByHand::default().build()
}

/// A number as WebAssembly writes it, in at least so many bytes.
pub(super) fn leb(mut number: u64, bytes_min: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = u8::try_from(number & 0x7f).expect("seven bits");
        number >>= 7;
        if number == 0 && bytes.len() + 1 >= bytes_min {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

/// A section with this content.
pub(super) fn section(id: u8, content: &[u8]) -> Vec<u8> {
    [&[id], leb(content.len() as u64, 1).as_slice(), content].concat()
}

/// Where the outermost sections of a component are.
fn sections(bytes: &[u8]) -> Vec<Range<usize>> {
    let (mut all, mut at) = (Vec::new(), 8);
    while at < bytes.len() {
        let (start, mut length, mut shift) = (at, 0_usize, 0);
        at += 1;
        loop {
            let byte = bytes[at];
            at += 1;
            length |= usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
        at += length;
        all.push(start..at);
    }
    all
}

/// The component with its sections in this order.
fn arranged(bytes: &[u8], order: impl IntoIterator<Item = usize>) -> Vec<u8> {
    let (sections, mut arranged) = (sections(bytes), bytes[..8].to_vec());
    order.into_iter().for_each(|place| arranged.extend(&bytes[sections[place].clone()]));
    arranged
}

/// The places of sections of this kind.
fn of_kind(bytes: &[u8], id: u8) -> Vec<usize> {
    let sections = sections(bytes);
    (0..sections.len()).filter(|&place| bytes[sections[place].start] == id).collect()
}

/// The component without the sections of this kind.
fn without(bytes: &[u8], id: u8) -> Vec<u8> {
    let left_out = of_kind(bytes, id);
    let all = 0..sections(bytes).len();
    arranged(bytes, all.filter(|place| !left_out.contains(place)))
}

/// The component with another length written for its section at `place`.
fn with_length(bytes: &[u8], place: usize, length: impl FnOnce(usize) -> Vec<u8>) -> Vec<u8> {
    let range = sections(bytes)[place].clone();
    let body = bytes[range.start + 1..range.end].iter().position(|byte| byte & 0x80 == 0);
    let body = range.start + 2 + body.expect("a length");
    let written = length(range.end - body);
    [&bytes[..=range.start], &written, &bytes[body..]].concat()
}

fn component(text: &str) -> Vec<u8> {
    wat::parse_str(format!("(component {text})")).expect("valid WAT")
}

const TYPES: &str = r#"(import "toolhost:plugin/types@0.1.0" (instance))"#;

/// A component with this, which has the functions of a plugin, with types of its own.
fn lookalike(inside: &str) -> Vec<u8> {
    component(&format!(
        r#"{TYPES}
        (core module $m (func (export "f")))
        (core instance $i (instantiate $m))
        (func $f (canon lift (core func $i "f")))
        (export "register" (func $f))
        (export "call" (func $f))
        {inside}"#
    ))
}

/// Bytes with one text in the place of another of its length.
fn replaced(mut bytes: Vec<u8>, known: &[u8], other: &[u8]) -> Vec<u8> {
    assert_eq!(known.len(), other.len());
    let places: Vec<usize> = (0..bytes.len().saturating_sub(known.len()))
        .filter(|&start| bytes[start..].starts_with(known))
        .collect();
    assert!(!places.is_empty(), "{}", String::from_utf8_lossy(known));
    for start in places {
        bytes[start..start + other.len()].copy_from_slice(other);
    }
    bytes
}

/// Files that are no component at all.
fn strangers() -> Vec<(&'static str, Vec<u8>)> {
    let real = real();
    let with_head = |head: &[u8]| [head, &real[8..]].concat();
    vec![
        ("empty", Vec::new()),
        ("zeros", vec![0; 100_000]),
        ("ones", vec![0xff; 100_000]),
        ("script", b"#!/bin/sh\nrm -rf /\n".to_vec()),
        ("native", [b"\x7fELF\x02\x01\x01".as_slice(), &[0; 999]].concat()),
        ("archive", b"PK\x03\x04\x14\x00".to_vec()),
        ("packed", b"\x1f\x8b\x08\x00".to_vec()),
        ("page", b"<html><script>".to_vec()),
        ("text", b"(component)".to_vec()),
        ("magic-alone", b"\0asm".to_vec()),
        ("magic-reversed", with_head(b"msa\0\x0d\0\x01\0")),
        ("magic-wide", b"\0\0a\0s\0m\0".to_vec()),
        ("core-module", wat::parse_str("(module)").expect("valid WAT")),
        ("core-head-on-component", with_head(b"\0asm\x01\0\0\0")),
        ("version-of-tomorrow", with_head(b"\0asm\x0e\0\x01\0")),
        ("layer-of-tomorrow", with_head(b"\0asm\x0d\0\x02\0")),
        ("script-then-component", [b"#!/bin/sh\nexit\n".as_slice(), &real].concat()),
        ("component-then-archive", [real.as_slice(), b"PK\x05\x06"].concat()),
        ("component-then-zero", [real.as_slice(), &[0]].concat()),
        ("two-components", [real.as_slice(), &real].concat()),
    ]
}

/// Real components whose sections do not fit any more.
fn mutants() -> Vec<(&'static str, Vec<u8>)> {
    let (real, count) = (real(), sections(&real()).len());
    let (imports, exports) = (of_kind(&real, 10), of_kind(&real, 11));
    let (import, export) = (imports[0], *exports.last().expect("exports"));
    let bad_name = [1, 0xff].to_vec();
    vec![
        ("cut-in-half", real[..real.len() / 2].to_vec()),
        ("cut-by-one", real[..real.len() - 1].to_vec()),
        ("cut-in-head", real[..6].to_vec()),
        ("reversed", arranged(&real, (0..count).rev())),
        ("twice-each", arranged(&real, (0..count).flat_map(|place| [place, place]))),
        ("exported-twice", arranged(&real, (0..count).chain([export]))),
        ("without-types", without(&real, 7)),
        ("without-imports", without(&real, 10)),
        ("without-exports", without(&real, 11)),
        ("without-modules", without(&real, 1)),
        ("without-functions", without(&real, 8)),
        ("unknown-section", [real.as_slice(), &section(99, b"?")].concat()),
        ("length-too-long", with_length(&real, import, |length| leb(length as u64 + 1, 1))),
        ("length-too-short", with_length(&real, import, |length| leb(length as u64 - 1, 1))),
        ("length-of-4-gib", with_length(&real, import, |_| leb(0xffff_ffff, 1))),
        ("length-of-more", with_length(&real, import, |_| leb(u64::MAX, 1))),
        ("length-overlong", with_length(&real, import, |length| leb(length as u64, 6))),
        ("count-lies", [real.as_slice(), &section(7, &leb(0xffff_ffff, 1))].concat()),
        ("name-no-text", [real.as_slice(), &section(0, &bad_name)].concat()),
        ("name-beyond", [real.as_slice(), &section(0, &[200, b'x'])].concat()),
        ("index-beyond", [real.as_slice(), &section(11, b"\x01\0\x01x\x01\x7f\0")].concat()),
        ("contract-next", built_for("0.2.0", guest("register"))),
        (
            "contract-none",
            replaced(guest("register"), b"plugin/types@0.1.0", b"plugin/types@x.y.z"),
        ),
        (
            "contract-dirty",
            replaced(guest("register"), b"plugin/types@0.1.0", b"plugin/types@\x1b[2J\x07"),
        ),
    ]
}

const MANY: usize = 100_000;

/// A section with the same thing very often.
fn many(id: u8, item: &[u8]) -> Vec<u8> {
    section(id, &[leb(MANY as u64, 1), item.repeat(MANY)].concat())
}

/// A component that imports functions without end, and exports the first two as those of a plugin.
fn many_imports() -> Vec<u8> {
    let types = section(7, b"\x02\x40\x00\x01\x00\x42\x00");
    let name = |name: &str| [&[0], leb(name.len() as u64, 1).as_slice(), name.as_bytes()].concat();
    let mut imports = [leb(MANY as u64 + 1, 1), name("toolhost:plugin/types@0.1.0")].concat();
    imports.extend(b"\x05\x01");
    for n in 0..MANY {
        imports.extend([name(&format!("i{n}")).as_slice(), b"\x01\x00"].concat());
    }
    let exports =
        [b"\x02".as_slice(), &name("register"), b"\x01\0\0", &name("call"), b"\x01\x01\0"];
    let head = b"\0asm\x0d\0\x01\0";
    [head, types.as_slice(), &section(10, &imports), &section(11, &exports.concat())].concat()
}

/// Components that are well-formed and mean harm.
fn lookalikes() -> Vec<(&'static str, Vec<u8>)> {
    let (real, mut nested) = (real(), b"\0asm\x0d\0\x01\0".to_vec());
    for _ in 0..1_000 {
        nested = [&nested[..8], &section(4, &nested)].concat();
    }
    let mut deep = String::from("(type $t0 (list u8))");
    for n in 1..1_000 {
        let _ = write!(deep, "(type $t{n} (list $t{m}))", m = n - 1);
    }
    let inner = r#"(type (component (type (component (alias outer 2 0 (type)) (export "t" (type (eq 0))))) (import "self" (component (type 0)))))"#;
    vec![
        ("some-other", component("")),
        ("no-functions", component(TYPES)),
        (
            "functions-are-types",
            component(&format!(
                r#"{TYPES} (type $t u8) (export "register" (type $t)) (export "call" (type $t))"#
            )),
        ),
        ("functions-of-nothing", lookalike("")),
        (
            "types-of-its-own",
            component(
                r#"(import "toolhost:plugin/types@0.1.0" (instance (export "register" (func (result string)))))
                   (alias export 0 "register" (func $f))
                   (export "register" (func $f)) (export "call" (func $f))"#,
            ),
        ),
        (
            "asks-for-more",
            lookalike(r#"(import "wasi:cli/run@0.2.0" (instance (export "run" (func))))"#),
        ),
        ("imports-itself", lookalike(&format!("(type (list u8)) {inner}"))),
        ("nested-a-thousand-times", [real, section(4, &nested)].concat()),
        ("types-a-thousand-deep", lookalike(&deep)),
        ("a-hundred-thousand-types", [lookalike(""), many(7, b"\x70\x7d")].concat()),
        ("a-hundred-thousand-imports", many_imports()),
        (
            "a-hundred-thousand-modules",
            [lookalike(""), section(1, b"\0asm\x01\0\0\0").repeat(MANY)].concat(),
        ),
        (
            "data-beyond-memory",
            ByHand { fields: "(data (i32.const -1) \"x\")".into(), ..ByHand::default() }.build(),
        ),
        (
            "elements-beyond-table",
            ByHand {
                fields: "(table 1 funcref) (elem (i32.const 7) $recurse)".into(),
                ..ByHand::default()
            }
            .build(),
        ),
    ]
}

/// A folder with these files and a good one; what became of each, one line a file.
async fn loaded(lab: Lab, files: &[(&str, Vec<u8>)]) -> (Lab, Host, Vec<(String, String)>) {
    let lab = files
        .iter()
        .fold(lab, |lab, (name, bytes)| lab.with(&format!("{name}.wasm"), bytes))
        .with("json.wasm", guest("json"));
    let host = tokio::time::timeout(PATIENCE, lab.host()).await.expect("it ends");
    let mut said = Vec::new();
    for status in host.loaded().await.iter() {
        let name = status.location.short();
        let name = name.split('.').next().unwrap_or_default().to_owned();
        let shown = match &status.state {
            Err(failed) => failed.to_string(),
            Ok(_) => "it loads".to_owned(),
        };
        assert!(!shown.chars().any(char::is_control), "{name}: {shown:?}");
        assert!(shown.len() < 700, "{name}: {shown}");
        assert!(!shown.contains(&*lab.home().to_string_lossy()), "{name}: {shown}");
        assert!(!shown.contains(".rs") && !shown.contains("panicked"), "{name}: {shown}");
        said.push((name, shown));
    }
    the_other_works(&host).await;
    (lab, host, said)
}

/// A table of what is said, without numbers that depend on the tool that makes components.
async fn table(files: &[(&str, Vec<u8>)]) -> String {
    let (_lab, _host, said) = loaded(Lab::new(), files).await;
    let numbers = Regex::new(r"offset 0x[0-9a-f]+|after \d+ bytes").expect("a pattern");
    let line = |(name, _): &(&str, Vec<u8>)| {
        let (_, shown) = said.iter().find(|(known, _)| known == name).expect("a status");
        let stable = numbers.replace_all(shown, |found: &regex::Captures<'_>| {
            if found[0].starts_with('o') { "offset N" } else { "after N bytes" }
        });
        format!("{name}: {stable}\n")
    };
    files.iter().map(line).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn that_are_no_components() {
    expect![[r#"
        empty: not WebAssembly (the file is empty); replace it by a component, or remove it
        zeros: not WebAssembly; replace it by a component, or remove it
        ones: not WebAssembly; replace it by a component, or remove it
        script: not WebAssembly (it is a script); replace it by a component, or remove it
        native: not WebAssembly (it is native or precompiled code); replace it by a component, or remove it
        archive: not WebAssembly (it is a zip archive); replace it by a component, or remove it
        packed: not WebAssembly; replace it by a component, or remove it
        page: not WebAssembly (it looks like a web page); replace it by a component, or remove it
        text: not WebAssembly (it looks like WebAssembly text; translate it with `wasm-tools parse`); replace it by a component, or remove it
        magic-alone: truncated: the file ends after N bytes in the middle of a section; copy it again
        magic-reversed: not WebAssembly; replace it by a component, or remove it
        magic-wide: not WebAssembly; replace it by a component, or remove it
        core-module: a core module, not a component; build it with `toolhost build`, or wrap it with `wasm-tools component new`
        core-head-on-component: a core module, not a component; build it with `toolhost build`, or wrap it with `wasm-tools component new`
        version-of-tomorrow: damaged: unknown binary version:    0x1000e; build or copy it again
        layer-of-tomorrow: damaged: unknown binary version:    0x2000d; build or copy it again
        script-then-component: not WebAssembly (it is a script); replace it by a component, or remove it
        component-then-archive: truncated: the file ends after N bytes in the middle of a section; copy it again
        component-then-zero: truncated: the file ends after N bytes in the middle of a section; copy it again
        two-components: damaged: expected section, got wasm magic number; build or copy it again
    "#]].assert_eq(&table(&strangers()).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn that_were_components() {
    expect![[r#"
        cut-in-half: truncated: the file ends after N bytes in the middle of a section; copy it again
        cut-by-one: truncated: the file ends after N bytes in the middle of a section; copy it again
        cut-in-head: truncated: the file ends after N bytes in the middle of a section; copy it again
        reversed: does not compile: failed to parse WebAssembly module: unknown function 2: function index out of bounds (at offset N)
        twice-each: does not compile: failed to parse WebAssembly module: import name `toolhost:plugin/types@0.1.0` conflicts with previous name `toolhost:plugin/types@0.1.0` (at offset N)
        exported-twice: does not compile: failed to parse WebAssembly module: export name `call` conflicts with previous name `call` (at offset N)
        without-types: does not compile: failed to parse WebAssembly module: unknown type 0: type index out of bounds (at offset N)
        without-imports: a component, but not a toolhost plugin: it does not import `toolhost:plugin/types` (it exports `register`, `call`); build it with a toolhost SDK
        without-exports: a component, but not a toolhost plugin: it does not export `register` and exports nothing; build it with a toolhost SDK
        without-modules: does not compile: failed to parse WebAssembly module: unknown module 0: module index out of bounds (at offset N)
        without-functions: does not compile: failed to parse WebAssembly module: unknown function 0: function index out of bounds (at offset N)
        unknown-section: does not compile: failed to parse WebAssembly module: malformed section id: 99 (at offset N)
        length-too-long: damaged: section size mismatch: unexpected data at the end of the section; build or copy it again
        length-too-short: damaged: unexpected end-of-file; build or copy it again
        length-of-4-gib: truncated: the file ends after N bytes in the middle of a section; copy it again
        length-of-more: damaged: invalid var_u32: integer representation too long; build or copy it again
        length-overlong: damaged: invalid var_u32: integer representation too long; build or copy it again
        count-lies: does not compile: failed to parse WebAssembly module: types count exceeds limit of 1000000 (at offset N)
        name-no-text: damaged: malformed UTF-8 encoding; build or copy it again
        name-beyond: damaged: unexpected end-of-file; build or copy it again
        index-beyond: does not compile: failed to parse WebAssembly module: unknown function 127: function index out of bounds (at offset N)
        contract-next: built for contract 0.2.0; this host knows 0.1: update toolhost
        contract-none: built for contract x.y.z; this host knows 0.1: that is no version; build it with a toolhost SDK
        contract-dirty: built for contract \u{1b}[2J\u{7}; this host knows 0.1: that is no version; build it with a toolhost SDK
    "#]].assert_eq(&table(&mutants()).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn that_mean_harm() {
    expect![[r#"
        some-other: a component, but not a toolhost plugin: it does not import `toolhost:plugin/types` and exports nothing; build it with a toolhost SDK
        no-functions: a component, but not a toolhost plugin: it does not export `register` and exports nothing; build it with a toolhost SDK
        functions-are-types: does not fit this host: export `call` is not a function; build it with the SDK of this version
        functions-of-nothing: does not fit this host: type-checking export func `call`: expected 3-tuple, found 0-tuple; build it with the SDK of this version
        types-of-its-own: does not compile: failed to parse WebAssembly module: component export `register` is a reexport of an imported function which is not implemented
        asks-for-more: does not fit this host: component imports instance `wasi:cli/run@0.2.0`, but a matching implementation was not found in the linker: instance export `run` has the wrong type: function implementation is missing; build it with the SDK of this version
        imports-itself: does not fit this host: type-checking export func `call`: expected 3-tuple, found 0-tuple; build it with the SDK of this version
        nested-a-thousand-times: it loads
        types-a-thousand-deep: does not compile: failed to parse WebAssembly module: type nesting is too deep (at offset N)
        a-hundred-thousand-types: does not fit this host: type-checking export func `call`: expected 3-tuple, found 0-tuple; build it with the SDK of this version
        a-hundred-thousand-imports: does not compile: failed to parse WebAssembly module: component export `register` is a reexport of an imported function which is not implemented
        a-hundred-thousand-modules: does not compile: failed to parse WebAssembly module: modules count exceeds limit of 1000 (at offset N)
        data-beyond-memory: `register` failed: the tool crashed: wasm trap: out of bounds memory access
        elements-beyond-table: `register` failed: the tool crashed: wasm trap: undefined element: out of bounds table access
    "#]].assert_eq(&table(&lookalikes()).await);
}

/// Cut where a section ends, which is where nothing looks torn.
#[tokio::test(flavor = "multi_thread")]
async fn that_end_between_sections() {
    let real = registering("one first");
    let cuts: Vec<(String, Vec<u8>)> = sections(&real)
        .iter()
        .rev()
        .skip(1)
        .map(|section| (format!("cut-{}", section.end), real[..section.end].to_vec()))
        .collect();
    let cuts: Vec<(&str, Vec<u8>)> =
        cuts.iter().map(|(name, bytes)| (name.as_str(), bytes.clone())).collect();
    let (_lab, _host, said) = loaded(Lab::new(), &cuts).await;
    let refused = said
        .iter()
        .filter(|(_, shown)| {
            shown.contains("not a toolhost plugin") || shown.starts_with("truncated: ")
        })
        .count();
    let whole = said.iter().filter(|(_, shown)| shown == "it loads").count();
    // What loads is the good one, and what lacks no more than optional functions and notes.
    assert!(refused + whole == said.len() && refused > 50, "{whole} {said:#?}");
}

/// Bits turned at places that a seed decides: whatever comes of it, the host stands.
#[tokio::test(flavor = "multi_thread")]
async fn with_bits_turned() {
    let real = real();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 11).expect("64 bits") % below
    };
    let turned: Vec<(String, Vec<u8>)> = (0..80)
        .map(|n| {
            let mut bytes = real.clone();
            for _ in 0..=n % 4 {
                let at = 8 + random(bytes.len() - 8);
                bytes[at] ^= 1 << random(8);
            }
            (format!("turned-{n}"), bytes)
        })
        .collect();
    let turned: Vec<(&str, Vec<u8>)> =
        turned.iter().map(|(name, bytes)| (name.as_str(), bytes.clone())).collect();
    let lab = Lab::new().config("[limits]\nregister_time_max = \"1s\"");
    let (_lab, _host, said) = loaded(lab, &turned).await;
    assert_eq!(said.len(), 81);
    assert!(said.iter().filter(|(_, shown)| shown != "it loads").count() > 20, "{said:#?}");
}

/// Files that are large for nothing: a note of 50 MB, and 10 GiB of which no byte is written.
#[tokio::test(flavor = "multi_thread")]
async fn that_are_large() {
    let mut note = vec![4];
    note.extend(b"note");
    note.resize(50 << 20, b'x');
    let noted = [registering("one noted"), section(0, &note)].concat();
    let over = [real(), section(0, &[note.as_slice(), &note].concat())].concat();
    let lab = Lab::new().with("sparse.wasm", "");
    let sparse = fs::OpenOptions::new().write(true).open(lab.plugins().join("sparse.wasm"));
    sparse.expect("opened").set_len(10 << 30).expect("grown");
    let length = over.len();
    let (_lab, host, said) = loaded(lab, &[("noted", noted), ("over", over)]).await;
    let of = |name: &str| &said.iter().find(|(known, _)| known == name).expect("a status").1;
    let too_large = |length: u64| {
        format!(
            "file of {length} bytes exceeds `component_bytes_max` of 67108864; raise that in toolhost.toml, or build it smaller"
        )
    };
    assert_eq!(*of("sparse"), too_large(10 << 30));
    assert_eq!(*of("over"), too_large(length as u64));
    assert_eq!(of("noted"), "it loads");
    assert_eq!(answer(&host, "noted", json!({})).await, r#"{"result":"noted of one noted"}"#);
}
