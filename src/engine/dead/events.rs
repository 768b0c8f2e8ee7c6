//! Dead rows of the event table among the other dead letters: in the same index, so that they are listed, grouped,
//! filtered and shown alike. They are brought back by the commands about events.

use std::sync::Arc;
use std::time::Duration;

use super::look::{HOLD, SOON};
use super::outlet::Outlet;
use super::{DeadDetail, DeadIndex, DeadLetters, DeadPages, DeadQueueView, DeadSelection, DeadSort};
use crate::ambient;
use crate::domain::dead_letter::{DeadLetter, DeadQueueKind, EVENT_TABLE, Home, of_event};
use crate::domain::death;
use crate::domain::event::Event;
use crate::domain::id::QueueName;
use crate::domain::mask::MaskRules;
use crate::domain::message::Message;
use crate::domain::time::Timestamp;
use crate::engine::EngineError;
use crate::engine::sieve::Sieve;
use crate::store::{DeadClaim, DeadLooked, DeadQueue, DeadRow, EventQuery, StoreError};

/// Rows of one read: their payloads come with them.
const BATCH: u32 = 100;

/// The name that the event table has in the index.
pub(super) fn event_table() -> Option<QueueName> {
    QueueName::parse(EVENT_TABLE).ok()
}

/// Whether it is to be looked at again: soon, and more rarely when there is much.
pub(super) fn is_due(known: Option<&DeadQueue>, now: Timestamp) -> bool {
    let Some((known, looked_at)) = known.and_then(|known| Some((known, known.looked_at?))) else {
        return true;
    };
    now.since(looked_at) >= SOON + Duration::from_millis(known.messages.unwrap_or(0) / 10)
}

/// The event table as one of the queues, when something dead is in it.
pub(in crate::engine) fn event_table_view(known: &[DeadQueue]) -> Option<DeadQueueView> {
    let known = known.iter().find(|known| known.name.as_str() == EVENT_TABLE)?;
    known.messages.filter(|messages| *messages > 0)?;
    Some(DeadQueueView {
        name: known.name.clone(),
        kind: Some(DeadQueueKind::Event),
        fed_by: Arc::default(),
        ready: known.messages,
        messages: known.messages,
        looked_at: known.looked_at,
        looking: known.claimed_by.as_ref().map(|_| (known.seen, known.expected)),
        consumed: false,
        may_be_work: false,
        problem: known.problem.clone(),
    })
}

impl DeadIndex {
    /// Looks at the event table unless somebody does so already.
    pub(super) async fn look_at_events(self: Arc<Self>) {
        if let Err(error) = self.look_events_claimed().await {
            tracing::warn!(error = ?error, "dead events could not be looked at");
        }
    }

    async fn look_events_claimed(&self) -> Result<(), StoreError> {
        let Some(table) = event_table() else { return Ok(()) };
        if self.no_event_ever_died(&table).await? {
            return Ok(());
        }
        let who = format!("look-{}-{:08x}", std::process::id(), ambient::random() & 0xffff_ffff);
        let DeadClaim::Claimed(generation) = self.store.dead_claim(&table, &who, None, HOLD).await? else {
            return Ok(());
        };
        let mut query = EventQuery {
            dead_letters: true,
            limit: BATCH,
            ..EventQuery::default()
        };
        let mut messages = 0;
        loop {
            let events = self.store.events_page(&query).await?;
            query.before = events.last().map(|event| event.id);
            let rows: Vec<DeadRow> = events
                .iter()
                .filter_map(|event| row(event, &self.settings.masks))
                .collect();
            messages += rows.len() as u64;
            if !self.store.dead_write(&table, generation, &rows, HOLD).await? {
                return Ok(());
            }
            if events.len() < BATCH as usize {
                break;
            }
        }
        let looked = DeadLooked {
            messages,
            whole: true,
            problem: None,
        };
        self.store.dead_finish(&table, generation, &looked).await.map(drop)
    }

    /// Nothing is there and nothing was: then nothing has to be written about it.
    async fn no_event_ever_died(&self, table: &QueueName) -> Result<bool, StoreError> {
        let known = self.store.dead_queues().await?;
        if known
            .iter()
            .any(|known| known.name == *table && known.messages != Some(0))
        {
            return Ok(false);
        }
        let first = EventQuery {
            dead_letters: true,
            limit: 1,
            ..EventQuery::default()
        };
        Ok(self.store.events_page(&first).await?.is_empty())
    }
}

impl DeadLetters {
    /// A dead row with everything.
    pub(super) async fn dead_event(&self, letter: DeadLetter) -> Result<Option<DeadDetail>, EngineError> {
        let id = letter.message_id.as_deref().and_then(|id| id.parse().ok());
        let Some(id) = id else { return Ok(None) };
        let event = self.store.event_get(id).await?;
        Ok(event.filter(Event::is_dead_letter).map(|event| detail(letter, event)))
    }

    /// Every selected dead row with its payload, until nobody listens any more.
    pub(super) async fn export_events(
        &self,
        selection: &DeadSelection,
        sieve: &mut Sieve,
        outlet: &Outlet,
    ) -> Result<(), EngineError> {
        let ended = || event_table().map_or(Ok(()), |table| outlet.ended(&table));
        let mut pages = DeadPages::of(selection.queue.clone(), selection.group.clone(), DeadSort::Position);
        while let Some(rows) = pages.next(self).await? {
            if outlet.has_ended() {
                return ended();
            }
            let rows: Vec<_> = rows.into_iter().filter(|letter| letter.home == Home::Event).collect();
            let first = if sieve.asks_for_places() {
                rows
            } else {
                self.sifted(rows, |letter| (letter, None), selection, sieve).await?
            };
            for letter in first {
                if let Some(detail) = self.dead_event(letter).await?
                    && !self.handed_on(detail, selection, sieve, outlet).await?
                {
                    return ended();
                }
            }
        }
        Ok(())
    }
}

fn row(event: &Event, masks: &MaskRules) -> Option<DeadRow> {
    let letter = of_event(event)?;
    let begins = event.payload.as_ref().and_then(|payload| masks.begins(payload));
    Some(DeadRow {
        letter: DeadLetter { begins, ..letter },
        copy: None,
    })
}

/// How a dead event comes back.
pub(in crate::engine) fn way_back(letter: &DeadLetter) -> String {
    format!(
        "it is event {id} of type {:?}: `redrive event retry {id}` makes it due again, with its whole budget, unless it was \
         never an event; `redrive event cancel {id}` removes it",
        letter.queue.as_str(),
        id = letter.message_id.as_deref().unwrap_or_default()
    )
}

fn detail(letter: DeadLetter, event: Event) -> DeadDetail {
    let message = Message {
        message_id: letter.message_id.clone(),
        body: event.payload.unwrap_or_default(),
        ..Message::default()
    };
    DeadDetail {
        history: death::history(&message),
        target: Err(way_back(&letter)),
        letter,
        message,
        edited: None,
    }
}
