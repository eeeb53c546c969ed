//! After loading: what was seen is remembered, and builds that are in order are kept, so that a
//! later build that is broken or waits does not take a working tool away.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Remembered;
use crate::difference::Outline;
use crate::limits::Limits;
use crate::lock::{self, Agreed, Build, Known, Lock, LockError, Owner, Pin};
use crate::registry::Catalog;
use crate::store::{Builds, Kept, Worth};
use crate::tool::{PluginId, SourceId, ToolName};

/// What a load has shown of one plugin.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) folder: PathBuf,
    pub(super) id: PluginId,
    /// The file's build, if it is in order and not known yet as the last one.
    pub(super) build: Option<NewBuild>,
    /// The names it has, as a reader takes them; none for bundled plugins, which come first
    /// anyway.
    pub(super) names: Vec<String>,
}

/// A build that is in order.
#[derive(Clone, Debug)]
pub(super) struct NewBuild {
    pub(super) bytes: Kept,
    pub(super) digest: Arc<str>,
    pub(super) outline: Outline,
    /// The operator's rule trusts it from now on.
    pub(super) trust: bool,
    /// What was trusted, and the last build, when it was judged.
    pub(super) judged_by: (Option<String>, Option<String>),
}

/// The names that are a source's own in a catalog, as a reader takes them: those it has, unless
/// it asks to replace others', and those that others replace.
pub(super) fn names(catalog: &Catalog, source: &SourceId) -> Vec<String> {
    let Some(report) = catalog.report(source) else { return Vec::new() };
    let is_own =
        |name: &&String| catalog.find(name).is_some_and(|entry| !entry.tool.spec().overrides);
    let own = report.tools.iter().filter(is_own).chain(&report.replaced);
    let names = own.filter_map(|name| ToolName::new(name).ok());
    names.map(|name| name.skeleton()).collect()
}

/// Remembers what was seen, in the state folder if there is one, and returns what is known then, if
/// that is something else. It blocks on files.
///
/// # Errors
/// If the lock cannot be read or written.
pub(super) fn remember(
    remembered: &Remembered,
    seen: &[Seen],
    limits: &Limits,
) -> Result<Option<Lock>, LockError> {
    let Some(state) = &remembered.state else { return Ok(None) };
    let mut expected = remembered.lock.clone();
    note(&mut expected, seen, &|_| true, limits);
    if expected == remembered.lock {
        return Ok(None);
    }
    let (builds, mut kept) = (Builds::new(state), BTreeSet::new());
    for Seen { build, id, .. } in seen {
        let Some(build) = build else { continue };
        if is_kept(&builds, &build.bytes, &build.digest, id.as_str()) {
            kept.insert(&*build.digest);
        }
    }
    let (pruned, lock) = lock::change(state, |lock| {
        note(lock, seen, &|digest| kept.contains(digest), limits);
        (prune(lock, &builds, limits), lock.clone())
    })?;
    if let Err(error) = pruned {
        tracing::warn!(%error, "old builds of plugins cannot be removed");
    }
    Ok(Some(lock))
}

/// Keeps a build; where that cannot be, says so.
fn is_kept(builds: &Builds, bytes: &Kept, digest: &str, id: &str) -> bool {
    let kept = builds.keep(bytes, digest).inspect_err(|error| {
        tracing::warn!(%error, "the build of plugin:{id} cannot be kept; a later one that is broken will have no stand-in");
    });
    // Otherwise the file has changed by now, and its next build is about to be loaded.
    kept.unwrap_or(false)
}

/// Puts what was seen into a lock.
fn note(lock: &mut Lock, seen: &[Seen], is_kept: &dyn Fn(&str) -> bool, limits: &Limits) {
    for Seen { folder, id, build, .. } in seen {
        let known = lock.plugin_mut(folder, id.as_str());
        let Some(build) = build else { continue };
        let last = known.build.as_ref().map(|build| build.digest.clone());
        if (known.trusted.clone(), last) != build.judged_by {
            // A person, or another host, has decided meanwhile.
            continue;
        }
        let digest = build.digest.to_string();
        if is_kept(&digest) {
            keep(known, &digest, limits);
        }
        if build.trust {
            known.trust(&digest);
        }
        known.build = Some(Build { digest, outline: build.outline.clone() });
    }
    // A recorded owner that is there keeps its name, and so does one that is not looked at here.
    let here: BTreeSet<(&PathBuf, &str)> =
        seen.iter().map(|seen| (&seen.folder, seen.id.as_str())).collect();
    for Seen { folder, id, names, .. } in seen {
        for name in names {
            let owners = lock.names.get(name).map(Vec::as_slice).unwrap_or_default();
            let is_here = |owner: &Owner| here.contains(&(&owner.folder, owner.id.as_str()));
            if !owners.iter().any(is_here) {
                lock.own(name, Owner { folder: folder.clone(), id: id.to_string() });
            }
        }
    }
}

