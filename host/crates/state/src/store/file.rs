//! The file of one store: how it is made and opened, and each operation as one transaction.
//!
//! A file appears complete or not at all, so that processes that start at once find the same one.
//! Once it is there, only SQLite opens it: to close another handle would give up SQLite's locks.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, TransactionBehavior, params};
use sha2::{Digest, Sha256};

use super::{KEYS_MAX, StoreError};
use toolhost_core::limits::Limits;
use toolhost_core::text;

/// How long a change waits for other processes.
pub(super) const BUSY_WAIT: Duration = Duration::from_secs(5);
/// The schema this host writes.
const SCHEMA: i64 = 1;
/// A value up to this size is read where it is asked for.
const SMALL_BYTES_MAX: i64 = 64 << 10;
const PAGE_BYTES: u64 = 4_096;
/// What is kept of the log's file once its content is in the main file.
const LOG_BYTES_MAX: i64 = 4 << 20;

/// The sides of a store: none, files, network.
const SIDES_MAX: u64 = 3;

/// Keys are blobs, so that they sort by their bytes and may hold a zero. Triggers keep the
/// totals, so that no writer can forget them.
const CREATE: &str = "
    BEGIN;
    CREATE TABLE about (folder TEXT NOT NULL, plugin TEXT NOT NULL) STRICT;
    CREATE TABLE entries (
        id INTEGER PRIMARY KEY,
        side TEXT NOT NULL,
        key BLOB NOT NULL,
        value BLOB NOT NULL,
        UNIQUE (side, key)
    ) STRICT;
    CREATE TABLE totals (
        side TEXT PRIMARY KEY,
        entries INTEGER NOT NULL CHECK (entries >= 0),
        bytes INTEGER NOT NULL CHECK (bytes >= 0)
    ) STRICT;
    CREATE TRIGGER entry_set AFTER INSERT ON entries BEGIN
        INSERT INTO totals VALUES (NEW.side, 1, length(NEW.key) + length(NEW.value))
            ON CONFLICT (side) DO UPDATE
            SET entries = entries + 1, bytes = bytes + length(NEW.key) + length(NEW.value);
    END;
    CREATE TRIGGER entry_changed AFTER UPDATE ON entries BEGIN
        UPDATE totals SET bytes = bytes + length(NEW.key) + length(NEW.value) - length(OLD.key) - length(OLD.value)
            WHERE side = OLD.side;
    END;
    CREATE TRIGGER entry_removed AFTER DELETE ON entries BEGIN
        UPDATE totals SET entries = entries - 1, bytes = bytes - length(OLD.key) - length(OLD.value)
            WHERE side = OLD.side;
    END;
    PRAGMA user_version = 1;
    COMMIT;
";

/// Where a store is, and whose it is.
#[derive(Clone, Debug)]
pub(super) struct StorePlace {
    folder: PathBuf,
    name: String,
    plugin_folder: String,
    plugin: String,
}

impl StorePlace {
    /// A name of fixed length, whatever the folder is called; whose store it is stands inside.
    pub(super) fn new(folder: &Path, plugin_folder: &Path, plugin: &str) -> StorePlace {
        // No path has a zero byte.
        let whose = [plugin_folder.as_os_str().as_bytes(), plugin.as_bytes()].join(&0);
        let hash: String = Sha256::digest(whose).iter().map(|byte| format!("{byte:02x}")).collect();
        StorePlace {
            folder: folder.to_owned(),
            name: format!("{hash}.sqlite"),
            plugin_folder: plugin_folder.to_string_lossy().into_owned(),
            plugin: plugin.to_owned(),
        }
    }

    pub(super) fn name(&self) -> String {
        self.name.clone()
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.join(&self.name)
    }

    fn log(&self) -> PathBuf {
        self.folder.join(format!("{}-wal", self.name))
    }
}

/// Why something was not done.
#[derive(Debug)]
pub(super) enum StoreProblem {
    /// A limit is in the way.
    Refused(StoreError),
    /// The file cannot grow.
    Full,
    /// Other processes held the store for too long.
    Busy,
    /// The file is not what this host wrote.
    Damaged(String),
    /// The file has a newer schema.
    Newer { found: i64, known: i64 },
    /// The log is there without its file.
    LogAlone,
    /// Anything else, without paths.
    Other(String),
}

