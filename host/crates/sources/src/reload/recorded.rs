//! What plugins registered when they were loaded last, by the digest of their bytes: their tools are
//! listed while their code, or the runner of a script, is compiled. A call waits for the plugin.
//!
//! Only of plugins that are the user's own, or trusted, is this kept.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use super::Remembered;
use super::arriving;
use super::reloader::Reloader;
use super::source::Source;
use super::trust_policy::Case;
use toolhost_core::limits::Limits;
use toolhost_core::tool::{
    CallError, Code, Invocation, Origin, Registration, SourceId, Tool, ToolOutput, ToolSpec,
};
use toolhost_schema::schema::Schema;
use toolhost_state::read::Place;
use toolhost_wasm::{LoadAs, Loaded, Standing};

/// The folder, in the state folder, of what is recorded.
const FOLDER: &str = "definitions";
const EXTENSION: &str = "json";
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
}

/// The definitions of plugins by digest, in one folder.
pub(super) struct Records {
    folder: PathBuf,
}

impl Records {
    /// Those of a state folder.
    pub(super) fn new(state: &Path) -> Records {
        Records { folder: state.join(FOLDER) }
    }

    fn path(&self, digest: &str) -> PathBuf {
        self.folder.join(format!("{digest}.{EXTENSION}"))
    }

    fn has(&self, digest: &str) -> bool {
        self.path(digest).is_file()
    }

    /// The tools that a build registered. What cannot be read any more is as if it were not there.
    fn find(&self, digest: &str, limits: &Limits) -> Option<Vec<ToolSpec>> {
        let text = Place::Own.text(&self.path(digest), RECORD_BYTES_MAX).ok()?;
        let record: Record = serde_json::from_str(&text).ok()?;
        let fits = |schema: &serde_json::Value| Schema::compile(schema, limits).is_ok();
        let is_sound = record.host == env!("CARGO_PKG_VERSION")
            && record
                .tools
                .iter()
                .all(|spec| fits(&spec.parameters) && spec.output.as_ref().is_none_or(fits));
        is_sound.then_some(record.tools)
    }

    /// Records what builds registered, and forgets what is not in `of_use` once there is too much.
    /// It blocks on files.
    pub(super) fn keep(
        &self,
        registered: &[(Arc<str>, Vec<ToolSpec>)],
        of_use: &BTreeSet<&str>,
    ) -> io::Result<()> {
        let mut is_new = false;
        for (digest, tools) in registered.iter().filter(|(digest, _)| !self.has(digest)) {
            let host = env!("CARGO_PKG_VERSION").to_owned();
            let text = serde_json::to_vec(&Record { host, tools: tools.clone() })?;
            if text.len() as u64 > RECORD_BYTES_MAX {
                continue;
            }
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
            let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
            io::Write::write_all(&mut file, &text)?;
            file.persist(self.path(digest)).map_err(|error| error.error)?;
            is_new = true;
        }
        if is_new { self.prune(of_use) } else { Ok(()) }
    }

    fn prune(&self, of_use: &BTreeSet<&str>) -> io::Result<()> {
        let entries: Vec<fs::DirEntry> = fs::read_dir(&self.folder)?.collect::<io::Result<_>>()?;
        if entries.len() <= RECORDS_MAX {
            return Ok(());
        }
        for entry in entries {
            let path = entry.path();
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            if !of_use.contains(&*stem) {
                fs::remove_file(&path)?;
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
    Records::new(folder).keep(registered, &of_use)
}

/// Records what builds registered, if anything is remembered at all. It blocks on files.
pub(super) fn record(remembered: &Remembered, registered: &[(Arc<str>, Vec<ToolSpec>)]) {
    let Some(state) = &remembered.state else { return };
    let builds = remembered.lock.plugins.iter().filter_map(|known| known.build.as_ref());
    let bundled = remembered.bundled.keys().map(|(_, digest)| digest.as_str());
    let of_use = builds.map(|build| build.digest.as_str()).chain(bundled).collect();
    if let Err(error) = Records::new(state).keep(registered, &of_use) {
        tracing::debug!(%error, "what plugins registered is not recorded");
    }
}

/// What is known of a build that is not loaded yet.
pub(super) struct Recalled {
    digest: Arc<str>,
    tools: Vec<Arc<dyn Tool>>,
}

impl Recalled {
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
fn is_own(load_as: &LoadAs, digest: &str) -> bool {
    load_as.standing != Standing::Untrusted || load_as.trusted.contains(digest)
}

impl Reloader {
    /// Finds what is recorded of plugins that have to be compiled first.
    pub(super) async fn recall(&mut self) {
        let places = self.remembered.built.iter().chain(&self.remembered.state);
        let records: Vec<Records> = places.map(|place| Records::new(place)).collect();
        let mut recalled = Vec::new();
        for (path, source) in &self.sources {
            let load_as = arriving::load_as(&source.found, &self.remembered);
            if source.found.twins.is_some() {
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
                && let Some(tools) = records.iter().find_map(|of| of.find(&digest, &self.limits))
            {
                let tool = |spec| Arc::new(RecalledTool(spec)) as Arc<dyn Tool>;
                let tools = tools.into_iter().map(tool).collect();
                recalled.push((path.clone(), Recalled { digest, tools }));
            }
        }
        for (path, found) in recalled {
            let Some(source) = self.sources.get_mut(&path) else { continue };
            source.recalled = Some(found);
            self.changed = true;
        }
    }

    /// What plugins registered that serve, and was not recorded by this process.
    pub(super) fn unrecorded(&mut self) -> Vec<(Arc<str>, Vec<ToolSpec>)> {
        let registered = |source: &mut Source| {
            let loaded = source.file.as_ref()?.as_ref().ok()?;
            let Loaded { registration, facts, .. } = loaded;
            let is_news = source.recorded.as_ref() != Some(&facts.digest);
            let serves = source.serving.as_ref() == Some(&facts.digest);
            let is_own = is_own(&source.load_as, &facts.digest);
            if !is_news || !serves || !is_own || registration.tools.is_empty() {
                return None;
            }
            source.recorded = Some(Arc::clone(&facts.digest));
            let tools = registration.tools.iter().map(|tool| tool.spec().clone()).collect();
            Some((Arc::clone(&facts.digest), tools))
        };
        self.sources.values_mut().filter_map(registered).collect()
    }
}

impl Source {
    /// What it registers until it is loaded, if that is recorded.
    pub(super) fn registers(&self, case: &Case<'_>) -> Option<Registration> {
        let Recalled { digest, tools } = self.recalled.as_ref()?;
        let candidate = &self.found.candidate;
        let is_bundled = case.is_bundled(digest);
        let trusted = case.known.and_then(|known| known.trusted.as_deref());
        let is_trusted = is_bundled || trusted == Some(&**digest);
        Some(Registration {
            source: SourceId::Plugin { id: candidate.id.clone(), folder: candidate.folder.clone() },
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
