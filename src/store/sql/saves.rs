//! Saved messages, and what the janitor saw.

use async_trait::async_trait;

use super::{Calls, Driver, Row, Session, Statement, columns, values};
use crate::domain::id::{IncarnationId, QueueName};
use crate::domain::time::Timestamp;
use crate::store::columns::{Columns, integer, stored, text};
use crate::store::saves::{
    lifetime_columns, lifetime_order, lifetime_record, lifetimes_sweep, save_columns, save_record, saved_columns,
    saved_message, unbinding,
};
use crate::store::{
    LifetimeQuery, LifetimeRecord, Lifetimes, LifetimesSweep, NewSave, SaveBegun, SaveQuery, SaveRecord, SaveTaken,
    SaveWindow, SavedMessage, Saves, StoreError,
};

static OPEN_OF: Statement = Statement::new(
    "SELECT s.id, EXISTS (SELECT 1 FROM redrive.incarnations AS i WHERE i.id = s.owner AND i.alive) AS alive \
     FROM redrive.saves AS s WHERE s.queue = $1 AND s.state = 'taking'",
);
static BEGIN: Statement = Statement::new(
    "INSERT INTO redrive.saves (id, queue, arguments, cause, state, owner, actor, reason, at, until) \
     VALUES ($1, $2, $3, $4, 'taking', $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING",
);
static COUNT: Statement = Statement::new(
    "UPDATE redrive.saves SET messages = messages + $3, bytes = bytes + $4 \
     WHERE id = $1 AND owner = $2 AND state = 'taking'",
);
static KEEP: Statement = Statement::new(
    "INSERT INTO redrive.saved_messages (save, place, win, message, bytes, exchange, routing_key) \
     SELECT $1, place, $2, message, bytes, exchange, routing_key FROM unnest($3::bigint[], $4::bytea[], \
     $5::bigint[], $6::text[], $7::text[]) AS m (place, message, bytes, exchange, routing_key)",
);
static END: Statement = Statement::new(
    "UPDATE redrive.saves SET state = 'kept', owner = NULL WHERE id = $1 AND owner = $2 AND state = 'taking'",
);
static FORGET_EMPTY: Statement = Statement::new("DELETE FROM redrive.saves WHERE id = $1 AND messages = 0");
static TAKE: Statement = Statement::new(
    "UPDATE redrive.saves AS s SET owner = $2 WHERE s.id = $1 AND NOT removing AND (s.owner = $2 OR NOT EXISTS \
     (SELECT 1 FROM redrive.incarnations AS i WHERE i.id = s.owner AND i.alive))",
);
static FREE: Statement = Statement::new(
    "UPDATE redrive.saves AS s SET owner = NULL, state = CASE WHEN state = 'kept' AND NOT EXISTS \
     (SELECT 1 FROM redrive.saved_messages AS m WHERE m.save = s.id) THEN 'restored' ELSE state END \
     WHERE id = $1 AND owner = $2",
);
macro_rules! listed {
    ($which:literal) => {
        Statement::new(concat!(
            "SELECT ",
            save_columns!(),
            ", (SELECT count(*) FROM redrive.saved_messages AS m WHERE m.save = s.id) AS remaining \
             FROM (SELECT * FROM redrive.saves WHERE NOT removing) AS s ",
            $which
        ))
    };
}
static GET: Statement = listed!("WHERE s.id = $1");
static LIST: Statement =
    listed!("WHERE ($1::text IS NULL OR s.id < $1) AND ($2::text IS NULL OR s.queue = $2) ORDER BY s.id DESC LIMIT $3");
static LEFT: Statement = listed!(
    "WHERE s.state = 'taking' AND NOT EXISTS (SELECT 1 FROM redrive.incarnations AS i \
     WHERE i.id = s.owner AND i.alive) ORDER BY s.id LIMIT $1"
);
static MESSAGES: Statement = Statement::new(concat!(
    "SELECT ",
    saved_columns!(),
    " FROM redrive.saved_messages WHERE save = $1 AND place > $2 ORDER BY place LIMIT $3"
));
static LAST: Statement = Statement::new(concat!(
    "SELECT ",
    saved_columns!(),
    " FROM redrive.saved_messages WHERE save = $1 AND \
     win >= (SELECT max(win) - 1 FROM redrive.saved_messages WHERE save = $1) ORDER BY place"
));
static HOLDS: Statement = Statement::new("SELECT 1 FROM redrive.saves WHERE id = $1 AND owner = $2 FOR UPDATE");
static DROP: Statement = Statement::new("DELETE FROM redrive.saved_messages WHERE save = $1 AND place = ANY($2)");

