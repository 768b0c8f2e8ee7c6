//! Runs: what is being done with many messages, how far it is, and what came of it.
//!
//! ```text
//!    Started ▼    State       What          Progress           Done        Of   Failed  Left
//!  ▌  12 s ago    ● running   dead redrive  ████▌              4,500    10,000        3  1m50s
//!     2h04m ago   ✓ done      dead discard  ████████████         412       412        0  -
//!  4,500 of 10,000 done, 3 failed; at most 50/s; by ana: INC-4711
//!  1–2 of 2
//! ```

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use ratatui::layout::{Position, Rect};

use super::list::{self, Cell, Listed, OUTSIDE_MAX};
use super::{command_words, of};
use crate::console::state::action::Action;
use crate::console::state::detail::Subject;
use crate::console::state::feed::{Batch, FedRows, FeedQuery, Listing, Source};
use crate::console::state::inquire::{inquire, page};
use crate::console::state::lists::Lists;
use crate::console::state::pointed::{Pointed, Reach, Rows};
use crate::console::state::screen::{About, Screen, Selection};
use crate::console::state::{State, View};
use crate::console::table::ColumnWidth::Fixed;
use crate::console::table::{Column, Row, key};
use crate::console::theme::Role;
use crate::console::widgets::canvas::Canvas;
use crate::console::widgets::words::{self, ago, count, span};
use crate::domain::filter::{Field, FieldKind, FieldValue};
use crate::domain::run::RunState;
use crate::domain::text::show;
use crate::domain::time::Timestamp;
use crate::engine::runs::RunView;
use crate::engine::snapshot::Snapshot;
use crate::engine::{EngineHandle, query};

/// Cells of a bar in the list.
const BAR: u16 = 12;

/// The view.
pub(super) struct Runs;

static ABOUT: About = About {
    title: "Runs",
    short_title: "Runs",
    reads: &["store"],
    go: Action::new("runs", "runs", &["7"])
        .help("Go to the runs: how far each is, and what came of it.")
        .turns(|state| state.go_to_top(View::Runs)),
};

impl Screen for Runs {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn listing<'a>(&self, lists: &'a Lists) -> Option<&'a dyn Listing> {
        Some(&lists.runs)
    }

    fn listing_mut<'a>(&self, lists: &'a mut Lists) -> Option<&'a mut dyn Listing> {
        Some(&mut lists.runs)
    }

    fn asks(&self, lists: &Lists) -> Option<FeedQuery> {
        Some(FeedQuery::first(&SOURCE, lists.runs.feed.limit))
    }

    fn paint(&self, canvas: &mut Canvas<'_>, area: Rect, state: &State) -> Option<Position> {
        list::paint(canvas, area, state, &state.lists.runs.table)
    }

    fn glance(&self, canvas: &mut Canvas<'_>, area: Rect, state: &State) {
        list::glance(canvas, area, state, &state.lists.runs.table, "");
    }

    fn badge(&self, _: &State, snapshot: &Snapshot) -> String {
        match snapshot.runs.len() {
            0 => String::new(),
            open => of(open),
        }
    }
}

impl Selection for Runs {
    fn subject(&self, state: &State) -> Option<Subject> {
        let row = state.lists.runs.table.selected_row();
        row.map(|row| Subject::Run(row.record.id.clone()))
    }

    fn rows<'a>(&self, state: &'a State, reach: Reach) -> Rows<'a> {
        Rows::of(&state.lists.runs.table, reach, Pointed::Run)
    }

    fn command(&self, _: &State) -> Option<Vec<String>> {
        Some(command_words("run list"))
    }
}

/// The fields that a filter over runs may name. `age` is how long ago it was planned.
const FIELDS: &[Field] = &[
    Field::new("id", FieldKind::Text),
    Field::new("command", FieldKind::Text),
    Field::new("state", FieldKind::Word(&RunState::NAMES)),
    Field::new("actor", FieldKind::Text),
    Field::new("reason", FieldKind::Text),
    Field::new("note", FieldKind::Text),
    Field::new("owner", FieldKind::Text),
    Field::new("done", FieldKind::Number),
    Field::new("failed", FieldKind::Number),
    Field::new("skipped", FieldKind::Number),
    Field::new("total", FieldKind::Number),
    Field::new("rate", FieldKind::Number),
    Field::new("age", FieldKind::Duration),
];

