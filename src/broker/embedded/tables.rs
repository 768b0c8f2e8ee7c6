//! The tables of the embedded broker and every statement on them.
//!
//! A message stays in its row until it is acked; its id, never used twice, is its place in the
//! queue. A queue's id is never used twice either, so that an attachment to a deleted queue does not
//! read the next one of that name. `broker_deletion` holds the last deletions for other processes to
//! read, nothing else.

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use sqlx::Row;
use sqlx::sqlite::{SqliteConnection, SqlitePool, SqliteRow};

use crate::broker::{ListRequest, WhichQueues};
use crate::domain::message::{self, HeaderValue, Message};
use crate::domain::naming::Naming;
use crate::domain::routing::topic_matches;
use crate::domain::schema::Change;
use crate::domain::time::Timestamp;

/// What the changes of these tables are counted for in the file.
pub(super) const NAMESPACE: &str = "broker";

/// Number and statements, ascending. A change is never edited once it is released: the next one follows it.
pub(super) const CHANGES: &[Change] = &[(1, include_str!("base.sql"))];

const EXCHANGE_DECLARE: &str = "INSERT INTO broker_exchange (name) VALUES (?) ON CONFLICT DO NOTHING";
const EXCHANGE_EXISTS: &str = "SELECT EXISTS (SELECT 1 FROM broker_exchange WHERE name = ?)";
const QUEUE_DECLARE: &str =
    "INSERT INTO broker_queue (name, bound, used_at) VALUES (?1, 1, ?2) ON CONFLICT (name) DO NOTHING";
const QUEUE_DECLARE_EXPIRING: &str =
    "INSERT INTO broker_queue (name, bound, used_at, expires_ms) VALUES (?1, 1, ?2, ?3)
    ON CONFLICT (name) DO UPDATE SET used_at = ?2 WHERE expires_ms IS ?3
    RETURNING id";
const QUEUE_LIFETIME: &str = "SELECT expires_ms FROM broker_queue WHERE name = ?";
const QUEUES_EXPIRING: &str = "SELECT id, name, used_at, expires_ms,
        (SELECT count(*) FROM broker_message WHERE queue = q.id) AS messages
    FROM broker_queue AS q WHERE expires_ms IS NOT NULL";
const QUEUE_OVER: &str = "SELECT id, name, used_at, expires_ms,
        (SELECT count(*) FROM broker_message WHERE queue = q.id) AS messages
    FROM broker_queue AS q WHERE name = ?1 AND expires_ms IS NOT NULL AND used_at + expires_ms * 1000 <= ?2";
const QUEUE_EXPIRE: &str = "DELETE FROM broker_queue
    WHERE id = ?1 AND expires_ms IS NOT NULL AND used_at + expires_ms * 1000 <= ?2 RETURNING name";
const QUEUE_BIND: &str = "UPDATE broker_queue SET bound = ?2 WHERE name = ?1";
const LOOKED_AT: &str = "SELECT looked_at FROM broker_sweep";
const LOOKED: &str = "INSERT INTO broker_sweep (only_row, looked_at) VALUES (1, ?)
    ON CONFLICT (only_row) DO UPDATE SET looked_at = excluded.looked_at";
/// No use is later than now.
const QUEUES_PASS_OVER: &str = "UPDATE broker_queue SET used_at = max(used_at, min(used_at + ?1, ?2))
    WHERE expires_ms IS NOT NULL";
