//! Types, subscriptions and named leases.

use async_trait::async_trait;

use crate::domain::event::EventType;
use crate::domain::id::{Epoch, IncarnationId};
use crate::store::columns::{Columns, integer, text};
use crate::store::events::columns::{TypeColumns, event_type_columns, event_type_record, subscription};
use crate::store::sql::{Calls, Driver, Exclusive, Row, Session, Statement, values};
use crate::store::{EventTypeRecord, EventTypes, NewEventType, NewSubscription, StoreError, Subscription, TypePut};

static TYPE_GET: Statement = Statement::new(concat!(
    "SELECT ",
    event_type_columns!(),
    " FROM redrive.event_types WHERE name = $1"
));
static TYPES: Statement = Statement::new(concat!(
    "SELECT ",
    event_type_columns!(),
    " FROM redrive.event_types ORDER BY name LIMIT 10000"
));
/// What is pointed at, and by whom, besides the type itself.
static TARGET: Statement = Statement::new("SELECT dead_letter_type FROM redrive.event_types WHERE name = $1");
static POINTING: Statement = Statement::new(
    "SELECT name FROM redrive.event_types WHERE dead_letter_type = $1 AND name <> $1 ORDER BY name LIMIT 1",
);
static TYPE_PUT: Statement = Statement::new(concat!(
    "INSERT INTO redrive.event_types (name, document, max_claim_count, dead_letter_ttl, coalesce_window, \
        coalesce_max, cutoff, backoff_base, backoff_cap, history_ttl, dead_letter_type, created_at, updated_at, used_at) \
     SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, now, now, now FROM (SELECT redrive.store_now() AS now) AS clock \
     WHERE TRUE ON CONFLICT (name) DO UPDATE SET document = excluded.document, max_claim_count = excluded.max_claim_count, \
        dead_letter_ttl = excluded.dead_letter_ttl, coalesce_window = excluded.coalesce_window, \
        coalesce_max = excluded.coalesce_max, cutoff = excluded.cutoff, backoff_base = excluded.backoff_base, \
        backoff_cap = excluded.backoff_cap, history_ttl = excluded.history_ttl, \
        dead_letter_type = excluded.dead_letter_type, updated_at = excluded.updated_at, used_at = excluded.used_at \
     RETURNING ",
    event_type_columns!()
));
static TARGETS: Statement = Statement::new(
    "UPDATE redrive.event_types AS t SET is_target = NOT is_target WHERE is_target <> \
    EXISTS (SELECT 1 FROM redrive.event_types o WHERE o.dead_letter_type = t.name)",
);
static SUBSCRIPTIONS: Statement =
    Statement::new("SELECT id, type, url, options, created_at FROM redrive.subscriptions WHERE type = $1 ORDER BY id");
static SUBSCRIBE: Statement = Statement::new(
    "INSERT INTO redrive.subscriptions (type, url, options, created_at) \
    SELECT name, $2, $3, redrive.store_now() FROM redrive.event_types WHERE name = $1 \
    ON CONFLICT (type, (redrive.url_key(url))) DO UPDATE SET options = excluded.options \
    RETURNING id, type, url, options, created_at",
);
static ENDED_SUBSCRIPTIONS: Statement = Statement::new(
    "SELECT id, type, url, options, created_at FROM redrive.ended_subscriptions WHERE type = $1 ORDER BY id",
);
/// An id may be there in a store that went back to a backup.
static KEEP_ENDED: Statement = Statement::new(
    "INSERT INTO redrive.ended_subscriptions (id, type, url, options, created_at, ended_at) \
    SELECT id, type, url, options, created_at, redrive.store_now() FROM redrive.subscriptions WHERE type = $1 AND id = $2 \
    ON CONFLICT (id) DO UPDATE SET type = excluded.type, url = excluded.url, options = excluded.options, \
        created_at = excluded.created_at, ended_at = excluded.ended_at",
);
static UNSUBSCRIBE: Statement = Statement::new("DELETE FROM redrive.subscriptions WHERE type = $1 AND id = $2");
static LEASE_ROW: Statement = Statement::new(
    "INSERT INTO redrive.named_leases (name, owner, epoch) VALUES ($1, NULL, 0) \
    ON CONFLICT (name) DO NOTHING",
);
static LEASE: Statement = Statement::new(
    "WITH asker AS (SELECT id FROM redrive.incarnations WHERE id = $2 AND alive FOR KEY SHARE) \
    UPDATE redrive.named_leases AS l SET owner = $2, epoch = GREATEST(l.epoch + 1, redrive.store_now() / 1000) \
    FROM asker WHERE l.name = $1 AND (l.owner IS NULL OR NOT EXISTS \
        (SELECT 1 FROM redrive.incarnations i WHERE i.id = l.owner AND i.alive)) RETURNING epoch",
);
static FREE: Statement =
    Statement::new("UPDATE redrive.named_leases SET owner = NULL WHERE name = $1 AND epoch = $2 AND owner IS NOT NULL");