impl Row for RunView {
    type Id = String;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("at", "Started", Fixed(11), 0, |row: &Self| {
            key::time(Some(row.record.created_at))
        })
        .time()
        .greatest_first(),
        Column::new("state", "State", Fixed(11), 0, |row| {
            key::text(Some(row.record.state.as_str()))
        }),
        Column::new("command", "What", Fixed(13), 0, |row| {
            key::text(Some(&row.record.command))
        }),
        Column::new("progress", "Progress", Fixed(12), 0, |row: &Self| {
            key::count(Some(share(row)))
        })
        .greatest_first(),
        Column::new("done", "Done", Fixed(9), 1, |row: &Self| {
            key::count(Some(row.record.counts.done))
        })
        .count(),
        Column::new("total", "Of", Fixed(9), 1, |row: &Self| {
            key::count(Some(row.record.total))
        })
        .count(),
        Column::new("failed", "Failed", Fixed(7), 1, |row: &Self| {
            key::count(Some(row.record.counts.failed))
        })
        .count(),
        Column::new("skipped", "Skipped", Fixed(7), 3, |row: &Self| {
            key::count(Some(row.record.counts.skipped))
        })
        .count(),
        Column::new("eta", "Left", Fixed(8), 2, |row: &Self| {
            key::count(row.eta.map(|eta| eta.as_secs()))
        })
        .time(),
        Column::new("rate", "Rate", Fixed(8), 4, |row: &Self| {
            key::count(row.record.rate.map(u64::from))
        })
        .count(),
        Column::new("actor", "Who", key::fill(8, 1), 4, |row| {
            key::text(Some(&row.record.actor))
        }),
        Column::new("reason", "Why", key::fill(12, 2), 5, |row| {
            key::text(row.record.reason.as_deref())
        }),
        Column::new("note", "Note", key::fill(16, 3), 6, |row| {
            key::text(row.record.note.as_deref())
        }),
        Column::new("owner", "Worker", key::fill(8, 1), 7, |row| {
            key::text(row.owner.as_deref())
        }),
    ];
    const FIELDS: &'static [Field] = FIELDS;

    fn id(&self) -> String {
        self.record.id.clone()
    }

    /// What needs a person or goes on stands before what is over.
    fn tie(&self, other: &Self) -> Ordering {
        let over = |row: &Self| matches!(row.record.state, RunState::Done | RunState::Cancelled);
        let newest = other.record.created_at.cmp(&self.record.created_at);
        over(self)
            .cmp(&over(other))
            .then(newest)
            .then_with(|| self.record.id.cmp(&other.record.id))
    }

    fn field(&self, name: &str, now: Timestamp) -> FieldValue<'_> {
        let record = &self.record;
        match name {
            "id" => key::or_missing(Some(&record.id)),
            "command" => key::or_missing(Some(&record.command)),
            "state" => key::or_missing(Some(record.state.as_str())),
            "actor" => key::or_missing(Some(&record.actor)),
            "reason" => key::or_missing(record.reason.as_deref()),
            "note" => key::or_missing(record.note.as_deref()),
            "owner" => key::or_missing(self.owner.as_deref()),
            "done" => key::number(record.counts.done),
            "failed" => key::number(record.counts.failed),
            "skipped" => key::number(record.counts.skipped),
            "total" => key::number(record.total),
            "rate" => record
                .rate
                .map_or(FieldValue::Missing, |rate| FieldValue::Number(rate.into())),
            "age" => FieldValue::Duration(now.since(record.created_at)),
            _ => FieldValue::Missing,
        }
    }
}

/// Thousandths of its items that have an outcome.
fn share(row: &RunView) -> u64 {
    let settled = row.record.counts.settled();
    settled
        .saturating_mul(1_000)
        .checked_div(row.record.total)
        .unwrap_or(1_000)
}

impl Listed for RunView {
    const MANY: &'static str = "runs";
    const WHEN_NONE: &'static str = "A redrive or discard of dead letters is a run: 5 shows the dead letters.";
    const SAID_BY: &'static str = "note";

