//! The program. Everything is in the library's `cli` room.

use std::process::ExitCode;

/// A flood of handles or results leaves holes everywhere, and the C library's allocator keeps its pages
/// for ever: half a gigabyte where this one, whose own thread gives back what is unused for ten
/// seconds, keeps fifty megabytes. A library does not choose, so whoever embeds it does.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    toolhost::cli::main()
}