/// Removes builds that nobody mentions, and the oldest when there are too many bytes.
fn prune(lock: &Lock, builds: &Builds, limits: &Limits) -> std::io::Result<()> {
    let mut worth: BTreeMap<String, Worth> = BTreeMap::new();
    for known in &lock.plugins {
        let last = known.build.as_ref().map(|build| (&build.digest, Worth::Last));
        let trusted = known.trusted.as_ref().map(|digest| (digest, Worth::Trusted));
        let kept = known.kept.iter().map(|digest| (digest, Worth::Older));
        for (digest, found) in kept.chain(last).chain(trusted) {
            let known = worth.entry(digest.clone()).or_insert(found);
            *known = found.max(*known);
        }
    }
    builds.prune(&worth, limits.kept_builds_bytes_max.0)
}

/// A build that a person trusts.
#[derive(Clone, Debug)]
pub struct Trusted {
    /// What is trusted.
    pub pin: Pin,
    /// Its bytes.
    pub bytes: Kept,
    /// What it is trusted with.
    pub agreed: Agreed,
    /// What it declares.
    pub outline: Outline,
}

/// Trusts builds, keeps them, and changes what else a person has decided at once.
///
/// A build that cannot be kept is trusted all the same; a later one that is broken then has no
/// stand-in. It blocks on files.
///
/// # Errors
/// If the lock cannot be read or written, or is damaged.
pub fn trust(
    state: &Path,
    trusted: &[Trusted],
    limits: &Limits,
    more: impl FnOnce(&mut Lock),
) -> Result<(), LockError> {
    let (builds, mut kept) = (Builds::new(state), BTreeSet::new());
    for Trusted { pin, bytes, .. } in trusted {
        if is_kept(&builds, bytes, &pin.digest, &pin.id) {
            kept.insert(&pin.digest);
        }
    }
    let pruned = lock::change(state, |lock| {
        for Trusted { pin, outline, agreed, .. } in trusted {
            lock.trust(pin, agreed);
            let known = lock.plugin_mut(&pin.folder, &pin.id);
            if kept.contains(&pin.digest) {
                keep(known, &pin.digest, limits);
            }
            known.build = Some(Build { digest: pin.digest.clone(), outline: outline.clone() });
        }
        more(lock);
        prune(lock, &builds, limits)
    })?;
    if let Err(error) = pruned {
        tracing::warn!(%error, "old builds of plugins cannot be removed");
    }
    Ok(())
}

/// Puts a build at the end of those that are kept.
fn keep(known: &mut Known, digest: &str, limits: &Limits) {
    known.kept.retain(|kept| kept != digest);
    known.kept.push(digest.to_owned());
    let over = known.kept.len().saturating_sub(limits.kept_builds_max.0);
    known.kept.drain(..over);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a host saw that had judged by these digests: what was trusted, and the last build.
    fn seen(digest: &str, trusted: Option<&str>, last: Option<&str>) -> Seen {
        let build = NewBuild {
            bytes: Kept::File("/p/weather.wasm".into()),
            digest: digest.into(),
            outline: Outline::default(),
            trust: true,
            judged_by: (trusted.map(str::to_owned), last.map(str::to_owned)),
        };
        let id = PluginId::from_stem("weather").expect("an id");
        Seen { folder: "/p".into(), id, build: Some(build), names: Vec::new() }
    }

    #[test]
    fn what_was_decided_meanwhile_stands() {
        let (mut lock, limits) = (Lock::default(), Limits::default());
        note(&mut lock, &[seen("one", None, None)], &|_| true, &limits);
        let known = |lock: &Lock| lock.plugin(Path::new("/p"), "weather").expect("known").clone();
        assert_eq!(known(&lock).trusted.as_deref(), Some("one"));
        // A slow host had judged before that; another one after it.
        note(&mut lock, &[seen("slow", None, None)], &|_| true, &limits);
        assert_eq!(known(&lock).trusted.as_deref(), Some("one"));
        note(&mut lock, &[seen("two", Some("one"), Some("one"))], &|_| true, &limits);
        assert_eq!(known(&lock).trusted.as_deref(), Some("two"));
        // A person revokes while a host loads.
        lock.plugin_mut(Path::new("/p"), "weather").trusted = None;
        note(&mut lock, &[seen("three", Some("two"), Some("two"))], &|_| true, &limits);
        assert_eq!(
            (known(&lock).trusted, known(&lock).kept),
            (None, vec!["one".to_owned(), "two".to_owned()])
        );
    }
}
