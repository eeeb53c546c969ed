//! Which guests go on upon which threads.

use std::thread;

use super::*;

/// The thread on which a guest ends that needs a CPU for so long, in steps of a millisecond.
async fn ends_on(guests: &CpuIsolation, habit: &Arc<Habit>, needs: Duration) -> String {
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
    let (guests, habit) = (CpuIsolation::default(), Arc::default());
    let short = ends_on(&guests, &habit, Duration::from_millis(1)).await;
    let long = ends_on(&guests, &habit, Duration::from_millis(20)).await;
    assert!(!is_among_long(&short) && is_among_long(&long), "{short}, {long}");
}

#[tokio::test]
async fn tools_that_always_take_long_begin_there() {
    let (guests, habit) = (CpuIsolation::default(), Arc::default());
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
    let (guests, habit) = (CpuIsolation::default(), Arc::default());
    guests.0.saw_starved();
    let end = ends_on(&guests, &habit, Duration::from_millis(20)).await;
    assert_eq!(end, "toolhost-nice");
}

#[tokio::test]
async fn a_process_that_ends_soon_has_no_idle_threads() {
    let (guests, habit) = (CpuIsolation::default(), Arc::default());
    guests.end_soon();
    let end = ends_on(&guests, &habit, Duration::from_millis(20)).await;
    assert_eq!(end, "toolhost-nice");
    assert!(guests.0.idle.runtime.get().is_none());
}

#[tokio::test]
async fn one_that_is_starved_goes_on_with_a_share() {
    let (guests, habit) = (CpuIsolation::default(), Arc::default());
    let guest = async {
        for time in [Duration::from_millis(3), STARVED_MIN + Duration::from_millis(50)] {
            let start = thread_time();
            while thread_time().saturating_sub(start) < Duration::from_millis(3) {}
            tokio::task::yield_now().await;
            // As if another had the core.
            thread::sleep(time);
            tokio::task::yield_now().await;
        }
        thread::current().name().unwrap_or_default().to_owned()
    };
    let end = guests.run(Arc::new(Meter::default()), &habit, guest).await;
    assert_eq!((end.as_str(), guests.0.is_avoided()), ("toolhost-nice", true));
}

#[tokio::test]
async fn a_guest_that_waits_on_idle_threads_is_dropped_with_its_caller() {
    let (guests, habit) = (CpuIsolation::default(), Arc::default());
    let held = Arc::new(());
    let holds = Arc::clone(&held);
    let guest = async move {
        let start = thread_time();
        while thread_time().saturating_sub(start) < SHORT_MAX {}
        tokio::task::yield_now().await;
        std::future::pending::<()>().await;
        drop(holds);
    };
    let run = guests.run(Arc::new(Meter::default()), &habit, guest);
    assert!(tokio::time::timeout(Duration::from_millis(100), run).await.is_err());
    let gone = async {
        while Arc::strong_count(&held) > 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(900), gone).await.expect("it is dropped");
}

#[tokio::test]
async fn where_the_threads_do_nothing_guests_do_not_wait_for_them() {
    let (guests, habit) = (CpuIsolation::default(), Arc::default());
    let threads = guests.0.idle_threads().expect("threads");
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let ended = Arc::new(Mutex::new(ended));
    for _ in 0..threads.metrics().num_workers() {
        let ended = Arc::clone(&ended);
        // As if others had the cores.
        threads.spawn(async move { lock(&ended).recv() });
    }
    let name = ends_on(&guests, &habit, Duration::from_millis(20)).await;
    drop(end);
    assert_eq!(name, "toolhost-nice");
}

#[tokio::test]
async fn when_the_threads_do_something_again_guests_come_back() {
    // Idle ones would come to nothing as long as others keep all cores busy.
    let idle = Threads::new("toolhost-idle", be_nicer);
    let guests = CpuIsolation(Arc::new(IsolationShared { idle, ..IsolationShared::default() }));
    let habit = Arc::default();
    *lock(&guests.0.starved) = Instant::now().checked_sub(AVOIDED_TIME);
    let comes_back = async {
        while ends_on(&guests, &habit, Duration::from_millis(20)).await != "toolhost-idle" {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(900), comes_back).await.expect("it comes back");
}