static JANITOR: Statement = Statement::new(
    "UPDATE redrive.janitor AS j SET owner = $1, sweep = sweep + 1 WHERE (j.owner = $1 OR NOT EXISTS \
     (SELECT 1 FROM redrive.incarnations AS i WHERE i.id = j.owner AND i.alive)) \
     AND EXISTS (SELECT 1 FROM redrive.incarnations AS i WHERE i.id = $1 AND i.alive) RETURNING sweep",
);
static NOTE: Statement = Statement::new(concat!(
    "INSERT INTO redrive.lifetimes (",
    lifetime_columns!(),
    ", sweep) SELECT ",
    lifetime_columns!(),
    ", $12::bigint FROM unnest($1::text[], $2::boolean[], $3::bigint[], $4::bigint[], $5::boolean[], \
     $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[]) AS seen (",
    lifetime_columns!(),
    ") WHERE TRUE ON CONFLICT (name) DO UPDATE SET quorum = excluded.quorum, lifetime_ms = excluded.lifetime_ms, \
     argument_ms = excluded.argument_ms, by_operator = excluded.by_operator, consumers = excluded.consumers, \
     messages = excluded.messages, bytes = excluded.bytes, unused_since = excluded.unused_since, \
     expires_at = excluded.expires_at, seen_at = excluded.seen_at, sweep = excluded.sweep"
));
static IS_SWEEP: Statement = Statement::new("SELECT 1 FROM redrive.janitor WHERE sweep = $1 FOR UPDATE");
static UNSEEN: Statement = Statement::new(concat!(
    "DELETE FROM redrive.lifetimes WHERE sweep < $1 RETURNING ",
    lifetime_columns!()
));
static SWEPT: Statement = Statement::new(
    "UPDATE redrive.janitor SET swept_at = $1, queues = (SELECT count(*) FROM redrive.lifetimes), \
     soon = (SELECT count(*) FROM redrive.lifetimes WHERE messages > 0 AND expires_at < $2), \
     soon_messages = (SELECT COALESCE(sum(messages), 0)::bigint FROM redrive.lifetimes \
        WHERE messages > 0 AND expires_at < $2)",
);
static SWEEP: Statement = Statement::new("SELECT swept_at, queues, soon, soon_messages FROM redrive.janitor");
static LIFETIMES: Statement = Statement::new(concat!(
    "SELECT ",
    lifetime_columns!(),
    " FROM redrive.lifetimes ORDER BY ",
    lifetime_order!(),
    " LIMIT $1 OFFSET $2"
));
static LIFETIME: Statement = Statement::new(concat!(
    "SELECT ",
    lifetime_columns!(),
    " FROM redrive.lifetimes WHERE name = $1"
));
static LIFETIME_FORGET: Statement = Statement::new(concat!(
    "DELETE FROM redrive.lifetimes WHERE name = $1 RETURNING ",
    lifetime_columns!()
));
static UNBINDING: Statement = Statement::new(
    "INSERT INTO redrive.unbindings (queue, owner) VALUES ($1, $2) \
     ON CONFLICT (queue) DO UPDATE SET owner = excluded.owner",
);
static UNBINDING_HOLDS: Statement =
    Statement::new("SELECT EXISTS (SELECT 1 FROM redrive.unbindings WHERE queue = $1 AND owner = $2) AS holds");
static UNBINDING_FORGET: Statement = Statement::new("DELETE FROM redrive.unbindings WHERE queue = $1");
static UNBINDING_TAKE: Statement = Statement::new(
    "UPDATE redrive.unbindings SET owner = $1 WHERE queue IN (SELECT u.queue \
     FROM redrive.unbindings AS u WHERE u.owner IS NULL OR u.owner = $1 OR NOT EXISTS \
     (SELECT 1 FROM redrive.incarnations AS i WHERE i.id = u.owner AND i.alive) ORDER BY u.queue LIMIT $2 \
     FOR UPDATE SKIP LOCKED) RETURNING queue",
);

