//! What is tried when: the probes of URLs that are not available, and heads that wait on their own.

use std::time::Duration;

use super::Endpoints;
use crate::ambient::{HashMap, HashSet};
use crate::domain::endpoint::{Endpoint, EndpointState};
use crate::domain::id::QueueName;
use crate::domain::queue::{Head, QueueRecord};
use crate::engine::EngineError;
use crate::engine::paging::bounded;
use crate::engine::view::{Page, Retry};

impl Endpoints {
    pub(in crate::engine) async fn retries(
        &self,
        within: Option<Duration>,
        limit: u32,
    ) -> Result<Page<Retry>, EngineError> {
        let now = self.store.now().await?;
        let endpoints = self.store.endpoints_not_available().await?;
        let waiting = self.store.queues_waiting(bounded(limit)).await?;
        let mut items = arrange(endpoints, &waiting);
        if let Some(within) = within {
            items.retain(|retry| retry.at.is_some_and(|at| at <= now.plus(within)));
        }
        items.truncate(bounded(limit) as usize);
        let mut heads = HashMap::default();
        for queue in unfilled(&items) {
            if let Some(head) = self.store.queue_get(&queue).await?.and_then(|record| record.head) {
                heads.insert(queue, head);
            }
        }
        fill(&mut items, &heads);
        Ok(Page {
            problems: Vec::new(),
            items,
            next_cursor: None,
            taken_at: now,
        })
    }
}

/// Probes and waiting heads, each queue once, soonest first; those that wait for a person last.
pub(in crate::engine) fn arrange(endpoints: impl IntoIterator<Item = Endpoint>, waiting: &[QueueRecord]) -> Vec<Retry> {
    let mut items: Vec<Retry> = endpoints.into_iter().filter_map(probe_of).collect();
    let probing: HashSet<QueueName> = items.iter().filter_map(|retry| retry.queue.clone()).collect();
    let alone = waiting.iter().filter(|record| !probing.contains(&record.name));
    items.extend(alone.filter_map(head_of));
    items.sort_by_key(|retry| (retry.at.is_none(), retry.at));
    items
}

/// The queues whose head has to be known for [`fill`].
pub(in crate::engine) fn unfilled(items: &[Retry]) -> HashSet<QueueName> {
    items
        .iter()
        .filter(|retry| retry.of == 0)
        .filter_map(|retry| retry.queue.clone())
        .collect()
}

/// An endpoint's probe: its phase and its count are its head's.
pub(in crate::engine) fn fill(items: &mut [Retry], heads: &HashMap<QueueName, Head>) {
    for retry in items.iter_mut().filter(|retry| retry.of == 0) {
        if let Some(head) = retry.queue.as_ref().and_then(|queue| heads.get(queue)) {
            retry.phase = head.phase;
            retry.of = head.attempts_allowed;
            retry.attempt = head.failures + 1;
        }
    }
}

fn probe_of(endpoint: Endpoint) -> Option<Retry> {
    (endpoint.state == EndpointState::Unavailable || endpoint.state == EndpointState::Parked).then_some(Retry {
        at: endpoint.next_attempt_at,
        queue: endpoint.probe_queue,
        url: Some(endpoint.url),
        message: endpoint.probe_message,
        phase: None,
        attempt: endpoint.attempts + 1,
        of: 0,
    })
}

fn head_of(record: &QueueRecord) -> Option<Retry> {
    let head = record.head.as_ref()?;
    Some(Retry {
        at: head.next_attempt_at,
        queue: Some(record.name.clone()),
        url: record.url.clone(),
        message: Some(head.message.clone()),
        phase: head.phase,
        attempt: head.failures + 1,
        of: head.attempts_allowed,
    })
}
