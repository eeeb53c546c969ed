//! Tests of the rules, with times as values, and of what processes tell each other.

use super::*;
use toolhost_core::limits::{Count, Guard};

const SECOND: u64 = 1_000;
/// Any time: the rules know no other clock.
const START: u64 = 1_000_000_000;

fn rules() -> Rules {
    Rules::new(&Limits::default())
}

fn some_build() -> FailedBuild {
    let (source, folder) = ("plugin:x".to_owned(), "/plugins".to_owned());
    FailedBuild { source, folder, digest: "d".to_owned(), caller: Some("one".to_owned()) }
}

#[test]
fn failures_of_several_callers_count_for_all() {
    let mut book = FailureLog::default();
    let of = |caller: &str| FailedBuild { caller: Some(caller.to_owned()), ..some_build() };
    let fail = |book: &mut FailureLog, caller: &str, at| {
        let event =
            QuarantineEvent::Failed { at, reason: "it crashed".to_owned(), is_trial: false };
        rules().apply(book, &of(caller), &event).expect("no trial");
    };
    let for_all = |book: &mut FailureLog| book.page(&some_build().for_all()).cloned();
    // However often one caller's calls fail.
    (0..5).for_each(|_| fail(&mut book, "one", START));
    assert_eq!(for_all(&mut book), None);
    assert_eq!(standing(&mut book, START), closed(60));
    fail(&mut book, "two", START + SECOND);
    let page = for_all(&mut book).expect("known for all");
    assert_eq!(rules().standing(&page, START + SECOND), closed(60));
    // A call that succeeds clears all of it.
    rules()
        .apply(&mut book, &some_build().for_all(), &QuarantineEvent::Succeeded)
        .expect("no trial");
    assert_eq!(book, FailureLog::default());
    // Two callers, but not often enough, and a minute later not any more.
    fail(&mut book, "one", START);
    fail(&mut book, "two", START);
    assert_eq!(for_all(&mut book), None);
    fail(&mut book, "two", START + 61 * SECOND);
    assert_eq!(for_all(&mut book), None);
}

fn fail(book: &mut FailureLog, at: u64, is_trial: bool) {
    let event = QuarantineEvent::Failed { at, reason: "it crashed".to_owned(), is_trial };
    rules().apply(book, &some_build(), &event).expect("no trial");
}

fn standing(book: &mut FailureLog, now: u64) -> BuildStanding {
    book.page(&some_build()).map_or(BuildStanding::Free, |page| rules().standing(page, now))
}

fn closed(seconds: u64) -> BuildStanding {
    BuildStanding::Closed { left: Duration::from_secs(seconds) }
}

fn in_quarantine() -> FailureLog {
    let mut book = FailureLog::default();
    [0, 1, 2].iter().for_each(|second| fail(&mut book, START + second * SECOND, false));
    book
}

#[test]
fn three_failures_within_a_minute() {
    let mut book = FailureLog::default();
    fail(&mut book, START, false);
    fail(&mut book, START + 30 * SECOND, false);
    assert_eq!(standing(&mut book, START + 30 * SECOND), BuildStanding::Free);
    // The first is a minute old.
    fail(&mut book, START + 60 * SECOND, false);
    assert_eq!(standing(&mut book, START + 60 * SECOND), BuildStanding::Free);
    fail(&mut book, START + 61 * SECOND, false);
    assert_eq!(standing(&mut book, START + 61 * SECOND), closed(60));
    assert_eq!(standing(&mut book, START + 120 * SECOND), closed(1));
    assert_eq!(standing(&mut book, START + 121 * SECOND), BuildStanding::Due);
    // What began before the quarantine changes nothing.
    fail(&mut book, START + 90 * SECOND, false);
    assert_eq!(standing(&mut book, START + 121 * SECOND), BuildStanding::Due);
}

#[test]
fn a_trial_that_fails_doubles_up_to_ten_minutes() {
    let (mut book, mut now) = (in_quarantine(), START + 62 * SECOND);
    for seconds in [120, 240, 480, 600, 600] {
        assert_eq!(standing(&mut book, now), BuildStanding::Due);
        fail(&mut book, now, true);
        assert_eq!(standing(&mut book, now), closed(seconds));
        now += seconds * SECOND;
    }
    // Nobody called for long: it begins anew.
    now += 600 * SECOND;
    assert_eq!(standing(&mut book, now), BuildStanding::Free);
    fail(&mut book, now, false);
    assert_eq!(standing(&mut book, now), BuildStanding::Free);
    assert_eq!(book.page(&some_build()).expect("a page").failures, [now]);
}

#[test]
fn one_trial_at_a_time() {
    let (mut book, now) = (in_quarantine(), START + 62 * SECOND);
    let until = now + rules().lease;
    let trial = QuarantineEvent::Trial { at: now, until };
    assert_eq!(rules().apply(&mut book, &some_build(), &trial), Ok(()));
    assert_eq!(standing(&mut book, now), closed(61));
    assert!(rules().apply(&mut book, &some_build(), &trial).is_err(), "another has the lease");
    // Given back, the next may try; succeeded, all is forgotten.
    let given = QuarantineEvent::Given { at: now, until };
    assert_eq!(rules().apply(&mut book, &some_build(), &given), Ok(()));
    assert_eq!(standing(&mut book, now), BuildStanding::Due);
    assert_eq!(rules().apply(&mut book, &some_build(), &trial), Ok(()));
    assert_eq!(rules().apply(&mut book, &some_build(), &QuarantineEvent::Succeeded), Ok(()));
    assert_eq!(book, FailureLog::default());
    // A lease that ran out is another's to take, and not to give back.
    let mut book = in_quarantine();
    assert_eq!(rules().apply(&mut book, &some_build(), &trial), Ok(()));
    let again = QuarantineEvent::Trial { at: until, until: until + rules().lease };
    assert_eq!(rules().apply(&mut book, &some_build(), &again), Ok(()));
    assert_eq!(rules().apply(&mut book, &some_build(), &given), Ok(()));
    assert_eq!(standing(&mut book, until), closed(61));
}

