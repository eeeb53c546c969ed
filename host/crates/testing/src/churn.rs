//! A folder of 20 plugins in which one changes after the other, beside clients that call all the
//! time; and what has to hold then. The soak `reloads` does it for long,
//! `tests/it/load/reload_soak.rs` for a while.

mod clients;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use tokio::sync::watch;
use toolhost::{Host, HostSettings};
use toolhost_core::tool::{Call, Outcome, SourceId};
use toolhost_sources::driver::Location;
use toolhost_sources::reload::{Shown, SourceStatus, Status};
use toolhost_wasm::digest;

pub use clients::{ClientReport, Clients};

/// Plugins there are, give or take a few.
pub const PLUGINS: usize = 20;
/// Ids of plugins, and names of tools, that are taken or free.
const NAMES: usize = 26;
/// Builds of each tool that come back again and again.
const VERSIONS: u64 = 8;
/// Of so many new builds, one never was before.
const FRESH_EVERY: u32 = 20;
/// How long the host may take to see a change.
const PATIENCE: Duration = Duration::from_secs(60);

/// Makes a plugin of a description; the guest `made` says what that can hold.
pub type Make = Box<dyn Fn(&Value) -> Vec<u8> + Send + Sync>;

/// What is done to one plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SoakStep {
    /// Its tool answers something else.
    Change,
    /// It is new.
    Add,
    /// It goes.
    Remove,
    /// Its file has another name.
    Move,
    /// Its tool has another name.
    Rename,
    /// Its file is none any more, or a build that fails its example.
    Break,
    /// The build before it was broken is back.
    Mend,
}

/// What a step has shown.
pub struct Taken {
    /// What was done.
    pub step: SoakStep,
    /// How often the catalog changed.
    pub generations: u64,
    /// From just before it was saved until the catalog had it, if there is a new build.
    pub callable: Option<Duration>,
    /// The build never was before, so it had to be compiled.
    pub is_fresh: bool,
}

/// What has to be there.
pub struct SoakPlugin {
    tool: usize,
    version: u64,
    /// Of its last build in order.
    digest: Arc<str>,
    is_broken: bool,
}

/// What the tool of one name answers, over time; nothing while there is none.
#[derive(Default)]
struct ExpectedAnswers {
    texts: std::sync::Mutex<Vec<Option<String>>>,
    /// The text of this place has begun to count for sure, so none before it does.
    settled: AtomicUsize,
}

/// The folder, the host, and what is expected of it.
pub struct Churn {
    host: Arc<Host>,
    folder: PathBuf,
    make: Make,
    random: ChaCha8Rng,
    /// By id.
    pub plugins: BTreeMap<usize, SoakPlugin>,
    told: Arc<Vec<ExpectedAnswers>>,
    /// Builds that were there before.
    known: BTreeSet<(usize, u64)>,
    generation: u64,
    sources: watch::Receiver<Shown>,
    generations: watch::Receiver<u64>,
}

impl Churn {
    /// Fills the first folder of the settings, and starts a host on it.
    pub async fn start(settings: HostSettings, make: Make, seed: u64) -> Churn {
        let folder = settings.folders[0].path.canonicalize().expect("a folder");
        let told: Vec<ExpectedAnswers> = (0..NAMES).map(|_| ExpectedAnswers::default()).collect();
        let (mut plugins, mut known) = (BTreeMap::new(), BTreeSet::new());
        for (place, told) in told.iter().enumerate() {
            let is_there = place < PLUGINS;
            let text = is_there.then(|| text(place, 0));
            told.texts.lock().expect("no panic").push(text);
            if is_there {
                let bytes = make(&description(place, 0));
                fs::write(folder.join(file(place)), &bytes).expect("written");
                let digest = digest(&bytes);
                plugins.insert(
                    place,
                    SoakPlugin { tool: place, version: 0, digest, is_broken: false },
                );
                known.insert((place, 0));
            }
        }
        let host = Arc::new(Host::start(settings).expect("a host"));
        host.loaded().await;
        let churn = Churn {
            generation: host.catalog().generation,
            sources: host.sources(),
            generations: host.subscribe(),
            random: ChaCha8Rng::seed_from_u64(seed),
            told: Arc::new(told),
            host,
            folder,
            make,
            plugins,
            known,
        };
        churn.check().unwrap_or_else(|wrong| panic!("at the start {wrong}"));
        churn
    }

