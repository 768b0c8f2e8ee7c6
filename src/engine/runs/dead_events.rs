//! Dead rows of the event table are no part of a run: whoever asks for them is told how they come back.

use super::RunPlanner;
use super::order::{Order, OrderKind, Selection};
use crate::domain::dead_letter::{DeadLetter, DeadLetterId, Home};
use crate::engine::EngineError;
use crate::engine::dead::{event_table_view, way_back};
use crate::store::{DeadQuery, StoreError};

impl RunPlanner {
    /// Where a run is asked for dead rows of the event table, by name or by group: says how they come back.
    pub(super) async fn refuse_events(&self, order: &Order) -> Result<(), EngineError> {
        let is_event = |letter: &DeadLetter| letter.home == Home::Event;
        let found = match &order.selection {
            Selection::Ids(ids) => self.first_event(ids).await?,
            Selection::Group(fingerprint) => {
                let query = DeadQuery {
                    fingerprint: Some(fingerprint.clone()),
                    limit: 1,
                    ..DeadQuery::default()
                };
                self.store.dead_letters(&query).await?.into_iter().find(is_event)
            }
            Selection::Filter(_) | Selection::All | Selection::Queue(_) | Selection::Head(_) => None,
        };
        match found {
            Some(letter) => Err(EngineError::Refused {
                why: format!("dead letter {}: {}", letter.id.as_str(), way_back(&letter)),
            }),
            None => Ok(()),
        }
    }

    async fn first_event(&self, ids: &[String]) -> Result<Option<DeadLetter>, StoreError> {
        for id in ids.iter().filter_map(|id| DeadLetterId::parse(id)) {
            let row = self.store.dead_letter(&id).await?;
            if let Some(row) = row
                && row.letter.home == Home::Event
            {
                return Ok(Some(row.letter));
            }
        }
        Ok(None)
    }

    /// Where a run takes all that is dead, or what matches: those of the event table are not among it.
    pub(super) async fn warn_of_events(&self, order: &Order) -> Result<Option<String>, StoreError> {
        let takes_dead = matches!(order.kind, OrderKind::Redrive | OrderKind::Discard);
        if !takes_dead || !matches!(order.selection, Selection::All | Selection::Filter(_)) {
            return Ok(None);
        }
        let events = event_table_view(&self.store.dead_queues().await?).and_then(|table| table.messages);
        Ok(events.map(|events| {
            format!(
                "{events} dead letters of the event table are not part of it: `redrive event retry` brings those back"
            )
        }))
    }
}
