//! What a daemon knows of the broker, on PostgreSQL.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::PgConnection;

use super::{PostgresStore, storable};
use crate::domain::id::QueueName;
use crate::store::broker_facts::{LOOKS_KEPT, LOOKS_TRIMMED};
use crate::store::{BrokerFacts, KeptPolicies, StoreError};

const NAME: &str = "SELECT broker FROM redrive.settings";
const NAME_KEEP: &str = "UPDATE redrive.settings SET broker = $1";
const POLICIES_KEEP: &str = "INSERT INTO redrive.broker_policies (only_row, document, taken_at) \
    VALUES (1, $1, redrive.store_now()) \
    ON CONFLICT (only_row) DO UPDATE SET document = excluded.document, taken_at = excluded.taken_at";
const POLICIES_KEPT: &str = "SELECT document, redrive.store_now() - taken_at FROM redrive.broker_policies";
const LOOKS_FIRST: &str = "INSERT INTO redrive.looks (queue, seen, at) VALUES ($1, $2, redrive.store_now()) \
    ON CONFLICT (queue) DO NOTHING";
const LOOKS_KEEP: &str = "UPDATE redrive.looks SET seen = $2, at = redrive.store_now() WHERE queue = $1 AND seen = $3";
const LOOKS_TRIM: &str = "DELETE FROM redrive.looks WHERE queue IN \
    (SELECT queue FROM redrive.looks WHERE at < redrive.store_now() - $1 LIMIT $2)";
const LOOKS: &str = "SELECT seen FROM redrive.looks WHERE queue = $1";

#[async_trait]
impl BrokerFacts for PostgresStore {
    async fn broker_name(&self) -> Result<Option<String>, StoreError> {
        self.call("reading whose the store is", async |connection: &mut PgConnection| {
            sqlx::query_scalar(NAME).fetch_one(connection).await
        })
        .await
    }

    async fn broker_name_keep(&self, name: &str) -> Result<(), StoreError> {
        let query = sqlx::query(NAME_KEEP).bind(storable(name));
        self.call("keeping whose the store is", async |connection: &mut PgConnection| {
            query.execute(connection).await.map(drop)
        })
        .await
    }

    async fn broker_policies_keep(&self, document: &str) -> Result<(), StoreError> {
        let query = sqlx::query(POLICIES_KEEP).bind(storable(document));
        self.call(
            "keeping the broker's policies",
            async |connection: &mut PgConnection| query.execute(connection).await.map(drop),
        )
        .await
    }

    async fn broker_policies_kept(&self) -> Result<Option<KeptPolicies>, StoreError> {
        self.call(
            "reading the broker's policies",
            async |connection: &mut PgConnection| {
                let kept: Option<(String, i64)> = sqlx::query_as(POLICIES_KEPT).fetch_optional(connection).await?;
                Ok(kept.map(|(document, micros)| KeptPolicies {
                    document,
                    // A clock that was set back makes them old, and not new for as long as it was set back by.
                    age: u64::try_from(micros).map_or(Duration::MAX, Duration::from_micros),
                }))
            },
        )
        .await
    }

    async fn looks_keep(&self, queue: &QueueName, before: Option<&str>, seen: &str) -> Result<bool, StoreError> {
        let kept = i64::try_from(LOOKS_KEPT.as_micros()).unwrap_or(i64::MAX);
        self.transaction("keeping what looks cost", async |connection: &mut PgConnection, _| {
            let statement = if before.is_some() { LOOKS_KEEP } else { LOOKS_FIRST };
            let mut keep = sqlx::query(statement)
                .bind(storable(queue.as_str()))
                .bind(storable(seen));
            if let Some(before) = before {
                keep = keep.bind(storable(before));
            }
            let is_kept = keep.execute(&mut *connection).await?.rows_affected() > 0;
            let trim = sqlx::query(LOOKS_TRIM).bind(kept).bind(LOOKS_TRIMMED);
            trim.execute(connection).await?;
            Ok(is_kept)
        })
        .await
    }

    async fn looks_kept(&self, queue: &QueueName) -> Result<Option<String>, StoreError> {
        let query = sqlx::query_scalar(LOOKS).bind(storable(queue.as_str()));
        self.call("reading what looks cost", async |connection: &mut PgConnection| {
            query.fetch_optional(connection).await
        })
        .await
    }
}