#[async_trait]
impl<D: Driver> Saves for D {
    async fn save_begin(&self, new: &NewSave) -> Result<SaveBegun, StoreError> {
        let new = new.clone();
        self.transaction("beginning a save", move |mut session, now| {
            Box::pin(async move { begin(&mut session, &new, now).await })
        })
        .await
    }

    async fn save_keep(&self, save: &str, owner: IncarnationId, window: &SaveWindow) -> Result<bool, StoreError> {
        let (save, window) = (save.to_owned(), window.clone());
        self.transaction("saving messages", move |mut session, _| {
            Box::pin(async move { keep(&mut session, &save, owner, &window).await })
        })
        .await
    }

    async fn save_end(&self, save: &str, owner: IncarnationId) -> Result<bool, StoreError> {
        let save = save.to_owned();
        self.transaction("ending a save", move |mut session, _| {
            Box::pin(async move {
                let ended = session.change(&END, values![&save, owner]).await? == 1;
                if ended {
                    session.change(&FORGET_EMPTY, values![save]).await?;
                }
                Ok(ended)
            })
        })
        .await
    }

    async fn save_take(&self, save: &str, owner: IncarnationId) -> Result<SaveTaken, StoreError> {
        let save = save.to_owned();
        self.transaction("taking a save", move |mut session, _| {
            Box::pin(async move {
                let taken = session.change(&TAKE, values![&save, owner]).await? == 1;
                Ok(match session.find(&GET, values![save], save_record).await? {
                    None => SaveTaken::Missing,
                    Some(record) if taken => SaveTaken::Taken(Box::new(record)),
                    Some(_) => SaveTaken::Busy,
                })
            })
        })
        .await
    }

    async fn save_free(&self, save: &str, owner: IncarnationId) -> Result<(), StoreError> {
        let freed = self.change("freeing a save", &FREE, values![save, owner]);
        freed.await.map(drop)
    }

    async fn save_get(&self, save: &str) -> Result<Option<SaveRecord>, StoreError> {
        self.find("reading a save", &GET, values![save], save_record).await
    }

    async fn saves(&self, query: &SaveQuery) -> Result<Vec<SaveRecord>, StoreError> {
        let values = values![&query.before, &query.queue, query.limit];
        self.list("listing saves", &LIST, values, save_record).await
    }

    async fn saves_left(&self, limit: u32) -> Result<Vec<SaveRecord>, StoreError> {
        let operation = "looking for saves that were left";
        self.list(operation, &LEFT, values![limit], save_record).await
    }

    async fn saved_messages(
        &self,
        save: &str,
        after: Option<u64>,
        limit: u32,
    ) -> Result<Vec<SavedMessage>, StoreError> {
        let values = values![save, after.map_or(-1, stored), limit];
        self.list("reading saved messages", &MESSAGES, values, saved_message)
            .await
    }

    async fn saved_last(&self, save: &str) -> Result<Vec<SavedMessage>, StoreError> {
        let operation = "reading the last saved messages";
        self.list(operation, &LAST, values![save], saved_message).await
    }

    async fn saved_drop(&self, save: &str, owner: IncarnationId, places: &[u64]) -> Result<bool, StoreError> {
        let (save, places) = (save.to_owned(), places.to_vec());
        self.transaction("forgetting saved messages", move |mut session, _| {
            Box::pin(async move {
                if !session.has(&HOLDS, values![&save, owner]).await? {
                    return Ok(false);
                }
                session.change(&DROP, values![save, places]).await?;
                Ok(true)
            })
        })
        .await
    }
}

#[async_trait]
impl<D: Driver> Lifetimes for D {
    async fn janitor_take(&self, incarnation: IncarnationId) -> Result<Option<i64>, StoreError> {
        let sweep = |row: &Row| integer(row, "sweep");
        let taken = self.changed("beginning a sweep", &JANITOR, values![incarnation], sweep);
        Ok(taken.await?.pop())
    }

    async fn lifetimes_note(&self, sweep: i64, seen: &[LifetimeRecord]) -> Result<(), StoreError> {
        let records = columns![seen => |record|
            &record.name,
            record.quorum,
            record.lifetime_ms,
            record.argument_ms,
            record.by_operator,
            record.consumers,
            record.messages,
            record.bytes,
            record.unused_since,
            record.expires_at,
            record.seen_at,
        ];
        let noted = self.change("noting lifetimes", &NOTE, values![records, sweep]);
        noted.await.map(drop)
    }

