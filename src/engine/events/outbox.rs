//! Notifications of events: made of an event and the subscriptions of its type, stored with the event's finish,
//! and published from there in order (docs/protocols.md 28).
//!
//! One process pumps, under a lease. A notification that cannot be published now holds back only its own delivery
//! queue; one that never can becomes a dead letter of its type. A crash between confirm and removal publishes
//! again, under the same id.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use tokio_util::sync::CancellationToken;

use super::EventTable;
use super::json::from_json;
use crate::ambient::{self, HashMap};
use crate::domain::event::{Event, SubscriptionOptions, rfc3339};
use crate::domain::id::{ExecutionId, IncarnationId, NotificationId, QueueName};
use crate::domain::message;
use crate::domain::notification::{Decoded, HEADERS_MAX, Notification, decode};
use crate::engine::EngineError;
use crate::store::{NamedLease, NewOutboxRow, OutboxRow, Subscription};

/// The lease of the pump.
const PUMP: &str = "outbox";
/// Rows of one round.
const ROWS: u32 = 200;
/// Between two looks when nothing was said.
const IDLE: Duration = Duration::from_secs(1);
/// The same in a process that stores none itself.
const IDLE_ELSEWHERE: Duration = Duration::from_secs(15);
/// The longest wait of a delivery queue.
const WAIT_MAX: Duration = Duration::from_mins(5);

/// What is not written as it is in a header of a `CloudEvent` (its HTTP binding, 3.1.3.2); what is not ASCII neither.
const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'%');

/// Makes a request an event of the `CloudEvents` specification, version 1.0, in its binary mode; what the subscription says
/// of a header itself holds.
fn add_cloudevent(headers: &mut Vec<(String, String)>, source: &str, id: &str, event: &Event) {
    let time = rfc3339(event.created_at);
    for (name, value) in [
        ("ce-specversion", "1.0"),
        ("ce-id", id),
        ("ce-source", source),
        ("ce-type", event.event_type.as_str()),
        ("ce-subject", event.reference.as_str()),
        ("ce-time", &time),
    ] {
        let is_said = headers.iter().any(|(said, _)| said.eq_ignore_ascii_case(name));
        if !is_said {
            headers.push((name.to_owned(), utf8_percent_encode(value, ENCODED).to_string()));
        }
    }
}

impl EventTable {
    /// The notifications of an event, one for each subscription; an error is the event's. What cannot be sent for one
    /// of the subscriptions is found by the pump, which buries that alone.
    pub(super) fn notifications(
        &self,
        event: &Event,
        subscriptions: &[Subscription],
    ) -> Result<Vec<NewOutboxRow>, String> {
        subscriptions
            .iter()
            .map(|subscription| self.notification_of(event, subscription))
            .collect()
    }

    fn notification_of(&self, event: &Event, subscription: &Subscription) -> Result<NewOutboxRow, String> {
        let options: serde_json::Value = serde_json::from_str(&subscription.options).unwrap_or_default();
        let options = SubscriptionOptions::from_value(&from_json(&options)).map_err(|error| error.to_string())?;
        let naming = &self.settings.naming;
        let id = event.notification_id(subscription.id);
        let execution = format!("{}:{}", event.event_type.as_str(), event.reference.as_str());
        let end = execution.floor_char_boundary(1024);
        let body = event.payload.clone().unwrap_or_default();
        let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(&body).is_ok();
        let mut headers = options.headers;
        if let Some(source) = &options.cloudevents {
            add_cloudevent(&mut headers, source, &id, event);
        }
        if let Some(trace) = &event.trace {
            let traced = trace.headers(|name| headers.iter().any(|(one, _)| one.eq_ignore_ascii_case(name)));
            if headers.len() + traced.len() <= HEADERS_MAX {
                headers.extend(traced);
            }
        }
        let written = headers
            .iter()
            .position(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        let notification = Notification {
            id: NotificationId::parse(&id).map_err(|error| error.to_string())?,
            execution: ExecutionId::parse(execution.get(..end).unwrap_or_default())
                .map_err(|error| error.to_string())?,
            url: subscription.url.clone(),
            content_type: match written {
                Some(at) => Some(headers.remove(at).1),
                None => is_json.then(|| "application/json".to_owned()),
            },
            headers,
            body,
            polling_time_s: None,
            restart_count: None,
            created_at: Some(self.clock.now()),
            event_type: Some(event.event_type.as_str().to_owned()),
            subscription: Some(subscription.id.to_string()),
        };
        let queue = naming.delivery_queue(&notification.execution, &notification.url);
        let bytes = message::encode(&notification.to_message()).ok_or("the notification is too large")?;
        Ok(NewOutboxRow {
            notification: id,
            queue: queue.as_str().to_owned(),
            message: bytes.into(),
            event_type: event.event_type.clone(),
            reference: event.reference.clone(),
        })
    }

    /// Publishes what is stored, until `stop`, while this process holds the pump's lease.
    pub(super) async fn pump(self: Arc<Self>, me: IncarnationId, stop: CancellationToken) {
        let mut guard = None;
        while !stop.is_cancelled() {
            if guard.is_none() {
                guard = self.take_pump(me).await;
            }
            let moved = match &guard {
                Some(held) => self.pump_once(held, || self.fence.permits(me)).await,
                None => Ok(Some(0)),
            };
            match moved {
                Ok(Some(0)) => self.wait_for_rows(&stop).await,
                Ok(Some(_)) => {}
                Ok(None) => guard = None,
                Err(error) => {
                    tracing::warn!(error = ?error, "notifications of events wait for the store");
                    self.wait_for_rows(&stop).await;
                }
            }
        }
        if let Some(held) = guard {
            // Else it is free with the incarnation.
            let _ = self.store.named_lease_free(&held.name, held.epoch).await;
        }
    }

    pub(super) async fn take_pump(&self, me: IncarnationId) -> Option<NamedLease> {
        match self.store.named_lease_take(PUMP, me).await {
            Ok(epoch) => epoch.map(|epoch| NamedLease {
                name: PUMP.to_owned(),
                epoch,
            }),
            Err(error) => {
                tracing::debug!(error = ?error, "the pump waits for the store");
                None
            }
        }
    }

    async fn wait_for_rows(&self, stop: &CancellationToken) {
        let idle = if self.notifies() { IDLE } else { IDLE_ELSEWHERE };
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.outbox_filled.notified() => {}
            () = ambient::sleep(idle) => {}
        }
    }

