//! Dead letters that no queue of the broker takes.

use async_trait::async_trait;
use bytes::Bytes;

use super::{Calls, Driver, Statement, values};
use crate::domain::dead_letter::DeadLetterId;
use crate::store::columns::{Columns, number, stored};
use crate::store::stored_letters::{stored_letter, stored_letter_columns};
use crate::store::{NewStoredLetter, StoreError, StoredLetter, StoredLetters};

static PUT: Statement = Statement::new(
    "INSERT INTO redrive.stored_letters (letter, message, bytes, at, body) \
     VALUES ($1, $2, $3, redrive.store_now(), $4) ON CONFLICT (letter) DO NOTHING",
);
static PAGE: Statement = Statement::new(concat!(
    "SELECT ",
    stored_letter_columns!(),
    " FROM redrive.stored_letters WHERE place > $1 ORDER BY place LIMIT $2"
));
static GET: Statement = Statement::new(concat!(
    "SELECT ",
    stored_letter_columns!(),
    " FROM redrive.stored_letters WHERE letter = $1"
));
static BODY: Statement = Statement::new("SELECT body FROM redrive.stored_letters WHERE place = $1");
static COUNT: Statement = Statement::new("SELECT count(*) AS count FROM redrive.stored_letters");
static DROP: Statement = Statement::new("DELETE FROM redrive.stored_letters WHERE place = ANY($1)");

#[async_trait]
impl<D: Driver> StoredLetters for D {
    async fn stored_letter_put(&self, letter: &NewStoredLetter) -> Result<bool, StoreError> {
        let values = values![
            letter.id.as_str(),
            &letter.message[..],
            letter.body.len() as u64,
            &letter.body[..],
        ];
        Ok(self.change("keeping a dead letter", &PUT, values).await? == 1)
    }

    async fn stored_letters(&self, after: Option<u64>, limit: u32) -> Result<Vec<StoredLetter>, StoreError> {
        let values = values![after.map_or(-1, stored), limit];
        self.list("reading stored dead letters", &PAGE, values, stored_letter)
            .await
    }

    async fn stored_letter(&self, id: &DeadLetterId) -> Result<Option<StoredLetter>, StoreError> {
        let values = values![id.as_str()];
        self.find("reading a stored dead letter", &GET, values, stored_letter)
            .await
    }

    async fn stored_letter_body(&self, place: u64) -> Result<Option<Bytes>, StoreError> {
        let operation = "reading the body of a stored dead letter";
        let body = self.find(operation, &BODY, values![place], |row| row.bytes("body"));
        Ok(body.await?.flatten().map(Bytes::from))
    }

    async fn stored_letters_count(&self) -> Result<u64, StoreError> {
        self.one("counting stored dead letters", &COUNT, values![], |row| {
            number(row, "count")
        })
        .await
    }

    async fn stored_letters_drop(&self, places: &[u64]) -> Result<u64, StoreError> {
        let places: Vec<i64> = places.iter().copied().map(stored).collect();
        self.change("taking out stored dead letters", &DROP, values![places])
            .await
    }
}
