//! What the house costs, against wasmtime alone: calls, loads, the shelf, redaction. One table, one run.
//!
//! `make bench` runs it; `cargo bench -p toolhost -- redact` runs that part alone, which needs no
//! guests. It asserts nothing: a budget that is not kept is printed as OVER.
//! `make bench` runs it; `cargo bench -- kv` runs the part of this name alone. It asserts nothing: a budget that is not kept is printed as OVER.

#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]

mod bare;
mod calls;
mod guests;
mod kv;
mod listing;
mod loads;
mod redact;
mod shelf;
mod table;

fn main() {
    let mut table = table::Table::default();
    if std::env::args().any(|argument| argument == "redact") {
        table.heading();
        redact::run(&mut table);
        return table.end();
    }
    // Cargo adds flags of its own.
    let parts: Vec<String> =
        std::env::args().skip(1).filter(|part| !part.starts_with('-')).collect();
    let wanted = |part: &str| parts.is_empty() || parts.iter().any(|wanted| wanted == part);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let guests = runtime.block_on(guests::build());
    table.heading();
    let host = runtime.block_on(calls::run(&mut table, &guests));
    runtime.block_on(listing::run(&mut table, &host));
    runtime.block_on(loads::run(&mut table, &guests));
    shelf::run(&mut table);
    redact::run(&mut table);
    if wanted("calls") {
        let host = runtime.block_on(calls::run(&mut table, &guests));
        runtime.block_on(listing::run(&mut table, &host));
    }
    if wanted("kv") {
        runtime.block_on(kv::run(&mut table, &guests));
    }
    if wanted("loads") {
        runtime.block_on(loads::run(&mut table, &guests));
    }
    if wanted("shelf") {
        shelf::run(&mut table);
    }
    table.end();
}
