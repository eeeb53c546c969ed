//! How many files the process may still open: they are one store for all guests and the host.

use std::fs::File;
use std::os::fd::AsRawFd;

use rustix::process::{Resource, getrlimit};

/// Tells whether the process has but a quarter of its open files left, which the host needs for
/// itself: for its stores, connections and compilers. Whatever else a guest holds, a stream of a
/// file that it has closed, say, is among them.
///
/// The system gives the lowest number that is free, so a new one tells how many are taken.
pub(super) fn are_few() -> bool {
    let limit = getrlimit(Resource::Nofile).current;
    let Some(limit) = limit else { return false };
    // Without any, there is none for the guest either.
    let Ok(number) = File::open("/") else { return true };
    u64::try_from(number.as_raw_fd()).is_ok_and(|number| number >= limit - limit / 4)
}
