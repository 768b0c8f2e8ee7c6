//! Dead letters that no queue of the broker takes, in a SQLite file.

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::json;

use super::SqliteStore;
use super::error::unread;
use crate::domain::dead_letter::DeadLetterId;
use crate::store::columns::stored;
use crate::store::stored_letters::{stored_letter, stored_letter_columns};
use crate::store::{NewStoredLetter, StoreError, StoredLetter, StoredLetters};

const PUT: &str = "INSERT INTO stored_letters (letter, message, bytes, at, body) VALUES ($1, $2, $3, $4, $5) \
    ON CONFLICT (letter) DO NOTHING";
const PAGE: &str = concat!(
    "SELECT ",
    stored_letter_columns!(),
    " FROM stored_letters WHERE place > $1 ORDER BY place LIMIT $2"
);
const GET: &str = concat!(
    "SELECT ",
    stored_letter_columns!(),
    " FROM stored_letters WHERE letter = $1"
);
const BODY: &str = "SELECT body FROM stored_letters WHERE place = $1";
const COUNT: &str = "SELECT count(*) FROM stored_letters";
const DROP: &str = "DELETE FROM stored_letters WHERE place IN (SELECT value FROM json_each($1))";

#[async_trait]
impl StoredLetters for SqliteStore {
    async fn stored_letter_put(&self, letter: &NewStoredLetter) -> Result<bool, StoreError> {
        let (letter, now) = (letter.clone(), self.clock.now().micros());
        self.write("keeping a dead letter", move |connection| {
            Box::pin(async move {
                let query = sqlx::query(PUT)
                    .bind(letter.id.as_str())
                    .bind(&letter.message[..])
                    .bind(stored(letter.body.len() as u64))
                    .bind(now)
                    .bind(&letter.body[..]);
                Ok(query.execute(connection).await?.rows_affected() == 1)
            })
        })
        .await
    }

    async fn stored_letters(&self, after: Option<u64>, limit: u32) -> Result<Vec<StoredLetter>, StoreError> {
        let operation = "reading stored dead letters";
        let query = sqlx::query(PAGE).bind(after.map_or(-1, stored)).bind(i64::from(limit));
        let rows = query.fetch_all(self.readers()).await.map_err(unread(operation))?;
        rows.iter()
            .map(stored_letter)
            .collect::<Result<_, _>>()
            .map_err(unread(operation))
    }

    async fn stored_letter(&self, id: &DeadLetterId) -> Result<Option<StoredLetter>, StoreError> {
        let operation = "reading a stored dead letter";
        let query = sqlx::query(GET).bind(id.as_str());
        let row = query.fetch_optional(self.readers()).await.map_err(unread(operation))?;
        row.as_ref().map(stored_letter).transpose().map_err(unread(operation))
    }

    async fn stored_letter_body(&self, place: u64) -> Result<Option<Bytes>, StoreError> {
        let body: Option<Vec<u8>> = sqlx::query_scalar(BODY)
            .bind(stored(place))
            .fetch_optional(self.readers())
            .await
            .map_err(unread("reading the body of a stored dead letter"))?;
        Ok(body.map(Bytes::from))
    }

    async fn stored_letters_count(&self) -> Result<u64, StoreError> {
        let count: i64 = sqlx::query_scalar(COUNT)
            .fetch_one(self.readers())
            .await
            .map_err(unread("counting stored dead letters"))?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    async fn stored_letters_drop(&self, places: &[u64]) -> Result<u64, StoreError> {
        let places = json!(places).to_string();
        self.write("taking out stored dead letters", move |connection| {
            Box::pin(async move {
                Ok(sqlx::query(DROP)
                    .bind(places)
                    .execute(connection)
                    .await?
                    .rows_affected())
            })
        })
        .await
    }
}
