//! A hundred changes of a folder of 20 plugins while clients call: no tool is lost or doubled, no
//! answer is of a build that was not there, and nothing is published that is no change. `make
//! soak` does ten thousand.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use toolhost::HostSettings;

use crate::support::{Lab, made};
use toolhost_testing::churn::{Churn, SoakStep};

const STEPS: usize = 100;
const CLIENTS: u64 = 4;

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_changes_while_clients_call() {
    let lab = Lab::new();
    let settings = HostSettings { once: false, ..lab.settings() };
    let mut churn = Churn::start(settings, Box::new(made), 1).await;
    let clients = churn.clients(CLIENTS, Duration::from_millis(5));
    let (mut steps, mut fresh) = (BTreeSet::new(), 0);
    for number in 0..STEPS {
        let taken = churn.step().await.unwrap_or_else(|wrong| panic!("step {number}: {wrong}"));
        let is_build = matches!(taken.step, SoakStep::Change | SoakStep::Add | SoakStep::Rename);
        assert_eq!(taken.callable.is_some(), is_build, "step {number}");
        fresh += usize::from(taken.is_fresh);
        steps.insert(taken.step);
    }
    let seen = clients.end().await;
    assert_eq!((seen.wrong, &seen.first), (0, &None));
    assert!(seen.answered > 0 && seen.unknown > 0, "{seen:?}");
    let all = [
        SoakStep::Change,
        SoakStep::Add,
        SoakStep::Remove,
        SoakStep::Move,
        SoakStep::Rename,
        SoakStep::Break,
        SoakStep::Mend,
    ];
    assert_eq!(steps, all.into(), "each kind was among them");
    assert!(fresh > 0, "no build was new");
    let files = fs::read_dir(lab.plugins()).expect("a folder").count();
    assert_eq!(files, churn.plugins.len(), "the host left nothing there");
}
