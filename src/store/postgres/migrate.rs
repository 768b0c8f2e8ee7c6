//! Brings the schema to this program's version, or refuses one that is not.
//!
//! What is missing is read and applied in one transaction under a lock, so that of several processes that start at once
//! one applies it. A change is never edited once it is released: the next one follows it.

use sqlx::{Connection as _, PgConnection, PgPool};

use super::error::failed;
use super::rights::{grants, identifier, pass_on};
use super::session::within;
use super::version::holds_all;
use super::{Exclusive, MIGRATION, exclusively};
use crate::domain::schema::{self, Applied, Change, SchemaMode, SchemaRefusal};
use crate::domain::text;
use crate::store::StoreError;

/// Number and statements, ascending.
const CHANGES: &[Change] = &[
    (1, include_str!("migrations/0001.sql")),
    (2, include_str!("migrations/0002.sql")),
    (3, include_str!("migrations/0003.sql")),
];

/// What programs of before can live with.
const ADDITIONS: &[Change] = &[
    (1_001, include_str!("additions/1001.sql")),
    (1_002, include_str!("additions/1002.sql")),
    (1_003, include_str!("additions/1003.sql")),
    (1_004, include_str!("additions/1004.sql")),
    (1_005, include_str!("additions/1005.sql")),
    (1_006, include_str!("additions/1006.sql")),
    (1_007, include_str!("additions/1007.sql")),
];

/// A list of changes, and the table that counts what of it was applied.
struct Track {
    changes: &'static [Change],
    table: &'static str,
    make: &'static str,
    read: &'static str,
    note: &'static str,
}

macro_rules! track {
    ($changes:ident in $table:literal) => {
        Track {
            changes: $changes,
            table: $table,
            make: concat!(
                "CREATE TABLE IF NOT EXISTS redrive.",
                $table,
                " (number bigint PRIMARY KEY, checksum text NOT NULL, applied_at bigint NOT NULL)"
            ),
            read: concat!("SELECT number, checksum FROM redrive.", $table, " ORDER BY number"),
            note: concat!(
                "INSERT INTO redrive.",
                $table,
                " VALUES ($1, $2, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)"
            ),
        }
    };
}

/// In the order in which they are applied.
const TRACKS: [Track; 2] = [
    track!(CHANGES in "schema_changes"),
    track!(ADDITIONS in "schema_additions"),
];

/// Another process may be about to do the same, which takes longer than a call.
const LOCK_PATIENCE: &str = "SET LOCAL lock_timeout = '10s'";
const SCHEMA: &str = "CREATE SCHEMA redrive";
/// The catalogue is read as a table: names that were looked up in vain are remembered by the session, even when another
/// one has made them since.
const RELATIONS: &str = "SELECT c.relname::text FROM pg_catalog.pg_class c \
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
    WHERE n.nspname = 'redrive' AND c.relkind IN ('r', 'p', 'v', 'm', 'f') ORDER BY 1";
const RIGHTS: &str = "SELECT pg_catalog.current_database()::text, current_user::text, \
    EXISTS (SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = 'redrive'), \
    pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE'), \
    coalesce((SELECT pg_catalog.has_schema_privilege(oid, 'CREATE') AND pg_catalog.has_schema_privilege(oid, 'USAGE') \
        FROM pg_catalog.pg_namespace WHERE nspname = 'redrive'), false), \
    pg_catalog.current_setting('server_encoding')";
/// The table of before the first release.
const DEVELOPMENT: &str = "schema_version";
const OURS: &str = "schema_changes";
const READING: &str = "reading the schema's version";
/// Columns of a foreign name that are shown.
const NAME_WIDTH_MAX: usize = 60;

pub(super) async fn run(pool: &PgPool, mode: SchemaMode) -> Result<(), StoreError> {
    let found = within(MIGRATION, READING, found(pool)).await?;
    if !missing(&found)?.is_empty() {
        match mode {
            SchemaMode::Expect => {
                for (track, applied) in TRACKS.iter().zip(&found.applied) {
                    schema::expect(applied, track.changes)?;
                }
            }
            SchemaMode::Bring => bring(pool).await?,
        }
    }
    let relations = within(MIGRATION, READING, async {
        sqlx::query_scalar(RELATIONS).fetch_all(pool).await
    });
    complete(&relations.await?)
}

