//! What belongs to one guest: its authority, its limits, and what it said on the way.

pub(crate) mod errors;
pub(crate) mod log;
pub(crate) mod progress;
pub(crate) mod script;
pub(crate) mod wasi;

use std::collections::HashSet;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;
use wasmtime::Store;
use wasmtime::component::ResourceTable;
use wasmtime::{AsContext, AsContextMut, StoreContext, StoreContextMut};
use wasmtime_wasi::filesystem::WasiFilesystemCtxView;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpView};

use super::call_log::CallLog;
use super::capability::dirs::files::{Files, Names, StuckOpens};
use super::capability::dirs::roots::Roots;
use super::capability::http::GuestHttp;
use super::clock::Running;
use super::memory::{
    Charge, GuestMemory, HANDLE_BYTES, HANDLES_MAX, HandleMemory, MemoryLimiter, MemoryRefused,
};
use super::plugin::Prepared;
use super::plugin::program::Program;
use super::redaction::PluginSecrets;
use super::rights::Rights;
use log::GuestLog;
use progress::GuestProgress;
use script::GuestScript;
use toolhost_core::tool::{Meter, ProgressSink};
use wasi::{StderrTail, context};

/// The data of one store.
pub(super) struct Guest {
    table: ResourceTable,
    wasi: WasiCtx,
    http: WasiHttpCtx,
    requests: GuestHttp,
    pub(super) head_bytes_max: usize,
    pub(super) stderr: StderrTail,
    pub(super) log: GuestLog,
    pub(super) progress: GuestProgress,
    pub(super) memory: Arc<GuestMemory>,
    limiter: MemoryLimiter,
    handles: HandleMemory,
    /// What nobody tells the end of.
    held: Vec<Charge>,
    pub(super) meter: Arc<Meter>,
    pub(super) host_calls_max: u64,
    pub(super) conduct: Arc<CallLog>,
    pub(super) secrets: Arc<PluginSecrets>,
    /// What it runs, if it is a runner.
    pub(super) script: Option<GuestScript>,
    /// It runs `register`.
    pub(super) registers: bool,
    stuck_opens: Arc<StuckOpens>,
    stuck_opens_max: usize,
    listings: HashSet<u32>,
    roots: Roots,
    pub(super) names: Names,
    is_probed: bool,
    _clock: Running,
}

/// A store with its place in the pool.
///
/// wasmtime drops a store's data before it frees what the instance had of the pool, so the place
/// is no part of the data: it is given back when the store is gone.
pub(super) struct GuestStore {
    store: Store<Guest>,
    // After the store: fields are dropped in their order.
    _place: OwnedSemaphorePermit,
}

impl Deref for GuestStore {
    type Target = Store<Guest>;

    fn deref(&self) -> &Store<Guest> {
        &self.store
    }
}

impl DerefMut for GuestStore {
    fn deref_mut(&mut self) -> &mut Store<Guest> {
        &mut self.store
    }
}

impl AsContext for GuestStore {
    type Data = Guest;

    fn as_context(&self) -> StoreContext<'_, Guest> {
        self.store.as_context()
    }
}

impl AsContextMut for GuestStore {
    fn as_context_mut(&mut self) -> StoreContextMut<'_, Guest> {
        self.store.as_context_mut()
    }
}

