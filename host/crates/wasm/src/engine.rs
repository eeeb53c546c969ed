//! The wasmtime engine: one for the whole host, with every bound set that it knows; and a second
//! one where an author's own builds are compiled in no time, see [`Speed`].

use std::hash::{Hash, Hasher};
use std::num::NonZeroUsize;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use thiserror::Error;
use tokio::sync::Semaphore;
use wasmtime::{
    Config, Enabled, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig, Strategy,
};

use super::clock::{Clock, Running};
use super::cpu_isolation::CpuIsolation;
use toolhost_core::limits::{Limits, MemoryShare};
use toolhost_core::runtime::MemoryBudget;
use toolhost_core::scheduler::{Bounds, Scheduler};

/// Bytes of a freed slot that are cleaned in place; only if the kernel tells which are dirty. A guest in
/// Rust makes 90 KiB dirty; after a flood as many slots as calls may run at once keep so much.
const KEEP_RESIDENT_BYTES: usize = 128 << 10;

/// Why the engine does not start.
#[derive(Debug, Error)]
pub enum EngineError {
    /// wasmtime refuses the configuration on this machine.
    #[error("the WebAssembly engine does not start: {0}")]
    Refused(String),
}

/// What is to be fast: calls, or compiling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speed {
    /// Calls; the code is made by Cranelift.
    OfCalls,
    /// Compiling, for builds that last until the next one; the code is made by Winch.
    OfCompiling,
}

/// The engine, and what all guests share.
pub(super) struct Engine {
    pub(super) speed: Speed,
    /// Code of another hash cannot run here.
    pub(super) code_hash: u64,
    pub(super) wasmtime: wasmtime::Engine,
    pub(super) memory: Arc<MemoryBudget>,
    pub(super) limits: Arc<Limits>,
    /// Scheduler of guests that run beside calls: checks, descriptions and hooks.
    pub(super) beside: Arc<Scheduler>,
    /// Where guests go on that run long.
    pub(super) long: Arc<CpuIsolation>,
    /// Places of the pool. A guest that was stopped has its own until it is dropped.
    pub(super) places: Arc<Semaphore>,
    clock: Arc<Clock>,
}

/// What the guests of all engines of a host share.
struct EngineParts {
    memory: Arc<MemoryBudget>,
    limits: Arc<Limits>,
    beside: Arc<Scheduler>,
    long: Arc<CpuIsolation>,
    places: Arc<Semaphore>,
}

/// Guests that run beside calls, at once. An exhausted pool is an error, so the pool has room
/// for them.
const BESIDE_MAX: usize = 32;
/// Of one plugin; so that its slow checks and hooks do not take the turns of the others.
const BESIDE_OF_ONE_MAX: usize = 16;

impl Engine {
    /// Starts the engine with room for `instances_max` guests at once.
    pub(super) fn start(limits: Arc<Limits>, instances_max: usize) -> Result<Engine, EngineError> {
        let instances_max = instances_max + BESIDE_MAX;
        let speed = Speed::OfCalls;
        let wasmtime = wasmtime::Engine::new(&config(&limits, Some(instances_max), speed))
            .or_else(|error| {
                // Little address space (a container's limit, say): slower, and just as safe.
                tracing::warn!(%error, "no pool of instances on this machine; calls are slower");
                wasmtime::Engine::new(&config(&limits, None, speed))
            })
            .map_err(refused)?;
        let memory = Arc::new(MemoryBudget::new(memory_bytes_max(limits.memory_all_bytes_max)));
        let beside = Arc::new(Scheduler::new(Bounds {
            running_of_one: BESIDE_OF_ONE_MAX,
            running: BESIDE_MAX,
            // A guard hears of every call, so all that wait may wait for it.
            waiting_of_one: limits.waiting_max.0,
            waiting: limits.waiting_max.0,
        }));
        let places = Arc::new(Semaphore::new(instances_max));
        let bounds = EngineParts { memory, limits, beside, long: Arc::default(), places };
        Engine::around(wasmtime, speed, bounds)
    }

    /// Starts a second engine, whose guests share every bound with those of this one.
    pub(super) fn start_quick(&self) -> Result<Engine, EngineError> {
        let (limits, speed) = (Arc::clone(&self.limits), Speed::OfCompiling);
        // A pool takes address space, and gains nothing where code is slow.
        let wasmtime = wasmtime::Engine::new(&config(&limits, None, speed)).map_err(refused)?;
        let (memory, beside) = (Arc::clone(&self.memory), Arc::clone(&self.beside));
        let (long, places) = (Arc::clone(&self.long), Arc::clone(&self.places));
        Engine::around(wasmtime, speed, EngineParts { memory, limits, beside, long, places })
    }

    fn around(
        wasmtime: wasmtime::Engine,
        speed: Speed,
        shared: EngineParts,
    ) -> Result<Engine, EngineError> {
        let EngineParts { memory, limits, beside, long, places } = shared;
        let code_hash = code_hash(&wasmtime);
        let clock = Clock::start(wasmtime.weak());
        Ok(Engine { speed, code_hash, wasmtime, memory, limits, beside, long, places, clock })
    }

