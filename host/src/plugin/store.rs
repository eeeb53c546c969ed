//! What belongs to one guest: its authority, its limits, and what it said on the way.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::OwnedSemaphorePermit;
use wasmtime::component::ResourceTable;
use wasmtime::{ResourceLimiter, Store};
use wasmtime_wasi::filesystem::WasiFilesystemCtxView;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpView};

use super::conduct::Conduct;
use super::engine::{MemoryBudget, Running};
use super::imports::files::{Files, StuckOpens};
use super::imports::http::GuestHttp;
use super::imports::log::GuestLog;
use super::imports::progress::GuestProgress;
use super::imports::roots::Roots;
use super::imports::script::GuestScript;
use super::imports::wasi::{StderrTail, context};
use super::instance::Prepared;
use super::rights::Rights;
use super::secrets::PluginSecrets;
use crate::limits::Limits;
use crate::tool::{Meter, ProgressSink};

/// Handles a guest may hold at once, and entries of its resource table: what stands behind one
/// is memory of the host, up to some 100 KiB for a request.
const HANDLES_MAX: usize = 1_024;
/// Core modules, tables and memories of one component; Python has 14 core modules.
const CORE_INSTANCES_MAX: usize = 64;
const TABLES_MAX: usize = 8;
/// What one element of a table takes: a pointer.
const TABLE_ELEMENT_BYTES: u64 = 8;

/// The data of one store.
pub(super) struct Guest {
    table: ResourceTable,
    wasi: WasiCtx,
    http: WasiHttpCtx,
    requests: GuestHttp,
    pub(super) stderr: StderrTail,
    pub(super) log: GuestLog,
    pub(super) progress: GuestProgress,
    pub(super) memory: MemoryLimiter,
    pub(super) meter: Arc<Meter>,
    pub(super) host_calls_max: u64,
    pub(super) conduct: Arc<Conduct>,
    pub(super) secrets: Arc<PluginSecrets>,
    /// What it runs, if it is a runner.
    pub(super) script: Option<GuestScript>,
    /// It runs `register`.
    pub(super) registers: bool,
    stuck_opens: Arc<StuckOpens>,
    stuck_opens_max: usize,
    listings: HashSet<u32>,
    roots: Roots,
    /// Where the tool is probed.
    decoys: Option<Vec<(u32, String)>>,
    _clock: Running,
    _place: OwnedSemaphorePermit,
}

/// Makes a store for one guest, with no other authority than its rights.
///
/// `transfer_bytes_max` bounds what the guest may hand over in one go, its result included.
///
/// It waits for a place in the pool, which is there but for guests that are about to be dropped.
pub(super) async fn new(
    plugin: &Prepared,
    meter: Arc<Meter>,
    progress: Option<ProgressSink>,
    transfer_bytes_max: u64,
    rights: Arc<Rights>,
) -> wasmtime::Result<Store<Guest>> {
    let engine = &plugin.engine;
    let limits = &engine.limits;
    let stderr = StderrTail::new(limits.stderr_bytes_max.as_usize());
    let mut table = ResourceTable::new();
    table.set_max_capacity(HANDLES_MAX);
    let mut http = WasiHttpCtx::new();
    http.set_field_size_limit(limits.http_head_bytes_max.as_usize());
    let wasi = context(&stderr, &rights, plugin.decoy())?;
    let secrets = plugin.secrets();
    let conduct = Conduct::new(&plugin.id, rights, &secrets, &meter, limits);
    let place = Arc::clone(&engine.places).acquire_owned().await?;
    let guest = Guest {
        table,
        wasi,
        http,
        requests: GuestHttp::new(&conduct, &plugin.client, &secrets, limits),
        secrets,
        script: plugin.script.clone(),
        registers: false,
        stderr,
        log: GuestLog::new(&plugin.id, limits),
        progress: GuestProgress::new(progress, limits, Instant::now()),
        memory: MemoryLimiter {
            allowed: limits.memory_bytes_max.0,
            table_elements_max: limits.table_elements_max.0,
            used: 0,
            denied: None,
            budget: Arc::clone(&engine.memory),
            meter: Arc::clone(&meter),
        },
        meter: Arc::clone(&meter),
        host_calls_max: limits.host_calls_max.0 as u64,
        conduct,
        stuck_opens: Arc::clone(&plugin.stuck_opens),
        stuck_opens_max: limits.stuck_opens_max.0,
        listings: HashSet::new(),
        roots: Roots::default(),
        decoys: plugin.decoy().map(|_| Vec::new()),
        _clock: engine.run_clock(),
        _place: place,
    };
    let mut store = Store::new(&engine.wasmtime, guest);
    store.limiter(|guest| &mut guest.memory);
    store.set_hostcall_fuel(usize::try_from(transfer_bytes_max).unwrap_or(usize::MAX));
    store.set_max_component_handles(HANDLES_MAX);
    store.set_epoch_deadline(1);
    store.epoch_deadline_async_yield_and_update(1);
    Ok(store)
}

