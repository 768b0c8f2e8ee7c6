//! Looks at everything that can turn bad and can be read again, by one daemon at a time.
//!
//! Promises: a twentieth of its time is spent looking, at most; what could not be read is not taken for gone, and the
//! numbers of it are no numbers (NaN) until it can be read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Alerts;
use crate::ambient;
use crate::domain::endpoint::EndpointState;
use crate::domain::id::IncarnationId;
use crate::domain::queue::{QueueState, why_it_takes_none};
use crate::domain::run::{RunCounts, RunState};
use crate::domain::text::show;
use crate::domain::time::Timestamp;
use crate::domain::turn::{Condition, Standing, TurnKind, Watch};
use crate::domain::words::plural;
use crate::engine::dead::Heard;
use crate::engine::snapshot::{EndpointRow, QUEUE_STATES, QueueRow, Snapshot};
use crate::store::{NamedLease, RunQuery, RunRecord, StoreError};
use crate::telemetry::names;

/// The lease of whoever watches.
const LEASE: &str = "alerts";
/// Between two looks.
const LOOK: Duration = Duration::from_secs(5);
/// A look is followed by a pause of so many times as long.
const PAUSE: u32 = 19;
/// Conditions that are told apart in one part, at most.
const CONDITIONS_MAX: usize = 1_000;
/// Runs looked at, the newest.
const RUNS_MAX: u32 = 100;
/// A name or a reason is at most this wide.
const NAME_WIDTH_MAX: usize = 200;

/// Where runs stand, with a sentence about each.
type Runs = BTreeMap<String, (RunState, String)>;

/// What is kept from one look to the next.
#[derive(Default)]
struct Looked {
    /// Runs that were not over.
    running: BTreeSet<String>,
    heard: Heard,
}

/// What one look counted; `None` could not be read.
#[derive(Clone, Copy, Debug, Default)]
struct Numbers {
    waiting: Option<u64>,
    oldest: Option<Duration>,
    dead: Option<u64>,
    queues: Option<[u64; QUEUE_STATES.len()]>,
}

impl Alerts {
    /// Watches while this process holds the lease, until `generation` ends.
    pub(super) async fn watch_turns(self: Arc<Self>, me: IncarnationId, generation: CancellationToken) {
        let mut held: Option<NamedLease> = None;
        let (mut watch, mut looked) = (Watch::default(), Looked::default());
        show_numbers(&Numbers::default());
        while !generation.is_cancelled() {
            if held.is_none() {
                held = self.take_watch(me).await;
                (watch, looked) = (Watch::default(), Looked::default());
            }
            let began = self.clock.uptime();
            if held.is_some() && self.fence.permits(me) {
                let (standing, numbers) = self.look_at_everything(&mut looked).await;
                show_numbers(&numbers);
                for turn in watch.look(standing, self.clock.now()) {
                    self.tell_turn(turn);
                }
            }
            let took = self.clock.uptime().saturating_sub(began);
            ambient::wait(&generation, LOOK.max(took * PAUSE)).await;
        }
        // Another daemon counts from now on.
        show_numbers(&Numbers::default());
        if let Some(held) = held {
            // Else it is free with the incarnation.
            let _ = self.store.named_lease_free(&held.name, held.epoch).await;
        }
    }

    async fn take_watch(&self, me: IncarnationId) -> Option<NamedLease> {
        let epoch = self.store.named_lease_take(LEASE, me).await.unwrap_or_else(|error| {
            tracing::debug!(error = ?error, "the watch waits for the store");
            None
        });
        epoch.map(|epoch| NamedLease {
            name: LEASE.to_owned(),
            epoch,
        })
    }

