//! Types, subscriptions and named leases in a SQLite file.

use async_trait::async_trait;
use sqlx::sqlite::SqliteConnection;

use crate::domain::event::EventType;
use crate::domain::id::{Epoch, IncarnationId};
use crate::store::columns::text;
use crate::store::events::columns::{TypeColumns, event_type_columns, event_type_record, subscription};
use crate::store::sqlite::SqliteStore;
use crate::store::sqlite::error::unread;
use crate::store::{EventTypeRecord, EventTypes, NewEventType, NewSubscription, StoreError, Subscription, TypePut};

const TYPE_GET: &str = concat!("SELECT ", event_type_columns!(), " FROM event_types WHERE name = $1");
const TYPES: &str = concat!(
    "SELECT ",
    event_type_columns!(),
    " FROM event_types ORDER BY name LIMIT 10000"
);
/// What is pointed at, and by whom, besides the type itself.
const TARGET: &str = "SELECT dead_letter_type FROM event_types WHERE name = $1";
const POINTING: &str = "SELECT name FROM event_types WHERE dead_letter_type = $1 AND name <> $1 ORDER BY name LIMIT 1";
const TYPE_PUT: &str = concat!(
    "INSERT INTO event_types (name, document, max_claim_count, dead_letter_ttl, coalesce_window, \
        coalesce_max, cutoff, backoff_base, backoff_cap, history_ttl, dead_letter_type, created_at, updated_at, used_at) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $12, $12) \
     ON CONFLICT (name) DO UPDATE SET document = excluded.document, max_claim_count = excluded.max_claim_count, \
        dead_letter_ttl = excluded.dead_letter_ttl, coalesce_window = excluded.coalesce_window, \
        coalesce_max = excluded.coalesce_max, cutoff = excluded.cutoff, backoff_base = excluded.backoff_base, \
        backoff_cap = excluded.backoff_cap, history_ttl = excluded.history_ttl, \
        dead_letter_type = excluded.dead_letter_type, updated_at = excluded.updated_at, used_at = excluded.used_at \
     RETURNING ",
    event_type_columns!()
);
const TARGETS: &str = "UPDATE event_types AS t SET is_target = 1 - is_target WHERE is_target <> \
    EXISTS (SELECT 1 FROM event_types AS o WHERE o.dead_letter_type = t.name)";
const SUBSCRIPTIONS: &str = "SELECT id, type, url, options, created_at FROM subscriptions WHERE type = $1 ORDER BY id";
const SUBSCRIBE: &str = "INSERT INTO subscriptions (type, url, options, created_at) \
    SELECT name, $2, $3, $4 FROM event_types WHERE name = $1 \
    ON CONFLICT (type, url) DO UPDATE SET options = excluded.options \
    RETURNING id, type, url, options, created_at";
const UNSUBSCRIBE: &str = "DELETE FROM subscriptions WHERE type = $1 AND id = $2";
const LEASE_ROW: &str = "INSERT INTO named_leases (name, owner, epoch) VALUES ($1, NULL, 0) \
    ON CONFLICT (name) DO NOTHING";
const LEASE: &str = "UPDATE named_leases AS l SET owner = $2, epoch = max(l.epoch + 1, $3 / 1000) \
    WHERE l.name = $1 AND EXISTS (SELECT 1 FROM incarnations WHERE id = $2 AND alive) \
        AND (l.owner IS NULL OR NOT EXISTS (SELECT 1 FROM incarnations AS i WHERE i.id = l.owner AND i.alive)) \
    RETURNING epoch";
const FREE: &str = "UPDATE named_leases SET owner = NULL WHERE name = $1 AND epoch = $2 AND owner IS NOT NULL";

#[async_trait]
impl EventTypes for SqliteStore {
    async fn event_type_get(&self, event_type: &EventType) -> Result<Option<EventTypeRecord>, StoreError> {
        let operation = "reading an event type";
        let row = sqlx::query(TYPE_GET)
            .bind(event_type.as_str())
            .fetch_optional(self.readers())
            .await
            .map_err(unread(operation))?;
        row.as_ref()
            .map(event_type_record)
            .transpose()
            .map_err(unread(operation))
    }

    async fn event_types(&self) -> Result<Vec<EventTypeRecord>, StoreError> {
        let operation = "listing event types";
        let rows = sqlx::query(TYPES)
            .fetch_all(self.readers())
            .await
            .map_err(unread(operation))?;
        rows.iter()
            .map(event_type_record)
            .collect::<Result<_, _>>()
            .map_err(unread(operation))
    }

