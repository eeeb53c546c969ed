//! Directories: which are open for a call, what it does there, and what it is told where it may not.

pub(crate) mod directories;
mod files;
mod refused;
mod roots;

use std::path::Path;
use std::sync::Arc;

use wasmtime::component::Linker;
use wasmtime_wasi::WasiCtxBuilder;

use super::{Asker, FailedCall, Given, GrantedForCall, HostMeans, KindRights, Provider, Share};
use crate::instance::Guest;
use crate::rights::{NoLongerThere, Right, Rights};
use directories::{Directory, DirectoryRules};
use files::StuckOpens;
use toolhost_core::tool::{CallError, Code, Held, Refusal};
use toolhost_policy::capability::paths::{self, GrantedDir, Meant};
use toolhost_policy::capability::{self, Access, DirGrant, Kind};

/// Provides directories.
pub(super) struct DirProvider;

/// What all calls of a plugin share.
#[derive(Debug, Default)]
struct DirShare {
    rules: Arc<DirectoryRules>,
    stuck_opens: StuckOpens,
}

/// The directories of one tool.
#[derive(Clone, Debug, Default)]
struct DirRight {
    directories: Vec<(Directory, Access)>,
    /// The tool asks for some, granted or not.
    is_asked: bool,
    share: Arc<DirShare>,
}

impl Provider for DirProvider {
    fn kind(&self) -> Kind {
        Kind::DIRS
    }

    fn link(&self, linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
        files::add_to_linker(linker)
    }

    fn share(&self, means: &HostMeans<'_>) -> Option<Share> {
        let rules = Arc::clone(means.rules);
        Some(Arc::new(DirShare { rules, stuck_opens: StuckOpens::default() }))
    }

    fn grant(&self, askers: &[Asker<'_>], given: &Given<'_>) -> KindRights {
        let share = given.shares.get::<DirShare>().unwrap_or_default();
        let (mut opened, mut problems) = (Vec::new(), Vec::new());
        for grant in given.grants.of() {
            match Directory::open(grant, &share.rules) {
                Ok(directory) => opened.push(directory),
                Err(reason) => problems.push(reason),
            }
        }
        let right = |asker: &Asker<'_>| {
            let directories = opened.iter().filter_map(|directory| {
                let access = capability::access(asker.needs, asker.tool, &directory.grant)?;
                Some((directory.clone(), access))
            });
            DirRight {
                directories: directories.collect(),
                is_asked: capability::asks_for_tool(asker.needs, Kind::DIRS, asker.tool),
                share: Arc::clone(&share),
            }
        };
        let is_there = !opened.is_empty();
        KindRights { problems, is_there, ..KindRights::new(askers, right) }
    }

    fn add_for_call(
        &self,
        rights: &mut Arc<Rights>,
        extra: &GrantedForCall<'_>,
    ) -> Result<(), CallError> {
        if extra.dirs.is_empty() {
            return Ok(());
        }
        let denied = |message: String| CallError::new(Code::Denied, message);
        let mut right = DirRight::clone(&rights.get());
        for text in extra.dirs {
            let grant = DirGrant::parse(text, None).map_err(|error| denied(error.to_string()))?;
            let access = capability::access(extra.needs, extra.tool, &grant).ok_or_else(|| {
                denied(format!(
                    "`{}` of plugin:{} does not ask for the directory {}, so it is not granted",
                    extra.tool, extra.plugin, grant.guest
                ))
            })?;
            let directory = Directory::open(&grant, &right.share.rules).map_err(denied)?;
            right.directories.push((directory, access));
        }
        Arc::make_mut(rights).replace(Arc::new(right));
        Ok(())
    }

    /// A guest may know by itself that it was granted no directory, and not ask for any. So the
    /// host says what it can: that directories were asked for, and none was granted; or that they
    /// were not asked for, where the guest says in words of its language that no file is there.
    fn explain(&self, failed: &FailedCall<'_>) -> Option<Refusal> {
        let right = failed.rights.get::<DirRight>();
        let is_told = || failed.meter.refusals().iter().any(Refusal::is_of_directories);
        if !right.directories.is_empty() || is_told() {
            return None;
        }
        refused::none_at_all(failed, right.is_asked)
    }
}

impl Right for DirRight {
    fn kind(&self) -> Kind {
        Kind::DIRS
    }

    fn is_held(&self) -> bool {
        !self.directories.is_empty()
    }

    fn tell(&self, held: &mut Held) {
        let with = |access| self.directories.iter().any(|(_, granted)| *granted == access);
        (held.reads, held.writes) = (with(Access::Read), with(Access::Write));
    }

    fn open(&self, builder: &mut WasiCtxBuilder) -> Result<(), NoLongerThere> {
        // Who may use none need not know either.
        let working = self.share.rules.working.as_deref().filter(|_| self.may_have_some());
        if let Some(working) = working.and_then(Path::to_str) {
            builder.initial_cwd(self.seen(working));
        }
        for (directory, access) in &self.directories {
            directory.preopen(builder, *access).map_err(|error| NoLongerThere {
                what: "a granted directory",
                reason: format!("{error:#}"),
            })?;
        }
        Ok(())
    }
}

impl DirRight {
    /// Tells whether a directory was granted, or could be.
    fn may_have_some(&self) -> bool {
        self.is_held() || self.is_asked
    }

    /// The directories, as paths lead into them.
    fn places(&self) -> Vec<GrantedDir<'_>> {
        self.directories.iter().map(|(directory, _)| directory.place()).collect()
    }

    /// The working directory by the name that a guest sees it by.
    fn seen(&self, working: &str) -> String {
        let places = self.places();
        match paths::lead(working, Meant::Absolute, None, &places) {
            Some((place, below)) => match places[place].guest {
                guest if guest.starts_with('/') => paths::whole(&below, guest),
                guest if guest.split('/').all(|name| name == ".") => paths::whole(&below, "/"),
                _ => working.to_owned(),
            },
            None => working.to_owned(),
        }
    }
}
