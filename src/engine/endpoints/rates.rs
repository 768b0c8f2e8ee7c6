//! How queues and endpoints moved lately, as a list and one by one: what the series of this process have.

use super::Endpoints;
use crate::domain::id::QueueName;
use crate::domain::series::{COARSE_MINUTES, Span};
use crate::domain::url::EndpointUrl;
use crate::engine::EngineError;
use crate::engine::paging::bounded;
use crate::engine::series::Key;
use crate::engine::view::{Page, RatePoint, RateRow, RateSeries};
use crate::store::{EndpointQuery, QueuesOnly};

/// Seconds of a minute.
const MINUTE_S: u64 = 60;

impl Endpoints {
    /// The queues that moved in the last ten minutes or have something waiting, the busiest first.
    pub(in crate::engine) async fn queue_rates(&self, limit: u32) -> Result<Page<RateRow>, EngineError> {
        let mut items = Vec::new();
        let mut pages = self.queue_pages(QueuesOnly::All);
        while let Some(rows) = pages.next().await? {
            items.extend(rows.into_iter().filter_map(|row| {
                let key = Key::queue(&row.name);
                Some(RateRow {
                    moving: self.seen.series.moving(key, self.clock.uptime())?,
                    waiting: self.seen.series.depth(key),
                    queue: Some(row.name),
                    url: row.url,
                })
            }));
        }
        Ok(self.busiest(items, limit))
    }

    /// The same of endpoints.
    pub(in crate::engine) async fn endpoint_rates(&self, limit: u32) -> Result<Page<RateRow>, EngineError> {
        let mut items = Vec::new();
        let mut query = EndpointQuery {
            not_available: false,
            offset: 0,
            limit: 1_000,
        };
        loop {
            let page = self.store.endpoints_page(&query).await?;
            let is_last = page.len() < query.limit as usize;
            query.offset += page.len() as u64;
            items.extend(page.into_iter().filter_map(|(endpoint, _)| {
                let key = Key::endpoint(&self.settings.naming, &endpoint.url);
                Some(RateRow {
                    moving: self.seen.series.moving(key, self.clock.uptime())?,
                    waiting: self.seen.series.depth(key),
                    queue: None,
                    url: Some(endpoint.url),
                })
            }));
            if is_last {
                return Ok(self.busiest(items, limit));
            }
        }
    }

    fn busiest(&self, mut items: Vec<RateRow>, limit: u32) -> Page<RateRow> {
        items.sort_by_key(|row| std::cmp::Reverse((row.moving.out_milli, row.waiting)));
        items.truncate(bounded(limit) as usize);
        Page {
            problems: Vec::new(),
            items,
            next_cursor: None,
            taken_at: self.clock.now(),
        }
    }

    /// The last hour of a queue or an endpoint by the minute, or its last week by four hours.
    pub(in crate::engine) fn rate_series(
        &self,
        queue: Option<&QueueName>,
        url: Option<&EndpointUrl>,
        span: Span,
    ) -> Result<RateSeries, EngineError> {
        let key = match (queue, url) {
            (Some(queue), None) => Key::queue(queue),
            (None, Some(url)) => Key::endpoint(&self.settings.naming, url),
            (None, None) | (Some(_), Some(_)) => {
                return Err(EngineError::Invalid {
                    field: "queue".to_owned(),
                    message: "a series is of one queue or of one endpoint: give queue or url".to_owned(),
                });
            }
        };
        let step_s = match span {
            Span::Hour => MINUTE_S,
            Span::Week => COARSE_MINUTES as u64 * MINUTE_S,
        };
        let (now, points) = (self.clock.now(), self.seen.series.points(key, span));
        let last = points.len() as u64;
        let at = |place: u64| now.minus(std::time::Duration::from_secs((last - place) * step_s));
        let point = |(place, point): (usize, _)| RatePoint {
            at: at(place as u64),
            point,
        };
        Ok(RateSeries {
            step_s,
            taken_at: now,
            points: points.into_iter().enumerate().map(point).collect(),
        })
    }
}
