//! What the process holds, second by second: memory, open files, threads.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

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
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = rss.and_then(|rss| rss.trim().trim_end_matches(" kB").parse::<f64>().ok());
        let count = |folder| fs::read_dir(folder).map_or(0, Iterator::count);
        Vitals {
            second,
            rss_mib: kib.unwrap_or_default() / 1024.0,
            files: count("/proc/self/fd"),
            threads: count("/proc/self/task"),
        }
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
