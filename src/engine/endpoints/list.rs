//! Endpoints with the number of messages that wait for them.

use std::sync::Arc;

use super::Endpoints;
use crate::ambient::{HashMap, HashSet};
use crate::domain::endpoint::{Endpoint, EndpointState};
use crate::domain::pace::Pace;
use crate::domain::url::EndpointUrl;
use crate::engine::EngineError;
use crate::engine::kept::good_until;
use crate::engine::paging::{bounded, offset_of};
use crate::engine::queues::listing::{Listing, Oldest};
use crate::engine::queues::seen::Seen;
use crate::engine::queues::world::PACED_MAX;
use crate::engine::view::{EndpointView, EndpointsQuery, Page};
use crate::store::{EndpointQuery, QueuesOnly};

/// Messages that wait for each URL; `None` for a URL one of whose counts is missing.
pub(super) type Waiting = HashMap<EndpointUrl, Option<u64>>;

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
                let waiting = waiting.as_ref().and_then(|waiting| of(waiting, &endpoint.url));
                EndpointView {
                    problems: Vec::new(),
                    endpoint: endpoint.with_waiting(waiting),
                    waiting,
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

    pub(in crate::engine) async fn endpoint_view(&self, url: &EndpointUrl) -> Result<EndpointView, EngineError> {
        let not_found = || EngineError::NotFound {
            what: format!("endpoint {}", url.redacted()),
        };
        let endpoint = self.store.endpoint_get(url).await?.ok_or_else(not_found)?;
        let mut queues = HashSet::default();
        let mut pages = self.queue_pages(QueuesOnly::OfUrl(url.clone()));
        while let Some(rows) = pages.next().await? {
            queues.extend(rows.into_iter().map(|row| row.name));
        }
        let listing = self.queues.seen_if_possible(Oldest::Nowhere).await;
        let its_own = listing.seen.iter().filter(|queue| queues.contains(&queue.name));
        let waiting = its_own.fold(Some(0), with).filter(|_| listing.unread.is_none());
        Ok(EndpointView {
            endpoint: endpoint.with_waiting(waiting),
            taken_at: self.clock.now(),
            queues: queues.len() as u64,
            waiting,
            problems: listing.unread.into_iter().collect(),
        })
    }

    /// Messages that wait for `urls` together; `None` when one of their counts is not known.
    pub(in crate::engine) async fn waiting_for(&self, urls: &[&EndpointUrl]) -> Result<Option<u64>, EngineError> {
        let waiting = self.count_waiting().await?.ok();
        Ok(waiting.and_then(|waiting| urls.iter().map(|url| of(&waiting, url)).sum()))
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
            urls.extend(rows.into_iter().filter_map(|row| Some((row.name, row.url?))));
        }
        let mut waiting = Waiting::default();
        for queue in &listing.seen {
            if let Some(url) = urls.get(&queue.name) {
                let sum = waiting.entry(url.clone()).or_insert(Some(0));
                *sum = with(*sum, queue);
            }
        }
        let waiting = Arc::new(waiting);
        let until = good_until(began, self.clock.uptime());
        self.waiting.keep(Arc::clone(&waiting), until);
        Ok(Ok(waiting))
    }
}

/// A sum with what waits in one more queue. One count that is missing makes it unknown, not smaller.
fn with(sum: Option<u64>, queue: &Seen) -> Option<u64> {
    sum.zip(queue.ready)
        .map(|(sum, ready)| sum + ready + queue.unacked.unwrap_or(0))
}

fn of(waiting: &Waiting, url: &EndpointUrl) -> Option<u64> {
    waiting.get(url).copied().unwrap_or(Some(0))
}
