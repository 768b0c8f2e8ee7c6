//! Leases asked for, and what follows from each answer.

use std::sync::Arc;
use std::time::Duration;

use super::admitting::place_of;
use super::later::PARKED_FOR;
use super::letting_go::Release;
use super::outside::Outside;
use super::{ANSWER_MAX, ASK_AGAIN, Asked, Dispatcher, REST_HELD, REST_STOPPED, REST_WANTED, Tell};
use crate::ambient;
use crate::domain::id::{IncarnationId, QueueName};
use crate::domain::numbers::Numbers;
use crate::domain::queue::QueueRecord;
use crate::domain::url::EndpointUrl;
use crate::engine::endpoints::LiveEndpoint;
use crate::engine::holdings::{Holding, Place};
use crate::engine::tell::{Claim, End, WorkerEnd};
use crate::engine::worker::{Control, Hold, Worker};
use crate::store::{Lease, LeaseOutcome, ProbeNext, Purpose};
use crate::telemetry::names;

impl Dispatcher {
    pub(super) fn ask(&mut self, asked: Vec<Asked>) {
        self.asked.leases += 1;
        let (engine, incarnation) = (Arc::clone(&self.outside.engine), self.outside.incarnation);
        let without = Tell::Leases(unanswered(asked.clone()));
        let asking = async move {
            let queues: Vec<QueueName> = asked.iter().map(|asked| asked.queue.clone()).collect();
            match engine.store.leases_take(incarnation, Purpose::Deliver, &queues).await {
                Ok(outcomes) => {
                    engine.healing.health.saw(highest_given(&outcomes));
                    Tell::Leases(asked.into_iter().zip(outcomes).collect())
                }
                Err(error) => {
                    tracing::warn!(error = ?error, "leases wait for the store");
                    ambient::sleep(Duration::from_millis(500)).await;
                    Tell::Leases(unanswered(asked))
                }
            }
        };
        self.outside.have_answered("leases", ANSWER_MAX, asking, without);
    }

    pub(super) fn leases(&mut self, outcomes: Vec<(Asked, LeaseOutcome)>) {
        self.asked.leases = self.asked.leases.saturating_sub(1);
        for (asked, outcome) in outcomes {
            self.tell_of_locks(&asked.queue, &outcome);
            match outcome {
                LeaseOutcome::Taken(lease) => self.taken(asked, *lease),
                // Incarnation 0 is nobody: the store was away.
                LeaseOutcome::Held(IncarnationId(0)) | LeaseOutcome::Locked => {
                    self.give_up(&asked, ProbeNext::Same);
                    self.later.wake_in(asked.queue, ASK_AGAIN);
                }
                // An answer was lost: nothing here holds it.
                LeaseOutcome::Held(owner) if owner == self.outside.incarnation => {
                    self.give_up(&asked, ProbeNext::AnyQueue);
                    self.later.wake_in(asked.queue, ASK_AGAIN);
                }
                LeaseOutcome::Held(_) => {
                    self.later.rest(&asked.queue, REST_HELD);
                    self.give_up(&asked, ProbeNext::AnyQueue);
                }
                LeaseOutcome::Reserved(record) => self.reserved(&asked, &record),
                LeaseOutcome::Disowned => {
                    self.give_up(&asked, ProbeNext::Same);
                    self.outside.engine.disowned(self.outside.incarnation);
                }
            }
        }
    }

    /// A row that a person or a foreign program has locked keeps its queue from being delivered.
    fn tell_of_locks(&mut self, queue: &QueueName, outcome: &LeaseOutcome) {
        if *outcome == LeaseOutcome::Locked {
            if self.later.locked(queue) {
                tracing::warn!(
                    queue = ?queue,
                    "another session of the database has locked the row of a queue, which is not delivered until that \
                     transaction ends: `redrive doctor` names the session"
                );
            }
        } else if self.later.unlocked(queue) {
            tracing::info!(queue = ?queue, "the row of a queue is no longer locked by another session");
        }
    }

    fn reserved(&mut self, asked: &Asked, record: &QueueRecord) {
        if let Some(url) = &record.url {
            self.candidates.learn(&asked.queue, url);
        }
        let rest = if record.pause.is_some() {
            REST_STOPPED
        } else {
            REST_WANTED
        };
        self.later.rest(&asked.queue, rest);
        self.give_up(asked, ProbeNext::AnyQueue);
    }

    /// Nothing came of asking: its slot is free, and so is the probe.
    pub(super) fn give_up(&mut self, asked: &Asked, next: ProbeNext) {
        let given_up = self.holdings.end(&asked.queue, asked.claim);
        if let Some(Holding::Asking {
            url: Some(url), probe, ..
        }) = given_up
            && let Some(token) = probe.token()
        {
            self.outside.release_probe(&url, token, next);
        }
        self.holdings.take_again(&asked.queue);
    }

