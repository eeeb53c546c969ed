//! Asking a human: a trait that the host lends to whoever has one to ask.

use futures_util::future::BoxFuture;

/// What a human is asked.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The tool that is to run.
    pub tool: &'a str,
    /// Its arguments: the JSON text of an object. What is approved is what runs.
    pub arguments: &'a str,
    /// Who wants a human to decide, such as `plugin:guard`.
    pub asker: &'a str,
    /// Why, as the asker wrote it; made safe to show.
    pub message: &'a str,
}

/// What a human answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Approval {
    /// This one call may run.
    Once,
    /// This call may run, and others for the same reason until the session ends.
    Session,
    /// It may not.
    Denied {
        /// What the human said about it, for the model.
        reason: Option<String>,
    },
}

/// Asks a human. Whoever has none has no approver, and then the answer is no.
pub trait Approver: Send + Sync {
    /// Asks. The host waits as long as `approval_time_max`; silence is a no.
    ///
    /// # Cancel safety
    /// Dropping the future takes the question back.
    fn ask<'a>(&'a self, question: Question<'a>) -> BoxFuture<'a, Approval>;
}
