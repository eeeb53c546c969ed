use std::thread;

use super::*;

/// The thread on which a guest ends that needs a CPU for so long, in steps of a millisecond.
async fn ends_on(guests: &LongGuests, habit: &Arc<Habit>, needs: Duration) -> String {
    let guest = async move {
        let start = thread_time();
        while thread_time().saturating_sub(start) < Duration::from_millis(1) {}
        for _ in 1..needs.as_millis() {
            tokio::task::yield_now().await;
            let start = thread_time();
            while thread_time().saturating_sub(start) < Duration::from_millis(1) {}
        }
        thread::current().name().unwrap_or_default().to_owned()
    };
    guests.run(Arc::new(Meter::default()), habit, guest).await
}

/// Tells whether it is one of the threads of long guests: which of them hangs on what else the
/// machine does.
fn is_among_long(thread: &str) -> bool {
    ["toolhost-idle", "toolhost-nice"].contains(&thread)
}

#[tokio::test]
async fn a_guest_goes_on_among_its_like_when_it_takes_long() {
    let (guests, habit) = (LongGuests::default(), Arc::default());
    let short = ends_on(&guests, &habit, Duration::from_millis(1)).await;
    let long = ends_on(&guests, &habit, Duration::from_millis(20)).await;
    assert!(!is_among_long(&short) && is_among_long(&long), "{short}, {long}");
}

#[tokio::test]
async fn tools_that_always_take_long_begin_there() {
    let (guests, habit) = (LongGuests::default(), Arc::default());
    let once = |needs| ends_on(&guests, &habit, Duration::from_millis(needs));
    once(20).await;
    assert!(!is_among_long(&once(1).await), "it took long only once");
    for _ in 0..3 {
        once(20).await;
    }
    assert!(is_among_long(&once(1).await));
    for _ in 0..20 {
        once(1).await;
    }
    assert!(!is_among_long(&once(1).await), "it has not taken long for a while");
}

#[tokio::test]
async fn where_one_was_starved_no_other_goes_on() {
    let (guests, habit) = (LongGuests::default(), Arc::default());
    guests.saw_starved();
    let end = ends_on(&guests, &habit, Duration::from_millis(20)).await;
    assert_eq!(end, "toolhost-nice");
}