impl StoreProblem {
    pub(super) fn is_busy(&self) -> bool {
        matches!(self, StoreProblem::Busy)
    }
}

impl From<rusqlite::Error> for StoreProblem {
    fn from(error: rusqlite::Error) -> StoreProblem {
        let rusqlite::Error::SqliteFailure(failure, message) = &error else {
            // Rows and columns are not as the schema says.
            return StoreProblem::Damaged(text::one_line(&error.to_string()));
        };
        match failure.code {
            ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::FileLockingProtocolFailed => StoreProblem::Busy,
            ErrorCode::DiskFull => StoreProblem::Full,
            ErrorCode::DatabaseCorrupt
            | ErrorCode::NotADatabase
            | ErrorCode::ConstraintViolation
            | ErrorCode::Unknown => {
                let said = message.clone().unwrap_or_else(|| failure.to_string());
                StoreProblem::Damaged(text::one_line(&said))
            }
            // A message may have the path of the file.
            _ => StoreProblem::Other(failure.to_string()),
        }
    }
}

impl From<io::Error> for StoreProblem {
    fn from(error: io::Error) -> StoreProblem {
        // What tempfile says has a path in it.
        StoreProblem::Other(format!("its folder cannot be used ({})", error.kind()))
    }
}

/// The connections of this process to one file.
pub(super) struct Connections {
    /// For what takes microseconds. It never waits for other processes.
    reader: Mutex<Connection>,
    /// For everything else, one at a time.
    pub(super) writer: Arc<tokio::sync::Mutex<Connection>>,
    /// Which file it is, since another may have been put in its place.
    identity: (u64, u64),
}

impl Connections {
    /// Tells whether the file is still the one in its place.
    pub(super) fn is_of(&self, place: &StorePlace) -> bool {
        identity(&place.path()).is_ok_and(|identity| identity == self.identity)
    }

