//! What a daemon knows of the broker, in a SQLite file.

use std::time::Duration;

use async_trait::async_trait;

use super::SqliteStore;
use super::error::unread;
use crate::domain::id::QueueName;
use crate::domain::time::Timestamp;
use crate::store::broker_facts::{LOOKS_KEPT, LOOKS_TRIMMED};
use crate::store::{BrokerFacts, KeptPolicies, StoreError};

const NAME: &str = "SELECT broker FROM settings";
const NAME_KEEP: &str = "UPDATE settings SET broker = $1";
const POLICIES_KEEP: &str = "INSERT INTO broker_policies (only_row, document, taken_at) VALUES (1, $1, $2) \
    ON CONFLICT (only_row) DO UPDATE SET document = excluded.document, taken_at = excluded.taken_at";
const POLICIES_KEPT: &str = "SELECT document, taken_at FROM broker_policies";
const LOOKS_FIRST: &str = "INSERT INTO looks (queue, seen, at) VALUES ($1, $2, $3) ON CONFLICT (queue) DO NOTHING";
const LOOKS_KEEP: &str = "UPDATE looks SET seen = $2, at = $3 WHERE queue = $1 AND seen = $4";
const LOOKS_TRIM: &str = "DELETE FROM looks WHERE queue IN (SELECT queue FROM looks WHERE at < $1 LIMIT $2)";
const LOOKS: &str = "SELECT seen FROM looks WHERE queue = $1";

#[async_trait]
impl BrokerFacts for SqliteStore {
    async fn broker_name(&self) -> Result<Option<String>, StoreError> {
        sqlx::query_scalar(NAME)
            .fetch_one(self.readers())
            .await
            .map_err(unread("reading whose the store is"))
    }

    async fn broker_name_keep(&self, name: &str) -> Result<(), StoreError> {
        let name = name.to_owned();
        self.write("keeping whose the store is", move |connection| {
            Box::pin(async move { sqlx::query(NAME_KEEP).bind(name).execute(connection).await.map(drop) })
        })
        .await
    }

    async fn broker_policies_keep(&self, document: &str) -> Result<(), StoreError> {
        let (document, now) = (document.to_owned(), self.clock.now().micros());
        self.write("keeping the broker's policies", move |connection| {
            Box::pin(async move {
                let keep = sqlx::query(POLICIES_KEEP).bind(document).bind(now);
                keep.execute(connection).await.map(drop)
            })
        })
        .await
    }

    async fn broker_policies_kept(&self) -> Result<Option<KeptPolicies>, StoreError> {
        let kept: Option<(String, i64)> = sqlx::query_as(POLICIES_KEPT)
            .fetch_optional(self.readers())
            .await
            .map_err(unread("reading the broker's policies"))?;
        let now = self.clock.now();
        Ok(kept.map(|(document, taken_at)| KeptPolicies {
            document,
            // A clock that was set back makes them old, and not new for as long as it was set back by.
            age: if now.micros() < taken_at {
                Duration::MAX
            } else {
                now.since(Timestamp::from_micros(taken_at))
            },
        }))
    }

    async fn looks_keep(&self, queue: &QueueName, before: Option<&str>, seen: &str) -> Result<bool, StoreError> {
        let (queue, seen, now) = (queue.clone(), seen.to_owned(), self.clock.now());
        let before = before.map(str::to_owned);
        self.write("keeping what looks cost", move |connection| {
            Box::pin(async move {
                let statement = if before.is_some() { LOOKS_KEEP } else { LOOKS_FIRST };
                let mut keep = sqlx::query(statement)
                    .bind(queue.as_str())
                    .bind(seen)
                    .bind(now.micros());
                if let Some(before) = before {
                    keep = keep.bind(before);
                }
                let kept = keep.execute(&mut *connection).await?.rows_affected() > 0;
                let trim = sqlx::query(LOOKS_TRIM)
                    .bind(now.minus(LOOKS_KEPT).micros())
                    .bind(LOOKS_TRIMMED);
                trim.execute(connection).await?;
                Ok(kept)
            })
        })
        .await
    }

    async fn looks_kept(&self, queue: &QueueName) -> Result<Option<String>, StoreError> {
        sqlx::query_scalar(LOOKS)
            .bind(queue.as_str())
            .fetch_optional(self.readers())
            .await
            .map_err(unread("reading what looks cost"))
    }
}
