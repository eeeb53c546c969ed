use std::thread;

use super::*;

/// Where a guest ends that needs a CPU for so long, in steps of a millisecond.
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

const IDLE: &str = "toolhost-idle";

#[tokio::test]
async fn a_guest_goes_on_among_its_like_when_it_takes_long() {
    let (guests, habit) = (LongGuests::default(), Arc::default());
    let short = ends_on(&guests, &habit, Duration::from_millis(1)).await;
    let long = ends_on(&guests, &habit, Duration::from_millis(20)).await;
    assert!(short != IDLE && long == IDLE, "{short}, {long}");
}

#[tokio::test]
async fn tools_that_always_take_long_begin_there() {
    let (guests, habit) = (LongGuests::default(), Arc::default());
    let once = |needs| ends_on(&guests, &habit, Duration::from_millis(needs));
    once(20).await;
    assert_ne!(once(1).await, IDLE, "it took long only once");
    for _ in 0..3 {
        once(20).await;
    }
    assert_eq!(once(1).await, IDLE);
    for _ in 0..20 {
        once(1).await;
    }
    assert_ne!(once(1).await, IDLE, "it has not taken long for a while");
}
