//! One SQLite file, shared by the SQLite store and the embedded broker: one writer task that groups
//! commits, a pool of readers that cannot write, and a sign of change.
//!
//! Promises: [`SqliteFile::write`] answers only after a commit that survives power loss (WAL with
//! `synchronous=FULL`; NORMAL loses acknowledged rows); a write runs wholly or not at all, whatever
//! its caller or its neighbours in the group do; several processes may use one file. The file is
//! readable by its owner only. A file that was deleted or replaced while it is open takes no write any more.
//!
//! Left out on purpose: what the tables mean, and any lock on the file that outlives a statement
//! (evidence of a process' death is the store's).

mod backup;
mod connection;
mod error;
mod lookout;
mod migrate;
mod owned;
mod place;
mod presence;
mod stir;
mod writer;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::Connection as _;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use tokio::sync::{Notify, mpsc, oneshot, watch};

use crate::ambient;
use crate::domain::schema::{Change, SchemaRefusal};

pub use error::SqliteError;
use owned::Owned;
use presence::Mark;
use writer::{Job, Message, Write, Writer};

/// Writes that may wait for the writer; beyond it callers wait for room.
const WAITING_MAX: usize = 1024;
/// Readers at once.
const READERS_MAX: u32 = 4;
/// How long a reader, or opening the file, waits for another process.
const BUSY: Duration = Duration::from_secs(5);
/// Between two looks for connections that are being closed, and so many at most.
const LINGERING_LOOK: Duration = Duration::from_millis(5);
const LINGERING_LOOKS: u32 = 100;
/// Prepared statements kept per connection: the store's and the broker's together.
const STATEMENTS_MAX: usize = 256;
/// The write-ahead log is cut back to this many bytes when it has been copied into the file.
const LOG_BYTES_KEPT: &str = "67108864";
/// What the writer keeps of the file: a transaction that changes more pages is written out before its commit.
const WRITER_CACHE_KIB: &str = "-4096";
/// What each reader keeps: it fills as the file grows. What is not there is read from the system's own cache.
const READER_CACHE_KIB: &str = "-512";

/// A cheap handle on an open file. The file is closed when the last handle is gone, in order by
/// [`SqliteFile::close`].
#[derive(Clone)]
pub struct SqliteFile(Arc<Inner>);

struct Inner {
    path: PathBuf,
    queue: mpsc::Sender<Message>,
    readers: SqlitePool,
    changes: Changes,
    mark: Arc<OnceLock<Mark>>,
}

/// The signs of change, shared with the writer.
#[derive(Clone, Default)]
struct Changes {
    any: watch::Sender<u64>,
    elsewhere: watch::Sender<u64>,
    /// Tells an idle writer that somebody watches from now on.
    watched: Arc<Notify>,
}

impl SqliteFile {
    /// Opens the file at `path`, creating it (mode 0600) and its directory (0700) when they are missing.
    /// A symbolic link, something that is not a file, another user's file, or one of another program is refused.
    pub async fn open(path: &Path) -> Result<Self, SqliteError> {
        place::prepare(path)?;
        let found = owned::look(path).await?;
        Self::open_owned(path, found).await
    }

    /// Opens the file at `path` if it is there and something is in it; makes nothing.
    pub async fn open_existing(path: &Path) -> Result<Self, SqliteError> {
        if !path.exists() {
            return Err(SchemaRefusal::Missing.into());
        }
        place::inspect(path)?;
        match owned::look(path).await? {
            Owned::Empty => Err(SchemaRefusal::Missing.into()),
            found @ Owned::Ours => Self::open_owned(path, found).await,
        }
    }

    async fn open_owned(path: &Path, found: Owned) -> Result<Self, SqliteError> {
        let options = writing(path);
        let mut connection = connection::connect(&options).await?;
        if found == Owned::Empty {
            owned::sign(&mut connection).await?;
        }
        let readers = SqlitePoolOptions::new()
            .max_connections(READERS_MAX)
            .test_before_acquire(false)
            .connect_lazy_with(reading(path));
        let (queue, messages) = mpsc::channel(WAITING_MAX);
        let changes = Changes::default();
        let mark = Arc::new(OnceLock::new());
        let told = Arc::clone(&mark);
        let writer = Writer::new(connection, options, path, messages, changes.clone(), told).await;
        ambient::spawn("sqlite writer", writer.run());
        Ok(Self(Arc::new(Inner {
            path: path.to_owned(),
            queue,
            readers,
            changes,
            mark,
        })))
    }

