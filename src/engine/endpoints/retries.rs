//! What is tried when: the probes of URLs that are not available, and heads that wait on their own.

use std::time::Duration;

use super::Endpoints;
use crate::ambient::{HashMap, HashSet};
use crate::domain::endpoint::{Endpoint, EndpointState};
use crate::domain::id::QueueName;
use crate::domain::queue::{Head, QueueRecord};
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;
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

/// Probes and waiting heads, each queue once, soonest first; those that wait for a person last. Where an endpoint is not available,
/// nothing but its probe is sent to it, whatever time a head has; a head that is parked itself gives no probe, and waits for
/// a person until its URL is available again.
pub(in crate::engine) fn arrange(endpoints: impl IntoIterator<Item = Endpoint>, waiting: &[QueueRecord]) -> Vec<Retry> {
    let heads = Heads::of(waiting);
    let mut states: HashMap<EndpointUrl, EndpointState> = HashMap::default();
    let mut items = Vec::new();
    for endpoint in endpoints {
        states.insert(endpoint.url.clone(), endpoint.state);
        items.extend(probe_of(endpoint, &heads));
    }
    let waits_alone = |record: &&QueueRecord| {
        let state = record.url.as_ref().and_then(|url| states.get(url));
        match state {
            None | Some(EndpointState::Available) => true,
            Some(EndpointState::Unavailable) => record.head.as_ref().is_some_and(|head| head.parked),
            Some(EndpointState::Parked | EndpointState::Disabled) => false,
        }
    };
    items.extend(waiting.iter().filter(waits_alone).filter_map(head_of));
    items.sort_by_key(|retry| (retry.at.is_none(), retry.at));
    items
}

/// What may be sent of what failed.
struct Heads<'a> {
    parked: HashSet<&'a QueueName>,
    /// Where a head waits that may be a probe, and until when the first of them waits by itself.
    waited_for: HashMap<&'a EndpointUrl, Option<Timestamp>>,
}

impl<'a> Heads<'a> {
    fn of(waiting: &'a [QueueRecord]) -> Self {
        let is_parked = |record: &&QueueRecord| record.head.as_ref().is_some_and(|head| head.parked);
        let (parked, others): (Vec<_>, Vec<_>) = waiting.iter().partition(is_parked);
        let mut waited_for: HashMap<&EndpointUrl, Option<Timestamp>> = HashMap::default();
        for record in others {
            if let Some(url) = &record.url {
                let until = record.head.as_ref().and_then(|head| head.next_attempt_at);
                let first = waited_for.entry(url).or_insert(until);
                *first = (*first).min(until);
            }
        }
        Self {
            parked: parked.into_iter().map(|record| &record.name).collect(),
            waited_for,
        }
    }

    /// Whether something that failed can be sent as the probe of an endpoint.
    fn can_probe(&self, endpoint: &Endpoint) -> bool {
        match &endpoint.probe_queue {
            Some(queue) if !self.parked.contains(queue) => true,
            Some(_) | None => self.waited_for.contains_key(&endpoint.url),
        }
    }

    /// When the probe is given that no queue is named for: another one would have given it already.
    fn first_of(&self, url: &EndpointUrl) -> Option<Timestamp> {
        self.waited_for.get(url).copied().flatten()
    }
}

/// The queues whose head has to be known for [`fill`].
pub(in crate::engine) fn unfilled(items: &[Retry]) -> HashSet<QueueName> {
    items
        .iter()
        .filter(|retry| retry.of.is_none())
        .filter_map(|retry| retry.queue.clone())
        .collect()
}

/// An endpoint's probe: its phase and its count are its head's.
pub(in crate::engine) fn fill(items: &mut [Retry], heads: &HashMap<QueueName, Head>) {
    for retry in items.iter_mut().filter(|retry| retry.of.is_none()) {
        if let Some(head) = retry.queue.as_ref().and_then(|queue| heads.get(queue)) {
            retry.phase = head.phase;
            retry.of = Some(head.attempts_allowed);
            retry.attempt = head.failures + 1;
        }
    }
}

