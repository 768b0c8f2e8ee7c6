//! Starts of daemons on PostgreSQL: their evidence of life is a session advisory lock.
//!
//! A connection that did not answer in time is dropped, and its session may hold the lock for longer than the
//! network was split: until the server notices, some 15 s. Heartbeats do not wait for that. Nobody is taken for
//! dead whose counter moves, so one that beats without its lock only lacks the quicker evidence.

use async_trait::async_trait;
use sqlx::postgres::{PgArguments, PgConnection};
use sqlx::query::Query;
use sqlx::{Connection, Postgres};

use super::session::within;
use super::{INCARNATION_LOCK, PostgresStore, now, storable, storable_optional};
use crate::domain::id::IncarnationId;
use crate::domain::time::Timestamp;
use crate::store::columns::Columns;
use crate::store::columns::{incarnation, integer, micros, number};
use crate::store::{Beat, Begun, Evidence, Incarnation, Incarnations, NewIncarnation, StoreError};

macro_rules! listed {
    () => {
        "SELECT id, name, host, pid, counter, alive, fingerprint, take_over, deadline, machine, \
         process_started, started_at, beat_at, \
         (SELECT count(*) FROM redrive.delivery_queues q WHERE q.owner = i.id) AS leases"
    };
}

/// Longer than the list shows them, dead incarnations are of no use.
const DAY_MICROS: i64 = 86_400_000_000;

const SETTINGS: &str = "SELECT minimum_version, fingerprint FROM redrive.settings FOR UPDATE";
const SETTINGS_FINGERPRINT: &str = "UPDATE redrive.settings SET fingerprint = $1";
const QUEUE_COUNT: &str = "SELECT count(*) FROM redrive.delivery_queues";
const INSERT: &str = "INSERT INTO redrive.incarnations \
    (name, host, pid, version, fingerprint, take_over, alive, started_at, beat_at, deadline, machine, process_started) \
    VALUES ($1, $2, $3, $4, $5, $6, true, $7, $7, $8, $9, $10) RETURNING id";
const FORGET_OLD: &str = "DELETE FROM redrive.incarnations i WHERE NOT alive AND ended_at < $1 \
    AND NOT EXISTS (SELECT 1 FROM redrive.delivery_queues q WHERE q.owner = i.id)";
const BEAT: &str = "UPDATE redrive.incarnations i SET counter = counter + 1, beat_at = redrive.store_now() \
    FROM redrive.settings s WHERE i.id = $1 AND i.alive AND i.version >= s.minimum_version \
    AND (i.fingerprint IS NULL OR i.fingerprint = s.fingerprint)";
/// Waits for whoever takes leases for it at this moment, as [`MARK_DEAD`] does: see `ASKER`.
const END: &str = "WITH locked AS (SELECT id FROM redrive.incarnations WHERE id = $1 AND alive FOR UPDATE) \
    UPDATE redrive.incarnations i SET alive = false, ended_at = redrive.store_now() FROM locked \
    WHERE i.id = locked.id AND i.alive";
const LEASES_LOCK: &str = "SELECT name FROM redrive.delivery_queues \
    WHERE owner = $1 OR wanted_by_incarnation = $1 ORDER BY name FOR UPDATE";
const FREE_LEASES: &str = "UPDATE redrive.delivery_queues SET owner = NULL WHERE owner = $1";
const END_WISHES: &str =
    "UPDATE redrive.delivery_queues SET wanted_by_incarnation = NULL WHERE wanted_by_incarnation = $1";
const MARK_DEAD: &str = "WITH locked AS (SELECT id FROM redrive.incarnations WHERE id = $1 AND alive \
        AND counter = $2 FOR UPDATE) \
    UPDATE redrive.incarnations i SET alive = false, ended_at = redrive.store_now() FROM locked \
    WHERE i.id = locked.id AND i.alive AND i.counter = $2";
/// All of them: a limit may cut only what is over.
const LIVING: &str = concat!(listed!(), " FROM redrive.incarnations i WHERE alive ORDER BY id DESC");
const RECENT: &str = concat!(
    listed!(),
    " FROM redrive.incarnations i WHERE alive OR id IN (SELECT id FROM redrive.incarnations \
     WHERE NOT alive AND ended_at > redrive.store_now() - $1 ORDER BY id DESC LIMIT 200) ORDER BY id DESC"
);
const HOLD: &str = "SELECT pg_try_advisory_lock($1, ($2::bigint & 2147483647)::int)";
const LET_GO: &str = "SELECT pg_advisory_unlock_all()";
/// One statement, so that nothing can come between the two on this session.
const EVIDENCE: &str = "SELECT CASE WHEN pg_try_advisory_lock($1, ($2::bigint & 2147483647)::int) \
    THEN pg_advisory_unlock($1, ($2::bigint & 2147483647)::int) ELSE false END";

#[async_trait]
impl Incarnations for PostgresStore {
    async fn incarnation_begin(&self, new: NewIncarnation) -> Result<Begun, StoreError> {
        let beginning = async {
            let mut connection = self.server.connect().await?;
            let (begun, holds) = begin(&mut connection, &new).await?;
            Ok((begun, Living { connection, holds }))
        };
        let (begun, living) = within(self.patience, "beginning an incarnation", beginning).await?;
        if let Begun::Alive(id) = &begun {
            self.living_put(id.0, living);
        }
        Ok(begun)
    }

