//! Which series are there before anything was counted: a rate over a counter that appears with its first event
//! misses that event, and an alert on a number that is not there never fires.
//!
//! Counters begin at zero. Gauges that somebody has to find out first are no number (NaN) until then. Series whose
//! labels come from outside (event types, routes, names of alerts) cannot be known: only their kind is told.

use metrics::{counter, gauge};

use super::names::{self, METRICS, Metric, MetricKind};

/// A label, and the values it can have.
type Label = (&'static str, &'static [&'static str]);

const CLASS: Label = ("class", &["delivered", "refused", "gone", "failed", "interrupted"]);
const RESULT: Label = ("result", &["confirmed", "refused", "unknown"]);
const REASON: Label = ("reason", &["exhausted", "refused", "undecodable"]);
const ENDPOINT_STATE: Label = ("state", &["unavailable", "parked", "disabled"]);
const LEASE: Label = ("event", &["taken", "taken_over", "lost"]);
const NUDGE: Label = ("result", &["used", "dropped"]);
const CAUSE: Label = ("cause", &["save", "purge", "expiry"]);
const PURGED: Label = ("messages", &["saved", "dropped", "none"]);
const INTAKE: Label = ("result", &["event", "coalesced", "undecodable"]);
const HOW: Label = ("how", &["expired", "deleted", "unknown"]);
const WITH: Label = ("messages", &["yes", "no"]);
const SOURCE: Label = ("source", &["broker", "management", "store"]);
const VERSION: Label = ("version", &[env!("CARGO_PKG_VERSION")]);
const QUEUE_STATE: Label = (
    "state",
    &[
        "quarantined",
        "refused",
        "parked",
        "endpoint_disabled",
        "broker_blocked",
        "unowned",
        "endpoint_unavailable",
        "waiting_retry",
        "paused",
        "rate_limited",
        "delivering",
        "ended",
        "empty",
    ],
);
const TURN: Label = (
    "kind",
    &[
        "endpoint_unavailable",
        "endpoint_parked",
        "endpoint_disabled",
        "endpoint_available",
        "queue_quarantined",
        "queue_refused",
        "queue_recovered",
        "dead_letters",
        "daemon_dead",
        "broker_alarm",
        "broker_alarm_over",
        "messages_lost",
        "run_stopped",
        "run_ended",
    ],
);

/// The labels of a number that has any; those with values that nobody can know are empty.
const LABELS: &[(&str, &[Label])] = &[
    (names::ATTEMPTS, &[CLASS]),
    (names::ATTEMPT_DURATION, &[CLASS]),
    (names::PUBLISHES, &[RESULT]),
    (names::DEAD_LETTERS, &[REASON]),
    (names::ENDPOINTS, &[ENDPOINT_STATE]),
    (names::LEASES, &[LEASE]),
    (names::NUDGES, &[NUDGE]),
    (names::MESSAGES_SAVED, &[CAUSE]),
    (names::QUEUES_PURGED, &[PURGED]),
    (names::INTAKE_MESSAGES, &[INTAKE]),
    (names::QUEUES_GONE, &[HOW, WITH]),
    (names::QUEUES, &[QUEUE_STATE]),
    (names::TURNS, &[TURN]),
    (names::SOURCE_UP, &[SOURCE]),
    (names::BUILD_INFO, &[VERSION]),
    (names::EVENTS_PUSHED, &[FREE]),
    (names::EVENTS_COALESCED, &[FREE]),
    (names::EVENTS_HANDLED, &[FREE]),
    (names::EVENTS_LOST, &[FREE]),
    (names::EVENTS, &[FREE]),
    (names::EVENTS_DUE, &[FREE]),
    (names::EVENTS_OVERDUE, &[FREE]),
    (names::EVENTS_MOVED, &[FREE]),
    (names::EVENT_LAG, &[FREE]),
    (names::ALERTS, &[FREE]),
    (names::API_REQUESTS, &[FREE]),
    (names::CERTIFICATE_ENDS, &[FREE]),
];
/// No value of it is known.
const FREE: Label = ("", &[]);

/// Gauges that this process alone knows, from its start.
const KNOWN: &[(&str, f64)] = &[
    (names::WORKERS_BUSY, 0.0),
    (names::REQUESTS_SLOW, 0.0),
    (names::REQUESTS_IN_FLIGHT, 0.0),
    (names::BUILD_INFO, 1.0),
];

/// Makes every series that can be known, in the recorder of this scope.
pub(super) fn begin() {
    for metric in METRICS {
        let labels = LABELS.iter().find(|(name, _)| *name == metric.name);
        let labels = labels.map_or(&[][..], |(_, labels)| labels);
        for series in series_of(labels) {
            begin_one(metric, &series);
        }
    }
}

fn begin_one(metric: &Metric, series: &[(&'static str, &'static str)]) {
    match metric.kind {
        MetricKind::Counter => counter!(metric.name, series).increment(0),
        MetricKind::Gauge => {
            let known = KNOWN.iter().find(|(name, _)| *name == metric.name);
            gauge!(metric.name, series).set(known.map_or(f64::NAN, |(_, value)| *value));
        }
        // One that nothing was recorded in has no buckets.
        MetricKind::Histogram => {}
    }
}

/// Every combination of the labels' values; one without labels where there are none.
fn series_of(labels: &[Label]) -> Vec<Vec<(&'static str, &'static str)>> {
    labels.iter().fold(vec![Vec::new()], |series, (label, values)| {
        let with = |value: &'static str| {
            series.iter().map(move |one| {
                let mut one = one.clone();
                one.push((*label, value));
                one
            })
        };
        values.iter().flat_map(|value| with(value)).collect()
    })
}

/// The kinds of those numbers that have no series in `text` yet.
pub(super) fn kinds_missing(text: &str) -> String {
    let told = |metric: &&Metric| !text.contains(&format!("# TYPE {} ", metric.name));
    let kind = |metric: &Metric| {
        let (name, help) = (metric.name, metric.help);
        let kind = match metric.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        };
        format!("# HELP {name} {help}\n# TYPE {name} {kind}\n\n")
    };
    METRICS.iter().filter(told).map(kind).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::endpoint::EndpointState;
    use crate::domain::outcome::OutcomeClass;
    use crate::domain::turn::TurnKind;

    #[test]
    fn the_values_of_labels_are_those_of_what_is_counted() {
        assert_eq!(CLASS.1, OutcomeClass::ALL.map(OutcomeClass::as_str));
        assert_eq!(TURN.1, TurnKind::ALL.map(TurnKind::as_str));
        assert!(
            ENDPOINT_STATE
                .1
                .iter()
                .all(|state| EndpointState::parse(state).is_some())
        );
    }

    #[test]
    fn labels_are_combined() {
        let series = series_of(&[HOW, WITH]);
        assert_eq!(series.len(), 6);
        assert!(
            series.contains(&vec![("how", "deleted"), ("messages", "no")]),
            "{series:?}"
        );
        assert_eq!(series_of(&[]), [Vec::new()]);
        assert!(series_of(&[FREE]).is_empty());
    }
}
