//! Queues that expire, those that lose messages first, with the time that is left as a bar.
//!
//! ```text
//!      Expires ▲  Time left       Messages  Queue                 Consumers       TTL    Unused
//!  ▌    in 4m12s  ▌                     12  jobs.01a1….result             0    48h00m    47h55m
//!          in use                        3  jobs.77c2….progress           1    48h00m         -
//!  12 messages are lost in 4m12s unless somebody uses the queue
//!  1–2 of 2
//! ```

mod saves;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use ratatui::layout::{Position, Rect};

use crate::console::state::action::{Action, Possible, require};
use crate::console::state::detail::Subject;
use crate::console::state::feed::{Batch, FedRows, FeedQuery, Listing, Source};
use crate::console::state::inquire::inquire;
use crate::console::state::lists::Lists;
use crate::console::state::relatives::{self, Relatives};
use crate::console::state::screen::{About, Screen, Selection, selected};
use crate::console::state::{State, View};
use crate::console::table::ColumnWidth::Fixed;
use crate::console::table::{Column, Row, SortKey, key};
use crate::console::theme::Role;
use crate::console::views::command_words;
use crate::console::views::list::{self, Cell, Listed};
use crate::console::widgets::canvas::{Canvas, below, row};
use crate::console::widgets::words::{self, count, date, plural, span, until};
use crate::domain::filter::{Field, FieldKind, FieldValue};
use crate::domain::id::QueueName;
use crate::domain::job::{self, JobPart};
use crate::domain::queue::QueueKind;
use crate::domain::time::Timestamp;
use crate::engine::expiring::{ExpiringQuery, ExpiringQueue};
use crate::engine::snapshot::Snapshot;
use crate::engine::{EngineHandle, query};

/// Cells of a bar.
const BAR: u16 = 12;
/// What is as near as this wants a person now, or soon.
const NOW: Duration = Duration::from_mins(10);
const SOON: Duration = Duration::from_hours(1);

/// The view.
pub(super) struct Expiring;

static ABOUT: About = About {
    title: "Expiring",
    short_title: "Exp",
    reads: &["broker", "store"],
    go: Action::new("expiring", "expiring", &["-"])
        .help("Go to the queues that expire, those that lose messages first.")
        .turns(|state| state.go_to_top(View::Expiring)),
};

impl Screen for Expiring {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn listing<'a>(&self, lists: &'a Lists) -> Option<&'a dyn Listing> {
        if lists.expiring.shows_saves {
            return Some(&lists.expiring.saves);
        }
        Some(&lists.expiring.queues)
    }

    fn listing_mut<'a>(&self, lists: &'a mut Lists) -> Option<&'a mut dyn Listing> {
        if lists.expiring.shows_saves {
            return Some(&mut lists.expiring.saves);
        }
        Some(&mut lists.expiring.queues)
    }

    fn asks(&self, lists: &Lists) -> Option<FeedQuery> {
        if lists.expiring.shows_saves {
            return Some(FeedQuery::first(&saves::SOURCE, lists.expiring.saves.feed.limit));
        }
        Some(FeedQuery::all(&QUEUES))
    }

    fn paint(&self, canvas: &mut Canvas<'_>, area: Rect, state: &State) -> Option<Position> {
        if state.lists.expiring.shows_saves {
            let pieces = [
                (" what was saved", Role::Title),
                (" · w or Esc shows the queues", Role::TextMuted),
            ];
            canvas.pieces(row(area, 0), &pieces);
            return list::paint(canvas, below(area, 1), state, &state.lists.expiring.saves.table);
        }
        list::paint(canvas, area, state, &state.lists.expiring.queues.table)
    }

    fn glance(&self, canvas: &mut Canvas<'_>, area: Rect, state: &State) {
        let expiring = &state.lists.expiring;
        if expiring.shows_saves {
            list::glance(
                canvas,
                area,
                state,
                &expiring.saves.table,
                "R puts it back into its queue.",
            );
        } else {
            list::glance(canvas, area, state, &expiring.queues.table, "");
        }
    }

    fn badge(&self, state: &State, _: &Snapshot) -> String {
        lost_soon(state).map_or_else(String::new, |lost| format!(" !{}", count(lost.messages)))
    }

    fn alarm(&self, badge: &str) -> String {
        badge.trim_start().to_owned()
    }
}

