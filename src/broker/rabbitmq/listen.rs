//! Hears what happens: nudges on the wake queue, created and deleted queues, policies and alarms on the
//! event exchange where there is one. Lossy by design; a sweep finds what was missed.
//!
//! Two tasks, each with a connection of its own that it opens again with jittered backoff. Losing the
//! first is *the broker is down*; the second degrades in silence (the plugin is optional, docs/rabbitmq.md, *Events and
//! policies of the broker*).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::broadcast;
use tokio::task::AbortHandle;

use super::asks::{self, Asked, Taken, flags};
use super::dialer::Dialer;
use super::failure::{CallError, right_of};
use super::feed::{Feed, Stopped, Tap};
use super::frames::ShortString;
use super::message;
use super::prepare::short;
use crate::ambient;
use crate::broker::{BrokerError, EventExchange, Signal};
use crate::domain::id::QueueName;
use crate::domain::message::Message;
use crate::domain::naming::{Argument, Naming};

/// Signals that wait for a slow receiver.
const SIGNALS_MAX: usize = 4096;
const BACKOFF_MIN: Duration = Duration::from_millis(200);
const BACKOFF_MAX: Duration = Duration::from_secs(10);
/// How often a missing event exchange is looked for again.
const NO_EVENTS: Duration = Duration::from_mins(5);
/// How often the queue that events are read from is bound again.
const BOUND_AGAIN: Duration = Duration::from_secs(20);
/// Events that wait for us at once.
const EVENTS_LENGTH_MAX: i32 = 10_000;
const EVENTS: &str = "events";
/// Where the broker publishes its events.
const EVENT_VHOST: &str = "/";
const EVENT_EXCHANGE: &str = "amq.rabbitmq.event";
/// What the names of queues begin with that events are read from.
const EVENT_QUEUE: &str = "redrive-events-";
const EVENT_KEYS: [&str; 5] = [
    "queue.created",
    "queue.deleted",
    "policy.#",
    "queue.policy.#",
    "alarm.#",
];

/// Both tasks, and where what they hear is told.
#[derive(Debug)]
pub(super) struct Listeners {
    signals: broadcast::Sender<Signal>,
    /// Whether events are being heard, and why not.
    events: Arc<Mutex<EventExchange>>,
    tasks: Mutex<Vec<AbortHandle>>,
}

impl Listeners {
    pub(super) fn new() -> Self {
        Self {
            signals: broadcast::channel(SIGNALS_MAX).0,
            events: Arc::default(),
            tasks: Mutex::default(),
        }
    }

    /// For others who have something to tell.
    pub(super) fn sender(&self) -> broadcast::Sender<Signal> {
        self.signals.clone()
    }

    pub(super) fn subscribe(&self) -> broadcast::Receiver<Signal> {
        self.signals.subscribe()
    }

    pub(super) fn tell(&self, signal: Signal) {
        // Nobody listens: nobody needs to know.
        let _ = self.signals.send(signal);
    }

    /// Begins both tasks, once.
    pub(super) fn begin(&self, dialer: &Arc<Dialer>, naming: &Naming) -> Result<(), BrokerError> {
        let wake_queue = short(&naming.wake_queue())?;
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        if tasks.is_empty() {
            let listening = Listening {
                dialer: Arc::clone(dialer),
                naming: naming.clone(),
                wake_queue,
                signals: self.signals.clone(),
                events: Arc::clone(&self.events),
            };
            tasks.push(ambient::spawn("broker-wake", listening.clone().wake()).abort_handle());
            tasks.push(ambient::spawn("broker-events", listening.event_exchange()).abort_handle());
        }
        Ok(())
    }

    pub(super) fn have_begun(&self) -> bool {
        !self.tasks.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    pub(super) fn events(&self) -> EventExchange {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn stop(&self) {
        for task in self.tasks.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            task.abort();
        }
    }
}

/// What both tasks need.
#[derive(Clone, Debug)]
struct Listening {
    dialer: Arc<Dialer>,
    naming: Naming,
    wake_queue: ShortString,
    signals: broadcast::Sender<Signal>,
    events: Arc<Mutex<EventExchange>>,
}

impl Listening {
    fn tell(&self, signal: Signal) {
        // Nobody listens: nobody needs to know.
        let _ = self.signals.send(signal);
    }

