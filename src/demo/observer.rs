//! What the engine said while the demo ran, kept for the report: attempts, last answers, state changes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::broadcast::{self, error::RecvError};

use crate::ambient::Clock;
use crate::domain::attempt::Attempt;
use crate::domain::endpoint::EndpointState;
use crate::domain::text;
use crate::domain::url::EndpointUrl;
use crate::engine::Event;

/// Changes remembered per endpoint: the first ones.
const CHANGES_MAX: usize = 64;
/// An answer or error is shown with at most this many columns.
const ANSWER_WIDTH_MAX: usize = 40;

/// One endpoint, as its events told.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Seen {
    pub(super) attempts: u64,
    pub(super) last_answer: Option<String>,
    /// Each state that it came into, and when, since the start.
    pub(super) changes: Vec<(Duration, EndpointState)>,
}

impl Seen {
    pub(super) fn state(&self) -> EndpointState {
        self.changes.last().map(|(_, state)| *state).unwrap_or_default()
    }
}

/// Shared between the task that listens and whoever reports.
#[derive(Clone, Debug, Default)]
pub(super) struct Observer(Arc<Mutex<Observed>>);

#[derive(Debug, Default)]
struct Observed {
    endpoints: HashMap<EndpointUrl, Seen>,
    missed: u64,
}

impl Observer {
    fn lock(&self) -> MutexGuard<'_, Observed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn seen(&self, url: &EndpointUrl) -> Seen {
        self.lock().endpoints.get(url).cloned().unwrap_or_default()
    }

    /// Events that came faster than they were read: with any, attempts are too low.
    pub(super) fn missed(&self) -> u64 {
        self.lock().missed
    }

    /// Listens until the engine is gone.
    pub(super) async fn run(self, mut events: broadcast::Receiver<Event>, clock: Clock) {
        let start = clock.uptime();
        loop {
            match events.recv().await {
                Ok(event) => self.note(event, clock.uptime().saturating_sub(start)),
                Err(RecvError::Lagged(missed)) => self.lock().missed += missed,
                Err(RecvError::Closed) => return,
            }
        }
    }

    fn note(&self, event: Event, at: Duration) {
        match event {
            Event::Attempted(attempt) => {
                let mut observed = self.lock();
                let seen = observed.endpoints.entry(attempt.url.clone()).or_default();
                seen.attempts += 1;
                seen.last_answer = Some(answer(&attempt));
            }
            Event::EndpointChanged { url, state } => {
                let mut observed = self.lock();
                let seen = observed.endpoints.entry(url).or_default();
                if seen.state() == state {
                    return;
                }
                if seen.changes.len() == CHANGES_MAX {
                    seen.changes.pop();
                }
                seen.changes.push((at, state));
            }
            Event::DeadLettered { .. }
            | Event::QueueEnded(_)
            | Event::QueueGone { .. }
            | Event::Incident(_)
            | Event::QueueRefused { .. }
            | Event::Turned(_)
            | Event::Connection { .. } => {}
        }
    }
}

/// A status, or why there was none.
pub(super) fn answer(attempt: &Attempt) -> String {
    match (attempt.status, &attempt.error) {
        (Some(status), _) => status.to_string(),
        (None, Some(error)) => text::show(error, ANSWER_WIDTH_MAX),
        (None, None) => attempt.class.as_str().to_owned(),
    }
}
