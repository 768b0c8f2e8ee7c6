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
            Selection::Filter(_) | Selection::All | Selection::Run(_) | Selection::Queue(_) | Selection::Head(_) => {
                None
            }
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
        Ok(events.map(|events| left_out(order, events)))
    }
}

/// Whether a filter fits one of these dead rows is not looked up: it is asked of the messages of queues.
fn left_out(order: &Order, events: u64) -> String {
    let which = if let Selection::Filter(_) = order.selection {
        "dead letters of the event table, also where the filter fits them,".to_owned()
    } else {
        format!("{events} dead letters of the event table")
    };
    let what_does = if order.kind == OrderKind::Discard {
        "`redrive event cancel` removes those"
    } else {
        "`redrive event retry` brings those back"
    };
    format!("{which} are not part of it: {what_does}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_many_dead_rows_there_are_is_not_said_to_be_how_many_a_filter_fits() {
        let of = |selection, kind| left_out(&Order::new(kind, selection), 15);
        let all = of(Selection::All, OrderKind::Redrive);
        assert!(
            all.starts_with("15 dead letters of the event table are not part of it: `redrive event retry`"),
            "{all}"
        );
        assert!(of(Selection::All, OrderKind::Discard).contains("`redrive event cancel` removes"));
        let filtered = of(Selection::Filter("queue = a".to_owned()), OrderKind::Redrive);
        assert!(
            filtered.contains("also where the filter fits them") && !filtered.contains("15"),
            "{filtered}"
        );
    }
}
