//! What follows from a change, decided once for both drivers: pure functions between a locked read and a
//! guarded write.

use std::time::Duration;

use sha2::{Digest, Sha256};

use super::columns::{Columns, integer};
use super::{HeadMove, LeaseOutcome, MoveTo, NewAudit, PaceChanged, Purpose, StoreError, Success};
use crate::domain::attempt::Attempt;
use crate::domain::endpoint::{Endpoint, EndpointChange, EndpointState, is_disabled_by};
use crate::domain::fingerprint::Fingerprint;
use crate::domain::id::{EndpointEpoch, IncarnationId, QueueName, StoreId};
use crate::domain::naming::hex;
use crate::domain::pace::{self, Pace, PaceChange};
use crate::domain::policy::Phase;
use crate::domain::queue::QueueRecord;
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;

/// Successful attempts of one queue that a batch keeps as rows. A row costs the store about as much as a
/// delivery costs everything else, and a busy queue has four batches a second.
const SUCCESSES_KEPT: usize = 3;

/// An identity for a store that has none: no two are equal.
pub(super) fn new_store_id() -> String {
    crate::ambient::new_id()
}

/// An identity as it was read.
pub(super) fn store_id(text: &str) -> Result<StoreId, StoreError> {
    StoreId::parse(text).map_err(|error| StoreError::Failed {
        operation: "reading the identity",
        source: Box::new(error),
    })
}

/// It takes nothing before `at` but one probe.
fn wait_until(endpoint: &mut Endpoint, attempts: u32, at: Timestamp) {
    endpoint.state = EndpointState::Unavailable;
    endpoint.attempts = attempts;
    endpoint.next_attempt_at = Some(at);
}

/// The endpoint after `change`; `attempt` is the one that caused it, if one did. The epoch is raised
/// unless an available endpoint is opened, which changes nothing about it.
#[must_use]
pub fn endpoint_after(
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
            wait_until(&mut after, *attempts, now.plus(*delay));
            after.since = now;
            after.probe_queue = Some(queue.clone());
            after.probe_message = Some(message.clone());
            note(&mut after, attempt, None);
        }
        EndpointChange::WaitForAny { attempts, delay } => {
            wait_until(&mut after, *attempts, now.plus(*delay));
            after.probe_queue = None;
            after.probe_message = None;
            note(&mut after, attempt, None);
        }
        EndpointChange::ProbeFailed { attempts, delay } => {
            wait_until(&mut after, *attempts, now.plus(*delay));
            note(&mut after, attempt, None);
        }
        EndpointChange::ProbeNext { queue } => {
            wait_until(&mut after, 0, now);
            after.probe_queue.clone_from(queue);
            after.probe_message = None;
        }
        EndpointChange::Reschedule { at } => {
            after.state = EndpointState::Unavailable;
            after.next_attempt_at = Some(*at);
        }
        EndpointChange::Park { attempts } => {
            after.state = EndpointState::Parked;
            after.attempts = attempts.unwrap_or(after.attempts);
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
        EndpointChange::Open => open(&mut after, before.pace_after_redelivery(None, now)),
        EndpointChange::OpenPaced { order, by } => {
            open(&mut after, before.pace_after_redelivery(Some((*order, by)), now));
        }
        EndpointChange::Reopen { slow_start } => {
            let kept = before.pace.as_ref().map(|pace| pace.reopened(now));
            open(
                &mut after,
                kept.or_else(|| slow_start.map(|order| Pace::new(order, None, now))),
            );
        }
    }
    if after.state != before.state {
        after.since = now;
    }
    if raises(before, change) {
        after.epoch = EndpointEpoch(next_number(before.epoch.0, now));
    }
    after
}

fn open(endpoint: &mut Endpoint, pace: Option<Pace>) {
    endpoint.state = EndpointState::Available;
    endpoint.attempts = 0;
    endpoint.next_attempt_at = None;
    endpoint.probe_queue = None;
    endpoint.probe_message = None;
    endpoint.pace = pace;
    // That it was disabled is over; what was wrong stays until something is delivered.
    endpoint.last_error.take_if(|error| is_disabled_by(error));
}

/// What comes of a change of its pace; of one that somebody changed since it had the revision `expected`, nothing.
#[must_use]
pub fn pace_changed(mut endpoint: Endpoint, expected: Option<i64>, change: &PaceChange, now: Timestamp) -> PaceChanged {
    let revision = endpoint.pace.as_ref().map(|pace| pace.revision);
    if expected.is_some() && expected != revision {
        return PaceChanged::Refused("its pace was changed meanwhile", Box::new(endpoint));
    }
    match pace::after(endpoint.pace.as_ref(), change, now) {
        Err(why) => PaceChanged::Refused(why, Box::new(endpoint)),
        Ok(after) => {
            endpoint.pace = after;
            PaceChanged::Done(Box::new(endpoint))
        }
    }
}

/// The endpoint after an attempt at it failed, where that counts for its pace; the failure may be one too many.
#[must_use]
pub fn endpoint_after_failure(
    before: &Endpoint,
    (attempt, request): (&Attempt, pace::Request),
    now: Timestamp,
) -> Option<Endpoint> {
    let mut after = before.clone();
    let pace = after
        .pace
        .as_mut()
        .filter(|pace| pace.counts(request, before.last_success_at))?;
    if !pace.failed(request, now) {
        return Some(after);
    }
    let last = match attempt.status {
        Some(status) => format!("status {status}"),
        None => attempt.error.clone().unwrap_or_else(|| "no answer".to_owned()),
    };
    let why = pace::closed_again(pace.failed, &last);
    after.state = EndpointState::Parked;
    after.next_attempt_at = None;
    after.probe = None;
    after.probe_queue = Some(attempt.queue.clone());
    after.probe_message = Some(attempt.message_id.clone());
    after.pace = pace.brake_alone();
    after.last_status = attempt.status;
    after.last_error = Some(why);
    if before.state != EndpointState::Parked {
        after.since = now;
    }
    after.epoch = EndpointEpoch(next_number(before.epoch.0, now));
    Some(after)
}