/// Makes a store for one guest, with no other authority than its rights.
///
/// `transfer_bytes_max` bounds what the guest may hand over in one go, its result included.
///
/// It waits for a place in the pool, which is there but for guests that are about to be dropped.
pub(super) async fn new(
    plugin: &Prepared,
    program: &Program,
    meter: Arc<Meter>,
    progress: Option<ProgressSink>,
    transfer_bytes_max: u64,
    rights: Arc<Rights>,
) -> wasmtime::Result<GuestStore> {
    let engine = &program.linked.engine;
    let limits = &engine.limits;
    let stderr = StderrTail::new(limits.stderr_bytes_max.as_usize());
    let mut table = ResourceTable::new();
    table.set_max_capacity(HANDLES_MAX);
    let mut http = WasiHttpCtx::new();
    http.set_field_size_limit(limits.http_head_bytes_max.as_usize());
    let wasi = context(&stderr, &rights, &plugin.rules)?;
    let secrets = plugin.secrets();
    let conduct = CallLog::new(&plugin.id, rights, &secrets, &meter, limits);
    let memory = GuestMemory::new(limits, &engine.memory, &meter);
    let place = Arc::clone(&engine.places).acquire_owned().await?;
    let guest = Guest {
        table,
        wasi,
        http,
        requests: GuestHttp::new(&conduct, &plugin.client, &secrets, &memory, limits),
        head_bytes_max: limits.http_head_bytes_max.as_usize(),
        secrets,
        script: program.script.clone(),
        registers: false,
        stderr,
        log: GuestLog::new(&plugin.id, limits),
        progress: GuestProgress::new(progress, limits),
        limiter: MemoryLimiter::new(&memory, limits),
        handles: HandleMemory::new(&memory),
        held: Vec::new(),
        memory,
        meter: Arc::clone(&meter),
        host_calls_max: limits.host_calls_max.0 as u64,
        conduct,
        stuck_opens: Arc::clone(&plugin.stuck_opens),
        stuck_opens_max: limits.stuck_opens_max.0,
        listings: HashSet::new(),
        roots: Roots::default(),
        names: Names::new(&plugin.rules),
        is_probed: plugin.is_probed,
        _clock: engine.run_clock(),
    };
    let mut store = Store::new(&engine.wasmtime, guest);
    store.limiter(|guest| &mut guest.limiter);
    store.set_hostcall_fuel(usize::try_from(transfer_bytes_max).unwrap_or(usize::MAX));
    store.set_max_component_handles(HANDLES_MAX);
    store.set_epoch_deadline(1);
    store.epoch_deadline_async_yield_and_update(1);
    Ok(GuestStore { store, _place: place })
}

impl Guest {
    /// What its handles stand for.
    pub(super) fn table(&mut self) -> &mut ResourceTable {
        &mut self.table
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
    fn expect_handle(&mut self) {
        let most = match self.foretell(HANDLE_BYTES) {
            Ok(()) => HANDLES_MAX,
            Err(MemoryRefused) => 0,
        };
        self.table.set_max_capacity(most);
    }

    /// Its files: those of WASI, guarded.
    pub(super) fn files(&mut self) -> Files<'_> {
        self.expect_handle();
        let inner = WasiFilesystemCtxView { ctx: self.wasi.filesystem(), table: &mut self.table };
        Files {
            inner,
            conduct: &self.conduct,
            memory: &self.memory,
            stuck: &self.stuck_opens,
            stuck_max: self.stuck_opens_max,
            listings: &mut self.listings,
            roots: &mut self.roots,
            names: &mut self.names,
            has_names: self.is_probed || self.conduct.rights.may_have_directories(),
            is_probed: self.is_probed,
        }
    }

    /// Tells whether the tool is probed.
    pub(super) fn is_probed(&self) -> bool {
        self.is_probed
    }

    /// Which of two mutually exclusive sides the call is on; empty as long as it is on none.
    pub(super) fn side(&self) -> String {
        self.conduct.side()
    }

    /// Counts a call into one of toolhost's own interfaces.
    ///
    /// # Errors
    /// If the guest has made as many as it may; the error ends the guest.
    pub(super) fn count_host_call(&self) -> wasmtime::Result<()> {
        if self.meter.count_host_call() >= self.host_calls_max {
            return Err(HostCallsExceeded.into());
        }
        Ok(())
    }
}

/// The guest called the host more often than it may.
#[derive(Debug, thiserror::Error)]
#[error("more host calls than `host_calls_max`")]
pub(super) struct HostCallsExceeded;

// The interface has records only, so there is nothing to implement.
impl super::adapter::contract::bindings::types::Host for Guest {}

impl WasiView for Guest {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        self.expect_handle();
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl WasiHttpView for Guest {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        self.expect_handle();
        WasiHttpCtxView { hooks: &mut self.requests, table: &mut self.table, ctx: &mut self.http }
    }
}