const QUEUE_USED: &str = "UPDATE broker_queue SET used_at = ?2 WHERE id = ?1";
const QUEUE_FIND: &str = "SELECT id, bound FROM broker_queue WHERE name = ?";
const QUEUE_EXISTS: &str = "SELECT EXISTS (SELECT 1 FROM broker_queue WHERE id = ?)";
const QUEUE_DELETE: &str = "DELETE FROM broker_queue WHERE id = ?";
const QUEUE_EMPTY: &str = "SELECT NOT EXISTS (SELECT 1 FROM broker_message WHERE queue = ?)";
const QUEUES_SINCE: &str = "SELECT id, name FROM broker_queue WHERE id > ? ORDER BY id LIMIT 1000";
/// Queues with their counts, and where `$bytes` says so with the bytes of their bodies: each message is read for those.
macro_rules! counted_queues {
    ($bytes:literal, $which:literal) => {
        concat!(
            "SELECT id, name, used_at, expires_ms, (SELECT count(*) FROM broker_message WHERE queue = q.id) AS messages, \
            CASE WHEN ",
            $bytes,
            " THEN (SELECT coalesce(sum(length(body)), 0) FROM broker_message WHERE queue = q.id) END AS bytes, \
            (SELECT coalesce(timestamp_s * 1000000, published_at) FROM broker_message \
                WHERE queue = q.id ORDER BY id LIMIT 1) AS oldest_at, \
            (SELECT published_at FROM broker_message WHERE queue = q.id ORDER BY id DESC LIMIT 1) AS newest_at \
            FROM broker_queue AS q ",
            $which
        )
    };
}
const QUEUES_ALL: &str = counted_queues!("?1", "ORDER BY name");
const QUEUES_CONTAINING: &str = counted_queues!("?1", "WHERE instr(name, ?2) > 0 ORDER BY name");
const QUEUES_NOT_GLOB: &str = counted_queues!("?1", "WHERE name NOT GLOB ?2 ORDER BY name");
const QUEUE_COUNTS: &str = counted_queues!("TRUE", "WHERE name = ?1");
const DELETION_NOTE: &str = "INSERT INTO broker_deletion (queue, name, deleted_by) VALUES (?, ?, ?) RETURNING id";
const DELETION_TRIM: &str = "DELETE FROM broker_deletion WHERE id <= ?";
const DELETIONS_SINCE: &str =
    "SELECT id, queue, name, deleted_by FROM broker_deletion WHERE id > ? ORDER BY id LIMIT 1000";
const DELETIONS_KEPT: i64 = 1000;
const MESSAGE_INSERT: &str = "INSERT INTO broker_message
        (queue, size, published_at, content_type, message_id, kind, timestamp_s, properties, headers, body,
        exchange, routing_key)
    SELECT id, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12 FROM broker_queue WHERE name = ?1 AND bound = 1
    RETURNING queue";
const BIND: &str = "INSERT INTO broker_binding (exchange, routing_key, queue) VALUES (?, ?, ?) ON CONFLICT DO NOTHING";
const BINDINGS: &str = "SELECT DISTINCT routing_key, queue FROM broker_binding WHERE exchange = ? ORDER BY queue";
const MESSAGE_DELETE: &str = "DELETE FROM broker_message WHERE id = ?1 AND queue = ?2";
const MESSAGE_SIZES: &str = "SELECT id, size FROM broker_message WHERE queue = ?1 AND id > ?2 ORDER BY id LIMIT ?3";
const MESSAGES: &str = "SELECT id, content_type, message_id, kind, timestamp_s, properties, headers, body, exchange,
        routing_key
    FROM broker_message WHERE queue = ?1 AND id > ?2 AND id <= ?3 ORDER BY id";
/// Of a message that cannot be read: whatever its columns hold, as bytes.
const DAMAGED: &str = "SELECT id, CAST(content_type AS BLOB), CAST(message_id AS BLOB), CAST(kind AS BLOB),
        CAST(properties AS BLOB), CAST(headers AS BLOB), CAST(body AS BLOB)
    FROM broker_message WHERE queue = ?1 ORDER BY id LIMIT 1";
const LAST_MESSAGE: &str = "SELECT coalesce(max(id), 0) FROM broker_message";
const LAST_QUEUE: &str = "SELECT coalesce(max(id), 0) FROM broker_queue";
const LAST_DELETION: &str = "SELECT coalesce(max(id), 0) FROM broker_deletion";
const QUEUES_GROWN: &str =
    "SELECT DISTINCT q.id, q.name FROM broker_message AS m JOIN broker_queue AS q ON q.id = m.queue
    WHERE m.id > ?1 AND m.id <= ?2 LIMIT 1000";

/// Who deletes a queue whose lifetime is over.
pub(super) const NOBODY: &str = "";

/// As many queues as `queues_grown` answers at most.
pub(super) const GROWN_MAX: usize = 1000;

type Sql<T> = Result<T, sqlx::Error>;

/// A message with its place.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) id: i64,
    /// The exchange that it came through, and its routing key there; empty for what was published to its queue.
    pub(super) route: Route,
    pub(super) message: Message,
}

/// An exchange and a routing key.
#[derive(Clone, Debug, Default)]
pub(super) struct Route {
    pub(super) exchange: String,
    pub(super) routing_key: String,
}

