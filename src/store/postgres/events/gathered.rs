//! Pushes of one event each, gathered: those that arrive while a statement is under way go into the next one
//! together, so that many pushers share a commit.
//!
//! Promises: each push is answered for itself, after the commit that holds it; two pushes of one key never share
//! a statement, and the later one follows; what fails for one is tried for each alone. A push whose row another session
//! has locked waits aside with those of its key, and no other push waits for it.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use sqlx::PgConnection;
use tokio::sync::{mpsc, oneshot};

use super::aside::Aside;
use super::insisting;
use super::push::{Locks, free_of, push};
use crate::ambient;
use crate::domain::event::NewEvent;
use crate::store::postgres::error::is_lock_timeout;
use crate::store::postgres::session::Sessions;
use crate::store::{Pushed, StoreError};

pub(super) const OPERATION: &str = "pushing events";
/// Pushes that wait for their statement; beyond it callers wait for room.
const WAITING_MAX: usize = 1_024;
/// Pushes in one statement.
const GROUP_MAX: usize = 250;

/// Where pushes are handed in.
pub(in crate::store::postgres) struct GatheredPushes(mpsc::Sender<Waiting>);

pub(super) struct Waiting {
    pub(super) event: NewEvent,
    pub(super) reply: oneshot::Sender<Result<Pushed, StoreError>>,
}

impl Waiting {
    /// A caller that went away does not want the answer.
    pub(super) fn answer(self, answer: Result<Pushed, StoreError>) {
        let _ = self.reply.send(answer);
    }
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

pub(super) fn closed() -> StoreError {
    unreachable_because("the store was closed")
}

pub(super) fn unreachable_because(why: &str) -> StoreError {
    StoreError::Unreachable {
        operation: OPERATION,
        source: why.into(),
    }
}

async fn run(sessions: Arc<Sessions>, mut queue: mpsc::Receiver<Waiting>) {
    let mut waiting = VecDeque::new();
    let aside = Aside::over(&sessions);
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
        let group = aside.without_locked(without_repeats(&mut waiting));
        push_group(&sessions, &aside, group).await;
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

async fn push_group(sessions: &Sessions, aside: &Aside, group: Vec<Waiting>) {
    let Some(group) = push_unlocked(sessions, group).await else {
        return;
    };
    let (free, locked) = split(sessions, group).await;
    aside.take(locked);
    // Another session may be about to insert a row that nobody sees yet: then nobody knows which it is.
    if let Some(stuck) = push_unlocked(sessions, free).await {
        aside.take(stuck);
    }
}

/// Pushes and answers all of them, or gives them back where one would wait for a lock.
async fn push_unlocked(sessions: &Sessions, group: Vec<Waiting>) -> Option<Vec<Waiting>> {
    let (events, replies): (Vec<_>, Vec<_>) = group.into_iter().map(|one| (one.event, one.reply)).unzip();
    let pushed = insisting!(push_events(sessions, &events));
    let group = events.into_iter().zip(replies);
    let group = group.map(|(event, reply)| Waiting { event, reply });
    match pushed {
        Ok(Some(pushed)) => {
            for (one, pushed) in group.zip(pushed) {
                one.answer(Ok(pushed));
            }
        }
        Ok(None) => return Some(group.collect()),
        Err(StoreError::Unreachable { source, .. }) => {
            let why = source.to_string();
            for one in group {
                one.answer(Err(unreachable_because(&why)));
            }
        }
        Err(_) => {
            for one in group {
                let pushed = push_alone(sessions, &one.event).await;
                one.answer(pushed);
            }
        }
    }
    None
}

/// `None` where one would wait for a lock.
async fn push_events(sessions: &Sessions, events: &[NewEvent]) -> Result<Option<Vec<Pushed>>, StoreError> {
    let pushing = sessions.call(OPERATION, async |connection: &mut PgConnection| {
        match push(connection, events, Locks::Brief).await {
            Err(error) if is_lock_timeout(&error) => Ok(None),
            pushed => pushed.map(Some),
        }
    });
    pushing.await
}

/// Those whose rows can be locked now, and the others.
async fn split(sessions: &Sessions, group: Vec<Waiting>) -> (Vec<Waiting>, Vec<Waiting>) {
    let events: Vec<NewEvent> = group.iter().map(|one| one.event.clone()).collect();
    let operation = "looking for locked events";
    let free = sessions.call(operation, async |connection: &mut PgConnection| {
        free_of(connection, &events).await
    });
    match free.await {
        Ok(free) => {
            let (free, locked): (Vec<_>, Vec<_>) = group.into_iter().zip(free).partition(|(_, is_free)| *is_free);
            let bare = |these: Vec<(Waiting, bool)>| these.into_iter().map(|(one, _)| one).collect();
            (bare(free), bare(locked))
        }
        // Each alone then finds out.
        Err(_) => (Vec::new(), group),
    }
}

/// One push by itself, which waits for a lock as long as any call does.
pub(super) async fn push_alone(sessions: &Sessions, event: &NewEvent) -> Result<Pushed, StoreError> {
    let pushed = insisting!(push_waiting(sessions, event));
    pushed.and_then(|mut pushed| pushed.pop().ok_or_else(closed))
}

async fn push_waiting(sessions: &Sessions, event: &NewEvent) -> Result<Vec<Pushed>, StoreError> {
    let pushing = sessions.call(OPERATION, async |connection: &mut PgConnection| {
        push(connection, std::slice::from_ref(event), Locks::AsSession).await
    });
    pushing.await
}