    /// Starts so many clients, each of which calls any of the tools with this pause between two
    /// calls.
    pub fn clients(&self, count: u64, pause: Duration) -> Clients {
        Clients::start(&self.host, &self.told, count, pause)
    }

    /// Does something to one plugin, and waits until the host has it.
    ///
    /// # Errors
    /// With one sentence, if anything is not as it has to be then.
    pub async fn step(&mut self) -> Result<Taken, String> {
        let (step, id) = self.choose();
        let taken = self.take(step, id).await;
        let done = async {
            let mut taken = taken?;
            self.check()?;
            let generation = self.host.catalog().generation;
            taken.generations = generation - self.generation;
            self.generation = generation;
            let allowed = match step {
                SoakStep::Break | SoakStep::Mend => 0..=0,
                // Gone under one name and there under another can be seen as one or two.
                SoakStep::Move => 1..=2,
                _ => 1..=1,
            };
            match allowed.contains(&taken.generations) {
                true => Ok(taken),
                false => Err(format!("there were {} generations", taken.generations)),
            }
        };
        done.await.map_err(|wrong: String| format!("{step:?} of {}: {wrong}", file(id)))
    }

    /// What is done next, and to which plugin.
    fn choose(&mut self) -> (SoakStep, usize) {
        let place = self.random.random_range(0..self.plugins.len());
        let (id, plugin) = self.plugins.iter().nth(place).expect("so many");
        let (id, is_broken) = (*id, plugin.is_broken);
        let step = match self.random.random_range(0..100) {
            _ if is_broken && self.random.random_bool(0.5) => SoakStep::Mend,
            0..50 => SoakStep::Change,
            50..70 if self.plugins.len() <= PLUGINS => SoakStep::Add,
            50..70 => SoakStep::Remove,
            // Nobody knows what a broken file was before under another name.
            _ if is_broken => SoakStep::Change,
            70..80 => SoakStep::Move,
            80..90 => SoakStep::Rename,
            _ => SoakStep::Break,
        };
        match step {
            SoakStep::Add => (step, self.free_id()),
            _ => (step, id),
        }
    }

    async fn take(&mut self, step: SoakStep, id: usize) -> Result<Taken, String> {
        let mut taken = Taken { step, generations: 0, callable: None, is_fresh: false };
        match step {
            SoakStep::Change => {
                let tool = self.plugins[&id].tool;
                self.build(id, tool, &mut taken).await?;
            }
            SoakStep::Add | SoakStep::Rename => {
                let tool = self.free_tool();
                self.build(id, tool, &mut taken).await?;
            }
            SoakStep::Remove => {
                let plugin = self.plugins.remove(&id).expect("it is there");
                self.tell(plugin.tool, None);
                fs::remove_file(self.folder.join(file(id))).expect("removed");
                self.until(id, |status| status.is_none()).await?;
                self.settle(plugin.tool);
            }
            SoakStep::Move => {
                let to = self.free_id();
                let plugin = self.plugins.remove(&id).expect("it is there");
                let (tool, digest) = (plugin.tool, Arc::clone(&plugin.digest));
                let text = text(tool, plugin.version);
                self.plugins.insert(to, plugin);
                self.tell(tool, None);
                self.tell(tool, Some(text));
                let [from, onto] = [id, to].map(|id| self.folder.join(file(id)));
                fs::rename(from, onto).expect("renamed");
                self.until(id, |status| status.is_none()).await?;
                self.until(to, |status| is_live(status, &digest)).await?;
                self.settle(tool);
            }
            SoakStep::Break => {
                let bytes = self.broken(self.plugins[&id].tool);
                self.save(id, &bytes);
                let failed = |status: &SourceStatus| !status.loading && status.state.is_err();
                self.until(id, |status| status.is_some_and(failed)).await?;
                self.plugins.get_mut(&id).expect("it is there").is_broken = true;
            }
            SoakStep::Mend => {
                let SoakPlugin { tool, version, digest, .. } = &self.plugins[&id];
                let (digest, bytes) =
                    (Arc::clone(digest), (self.make)(&description(*tool, *version)));
                self.save(id, &bytes);
                self.until(id, |status| is_live(status, &digest)).await?;
                self.plugins.get_mut(&id).expect("it is there").is_broken = false;
            }
        }
        Ok(taken)
    }

