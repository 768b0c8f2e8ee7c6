//! Every number that is kept, with its name, kind, unit and meaning. Only these are recorded.
//!
//! Names follow Prometheus: base units, `_total` for what only grows. Labels have few values by
//! construction (a class, a state, one of the first event types), never a URL, a queue or an id.

/// Attempts, by `class`.
pub const ATTEMPTS: &str = "redrive_attempts_total";
/// Duration of an attempt, by `class`.
pub const ATTEMPT_DURATION: &str = "redrive_attempt_duration_seconds";
/// Publishes, by `result`.
pub const PUBLISHES: &str = "redrive_publishes_total";
/// From publish to the broker's confirm.
pub const PUBLISH_DURATION: &str = "redrive_publish_duration_seconds";
/// From creation to the 2xx.
pub const DELIVERY_DELAY: &str = "redrive_delivery_delay_seconds";
/// Messages moved to their dead-letter queue, by `class`.
pub const DEAD_LETTERS: &str = "redrive_dead_letters_total";
/// Copies that the broker made of messages of other queues.
pub const COPIES: &str = "redrive_copies_total";
/// Redelivers asked for by people and services.
pub const REDELIVERS: &str = "redrive_redelivers_total";
/// Workers at work.
pub const WORKERS_BUSY: &str = "redrive_workers_busy";
/// Requests that hang, and workers on URLs known for it.
pub const REQUESTS_SLOW: &str = "redrive_requests_slow";
/// Endpoints known, by `state`.
pub const ENDPOINTS: &str = "redrive_endpoints";
/// Queues set aside because a message of theirs ends connections.
pub const QUARANTINES: &str = "redrive_quarantines_total";
/// Leases, by `event`: taken, freed, lost.
pub const LEASES: &str = "redrive_leases_total";
/// Announcements of queues with work, by `result`.
pub const NUDGES: &str = "redrive_nudges_total";
/// Duration of one listing of queues.
pub const LISTING_DURATION: &str = "redrive_listing_duration_seconds";
/// Share of the time spent listing.
pub const LISTING_SHARE: &str = "redrive_listing_share_ratio";
/// Connections to the broker that were lost.
pub const BROKER_CONNECTIONS_LOST: &str = "redrive_broker_connections_lost_total";
/// Whether the broker blocks publishing.
pub const BROKER_BLOCKED: &str = "redrive_broker_blocked";
/// Events pushed, by `type`.
pub const EVENTS_PUSHED: &str = "redrive_events_pushed_total";
/// Pushes that replaced what waited under their key, or revived it.
pub const EVENTS_COALESCED: &str = "redrive_events_coalesced_total";
/// Ends of handling, by `type` and `how`.
pub const EVENTS_HANDLED: &str = "redrive_events_handled_total";
/// Leases that ended before their handler did, by `type`.
pub const EVENTS_LOST: &str = "redrive_events_lost_total";
/// Events in the table, by `type` and `state`.
pub const EVENTS: &str = "redrive_events";
/// Events that could be handled now, by `type`.
pub const EVENTS_DUE: &str = "redrive_events_due";
/// How long the longest waiting event could have been handled, by `type`.
pub const EVENTS_OVERDUE: &str = "redrive_events_overdue_seconds";
/// Events that were claimed too often and moved, by `type`.
pub const EVENTS_MOVED: &str = "redrive_events_moved_total";
/// Events whose own lifetime was over.
pub const EVENTS_EXPIRED: &str = "redrive_events_expired_total";
/// Notifications of handled events that are not published yet.
pub const OUTBOX_WAITING: &str = "redrive_outbox_waiting";
/// How long the oldest of them waits.
pub const OUTBOX_OLDEST: &str = "redrive_outbox_oldest_seconds";
/// From the time at which an event was due to the start of its handling.
pub const EVENT_LAG: &str = "redrive_event_lag_seconds";
/// Queues with a lifetime.
pub const EXPIRING_QUEUES: &str = "redrive_expiring_queues";
/// Messages in queues that go within the hour.
pub const EXPIRING_MESSAGES: &str = "redrive_expiring_messages";
/// Queues with a lifetime that went, by `how`, and whether with `messages`.
pub const QUEUES_GONE: &str = "redrive_expiring_queues_gone_total";
/// Messages that were lost with a queue whose time was over, as last counted.
pub const MESSAGES_EXPIRED: &str = "redrive_expired_messages_total";
/// Messages saved from queues with a lifetime, by `cause`.
pub const MESSAGES_SAVED: &str = "redrive_saved_messages_total";
/// Saved messages that were put back.
pub const MESSAGES_RESTORED: &str = "redrive_restored_messages_total";
/// Queues purged, by what became of their `messages`.
pub const QUEUES_PURGED: &str = "redrive_purged_queues_total";
/// How long the janitor listed in one sweep.
pub const JANITOR_DURATION: &str = "redrive_janitor_listing_duration_seconds";
/// Messages of intake queues, by `result`.
pub const INTAKE_MESSAGES: &str = "redrive_intake_messages_total";
/// Bad and good turns, by `kind`.
pub const TURNS: &str = "redrive_turns_total";
/// Messages to whoever is told of turns, by `alert` and `result`.
pub const ALERTS: &str = "redrive_alerts_total";
/// Messages in delivery queues, as the daemon that watches counted them last.
pub const WAITING: &str = "redrive_waiting_messages";
/// Age of the oldest of them.
pub const OLDEST_WAITING: &str = "redrive_oldest_waiting_seconds";
/// Dead letters that are there.
pub const DEAD_LETTERS_NOW: &str = "redrive_dead_letters";
/// Delivery queues, by `state`.
pub const QUEUES: &str = "redrive_queues";
/// Requests to receivers that wait for an answer.
pub const REQUESTS_IN_FLIGHT: &str = "redrive_requests_in_flight";
/// What runs: 1, with its `version`.
pub const BUILD_INFO: &str = "redrive_build_info";
/// When a certificate of our own ends, by `of`.
pub const CERTIFICATE_ENDS: &str = "redrive_certificate_expiry_timestamp_seconds";
/// Requests to the HTTP API, by `route` and `status`.
pub const API_REQUESTS: &str = "redrive_api_requests_total";

