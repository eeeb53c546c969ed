//! One source, and what is made of it: a component, or a copy of a script, in a plugins folder.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::failure::Failure;
use super::super::home::{Home, PROJECT_PLUGINS};
use super::super::new::stays_in_project;
use super::super::source::{may_write, real};
use super::super::ui::Ui;
use super::source_folders;
use toolhost::Host;
use toolhost_author::{self as author, BuildError, BuildRequest};
use toolhost_core::tool::{Origin, PluginId, SourceId};
use toolhost_sources::folder::Folder;
use toolhost_sources::reload::SourceStatus;
use toolhost_wasm::script::{self, Stamp};

/// How often a file is looked at that is waited for.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The state of a source's files.
pub(super) type Stamps = Vec<(PathBuf, Stamp)>;

/// One source.
pub(super) struct DevSource {
    source: PathBuf,
    out: PathBuf,
    /// Where that is, if it is neither what was named nor `./plugins`.
    elsewhere: Option<String>,
    kind: WorkKind,
    /// The ids of what was made of it.
    made: BTreeSet<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WorkKind {
    /// A component is built of it.
    Built,
    /// It is copied.
    Copied,
    /// It lies in the plugins folder already.
    InPlace,
}

impl DevSource {
    pub(super) fn new(
        home: &Home,
        source: &Path,
        out: Option<&Path>,
        as_component: bool,
    ) -> Result<DevSource, Failure> {
        let usage = |what: &Path, error: std::io::Error| {
            Failure::usage(format!("{}: {error}", what.display()))
        };
        let source = real(home, source)?;
        let is_rust = source.join("Cargo.toml").is_file();
        if !is_rust && script::language(&source).is_none() {
            return Err(Failure::usage(BuildError::NoSource(source).to_string())
                .hint("`toolhost new NAME --lang rust|python|javascript` makes one"));
        }
        // Not `plugins/csv-query/plugins`.
        let is_built = is_rust || as_component;
        let above = source.parent().filter(|_| !is_built).map(Path::to_owned);
        let found = found_out(home, &source);
        let is_elsewhere = out.is_none() && found.is_some();
        let chosen = out.map(Path::to_owned).or_else(|| found.clone());
        let out = &*chosen.unwrap_or_else(|| PathBuf::from(PROJECT_PLUGINS));
        let named = Folder { path: out.to_owned(), origin: Origin::Project }.real().ok();
        let is_in_place = above.as_ref().is_some_and(|above| {
            named.as_ref() == Some(above) || home.folders().iter().any(|folder| folder == above)
        });
        let kind = match (is_built, is_in_place) {
            (true, _) => WorkKind::Built,
            (false, true) => WorkKind::InPlace,
            (false, false) => WorkKind::Copied,
        };
        let out = match (&kind, above) {
            (WorkKind::InPlace, Some(above)) => above,
            _ => {
                may_write(out)?;
                stays_in_project(Some(home), "--out", out)?;
                fs::create_dir_all(out).map_err(|error| usage(out, error))?;
                fs::canonicalize(out).map_err(|error| usage(out, error))?
            }
        };
        let below = out.strip_prefix(&source).ok().and_then(|below| below.iter().next());
        if let Some(below) = below.filter(|name| !is_rust && !script::is_other_folder(name)) {
            return Err(Failure::usage(format!(
                "{} lies within the script that is to go there, and would be a part of it",
                out.display()
            ))
            .hint(format!("name another folder than `{}` with `--out`", below.display())));
        }
        let elsewhere =
            (is_elsewhere && kind != WorkKind::InPlace).then(|| whose(home, &source, &out));
        Ok(DevSource { source, out, elsewhere, kind, made: BTreeSet::new() })
    }

    /// Says where the plugin goes, if that is neither what was named nor `./plugins`.
    pub(super) fn elsewhere(&self) -> Option<String> {
        self.elsewhere.clone()
    }

    /// The script that is worked at where it serves, if it is one.
    pub(super) fn in_place(&self) -> Option<PathBuf> {
        (self.kind == WorkKind::InPlace).then(|| self.source.clone())
    }

    /// Tells whether it is built, which runs its author's code.
    pub(super) fn is_built(&self) -> bool {
        self.kind == WorkKind::Built
    }

    pub(super) fn source(&self) -> &Path {
        &self.source
    }

    pub(super) fn out(&self) -> &Path {
        &self.out
    }

    /// What to watch.
    pub(super) fn watched(&self) -> BTreeSet<PathBuf> {
        let mut folders = source_folders(&self.source);
        folders.retain(|folder| self.is_source(folder));
        folders
    }

    /// Tells whether a folder of the source is no folder of what is made of it.
    fn is_source(&self, folder: &Path) -> bool {
        self.out == self.source || !folder.starts_with(&self.out)
    }

    /// The state of the source's files.
    pub(super) fn stamp(&self) -> Stamps {
        if script::language(&self.source).is_some() {
            return vec![(self.source.clone(), script::stamp(&self.source))];
        }
        let folders = self.watched();
        let files = folders.iter().flat_map(|folder| {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            let files = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
            files.map(|entry| entry.path()).collect::<Vec<_>>()
        });
        // Cargo writes that itself; and what is made does not make anything.
        let is_made = |path: &PathBuf| {
            path.file_name().is_none_or(|name| name == "Cargo.lock")
                || path.parent() == Some(&self.out)
                    && path.extension().is_some_and(|extension| extension == "wasm")
        };
        let files = files.filter(|path| !is_made(path));
        let mut stamps: Stamps = files.map(|path| (path.clone(), script::stamp(&path))).collect();
        stamps.sort_by(|left, right| left.0.cmp(&right.0));
        stamps
    }

