//! Types, subscriptions and named leases on PostgreSQL.

use async_trait::async_trait;
use sqlx::PgConnection;

use crate::domain::event::EventType;
use crate::domain::id::{Epoch, IncarnationId};
use crate::store::columns::text;
use crate::store::events::columns::{TypeColumns, event_type_columns, event_type_record, subscription};
use crate::store::postgres::{Exclusive, PostgresStore, exclusively, storable};
use crate::store::{EventTypeRecord, EventTypes, NewEventType, NewSubscription, StoreError, Subscription, TypePut};

const TYPE_GET: &str = concat!(
    "SELECT ",
    event_type_columns!(),
    " FROM redrive.event_types WHERE name = $1"
);
const TYPES: &str = concat!(
    "SELECT ",
    event_type_columns!(),
    " FROM redrive.event_types ORDER BY name LIMIT 10000"
);
/// What is pointed at, and by whom, besides the type itself.
const TARGET: &str = "SELECT dead_letter_type FROM redrive.event_types WHERE name = $1";
const POINTING: &str =
    "SELECT name FROM redrive.event_types WHERE dead_letter_type = $1 AND name <> $1 ORDER BY name LIMIT 1";
const TYPE_PUT: &str = concat!(
    "INSERT INTO redrive.event_types (name, document, max_claim_count, dead_letter_ttl, coalesce_window, \
        coalesce_max, cutoff, backoff_base, backoff_cap, history_ttl, dead_letter_type, created_at, updated_at, used_at) \
     SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, now, now, now FROM (SELECT redrive.store_now() AS now) AS clock \
     ON CONFLICT (name) DO UPDATE SET document = excluded.document, max_claim_count = excluded.max_claim_count, \
        dead_letter_ttl = excluded.dead_letter_ttl, coalesce_window = excluded.coalesce_window, \
        coalesce_max = excluded.coalesce_max, cutoff = excluded.cutoff, backoff_base = excluded.backoff_base, \
        backoff_cap = excluded.backoff_cap, history_ttl = excluded.history_ttl, \
        dead_letter_type = excluded.dead_letter_type, updated_at = excluded.updated_at, used_at = excluded.used_at \
     RETURNING ",
    event_type_columns!()
);
const TARGETS: &str = "UPDATE redrive.event_types t SET is_target = NOT is_target WHERE is_target <> \
    EXISTS (SELECT 1 FROM redrive.event_types o WHERE o.dead_letter_type = t.name)";
const SUBSCRIPTIONS: &str =
    "SELECT id, type, url, options, created_at FROM redrive.subscriptions WHERE type = $1 ORDER BY id";
const SUBSCRIBE: &str = "INSERT INTO redrive.subscriptions (type, url, options, created_at) \
    SELECT name, $2, $3, redrive.store_now() FROM redrive.event_types WHERE name = $1 \
    ON CONFLICT (type, (redrive.url_key(url))) DO UPDATE SET options = excluded.options \
    RETURNING id, type, url, options, created_at";
const UNSUBSCRIBE: &str = "DELETE FROM redrive.subscriptions WHERE type = $1 AND id = $2";
const LEASE_ROW: &str = "INSERT INTO redrive.named_leases (name, owner, epoch) VALUES ($1, NULL, 0) \
    ON CONFLICT (name) DO NOTHING";
const LEASE: &str = "WITH asker AS (SELECT id FROM redrive.incarnations WHERE id = $2 AND alive FOR KEY SHARE) \
    UPDATE redrive.named_leases l SET owner = $2, epoch = GREATEST(l.epoch + 1, redrive.store_now() / 1000) \
    FROM asker WHERE l.name = $1 AND (l.owner IS NULL OR NOT EXISTS \
        (SELECT 1 FROM redrive.incarnations i WHERE i.id = l.owner AND i.alive)) RETURNING l.epoch";
const FREE: &str = "UPDATE redrive.named_leases SET owner = NULL WHERE name = $1 AND epoch = $2 AND owner IS NOT NULL";