impl Selection for Expiring {
    fn opens(&self, state: &State) -> Possible {
        require(!state.lists.expiring.shows_saves, "R puts it back")?;
        selected(state)
    }

    fn previewed(&self, state: &State) -> Option<Subject> {
        let expiring = &state.lists.expiring;
        let row = expiring.queues.table.selected_row().filter(|_| !expiring.shows_saves);
        row.map(|row| Subject::Queue(row.name.clone()))
    }

    fn open(&self, state: &mut State) -> Option<Subject> {
        self.previewed(state)
    }

    fn is_inside(&self, lists: &Lists) -> bool {
        lists.expiring.shows_saves
    }

    fn close(&self, lists: &mut Lists) {
        lists.expiring.shows_saves = false;
    }

    fn name(&self, state: &State) -> Option<String> {
        let expiring = &state.lists.expiring;
        if expiring.shows_saves {
            let row = expiring.saves.table.selected_row();
            return row.map(|row| row.id.clone());
        }
        let row = expiring.queues.table.selected_row();
        row.map(|row| row.name.as_str().to_owned())
    }

    fn relatives(&self, state: &State) -> Option<Relatives> {
        let row = state.lists.expiring.queues.table.selected_row();
        row.map(|row| relatives::of_queue(state, &row.name))
    }

    fn command(&self, _: &State) -> Option<Vec<String>> {
        Some(command_words("expiring list"))
    }
}

/// The fields that a filter over expiring queues may name. `left` is the time until it goes.
const FIELDS: &[Field] = &[
    Field::new("name", FieldKind::Text),
    Field::new("kind", FieldKind::Word(&QueueKind::NAMES)),
    Field::new("messages", FieldKind::Number),
    Field::new("consumers", FieldKind::Number),
    Field::new("left", FieldKind::Duration),
    Field::new("ttl", FieldKind::Duration),
    Field::new("idle", FieldKind::Duration),
];

/// Behind every time that there is: what is empty loses nothing.
const BEHIND_ALL_TIMES: i64 = i64::MAX / 2;

impl Row for ExpiringQueue {
    type Id = QueueName;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("left", "Expires", Fixed(11), 0, lost_first).time(),
        Column::new("bar", "Time left", Fixed(12), 1, lost_first),
        Column::new("messages", "Messages", Fixed(10), 0, |row: &Self| {
            key::count(row.messages)
        })
        .count(),
        Column::new("name", "Queue", key::fill(20, 4), 0, |row| {
            key::text(Some(row.name.as_str()))
        }),
        Column::new("consumers", "Consumers", Fixed(9), 1, |row: &Self| {
            key::count(row.consumers)
        })
        .count(),
        Column::new("ttl", "TTL", Fixed(9), 2, |row: &Self| {
            key::count(row.ttl.map(|ttl| ttl.as_secs()))
        })
        .time(),
        Column::new("idle", "Unused", Fixed(9), 3, |row: &Self| {
            key::count(row.idle.map(|idle| idle.as_secs()))
        })
        .time(),
        Column::new("expires_at", "Goes at (UTC)", Fixed(19), 5, |row: &Self| {
            key::time(row.expires_at)
        }),
        Column::new("kind", "Kind", Fixed(12), 4, |row| key::text(Some(row.kind.as_str()))),
    ];
    const FIELDS: &'static [Field] = FIELDS;

    fn id(&self) -> QueueName {
        self.name.clone()
    }

    fn tie(&self, other: &Self) -> Ordering {
        other
            .messages
            .cmp(&self.messages)
            .then_with(|| self.expires_at.cmp(&other.expires_at))
            .then_with(|| self.name.cmp(&other.name))
    }

    fn field(&self, name: &str, now: Timestamp) -> FieldValue<'_> {
        let duration = |span: Option<std::time::Duration>| span.map_or(FieldValue::Missing, FieldValue::Duration);
        match name {
            "name" => key::or_missing(Some(self.name.as_str())),
            "kind" => key::or_missing(Some(self.kind.as_str())),
            "messages" => known_number(self.messages),
            "consumers" => known_number(self.consumers),
            "left" => duration(self.expires_at.map(|at| at.since(now))),
            "ttl" => duration(self.ttl),
            "idle" => duration(self.idle),
            _ => FieldValue::Missing,
        }
    }
}

