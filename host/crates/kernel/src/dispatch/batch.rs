//! Several calls at once: in order where order matters, side by side where it does not.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::Semaphore;
use tokio::task::{Id, JoinSet};

use super::note::{Noting, RunningCall};
use super::order::places;
use super::{Dispatch, fault, find, log};
use crate::batch::{self, CallFacts, CallKind};
use crate::session::{Ended, Session};
use toolhost_core::tool::{Call, CallError, Code, Outcome, Usage};
use toolhost_schema::arguments;

impl Dispatch {
    /// Runs calls of a session; the outcomes are in the order of the calls.
    ///
    /// Neighbours that cannot get in each other's way run side by side, at most
    /// `batch_calls_max` at once; everything else waits for what stands before it. What has not
    /// ended after `batch_time_max` is stopped. The results together are fitted to what is left
    /// of the turn's budget, the largest first.
    ///
    /// # Cancel safety
    /// Dropping the future stops every call.
    pub async fn batch(
        self: &Arc<Dispatch>,
        session: &Arc<Session>,
        calls: Vec<Call>,
    ) -> Vec<Outcome> {
        let started = Instant::now();
        let deadline = started + self.limits.batch_time_max;
        let kinds: Vec<CallKind> = calls.iter().map(|call| self.kind(session, call)).collect();
        let mut outcomes = Vec::with_capacity(calls.len());
        let (noting, running): (Vec<_>, Vec<_>) =
            calls.into_iter().map(|call| Noting::new(&self.audit, call)).unzip();
        for run in batch::runs(&kinds) {
            let ended = self.side_by_side(session, &running[run], started, deadline).await;
            // What is too large is kept at once, so that few large results are held here.
            outcomes.extend(ended.into_iter().map(|ended| session.bound(ended)));
        }
        let outcomes = session.show_all(outcomes);
        for ((noting, running), outcome) in noting.into_iter().zip(running).zip(&outcomes) {
            log(outcome);
            noting.done(running, outcome);
        }
        outcomes
    }

    async fn side_by_side(
        self: &Arc<Dispatch>,
        session: &Arc<Session>,
        calls: &[Arc<RunningCall>],
        started: Instant,
        deadline: Instant,
    ) -> Vec<Ended> {
        let permits = Arc::new(Semaphore::new(self.limits.batch_calls_max.0));
        let mut running = JoinSet::new();
        let (mut names, mut ids) = (Vec::new(), Vec::<Id>::new());
        for (call, place) in calls.iter().zip(places(calls.len())) {
            names.push(call.call.tool.clone());
            if Instant::now() >= deadline {
                // Not even begun.
                continue;
            }
            // One begins after the other, so that none waits for one that cannot begin. The
            // semaphore is never closed.
            let permit = Arc::clone(&permits).acquire_owned();
            let Ok(permit) = tokio::time::timeout_at(deadline.into(), permit).await else {
                continue;
            };
            let (dispatch, session) = (Arc::clone(self), Arc::clone(session));
            let call = Arc::clone(call);
            let task = running.spawn(async move {
                let _permit = permit;
                dispatch.execute(&session, &call, place).await
            });
            ids.push(task.id());
        }
        let mut ended: Vec<Option<Ended>> = names.iter().map(|_| None).collect();
        while let Ok(Some(joined)) =
            tokio::time::timeout_at(deadline.into(), running.join_next_with_id()).await
        {
            let (id, outcome) = match joined {
                Ok((id, outcome)) => (id, Ok(outcome)),
                Err(error) => (error.id(), Err(error.to_string())),
            };
            if let Some(place) = ids.iter().position(|known| *known == id) {
                let name = &names[place];
                ended[place] =
                    Some(outcome.unwrap_or_else(|error| {
                        self.without_end(name, started, fault(name, &error))
                    }));
            }
        }
        // Dropping the set stops what still runs.
        drop(running);
        let late = |name: String| {
            let elapsed = started.elapsed().as_secs_f64();
            let message = format!("Error executing tool '{name}': timed out after {elapsed:.1}s");
            let error = CallError::new(Code::Deadline, message).with("limit", "batch_time_max");
            self.without_end(&name, started, error)
        };
        ended
            .into_iter()
            .zip(names)
            .map(|(ended, name)| ended.unwrap_or_else(|| late(name)))
            .collect()
    }

    fn without_end(&self, tool: &str, started: Instant, error: CallError) -> Ended {
        let outcome = Outcome {
            tool: tool.to_owned(),
            repairs: Vec::new(),
            result: Err(error),
            is_structured: false,
            usage: Usage::default(),
            refusals: Vec::new(),
            generation: self.registry.current().generation,
            elapsed: started.elapsed(),
        };
        Ended { outcome, call_id: None, chars_max: None }
    }

    /// How one call may run beside others. One that is refused anyway stands in nobody's way.
    fn kind(&self, session: &Session, call: &Call) -> CallKind {
        let catalog = self.registry.current();
        let Ok(found) = find::find(&catalog, session, call) else { return CallKind::Parallel };
        let Ok(arguments) = arguments::parse(&call.arguments, &self.limits) else {
            return CallKind::Parallel;
        };
        let entry = found.entry;
        let grants_write = call.dirs.iter().any(|dir| dir.ends_with(":rw"));
        batch::kind(&CallFacts {
            tool: entry.tool.spec().name.as_str(),
            arguments: &arguments.value,
            harmless: entry.tool.held().only_reads() && !grants_write,
            // Servers that say so join with the MCP client.
            server_parallel: false,
        })
    }
}
