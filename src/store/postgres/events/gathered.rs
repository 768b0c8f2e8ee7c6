//! Pushes of one event each, gathered: those that arrive while a statement is under way go into the next one
//! together, so that many pushers share a commit.
//!
//! Promises: each push is answered for itself, after the commit that holds it; two pushes of one key never share
//! a statement, and the later one follows; what fails for one is tried for each alone.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use sqlx::PgConnection;
use tokio::sync::{mpsc, oneshot};

use super::insisting;
use super::push::push;
use crate::ambient;
use crate::domain::event::NewEvent;
use crate::store::postgres::session::Sessions;
use crate::store::{Pushed, StoreError};

/// Pushes that wait for their statement; beyond it callers wait for room.
const WAITING_MAX: usize = 1_024;
/// Pushes in one statement.
const GROUP_MAX: usize = 250;

/// Where pushes are handed in.
pub(in crate::store::postgres) struct GatheredPushes(mpsc::Sender<Waiting>);

struct Waiting {
    event: NewEvent,
    reply: oneshot::Sender<Result<Pushed, StoreError>>,
}

impl GatheredPushes {
    pub(in crate::store::postgres) fn begin(sessions: &Arc<Sessions>) -> Self {
        let (queue, waiting) = mpsc::channel(WAITING_MAX);
        ambient::spawn("event pushes", run(Arc::clone(sessions), waiting));
        Self(queue)
    }

    /// Pushes one event of a known type. Once it is handed in, dropping the call changes nothing.
    pub(super) async fn push(&self, event: NewEvent) -> Result<Pushed, StoreError> {
        let (reply, answer) = oneshot::channel();
        let handed_in = self.0.send(Waiting { event, reply }).await;
        handed_in.map_err(|_| closed())?;
        answer.await.unwrap_or_else(|_| Err(closed()))
    }
}

fn closed() -> StoreError {
    unreachable_because("the store was closed")
}

fn unreachable_because(why: &str) -> StoreError {
    StoreError::Unreachable {
        operation: "pushing events",
        source: why.into(),
    }
}

async fn run(sessions: Arc<Sessions>, mut queue: mpsc::Receiver<Waiting>) {
    let mut waiting = VecDeque::new();
    loop {
        if waiting.is_empty() {
            let Some(first) = queue.recv().await else { return };
            waiting.push_back(first);
        }
        while waiting.len() < GROUP_MAX
            && let Ok(more) = queue.try_recv()
        {
            waiting.push_back(more);
        }
        let group = without_repeats(&mut waiting);
        push_group(&sessions, group).await;
    }
}

/// Takes out the first push of each key; a later one of the same key waits for the next statement.
fn without_repeats(waiting: &mut VecDeque<Waiting>) -> Vec<Waiting> {
    let mut keys = HashSet::new();
    let mut repeats = VecDeque::new();
    let mut group = Vec::with_capacity(waiting.len());
    for one in waiting.drain(..) {
        let event = &one.event;
        if keys.insert((event.event_type.clone(), event.reference.clone(), event.nbf)) {
            group.push(one);
        } else {
            repeats.push_back(one);
        }
    }
    *waiting = repeats;
    group
}

async fn push_group(sessions: &Sessions, group: Vec<Waiting>) {
    let (events, replies): (Vec<_>, Vec<_>) = group.into_iter().map(|one| (one.event, one.reply)).unzip();
    match insisting!(push_events(sessions, &events)) {
        Ok(pushed) => {
            for (reply, pushed) in replies.into_iter().zip(pushed) {
                // A caller that went away does not want the answer.
                let _ = reply.send(Ok(pushed));
            }
        }
        Err(StoreError::Unreachable { source, .. }) => {
            let why = source.to_string();
            for reply in replies {
                let _ = reply.send(Err(unreachable_because(&why)));
            }
        }
        Err(_) => {
            for (event, reply) in events.into_iter().zip(replies) {
                let one = insisting!(push_events(sessions, std::slice::from_ref(&event)));
                let _ = reply.send(one.and_then(|mut pushed| pushed.pop().ok_or_else(closed)));
            }
        }
    }
}

async fn push_events(sessions: &Sessions, events: &[NewEvent]) -> Result<Vec<Pushed>, StoreError> {
    let pushing = sessions.call("pushing events", async |connection: &mut PgConnection| {
        push(connection, events).await
    });
    pushing.await
}
