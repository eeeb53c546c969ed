//! An instance of a component: its store, its memory, and what its handles stand for.
//!
//! What belongs to the one call that it runs is apart, in [`CallState`], so that an instance can be
//! made before its call is known. As long as it has none, its guest has no authority.

pub(super) mod call;
mod ended;
mod errors;
mod log;
mod progress;
pub(super) mod script;
mod wasi;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use wasmtime::component::{self, InstancePre, Linker, ResourceTable};
use wasmtime::{AsContext, AsContextMut, Store, StoreContext, StoreContextMut};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use super::engine::Engine;
use super::memory::{
    Charge, GuestMemory, HANDLE_BYTES, HANDLES_MAX, HandleMemory, MemoryLimiter, MemoryRefused,
};
use super::redaction::Redaction;
use super::rights::NoLongerThere;
use call::{CallPart, CallSetup, CallState, PartView};
use script::GuestScript;
use toolhost_core::limits::Limits;

pub(super) use ended::too_large;

/// The data of one store.
pub(super) struct Guest {
    table: ResourceTable,
    limiter: MemoryLimiter,
    handles: HandleMemory,
    /// What nobody tells the end of.
    held: Vec<Charge>,
    memory: Arc<GuestMemory>,
    /// What it runs, if it is a runner.
    script: Option<GuestScript>,
    engine: Arc<Engine>,
    /// The call that it runs, as soon as that is known.
    call: Option<CallState>,
}

/// A store with its place in the pool, and what its component exports.
///
/// wasmtime drops a store's data before it frees what the instance had of the pool, so the place
/// is no part of the data: it is given back when the store is gone.
pub(super) struct Instance {
    store: Store<Guest>,
    exports: Option<component::Instance>,
    // After the store: fields are dropped in their order.
    _place: OwnedSemaphorePermit,
}

/// Links what every guest may import, whatever it was granted.
///
/// All of WASI 0.2, since stock Python and JavaScript components import nearly all of it; what refuses
/// is the context of each call, not the linker.
pub(super) fn link(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    wasmtime_wasi::p2::add_to_linker_async(linker)?;
    errors::add_to_linker(linker)?;
    log::add_to_linker(linker)?;
    progress::add_to_linker(linker)?;
    script::add_to_linker(linker)
}

impl Instance {
    /// Makes a store for a guest, which has no call yet.
    ///
    /// It waits for a place in the pool, which is there but for guests that are about to be dropped.
    pub(super) async fn open(
        engine: &Arc<Engine>,
        script: Option<GuestScript>,
    ) -> wasmtime::Result<Instance> {
        let limits = &engine.limits;
        let place = Arc::clone(&engine.places).acquire_owned().await?;
        let mut table = ResourceTable::new();
        table.set_max_capacity(HANDLES_MAX);
        let memory = GuestMemory::new(limits, &engine.memory);
        let guest = Guest {
            table,
            limiter: MemoryLimiter::new(&memory, limits),
            handles: HandleMemory::new(&memory),
            held: Vec::new(),
            memory,
            script,
            engine: Arc::clone(engine),
            call: None,
        };
        let mut store = Store::new(&engine.wasmtime, guest);
        store.limiter(|guest| &mut guest.limiter);
        store.set_max_component_handles(HANDLES_MAX);
        store.set_epoch_deadline(1);
        store.epoch_deadline_async_yield_and_update(1);
        Ok(Instance { store, exports: None, _place: place })
    }

    /// Gives it the call that it is to run: from here on it has the authority of that.
    pub(super) fn begin(&mut self, setup: CallSetup) {
        let fuel = usize::try_from(setup.transfer_bytes_max).unwrap_or(usize::MAX);
        self.store.set_hostcall_fuel(fuel);
        let guest = self.store.data_mut();
        guest.memory.count_for(&setup.meter);
        guest.call = Some(CallState::new(&guest.engine, setup));
    }

    /// Makes the instance itself.
    pub(super) async fn instantiate(&mut self, pre: &InstancePre<Guest>) -> wasmtime::Result<()> {
        // Its component may run code of its own, and must yield meanwhile.
        let _clock = self.store.data().engine.run_clock();
        self.exports = Some(pre.instantiate_async(&mut self.store).await?);
        Ok(())
    }