/// The changes that are missing.
pub(super) async fn pending(pool: &PgPool) -> Result<Vec<Change>, StoreError> {
    let found = within(MIGRATION, READING, found(pool)).await?;
    missing(&found)
}

async fn bring(pool: &PgPool) -> Result<(), StoreError> {
    const OPERATION: &str = "bringing the schema up to date";
    // What a bound cuts off here is closed with its pool.
    let brought = within(MIGRATION, OPERATION, async { Ok(apply_missing(pool).await) }).await?;
    match brought {
        Ok(refused) => Ok(refused?),
        Err(error) if is_right_missing(&error) => Err(within(MIGRATION, READING, rights(pool)).await?.refusal()),
        Err(error) => Err(failed(OPERATION)(error)),
    }
}

struct InDatabase {
    relations: Vec<String>,
    applied: [Applied; TRACKS.len()],
    rights: Option<Rights>,
}

async fn found(pool: &PgPool) -> Result<InDatabase, sqlx::Error> {
    let mut connection = pool.acquire().await?;
    match read(&mut connection).await {
        Ok((relations, applied)) => Ok(InDatabase {
            relations,
            applied,
            rights: None,
        }),
        Err(error) if is_right_missing(&error) => Ok(InDatabase {
            relations: Vec::new(),
            applied: Default::default(),
            rights: Some(rights(pool).await?),
        }),
        Err(error) => Err(error),
    }
}

/// The tables of the schema, and the changes that were applied; none in an empty database.
async fn read(connection: &mut PgConnection) -> Result<(Vec<String>, [Applied; TRACKS.len()]), sqlx::Error> {
    let relations: Vec<String> = sqlx::query_scalar(RELATIONS).fetch_all(&mut *connection).await?;
    let mut all: [Applied; TRACKS.len()] = Default::default();
    for (track, applied) in TRACKS.iter().zip(&mut all) {
        if relations.iter().any(|one| one == track.table) {
            *applied = sqlx::query_as(track.read).fetch_all(&mut *connection).await?;
        }
    }
    Ok((relations, all))
}

fn missing(found: &InDatabase) -> Result<Vec<Change>, StoreError> {
    if let Some(rights) = &found.rights {
        return Err(rights.unreadable());
    }
    ours(&found.relations)?;
    let mut all = Vec::new();
    for (track, applied) in TRACKS.iter().zip(&found.applied) {
        all.extend_from_slice(schema::missing(applied, track.changes)?);
    }
    Ok(all)
}

/// Refuses a schema of this name that somebody else made something in.
fn ours(relations: &[String]) -> Result<(), SchemaRefusal> {
    if relations.iter().any(|one| one == DEVELOPMENT) {
        return Err(SchemaRefusal::Development);
    }
    match relations.first() {
        Some(foreign) if relations.iter().all(|one| one != OURS) => Err(SchemaRefusal::Foreign {
            what: "the schema \"redrive\" of the database".to_owned(),
            found: format!("the table {:?}", text::show(foreign, NAME_WIDTH_MAX)),
        }),
        Some(_) | None => Ok(()),
    }
}

/// The names of all tables that the changes and the additions make.
pub(super) fn tables() -> Vec<&'static str> {
    let made = TRACKS.iter().flat_map(|track| schema::tables(track.changes));
    made.map(|table| table.strip_prefix("redrive.").unwrap_or(table))
        .collect()
}

/// A table that is gone is missed now, and not when somebody needs it.
fn complete(relations: &[String]) -> Result<(), StoreError> {
    let lost = |table: &&str| relations.iter().all(|one| one != table);
    match tables().into_iter().find(lost) {
        None => Ok(()),
        Some(table) => Err(SchemaRefusal::Damaged {
            table: table.to_owned(),
        }
        .into()),
    }
}

