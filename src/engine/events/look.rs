//! Questions about events. A list is by id, newest first; what of a filter the store can look up itself it is given,
//! the rest is compared row by row within bounds, so that a page is answered in time however rare a find is.

use std::time::Duration;

use bytes::Bytes;

use super::EventOperations;
use super::documents::shown;
use super::fields::{AtMoment, EVENT_FIELDS};
use super::service::unknown_type;
use super::{Claim, EventCount, EventTypeRecord, EventsQuery, HandledEvent, Subscription};
use crate::domain::event::{Event, EventState, EventType, Reference};
use crate::domain::filter::{Condition, Filter};
use crate::domain::time::Timestamp;
use crate::engine::EngineError;
use crate::engine::sieve;
use crate::engine::view::Page;
use crate::store::EventSearch;

/// Events of a page of everything.
const PAGE: u32 = 1_000;
/// Rows read at once.
const ROWS: u32 = 500;
/// A page ends with the row that brings its payloads to so many bytes.
const PAGE_BYTES: usize = 8 * 1024 * 1024;
/// How long one page looks, at most.
const LOOK: Duration = Duration::from_millis(150);

/// Everything that matches a filter, a page at a time.
pub(super) struct EventPages {
    /// What is asked next; `None` when that was all.
    next: Option<EventsQuery>,
}

impl EventPages {
    pub(super) fn of(filter: &str) -> Self {
        let first = EventsQuery {
            filter: Some(filter.to_owned()),
            limit: PAGE,
            ..EventsQuery::default()
        };
        Self { next: Some(first) }
    }

    /// Whether there may be more.
    pub(super) const fn has_more(&self) -> bool {
        self.next.is_some()
    }
}

impl EventOperations {
    pub(in crate::engine) async fn event_counts(&self) -> Result<Vec<EventCount>, EngineError> {
        Ok(self.store.events_counts().await?)
    }

    pub(in crate::engine) async fn event_types(&self) -> Result<Vec<EventTypeRecord>, EngineError> {
        Ok(self.store.event_types().await?)
    }

    pub(in crate::engine) async fn event_type(&self, name: &EventType) -> Result<EventTypeRecord, EngineError> {
        let found = self.store.event_type_get(name).await?;
        found.ok_or_else(|| unknown_type(name))
    }

    pub(in crate::engine) async fn subscriptions_of(&self, name: &EventType) -> Result<Vec<Subscription>, EngineError> {
        self.event_type(name).await?;
        let found = self.store.subscriptions(name).await?;
        Ok(found.into_iter().map(shown).collect())
    }

    pub(in crate::engine) async fn claim(&self, event_type: &EventType, claim: &str) -> Result<Claim, EngineError> {
        let found = self.store.claim_get(event_type, claim).await?;
        found.ok_or_else(|| EngineError::NotFound {
            what: format!("claim {claim:?} with events"),
        })
    }

    pub(in crate::engine) async fn event_history(
        &self,
        event_type: &EventType,
        limit: u32,
    ) -> Result<Vec<HandledEvent>, EngineError> {
        Ok(self.store.event_history(event_type, limit.clamp(1, 1000)).await?)
    }

    pub(in crate::engine) async fn event(&self, id: i64) -> Result<Event, EngineError> {
        self.store.event_get(id).await?.ok_or_else(|| EngineError::NotFound {
            what: format!("event {id}"),
        })
    }

    /// At least one.
    pub(in crate::engine) async fn events_of(
        &self,
        event_type: &EventType,
        reference: &Reference,
    ) -> Result<Vec<Event>, EngineError> {
        let found = self.store.events_of(event_type, reference).await?;
        if found.is_empty() {
            let what = format!("event {:?} of type {:?}", reference.as_str(), event_type.as_str());
            return Err(EngineError::NotFound { what });
        }
        Ok(found)
    }

    /// The next page of all events that match, and where it ends; it may be empty and not be the last one.
    pub(super) async fn events_next(&self, pages: &mut EventPages) -> Result<Option<Vec<Event>>, EngineError> {
        let Some(mut query) = pages.next.take() else {
            return Ok(None);
        };
        let page = self.events_list(&query).await?;
        query.cursor = page.next_cursor;
        pages.next = query.cursor.is_some().then_some(query);
        Ok(Some(page.items))
    }

