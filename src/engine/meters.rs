//! The numbers that every delivery moves, with their handles kept: looking one up by name and label costs
//! more than all the rest of it. The process's recorder is installed before its first delivery.

use std::sync::OnceLock;
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram};

use crate::domain::outcome::OutcomeClass;
use crate::telemetry::names;

/// An older notification has its time from a publisher that has none, or not in seconds: a mean over it says nothing.
const AGE_MAX: Duration = Duration::from_hours(365 * 24);

/// Handles, looked up when they are needed first.
#[derive(Debug, Default)]
pub(super) struct Meters(OnceLock<Handles>);

struct Handles {
    in_flight: Gauge,
    delivered: Counter,
    delivered_duration: Histogram,
    delay: Histogram,
}

/// A request that waits for its answer.
pub(super) struct InFlight(Gauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

impl std::fmt::Debug for Handles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Handles")
    }
}

impl Meters {
    /// A request begins; it is over when this is dropped.
    pub(super) fn begin(&self) -> InFlight {
        let gauge = self.handles().in_flight.clone();
        gauge.increment(1.0);
        InFlight(gauge)
    }

    /// An attempt ended.
    pub(super) fn attempted(&self, class: OutcomeClass, took: Duration) {
        if class == OutcomeClass::Delivered {
            self.handles().delivered.increment(1);
            self.handles().delivered_duration.record(took.as_secs_f64());
            return;
        }
        metrics::counter!(names::ATTEMPTS, "class" => class.as_str()).increment(1);
        metrics::histogram!(names::ATTEMPT_DURATION, "class" => class.as_str()).record(took.as_secs_f64());
    }

    /// A notification of that age was delivered.
    pub(super) fn delivered(&self, age: Duration) {
        if age <= AGE_MAX {
            self.handles().delay.record(age.as_secs_f64());
        }
    }

    fn handles(&self) -> &Handles {
        let class = OutcomeClass::Delivered.as_str();
        self.0.get_or_init(|| Handles {
            in_flight: metrics::gauge!(names::REQUESTS_IN_FLIGHT),
            delivered: metrics::counter!(names::ATTEMPTS, "class" => class),
            delivered_duration: metrics::histogram!(names::ATTEMPT_DURATION, "class" => class),
            delay: metrics::histogram!(names::DELIVERY_DELAY),
        })
    }
}

#[cfg(test)]
mod tests {
    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::*;

    #[test]
    fn a_notification_of_the_year_1970_does_not_count_as_half_a_century_late() {
        let recorder = PrometheusBuilder::new().build_recorder();
        metrics::with_local_recorder(&recorder, || {
            let meters = Meters::default();
            meters.delivered(Duration::from_secs(1_790_000_000));
            meters.delivered(Duration::from_secs(3));
        });
        let text = recorder.handle().render();
        let counted = |line: &str| {
            text.lines()
                .any(|one| one == format!("{}_{line}", names::DELIVERY_DELAY))
        };
        assert!(counted("sum 3") && counted("count 1"), "{text}");
    }
}
