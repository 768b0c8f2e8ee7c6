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
    " FROM unnest($1::text[], $2::text[], $3::text[], $4::bytea[], $5::text[], $6::bigint[], $7::text[], \
     $8::bigint[], $9::bigint[]) AS k (",
    kept_columns!(),
    ") WHERE TRUE ON CONFLICT (kind, letter) DO UPDATE SET queue = excluded.queue, message = excluded.message, \
     run = excluded.run, ordinal = excluded.ordinal, actor = excluded.actor, at = excluded.at, until = excluded.until"
));
/// In the order in which they were kept. `$which` may take `$7`.
macro_rules! kept {
    ($which:literal) => {
        Statement::new(concat!(
            "SELECT ",
            kept_columns!(),
            " FROM redrive.kept_messages WHERE kind = $1 AND (at, ordinal, letter) > ($2, $3, $4) \
              AND ($5::text IS NULL OR run = $5)",
            $which,
            " ORDER BY at, ordinal, letter LIMIT $6"
        ))
    };
}
static KEPT_ALL: Statement = kept!("");
static KEPT_NAMED: Statement = kept!(" AND letter = ANY($7)");
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
        let place = query.after.as_ref();
        let (at, ordinal, letter) = place.map_or((0, -1, ""), |place| {
            (place.at.micros(), place.ordinal.cast_signed(), place.letter.as_str())
        });
        let (operation, kind) = ("listing kept messages", query.kind.as_str());
        if query.letters.is_empty() {
            let values = values![kind, at, ordinal, letter, &query.run, query.limit];
            return self.list(operation, &KEPT_ALL, values, kept_message).await;
        }
        let values = values![kind, at, ordinal, letter, &query.run, query.limit, &query.letters];
        self.list(operation, &KEPT_NAMED, values, kept_message).await
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
        kept.ordinal,
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
