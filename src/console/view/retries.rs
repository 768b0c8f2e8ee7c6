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

use ratatui::layout::{Position, Rect};

use super::super::state::State;
use super::super::theme::Role;
use super::canvas::{Canvas, below};
use super::list::{self, Cell, Listed};
use super::timeline;
use super::words::{self, until};
use crate::domain::id::QueueName;
use crate::domain::policy::Phase;
use crate::domain::time::Timestamp;
use crate::engine::view::Retry;

/// From this height on there is a time line.
const TALL: u16 = 12;
const LINE: u16 = 4;

/// Paints time line and list.
pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect, state: &State) -> Option<Position> {
    let line = if area.height >= TALL { LINE } else { 0 };
    if line > 0 {
        let retries = state
            .snapshot
            .as_ref()
            .map_or(&[][..], |snapshot| snapshot.retries.as_slice());
        timeline::paint(canvas, Rect { height: line, ..area }, retries);
    }
    list::paint(canvas, below(area, line), state, &state.retries)
}

impl Listed for Retry {
    const MANY: &'static str = "retries";
    const WHEN_NONE: &'static str = "No message failed that would be tried again.";
    const SAID_BY: &'static str = "message";

    fn cell(&self, column: &'static str, now: Timestamp) -> Cell<'_> {
        match column {
            "at" => match self.at {
                Some(at) => Cell::new(until(now, at), Role::Warning),
                None => Cell::new("! for a person", Role::Critical),
            },
            "endpoint" => Cell::or_none(self.url.as_ref().map(words::url), Role::Text),
            "attempt" => Cell::new(self.counted(), Role::Text),
            "phase" => Cell::or_none(self.phase.map(Phase::as_str), Role::TextMuted),
            "queue" => Cell::or_none(self.queue.as_ref().map(QueueName::as_str), Role::Text),
            "message" => Cell::or_none(self.message.as_ref().map(AsRef::<str>::as_ref), Role::TextMuted),
            _ => Cell::new("", Role::Text),
        }
    }

    fn says(&self) -> Cow<'_, str> {
        let message = self.message.as_ref().map_or("the next message", |id| id.as_str());
        match self.at {
            Some(_) => Cow::Owned(format!("{message} is tried again; R tries it now")),
            None => Cow::Owned(format!("{message} waits for a person: R redelivers")),
        }
    }
}

impl Retry {
    /// `5 of 13`; for those that nobody will make, how many were.
    pub(super) fn counted(&self) -> String {
        match self.at {
            // Not read yet, or more were made than a policy that was changed since allows.
            Some(_) if self.attempt > self.of => self.attempt.to_string(),
            Some(_) => format!("{} of {}", self.attempt, self.of),
            None => format!("{} failed", self.attempt.saturating_sub(1)),
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
                of,
            };
            retry.counted()
        };
        assert_eq!(said(Some(1), 2, 3), "2 of 3");
        assert_eq!(said(Some(1), 4, 3), "4");
        assert_eq!(said(None, 14, 13), "13 failed");
    }
}
