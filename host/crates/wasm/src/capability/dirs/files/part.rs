//! What one call keeps of its files, and how that becomes the files of its guest.

use std::collections::HashSet;
use std::sync::Arc;

use wasmtime_wasi::filesystem::WasiFilesystemCtxView;

use super::names::Names;
use super::{DirRight, GuestFiles};
use crate::capability::dirs::roots::Roots;
use crate::instance::Guest;
use crate::instance::call::{CallBasics, CallPart, PartView};

/// What one call keeps of its files.
struct FilePart {
    right: Arc<DirRight>,
    stuck_opens_max: usize,
    /// Handles of lists of directories that it holds.
    listings: HashSet<u32>,
    roots: Roots,
    names: Names,
    /// The tool is probed.
    is_probed: bool,
}

impl CallPart for FilePart {
    fn new(call: &CallBasics<'_>) -> FilePart {
        let right: Arc<DirRight> = call.call_log.rights.get();
        let mut names = Names::new(&right.share.rules);
        if let Some(arguments) = call.arguments.filter(|_| right.may_have_some()) {
            names.said(arguments);
        }
        FilePart {
            right,
            stuck_opens_max: call.limits.stuck_opens_max.0,
            listings: HashSet::new(),
            roots: Roots::default(),
            names,
            is_probed: call.is_probed,
        }
    }
}

/// The files of WASI, guarded.
pub(super) fn files(guest: &mut Guest) -> GuestFiles<'_> {
    guest.expect_handle();
    let (view, wasi, no_longer_there) = guest.part_and_wasi::<FilePart>();
    let PartView { part, table, call_log, memory } = view;
    GuestFiles {
        inner: WasiFilesystemCtxView { ctx: wasi.filesystem(), table },
        call_log,
        memory,
        right: &part.right,
        stuck_opens_max: part.stuck_opens_max,
        listings: &mut part.listings,
        roots: &mut part.roots,
        names: &mut part.names,
        is_probed: part.is_probed,
        no_longer_there,
    }
}
