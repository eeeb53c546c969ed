//! After loading: what was seen is remembered, and builds that are in order are kept, so that a
//! later build that is broken or waits does not take a working tool away.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use crate::remembered::Remembered;
use toolhost_core::limits::Limits;
use toolhost_core::tool::{SourceId, ToolName};
use toolhost_kernel::registry::Catalog;
use toolhost_policy::diff::Outline;
use toolhost_state::store::{Builds, Kept, Worth};
use toolhost_state::trust_store::{
    self, Agreed, Known, Lock, LockError, NamesOfFolders, Owner, Pin,
};

/// What a load has shown of one source.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) source: SourceId,
    /// It lies in a project, and nobody has vouched for it.
    pub(super) of_stranger: bool,
    /// Its present definition, if that is in order and not known yet as the last one.
    pub(super) build: Option<NewBuild>,
    /// The names it has, as a reader takes them; none for bundled plugins, which come first
    /// anyway.
    pub(super) names: Vec<String>,
}

/// A build that is in order.
#[derive(Clone, Debug)]
pub(super) struct NewBuild {
    /// To be kept, if it is made of bytes.
    pub(super) bytes: Option<Kept>,
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
    let own = report.tools.iter().filter(is_own).chain(report.replaced.keys());
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
    let is_known = |seen: &Seen| {
        let known = remembered.source(&seen.source);
        seen.build.is_none()
            && seen.names.is_empty()
            && known.is_some_and(|known| known.of_stranger == seen.of_stranger)
    };
    if seen.iter().all(is_known) {
        return Ok(None);
    }
    let mut expected = remembered.lock.clone();
    note(&mut expected, seen, &|_| true, limits);
    if expected == remembered.lock {
        return Ok(None);
    }
    let (builds, mut kept) = (Builds::new(state), BTreeSet::new());
    for Seen { build, source, .. } in seen {
        let Some(build) = build else { continue };
        let Some(bytes) = &build.bytes else { continue };
        if is_kept(&builds, bytes, &build.digest, source) {
            kept.insert(&*build.digest);
        }
    }
    let (pruned, lock) = trust_store::change(state, |lock| {
        note(lock, seen, &|digest| kept.contains(digest), limits);
        (prune_builds(lock, &builds, limits), lock.clone())
    })?;
    if let Err(error) = pruned {
        tracing::warn!(%error, "old builds of plugins cannot be removed");
    }
    Ok(Some(lock))
}

/// Keeps a build; where that cannot be, says so.
fn is_kept(builds: &Builds, bytes: &Kept, digest: &str, source: &SourceId) -> bool {
    let kept = builds.keep(bytes, digest).inspect_err(|error| {
        tracing::warn!(%error, "the build of {source} cannot be kept; a later one that is broken will have no stand-in");
    });
    // Otherwise the file has changed by now, and its next build is about to be loaded.
    kept.unwrap_or(false)
}

