//! Files: those of WASI, with four things around them.
//!
//! A use that tells anything closes the other of two mutually exclusive sides, and a closed side refuses. Pipes,
//! sockets and devices in a granted directory are refused, since opening one can block a thread
//! of the host for good, and no bound of the guest would end that. What was tried is remembered
//! when a tool is probed. Guests leave some of the files that the process may open to others. And
//! what streams and lists hold is memory of the guest.

mod left;
mod listing;
mod names;
mod part;
mod room;
mod streams;
mod stuck;

use std::collections::HashSet;
use std::sync::Arc;

use wasmtime::component::{HasData, Linker, Resource};
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystemCtxView};
use wasmtime_wasi::p2::bindings::filesystem::preopens;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    self, Advice, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntry,
    DirectoryEntryStream, ErrorCode, Filesize, HostDescriptor, HostDirectoryEntryStream,
    MetadataHashValue, NewTimestamp, OpenFlags, PathFlags,
};
use wasmtime_wasi::p2::bindings::io::streams::{InputStream, OutputStream};
use wasmtime_wasi::p2::{FsError, FsResult};

use super::DirRight;
use super::roots::Roots;
use crate::call_log::CallLog;
use crate::capability::shadow;
use crate::instance::Guest;
use crate::memory::GuestMemory;
use crate::rights::NoLongerThere;
use listing::{DirListing, LISTING_BYTES};
use names::Names;
use part::files;
use streams::{Charged, STREAM_BYTES};
use stuck::Opening;
use toolhost_policy::capability::{Access, Kind};

pub(super) use stuck::StuckOpens;

/// Lists of directories that one guest may hold at once: each is an open file, and some memory.
const LISTINGS_MAX: usize = 64;

/// The files of a guest.
struct GuestFiles<'a> {
    inner: WasiFilesystemCtxView<'a>,
    call_log: &'a CallLog,
    memory: &'a Arc<GuestMemory>,
    right: &'a DirRight,
    stuck_opens_max: usize,
    listings: &'a mut HashSet<u32>,
    roots: &'a mut Roots,
    names: &'a mut Names,
    is_probed: bool,
    /// What was granted and cannot be had any more.
    no_longer_there: Option<&'a NoLongerThere>,
}

/// How a path is used.
#[derive(Clone, Copy)]
struct PathUse<'a> {
    fd: u32,
    path: &'a str,
    access: Access,
    /// The path is a directory's own.
    is_directory: bool,
}

impl<'a> PathUse<'a> {
    fn new(fd: &Resource<Descriptor>, path: &'a str, access: Access) -> PathUse<'a> {
        PathUse { fd: fd.rep(), path, access, is_directory: false }
    }
}

struct HasFiles;

impl HasData for HasFiles {
    type Data<'a> = GuestFiles<'a>;
}

/// Puts these files in the place of WASI's own.
pub(super) fn add_to_linker(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    shadow(linker, |linker| {
        types::add_to_linker::<Guest, HasFiles>(linker, files)?;
        preopens::add_to_linker::<Guest, HasFiles>(linker, files)
    })
}

/// Uses a path below the directory `fd` by the function of WASI of this name.
macro_rules! using {
    ($self:ident, $fd:ident, $path:ident, $access:ident, $function:ident ( $($argument:expr),* )) => {{
        let ($fd, $path) = $self.lead(PathUse::new(&$fd, &$path, Access::$access))?;
        let path = $path.clone();
        let what = PathUse::new(&$fd, &path, Access::$access);
        $self.using(what, async |files| files.$function($($argument),*).await).await
    }};
}

impl GuestFiles<'_> {
    /// Uses a path below a directory: refused if files are closed; and whatever the answer tells
    /// closes what excludes files. A look-up that finds nothing closes nothing.
    async fn using<T>(
        &mut self,
        what: PathUse<'_>,
        used: impl AsyncFnOnce(&mut WasiFilesystemCtxView<'_>) -> FsResult<T>,
    ) -> FsResult<T> {
        self.check(what)?;
        let result = used(&mut self.inner).await;
        // Every answer tells what is there, but for the one that nothing is.
        let is_nothing = |error: &FsError| matches!(error.downcast_ref(), Some(ErrorCode::NoEntry));
        if !result.as_ref().is_err_and(is_nothing) {
            self.call_log.touch(Kind::DIRS);
            if let Some(directory) = self.roots.of(what.fd) {
                self.right.used(self.call_log, directory, what.access);
            }
        }
        result.inspect_err(|error| self.tell(what, error))
    }

    /// Refuses what is closed.
    fn check(&self, what: PathUse<'_>) -> FsResult<()> {
        match self.call_log.closed(Kind::DIRS, what.path) {
            Some(_) => Err(ErrorCode::NotPermitted.into()),
            None => Ok(()),
        }
    }

    /// Refuses what is neither a file nor a directory.
    async fn check_type(
        &mut self,
        fd: &Resource<Descriptor>,
        path_flags: PathFlags,
        path: &str,
    ) -> FsResult<()> {
        let stat = self.inner.stat_at(again(fd), path_flags, path.to_owned()).await;
        // What is not there may be made; what cannot be looked at says so itself.
        let Ok(DescriptorStat { type_, .. }) = stat else { return Ok(()) };
        match type_ {
            DescriptorType::RegularFile
            | DescriptorType::Directory
            | DescriptorType::SymbolicLink => Ok(()),
            _ => {
                self.call_log.touch(Kind::DIRS);
                Err(ErrorCode::NotPermitted.into())
            }
        }
    }
}

/// The same handle, for a second use.
fn again(fd: &Resource<Descriptor>) -> Resource<Descriptor> {
    Resource::new_borrow(fd.rep())
}

impl preopens::Host for GuestFiles<'_> {
    fn get_directories(&mut self) -> wasmtime::Result<Vec<(Resource<Descriptor>, String)>> {
        self.directories()
    }
}