    /// The bounds of its guest.
    pub(super) fn limits(&self) -> &Limits {
        &self.store.data().engine.limits
    }

    /// How long its call may take at most from now on.
    pub(super) fn time_left(&mut self) -> Duration {
        self.store.data_mut().call().time_left()
    }

    /// What no text of its call may show.
    pub(super) fn redaction(&mut self) -> Arc<Redaction> {
        Arc::clone(self.store.data_mut().call().call_log.redaction())
    }

    /// What its component exports, once it is made.
    pub(super) fn exports(&self) -> wasmtime::Result<component::Instance> {
        self.exports.ok_or_else(|| wasmtime::Error::msg("the instance is not made yet"))
    }
}

impl AsContext for Instance {
    type Data = Guest;

    fn as_context(&self) -> StoreContext<'_, Guest> {
        self.store.as_context()
    }
}

impl AsContextMut for Instance {
    fn as_context_mut(&mut self) -> StoreContextMut<'_, Guest> {
        self.store.as_context_mut()
    }
}

impl Guest {
    /// The call that it runs; one without any authority, as long as it has none.
    pub(super) fn call(&mut self) -> &mut CallState {
        current(&mut self.call, &self.engine)
    }

    /// What its handles stand for.
    pub(super) fn table(&mut self) -> &mut ResourceTable {
        &mut self.table
    }

    /// The memory that it and the host for it have taken.
    pub(super) fn memory(&self) -> &Arc<GuestMemory> {
        &self.memory
    }

    /// Says that what stands behind its handles is about to grow by at most so many bytes.
    ///
    /// # Errors
    /// If the guest may have no more; the error ends the guest.
    pub(super) fn foretell(&mut self, more: u64) -> Result<(), MemoryRefused> {
        match self.handles.foretell(more, &mut self.table) {
            true => Ok(()),
            false => Err(MemoryRefused),
        }
    }

    /// Takes memory that is given back when the guest ends.
    ///
    /// # Errors
    /// If the guest may have no more; the error ends the guest.
    pub(super) fn hold_to_the_end(&mut self, bytes: u64) -> Result<(), MemoryRefused> {
        self.held.push(self.memory.charge(bytes)?);
        Ok(())
    }

    /// Makes room for one handle more, before code of WASI that may make one: where there is no
    /// memory for it, the table is full.
    pub(super) fn expect_handle(&mut self) {
        let most = match self.foretell(HANDLE_BYTES) {
            Ok(()) => HANDLES_MAX,
            Err(MemoryRefused) => 0,
        };
        self.table.set_max_capacity(most);
    }

    /// What a kind of authority keeps of the call, and what stands beside it.
    pub(super) fn part<P: CallPart>(&mut self) -> PartView<'_, P> {
        let Guest { table, memory, engine, call, .. } = self;
        current(call, engine).part(memory, &engine.limits, table)
    }

    /// The same, and the context of WASI; or why what was granted is not in that.
    pub(super) fn part_and_wasi<P: CallPart>(
        &mut self,
    ) -> (PartView<'_, P>, &mut WasiCtx, Option<&NoLongerThere>) {
        let Guest { table, memory, engine, call, .. } = self;
        current(call, engine).part_and_wasi(memory, &engine.limits, table)
    }

    /// Counts a call into one of toolhost's own interfaces.
    ///
    /// # Errors
    /// If the guest has made as many as it may; the error ends the guest.
    pub(super) fn count_host_call(&mut self) -> wasmtime::Result<()> {
        let host_calls_max = self.engine.limits.host_calls_max.0 as u64;
        if self.call().meter.count_host_call() >= host_calls_max {
            return Err(HostCallsExceeded.into());
        }
        Ok(())
    }
}

/// The call of a guest; one without any authority, as long as it has none.
fn current<'a>(call: &'a mut Option<CallState>, engine: &Engine) -> &'a mut CallState {
    call.get_or_insert_with(|| CallState::new(engine, CallSetup::none()))
}

/// The guest called the host more often than it may.
#[derive(Debug, thiserror::Error)]
#[error("more host calls than `host_calls_max`")]
struct HostCallsExceeded;

impl WasiView for Guest {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        self.expect_handle();
        let Guest { table, engine, call, .. } = self;
        WasiCtxView { ctx: current(call, engine).wasi(), table }
    }
}