    async fn event_type_put(&self, new: &NewEventType) -> Result<TypePut, StoreError> {
        let (new, now) = (new.clone(), self.clock.now().micros());
        self.write("saving an event type", move |connection| {
            Box::pin(async move { put(connection, &new, now).await })
        })
        .await
    }

    async fn subscriptions(&self, event_type: &EventType) -> Result<Vec<Subscription>, StoreError> {
        let operation = "listing subscriptions";
        let rows = sqlx::query(SUBSCRIPTIONS)
            .bind(event_type.as_str())
            .fetch_all(self.readers())
            .await
            .map_err(unread(operation))?;
        rows.iter()
            .map(subscription)
            .collect::<Result<_, _>>()
            .map_err(unread(operation))
    }

    async fn subscription_put(&self, new: &NewSubscription) -> Result<Option<Subscription>, StoreError> {
        let (new, now) = (new.clone(), self.clock.now().micros());
        self.write("saving a subscription", move |connection| {
            Box::pin(async move {
                let row = sqlx::query(SUBSCRIBE)
                    .bind(new.event_type.as_str())
                    .bind(new.url.as_str())
                    .bind(&new.options)
                    .bind(now)
                    .fetch_optional(connection)
                    .await?;
                row.as_ref().map(subscription).transpose()
            })
        })
        .await
    }

    async fn subscription_remove(&self, event_type: &EventType, id: i64) -> Result<bool, StoreError> {
        let event_type = event_type.clone();
        self.write("removing a subscription", move |connection| {
            Box::pin(async move {
                let query = sqlx::query(UNSUBSCRIBE).bind(event_type.as_str()).bind(id);
                Ok(query.execute(connection).await?.rows_affected() == 1)
            })
        })
        .await
    }

    async fn named_lease_take(&self, name: &str, incarnation: IncarnationId) -> Result<Option<Epoch>, StoreError> {
        let (name, now) = (name.to_owned(), self.clock.now().micros());
        self.write("taking a lease", move |connection| {
            Box::pin(async move {
                sqlx::query(LEASE_ROW).bind(&name).execute(&mut *connection).await?;
                let epoch: Option<i64> = sqlx::query_scalar(LEASE)
                    .bind(&name)
                    .bind(incarnation.0)
                    .bind(now)
                    .fetch_optional(connection)
                    .await?;
                Ok(epoch.map(Epoch))
            })
        })
        .await
    }

    async fn named_lease_free(&self, name: &str, epoch: Epoch) -> Result<bool, StoreError> {
        let name = name.to_owned();
        self.write("freeing a lease", move |connection| {
            Box::pin(async move {
                let query = sqlx::query(FREE).bind(name).bind(epoch.0);
                Ok(query.execute(connection).await?.rows_affected() == 1)
            })
        })
        .await
    }
}

async fn put(connection: &mut SqliteConnection, new: &NewEventType, now: i64) -> Result<TypePut, sqlx::Error> {
    if let Some(target) = &new.metadata.dead_lettering.event_type
        && let Some(refused) = refusal(connection, &new.name, target).await?
    {
        return Ok(refused);
    }
    let columns = TypeColumns::of(&new.metadata);
    let mut query = sqlx::query(TYPE_PUT).bind(new.name.as_str()).bind(&new.document);
    for number in columns.numbers {
        query = query.bind(number);
    }
    let row = query.bind(columns.target).bind(now).fetch_one(&mut *connection).await?;
    sqlx::query(TARGETS).execute(connection).await?;
    Ok(TypePut::Saved(event_type_record(&row)?))
}

/// Whether the dead-letter type is missing, has one itself, or the type is one itself.
async fn refusal(
    connection: &mut SqliteConnection,
    name: &EventType,
    target: &EventType,
) -> Result<Option<TypePut>, sqlx::Error> {
    let Some(row) = sqlx::query(TARGET)
        .bind(target.as_str())
        .fetch_optional(&mut *connection)
        .await?
    else {
        return Ok(Some(TypePut::MissingTarget(target.clone())));
    };
    let next: Option<String> = sqlx::Row::try_get(&row, "dead_letter_type")?;
    if let Some(next) = next.and_then(|next| EventType::parse(&next).ok()) {
        return Ok(Some(TypePut::Chain(vec![name.clone(), target.clone(), next])));
    }
    let Some(row) = sqlx::query(POINTING)
        .bind(name.as_str())
        .fetch_optional(connection)
        .await?
    else {
        return Ok(None);
    };
    let before = EventType::parse(&text(&row, "name")?).ok();
    Ok(before.map(|before| TypePut::Chain(vec![before, name.clone(), target.clone()])))
}
