//! Long runs that do not belong in CI, each by its name: `make soak` runs `mixed`.
//!
//! `cargo bench -p toolhost --bench soak -- run=mixed minutes=10 rate=2000 seed=1
//! hostile=panics,floods_the_log` sets all there is to set; without the last, every hostile tool
//! takes part. A run prints what it measured, and ends with exit code 1 and one sentence for each
//! bound that was not kept. Without `run=` nothing runs, so that `cargo bench` stays short.

#![expect(clippy::print_stdout, reason = "a soak prints its tables")]

#[path = "../guests.rs"]
#[expect(dead_code, reason = "the other benchmarks use all of it")]
mod guests;
mod latencies;
mod load;
mod mixed;
mod tools;
mod vitals;

use std::process::ExitCode;
use std::time::Duration;

/// The runs that there are.
const RUNS: [&str; 1] = ["mixed"];

/// What a run was asked for.
pub(crate) struct Options {
    /// How long it takes, with its quiet part and without preparations.
    pub(crate) time: Duration,
    /// Calls a second.
    pub(crate) rate: u64,
    /// Of the order of calls.
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
        Ok(Some(options)) => {
            let broken = mixed::run(&options);
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

fn read(words: &[String]) -> Result<Option<Options>, String> {
    let (mut run, mut minutes, mut rate, mut seed, mut hostile) = (None, 10.0, 2_000, 1, None);
    for (name, value) in words.iter().filter_map(|word| word.split_once('=')) {
        let wrong = || format!("`{name}={value}` is not understood; give a number above 0");
        match name {
            "run" if RUNS.contains(&value) => run = Some(value),
            "run" => return Err(format!("no soak is named `{value}`; there are: {RUNS:?}")),
            "minutes" => minutes = value.parse().ok().filter(|m| *m > 0.0).ok_or_else(wrong)?,
            "rate" => rate = value.parse().ok().filter(|rate| *rate > 0).ok_or_else(wrong)?,
            "seed" => seed = value.parse().map_err(|_| wrong())?,
            "hostile" => hostile = Some(value.split(',').map(str::to_owned).collect()),
            _ => {
                return Err(format!(
                    "there is no option `{name}`; there are run, minutes, rate, seed, hostile"
                ));
            }
        }
    }
    let time = Duration::try_from_secs_f64(minutes * 60.0);
    let time = time.map_err(|_| format!("`minutes={minutes}` is too long"))?;
    Ok(run.map(|_| Options { time, rate, seed, hostile }))
}
