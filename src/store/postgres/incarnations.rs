//! Starts of daemons on PostgreSQL: their evidence of life is a session advisory lock.

use async_trait::async_trait;
use sqlx::postgres::PgConnection;
use sqlx::{ConnectOptions, Connection};

use super::error::failed;
use super::{INCARNATION_LOCK, PostgresStore, now, storable};
use crate::domain::id::IncarnationId;
use crate::domain::time::Timestamp;
use crate::store::columns::Columns;
use crate::store::columns::{incarnation, integer, micros, number};
use crate::store::{Beat, Begun, Evidence, Incarnation, Incarnations, NewIncarnation, StoreError};

/// Longer than the list shows them, dead incarnations are of no use.
const DAY_MICROS: i64 = 86_400_000_000;

const SETTINGS: &str = "SELECT minimum_version, fingerprint FROM redrive.settings FOR UPDATE";
const SETTINGS_FINGERPRINT: &str = "UPDATE redrive.settings SET fingerprint = $1";
const QUEUE_COUNT: &str = "SELECT count(*) FROM redrive.delivery_queues";
const INSERT: &str = "INSERT INTO redrive.incarnations \
    (name, host, pid, version, fingerprint, take_over, alive, started_at, beat_at) \
    VALUES ($1, $2, $3, $4, $5, $6, true, $7, $7) RETURNING id";
const FORGET_OLD: &str = "DELETE FROM redrive.incarnations i WHERE NOT alive AND ended_at < $1 \
    AND NOT EXISTS (SELECT 1 FROM redrive.delivery_queues q WHERE q.owner = i.id)";
const BEAT: &str = "UPDATE redrive.incarnations i SET counter = counter + 1, beat_at = redrive.store_now() \
    FROM redrive.settings s WHERE i.id = $1 AND i.alive AND i.version >= s.minimum_version \
    AND (i.fingerprint IS NULL OR i.fingerprint = s.fingerprint)";
const END: &str = "UPDATE redrive.incarnations SET alive = false, ended_at = redrive.store_now() \
    WHERE id = $1 AND alive";
const FREE_LEASES: &str = "WITH held AS (SELECT name FROM redrive.delivery_queues WHERE owner = $1 \
    ORDER BY name FOR UPDATE) \
    UPDATE redrive.delivery_queues q SET owner = NULL FROM held WHERE q.name = held.name";
const MARK_DEAD: &str = "UPDATE redrive.incarnations SET alive = false, ended_at = redrive.store_now() \
    WHERE id = $1 AND alive AND counter = $2";
const LIST: &str = "SELECT id, name, host, pid, counter, alive, fingerprint, take_over, started_at, beat_at, \
    (SELECT count(*) FROM redrive.delivery_queues q WHERE q.owner = i.id) AS leases \
    FROM redrive.incarnations i WHERE alive OR ended_at > redrive.store_now() - $1 ORDER BY id DESC LIMIT 200";
const HOLD: &str = "SELECT pg_advisory_lock($1, ($2::bigint & 2147483647)::int)";
/// One statement, so that nothing can come between the two on this session.
const EVIDENCE: &str = "SELECT CASE WHEN pg_try_advisory_lock($1, ($2::bigint & 2147483647)::int) \
    THEN pg_advisory_unlock($1, ($2::bigint & 2147483647)::int) ELSE false END";

#[async_trait]
impl Incarnations for PostgresStore {
    async fn incarnation_begin(&self, new: NewIncarnation) -> Result<Begun, StoreError> {
        let operation = "beginning an incarnation";
        let mut connection = self.options.connect().await.map_err(failed(operation))?;
        let begun = begin(&mut connection, &new).await.map_err(failed(operation))?;
        if let Begun::Alive(id) = &begun {
            self.living_put(id.0, connection);
        }
        Ok(begun)
    }

