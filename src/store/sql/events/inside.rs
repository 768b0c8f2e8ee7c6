//! The end of an event that was handled inside of a transaction.

use super::remove;
use crate::domain::event::Event;
use crate::domain::time::Timestamp;
use crate::store::Finished;
use crate::store::events::verdicts::InsideEnd;
use crate::store::sql::{Session, Statement, values};

static STAY: Statement = Statement::new(
    "UPDATE redrive.events SET nbf = $2, state = $3, attempts = $4, reason = $5, \
     first_failed_at = CASE WHEN $6 THEN COALESCE(first_failed_at, $7) ELSE first_failed_at END, \
     last_failed_at = CASE WHEN $6 THEN $7 ELSE last_failed_at END WHERE id = $1",
);

/// The event is removed, or stays as its handler left it.
pub(in crate::store) async fn finish_inside(
    session: &mut Session<'_>,
    event: &Event,
    end: InsideEnd,
    now: Timestamp,
) -> Result<Finished, sqlx::Error> {
    let Some(stay) = end.stay else {
        remove(session, event.id).await?;
        return Ok(end.how);
    };
    let values = values![
        event.id,
        stay.nbf,
        stay.state,
        stay.attempts,
        stay.reason,
        stay.failed,
        now
    ];
    session.change(&STAY, values).await?;
    Ok(end.how)
}
