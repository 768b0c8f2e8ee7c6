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

use crate::ambient::{sleep, timeout};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection};
use tokio::sync::{mpsc, oneshot};

use super::error::is_busy;
use super::presence::{Mark, Presence};
use super::stir::Stir;
use super::{Changes, SqliteError};
use crate::ambient::Clock;

/// Each statement costs two hand-overs between threads, and so do several that are sent as one.
const BEGIN: &str = "BEGIN IMMEDIATE; SAVEPOINT one";
const NEXT: &str = "RELEASE one; SAVEPOINT one";
const UNDO: &str = "ROLLBACK TO one";
const COMMIT: &str = "RELEASE one; COMMIT";
const ROLLBACK: &str = "ROLLBACK";
/// Writes in one commit at most.
const GROUP_MAX: usize = 100;
/// How long a group waits for as many writes as the last one had.
const LINGER: Duration = Duration::from_millis(2);
/// How long other processes may keep the write lock before a write fails.
const BUSY_MAX: Duration = Duration::from_secs(30);
/// Between two tries for the lock.
const BUSY_PAUSE: Duration = Duration::from_millis(1);
/// How often the lock is left alone for a moment under load, and how long: a waiting process only
/// tries now and then, and would never meet the instant between two groups.
const TURN: Duration = Duration::from_millis(100);
const TURN_PAUSE: Duration = Duration::from_millis(3);
/// How often commits of other processes are looked for, at most, while somebody watches and the log stirs.
const LOOK: Duration = Duration::from_millis(5);
/// How often right after the log stirred, and how many times: it is written before its commit is there.
const LOOK_EAGERLY: Duration = Duration::from_millis(1);
const EAGER_LOOKS: u32 = 8;
/// And while nothing is heard of the log.
const LOOK_ANYWAY: Duration = Duration::from_secs(1);

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

/// Opens the write connection. Two processes that open a new file at once both switch it to WAL, which
/// SQLite refuses without waiting.
pub(super) async fn connect(options: &SqliteConnectOptions) -> Result<SqliteConnection, SqliteError> {
    let clock = Clock::system();
    let start = clock.uptime();
    let mut connection = loop {
        match options.connect().await {
            Ok(connection) => break connection,
            Err(error) if is_busy(&error) && clock.uptime().saturating_sub(start) < BUSY_MAX => {
                sleep(BUSY_PAUSE).await;
            }
            Err(error) => return Err(SqliteError::Open(Arc::new(error))),
        }
    };
    // From here on the writer waits by itself, in short steps, instead of inside SQLite in long ones.
    sqlx::query("PRAGMA busy_timeout = 0")
        .execute(&mut connection)
        .await
        .map_err(|error| SqliteError::Open(Arc::new(error)))?;
    Ok(connection)
}

