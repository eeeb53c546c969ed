//! A file that any number of processes change: one at a time, and read whole.
//!
//! A lock on the file `lock` of the folder is held around each change, and a new text takes the
//! place of the old one in one step. So nobody's change is lost, readers need no lock, and a
//! crash leaves the old text or the new one. Neither survives a folder on a file system that
//! does not share locks, such as some network drives.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// The right to change the files of a folder, until it is dropped.
#[derive(Debug)]
pub struct Locked {
    _file: File,
}

/// Creates the folder if need be, for this user alone, and waits until nobody else changes its
/// files. It blocks for as long as another process holds the lock.
///
/// # Errors
/// If the folder or the lock cannot be made.
pub fn lock(folder: &Path) -> io::Result<Locked> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let mut options = File::options();
    let file = options.create(true).truncate(false).write(true).mode(0o600);
    let file = file.open(folder.join("lock"))?;
    file.lock()?;
    Ok(Locked { _file: file })
}

/// Puts a text, which only this user can read, in place of a file of the folder; on the disk
/// when this returns.
///
/// # Errors
/// If it cannot be written. The file is then as before.
pub fn replace(_locked: &Locked, folder: &Path, name: &str, text: &[u8]) -> io::Result<()> {
    // Temporary files are of mode 0600.
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text)?;
    file.as_file().sync_all()?;
    file.persist(folder.join(name)).map_err(|error| error.error)?;
    // The new name is in the folder, which is a file of its own.
    File::open(folder)?.sync_all()
}

/// Refuses what others than this user and root could change.
///
/// # Errors
/// In one sentence, with who could.
pub fn check_owner(path: &Path, metadata: &Metadata) -> Result<(), String> {
    const OTHERS_WRITE: u32 = 0o022;
    let (owner, we) = (metadata.uid(), rustix::process::geteuid().as_raw());
    let shown = path.display();
    if owner != we && owner != 0 {
        return Err(format!("{shown} belongs to user {owner}, and you are user {we}"));
    }
    match metadata.mode() & 0o777 {
        mode if mode & OTHERS_WRITE != 0 => {
            Err(format!("others can change {shown} (mode {mode:03o})"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn files_are_this_users_and_whole() {
        let home = tempfile::tempdir().expect("a folder");
        let folder = home.path().join("a/b");
        let mode = |path: &Path| fs::metadata(path).expect("metadata").permissions().mode() & 0o777;
        for text in ["first and long", "second"] {
            let locked = lock(&folder).expect("locked");
            replace(&locked, &folder, "file", text.as_bytes()).expect("written");
            assert_eq!(fs::read_to_string(folder.join("file")).expect("read"), text);
        }
        assert_eq!((mode(&folder), mode(&folder.join("file"))), (0o700, 0o600));
        let mut names: Vec<_> = fs::read_dir(&folder)
            .expect("read")
            .map(|entry| entry.expect("one").file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["file", "lock"]);
    }

    #[test]
    fn one_at_a_time() {
        let home = tempfile::tempdir().expect("a folder");
        let path = home.path().join("file");
        fs::write(&path, "0").expect("written");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..10 {
                        let locked = lock(home.path()).expect("locked");
                        let text = fs::read_to_string(&path).expect("read");
                        let next = text.parse::<u32>().expect("whole") + 1;
                        replace(&locked, home.path(), "file", next.to_string().as_bytes())
                            .expect("written");
                    }
                });
            }
        });
        assert_eq!(fs::read_to_string(&path).expect("read"), "80");
    }
}