#[async_trait]
impl EventTypes for PostgresStore {
    async fn event_type_get(&self, event_type: &EventType) -> Result<Option<EventTypeRecord>, StoreError> {
        self.call("reading an event type", async |connection: &mut PgConnection| {
            let query = sqlx::query(TYPE_GET).bind(event_type.as_str());
            let row = query.fetch_optional(connection).await?;
            row.as_ref().map(event_type_record).transpose()
        })
        .await
    }

    async fn event_types(&self) -> Result<Vec<EventTypeRecord>, StoreError> {
        self.call("listing event types", async |connection: &mut PgConnection| {
            let rows = sqlx::query(TYPES).fetch_all(connection).await?;
            rows.iter().map(event_type_record).collect()
        })
        .await
    }

    async fn event_type_put(&self, new: &NewEventType) -> Result<TypePut, StoreError> {
        self.transaction("saving an event type", async |connection: &mut PgConnection, _| {
            exclusively(connection, Exclusive::EventTypes).await?;
            put(connection, new).await
        })
        .await
    }

    async fn subscriptions(&self, event_type: &EventType) -> Result<Vec<Subscription>, StoreError> {
        self.call("listing subscriptions", async |connection: &mut PgConnection| {
            let query = sqlx::query(SUBSCRIPTIONS).bind(event_type.as_str());
            query.fetch_all(connection).await?.iter().map(subscription).collect()
        })
        .await
    }

    async fn subscription_put(&self, new: &NewSubscription) -> Result<Option<Subscription>, StoreError> {
        let query = sqlx::query(SUBSCRIBE)
            .bind(new.event_type.as_str())
            .bind(new.url.as_str())
            .bind(storable(&new.options));
        self.call("saving a subscription", async |connection: &mut PgConnection| {
            let row = query.fetch_optional(connection).await?;
            row.as_ref().map(subscription).transpose()
        })
        .await
    }

    async fn subscription_remove(&self, event_type: &EventType, id: i64) -> Result<bool, StoreError> {
        let query = sqlx::query(UNSUBSCRIBE).bind(event_type.as_str()).bind(id);
        self.call("removing a subscription", async |connection: &mut PgConnection| {
            Ok(query.execute(connection).await?.rows_affected() == 1)
        })
        .await
    }

    async fn named_lease_take(&self, name: &str, incarnation: IncarnationId) -> Result<Option<Epoch>, StoreError> {
        let name = storable(name);
        self.call("taking a lease", async |connection: &mut PgConnection| {
            sqlx::query(LEASE_ROW).bind(&name).execute(&mut *connection).await?;
            let epoch: Option<i64> = sqlx::query_scalar(LEASE)
                .bind(&name)
                .bind(incarnation.0)
                .fetch_optional(connection)
                .await?;
            Ok(epoch.map(Epoch))
        })
        .await
    }

    async fn named_lease_free(&self, name: &str, epoch: Epoch) -> Result<bool, StoreError> {
        let query = sqlx::query(FREE).bind(storable(name)).bind(epoch.0);
        self.call("freeing a lease", async |connection: &mut PgConnection| {
            Ok(query.execute(connection).await?.rows_affected() == 1)
        })
        .await
    }
}

async fn put(connection: &mut PgConnection, new: &NewEventType) -> Result<TypePut, sqlx::Error> {
    if let Some(target) = &new.metadata.dead_lettering.event_type
        && let Some(refused) = refusal(connection, &new.name, target).await?
    {
        return Ok(refused);
    }
    let columns = TypeColumns::of(&new.metadata);
    let mut query = sqlx::query(TYPE_PUT)
        .bind(new.name.as_str())
        .bind(storable(&new.document));
    for number in columns.numbers {
        query = query.bind(number);
    }
    let row = query.bind(columns.target).fetch_one(&mut *connection).await?;
    sqlx::query(TARGETS).execute(connection).await?;
    Ok(TypePut::Saved(event_type_record(&row)?))
}

/// Whether the dead-letter type is missing, has one itself, or the type is one itself.
async fn refusal(
    connection: &mut PgConnection,
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