    fn taken(&mut self, asked: Asked, lease: Lease) {
        let Some(Holding::Asking {
            url: reserved, probe, ..
        }) = self.holdings.claimed(&asked.queue, asked.claim)
        else {
            return;
        };
        let (reserved, probe) = (reserved.clone(), probe.token());
        let share = self.holdings.take_share(&asked.queue, asked.claim);
        metrics::counter!(names::LEASES, "event" => "taken").increment(1);
        if let Some(from) = &lease.taken_from {
            metrics::counter!(names::LEASES, "event" => "taken_over").increment(1);
            tracing::info!(queue = ?asked.queue, from = ?from, "took over a queue of a dead incarnation");
        }
        let endpoint = lease
            .endpoint
            .as_ref()
            .map(|endpoint| self.outside.engine.endpoints.update(endpoint))
            // A probe is given back to its endpoint even when the queue's row is gone.
            .or_else(|| {
                let url = reserved.as_ref().filter(|_| probe.is_some())?;
                Some(self.outside.engine.endpoints.get(url))
            });
        if let Some(url) = &lease.record.url {
            self.candidates.learn(&asked.queue, url);
        }
        let may_work = match probe {
            Some(_) => self.may_probe(&lease),
            None => self.may_work(&lease, endpoint.as_deref(), reserved.as_ref()),
        };
        if !may_work {
            self.holdings.turn(&asked.queue, asked.claim, Holding::Closing);
            if let (Some(endpoint), Some(token)) = (&endpoint, probe) {
                self.outside.release_probe(&endpoint.url, token, ProbeNext::AnyQueue);
            }
            self.outside.release(asked, lease.epoch, Release::Wait);
            return;
        }
        let url = endpoint.as_ref().map(|endpoint| endpoint.url.clone()).or(reserved);
        let control = Arc::new(Control::new(self.outside.tell.clone()));
        let working = Holding::Working {
            url,
            control: Arc::clone(&control),
            probes: probe.is_some(),
            place: if probe.is_some() {
                Place::Slow
            } else {
                place_of(self.line_of(&asked.queue))
            },
        };
        self.holdings.turn(&asked.queue, asked.claim, working);
        let worker = Worker::new(
            Arc::clone(&self.outside.engine),
            (lease, share),
            self.outside.incarnation,
            endpoint,
            probe,
            control,
            self.outside.stops.for_worker(),
        );
        self.outside.start(asked.claim, worker);
    }

    /// Whether a queue gives the probe of its URL: a head that is parked is not sent until somebody redelivers it
    /// (docs/protocols.md 41), and one that waits by itself not before its time, whatever its URL does.
    fn may_probe(&mut self, lease: &Lease) -> bool {
        let record = &lease.record;
        let Some(head) = record.head.as_ref().filter(|_| record.decision.is_none()) else {
            return true;
        };
        if head.parked {
            self.later.rest(&record.name, REST_STOPPED);
            self.later.gives_no_probe(&record.name, PARKED_FOR);
            return false;
        }
        if let Some(wait) = lease.due_in {
            self.later.gives_no_probe(&record.name, wait);
            self.later.rest(&record.name, wait.min(REST_STOPPED));
            // The poll tells of no queue whose URL is not available.
            self.later.wake_in(record.name.clone(), wait);
            return false;
        }
        true
    }

    /// Whether a lease that was just taken may be worked on: now the row and the endpoint are known.
    fn may_work(&mut self, lease: &Lease, endpoint: Option<&LiveEndpoint>, reserved: Option<&EndpointUrl>) -> bool {
        let record = &lease.record;
        let unfinished = record.decision.is_some();
        if let Some(head) = &record.head
            && !unfinished
        {
            if head.parked {
                self.later.rest(&record.name, REST_STOPPED);
                return false;
            }
            if let Some(wait) = lease.due_in {
                // The poll tells when it is due; a timer is more exact, and there is one a rest.
                self.later.rest(&record.name, wait.min(REST_STOPPED));
                if wait <= REST_STOPPED {
                    self.later.wake_in(record.name.clone(), wait);
                }
                return false;
            }
        }
        let Some(endpoint) = endpoint else { return true };
        if !endpoint.is_available() && !unfinished {
            self.holdings.look_again(record.name.clone());
            return false;
        }
        if reserved.is_none() && self.holdings.slots(&endpoint.url) >= self.slots_of(endpoint) {
            self.holdings.look_again(record.name.clone());
            return false;
        }
        true
    }
}

impl Outside {
    fn start(&self, claim: Claim, worker: Worker) {
        let (engine, tell) = (Arc::clone(&self.engine), self.tell.clone());
        let (queue, epoch, probe) = (worker.hold.queue.clone(), worker.hold.epoch, worker.hold.probe);
        let endpoint = worker.endpoint.clone();
        let task = ambient::spawn("worker", worker.run());
        drop(ambient::spawn("worker end", async move {
            let end = task.await.unwrap_or(WorkerEnd {
                queue,
                epoch,
                endpoint,
                end: End::Trouble(Duration::from_secs(5)),
                unused_probe: probe,
                bytes: None,
            });
            if let (Some(endpoint), Some(token)) = (&end.endpoint, end.unused_probe) {
                let next = if matches!(end.end, End::Stopping | End::Fenced) {
                    ProbeNext::Same
                } else {
                    ProbeNext::AnyQueue
                };
                Hold::release_probe(&engine, endpoint, token, next).await;
            }
            let end = Box::new(end);
            let _ = tell.send(Tell::Ended { claim, end }).await;
        }));
    }
}

/// A store that is restored within a second of this answer knows less than it.
fn highest_given(outcomes: &[LeaseOutcome]) -> Numbers {
    let epochs = outcomes.iter().filter_map(|outcome| match outcome {
        LeaseOutcome::Taken(lease) => Some(lease.epoch.0),
        LeaseOutcome::Held(_) | LeaseOutcome::Reserved(_) | LeaseOutcome::Locked | LeaseOutcome::Disowned => None,
    });
    Numbers {
        epoch: epochs.max().unwrap_or_default(),
        ..Numbers::default()
    }
}

/// The outcomes of a request without an answer: held by nobody who is known.
fn unanswered(asked: Vec<Asked>) -> Vec<(Asked, LeaseOutcome)> {
    asked
        .into_iter()
        .map(|asked| (asked, LeaseOutcome::Held(IncarnationId(0))))
        .collect()
}