/// By the time that is left where something is lost; the empty ones behind them, then those that stay.
fn lost_first(row: &ExpiringQueue) -> SortKey<'static> {
    match (row.expires_at, row.messages) {
        (None, _) => SortKey::Missing,
        (Some(at), Some(0)) => SortKey::Number(at.micros().saturating_add(BEHIND_ALL_TIMES)),
        (Some(at), _) => SortKey::Number(at.micros()),
    }
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

    fn says(&self, _: Timestamp) -> Cow<'_, str> {
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
                "in use by {}: it expires {} after the last use; {many}",
                plural(self.consumers.unwrap_or(0), "consumer", "consumers"),
                span(ttl)
            ),
            (Some(ttl), None) => format!(
                "it expires {} after its last use, and when that was is not known; {many}",
                span(ttl)
            ),
            (Some(ttl), Some(at)) => format!(
                "expires at {} UTC, {} after its last use, with all that is in it{estimated}; {many}",
                date(at),
                span(ttl)
            ),
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

/// What is lost within the hour when nobody comes for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::console) struct LostSoon {
    /// Messages, as far as their number is known.
    pub(in crate::console) messages: u64,
    /// The queues that they are in.
    pub(in crate::console) queues: u64,
    /// When the first of them goes.
    pub(in crate::console) first_at: Timestamp,
}

/// What is lost within the hour; `None`: nothing, as far as it is known.
pub(in crate::console) fn lost_soon(state: &State) -> Option<LostSoon> {
    let end = state.now.plus(SOON);
    let rows = state.lists.expiring.queues.table.rows.iter();
    let soon = rows.filter(|row| row.messages != Some(0));
    let soon = soon.filter_map(|row| Some((row, row.expires_at?)));
    let soon = soon.filter(|(_, at)| *at > state.now && *at <= end);
    let mut lost: Option<LostSoon> = None;
    for (row, at) in soon {
        let sum = lost.get_or_insert(LostSoon {
            messages: 0,
            queues: 0,
            first_at: at,
        });
        sum.messages += row.messages.unwrap_or(0);
        sum.queues += 1;
        sum.first_at = sum.first_at.min(at);
    }
    lost
}

/// What the overview says of what is lost soon.
pub(super) fn headline(state: &State) -> Option<String> {
    let lost = lost_soon(state)?;
    let queues = if lost.queues == 1 {
        "1 queue".to_owned()
    } else {
        format!("{} queues", count(lost.queues))
    };
    Some(format!(
        "! {} in {queues} expire within the hour, the first {} (press {})",
        plural(lost.messages, "message", "messages"),
        until(state.now, lost.first_at),
        state.input.keymap.label("expiring").unwrap_or_default()
    ))
}

/// Lifetimes are long and their list is a long walk: it is not asked for more often.
const QUEUES_EVERY: Duration = Duration::from_secs(10);

/// Where the queues come from.
pub(in crate::console) static QUEUES: Source = Source {
    name: "expiring",
    every_min: QUEUES_EVERY,
    ask: |engine, _| Box::pin(async move { queues(&engine).await.map(FedRows::from) }),
};

async fn queues(engine: &EngineHandle) -> Result<Batch<ExpiringQueue>, String> {
    let page = inquire(engine, query::Expiring(ExpiringQuery::default())).await?;
    let more = page.next_cursor.is_some();
    Ok(Batch::new(page.items.into_iter().map(Arc::new).collect(), more))
}

fn known_number(count: Option<u64>) -> FieldValue<'static> {
    count.map_or(FieldValue::Missing, key::number)
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