    async fn look_at_everything(self: &Arc<Self>, looked: &mut Looked) -> (Standing, Numbers) {
        let (snapshot, runs) = tokio::join!(self.observation.look_once(LOOK), self.look_at_runs(&mut looked.running));
        let is_listed = snapshot.broker.problem.is_none();
        let is_stored = snapshot.store.problem.is_none();
        let groups = if is_listed && is_stored {
            self.dead_index.hear_groups(&mut looked.heard).await.ok().flatten()
        } else {
            None
        };
        metrics::gauge!(names::BROKER_BLOCKED).set(match &snapshot.alarm {
            Some(_) => 1.0,
            None if is_listed => 0.0,
            None => f64::NAN,
        });
        let broker = snapshot.alarm.as_ref().map(|why| {
            let condition = Condition {
                kind: TurnKind::BrokerAlarm,
                text: format!("the broker takes no publishes: {}", show(why, NAME_WIDTH_MAX)),
                count: None,
            };
            ("broker".to_owned(), condition)
        });
        let standing = Standing {
            endpoints: is_stored.then(|| {
                let rows = snapshot.endpoints.iter();
                rows.filter_map(|row| condition(row)).take(CONDITIONS_MAX).collect()
            }),
            // Without the management API only an alarm that this process met is known.
            broker: (is_listed || broker.is_some()).then(|| broker.into_iter().collect()),
            dead: snapshot.dead_places.as_deref().cloned(),
            groups,
            runs: runs.ok(),
            queues: (is_listed && is_stored).then(|| {
                let rows = snapshot.queues.iter();
                rows.filter_map(|row| bad(row)).take(CONDITIONS_MAX).collect()
            }),
        };
        (standing, numbers(&snapshot, self.clock.now()))
    }

    /// The runs that are not over, and those that were `running` at the look before, which may be over now.
    async fn look_at_runs(&self, running: &mut BTreeSet<String>) -> Result<Runs, StoreError> {
        let query = RunQuery {
            open: true,
            limit: RUNS_MAX,
            ..RunQuery::default()
        };
        let mut runs: Runs = self.store.runs(&query).await?.iter().map(run).collect();
        let open: BTreeSet<String> = runs.keys().cloned().collect();
        for id in running.difference(&open) {
            runs.extend(self.store.run_get(id).await?.as_ref().map(run));
        }
        *running = open;
        Ok(runs)
    }
}

fn bad(row: &QueueRow) -> Option<(String, Condition)> {
    let by_its_state = row.state.and_then(set_aside);
    let (kind, what, why) = match by_its_state {
        Some((kind, what)) => (kind, what, row.why().unwrap_or_default()),
        // It is delivered as far as it is filled, whatever state it is in.
        None => (
            TurnKind::QueueRefused,
            "takes no publishes",
            why_it_takes_none(row.warnings())?,
        ),
    };
    let name = row.name.as_str().to_owned();
    let text = format!("queue {name} {what}: {}", show(why, NAME_WIDTH_MAX));
    let count = row.depth();
    Some((name, Condition { kind, text, count }))
}

/// What is told of a queue in this state; `None`: nothing.
const fn set_aside(state: QueueState) -> Option<(TurnKind, &'static str)> {
    match state {
        QueueState::Quarantined => Some((TurnKind::QueueQuarantined, "is set aside")),
        QueueState::Refused => Some((TurnKind::QueueRefused, "is not delivered")),
        QueueState::Delivering
        | QueueState::Empty
        | QueueState::WaitingRetry
        | QueueState::EndpointUnavailable
        | QueueState::Parked
        | QueueState::EndpointDisabled
        | QueueState::Paused
        | QueueState::RateLimited
        | QueueState::Unowned
        | QueueState::BrokerBlocked
        | QueueState::Ended => None,
    }
}

fn condition(row: &EndpointRow) -> Option<(String, Condition)> {
    let endpoint = &row.endpoint;
    let (kind, what) = match endpoint.state {
        EndpointState::Available => return None,
        EndpointState::Unavailable => (TurnKind::EndpointUnavailable, "is unavailable"),
        EndpointState::Parked => (TurnKind::EndpointParked, "is parked and waits for a person"),
        EndpointState::Disabled => (TurnKind::EndpointDisabled, "is disabled and waits for a person"),
    };
    let subject = show(&endpoint.url.redacted(), NAME_WIDTH_MAX);
    let status = endpoint.last_status.map(|status| status.to_string());
    let why = endpoint.last_error.as_deref().map(|error| show(error, NAME_WIDTH_MAX));
    let why = why.or(status).map_or_else(String::new, |why| format!(": {why}"));
    let count = row.waiting;
    let waits = count.map_or_else(String::new, |count| {
        format!(", {}", plural(count, "message waits", "messages wait"))
    });
    // One that its pace or a policy closed was not retried.
    let after = match endpoint.attempts {
        0 => String::new(),
        many => format!(" after {}", plural(many.into(), "attempt", "attempts")),
    };
    let text = format!("{subject} {what}{after}{waits}{why}");
    Some((subject, Condition { kind, text, count }))
}

