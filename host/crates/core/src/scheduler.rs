//! Who goes next: so many at once, bounded queues, and no source that holds up the others.
//!
//! Each source waits in a queue of its own. A free slot goes to the queue of which the fewest run,
//! and among equals round and round, so a source with a thousand waiting delays another by no more
//! than one of its slots. Queues have a bound each, and one all together; where that is reached,
//! the newest of the longest queue makes way for a shorter one. What this module does not do: bound
//! how long anybody waits. Whoever waits drops the future when it was too long.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

/// Queues remembered; beyond, those of which nothing runs or waits are forgotten.
const QUEUES_MAX: usize = 1_024;

/// Whose queue it is: that of a source, or of a session. Each key is another than all before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SourceKey(u64);

impl SourceKey {
    /// A new one.
    #[expect(clippy::new_without_default, reason = "two defaults would not be equal")]
    pub fn new() -> SourceKey {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        SourceKey(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// How many may run and wait: of one source, and in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Running at once, of one source.
    pub running_of_one: usize,
    /// Running at once, in all.
    pub running: usize,
    /// Waiting of one source.
    pub waiting_of_one: usize,
    /// Waiting in all.
    pub waiting: usize,
}

/// How much runs and waits at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Running of the source.
    pub running_of_one: usize,
    /// Running in all.
    pub running: usize,
    /// Waiting of the source.
    pub waiting_of_one: usize,
    /// Waiting in all.
    pub waiting: usize,
    /// When one more would have a slot, by the mean time that the source's have been held so far.
    pub slot_in: Option<Duration>,
}

/// There is no place to wait. Which bound it was, is seen from the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full(pub Load);

/// Gives slots, within bounds.
#[derive(Debug)]
pub struct Scheduler {
    bounds: Bounds,
    state: Mutex<Queues>,
}

#[derive(Debug, Default)]
struct Queues {
    running: usize,
    waiting: usize,
    queues: HashMap<SourceKey, SourceQueue>,
    /// Sources of which somebody waits, the one that had a slot longest ago first.
    order: VecDeque<SourceKey>,
    tickets: u64,
}

#[derive(Debug, Default)]
struct SourceQueue {
    running: usize,
    waiting: VecDeque<Waiter>,
    /// How long slots were held, the latest counting most.
    mean: Option<Duration>,
}

#[derive(Debug)]
struct Waiter {
    ticket: u64,
    answer: oneshot::Sender<Result<(), Full>>,
}

/// A slot; it is free again when this is dropped.
#[derive(Debug)]
#[must_use = "a slot is free again when it is dropped"]
pub struct Slot<'a> {
    scheduler: &'a Scheduler,
    key: SourceKey,
    since: Instant,
}

/// A place in a queue; it is given up when this is dropped.
struct Waiting<'a> {
    scheduler: &'a Scheduler,
    key: SourceKey,
    ticket: u64,
    answer: oneshot::Receiver<Result<(), Full>>,
    is_answered: bool,
}

impl Scheduler {
    /// Gives slots within these bounds.
    pub fn new(bounds: Bounds) -> Scheduler {
        Scheduler { bounds, state: Mutex::default() }
    }

