//! Rows of delivery queues, and their leases.

use redrive::internals::domain::endpoint::{Endpoint, EndpointChange, EndpointState};
use redrive::internals::domain::id::{EndpointEpoch, Epoch, IncarnationId, QueueName};
use redrive::internals::domain::queue::{Closing, Pause, QueueRecord};
use redrive::internals::domain::time::Timestamp;
use redrive::internals::domain::url::EndpointUrl;
use redrive::internals::store::{
    HeadScope, HeldLease, LearnedQueue, Lease, LeaseOutcome, NewPause, Purpose, QueueMark, QueueQuery, QueueUrl,
    QueuesOnly, due_in, lease_refusal, next_number,
};

use super::Rows;

impl Rows {
    /// The row, while its lease is held under this epoch.
    pub(super) fn guarded(&mut self, queue: &QueueName, epoch: Epoch) -> Option<&mut QueueRecord> {
        let held = |record: &&mut QueueRecord| record.epoch == epoch && record.owner.is_some();
        self.queues.get_mut(queue).filter(held)
    }

    pub(super) fn endpoint_make(&mut self, url: &EndpointUrl, now: Timestamp) {
        self.endpoints.entry(url.clone()).or_insert_with(|| Endpoint {
            url: url.clone(),
            state: EndpointState::Available,
            epoch: EndpointEpoch(0),
            since: now,
            attempts: 0,
            next_attempt_at: None,
            last_status: None,
            last_error: None,
            last_success_at: None,
            probe_queue: None,
            probe_message: None,
            probe: None,
            pace: None,
        });
    }

    pub(super) fn leases_take(
        &mut self,
        now: Timestamp,
        incarnation: IncarnationId,
        purpose: Purpose,
        queues: &[QueueName],
    ) -> Vec<LeaseOutcome> {
        if !self.may_act(incarnation) {
            return vec![LeaseOutcome::Disowned; queues.len()];
        }
        self.epoch = next_number(self.epoch, now);
        queues
            .iter()
            .map(|queue| self.lease_take(now, incarnation, purpose, queue))
            .collect()
    }

    fn lease_take(
        &mut self,
        now: Timestamp,
        incarnation: IncarnationId,
        purpose: Purpose,
        queue: &QueueName,
    ) -> LeaseOutcome {
        let mut record = self
            .queues
            .get(queue)
            .cloned()
            .unwrap_or_else(|| QueueRecord::new(queue, now));
        if let Some(refusal) = lease_refusal(&record, incarnation, |id| self.is_alive(id), purpose) {
            return refusal;
        }
        let former = record.owner.filter(|owner| !self.is_alive(*owner));
        record.wanted_by = record.wanted_by.filter(|id| self.is_alive(*id) && *id != incarnation);
        record.owner = Some(incarnation);
        record.epoch = Epoch(self.epoch);
        if record.closing == Closing::Closing {
            record.closing = Closing::Ended;
        }
        self.queues.insert(queue.clone(), record.clone());
        let name = |id| self.incarnations.get(&id).map(|known| known.row.name.clone());
        LeaseOutcome::Taken(Box::new(Lease {
            endpoint: record.url.as_ref().and_then(|url| self.endpoints.get(url)).cloned(),
            epoch: record.epoch,
            due_in: due_in(&record, now),
            taken_from: former.and_then(name),
            record,
        }))
    }

    pub(super) fn lease_free(&mut self, _: Timestamp, queue: &QueueName, epoch: Epoch) -> bool {
        self.guarded(queue, epoch).map(|record| record.owner = None).is_some()
    }

    pub(super) fn leases_held(&mut self, _: Timestamp, incarnation: IncarnationId) -> Vec<HeldLease> {
        let held = self.queues.values().filter(|record| record.owner == Some(incarnation));
        let lease = |record: &QueueRecord| HeldLease {
            queue: record.name.clone(),
            epoch: record.epoch,
            paused: record.pause.is_some(),
            wanted_by: record.wanted_by.filter(|id| self.is_alive(*id) && *id != incarnation),
        };
        held.map(lease).collect()
    }

    pub(super) fn queues_learn(&mut self, now: Timestamp, learned: &[LearnedQueue]) {
        for one in learned {
            let record = self
                .queues
                .entry(one.name.clone())
                .or_insert_with(|| QueueRecord::new(&one.name, now));
            record.execution.get_or_insert_with(|| one.execution.clone());
            record.url.get_or_insert_with(|| one.url.clone());
            record.active_at = now;
            self.endpoint_make(&one.url, now);
        }
    }

    pub(super) fn queue_get(&mut self, _: Timestamp, queue: &QueueName) -> Option<QueueRecord> {
        self.queues.get(queue).cloned()
    }

    pub(super) fn queue_urls(&mut self, _: Timestamp, queues: &[QueueName]) -> Vec<QueueUrl> {
        let known = queues.iter().filter_map(|queue| {
            let url = self.queues.get(queue)?.url.clone()?;
            let answered = self
                .endpoints
                .get(&url)
                .is_some_and(|endpoint| endpoint.last_success_at.is_some());
            Some(QueueUrl {
                queue: queue.clone(),
                url,
                answered,
            })
        });
        known.collect()
    }

    pub(super) fn queues_get(&mut self, _: Timestamp, queues: &[QueueName]) -> Vec<QueueRecord> {
        let asked = |record: &&QueueRecord| queues.contains(&record.name);
        self.queues.values().filter(asked).cloned().collect()
    }

