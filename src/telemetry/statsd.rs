//! Numbers for statsd, in the dialect that it understands.
//!
//! The original statsd knows no labels and no seconds: their values become the last parts of the name, and durations
//! are timers in milliseconds. `DogStatsD` has both. A gauge that is no number is not sent: neither has a word for it.

use std::sync::Arc;

use metrics::{Counter, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use metrics_exporter_statsd::StatsdRecorder;

/// What a statsd understands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StatsdDialect {
    /// The original one, and whatever is compatible with it.
    #[default]
    Statsd,
    /// With labels, as Datadog's agent, Telegraf and others take them.
    DogStatsD,
}

/// Sends.
pub(super) struct Statsd {
    pub(super) recorder: StatsdRecorder,
    pub(super) dialect: StatsdDialect,
}

impl Statsd {
    fn key(&self, key: &Key, is_duration: bool) -> Key {
        match self.dialect {
            StatsdDialect::DogStatsD => key.clone(),
            StatsdDialect::Statsd => {
                let name = if is_duration {
                    key.name().trim_end_matches("_seconds")
                } else {
                    key.name()
                };
                let parts = key.labels().map(|label| part(label.value()));
                let name: String = std::iter::once(name.to_owned())
                    .chain(parts)
                    .collect::<Vec<_>>()
                    .join(".");
                Key::from_name(name)
            }
        }
    }
}

/// A label's value as a part of a name.
fn part(value: &str) -> String {
    let safe = |character: char| {
        if character.is_ascii_alphanumeric() || character == '-' {
            character
        } else {
            '_'
        }
    };
    value.chars().map(safe).collect()
}

impl Recorder for Statsd {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, metadata: &Metadata<'_>) -> Counter {
        self.recorder.register_counter(&self.key(key, false), metadata)
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(Arc::new(Number(
            self.recorder.register_gauge(&self.key(key, false), metadata),
        )))
    }

    fn register_histogram(&self, key: &Key, metadata: &Metadata<'_>) -> Histogram {
        self.recorder.register_histogram(&self.key(key, true), metadata)
    }
}

/// A gauge that sends numbers only.
struct Number(Gauge);

impl GaugeFn for Number {
    fn increment(&self, value: f64) {
        self.0.increment(value);
    }

    fn decrement(&self, value: f64) {
        self.0.decrement(value);
    }

    fn set(&self, value: f64) {
        if value.is_finite() {
            self.0.set(value);
        }
    }
}
