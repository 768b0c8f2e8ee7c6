//! Pushes of one event each, gathered: those that come while a commit is under way go into the next as one work of
//! the writer, and as one statement where they can. A statement costs two threads a hand-over, whatever is in it.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

use super::push::{TOGETHER_MAX, push_each};
use crate::ambient::{self, Clock};
use crate::domain::event::NewEvent;
use crate::sqlite::{SqliteError, SqliteFile};
use crate::store::Pushed;

/// What waits for the next commit.
#[derive(Debug, Default)]
pub(in crate::store::sqlite) struct Gathering(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    pushes: Vec<Push>,
    /// Whether somebody takes them.
    taken_care_of: bool,
}

#[derive(Debug)]
struct Push {
    event: NewEvent,
    reply: oneshot::Sender<Result<Pushed, SqliteError>>,
}

impl Gathering {
    /// Pushes an event with those of others. Once it waits for its answer, dropping the call changes nothing.
    pub(super) async fn push(
        self: &Arc<Self>,
        file: &SqliteFile,
        clock: &Clock,
        event: NewEvent,
    ) -> Result<Pushed, SqliteError> {
        let (reply, answer) = oneshot::channel();
        if self.put(Push { event, reply }) {
            let care = Care(Arc::clone(self));
            ambient::spawn("push events", care.take(file.clone(), clock.clone()));
        }
        answer.await.unwrap_or(Err(SqliteError::Panicked))
    }

    /// Whether whoever put it has to take care of all.
    fn put(&self, push: Push) -> bool {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.pushes.push(push);
        !std::mem::replace(&mut waiting.taken_care_of, true)
    }

    /// The oldest ones; `None`: there are none, and the next one has to be taken care of anew.
    fn next(&self) -> Option<Vec<Push>> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = waiting.pushes.len().min(TOGETHER_MAX);
        waiting.taken_care_of = count > 0;
        (count > 0).then(|| waiting.pushes.drain(..count).collect())
    }
}

/// Takes care of what is gathered until nothing is left. Who waits for one that panicked is told.
struct Care(Arc<Gathering>);

impl Care {
    async fn take(self, file: SqliteFile, clock: Clock) {
        loop {
            // Those who were answered a moment ago push again.
            tokio::task::yield_now().await;
            let Some(pushes) = self.0.next() else { return };
            push_together(&file, &clock, pushes).await;
        }
    }
}

impl Drop for Care {
    fn drop(&mut self) {
        if std::thread::panicking() {
            *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = Waiting::default();
        }
    }
}

async fn push_together(file: &SqliteFile, clock: &Clock, pushes: Vec<Push>) {
    let (events, replies): (Vec<NewEvent>, Vec<_>) = pushes.into_iter().map(|push| (push.event, push.reply)).unzip();
    match push_all(file, clock, events.clone()).await {
        Ok(pushed) => {
            for (reply, pushed) in replies.into_iter().zip(pushed) {
                let _ = reply.send(Ok(pushed));
            }
        }
        // One of them is to blame, and the others are not.
        Err(SqliteError::Statement(_)) if events.len() > 1 => {
            for (reply, event) in replies.into_iter().zip(events) {
                let alone = push_all(file, clock, vec![event]).await;
                let alone = alone.and_then(|pushed| pushed.into_iter().next().ok_or(SqliteError::Closed));
                let _ = reply.send(alone);
            }
        }
        Err(error) => {
            for reply in replies {
                let _ = reply.send(Err(error.clone()));
            }
        }
    }
}

async fn push_all(file: &SqliteFile, clock: &Clock, events: Vec<NewEvent>) -> Result<Vec<Pushed>, SqliteError> {
    let now = clock.now();
    file.write(move |connection| Box::pin(async move { push_each(connection, &events, now).await }))
        .await
}