    /// Consumes the wake queue for ever.
    async fn wake(self) {
        let mut backoff = BACKOFF_MIN;
        let mut down = false;
        loop {
            let reason = match self.open_wake().await {
                Ok(tap) => {
                    if std::mem::replace(&mut down, false) {
                        self.tell(Signal::Up);
                    }
                    backoff = BACKOFF_MIN;
                    self.hear_wake(&tap).await
                }
                Err(reason) => reason,
            };
            if !std::mem::replace(&mut down, true) {
                self.tell(Signal::Down(reason));
            }
            pause(&mut backoff).await;
        }
    }

    async fn open_wake(&self) -> Result<Tap, String> {
        let feed = Feed::open(&self.dialer, "wake")
            .await
            .map_err(|error| error.to_string())?;
        let tap = feed.channel("").await.map_err(|error| error.text())?;
        let consuming = consuming(&self.wake_queue);
        tap.call(&[consuming]).await.map_err(|error| error.text())?;
        Ok(tap)
    }

    /// Tells of nudges until the connection is lost; answers why it was.
    async fn hear_wake(&self, tap: &Tap) -> String {
        loop {
            let came = match tap.next().await {
                Ok(came) => came,
                Err(stopped) => {
                    if matches!(stopped, Stopped::Cancelled) {
                        self.tell(Signal::WakeQueueGone);
                    }
                    return CallError::from(stopped).text();
                }
            };
            // Anybody may write there: what is no name is nothing.
            let name = std::str::from_utf8(&came.body).ok();
            if let Some(queue) = name.and_then(|name| QueueName::parse(name).ok()) {
                self.tell(Signal::Nudged(queue));
            }
        }
    }

    /// Hears the event exchange for ever.
    async fn event_exchange(self) {
        let mut backoff = BACKOFF_MIN;
        loop {
            match self.hear_events(&mut backoff).await {
                Heard::Lost => {
                    pause(&mut backoff).await;
                    self.found(EventExchange::Absent);
                }
                Heard::Nothing(why) => {
                    tracing::debug!(?why, "no event exchange; queues are found by listing");
                    self.found(why);
                    ambient::sleep(NO_EVENTS.mul_f64(0.5 + ambient::roll())).await;
                }
            }
        }
    }

    fn found(&self, events: EventExchange) {
        *self.events.lock().unwrap_or_else(PoisonError::into_inner) = events;
    }

    fn is_of_a_probe(&self, signal: &Signal) -> bool {
        match signal {
            Signal::QueueCreated(queue) | Signal::QueueDeleted { queue, .. } => {
                self.naming.is_probe_queue(queue.as_str())
            }
            Signal::Nudged(_)
            | Signal::PolicyChanged
            | Signal::Blocked(_)
            | Signal::Unblocked
            | Signal::WakeQueueGone
            | Signal::Down(_)
            | Signal::Up => false,
        }
    }

    async fn hear_events(&self, backoff: &mut Duration) -> Heard {
        let feed = match events_feed(&self.dialer).await {
            Ok(feed) => feed,
            Err(error @ (BrokerError::Rights { .. } | BrokerError::Vhost { .. })) => {
                return Heard::Nothing(not_entered(&self.dialer, &error));
            }
            // Nothing of that is about the exchange.
            Err(_) => return Heard::Lost,
        };
        let queue = a_queue();
        let tap = match subscribe(&feed, &queue).await {
            Ok(tap) => tap,
            Err(error) => return self.unheard(&error),
        };
        self.found(EventExchange::There);
        *backoff = BACKOFF_MIN;
        // One that was set before anybody listened has no event.
        self.tell(Signal::PolicyChanged);
        tokio::select! {
            biased;
            error = unbound(&feed, &queue) => self.unheard(&error),
            () = self.hear(&tap) => Heard::Lost,
        }
    }

