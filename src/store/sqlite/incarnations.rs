//! Starts of daemons on a SQLite file: their evidence of life is a locked file beside the database, which
//! the operating system unlocks when the process dies.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use super::SqliteStore;
use super::error::unread;
use crate::domain::id::IncarnationId;
use crate::domain::time::Timestamp;
use crate::store::columns::{Columns, incarnation, integer, micros};
use crate::store::{Beat, Begun, Evidence, Incarnation, Incarnations, NewIncarnation, StoreError};

macro_rules! listed {
    () => {
        "SELECT id, name, host, pid, counter, alive, fingerprint, take_over, deadline, machine, \
         process_started, started_at, beat_at, \
         (SELECT count(*) FROM delivery_queues q WHERE q.owner = i.id) AS leases"
    };
}

/// Longer than the list shows them, dead incarnations are of no use.
const DAY_MICROS: i64 = 86_400_000_000;

const SETTINGS: &str = "SELECT minimum_version, fingerprint FROM settings";
const SETTINGS_FINGERPRINT: &str = "UPDATE settings SET fingerprint = $1";
const QUEUE_COUNT: &str = "SELECT count(*) FROM delivery_queues";
const INSERT: &str = "INSERT INTO incarnations \
    (name, host, pid, version, fingerprint, take_over, alive, started_at, beat_at, deadline, machine, process_started) \
    VALUES ($1, $2, $3, $4, $5, $6, 1, $7, $7, $8, $9, $10) RETURNING id";
const FORGET_OLD: &str = "DELETE FROM incarnations WHERE NOT alive AND ended_at < $1 \
    AND id NOT IN (SELECT owner FROM delivery_queues WHERE owner IS NOT NULL) RETURNING id";
const BEAT: &str = "UPDATE incarnations SET counter = counter + 1, beat_at = $2 \
    WHERE id = $1 AND alive AND EXISTS (SELECT 1 FROM settings s WHERE incarnations.version >= s.minimum_version \
    AND (incarnations.fingerprint IS NULL OR incarnations.fingerprint = s.fingerprint))";
const END: &str = "UPDATE incarnations SET alive = 0, ended_at = $2 WHERE id = $1 AND alive";
const FREE_LEASES: &str = "UPDATE delivery_queues SET owner = NULL WHERE owner = $1";
const END_WISHES: &str = "UPDATE delivery_queues SET wanted_by_incarnation = NULL WHERE wanted_by_incarnation = $1";
const MARK_DEAD: &str = "UPDATE incarnations SET alive = 0, ended_at = $3 WHERE id = $1 AND alive AND counter = $2";
/// All of them: a limit may cut only what is over.
const LIVING: &str = concat!(listed!(), " FROM incarnations i WHERE alive ORDER BY id DESC");
const RECENT: &str = concat!(
    listed!(),
    " FROM incarnations i WHERE alive OR id IN (SELECT id FROM incarnations \
     WHERE NOT alive AND ended_at > $1 ORDER BY id DESC LIMIT 200) ORDER BY id DESC"
);

#[async_trait]
impl Incarnations for SqliteStore {
    async fn incarnation_begin(&self, new: NewIncarnation) -> Result<Begun, StoreError> {
        let now = self.clock.now();
        let database = self.file.path().to_owned();
        let (begun, lock) = self
            .write("beginning an incarnation", move |connection| {
                Box::pin(async move { begin(connection, &database, &new, now).await })
            })
            .await?;
        if let (Begun::Alive(id), Some(lock)) = (&begun, lock) {
            self.living_put(id.0, lock);
        }
        Ok(begun)
    }

    async fn heartbeat(&self, id: IncarnationId) -> Result<Beat, StoreError> {
        let now = self.clock.now().micros();
        let beaten = self
            .write("sending a heartbeat", move |connection| {
                Box::pin(async move {
                    let beat = sqlx::query(BEAT).bind(id.0).bind(now).execute(connection).await?;
                    Ok(beat.rows_affected())
                })
            })
            .await?;
        Ok(if beaten == 0 { Beat::Disowned } else { Beat::Alive })
    }

    async fn incarnation_end(&self, id: IncarnationId) -> Result<(), StoreError> {
        let now = self.clock.now().micros();
        let ended = self
            .write("ending an incarnation", move |connection| {
                Box::pin(async move {
                    sqlx::query(END).bind(id.0).bind(now).execute(&mut *connection).await?;
                    sqlx::query(FREE_LEASES).bind(id.0).execute(&mut *connection).await?;
                    sqlx::query(END_WISHES).bind(id.0).execute(connection).await?;
                    Ok(())
                })
            })
            .await;
        if ended.is_ok() {
            remove(&lock_path(self.file.path(), id));
        }
        drop(self.living_take(id.0));
        ended
    }

