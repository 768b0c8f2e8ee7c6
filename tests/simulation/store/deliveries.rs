//! Attempts, and what follows from them.

use std::collections::BTreeSet;

use redrive::internals::domain::attempt::Attempt;
use redrive::internals::domain::endpoint::{Endpoint, EndpointState};
use redrive::internals::domain::id::{Epoch, QueueName};
use redrive::internals::domain::outcome::OutcomeClass;
use redrive::internals::domain::queue::{Decision, Head};
use redrive::internals::domain::time::Timestamp;
use redrive::internals::domain::url::EndpointUrl;
use redrive::internals::store::{AttemptQuery, Changed, Failure, FailureRecorded, Success, Tally};

use super::Rows;

/// A success is written down as late as this after it came.
const WRITTEN: std::time::Duration = std::time::Duration::from_secs(1);

impl Rows {
    pub(super) fn failure_record(&mut self, now: Timestamp, failure: &Failure) -> FailureRecorded {
        let attempt = &failure.attempt;
        if self.attempts.contains(attempt) {
            return self.recorded_before(failure);
        }
        self.attempts.push(attempt.clone());
        let next_attempt_at = failure
            .delay
            .map(|delay| now.plus(delay))
            .filter(|_| !failure.head.parked);
        let Some(record) = self.guarded(&attempt.queue, attempt.epoch) else {
            return FailureRecorded::Fenced;
        };
        let new = &failure.head;
        let same = |before: &Head| before.message == new.message && before.fingerprint == new.fingerprint;
        let first = record
            .head
            .as_ref()
            .filter(|before| same(before))
            .map(|before| before.first_failed_at);
        record.head = Some(Head {
            first_failed_at: first.unwrap_or(now),
            last_failed_at: now,
            next_attempt_at,
            ..new.clone()
        });
        record.refusals_in_row = failure.refusals_in_row;
        record.active_at = now;
        let asked_until = failure.terms.asked.map(|asked| now.plus(asked));
        self.terms
            .insert(attempt.queue.clone(), (failure.terms.clone(), asked_until));
        if let Some(decision) = &failure.decision {
            self.decision_open(now, &attempt.queue, decision);
        }
        let (mut endpoint, mut endpoint_changed) = (None, true);
        if let Some((expected, change)) = &failure.endpoint {
            self.endpoint_make(&attempt.url, now);
            endpoint = match self.endpoint_apply(now, &attempt.url, Some(*expected), change, Some(attempt)) {
                Changed::Done { now, .. } => Some(now),
                Changed::Stale(_) | Changed::Unknown => None,
            };
            endpoint_changed = endpoint.is_some();
        }
        if let Some(request) = failure.paced.filter(|_| endpoint_changed) {
            endpoint = self.failed_at_its_pace(now, (attempt, request)).or(endpoint);
        }
        let failed_before = first.is_some_and(|first| {
            let known = self.endpoints.get(&attempt.url);
            known.is_some_and(|endpoint| endpoint.last_success_at >= Some(first.plus(WRITTEN)))
        });
        if attempt.class == OutcomeClass::Refused && !failed_before {
            self.refused.insert(attempt.queue.clone(), (attempt.url.clone(), now));
        }
        FailureRecorded::Recorded {
            next_attempt_at: failure.delay.map(|delay| now.plus(delay)),
            endpoint,
            endpoint_changed,
        }
    }

    fn recorded_before(&mut self, failure: &Failure) -> FailureRecorded {
        let attempt = &failure.attempt;
        let Some(record) = self.guarded(&attempt.queue, attempt.epoch) else {
            return FailureRecorded::Fenced;
        };
        let Some(head) = record.head.as_ref().filter(|head| head.message == failure.head.message) else {
            return FailureRecorded::Fenced;
        };
        let next_attempt_at = head.next_attempt_at;
        let endpoint = self
            .endpoints
            .get(&attempt.url)
            .filter(|_| failure.endpoint.is_some() || failure.paced.is_some());
        FailureRecorded::Recorded {
            next_attempt_at,
            endpoint: endpoint.cloned().map(Box::new),
            endpoint_changed: true,
        }
    }

