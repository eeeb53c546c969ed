//! What the host costs, against wasmtime alone: calls, loads, limits, the registry, redaction,
//! stores, the audit log, reloads. One table, one run.
//!
//! `make bench` runs it; `cargo bench -p toolhost-cli -- kv` runs the part of this name alone. It
//! asserts nothing: a budget that is not kept is printed as OVER.

#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]

mod audit;
mod bare;
mod calls;
mod guests;
mod kv;
mod limits;
mod listing;
mod loads;
mod redact;
mod registry;
mod reload;
mod sessions;
mod table;

/// As in the program.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() {
    // Cargo adds flags of its own.
    let parts: Vec<String> =
        std::env::args().skip(1).filter(|part| !part.starts_with('-')).collect();
    let wanted = |part: &str| parts.is_empty() || parts.iter().any(|wanted| wanted == part);
    let mut table = table::Table::default();
    table.heading();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    if ["calls", "audit", "kv", "loads", "reload"].into_iter().any(wanted) {
        let guests = guests::Guests::build();
        if wanted("calls") {
            let host = runtime.block_on(calls::run(&mut table, &guests));
            runtime.block_on(listing::run(&mut table, &host));
        }
        if wanted("audit") {
            runtime.block_on(audit::run(&mut table, &guests));
        }
        if wanted("kv") {
            runtime.block_on(kv::run(&mut table, &guests));
        }
        if wanted("loads") {
            runtime.block_on(loads::run(&mut table, &guests));
        }
        if wanted("reload") {
            runtime.block_on(reload::run(&mut table, &guests));
        }
    }
    if wanted("limits") {
        runtime.block_on(limits::run(&mut table));
    }
    if wanted("registry") {
        registry::run(&mut table);
    }
    if wanted("redact") {
        redact::run(&mut table);
    }
    table.end();
}
