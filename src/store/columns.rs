//! The columns of the tables, named once for both drivers, and how a row of either becomes a domain type.
//!
//! What a row holds is trusted to be what this program wrote; anything else is a decoding error with the
//! column's name, never a guess. The statements stand in `sql`.

use std::time::Duration;

use super::{
    AuditChain, AuditEntry, Incarnation, ItemRecord, KeptKind, KeptMessage, NewAudit, NewItem, PolicyScope,
    PolicyVersion, ProcessMark, QueueUrl, RescuedMessage, RescuedRow, RunRecord, WaitingEndpoint, WaitingHead,
};
use crate::domain::attempt::Attempt;
use crate::domain::endpoint::{Endpoint, EndpointState, ProbeClaim};
use crate::domain::fingerprint::Fingerprint;
use crate::domain::id::{EndpointEpoch, Epoch, ExecutionId, IncarnationId, NotificationId, QueueName};
use crate::domain::outcome::OutcomeClass;
use crate::domain::policy::{Override, Phase};
use crate::domain::queue::{Closing, Decision, Head, Pause, QueueRecord};
use crate::domain::retention::Ages;
use crate::domain::run::{ItemState, RunCounts, RunState, Target};
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;

macro_rules! queue_columns {
    () => {
        "name, execution, url, epoch, owner, paused_by, paused_reason, paused_at, wanted_by_incarnation, closing, refused, \
         refusing, quarantined, has_companion, head_message, head_failures, head_first_failed_at, \
         head_last_failed_at, head_last_status, head_last_error, head_next_attempt_at, head_parked, head_phase, \
         head_attempts_allowed, head_fingerprint, decision_id, decision_message, decision_fingerprint, \
         decision_reason, decision_epoch, refusals_in_row, delivered, last_delivered_at, active_at, created_at"
    };
}
/// Of a head that waits, beside the columns of its queue: its terms, and the URL that waits for it.
macro_rules! waiting_columns {
    () => {
        "head_event_type, head_polling_time, head_restart_count, head_asked_until, e_url, e_epoch, e_attempts, e_next"
    };
}
/// The assignments that forget a head.
macro_rules! head_cleared {
    () => {
        "head_message = NULL, head_fingerprint = NULL, head_failures = NULL, head_first_failed_at = NULL, head_last_failed_at = NULL, \
         head_last_status = NULL, head_last_error = NULL, head_next_attempt_at = NULL, head_parked = NULL, \
         head_phase = NULL, head_attempts_allowed = NULL, head_event_type = NULL, head_polling_time = NULL, \
         head_restart_count = NULL, head_asked_until = NULL"
    };
}
macro_rules! endpoint_columns {
    () => {
        "url, state, epoch, since, attempts, next_attempt_at, last_status, last_error, last_success_at, \
         probe_queue, probe_message, probe_token, probe_until, pace"
    };
}
/// What everybody is shown of a URL, to order by: where the values in its query have a part in the order, it tells them.
macro_rules! shown_url {
    () => {
        "substr(url, 1, strpos(url || '?', '?') - 1)"
    };
}
macro_rules! attempt_columns {
    () => {
        "message_id, queue, url, number, epoch, started_at, duration_ms, class, status, error, response, counted"
    };
}
macro_rules! run_columns {
    () => {
        run_columns!("plan")
    };
    ($plan:literal) => {
        concat!(
            "id, command, state, done, failed, skipped, restored, total, rate, canary, actor, reason, note, ",
            $plan,
            ", hash, owner, epoch, broker, created_at, started_at, updated_at, ended_at"
        )
    };
}
macro_rules! kept_columns {
    () => {
        "letter, kind, queue, message, run, ordinal, actor, at, until"
    };
}
macro_rules! item_columns {
    () => {
        "ordinal, letter, source, target, bytes, state, reason, dropped"
    };
}
pub(super) use {
    attempt_columns, endpoint_columns, head_cleared, item_columns, kept_columns, queue_columns, run_columns, shown_url,
    waiting_columns,
};

/// A row of either driver, read by column name.
pub(super) trait Columns {
    /// An integer, or NULL.
    fn integer(&self, column: &str) -> Result<Option<i64>, sqlx::Error>;
    /// Text, or NULL.
    fn text(&self, column: &str) -> Result<Option<String>, sqlx::Error>;
    /// Bytes, or NULL.
    fn bytes(&self, column: &str) -> Result<Option<Vec<u8>>, sqlx::Error>;
    /// A truth value; NULL is false.
    fn flag(&self, column: &str) -> Result<bool, sqlx::Error>;
}

