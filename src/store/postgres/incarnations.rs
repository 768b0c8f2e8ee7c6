//! Starts of daemons on PostgreSQL: their evidence of life is a session advisory lock.
//!
//! A connection that did not answer in time is dropped, and its session may hold the lock for longer than the
//! network was split: until the server notices, some 15 s. Heartbeats do not wait for that. Nobody is taken for
//! dead whose counter moves, so one that beats without its lock only lacks the quicker evidence.

use async_trait::async_trait;
use sqlx::Connection;
use sqlx::postgres::PgConnection;

use super::session::within;
use super::{INCARNATION_LOCK, PostgresStore, now};
use crate::domain::id::IncarnationId;
use crate::store::sql::Session;
use crate::store::sql::incarnations::{LifeEvidence, beat, insert, refusal};
use crate::store::{Begun, Evidence, NewIncarnation, StoreError};

const HOLD: &str = "SELECT pg_try_advisory_lock($1, ($2::bigint & 2147483647)::int)";
const LET_GO: &str = "SELECT pg_advisory_unlock_all()";
/// One statement, so that nothing can come between the two on this session.
const EVIDENCE: &str = "SELECT CASE WHEN pg_try_advisory_lock($1, ($2::bigint & 2147483647)::int) \
    THEN pg_advisory_unlock($1, ($2::bigint & 2147483647)::int) ELSE false END";

#[async_trait]
impl LifeEvidence for PostgresStore {
    async fn begin(&self, new: NewIncarnation) -> Result<Begun, StoreError> {
        let beginning = async {
            let mut connection = self.server.connect().await?;
            let (begun, holds) = begin(&mut connection, &new).await?;
            Ok((begun, Living { connection, holds }))
        };
        let (begun, living) = within(self.patience, "beginning an incarnation", beginning)
            .await
            .map_err(|error| self.server.whereabouts.told(error))?;
        if let Begun::Alive(id) = &begun {
            self.living_put(id.0, living);
        }
        Ok(begun)
    }

    async fn beat(&self, id: IncarnationId) -> Result<bool, StoreError> {
        let beating = self.beat_on(self.living_take(id.0), id);
        let (counts, living) = within(self.patience, "sending a heartbeat", beating)
            .await
            .map_err(|error| self.server.whereabouts.told(error))?;
        if counts {
            self.living_put(id.0, living);
        }
        Ok(counts)
    }

    async fn let_go(&self, id: IncarnationId, ended: &Result<(), StoreError>) {
        if let Some(living) = self.living_take(id.0)
            && ended.is_ok()
        {
            // The row says that it ended; a connection that does not close in order ends by itself.
            let _ = within(self.patience, "freeing the evidence of life", living.end()).await;
        }
    }

    async fn look(&self, id: IncarnationId) -> Result<Evidence, StoreError> {
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
    /// One heartbeat on the connection of before, or, when that was lost, on a new one. A connection that fails
    /// is dropped.
    async fn beat_on(&self, living: Option<Living>, id: IncarnationId) -> Result<(bool, Living), sqlx::Error> {
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
        let counts = beat(&mut Session::Postgres(&mut living.connection), id).await?;
        Ok((counts, living))
    }
}

/// The lock is taken before the row can be seen, so that no living row is without its evidence. Answers
/// whether it was free: nobody else asks for that of a new one.
async fn begin(connection: &mut PgConnection, new: &NewIncarnation) -> Result<(Begun, bool), sqlx::Error> {
    let mut transaction = connection.begin().await?;
    let now = now(&mut transaction).await?;
    let mut session = Session::Postgres(&mut transaction);
    if let Some(refusal) = refusal(&mut session, new).await? {
        return Ok((refusal, false));
    }
    let (id, _) = insert(&mut session, new, now).await?;
    let holds = hold(&mut transaction, id).await?;
    transaction.commit().await?;
    Ok((Begun::Alive(id), holds))
}

/// Whether the session holds the evidence of life now.
async fn hold(connection: &mut PgConnection, id: IncarnationId) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(HOLD)
        .bind(INCARNATION_LOCK)
        .bind(id.0)
        .fetch_one(connection)
        .await
}
