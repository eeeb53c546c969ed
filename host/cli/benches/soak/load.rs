//! An open loop: calls begin at a fixed rate, however the calls before them fare, and each is
//! measured from the moment at which it was due. So a host that stalls is seen by every call that
//! was due meanwhile.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use tokio::runtime::Handle;
use toolhost::Host;
use toolhost_core::tool::{Call, Code, Outcome};

use crate::latencies::Latencies;
use crate::tools::{Ends, Nature, SoakTool};

/// How long the last calls may take once no more begin.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(30);

/// What became of the calls of one kind.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) latencies: Latencies,
    /// How many calls ended with which code; `ok` is one.
    pub(crate) ends: Mutex<BTreeMap<&'static str, u64>>,
    /// The first end that must not be.
    pub(crate) wrong: Mutex<Option<String>>,
    pub(crate) wrong_count: AtomicU64,
}

/// What became of all calls.
pub(crate) struct CallsReport {
    /// In the order of the kinds.
    pub(crate) tallies: Vec<Arc<Tally>>,
    /// Calls that began, and how many a second ended.
    pub(crate) begun: u64,
    pub(crate) rate: f64,
    /// How late calls were begun, since the loop itself was late; part of what is measured.
    pub(crate) lag: Latencies,
    /// Calls that had not ended when all must have.
    pub(crate) left: u64,
}

/// How calls come.
pub(crate) struct Arrivals {
    pub(crate) rate: u64,
    pub(crate) time: Duration,
    pub(crate) seed: u64,
    /// Hostile calls are made too. The others are the same ones either way.
    pub(crate) hostile: bool,
}

/// Makes the calls from this thread, which does nothing else; they run on the runtime.
pub(crate) fn run(host: &Arc<Host>, kinds: &[SoakTool], arrivals: &Arrivals) -> CallsReport {
    let tallies: Vec<Arc<Tally>> = kinds.iter().map(|_| Arc::default()).collect();
    let (open, lag) = (Arc::new(AtomicU64::new(0)), Latencies::default());
    let mut random = ChaCha8Rng::seed_from_u64(arrivals.seed);
    let weights: u32 = kinds.iter().map(|kind| kind.weight).sum();
    let count = (arrivals.time.as_secs_f64() * arrivals.rate as f64) as u64;
    let (start, mut begun) = (Instant::now(), 0);
    for number in 0..count {
        let place = choose(kinds, random.random_range(0..weights));
        if kinds[place].nature == Nature::Hostile && !arrivals.hostile {
            continue;
        }
        let due = start + Duration::from_nanos(number * 1_000_000_000 / arrivals.rate);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        lag.add(due.elapsed());
        begun += 1;
        open.fetch_add(1, Ordering::Relaxed);
        let (host, tally, open) =
            (Arc::clone(host), Arc::clone(&tallies[place]), Arc::clone(&open));
        let call = Call::new(&kinds[place].tool, (kinds[place].arguments)(number));
        let ends = kinds[place].ends;
        Handle::current().spawn(async move {
            let outcome = host.call(call).await;
            tally.latencies.add(due.elapsed());
            tally.saw(number, &outcome, ends);
            open.fetch_sub(1, Ordering::Relaxed);
        });
    }
    let last = Instant::now();
    while open.load(Ordering::Relaxed) > 0 && last.elapsed() < DRAIN_TIME_MAX {
        std::thread::sleep(Duration::from_millis(1));
    }
    let left = open.load(Ordering::Relaxed);
    let rate = (begun - left) as f64 / start.elapsed().as_secs_f64();
    CallsReport { tallies, begun, rate, lag, left }
}

/// The kind to which a number below the sum of all weights belongs.
fn choose(kinds: &[SoakTool], mut number: u32) -> usize {
    for (place, kind) in kinds.iter().enumerate() {
        if number < kind.weight {
            return place;
        }
        number -= kind.weight;
    }
    0
}

impl Tally {
    fn saw(&self, number: u64, outcome: &Outcome, ends: Ends) {
        let code = outcome.result.as_ref().map_or_else(|error| error.code.as_str(), |_| "ok");
        *lock(&self.ends).entry(code).or_default() += 1;
        let wrong = match (ends, &outcome.result) {
            (Ends::Answer(part), Ok(_)) => {
                let (text, part) = (outcome.to_json_text(), part(number));
                (!text.contains(&part)).then(|| format!("answered {text}, without {part}"))
            }
            (Ends::Said, Ok(_)) => None,
            (Ends::Stopped(codes), Err(error)) if codes.contains(&error.code) => None,
            (Ends::Said | Ends::Stopped(_), Err(error)) if is_refusal(error.code) => None,
            (_, other) => Some(format!("ended so: {other:?}")),
        };
        if let Some(wrong) = wrong {
            self.wrong_count.fetch_add(1, Ordering::Relaxed);
            lock(&self.wrong).get_or_insert(wrong);
        }
    }

    /// Calls that were let run, however they ended.
    pub(crate) fn ran(&self) -> u64 {
        let refused = [Code::Busy.as_str(), Code::Quarantined.as_str()];
        lock(&self.ends)
            .iter()
            .filter(|(code, _)| !refused.contains(code))
            .map(|(_, count)| count)
            .sum()
    }
}

fn is_refusal(code: Code) -> bool {
    matches!(code, Code::Busy | Code::Quarantined)
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