pub(super) fn queue_record(row: &impl Columns) -> Result<QueueRecord, sqlx::Error> {
    Ok(QueueRecord {
        name: parsed(row, "name", QueueName::parse)?,
        execution: parsed_optional(row, "execution", ExecutionId::parse)?,
        url: parsed_optional(row, "url", EndpointUrl::parse)?,
        epoch: Epoch(integer(row, "epoch")?),
        owner: row.integer("owner")?.map(IncarnationId),
        pause: pause(row)?,
        wanted_by: row.integer("wanted_by_incarnation")?.map(IncarnationId),
        closing: named(row, "closing", closing_of)?,
        refused: row.text("refused")?,
        refusing: row.text("refusing")?,
        quarantined: row.text("quarantined")?,
        has_companion: row.flag("has_companion")?,
        head: head(row)?,
        decision: decision(row)?,
        refusals_in_row: number(row, "refusals_in_row")?,
        delivered: number(row, "delivered")?,
        last_delivered_at: time_optional(row, "last_delivered_at")?,
        active_at: time(row, "active_at")?,
        created_at: time(row, "created_at")?,
    })
}

/// A row of [`waiting_columns`] with [`queue_columns`].
pub(super) fn waiting_head(row: &impl Columns) -> Result<WaitingHead, sqlx::Error> {
    let missing = |column: &str| sqlx::Error::ColumnNotFound(column.to_owned());
    let record = queue_record(row)?;
    let endpoint = match row.text("e_url")? {
        None => None,
        Some(_) => Some(WaitingEndpoint {
            epoch: EndpointEpoch(integer(row, "e_epoch")?),
            attempts: number(row, "e_attempts")?,
            next_attempt_at: time_optional(row, "e_next")?,
            probing: row.flag("e_probing")?,
        }),
    };
    Ok(WaitingHead {
        queue: record.name,
        url: record.url.ok_or_else(|| missing("url"))?,
        head: record.head.ok_or_else(|| missing("head_message"))?,
        event_type: row.text("head_event_type")?,
        own: Override {
            polling_time_s: number_optional(row, "head_polling_time")?,
            restart_count: number_optional(row, "head_restart_count")?,
        },
        asked_until: time_optional(row, "head_asked_until")?,
        endpoint,
    })
}

fn pause(row: &impl Columns) -> Result<Option<Pause>, sqlx::Error> {
    let Some(by) = row.text("paused_by")? else {
        return Ok(None);
    };
    Ok(Some(Pause {
        by,
        reason: row.text("paused_reason")?,
        at: time(row, "paused_at")?,
    }))
}

fn head(row: &impl Columns) -> Result<Option<Head>, sqlx::Error> {
    let Some(message) = parsed_optional(row, "head_message", NotificationId::parse)? else {
        return Ok(None);
    };
    Ok(Some(Head {
        message,
        fingerprint: fingerprint(row, "head_fingerprint")?,
        failures: number(row, "head_failures")?,
        first_failed_at: time(row, "head_first_failed_at")?,
        last_failed_at: time(row, "head_last_failed_at")?,
        last_status: number_optional(row, "head_last_status")?,
        last_error: row.text("head_last_error")?,
        next_attempt_at: time_optional(row, "head_next_attempt_at")?,
        parked: row.flag("head_parked")?,
        phase: named_optional(row, "head_phase", phase_of)?,
        attempts_allowed: number(row, "head_attempts_allowed")?,
    }))
}

fn decision(row: &impl Columns) -> Result<Option<Decision>, sqlx::Error> {
    let Some(id) = row.text("decision_id")? else {
        return Ok(None);
    };
    Ok(Some(Decision {
        id,
        message: parsed(row, "decision_message", NotificationId::parse)?,
        fingerprint: fingerprint(row, "decision_fingerprint")?,
        reason: text(row, "decision_reason")?,
        epoch: Epoch(integer(row, "decision_epoch")?),
    }))
}