/// A queue with its counts.
#[derive(Debug)]
pub(super) struct Counted {
    pub(super) id: i64,
    pub(super) name: String,
    pub(super) messages: i64,
    /// Bytes of their bodies, where they were asked for.
    pub(super) bytes: Option<i64>,
    /// When its first message was created as its publisher said, else when it was published.
    pub(super) oldest_at: Option<Timestamp>,
    /// The later of its last detachment and its newest message.
    pub(super) used_at: Timestamp,
    /// Its lifetime, when it has one.
    pub(super) expires_ms: Option<i64>,
    /// Its last use as its lifetime counts: a publish is none.
    pub(super) declared_use_at: Timestamp,
}

/// A queue with a lifetime.
#[derive(Debug)]
pub(super) struct Expiring {
    pub(super) id: i64,
    pub(super) name: String,
    pub(super) used_at: Timestamp,
    pub(super) lifetime: std::time::Duration,
    pub(super) messages: i64,
}

/// The result of declaring a queue with a lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Declared {
    New,
    Same,
    /// It exists with this lifetime.
    Other(Option<i64>),
}

/// The result of a deletion: the id of what was deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Removed {
    Queue(i64),
    InUse,
    Missing,
}

pub(super) async fn exchange_declare(connection: &mut SqliteConnection, name: &str) -> Sql<()> {
    sqlx::query(EXCHANGE_DECLARE)
        .bind(name)
        .execute(connection)
        .await
        .map(|_| ())
}

pub(super) async fn exchange_exists(readers: &SqlitePool, name: &str) -> Sql<bool> {
    sqlx::query_scalar(EXCHANGE_EXISTS).bind(name).fetch_one(readers).await
}

/// Answers whether the queue is new; an existing one is left as it is.
pub(super) async fn queue_declare(connection: &mut SqliteConnection, name: &str, now: Timestamp) -> Sql<bool> {
    let declared = sqlx::query(QUEUE_DECLARE)
        .bind(name)
        .bind(now.micros())
        .execute(connection)
        .await?;
    Ok(declared.rows_affected() > 0)
}

/// The queue with this lifetime, new or used again.
pub(super) async fn queue_declare_expiring(
    connection: &mut SqliteConnection,
    name: &str,
    expires_ms: Option<i64>,
    now: Timestamp,
) -> Sql<Declared> {
    // One that is over is not there any more.
    if let Some(over) = queue_over(&mut *connection, name, now).await? {
        queue_expire(&mut *connection, over.id, now).await?;
    }
    let known: Option<(i64, bool)> = sqlx::query_as(QUEUE_FIND)
        .bind(name)
        .fetch_optional(&mut *connection)
        .await?;
    let declared: Option<i64> = sqlx::query_scalar(QUEUE_DECLARE_EXPIRING)
        .bind(name)
        .bind(now.micros())
        .bind(expires_ms)
        .fetch_optional(&mut *connection)
        .await?;
    match (declared, known) {
        (Some(_), None) => Ok(Declared::New),
        (Some(_), Some(_)) => Ok(Declared::Same),
        (None, _) => {
            let has: Option<i64> = sqlx::query_scalar(QUEUE_LIFETIME)
                .bind(name)
                .fetch_one(connection)
                .await?;
            Ok(Declared::Other(has))
        }
    }
}

/// Every queue with a lifetime.
pub(super) async fn queues_expiring(readers: &SqlitePool) -> Sql<Vec<Expiring>> {
    let rows = sqlx::query(QUEUES_EXPIRING).fetch_all(readers).await?;
    rows.iter().map(expiring).collect()
}

/// When queues with a lifetime were looked at last, by any process.
pub(super) async fn looked_at<'e>(executor: impl sqlx::SqliteExecutor<'e>) -> Sql<Option<Timestamp>> {
    let at: Option<i64> = sqlx::query_scalar(LOOKED_AT).fetch_optional(executor).await?;
    Ok(at.map(Timestamp::from_micros))
}