/// The probe of one that is down, where something of it may be sent; of a parked one, what waits for a person.
fn probe_of(endpoint: Endpoint, heads: &Heads<'_>) -> Option<Retry> {
    let is_listed = match endpoint.state {
        EndpointState::Unavailable => heads.can_probe(&endpoint),
        EndpointState::Parked => true,
        EndpointState::Available | EndpointState::Disabled => false,
    };
    is_listed.then(|| {
        let at = endpoint.next_attempt();
        let named = endpoint
            .probe_queue
            .filter(|queue| endpoint.state == EndpointState::Parked || !heads.parked.contains(queue));
        let at = at.map(|at| match &named {
            Some(_) => at,
            None => at.max(heads.first_of(&endpoint.url).unwrap_or(at)),
        });
        Retry {
            at,
            message: endpoint.probe_message.filter(|_| named.is_some()),
            queue: named,
            url: Some(endpoint.url),
            phase: None,
            attempt: endpoint.attempts + 1,
            of: None,
        }
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
        of: Some(head.attempts_allowed),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::NotificationId;

    const NOW: Timestamp = Timestamp::from_seconds(1_000);

    fn url(host: &str) -> EndpointUrl {
        EndpointUrl::parse(&format!("https://{host}.example/")).unwrap()
    }

    fn endpoint(host: &str, state: EndpointState, probe: &str) -> Endpoint {
        Endpoint {
            attempts: 3,
            next_attempt_at: (state == EndpointState::Unavailable).then(|| NOW.plus(Duration::from_secs(60))),
            last_status: Some(503),
            probe_queue: Some(QueueName::parse(probe).unwrap()),
            ..Endpoint::of(url(host), state, NOW)
        }
    }

    fn waiting(queue: &str, host: &str) -> QueueRecord {
        QueueRecord {
            url: Some(url(host)),
            head: Some(Head {
                message: NotificationId::parse("m").unwrap(),
                fingerprint: None,
                failures: 2,
                first_failed_at: NOW,
                last_failed_at: NOW,
                last_status: Some(503),
                last_error: None,
                next_attempt_at: Some(NOW),
                parked: false,
                phase: None,
                attempts_allowed: 9,
            }),
            ..QueueRecord::new(&QueueName::parse(queue).unwrap(), NOW)
        }
    }

    #[test]
    fn a_head_whose_endpoint_is_not_available_is_not_tried_at_its_own_time() {
        let endpoints = [
            endpoint("down", EndpointState::Unavailable, "down-1"),
            endpoint("off", EndpointState::Disabled, "off-1"),
        ];
        let records = [
            waiting("down-1", "down"),
            waiting("down-2", "down"),
            waiting("off-1", "off"),
            waiting("up-1", "up"),
        ];
        let tried: Vec<_> = arrange(endpoints, &records)
            .into_iter()
            .map(|retry| (retry.queue.unwrap().as_str().to_owned(), retry.at.unwrap()))
            .collect();
        let probe_at = NOW.plus(Duration::from_secs(60));
        assert_eq!(tried, [("up-1".to_owned(), NOW), ("down-1".to_owned(), probe_at)]);
    }

    #[test]
    fn a_probe_that_no_queue_is_named_for_is_given_by_the_head_whose_own_wait_is_over_first() {
        let later = |record: QueueRecord, seconds| {
            let mut record = record;
            record.head.as_mut().unwrap().next_attempt_at = Some(NOW.plus(Duration::from_secs(seconds)));
            record
        };
        let due = Endpoint {
            probe_queue: None,
            next_attempt_at: Some(NOW),
            ..endpoint("down", EndpointState::Unavailable, "down-1")
        };
        let records = [
            later(waiting("down-1", "down"), 900),
            later(waiting("down-2", "down"), 300),
        ];
        let listed = arrange([due], &records);
        let at: Vec<_> = listed.iter().map(|retry| retry.at).collect();
        assert_eq!(at, [Some(NOW.plus(Duration::from_secs(300)))]);
    }

    fn parked(queue: &str, host: &str) -> QueueRecord {
        let mut record = waiting(queue, host);
        let head = record.head.as_mut().unwrap();
        (head.parked, head.next_attempt_at, head.failures) = (true, None, 4);
        record
    }

    #[test]
    fn a_head_that_is_parked_alone_waits_for_a_person_and_its_url_has_no_probe_of_it() {
        let endpoints = [
            endpoint("alone", EndpointState::Unavailable, "alone-1"),
            endpoint("shared", EndpointState::Unavailable, "shared-1"),
        ];
        let records = [
            parked("alone-1", "alone"),
            parked("shared-1", "shared"),
            waiting("shared-2", "shared"),
        ];
        let mut listed = arrange(endpoints, &records);
        fill(&mut listed, &HashMap::default());
        let said: Vec<_> = listed
            .iter()
            .map(|retry| {
                (
                    retry.queue.as_ref().map(QueueName::as_str),
                    retry.at.is_some(),
                    retry.counted(),
                )
            })
            .collect();
        let expected = [
            (None, true, "4".to_owned()),
            (Some("alone-1"), false, "4 failed".to_owned()),
            (Some("shared-1"), false, "4 failed".to_owned()),
        ];
        assert_eq!(said, expected);
        assert_eq!(listed[0].of, None, "nobody knows whose probe it is");
    }
}
