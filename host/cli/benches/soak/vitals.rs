//! What the process holds, second by second: memory, open files, threads.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How much memory may grow: by this share, if that is more than a number of MiB.
const GROWTH_SHARE_MAX: f64 = 0.10;
/// How many more open files there may be at the end.
const MORE_FILES_MAX: usize = 16;

/// What the process held at one moment.
#[derive(Clone, Copy)]
pub(crate) struct Vitals {
    /// Seconds since the start.
    pub(crate) second: u64,
    pub(crate) rss_mib: f64,
    pub(crate) files: usize,
    pub(crate) threads: usize,
}

impl Vitals {
    fn now(second: u64) -> Vitals {
        let count = |folder| fs::read_dir(folder).map_or(0, Iterator::count);
        Vitals {
            second,
            rss_mib: resident_mib("self"),
            files: count("/proc/self/fd"),
            threads: count("/proc/self/task"),
        }
    }
}

/// The memory that a process holds; 0 where there is none of this name.
pub(crate) fn resident_mib(process: &str) -> f64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = rss.and_then(|rss| rss.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kib.unwrap_or_default() / 1024.0
}

/// What the machine did with its cores up to a moment. A virtual one loses time to its neighbours,
/// and nothing within it can help that.
#[derive(Clone, Copy, Default)]
pub(crate) struct Cores {
    all: u64,
    lost: u64,
}

impl Cores {
    /// None where the kernel does not tell.
    pub(crate) fn now() -> Option<Cores> {
        /// The place of `steal` in the line; the two behind it are counted in others.
        const STEAL: usize = 7;
        let stat = fs::read_to_string("/proc/stat").ok()?;
        let line = stat.lines().next()?;
        let ticks: Vec<u64> =
            line.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
        let all = ticks.iter().take(STEAL + 1).sum();
        Some(Cores { all, lost: *ticks.get(STEAL)? })
    }

    /// The share that was lost since then.
    pub(crate) fn lost_since(self, before: Cores) -> f64 {
        // Some of these numbers may go back a little.
        let [lost, all] =
            [self.lost.saturating_sub(before.lost), self.all.saturating_sub(before.all)];
        lost as f64 / all.max(1) as f64
    }
}

/// Looks every second, until it is asked what it saw.
pub(crate) struct Watching {
    stopped: Arc<AtomicBool>,
    seen: JoinHandle<Vec<Vitals>>,
}

impl Watching {
    pub(crate) fn start() -> Watching {
        let stopped = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stopped);
        let seen = std::thread::spawn(move || {
            let (start, mut seen) = (Instant::now(), Vec::new());
            for second in 0.. {
                seen.push(Vitals::now(second));
                let next = start + Duration::from_secs(second + 1);
                std::thread::sleep(next.saturating_duration_since(Instant::now()));
                if flag.load(Ordering::Relaxed) {
                    break;
                }
            }
            seen
        });
        Watching { stopped, seen }
    }

    pub(crate) fn end(self) -> Vec<Vitals> {
        self.stopped.store(true, Ordering::Relaxed);
        self.seen.join().expect("a watcher does not panic")
    }
}

/// What the process may hold at the end, against the second part of its time; the first warms up.
pub(crate) struct Stays {
    /// Of the whole time.
    pub(crate) parts: usize,
    pub(crate) growth_mib_max: f64,
    pub(crate) more_threads_max: usize,
}

impl Stays {
    /// Prints a line for each part. What stays is the least of a while.
    pub(crate) fn table(&self, vitals: &[Vitals], broken: &mut Vec<String>) {
        let length = vitals.len().div_ceil(self.parts).max(1);
        let least = |part: &[Vitals]| part.iter().map(|v| v.rss_mib).fold(f64::MAX, f64::min);
        let most = |part: &[Vitals]| part.iter().map(|v| v.rss_mib).fold(0.0, f64::max);
        println!(
            "{:>8} {:>12} {:>12} {:>7} {:>7}",
            "second", "least MiB", "most MiB", "files", "threads"
        );
        let parts: Vec<&[Vitals]> = vitals.chunks(length).collect();
        for part in &parts {
            let (files, threads) =
                part.iter().fold((0, 0), |most, v| (v.files.max(most.0), v.threads.max(most.1)));
            let (second, least, most) = (part[0].second, least(part), most(part));
            println!("{second:>8} {least:>12.1} {most:>12.1} {files:>7} {threads:>7}");
        }
        let (warm, end) = (parts[1.min(parts.len() - 1)], parts[parts.len() - 1]);
        let (before, after) = (least(warm), least(end));
        let growth = after - before;
        println!("memory: {before:.1} MiB warm, {after:.1} MiB at the end: {growth:+.1} MiB");
        if growth > self.growth_mib_max.max(before * GROWTH_SHARE_MAX) {
            broken.push(format!("memory grew from {before:.1} MiB to {after:.1} MiB"));
        }
        let held =
            |part: &[Vitals], of: fn(&Vitals) -> usize| part.iter().map(of).min().unwrap_or(0);
        let files: fn(&Vitals) -> usize = |v| v.files;
        for (what, of, more_max) in
            [("files", files, MORE_FILES_MAX), ("threads", |v| v.threads, self.more_threads_max)]
        {
            let (before, after) = (held(warm, of), held(end, of));
            if after > before + more_max {
                broken.push(format!("there were {before} {what} when warm and {after} at the end"));
            }
        }
    }
}