    pub(super) fn queues_page(&mut self, _: Timestamp, query: &QueueQuery) -> Vec<QueueRecord> {
        let behind = |record: &&QueueRecord| query.after.as_ref().is_none_or(|after| record.name > *after);
        let wanted = |record: &&QueueRecord| match &query.only {
            QueuesOnly::All => true,
            QueuesOnly::OfUrl(url) => record.url.as_ref() == Some(url),
            QueuesOnly::WithHead(message) => record.head.as_ref().is_some_and(|head| head.message == *message),
            QueuesOnly::UnusedSince(since) => {
                record.owner.is_none() && record.head.is_none() && record.active_at < *since
            }
        };
        let page = self.queues.values().filter(behind).filter(wanted);
        page.take(query.limit as usize).cloned().collect()
    }

    pub(super) fn queues_due(&mut self, now: Timestamp, limit: u32) -> Vec<QueueRecord> {
        let is_due = |record: &&QueueRecord| {
            let is_stopped = record.pause.is_some() || record.refused.is_some() || record.quarantined.is_some();
            let url = record.url.as_ref().and_then(|url| self.endpoints.get(url));
            let is_available = url.is_none_or(|endpoint| endpoint.state == EndpointState::Available);
            let at = record.head.as_ref().and_then(|head| head.next_attempt_at);
            let waits = at.is_some_and(|at| at <= now) || record.closing == Closing::Ended || record.has_companion;
            let is_due = record.closing == Closing::Closing
                || (record.decision.is_some() && record.pause.is_none())
                || (waits && !is_stopped && is_available);
            is_due && !record.owner.is_some_and(|owner| self.is_alive(owner))
        };
        let mut due: Vec<QueueRecord> = self.queues.values().filter(is_due).cloned().collect();
        due.sort_by_key(|record| record.head.as_ref().and_then(|head| head.next_attempt_at));
        due.truncate(limit as usize);
        due
    }

    pub(super) fn queues_waiting(&mut self, _: Timestamp, limit: u32) -> Vec<QueueRecord> {
        let waits = |record: &&QueueRecord| {
            let head = record.head.as_ref();
            head.is_some_and(|head| head.next_attempt_at.is_some() || head.parked)
        };
        let mut waiting: Vec<QueueRecord> = self.queues.values().filter(waits).cloned().collect();
        waiting.sort_by_key(|record| record.head.as_ref().map(|head| (head.parked, head.next_attempt_at)));
        waiting.truncate(limit as usize);
        waiting
    }

    pub(super) fn queue_pause(
        &mut self,
        now: Timestamp,
        queue: &QueueName,
        pause: Option<NewPause>,
    ) -> Option<QueueRecord> {
        let record = self.queues.get_mut(queue)?;
        record.pause = pause.map(|pause| Pause {
            by: pause.by,
            reason: pause.reason,
            at: now,
        });
        Some(record.clone())
    }

    pub(super) fn queue_want(&mut self, _: Timestamp, queue: &QueueName, incarnation: IncarnationId) {
        let wanted_by = self.queues.get(queue).and_then(|record| record.wanted_by);
        if !wanted_by.is_some_and(|id| self.is_alive(id))
            && let Some(record) = self.queues.get_mut(queue)
        {
            record.wanted_by = Some(incarnation);
        }
    }

    pub(super) fn queue_unwant(&mut self, _: Timestamp, queue: &QueueName, incarnation: IncarnationId) {
        if let Some(record) = self.queues.get_mut(queue)
            && record.wanted_by == Some(incarnation)
        {
            record.wanted_by = None;
        }
    }

    pub(super) fn queue_mark(&mut self, now: Timestamp, queue: &QueueName, epoch: Epoch, mark: QueueMark) -> bool {
        let Some(record) = self.guarded(queue, epoch) else {
            return false;
        };
        match mark {
            QueueMark::Closing(closing) => record.closing = closing,
            QueueMark::Refused(why) => record.refused = why,
            QueueMark::Refusing(why) => record.refusing = why,
            QueueMark::Quarantined(why) => record.quarantined = why,
            QueueMark::Companion(exists) => record.has_companion = exists,
            QueueMark::HeadGone => record.head = None,
            QueueMark::Active => record.active_at = now,
            QueueMark::Learned(learned) => {
                record.execution = Some(learned.execution);
                record.url = Some(learned.url.clone());
                self.endpoint_make(&learned.url, now);
            }
        }
        true
    }

    pub(super) fn heads_reset(&mut self, _: Timestamp, scope: &HeadScope) -> Vec<QueueName> {
        let mut reset = Vec::new();
        for record in self.queues.values_mut().filter(|record| record.head.is_some()) {
            let is_meant = match scope {
                HeadScope::Queue(queue, epoch) => {
                    record.name == *queue && record.epoch == *epoch && record.owner.is_some()
                }
                HeadScope::Url(url) => record.url.as_ref() == Some(url),
            };
            if is_meant {
                record.refusals_in_row = 0;
                record.head = None;
                reset.push(record.name.clone());
            }
        }
        self.refused.retain(|queue, (of, _)| match scope {
            HeadScope::Queue(meant, _) => queue != meant,
            HeadScope::Url(url) => of != url,
        });
        reset
    }

    pub(super) fn heads_opened(&mut self, url: &EndpointUrl, change: &EndpointChange) {
        let of_url = |record: &&mut QueueRecord| record.url.as_ref() == Some(url) && record.head.is_some();
        for record in self.queues.values_mut().filter(of_url) {
            record.refusals_in_row = 0;
            record.head.take_if(|head| change.resets(head.last_status));
        }
        self.refused.retain(|_, (of, _)| of != url);
    }

    pub(super) fn queue_forget(&mut self, _: Timestamp, queue: &QueueName, epoch: Epoch) -> bool {
        let may = self.guarded(queue, epoch).is_some_and(|record| !record.has_companion);
        may && self.queues.remove(queue).is_some()
    }
}
