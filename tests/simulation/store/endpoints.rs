//! Endpoints and their state, and the numbers that only grow.

use std::time::Duration;

use redrive::internals::ambient;
use redrive::internals::domain::attempt::Attempt;
use redrive::internals::domain::endpoint::{Endpoint, EndpointChange, EndpointState, ProbeClaim};
use redrive::internals::domain::id::{EndpointEpoch, QueueName};
use redrive::internals::domain::pace::{PaceChange, Request};
use redrive::internals::domain::time::Timestamp;
use redrive::internals::domain::url::EndpointUrl;
use redrive::internals::store::{
    Changed, EndpointQuery, NewAudit, NewStoredLetter, Numbers, PaceChanged, ProbeNext, ProbeOutcome, endpoint_after,
    endpoint_after_failure, next_number, pace_changed, raises,
};

use super::Rows;

impl Rows {
    pub(super) fn numbers(&mut self, _: Timestamp) -> Numbers {
        Numbers {
            generation: self.generation,
            epoch: self.epoch,
        }
    }

    pub(super) fn numbers_raise(&mut self, _: Timestamp, above: Numbers) {
        self.epoch = self.epoch.max(above.epoch + 1);
        self.generation = self.generation.max(above.generation + 1);
    }

    pub(super) fn generation_raise(&mut self, now: Timestamp) {
        self.generation = next_number(self.generation, now);
    }

    pub(super) fn endpoints_not_available(&mut self, _: Timestamp) -> Vec<Endpoint> {
        let mut listed = self.endpoints_in_order();
        listed.retain(|endpoint| endpoint.state != EndpointState::Available);
        listed.into_iter().cloned().collect()
    }

    fn endpoints_in_order(&self) -> Vec<&Endpoint> {
        let shown = |url: &EndpointUrl| url.as_str().split('?').next().map(str::to_owned);
        let mut all: Vec<&Endpoint> = self.endpoints.values().collect();
        all.sort_by_cached_key(|endpoint| (shown(&endpoint.url), endpoint.since));
        all
    }

    pub(super) fn endpoints_answered(&mut self, _: Timestamp, limit: u32) -> Vec<EndpointUrl> {
        let mut answered: Vec<&Endpoint> = self
            .endpoints
            .values()
            .filter(|endpoint| endpoint.last_success_at.is_some())
            .collect();
        answered.sort_by_key(|endpoint| std::cmp::Reverse(endpoint.last_success_at));
        answered
            .iter()
            .take(limit as usize)
            .map(|endpoint| endpoint.url.clone())
            .collect()
    }

    pub(super) fn endpoints_paced(&mut self, _: Timestamp, limit: u32) -> Vec<Endpoint> {
        let mut listed = self.endpoints_in_order();
        listed.retain(|endpoint| endpoint.pace.is_some());
        listed.into_iter().take(limit as usize).cloned().collect()
    }

    pub(super) fn endpoint_pace(
        &mut self,
        now: Timestamp,
        url: &EndpointUrl,
        expected: Option<i64>,
        change: &PaceChange,
    ) -> PaceChanged {
        let Some(before) = self.endpoints.get(url).cloned() else {
            return PaceChanged::Unknown;
        };
        let changed = pace_changed(before, expected, change, now);
        if let PaceChanged::Done(after) = &changed {
            self.endpoints.insert(url.clone(), Endpoint::clone(after));
            if change.raises() {
                self.generation_raise(now);
            }
        }
        changed
    }

    pub(super) fn failed_at_its_pace(
        &mut self,
        now: Timestamp,
        (attempt, request): (&Attempt, Request),
    ) -> Option<Box<Endpoint>> {
        let before = self.endpoints.get(&attempt.url)?;
        let after = endpoint_after_failure(before, (attempt, request), now)?;
        self.endpoints.insert(attempt.url.clone(), after.clone());
        self.generation_raise(now);
        Some(Box::new(after))
    }

    pub(super) fn endpoint_get(&mut self, _: Timestamp, url: &EndpointUrl) -> Option<Endpoint> {
        self.endpoints.get(url).cloned()
    }

