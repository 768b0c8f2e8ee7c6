//! What follows from a change, decided once for both drivers: pure functions between a locked read and a
//! guarded write.

use sha2::{Digest, Sha256};

use super::{HeadMove, LeaseOutcome, MoveTo, NewAudit, Purpose, Success};
use crate::domain::attempt::Attempt;
use crate::domain::endpoint::{Endpoint, EndpointChange, EndpointState};
use crate::domain::id::{EndpointEpoch, IncarnationId, QueueName};
use crate::domain::naming::hex;
use crate::domain::policy::Phase;
use crate::domain::queue::QueueRecord;
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;

/// Successful attempts of one queue that a batch keeps as rows. A row costs the store about as much as a
/// delivery costs everything else, and a busy queue has four batches a second.
const SUCCESSES_KEPT: usize = 3;

/// The endpoint after `change`; `attempt` is the one that caused it, if one did. The epoch is raised
/// unless an available endpoint is opened, which changes nothing about it.
pub(super) fn endpoint_after(
    before: &Endpoint,
    change: &EndpointChange,
    attempt: Option<&Attempt>,
    now: Timestamp,
) -> Endpoint {
    let mut after = before.clone();
    after.probe = None;
    match change {
        EndpointChange::Close {
            queue,
            message,
            attempts,
            delay,
        } => {
            after.state = EndpointState::Unavailable;
            after.since = now;
            after.attempts = *attempts;
            after.next_attempt_at = Some(now.plus(*delay));
            after.probe_queue = Some(queue.clone());
            after.probe_message = Some(message.clone());
            note(&mut after, attempt, None);
        }
        EndpointChange::ProbeFailed { attempts, delay } => {
            after.state = EndpointState::Unavailable;
            after.attempts = *attempts;
            after.next_attempt_at = Some(now.plus(*delay));
            note(&mut after, attempt, None);
        }
        EndpointChange::ProbeNext { queue } => {
            after.state = EndpointState::Unavailable;
            after.attempts = 0;
            after.next_attempt_at = Some(now);
            after.probe_queue.clone_from(queue);
            after.probe_message = None;
        }
        EndpointChange::Reschedule { at } => {
            after.state = EndpointState::Unavailable;
            after.next_attempt_at = Some(*at);
        }
        EndpointChange::Park => {
            after.state = EndpointState::Parked;
            after.next_attempt_at = None;
            // It may park at its first failure: a changed policy has to find whose schedule is used up.
            if let Some(attempt) = attempt {
                after.probe_queue = Some(attempt.queue.clone());
                after.probe_message = Some(attempt.message_id.clone());
            }
            note(&mut after, attempt, None);
        }
        EndpointChange::Disable { reason } => {
            after.state = EndpointState::Disabled;
            after.next_attempt_at = None;
            note(&mut after, attempt, Some(reason));
        }
        EndpointChange::Open => {
            after.state = EndpointState::Available;
            after.attempts = 0;
            after.next_attempt_at = None;
            after.probe_queue = None;
            after.probe_message = None;
        }
    }
    if after.state != before.state {
        after.since = now;
    }
    if raises(before, change) {
        after.epoch = EndpointEpoch(before.epoch.0.saturating_add(1));
    }
    after
}

/// Whether `change` is one that others must see.
pub(super) fn raises(before: &Endpoint, change: &EndpointChange) -> bool {
    !(before.state == EndpointState::Available && matches!(change, EndpointChange::Open))
}

/// Keeps what the attempt found; without one, the person's reason.
fn note(after: &mut Endpoint, attempt: Option<&Attempt>, reason: Option<&String>) {
    if let Some(attempt) = attempt {
        after.last_status = attempt.status;
        after.last_error = attempt.error.clone().or_else(|| reason.cloned());
    } else if reason.is_some() {
        after.last_error = reason.cloned();
    }
}

/// Whether a changed policy may move this endpoint: it is as it was read, waits, and nobody probes it.
pub(super) fn endpoint_moves(endpoint: &Endpoint, expected: EndpointEpoch, now: Timestamp) -> bool {
    let waits = matches!(endpoint.state, EndpointState::Unavailable | EndpointState::Parked);
    let probed = endpoint.probe.as_ref().is_some_and(|probe| probe.until >= now);
    endpoint.epoch == expected && waits && !probed
}

