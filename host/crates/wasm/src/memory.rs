//! What one guest takes of the machine's memory, on both sides of the sandbox: its linear memory and
//! tables, and what the host holds for it, its handles and whatever stands behind them. All of it comes
//! out of `memory_bytes_max` and of the one budget of all guests, and goes back with what it was
//! taken for.
//!
//! Three ways lead here. The engine asks [`MemoryLimiter`] before a memory or a table grows. What
//! the host makes and drops itself holds a [`Charge`]. And what lies in the table of handles is counted
//! there, by [`HandleMemory`]: entries come, go and move by code of WASI that nobody can hook into, so whoever
//! lets one grow says so before, and the table is counted when that adds up.
//!
//! Not counted is what passes: what a guest hands over in one go (`Limits::transfer_bytes_max`), a call's
//! arguments and output, its log and stderr; each has a bound of its own.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwapOption;
use http::HeaderMap;
use wasmtime::ResourceLimiter;
use wasmtime::component::ResourceTable;
use wasmtime_wasi_http::FieldMap;
use wasmtime_wasi_http::p2::body::HostFutureTrailers;
use wasmtime_wasi_http::p2::types::{
    HostIncomingResponse, HostOutgoingRequest, HostOutgoingResponse,
};

use toolhost_core::limits::Limits;
use toolhost_core::runtime::MemoryBudget;
use toolhost_core::tool::Meter;

/// Handles a guest may hold at once, and entries of its resource table.
pub(super) const HANDLES_MAX: usize = 1_024;
/// What the entry of a small handle takes, such as a timer: its place, its box, its parent's list.
pub(super) const HANDLE_BYTES: u64 = 512;
/// What a guest's handles may take before they are counted: no ordinary call has more, and most
/// calls are too short to count anything.
const UNCOUNTED_BYTES: u64 = 128 << 10;
/// How much more than it needs is taken at least, so that the table is seldom counted.
const HEADROOM_BYTES: u64 = 64 << 10;
/// After a refusal, how many more are refused until the table is counted again: counting takes
/// up to some milliseconds, where a guest holds what it may.
const REFUSALS_BETWEEN_COUNTS: u32 = 16;
/// What a body keeps of what was written to it and not sent: one piece, and the queue for it.
pub(super) const BODY_BYTES: u64 = BODY_PIECE_BYTES as u64 + (4 << 10);
/// How much of a body a guest can hand over in one go.
pub(super) const BODY_PIECE_BYTES: usize = 16 << 10;
/// Core modules, tables and memories of one component; Python has 14 core modules.
const CORE_INSTANCES_MAX: usize = 64;
const TABLES_MAX: usize = 8;
/// What one element of a table takes: a pointer.
const TABLE_ELEMENT_BYTES: u64 = 8;

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

    /// The limit and both numbers, for whoever called.
    pub(super) fn message(self) -> String {
        match self {
            Denied::Guest { asked, allowed } => {
                format!("memory of {asked} bytes exceeds `memory_bytes_max` of {allowed}")
            }
            Denied::AllGuests { asked, allowed } => format!(
                "memory of {asked} bytes is not left; all tools together may use {allowed} (`memory_all_bytes_max`); try again later"
            ),
            Denied::Table { asked, allowed } => {
                format!("a table of {asked} elements exceeds `table_elements_max` of {allowed}")
            }
        }
    }
}

/// There is no memory left for what the guest wants the host to hold.
#[derive(Debug, thiserror::Error)]
#[error("the host may hold no more memory for this guest")]
pub(super) struct MemoryRefused;

/// The memory of one guest.
///
/// A refusal does not end the guest, which may well cope; but if it crashes afterwards, this is
/// taken for the reason.
#[derive(Debug)]
pub(super) struct GuestMemory {
    allowed: u64,
    used: AtomicU64,
    denied: Mutex<Option<Denied>>,
    budget: Arc<MemoryBudget>,
    /// Of the call that the guest runs, as soon as that is known.
    meter: ArcSwapOption<Meter>,
}

