//! What the house costs: one call through the whole library, against wasmtime alone.
//!
//! Both run the same component with the same engine settings, a fresh store and instance for
//! each call, in turns within one run, so that a busy machine is as bad for one as for the
//! other. Budget: at most 1.5 times the bare call.

#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::path::Path;
use std::time::{Duration, Instant};

use toolhost::author::{self, BuildRequest};
use toolhost::{Call, Folder, Host, HostSettings, Limits, Origin};
use wasmtime::component::{Component, HasSelf, Linker, ResourceTable};
use wasmtime::{Engine, Store, StoreLimits, StoreLimitsBuilder};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

const ROUNDS: usize = 400;
const CALLS_PER_ROUND: u32 = 50;
/// Guests at once in the pool; the host has room for 32 on each core.
const INSTANCES_MAX: usize = 64;
const ARGUMENTS: &str =
    r#"{"text": "a text of some length, so that the arguments have 75 bytes."}"#;
const BUDGET: f64 = 1.5;

mod bindings {
    wasmtime::component::bindgen!({
        world: "plugin",
        path: "../wit",
        imports: { default: trappable },
        exports: { default: async },
    });
}

use bindings::toolhost::plugin::{log, progress, types};

struct State {
    table: ResourceTable,
    wasi: WasiCtx,
    limits: StoreLimits,
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl types::Host for State {}

impl log::Host for State {
    fn log(&mut self, _: log::Level, _: String) -> wasmtime::Result<()> {
        Ok(())
    }
}

impl progress::Host for State {
    fn progress(&mut self, _: f64, _: Option<f64>, _: Option<String>) -> wasmtime::Result<()> {
        Ok(())
    }
}

struct Bare {
    engine: Engine,
    pre: bindings::PluginPre<State>,
}

impl Bare {
    fn new(component: &[u8]) -> wasmtime::Result<Bare> {
        let config = toolhost::plugin::bare::config(&Limits::default(), Some(INSTANCES_MAX));
        let engine = Engine::new(&config)?;
        let mut linker = Linker::new(&engine);
        wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
        bindings::Plugin::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state)?;
        let component = Component::new(&engine, component)?;
        let pre = bindings::PluginPre::new(linker.instantiate_pre(&component)?)?;
        Ok(Bare { engine, pre })
    }

    async fn call(&self) -> wasmtime::Result<types::ToolOutput> {
        let state = State {
            table: ResourceTable::new(),
            wasi: WasiCtx::builder().build(),
            limits: StoreLimitsBuilder::new().memory_size(256 << 20).build(),
        };
        let mut store = Store::new(&self.engine, state);
        store.limiter(|state| &mut state.limits);
        store.set_epoch_deadline(1);
        store.epoch_deadline_async_yield_and_update(1);
        let plugin = self.pre.instantiate_async(&mut store).await?;
        let context = types::CallContext {
            session_id: None,
            task_id: None,
            tool_call_id: None,
            remaining_ms: 60_000,
            extensions: Vec::new(),
        };
        let answer = plugin.call_call(&mut store, "echo", ARGUMENTS, &context).await?;
        answer.map_err(|error| wasmtime::Error::msg(format!("{error:?}")))
    }
}

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let out = tempfile::tempdir().expect("a folder");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let request = BuildRequest {
        folder: root.join("tests/guests"),
        out: out.path().to_owned(),
        environment: std::env::vars_os().collect(),
        show_messages: false,
    };
    runtime.block_on(author::build(&request)).expect("guests that build");
    let component = std::fs::read(out.path().join("probe.wasm")).expect("the guest");
    let bare = Bare::new(&component).expect("a bare guest");
    let folder = Folder { path: out.path().to_owned(), origin: Origin::Project };
    let settings = HostSettings { folders: vec![folder], ..HostSettings::default() };

    runtime.block_on(async {
        let host = Host::start(settings).expect("a host");
        host.loaded().await;
        let (mut bare_times, mut host_times) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS + 20 {
            let bare_time = time(async || {
                bare.call().await.expect("an answer");
            })
            .await;
            let host_time = time(async || {
                let outcome = host.call(Call::new("echo", ARGUMENTS)).await;
                assert!(outcome.result.is_ok(), "{outcome:?}");
            })
            .await;
            // The first rounds warm up.
            if round >= 20 {
                bare_times.push(bare_time);
                host_times.push(host_time);
            }
        }
        report(&mut bare_times, &mut host_times);
    });
}

/// The time of one call, as the mean of a round.
async fn time(call: impl AsyncFn()) -> Duration {
    let start = Instant::now();
    for _ in 0..CALLS_PER_ROUND {
        call().await;
    }
    start.elapsed() / CALLS_PER_ROUND
}

fn report(bare: &mut [Duration], host: &mut [Duration]) {
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    println!("{:<28} {:>12} {:>12}", "call (fresh instance)", "median us", "p99 us");
    let mut medians = Vec::new();
    for (name, times) in [("wasmtime alone", bare), ("through the library", host)] {
        times.sort();
        let (median, p99) = (times[times.len() / 2], times[times.len() * 99 / 100]);
        println!("{name:<28} {:>12.1} {:>12.1}", micros(median), micros(p99));
        medians.push(micros(median));
    }
    let ratio = medians[1] / medians[0];
    let verdict = if ratio <= BUDGET { "within" } else { "OVER" };
    println!("ratio {ratio:.2}: {verdict} the budget of {BUDGET}");
}