#[async_trait]
impl<D: Driver> EventTypes for D {
    async fn event_type_get(&self, event_type: &EventType) -> Result<Option<EventTypeRecord>, StoreError> {
        self.find(
            "reading an event type",
            &TYPE_GET,
            values![event_type],
            event_type_record,
        )
        .await
    }

    async fn event_types(&self) -> Result<Vec<EventTypeRecord>, StoreError> {
        self.list("listing event types", &TYPES, values![], event_type_record)
            .await
    }

    async fn event_type_put(&self, new: &NewEventType) -> Result<TypePut, StoreError> {
        let new = new.clone();
        self.transaction("saving an event type", move |mut session, _| {
            Box::pin(async move {
                session.exclusively(Exclusive::EventTypes).await?;
                put(&mut session, &new).await
            })
        })
        .await
    }

    async fn subscriptions(&self, event_type: &EventType) -> Result<Vec<Subscription>, StoreError> {
        self.list(
            "listing subscriptions",
            &SUBSCRIPTIONS,
            values![event_type],
            subscription,
        )
        .await
    }

    async fn ended_subscriptions(&self, event_type: &EventType) -> Result<Vec<Subscription>, StoreError> {
        self.list(
            "listing ended subscriptions",
            &ENDED_SUBSCRIPTIONS,
            values![event_type],
            subscription,
        )
        .await
    }

    async fn subscription_put(&self, new: &NewSubscription) -> Result<Option<Subscription>, StoreError> {
        let values = values![&new.event_type, &new.url, &new.options];
        let put = self.changed("saving a subscription", &SUBSCRIBE, values, subscription);
        Ok(put.await?.pop())
    }

    async fn subscription_remove(&self, event_type: &EventType, id: i64) -> Result<bool, StoreError> {
        let event_type = event_type.clone();
        self.transaction("removing a subscription", move |mut session, _| {
            Box::pin(async move {
                session.change(&KEEP_ENDED, values![&event_type, id]).await?;
                Ok(session.change(&UNSUBSCRIBE, values![&event_type, id]).await? == 1)
            })
        })
        .await
    }

    async fn named_lease_take(&self, name: &str, incarnation: IncarnationId) -> Result<Option<Epoch>, StoreError> {
        let name = name.to_owned();
        self.write("taking a lease", move |mut session| {
            Box::pin(async move {
                session.change(&LEASE_ROW, values![&name]).await?;
                let epoch = |row: &Row| integer(row, "epoch").map(Epoch);
                session.find(&LEASE, values![name, incarnation], epoch).await
            })
        })
        .await
    }

    async fn named_lease_free(&self, name: &str, epoch: Epoch) -> Result<bool, StoreError> {
        Ok(self.change("freeing a lease", &FREE, values![name, epoch]).await? == 1)
    }
}

async fn put(session: &mut Session<'_>, new: &NewEventType) -> Result<TypePut, sqlx::Error> {
    if let Some(target) = &new.metadata.dead_lettering.event_type
        && let Some(refused) = refusal(session, &new.name, target).await?
    {
        return Ok(refused);
    }
    let columns = TypeColumns::of(&new.metadata);
    let mut values = values![&new.name, &new.document];
    for number in columns.numbers {
        values.extend(values![number]);
    }
    values.extend(values![columns.target]);
    let record = session.one(&TYPE_PUT, values, event_type_record).await?;
    session.change(&TARGETS, values![]).await?;
    Ok(TypePut::Saved(record))
}

/// Whether the dead-letter type is missing, has one itself, or the type is one itself.
async fn refusal(
    session: &mut Session<'_>,
    name: &EventType,
    target: &EventType,
) -> Result<Option<TypePut>, sqlx::Error> {
    let next = session.find(&TARGET, values![target], |row| row.text("dead_letter_type"));
    let Some(next) = next.await? else {
        return Ok(Some(TypePut::MissingTarget(target.clone())));
    };
    if let Some(next) = next.and_then(|next| EventType::parse(&next).ok()) {
        return Ok(Some(TypePut::Chain(vec![name.clone(), target.clone(), next])));
    }
    let before = session.find(&POINTING, values![name], |row| text(row, "name")).await?;
    let before = before.and_then(|before| EventType::parse(&before).ok());
    Ok(before.map(|before| TypePut::Chain(vec![before, name.clone(), target.clone()])))
}