    pub(super) fn successes_record(&mut self, now: Timestamp, successes: &[Success]) {
        for success in successes {
            let attempt = &success.attempt;
            self.attempts.push(attempt.clone());
            if let Some(record) = self.queues.get_mut(&attempt.queue) {
                record.delivered += 1 + success.counted;
                record.last_delivered_at = Some(now);
                record.active_at = now;
                record.refusals_in_row = 0;
                let settles = |head: &Head| {
                    success.settles_head.is_some_and(|print| {
                        head.message == attempt.message_id && head.fingerprint.is_none_or(|known| known == print)
                    })
                };
                if record.head.as_ref().is_some_and(settles) {
                    record.head = None;
                }
            }
            if let Some(endpoint) = self.endpoints.get_mut(&attempt.url) {
                endpoint.last_success_at = Some(now);
                if endpoint.state == EndpointState::Available {
                    endpoint.last_status = None;
                    endpoint.last_error = None;
                }
            }
        }
    }

    pub(super) fn attempt_record(&mut self, _: Timestamp, attempt: &Attempt) {
        self.attempts.push(attempt.clone());
    }

    pub(super) fn heads_failing(
        &mut self,
        _: Timestamp,
        url: &EndpointUrl,
        since: Option<Timestamp>,
        but: &QueueName,
    ) -> Tally {
        let succeeded = self
            .endpoints
            .get(url)
            .and_then(|endpoint: &Endpoint| endpoint.last_success_at);
        let after = since.max(succeeded);
        let is_after = |failed: Timestamp| after.is_none_or(|after| failed > after);
        let (mut queues, mut failing) = (BTreeSet::new(), BTreeSet::new());
        for record in self.queues.values().filter(|record| record.url.as_ref() == Some(url)) {
            queues.insert(&record.name);
            let failed = record.head.as_ref().map(|head| {
                let is_before = after >= Some(head.first_failed_at.plus(WRITTEN));
                if is_before {
                    head.first_failed_at
                } else {
                    head.last_failed_at
                }
            });
            failing.extend(failed.filter(|failed| is_after(*failed)).map(|_| &record.name));
        }
        let refused = self.refused.iter().filter(|(_, (of, at))| of == url && is_after(*at));
        failing.extend(refused.map(|(queue, _)| queue));
        queues.extend(&failing);
        failing.remove(but);
        Tally {
            failing: u32::try_from(failing.len()).unwrap(),
            queues: u32::try_from(queues.len()).unwrap(),
            last_success: after,
        }
    }

    pub(super) fn decision_open(&mut self, _: Timestamp, queue: &QueueName, decision: &Decision) -> bool {
        let Some(record) = self.guarded(queue, decision.epoch) else {
            return false;
        };
        let other = record.decision.as_ref().is_some_and(|open| open.id != decision.id);
        if !other {
            record.decision = Some(decision.clone());
        }
        !other
    }

    pub(super) fn decision_close(&mut self, _: Timestamp, queue: &QueueName, epoch: Epoch, decision: &str) -> bool {
        let Some(record) = self.guarded(queue, epoch) else {
            return false;
        };
        let Some(open) = record.decision.take_if(|open| open.id == decision) else {
            return false;
        };
        let about = |head: &Head| {
            head.message == open.message
                && (head.fingerprint.is_none() || open.fingerprint.is_none() || head.fingerprint == open.fingerprint)
        };
        if record.head.as_ref().is_some_and(about) {
            record.head = None;
        }
        true
    }

    pub(super) fn attempts(&mut self, _: Timestamp, query: &AttemptQuery) -> Vec<Attempt> {
        let wanted = |attempt: &&Attempt| {
            query.queue.as_ref().is_none_or(|queue| attempt.queue == *queue)
                && query.url.as_ref().is_none_or(|url| attempt.url == *url)
                && query
                    .message
                    .as_ref()
                    .is_none_or(|message| attempt.message_id == *message)
        };
        let found = self.attempts.iter().rev().filter(wanted);
        found.take(query.limit as usize).cloned().collect()
    }
}