    async fn heartbeat(&self, id: IncarnationId) -> Result<Beat, StoreError> {
        let operation = "sending a heartbeat";
        let mut connection = match self.living_take(id.0) {
            Some(connection) => connection,
            None => self.held_again(id).await.map_err(failed(operation))?,
        };
        let beat = sqlx::query(BEAT)
            .bind(id.0)
            .execute(&mut connection)
            .await
            .map_err(failed(operation))?;
        if beat.rows_affected() == 0 {
            return Ok(Beat::Disowned);
        }
        self.living_put(id.0, connection);
        Ok(Beat::Alive)
    }

    async fn incarnation_end(&self, id: IncarnationId) -> Result<(), StoreError> {
        let operation = "ending an incarnation";
        let (mut transaction, _) = self.begin(operation).await?;
        for statement in [END, FREE_LEASES] {
            sqlx::query(statement)
                .bind(id.0)
                .execute(&mut *transaction)
                .await
                .map_err(failed(operation))?;
        }
        transaction.commit().await.map_err(failed(operation))?;
        if let Some(connection) = self.living_take(id.0) {
            // The row says that it ended; a connection that does not close in order ends by itself.
            let _ = connection.close().await;
        }
        Ok(())
    }

    async fn incarnations(&self) -> Result<Vec<Incarnation>, StoreError> {
        let operation = "listing incarnations";
        let rows = sqlx::query(LIST)
            .bind(DAY_MICROS)
            .fetch_all(&self.pool)
            .await
            .map_err(failed(operation))?;
        rows.iter()
            .map(incarnation)
            .collect::<Result<_, _>>()
            .map_err(failed(operation))
    }

    async fn evidence(&self, id: IncarnationId) -> Result<Evidence, StoreError> {
        let free: bool = sqlx::query_scalar(EVIDENCE)
            .bind(INCARNATION_LOCK)
            .bind(id.0)
            .fetch_one(&self.pool)
            .await
            .map_err(failed("looking for evidence of life"))?;
        Ok(if free { Evidence::Free } else { Evidence::Held })
    }

    async fn incarnation_mark_dead(&self, id: IncarnationId, counter: i64) -> Result<bool, StoreError> {
        let marked = sqlx::query(MARK_DEAD)
            .bind(id.0)
            .bind(counter)
            .execute(&self.pool)
            .await
            .map_err(failed("marking an incarnation dead"))?;
        Ok(marked.rows_affected() == 1)
    }
}

impl PostgresStore {
    /// A new connection that holds the evidence again, after the former one was lost.
    async fn held_again(&self, id: IncarnationId) -> Result<PgConnection, sqlx::Error> {
        let mut connection = self.options.connect().await?;
        hold(&mut connection, id).await?;
        Ok(connection)
    }
}

/// The lock is taken before the row can be seen, so that no living row is without its evidence.
async fn begin(connection: &mut PgConnection, new: &NewIncarnation) -> Result<Begun, sqlx::Error> {
    let mut transaction = connection.begin().await?;
    let now = now(&mut transaction).await?;
    if let Some(refusal) = refusal(&mut transaction, new).await? {
        return Ok(refusal);
    }
    sqlx::query(FORGET_OLD)
        .bind(now.micros().saturating_sub(DAY_MICROS))
        .execute(&mut *transaction)
        .await?;
    let id = insert(&mut transaction, new, now).await?;
    hold(&mut transaction, id).await?;
    transaction.commit().await?;
    Ok(Begun::Alive(id))
}

/// Another fingerprint is taken over only while no queue exists.
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
    if let (Some(found), 1..) = (found, queues) {
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
        .fetch_one(connection)
        .await?;
    number(&row, "id").map(IncarnationId)
}

async fn hold(connection: &mut PgConnection, id: IncarnationId) -> Result<(), sqlx::Error> {
    sqlx::query(HOLD)
        .bind(INCARNATION_LOCK)
        .bind(id.0)
        .execute(connection)
        .await?;
    Ok(())
}
