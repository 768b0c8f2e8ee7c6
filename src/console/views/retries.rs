//! What is tried when: a time line, and under it the retries, soonest first; those that wait for a
//! person last.
//!
//! ```text
//!  next 10 minutes: 9 attempts due · 2 wait for a person
//!  ▂      █  ▄          ▂
//!  now         2m30s        5m00s        7m30s       10m00s
//!    When ▲          Endpoint                  Attempt     Queue
//!  ▌ in 8 s          stock.example/changed     5 of 13     redrive.order-18.9bbb…
//!    for a person    billing.example/hook      -           redrive.order-21.0c…
//! ```

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

use ratatui::layout::{Position, Rect};

use super::list::{self, Cell, Listed};
use super::{command_words, listed};
use crate::console::state::action::Action;
use crate::console::state::detail::Subject;
use crate::console::state::feed::Listing;
use crate::console::state::lists::Lists;
use crate::console::state::pointed::{Pointed, Reach, Rows, queue_row};
use crate::console::state::relatives::Relatives;
use crate::console::state::screen::{About, Screen, Selection};
use crate::console::state::{State, View};
use crate::console::table::ColumnWidth::Fixed;
use crate::console::table::{Column, RetryId, Row, key};
use crate::console::theme::Role;
use crate::console::widgets::canvas::{Canvas, below};
use crate::console::widgets::timeline;
use crate::console::widgets::words::until;
use crate::domain::filter::{Field, FieldValue};
use crate::domain::id::QueueName;
use crate::domain::policy::Phase;
use crate::domain::time::Timestamp;
use crate::engine::snapshot::{self, Snapshot};
use crate::engine::view::Retry;

/// From this height on there is a time line.
const TALL: u16 = 12;
const LINE: u16 = 4;

/// The view.
pub(super) struct Retries;

static ABOUT: About = About {
    title: "Retries",
    short_title: "Retries",
    reads: &["store"],
    go: Action::new("retries", "retries", &["4"])
        .help("Go to what is tried when.")
        .turns(|state| state.go_to_top(View::Retries)),
};

impl Screen for Retries {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn listing<'a>(&self, lists: &'a Lists) -> Option<&'a dyn Listing> {
        Some(&lists.retries)
    }

    fn listing_mut<'a>(&self, lists: &'a mut Lists) -> Option<&'a mut dyn Listing> {
        Some(&mut lists.retries)
    }

    fn paint(&self, canvas: &mut Canvas<'_>, area: Rect, state: &State) -> Option<Position> {
        let line = if area.height >= TALL { LINE } else { 0 };
        if line > 0 {
            let retries = state
                .data
                .snapshot
                .as_ref()
                .map_or(&[][..], |snapshot| snapshot.retries.as_slice());
            timeline::paint(canvas, Rect { height: line, ..area }, retries);
        }
        list::paint(canvas, below(area, line), state, &state.lists.retries)
    }

    fn glance(&self, canvas: &mut Canvas<'_>, area: Rect, state: &State) {
        list::glance(canvas, area, state, &state.lists.retries, "");
    }

    fn badge(&self, _: &State, snapshot: &Snapshot) -> String {
        listed(&snapshot.store, snapshot.retries.len())
    }
}

impl Selection for Retries {
    fn subject(&self, state: &State) -> Option<Subject> {
        let retry = state.lists.retries.selected_row()?;
        let queue = retry.queue.clone().map(Subject::Queue);
        queue.or_else(|| retry.url.clone().map(Subject::Endpoint))
    }

    fn relatives(&self, state: &State) -> Option<Relatives> {
        let retry = state.lists.retries.selected_row()?;
        Some(Relatives {
            queue: retry.queue.clone(),
            url: retry.url.clone(),
            target: retry.queue.as_ref().map(|queue| queue.as_str().to_owned()),
            ..Relatives::default()
        })
    }

    /// A retry is about the head of its queue, where that is on the list.
    fn rows<'a>(&self, state: &'a State, reach: Reach) -> Rows<'a> {
        Rows::of(&state.lists.retries, reach, |retry| {
            let row = retry.queue.as_ref().and_then(|name| queue_row(state, name));
            row.map_or(Pointed::Retry(retry), Pointed::Queue)
        })
    }

    fn command(&self, _: &State) -> Option<Vec<String>> {
        Some(command_words("retries"))
    }
}

