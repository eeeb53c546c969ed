//! One target of `tests/fuzz/targets.rs` under libFuzzer.

#![no_main]

#[path = "../../../host/crates/testing/src/component.rs"]
mod component;
#[path = "../targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::configuration(bytes));
