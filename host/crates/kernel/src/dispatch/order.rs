//! The order of calls that run side by side: what guardrails count, they count in the order of the
//! calls, whichever ends first.

use std::convert::Infallible;

use tokio::sync::oneshot;

/// The place of one call. Dropping it lets the next one go on.
#[derive(Default)]
pub(super) struct OrderPlace {
    /// Ends when the call before has been counted.
    before: Option<oneshot::Receiver<Infallible>>,
    /// Dropped when this one has.
    after: Option<oneshot::Sender<Infallible>>,
}

/// So many places, in their order. Whoever takes one must begin after all before it have begun.
pub(super) fn places(count: usize) -> impl Iterator<Item = OrderPlace> {
    let mut before = None;
    (0..count).map(move |_| {
        let (after, next) = oneshot::channel();
        OrderPlace { before: before.replace(next), after: Some(after) }
    })
}

impl OrderPlace {
    /// Waits until every call before has been counted, or has ended.
    pub(super) async fn reached(&mut self) {
        if let Some(before) = self.before.take() {
            // Dropped is how it ends.
            let _ = before.await;
        }
    }

    /// This call has been counted.
    pub(super) fn pass(&mut self) {
        self.after.take();
    }
}
