//! Questions about events. A list reads the table by id, newest first; what of a filter the store can look up
//! itself it is given, the rest is compared row by row within bounds, so that a page is answered in time however
//! rare a find is.

use std::time::Duration;

use super::fields::{AtMoment, EVENT_FIELDS};
use super::service::unknown_type;
use super::{EventAnswer, EventQuestion, EventsQuery};
use crate::domain::event::{Event, EventState, EventType, Reference};
use crate::domain::filter::{Condition, Filter};
use crate::engine::view::Page;
use crate::engine::{EngineError, Inner};
use crate::store::EventQuery;

/// Rows read at once.
const ROWS: u32 = 500;
/// How long one page looks, at most.
const LOOK: Duration = Duration::from_millis(150);

impl Inner {
    pub(in crate::engine) async fn answer_about_events(
        &self,
        question: EventQuestion,
    ) -> Result<EventAnswer, EngineError> {
        Ok(match question {
            EventQuestion::List(query) => EventAnswer::List(self.events_list(&query).await?),
            EventQuestion::Groups(query) => EventAnswer::Groups(self.event_groups(&query).await?),
            EventQuestion::One(id) => EventAnswer::One(Box::new(self.event(id).await?)),
            EventQuestion::Of(event_type, reference) => EventAnswer::Of(self.events_of(&event_type, &reference).await?),
            EventQuestion::Counts => EventAnswer::Counts(self.store.events_counts().await?),
            EventQuestion::Types => EventAnswer::Types(self.store.event_types().await?),
            EventQuestion::Type(name) => {
                let found = self.store.event_type_get(&name).await?;
                EventAnswer::Type(found.ok_or_else(|| unknown_type(&name))?)
            }
            EventQuestion::Subscriptions(name) => {
                self.store
                    .event_type_get(&name)
                    .await?
                    .ok_or_else(|| unknown_type(&name))?;
                EventAnswer::Subscriptions(self.store.subscriptions(&name).await?)
            }
            EventQuestion::Claim(event_type, claim) => {
                let found = self.store.claim_get(&event_type, &claim).await?;
                let found = found.ok_or_else(|| EngineError::NotFound {
                    what: format!("claim {claim:?} with events"),
                })?;
                EventAnswer::Claim(Box::new(found))
            }
            EventQuestion::History { event_type, limit } => {
                EventAnswer::History(self.store.event_history(&event_type, limit.clamp(1, 1000)).await?)
            }
        })
    }

    pub(super) async fn event(&self, id: i64) -> Result<Event, EngineError> {
        self.store.event_get(id).await?.ok_or_else(|| EngineError::NotFound {
            what: format!("event {id}"),
        })
    }

    /// At least one.
    pub(super) async fn events_of(
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

    pub(super) async fn events_list(&self, query: &EventsQuery) -> Result<Page<Event>, EngineError> {
        let filter = query.filter.as_deref().map(parse).transpose()?;
        if let Some(name) = &query.event_type
            && self.store.event_type_get(name).await?.is_none()
        {
            return Err(unknown_type(name));
        }
        let mut asked = pushed_down(query, filter.as_ref());
        asked.before = query.cursor.as_deref().map(cursor).transpose()?;
        let limit = usize::try_from(query.limit.clamp(1, 1000)).unwrap_or(1000);
        asked.limit = if filter.is_none() {
            query.limit.clamp(1, 1000)
        } else {
            ROWS
        };
        let now = self.store.now().await?;
        let started = self.clock.uptime();
        let mut items = Vec::new();
        let more = loop {
            let rows = self.store.events_page(&asked).await?;
            let full = rows.len() == usize::try_from(asked.limit).unwrap_or(0);
            for event in rows {
                asked.before = Some(event.id);
                let found = filter
                    .as_ref()
                    .is_none_or(|filter| filter.matches(&AtMoment { event: &event, now }));
                if found {
                    items.push(event);
                }
                if items.len() == limit {
                    break;
                }
            }
            if items.len() == limit || !full {
                break full || items.len() == limit;
            }
            if self.clock.uptime().saturating_sub(started) > LOOK {
                break true;
            }
        };
        Ok(Page {
            items,
            next_cursor: asked.before.filter(|_| more).map(|id| id.to_string()),
            taken_at: now,
        })
    }
}

pub(super) fn parse(source: &str) -> Result<Filter, EngineError> {
    Filter::parse(source, EVENT_FIELDS).map_err(|error| EngineError::Invalid {
        field: "filter".to_owned(),
        message: match &error.nearest {
            Some(nearest) => format!("filter: {error}; did you mean {nearest}?"),
            None => format!("filter: {error}"),
        },
    })
}

/// What the store looks up itself; the filter is asked all the same.
fn pushed_down(query: &EventsQuery, filter: Option<&Filter>) -> EventQuery {
    let mut asked = EventQuery {
        event_type: query.event_type.clone(),
        ..EventQuery::default()
    };
    for condition in filter.map(Filter::conditions).unwrap_or_default() {
        match condition {
            Condition::Is("type", name) if asked.event_type.is_none() => asked.event_type = EventType::parse(name).ok(),
            Condition::Is("reference", name) => asked.reference = Reference::parse(name).ok(),
            Condition::Is("state", name) => asked.state = EventState::from_name(name),
            // A store folds only ASCII letters alike everywhere.
            Condition::Contains("reason" | "error", part) if part.is_ascii() => {
                asked.reason_part = Some(part.to_owned());
            }
            Condition::Holds("dead") => asked.dead_letters = true,
            Condition::Is(..) | Condition::Contains(..) | Condition::Holds(_) => {}
        }
    }
    asked
}

fn cursor(text: &str) -> Result<i64, EngineError> {
    text.parse().map_err(|_| EngineError::Invalid {
        field: "cursor".to_owned(),
        message: "cursor is not one that was given out".to_owned(),
    })
}