    fn unheard(&self, error: &CallError) -> Heard {
        if error.code().is_some() {
            Heard::Nothing(not_subscribed(&self.dialer, error))
        } else {
            Heard::Lost
        }
    }

    /// Tells of events until there are no more of them.
    async fn hear(&self, tap: &Tap) {
        while let Ok(came) = tap.next().await {
            let key = came.addressed_to.unwrap_or_default();
            // Anybody may write there: what cannot be read is nothing.
            if let Ok(message) = message::came(&came.properties, came.body)
                && let Some(signal) = signal(&key, &message, &self.dialer.vhost)
                && !self.is_of_a_probe(&signal)
            {
                self.tell(signal);
            }
        }
    }
}

/// Whether there is an event exchange that we may bind to, for those who do not listen.
pub(super) async fn event_exchange(dialer: &Dialer) -> EventExchange {
    let feed = match events_feed(dialer).await {
        Ok(feed) => feed,
        Err(error) => return not_entered(dialer, &error),
    };
    let queue = a_queue();
    let found = match subscribe(&feed, &queue).await {
        Ok(_) => EventExchange::There,
        Err(error) => not_subscribed(dialer, &error),
    };
    feed.close().await;
    found
}

/// A vhost that the user may not enter says nothing of what is in it.
fn not_entered(dialer: &Dialer, error: &BrokerError) -> EventExchange {
    match error {
        BrokerError::Rights { .. } => refused(dialer, &format!("the user may not enter vhost {EVENT_VHOST}")),
        BrokerError::Unreachable { .. }
        | BrokerError::Unknown { .. }
        | BrokerError::Blocked { .. }
        | BrokerError::Login { .. }
        | BrokerError::Limit { .. }
        | BrokerError::Vhost { .. }
        | BrokerError::Management { .. }
        | BrokerError::OtherArguments { .. }
        | BrokerError::NoExchange { .. }
        | BrokerError::Undecodable { .. }
        | BrokerError::Failed { .. } => EventExchange::Absent,
    }
}

fn not_subscribed(dialer: &Dialer, error: &CallError) -> EventExchange {
    if error.code() != Some(403) {
        return EventExchange::Absent;
    }
    refused(
        dialer,
        &format!("{} is missing in vhost {EVENT_VHOST}", right_of(&error.text())),
    )
}

fn refused(dialer: &Dialer, found: &str) -> EventExchange {
    let user = &dialer.address.user;
    EventExchange::Refused {
        found: format!("not used: {found}"),
        mend: format!(
            "grant read on {EVENT_EXCHANGE} and a queue of its own in vhost {EVENT_VHOST} with `rabbitmqctl set_permissions \
             -p {EVENT_VHOST} {user} '^{EVENT_QUEUE}' '^{EVENT_QUEUE}' '^({EVENT_QUEUE}|amq\\.rabbitmq\\.event$)'`, which \
             replaces the rights that the user has there: new queues of foreign publishers are found faster then"
        ),
    }
}

/// The broker publishes its events in its first vhost.
async fn events_feed(dialer: &Dialer) -> Result<Arc<Feed>, BrokerError> {
    Feed::open(&dialer.to(EVENT_VHOST), EVENTS).await
}

enum Heard {
    Lost,
    Nothing(EventExchange),
}

async fn pause(backoff: &mut Duration) {
    ambient::sleep(backoff.mul_f64(0.5 + ambient::roll())).await;
    *backoff = (*backoff * 2).min(BACKOFF_MAX);
}

/// Consumes without acks: what is lost here is found by the sweep, and what cannot be decoded is gone.
fn consuming(queue: &ShortString) -> Asked {
    let tag = format!("redrive-listen-{:016x}", ambient::random());
    asks::consume(queue.as_str(), &tag, Taken::ForGood)
}

fn a_queue() -> ShortString {
    ShortString::ours(&format!("{EVENT_QUEUE}{:016x}", ambient::random()))
}

async fn subscribe(feed: &Arc<Feed>, queue: &ShortString) -> Result<Tap, CallError> {
    let most = ("x-max-length", Argument::Integer(EVENTS_LENGTH_MAX));
    let exclusive = flags::EXCLUSIVE | flags::QUEUE_AUTO_DELETE;
    let tap = feed.channel("").await?;
    tap.call(&[asks::exchange_look(&ShortString::ours(EVENT_EXCHANGE))])
        .await?;
    tap.call(&[asks::declare(queue, exclusive, &[most])]).await?;
    tap.call(&bindings(queue)).await?;
    tap.call(&[consuming(queue)]).await?;
    Ok(tap)
}

fn bindings(queue: &ShortString) -> Vec<Asked> {
    let exchange = ShortString::ours(EVENT_EXCHANGE);
    EVENT_KEYS
        .map(|key| asks::bind(queue, &exchange, &ShortString::ours(key)))
        .into()
}

/// Waits until the queue cannot be bound: its consumer is not told that the exchange went, nor that it is there again.
async fn unbound(feed: &Arc<Feed>, queue: &ShortString) -> CallError {
    loop {
        ambient::sleep(BOUND_AGAIN.mul_f64(0.5 + ambient::roll())).await;
        let bound = async {
            let tap = feed.channel("").await?;
            tap.call(&bindings(queue)).await
        };
        if let Err(error) = bound.await {
            return error;
        }
    }
}

/// What an event means for us: only our vhost, alarms of all.
fn signal(key: &str, event: &Message, vhost: &str) -> Option<Signal> {
    if let Some(change) = key.strip_prefix("alarm.") {
        let source = event
            .header_text("source")
            .or_else(|| event.header_text("resource"))
            .unwrap_or("resource");
        return match change {
            "set" => Some(Signal::Blocked(format!("alarm: {source}"))),
            "cleared" => Some(Signal::Unblocked),
            _ => None,
        };
    }
    if event.header_text("vhost") != Some(vhost) {
        return None;
    }
    if key.starts_with("policy.") || key.starts_with("queue.policy.") {
        return Some(Signal::PolicyChanged);
    }
    let queue = QueueName::parse(event.header_text("name")?).ok()?;
    match key {
        "queue.created" => Some(Signal::QueueCreated(queue)),
        "queue.deleted" => {
            let by = event.header_text("user_who_performed_action");
            // The broker itself, which means expired: so called on classic and on quorum queues.
            let by = by
                .filter(|by| !matches!(*by, "rmq-internal" | "expired"))
                .map(str::to_owned);
            Some(Signal::QueueDeleted { queue, by })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::message::HeaderValue;

    fn event(headers: &[(&str, &str)]) -> Message {
        Message {
            headers: headers
                .iter()
                .map(|(name, value)| ((*name).to_owned(), HeaderValue::text(value)))
                .collect(),
            ..Message::default()
        }
    }

    #[test]
    fn expired_is_told_from_deleted_by_a_user() {
        let queue = QueueName::parse("q").unwrap();
        for (user, by) in [
            ("rmq-internal", None),
            ("expired", None),
            ("ann", Some("ann".to_owned())),
        ] {
            let event = event(&[("name", "q"), ("vhost", "v"), ("user_who_performed_action", user)]);
            let expected = Signal::QueueDeleted {
                queue: queue.clone(),
                by,
            };
            assert_eq!(signal("queue.deleted", &event, "v"), Some(expected));
        }
    }

    #[test]
    fn events_of_other_vhosts_and_odd_ones_are_nothing() {
        assert_eq!(
            signal("queue.created", &event(&[("name", "q"), ("vhost", "other")]), "v"),
            None
        );
        assert_eq!(signal("queue.created", &event(&[("vhost", "v")]), "v"), None);
        assert_eq!(
            signal("queue.stranger", &event(&[("name", "q"), ("vhost", "v")]), "v"),
            None
        );
        assert_eq!(
            signal("policy.set", &event(&[("vhost", "v")]), "v"),
            Some(Signal::PolicyChanged)
        );
    }
}