    /// Saves another build of a plugin, or the first one, and calls it.
    async fn build(&mut self, id: usize, tool: usize, taken: &mut Taken) -> Result<(), String> {
        let before = self.plugins.get(&id).map(|plugin| (plugin.tool, plugin.version));
        let version = match self.random.random_ratio(1, FRESH_EVERY) {
            true => VERSIONS + self.known.len() as u64,
            false => self.random.random_range(0..VERSIONS),
        };
        // The same bytes would be no change.
        let version = version + u64::from(before == Some((tool, version))) * VERSIONS;
        taken.is_fresh = self.known.insert((tool, version));
        let bytes = (self.make)(&description(tool, version));
        let digest = digest(&bytes);
        let plugin = SoakPlugin { tool, version, digest: Arc::clone(&digest), is_broken: false };
        self.plugins.insert(id, plugin);
        let gone = before.map(|(before, _)| before).filter(|before| *before != tool);
        if let Some(gone) = gone {
            self.tell(gone, None);
        }
        let answer = text(tool, version);
        self.tell(tool, Some(answer.clone()));

        let saved = Instant::now();
        self.save(id, &bytes);
        let host = Arc::clone(&self.host);
        let is_there = |_: &u64| {
            host.catalog()
                .find(&name(tool))
                .is_some_and(|entry| entry.digest == Some(digest.clone()))
        };
        let published = tokio::time::timeout(PATIENCE, self.generations.wait_for(is_there));
        if published.await.is_err() {
            return Err(format!("never in the catalog; {:?}", self.status(id)));
        }
        taken.callable = Some(saved.elapsed());
        let outcome = self.host.call(Call::new(name(tool), "{}")).await;
        if !says(&outcome, &answer) {
            return Err(format!("`{answer}` was to be answered: {outcome:?}"));
        }
        self.until(id, |status| is_live(status, &digest)).await?;
        self.settle(tool);
        gone.into_iter().for_each(|gone| self.settle(gone));
        Ok(())
    }

    /// Bytes that are no plugin, or one that must not serve.
    fn broken(&mut self, tool: usize) -> Vec<u8> {
        let version = self.random.random_range(0..VERSIONS);
        let mut bytes = (self.make)(&description(tool, version));
        match self.random.random_range(0..4) {
            0 => bytes.truncate(bytes.len() / 2),
            1 => bytes = b"no component at all ".repeat(1_000),
            2 => bytes.clear(),
            _ => {
                let mut wrong = description(tool, version);
                wrong["tools"][0]["examples"][0][1] = "something else".into();
                bytes = (self.make)(&wrong);
            }
        }
        bytes
    }

    /// Writes a file: in place, or beside it and then renamed over it.
    fn save(&mut self, id: usize, bytes: &[u8]) {
        let path = self.folder.join(file(id));
        if self.random.random_bool(0.5) {
            fs::write(path, bytes).expect("written");
            return;
        }
        let part = self.folder.join(format!(".{}.part", file(id)));
        fs::write(&part, bytes).expect("written");
        fs::rename(part, path).expect("renamed");
    }

    fn free_id(&mut self) -> usize {
        let taken: BTreeSet<usize> = self.plugins.keys().copied().collect();
        self.free(&taken)
    }

    fn free_tool(&mut self) -> usize {
        let taken = self.plugins.values().map(|plugin| plugin.tool).collect();
        self.free(&taken)
    }

    fn free(&mut self, taken: &BTreeSet<usize>) -> usize {
        let free: Vec<usize> = (0..NAMES).filter(|place| !taken.contains(place)).collect();
        free[self.random.random_range(0..free.len())]
    }