/// Notes that queues with a lifetime are looked at now; what `passed_over` says of the last look does not count as
/// time without a use. Answers that span.
pub(super) async fn look(
    connection: &mut SqliteConnection,
    now: Timestamp,
    passed_over: impl FnOnce(Option<Timestamp>) -> std::time::Duration + Send,
) -> Sql<std::time::Duration> {
    let span = passed_over(looked_at(&mut *connection).await?);
    if !span.is_zero() {
        sqlx::query(QUEUES_PASS_OVER)
            .bind(i64::try_from(span.as_micros()).unwrap_or(i64::MAX))
            .bind(now.micros())
            .execute(&mut *connection)
            .await?;
    }
    sqlx::query(LOOKED).bind(now.micros()).execute(connection).await?;
    Ok(span)
}

/// The queue of that name if its lifetime is over.
pub(super) async fn queue_over<'e>(
    executor: impl sqlx::SqliteExecutor<'e>,
    name: &str,
    now: Timestamp,
) -> Sql<Option<Expiring>> {
    let row = sqlx::query(QUEUE_OVER)
        .bind(name)
        .bind(now.micros())
        .fetch_optional(executor)
        .await?;
    row.as_ref().map(expiring).transpose()
}

/// Deletes a queue whose lifetime is over, and notes that nobody did; false when it was used meanwhile.
pub(super) async fn queue_expire(connection: &mut SqliteConnection, id: i64, now: Timestamp) -> Sql<bool> {
    let name: Option<String> = sqlx::query_scalar(QUEUE_EXPIRE)
        .bind(id)
        .bind(now.micros())
        .fetch_optional(&mut *connection)
        .await?;
    let Some(name) = name else {
        return Ok(false);
    };
    note_deletion(connection, id, &name, NOBODY).await?;
    Ok(true)
}

fn expiring(row: &SqliteRow) -> Sql<Expiring> {
    let expires_ms: i64 = row.try_get("expires_ms")?;
    let used_at: i64 = row.try_get("used_at")?;
    Ok(Expiring {
        id: row.try_get("id")?,
        name: row.try_get("name")?,
        used_at: Timestamp::from_micros(used_at),
        lifetime: std::time::Duration::from_millis(expires_ms.unsigned_abs()),
        messages: row.try_get("messages")?,
    })
}

/// Whether the exchange routes to a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binding {
    /// What is published with its name comes into it.
    Bound,
    /// Nothing comes into it.
    Unbound,
}

/// Answers whether the queue exists.
pub(super) async fn queue_bind(connection: &mut SqliteConnection, name: &str, binding: Binding) -> Sql<bool> {
    let changed = sqlx::query(QUEUE_BIND)
        .bind(name)
        .bind(binding == Binding::Bound)
        .execute(connection)
        .await?;
    Ok(changed.rows_affected() > 0)
}

pub(super) async fn queue_used(connection: &mut SqliteConnection, id: i64, now: Timestamp) -> Sql<()> {
    sqlx::query(QUEUE_USED)
        .bind(id)
        .bind(now.micros())
        .execute(connection)
        .await
        .map(|_| ())
}

/// Its id and whether it is bound.
pub(super) async fn queue_find(readers: &SqlitePool, name: &str) -> Sql<Option<(i64, bool)>> {
    sqlx::query_as(QUEUE_FIND).bind(name).fetch_optional(readers).await
}

pub(super) async fn queue_exists(readers: &SqlitePool, id: i64) -> Sql<bool> {
    sqlx::query_scalar(QUEUE_EXISTS).bind(id).fetch_one(readers).await
}

/// Deletes a queue as far as `deletion` goes, and notes by whom.
pub(super) async fn queue_delete(
    connection: &mut SqliteConnection,
    name: &str,
    deletion: Deletion,
    by: &str,
) -> Sql<Removed> {
    let found: Option<(i64, bool)> = sqlx::query_as(QUEUE_FIND)
        .bind(name)
        .fetch_optional(&mut *connection)
        .await?;
    let Some((id, bound)) = found else {
        return Ok(Removed::Missing);
    };
    if deletion == Deletion::OnlyUnused && (bound || !queue_is_empty(connection, id).await?) {
        return Ok(Removed::InUse);
    }
    sqlx::query(QUEUE_DELETE).bind(id).execute(&mut *connection).await?;
    note_deletion(connection, id, name, by).await?;
    Ok(Removed::Queue(id))
}

async fn note_deletion(connection: &mut SqliteConnection, id: i64, name: &str, by: &str) -> Sql<()> {
    let note: i64 = sqlx::query_scalar(DELETION_NOTE)
        .bind(id)
        .bind(name)
        .bind(by)
        .fetch_one(&mut *connection)
        .await?;
    sqlx::query(DELETION_TRIM)
        .bind(note - DELETIONS_KEPT)
        .execute(connection)
        .await
        .map(|_| ())
}