/// Looks again, now alone, and applies what is missing. The lock is the first thing in the transaction, so that what
/// follows sees all that others did before.
async fn apply_missing(pool: &PgPool) -> Result<Result<(), SchemaRefusal>, sqlx::Error> {
    let mut connection = pool.acquire().await?;
    let mut transaction = connection.begin().await?;
    sqlx::raw_sql(LOCK_PATIENCE).execute(&mut *transaction).await?;
    exclusively(&mut transaction, Exclusive::Migrating).await?;
    let rights = rights_of(&mut transaction).await?;
    if !rights.schema_exists {
        sqlx::raw_sql(SCHEMA).execute(&mut *transaction).await?;
    }
    let (relations, all) = read(&mut transaction).await?;
    if let Err(refusal) = ours(&relations) {
        return Ok(Err(refusal));
    }
    if relations.is_empty() && !holds_all(&rights.encoding) {
        let found = rights.encoding;
        return Ok(Err(SchemaRefusal::Encoding { found }));
    }
    for (track, applied) in TRACKS.iter().zip(&all) {
        let missing = match schema::missing(applied, track.changes) {
            Ok(missing) => missing,
            Err(refusal) => return Ok(Err(refusal)),
        };
        sqlx::raw_sql(track.make).execute(&mut *transaction).await?;
        for (number, statements) in missing {
            sqlx::raw_sql(*statements).execute(&mut *transaction).await?;
            let note = sqlx::query(track.note).bind(number).bind(schema::checksum(statements));
            note.execute(&mut *transaction).await?;
        }
    }
    pass_on(&mut transaction, &relations).await?;
    transaction.commit().await?;
    Ok(Ok(()))
}

fn is_right_missing(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    code.is_some_and(|code| code == "42501")
}

/// What the user may do, for the sentence that names what is lacking.
struct Rights {
    database: String,
    user: String,
    schema_exists: bool,
    may_make_schema: bool,
    may_use_schema: bool,
    encoding: String,
}

async fn rights(pool: &PgPool) -> Result<Rights, sqlx::Error> {
    rights_of(&mut *pool.acquire().await?).await
}

async fn rights_of(connection: &mut PgConnection) -> Result<Rights, sqlx::Error> {
    let (database, user, schema_exists, may_make_schema, may_use_schema, encoding) =
        sqlx::query_as(RIGHTS).fetch_one(connection).await?;
    Ok(Rights {
        database,
        user,
        schema_exists,
        may_make_schema,
        may_use_schema,
        encoding,
    })
}

impl Rights {
    /// Why the schema cannot be made or brought up to date.
    fn refusal(&self) -> StoreError {
        let (database, user) = (identifier(&self.database), identifier(&self.user));
        let problem = if !self.schema_exists && !self.may_make_schema {
            format!(
                "leads to the database {database}, where the user {user} may not make the schema: an administrator has \
                 to run `GRANT CREATE ON DATABASE {database} TO {user}`"
            )
        } else if !self.may_use_schema {
            format!(
                "leads to the database {database}, where the user {user} may make nothing in the schema: an \
                 administrator has to run `GRANT USAGE, CREATE ON SCHEMA redrive TO {user}`"
            )
        } else {
            format!(
                "leads to the database {database}, whose schema belongs to another user than {user}: its owner has to \
                 run `redrive store migrate`"
            )
        };
        StoreError::Unusable { problem }
    }

    /// Why what is there cannot be read.
    fn unreadable(&self) -> StoreError {
        let (database, user) = (identifier(&self.database), identifier(&self.user));
        StoreError::Unusable {
            problem: format!(
                "leads to the database {database}, whose schema the user {user} may not read: its owner has to run `{}`",
                grants(&self.user)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_the_schema_tells_whose_it_is() {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        assert_eq!(ours(&names(&[])), Ok(()));
        assert_eq!(ours(&names(&["audit", OURS])), Ok(()));
        assert_eq!(ours(&names(&["audit", DEVELOPMENT])), Err(SchemaRefusal::Development));
        let foreign = ours(&names(&["cats"])).unwrap_err().to_string();
        assert_eq!(
            foreign,
            "the schema \"redrive\" of the database is not redrive's: it has the table \"cats\"; name another store"
        );
    }
}
