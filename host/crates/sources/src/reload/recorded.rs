//! What plugins registered when they were loaded last, by the digest of their bytes: their tools are
//! listed while their code, or the runner of a script, is compiled. A call waits for the plugin.
//!
//! What strangers' plugins registered is kept apart, and bounded.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use super::arriving;
use super::source::Source;
use super::supervisor::Supervisor;
use super::trust_policy::Case;
use crate::remembered::Remembered;
use toolhost_core::limits::Limits;
use toolhost_core::tool::{
    CallError, Code, Invocation, Need, Origin, Registration, Rejection, Tool, ToolOutput, ToolSpec,
    Usage,
};
use toolhost_schema::schema::Schema;
use toolhost_state::read::Place;
use toolhost_wasm::{BuildRecord, Facts, LoadAs, Standing};

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
struct Record {
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
pub(super) struct Recorded {
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
    record: Record,
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

    fn has(&self, digest: &str) -> bool {
        self.path(digest).is_file()
    }

    /// What was recorded of a build by this version of the host. What cannot be read any more is as if
    /// it were not there.
    fn read(&self, digest: &str) -> Option<(Record, u64)> {
        let text = Place::Own.text(&self.path(digest), RECORD_BYTES_MAX).ok()?;
        let record: Record = serde_json::from_str(&text).ok()?;
        let is_of_this = record.host == env!("CARGO_PKG_VERSION");
        is_of_this.then_some((record, text.len() as u64))
    }

    /// The tools that a build registered.
    fn tools(&self, digest: &str, limits: &Limits) -> Option<Vec<ToolSpec>> {
        let (Record { tools, .. }, _) = self.read(digest)?;
        let fits = |schema: &serde_json::Value| Schema::compile(schema, limits).is_ok();
        let mut specs = tools.iter();
        let are_sound =
            specs.all(|spec| fits(&spec.parameters) && spec.output.as_ref().is_none_or(fits));
        are_sound.then_some(tools)
    }

    /// A build, if all that is needed to publish it was recorded under these limits.
    pub(super) fn build(&self, digest: &str, limits: &str) -> Option<Recorded> {
        let (Record { tools, rest, .. }, bytes) = self.read(digest)?;
        let Rest { facts, runner, needs, rejected, suspect, usage, .. } =
            rest.filter(|rest| rest.limits == limits && *rest.facts.digest == *digest)?;
        let build = BuildRecord { facts, runner, tools, needs, rejected };
        Some(Recorded { build, suspect, usage, bytes })
    }

