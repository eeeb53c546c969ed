//! Progress of one call, told to the client that asked for it.
//!
//! The protocol wants numbers that grow, and none once the result is out. So reports go through
//! a queue of their own, which is told in full before the call's result is returned; what a slow
//! client has no room for is left out.

use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::{Peer, RoleServer};
use tokio::sync::mpsc;

use crate::tool::{Progress, ProgressSink};

/// Reports that wait for a client; a guest may make no more than a few a second.
const WAITING_MAX: usize = 64;

/// The progress of one call.
pub(super) struct Reports {
    token: ProgressToken,
    peer: Peer<RoleServer>,
    sender: Arc<Mutex<Option<mpsc::Sender<Progress>>>>,
    waiting: mpsc::Receiver<Progress>,
}

impl Reports {
    pub(super) fn new(token: ProgressToken, peer: Peer<RoleServer>) -> Reports {
        let (sender, waiting) = mpsc::channel(WAITING_MAX);
        Reports { token, peer, sender: Arc::new(Mutex::new(Some(sender))), waiting }
    }

    /// What the call reports to.
    pub(super) fn sink(&self) -> ProgressSink {
        let sender = Arc::clone(&self.sender);
        ProgressSink::new(move |progress| {
            let sender = sender.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(sender) = &*sender {
                // Without room, it is left out.
                let _ = sender.try_send(progress);
            }
        })
    }

    /// Runs the call, and tells what it reports.
    pub(super) async fn tell_during<T>(self, call: impl Future<Output = T>) -> T {
        let Reports { token, peer, sender, mut waiting } = self;
        let call = async {
            let done = call.await;
            sender.lock().unwrap_or_else(PoisonError::into_inner).take();
            done
        };
        let tell = async {
            let mut last = f64::NEG_INFINITY;
            while let Some(Progress { done, total, message }) = waiting.recv().await {
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
