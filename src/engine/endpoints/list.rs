//! Endpoints with the number of messages that wait for them.

use std::sync::Arc;

use super::Endpoints;
use crate::ambient::HashMap;
use crate::domain::endpoint::{Endpoint, EndpointState};
use crate::domain::mask::MASK;
use crate::domain::pace::Pace;
use crate::domain::queue::{Head, QueueRecord};
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;
use crate::engine::EngineError;
use crate::engine::kept::good_until;
use crate::engine::paging::{bounded, offset_of};
use crate::engine::queues::listing::{Listing, Oldest};
use crate::engine::queues::seen::Seen;
use crate::engine::queues::world::PACED_MAX;
use crate::engine::sight::Sight;
use crate::engine::view::{EndpointView, EndpointsQuery, Page};
use crate::store::{EndpointQuery, PolicyScope, QueuesOnly};

/// Endpoints that are read at once, where all are looked through.
const LIMIT_MAX: u32 = 1_000;

/// What waits for each URL.
pub(super) type Waiting = HashMap<EndpointUrl, Sum>;

/// Messages that wait for a URL; `None` where one of the counts is missing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sum {
    all: Option<u64>,
    /// Without those behind a head that waits for a person.
    untried: Option<u64>,
    /// When the first of these may be tried.
    first_at: Option<Timestamp>,
}

/// What becomes of the first message of a queue.
#[derive(Clone, Copy, Debug)]
enum First {
    /// It waits for a person.
    Parked,
    /// It may be tried from then on.
    From(Timestamp),
}

impl First {
    fn of(head: Option<&Head>) -> Self {
        match head {
            Some(head) if head.parked => Self::Parked,
            Some(Head {
                next_attempt_at: Some(at),
                ..
            }) => Self::From(*at),
            Some(_) | None => Self::From(Timestamp::EPOCH),
        }
    }
}

impl Endpoints {
    pub(in crate::engine) async fn endpoint_views(
        &self,
        query: &EndpointsQuery,
    ) -> Result<Page<EndpointView>, EngineError> {
        let offset = offset_of(query.cursor.as_deref())?;
        let limit = bounded(query.limit);
        let query = EndpointQuery {
            not_available: query.not_available,
            offset: offset as u64,
            limit,
        };
        let mut rows = self.store.endpoints_page(&query).await?;
        if query.not_available && rows.len() < limit as usize {
            rows.extend(self.held(&query, rows.len()).await?);
        }
        let full = rows.len() == limit as usize;
        // The pages behind the first go by what was counted for that.
        let counted_before = self.waiting.good(self.clock.uptime()).filter(|_| offset > 0);
        let (waiting, unread) = match counted_before {
            Some(waiting) => (Some(waiting), None),
            None => match self.count_waiting().await? {
                Ok(waiting) => (Some(waiting), None),
                Err(listing) => {
                    if rows.is_empty() && offset == 0 {
                        listing.must_be_read()?;
                    }
                    (None, listing.unread)
                }
            },
        };
        let items = rows
            .into_iter()
            .map(|(endpoint, queues)| {
                let sum = waiting.as_ref().map(|waiting| of(waiting, &endpoint.url));
                EndpointView {
                    problems: Vec::new(),
                    endpoint: endpoint.with_untried(sum.and_then(|sum| sum.untried), sum.and_then(|sum| sum.first_at)),
                    waiting: sum.and_then(|sum| sum.all),
                    queues,
                    taken_at: self.clock.now(),
                }
            })
            .collect();
        Ok(Page {
            problems: unread.into_iter().collect(),
            items,
            next_cursor: full.then(|| (offset + limit as usize).to_string()),
            taken_at: self.clock.now(),
        })
    }

    /// Those that are available and take nothing before a person resumes them, with how many queues they have. They
    /// stand behind those that are not available, of which `found` are on this page.
    async fn held(&self, query: &EndpointQuery, found: usize) -> Result<Vec<(Endpoint, u64)>, EngineError> {
        let offset = usize::try_from(query.offset).unwrap_or(usize::MAX);
        let before = if found == 0 && offset > 0 {
            self.store.endpoints_not_available().await?.len()
        } else {
            offset + found
        };
        let waits = |endpoint: &Endpoint| {
            let pace = endpoint.pace.as_ref();
            endpoint.state == EndpointState::Available && pace.is_some_and(Pace::waits_for_a_person)
        };
        let paced = self.store.endpoints_paced(PACED_MAX).await?;
        let page = paced.into_iter().filter(waits).skip(offset.saturating_sub(before));
        let mut held = Vec::new();
        for endpoint in page.take(query.limit as usize - found) {
            let mut queues = 0;
            let mut pages = self.queue_pages(QueuesOnly::OfUrl(endpoint.url.clone()));
            while let Some(rows) = pages.next().await? {
                queues += rows.len() as u64;
            }
            held.push((endpoint, queues));
        }
        Ok(held)
    }

