//! Lines for the host's log; a model never sees them. Outside of a host they go to stderr.

use crate::bindings::toolhost::plugin::log::{Level, log};

/// Logs what is of use to the plugin's author.
pub fn debug(message: &str) {
    write(Level::Debug, message);
}

/// Logs what is of use to the operator.
pub fn info(message: &str) {
    write(Level::Info, message);
}

/// Logs that something is wrong and the call goes on.
pub fn warn(message: &str) {
    write(Level::Warn, message);
}

/// Logs that something is wrong and the call will probably fail.
pub fn error(message: &str) {
    write(Level::Error, message);
}

#[expect(
    clippy::print_stderr,
    reason = "a unit test on the author's machine has no host to log to"
)]
fn write(level: Level, message: &str) {
    if cfg!(target_family = "wasm") {
        log(level, message);
    } else {
        eprintln!("{level:?}: {message}");
    }
}