    pub(super) fn read<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreProblem>,
    ) -> Result<T, StoreProblem> {
        work(&self.reader.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Opens the file of a store, and makes it first if it is not there.
pub(super) fn open(place: &StorePlace, limits: &Limits) -> Result<Connections, StoreProblem> {
    make_folder(&place.folder)?;
    let path = place.path();
    // In this order: whoever makes the file makes the log later.
    let has_log = place.log().try_exists()?;
    if !path.try_exists()? {
        if has_log {
            return Err(StoreProblem::LogAlone);
        }
        create(place)?;
    }
    let identity = identity(&path)?;
    let writer = connect(&path, limits)?;
    check(&writer, place)?;
    let reader = connect(&path, limits)?;
    reader.pragma_update(None, "query_only", true)?;
    // Reads the schema as well, so that the first read elsewhere need not.
    check(&reader, place)?;
    reader.busy_timeout(Duration::ZERO)?;
    let writer = Arc::new(tokio::sync::Mutex::new(writer));
    Ok(Connections { reader: Mutex::new(reader), writer, identity })
}

fn make_folder(folder: &Path) -> io::Result<()> {
    const OTHERS: u32 = 0o077;
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    if fs::metadata(folder)?.permissions().mode() & OTHERS != 0 {
        fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// Makes the file elsewhere, and puts it in its place when it is complete.
fn create(place: &StorePlace) -> Result<(), StoreProblem> {
    // Only this user can read it, and SQLite makes its other files alike. The handle is closed
    // before the file is in its place.
    let made = tempfile::Builder::new().prefix(".new-").tempfile_in(&place.folder)?;
    let made = made.into_temp_path();
    let connection = Connection::open_with_flags(&made, flags())?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "page_size", PAGE_BYTES as i64)?;
    connection.execute_batch(CREATE)?;
    connection
        .execute("INSERT INTO about VALUES (?1, ?2)", params![place.plugin_folder, place.plugin])?;
    // Kept in the file from here on; nobody else has it open, so it cannot be refused.
    set_journal(&connection)?;
    connection.close().map_err(|(_, error)| error)?;
    match made.persist_noclobber(place.path()) {
        Ok(()) => {}
        // Somebody else was faster; theirs is as good.
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error.error.into()),
    }
    // So that the file's name is on disk, too.
    Ok(File::open(&place.folder)?.sync_all()?)
}

fn flags() -> OpenFlags {
    OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX
}

fn set_journal(connection: &Connection) -> Result<(), StoreProblem> {
    let set = |mode: &str| {
        let read = |row: &rusqlite::Row<'_>| row.get::<_, String>(0);
        connection.pragma_update_and_check(None, "journal_mode", mode, read)
    };
    match set("wal")?.as_str() {
        "wal" => Ok(()),
        other => {
            Err(StoreProblem::Other(format!("the disk allows no write-ahead log, only `{other}`")))
        }
    }
}

fn connect(path: &Path, limits: &Limits) -> Result<Connection, StoreProblem> {
    let connection = Connection::open_with_flags(path, flags())?;
    connection.busy_timeout(BUSY_WAIT)?;
    let schema: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    match schema {
        SCHEMA => {}
        newer if newer > SCHEMA => return Err(StoreProblem::Newer { found: newer, known: SCHEMA }),
        0 => return Err(StoreProblem::Damaged("it is empty, or of another program".to_owned())),
        other => return Err(StoreProblem::Damaged(format!("there is no schema {other}"))),
    }
    set_journal(&connection)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "journal_size_limit", LOG_BYTES_MAX)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update_and_check(None, "max_page_count", pages_max(limits), |_| Ok(()))?;
    Ok(connection)
}

/// Pages that the file may have: more than what the totals allow can take up, since it is the
/// wall behind them. A key is stored twice, pages may be half empty, and a value begins a page.
/// Each side has totals of its own, or one side could tell another something by filling up.
fn pages_max(limits: &Limits) -> i64 {
    let of_side = 4 * limits.kv_bytes_max.0 / PAGE_BYTES + 2 * limits.kv_entries_max.0 as u64;
    let pages = SIDES_MAX * of_side + 256;
    i64::try_from(pages).unwrap_or(i64::MAX)
}

/// A file that was copied to another name is not its plugin's.
fn check(connection: &Connection, place: &StorePlace) -> Result<(), StoreProblem> {
    let row = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?));
    let (folder, plugin) = connection.query_row("SELECT folder, plugin FROM about", [], row)?;
    totals(connection, "")?;
    if (&folder, &plugin) == (&place.plugin_folder, &place.plugin) {
        return Ok(());
    }
    Err(StoreProblem::Damaged(format!(
        "it is of plugin:{plugin} in another folder, or of another plugin"
    )))
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = fs::metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

/// What a quick look at a key finds.
pub(super) enum Lookup {
    /// The value, if there is one.
    Small(Option<Vec<u8>>),
    /// A value that takes longer to read.
    Large,
}

pub(super) fn look_up(
    connection: &Connection,
    side: &str,
    key: &str,
) -> Result<Lookup, StoreProblem> {
    let mut statement = connection.prepare_cached(
        "SELECT CASE WHEN length(value) <= ?3 THEN value END
         FROM entries WHERE side = ?1 AND key = ?2",
    )?;
    let row = |row: &rusqlite::Row<'_>| row.get::<_, Option<Vec<u8>>>(0);
    let found = statement.query_row(params![side, key.as_bytes(), SMALL_BYTES_MAX], row);
    Ok(match found.optional()? {
        None => Lookup::Small(None),
        Some(Some(value)) => Lookup::Small(Some(value)),
        Some(None) => Lookup::Large,
    })
}

pub(super) fn get(
    connection: &Connection,
    side: &str,
    key: &str,
) -> Result<Option<Vec<u8>>, StoreProblem> {
    let mut statement =
        connection.prepare_cached("SELECT value FROM entries WHERE side = ?1 AND key = ?2")?;
    Ok(statement.query_row(params![side, key.as_bytes()], |row| row.get(0)).optional()?)
}

pub(super) fn keys(
    connection: &Connection,
    side: &str,
    prefix: &str,
    after: Option<&str>,
) -> Result<Vec<String>, StoreProblem> {
    let mut statement = connection.prepare_cached(
        "SELECT key FROM entries WHERE side = ?1 AND key >= ?2 AND key < ?3
         ORDER BY key LIMIT ?4",
    )?;
    // The next text after one is the same with a zero byte; no text has the byte 255.
    let next = after.map(|after| [after.as_bytes(), &[0]].concat()).unwrap_or_default();
    let first = next.max(prefix.as_bytes().to_vec());
    let end = [prefix.as_bytes(), &[255]].concat();
    let rows = statement.query_map(params![side, first, end, KEYS_MAX as i64], |row| row.get(0))?;
    rows.map(|key| {
        String::from_utf8(key?).map_err(|_| StoreProblem::Damaged("a key is no text".to_owned()))
    })
    .collect()
}

