//! The one task that writes: it owns the only write connection and lets many writes share a commit.
//!
//! A commit waits for the disk, milliseconds each; so whatever arrives while one is under way goes
//! into the next together, each write behind a savepoint of its own. The transaction is begun with
//! `BEGIN IMMEDIATE` (a deferred one that read first fails at once when it then writes) and is never
//! cancelled: this task is the only one that awaits inside it.

use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use tokio::sync::{mpsc, oneshot};

use super::connection::WriteConnection;
use super::lookout::Lookout;
use super::presence::{Mark, Presence};
use super::{Changes, SqliteError};
use crate::ambient::{Clock, sleep, timeout};

/// Writes in one commit at most.
const GROUP_MAX: usize = 100;
/// How long a group waits for as many writes as the last one had.
const LINGER: Duration = Duration::from_millis(2);
/// How often the lock is left alone for a moment under load, and how long: a waiting process only
/// tries now and then, and would never meet the instant between two groups.
const TURN: Duration = Duration::from_millis(100);
const TURN_PAUSE: Duration = Duration::from_millis(3);

/// What the writer is told.
pub(super) enum Message {
    Job(Box<dyn Job>),
    Close(oneshot::Sender<()>),
}

/// A write without its type.
pub(super) trait Job: Send {
    /// Does the work and keeps its value.
    fn run<'c>(&'c mut self, connection: &'c mut SqliteConnection) -> BoxFuture<'c, Result<(), sqlx::Error>>;
    /// Answers the caller: with the value when `outcome` is good.
    fn answer(self: Box<Self>, outcome: Result<(), SqliteError>);
}

/// A write, its value once it is done, and who waits for it.
pub(super) struct Write<T, F> {
    work: Option<F>,
    value: Option<T>,
    reply: oneshot::Sender<Result<T, SqliteError>>,
}

impl<T, F> Write<T, F> {
    pub(super) fn new(work: F, reply: oneshot::Sender<Result<T, SqliteError>>) -> Self {
        Self {
            work: Some(work),
            value: None,
            reply,
        }
    }
}

impl<T, F> Job for Write<T, F>
where
    T: Send + 'static,
    F: for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T, sqlx::Error>> + Send + 'static,
{
    fn run<'c>(&'c mut self, connection: &'c mut SqliteConnection) -> BoxFuture<'c, Result<(), sqlx::Error>> {
        Box::pin(async move {
            if let Some(work) = self.work.take() {
                self.value = Some(work(connection).await?);
            }
            Ok(())
        })
    }

    fn answer(self: Box<Self>, outcome: Result<(), SqliteError>) {
        let Self { value, reply, .. } = *self;
        let answer = outcome.and_then(|()| value.ok_or(SqliteError::Closed));
        // A caller that went away does not want the answer; the work stands all the same.
        let _ = reply.send(answer);
    }
}

pub(super) struct Writer {
    connection: WriteConnection,
    inbox: Inbox,
    changes: Changes,
    clock: Clock,
    lookout: Lookout,
    /// Since when the lock was taken again and again without a pause.
    turn_since: Duration,
}

impl Writer {
    /// `path` is the database's.
    pub(super) async fn new(
        mut connection: SqliteConnection,
        options: SqliteConnectOptions,
        path: &Path,
        messages: mpsc::Receiver<Message>,
        changes: Changes,
        mark: Arc<OnceLock<Mark>>,
    ) -> Self {
        let clock = Clock::system();
        let now = clock.uptime();
        let lookout = Lookout::new(path, &mut connection, now).await;
        Self {
            connection: WriteConnection::new(connection, options, Presence::of_database(path, mark)),
            inbox: Inbox {
                messages,
                closing: None,
                last_group: 0,
            },
            changes,
            clock,
            lookout,
            turn_since: now,
        }
    }

    pub(super) async fn run(mut self) {
        while self.inbox.closing.is_none() {
            let idle_since = self.clock.uptime();
            let Some(first) = self.first().await else { break };
            if self.clock.uptime().saturating_sub(idle_since) > LINGER {
                // No stream of writes: this one waits for no others.
                self.inbox.last_group = 0;
            }
            self.group(first).await;
            self.look_elsewhere().await;
            self.leave_a_turn().await;
        }
        self.inbox.messages.close();
        self.connection.close().await;
        if let Some(done) = self.inbox.closing {
            let _ = done.send(());
        }
    }