/// Puts what was seen into a lock.
fn note(lock: &mut Lock, seen: &[Seen], is_kept: &dyn Fn(&str) -> bool, limits: &Limits) {
    for Seen { source, build, of_stranger, .. } in seen {
        let (folder, id) = trust_store::entry(source);
        if lock.plugin(folder, &id).is_none() && !lock.has_room(folder) {
            continue;
        }
        let remembered =
            build.as_ref().map(|build| lock.build((folder, &id), &build.digest, &build.outline));
        let known = lock.plugin_mut(folder, &id);
        known.of_stranger = *of_stranger;
        let Some(build) = build else { continue };
        let last = known.build.as_ref().map(|build| build.digest.clone());
        if (known.trusted.clone(), last) != build.judged_by {
            // A person, or another host, has decided meanwhile.
            continue;
        }
        let digest = build.digest.to_string();
        if build.bytes.is_some() && is_kept(&digest) {
            keep(known, &digest, limits);
        }
        if build.trust {
            known.trust(&digest);
        }
        known.build = remembered;
    }
    // A recorded owner that is there keeps its name, and so does one that is not looked at here.
    let here: BTreeSet<(&Path, Cow<'_, str>)> =
        seen.iter().map(|seen| trust_store::entry(&seen.source)).collect();
    let counted = &mut NamesOfFolders::default();
    for Seen { source, names, .. } in seen {
        let (folder, id) = trust_store::entry(source);
        for name in names {
            let owners = lock.names.get(name).map(Vec::as_slice).unwrap_or_default();
            let is_here =
                |owner: &Owner| here.contains(&(owner.folder.as_path(), Cow::from(&owner.id)));
            if !owners.iter().any(is_here) {
                let owner = Owner { folder: folder.to_owned(), id: id.clone().into_owned() };
                lock.own(counted, name, owner);
            }
        }
    }
}

/// Removes builds that nobody mentions, and the oldest when there are too many bytes.
fn prune_builds(lock: &Lock, builds: &Builds, limits: &Limits) -> std::io::Result<()> {
    let mut worth: BTreeMap<String, Worth> = BTreeMap::new();
    for known in &lock.plugins {
        let last = known.build.as_ref().map(|build| (&build.digest, Worth::Last));
        let trusted = known.trusted.as_ref().map(|digest| (digest, Worth::Trusted));
        let kept = known.kept.iter().map(|digest| (digest, Worth::Older));
        for (digest, found) in kept.chain(last).chain(trusted) {
            let found = if known.of_stranger { Worth::Strangers } else { found };
            let worth = worth.entry(digest.clone()).or_insert(found);
            *worth = found.max(*worth);
        }
    }
    builds.prune(&worth, limits.kept_builds_bytes_max.0)
}

/// A build that a person trusts.
#[derive(Clone, Debug)]
pub struct Trusted {
    /// Whose it is.
    pub source: SourceId,
    /// Its digest, in hexadecimal.
    pub digest: String,
    /// Its bytes, to be kept, if it is made of some.
    pub bytes: Option<Kept>,
    /// What it is trusted with.
    pub agreed: Agreed,
    /// What it declares.
    pub outline: Outline,
}

/// Trusts builds, and keeps them, for a lock that is about to be written; `prune` what is kept then.
///
/// A build that cannot be kept is trusted all the same; a later one that is broken then has no
/// stand-in. It blocks on files.
pub fn trust(lock: &mut Lock, state: &Path, trusted: &[Trusted], limits: &Limits) {
    let builds = Builds::new(state);
    for Trusted { source, digest, outline, agreed, bytes } in trusted {
        let pin = Pin::new(source, digest);
        let is_kept = bytes.as_ref().is_some_and(|bytes| is_kept(&builds, bytes, digest, source));
        lock.trust(&pin, agreed);
        let known = lock.plugin_mut(&pin.folder, &pin.id);
        if is_kept {
            keep(known, &pin.digest, limits);
        }
        let build = lock.build((&pin.folder, &pin.id), &pin.digest, outline);
        lock.plugin_mut(&pin.folder, &pin.id).build = Some(build);
    }
}

/// Removes kept builds that a lock does not mention, and the oldest when there are too many bytes.
/// It blocks on files.
pub fn prune(lock: &Lock, state: &Path, limits: &Limits) {
    if let Err(error) = prune_builds(lock, &Builds::new(state), limits) {
        tracing::warn!(%error, "old builds of plugins cannot be removed");
    }
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
    use toolhost_core::tool::PluginId;

    /// What a host saw that had judged by these digests: what was trusted, and the last build.
    fn seen(digest: &str, trusted: Option<&str>, last: Option<&str>) -> Seen {
        let build = NewBuild {
            bytes: Some(Kept::File("/p/weather.wasm".into())),
            digest: digest.into(),
            outline: Outline::default(),
            trust: true,
            judged_by: (trusted.map(str::to_owned), last.map(str::to_owned)),
        };
        Seen {
            source: plugin("weather"),
            of_stranger: false,
            build: Some(build),
            names: Vec::new(),
        }
    }

    fn plugin(id: &str) -> SourceId {
        SourceId::Plugin { id: PluginId::from_stem(id).expect("an id"), folder: "/p".into() }
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

    #[test]
    fn builds_of_strangers_make_way_for_those_of_the_user() {
        let home = tempfile::tempdir().expect("a folder");
        let (mut lock, builds) = (Lock::default(), Builds::new(home.path()));
        let mut limits = Limits::default();
        limits.kept_builds_bytes_max.0 = 2_500;
        let kept = |text: &str| {
            let bytes: Arc<[u8]> = text.repeat(1_000).into_bytes().into();
            let digest = toolhost_wasm::digest(&bytes);
            assert!(builds.keep(&Kept::Bytes(bytes), &digest).expect("written"));
            digest
        };
        let mut seen_of = |id: &str, of_stranger: bool, text: &str| {
            let digest = kept(text);
            let known = lock.plugin(Path::new("/p"), id);
            let last = known.and_then(|known| Some(known.build.as_ref()?.digest.clone()));
            let source = plugin(id);
            let mut seen = Seen { source, of_stranger, ..seen(&digest, None, last.as_deref()) };
            seen.build.as_mut().expect("a build").trust = false;
            note(&mut lock, &[seen], &|_| true, &limits);
            prune_builds(&lock, &builds, &limits).expect("pruned");
            digest
        };
        let (first, second) = (seen_of("mine", false, "a"), seen_of("mine", false, "b"));
        let strange = seen_of("strange", true, "c");
        let found = |digest: &str| builds.find(digest).is_some();
        assert_eq!((found(&first), found(&second), found(&strange)), (true, true, false));
    }
}
