//! Dead letters that no queue of the broker takes, on PostgreSQL.

use async_trait::async_trait;
use bytes::Bytes;
use sqlx::PgConnection;

use super::PostgresStore;
use crate::domain::dead_letter::DeadLetterId;
use crate::store::columns::stored;
use crate::store::stored_letters::{stored_letter, stored_letter_columns};
use crate::store::{NewStoredLetter, StoreError, StoredLetter, StoredLetters};

const PUT: &str = "INSERT INTO redrive.stored_letters (letter, message, bytes, at, body) \
    VALUES ($1, $2, $3, redrive.store_now(), $4) ON CONFLICT (letter) DO NOTHING";
const PAGE: &str = concat!(
    "SELECT ",
    stored_letter_columns!(),
    " FROM redrive.stored_letters WHERE place > $1 ORDER BY place LIMIT $2"
);
const GET: &str = concat!(
    "SELECT ",
    stored_letter_columns!(),
    " FROM redrive.stored_letters WHERE letter = $1"
);
const BODY: &str = "SELECT body FROM redrive.stored_letters WHERE place = $1";
const COUNT: &str = "SELECT count(*) FROM redrive.stored_letters";
const DROP: &str = "DELETE FROM redrive.stored_letters WHERE place = ANY($1)";

#[async_trait]
impl StoredLetters for PostgresStore {
    async fn stored_letter_put(&self, letter: &NewStoredLetter) -> Result<bool, StoreError> {
        let query = sqlx::query(PUT)
            .bind(letter.id.as_str())
            .bind(&letter.message[..])
            .bind(stored(letter.body.len() as u64))
            .bind(&letter.body[..]);
        self.call("keeping a dead letter", async |connection: &mut PgConnection| {
            Ok(query.execute(connection).await?.rows_affected() == 1)
        })
        .await
    }

    async fn stored_letters(&self, after: Option<u64>, limit: u32) -> Result<Vec<StoredLetter>, StoreError> {
        let query = sqlx::query(PAGE).bind(after.map_or(-1, stored)).bind(i64::from(limit));
        self.call("reading stored dead letters", async |connection: &mut PgConnection| {
            let rows = query.fetch_all(connection).await?;
            rows.iter().map(stored_letter).collect()
        })
        .await
    }

    async fn stored_letter(&self, id: &DeadLetterId) -> Result<Option<StoredLetter>, StoreError> {
        let query = sqlx::query(GET).bind(id.as_str());
        self.call("reading a stored dead letter", async |connection: &mut PgConnection| {
            let row = query.fetch_optional(connection).await?;
            row.as_ref().map(stored_letter).transpose()
        })
        .await
    }

    async fn stored_letter_body(&self, place: u64) -> Result<Option<Bytes>, StoreError> {
        let query = sqlx::query_scalar(BODY).bind(stored(place));
        self.call(
            "reading the body of a stored dead letter",
            async |connection: &mut PgConnection| {
                let body: Option<Vec<u8>> = query.fetch_optional(connection).await?;
                Ok(body.map(Bytes::from))
            },
        )
        .await
    }

    async fn stored_letters_count(&self) -> Result<u64, StoreError> {
        self.call("counting stored dead letters", async |connection: &mut PgConnection| {
            let count: i64 = sqlx::query_scalar(COUNT).fetch_one(connection).await?;
            Ok(u64::try_from(count).unwrap_or(0))
        })
        .await
    }

    async fn stored_letters_drop(&self, places: &[u64]) -> Result<u64, StoreError> {
        let places: Vec<i64> = places.iter().copied().map(stored).collect();
        self.call(
            "taking out stored dead letters",
            async |connection: &mut PgConnection| {
                Ok(sqlx::query(DROP)
                    .bind(places)
                    .execute(connection)
                    .await?
                    .rows_affected())
            },
        )
        .await
    }
}