    /// The bounds.
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Waits for a slot, in the queue of `key`.
    ///
    /// # Errors
    /// If there is no place to wait, at once; or later, where another source needs the place more.
    ///
    /// # Cancel safety
    /// Dropping the future gives the place up.
    pub async fn take(&self, key: SourceKey) -> Result<Slot<'_>, Full> {
        if let Some(mut place) = self.enter(key)? {
            let answer = (&mut place.answer).await;
            place.is_answered = true;
            // Who gives an answer drops no sender without one.
            answer.unwrap_or_else(|_| Err(Full(self.load(key))))?;
        }
        Ok(Slot { scheduler: self, key, since: Instant::now() })
    }

    /// How much runs and waits, seen by `key`.
    pub fn load(&self, key: SourceKey) -> Load {
        self.state().load(key)
    }

    /// Gives a slot at once (and then no place), or a place.
    fn enter(&self, key: SourceKey) -> Result<Option<Waiting<'_>>, Full> {
        let mut state = self.state();
        let state = &mut *state;
        if state.queues.len() >= QUEUES_MAX {
            state.queues.retain(|_, queue| queue.running > 0 || !queue.waiting.is_empty());
        }
        let queue = state.queues.entry(key).or_default();
        // Whoever waits cannot have a slot, so nobody is passed.
        if state.running < self.bounds.running && queue.running < self.bounds.running_of_one {
            queue.running += 1;
            state.running += 1;
            return Ok(None);
        }
        let waiting = queue.waiting.len();
        if waiting >= self.bounds.waiting_of_one
            || state.waiting >= self.bounds.waiting && !state.make_way(waiting)
        {
            return Err(Full(state.load(key)));
        }
        state.tickets += 1;
        let (ticket, (sender, answer)) = (state.tickets, oneshot::channel());
        let queue = state.queues.entry(key).or_default();
        queue.waiting.push_back(Waiter { ticket, answer: sender });
        state.waiting += 1;
        if queue.waiting.len() == 1 {
            state.order.push_back(key);
        }
        Ok(Some(Waiting { scheduler: self, key, ticket, answer, is_answered: false }))
    }

    fn end(&self, key: SourceKey, length: Option<Duration>) {
        let mut state = self.state();
        state.running -= 1;
        if let Some(queue) = state.queues.get_mut(&key) {
            queue.running -= 1;
            if let Some(length) = length {
                queue.mean = Some(queue.mean.map_or(length, |mean| (mean * 3 + length) / 4));
            }
        }
        state.give(self.bounds);
    }

    fn state(&self) -> MutexGuard<'_, Queues> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queues {
    /// Gives free slots to those who wait.
    fn give(&mut self, bounds: Bounds) {
        while self.running < bounds.running {
            let running = |key: &SourceKey| self.queues.get(key).map_or(0, |queue| queue.running);
            let may = |(_, key): &(usize, &SourceKey)| running(key) < bounds.running_of_one;
            // The first of the least.
            let next = self.order.iter().enumerate().filter(may);
            let next = next.min_by_key(|(_, key)| running(key)).map(|(place, _)| place);
            let Some(key) = next.and_then(|place| self.order.remove(place)) else { return };
            let Some(queue) = self.queues.get_mut(&key) else { continue };
            let Some(waiter) = queue.waiting.pop_front() else { continue };
            if !queue.waiting.is_empty() {
                self.order.push_back(key);
            }
            queue.running += 1;
            self.waiting -= 1;
            self.running += 1;
            // Whoever has left in the meantime gives it back.
            let _ = waiter.answer.send(Ok(()));
        }
    }

    /// Lets the newest of the longest queue make way for one of a queue with `waiting`, if that is
    /// fairer.
    fn make_way(&mut self, waiting: usize) -> bool {
        let longest = self.order.iter().copied();
        let length = |key: &SourceKey| self.queues.get(key).map_or(0, |queue| queue.waiting.len());
        let Some(key) = longest.max_by_key(length).filter(|key| length(key) > waiting + 1) else {
            return false;
        };
        let newest = self.queues.get_mut(&key).and_then(|queue| queue.waiting.pop_back());
        let Some(newest) = newest else { return false };
        let full = Full(self.load(key));
        self.waiting -= 1;
        // Whoever has left in the meantime hears nothing.
        let _ = newest.answer.send(Err(full));
        true
    }

    fn leave(&mut self, key: SourceKey, ticket: u64) {
        let Some(queue) = self.queues.get_mut(&key) else { return };
        let before = queue.waiting.len();
        queue.waiting.retain(|waiter| waiter.ticket != ticket);
        self.waiting -= before - queue.waiting.len();
        if queue.waiting.is_empty() {
            self.order.retain(|waiting| *waiting != key);
        }
    }

    fn load(&self, key: SourceKey) -> Load {
        let queue = self.queues.get(&key);
        let of_one = |count: fn(&SourceQueue) -> usize| queue.map_or(0, count);
        let running_of_one = of_one(|queue| queue.running);
        let waiting_of_one = of_one(|queue| queue.waiting.len());
        let rounds = waiting_of_one / running_of_one.max(1) + 1;
        let rounds = u32::try_from(rounds).unwrap_or(u32::MAX);
        Load {
            running_of_one,
            running: self.running,
            waiting_of_one,
            waiting: self.waiting,
            slot_in: queue.and_then(|queue| queue.mean).map(|mean| mean.saturating_mul(rounds)),
        }
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.scheduler.end(self.key, Some(self.since.elapsed()));
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.is_answered {
            return;
        }
        // Answers are given within the lock, so after this there comes none.
        self.scheduler.state().leave(self.key, self.ticket);
        if let Ok(Ok(())) = self.answer.try_recv() {
            self.scheduler.end(self.key, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    const BOUNDS: Bounds = Bounds { running_of_one: 2, running: 3, waiting_of_one: 4, waiting: 5 };

    fn numbers(scheduler: &Scheduler, key: SourceKey) -> [usize; 4] {
        let load = scheduler.load(key);
        [load.running_of_one, load.running, load.waiting_of_one, load.waiting]
    }

    /// Takes a slot that is free.
    fn slot(scheduler: &Scheduler, key: SourceKey) -> Slot<'_> {
        scheduler.take(key).now_or_never().expect("at once").expect("a slot")
    }

    #[test]
    fn slots_and_places_are_bounded_and_given_back() {
        let scheduler = Scheduler::new(BOUNDS);
        let (one, other) = (SourceKey::new(), SourceKey::new());
        let first = slot(&scheduler, one);
        let second = slot(&scheduler, one);
        let mut waiting: Vec<_> = (0..4).map(|_| Box::pin(scheduler.take(one))).collect();
        assert!(waiting.iter_mut().all(|place| place.now_or_never().is_none()));
        assert_eq!(numbers(&scheduler, one), [2, 2, 4, 4]);
        let full = scheduler.take(one).now_or_never().expect("at once").expect_err("full").0;
        assert_eq!(full.waiting_of_one, 4);
        // The other has the slot that is left.
        let third = slot(&scheduler, other);
        // Who leaves frees the place, whether waiting or just called.
        drop(waiting.pop());
        assert_eq!(numbers(&scheduler, one), [2, 3, 3, 3]);
        drop(first);
        assert_eq!(numbers(&scheduler, one), [2, 3, 2, 2]);
        drop(waiting.remove(0));
        assert_eq!(numbers(&scheduler, one), [2, 3, 1, 1]);
        drop((second, third, waiting));
        assert_eq!(numbers(&scheduler, one), [0, 0, 0, 0]);
        assert!(scheduler.state().order.is_empty());
    }

    #[test]
    fn the_longest_queue_makes_way() {
        let scheduler = Scheduler::new(BOUNDS);
        let (many, few) = (SourceKey::new(), SourceKey::new());
        let running =
            [slot(&scheduler, many), slot(&scheduler, many), slot(&scheduler, SourceKey::new())];
        let mut of_many: Vec<_> = (0..4).map(|_| Box::pin(scheduler.take(many))).collect();
        assert!(of_many.iter_mut().all(|place| place.now_or_never().is_none()));
        let mut of_few: Vec<_> = (0..2).map(|_| Box::pin(scheduler.take(few))).collect();
        assert!(of_few.iter_mut().all(|place| place.now_or_never().is_none()));
        assert_eq!(numbers(&scheduler, few), [0, 3, 2, 5]);
        let refused = of_many.pop().expect("the newest").now_or_never().expect("an answer");
        assert_eq!(refused.expect_err("made way").0.waiting_of_one, 3);
        // Three of one and two of the other are fair: nobody makes way any more.
        assert!(scheduler.take(few).now_or_never().expect("at once").is_err());
        drop((running, of_few));
        assert_eq!(numbers(&scheduler, many), [2, 2, 1, 1]);
    }

    #[test]
    fn the_next_slot_goes_to_who_has_the_fewest() {
        let scheduler = Scheduler::new(Bounds { running_of_one: 2, running: 2, ..BOUNDS });
        let (many, few) = (SourceKey::new(), SourceKey::new());
        let (first, second) = (slot(&scheduler, many), slot(&scheduler, many));
        let mut of_many: Vec<_> = (0..3).map(|_| Box::pin(scheduler.take(many))).collect();
        assert!(of_many.iter_mut().all(|place| place.now_or_never().is_none()));
        let mut of_few = Box::pin(scheduler.take(few));
        assert!(of_few.as_mut().now_or_never().is_none());
        drop(first);
        let of_few = of_few.now_or_never().expect("the very next").expect("a slot");
        drop(second);
        let third = of_many.remove(0).now_or_never().expect("the next").expect("a slot");
        drop(of_few);
        assert_eq!(numbers(&scheduler, many), [2, 2, 1, 1]);
        drop(third);
    }

    #[test]
    fn the_wait_is_foreseen_from_slots_before() {
        let scheduler = Scheduler::new(BOUNDS);
        let key = SourceKey::new();
        assert_eq!(scheduler.load(key).slot_in, None);
        scheduler.state().queues.entry(key).or_default().mean = Some(Duration::from_secs(2));
        let _running = [slot(&scheduler, key), slot(&scheduler, key)];
        assert_eq!(scheduler.load(key).slot_in, Some(Duration::from_secs(2)));
        let mut waiting: Vec<_> = (0..4).map(|_| Box::pin(scheduler.take(key))).collect();
        assert!(waiting.iter_mut().all(|place| place.now_or_never().is_none()));
        assert_eq!(scheduler.load(key).slot_in, Some(Duration::from_secs(6)));
    }
}
