//! wasmtime alone: the same component, the same engine settings, and nothing of the host.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use toolhost_core::limits::Limits;
use wasmtime::component::{Component, HasSelf, Linker, ResourceTable};
use wasmtime::{Engine, Store, StoreLimits, StoreLimitsBuilder};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

/// Guests at once in the pool; the host has room for 32 on each core.
const INSTANCES_MAX: usize = 64;

mod bindings {
    wasmtime::component::bindgen!({
        world: "plugin",
        path: "../../wit",
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

/// An engine with the host's settings.
pub(crate) struct Bare {
    engine: Engine,
    linker: Linker<State>,
}

/// A component that is ready to be instantiated.
pub(crate) struct BareComponent {
    engine: Engine,
    pre: bindings::PluginPre<State>,
    limited: bool,
}

/// Advances the epoch every millisecond, as the host does, until it is dropped.
pub(crate) struct EpochTicker(Arc<AtomicBool>);

impl Drop for EpochTicker {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Bare {
    pub(crate) fn new() -> Bare {
        let config = toolhost_wasm::bare::config(
            &Limits::default(),
            Some(INSTANCES_MAX),
            toolhost_wasm::bare::Speed::OfCalls,
        );
        let engine = Engine::new(&config).expect("an engine");
        let mut linker = Linker::new(&engine);
        wasmtime_wasi::p2::add_to_linker_async(&mut linker).expect("WASI");
        // Of the contract, what the measured components import.
        log::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state).expect("log");
        progress::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state)
            .expect("progress");
        types::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state).expect("types");
        Bare { engine, linker }
    }

    pub(crate) fn run_clock(&self) -> EpochTicker {
        let stopped = Arc::new(AtomicBool::new(false));
        let (engine, clock) = (self.engine.clone(), EpochTicker(Arc::clone(&stopped)));
        std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
                engine.increment_epoch();
            }
        });
        clock
    }

    pub(crate) fn compile(&self, component: &[u8]) -> BareComponent {
        self.link(&Component::new(&self.engine, component).expect("a component"))
    }

    pub(crate) fn precompile(&self, component: &[u8]) -> Vec<u8> {
        self.engine.precompile_component(component).expect("a component")
    }

    #[expect(unsafe_code, reason = "code that this benchmark has just compiled")]
    pub(crate) fn map(&self, code: &Path) -> BareComponent {
        // SAFETY: `precompile` wrote the file a moment ago.
        let component = unsafe { Component::deserialize_file(&self.engine, code) };
        self.link(&component.expect("a component"))
    }

    fn link(&self, component: &Component) -> BareComponent {
        let pre = self.linker.instantiate_pre(component).expect("it links");
        let pre = bindings::PluginPre::new(pre).expect("it fits");
        BareComponent { engine: self.engine.clone(), pre, limited: true }
    }
}

impl BareComponent {
    /// Without the bound on memory.
    pub(crate) fn without_limits(self) -> BareComponent {
        BareComponent { limited: false, ..self }
    }

    pub(crate) async fn register(&self) {
        let (mut store, plugin) = self.instance().await;
        plugin.call_register(&mut store).await.expect("an answer").expect("a registration");
    }

    pub(crate) async fn call(&self, tool: &str, arguments: &str) {
        let (mut store, plugin) = self.instance().await;
        let context = types::CallContext {
            session_id: None,
            task_id: None,
            tool_call_id: None,
            remaining_ms: 60_000,
            extensions: Vec::new(),
        };
        let answer = plugin.call_call(&mut store, tool, arguments, &context).await;
        answer.expect("an answer").expect("an output");
    }

    async fn instance(&self) -> (Store<State>, bindings::Plugin) {
        let state = State {
            table: ResourceTable::new(),
            wasi: WasiCtx::builder().build(),
            limits: StoreLimitsBuilder::new().memory_size(256 << 20).build(),
        };
        let mut store = Store::new(&self.engine, state);
        if self.limited {
            store.limiter(|state| &mut state.limits);
        }
        store.set_epoch_deadline(1);
        store.epoch_deadline_async_yield_and_update(1);
        let plugin = self.pre.instantiate_async(&mut store).await.expect("an instance");
        (store, plugin)
    }
}