impl Guest {
    /// What its handles stand for.
    pub(super) fn table(&mut self) -> &mut ResourceTable {
        &mut self.table
    }

    /// Its files: those of WASI, guarded.
    pub(super) fn files(&mut self) -> Files<'_> {
        let inner = WasiFilesystemCtxView { ctx: self.wasi.filesystem(), table: &mut self.table };
        Files {
            inner,
            conduct: &self.conduct,
            stuck: &self.stuck_opens,
            stuck_max: self.stuck_opens_max,
            listings: &mut self.listings,
            roots: &mut self.roots,
            decoys: self.decoys.as_mut(),
        }
    }

    /// Tells whether the tool is probed.
    pub(super) fn is_probed(&self) -> bool {
        self.decoys.is_some()
    }

    /// The side of an either/or that the call is on; empty as long as it is on none.
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
impl super::bindings::types::Host for Guest {}

impl WasiView for Guest {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl WasiHttpView for Guest {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView { hooks: &mut self.requests, table: &mut self.table, ctx: &mut self.http }
    }
}

/// Bounds the memory and the tables of one guest, and takes them from the budget of all.
///
/// A refused growth does not end the guest, which may well cope; but if it crashes afterwards,
/// this is taken for the reason.
pub(super) struct MemoryLimiter {
    allowed: u64,
    table_elements_max: usize,
    used: u64,
    denied: Option<Denied>,
    budget: Arc<MemoryBudget>,
    meter: Arc<Meter>,
}

/// What a guest asked for and did not get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Denied {
    /// More memory than one guest may have.
    Guest { asked: u64, allowed: u64 },
    /// More memory than all guests together may have.
    AllGuests { asked: u64, allowed: u64 },
    /// More table elements than one table may have.
    Table { asked: u64, allowed: u64 },
}

impl Denied {
    /// The limit that refused it.
    pub(super) fn limit(self) -> &'static str {
        match self {
            Denied::Guest { .. } => "memory_bytes_max",
            Denied::AllGuests { .. } => Limits::MEMORY_ALL,
            Denied::Table { .. } => "table_elements_max",
        }
    }
}

impl MemoryLimiter {
    /// Takes `more` bytes, if the guest may have them and they are there.
    fn take(&mut self, more: u64) -> bool {
        let asked = self.used.saturating_add(more);
        if asked > self.allowed {
            self.denied = Some(Denied::Guest { asked, allowed: self.allowed });
            return false;
        }
        if !self.budget.take(more) {
            self.denied = Some(Denied::AllGuests { asked, allowed: self.budget.total() });
            return false;
        }
        self.used = asked;
        self.meter.saw_memory(asked);
        true
    }

    pub(super) fn denied(&self) -> Option<Denied> {
        self.denied
    }
}

impl ResourceLimiter for MemoryLimiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(self.take((desired - current) as u64))
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if desired > self.table_elements_max {
            let (asked, allowed) = (desired as u64, self.table_elements_max as u64);
            self.denied = Some(Denied::Table { asked, allowed });
            return Ok(false);
        }
        Ok(self.take((desired - current) as u64 * TABLE_ELEMENT_BYTES))
    }

    fn instances(&self) -> usize {
        CORE_INSTANCES_MAX
    }

    fn tables(&self) -> usize {
        TABLES_MAX
    }

    fn memories(&self) -> usize {
        1
    }
}

impl Drop for MemoryLimiter {
    fn drop(&mut self) {
        self.budget.give_back(self.used);
    }
}
