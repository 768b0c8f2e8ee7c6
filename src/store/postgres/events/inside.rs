//! One event in one transaction: taken, handled behind a savepoint, and finished with what its handler did.

use sqlx::PgConnection;

use crate::domain::event::{Event, EventType, HandlingRules};
use crate::store::events::columns::{event, event_columns};
use crate::store::events::verdicts::after_inside;
use crate::store::postgres::PostgresStore;
use crate::store::sql::Session;
use crate::store::sql::events::finish_inside;
use crate::store::{Finished, Inside, StoreError, TransactionHandler};

/// The class of advisory locks on references (`rdre`): two transactions do not handle one of them at once.
const REFERENCE_LOCK: i32 = 0x7264_7265;

const POP: &str = concat!(
    "SELECT ",
    event_columns!(),
    " FROM redrive.events e WHERE e.state = 0 AND e.type = $1 AND e.nbf <= $2 AND e.attempts < $3 \
        AND (e.expires_at IS NULL OR e.expires_at > $2) \
        AND (NOT e.keyed OR NOT EXISTS (SELECT 1 FROM redrive.events s WHERE s.state = 1 AND s.keyed \
            AND s.type = e.type AND s.reference = e.reference)) \
        AND pg_try_advisory_xact_lock($4, hashtext(e.type || ' ' || e.reference)) \
     ORDER BY e.nbf, e.id LIMIT 1 FOR UPDATE OF e SKIP LOCKED"
);
impl PostgresStore {
    /// Handles the next event of a type that is due, in one transaction with what its handler does; `None` when
    /// nothing is due. The whole takes no longer than a call of this store may.
    pub async fn handle_one(
        &self,
        event_type: &EventType,
        rules: &HandlingRules,
        handler: &dyn TransactionHandler<PgConnection>,
    ) -> Result<Option<Finished>, StoreError> {
        self.in_transaction("handling an event", async |connection: &mut PgConnection, now| {
            let query = sqlx::query(POP)
                .bind(event_type.as_str())
                .bind(now.micros())
                .bind(i64::from(rules.cutoff))
                .bind(REFERENCE_LOCK);
            let Some(row) = query.fetch_optional(&mut *connection).await? else {
                return Ok(None);
            };
            let event = event(&row)?;
            let inside = behind_savepoint(connection, handler, &event).await?;
            let end = after_inside(inside, &event, rules, now);
            finish_inside(&mut Session::Postgres(connection), &event, end, now)
                .await
                .map(Some)
        })
        .await
    }
}

async fn behind_savepoint(
    connection: &mut PgConnection,
    handler: &dyn TransactionHandler<PgConnection>,
    event: &Event,
) -> Result<Inside, sqlx::Error> {
    sqlx::query("SAVEPOINT handler").execute(&mut *connection).await?;
    let inside = handler.handle(connection, event).await;
    if matches!(inside, Inside::Failed(_)) {
        sqlx::query("ROLLBACK TO SAVEPOINT handler")
            .execute(&mut *connection)
            .await?;
    }
    sqlx::query("RELEASE SAVEPOINT handler").execute(connection).await?;
    Ok(inside)
}