impl Row for Retry {
    type Id = RetryId;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("at", "When", Fixed(14), 0, |row: &Self| key::time(row.at)),
        Column::new("endpoint", "Endpoint", key::fill(20, 3), 0, |row| {
            key::url(row.url.as_ref())
        }),
        Column::new("attempt", "Attempt", Fixed(10), 1, |row: &Self| {
            key::count(Some(row.attempt.into()))
        })
        .count(),
        Column::new("phase", "Phase", Fixed(12), 3, |row| {
            key::text(row.phase.map(Phase::as_str))
        }),
        Column::new("queue", "Queue", key::fill(16, 2), 2, |row| {
            key::text(row.queue.as_ref().map(AsRef::as_ref))
        }),
        Column::new("message", "Message", key::fill(12, 1), 4, |row| {
            key::text(row.message.as_ref().map(AsRef::as_ref))
        }),
    ];
    const FIELDS: &'static [Field] = snapshot::RETRY_FIELDS;

    fn rows_of(snapshot: &Snapshot) -> Option<(Arc<Vec<Arc<Self>>>, Timestamp)> {
        let taken_at = snapshot.store.taken_at.unwrap_or(snapshot.taken_at);
        Some((Arc::clone(&snapshot.retries), taken_at))
    }

    fn unread(snapshot: &Snapshot) -> Option<&str> {
        snapshot.store.problem.as_deref()
    }

    fn id(&self) -> RetryId {
        match (&self.queue, &self.url) {
            (Some(queue), _) => RetryId::Queue(queue.clone()),
            (None, Some(url)) => RetryId::Url(url.clone()),
            (None, None) => RetryId::Unknown,
        }
    }

    /// Those that wait for a person come last.
    fn tie(&self, other: &Self) -> Ordering {
        (self.at.is_none(), self.at, &self.url, &self.queue).cmp(&(
            other.at.is_none(),
            other.at,
            &other.url,
            &other.queue,
        ))
    }

    fn field(&self, name: &str, now: Timestamp) -> FieldValue<'_> {
        Self::field(self, name, now)
    }
}

impl Listed for Retry {
    const MANY: &'static str = "retries";
    const WHEN_NONE: &'static str = "No failed message waits for a retry.";
    const SAID_BY: &'static str = "message";

    fn cell(&self, column: &'static str, now: Timestamp) -> Cell<'_> {
        match column {
            "at" => match self.at {
                Some(at) => Cell::new(until(now, at), Role::Warning),
                None => Cell::new("! for a person", Role::Critical),
            },
            "endpoint" => Cell::url(self.url.as_ref()),
            "attempt" => Cell::new(self.counted(), Role::Text),
            "phase" => Cell::or_none(self.phase.map(Phase::as_str), Role::TextMuted),
            "queue" => Cell::or_none(self.queue.as_ref().map(QueueName::as_str), Role::Text),
            "message" => Cell::or_none(self.message.as_ref().map(AsRef::<str>::as_ref), Role::TextMuted),
            _ => Cell::new("", Role::Text),
        }
    }

    fn says(&self, _: Timestamp) -> Cow<'_, str> {
        let message = self.message.as_ref().map_or("the next message", |id| id.as_str());
        match self.at {
            Some(_) => Cow::Owned(format!("{message} is tried again; R tries it now")),
            None => Cow::Owned(format!("{message} waits for a person: R redelivers")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_attempt_is_more_than_there_are_and_what_waits_for_a_person_counts_what_failed() {
        let said = |at: Option<i64>, attempt, of| {
            let retry = Retry {
                at: at.map(Timestamp::from_seconds),
                queue: None,
                url: None,
                message: None,
                phase: None,
                attempt,
                of: Some(of),
            };
            retry.counted()
        };
        assert_eq!(said(Some(1), 2, 3), "2 of 3");
        assert_eq!(said(Some(1), 4, 3), "4");
        assert_eq!(said(None, 14, 13), "13 failed");
    }
}