    pub(super) fn endpoints_page(&mut self, _: Timestamp, query: &EndpointQuery) -> Vec<(Endpoint, u64)> {
        let mut page = self.endpoints_in_order();
        page.retain(|endpoint| !query.not_available || endpoint.state != EndpointState::Available);
        page.sort_by_key(|endpoint| endpoint.state == EndpointState::Available);
        let queues = |url: &EndpointUrl| {
            let own = self.queues.values().filter(|record| record.url.as_ref() == Some(url));
            own.count() as u64
        };
        let offset = usize::try_from(query.offset).unwrap_or(usize::MAX);
        let page = page.into_iter().skip(offset).take(query.limit as usize);
        page.map(|endpoint| (endpoint.clone(), queues(&endpoint.url))).collect()
    }

    pub(super) fn endpoint_change(
        &mut self,
        now: Timestamp,
        url: &EndpointUrl,
        expected: Option<EndpointEpoch>,
        change: &EndpointChange,
    ) -> Changed {
        self.endpoint_apply(now, url, expected, change, None)
    }

    pub(super) fn endpoint_apply(
        &mut self,
        now: Timestamp,
        url: &EndpointUrl,
        expected: Option<EndpointEpoch>,
        change: &EndpointChange,
        attempt: Option<&Attempt>,
    ) -> Changed {
        let Some(before) = self.endpoints.get(url).cloned() else {
            return Changed::Unknown;
        };
        if expected.is_some_and(|expected| expected != before.epoch) {
            return Changed::Stale(Box::new(before));
        }
        let after = endpoint_after(&before, change, attempt, now);
        self.endpoints.insert(url.clone(), after.clone());
        if change.opens() {
            self.heads_opened(url, change);
        }
        if raises(&before, change) {
            self.generation_raise(now);
        }
        Changed::Done {
            before: Box::new(before),
            now: Box::new(after),
        }
    }

    pub(super) fn probe_claim(
        &mut self,
        now: Timestamp,
        url: &EndpointUrl,
        queue: &QueueName,
        hold: Duration,
    ) -> ProbeOutcome {
        let Some(endpoint) = self
            .endpoints
            .get_mut(url)
            .filter(|one| one.state == EndpointState::Unavailable)
        else {
            return ProbeOutcome::NotNeeded;
        };
        let is_due = endpoint.next_attempt_at.is_some_and(|at| at <= now);
        let is_free = endpoint.probe.as_ref().is_none_or(|probe| probe.until < now);
        let is_its = endpoint.probe_queue.as_ref().is_none_or(|its| its == queue);
        if !is_due || !is_free || !is_its {
            return ProbeOutcome::NotYours(Box::new(endpoint.clone()));
        }
        let token = i64::from_ne_bytes(ambient::random().to_ne_bytes());
        if endpoint.probe_queue.is_none() {
            endpoint.probe_message = None;
        }
        endpoint.probe_queue = Some(queue.clone());
        endpoint.probe = Some(ProbeClaim {
            token,
            until: now.plus(hold),
        });
        ProbeOutcome::Claimed {
            token,
            endpoint: Box::new(endpoint.clone()),
        }
    }

    pub(super) fn probe_release(&mut self, now: Timestamp, url: &EndpointUrl, token: i64, next: ProbeNext) {
        let own = |endpoint: &&mut Endpoint| endpoint.probe.as_ref().is_some_and(|probe| probe.token == token);
        let Some(endpoint) = self.endpoints.get_mut(url).filter(own) else {
            return;
        };
        endpoint.probe = None;
        if next == ProbeNext::AnyQueue {
            endpoint.probe_queue = None;
            endpoint.probe_message = None;
            endpoint.next_attempt_at = Some(now);
            self.generation_raise(now);
        }
    }

    pub(super) fn audit_append(&mut self, _: Timestamp, entry: &NewAudit) -> i64 {
        self.audit.push(entry.clone());
        i64::try_from(self.audit.len()).unwrap_or(i64::MAX)
    }

    pub(super) fn broker_name(&mut self, _: Timestamp) -> Option<String> {
        self.broker.clone()
    }

    pub(super) fn broker_name_keep(&mut self, _: Timestamp, name: &str) {
        self.broker = Some(name.to_owned());
    }

    pub(super) fn stored_letter_put(&mut self, _: Timestamp, letter: &NewStoredLetter) -> bool {
        self.letters.push(format!("{:?}", letter.id));
        true
    }
}