/// What a deletion may take with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deletion {
    /// Only an unbound queue without messages.
    OnlyUnused,
    /// Whatever is in it.
    Whole,
}

async fn queue_is_empty(connection: &mut SqliteConnection, id: i64) -> Sql<bool> {
    sqlx::query_scalar(QUEUE_EMPTY).bind(id).fetch_one(connection).await
}

/// Binds a queue to an exchange of others.
pub(super) async fn bind_key(connection: &mut SqliteConnection, queue: &str, exchange: &str, key: &str) -> Sql<()> {
    let query = sqlx::query(BIND).bind(exchange).bind(key).bind(queue);
    query.execute(connection).await.map(|_| ())
}

/// Appends to every queue that is bound to an exchange with a pattern that matches; answers their ids.
pub(super) async fn message_route(
    connection: &mut SqliteConnection,
    route: &Route,
    message: &Message,
    now: Timestamp,
) -> Sql<Vec<i64>> {
    let bound: Vec<(String, String)> = sqlx::query_as(BINDINGS)
        .bind(&route.exchange)
        .fetch_all(&mut *connection)
        .await?;
    let mut queues: Vec<&str> = bound
        .iter()
        .filter(|(pattern, _)| topic_matches(pattern, &route.routing_key))
        .map(|(_, queue)| queue.as_str())
        .collect();
    queues.dedup();
    let mut grown = Vec::new();
    for queue in queues {
        grown.extend(message_insert_from(&mut *connection, queue, message.clone(), route, now).await?);
    }
    Ok(grown)
}

/// Appends to a bound queue; answers its id, or `None` when no bound queue has that name.
pub(super) async fn message_insert(
    connection: &mut SqliteConnection,
    queue: &str,
    message: Message,
    now: Timestamp,
) -> Sql<Option<i64>> {
    message_insert_from(connection, queue, message, &Route::default(), now).await
}

async fn message_insert_from(
    connection: &mut SqliteConnection,
    queue: &str,
    message: Message,
    route: &Route,
    now: Timestamp,
) -> Sql<Option<i64>> {
    let routed = !route.exchange.is_empty();
    let too_long = || sqlx::Error::Encode("a header is longer than 4 GiB".into());
    let headers = message::encode_headers(&message.headers).ok_or_else(too_long)?;
    let properties = rare_properties(&message).map(|rare| message::encode_properties(&rare).ok_or_else(too_long));
    let properties = properties.transpose()?;
    let size = i64::try_from(message.body.len() + headers.len()).unwrap_or(i64::MAX);
    let created_s = message.created_at().map(Timestamp::seconds);
    sqlx::query_scalar(MESSAGE_INSERT)
        .bind(queue)
        .bind(size)
        .bind(now.micros())
        .bind(message.content_type)
        .bind(message.message_id)
        .bind(message.kind)
        .bind(created_s)
        .bind(properties)
        .bind(headers)
        .bind(Vec::from(message.body))
        .bind(routed.then_some(&route.exchange))
        .bind(routed.then_some(&route.routing_key))
        .fetch_optional(connection)
        .await
}

/// The properties that have no column of their own; `None` for what everyday messages have.
fn rare_properties(message: &Message) -> Option<Message> {
    let mut rare = Message {
        content_encoding: message.content_encoding.clone(),
        transient: message.transient,
        priority: message.priority,
        correlation_id: message.correlation_id.clone(),
        reply_to: message.reply_to.clone(),
        expiration: message.expiration.clone(),
        timestamp_s: message.timestamp_s,
        user_id: message.user_id.clone(),
        app_id: message.app_id.clone(),
        cluster_id: message.cluster_id.clone(),
        ..Message::default()
    };
    // Only a time that the column does not hold.
    if message.timestamp_s == message.created_at().map(message::timestamp_s) {
        rare.timestamp_s = None;
    }
    (rare != Message::default()).then_some(rare)
}

/// Answers whether it was there.
pub(super) async fn message_delete(connection: &mut SqliteConnection, queue: i64, id: i64) -> Sql<bool> {
    let deleted = sqlx::query(MESSAGE_DELETE)
        .bind(id)
        .bind(queue)
        .execute(connection)
        .await?;
    Ok(deleted.rows_affected() > 0)
}