/// The columns of a head that moves.
pub(super) struct Placed {
    pub(super) at: Option<Timestamp>,
    pub(super) parked: bool,
    pub(super) phase: Option<Phase>,
}

/// A head that waits with its URL has neither a time nor a park of its own.
pub(super) fn head_places(one: &HeadMove) -> Placed {
    let alone = one.endpoint.is_none();
    match &one.to {
        MoveTo::At { at, phase } => Placed {
            at: alone.then_some(*at),
            parked: false,
            phase: Some(*phase),
        },
        MoveTo::Parked | MoveTo::DeadLettered { .. } => Placed {
            at: None,
            parked: alone && one.to == MoveTo::Parked,
            phase: None,
        },
    }
}

/// Why a lease cannot be taken, or `None` when it can.
///
/// 1. A living owner keeps it, the asking incarnation included.
/// 2. For delivery it must be neither paused nor wanted.
pub(super) fn lease_refusal(
    record: &QueueRecord,
    owner_alive: impl Fn(IncarnationId) -> bool,
    purpose: Purpose,
) -> Option<LeaseOutcome> {
    if let Some(owner) = record.owner.filter(|owner| owner_alive(*owner)) {
        return Some(LeaseOutcome::Held(owner));
    }
    let reserved = record.pause.is_some() || record.wanted_by.is_some();
    match purpose {
        Purpose::Deliver if reserved => Some(LeaseOutcome::Reserved(Box::new(record.clone()))),
        Purpose::Deliver | Purpose::Manage => None,
    }
}

/// The hash of an audit line: SHA-256 over the hash before it and every field with its length, hex.
pub(super) fn audit_hash(previous: &str, at: Timestamp, entry: &NewAudit) -> String {
    let mut hasher = Sha256::new();
    hasher.update(previous.as_bytes());
    hasher.update(at.micros().to_be_bytes());
    let fields = [
        Some(&entry.actor),
        Some(&entry.command),
        Some(&entry.target),
        entry.reason.as_ref(),
        entry.plan.as_ref(),
        Some(&entry.result),
        Some(&entry.detail),
    ];
    for field in fields {
        let length = field.map_or(-1, |text| super::columns::stored(text.len() as u64));
        hasher.update(length.to_be_bytes());
        hasher.update(field.map_or(&[][..], |text| text.as_bytes()));
    }
    hex(&hasher.finalize())
}

/// A batch of successes, by what has to be written. Everything is sorted by its key, so that two
/// batches lock rows in the same order.
#[derive(Debug, Default)]
pub(super) struct SuccessBatch<'a> {
    /// The attempts that are kept as rows, oldest first.
    pub(super) attempts: Vec<&'a Attempt>,
    /// How many each queue delivered.
    pub(super) queues: Vec<(&'a QueueName, i64)>,
    /// The URLs that answered.
    pub(super) urls: Vec<&'a EndpointUrl>,
    /// The messages that may be the head of their queue.
    pub(super) settled: Vec<&'a Attempt>,
}

impl<'a> SuccessBatch<'a> {
    pub(super) fn new(successes: &'a [Success]) -> Self {
        let mut batch = Self::default();
        let mut counts: std::collections::BTreeMap<&QueueName, i64> = std::collections::BTreeMap::new();
        let mut urls: std::collections::BTreeSet<&EndpointUrl> = std::collections::BTreeSet::new();
        for success in successes.iter().rev() {
            let count = counts.entry(&success.attempt.queue).or_default();
            if usize::try_from(*count).is_ok_and(|count| count < SUCCESSES_KEPT) {
                batch.attempts.push(&success.attempt);
            }
            *count += 1;
            urls.insert(&success.attempt.url);
        }
        batch.attempts.reverse();
        batch.queues = counts.into_iter().collect();
        batch.urls = urls.into_iter().collect();
        batch.settled = successes
            .iter()
            .filter(|success| success.settles_head)
            .map(|success| &success.attempt)
            .collect();
        batch
    }
}
