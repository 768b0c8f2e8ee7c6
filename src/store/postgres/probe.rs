//! A look at a database before anything of ours is in it: can it be entered, is there a right to make our schema.
//! Changes nothing.

use std::time::Duration;

use crate::ambient::timeout;
use sqlx::{ConnectOptions as _, Connection as _, Row};

use super::connect::options;
use super::error::{Whereabouts, connecting, failed};
use crate::domain::id::StoreId;
use crate::store::StoreError;

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Of the server.
    pub version: String,
    /// Something of ours ran here before.
    pub prepared: bool,
    /// The identity of the store, where it has one.
    pub identity: Option<StoreId>,
    /// The schema could be made.
    pub may_create: bool,
}

/// Connects, looks, and leaves.
pub async fn probe(url: &str, patience: Duration) -> Result<Probe, StoreError> {
    let options = options(url)?;
    let at = Whereabouts::of(&options, patience);
    let failed_to_connect = |error| connecting(&at, error);
    let Ok(connected) = timeout(patience, options.connect()).await else {
        return Err(failed_to_connect(sqlx::Error::PoolTimedOut));
    };
    let mut connection = connected.map_err(failed_to_connect)?;
    let looking = sqlx::query(
        "SELECT current_setting('server_version') AS version,
                to_regclass('redrive.settings') IS NOT NULL AS prepared,
                has_database_privilege(current_database(), 'CREATE') AS may_create",
    )
    .fetch_one(&mut connection);
    let Ok(looked) = timeout(patience, looking).await else {
        return Err(failed_to_connect(sqlx::Error::PoolTimedOut));
    };
    let row = looked.map_err(failed("looking"))?;
    let get = |error| failed("looking")(error);
    let prepared: bool = row.try_get("prepared").map_err(get)?;
    let identity: Option<String> = if prepared {
        // Who may not read it is told by the first start.
        let asked = sqlx::query_scalar(super::identity::IDENTITY.postgres()).fetch_one(&mut connection);
        timeout(patience, asked).await.ok().and_then(Result::ok).flatten()
    } else {
        None
    };
    let found = Probe {
        identity: identity.and_then(|text| StoreId::parse(&text).ok()),
        version: row.try_get("version").map_err(get)?,
        prepared,
        may_create: row.try_get("may_create").map_err(get)?,
    };
    let _ = timeout(patience, connection.close()).await;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[tokio::test]
    async fn a_database_at_a_closed_port_is_told_in_words() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        drop(listener);
        let url = format!("postgres://u:s3cret@{at}/d?sslmode=disable");
        let error = probe(&url, Duration::from_secs(5)).await.unwrap_err();
        let words = format!("connection refused: nothing listens at {at}");
        assert_eq!(error.source().unwrap().to_string(), words);
    }
}
