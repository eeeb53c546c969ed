//! Clients that call any of the tools all the time, and judge what they are answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinHandle;
use toolhost::Host;
use toolhost_core::tool::{Call, Code};

use super::{ExpectedAnswers, NAMES, name, says};

/// Clients at work.
pub struct Clients {
    running: Vec<JoinHandle<ClientReport>>,
    stopped: Arc<AtomicBool>,
}

/// What clients have seen.
#[derive(Debug, Default)]
pub struct ClientReport {
    /// Calls that were answered rightly.
    pub answered: u64,
    /// Calls of tools that were not there, rightly.
    pub unknown: u64,
    /// Calls that ended in a way that must not be.
    pub wrong: u64,
    /// The first of these.
    pub first: Option<String>,
}

impl Clients {
    pub(super) fn start(
        host: &Arc<Host>,
        told: &Arc<Vec<ExpectedAnswers>>,
        count: u64,
        pause: Duration,
    ) -> Clients {
        let stopped = Arc::new(AtomicBool::new(false));
        let client = |seed| {
            let shared = (Arc::clone(host), Arc::clone(told), Arc::clone(&stopped));
            tokio::spawn(call_all_the_time(shared, pause, seed))
        };
        Clients { running: (0..count).map(client).collect(), stopped }
    }

    /// Ends them, and returns what all of them have seen.
    pub async fn end(self) -> ClientReport {
        self.stopped.store(true, Ordering::SeqCst);
        let mut all = ClientReport::default();
        for client in self.running {
            let ClientReport { answered, unknown, wrong, first } = client.await.expect("no panic");
            all.answered += answered;
            all.unknown += unknown;
            all.wrong += wrong;
            all.first = all.first.or(first);
        }
        all
    }
}

async fn call_all_the_time(
    (host, told, stopped): (Arc<Host>, Arc<Vec<ExpectedAnswers>>, Arc<AtomicBool>),
    pause: Duration,
    seed: u64,
) -> ClientReport {
    let (mut random, mut seen) = (ChaCha8Rng::seed_from_u64(seed), ClientReport::default());
    while !stopped.load(Ordering::SeqCst) {
        let tool = random.random_range(0..NAMES);
        let from = told[tool].settled.load(Ordering::SeqCst);
        let outcome = host.call(Call::new(name(tool), "{}")).await;
        // What was told of until now may have been there.
        let texts = told[tool].texts.lock().expect("no panic")[from..].to_vec();
        let is_unknown =
            outcome.result.as_ref().is_err_and(|error| error.code == Code::UnknownTool);
        let was_there = |text: &Option<String>| match text {
            Some(text) => says(&outcome, text),
            None => is_unknown,
        };
        match (texts.iter().any(was_there), is_unknown) {
            (true, true) => seen.unknown += 1,
            (true, false) => seen.answered += 1,
            (false, _) => {
                seen.wrong += 1;
                seen.first.get_or_insert_with(|| {
                    format!("{} ended with {outcome:?}, and not as any of {texts:?}", name(tool))
                });
            }
        }
        tokio::time::sleep(pause).await;
    }
    seen
}
