//! What plugins registered when they were loaded last, by the digest of their bytes: enough to list their
//! tools while their code is compiled, or to publish them before they are loaded at all.
//!
//! What strangers' plugins registered is kept apart, and bounded.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::driver::Serving;
use crate::remembered::Remembered;
use toolhost_core::limits::Limits;
use toolhost_core::tool::{Need, Rejection, ToolSpec, Usage};
use toolhost_schema::schema::Schema;
use toolhost_state::read::ReadScope;
use toolhost_wasm::{BuildRecord, Facts, digest};

/// The folder, in the state folder, of what is recorded.
const FOLDER: &str = "definitions";
const EXTENSION: &str = "json";
/// The folder in that one of what plugins of strangers registered...
const STRANGERS: &str = "strangers";
/// ... and what all of that may have together.
const STRANGERS_BYTES_MAX: u64 = 64 << 20;
/// What a plugin registers in more bytes than these is not recorded.
const RECORD_BYTES_MAX: u64 = 1 << 20;
/// Files of a folder.
const RECORDS_MAX: usize = 4_096;

/// One file.
#[derive(Serialize, Deserialize)]
struct DefinitionRecord {
    /// The version of the host that wrote it; another one may read a registration otherwise.
    host: String,
    tools: Vec<ToolSpec>,
    /// All else that is needed to publish the build before it is loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rest: Option<Rest>,
}

/// What is recorded of a build besides its tools.
#[derive(Serialize, Deserialize)]
struct Rest {
    /// Of the limits it registered under.
    limits: String,
    facts: Facts,
    runner: Option<Arc<str>>,
    needs: Vec<Need>,
    rejected: Vec<Rejection>,
    /// What a person should look at.
    suspect: Vec<String>,
    /// What `register` used.
    usage: Usage,
}

/// A build as it was recorded.
pub(super) struct RecordedBuild {
    pub(super) build: BuildRecord,
    pub(super) suspect: Vec<String>,
    pub(super) usage: Usage,
    /// Its bytes, as it is recorded.
    pub(super) bytes: u64,
}

/// What is to be recorded of a build.
pub(super) struct ToRecord {
    digest: Arc<str>,
    of_stranger: bool,
    record: DefinitionRecord,
}

impl ToRecord {
    /// What is to be recorded of a plugin that registered under these limits, if it is such that it can
    /// be published from that.
    pub(super) fn of(serving: &Serving<'_>, limits: &str) -> Option<ToRecord> {
        let record = serving.loaded.handle.build_record().filter(|_| serving.is_new)?;
        let BuildRecord { facts, runner, tools, needs, rejected } = record;
        let (suspect, usage) = (serving.suspect.to_vec(), serving.usage);
        let digest = Arc::clone(&facts.digest);
        let rest =
            Rest { limits: limits.to_owned(), facts, runner, needs, rejected, suspect, usage };
        let host = env!("CARGO_PKG_VERSION").to_owned();
        let record = DefinitionRecord { host, tools, rest: Some(rest) };
        Some(ToRecord { digest, of_stranger: serving.of_stranger, record })
    }
}

/// Limits in short: what registered under others is registered again.
pub(super) fn key(limits: &Limits) -> String {
    digest(format!("{limits:?}").as_bytes()).to_string()
}

/// The definitions of plugins by digest, in one folder.
pub(super) struct Records {
    folder: PathBuf,
    /// What all files may have together.
    bytes_max: u64,
}

impl Records {
    /// Those of a state folder: of plugins that are the user's own, bundled or trusted.
    pub(super) fn new(state: &Path) -> Records {
        Records { folder: state.join(FOLDER), bytes_max: u64::MAX }
    }

    /// Those of all others.
    pub(super) fn of_strangers(state: &Path) -> Records {
        Records { folder: state.join(FOLDER).join(STRANGERS), bytes_max: STRANGERS_BYTES_MAX }
    }

    fn path(&self, digest: &str) -> PathBuf {
        self.folder.join(format!("{digest}.{EXTENSION}"))
    }

    pub(super) fn has(&self, digest: &str) -> bool {
        self.path(digest).is_file()
    }

    /// What was recorded of a build by this version of the host. What cannot be read any more is as if
    /// it were not there.
    fn read(&self, digest: &str) -> Option<(DefinitionRecord, u64)> {
        let text = ReadScope::Own.text(&self.path(digest), RECORD_BYTES_MAX).ok()?;
        let record: DefinitionRecord = serde_json::from_str(&text).ok()?;
        let is_of_this = record.host == env!("CARGO_PKG_VERSION");
        is_of_this.then_some((record, text.len() as u64))
    }

    /// The tools that a build registered.
    pub(super) fn tools(&self, digest: &str, limits: &Limits) -> Option<Vec<ToolSpec>> {
        let (DefinitionRecord { tools, .. }, _) = self.read(digest)?;
        let fits = |schema: &serde_json::Value| Schema::compile(schema, limits).is_ok();
        let mut specs = tools.iter();
        let are_sound =
            specs.all(|spec| fits(&spec.parameters) && spec.output.as_ref().is_none_or(fits));
        are_sound.then_some(tools)
    }

