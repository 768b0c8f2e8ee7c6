//! What a daemon knows of the broker.

use std::time::Duration;

use async_trait::async_trait;

use super::retention::ages_at;
use super::{Calls, Driver, Row, Statement, values};
use crate::domain::id::QueueName;
use crate::store::broker_facts::{LOOKS_KEPT, LOOKS_TRIMMED};
use crate::store::columns::{Columns, integer, text};
use crate::store::{BrokerFacts, KeptPolicies, StoreError};

static NAME: Statement = Statement::new("SELECT broker FROM redrive.settings");
static NAME_KEEP: Statement = Statement::new("UPDATE redrive.settings SET broker = $1");
static POLICIES_KEEP: Statement = Statement::new(
    "INSERT INTO redrive.broker_policies (only_row, document, taken_at) VALUES (1, $1, redrive.store_now()) \
     ON CONFLICT (only_row) DO UPDATE SET document = excluded.document, taken_at = excluded.taken_at",
);
static POLICIES_KEPT: Statement =
    Statement::new("SELECT document, redrive.store_now() - taken_at AS age FROM redrive.broker_policies");
static LOOKS_FIRST: Statement = Statement::new(
    "INSERT INTO redrive.looks (queue, seen, at) VALUES ($1, $2, redrive.store_now()) ON CONFLICT (queue) DO NOTHING",
);
static LOOKS_KEEP: Statement =
    Statement::new("UPDATE redrive.looks SET seen = $2, at = redrive.store_now() WHERE queue = $1 AND seen = $3");
static LOOKS_TRIM: Statement =
    Statement::new("DELETE FROM redrive.looks WHERE queue IN (SELECT queue FROM redrive.looks WHERE at < $1 LIMIT $2)");
static LOOKS: Statement = Statement::new("SELECT seen FROM redrive.looks WHERE queue = $1");

#[async_trait]
impl<D: Driver> BrokerFacts for D {
    async fn broker_name(&self) -> Result<Option<String>, StoreError> {
        self.one("reading whose the store is", &NAME, values![], |row| row.text("broker"))
            .await
    }

    async fn broker_name_keep(&self, name: &str) -> Result<(), StoreError> {
        let kept = self.change("keeping whose the store is", &NAME_KEEP, values![name]);
        kept.await.map(drop)
    }

    async fn broker_policies_keep(&self, document: &str) -> Result<(), StoreError> {
        let kept = self.change("keeping the broker's policies", &POLICIES_KEEP, values![document]);
        kept.await.map(drop)
    }

    async fn broker_policies_kept(&self) -> Result<Option<KeptPolicies>, StoreError> {
        let kept = |row: &Row| {
            let age = integer(row, "age")?;
            Ok(KeptPolicies {
                document: text(row, "document")?,
                // A clock that was set back makes them old, and not new for as long as it was set back by.
                age: u64::try_from(age).map_or(Duration::MAX, Duration::from_micros),
            })
        };
        self.find("reading the broker's policies", &POLICIES_KEPT, values![], kept)
            .await
    }

    async fn looks_keep(&self, queue: &QueueName, before: Option<&str>, seen: &str) -> Result<bool, StoreError> {
        let mut keeping = values![queue, seen];
        let statement = if before.is_some() { &LOOKS_KEEP } else { &LOOKS_FIRST };
        keeping.extend(before.into_iter().flat_map(|before| values![before]));
        self.transaction("keeping what looks cost", move |mut session, now| {
            Box::pin(async move {
                let is_kept = session.change(statement, keeping).await? > 0;
                let before = ages_at(&mut session, now).await?.without_leap(now).minus(LOOKS_KEPT);
                session.change(&LOOKS_TRIM, values![before, LOOKS_TRIMMED]).await?;
                Ok(is_kept)
            })
        })
        .await
    }

    async fn looks_kept(&self, queue: &QueueName) -> Result<Option<String>, StoreError> {
        self.find("reading what looks cost", &LOOKS, values![queue], |row| {
            text(row, "seen")
        })
        .await
    }
}
