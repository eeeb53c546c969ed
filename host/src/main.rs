//! The program. Everything is in the library's `cli` room.

use std::process::ExitCode;

fn main() -> ExitCode {
    toolhost::cli::main()
}
