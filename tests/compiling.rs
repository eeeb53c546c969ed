//! Compiling in a process of its own: what it gives, and what hostile components do to it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::json;
use toolhost::{Host, HostSettings};

use crate::support::{Lab, answer, from_wat, guest, registering, script};

/// What became of `x.wasm`, compiled from nothing; with a proof that another plugin works.
async fn compiled(lab: &Lab, compiler: Option<&str>) -> String {
    let cache = Some(lab.home().join("cache"));
    let compiler = match compiler {
        Some(program) => Some(PathBuf::from(program)),
        None => lab.settings().compiler,
    };
    let host = Host::start(HostSettings { cache, compiler, ..lab.settings() }).expect("a host");
    let statuses = host.loaded().await;
    let status = statuses.iter().find(|status| status.path.ends_with("x.wasm"));
    match &status.expect("a status").state {
        Err(reason) => reason.clone(),
        Ok(ready) => format!("loaded {}", ready.facts.name),
    }
}

async fn check(bytes: Vec<u8>, limits: &str, expected: &[&str]) {
    let lab = Lab::new().config(&format!("[limits]\n{limits}")).with("x.wasm", bytes);
    let status = compiled(&lab, None).await;
    assert!(expected.iter().any(|part| status.contains(part)), "{status}");
    assert!(!status.contains('\n') && status.len() < 600, "{status}");
    // The house stands.
    let other = Lab::new().with("json.wasm", guest("json"));
    let host = other.host().await;
    assert_eq!(
        answer(&host, "json_query", json!({ "filter": ".", "json": 1 })).await,
        r#"{"results":[1],"truncated":false}"#
    );
}

#[tokio::test]
async fn a_component_is_compiled_by_a_process_of_its_own() {
    check(registering("one first"), "", &["loaded register"]).await;
}

#[tokio::test]
async fn without_a_program_the_host_compiles() {
    let lab = Lab::new().with("x.wasm", registering("one first"));
    let cache = Some(lab.home().join("cache"));
    let settings = HostSettings { cache, compiler: None, ..lab.settings() };
    let host = Host::start(settings).expect("a host");
    host.loaded().await;
    assert_eq!(answer(&host, "first", json!({})).await, r#"{"result":"first of one first"}"#);
}

#[tokio::test]
async fn a_program_that_is_no_compiler_is_named() {
    let lab = Lab::new().with("x.wasm", registering("one first"));
    for (program, expected) in [
        ("/nowhere/toolhost", "/nowhere/toolhost cannot be run"),
        ("/bin/false", "the compiler failed"),
        // Gives what it gets, which is no code.
        ("/bin/cat", "does not compile"),
        ("/bin/true", "does not compile"),
    ] {
        if program == "/nowhere/toolhost" || Path::new(program).exists() {
            let status = compiled(&lab, Some(program)).await;
            assert!(status.contains(expected), "{program}: {status}");
        }
    }
}

#[tokio::test]
async fn compile_cpu_time_max_violated() {
    let message = "it takes more than `compile_cpu_time_max` of 1s";
    check(script("words-py"), "compile_cpu_time_max = \"1s\"", &[message]).await;
}

#[tokio::test]
async fn compile_memory_bytes_max_violated() {
    let message = "it takes more than `compile_memory_bytes_max` of 268435456 bytes";
    check(script("words-js"), "compile_memory_bytes_max = \"256 MiB\"", &[message]).await;
}

#[tokio::test]
async fn compile_time_max_violated() {
    let message = "not done within `compile_time_max` of 1s";
    check(script("words-js"), "compile_time_max = \"1s\"", &[message]).await;
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

/// It is refused with a reason, or compiles and then traps in `register`, as it is made to.
const ENDED: &[&str] = &["does not compile: ", "damaged: ", "`register` failed: the tool crashed"];

#[tokio::test]
async fn a_huge_function_ends() {
    let body = "local.get 0 i32.const 7 i32.mul local.set 0 ".repeat(200_000);
    let bomb = module_with(&format!("(func (param i32) {body})"));
    check(bomb, "compile_cpu_time_max = \"10s\"", ENDED).await;
}

#[tokio::test]
async fn deep_nesting_ends() {
    let levels = 20_000;
    let body = format!("{}{}", "block ".repeat(levels), "end ".repeat(levels));
    check(module_with(&format!("(func {body})")), "compile_cpu_time_max = \"10s\"", ENDED).await;
}

#[tokio::test]
async fn a_hundred_thousand_functions_end() {
    let mut functions = String::new();
    for n in 0..100_000 {
        let _ = write!(functions, "(func (export \"f{n}\"))");
    }
    // The tool that makes components drops core exports which it does not know, so they stand
    // in a component of their own.
    let component = format!("(component (core module {functions}))");
    let bomb = wat::parse_str(component).expect("valid WAT");
    check(bomb, "", &["not a toolhost plugin"]).await;
    let mut exports = String::new();
    for n in 0..100_000 {
        let _ = write!(exports, "(export \"e{n}\" (func $f))");
    }
    let plugin = format!(
        r#"(component
            (import "toolhost:plugin/types@0.1.0" (instance))
            (core module $m (func (export "f")))
            (core instance $i (instantiate $m))
            (func $f (canon lift (core func $i "f")))
            (export "register" (func $f))
            (export "call" (func $f))
            {exports})"#
    );
    let bomb = wat::parse_str(plugin).expect("valid WAT");
    check(bomb, "compile_cpu_time_max = \"10s\"", &["does not compile", "does not fit"]).await;
    let functions = "(func)".repeat(100_000);
    check(module_with(&functions), "compile_cpu_time_max = \"10s\"", ENDED).await;
}

#[tokio::test]
async fn giant_types_end() {
    let mut types = String::from("(type $t0 (tuple u64 u64))");
    for n in 1..60 {
        let _ = write!(types, "(type $t{n} (tuple $t{m} $t{m}))", m = n - 1);
    }
    let bomb = wat::parse_str(format!("(component {types})")).expect("valid WAT");
    check(bomb, "", &["not a toolhost plugin", "damaged"]).await;
    // The same, with the import that makes it look like a plugin.
    let plugin = format!(
        r#"(component
            (import "toolhost:plugin/types@0.1.0" (instance))
            {types}
            (core module $m (func (export "f")))
            (core instance $i (instantiate $m))
            (func $f (canon lift (core func $i "f")))
            (export "register" (func $f))
            (export "call" (func $f)))"#
    );
    let bomb = wat::parse_str(plugin).expect("valid WAT");
    check(bomb, "", &["does not compile", "does not fit"]).await;
}