    async fn incarnations(&self) -> Result<Vec<Incarnation>, StoreError> {
        let since = self.clock.now().micros().saturating_sub(DAY_MICROS);
        listed(sqlx::query(RECENT).bind(since).fetch_all(self.readers()).await)
    }

    async fn incarnations_living(&self) -> Result<Vec<Incarnation>, StoreError> {
        listed(sqlx::query(LIVING).fetch_all(self.readers()).await)
    }

    async fn evidence(&self, id: IncarnationId) -> Result<Evidence, StoreError> {
        evidence(&lock_path(self.file.path(), id)).map_err(|source| StoreError::Failed {
            operation: "looking for evidence of life",
            source: Box::new(source),
        })
    }

    async fn incarnation_mark_dead(&self, id: IncarnationId, counter: i64) -> Result<bool, StoreError> {
        let now = self.clock.now().micros();
        let marked = self
            .write("marking an incarnation dead", move |connection| {
                Box::pin(async move {
                    let query = sqlx::query(MARK_DEAD).bind(id.0).bind(counter).bind(now);
                    Ok(query.execute(connection).await?.rows_affected())
                })
            })
            .await?;
        Ok(marked == 1)
    }
}

fn listed(rows: Result<Vec<SqliteRow>, sqlx::Error>) -> Result<Vec<Incarnation>, StoreError> {
    rows.and_then(|rows| rows.iter().map(incarnation).collect())
        .map_err(unread("listing incarnations"))
}

/// The lock is taken before the row can be seen, so that no living row is without its evidence.
async fn begin(
    connection: &mut SqliteConnection,
    database: &Path,
    new: &NewIncarnation,
    now: Timestamp,
) -> Result<(Begun, Option<File>), sqlx::Error> {
    if let Some(refusal) = refusal(connection, new).await? {
        return Ok((refusal, None));
    }
    let forgotten: Vec<i64> = sqlx::query_scalar(FORGET_OLD)
        .bind(now.micros().saturating_sub(DAY_MICROS))
        .fetch_all(&mut *connection)
        .await?;
    for id in forgotten {
        remove(&lock_path(database, IncarnationId(id)));
    }
    let id: i64 = sqlx::query_scalar(INSERT)
        .bind(&new.name)
        .bind(&new.host)
        .bind(i64::from(new.pid))
        .bind(new.version)
        .bind(&new.fingerprint)
        .bind(micros(new.take_over))
        .bind(now.micros())
        .bind(micros(new.deadline))
        .bind(new.process.machine.as_deref())
        .bind(new.process.started)
        .fetch_one(connection)
        .await?;
    let lock = hold(&lock_path(database, IncarnationId(id)))?;
    Ok((Begun::Alive(IncarnationId(id)), Some(lock)))
}

/// Another fingerprint is taken over only while no queue exists, and not by one that was disowned by it.
async fn refusal(connection: &mut SqliteConnection, new: &NewIncarnation) -> Result<Option<Begun>, sqlx::Error> {
    let settings = sqlx::query(SETTINGS).fetch_one(&mut *connection).await?;
    let minimum = integer(&settings, "minimum_version")?;
    if new.version < minimum {
        return Ok(Some(Begun::TooOld { minimum }));
    }
    let Some(fingerprint) = &new.fingerprint else {
        return Ok(None);
    };
    let found = settings.text("fingerprint")?;
    if found.as_ref() == Some(fingerprint) {
        return Ok(None);
    }
    let queues: i64 = sqlx::query_scalar(QUEUE_COUNT).fetch_one(&mut *connection).await?;
    if let Some(found) = found
        && (queues > 0 || !new.replaces_settings)
    {
        return Ok(Some(Begun::OtherSettings {
            found,
            queues: queues.unsigned_abs(),
        }));
    }
    sqlx::query(SETTINGS_FINGERPRINT)
        .bind(fingerprint)
        .execute(connection)
        .await?;
    Ok(None)
}

fn lock_path(database: &Path, id: IncarnationId) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(format!(".incarnation-{id}"));
    PathBuf::from(path)
}

fn hold(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(path)?;
    file.try_lock()?;
    Ok(file)
}

/// Looking takes the lock for a moment, which is safe as nobody else asks for one that is in use. A file that is
/// missing proves nothing: whoever tidies directories takes it from the living, too.
fn evidence(path: &Path) -> io::Result<Evidence> {
    let file = match OpenOptions::new().write(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Evidence::Missing),
        Err(error) => return Err(error),
    };
    match file.try_lock() {
        Ok(()) => Ok(Evidence::Dead),
        Err(TryLockError::WouldBlock) => Ok(Evidence::Alive),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// A file that stays behind is harmless: ids are never used twice.
fn remove(path: &Path) {
    if let Err(error) = std::fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::debug!(?path, ?error, "lock file of an ended incarnation stays");
    }
}