impl GuestMemory {
    pub(super) fn new(limits: &Limits, budget: &Arc<MemoryBudget>) -> Arc<GuestMemory> {
        Arc::new(GuestMemory {
            allowed: limits.memory_bytes_max.0,
            used: AtomicU64::new(0),
            denied: Mutex::default(),
            budget: Arc::clone(budget),
            meter: ArcSwapOption::empty(),
        })
    }

    /// From now on counts what is used for a call, and what is used already.
    pub(super) fn count_for(&self, meter: &Arc<Meter>) {
        self.meter.store(Some(Arc::clone(meter)));
        meter.saw_memory(self.used.load(Ordering::Acquire));
    }

    /// What was refused last.
    pub(super) fn denied(&self) -> Option<Denied> {
        *self.denied.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes `bytes` for as long as the charge lives.
    pub(super) fn charge(self: &Arc<GuestMemory>, bytes: u64) -> Result<Charge, MemoryRefused> {
        match self.take(bytes) {
            true => Ok(Charge { memory: Arc::clone(self), bytes }),
            false => Err(MemoryRefused),
        }
    }

    /// Takes `more` bytes, if the guest may have them and they are there.
    fn take(&self, more: u64) -> bool {
        let taken = self.try_take(more);
        if let Err(denied) = taken {
            self.deny(denied);
        }
        taken.is_ok()
    }

    fn deny(&self, denied: Denied) {
        *self.denied.lock().unwrap_or_else(PoisonError::into_inner) = Some(denied);
    }

    fn try_take(&self, more: u64) -> Result<(), Denied> {
        let allowed = self.allowed;
        let taken = self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, |used| {
            used.checked_add(more).filter(|used| *used <= allowed)
        });
        let asked = taken.unwrap_or_else(|used| used).saturating_add(more);
        if taken.is_err() {
            return Err(Denied::Guest { asked, allowed });
        }
        if !self.budget.take(more) {
            self.used.fetch_sub(more, Ordering::AcqRel);
            return Err(Denied::AllGuests { asked, allowed: self.budget.total() });
        }
        if let Some(meter) = &*self.meter.load() {
            meter.saw_memory(asked);
        }
        Ok(())
    }

    fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::AcqRel);
        self.budget.give_back(bytes);
    }
}

/// Memory that the host holds for a guest, as long as this lives.
#[derive(Debug)]
pub(super) struct Charge {
    memory: Arc<GuestMemory>,
    bytes: u64,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.memory.give_back(self.bytes);
    }
}

/// Bounds the memories and the tables of one guest.
pub(super) struct MemoryLimiter {
    memory: Arc<GuestMemory>,
    table_elements_max: usize,
    taken: u64,
}

impl MemoryLimiter {
    pub(super) fn new(memory: &Arc<GuestMemory>, limits: &Limits) -> MemoryLimiter {
        let memory = Arc::clone(memory);
        MemoryLimiter { memory, table_elements_max: limits.table_elements_max.0, taken: 0 }
    }

    fn take(&mut self, more: u64) -> bool {
        let is_taken = self.memory.take(more);
        if is_taken {
            self.taken += more;
        }
        is_taken
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
            self.memory.deny(Denied::Table { asked, allowed });
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
        self.memory.give_back(self.taken);
    }
}

/// What the table of handles of one guest holds.
pub(super) struct HandleMemory {
    memory: Arc<GuestMemory>,
    charged: u64,
    /// When the table was counted last.
    counted: u64,
    /// What may have come since then.
    foretold: u64,
    refusals_left: u32,
}

impl HandleMemory {
    pub(super) fn new(memory: &Arc<GuestMemory>) -> HandleMemory {
        let memory = Arc::clone(memory);
        HandleMemory { memory, charged: 0, counted: 0, foretold: 0, refusals_left: 0 }
    }