/// How much is read at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) messages: u32,
    pub(super) bytes: i64,
}

/// What is behind a place.
#[derive(Debug)]
pub(super) enum Read {
    Messages(Vec<Stored>),
    /// The next one has so many bytes, and there is no room for it.
    Larger(usize),
}

impl Read {
    pub(super) const fn is_empty(&self) -> bool {
        matches!(self, Self::Messages(messages) if messages.is_empty())
    }
}

/// The messages behind place `after`, in order, as far as `window` goes, at least one when there is one.
pub(super) async fn messages(readers: &SqlitePool, queue: i64, after: i64, window: Window) -> Sql<Vec<Stored>> {
    match read(readers, queue, after, window, i64::MAX).await? {
        Read::Messages(messages) => Ok(messages),
        Read::Larger(_) => Ok(Vec::new()),
    }
}

/// [`messages`], where the first one has no more bytes than `room`.
pub(super) async fn read(readers: &SqlitePool, queue: i64, after: i64, window: Window, room: i64) -> Sql<Read> {
    let sizes: Vec<(i64, i64)> = sqlx::query_as(MESSAGE_SIZES)
        .bind(queue)
        .bind(after)
        .bind(window.messages)
        .fetch_all(readers)
        .await?;
    let Some((first, size)) = sizes.first().copied() else {
        return Ok(Read::Messages(Vec::new()));
    };
    if size > room {
        return Ok(Read::Larger(usize::try_from(size).unwrap_or(usize::MAX)));
    }
    let (mut last, mut total) = (first, size);
    for (id, size) in sizes.into_iter().skip(1) {
        total += size;
        if total > window.bytes {
            break;
        }
        last = id;
    }
    let rows = sqlx::query(MESSAGES)
        .bind(queue)
        .bind(after)
        .bind(last)
        .fetch_all(readers)
        .await?;
    rows.iter().map(stored).collect::<Sql<_>>().map(Read::Messages)
}

/// Whether a row holds what nobody wrote: its file is damaged, and reading it again changes nothing.
pub(super) const fn is_damage(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Decode(_) | sqlx::Error::ColumnDecode { .. })
}

type Columns = (
    i64,
    Option<Vec<u8>>,
    Option<Vec<u8>>,
    Option<Vec<u8>>,
    Option<Vec<u8>>,
    Option<Vec<u8>>,
    Option<Vec<u8>>,
);

/// The first message, although it is damaged: its body, and each other column as a header of its name.
pub(super) async fn damaged(readers: &SqlitePool, queue: i64) -> Sql<Option<Stored>> {
    let row: Option<Columns> = sqlx::query_as(DAMAGED).bind(queue).fetch_optional(readers).await?;
    Ok(
        row.map(|(id, content_type, message_id, kind, properties, headers, body)| {
            let named = [
                ("x-redrive-damaged-content-type", content_type),
                ("x-redrive-damaged-message-id", message_id),
                ("x-redrive-damaged-type", kind),
                ("x-redrive-damaged-properties", properties),
                ("x-redrive-damaged-headers", headers),
            ];
            let found = named.into_iter().filter_map(|(name, bytes)| Some((name, bytes?)));
            Stored {
                id,
                route: Route::default(),
                message: Message {
                    headers: found
                        .map(|(name, bytes)| (name.to_owned(), HeaderValue::Bytes(Bytes::from(bytes))))
                        .collect(),
                    body: Bytes::from(body.unwrap_or_default()),
                    ..Message::default()
                },
            }
        }),
    )
}

fn stored(row: &SqliteRow) -> Sql<Stored> {
    let seconds: Option<i64> = row.try_get("timestamp_s")?;
    let headers: &[u8] = row.try_get("headers")?;
    let properties: Option<&[u8]> = row.try_get("properties")?;
    let body: Vec<u8> = row.try_get("body")?;
    let damaged = || sqlx::Error::Decode("headers are damaged".into());
    let mut message = Message {
        content_type: row.try_get("content_type")?,
        message_id: row.try_get("message_id")?,
        kind: row.try_get("kind")?,
        timestamp_s: seconds.map(|seconds| message::timestamp_s(Timestamp::from_seconds(seconds))),
        headers: message::decode_headers(headers).ok_or_else(damaged)?,
        body: Bytes::from(body),
        ..Message::default()
    };
    if let Some(properties) = properties {
        message::decode_properties(properties, &mut message).ok_or_else(damaged)?;
    }
    let exchange: Option<String> = row.try_get("exchange")?;
    let routing_key: Option<String> = row.try_get("routing_key")?;
    Ok(Stored {
        id: row.try_get("id")?,
        route: Route {
            exchange: exchange.unwrap_or_default(),
            routing_key: routing_key.unwrap_or_default(),
        },
        message,
    })
}

