//! The list of a directory, read piece by piece as the guest asks for it. WASI's own is read whole
//! before the guest sees the first name, however many there are, and held until it is dropped.

use std::collections::VecDeque;
use std::fs::File;
use std::io;

use rustix::fs::{AtFlags, Dir, DirEntry, FileType, Mode, OFlags, openat, statat};
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::{DescriptorType, DirectoryEntry, ErrorCode};

use crate::memory::Charge;

/// Entries of one piece, so that a thread of the host is soon free again, and so is a call that
/// was dropped.
const PIECE_ENTRIES: usize = 128;
/// What a list holds at most: a piece of the longest names, twice, and what the system wrote.
pub(super) const LISTING_BYTES: u64 = 128 << 10;

/// A list under way.
pub(super) struct DirListing {
    /// `None` while a piece is read, and for good where a read was given up.
    directory: Option<ListedDirectory>,
    ready: VecDeque<FsResult<DirectoryEntry>>,
    is_over: bool,
    _charge: Charge,
}

/// A directory, opened anew, so that each list has a place of its own in it.
struct ListedDirectory(Dir);

/// One piece, and the directory for the next.
struct Piece {
    directory: ListedDirectory,
    entries: VecDeque<io::Result<(FileType, Vec<u8>)>>,
    is_over: bool,
}

impl DirListing {
    /// Opens the directory for a list of its own; may block.
    pub(super) fn open(directory: &File) -> io::Result<OpenedDirectory> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = openat(directory, ".", flags, Mode::empty())?;
        Ok(OpenedDirectory(ListedDirectory(Dir::new(opened)?)))
    }

    pub(super) fn new(opened: OpenedDirectory, charge: Charge) -> DirListing {
        let OpenedDirectory(directory) = opened;
        let directory = Some(directory);
        DirListing { directory, ready: VecDeque::new(), is_over: false, _charge: charge }
    }

    /// The next entry, without `.` and `..`; none at the end.
    pub(super) async fn next(&mut self) -> FsResult<Option<DirectoryEntry>> {
        if self.ready.is_empty() && !self.is_over {
            let Some(directory) = self.directory.take() else { return Err(ErrorCode::Io.into()) };
            let reading = tokio::task::spawn_blocking(move || directory.read_piece());
            let Ok(piece) = reading.await else { return Err(ErrorCode::Io.into()) };
            self.directory = Some(piece.directory);
            self.is_over = piece.is_over;
            self.ready = piece.entries.into_iter().map(entry).collect();
        }
        self.ready.pop_front().transpose()
    }
}

/// A directory that is ready to be listed.
pub(super) struct OpenedDirectory(ListedDirectory);

impl ListedDirectory {
    fn read_piece(mut self) -> Piece {
        let mut entries = VecDeque::with_capacity(PIECE_ENTRIES);
        let mut is_over = false;
        while entries.len() < PIECE_ENTRIES {
            match self.0.read() {
                Some(Ok(entry)) if [c".", c".."].contains(&entry.file_name()) => {}
                Some(Ok(entry)) => entries.push_back(self.typed(&entry)),
                Some(Err(error)) => {
                    entries.push_back(Err(error.into()));
                    is_over = true;
                    break;
                }
                None => {
                    is_over = true;
                    break;
                }
            }
        }
        Piece { directory: self, entries, is_over }
    }

    /// An entry with its type, which some file systems only tell on a look at the file.
    fn typed(&self, entry: &DirEntry) -> io::Result<(FileType, Vec<u8>)> {
        let of_entry = entry.file_type();
        let type_ = match of_entry {
            FileType::Unknown => {
                let stat = statat(self.0.fd()?, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)?;
                FileType::from_raw_mode(stat.st_mode)
            }
            known => known,
        };
        Ok((type_, entry.file_name().to_bytes().to_vec()))
    }
}

fn entry(read: io::Result<(FileType, Vec<u8>)>) -> FsResult<DirectoryEntry> {
    let (type_, name) = read?;
    let name = String::from_utf8(name).map_err(|_| ErrorCode::IllegalByteSequence)?;
    let type_ = match type_ {
        FileType::RegularFile => DescriptorType::RegularFile,
        FileType::Directory => DescriptorType::Directory,
        FileType::Symlink => DescriptorType::SymbolicLink,
        FileType::BlockDevice => DescriptorType::BlockDevice,
        FileType::CharacterDevice => DescriptorType::CharacterDevice,
        _ => DescriptorType::Unknown,
    };
    Ok(DirectoryEntry { type_, name })
}
