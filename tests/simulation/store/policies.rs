//! Versions of policies, and the heads that wait under them.

use redrive::internals::domain::endpoint::EndpointState;
use redrive::internals::domain::id::QueueName;
use redrive::internals::domain::queue::{Decision, QueueRecord};
use redrive::internals::domain::time::Timestamp;
use redrive::internals::domain::url::EndpointUrl;
use redrive::internals::store::{
    HeadMove, MoveTo, NewPolicy, PolicyChange, PolicyChanged, PolicyScope, PolicyVersion, WaitingEndpoint, WaitingHead,
    WaitingQuery, endpoint_moves, head_places,
};

use super::Rows;

impl Rows {
    fn versions<'a>(&'a self, scope: &'a PolicyScope) -> impl DoubleEndedIterator<Item = &'a PolicyVersion> {
        self.policies.iter().filter(move |version| version.scope == *scope)
    }

    pub(super) fn policy_put(&mut self, now: Timestamp, new: &NewPolicy) -> i64 {
        let version = self.versions(&new.scope).last().map_or(0, |last| last.version) + 1;
        self.policies.push(PolicyVersion {
            scope: new.scope.clone(),
            version,
            document: new.document.clone(),
            author: new.author.clone(),
            at: now,
        });
        version
    }

    pub(super) fn policies_newest(&mut self, _: Timestamp, scopes: &[PolicyScope]) -> Vec<PolicyVersion> {
        let newest = scopes.iter().filter_map(|scope| self.versions(scope).last());
        newest.cloned().collect()
    }

    pub(super) fn policy_get(&mut self, _: Timestamp, scope: &PolicyScope) -> Option<PolicyVersion> {
        let newest = self.versions(scope).last().cloned();
        newest.filter(|newest| newest.document.is_some())
    }

    pub(super) fn policy_history(&mut self, _: Timestamp, scope: &PolicyScope) -> Vec<PolicyVersion> {
        self.versions(scope).rev().take(200).cloned().collect()
    }

    pub(super) fn policy_version(&mut self, _: Timestamp, scope: &PolicyScope, version: i64) -> Option<PolicyVersion> {
        self.versions(scope).find(|found| found.version == version).cloned()
    }

    pub(super) fn heads_waiting(&mut self, now: Timestamp, query: &WaitingQuery) -> Vec<WaitingHead> {
        let behind = |record: &&QueueRecord| query.after.as_ref().is_none_or(|after| record.name > *after);
        let waiting = self.queues.values().filter(behind).filter_map(|record| {
            let (head, url) = (record.head.clone()?, record.url.clone()?);
            let terms = self.terms.get(&record.name).cloned().unwrap_or_default();
            let is_meant = terms.0.event_type == query.scope.event_type
                && query.scope.url.as_ref().is_none_or(|meant| *meant == url);
            let endpoint = self.waits_for(now, record, &url);
            let waits = head.next_attempt_at.is_some() || head.parked || endpoint.is_some();
            (record.decision.is_none() && is_meant && waits).then(|| WaitingHead {
                queue: record.name.clone(),
                url,
                head,
                event_type: terms.0.event_type,
                own: terms.0.own,
                asked_until: terms.1,
                endpoint,
            })
        });
        waiting.take(query.limit as usize).collect()
    }

    /// The URL, where it waits for the head of this queue.
    fn waits_for(&self, now: Timestamp, record: &QueueRecord, url: &EndpointUrl) -> Option<WaitingEndpoint> {
        let waits_with_url = |record: &&QueueRecord| {
            let head = record.head.as_ref();
            head.is_some_and(|head| head.next_attempt_at.is_none() && !head.parked)
        };
        let endpoint = self
            .endpoints
            .get(url)
            .filter(|endpoint| matches!(endpoint.state, EndpointState::Unavailable | EndpointState::Parked))?;
        let found = || {
            let of_url = self.queues.values().filter(|other| other.url.as_ref() == Some(url));
            let waiting = of_url.filter(waits_with_url).filter(|other| other.decision.is_none());
            let last = waiting.max_by_key(|other| {
                let failed_at = other.head.as_ref().map(|head| head.last_failed_at);
                (failed_at, std::cmp::Reverse(other.name.clone()))
            });
            last.map(|other| other.name.clone())
        };
        let probes = endpoint.probe_queue.clone().or_else(found);
        let head = record.head.as_ref()?;
        let is_it = endpoint
            .probe_message
            .as_ref()
            .is_none_or(|message| *message == head.message);
        (probes.as_ref() == Some(&record.name) && is_it && waits_with_url(&record)).then(|| WaitingEndpoint {
            epoch: endpoint.epoch,
            attempts: endpoint.attempts,
            next_attempt_at: endpoint.next_attempt_at,
            probing: endpoint.probe.as_ref().is_some_and(|probe| probe.until >= now),
        })
    }

    pub(super) fn policy_change(&mut self, now: Timestamp, change: &PolicyChange) -> PolicyChanged {
        let newest = self.versions(&change.new.scope).last().map_or(0, |last| last.version);
        if newest != change.expected {
            return PolicyChanged::Stale { newest };
        }
        let version = self.policy_put(now, &change.new);
        let moved = self.heads_move(now, &change.moves);
        PolicyChanged::Saved { version, moved }
    }

    pub(super) fn heads_move(&mut self, now: Timestamp, moves: &[HeadMove]) -> u64 {
        let moved = moves.iter().filter(|one| self.head_move(now, one)).count() as u64;
        if moved > 0 {
            self.generation_raise(now);
        }
        moved
    }

    fn head_move(&mut self, now: Timestamp, one: &HeadMove) -> bool {
        if let Some((url, epoch)) = &one.endpoint {
            let found = self.endpoints.get(url);
            if !found.is_some_and(|found| endpoint_moves(found, *epoch, now)) {
                return false;
            }
        }
        if !self.head_moves(one) {
            return false;
        }
        if let (Some((url, epoch)), Some(change)) = (&one.endpoint, one.endpoint_change()) {
            self.endpoint_change(now, url, Some(*epoch), &change);
        }
        true
    }

    fn head_moves(&mut self, one: &HeadMove) -> bool {
        let is_held = self.is_held(&one.queue);
        let Some(record) = self
            .queues
            .get_mut(&one.queue)
            .filter(|record| record.decision.is_none())
        else {
            return false;
        };
        let as_read = record.head.as_mut().filter(|head| {
            head.message == one.message && head.failures == one.failures && head.last_failed_at == one.last_failed_at
        });
        let Some(head) = as_read else { return false };
        if let MoveTo::DeadLettered { decision } = &one.to {
            if record.has_companion || is_held {
                return false;
            }
            record.decision = Some(Decision {
                id: decision.clone(),
                message: head.message.clone(),
                fingerprint: head.fingerprint,
                reason: "exhausted".to_owned(),
                epoch: record.epoch,
            });
        }
        let placed = head_places(one);
        head.next_attempt_at = placed.at;
        head.parked = placed.parked;
        head.phase = placed.phase;
        head.attempts_allowed = one.attempts_allowed;
        true
    }

    fn is_held(&self, queue: &QueueName) -> bool {
        let owner = self.queues.get(queue).and_then(|record| record.owner);
        owner.is_some_and(|owner| self.is_alive(owner))
    }
}
