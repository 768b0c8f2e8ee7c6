//! Queues that go by themselves: what is lost first stands first, with the time that is left as a bar.
//!
//! ```text
//!         Goes ▲  Time left     Would lose  Queue                 Consumers     Lives    Unused
//!  ▌    in 4m12s  ▌                     12  jobs.01a1….result             0    48h00m    47h55m
//!          in use                        3  jobs.77c2….progress           1    48h00m         -
//!  12 messages are lost in 4m12s unless somebody uses the queue
//!  1–2 of 2
//! ```

use std::borrow::Cow;
use std::time::Duration;

use ratatui::layout::{Position, Rect};

use super::super::action::ActionId;
use super::super::state::State;
use super::super::theme::Role;
use super::canvas::{Canvas, below, row};
use super::list::{self, Cell, Listed, OUTSIDE_MAX};
use super::words::{self, ago, count, date, plural, size, span, until};
use crate::domain::id::QueueName;
use crate::domain::job::{self, JobPart};
use crate::domain::text::show;
use crate::domain::time::Timestamp;
use crate::engine::expiring::{ExpiringQueue, SaveRecord, SaveState};

/// Cells of a bar.
const BAR: u16 = 12;
/// What is as near as this wants a person now, or soon.
const NOW: Duration = Duration::from_mins(10);
const SOON: Duration = Duration::from_hours(1);

/// Paints the list.
pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect, state: &State) -> Option<Position> {
    if state.shows_saves {
        let pieces = [
            (" what was saved", Role::Title),
            (" · w or Esc shows the queues", Role::TextMuted),
        ];
        canvas.pieces(row(area, 0), &pieces);
        return list::paint(canvas, below(area, 1), state, &state.saves.table);
    }
    list::paint(canvas, area, state, &state.expiring.table)
}

impl Listed for ExpiringQueue {
    const MANY: &'static str = "queues with a lifetime";
    const WHEN_NONE: &'static str = "Queues of jobs would be here, and every queue that the broker deletes by itself.";
    const SAID_BY: &'static str = "";

    fn cell(&self, column: &'static str, now: Timestamp) -> Cell<'_> {
        match column {
            "left" => left(self, now),
            "bar" => Cell::new(bar(self, now), urgency(self, now)),
            "messages" => match self.messages {
                Some(0) => Cell::new("0", Role::TextMuted),
                messages => Cell::new(words::known(messages), urgency(self, now)),
            },
            "name" => Cell::new(name(&self.name), Role::Text),
            "consumers" => Cell::new(words::known(self.consumers), Role::TextMuted),
            "ttl" => match self.ttl {
                Some(ttl) => Cell::new(span(ttl), Role::TextMuted),
                None => Cell::new("for ever", Role::Warning),
            },
            "idle" => Cell::or_none(self.idle.map(span), Role::TextMuted),
            "expires_at" => Cell::or_none(self.expires_at.map(date), Role::TextMuted),
            "kind" => Cell::new(self.kind.as_str(), Role::TextMuted),
            _ => Cell::new("", Role::Text),
        }
    }

    fn says(&self) -> Cow<'_, str> {
        let many = match self.messages {
            Some(0) => "nothing is in it".to_owned(),
            Some(messages) => format!("{} in it", plural(messages, "message is", "messages are")),
            None => "how much is in it is not known".to_owned(),
        };
        let estimated = if self.estimated && self.expires_at.is_some() {
            " (an estimate: the broker's statistics lag by seconds)"
        } else {
            ""
        };
        Cow::Owned(match (self.ttl, self.expires_at) {
            (Some(_), Some(at)) if self.over => format!(
                "it should be gone since {} UTC and is still there; {many}; A purges all of these",
                date(at)
            ),
            (None, _) => format!("a leftover without a lifetime: it stays until somebody removes it; {many}"),
            (Some(ttl), None) if self.consumers.is_some_and(|consumers| consumers > 0) => format!(
                "in use by {}: it goes {} after the last use; {many}",
                plural(self.consumers.unwrap_or(0), "consumer", "consumers"),
                span(ttl)
            ),
            (Some(ttl), None) => format!(
                "it goes {} after its last use, and when that was is not known; {many}",
                span(ttl)
            ),
            (Some(ttl), Some(at)) => format!(
                "goes at {} UTC, {} after its last use, with all that is in it{estimated}; {many}",
                date(at),
                span(ttl)
            ),
        })
    }
}

impl Listed for SaveRecord {
    const MANY: &'static str = "saves";
    const WHEN_NONE: &'static str = "V on a queue saves what is in it; a purge saves first what it takes away.";
    const SAID_BY: &'static str = "";