/// Of a message; none in a row that an older program wrote.
fn fingerprint(row: &impl Columns, column: &str) -> Result<Option<Fingerprint>, sqlx::Error> {
    row.bytes(column)?
        .map(|bytes| Fingerprint::from_bytes(&bytes).ok_or_else(|| unreadable(column)))
        .transpose()
}

/// A row of name, url and answered.
pub(super) fn queue_url(row: &impl Columns) -> Result<QueueUrl, sqlx::Error> {
    Ok(QueueUrl {
        queue: parsed(row, "name", QueueName::parse)?,
        url: endpoint_url(row)?,
        answered: row.flag("answered")?,
    })
}

/// The URL of an endpoint's row.
pub(super) fn endpoint_url(row: &impl Columns) -> Result<EndpointUrl, sqlx::Error> {
    parsed(row, "url", EndpointUrl::parse)
}

/// A state that this program does not know counts as disabled: nothing is sent there, and every other row is read.
pub(super) fn endpoint(row: &impl Columns) -> Result<Endpoint, sqlx::Error> {
    let state = text(row, "state")?;
    let Some(known) = EndpointState::parse(&state) else {
        return Ok(Endpoint {
            state: EndpointState::Disabled,
            next_attempt_at: None,
            probe: None,
            last_error: Some(format!(
                "the store holds the state {state:?}, which this program does not know: it counts as disabled until \
                 `redrive redeliver`"
            )),
            ..endpoint_in(row, EndpointState::Disabled)?
        });
    };
    endpoint_in(row, known)
}

fn endpoint_in(row: &impl Columns, state: EndpointState) -> Result<Endpoint, sqlx::Error> {
    let probe = match (row.integer("probe_token")?, time_optional(row, "probe_until")?) {
        (Some(token), Some(until)) => Some(ProbeClaim { token, until }),
        _ => None,
    };
    Ok(Endpoint {
        url: endpoint_url(row)?,
        state,
        epoch: EndpointEpoch(integer(row, "epoch")?),
        since: time(row, "since")?,
        attempts: number(row, "attempts")?,
        next_attempt_at: time_optional(row, "next_attempt_at")?,
        last_status: number_optional(row, "last_status")?,
        last_error: row.text("last_error")?,
        last_success_at: time_optional(row, "last_success_at")?,
        probe_queue: parsed_optional(row, "probe_queue", QueueName::parse)?,
        probe_message: parsed_optional(row, "probe_message", NotificationId::parse)?,
        probe,
        // One that this program cannot read says nothing to it: the endpoint goes on.
        pace: row.text("pace")?.and_then(|text| serde_json::from_str(&text).ok()),
    })
}

pub(super) fn attempt(row: &impl Columns) -> Result<Attempt, sqlx::Error> {
    Ok(Attempt {
        message_id: parsed(row, "message_id", NotificationId::parse)?,
        queue: parsed(row, "queue", QueueName::parse)?,
        url: parsed(row, "url", EndpointUrl::parse)?,
        number: number(row, "number")?,
        epoch: Epoch(integer(row, "epoch")?),
        started_at: time(row, "started_at")?,
        duration_ms: number(row, "duration_ms")?,
        class: named(row, "class", class_of)?,
        status: number_optional(row, "status")?,
        error: row.text("error")?,
        response: row.bytes("response")?,
        counted: row.flag("counted")?,
    })
}

pub(super) fn incarnation(row: &impl Columns) -> Result<Incarnation, sqlx::Error> {
    Ok(Incarnation {
        id: IncarnationId(integer(row, "id")?),
        name: text(row, "name")?,
        host: text(row, "host")?,
        pid: number(row, "pid")?,
        process: ProcessMark {
            machine: row.text("machine")?,
            started: row.integer("process_started")?,
        },
        counter: integer(row, "counter")?,
        alive: row.flag("alive")?,
        delivers: row.text("fingerprint")?.is_some(),
        take_over: Duration::from_micros(number(row, "take_over")?),
        deadline: number_optional(row, "deadline")?.map(Duration::from_micros),
        started_at: time(row, "started_at")?,
        beat_at: time(row, "beat_at")?,
        leases: number(row, "leases")?,
    })
}

