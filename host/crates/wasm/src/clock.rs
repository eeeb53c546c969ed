//! The clock of an engine: it makes guests yield to each other.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use wasmtime::EngineWeak;

use super::priority::be_prompt;

/// How often a running guest is made to yield to others.
pub(super) const TICK: Duration = Duration::from_millis(1);
/// The clock rests when no guest has run for this many ticks, since waking it costs a call
/// more than letting it run costs the machine.
const IDLE_TICKS_MAX: u32 = 1_000;

/// Advances the epoch while guests run, so that none of them holds a thread; rests otherwise.
pub(super) struct Clock {
    running: AtomicUsize,
    resting: AtomicBool,
    thread: OnceLock<thread::Thread>,
}

/// Keeps the clock running as long as it lives.
pub(super) struct Running(Arc<Clock>);

impl Clock {
    pub(super) fn start(engine: EngineWeak) -> Arc<Clock> {
        let clock = Arc::new(Clock {
            running: AtomicUsize::new(0),
            resting: AtomicBool::new(false),
            thread: OnceLock::new(),
        });
        let ticking = Arc::clone(&clock);
        let handle = thread::Builder::new()
            .name("toolhost-epoch".to_owned())
            .spawn(move || ticking.tick(&engine))
            .expect("a process that cannot start one thread cannot start a runtime either");
        clock.thread.get_or_init(|| handle.thread().clone());
        clock
    }

    pub(super) fn run(self: &Arc<Clock>) -> Running {
        self.running.fetch_add(1, Ordering::SeqCst);
        self.wake();
        Running(Arc::clone(self))
    }

    pub(super) fn wake(&self) {
        if self.resting.load(Ordering::SeqCst)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    fn tick(&self, engine: &EngineWeak) {
        be_prompt();
        let mut idle_ticks = 0;
        while let Some(engine) = engine.upgrade() {
            engine.increment_epoch();
            drop(engine);
            if self.running.load(Ordering::SeqCst) > 0 {
                idle_ticks = 0;
            }
            idle_ticks += 1;
            if idle_ticks <= IDLE_TICKS_MAX {
                thread::sleep(TICK);
                continue;
            }
            self.resting.store(true, Ordering::SeqCst);
            // Whoever starts from here on sees the flag and unparks.
            if self.running.load(Ordering::SeqCst) == 0 {
                thread::park();
            }
            self.resting.store(false, Ordering::SeqCst);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}
