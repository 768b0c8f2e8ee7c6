//! How many events there are, by type and state, for the numbers: counted now and then, the more rarely the
//! longer it takes.

use std::sync::Arc;
use std::time::Duration;

use metrics::gauge;
use tokio_util::sync::CancellationToken;

use super::EventTable;
use crate::ambient::{self, HashMap};
use crate::domain::event::EventState;
use crate::store::{EventCount, OutboxWaiting};
use crate::telemetry::names;

/// Between two counts.
const PAUSE: Duration = Duration::from_secs(10);
/// Of the time, one part in so many at most is spent on counting.
const SHARE: u32 = 50;

/// What was counted, by label and state.
type Counted = HashMap<(String, &'static str), u64>;

/// How many are due of a label, and since when the first one is, in seconds.
type Due = HashMap<String, (u64, f64)>;

impl EventTable {
    /// Counts until `stop`.
    pub(super) async fn take_census(self: Arc<Self>, stop: CancellationToken) {
        let (mut counted, mut due) = (Counted::default(), Due::default());
        while !stop.is_cancelled() {
            let begun = self.clock.uptime();
            match self.store.events_counts().await {
                Ok(counts) => self.show(&counts, &mut counted, &mut due),
                Err(error) => {
                    tracing::debug!(error = ?error, "events are not counted");
                    unknown(&counted, &due);
                }
            }
            match self.store.outbox_waiting().await {
                Ok(waiting) => self.show_outbox(&waiting),
                Err(error) => {
                    tracing::debug!(error = ?error, "the outbox is not counted");
                    gauge!(names::OUTBOX_WAITING).set(f64::NAN);
                    gauge!(names::OUTBOX_OLDEST).set(f64::NAN);
                }
            }
            let took = self.clock.uptime().saturating_sub(begun);
            ambient::wait(&stop, PAUSE.max(took * SHARE)).await;
        }
    }

    fn show_outbox(&self, waiting: &OutboxWaiting) {
        let waits_for = waiting.oldest.map(|at| self.clock.now().since(at));
        gauge!(names::OUTBOX_WAITING).set(as_number(waiting.count));
        gauge!(names::OUTBOX_OLDEST).set(waits_for.unwrap_or_default().as_secs_f64());
    }

    /// What was there before and is not any more is shown as zero.
    fn show(&self, counts: &[EventCount], counted: &mut Counted, due: &mut Due) {
        for count in counted.values_mut() {
            *count = 0;
        }
        for due in due.values_mut() {
            *due = (0, 0.0);
        }
        let now = self.clock.now();
        for count in counts {
            let label = self.meters.label(&count.event_type);
            *counted.entry((label.clone(), count.state.as_str())).or_default() += count.count;
            if count.state == EventState::Ready {
                let of_label = due.entry(label).or_default();
                of_label.0 += count.due;
                of_label.1 = of_label.1.max(now.since(count.first_ready_at).as_secs_f64());
            }
        }
        for ((label, state), count) in counted {
            gauge!(names::EVENTS, "type" => label.clone(), "state" => *state).set(as_number(*count));
        }
        for (label, (count, overdue)) in due {
            gauge!(names::EVENTS_DUE, "type" => label.clone()).set(as_number(*count));
            gauge!(names::EVENTS_OVERDUE, "type" => label.clone()).set(*overdue);
        }
    }
}

/// What was counted before is no count of now.
fn unknown(counted: &Counted, due: &Due) {
    for (label, state) in counted.keys() {
        gauge!(names::EVENTS, "type" => label.clone(), "state" => *state).set(f64::NAN);
    }
    for label in due.keys() {
        gauge!(names::EVENTS_DUE, "type" => label.clone()).set(f64::NAN);
        gauge!(names::EVENTS_OVERDUE, "type" => label.clone()).set(f64::NAN);
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of rows are far below 2^52")]
fn as_number(count: u64) -> f64 {
    count as f64
}
