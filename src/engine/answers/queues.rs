//! Queues: all of them, filtered and sorted, and one with its head.

use super::listing::{Oldest, Seen};
use super::world::World;
use super::{bounded, offset_of};
use crate::broker::{BrokerError, ListedQueue, Look};
use crate::domain::filter::Filter;
use crate::domain::id::QueueName;
use crate::domain::queue::{QueueKind, QueueState};
use crate::domain::url::EndpointUrl;
use crate::engine::fields::QUEUE_FIELDS;
use crate::engine::query::QueuesQuery;
use crate::engine::sight::Sight;
use crate::engine::view::{Page, QueueView};
use crate::engine::{EngineError, Inner};

impl Inner {
    pub(super) async fn queues(&self, query: &QueuesQuery) -> Result<Page<QueueView>, EngineError> {
        let filter = query
            .filter
            .as_deref()
            .map(|text| Filter::parse(text, QUEUE_FIELDS))
            .transpose()
            .map_err(|error| EngineError::Invalid {
                field: "filter".to_owned(),
                message: error.to_string(),
            })?;
        let mut sieve = self.sieve(filter);
        let (world, away) = self.world().await?;
        if let Some(detail) = away {
            return Err(BrokerError::Unreachable {
                operation: "listing queues",
                detail,
            }
            .into());
        }
        let seen = self.seen_if_possible(Oldest::Everywhere).await?;
        let mut views = Vec::with_capacity(seen.len());
        self.join(&world, &seen, |view| views.push(view)).await?;
        let mut views = sieve.keep(views, |filter, view| filter.matches(view)).await?;
        sort(&mut views, query.sort.as_deref(), Sight::present())?;
        let offset = offset_of(query.cursor.as_deref())?;
        let limit = bounded(query.limit) as usize;
        let more = views.len() > offset + limit;
        let items: Vec<QueueView> = views.into_iter().skip(offset).take(limit).collect();
        Ok(Page {
            next_cursor: more.then(|| (offset + limit).to_string()),
            items,
            taken_at: world.now,
        })
    }

    pub(in crate::engine) async fn queue(&self, name: &QueueName) -> Result<QueueView, EngineError> {
        if self.kind_of(name) == QueueKind::Intake {
            return self.intake(name).await;
        }
        let record = self.store.queue_get(name).await?;
        let mut seen = match self.broker.queue_detail(name).await {
            Ok(Some(listed)) => Some(self.seen_with_findings(listed).await),
            Ok(None) => None,
            Err(error) => {
                tracing::debug!(error = ?error, "statistics are unknown");
                None
            }
        };
        // An exact look beats statistics that lag; only for our own queues, where it renews nothing.
        if self.kind_of(name) == QueueKind::Delivery
            && let Ok(Look::Present { ready, .. }) = self.broker.look(name).await
        {
            let now = self.clock.now();
            let entry = seen.get_or_insert_with(|| Seen::unknown(name.clone(), now));
            entry.ready = Some(ready);
            entry.taken_at = now;
        }
        if record.is_none() && seen.is_none() {
            return Err(EngineError::NotFound {
                what: format!("queue {:?}", name.as_str()),
            });
        }
        let (world, _) = self.world().await?;
        let decided = record.as_ref().is_some_and(|record| record.decision.is_some());
        let mut view = world.view(self.kind_of(name), name.clone(), record, seen.as_ref());
        if decided && let Some(reason) = self.letters_wait().await {
            view.warnings
                .push(format!("its dead letter waits, because it would not last: {reason}"));
        }
        Ok(view)
    }

    /// An intake queue is answered for even where it is not there, or the store is away: that is what is asked.
    async fn intake(&self, name: &QueueName) -> Result<QueueView, EngineError> {
        let listed = self.broker.queue_detail(name).await?;
        let why = self.why_intake(name, listed.as_ref()).await;
        let seen = match listed {
            Some(listed) => Some(self.seen_with_findings(listed).await),
            None => None,
        };
        let world = match self.world().await {
            Ok((world, _)) => world,
            Err(error) => {
                tracing::debug!(error = ?error, "who is alive is unknown");
                World::unknown(self.clock.now())
            }
        };
        let mut view = world.view(QueueKind::Intake, name.clone(), None, seen.as_ref());
        if let Some(why) = why {
            view.explain(why);
        }
        Ok(view)
    }

    async fn seen_with_findings(&self, listed: ListedQueue) -> Seen {
        let findings = self.findings_of(&listed).await;
        Seen {
            findings,
            ..Seen::from(listed)
        }
    }
}

/// Sorts by a column; a leading `-` turns it round. Unknown values come last.
fn sort(views: &mut [QueueView], column: Option<&str>, sight: Sight) -> Result<(), EngineError> {
    let column = column.unwrap_or("name");
    let (descending, column) = column.strip_prefix('-').map_or((false, column), |rest| (true, rest));
    match column {
        "name" => views.sort_by(|a, b| a.name.cmp(&b.name)),
        "depth" | "ready" => views.sort_by_key(|view| (view.ready.is_none(), view.ready)),
        "unacked" => views.sort_by_key(|view| (view.unacked.is_none(), view.unacked)),
        "state" => views.sort_by_key(|view| view.state.map(QueueState::as_str)),
        // Their order would tell what is hidden in them.
        "endpoint" | "url" if sight == Sight::Masked => {
            views.sort_by_cached_key(|view| view.url.as_ref().map(EndpointUrl::redacted));
        }
        "endpoint" | "url" => views.sort_by(|a, b| a.url.cmp(&b.url)),
        "age" => views.sort_by_key(|view| (view.oldest_age.is_none(), view.oldest_age)),
        "next_attempt_at" => views.sort_by_key(|view| (view.next_attempt_at.is_none(), view.next_attempt_at)),
        _ => {
            return Err(EngineError::Invalid {
                field: "sort".to_owned(),
                message: format!(
                    "sort by {column:?} is not possible; use name, depth, unacked, state, endpoint, age or next_attempt_at"
                ),
            });
        }
    }
    if descending {
        views.reverse();
    }
    Ok(())
}