pub(super) fn audit_entry(row: &impl Columns) -> Result<AuditEntry, sqlx::Error> {
    Ok(AuditEntry {
        id: integer(row, "id")?,
        at: time(row, "at")?,
        entry: NewAudit {
            actor: text(row, "actor")?,
            command: text(row, "command")?,
            target: text(row, "target")?,
            reason: row.text("reason")?,
            plan: row.text("plan")?,
            result: text(row, "result")?,
            detail: text(row, "detail")?,
        },
        broker: row.text("broker")?,
        hash: text(row, "hash")?,
    })
}

pub(super) fn audit_chain(row: &impl Columns) -> Result<AuditChain, sqlx::Error> {
    Ok(AuditChain {
        removed: number(row, "removed")?,
        removed_id: integer(row, "removed_id")?,
        removed_hash: text(row, "removed_hash")?,
        removed_at: time_optional(row, "removed_at")?,
        newest_id: integer(row, "newest_id")?,
        newest_hash: text(row, "newest_hash")?,
    })
}

pub(super) fn ages(row: &impl Columns) -> Result<Ages, sqlx::Error> {
    Ok(Ages {
        counted_at: time_optional(row, "aged_at")?,
        leapt_at: time_optional(row, "leapt_at")?,
    })
}

pub(super) fn policy_version(row: &impl Columns) -> Result<PolicyVersion, sqlx::Error> {
    let url = text(row, "url")?;
    Ok(PolicyVersion {
        scope: PolicyScope {
            event_type: Some(text(row, "event_type")?).filter(|name| !name.is_empty()),
            url: if url.is_empty() {
                None
            } else {
                Some(parsed(row, "url", EndpointUrl::parse)?)
            },
        },
        version: integer(row, "version")?,
        document: row.text("document")?,
        author: text(row, "author")?,
        at: time(row, "at")?,
    })
}

pub(super) fn run_record(row: &impl Columns) -> Result<RunRecord, sqlx::Error> {
    Ok(RunRecord {
        id: text(row, "id")?,
        command: text(row, "command")?,
        state: named(row, "state", RunState::parse)?,
        counts: RunCounts {
            done: number(row, "done")?,
            failed: number(row, "failed")?,
            skipped: number(row, "skipped")?,
        },
        restored: number(row, "restored")?,
        total: number(row, "total")?,
        rate: number_optional(row, "rate")?,
        canary: number_optional(row, "canary")?,
        actor: text(row, "actor")?,
        reason: row.text("reason")?,
        note: row.text("note")?,
        plan: text(row, "plan")?,
        hash: text(row, "hash")?,
        owner: row.integer("owner")?.map(IncarnationId),
        epoch: Epoch(integer(row, "epoch")?),
        broker: row.text("broker")?,
        created_at: time(row, "created_at")?,
        started_at: time_optional(row, "started_at")?,
        updated_at: time(row, "updated_at")?,
        ended_at: time_optional(row, "ended_at")?,
    })
}

pub(super) fn item_record(row: &impl Columns) -> Result<ItemRecord, sqlx::Error> {
    Ok(ItemRecord {
        item: NewItem {
            ordinal: number(row, "ordinal")?,
            letter: text(row, "letter")?,
            source: parsed(row, "source", QueueName::parse)?,
            target: named_optional(row, "target", Target::decode)?,
            bytes: number(row, "bytes")?,
            state: named(row, "state", ItemState::parse)?,
            reason: row.text("reason")?,
        },
        dropped: row.text("dropped")?,
    })
}

pub(super) fn kept_message(row: &impl Columns) -> Result<KeptMessage, sqlx::Error> {
    Ok(KeptMessage {
        letter: text(row, "letter")?,
        kind: named(row, "kind", KeptKind::parse)?,
        queue: parsed(row, "queue", QueueName::parse)?,
        message: row.bytes("message")?.ok_or_else(|| missing("message"))?,
        run: row.text("run")?,
        ordinal: number(row, "ordinal")?,
        actor: text(row, "actor")?,
        keep_for: None,
        at: time(row, "at")?,
        until: time_optional(row, "until")?,
    })
}

pub(super) fn rescued_row(row: &impl Columns) -> Result<RescuedRow, sqlx::Error> {
    Ok(RescuedRow {
        id: integer(row, "id")?,
        queue: parsed(row, "queue", QueueName::parse)?,
        bytes: number(row, "bytes")?,
        reason: text(row, "reason")?,
        at: time(row, "at")?,
    })
}