pub(super) async fn queue_counts(readers: &SqlitePool, name: &str) -> Sql<Option<Counted>> {
    let row = sqlx::query(QUEUE_COUNTS).bind(name).fetch_optional(readers).await?;
    row.as_ref().map(counted).transpose()
}

/// Hands on queues, by name: one after the other, or the rows of very many would be there at once.
pub(super) async fn queues_listed(
    readers: &SqlitePool,
    naming: &Naming,
    request: &ListRequest,
    mut each: impl FnMut(&Counted),
) -> Sql<()> {
    let query = match &request.which {
        WhichQueues::All => sqlx::query(QUEUES_ALL).bind(request.bytes),
        WhichQueues::Containing(part) => sqlx::query(QUEUES_CONTAINING).bind(request.bytes).bind(part),
        WhichQueues::ButDelivery => sqlx::query(QUEUES_NOT_GLOB)
            .bind(request.bytes)
            .bind(naming.delivery_queue_glob()),
    };
    let mut rows = query.fetch(readers);
    while let Some(row) = rows.try_next().await? {
        each(&counted(&row)?);
    }
    Ok(())
}

fn counted(row: &SqliteRow) -> Sql<Counted> {
    let used_at: i64 = row.try_get("used_at")?;
    let oldest_at: Option<i64> = row.try_get("oldest_at")?;
    let newest_at: Option<i64> = row.try_get("newest_at")?;
    Ok(Counted {
        id: row.try_get("id")?,
        name: row.try_get("name")?,
        messages: row.try_get("messages")?,
        bytes: row.try_get("bytes")?,
        oldest_at: oldest_at.map(Timestamp::from_micros),
        used_at: Timestamp::from_micros(newest_at.map_or(used_at, |newest| newest.max(used_at))),
        expires_ms: row.try_get("expires_ms")?,
        declared_use_at: Timestamp::from_micros(used_at),
    })
}

/// How far the tables were read for signals.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub(super) message: i64,
    pub(super) queue: i64,
    pub(super) deletion: i64,
}

/// The ends of the tables.
pub(super) async fn seen(readers: &SqlitePool) -> Sql<Seen> {
    Ok(Seen {
        message: sqlx::query_scalar(LAST_MESSAGE).fetch_one(readers).await?,
        queue: sqlx::query_scalar(LAST_QUEUE).fetch_one(readers).await?,
        deletion: sqlx::query_scalar(LAST_DELETION).fetch_one(readers).await?,
    })
}

/// Queues with messages behind `after` up to `until`, bounded.
pub(super) async fn queues_grown(readers: &SqlitePool, after: i64, until: i64) -> Sql<Vec<(i64, String)>> {
    sqlx::query_as(QUEUES_GROWN)
        .bind(after)
        .bind(until)
        .fetch_all(readers)
        .await
}

/// Queues created behind `after`, bounded.
pub(super) async fn queues_since(readers: &SqlitePool, after: i64) -> Sql<Vec<(i64, String)>> {
    sqlx::query_as(QUEUES_SINCE).bind(after).fetch_all(readers).await
}

/// A deletion as it was noted.
#[derive(Debug)]
pub(super) struct Noted {
    pub(super) id: i64,
    pub(super) queue: i64,
    pub(super) name: String,
    pub(super) deleted_by: String,
}

/// Queues deleted behind `after` and by whom, bounded.
pub(super) async fn deletions_since(readers: &SqlitePool, after: i64) -> Sql<Vec<Noted>> {
    let rows = sqlx::query(DELETIONS_SINCE).bind(after).fetch_all(readers).await?;
    let noted = |row: &SqliteRow| {
        Ok(Noted {
            id: row.try_get("id")?,
            queue: row.try_get("queue")?,
            name: row.try_get("name")?,
            deleted_by: row.try_get("deleted_by")?,
        })
    };
    rows.iter().map(noted).collect()
}
