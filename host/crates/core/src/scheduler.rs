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

/// Lanes remembered; beyond, those in which nothing runs or waits are forgotten.
const LANES_MAX: usize = 1_024;

/// One that takes turns, such as a source. Each is another than all before.
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

/// How many may run and wait: of one party, and in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Scheduler of one party at once.
    pub running_of_one: usize,
    /// Scheduler at once.
    pub running: usize,
    /// Waiting of one party.
    pub waiting_of_one: usize,
    /// Waiting in all.
    pub waiting: usize,
}

/// How much runs and waits at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Scheduler of the party.
    pub running_of_one: usize,
    /// Scheduler in all.
    pub running: usize,
    /// Waiting of the party.
    pub waiting_of_one: usize,
    /// Waiting in all.
    pub waiting: usize,
    /// When one more would have a turn, by the mean length of the party's turns so far.
    pub turn_in: Option<Duration>,
}

/// There is no place to wait. Which bound it was, is seen from the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full(pub Load);

/// Gives turns.
#[derive(Debug)]
pub struct Scheduler {
    bounds: Bounds,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    running: usize,
    waiting: usize,
    lanes: HashMap<SourceKey, Lane>,
    /// Parties of which somebody waits, the one whose turn was longest ago first.
    order: VecDeque<SourceKey>,
    tickets: u64,
}

#[derive(Debug, Default)]
struct Lane {
    running: usize,
    waiting: VecDeque<Waiter>,
    /// How long turns took, the latest counting most.
    mean: Option<Duration>,
}

#[derive(Debug)]
struct Waiter {
    ticket: u64,
    answer: oneshot::Sender<Result<(), Full>>,
}

/// A turn; it ends when this is dropped.
#[derive(Debug)]
#[must_use = "a turn ends when it is dropped"]
pub struct Turn<'a> {
    turns: &'a Scheduler,
    party: SourceKey,
    since: Instant,
}

/// A place in a lane; it is given up when this is dropped.
struct Place<'a> {
    turns: &'a Scheduler,
    party: SourceKey,
    ticket: u64,
    answer: oneshot::Receiver<Result<(), Full>>,
    is_answered: bool,
}

impl Scheduler {
    /// Gives turns within bounds.
    pub fn new(bounds: Bounds) -> Scheduler {
        Scheduler { bounds, state: Mutex::default() }
    }