    pub(in crate::engine) async fn events_list(&self, query: &EventsQuery) -> Result<Page<Event>, EngineError> {
        let mut sieve = self.sieve(query.filter.as_deref().map(parse).transpose()?);
        let _turn = self.page_with_bodies().await?;
        if let Some(name) = &query.event_type
            && self.store.event_type_get(name).await?.is_none()
        {
            return Err(unknown_type(name));
        }
        let now = self.store.now().await?;
        let mut asked = pushed_down(query, sieve.conditions(), now);
        asked.before = query.cursor.as_deref().map(cursor).transpose()?;
        let limit = usize::try_from(query.limit.clamp(1, 1000)).unwrap_or(1000);
        asked.limit = if sieve.filter().is_none() {
            query.limit.clamp(1, 1000)
        } else {
            ROWS
        };
        let started = self.clock.uptime();
        let mut items = Vec::new();
        let next = loop {
            let found = self.store.events_search(&asked).await?;
            asked.before = found.reached;
            let matching = sieve
                .keep(found.events, |filter, event| filter.matches(&AtMoment::of(event, now)))
                .await?;
            items.extend(matching.into_iter().take(limit - items.len()));
            if items.len() == limit {
                break items.last().map(|event: &Event| event.id);
            }
            let bytes: usize = items
                .iter()
                .filter_map(|event| event.payload.as_ref().map(Bytes::len))
                .sum();
            let in_time = self.clock.uptime().saturating_sub(started) <= LOOK;
            if asked.before.is_none() || bytes >= PAGE_BYTES || !in_time {
                break asked.before;
            }
        };
        Ok(Page {
            problems: Vec::new(),
            items,
            next_cursor: next.map(|id| id.to_string()),
            taken_at: now,
        })
    }
}

pub(super) fn parse(source: &str) -> Result<Filter, EngineError> {
    sieve::read(source, EVENT_FIELDS)
}

/// What the store looks up itself; the filter is asked all the same.
fn pushed_down(query: &EventsQuery, conditions: Vec<Condition<'_>>, now: Timestamp) -> EventSearch {
    let mut asked = EventSearch {
        event_type: query.event_type.clone(),
        ..EventSearch::default()
    };
    for condition in conditions {
        match condition {
            Condition::Is("type", name) if asked.event_type.is_none() => asked.event_type = EventType::parse(name).ok(),
            Condition::Is("reference", name) => asked.reference = Reference::parse(name).ok(),
            Condition::Is("state", name) => asked.state = EventState::from_name(name),
            // A store folds only ASCII letters alike everywhere.
            Condition::Contains("error", part) if part.is_ascii() => asked.error_parts.push(part.to_owned()),
            Condition::Contains("reason", part) if part.is_ascii() => asked.reason_part = Some(part.to_owned()),
            Condition::Contains("reference", part) if part.is_ascii() => asked.reference_part = Some(part.to_owned()),
            Condition::Contains("payload", part) if part.is_ascii() => asked.payload_part = Some(part.to_owned()),
            Condition::Holds("dead") => asked.dead_letters = true,
            Condition::AtLeast("attempts", count) => asked.attempts_min = asked.attempts_min.max(whole(count)),
            Condition::Longer("overdue", span) => asked.due_before = Some(now.minus(span)),
            Condition::Longer("age", span) => asked.created_before = Some(now.minus(span)),
            Condition::Is(..)
            | Condition::Contains(..)
            | Condition::Holds(_)
            | Condition::AtLeast(..)
            | Condition::Longer(..) => {}
        }
    }
    asked
}

/// The largest count that is not above `number`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast of a number saturates at the bounds of a count"
)]
fn whole(number: f64) -> u32 {
    number as u32
}

fn cursor(text: &str) -> Result<i64, EngineError> {
    text.parse().map_err(|_| EngineError::unknown_cursor())
}