    /// From now on a tool may answer this.
    fn tell(&self, tool: usize, text: Option<String>) {
        self.told[tool].texts.lock().expect("no panic").push(text);
    }

    /// From now on a tool answers nothing else.
    fn settle(&self, tool: usize) {
        let count = self.told[tool].texts.lock().expect("no panic").len();
        self.told[tool].settled.store(count - 1, Ordering::SeqCst);
    }

    /// Waits until this holds for the status of a file.
    async fn until(
        &mut self,
        id: usize,
        holds: impl Fn(Option<&SourceStatus>) -> bool,
    ) -> Result<(), String> {
        let seen = self.sources.wait_for(|shown| holds(find(shown, id)));
        if tokio::time::timeout(PATIENCE, seen).await.is_ok_and(|seen| seen.is_ok()) {
            return Ok(());
        }
        Err(format!("never as it has to be; {:?}", self.status(id)))
    }

    fn status(&self, id: usize) -> Option<SourceStatus> {
        find(&self.sources.borrow(), id).cloned()
    }

    /// Every tool is there once, of the plugin and the build that it has to be of, and no other;
    /// and there is a status of each file.
    fn check(&self) -> Result<(), String> {
        let catalog = self.host.catalog();
        let mut found = BTreeMap::new();
        for entry in catalog.tools() {
            let SourceId::Plugin { id, .. } = &entry.source else { continue };
            let tool = entry.tool.spec().name.to_string();
            let report = catalog.report(&entry.source).expect("a source has a report");
            if report.tools != [tool.clone()] || !report.rejected.is_empty() {
                return Err(format!("plugin:{id} has more or less than `{tool}`: {report:?}"));
            }
            found.insert(tool, (format!("{id}.wasm"), entry.digest.clone()));
        }
        let expected = self
            .plugins
            .iter()
            .map(|(id, plugin)| (name(plugin.tool), (file(*id), Some(Arc::clone(&plugin.digest)))));
        let expected: BTreeMap<_, _> = expected.collect();
        let other: Vec<_> =
            found.iter().filter(|(tool, of)| expected.get(*tool) != Some(of)).collect();
        let lost: Vec<_> =
            expected.iter().filter(|(tool, of)| found.get(*tool) != Some(of)).collect();
        if !other.is_empty() || !lost.is_empty() {
            return Err(format!("the catalog has {other:?} instead of {lost:?}"));
        }
        let statuses = self.sources.borrow().statuses.clone();
        let paths: BTreeSet<Location> =
            statuses.iter().map(|status| status.location.clone()).collect();
        let files = self.plugins.keys().map(|id| Location::File(self.folder.join(file(*id))));
        let files: BTreeSet<Location> = files.collect();
        if paths != files || statuses.len() != files.len() {
            return Err(format!("there are statuses of {paths:?}, and the files {files:?}"));
        }
        Ok(())
    }
}

fn says(outcome: &Outcome, text: &str) -> bool {
    outcome.result.is_ok() && outcome.to_json_text() == *json!({ "result": text }).to_string()
}

fn find(shown: &Shown, id: usize) -> Option<&SourceStatus> {
    let file = file(id);
    shown.statuses.iter().find(|status| status.location.ends_with(&file))
}

/// The file itself serves.
fn is_live(status: Option<&SourceStatus>, digest: &Arc<str>) -> bool {
    status.is_some_and(|status| {
        let of_file = status.state.as_ref().ok().map(|ready| &ready.facts.digest);
        of_file == Some(digest) && status.status() == Status::Live
    })
}

fn file(id: usize) -> String {
    format!("plugin-{id:02}.wasm")
}

fn name(tool: usize) -> String {
    format!("say_{tool:02}")
}

fn text(tool: usize, version: u64) -> String {
    format!("{} in its version {version}", name(tool))
}

/// One tool, whose example holds.
fn description(tool: usize, version: u64) -> Value {
    let text = text(tool, version);
    let tool = json!({
        "name": name(tool), "answer": { "text": text }, "examples": [["{}", text]],
    });
    json!({ "tools": [tool] })
}