/// The next value of a number that guards something: at least the clock in milliseconds, so that it never goes
/// back, not even with a store that does (docs/protocols.md 34).
#[must_use]
pub fn next_number(before: i64, now: Timestamp) -> i64 {
    before.saturating_add(1).max(now.micros() / 1_000)
}

/// Whether `change` is one that others must see.
#[must_use]
pub fn raises(before: &Endpoint, change: &EndpointChange) -> bool {
    !(before.state == EndpointState::Available && change.opens())
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
#[must_use]
pub fn endpoint_moves(endpoint: &Endpoint, expected: EndpointEpoch, now: Timestamp) -> bool {
    let waits = matches!(endpoint.state, EndpointState::Unavailable | EndpointState::Parked);
    let probed = endpoint.probe.as_ref().is_some_and(|probe| probe.until >= now);
    endpoint.epoch == expected && waits && !probed
}

/// The columns of a head that moves.
#[derive(Debug)]
pub struct Placed {
    /// When it is tried next by its own schedule.
    pub at: Option<Timestamp>,
    /// It waits alone for a person.
    pub parked: bool,
    /// The phase of that attempt.
    pub phase: Option<Phase>,
}

/// A head that waits with its URL has neither a time nor a park of its own.
#[must_use]
pub fn head_places(one: &HeadMove) -> Placed {
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
/// 1. A living owner keeps it. One that asks again, to manage it, has lost the answer of before: it gets it anew.
/// 2. For delivery it must be neither paused nor wanted by somebody who lives.
pub fn lease_refusal(
    record: &QueueRecord,
    asker: IncarnationId,
    is_alive: impl Fn(IncarnationId) -> bool,
    purpose: Purpose,
) -> Option<LeaseOutcome> {
    let asks_again = |owner: IncarnationId| owner == asker && purpose == Purpose::Manage;
    if let Some(owner) = record.owner.filter(|owner| is_alive(*owner) && !asks_again(*owner)) {
        return Some(LeaseOutcome::Held(owner));
    }
    let reserved = record.pause.is_some() || record.wanted_by.is_some_and(&is_alive);
    match purpose {
        Purpose::Deliver if reserved => Some(LeaseOutcome::Reserved(Box::new(record.clone()))),
        Purpose::Deliver | Purpose::Manage => None,
    }
}

/// How long the head of a queue still waits by itself at `now` of the clock that wrote its time.
#[must_use]
pub fn due_in(record: &QueueRecord, now: Timestamp) -> Option<Duration> {
    let at = record.head.as_ref()?.next_attempt_at?;
    Some(at.since(now)).filter(|wait| !wait.is_zero())
}

/// The hash of an audit line: SHA-256 over the hash before it and every field with its length, hex.
pub(super) fn audit_hash(previous: &str, at: Timestamp, entry: &NewAudit, broker: Option<&String>) -> String {
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
    // Lines from before there were brokers have no such field.
    for field in fields.into_iter().chain(broker.map(Some)) {
        let length = field.map_or(-1, |text| super::columns::stored(text.len() as u64));
        hasher.update(length.to_be_bytes());
        hasher.update(field.map_or(&[][..], |text| text.as_bytes()));
    }
    hex(&hasher.finalize())
}

/// How many of the audit's oldest `lines` are from before `before`, and the last of those; never one behind a younger
/// line, so that what is left is one piece of the chain.
pub(super) fn old_lines<L: Columns>(lines: &[L], before: Timestamp) -> Result<Option<(u64, &L)>, sqlx::Error> {
    let mut found = None;
    for (count, line) in (1..).zip(lines) {
        if integer(line, "at")? >= before.micros() {
            break;
        }
        found = Some((count, line));
    }
    Ok(found)
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
    pub(super) settled: Vec<(&'a Attempt, Fingerprint)>,
}

impl<'a> SuccessBatch<'a> {
    pub(super) fn new(successes: &'a [Success]) -> Self {
        let mut batch = Self::default();
        let mut counts: std::collections::BTreeMap<&QueueName, i64> = std::collections::BTreeMap::new();
        let mut counted: std::collections::BTreeMap<&QueueName, i64> = std::collections::BTreeMap::new();
        let mut urls: std::collections::BTreeSet<&EndpointUrl> = std::collections::BTreeSet::new();
        for success in successes.iter().rev() {
            let count = counts.entry(&success.attempt.queue).or_default();
            let is_of_the_last = usize::try_from(*count).is_ok_and(|count| count < SUCCESSES_KEPT);
            // The end of what failed before is kept always: the log has its failures.
            if is_of_the_last || success.settles_head.is_some() {
                batch.attempts.push(&success.attempt);
            }
            *count += 1;
            *counted.entry(&success.attempt.queue).or_default() += 1 + super::columns::stored(success.counted);
            urls.insert(&success.attempt.url);
        }
        batch.attempts.reverse();
        batch.queues = counted.into_iter().collect();
        batch.urls = urls.into_iter().collect();
        batch.settled = successes
            .iter()
            .filter_map(|success| Some((&success.attempt, success.settles_head?)))
            .collect();
        batch
    }
}
