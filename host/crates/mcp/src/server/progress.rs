//! Progress of one call, told to the client that asked for it.
//!
//! The protocol wants numbers that grow, and none once the result is out. So what was reported
//! last is told before the call's result is returned; while a slow client has not read a report,
//! newer ones take each other's place.

use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::{Peer, RoleServer};
use tokio::sync::watch;

use toolhost_core::tool::{Progress, ProgressSink};

/// The progress of one call.
pub(super) struct Reports {
    token: ProgressToken,
    peer: Peer<RoleServer>,
    /// Taken when the call has ended.
    sender: Arc<Mutex<Option<watch::Sender<Option<Progress>>>>>,
    latest: watch::Receiver<Option<Progress>>,
}

impl Reports {
    pub(super) fn new(token: ProgressToken, peer: Peer<RoleServer>) -> Reports {
        let (sender, latest) = watch::channel(None);
        Reports { token, peer, sender: Arc::new(Mutex::new(Some(sender))), latest }
    }

    /// What the call reports to.
    pub(super) fn sink(&self) -> ProgressSink {
        let sender = Arc::clone(&self.sender);
        ProgressSink::new(move |progress| {
            let sender = sender.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(sender) = &*sender {
                sender.send_replace(Some(progress));
            }
        })
    }

    /// Runs the call, and tells what it reports.
    pub(super) async fn tell_during<T>(self, call: impl Future<Output = T>) -> T {
        let Reports { token, peer, sender, mut latest } = self;
        let call = async {
            let done = call.await;
            sender.lock().unwrap_or_else(PoisonError::into_inner).take();
            done
        };
        let tell = async {
            let mut last = f64::NEG_INFINITY;
            // The last is told also where the call has ended meanwhile.
            while latest.changed().await.is_ok() {
                let report = latest.borrow_and_update().clone();
                let Some(Progress { done, total, message }) = report else { continue };
                // Also false for what is no number.
                if !done.is_finite() || done <= last {
                    continue;
                }
                last = done;
                let mut report = ProgressNotificationParam::new(token.clone(), done);
                report.total = total.filter(|total| total.is_finite());
                report.message = message;
                // A client that cannot be told has gone.
                let _ = peer.notify_progress(report).await;
            }
        };
        tokio::join!(call, tell).0
    }
}