    /// Waits for a write; meanwhile looks for commits of others while somebody watches.
    async fn first(&mut self) -> Option<Box<dyn Job>> {
        loop {
            if let Ok(message) = self.inbox.messages.try_recv() {
                return self.inbox.job(message);
            }
            self.turn_since = self.clock.uptime();
            let watched = self.is_watched();
            let left = self.lookout.left(self.turn_since);
            tokio::select! {
                message = self.inbox.messages.recv() => return message.and_then(|message| self.inbox.job(message)),
                // What was written before somebody watched counts too.
                () = self.changes.watched.notified() => self.lookout.note_stir(),
                () = self.lookout.stir(), if watched && self.lookout.is_still() => {
                    self.lookout.heard_of_log(self.clock.uptime());
                }
                () = sleep(left), if watched => self.look_elsewhere().await,
            }
        }
    }

    /// One transaction: the write in hand and those that come along.
    async fn group(&mut self, first: Box<dyn Job>) {
        if let Err(error) = self.connection.begin(&self.clock).await {
            self.inbox.refuse_all(first, &error);
            return;
        }
        let mut done = Vec::new();
        let mut next = Some(first);
        let mut taken = 0;
        while let Some(job) = next {
            taken += 1;
            if let Err(error) = self.one(job, &mut done).await {
                self.abandon(done, error).await;
                return;
            }
            next = self.inbox.another(taken).await;
            if let Some(job) = next.take() {
                if let Err(lost) = self.connection.next().await {
                    job.answer(Err(lost.clone()));
                    self.abandon(done, lost).await;
                    return;
                }
                next = Some(job);
            }
        }
        self.inbox.last_group = taken;
        match self.connection.commit().await {
            Ok(()) => {
                for job in done {
                    job.answer(Ok(()));
                }
                self.changes.any.send_modify(|count| *count += 1);
            }
            Err(error) => self.abandon(done, error).await,
        }
    }

    /// One write behind its savepoint. An error means that the whole transaction is lost.
    async fn one(&mut self, mut job: Box<dyn Job>, done: &mut Vec<Box<dyn Job>>) -> Result<(), SqliteError> {
        let work = AssertUnwindSafe(job.run(&mut self.connection.sqlite));
        let failed = match work.catch_unwind().await {
            Ok(Ok(())) => {
                done.push(job);
                return Ok(());
            }
            Ok(Err(error)) => SqliteError::Statement(Arc::new(error)),
            Err(_) => SqliteError::Panicked,
        };
        let undone = self.connection.undo().await;
        job.answer(Err(failed));
        undone
    }

    async fn abandon(&mut self, done: Vec<Box<dyn Job>>, error: SqliteError) {
        tracing::error!(error = ?error, writes = done.len(), "a group of writes to the SQLite file failed");
        self.connection.roll_back().await;
        for job in done {
            job.answer(Err(error.clone()));
        }
    }

    fn is_watched(&self) -> bool {
        self.changes.any.receiver_count() + self.changes.elsewhere.receiver_count() > 0
    }

    /// Raises the signs when another connection committed.
    async fn look_elsewhere(&mut self) {
        let now = self.clock.uptime();
        if !self.lookout.is_due(now) || !self.is_watched() {
            return;
        }
        if self.lookout.look(&mut self.connection.sqlite, now).await {
            self.changes.any.send_modify(|count| *count += 1);
            self.changes.elsewhere.send_modify(|count| *count += 1);
        }
    }

    async fn leave_a_turn(&mut self) {
        if self.clock.uptime().saturating_sub(self.turn_since) > TURN {
            sleep(TURN_PAUSE).await;
            self.turn_since = self.clock.uptime();
        }
    }
}

/// What waits to be written.
struct Inbox {
    messages: mpsc::Receiver<Message>,
    /// Set by a close; the writer ends after the current group.
    closing: Option<oneshot::Sender<()>>,
    /// How many writes the last group of a stream had: as many are waited for, shortly.
    last_group: usize,
}

impl Inbox {
    fn job(&mut self, message: Message) -> Option<Box<dyn Job>> {
        match message {
            Message::Job(job) => Some(job),
            Message::Close(done) => {
                self.closing = Some(done);
                None
            }
        }
    }

    /// Another write for the group: one that waits already, or arrives shortly when as many as last
    /// time are expected.
    async fn another(&mut self, taken: usize) -> Option<Box<dyn Job>> {
        if taken >= GROUP_MAX || self.closing.is_some() {
            return None;
        }
        let message = match self.messages.try_recv() {
            Ok(message) => Some(message),
            Err(_) if taken < self.last_group => timeout(LINGER, self.messages.recv()).await.ok().flatten(),
            Err(_) => None,
        };
        message.and_then(|message| self.job(message))
    }

    /// Nobody who waited for the same lock is made to wait for it once more.
    fn refuse_all(&mut self, first: Box<dyn Job>, error: &SqliteError) {
        let mut next = Some(first);
        while let Some(job) = next {
            job.answer(Err(error.clone()));
            next = self.messages.try_recv().ok().and_then(|message| self.job(message));
        }
    }
}