    fn cell(&self, column: &'static str, now: Timestamp) -> Cell<'_> {
        match column {
            "at" => Cell::new(ago(now, self.at), Role::TextMuted),
            "state" => {
                let (symbol, role) = match self.state {
                    SaveState::Kept => ('◆', Role::Good),
                    SaveState::Taking => ('…', Role::Warning),
                    SaveState::Restored => ('✓', Role::TextMuted),
                };
                Cell::new(format!("{symbol} {}", self.state.as_str()), role)
            }
            "messages" => Cell::new(count(self.left), Role::Text),
            "queue" => Cell::new(name(&self.queue), Role::Text),
            "until" if self.state == SaveState::Restored => Cell::new(words::NONE, Role::TextMuted),
            "until" => Cell::new(until(now, self.until), Role::Warning),
            "cause" => Cell::new(self.cause.as_str(), Role::TextMuted),
            "bytes" => Cell::new(size(usize::try_from(self.bytes).unwrap_or(usize::MAX)), Role::TextMuted),
            "actor" => Cell::new(&*self.actor, Role::Text),
            "reason" => Cell::or_none(self.reason.as_deref(), Role::Info),
            _ => Cell::new("", Role::Text),
        }
    }

    fn says(&self) -> Cow<'_, str> {
        let many = plural(self.left, "message", "messages");
        Cow::Owned(match self.state {
            SaveState::Kept => format!(
                "{many} of {} in the store until {} UTC: R puts them back",
                show(self.queue.as_str(), OUTSIDE_MAX),
                date(self.until)
            ),
            SaveState::Taking => "it is being saved".to_owned(),
            SaveState::Restored => "everything of it was put back".to_owned(),
        })
    }
}

/// Of the queues of a job what it is for stands first: the rest of the name is long and may be cut.
fn name(queue: &QueueName) -> Cow<'_, str> {
    let name = queue.as_str();
    let of_job = name.strip_prefix(job::PREFIX).and_then(|rest| rest.rsplit_once('.'));
    match of_job {
        Some((id, part)) if JobPart::ALL.iter().any(|known| known.as_str() == part) => {
            Cow::Owned(format!("{part} of {}{id}", job::PREFIX))
        }
        Some(_) | None => Cow::Borrowed(name),
    }
}

fn left(queue: &ExpiringQueue, now: Timestamp) -> Cell<'static> {
    match (queue.ttl, queue.expires_at) {
        (Some(_), Some(at)) => {
            let about = if queue.estimated { "~ " } else { "" };
            Cell::new(format!("{about}{}", until(now, at)), urgency(queue, now))
        }
        (Some(_), None) if queue.consumers.is_some_and(|consumers| consumers > 0) => Cell::new("in use", Role::Good),
        (Some(_), None) => Cell::new(words::UNKNOWN, Role::TextMuted),
        (None, _) => Cell::new("stays", Role::TextMuted),
    }
}

/// How much of its lifetime is left: empty when it goes.
fn bar(queue: &ExpiringQueue, now: Timestamp) -> String {
    let (Some(ttl), Some(at)) = (queue.ttl, queue.expires_at) else {
        return String::new();
    };
    let (left, whole) = (at.since(now).min(ttl).as_micros(), ttl.as_micros().max(1));
    words::bar((left * u128::from(BAR) * 8).div_ceil(whole), BAR)
}

fn urgency(queue: &ExpiringQueue, now: Timestamp) -> Role {
    let Some(at) = queue.expires_at else {
        return Role::Text;
    };
    match (queue.messages, at.since(now)) {
        (Some(0), _) => Role::TextMuted,
        (_, left) if left <= NOW => Role::Critical,
        (_, left) if left <= SOON => Role::Bad,
        (..) => Role::Warning,
    }
}

/// What the overview says of what is lost soon.
pub(super) fn headline(state: &State) -> Option<String> {
    let lost = super::super::update::expiring::lost_soon(state)?;
    let queues = if lost.queues == 1 {
        "1 queue".to_owned()
    } else {
        format!("{} queues", count(lost.queues))
    };
    Some(format!(
        "! {} of {queues} lost within the hour, the first {} (press {})",
        plural(lost.messages, "message", "messages"),
        until(state.now, lost.first_at),
        state.keymap.label(ActionId::Expiring).unwrap_or_default()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::queue::QueueKind;

    fn queue(left: u64, ttl: u64) -> ExpiringQueue {
        ExpiringQueue {
            name: QueueName::parse("jobs.1.result").unwrap(),
            kind: QueueKind::Job,
            ttl: Some(Duration::from_secs(ttl)),
            idle: None,
            expires_at: Some(Timestamp::from_seconds(1_000).plus(Duration::from_secs(left))),
            estimated: false,
            consumers: Some(0),
            messages: Some(1),
            unused_since: None,
            bytes: None,
            over: false,
            extends: crate::domain::expiry::Extends::Redeclare,
            seen_at: Timestamp::from_seconds(1_000),
        }
    }

    #[test]
    fn a_bar_is_as_long_as_the_time_that_is_left() {
        let now = Timestamp::from_seconds(1_000);
        let cells = |left| bar(&queue(left, 120), now).trim_end().chars().count();
        assert_eq!([0, 1, 10, 60, 120].map(cells), [0, 1, 1, 6, 12]);
    }
}