    async fn lifetimes_swept(&self, sweep: i64) -> Result<Vec<LifetimeRecord>, StoreError> {
        self.transaction("ending a sweep", move |mut session, now| {
            Box::pin(async move {
                if !session.has(&IS_SWEEP, values![sweep]).await? {
                    return Ok(Vec::new());
                }
                let gone = session.list(&UNSEEN, values![sweep], lifetime_record).await?;
                let soon = now.plus(crate::store::SOON);
                session.change(&SWEPT, values![now, soon]).await?;
                Ok(gone)
            })
        })
        .await
    }

    async fn lifetimes_sweep(&self) -> Result<Option<LifetimesSweep>, StoreError> {
        self.one("reading the last sweep", &SWEEP, values![], lifetimes_sweep)
            .await
    }

    async fn lifetimes(&self, query: &LifetimeQuery) -> Result<Vec<LifetimeRecord>, StoreError> {
        let values = values![query.limit, query.offset];
        self.list("reading lifetimes", &LIFETIMES, values, lifetime_record)
            .await
    }

    async fn lifetime_get(&self, queue: &QueueName) -> Result<Option<LifetimeRecord>, StoreError> {
        self.find("reading a lifetime", &LIFETIME, values![queue], lifetime_record)
            .await
    }

    async fn lifetime_forget(&self, queue: &QueueName) -> Result<Option<LifetimeRecord>, StoreError> {
        let operation = "forgetting a lifetime";
        let gone = self.changed(operation, &LIFETIME_FORGET, values![queue], lifetime_record);
        Ok(gone.await?.pop())
    }

    async fn unbinding_note(&self, queue: &QueueName, owner: IncarnationId) -> Result<(), StoreError> {
        let operation = "noting that a queue is unbound";
        self.change(operation, &UNBINDING, values![queue, owner])
            .await
            .map(drop)
    }

    async fn unbinding_holds(&self, queue: &QueueName, owner: IncarnationId) -> Result<bool, StoreError> {
        let operation = "reading who unbound a queue";
        self.one(operation, &UNBINDING_HOLDS, values![queue, owner], |row| {
            row.flag("holds")
        })
        .await
    }

    async fn unbinding_forget(&self, queue: &QueueName) -> Result<(), StoreError> {
        let operation = "forgetting that a queue was unbound";
        self.change(operation, &UNBINDING_FORGET, values![queue])
            .await
            .map(drop)
    }

    async fn unbinding_take(&self, owner: IncarnationId, limit: u32) -> Result<Vec<QueueName>, StoreError> {
        let operation = "taking over what was left unbound";
        self.changed(operation, &UNBINDING_TAKE, values![owner, limit], unbinding)
            .await
    }
}

async fn begin(session: &mut Session<'_>, new: &NewSave, now: Timestamp) -> Result<SaveBegun, sqlx::Error> {
    let open = |row: &Row| {
        Ok(if row.flag("alive")? {
            SaveBegun::Busy
        } else {
            SaveBegun::Left(text(row, "id")?)
        })
    };
    if let Some(open) = session.find(&OPEN_OF, values![&new.queue], open).await? {
        return Ok(open);
    }
    let values = values![
        &new.id,
        &new.queue,
        &new.arguments,
        new.cause.as_str(),
        new.owner,
        &new.actor,
        &new.reason,
        now,
        now.plus(new.keep_for),
    ];
    // Nothing is inserted where somebody else began at the same time.
    Ok(match session.change(&BEGIN, values).await? {
        0 => SaveBegun::Busy,
        _ => SaveBegun::Begun,
    })
}

async fn keep(
    session: &mut Session<'_>,
    save: &str,
    owner: IncarnationId,
    window: &SaveWindow,
) -> Result<bool, sqlx::Error> {
    let messages = &window.messages;
    let bytes: u64 = messages.iter().map(|message| message.bytes).sum();
    let counted = session.change(&COUNT, values![save, owner, messages.len() as u64, bytes]);
    if counted.await? == 0 {
        return Ok(false);
    }
    let messages = columns![messages => |one| one.place, &one.message, one.bytes, &one.exchange, &one.routing_key];
    session.change(&KEEP, values![save, window.number, messages]).await?;
    Ok(true)
}