impl types::Host for GuestFiles<'_> {
    fn convert_error_code(&mut self, error: FsError) -> wasmtime::Result<ErrorCode> {
        self.inner.convert_error_code(error)
    }

    fn filesystem_error_code(
        &mut self,
        error: Resource<wasmtime::Error>,
    ) -> wasmtime::Result<Option<ErrorCode>> {
        self.inner.filesystem_error_code(error)
    }
}

impl HostDescriptor for GuestFiles<'_> {
    async fn open_at(
        &mut self,
        fd: Resource<Descriptor>,
        path_flags: PathFlags,
        path: String,
        open_flags: OpenFlags,
        flags: DescriptorFlags,
    ) -> FsResult<Resource<Descriptor>> {
        self.check_open(&path)?;
        let makes = OpenFlags::CREATE | OpenFlags::TRUNCATE | OpenFlags::EXCLUSIVE;
        let writes = open_flags.intersects(makes) || flags.contains(DescriptorFlags::WRITE);
        let access = if writes { Access::Write } else { Access::Read };
        let is_directory = open_flags.contains(OpenFlags::DIRECTORY);
        let (fd, path) = self.lead(PathUse { is_directory, ..PathUse::new(&fd, &path, access) })?;
        let shown = path.clone();
        let what = PathUse { is_directory, ..PathUse::new(&fd, &shown, access) };
        // Before the look at its type, which would tell what a closed side must not.
        self.check(what)?;
        self.check_type(&fd, path_flags, &path).await?;
        let mut opening = Opening::new(&self.right.share.stuck_opens);
        let result = self
            .using(what, async |files| files.open_at(fd, path_flags, path, open_flags, flags).await)
            .await;
        opening.came_back();
        if let Ok(opened) = &result {
            self.roots.add_below(what.fd, opened.rep());
        }
        result
    }

    async fn read_directory(
        &mut self,
        fd: Resource<Descriptor>,
    ) -> FsResult<Resource<DirectoryEntryStream>> {
        if self.listings.len() >= LISTINGS_MAX {
            let why = format!(
                "it holds {LISTINGS_MAX} lists of directories already, and more are not allowed"
            );
            return Err(self.too_many(".".to_owned(), &why, "its author must close them"));
        }
        self.check_open(".")?;
        let charge = self.charge(LISTING_BYTES)?;
        let fd = self.itself(fd, Access::Read).await?;
        let what = PathUse { is_directory: true, ..PathUse::new(&fd, ".", Access::Read) };
        let mut opening = Opening::new(&self.right.share.stuck_opens);
        let listing = self
            .using(what, async |files| {
                let directory = match files.table.get(&fd)? {
                    Descriptor::Dir(directory) => Arc::clone(&directory.dir),
                    Descriptor::File(_) => return Err(ErrorCode::BadDescriptor.into()),
                };
                let opening = tokio::task::spawn_blocking(move || DirListing::open(&directory));
                let opened = opening.await.map_err(|_| ErrorCode::Io)??;
                Ok(files.table.push(DirListing::new(opened, charge))?)
            })
            .await;
        opening.came_back();
        let listing = listing?;
        self.listings.insert(listing.rep());
        Ok(Resource::new_own(listing.rep()))
    }

    async fn stat_at(
        &mut self,
        fd: Resource<Descriptor>,
        path_flags: PathFlags,
        path: String,
    ) -> FsResult<DescriptorStat> {
        using!(self, fd, path, Read, stat_at(fd, path_flags, path))
    }

    async fn metadata_hash_at(
        &mut self,
        fd: Resource<Descriptor>,
        path_flags: PathFlags,
        path: String,
    ) -> FsResult<MetadataHashValue> {
        using!(self, fd, path, Read, metadata_hash_at(fd, path_flags, path))
    }

    async fn readlink_at(&mut self, fd: Resource<Descriptor>, path: String) -> FsResult<String> {
        using!(self, fd, path, Read, readlink_at(fd, path))
    }

    async fn create_directory_at(
        &mut self,
        fd: Resource<Descriptor>,
        path: String,
    ) -> FsResult<()> {
        using!(self, fd, path, Write, create_directory_at(fd, path))
    }

    async fn remove_directory_at(
        &mut self,
        fd: Resource<Descriptor>,
        path: String,
    ) -> FsResult<()> {
        using!(self, fd, path, Write, remove_directory_at(fd, path))
    }

    async fn unlink_file_at(&mut self, fd: Resource<Descriptor>, path: String) -> FsResult<()> {
        using!(self, fd, path, Write, unlink_file_at(fd, path))
    }

    async fn symlink_at(
        &mut self,
        fd: Resource<Descriptor>,
        source: String,
        path: String,
    ) -> FsResult<()> {
        using!(self, fd, path, Write, symlink_at(fd, source, path))
    }

    async fn link_at(
        &mut self,
        fd: Resource<Descriptor>,
        old_path_flags: PathFlags,
        old_path: String,
        new_fd: Resource<Descriptor>,
        new_path: String,
    ) -> FsResult<()> {
        let (new_fd, new_path) = self.lead(PathUse::new(&new_fd, &new_path, Access::Write))?;
        using!(self, fd, old_path, Write, link_at(fd, old_path_flags, old_path, new_fd, new_path))
    }

    async fn rename_at(
        &mut self,
        fd: Resource<Descriptor>,
        old_path: String,
        new_fd: Resource<Descriptor>,
        new_path: String,
    ) -> FsResult<()> {
        let (new_fd, new_path) = self.lead(PathUse::new(&new_fd, &new_path, Access::Write))?;
        using!(self, fd, old_path, Write, rename_at(fd, old_path, new_fd, new_path))
    }

    async fn set_times_at(
        &mut self,
        fd: Resource<Descriptor>,
        path_flags: PathFlags,
        path: String,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> FsResult<()> {
        using!(self, fd, path, Write, set_times_at(fd, path_flags, path, accessed, modified))
    }

    // What follows needs a file that was opened, or looks at no more than the handle itself.

    async fn advise(
        &mut self,
        fd: Resource<Descriptor>,
        offset: Filesize,
        length: Filesize,
        advice: Advice,
    ) -> FsResult<()> {
        self.inner.advise(fd, offset, length, advice).await
    }

    async fn sync_data(&mut self, fd: Resource<Descriptor>) -> FsResult<()> {
        self.inner.sync_data(fd).await
    }

    async fn get_flags(&mut self, fd: Resource<Descriptor>) -> FsResult<DescriptorFlags> {
        self.inner.get_flags(fd).await
    }

    async fn get_type(&mut self, fd: Resource<Descriptor>) -> FsResult<DescriptorType> {
        self.inner.get_type(fd).await
    }

    async fn set_size(&mut self, fd: Resource<Descriptor>, size: Filesize) -> FsResult<()> {
        self.inner.set_size(fd, size).await
    }

    async fn set_times(
        &mut self,
        fd: Resource<Descriptor>,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> FsResult<()> {
        let fd = self.itself(fd, Access::Write).await?;
        let what = PathUse { is_directory: true, ..PathUse::new(&fd, ".", Access::Write) };
        self.using(what, async |files| files.set_times(fd, accessed, modified).await).await
    }

    async fn read(
        &mut self,
        fd: Resource<Descriptor>,
        length: Filesize,
        offset: Filesize,
    ) -> FsResult<(Vec<u8>, bool)> {
        self.inner.read(fd, length, offset).await
    }

    async fn write(
        &mut self,
        fd: Resource<Descriptor>,
        bytes: Vec<u8>,
        offset: Filesize,
    ) -> FsResult<Filesize> {
        // It lasts as long as the disk takes.
        let _charge = self.charge(bytes.len() as u64)?;
        self.inner.write(fd, bytes, offset).await
    }

    async fn sync(&mut self, fd: Resource<Descriptor>) -> FsResult<()> {
        self.inner.sync(fd).await
    }

    async fn stat(&mut self, fd: Resource<Descriptor>) -> FsResult<DescriptorStat> {
        let fd = self.itself(fd, Access::Read).await?;
        let what = PathUse { is_directory: true, ..PathUse::new(&fd, ".", Access::Read) };
        self.using(what, async |files| files.stat(fd).await).await
    }

    fn read_via_stream(
        &mut self,
        fd: Resource<Descriptor>,
        offset: Filesize,
    ) -> FsResult<Resource<InputStream>> {
        let charge = self.charge(STREAM_BYTES)?;
        let stream = self.inner.read_via_stream(fd, offset)?;
        let stream = self.inner.table.delete(stream)?;
        let charged: InputStream = Box::new(Charged { stream, _charge: charge });
        Ok(self.inner.table.push(charged)?)
    }

    fn write_via_stream(
        &mut self,
        fd: Resource<Descriptor>,
        offset: Filesize,
    ) -> FsResult<Resource<OutputStream>> {
        let charge = self.charge(STREAM_BYTES)?;
        let stream = self.inner.write_via_stream(fd, offset)?;
        self.charged(stream, charge)
    }

    fn append_via_stream(&mut self, fd: Resource<Descriptor>) -> FsResult<Resource<OutputStream>> {
        let charge = self.charge(STREAM_BYTES)?;
        let stream = self.inner.append_via_stream(fd)?;
        self.charged(stream, charge)
    }

    async fn is_same_object(
        &mut self,
        left: Resource<Descriptor>,
        right: Resource<Descriptor>,
    ) -> wasmtime::Result<bool> {
        self.inner.is_same_object(left, right).await
    }

    async fn metadata_hash(&mut self, fd: Resource<Descriptor>) -> FsResult<MetadataHashValue> {
        let fd = self.itself(fd, Access::Read).await?;
        let what = PathUse { is_directory: true, ..PathUse::new(&fd, ".", Access::Read) };
        self.using(what, async |files| files.metadata_hash(fd).await).await
    }

    fn drop(&mut self, fd: Resource<Descriptor>) -> wasmtime::Result<()> {
        self.names.forget(fd.rep());
        self.roots.remove(fd.rep());
        HostDescriptor::drop(&mut self.inner, fd)
    }
}

impl HostDirectoryEntryStream for GuestFiles<'_> {
    async fn read_directory_entry(
        &mut self,
        stream: Resource<DirectoryEntryStream>,
    ) -> FsResult<Option<DirectoryEntry>> {
        let mut reading = Opening::new(&self.right.share.stuck_opens);
        let listing =
            self.inner.table.get_mut(&Resource::<DirListing>::new_borrow(stream.rep()))?;
        let entry = listing.next().await;
        reading.came_back();
        entry
    }

    fn drop(&mut self, stream: Resource<DirectoryEntryStream>) -> wasmtime::Result<()> {
        self.listings.remove(&stream.rep());
        self.inner.table.delete(Resource::<DirListing>::new_own(stream.rep()))?;
        Ok(())
    }
}
