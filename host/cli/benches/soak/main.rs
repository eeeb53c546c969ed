//! Long runs that do not belong in CI, each by its name: `make soak` runs all of them.
//!
//! `cargo bench -p toolhost-cli --bench soak -- run=mixed minutes=10 rate=2000 seed=1
//! hostile=panics,floods_the_log` sets all there is to set; without the last, every hostile tool
//! takes part. `-- run=reloads reloads=10000 rate=2000 seed=1` is another one, and `-- run=many
//! plugins=1000 busy=4` the third. A run prints what it measured, and ends with exit code 1 and one sentence for each
//! bound that was not kept. Without `run=` nothing runs, so that `cargo bench` stays short.

#![expect(clippy::print_stdout, reason = "a soak prints its tables")]

mod latencies;
mod load;
mod many;
mod mixed;
mod reloads;
mod tools;
mod vitals;

use std::process::ExitCode;
use std::time::Duration;

use toolhost_testing::{GuestBuilds, builds};

/// As in the program.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// What the runs have to build.
pub(crate) static BUILDS: GuestBuilds = builds!();

/// A run returns the bounds that were not kept, as sentences.
type Run = fn(&Options) -> Vec<String>;

/// The runs that there are.
const RUNS: [(&str, Run); 3] =
    [("mixed", mixed::run), ("reloads", reloads::run), ("many", many::run)];

/// What a run was asked for.
pub(crate) struct Options {
    /// How long `mixed` takes, with its quiet part and without preparations.
    pub(crate) time: Duration,
    /// How many changes `reloads` makes.
    pub(crate) reloads: u64,
    /// How many plugins `many` has.
    pub(crate) plugins: usize,
    /// How many threads keep cores busy beside `many`.
    pub(crate) busy: usize,
    /// Calls a second.
    pub(crate) rate: u64,
    /// Of the order of calls and changes.
    pub(crate) seed: u64,
    /// The hostile tools that take part, if not all.
    pub(crate) hostile: Option<Vec<String>>,
}

fn main() -> ExitCode {
    // Cargo adds flags of its own.
    let words: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    match read(&words) {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some((run, options))) => {
            let broken = run(&options);
            match broken.as_slice() {
                [] => println!("every bound was kept"),
                broken => broken.iter().for_each(|bound| println!("NOT KEPT: {bound}")),
            }
            ExitCode::from(u8::from(!broken.is_empty()))
        }
        Err(problem) => {
            println!("{problem}");
            ExitCode::from(2)
        }
    }
}

fn read(words: &[String]) -> Result<Option<(Run, Options)>, String> {
    let (mut run, mut minutes, mut rate, mut seed, mut hostile) = (None, 10.0, 2_000, 1, None);
    let (mut reloads, mut plugins, mut busy) = (10_000, 1_000, 0);
    for (name, value) in words.iter().filter_map(|word| word.split_once('=')) {
        let wrong = || format!("`{name}={value}` is not understood; give a number above 0");
        match name {
            "run" => {
                let named = RUNS.into_iter().find(|(name, _)| *name == value);
                let names = RUNS.map(|(name, _)| name);
                let (_, found) = named
                    .ok_or_else(|| format!("no soak is named `{value}`; there are: {names:?}"))?;
                run = Some(found);
            }
            "reloads" => reloads = value.parse().ok().filter(|n| *n > 0).ok_or_else(wrong)?,
            "plugins" => plugins = value.parse().ok().filter(|n| *n > 0).ok_or_else(wrong)?,
            "busy" => busy = value.parse().map_err(|_| wrong())?,
            "minutes" => minutes = value.parse().ok().filter(|m| *m > 0.0).ok_or_else(wrong)?,
            "rate" => rate = value.parse().ok().filter(|rate| *rate > 0).ok_or_else(wrong)?,
            "seed" => seed = value.parse().map_err(|_| wrong())?,
            "hostile" => hostile = Some(value.split(',').map(str::to_owned).collect()),
            _ => {
                return Err(format!(
                    "there is no option `{name}`; there are run, minutes, reloads, plugins, busy, rate, seed, hostile"
                ));
            }
        }
    }
    let time = Duration::try_from_secs_f64(minutes * 60.0);
    let time = time.map_err(|_| format!("`minutes={minutes}` is too long"))?;
    Ok(run.map(|run| (run, Options { time, reloads, plugins, busy, rate, seed, hostile })))
}