    /// Records what builds registered, and forgets what is not in `of_use` once there is too much.
    /// It blocks on files.
    fn keep<'a>(
        &self,
        registered: impl Iterator<Item = (&'a Arc<str>, &'a Record)>,
        of_use: &BTreeSet<&str>,
    ) -> io::Result<()> {
        let mut is_new = false;
        for (digest, record) in registered {
            let text = serde_json::to_vec(record)?;
            let path = self.path(digest);
            let is_known = Place::Own
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
    let record = |tools: &Vec<ToolSpec>| Record {
        host: env!("CARGO_PKG_VERSION").to_owned(),
        tools: tools.clone(),
        rest: None,
    };
    let records: Vec<(&Arc<str>, Record)> =
        registered.iter().map(|(digest, tools)| (digest, record(tools))).collect();
    let records = records.iter().map(|(digest, record)| (*digest, record));
    Records::new(folder).keep(records, &of_use)
}

/// Records what builds registered, if anything is remembered at all. It blocks on files.
pub(super) fn record(remembered: &Remembered, registered: &[ToRecord]) {
    let Some(state) = remembered.state.as_ref().filter(|_| !registered.is_empty()) else { return };
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

/// What is known of a build that is not loaded yet.
pub(super) struct Recalled {
    digest: Arc<str>,
    tools: Vec<Arc<dyn Tool>>,
}

impl Recalled {
    pub(super) fn new(digest: Arc<str>, tools: Vec<ToolSpec>) -> Recalled {
        let tool = |spec| Arc::new(RecalledTool(spec)) as Arc<dyn Tool>;
        Recalled { digest, tools: tools.into_iter().map(tool).collect() }
    }

    /// The names it has, as a reader takes them.
    pub(super) fn names(&self) -> BTreeSet<String> {
        self.tools.iter().map(|tool| tool.spec().name.skeleton()).collect()
    }

    pub(super) fn has(&self, tool: &str) -> bool {
        self.tools.iter().any(|known| known.spec().name.as_str() == tool)
    }
}

/// A tool whose plugin is being loaded.
struct RecalledTool(ToolSpec);

impl Tool for RecalledTool {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn call<'a>(&'a self, _: Invocation<'a>) -> BoxFuture<'a, Result<ToolOutput, CallError>> {
        let refused = CallError::new(Code::Unavailable, COMING);
        Box::pin(async { Err(refused) })
    }

    fn unmet(&self) -> Vec<String> {
        // Whether it has them is not known yet.
        match self.0.requires_env.is_empty() {
            true => Vec::new(),
            false => vec![COMING.to_owned()],
        }
    }
}

/// What is said of a tool whose plugin is being loaded.
const COMING: &str = "its plugin is being loaded; call it again in a moment";

/// Tells whether a build is the user's own, bundled, or trusted.
pub(super) fn is_own(load_as: &LoadAs, digest: &str) -> bool {
    load_as.standing != Standing::Untrusted || load_as.trusted.contains(digest)
}

impl Supervisor {
    /// Finds what is recorded of plugins that have to be compiled first.
    pub(super) async fn recall(&mut self) {
        let places = self.remembered.built.iter().chain(&self.remembered.state);
        let records: Vec<Records> = places.map(|place| Records::new(place)).collect();
        let mut recalled = Vec::new();
        for (id, source) in &self.sources {
            let load_as = arriving::load_as(&source.found, &self.remembered);
            // What looks as it is recorded needs not be read for that.
            if source.found.twins.is_some() || source.looks_like.is_some() {
                continue;
            }
            let (loader, candidate) = (&self.parts.loader, &source.found.candidate);
            let case = Case::new(&source.found, &self.config, &self.remembered);
            let last = case.known.and_then(|known| Some(known.build.as_ref()?.digest.as_str()));
            let last = last.filter(|last| is_own(&load_as, last));
            let bundled = self.remembered.bundled_digests(&candidate.id);
            let is_usable = |digest: &&str| {
                records.iter().any(|records| records.has(digest)) && !case.is_refused(digest)
            };
            let known: BTreeSet<&str> = last.into_iter().chain(bundled).filter(is_usable).collect();
            let mut is_compiled = true;
            for digest in &known {
                is_compiled &= loader.is_compiled(candidate, digest).await;
            }
            if is_compiled {
                continue;
            }
            let Ok(digest) = loader.digest(candidate, &load_as).await else { continue };
            if known.contains(&*digest)
                && let Some(tools) = records.iter().find_map(|of| of.tools(&digest, &self.limits))
            {
                recalled.push((id.clone(), Recalled::new(digest, tools)));
            }
        }
        for (id, found) in recalled {
            let Some(source) = self.sources.get_mut(&id) else { continue };
            source.recalled = Some(found);
            self.changed = true;
        }
    }

    /// What plugins registered that serve, and was not recorded by this process.
    pub(super) fn unrecorded(&mut self) -> Vec<ToRecord> {
        let limits = &self.limits_key;
        let registered = |source: &mut Source| {
            let build = source.file.as_ref()?.as_ref().ok()?;
            let digest = Arc::clone(build.digest());
            let is_news = source.recorded.as_ref() != Some(&digest);
            let serves = source.serving.as_ref() == Some(&digest);
            if !is_news || !serves {
                return None;
            }
            source.recorded = Some(Arc::clone(&digest));
            let BuildRecord { facts, runner, tools, needs, rejected } =
                BuildRecord::of(&build.loaded)?;
            let (suspect, usage) = (build.suspect().to_vec(), source.usage);
            let limits = limits.clone();
            let rest = Rest { limits, facts, runner, needs, rejected, suspect, usage };
            let host = env!("CARGO_PKG_VERSION").to_owned();
            let of_stranger = !is_own(&source.load_as, &digest);
            Some(ToRecord { digest, of_stranger, record: Record { host, tools, rest: Some(rest) } })
        };
        self.sources.values_mut().filter_map(registered).collect()
    }
}

impl Source {
    /// What it registers until it is loaded, if that is recorded.
    pub(super) fn registers(&self, case: &Case<'_>) -> Option<Registration> {
        let Recalled { digest, tools } = self.recalled.as_ref()?;
        let is_bundled = case.is_bundled(digest);
        let trusted = case.known.and_then(|known| known.trusted.as_deref());
        let is_trusted = is_bundled || trusted == Some(&**digest);
        Some(Registration {
            source: self.found.source.clone(),
            origin: if is_bundled { Origin::Bundled } else { self.found.origin },
            rank: self.found.rank,
            allow_tool_override: is_trusted && case.may_take_names(),
            tools: tools.clone(),
            needs: Vec::new(),
            hooks: None,
            digest: Some(Arc::clone(digest)),
            trusted: is_trusted,
            rejected: Vec::new(),
            waiting: Vec::new(),
        })
    }
}
