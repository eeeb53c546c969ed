//! One source, and what is made of it: a component, or a copy of a script, in a plugins folder.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::failure::Failure;
use super::super::home::Home;
use super::source_folders;
use crate::author::{self, BuildError, BuildRequest};
use crate::host::{self, Host, HostSettings};
use crate::limits::Limits;
use crate::lock;
use crate::reload::SourceStatus;
use crate::script::{self, Stamp};
use crate::tool::PluginId;

/// One source.
pub(super) struct Work {
    source: PathBuf,
    out: PathBuf,
    kind: Kind,
}

enum Kind {
    /// It is built.
    Rust,
    /// It is copied.
    Script,
    /// It lies in the plugins folder already.
    InPlace,
}

impl Work {
    pub(super) fn new(home: &Home, source: &Path, out: &Path) -> Result<Work, Failure> {
        let usage = |what: &Path, error: std::io::Error| {
            Failure::usage(format!("{}: {error}", what.display()))
        };
        let source =
            fs::canonicalize(script::whole(source)).map_err(|error| usage(source, error))?;
        let is_rust = source.join("Cargo.toml").is_file();
        if !is_rust && script::language(&source).is_none() {
            return Err(Failure::usage(BuildError::NoSource(source).to_string())
                .hint("`toolhost new NAME --lang rust|python|javascript` makes one"));
        }
        // Not `plugins/csv-query/plugins`.
        let above = source.parent().filter(|_| !is_rust).map(Path::to_owned);
        let named = fs::canonicalize(out).ok();
        let is_in_place = above.as_ref().is_some_and(|above| {
            named.as_ref() == Some(above) || home.folders().iter().any(|folder| folder == above)
        });
        let kind = match (is_rust, is_in_place) {
            (true, _) => Kind::Rust,
            (false, true) => Kind::InPlace,
            (false, false) => Kind::Script,
        };
        let out = match (&kind, above) {
            (Kind::InPlace, Some(above)) => above,
            _ => {
                fs::create_dir_all(out).map_err(|error| usage(out, error))?;
                fs::canonicalize(out).map_err(|error| usage(out, error))?
            }
        };
        Ok(Work { source, out, kind })
    }

    pub(super) fn source(&self) -> &Path {
        &self.source
    }

    pub(super) fn out(&self) -> &Path {
        &self.out
    }

    /// What to watch.
    pub(super) fn watched(&self) -> BTreeSet<PathBuf> {
        source_folders(&self.source)
    }

    /// The state of the source's files.
    pub(super) fn stamp(&self) -> Vec<(PathBuf, Stamp)> {
        if let Kind::Script | Kind::InPlace = self.kind {
            return vec![(self.source.clone(), script::stamp(&self.source))];
        }
        let folders = source_folders(&self.source);
        let files = folders.iter().flat_map(|folder| {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            let files = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
            files.map(|entry| entry.path()).collect::<Vec<_>>()
        });
        // Cargo writes that itself.
        let files = files.filter(|path| path.file_name().is_some_and(|name| name != "Cargo.lock"));
        let mut stamps: Vec<(PathBuf, Stamp)> =
            files.map(|path| (path.clone(), script::stamp(&path))).collect();
        stamps.sort_by(|left, right| left.0.cmp(&right.0));
        stamps
    }

    /// Tells whether a plugin of this id is made of the source.
    pub(super) fn makes(&self, id: &str) -> bool {
        match self.kind {
            // A workspace makes several, whose names the compiler tells.
            Kind::Rust => self.out.join(format!("{id}.wasm")).is_file(),
            _ => {
                PluginId::from_stem(&script::stem(&self.source)).is_ok_and(|own| own.as_str() == id)
            }
        }
    }

    /// Makes the plugins, and puts them where hosts find them. Returns their paths.
    pub(super) async fn make(&self, home: &Home, limits: &Limits) -> Result<Vec<PathBuf>, Failure> {
        let failed = |error: BuildError| match error {
            BuildError::Compiler { .. } => Failure::rejected("the compiler says no, see above"),
            error => super::super::build::failure(&error),
        };
        if let Kind::InPlace = self.kind {
            self.trust(home, &self.source).await?;
            return Ok(vec![self.source.clone()]);
        }
        let stage = tempfile::Builder::new().prefix(".toolhost-dev-").tempdir_in(&self.out);
        let stage = stage.map_err(|error| {
            Failure::usage(format!("{} cannot be written: {error}", self.out.display()))
        })?;
        let made: Vec<PathBuf> = match self.kind {
            Kind::Rust => {
                let request = BuildRequest {
                    source: self.source.clone(),
                    out: stage.path().to_owned(),
                    environment: std::env::vars_os().collect(),
                    show_messages: true,
                    ..BuildRequest::default()
                };
                let built = author::build(&request).await.map_err(failed)?;
                built.into_iter().map(|built| built.path).collect()
            }
            _ => {
                let copy = author::copy_script(&self.source, stage.path(), &self.out, limits);
                vec![copy.map_err(failed)?]
            }
        };
        let mut paths = Vec::new();
        for path in made {
            self.trust(home, &path).await?;
            paths.push(author::put(&path, &self.out).map_err(failed)?);
        }
        Ok(paths)
    }

    /// If bytes of the plugin were trusted, trusts these in their place: they are this person's own.
    async fn trust(&self, home: &Home, path: &Path) -> Result<(), Failure> {
        let Ok(id) = PluginId::from_stem(&script::stem(path)) else { return Ok(()) };
        let state = &home.state;
        let known = lock::load(state).unwrap_or_default();
        let known = known.plugin(&self.out, id.as_str());
        let Some(trusted) = known.and_then(|known| known.trusted.clone()) else { return Ok(()) };
        let settings = HostSettings {
            cache: Some(home.components()),
            runners: home.runners(),
            compiler: std::env::current_exe().ok(),
            ..HostSettings::default()
        };
        // What does not load is said when the host says it.
        let Ok((loaded, _)) = host::inspect(path, &settings).await else { return Ok(()) };
        let digest = loaded.facts.digest.to_string();
        if digest == trusted {
            return Ok(());
        }
        lock::change(state, |lock| {
            let known = lock.plugin_mut(&self.out, id.as_str());
            if known.trusted.as_ref() == Some(&trusted) {
                known.trusted = Some(digest);
            }
        })
        .map_err(|error| Failure::usage(error.to_string()))
    }
}

/// Waits until a host has tried what lies at `path` now; returns what became of it.
pub(super) async fn wait_for(host: &Host, path: &Path, time_max: Duration) -> Option<SourceStatus> {
    let stamp = script::stamp(path);
    let mut sources = host.sources();
    let is_done = |status: &&SourceStatus| {
        status.path == path && !status.loading && status.read.as_ref() == Some(&stamp)
    };
    let found = sources.wait_for(|shown| shown.statuses.iter().any(|status| is_done(&status)));
    let found = tokio::time::timeout(time_max, found).await.ok()?.ok()?;
    found.statuses.iter().find(is_done).cloned()
}