    async fn heartbeat(&self, id: IncarnationId) -> Result<Beat, StoreError> {
        let beating = self.beat(self.living_take(id.0), id);
        let (beaten, living) = within(self.patience, "sending a heartbeat", beating).await?;
        if !beaten {
            return Ok(Beat::Disowned);
        }
        self.living_put(id.0, living);
        Ok(Beat::Alive)
    }

    async fn incarnation_end(&self, id: IncarnationId) -> Result<(), StoreError> {
        let ended = self.transaction("ending an incarnation", async |connection: &mut PgConnection, _| {
            for statement in [END, LEASES_LOCK, FREE_LEASES, END_WISHES] {
                sqlx::query(statement).bind(id.0).execute(&mut *connection).await?;
            }
            Ok(())
        });
        let ended = ended.await;
        if let Some(living) = self.living_take(id.0)
            && ended.is_ok()
        {
            // The row says that it ended; a connection that does not close in order ends by itself.
            let _ = within(self.patience, "freeing the evidence of life", living.end()).await;
        }
        ended
    }

    async fn incarnations(&self) -> Result<Vec<Incarnation>, StoreError> {
        self.listed(sqlx::query(RECENT).bind(DAY_MICROS)).await
    }

    async fn incarnations_living(&self) -> Result<Vec<Incarnation>, StoreError> {
        self.listed(sqlx::query(LIVING)).await
    }

    async fn evidence(&self, id: IncarnationId) -> Result<Evidence, StoreError> {
        let query = sqlx::query_scalar(EVIDENCE).bind(INCARNATION_LOCK).bind(id.0);
        let free = self.call("looking for evidence of life", async |connection: &mut PgConnection| {
            query.fetch_one(connection).await
        });
        Ok(if free.await? {
            Evidence::Missing
        } else {
            Evidence::Connected
        })
    }

    async fn incarnation_mark_dead(&self, id: IncarnationId, counter: i64) -> Result<bool, StoreError> {
        let query = sqlx::query(MARK_DEAD).bind(id.0).bind(counter);
        self.call("marking an incarnation dead", async |connection: &mut PgConnection| {
            Ok(query.execute(connection).await?.rows_affected() == 1)
        })
        .await
    }
}

/// The connection of a living incarnation of this process.
pub(super) struct Living {
    connection: PgConnection,
    /// Whether its session holds the evidence of life.
    holds: bool,
}

impl Living {
    /// Frees the evidence of life, and closes. A server is told of a closed connection, and not waited for.
    pub(super) async fn end(mut self) -> Result<(), sqlx::Error> {
        sqlx::query(LET_GO).execute(&mut self.connection).await?;
        self.connection.close().await
    }
}

impl PostgresStore {
    async fn listed(&self, statement: Query<'_, Postgres, PgArguments>) -> Result<Vec<Incarnation>, StoreError> {
        self.call("listing incarnations", async |connection: &mut PgConnection| {
            let rows = statement.fetch_all(connection).await?;
            rows.iter().map(incarnation).collect()
        })
        .await
    }

    /// One heartbeat on the connection of before, or, when that was lost, on a new one. A connection that fails
    /// is dropped.
    async fn beat(&self, living: Option<Living>, id: IncarnationId) -> Result<(bool, Living), sqlx::Error> {
        let mut living = match living {
            Some(living) => living,
            None => Living {
                connection: self.server.connect().await?,
                holds: false,
            },
        };
        if !living.holds {
            living.holds = hold(&mut living.connection, id).await?;
        }
        let beat = sqlx::query(BEAT).bind(id.0).execute(&mut living.connection).await?;
        Ok((beat.rows_affected() == 1, living))
    }
}

/// The lock is taken before the row can be seen, so that no living row is without its evidence. Answers
/// whether it was free: nobody else asks for that of a new one.
async fn begin(connection: &mut PgConnection, new: &NewIncarnation) -> Result<(Begun, bool), sqlx::Error> {
    let mut transaction = connection.begin().await?;
    let now = now(&mut transaction).await?;
    if let Some(refusal) = refusal(&mut transaction, new).await? {
        return Ok((refusal, false));
    }
    sqlx::query(FORGET_OLD)
        .bind(now.micros().saturating_sub(DAY_MICROS))
        .execute(&mut *transaction)
        .await?;
    let id = insert(&mut transaction, new, now).await?;
    let holds = hold(&mut transaction, id).await?;
    transaction.commit().await?;
    Ok((Begun::Alive(id), holds))
}

/// Another fingerprint is taken over only while no queue exists, and not by one that was disowned by it.
async fn refusal(connection: &mut PgConnection, new: &NewIncarnation) -> Result<Option<Begun>, sqlx::Error> {
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

async fn insert(
    connection: &mut PgConnection,
    new: &NewIncarnation,
    now: Timestamp,
) -> Result<IncarnationId, sqlx::Error> {
    let row = sqlx::query(INSERT)
        .bind(storable(&new.name))
        .bind(storable(&new.host))
        .bind(i64::from(new.pid))
        .bind(new.version)
        .bind(&new.fingerprint)
        .bind(micros(new.take_over))
        .bind(now.micros())
        .bind(micros(new.deadline))
        .bind(storable_optional(new.process.machine.as_ref()))
        .bind(new.process.started)
        .fetch_one(connection)
        .await?;
    number(&row, "id").map(IncarnationId)
}

/// Whether the session holds the evidence of life now.
async fn hold(connection: &mut PgConnection, id: IncarnationId) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(HOLD)
        .bind(INCARNATION_LOCK)
        .bind(id.0)
        .fetch_one(connection)
        .await
}
