//! What is taken, what is refused, and that all of it is given back.

use http::{HeaderName, HeaderValue};

use super::*;
use toolhost_core::limits::Bytes;

const MIB: u64 = 1 << 20;

/// The memory of a guest that may have 2 MiB, out of a budget.
fn guest(budget: u64) -> (Arc<MemoryBudget>, Arc<GuestMemory>) {
    let budget = Arc::new(MemoryBudget::new(budget));
    let limits = Limits { memory_bytes_max: Bytes(2 * MIB), ..Limits::default() };
    let memory = GuestMemory::new(&limits, &budget);
    (budget, memory)
}

fn used(budget: &MemoryBudget) -> u64 {
    budget.used()
}

#[test]
fn a_refusal_names_the_limit_and_both_numbers() {
    let (_, memory) = guest(64 * MIB);
    let held = memory.charge(MIB).expect("half");
    memory.charge(MIB + 1).expect_err("one more than all");
    let denied = memory.denied().expect("a reason");
    assert_eq!(denied.limit(), "memory_bytes_max");
    assert_eq!(denied.message(), "memory of 2097153 bytes exceeds `memory_bytes_max` of 2097152");
    drop(held);
    memory.charge(2 * MIB).expect("all of it");

    let (_, memory) = guest(MIB);
    memory.charge(MIB + 1).expect_err("more than there is for all");
    let denied = memory.denied().expect("a reason");
    assert_eq!(denied.limit(), "memory_all_bytes_max");
    assert_eq!(
        denied.message(),
        "memory of 1048577 bytes is not left; all tools together may use 1048576 (`memory_all_bytes_max`); try again later"
    );
}

#[test]
fn memories_and_what_the_host_holds_are_of_one_budget() {
    let (budget, memory) = guest(64 * MIB);
    let mut limiter = MemoryLimiter::new(&memory, &Limits::default());
    assert!(limiter.memory_growing(0, MIB as usize, None).expect("an answer"));
    let held = memory.charge(MIB).expect("the other half");
    assert!(!limiter.memory_growing(MIB as usize, MIB as usize + 1, None).expect("an answer"));
    assert_eq!(used(&budget), 2 * MIB);
    drop(limiter);
    assert_eq!(used(&budget), MIB);
    // It may outlive the guest, as a request that is under way.
    drop(memory);
    drop(held);
    assert_eq!(used(&budget), 0);
}

/// A table with so many timers, and fields of 1 KiB each.
fn table(timers: usize, fields: usize) -> ResourceTable {
    let mut table = ResourceTable::new();
    for _ in 0..timers {
        table.push(()).expect("room");
    }
    for _ in 0..fields {
        let mut map = FieldMap::new_mutable(64 << 10);
        let (name, value) = (HeaderName::from_static("x"), "v".repeat(1_024));
        map.append_raw(name, HeaderValue::from_str(&value).expect("a value")).expect("room");
        table.push(map).expect("room");
    }
    table
}

#[test]
fn few_handles_cost_nothing_and_many_are_counted() {
    let (budget, memory) = guest(64 * MIB);
    let mut handles = HandleMemory::new(&memory);
    let mut few = table(10, 2);
    // As often as it likes: what it gives back is not there when it is counted.
    for _ in 0..10_000 {
        assert!(handles.foretell(HANDLE_BYTES, &mut few));
    }
    assert_eq!(used(&budget), 0);
    let mut many = table(0, 500);
    while used(&budget) == 0 {
        assert!(handles.foretell(HANDLE_BYTES, &mut many));
    }
    assert!(used(&budget) > 500 << 10, "{}", used(&budget));
    // It comes back when they are gone, and with the guest.
    while used(&budget) > 0 {
        assert!(handles.foretell(HANDLE_BYTES * 64, &mut few));
    }
    while used(&budget) == 0 {
        assert!(handles.foretell(HANDLE_BYTES * 64, &mut many));
    }
    drop(handles);
    assert_eq!(used(&budget), 0);
}

#[test]
fn what_is_foretold_is_refused_before_it_comes() {
    let (budget, memory) = guest(64 * MIB);
    let mut handles = HandleMemory::new(&memory);
    let (mut full, mut empty) = (table(0, 1_500), table(0, 0));
    assert!(!handles.foretell(2 * MIB + UNCOUNTED_BYTES + 1, &mut empty));
    let refused = (0..10_000).find(|_| !handles.foretell(64 << 10, &mut full));
    assert!(refused.is_some());
    assert!(used(&budget) <= 2 * MIB);
    // A while after it has given back what it had, it may go on.
    let again = (0..=REFUSALS_BETWEEN_COUNTS + 1).find(|_| handles.foretell(1, &mut empty));
    assert!(again.is_some());
}

#[test]
fn fields_count_with_the_places_that_they_keep() {
    let mut fields = HeaderMap::new();
    assert!(fields_bytes(&fields) < 200);
    for number in 0..600 {
        let name = HeaderName::try_from(format!("x-{number}")).expect("a name");
        fields.append(name, HeaderValue::from_static(""));
    }
    let full = fields_bytes(&fields);
    assert!(full > 600 * 112, "{full}");
    fields.clear();
    assert!(fields_bytes(&fields) > full / 2);
    let name = HeaderName::from_static("x");
    let mut further = HeaderMap::new();
    for _ in 0..600 {
        further.append(&name, HeaderValue::from_static(""));
    }
    assert!(fields_bytes(&further) > 600 * 144);
}
