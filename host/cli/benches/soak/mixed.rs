//! Good tools beside hostile ones, at a fixed rate: first the good ones alone, then all together.
//!
//! Bounds: every good call answers rightly, and every hostile one ends as foreseen; the p99 of
//! each good tool stays under twice its quiet one; hostile calls really run; the rate is reached;
//! memory, open files and threads stay where they were.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use toolhost::Host;

use crate::Options;
use crate::latencies::millis;
use crate::load::{self, Arrivals, CallsReport, Tally, lock};
use crate::tools::{self, Nature, SoakTool};
use crate::vitals::{Cores, Stays, Watching};

/// How much longer the p99 of a good tool may be beside hostile ones.
const P99_RATIO_MAX: f64 = 2.0;
/// Of the wanted rate, what must be reached.
const RATE_SHARE_MIN: f64 = 0.98;
/// In so much time at least one hostile call of each kind must have run and not been refused.
const HOSTILE_EVERY_MAX: Duration = Duration::from_secs(10);
/// Guests that take memory come and go, and what stays is what counts; a call may have a thread that
/// waits for a disk, of which the runtime forgets none that was used within ten seconds.
const STAYS: Stays = Stays { parts: 5, growth_mib_max: 64.0, more_threads_max: 64 };
const WARM_UP: Duration = Duration::from_secs(5);
/// Of the whole time, the quiet part.
const QUIET_SHARE: f64 = 0.1;
const QUIET_MIN: Duration = Duration::from_secs(10);

/// Returns the bounds that were not kept, as sentences.
pub(crate) fn run(options: &Options) -> Vec<String> {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let _within = runtime.enter();
    // In memory where there is such a folder: the disk of the machine is not what is measured.
    let home = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let home = home.expect("a folder");
    let host = runtime.block_on(tools::host(&home));
    let mut kinds = tools::kinds();
    if let Some(names) = &options.hostile {
        kinds.retain(|kind| kind.nature == Nature::Good || names.contains(&kind.tool));
    }
    let quiet_time = options.time.mul_f64(QUIET_SHARE).max(QUIET_MIN);
    let mixed_time = options.time.saturating_sub(quiet_time).max(QUIET_MIN);
    println!(
        "mixed: {} calls a second, {} s quiet and {} s beside hostile guests, seed {}, {} cores",
        options.rate,
        quiet_time.as_secs(),
        mixed_time.as_secs(),
        options.seed,
        std::thread::available_parallelism().map_or(1, usize::from),
    );
    let phase = |time, hostile, host: &Arc<Host>| {
        let arrivals = Arrivals { rate: options.rate, time, seed: options.seed, hostile };
        load::run(host, &kinds, &arrivals)
    };
    phase(WARM_UP, false, &host);
    let begin = Cores::now();
    let quiet = phase(quiet_time, false, &host);
    let between = Cores::now();
    let watching = Watching::start();
    let mixed = phase(mixed_time, true, &host);
    let (vitals, end) = (watching.end(), Cores::now());

    let mut broken = Vec::new();
    tools_table(&kinds, &quiet, &mixed, &mut broken);
    rates(&kinds, "quiet", &quiet, &mut broken, (options.rate, quiet_time, false));
    rates(&kinds, "mixed", &mixed, &mut broken, (options.rate, mixed_time, true));
    if let (Some(begin), Some(between), Some(end)) = (begin, between, end) {
        println!(
            "cores: other machines took {:.1} % of them in the quiet part and {:.1} % in the other; from 1 % on, times say little",
            between.lost_since(begin) * 100.0,
            end.lost_since(between) * 100.0,
        );
    }
    STAYS.table(&vitals, &mut broken);
    broken
}

fn tools_table(
    kinds: &[SoakTool],
    quiet: &CallsReport,
    mixed: &CallsReport,
    broken: &mut Vec<String>,
) {
    println!(
        "{:<18} {:>9} {:>9} {:>10} {:>10} {:>10} {:>10} {:>6}  ends",
        "tool", "calls", "wrong", "p50 ms", "p99 ms", "quiet p50", "quiet p99", "ratio"
    );
    for (place, kind) in kinds.iter().enumerate() {
        let (before, now) = (&quiet.tallies[place], &mixed.tallies[place]);
        let is_good = kind.nature == Nature::Good;
        let [p50, p99] = [0.5, 0.99].map(|share| now.latencies.quantile(share));
        let [quiet_p50, quiet_p99] = [0.5, 0.99].map(|share| before.latencies.quantile(share));
        let ratio = p99.as_secs_f64() / quiet_p99.as_secs_f64();
        let quiet = if is_good {
            format!("{:>10.3} {:>10.3} {ratio:>6.2}", millis(quiet_p50), millis(quiet_p99))
        } else {
            format!("{:>10} {:>10} {:>6}", "", "", "")
        };
        println!(
            "{:<18} {:>9} {:>9} {:>10.3} {:>10.3} {quiet}  {:?}",
            kind.tool,
            now.latencies.count(),
            wrong_count(now),
            millis(p50),
            millis(p99),
            lock(&now.ends),
        );
        for tally in [before, now] {
            if let Some(wrong) = &*lock(&tally.wrong) {
                let (tool, count) = (&kind.tool, wrong_count(tally));
                broken.push(format!("{count} calls of {tool} ended otherwise; the first {wrong}"));
            }
        }
        if is_good && ratio > P99_RATIO_MAX {
            broken.push(format!(
                "the p99 of {} is {:.3} ms beside hostile guests, {ratio:.2} times its quiet {:.3} ms; allowed is {P99_RATIO_MAX}",
                kind.tool, millis(p99), millis(quiet_p99),
            ));
        }
    }
}

fn rates(
    kinds: &[SoakTool],
    name: &str,
    phase: &CallsReport,
    broken: &mut Vec<String>,
    (rate, time, hostile): (u64, Duration, bool),
) {
    let sum = |wanted: fn(&SoakTool) -> bool| -> u32 {
        kinds.iter().filter(|kind| wanted(kind)).map(|kind| kind.weight).sum()
    };
    let good = f64::from(sum(|kind| kind.nature == Nature::Good)) / f64::from(sum(|_| true));
    let wanted = rate as f64 * if hostile { 1.0 } else { good };
    println!(
        "{name}: {} calls, {:.0} a second of {wanted:.0}, begun late by {:.3} ms (p50), {:.3} ms (p99)",
        phase.begun,
        phase.rate,
        millis(phase.lag.quantile(0.5)),
        millis(phase.lag.quantile(0.99)),
    );
    if phase.rate < wanted * RATE_SHARE_MIN {
        broken.push(format!("{name}: {:.0} calls a second of {wanted:.0}", phase.rate));
    }
    if phase.left > 0 {
        broken.push(format!("{name}: {} calls never ended", phase.left));
    }
    if !hostile {
        return;
    }
    for (kind, tally) in kinds.iter().zip(&phase.tallies) {
        let (ran, calls) = (tally.ran(), tally.latencies.count());
        let least = time.as_secs_f64() / HOSTILE_EVERY_MAX.as_secs_f64();
        if kind.nature == Nature::Hostile && (ran as f64) < least {
            broken.push(format!("only {ran} of {calls} calls of {} ran", kind.tool));
        }
    }
}

fn wrong_count(tally: &Tally) -> u64 {
    tally.wrong_count.load(Ordering::Relaxed)
}