#[test]
fn a_clock_that_jumps_locks_nobody_out() {
    let mut book = in_quarantine();
    // Back by a year: no longer than the longest quarantine.
    let year = 365 * 24 * 3_600 * SECOND;
    let mut early = in_quarantine();
    early.plugins[0].until = Some(START + year);
    assert_eq!(standing(&mut early, START), closed(600));
    // Failures of the future are none.
    let mut future = FailureLog::default();
    fail(&mut future, START + year, false);
    fail(&mut future, START + year, false);
    fail(&mut future, START, false);
    assert_eq!(future.page(&some_build()).expect("a page").failures, [START]);
    // Ahead by a year: all is forgotten.
    assert_eq!(standing(&mut book, START + year), BuildStanding::Free);
    let other = FailedBuild { digest: "e".to_owned(), ..some_build() };
    let event =
        QuarantineEvent::Failed { at: START + year, reason: String::new(), is_trial: false };
    rules().apply(&mut book, &other, &event).expect("no trial");
    assert_eq!(book.plugins.len(), 1, "entries of long ago are dropped");
}

#[test]
fn the_numbers_are_the_operators() {
    let limits = Limits {
        quarantine_failures_max: Count(1),
        quarantine_time: Guard(Duration::from_secs(7)),
        quarantine_time_max: Guard(Duration::from_secs(10)),
        ..Limits::default()
    };
    let rules = Rules::new(&limits);
    let mut book = FailureLog::default();
    for (is_trial, seconds) in [(false, 7), (true, 10), (true, 10)] {
        let event = QuarantineEvent::Failed { at: START, reason: String::new(), is_trial };
        rules.apply(&mut book, &some_build(), &event).expect("no trial");
        assert_eq!(rules.standing(&book.plugins[0], START), closed(seconds));
    }
}

#[test]
fn what_counts() {
    let error = |code, limit: &str| CallError::new(code, "a message").with("limit", limit);
    for counted in [
        CallError::new(Code::Trap, "it crashed"),
        error(Code::Deadline, "wall_time_max"),
        error(Code::Memory, "memory_bytes_max"),
        error(Code::Memory, "table_elements_max"),
    ] {
        assert!(counts(&counted), "{counted:?}");
    }
    for not in [
        CallError::new(Code::Deadline, "the caller's"),
        error(Code::Deadline, "batch_time_max"),
        error(Code::Memory, "memory_all_bytes_max"),
        CallError::new(Code::OutputTooLarge, "ask for less"),
        CallError::new(Code::Failed, "no"),
        CallError::new(Code::Internal, "ours"),
        CallError::new(Code::Busy, "later"),
    ] {
        assert!(!counts(&not), "{not:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_tell_each_other() {
    let home = tempfile::tempdir().expect("a folder");
    let open = || {
        let state = Some(home.path().to_owned());
        Arc::new(Quarantine::open(&Limits::default(), state))
    };
    let known = |quarantine: &Quarantine, at| {
        let mut book = quarantine.book();
        book.page(&some_build()).map(|page| quarantine.rules.standing(page, at))
    };
    let fail = async |quarantine: &Arc<Quarantine>, is_trial| {
        let event = QuarantineEvent::Failed { at: now(), reason: "no".to_owned(), is_trial };
        quarantine.apply(&some_build(), &event);
        quarantine.write(some_build(), event).await.expect("written");
    };
    // Two that started before anything happened, and fail by turns.
    let (one, other) = (open(), open());
    fail(&one, false).await;
    fail(&other, false).await;
    fail(&one, false).await;
    assert!(matches!(known(&one, now()), Some(BuildStanding::Closed { .. })));
    // One that starts now knows it as well.
    let third = open();
    assert!(matches!(known(&third, now()), Some(BuildStanding::Closed { .. })));
    // One trial at a time among all of them, later.
    let later = now() + 61 * SECOND;
    let until = later + third.rules.lease;
    let trial = || QuarantineEvent::Trial { at: later, until };
    assert_eq!(third.write(some_build(), trial()).await, Ok(()));
    assert_eq!(one.write(some_build(), trial()).await.expect_err("taken").until, Some(until));
    third.write(some_build(), QuarantineEvent::Succeeded).await.expect("written");
    assert_eq!(failures::read(home.path()).expect("whole"), FailureLog::default());
    // Where nothing can be written, the rule holds all the same.
    let file = home.path().join("a-file");
    std::fs::write(&file, "").expect("written");
    let alone = Arc::new(Quarantine::open(&Limits::default(), Some(file)));
    for _ in 0..3 {
        fail(&alone, false).await;
    }
    assert!(matches!(known(&alone, now()), Some(BuildStanding::Closed { .. })));
}