    /// Where the file is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// From now on another file at this path takes no write: one whose `query` answers another identity (text), or a
    /// lower number than before. What is known first counts.
    ///
    /// Refuses an identity that is not the one that was known first: then another file is there already.
    pub fn know(&self, query: &'static str, identity: &str) -> Result<(), SqliteError> {
        let identity = identity.to_owned();
        let mark = self.0.mark.get_or_init(|| Mark {
            query,
            identity: identity.clone(),
        });
        if mark.identity == identity {
            return Ok(());
        }
        Err(SqliteError::Displaced {
            path: self.0.path.clone(),
            fate: "replaced",
        })
    }

    /// Runs `work` in a write transaction that it may share with others, and answers after the commit.
    ///
    /// `work` must not begin or end transactions itself; an error from it undoes all it did and
    /// nothing else. Once the call waits for its answer, dropping it changes nothing: the work
    /// is done all the same.
    pub async fn write<T, F>(&self, work: F) -> Result<T, SqliteError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T, sqlx::Error>> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        self.put_in_line(Box::new(Write::new(work, reply))).await?;
        answer.await.unwrap_or(Err(SqliteError::Closed))
    }

    async fn put_in_line(&self, job: Box<dyn Job>) -> Result<(), SqliteError> {
        let sent = self.0.queue.send(Message::Job(job)).await;
        sent.map_err(|_| SqliteError::Closed)
    }

    /// Connections that can only read; each statement sees what was committed before it began.
    #[must_use]
    pub fn readers(&self) -> &SqlitePool {
        &self.0.readers
    }

    /// Raised after each commit of this process, and within some 5 ms of one by another.
    #[must_use]
    pub fn changed(&self) -> watch::Receiver<u64> {
        let receiver = self.0.changes.any.subscribe();
        self.0.changes.watched.notify_one();
        receiver
    }

    /// Raised within some 5 ms of a commit by another handle or process, never by an own one.
    #[must_use]
    pub fn changed_elsewhere(&self) -> watch::Receiver<u64> {
        let receiver = self.0.changes.elsewhere.subscribe();
        self.0.changes.watched.notify_one();
        receiver
    }

    /// Brings the tables of `namespace` to the last of `changes`, all in one transaction. Fails without a change when the
    /// file is from a newer program.
    pub async fn migrate(&self, namespace: &'static str, changes: &'static [Change]) -> Result<(), SqliteError> {
        migrate::bring(self, namespace, changes).await
    }

    /// Refuses tables that [`SqliteFile::migrate`] would change; writes nothing.
    pub async fn expect(&self, namespace: &'static str, changes: &'static [Change]) -> Result<(), SqliteError> {
        migrate::expect(self, namespace, changes).await
    }

    /// The changes that [`SqliteFile::migrate`] would apply.
    pub async fn missing(
        &self,
        namespace: &'static str,
        changes: &'static [Change],
    ) -> Result<&'static [Change], SqliteError> {
        migrate::missing(self, namespace, changes).await
    }

    /// Finishes the writes that wait, then closes every connection. Later writes answer [`SqliteError::Closed`].
    pub async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.0.queue.send(Message::Close(done)).await.is_ok() {
            // An error means that the writer ended already, which is what was asked for.
            let _ = closed.await;
        }
        self.0.readers.close().await;
        self.close_what_lingers().await;
    }

    /// Connections that were in use are closed by whoever had them, several at the same moment, and one whose asker went
    /// away while it was being opened a moment later: then each sees that others are there, and none copies the log into
    /// the file and removes it, as the last one does. So one more is opened and closed by itself.
    async fn close_what_lingers(&self) {
        let path = &self.0.path;
        for _ in 0..LINGERING_LOOKS {
            if !place::is_open_here(path) {
                break;
            }
            ambient::sleep(LINGERING_LOOK).await;
        }
        if place::has_log(path)
            && let Ok(last) = connection::connect(&writing(path)).await
            && let Err(error) = last.close().await
        {
            tracing::debug!(error = ?error, "the log of the SQLite file stays until it is opened again");
        }
    }
}

impl fmt::Debug for SqliteFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SqliteFile").field(&self.0.path).finish()
    }
}

fn writing(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(false)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(BUSY)
        .statement_cache_capacity(STATEMENTS_MAX)
        .pragma("journal_size_limit", LOG_BYTES_KEPT)
        // What a savepoint may have to take back is otherwise written into a file, page by page.
        .pragma("temp_store", "MEMORY")
        // Negative: KiB.
        .pragma("cache_size", WRITER_CACHE_KIB)
}

fn reading(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(false)
        .busy_timeout(BUSY)
        .statement_cache_capacity(STATEMENTS_MAX)
        .pragma("query_only", "ON")
        .pragma("cache_size", READER_CACHE_KIB)
}

#[cfg(test)]
mod tests;