fn run(run: &RunRecord) -> (String, (RunState, String)) {
    let note = run
        .note
        .as_deref()
        .map_or_else(String::new, |note| format!(": {}", show(note, NAME_WIDTH_MAX)));
    let what = match run.state {
        RunState::Canary => "stopped and asks",
        RunState::Failed => "stopped before its end",
        RunState::Done => "is done",
        RunState::Cancelled => "was ended by a person",
        RunState::Planned | RunState::Running | RunState::Paused => "continues",
    };
    let text = format!(
        "run {} ({}) {what} with {}{note}",
        run.id,
        run.command,
        items(&run.counts, run.total)
    );
    (run.id.clone(), (run.state, text))
}

/// What failed and what was skipped is not done.
fn items(counts: &RunCounts, total: u64) -> String {
    let beside = |items: u64, how| match items {
        0 => String::new(),
        some => format!(", {some} {how}"),
    };
    let (failed, skipped) = (beside(counts.failed, "failed"), beside(counts.skipped, "skipped"));
    format!("{} of {total} items done{failed}{skipped}", counts.done)
}

fn numbers(snapshot: &Snapshot, now: Timestamp) -> Numbers {
    let totals = &snapshot.totals;
    // What a part said before it could not be read is no number of today.
    let is_read = snapshot.broker.problem.is_none() && snapshot.store.problem.is_none();
    let waiting = totals.waiting.filter(|_| is_read);
    let oldest = match waiting {
        Some(0) => Some(Duration::ZERO),
        _ => totals.oldest_at.filter(|_| is_read).map(|at| now.since(at)),
    };
    Numbers {
        waiting,
        oldest,
        dead: totals.dead.letters,
        queues: is_read.then_some(totals.queues_by_state),
    }
}

/// What is not known is no number.
fn show_numbers(numbers: &Numbers) {
    #[expect(clippy::cast_precision_loss, reason = "a number of messages")]
    let count = |count: Option<u64>| count.map_or(f64::NAN, |count| count as f64);
    metrics::gauge!(names::WAITING).set(count(numbers.waiting));
    metrics::gauge!(names::OLDEST_WAITING).set(numbers.oldest.map_or(f64::NAN, |age| age.as_secs_f64()));
    metrics::gauge!(names::DEAD_LETTERS_NOW).set(count(numbers.dead));
    for (place, state) in QUEUE_STATES.iter().enumerate() {
        let number = numbers.queues.map(|queues| queues[place]);
        metrics::gauge!(names::QUEUES, "state" => state.as_str()).set(count(number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::QueueName;
    use crate::domain::queue::{QueueKind, takes_none};
    use crate::engine::row::QueueFacts;

    fn row(state: Option<QueueState>, warnings: Vec<String>) -> QueueRow {
        QueueRow::from(QueueFacts {
            ready: Some(3),
            state,
            warnings,
            ..QueueFacts::unknown(QueueName::parse("q").unwrap(), QueueKind::Delivery)
        })
    }

    #[test]
    fn what_a_run_skipped_or_failed_is_not_told_as_done() {
        let counts = |done, failed, skipped| RunCounts { done, failed, skipped };
        assert_eq!(items(&counts(9, 0, 0), 9), "9 of 9 items done");
        assert_eq!(items(&counts(0, 0, 1), 1), "0 of 1 items done, 1 skipped");
        assert_eq!(items(&counts(5, 3, 1), 9), "5 of 9 items done, 3 failed, 1 skipped");
    }

    #[test]
    fn a_queue_that_takes_no_publishes_is_told_whatever_its_state() {
        for state in [None, Some(QueueState::EndpointUnavailable), Some(QueueState::Empty)] {
            assert_eq!(bad(&row(state, vec!["its node is down".to_owned()])), None);
            let (subject, told) = bad(&row(state, vec![takes_none("policy t sets max-length")])).unwrap();
            assert_eq!((subject.as_str(), told.kind), ("q", TurnKind::QueueRefused));
            assert_eq!(told.text, "queue q takes no publishes: policy t sets max-length");
            assert_eq!(told.count, Some(3));
        }
        let both = bad(&row(Some(QueueState::Quarantined), vec![takes_none("a policy")]));
        assert_eq!(both.unwrap().1.kind, TurnKind::QueueQuarantined);
    }
}
