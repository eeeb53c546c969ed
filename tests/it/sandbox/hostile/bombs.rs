//! Small files that are much work to compile: each is loaded at a bounded cost or refused with its
//! reason, and nothing that is made of it is larger than it may be.

use std::fmt::Write as _;
use std::fs;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use toolhost::{Host, HostSettings};

use super::by_hand::ByHand;
use super::mutants::section;
use crate::support::{Lab, answer};

/// A real plugin with further core modules, which it does not use.
fn with_modules(modules: &[String]) -> Vec<u8> {
    let modules = modules.iter().map(|module| wat::parse_str(module).expect("valid WAT"));
    let sections: Vec<u8> = modules.flat_map(|module| section(1, &module)).collect();
    [ByHand::default().build(), sections].concat()
}

/// What became of each plugin under these limits, and how large the largest code is that was kept.
async fn compiled(limits: &str, plugins: &[Vec<u8>]) -> (Vec<Result<(), String>>, u64) {
    let other = ByHand { tool: Some("others".to_owned()), ..ByHand::default() };
    let mut lab =
        Lab::new().config(&format!("[limits]\n{limits}")).with("other.wasm", other.build());
    for (number, plugin) in plugins.iter().enumerate() {
        lab = lab.with(&format!("x{number:02}.wasm"), plugin);
    }
    let cache = lab.home().join("cache");
    let settings = HostSettings { cache: Some(cache.clone()), ..lab.settings() };
    let host = Host::start(settings).expect("a host");
    let mut statuses = host.loaded().await.to_vec();
    statuses.retain(|status| !status.location.ends_with("other.wasm"));
    assert_eq!(answer(&host, "others", json!({})).await, r#"{"content":[]}"#);
    let became = |state: &Result<_, toolhost_sources::driver::Failed>| {
        state.as_ref().map(|_| ()).map_err(ToString::to_string)
    };
    let states = statuses.iter().map(|status| became(&status.state)).collect();
    let kept = fs::read_dir(cache.join("untrusted")).expect("a cache").flatten();
    let lengths = kept.map(|file| file.metadata().expect("a file").len());
    (states, lengths.max().unwrap_or_default())
}

/// Data at both ends of a memory would be an image as large as all between.
#[tokio::test]
async fn data_that_lies_far_apart_makes_no_large_image() {
    let far = 15 << 20;
    let module =
        format!(r#"(module (memory 256) (data (i32.const 0) "a") (data (i32.const {far}) "b"))"#);
    let bomb = with_modules(&vec![module; 60]);
    assert!(bomb.len() < 16 << 10, "{}", bomb.len());
    // All images together would have 900 MiB.
    let (states, _) = compiled("compile_memory_bytes_max = \"256 MiB\"", &[bomb]).await;
    assert_eq!(states, [Ok(())]);
}

/// Each call of two bytes moves a thousand values.
#[tokio::test]
async fn code_that_grows_is_cut_off() {
    let many = "i64 ".repeat(1_000);
    let values = "(i64.const 1)".repeat(1_000);
    let calls = "(call $gives) (call $takes)".repeat(120);
    let module = format!(
        "(module (func $gives (result {many}) {values}) (func $takes (param {many})) (func {calls}))"
    );
    let (states, kept) = compiled("code_bytes_max = \"1 MiB\"", &[with_modules(&[module])]).await;
    let reason = states[0].as_ref().expect_err("too much code");
    assert!(reason.contains("`code_bytes_max` of 1048576 bytes"), "{reason}");
    assert!(kept <= 1 << 20, "{kept}");
}

/// A module that is much of something.
fn module(random: &mut ChaCha8Rng) -> String {
    let mut text = String::from("(module (memory 512)");
    for _ in 0..random.random_range(0..6) {
        let at = random.random_range(0..32 << 20);
        let _ = write!(text, "(data (i32.const {at}) \"{}\")", "x".repeat(at % 700));
    }
    let params = "i64 ".repeat(random.random_range(1..200));
    let _ = write!(text, "(type $t (func (param {params}) (result {params})))");
    let _ = write!(text, "(table {} funcref)", random.random_range(1..5_000));
    for number in 0..random.random_range(1..40) {
        let gets = params.split_whitespace().enumerate();
        let gets: String = gets.map(|(index, _)| format!("(local.get {index})")).collect();
        let calls = "(call $f0)".repeat(random.random_range(0..4));
        let locals = "i64 ".repeat(random.random_range(0..2_000));
        let _ = write!(text, "(func $f{number} (type $t) (local {locals}) {gets} {calls})");
        if random.random_bool(0.5) {
            let _ = write!(text, "(export \"f{number}\" (func $f{number}))");
        }
    }
    let labels = "0 ".repeat(random.random_range(1..4_000));
    let _ = write!(text, "(func (param i32) (block (br_table {labels} 0 (local.get 0))))");
    text.push(')');
    text
}

/// The same bombs each time, made of all that is small in a file and large in a machine.
#[tokio::test]
async fn bombs_of_all_kinds_cost_what_they_may() {
    let mut random = ChaCha8Rng::seed_from_u64(16);
    let bombs: Vec<Vec<u8>> = (0..8)
        .map(|_| {
            let modules: Vec<String> =
                (0..random.random_range(1..20)).map(|_| module(&mut random)).collect();
            with_modules(&modules)
        })
        .collect();
    let limits = "code_bytes_max = \"4 MiB\"\ncompile_memory_bytes_max = \"512 MiB\"\ncompile_cpu_time_max = \"20s\"";
    let (states, kept) = compiled(limits, &bombs).await;
    assert!(kept <= 4 << 20, "{kept}");
    for (bomb, state) in bombs.iter().zip(states) {
        assert!(bomb.len() < 1 << 20, "{}", bomb.len());
        if let Err(reason) = state {
            let is_limit = ["code_bytes_max", "compile_memory_bytes_max", "compile_cpu_time_max"];
            assert!(is_limit.iter().any(|limit| reason.contains(limit)), "{reason}");
            assert!(!reason.contains('\n'), "{reason}");
        }
    }
}

/// Each element would take a hundred times its text where it was read with its place.
#[tokio::test]
async fn an_extension_has_a_bound_of_its_own() {
    let script = |elements: usize| {
        format!(
            "from toolhost import tool\n\n\n@tool()\ndef good() -> str:\n    \"\"\"Says.\"\"\"\n    return \"\"\n\n\n\
             @tool(extensions={{\"c\": {{\"a\" * 250: {{\"b\" * 250: [1] * {elements}}}}}}})\n\
             def heavy() -> str:\n    \"\"\"Says.\"\"\"\n    return \"\"\n"
        )
    };
    let status = Lab::new().with("x.py", script(32_000)).status("x.py").await;
    assert_eq!(status, "tools: good heavy");
    let status = Lab::new().with("x.py", script(1_000_000)).status("x.py").await;
    let reason = "left out `heavy`: extension `c` has 2000511 bytes of JSON; allowed are 65536; put what is larger in a file of the plugin, or answer it with a tool";
    assert!(status.contains(reason), "{status}");
}
