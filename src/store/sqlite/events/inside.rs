//! One event in one transaction: taken, handled behind a savepoint, and finished with what its handler did.

use std::sync::Arc;

use sqlx::sqlite::SqliteConnection;

use crate::domain::event::{Event, EventType, HandlingRules};
use crate::store::events::columns::{event, event_columns};
use crate::store::events::verdicts::after_inside;
use crate::store::sql::Session;
use crate::store::sql::events::finish_inside;
use crate::store::sqlite::SqliteStore;
use crate::store::{Finished, Inside, StoreError, TransactionHandler};

const POP: &str = concat!(
    "SELECT ",
    event_columns!(),
    " FROM events AS e WHERE e.state = 0 AND e.type = $1 AND e.nbf <= $2 AND e.attempts < $3 \
        AND (e.expires_at IS NULL OR e.expires_at > $2) \
        AND (NOT e.keyed OR NOT EXISTS (SELECT 1 FROM events AS s WHERE s.state = 1 AND s.keyed \
            AND s.type = e.type AND s.reference = e.reference)) \
     ORDER BY e.nbf, e.id LIMIT 1"
);
impl SqliteStore {
    /// Handles the next event of a type that is due, in one transaction with what its handler does; `None` when
    /// nothing is due. Every other write of the file waits meanwhile.
    pub async fn handle_one(
        &self,
        event_type: &EventType,
        rules: &HandlingRules,
        handler: Arc<dyn TransactionHandler<SqliteConnection>>,
    ) -> Result<Option<Finished>, StoreError> {
        let (event_type, rules, now) = (event_type.clone(), *rules, self.clock.now());
        self.work("handling an event", move |connection| {
            Box::pin(async move {
                let query = sqlx::query(POP)
                    .bind(event_type.as_str())
                    .bind(now.micros())
                    .bind(i64::from(rules.cutoff));
                let Some(row) = query.fetch_optional(&mut *connection).await? else {
                    return Ok(None);
                };
                let event = event(&row)?;
                let inside = behind_savepoint(connection, &*handler, &event).await?;
                let end = after_inside(inside, &event, &rules, now);
                finish_inside(&mut Session::Writer(connection, now), &event, end, now)
                    .await
                    .map(Some)
            })
        })
        .await
    }
}

async fn behind_savepoint(
    connection: &mut SqliteConnection,
    handler: &dyn TransactionHandler<SqliteConnection>,
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
