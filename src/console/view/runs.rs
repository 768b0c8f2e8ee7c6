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
use std::fmt::Write as _;

use ratatui::layout::{Position, Rect};

use super::super::state::State;
use super::super::theme::Role;
use super::canvas::Canvas;
use super::list::{self, Cell, Listed, OUTSIDE_MAX};
use super::words::{self, ago, count, span};
use crate::domain::run::RunState;
use crate::domain::text::show;
use crate::domain::time::Timestamp;
use crate::engine::runs::RunView;

/// Cells of a bar in the list.
const BAR: u16 = 12;

/// Paints the list.
pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect, state: &State) -> Option<Position> {
    list::paint(canvas, area, state, &state.runs.table)
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

    fn says(&self) -> Cow<'_, str> {
        Cow::Owned(sentence(self))
    }
}

/// How long it still takes, while it goes on.
pub(super) fn left(run: &RunView) -> Option<String> {
    run.eta.map(span)
}

/// What came of it so far, by whom and why.
pub(super) fn sentence(run: &RunView) -> String {
    let (record, counts) = (&run.record, run.record.counts);
    let mut text = format!("{} of {} done", count(counts.done), count(record.total));
    for (number, what) in [(counts.failed, "failed"), (counts.skipped, "skipped")] {
        if number > 0 {
            let _ = write!(text, ", {} {what}", count(number));
        }
    }
    if let Some(rate) = record.rate {
        let _ = write!(text, "; at most {rate} a second");
    }
    if let Some(note) = &record.note {
        let _ = write!(text, "; {}", show(note, OUTSIDE_MAX));
    }
    let _ = write!(text, "; by {}", show(&record.actor, OUTSIDE_MAX));
    if let Some(reason) = &record.reason {
        let _ = write!(text, ": {}", show(reason, OUTSIDE_MAX));
    }
    text
}

/// A state in its word, with its symbol.
pub(super) fn state(run: &RunView) -> Cell<'static> {
    let state = run.record.state;
    let symbol = match state {
        RunState::Running => '●',
        RunState::Done => '✓',
        RunState::Failed => '×',
        RunState::Canary => '!',
        RunState::Paused => '◆',
        RunState::Planned | RunState::Cancelled => '·',
    };
    Cell::new(format!("{symbol} {}", run.phase()), role(state))
}

pub(super) const fn role(state: RunState) -> Role {
    match state {
        RunState::Running | RunState::Done => Role::Good,
        RunState::Failed => Role::Bad,
        RunState::Canary => Role::Critical,
        RunState::Paused => Role::Warning,
        RunState::Planned | RunState::Cancelled => Role::TextMuted,
    }
}

/// How far it is, in eighths of cells: full only when everything has its outcome.
pub(super) fn bar(run: &RunView, cells: u16) -> String {
    let (settled, total) = (run.record.counts.settled(), run.record.total.max(1));
    let eighths = u128::from(settled.min(total)) * u128::from(cells) * 8 / u128::from(total);
    words::bar(eighths, cells)
}
