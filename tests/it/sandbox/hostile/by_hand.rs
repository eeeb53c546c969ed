//! Plugins written by hand, in WebAssembly text, for what no toolchain would make; and calls of
//! them while another plugin's tool is called.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolhost::Host;
use toolhost_core::tool::{Call, Outcome};

use crate::support::{Lab, answer, from_wat, guest};

/// Longer than anything takes that is not stuck.
pub(crate) const PATIENCE: Duration = Duration::from_secs(900);

/// A core module with one tool, `strike`: everything that is not said here does nothing.
///
/// The result of `call` lies at 2048 and is an empty output as long as nobody writes there; the
/// arguments' length is in the global `$given`, their seventh byte in `$case`.
#[derive(Default)]
pub(crate) struct ByHand {
    /// Fields of the module, at its beginning.
    pub(crate) imports: String,
    /// Further fields.
    pub(crate) fields: String,
    /// What `call` does for each letter of `{"n":"a"}`.
    pub(crate) cases: Vec<(char, String)>,
    /// What `register` does first.
    pub(crate) register: String,
    /// What `cabi_realloc` does first; `$size` is what it is asked for.
    pub(crate) realloc: String,
    /// What the function after `call` does.
    pub(crate) after: String,
    /// The tool's name in place of `strike`, of as many letters.
    pub(crate) tool: Option<String>,
    /// Pages of memory, as a limit of WebAssembly text.
    pub(crate) pages: Option<String>,
}

impl ByHand {
    /// The component.
    pub(crate) fn build(&self) -> Vec<u8> {
        let ByHand { imports, fields, register, realloc, after, .. } = self;
        let tool = self.tool.as_deref().unwrap_or("strike");
        assert_eq!(tool.len(), "strike".len());
        let pages = self.pages.as_deref().unwrap_or("16");
        let mut cases = String::new();
        for (letter, body) in &self.cases {
            let letter = u32::from(*letter);
            let _ = write!(
                cases,
                "(if (i32.eq (global.get $case) (i32.const {letter})) (then {body}))"
            );
        }
        from_wat(&format!(
            r#"(module
            {imports}
            (memory (export "memory") {pages})
            (global $next (mut i32) (i32.const 65536))
            (global $case (mut i32) (i32.const 0))
            (global $given (mut i32) (i32.const 0))
            {fields}
            (data (i32.const 20) "\00\01\00\00\01\00\00\00")
            (data (i32.const 256)
                "\00\04\00\00\06\00\00\00\08\04\00\00\01\00\00\00\00\00\00\00\00\00\00\00\0c\04\00\00\02\00\00\00")
            (data (i32.const 1024) "{tool}\00\00t\00\00\00{{}}")
            (func $recurse (result i32) (i32.add (call $recurse) (i32.const 1)))
            (func (export "cabi_realloc") (param i32 i32 i32) (param $size i32) (result i32)
                (local $at i32)
                {realloc}
                (local.set $at (global.get $next))
                (global.set $next (i32.and
                    (i32.add (i32.add (global.get $next) (local.get $size)) (i32.const 15))
                    (i32.const -16)))
                (local.get $at))
            (func (export "register") (result i32) {register} i32.const 0)
            (func (export "call")
                (param i32 i32) (param $arguments i32) (param $length i32)
                (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
                (result i32)
                (global.set $case (i32.load8_u offset=6 (local.get $arguments)))
                (global.set $given (local.get $length))
                {cases}
                i32.const 2048)
            (func (export "cabi_post_call") (param i32) {after}))"#
        ))
    }
}

/// Text that a case of `strike` writes into its result.
pub(crate) fn store(at: u32, value: u32) -> String {
    format!("(i32.store (i32.const {at}) (i32.const {value}))")
}

/// A host with the plugin as `x.wasm`, and another plugin beside it.
pub(crate) async fn host(limits: &str, bytes: &[u8]) -> (Lab, Arc<Host>) {
    let lab = Lab::new()
        .config(&format!("[limits]\n{limits}"))
        .with("x.wasm", bytes)
        .with("json.wasm", guest("json"));
    let host = Arc::new(lab.host().await);
    (lab, host)
}

/// Calls a tool of the other plugin.
pub(crate) async fn the_other_works(host: &Host) {
    let arguments = json!({ "filter": ".", "json": 1 });
    let answer = answer(host, "json_query", arguments).await;
    assert_eq!(answer, r#"{"results":[1],"truncated":false}"#);
}

/// Makes a call while the other plugin's tool is called again and again, and once more after it.
pub(crate) async fn beside(host: &Arc<Host>, call: Call) -> Outcome {
    let (attacked, started) = (Arc::clone(host), Instant::now());
    let running = tokio::spawn(async move { attacked.call(call).await });
    while !running.is_finished() && started.elapsed() < PATIENCE {
        the_other_works(host).await;
    }
    assert!(started.elapsed() < PATIENCE, "the call does not end");
    let outcome = running.await.expect("no panic");
    the_other_works(host).await;
    outcome
}

/// What became of a call: its text, or code and message.
pub(crate) fn told(outcome: &Outcome) -> String {
    match &outcome.result {
        Ok(output) => output.to_json_text(),
        Err(error) => format!("{}: {}", error.code, error.message),
    }
}

/// Calls a tool of a fresh host and compares what became of it. No plugin is called twice, so
/// that no call finds a plugin that is refused for what an earlier one did.
pub(crate) async fn strike(limits: &str, bytes: &[u8], arguments: Value, expected: &str) {
    let (_lab, host) = self::host(limits, bytes).await;
    let shown = arguments.to_string();
    let outcome = beside(&host, Call::new("strike", shown.clone())).await;
    assert_eq!(told(&outcome), expected, "{}", &shown[..shown.len().min(80)]);
}

/// What became of the plugin `x.wasm`, with a proof that the other one works.
pub(crate) async fn loads(limits: &str, bytes: &[u8]) -> String {
    let (_lab, host) = host(limits, bytes).await;
    let statuses = host.loaded().await;
    let status =
        statuses.iter().find(|status| status.location.ends_with("x.wasm")).expect("a status");
    the_other_works(&host).await;
    crate::support::shown(status, &host)
}