    /// One round, as long as it is `permitted`: a process that slept would send old ones behind newer ones. Answers
    /// how many rows went, `None` when the lease is lost.
    ///
    /// What was published is noted before the next one of a queue goes: a crash between them repeats one of each queue.
    pub(super) async fn pump_once(
        &self,
        guard: &NamedLease,
        permitted: impl Fn() -> bool + Copy + Send,
    ) -> Result<Option<usize>, EngineError> {
        let mut queues: HashMap<String, VecDeque<OutboxRow>> = HashMap::default();
        for row in self.store.outbox_page(ROWS).await? {
            queues.entry(row.queue.clone()).or_default().push_back(row);
        }
        let mut moved = 0;
        while permitted() && !queues.is_empty() {
            let first: Vec<OutboxRow> = queues.values_mut().filter_map(VecDeque::pop_front).collect();
            queues.retain(|_, rows| !rows.is_empty());
            let ends = join_all(first.iter().map(|row| self.publish_or_bury(row, guard))).await;
            let mut published = Vec::new();
            for (row, end) in first.iter().zip(ends) {
                match end {
                    RowEnd::Published => published.push(row.id),
                    RowEnd::Buried => moved += 1,
                    RowEnd::Waits => drop(queues.remove(&row.queue)),
                    RowEnd::LeaseLost => return Ok(None),
                }
            }
            if published.is_empty() {
                continue;
            }
            if !self.store.outbox_published(guard, &published).await? {
                return Ok(None);
            }
            moved += published.len();
        }
        Ok(Some(moved))
    }

    /// One that never can be published becomes a dead letter, and those behind it go on.
    async fn publish_or_bury(&self, row: &OutboxRow, guard: &NamedLease) -> RowEnd {
        match self.publish_row(row).await {
            Ok(()) => RowEnd::Published,
            Err(error @ (EngineError::Invalid { .. } | EngineError::TooLarge { .. })) => {
                let why = format!("notification: {}", crate::engine::error::chain(&error));
                match self.store.outbox_bury(guard, row.id, &why).await {
                    Ok(true) => RowEnd::Buried,
                    Ok(false) => RowEnd::LeaseLost,
                    Err(error) => {
                        tracing::warn!(error = ?error, "a notification that cannot be published waits");
                        RowEnd::Waits
                    }
                }
            }
            Err(error) => {
                let wait = Duration::from_secs(1_u64 << row.attempts.min(8)).min(WAIT_MAX);
                let why = crate::engine::error::chain(&error);
                tracing::warn!(why = ?why, queue = ?row.queue, "a notification of an event waits");
                let _ = self.store.outbox_postpone(row.id, wait, &why).await;
                RowEnd::Waits
            }
        }
    }

    async fn publish_row(&self, row: &OutboxRow) -> Result<(), EngineError> {
        let unreadable = || EngineError::Invalid {
            field: "notification".to_owned(),
            message: format!("notification {:?} cannot be read", row.notification),
        };
        let stored = message::decode(&row.message).ok_or_else(unreadable)?;
        let id = NotificationId::parse(&row.notification).map_err(|_| unreadable())?;
        // Only read for whom it is: what is published is what was stored.
        let notification = match decode(&stored, &|| id.clone()) {
            Decoded::Notification(notification) => notification,
            Decoded::Foreign(message) => {
                let field = "notification".to_owned();
                return Err(EngineError::Invalid { field, message });
            }
            Decoded::End => return Err(unreadable()),
        };
        let queue = QueueName::parse(&row.queue).map_err(|_| unreadable())?;
        self.publisher.publish_stored(&queue, stored, &notification).await
    }
}

/// What came of a row.
enum RowEnd {
    /// Confirmed by the broker.
    Published,
    /// A dead letter by now.
    Buried,
    /// It holds back those behind it.
    Waits,
    /// The pump's lease is another's.
    LeaseLost,
}