pub(super) struct Writer {
    connection: SqliteConnection,
    /// How the file is opened.
    options: SqliteConnectOptions,
    /// A commit on this connection failed: nothing more is written through it. After a failed write-out nobody knows
    /// which of its pages the disk has, and the next success would stand on them.
    is_spent: bool,
    messages: mpsc::Receiver<Message>,
    changes: Changes,
    clock: Clock,
    /// Set by a close; the loop ends after the group in hand.
    closing: Option<oneshot::Sender<()>>,
    /// How many writes the last group of a stream had: as many are waited for, shortly.
    last_group: usize,
    /// Since when the lock was taken again and again without a pause.
    turn_since: Duration,
    looked_at: Duration,
    data_version: i64,
    stir: Stir,
    presence: Presence,
    /// Something was written to the log since `looked_at`, by this process or another.
    stirred: bool,
    /// Looks that are left of those right after a stir.
    eager: u32,
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
        // Read first: from then on there is a log.
        let data_version = read_data_version(&mut connection).await.unwrap_or(0);
        Self {
            connection,
            options,
            is_spent: false,
            messages,
            changes,
            clock,
            closing: None,
            last_group: 0,
            turn_since: now,
            looked_at: now,
            data_version,
            stir: Stir::of_database(path),
            presence: Presence::of_database(path, mark),
            stirred: true,
            eager: 0,
        }
    }

    pub(super) async fn run(mut self) {
        while self.closing.is_none() {
            let idle_since = self.clock.uptime();
            let Some(first) = self.first().await else { break };
            if self.clock.uptime().saturating_sub(idle_since) > LINGER {
                // No stream of writes: this one waits for no others.
                self.last_group = 0;
            }
            self.group(first).await;
            self.look_elsewhere().await;
            self.leave_a_turn().await;
        }
        self.messages.close();
        if let Err(error) = self.connection.close().await {
            tracing::warn!(error = ?error, "the SQLite file did not close in order");
        }
        if let Some(done) = self.closing {
            let _ = done.send(());
        }
    }

    /// Waits for a write; meanwhile looks for commits of others while somebody watches.
    async fn first(&mut self) -> Option<Box<dyn Job>> {
        loop {
            if let Ok(message) = self.messages.try_recv() {
                return self.job(message);
            }
            self.turn_since = self.clock.uptime();
            let watched = self.is_watched();
            let left = self
                .pace()
                .saturating_sub(self.turn_since.saturating_sub(self.looked_at));
            tokio::select! {
                message = self.messages.recv() => return message.and_then(|message| self.job(message)),
                // What was written before somebody watched counts too.
                () = self.changes.watched.notified() => self.stirred = true,
                () = self.stir.next(), if watched && !self.stirred => self.heard_of_log(),
                () = sleep(left), if watched => self.look_elsewhere().await,
            }
        }
    }

    /// Between two looks.
    fn pace(&self) -> Duration {
        match (self.stirred, self.eager) {
            (_, 1..) => LOOK_EAGERLY,
            (true, 0) => LOOK,
            (false, 0) => LOOK_ANYWAY,
        }
    }

    /// After a pause, somebody may be waiting for just this; in a stream of commits the common pace is enough.
    fn heard_of_log(&mut self) {
        self.stirred = true;
        if self.clock.uptime().saturating_sub(self.looked_at) >= LOOK {
            self.eager = EAGER_LOOKS;
        }
    }

    fn job(&mut self, message: Message) -> Option<Box<dyn Job>> {
        match message {
            Message::Job(job) => Some(job),
            Message::Close(done) => {
                self.closing = Some(done);
                None
            }
        }
    }

    /// One transaction: the write in hand and those that come along.
    async fn group(&mut self, first: Box<dyn Job>) {
        if let Err(error) = self.begin().await {
            self.refuse_all(first, &error);
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
            next = self.another(taken).await;
            if let Some(job) = next.take() {
                if let Err(error) = self.execute(NEXT).await {
                    let lost = SqliteError::RolledBack(Arc::new(error));
                    job.answer(Err(lost.clone()));
                    self.abandon(done, lost).await;
                    return;
                }
                next = Some(job);
            }
        }
        self.last_group = taken;
        match self.presence.check().await {
            Ok(()) => self.commit(done).await,
            Err(displaced) => self.abandon(done, displaced).await,
        }
    }

    /// Opens the file anew when the connection is spent. What was there before is read back from the file.
    async fn renew(&mut self) -> Result<(), SqliteError> {
        if !self.is_spent {
            return Ok(());
        }
        // Else the file that replaced it would be opened.
        self.presence.check().await?;
        let fresh = connect(&self.options).await?;
        let spent = std::mem::replace(&mut self.connection, fresh);
        self.is_spent = false;
        self.presence.forget_log();
        if let Err(error) = spent.close().await {
            tracing::debug!(error = ?error, "a connection to the SQLite file that is not used any more did not close in order");
        }
        Ok(())
    }

    /// Waits for the write lock, bounded.
    async fn begin(&mut self) -> Result<(), SqliteError> {
        self.renew().await?;
        let start = self.clock.uptime();
        loop {
            match self.execute(BEGIN).await {
                Ok(()) => return Ok(()),
                Err(error) if !is_busy(&error) => {
                    // Where it did begin and the savepoint failed, it would be in the way of the next one.
                    let _ = self.execute(ROLLBACK).await;
                    // What it read of a file that was put there instead, it would go by when the right one is back.
                    self.is_spent = true;
                    self.presence.check().await?;
                    return Err(SqliteError::RolledBack(Arc::new(error)));
                }
                Err(_) if self.clock.uptime().saturating_sub(start) > BUSY_MAX => return Err(SqliteError::Busy),
                Err(_) => sleep(BUSY_PAUSE).await,
            }
        }
    }

    /// Nobody who waited for the same lock is made to wait for it once more.
    fn refuse_all(&mut self, first: Box<dyn Job>, error: &SqliteError) {
        let mut next = Some(first);
        while let Some(job) = next {
            job.answer(Err(error.clone()));
            next = self.messages.try_recv().ok().and_then(|message| self.job(message));
        }
    }

    /// One write behind its savepoint. An error means that the whole transaction is lost.
    async fn one(&mut self, mut job: Box<dyn Job>, done: &mut Vec<Box<dyn Job>>) -> Result<(), SqliteError> {
        let failed = match AssertUnwindSafe(job.run(&mut self.connection)).catch_unwind().await {
            Ok(Ok(())) => {
                done.push(job);
                return Ok(());
            }
            Ok(Err(error)) => SqliteError::Statement(Arc::new(error)),
            Err(_) => SqliteError::Panicked,
        };
        // A savepoint that cannot be gone back to went away with its transaction.
        let undone = self.execute(UNDO).await;
        job.answer(Err(failed));
        undone.map_err(|error| SqliteError::RolledBack(Arc::new(error)))
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

    async fn commit(&mut self, done: Vec<Box<dyn Job>>) {
        match self.execute(COMMIT).await {
            Ok(()) => {
                for job in done {
                    job.answer(Ok(()));
                }
                self.changes.any.send_modify(|count| *count += 1);
            }
            Err(error) => {
                self.is_spent = true;
                self.abandon(done, SqliteError::Commit(Arc::new(error))).await;
            }
        }
    }

    async fn abandon(&mut self, done: Vec<Box<dyn Job>>, error: SqliteError) {
        tracing::error!(error = ?error, writes = done.len(), "a group of writes to the SQLite file failed");
        // SQLite may have rolled back already; then this fails, and that is as good.
        let _ = self.execute(ROLLBACK).await;
        for job in done {
            job.answer(Err(error.clone()));
        }
    }

    async fn execute(&mut self, statement: &'static str) -> Result<(), sqlx::Error> {
        sqlx::query(statement).execute(&mut self.connection).await.map(|_| ())
    }

    fn is_watched(&self) -> bool {
        self.changes.any.receiver_count() + self.changes.elsewhere.receiver_count() > 0
    }

    /// Raises the signs when another connection committed; `data_version` does not move by own commits.
    async fn look_elsewhere(&mut self) {
        let now = self.clock.uptime();
        let pace = self.pace().min(LOOK);
        if now.saturating_sub(self.looked_at) < pace || !self.is_watched() {
            return;
        }
        self.looked_at = now;
        // A slow disk: once more at the common pace.
        self.stirred = self.eager == 1;
        self.eager = self.eager.saturating_sub(1);
        match read_data_version(&mut self.connection).await {
            Ok(version) if version != self.data_version => {
                self.data_version = version;
                self.eager = 0;
                self.stirred = false;
                self.changes.any.send_modify(|count| *count += 1);
                self.changes.elsewhere.send_modify(|count| *count += 1);
            }
            Ok(_) => {}
            // Busy with another's recovery, or worse; then the next write says so.
            Err(error) => tracing::debug!(error = ?error, "cannot look for commits of others"),
        }
    }

    async fn leave_a_turn(&mut self) {
        if self.clock.uptime().saturating_sub(self.turn_since) > TURN {
            sleep(TURN_PAUSE).await;
            self.turn_since = self.clock.uptime();
        }
    }
}

async fn read_data_version(connection: &mut SqliteConnection) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("PRAGMA data_version").fetch_one(connection).await
}
