//! Taking events: one statement, so that no row stays locked between two of them.

use sqlx::PgConnection;

use crate::domain::event::Event;
use crate::store::columns::micros;
use crate::store::events::columns::{event_columns, readable};
use crate::store::within::read_bytes;
use crate::store::{EventClaim, References};

/// The due ones of a type, one for each reference that nobody has. What two of these statements take at once of
/// one reference, the index over leases refuses. `OFFSET 0`: leases are looked up one by one, not all gathered first.
const TAKE: &str = concat!(
    "WITH clock AS MATERIALIZED (SELECT redrive.store_now() AS now), \
     pick AS MATERIALIZED (SELECT e.id AS picked, CASE WHEN e.keyed THEN e.reference ELSE e.id::text END AS one, \
            e.nbf AS due, COALESCE(octet_length(e.payload), 0) AS bytes \
        FROM redrive.events e WHERE e.state = 0 AND e.type = $1 AND e.nbf <= (SELECT now FROM clock) \
            AND (e.nbf, e.id) > ($6::bigint, $7::bigint) AND e.attempts < $3 \
            AND ($9::bigint = 0 OR (hashtext(e.reference) < 0) = ($9::bigint = 1)) \
            AND (e.expires_at IS NULL OR e.expires_at > (SELECT now FROM clock)) \
            AND (NOT e.keyed OR NOT EXISTS (SELECT 1 FROM redrive.events s WHERE s.state = 1 AND s.keyed \
                AND s.type = e.type AND s.reference = e.reference OFFSET 0)) \
        ORDER BY e.nbf, e.id LIMIT $2 FOR UPDATE OF e SKIP LOCKED), \
     first AS (SELECT picked, row_number() OVER (PARTITION BY one ORDER BY due, picked) AS place, \
            sum(bytes) OVER (ORDER BY due, picked) - bytes AS bytes_before FROM pick) \
     UPDATE redrive.events SET state = 1, lease_revision = revision, \
        lease_token = nextval('redrive.event_token') + (SELECT now FROM clock), lease_owner = $4, \
        lease_until = (SELECT now FROM clock) + $5 \
     FROM first WHERE id = first.picked AND first.place = 1 AND first.bytes_before < $8 RETURNING ",
    event_columns!()
);

pub(in crate::store) async fn take(
    connection: &mut PgConnection,
    claim: &EventClaim,
) -> Result<Vec<Event>, sqlx::Error> {
    let (after, after_id) = claim.after.map_or((i64::MIN, 0), |(nbf, id)| (nbf.micros(), id));
    let rows = sqlx::query(TAKE)
        .bind(claim.event_type.as_str())
        .bind(i64::from(claim.limit))
        .bind(i64::from(claim.cutoff))
        .bind(claim.owner.0)
        .bind(micros(claim.span))
        .bind(after)
        .bind(after_id)
        .bind(read_bytes())
        .bind(match claim.references {
            References::All => 0_i64,
            References::FirstHalf => 1,
            References::SecondHalf => 2,
        })
        .fetch_all(connection)
        .await?;
    let mut events = readable(&rows);
    events.sort_by_key(|event| (event.nbf, event.id));
    Ok(events)
}