pub(super) fn rescued_message(row: &impl Columns) -> Result<RescuedMessage, sqlx::Error> {
    Ok(RescuedMessage {
        id: integer(row, "id")?,
        queue: parsed(row, "queue", QueueName::parse)?,
        header_frame: row.bytes("header_frame")?.ok_or_else(|| missing("header_frame"))?,
        body: row.bytes("body")?.ok_or_else(|| missing("body"))?,
        reason: text(row, "reason")?,
        at: time(row, "at")?,
    })
}

pub(super) const fn closing_text(closing: Closing) -> &'static str {
    match closing {
        Closing::Open => "open",
        Closing::Ended => "ended",
        Closing::Closing => "closing",
    }
}

fn closing_of(text: &str) -> Option<Closing> {
    [Closing::Open, Closing::Ended, Closing::Closing]
        .into_iter()
        .find(|closing| closing_text(*closing) == text)
}

fn phase_of(text: &str) -> Option<Phase> {
    Phase::ALL.into_iter().find(|phase| phase.as_str() == text)
}

fn class_of(text: &str) -> Option<OutcomeClass> {
    [
        OutcomeClass::Delivered,
        OutcomeClass::Refused,
        OutcomeClass::Gone,
        OutcomeClass::Failed,
        OutcomeClass::Interrupted,
    ]
    .into_iter()
    .find(|class| class.as_str() == text)
}

/// A span as the tables hold it.
pub(super) fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

/// Text from outside, as every store can hold it: PostgreSQL has no U+0000, and JSON ends a text of SQLite there.
pub(super) fn storable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// A count as the tables hold it.
pub(super) fn stored(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

pub(super) fn integer(row: &impl Columns, column: &str) -> Result<i64, sqlx::Error> {
    row.integer(column)?.ok_or_else(|| missing(column))
}

pub(super) fn text(row: &impl Columns, column: &str) -> Result<String, sqlx::Error> {
    row.text(column)?.ok_or_else(|| missing(column))
}

pub(super) fn number<T: TryFrom<i64>>(row: &impl Columns, column: &str) -> Result<T, sqlx::Error> {
    T::try_from(integer(row, column)?).map_err(|_| unreadable(column))
}

pub(super) fn number_optional<T: TryFrom<i64>>(row: &impl Columns, column: &str) -> Result<Option<T>, sqlx::Error> {
    row.integer(column)?
        .map(|value| T::try_from(value).map_err(|_| unreadable(column)))
        .transpose()
}

pub(super) fn time(row: &impl Columns, column: &str) -> Result<Timestamp, sqlx::Error> {
    integer(row, column).map(Timestamp::from_micros)
}

pub(super) fn time_optional(row: &impl Columns, column: &str) -> Result<Option<Timestamp>, sqlx::Error> {
    Ok(row.integer(column)?.map(Timestamp::from_micros))
}

pub(super) fn parsed<T, E>(
    row: &impl Columns,
    column: &str,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<T, sqlx::Error> {
    parse(&text(row, column)?).map_err(|_| unreadable(column))
}

fn parsed_optional<T, E>(
    row: &impl Columns,
    column: &str,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<Option<T>, sqlx::Error> {
    row.text(column)?
        .map(|value| parse(&value).map_err(|_| unreadable(column)))
        .transpose()
}

pub(super) fn named<T>(row: &impl Columns, column: &str, find: impl Fn(&str) -> Option<T>) -> Result<T, sqlx::Error> {
    find(&text(row, column)?).ok_or_else(|| unreadable(column))
}

pub(super) fn named_optional<T>(
    row: &impl Columns,
    column: &str,
    find: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, sqlx::Error> {
    row.text(column)?
        .map(|value| find(&value).ok_or_else(|| unreadable(column)))
        .transpose()
}

fn missing(column: &str) -> sqlx::Error {
    sqlx::Error::Decode(format!("column {column} is NULL").into())
}

fn unreadable(column: &str) -> sqlx::Error {
    sqlx::Error::Decode(format!("column {column} holds a value that this program does not know").into())
}

#[cfg(test)]
mod tests {
    use super::storable;

    #[test]
    fn text_from_outside_loses_only_what_a_store_cannot_hold() {
        assert_eq!(storable("a\0b\u{1b}[2J"), "a\u{fffd}b\u{1b}[2J");
    }
}