/// Whether what numbers are read from answers, by `source`.
pub const SOURCE_UP: &str = "redrive_source_up";

/// How a number behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// A distribution.
    Histogram,
}

/// One number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// How it behaves.
    pub kind: MetricKind,
    /// What it is counted in.
    pub unit: metrics::Unit,
    /// What it is read from, of a gauge: while that cannot be read, it is no number.
    pub reads: &'static [&'static str],
    /// What it means, in a sentence.
    pub help: &'static str,
}

/// Read from nothing: the process alone knows it.
const OWN: &[&str] = &[];
const STORE: &[&str] = &["store"];
const MANAGEMENT: &[&str] = &["management"];
const LISTING: &[&str] = &["management", "store"];

const fn counter(name: &'static str, help: &'static str) -> Metric {
    Metric {
        name,
        kind: MetricKind::Counter,
        unit: metrics::Unit::Count,
        reads: OWN,
        help,
    }
}

const fn gauge(name: &'static str, reads: &'static [&'static str], help: &'static str) -> Metric {
    Metric {
        name,
        kind: MetricKind::Gauge,
        unit: metrics::Unit::Count,
        reads,
        help,
    }
}

const fn age(name: &'static str, reads: &'static [&'static str], help: &'static str) -> Metric {
    Metric {
        unit: metrics::Unit::Seconds,
        ..gauge(name, reads, help)
    }
}

const fn duration(name: &'static str, help: &'static str) -> Metric {
    Metric {
        name,
        kind: MetricKind::Histogram,
        unit: metrics::Unit::Seconds,
        reads: OWN,
        help,
    }
}

/// All of them.
pub const METRICS: &[Metric] = &[
    counter(ATTEMPTS, "Requests to receivers that ended, by class of the outcome."),
    duration(
        ATTEMPT_DURATION,
        "Duration of a request to a receiver, by class of the outcome.",
    ),
    counter(
        PUBLISHES,
        "Notifications published, by result: confirmed, refused, unknown.",
    ),
    duration(PUBLISH_DURATION, "From publishing to the confirm of the broker."),
    duration(DELIVERY_DELAY, "From the creation of a notification to its 2xx."),
    counter(DEAD_LETTERS, "Messages moved to their dead-letter queue, by reason."),
    counter(
        COPIES,
        "Messages that a publisher's CC or BCC copied from their delivery queue into another one: settled, and not sent.",
    ),
    counter(REDELIVERS, "Endpoints made available again by a person or a service."),
    gauge(
        WORKERS_BUSY,
        OWN,
        "Delivery queues worked on whose attempts can still proceed.",
    ),
    gauge(
        REQUESTS_SLOW,
        OWN,
        "Requests that wait for an answer for long, and those to URLs that gave none last time.",
    ),
    gauge(ENDPOINTS, STORE, "Endpoints that are not available, by state."),
    counter(
        QUARANTINES,
        "Delivery queues set aside because one of their messages ends connections.",
    ),
    counter(
        LEASES,
        "Leases of delivery queues, by event: taken, taken_over (from the dead), lost.",
    ),
    counter(NUDGES, "Announcements of queues with work, by result: used, dropped."),
    duration(LISTING_DURATION, "Duration of one listing of the broker's queues."),
    gauge(
        LISTING_SHARE,
        OWN,
        "Share of the time that is spent on listing queues, 0 to 1.",
    ),
    counter(BROKER_CONNECTIONS_LOST, "Connections to the broker that were lost."),
    gauge(
        BROKER_BLOCKED,
        MANAGEMENT,
        "1 while the broker takes no publishes because of an alarm.",
    ),
    counter(EVENTS_PUSHED, "Events pushed into the event table, by type."),
    counter(
        EVENTS_COALESCED,
        "Pushes that replaced what waited under their key, or revived it, by type.",
    ),
    counter(
        EVENTS_HANDLED,
        "Ends of handling, by type and how: done, requeued, retried (failed), dead, released, superseded, gone, stale.",
    ),
    counter(EVENTS_LOST, "Leases that ended before their handler did, by type."),
    gauge(
        EVENTS,
        STORE,
        "Events in the table, by type and state, counted now and then.",
    ),
    gauge(EVENTS_DUE, STORE, "Events that could be handled now, by type."),
    age(
        EVENTS_OVERDUE,
        STORE,
        "How long the longest waiting event could have been handled, by type.",
    ),
    counter(EVENTS_MOVED, "Events that were claimed too often and moved, by type."),
    counter(EVENTS_EXPIRED, "Events that ended by their own lifetime."),
    gauge(
        OUTBOX_WAITING,
        STORE,
        "Notifications of handled events that wait to be published, counted now and then.",
    ),
    age(
        OUTBOX_OLDEST,
        STORE,
        "How long the oldest of them waits; 0 when none does.",
    ),
    duration(
        EVENT_LAG,
        "From the time at which an event was due to the start of its handling, by type.",
    ),
    gauge(EXPIRING_QUEUES, LISTING, "Queues with a lifetime, and leftovers."),
    gauge(
        EXPIRING_MESSAGES,
        LISTING,
        "Messages in queues that go within the hour if nobody uses them.",
    ),
    counter(
        QUEUES_GONE,
        "Queues with a lifetime that went: expired, deleted, unknown; with messages in them or not.",
    ),
    counter(
        MESSAGES_EXPIRED,
        "Messages that were lost with a queue whose time was over, as last counted.",
    ),
    counter(
        MESSAGES_SAVED,
        "Messages saved from queues with a lifetime, by cause: save, purge, expiry.",
    ),
    counter(MESSAGES_RESTORED, "Saved messages that were put back."),
    counter(
        QUEUES_PURGED,
        "Queues purged, by what became of their messages: saved, dropped, none.",
    ),
    duration(JANITOR_DURATION, "How long the janitor listed queues in one sweep."),
    counter(
        INTAKE_MESSAGES,
        "Messages of intake queues that were committed, by result: event, coalesced (with a later one of its batch), undecodable.",
    ),
    gauge(
        SOURCE_UP,
        OWN,
        "1 while what numbers are read from answers, 0 while it does not, NaN until it was asked; by source: broker, management, store.",
    ),
    counter(TURNS, "What turned bad or good again, by kind, where it was seen."),
    counter(
        ALERTS,
        "Messages of alerts, by alert and result: told, failed (tried again), given_up.",
    ),
    gauge(
        WAITING,
        LISTING,
        "Messages that wait in delivery queues; NaN where unknown, and in daemons that do not watch.",
    ),
    age(
        OLDEST_WAITING,
        LISTING,
        "Age of the oldest message that waits; NaN where unknown, and in daemons that do not watch.",
    ),
    gauge(
        DEAD_LETTERS_NOW,
        LISTING,
        "Dead letters in queues of the vhost that nobody consumes and that are no queue of work (docs/dead-letters.md), and in the store, without dead events (redrive_events{state=\"dead\"}); NaN where unknown, and in daemons that do not watch.",
    ),
    gauge(
        QUEUES,
        LISTING,
        "Delivery queues by state; NaN where unknown, and in daemons that do not watch.",
    ),
    gauge(
        REQUESTS_IN_FLIGHT,
        OWN,
        "Requests to receivers that wait for an answer.",
    ),
    age(
        CERTIFICATE_ENDS,
        OWN,
        "When the certificate ends that this process shows of itself, in seconds since 1970, by the key that names its file (of).",
    ),
    gauge(BUILD_INFO, OWN, "1, with the version of the program."),
    counter(API_REQUESTS, "Requests to the HTTP API, by route and status."),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_their_kind_and_unit_and_are_used_once() {
        for (index, metric) in METRICS.iter().enumerate() {
            let name = metric.name;
            assert!(name.starts_with("redrive_") && metric.help.ends_with('.'), "{name}");
            assert_eq!(name.ends_with("_total"), metric.kind == MetricKind::Counter, "{name}");
            assert_eq!(
                name.ends_with("_seconds"),
                metric.unit == metrics::Unit::Seconds,
                "{name}"
            );
            assert!(METRICS.iter().skip(index + 1).all(|other| other.name != name), "{name}");
        }
    }
}