    /// Makes the clock run for a guest, as long as the returned value lives.
    pub(super) fn run_clock(&self) -> Running {
        self.clock.run()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // So that the thread finds the engine gone.
        self.clock.wake();
    }
}

/// The configuration of the engine; on demand, without a pool, if `instances_max` is `None`.
///
/// Both have the same effect on compiled code, so one cache serves both.
pub fn config(limits: &Limits, instances_max: Option<usize>, speed: Speed) -> Config {
    let mut config = Config::new();
    if speed == Speed::OfCompiling {
        config.strategy(Strategy::Winch);
    }
    config
        .concurrency_support(false)
        .wasm_memory64(false)
        .wasm_multi_memory(false)
        .wasm_relaxed_simd(false)
        .epoch_interruption(true)
        .max_wasm_stack(limits.stack_bytes_max.as_usize())
        // At least half a MiB more, for frames of the host: an overflow there ends the process.
        .async_stack_size(limits.stack_bytes_max.as_usize() + (512 << 10))
        .wasm_backtrace_max_frames(NonZeroUsize::new(32))
        .cranelift_opt_level(OptLevel::Speed)
        // Loads run side by side already; an author's builds do not.
        .parallel_compilation(speed == Speed::OfCompiling);
    if let Some(instances_max) = instances_max {
        config
            .allocation_strategy(InstanceAllocationStrategy::Pooling(pool(limits, instances_max)));
    }
    config
}

/// An exhausted pool is an error and not a wait, so every total is what the most guests at once
/// can need, each of them at its largest.
fn pool(limits: &Limits, instances_max: usize) -> PoolingAllocationConfig {
    // A Python component has 14 core modules, one without WASI 38.
    const CORE_INSTANCES: usize = 64;
    const TABLES: usize = 8;
    let count = |each: usize| u32::try_from(instances_max * each).unwrap_or(u32::MAX);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(count(1))
        .total_core_instances(count(CORE_INSTANCES))
        .total_memories(count(1))
        .total_tables(count(TABLES))
        .total_stacks(count(1))
        .max_core_instances_per_component(CORE_INSTANCES as u32)
        .max_memories_per_component(1)
        .max_tables_per_component(TABLES as u32)
        // A Python component needs 399 KB and 242 KB.
        .max_component_instance_size(1 << 20)
        .max_core_instance_size(512 << 10)
        .max_memory_size(limits.memory_bytes_max.as_usize())
        .table_elements(limits.table_elements_max.0)
        .max_unused_warm_slots(64);
    // With swap on, a dirty page that was swapped out would be seen by the slot's next guest.
    if swap_is_off() {
        pool.pagemap_scan(Enabled::Auto)
            .linear_memory_keep_resident(KEEP_RESIDENT_BYTES)
            .table_keep_resident(64 << 10);
    }
    pool
}

/// wasmtime refuses this machine, or what guests are to import.
pub(super) fn refused(error: wasmtime::Error) -> EngineError {
    EngineError::Refused(format!("{error:#}"))
}

fn swap_is_off() -> bool {
    // One line is the heading.
    std::fs::read_to_string("/proc/swaps").is_ok_and(|swaps| swaps.lines().count() <= 1)
}

/// Memory of all guests together.
fn memory_bytes_max(share: MemoryShare) -> u64 {
    let half = machine_memory_bytes() / 2;
    match share {
        MemoryShare::Bytes(bytes) => bytes.0.min(half),
        MemoryShare::Half => half,
    }
}

/// Memory that this process may use: the machine's, or its container's if that is less.
fn machine_memory_bytes() -> u64 {
    const UNKNOWN: u64 = 4 << 30;
    let machine = physical_memory_bytes().unwrap_or(UNKNOWN);
    let container = std::fs::read_to_string("/sys/fs/cgroup/memory.max")
        .ok()
        .and_then(|text| text.trim().parse::<u64>().ok());
    container.map_or(machine, |container| container.min(machine))
}

#[cfg(target_os = "linux")]
fn physical_memory_bytes() -> Option<u64> {
    let info = rustix::system::sysinfo();
    info.totalram.checked_mul(u64::from(info.mem_unit))
}

#[cfg(not(target_os = "linux"))]
fn physical_memory_bytes() -> Option<u64> {
    None
}

/// The hash of everything that has an effect on the code: wasmtime's version, its settings, the CPU.
fn code_hash(engine: &wasmtime::Engine) -> u64 {
    let mut hasher = StableHasher(Sha256::new());
    engine.precompile_compatibility_hash().hash(&mut hasher);
    hasher.finish()
}

/// The same in every process, unlike the standard library's hasher of maps.
struct StableHasher(Sha256);

impl Hasher for StableHasher {
    fn finish(&self) -> u64 {
        let digest = self.0.clone().finalize();
        u64::from_be_bytes(digest[..8].try_into().expect("a SHA-256 digest has 32 bytes"))
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }
}
