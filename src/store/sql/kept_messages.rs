//! Kept messages. What comes in hundreds goes in as one statement, and is forgotten by one.

use async_trait::async_trait;

use super::{Calls, Driver, Session, Statement, columns, values};
use crate::domain::time::Timestamp;
use crate::store::columns::{kept_columns, kept_message};
use crate::store::{KeptKind, KeptMessage, KeptMessages, KeptQuery, StoreError};

static KEEP: Statement = Statement::new(concat!(
    "INSERT INTO redrive.kept_messages (",
    kept_columns!(),
    ") SELECT ",
    kept_columns!(),
    " FROM unnest($1::text[], $2::text[], $3::text[], $4::bytea[], $5::text[], $6::text[], $7::bigint[], \
     $8::bigint[]) AS k (",
    kept_columns!(),
    ") WHERE TRUE ON CONFLICT (kind, letter) DO UPDATE SET queue = excluded.queue, message = excluded.message, \
     run = excluded.run, actor = excluded.actor, at = excluded.at, until = excluded.until"
));
static KEPT: Statement = Statement::new(concat!(
    "SELECT ",
    kept_columns!(),
    " FROM redrive.kept_messages WHERE kind = $1 AND letter > $2 AND ($3::text IS NULL OR run = $3) \
     AND ($4 OR letter = ANY($5)) ORDER BY letter LIMIT $6"
));
static KEPT_GET: Statement = Statement::new(concat!(
    "SELECT ",
    kept_columns!(),
    " FROM redrive.kept_messages WHERE kind = $1 AND letter = $2"
));
static KEPT_DROP: Statement = Statement::new(
    "DELETE FROM redrive.kept_messages WHERE (kind, letter) IN \
     (SELECT kind, letter FROM unnest($1::text[], $2::text[]) AS f (kind, letter))",
);

#[async_trait]
impl<D: Driver> KeptMessages for D {
    async fn kept_put(&self, kept: &[KeptMessage]) -> Result<(), StoreError> {
        let kept = kept.to_vec();
        self.transaction("keeping messages", move |mut session, now| {
            Box::pin(async move { keep(&mut session, &kept, now).await })
        })
        .await
    }

    async fn kept_get(&self, letter: &str, kind: KeptKind) -> Result<Option<KeptMessage>, StoreError> {
        let values = values![kind.as_str(), letter];
        self.find("reading a kept message", &KEPT_GET, values, kept_message)
            .await
    }

    async fn kept_list(&self, query: &KeptQuery) -> Result<Vec<KeptMessage>, StoreError> {
        let values = values![
            query.kind.as_str(),
            query.after.as_deref().unwrap_or_default(),
            &query.run,
            query.letters.is_empty(),
            &query.letters,
            query.limit,
        ];
        self.list("listing kept messages", &KEPT, values, kept_message).await
    }

    async fn kept_drop(&self, letter: &str, kind: KeptKind) -> Result<bool, StoreError> {
        let values = values![dropped(&[(letter.to_owned(), kind)])];
        Ok(self.change("forgetting a kept message", &KEPT_DROP, values).await? == 1)
    }
}

/// Within the caller's transaction.
pub(super) async fn keep(session: &mut Session<'_>, kept: &[KeptMessage], now: Timestamp) -> Result<(), sqlx::Error> {
    if kept.is_empty() {
        return Ok(());
    }
    let kept = columns![kept => |kept|
        &kept.letter,
        kept.kind.as_str(),
        &kept.queue,
        &kept.message,
        &kept.run,
        &kept.actor,
        now,
        kept.keep_for.map(|span| now.plus(span)),
    ];
    session.change(&KEEP, values![kept]).await.map(drop)
}

/// Within the caller's transaction.
pub(super) async fn forget(session: &mut Session<'_>, letters: &[(String, KeptKind)]) -> Result<(), sqlx::Error> {
    if letters.is_empty() {
        return Ok(());
    }
    session.change(&KEPT_DROP, values![dropped(letters)]).await.map(drop)
}

fn dropped(letters: &[(String, KeptKind)]) -> super::Value {
    columns![letters => |one| one.1.as_str(), &one.0]
}