    /// Says that the table will hold at most so many bytes more, and asks whether it may. What is
    /// refused must not come.
    pub(super) fn foretell(&mut self, more: u64, table: &mut ResourceTable) -> bool {
        self.foretold = self.foretold.saturating_add(more);
        if self.counted.saturating_add(self.foretold) <= UNCOUNTED_BYTES + self.charged {
            return true;
        }
        self.settle(more, table)
    }

    /// Counts the table, and takes or gives back the difference.
    fn settle(&mut self, more: u64, table: &mut ResourceTable) -> bool {
        if let Some(left) = self.refusals_left.checked_sub(1) {
            self.refusals_left = left;
            self.foretold -= more;
            return false;
        }
        self.counted = table.iter_mut().map(|entry| entry_bytes(entry)).sum();
        self.foretold = more;
        let needed = self.counted.saturating_add(more);
        let charge_for = |bytes: u64| bytes.saturating_sub(UNCOUNTED_BYTES);
        let with_room = charge_for(needed.saturating_add((needed / 2).max(HEADROOM_BYTES)));
        if with_room <= self.charged {
            self.memory.give_back(self.charged - with_room);
            self.charged = with_room;
            return true;
        }
        // Near the limit with little room, or with none, before it is refused.
        for wanted in [with_room, charge_for(needed.saturating_add(HEADROOM_BYTES))] {
            if wanted <= self.charged || self.memory.try_take(wanted - self.charged).is_ok() {
                self.charged = self.charged.max(wanted);
                return true;
            }
        }
        let wanted = charge_for(needed);
        if wanted <= self.charged || self.memory.take(wanted - self.charged) {
            self.charged = self.charged.max(wanted);
            return true;
        }
        self.foretold = 0;
        self.refusals_left = REFUSALS_BETWEEN_COUNTS;
        false
    }
}

impl Drop for HandleMemory {
    fn drop(&mut self) {
        self.memory.give_back(self.charged);
    }
}

/// What an entry of the table takes. What holds a [`Charge`] of its own counts as a small one, and
/// fields that several entries share count in each.
fn entry_bytes(entry: &(dyn Any + Send)) -> u64 {
    let behind = if let Some(fields) = entry.downcast_ref::<FieldMap>() {
        fields_bytes(fields)
    } else if let Some(request) = entry.downcast_ref::<HostOutgoingRequest>() {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::capacity) as u64;
        let body = request.body.as_ref().map_or(0, |_| BODY_BYTES);
        let words = text(&request.authority) + text(&request.path_with_query);
        fields_bytes(&request.headers) + words + body
    } else if let Some(response) = entry.downcast_ref::<HostIncomingResponse>() {
        fields_bytes(&response.headers)
    } else if let Some(response) = entry.downcast_ref::<HostOutgoingResponse>() {
        fields_bytes(&response.headers) + response.body.as_ref().map_or(0, |_| BODY_BYTES)
    } else if let Some(HostFutureTrailers::Done(Ok(Some(trailers)))) = entry.downcast_ref() {
        fields_bytes(trailers)
    } else {
        0
    };
    HANDLE_BYTES + behind
}

/// What fields take: the places that the map has, each with its share of the index, and what
/// stands in them.
pub(super) fn fields_bytes(fields: &HeaderMap) -> u64 {
    const MAP: usize = 128;
    const PLACE: usize = 112;
    // A further value of one name, in a list that grows by doubling.
    const FURTHER: usize = 2 * 72;
    const ALLOCATION: usize = 48;
    let names = fields.keys().map(|name| name.as_str().len() + ALLOCATION).sum::<usize>();
    let values = fields.values().map(|value| value.len() + ALLOCATION).sum::<usize>();
    let further = (fields.len() - fields.keys_len()) * FURTHER;
    (MAP + fields.capacity() * PLACE + further + names + values) as u64
}

#[cfg(test)]
mod tests;