    /// The bounds.
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Waits for a turn of `party`.
    ///
    /// # Errors
    /// If there is no place to wait, at once; or later, where another party needs the place more.
    ///
    /// # Cancel safety
    /// Dropping the future gives the place up.
    pub async fn take(&self, party: SourceKey) -> Result<Turn<'_>, Full> {
        if let Some(mut place) = self.enter(party)? {
            let answer = (&mut place.answer).await;
            place.is_answered = true;
            // Who gives an answer drops no sender without one.
            answer.unwrap_or_else(|_| Err(Full(self.load(party))))?;
        }
        Ok(Turn { turns: self, party, since: Instant::now() })
    }

    /// How much runs and waits, seen by `party`.
    pub fn load(&self, party: SourceKey) -> Load {
        self.state().load(party)
    }

    /// Gives a turn at once (and then no place), or a place.
    fn enter(&self, party: SourceKey) -> Result<Option<Place<'_>>, Full> {
        let mut state = self.state();
        let state = &mut *state;
        if state.lanes.len() >= LANES_MAX {
            state.lanes.retain(|_, lane| lane.running > 0 || !lane.waiting.is_empty());
        }
        let lane = state.lanes.entry(party).or_default();
        // Whoever waits cannot have a turn, so nobody is passed.
        if state.running < self.bounds.running && lane.running < self.bounds.running_of_one {
            lane.running += 1;
            state.running += 1;
            return Ok(None);
        }
        let waiting = lane.waiting.len();
        if waiting >= self.bounds.waiting_of_one
            || state.waiting >= self.bounds.waiting && !state.make_way(waiting)
        {
            return Err(Full(state.load(party)));
        }
        state.tickets += 1;
        let (ticket, (sender, answer)) = (state.tickets, oneshot::channel());
        let lane = state.lanes.entry(party).or_default();
        lane.waiting.push_back(Waiter { ticket, answer: sender });
        state.waiting += 1;
        if lane.waiting.len() == 1 {
            state.order.push_back(party);
        }
        Ok(Some(Place { turns: self, party, ticket, answer, is_answered: false }))
    }

    fn end(&self, party: SourceKey, length: Option<Duration>) {
        let mut state = self.state();
        state.running -= 1;
        if let Some(lane) = state.lanes.get_mut(&party) {
            lane.running -= 1;
            if let Some(length) = length {
                lane.mean = Some(lane.mean.map_or(length, |mean| (mean * 3 + length) / 4));
            }
        }
        state.give(self.bounds);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Gives free turns to those who wait.
    fn give(&mut self, bounds: Bounds) {
        while self.running < bounds.running {
            let running = |party: &SourceKey| self.lanes.get(party).map_or(0, |lane| lane.running);
            let may = |(_, party): &(usize, &SourceKey)| running(party) < bounds.running_of_one;
            // The first of the least.
            let next = self.order.iter().enumerate().filter(may);
            let next = next.min_by_key(|(_, party)| running(party)).map(|(place, _)| place);
            let Some(party) = next.and_then(|place| self.order.remove(place)) else { return };
            let Some(lane) = self.lanes.get_mut(&party) else { continue };
            let Some(waiter) = lane.waiting.pop_front() else { continue };
            if !lane.waiting.is_empty() {
                self.order.push_back(party);
            }
            lane.running += 1;
            self.waiting -= 1;
            self.running += 1;
            // Whoever has left in the meantime gives it back.
            let _ = waiter.answer.send(Ok(()));
        }
    }

    /// Lets the newest of the longest lane make way for one of a lane with `waiting`, if that is
    /// fairer.
    fn make_way(&mut self, waiting: usize) -> bool {
        let longest = self.order.iter().copied();
        let length = |party: &SourceKey| self.lanes.get(party).map_or(0, |lane| lane.waiting.len());
        let Some(party) = longest.max_by_key(length).filter(|party| length(party) > waiting + 1)
        else {
            return false;
        };
        let newest = self.lanes.get_mut(&party).and_then(|lane| lane.waiting.pop_back());
        let Some(newest) = newest else { return false };
        let full = Full(self.load(party));
        self.waiting -= 1;
        // Whoever has left in the meantime hears nothing.
        let _ = newest.answer.send(Err(full));
        true
    }

    fn leave(&mut self, party: SourceKey, ticket: u64) {
        let Some(lane) = self.lanes.get_mut(&party) else { return };
        let before = lane.waiting.len();
        lane.waiting.retain(|waiter| waiter.ticket != ticket);
        self.waiting -= before - lane.waiting.len();
        if lane.waiting.is_empty() {
            self.order.retain(|waiting| *waiting != party);
        }
    }

    fn load(&self, party: SourceKey) -> Load {
        let lane = self.lanes.get(&party);
        let of_one = |count: fn(&Lane) -> usize| lane.map_or(0, count);
        let running_of_one = of_one(|lane| lane.running);
        let waiting_of_one = of_one(|lane| lane.waiting.len());
        let rounds = waiting_of_one / running_of_one.max(1) + 1;
        let rounds = u32::try_from(rounds).unwrap_or(u32::MAX);
        Load {
            running_of_one,
            running: self.running,
            waiting_of_one,
            waiting: self.waiting,
            turn_in: lane.and_then(|lane| lane.mean).map(|mean| mean.saturating_mul(rounds)),
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turns.end(self.party, Some(self.since.elapsed()));
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if self.is_answered {
            return;
        }
        // Answers are given within the lock, so after this there comes none.
        self.turns.state().leave(self.party, self.ticket);
        if let Ok(Ok(())) = self.answer.try_recv() {
            self.turns.end(self.party, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    const BOUNDS: Bounds = Bounds { running_of_one: 2, running: 3, waiting_of_one: 4, waiting: 5 };

    fn numbers(turns: &Scheduler, party: SourceKey) -> [usize; 4] {
        let load = turns.load(party);
        [load.running_of_one, load.running, load.waiting_of_one, load.waiting]
    }

    /// Takes a turn that is free.
    fn turn(turns: &Scheduler, party: SourceKey) -> Turn<'_> {
        turns.take(party).now_or_never().expect("at once").expect("a turn")
    }

    #[test]
    fn turns_and_places_are_bounded_and_given_back() {
        let turns = Scheduler::new(BOUNDS);
        let (one, other) = (SourceKey::new(), SourceKey::new());
        let first = turn(&turns, one);
        let second = turn(&turns, one);
        let mut waiting: Vec<_> = (0..4).map(|_| Box::pin(turns.take(one))).collect();
        assert!(waiting.iter_mut().all(|place| place.now_or_never().is_none()));
        assert_eq!(numbers(&turns, one), [2, 2, 4, 4]);
        let full = turns.take(one).now_or_never().expect("at once").expect_err("full").0;
        assert_eq!(full.waiting_of_one, 4);
        // The other has the turn that is left.
        let third = turn(&turns, other);
        // Who leaves frees the place, whether waiting or just called.
        drop(waiting.pop());
        assert_eq!(numbers(&turns, one), [2, 3, 3, 3]);
        drop(first);
        assert_eq!(numbers(&turns, one), [2, 3, 2, 2]);
        drop(waiting.remove(0));
        assert_eq!(numbers(&turns, one), [2, 3, 1, 1]);
        drop((second, third, waiting));
        assert_eq!(numbers(&turns, one), [0, 0, 0, 0]);
        assert!(turns.state().order.is_empty());
    }

    #[test]
    fn the_longest_lane_makes_way() {
        let turns = Scheduler::new(BOUNDS);
        let (many, few) = (SourceKey::new(), SourceKey::new());
        let running = [turn(&turns, many), turn(&turns, many), turn(&turns, SourceKey::new())];
        let mut of_many: Vec<_> = (0..4).map(|_| Box::pin(turns.take(many))).collect();
        assert!(of_many.iter_mut().all(|place| place.now_or_never().is_none()));
        let mut of_few: Vec<_> = (0..2).map(|_| Box::pin(turns.take(few))).collect();
        assert!(of_few.iter_mut().all(|place| place.now_or_never().is_none()));
        assert_eq!(numbers(&turns, few), [0, 3, 2, 5]);
        let refused = of_many.pop().expect("the newest").now_or_never().expect("an answer");
        assert_eq!(refused.expect_err("made way").0.waiting_of_one, 3);
        // Three of one and two of the other are fair: nobody makes way any more.
        assert!(turns.take(few).now_or_never().expect("at once").is_err());
        drop((running, of_few));
        assert_eq!(numbers(&turns, many), [2, 2, 1, 1]);
    }

    #[test]
    fn the_next_turn_goes_to_who_has_the_fewest() {
        let turns = Scheduler::new(Bounds { running_of_one: 2, running: 2, ..BOUNDS });
        let (many, few) = (SourceKey::new(), SourceKey::new());
        let (first, second) = (turn(&turns, many), turn(&turns, many));
        let mut of_many: Vec<_> = (0..3).map(|_| Box::pin(turns.take(many))).collect();
        assert!(of_many.iter_mut().all(|place| place.now_or_never().is_none()));
        let mut of_few = Box::pin(turns.take(few));
        assert!(of_few.as_mut().now_or_never().is_none());
        drop(first);
        let of_few = of_few.now_or_never().expect("the very next").expect("a turn");
        drop(second);
        let third = of_many.remove(0).now_or_never().expect("the next").expect("a turn");
        drop(of_few);
        assert_eq!(numbers(&turns, many), [2, 2, 1, 1]);
        drop(third);
    }

    #[test]
    fn the_wait_is_foreseen_from_turns_before() {
        let turns = Scheduler::new(BOUNDS);
        let party = SourceKey::new();
        assert_eq!(turns.load(party).turn_in, None);
        turns.state().lanes.entry(party).or_default().mean = Some(Duration::from_secs(2));
        let _running = [turn(&turns, party), turn(&turns, party)];
        assert_eq!(turns.load(party).turn_in, Some(Duration::from_secs(2)));
        let mut waiting: Vec<_> = (0..4).map(|_| Box::pin(turns.take(party))).collect();
        assert!(waiting.iter_mut().all(|place| place.now_or_never().is_none()));
        assert_eq!(turns.load(party).turn_in, Some(Duration::from_secs(6)));
    }
}
