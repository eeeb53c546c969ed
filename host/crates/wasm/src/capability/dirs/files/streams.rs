//! Streams of files, with what they hold: a piece that was read ahead, or one that is being written.

use bytes::Bytes;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::p2::{
    DynInputStream, DynOutputStream, InputStream, OutputStream, Pollable, StreamError, StreamResult,
};

use crate::memory::Charge;

/// What one stream holds: WASI reads 64 KiB at most, into as much memory however little comes.
pub(super) const STREAM_BYTES: u64 = 68 << 10;
/// What a guest may write in one go, as WASI tells it.
const WRITE_BYTES_MAX: usize = 64 << 10;

/// A stream of WASI, and the memory that it is given.
pub(super) struct Charged<S> {
    pub(super) stream: S,
    pub(super) _charge: Charge,
}

#[async_trait]
impl Pollable for Charged<DynInputStream> {
    async fn ready(&mut self) {
        self.stream.ready().await;
    }
}

#[async_trait]
impl InputStream for Charged<DynInputStream> {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        self.stream.read(size)
    }

    async fn blocking_read(&mut self, size: usize) -> StreamResult<Bytes> {
        self.stream.blocking_read(size).await
    }

    fn skip(&mut self, count: usize) -> StreamResult<usize> {
        self.stream.skip(count)
    }

    async fn blocking_skip(&mut self, count: usize) -> StreamResult<usize> {
        self.stream.blocking_skip(count).await
    }

    async fn cancel(&mut self) {
        self.stream.cancel().await;
    }
}

#[async_trait]
impl Pollable for Charged<DynOutputStream> {
    async fn ready(&mut self) {
        self.stream.ready().await;
    }
}

#[async_trait]
impl OutputStream for Charged<DynOutputStream> {
    /// WASI's own queues whatever it is handed, also what `check-write` does not allow.
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        if bytes.len() > WRITE_BYTES_MAX {
            return Err(StreamError::trap("cannot write more than `check_write` allows"));
        }
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> StreamResult<()> {
        self.stream.flush()
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        self.stream.check_write()
    }

    async fn blocking_write_and_flush(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.stream.blocking_write_and_flush(bytes).await
    }

    async fn write_ready(&mut self) -> StreamResult<usize> {
        self.stream.write_ready().await
    }

    async fn cancel(&mut self) {
        self.stream.cancel().await;
    }
}
