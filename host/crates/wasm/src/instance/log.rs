//! `log`: lines of a guest for the host's log, bounded and made safe to show.

use wasmtime::component::{HasSelf, Linker};

use super::Guest;
use bindings::toolhost::plugin::log::{self, Host, Level};
use toolhost_core::limits::Limits;
use toolhost_core::text;
use toolhost_core::tool::Meter;

mod bindings {
    wasmtime::component::bindgen!({
        interfaces: "import toolhost:plugin/log@0.1.0;",
        path: "../../../wit",
        imports: { default: trappable },
    });
}

/// Characters of one line; what is longer is cut.
const LINE_CHARS_MAX: usize = 4_096;

/// Links the interface.
pub(super) fn add_to_linker(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    log::add_to_linker::<Guest, HasSelf<Guest>>(linker, |guest| guest)
}

/// What is left of a call's share of the log.
pub(super) struct GuestLog {
    plugin: String,
    lines_left: usize,
    bytes_left: usize,
    dropped: u64,
}

impl GuestLog {
    pub(super) fn new(plugin: &str, limits: &Limits) -> GuestLog {
        GuestLog {
            plugin: plugin.to_owned(),
            lines_left: limits.log_lines_max.0,
            bytes_left: limits.log_bytes_max.as_usize(),
            dropped: 0,
        }
    }

    fn has_room(&self, message: &str) -> bool {
        self.lines_left > 0 && message.len() <= self.bytes_left
    }

    /// Writes a message, each of its lines as one of the log: a traceback is read line by line.
    fn write(&mut self, level: Level, message: &str, meter: &Meter) {
        let fits = self.has_room(message);
        if fits {
            self.bytes_left -= message.len();
        }
        for line in message.strip_suffix('\n').unwrap_or(message).split('\n') {
            let is_passed_on = fits && self.lines_left > 0;
            meter.count_log_line(is_passed_on);
            if is_passed_on {
                self.lines_left -= 1;
                self.line(level, line.strip_suffix('\r').unwrap_or(line));
            } else {
                self.dropped += 1;
            }
        }
    }

    fn line(&self, level: Level, line: &str) {
        let plugin = &self.plugin;
        let line = text::one_line(&text::cut(line, LINE_CHARS_MAX));
        match level {
            Level::Debug => tracing::debug!(target: "toolhost::guest", "{plugin}: {line}"),
            Level::Info => tracing::info!(target: "toolhost::guest", "{plugin}: {line}"),
            Level::Warn => tracing::warn!(target: "toolhost::guest", "{plugin}: {line}"),
            Level::Error => tracing::error!(target: "toolhost::guest", "{plugin}: {line}"),
        }
    }
}

impl Drop for GuestLog {
    fn drop(&mut self) {
        if self.dropped > 0 {
            let (plugin, dropped) = (&self.plugin, self.dropped);
            tracing::warn!(
                target: "toolhost::guest",
                "{plugin}: dropped {dropped} log lines over `log_lines_max` or `log_bytes_max`"
            );
        }
    }
}

impl Host for Guest {
    fn log(&mut self, level: Level, message: String) -> wasmtime::Result<()> {
        self.count_host_call()?;
        let (call, mut message) = (self.call(), message);
        if call.lines.has_room(&message) {
            call.call_log.redaction().redact(&mut message);
        }
        call.lines.write(level, &message, &call.meter);
        Ok(())
    }
}