    /// Tells whether a plugin of this id was made of the source.
    pub(super) fn makes(&self, id: &str) -> bool {
        self.made.contains(id)
    }

    /// Tells whether something serves that was made of the source, or lies where that goes.
    pub(super) fn is_served(&self, host: &Host) -> bool {
        let own = PluginId::from_stem(&script::stem(&self.source)).ok();
        let is_of_it = |status: &SourceStatus| match &status.source {
            Some(SourceId::Plugin { id, folder }) => {
                *folder == self.out && (self.makes(id.as_str()) || own.as_ref() == Some(id))
            }
            _ => false,
        };
        let sources = host.sources();
        let statuses = &sources.borrow().statuses;
        statuses.iter().any(|status| is_of_it(status) && status.serving().is_some())
    }

    /// Makes the plugins, and puts them where hosts find them. Returns their paths.
    pub(super) async fn make(
        &mut self,
        ui: &Ui,
        home: &Home,
        host: &Host,
    ) -> Result<Vec<PathBuf>, Failure> {
        let failed = |error: BuildError| match error {
            BuildError::Compiler { .. } => Failure::failed("the compiler says no, see above"),
            error => super::super::build::failure(&error),
        };
        if self.kind == WorkKind::InPlace {
            self.made(&self.source.clone());
            return Ok(vec![self.source.clone()]);
        }
        // Not in the plugins folder: a build takes long, and whoever kills it would leave that there.
        // Nor where a plugin may write: what lies there is installed and trusted.
        let built_in = author::StagedBuild::new(&home.cache).map_err(failed)?;
        let made: Vec<PathBuf> = match self.kind {
            WorkKind::Built => {
                let request = BuildRequest {
                    source: self.source.clone(),
                    out: built_in.path().to_owned(),
                    places: home.building(),
                    stage: Some(home.cache.clone()),
                    environment: std::env::vars_os().collect(),
                    show_messages: true,
                    ..BuildRequest::default()
                };
                let built = author::build(&request).await.map_err(failed)?;
                built.into_iter().map(|built| built.path).collect()
            }
            _ => {
                let limits = host.limits();
                let copy = author::copy_script(&self.source, built_in.path(), &self.out, limits);
                vec![copy.map_err(failed)?]
            }
        };
        let mut paths = Vec::new();
        for path in made {
            // The first script has its runner compiled.
            if let Err(error) = ui.while_waiting(host.own(&path), host.compiling()).await {
                // What does not load is said when it is loaded.
                tracing::debug!(%error, "it is loaded like what others made");
            }
            self.made(&path);
            paths.push(author::put(&path, &self.out).map_err(failed)?);
        }
        Ok(paths)
    }

    fn made(&mut self, path: &Path) {
        self.made.extend(PluginId::from_stem(&script::stem(path)).map(|id| id.to_string()));
    }
}

/// Where a plugin goes whose own folder `dev` runs in: the plugins folder that it lies in, or that of
/// the folder around it, or else this user's.
fn found_out(home: &Home, source: &Path) -> Option<PathBuf> {
    let here = std::env::current_dir().and_then(fs::canonicalize).ok()?;
    if !here.starts_with(source) {
        return None;
    }
    let around = source.parent()?;
    let is_plugins = around.file_name().is_some_and(|name| name == PROJECT_PLUGINS);
    let folder = if is_plugins { around.to_owned() } else { around.join(PROJECT_PLUGINS) };
    Some(if folder.is_dir() { folder } else { home.plugins.clone() })
}

/// Says whose plugins folder that is.
fn whose(home: &Home, source: &Path, out: &Path) -> String {
    let is_own = fs::canonicalize(&home.plugins).is_ok_and(|own| own == out);
    let shown = out.display();
    match (is_own, out.parent()) {
        (false, Some(project)) => format!(
            "{} goes into {shown}, where hosts look that run in {}",
            source.file_name().unwrap_or_default().to_string_lossy(),
            project.display()
        ),
        _ => format!(
            "{} goes into {shown}, your own plugins folder, where each of your hosts looks",
            source.file_name().unwrap_or_default().to_string_lossy()
        ),
    }
}

/// Waits until a host has tried what lies at `path`, also if that changes meanwhile; returns what
/// became of it.
pub(super) async fn wait_for(host: &Host, path: &Path, time_max: Duration) -> Option<SourceStatus> {
    let mut sources = host.sources();
    let is_done = |status: &&SourceStatus| {
        let is_tried = match &status.read {
            Some(read) => *read == script::stamp(path),
            // It is not even tried: its name is none, or others have it.
            None => status.state.is_err(),
        };
        status.location.is(path) && !status.loading && is_tried
    };
    let found = async {
        loop {
            let now = sources.borrow_and_update().statuses.clone();
            if let Some(status) = now.iter().find(is_done) {
                return Some(status.clone());
            }
            // It may have changed since it was read, and be read already.
            if let Ok(Err(_)) = tokio::time::timeout(LOOK_EVERY, sources.changed()).await {
                return None;
            }
        }
    };
    tokio::time::timeout(time_max, found).await.ok()?
}
