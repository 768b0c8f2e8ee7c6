//! What the user of this program may do with its tables, where they belong to another user: the owner brings the schema
//! up to date, and this one works with it.

use sqlx::{PgConnection, Row};

use crate::domain::text;
use crate::store::MissingRights;

/// Columns of a foreign name that are shown.
const NAME_WIDTH_MAX: usize = 60;
/// Tables that are named; the others are counted.
const NAMED_MAX: usize = 3;
/// Each table or sequence that something is not allowed with.
const LACKING: &str = "SELECT current_user::text AS who, c.relname::text AS name, string_agg(w.name, ', ') AS lacks \
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
    CROSS JOIN LATERAL unnest(CASE WHEN c.relkind = 'S' THEN ARRAY['SELECT', 'UPDATE', 'USAGE'] \
        WHEN c.relname IN ('schema_changes', 'schema_additions') THEN ARRAY['SELECT'] \
        ELSE ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE'] END) AS w (name) \
    WHERE n.nspname = 'redrive' AND c.relkind IN ('r', 'p', 'S') \
        AND NOT CASE WHEN c.relkind = 'S' THEN pg_catalog.has_sequence_privilege(c.oid, w.name) \
            ELSE pg_catalog.has_table_privilege(c.oid, w.name) END \
    GROUP BY c.relname ORDER BY c.relname";
/// What gives the tables that are not in `$1` to those who may do everything with each one that is in it.
const PASS_ON: &str = "WITH before AS (SELECT c.relowner, c.relacl FROM pg_catalog.pg_class c \
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
        WHERE n.nspname = 'redrive' AND c.relkind IN ('r', 'p') AND c.relname::text = ANY($1) \
            AND c.relname NOT IN ('schema_changes', 'schema_additions')), \
     users AS (SELECT a.grantee FROM before b CROSS JOIN LATERAL aclexplode(b.relacl) AS a \
        WHERE a.grantee <> 0 AND a.grantee <> b.relowner \
            AND a.privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE') \
        GROUP BY a.grantee HAVING count(DISTINCT a.privilege_type) = 4 AND count(*) >= 4 * (SELECT count(*) FROM before)) \
     SELECT format('GRANT SELECT, INSERT, UPDATE, DELETE ON redrive.%I TO %I', c.relname, r.rolname) \
     FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
     CROSS JOIN users u JOIN pg_catalog.pg_roles r ON r.oid = u.grantee \
     WHERE n.nspname = 'redrive' AND c.relkind IN ('r', 'p') AND c.relname::text <> ALL($1) ORDER BY 1";

/// A name as it stands in a statement.
pub(super) fn identifier(name: &str) -> String {
    format!("\"{}\"", text::show(name, NAME_WIDTH_MAX).replace('"', "\"\""))
}

/// What the owner of the schema has to run for `user`.
pub(super) fn grants(user: &str) -> String {
    let user = identifier(user);
    format!(
        "GRANT USAGE ON SCHEMA redrive TO {user}; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA redrive \
         TO {user}; GRANT USAGE, SELECT, UPDATE ON ALL SEQUENCES IN SCHEMA redrive TO {user}"
    )
}

/// What is not allowed, and the mend.
pub(super) async fn lacking(connection: &mut PgConnection) -> Result<Option<MissingRights>, sqlx::Error> {
    let rows = sqlx::query(LACKING).fetch_all(connection).await?;
    let Some(first) = rows.first() else { return Ok(None) };
    let user: String = first.try_get("who")?;
    let mut lacks = Vec::new();
    for row in rows.iter().take(NAMED_MAX) {
        let (name, rights): (String, String) = (row.try_get("name")?, row.try_get("lacks")?);
        lacks.push(format!("{rights} on {}", text::show(&name, NAME_WIDTH_MAX)));
    }
    let more = match rows.len() - lacks.len() {
        0 => String::new(),
        more => format!("; and {more} more tables"),
    };
    Ok(Some(MissingRights {
        lacks: format!("the user {} lacks {}{more}", identifier(&user), lacks.join("; ")),
        mend: format!("the owner of the schema has to run `{}`", grants(&user)),
    }))
}

/// Tables that were made just now are for those who work with all that were there `before`.
pub(super) async fn pass_on(connection: &mut PgConnection, before: &[String]) -> Result<(), sqlx::Error> {
    if before.is_empty() {
        return Ok(());
    }
    let statements: Vec<String> = sqlx::query_scalar(PASS_ON)
        .bind(before)
        .fetch_all(&mut *connection)
        .await?;
    for statement in statements {
        sqlx::raw_sql(sqlx::AssertSqlSafe(statement))
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}
