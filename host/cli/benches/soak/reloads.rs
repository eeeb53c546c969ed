//! A folder in which one plugin after the other changes, comes, goes, is renamed or broken, while
//! clients call.
//!
//! Bounds: after each step the catalog has each tool once, of the plugin and the build that it has
//! to be of; each change is one generation, and what is broken none; each call is answered by a
//! build that was there during the call; memory, open files and threads stay where they were, and
//! nothing is left in the folders.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use toolhost::HostSettings;
use toolhost_core::limits::Limits;
use toolhost_core::tool::Origin;
use toolhost_sources::folder::Folder;
use toolhost_testing::churn::{Churn, ClientReport, PLUGINS, SoakStep, Taken};
use toolhost_testing::guests::made;

use crate::latencies::{Latencies, millis};
use crate::vitals::{Stays, Watching};
use crate::{BUILDS, Options};

const CLIENTS: u64 = 8;
/// Lines of the table.
const PARTS: u64 = 10;
/// Nothing that is held comes and goes here, so it has to stay.
const STAYS: Stays = Stays { parts: 10, growth_mib_max: 16.0, more_threads_max: 8 };

/// What steps have shown.
#[derive(Default)]
struct ReloadTally {
    /// From a saved file to a tool that can be called: of builds that were there before, whose
    /// compiled code is kept, and of those that were not.
    kept: Latencies,
    compiled: Latencies,
    /// Of each kind of step.
    steps: BTreeMap<SoakStep, u64>,
    generations: u64,
    /// Files under another name which were seen as gone at first.
    seen_gone: u64,
}

impl ReloadTally {
    fn saw(&mut self, taken: &Taken) {
        *self.steps.entry(taken.step).or_default() += 1;
        self.generations += taken.generations;
        self.seen_gone += u64::from(taken.step == SoakStep::Move && taken.generations > 1);
        let latencies = if taken.is_fresh { &self.compiled } else { &self.kept };
        taken.callable.into_iter().for_each(|time| latencies.add(time));
    }
}

/// Returns the bounds that were not kept, as sentences.
pub(crate) fn run(options: &Options) -> Vec<String> {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    // In memory where there is such a folder: the disk of the machine is not what is measured.
    let home = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let home = home.expect("a folder");
    println!(
        "reloads: {} changes of {PLUGINS} plugins, {CLIENTS} clients with {} calls a second at most, seed {}, {} cores",
        options.reloads,
        options.rate,
        options.seed,
        std::thread::available_parallelism().map_or(1, usize::from),
    );
    runtime.block_on(soak(options, &home))
}

async fn soak(options: &Options, home: &TempDir) -> Vec<String> {
    let mut churn = start(home, options.seed).await;
    let mut broken = Vec::new();
    let pause = Duration::from_secs_f64(CLIENTS as f64 / options.rate as f64);
    let (watching, clients) = (Watching::start(), churn.clients(CLIENTS, pause));
    let (start, mut tally, mut part) = (Instant::now(), ReloadTally::default(), StepsRow::new());
    heading();
    for number in 1..=options.reloads {
        match churn.step().await {
            Ok(taken) => {
                tally.saw(&taken);
                part.tally.saw(&taken);
            }
            Err(wrong) => {
                broken.push(format!("step {number}: {wrong}"));
                break;
            }
        }
        if number % options.reloads.div_ceil(PARTS) == 0 || number == options.reloads {
            part.line(number);
            part = StepsRow::new();
        }
    }
    let time = start.elapsed();
    let seen = clients.end().await;
    let vitals = watching.end();
    told(&tally, time, &seen, &mut broken);
    STAYS.table(&vitals, &mut broken);
    left(home.path(), &churn, &mut broken);
    broken
}

