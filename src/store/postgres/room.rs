//! Whether a table of this database can still grow. On a full disk what is updated in place is written all the same, for
//! as long as there is room in its page, so that a write of one row says nothing.

use sqlx::PgConnection;

/// Without this right nothing is said.
const MAY: &str = "SELECT pg_catalog.has_database_privilege(pg_catalog.current_database(), 'TEMPORARY')";
/// Beside the tables of the schema, whatever `temp_tablespaces` says.
const BESIDE: &str = "SET LOCAL temp_tablespaces TO ''";
const MAKE: &str = "CREATE TEMPORARY TABLE redrive_room (bytes text NOT NULL) ON COMMIT DROP";
/// Some 200 KiB, in rows so short that none of them is compressed.
const FILL: &str = "INSERT INTO pg_temp.redrive_room SELECT repeat('x', 1900) FROM generate_series(1, 100)";

/// # Errors
/// That of the server, where there is no room.
pub(super) async fn look(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    if !sqlx::query_scalar::<_, bool>(MAY).fetch_one(&mut *connection).await? {
        return Ok(());
    }
    for statement in [BESIDE, MAKE, FILL] {
        sqlx::query(statement).execute(&mut *connection).await?;
    }
    Ok(())
}