/// A change of one key.
pub(super) struct KeyChange {
    pub(super) side: String,
    pub(super) key: String,
    pub(super) expected: Expected,
    /// None removes the key.
    pub(super) value: Option<Vec<u8>>,
}

/// What a change expects to find.
pub(super) enum Expected {
    Anything,
    Exactly(Option<Vec<u8>>),
}

/// What a change found.
pub(super) struct Changed {
    pub(super) was_there: bool,
    pub(super) was_expected: bool,
}

/// Changes one key, or nothing.
pub(super) fn change(
    connection: &mut Connection,
    change: &KeyChange,
    limits: &Limits,
    id: &str,
) -> Result<Changed, StoreProblem> {
    let KeyChange { side, key, expected, value } = change;
    let key = key.as_bytes();
    // From here on nobody else changes anything, so what is read holds until the commit.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let sought = match expected {
        Expected::Exactly(Some(value)) => Some(value),
        _ => None,
    };
    let present: Option<(i64, bool)> = transaction
        .prepare_cached(
            "SELECT length(value), value IS ?3 FROM entries WHERE side = ?1 AND key = ?2",
        )?
        .query_row(params![side, key, sought], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let was_there = present.is_some();
    let was_expected = match expected {
        Expected::Anything => true,
        Expected::Exactly(None) => !was_there,
        Expected::Exactly(Some(_)) => present.is_some_and(|(_, same)| same),
    };
    if !was_expected {
        return Ok(Changed { was_there, was_expected });
    }
    match (value, present) {
        (Some(value), None) => {
            check_room(&transaction, side, 1, (key.len() + value.len()) as i64, limits, id)?;
            transaction
                .prepare_cached("INSERT INTO entries (side, key, value) VALUES (?1, ?2, ?3)")?
                .execute(params![side, key, value])?;
        }
        (Some(value), Some((before, _))) => {
            check_room(&transaction, side, 0, value.len() as i64 - before, limits, id)?;
            transaction
                .prepare_cached("UPDATE entries SET value = ?3 WHERE side = ?1 AND key = ?2")?
                .execute(params![side, key, value])?;
        }
        (None, Some(_)) => {
            transaction
                .prepare_cached("DELETE FROM entries WHERE side = ?1 AND key = ?2")?
                .execute(params![side, key])?;
        }
        (None, None) => return Ok(Changed { was_there, was_expected }),
    }
    transaction.commit()?;
    Ok(Changed { was_there, was_expected })
}

/// What takes no more room is allowed even if there is too much already: a limit may have been
/// lowered since.
fn check_room(
    connection: &Connection,
    side: &str,
    more_entries: i64,
    more_bytes: i64,
    limits: &Limits,
    id: &str,
) -> Result<(), StoreProblem> {
    let (entries, bytes) = totals(connection, side)?;
    let full = |text: String| Err(StoreProblem::Refused(StoreError::Full(text)));
    let (given, allowed) = (entries + more_entries, limits.kv_entries_max.0);
    if more_entries > 0 && given as u64 > allowed as u64 {
        return full(format!(
            "no room: the store of plugin:{id} would have {given} entries, and `kv_entries_max` is {allowed}; delete some"
        ));
    }
    let (given, allowed) = (bytes + more_bytes, limits.kv_bytes_max.0);
    if more_bytes > 0 && given as u64 > allowed {
        return full(format!(
            "no room: the store of plugin:{id} would have {given} bytes, keys included, and `kv_bytes_max` is {allowed}; delete something"
        ));
    }
    Ok(())
}

/// Entries and bytes of one side.
fn totals(connection: &Connection, side: &str) -> Result<(i64, i64), StoreProblem> {
    let mut statement =
        connection.prepare_cached("SELECT entries, bytes FROM totals WHERE side = ?1")?;
    let totals = statement.query_row([side], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    Ok(totals.unwrap_or_default())
}