    fn cell(&self, column: &'static str, now: Timestamp) -> Cell<'_> {
        let (record, counts) = (&self.record, self.record.counts);
        match column {
            "at" => Cell::new(ago(now, record.created_at), Role::TextMuted),
            "state" => state(self),
            "command" => Cell::new(&*record.command, Role::Text),
            "progress" => Cell::new(bar(self, BAR), role(record.state)),
            "done" => Cell::new(count(counts.done), Role::Text),
            "total" => Cell::new(count(record.total), Role::TextMuted),
            "failed" => Cell::new(
                count(counts.failed),
                if counts.failed > 0 { Role::Bad } else { Role::TextMuted },
            ),
            "skipped" => Cell::new(count(counts.skipped), Role::TextMuted),
            "eta" => Cell::or_none(left(self), Role::Warning),
            "rate" => Cell::or_none(record.rate.map(|rate| format!("{rate}/s")), Role::TextMuted),
            "actor" => Cell::new(&*record.actor, Role::Text),
            "reason" => Cell::or_none(record.reason.as_deref(), Role::Info),
            "note" => Cell::or_none(record.note.as_deref(), Role::Text),
            "owner" => Cell::or_none(self.owner.as_deref(), Role::TextMuted),
            _ => Cell::new("", Role::Text),
        }
    }

    fn says(&self, _: Timestamp) -> Cow<'_, str> {
        Cow::Owned(sentence(self))
    }
}

/// How long it still takes, while it goes on.
pub(in crate::console) fn left(run: &RunView) -> Option<String> {
    run.eta.map(span)
}

/// How much of it was done, and how much was not.
pub(in crate::console) fn outcome(run: &RunView) -> String {
    let (record, counts) = (&run.record, run.record.counts);
    let mut text = format!("{} of {} done", count(counts.done), count(record.total));
    let parts = [
        (counts.failed, "failed"),
        (counts.skipped, "skipped"),
        (record.restored, "put back since"),
    ];
    for (number, what) in parts {
        if number > 0 {
            let _ = write!(text, ", {} {what}", count(number));
        }
    }
    text
}

/// What came of it so far, by whom and why.
pub(in crate::console) fn sentence(run: &RunView) -> String {
    let record = &run.record;
    let mut text = outcome(run);
    if let Some(rate) = record.rate {
        let _ = write!(text, "; at most {rate} a second");
    }
    if let Some(note) = &record.note {
        let _ = write!(text, "; {}", show(note, OUTSIDE_MAX));
    }
    // Who cancelled it is often who began it: nobody is named twice.
    if !record
        .note
        .as_ref()
        .is_some_and(|note| note.contains(record.actor.as_str()))
    {
        let _ = write!(text, "; by {}", show(&record.actor, OUTSIDE_MAX));
    }
    if let Some(reason) = &record.reason {
        let _ = write!(text, ": {}", show(reason, OUTSIDE_MAX));
    }
    text
}

/// A state in its word, with its symbol.
pub(in crate::console) fn state(run: &RunView) -> Cell<'static> {
    let state = run.record.state;
    let symbol = match state {
        RunState::Running => '●',
        RunState::Done if run.record.counts.done < run.record.total => {
            return Cell::new(format!("! {}", run.phase()), Role::Warning);
        }
        RunState::Done => '✓',
        RunState::Failed => '×',
        RunState::Canary => '!',
        RunState::Paused => '◆',
        RunState::Planned | RunState::Cancelled => '·',
    };
    Cell::new(format!("{symbol} {}", run.phase()), role(state))
}

pub(in crate::console) const fn role(state: RunState) -> Role {
    match state {
        RunState::Running | RunState::Done => Role::Good,
        RunState::Failed => Role::Bad,
        RunState::Canary => Role::Critical,
        RunState::Paused => Role::Warning,
        RunState::Planned | RunState::Cancelled => Role::TextMuted,
    }
}

/// How far it is, in eighths of cells: full only when everything has its outcome.
pub(in crate::console) fn bar(run: &RunView, cells: u16) -> String {
    let (settled, total) = (run.record.counts.settled(), run.record.total.max(1));
    let eighths = u128::from(settled.min(total)) * u128::from(cells) * 8 / u128::from(total);
    words::bar(eighths, cells)
}

/// Where its rows come from.
pub(in crate::console) static SOURCE: Source = Source {
    name: "runs",
    every_min: Duration::ZERO,
    ask: |engine, query| Box::pin(async move { rows(&engine, query.limit()).await.map(FedRows::from) }),
};

async fn rows(engine: &EngineHandle, limit: u32) -> Result<Batch<RunView>, String> {
    let mut rows: Vec<Arc<RunView>> = Vec::new();
    loop {
        let next = query::Runs {
            before: rows.last().map(|run| run.record.id.clone()),
            limit: page(limit, rows.len()),
        };
        let found = inquire(engine, next).await?;
        let more = found.next_cursor.is_some() && !found.items.is_empty();
        rows.extend(found.items.into_iter().map(Arc::new));
        if !more || page(limit, rows.len()) == 0 {
            return Ok(Batch::new(rows, more));
        }
    }
}
