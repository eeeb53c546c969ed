//! WASI as every guest gets it: all of it is linked, and without a grant each part refuses.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder};

use crate::rights::{NoLongerThere, Rights};

/// Random bytes in one request.
const RANDOM_BYTES_MAX: u64 = 1 << 20;
/// How much a guest may write to stderr in one go.
const WRITE_BYTES_MAX: usize = 64 << 10;

/// A context without files, variables, arguments and network; stdin is at its end, stdout goes
/// nowhere, and the tail of stderr is kept.
pub(super) fn base(stderr: &StderrTail) -> WasiCtxBuilder {
    let mut builder = WasiCtxBuilder::new();
    builder
        .stderr(stderr.clone())
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false)
        .max_random_size(RANDOM_BYTES_MAX);
    builder
}

/// The same with what is allowed.
pub(super) fn context(stderr: &StderrTail, rights: &Rights) -> Result<WasiCtx, NoLongerThere> {
    let mut builder = base(stderr);
    rights.open(&mut builder)?;
    Ok(builder.build())
}

/// The last bytes a guest wrote to stderr: where panics of Rust and tracebacks of Python go.
#[derive(Clone)]
pub(super) struct StderrTail {
    bytes: Arc<Mutex<VecDeque<u8>>>,
    bytes_max: usize,
}

impl StderrTail {
    pub(super) fn new(bytes_max: usize) -> StderrTail {
        StderrTail { bytes: Arc::default(), bytes_max }
    }

    /// What was written last, as text; empty if nothing was.
    pub(super) fn text(&self) -> String {
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let (front, back) = bytes.as_slices();
        String::from_utf8_lossy(&[front, back].concat()).trim().to_owned()
    }

    fn push(&self, written: &[u8]) {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = &written[written.len().saturating_sub(self.bytes_max)..];
        let over = (bytes.len() + kept.len()).saturating_sub(self.bytes_max);
        bytes.drain(..over);
        bytes.extend(kept);
    }
}

impl IsTerminal for StderrTail {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for StderrTail {
    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }

    // Asked for by WASI 0.3 only, which is not linked.
    fn async_stream(&self) -> Box<dyn tokio::io::AsyncWrite + Send + Sync> {
        Box::new(tokio::io::sink())
    }
}

impl OutputStream for StderrTail {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.push(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_BYTES_MAX)
    }
}

#[async_trait::async_trait]
impl Pollable for StderrTail {
    async fn ready(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_tail_is_kept() {
        let tail = StderrTail::new(5);
        tail.push(b"abc");
        tail.push(b"defg");
        assert_eq!(tail.text(), "cdefg");
        tail.push(b"0123456789");
        assert_eq!(tail.text(), "56789");
    }
}