async fn start(home: &TempDir, seed: u64) -> Churn {
    let home = home.path().canonicalize().expect("a folder");
    let [plugins, state] = ["plugins", "state"].map(|name| home.join(name));
    for folder in [&plugins, &state] {
        fs::create_dir(folder).expect("a folder");
    }
    let component = BUILDS.guest("made");
    let settings = HostSettings {
        folders: vec![Folder { path: plugins, origin: Origin::Project }],
        cache: Some(home.join("cache")),
        compiler: Some(BUILDS.program().into()),
        state: Some(state),
        ..HostSettings::default()
    };
    let make = move |description: &serde_json::Value| made(component.clone(), description);
    Churn::start(settings, Box::new(make), seed).await
}

/// Some of the steps, one line of the table.
struct StepsRow {
    since: Instant,
    tally: ReloadTally,
}

fn heading() {
    println!(
        "{:>8} {:>8} {:>10} {:>10} {:>10} {:>10}  (from saved to callable, ms)",
        "steps", "a second", "p50", "p99", "new p50", "new p99"
    );
}

impl StepsRow {
    fn new() -> StepsRow {
        StepsRow { since: Instant::now(), tally: ReloadTally::default() }
    }

    fn line(&self, number: u64) {
        let steps: u64 = self.tally.steps.values().sum();
        print!("{number:>8} {:>8.1}", steps as f64 / self.since.elapsed().as_secs_f64());
        for latencies in [&self.tally.kept, &self.tally.compiled] {
            let [p50, p99] = [0.5, 0.99].map(|share| millis(latencies.quantile(share)));
            print!(" {p50:>10.1} {p99:>10.1}");
        }
        println!();
    }
}

fn told(tally: &ReloadTally, time: Duration, seen: &ClientReport, broken: &mut Vec<String>) {
    let steps: u64 = tally.steps.values().sum();
    println!(
        "{steps} steps in {:.0} s, {:.1} a second: {:?}; {} generations, {} files under another name were seen as gone first",
        time.as_secs_f64(),
        steps as f64 / time.as_secs_f64(),
        tally.steps,
        tally.generations,
        tally.seen_gone,
    );
    for (what, latencies) in
        [("whose code is kept", &tally.kept), ("that are new", &tally.compiled)]
    {
        let [p50, p99, most] = [0.5, 0.99, 1.0].map(|share| millis(latencies.quantile(share)));
        let count = latencies.count();
        println!(
            "from saved to callable, {count} builds {what}: p50 {p50:.1} ms, p99 {p99:.1} ms, most {most:.1} ms"
        );
    }
    let ClientReport { answered, unknown, wrong, first } = seen;
    println!(
        "{answered} calls were answered, {unknown} of tools that were not there, {wrong} wrong"
    );
    if let Some(first) = first {
        broken.push(format!("{wrong} calls ended otherwise; the first: {first}"));
    }
}

/// What lies in the folders at the end.
fn left(home: &Path, churn: &Churn, broken: &mut Vec<String>) {
    for (folder, extension) in
        [("plugins", "wasm"), ("state", ""), ("state/builds", "wasm"), ("cache", "cwasm")]
    {
        let entries = fs::read_dir(home.join(folder)).into_iter().flatten().flatten();
        let files: Vec<_> = entries.filter(|entry| entry.path().is_file()).collect();
        let bytes: u64 = files.iter().flat_map(|file| file.metadata()).map(|file| file.len()).sum();
        println!("{folder}: {} files of {:.1} MiB", files.len(), bytes as f64 / 1_048_576.0);
        let is_other = |path: &Path| path.extension().unwrap_or_default() != extension;
        let mut others = files.iter().map(fs::DirEntry::path);
        let other = others.find(|path| !extension.is_empty() && is_other(path));
        if let Some(other) = other {
            broken.push(format!("{} was left behind", other.display()));
        }
        let expected = churn.plugins.len();
        if folder == "plugins" && files.len() != expected {
            broken.push(format!("there are {} files of {expected} plugins", files.len()));
        }
        let kept_max = Limits::default().kept_builds_bytes_max.0;
        if folder == "state/builds" && bytes > kept_max {
            broken.push(format!("kept builds have {bytes} bytes; allowed are {kept_max}"));
        }
    }
}