    /// The endpoint that is meant by a URL. Who may only look knows it without the values in its query.
    pub(in crate::engine) async fn meant(&self, url: EndpointUrl) -> Result<EndpointUrl, EngineError> {
        let is_whole = matches!(Sight::present(), Sight::Whole) || !url.as_str().contains(MASK);
        if is_whole || self.store.endpoint_get(&url).await?.is_some() {
            return Ok(url);
        }
        let mut query = EndpointQuery {
            not_available: false,
            offset: 0,
            limit: LIMIT_MAX,
        };
        let mut alike = Vec::new();
        loop {
            let page = self.store.endpoints_page(&query).await?;
            let is_last = page.len() < LIMIT_MAX as usize;
            let urls = page.into_iter().map(|(endpoint, _)| endpoint.url);
            alike.extend(urls.filter(|known| known.redacted() == url.as_str()));
            if is_last {
                break;
            }
            query.offset += u64::from(LIMIT_MAX);
        }
        // A policy may be there before the first message.
        let policies = self.store.policies(LIMIT_MAX).await?;
        for of_policy in policies.into_iter().filter_map(|policy| policy.scope.url) {
            if of_policy.redacted() == url.as_str() && !alike.contains(&of_policy) {
                alike.push(of_policy);
            }
        }
        match (alike.pop(), alike.is_empty()) {
            (Some(one), true) => Ok(one),
            (Some(_), false) => Err(EngineError::Refused {
                why: format!(
                    "{} endpoints are {} without the values in their queries: a token with the scope \"operate\" tells \
                     them apart",
                    alike.len() + 1,
                    url.as_str()
                ),
            }),
            (None, _) => Ok(url),
        }
    }

    /// The same where one may be named.
    pub(in crate::engine) async fn meant_of(
        &self,
        url: Option<EndpointUrl>,
    ) -> Result<Option<EndpointUrl>, EngineError> {
        match url {
            Some(url) => self.meant(url).await.map(Some),
            None => Ok(None),
        }
    }

    /// The scope that is meant by the URL in it.
    pub(in crate::engine) async fn meant_scope(&self, scope: PolicyScope) -> Result<PolicyScope, EngineError> {
        let url = self.meant_of(scope.url).await?;
        Ok(PolicyScope { url, ..scope })
    }

    pub(in crate::engine) async fn endpoint_view(&self, url: &EndpointUrl) -> Result<EndpointView, EngineError> {
        let not_found = || EngineError::NotFound {
            what: format!("endpoint {}", url.redacted()),
        };
        let endpoint = self.store.endpoint_get(url).await?.ok_or_else(not_found)?;
        let mut queues = HashMap::default();
        let mut pages = self.queue_pages(QueuesOnly::OfUrl(url.clone()));
        while let Some(rows) = pages.next().await? {
            queues.extend(rows.into_iter().map(|row| (row.name, First::of(row.head.as_ref()))));
        }
        let listing = self.queues.seen_if_possible(Oldest::Nowhere).await;
        let mut sum = Sum::NOTHING;
        for queue in &listing.seen {
            if let Some(first) = queues.get(&queue.name) {
                sum.add(queue, *first);
            }
        }
        let known = |count: Option<u64>| count.filter(|_| listing.unread.is_none());
        Ok(EndpointView {
            endpoint: endpoint.with_untried(known(sum.untried), sum.first_at),
            taken_at: self.clock.now(),
            queues: queues.len() as u64,
            waiting: known(sum.all),
            problems: listing.unread.into_iter().collect(),
        })
    }

    /// Messages that wait for `urls` together; `None` when one of their counts is not known.
    pub(in crate::engine) async fn waiting_for(&self, urls: &[&EndpointUrl]) -> Result<Option<u64>, EngineError> {
        let waiting = self.count_waiting().await?.ok();
        Ok(waiting.and_then(|waiting| urls.iter().map(|url| of(&waiting, url).all).sum()))
    }

    /// The listing that says why, when the broker cannot list.
    async fn count_waiting(&self) -> Result<Result<Arc<Waiting>, Listing>, EngineError> {
        let began = self.clock.uptime();
        let listing = self.queues.seen_if_possible(Oldest::Nowhere).await;
        if listing.unread.is_some() {
            return Ok(Err(listing));
        }
        let mut urls = HashMap::default();
        let mut pages = self.queue_pages(QueuesOnly::All);
        while let Some(rows) = pages.next().await? {
            let known = |row: QueueRecord| Some((row.name, (row.url?, First::of(row.head.as_ref()))));
            urls.extend(rows.into_iter().filter_map(known));
        }
        let mut waiting = Waiting::default();
        for queue in &listing.seen {
            if let Some((url, first)) = urls.get(&queue.name) {
                waiting.entry(url.clone()).or_insert(Sum::NOTHING).add(queue, *first);
            }
        }
        let waiting = Arc::new(waiting);
        let until = good_until(began, self.clock.uptime());
        self.waiting.keep(Arc::clone(&waiting), until);
        Ok(Ok(waiting))
    }
}

impl Sum {
    const NOTHING: Self = Self {
        all: Some(0),
        untried: Some(0),
        first_at: None,
    };

    /// With what waits in one more queue.
    fn add(&mut self, queue: &Seen, first: First) {
        self.all = with(self.all, queue);
        let First::From(at) = first else { return };
        self.untried = with(self.untried, queue);
        if with(Some(0), queue) != Some(0) {
            self.first_at = Some(self.first_at.map_or(at, |first_at| first_at.min(at)));
        }
    }
}

/// One count that is missing makes a sum unknown, not smaller.
fn with(sum: Option<u64>, queue: &Seen) -> Option<u64> {
    sum.zip(queue.ready)
        .map(|(sum, ready)| sum + ready + queue.unacked.unwrap_or(0))
}

fn of(waiting: &Waiting, url: &EndpointUrl) -> Sum {
    waiting.get(url).copied().unwrap_or(Sum::NOTHING)
}