    /// A build, if all that is needed to publish it was recorded under these limits.
    pub(super) fn build(&self, digest: &str, limits: &str) -> Option<RecordedBuild> {
        let (DefinitionRecord { tools, rest, .. }, bytes) = self.read(digest)?;
        let Rest { facts, runner, needs, rejected, suspect, usage, .. } =
            rest.filter(|rest| rest.limits == limits && *rest.facts.digest == *digest)?;
        let build = BuildRecord { facts, runner, tools, needs, rejected };
        Some(RecordedBuild { build, suspect, usage, bytes })
    }

    /// Records what builds registered, and forgets what is not in `of_use` once there is too much.
    /// It blocks on files.
    fn keep<'a>(
        &self,
        registered: impl Iterator<Item = (&'a Arc<str>, &'a DefinitionRecord)>,
        of_use: &BTreeSet<&str>,
    ) -> io::Result<()> {
        let mut is_new = false;
        for (digest, record) in registered {
            let text = serde_json::to_vec(record)?;
            let path = self.path(digest);
            let is_known = ReadScope::Own
                .text(&path, RECORD_BYTES_MAX)
                .is_ok_and(|known| known.as_bytes() == text);
            if is_known || text.len() as u64 > RECORD_BYTES_MAX {
                continue;
            }
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
            let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
            io::Write::write_all(&mut file, &text)?;
            file.persist(path).map_err(|error| error.error)?;
            is_new = true;
        }
        if is_new { self.prune(of_use) } else { Ok(()) }
    }

    fn prune(&self, of_use: &BTreeSet<&str>) -> io::Result<()> {
        let (mut files, mut bytes) = (Vec::new(), 0);
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            if metadata.is_file() {
                bytes += metadata.len();
                files.push((metadata.modified()?, metadata.len(), entry.path()));
            }
        }
        let mut count = files.len();
        if count <= RECORDS_MAX && bytes <= self.bytes_max {
            return Ok(());
        }
        files.sort();
        let is_of_use = |path: &Path| {
            path.file_stem().is_some_and(|stem| of_use.contains(&*stem.to_string_lossy()))
        };
        // What is not of use goes; then the oldest, as long as there is too much.
        let (used, unused): (Vec<_>, Vec<_>) =
            files.into_iter().partition(|(.., path)| is_of_use(path));
        let is_full = |count: usize, bytes: u64| count > RECORDS_MAX || bytes > self.bytes_max;
        let unused = unused.into_iter().map(|file| (file, true));
        for ((_, length, path), goes) in unused.chain(used.into_iter().map(|file| (file, false))) {
            if goes || is_full(count, bytes) {
                fs::remove_file(&path)?;
                (count, bytes) = (count - 1, bytes - length);
            }
        }
        Ok(())
    }
}

/// Records what bundled plugins register, in the folder that says which plugins are bundled.
///
/// # Errors
/// If it cannot be written.
pub fn record_definitions(
    folder: &Path,
    registered: &[(Arc<str>, Vec<ToolSpec>)],
) -> io::Result<()> {
    let of_use = registered.iter().map(|(digest, _)| &**digest).collect();
    let record = |tools: &Vec<ToolSpec>| DefinitionRecord {
        host: env!("CARGO_PKG_VERSION").to_owned(),
        tools: tools.clone(),
        rest: None,
    };
    let records: Vec<(&Arc<str>, DefinitionRecord)> =
        registered.iter().map(|(digest, tools)| (digest, record(tools))).collect();
    let records = records.iter().map(|(digest, record)| (*digest, record));
    Records::new(folder).keep(records, &of_use)
}

/// Records what builds registered. It blocks on files.
pub(super) fn record(state: &Path, remembered: &Remembered, registered: &[ToRecord]) {
    if registered.is_empty() {
        return;
    }
    let builds = remembered.lock.plugins.iter().filter_map(|known| known.build.as_ref());
    let bundled = remembered.bundled.keys().map(|(_, digest)| digest.as_str());
    let of_use: BTreeSet<&str> = builds.map(|build| build.digest.as_str()).chain(bundled).collect();
    for (records, of_strangers) in
        [(Records::new(state), false), (Records::of_strangers(state), true)]
    {
        let those = registered.iter().filter(|of| of.of_stranger == of_strangers);
        let those = those.map(|of| (&of.digest, &of.record));
        if let Err(error) = records.keep(those, &of_use) {
            tracing::debug!(%error, "what plugins registered is not recorded");
        }
    }
}

/// What is recorded of builds, in the order of their digests. It blocks on files.
pub(super) fn read_all(
    digests: &[Arc<str>],
    state: &Path,
    limits: &str,
) -> Vec<Option<RecordedBuild>> {
    let places = [Records::new(state), Records::of_strangers(state)];
    let record = |digest: &Arc<str>| places.iter().find_map(|of| of.build(digest, limits));
    digests.iter().map(record).collect()
}
