//! Whether there is room for one more: for an open file, and for the memory behind its handle.

use wasmtime::component::Resource;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;
use wasmtime_wasi::p2::bindings::io::streams::OutputStream;
use wasmtime_wasi::p2::{FsError, FsResult};

use super::streams::Charged;
use super::{GuestFiles, left};
use crate::memory::{Charge, MemoryRefused};
use toolhost_core::tool::Refusal;

impl GuestFiles<'_> {
    /// Refuses to open one more, and remembers why.
    pub(super) fn too_many(&self, path: String, why: &str, repair: &str) -> FsError {
        self.call_log.refuse(Refusal {
            what: path,
            why: format!("is refused, since {why}"),
            repair: repair.to_owned(),
            grant: None,
        });
        ErrorCode::Busy.into()
    }

    /// Refuses to open one more where too many are stuck, or few are left.
    pub(super) fn check_open(&self, path: &str) -> FsResult<()> {
        if !self.right.share.stuck_opens.lets_open(self.stuck_opens_max) {
            self.call_log.refuse(Refusal {
                what: path.to_owned(),
                why: format!(
                    "is refused, since {} files that plugin:{} opened never came back (`stuck_opens_max`)",
                    self.stuck_opens_max, self.call_log.plugin
                ),
                repair: "see what is wrong with that disk, and try again in ten minutes".to_owned(),
                grant: None,
            });
            return Err(ErrorCode::Busy.into());
        }
        if left::are_few() {
            return Err(self.too_many(
                path.to_owned(),
                "guests hold three quarters of the files that toolhost may have open",
                "raise its limit of open files (`ulimit -n`), or let fewer calls run at once",
            ));
        }
        Ok(())
    }

    /// Takes memory for what stands behind one more handle.
    pub(super) fn charge(&self, bytes: u64) -> FsResult<Charge> {
        self.memory.charge(bytes).map_err(|MemoryRefused| ErrorCode::InsufficientMemory.into())
    }

    /// Puts a stream for writing in the place of one of WASI.
    pub(super) fn charged(
        &mut self,
        stream: Resource<OutputStream>,
        charge: Charge,
    ) -> FsResult<Resource<OutputStream>> {
        let stream = self.inner.table.delete(stream)?;
        let charged: OutputStream = Box::new(Charged { stream, _charge: charge });
        Ok(self.inner.table.push(charged)?)
    }
}
