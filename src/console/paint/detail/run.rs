//! A run: how far it is, what it waits for, and what became of its messages.
//!
//! ```text
//!  ● running  ██████████████████████▌
//!  4,500 of 10,000 done, 3 failed; at most 50 a second; by ana: INC-4711
//!
//!  left            1m50s
//!  worker          daemon-a
//! ```

use std::time::Duration;

use ratatui::layout::Rect;

use super::attempts::listed;
use super::{Fact, facts, next_steps, when};
use crate::console::state::State;
use crate::console::state::detail::{About, Detail, DetailAnswer, DetailTab};
use crate::console::theme::Role;
use crate::console::views::{
    run_bar as bar, run_left as left, run_role as role, run_sentence as sentence, run_state as state,
};
use crate::console::widgets::canvas::{Canvas, behind, below, row};
use crate::console::widgets::words::{NONE, count, date, size, span};
use crate::domain::run::{ItemState, Target};
use crate::engine::runs::{RunDetail, RunView};

const ID: u16 = 14;
const FROM: u16 = 50;
const WHY: u16 = 76;

/// Paints the part in front.
pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect, screen: &State, detail: &Detail, answer: &DetailAnswer) {
    match &answer.about {
        Some(Ok(About::Run(run))) if detail.tab == DetailTab::Items => items(canvas, area, detail, run),
        Some(Ok(About::Run(run))) => {
            let used = progress(canvas, area, &run.run);
            next_steps(canvas, below(area, used + 1), screen);
        }
        Some(Err(problem)) => {
            canvas.wrapped(area, &format!("The run cannot be read: {problem}"), Role::Error);
        }
        Some(Ok(_)) | None => {}
    }
}

/// Answers how many lines it took.
fn progress(canvas: &mut Canvas<'_>, area: Rect, run: &RunView) -> u16 {
    let record = &run.record;
    let word = state(run);
    let taken = canvas.text(row(area, 0), &word.text, word.role);
    let room = behind(row(area, 0), taken + 2);
    canvas.text(room, &bar(run, room.width.min(60)), role(record.state));
    let used = canvas.wrapped(
        Rect {
            height: area.height.saturating_sub(1).min(3),
            ..below(area, 1)
        },
        &sentence(run),
        Role::Title,
    );
    let taken = record
        .started_at
        .map(|from| record.ended_at.unwrap_or(canvas.now).since(from));
    let known = [
        Fact::new("run", record.id.as_str()),
        Fact::new("what", record.command.as_str()),
        Fact::new("left", left(run).unwrap_or_else(|| NONE.to_owned())),
        Fact::new(
            "so far",
            taken.map_or_else(|| "not begun".to_owned(), |taken| speed(run, taken)),
        ),
        Fact::new(
            "stops after",
            match record.canary {
                None => NONE.to_owned(),
                Some(first) if first < record.total => format!("the first {first}, and asks or watches"),
                Some(_) => "nothing, unless something fails: it is watched".to_owned(),
            },
        ),
        Fact::new("planned", format!("{} UTC", date(record.created_at))),
        Fact::new("begun", when(canvas, record.started_at.unwrap_or(record.created_at))),
        Fact::new(
            "worker",
            run.owner.clone().unwrap_or_else(|| "none at present".to_owned()),
        ),
        Fact::new("note", record.note.clone().unwrap_or_else(|| NONE.to_owned())),
    ];
    used + 2 + facts(canvas, below(area, used + 2), &known)
}

/// How long it took so far, and how fast that was.
fn speed(run: &RunView, taken: Duration) -> String {
    let settled = run.record.counts.settled();
    let seconds = taken.as_secs().max(1);
    format!("{}, {} a second", span(taken), count(settled / seconds))
}

fn items(canvas: &mut Canvas<'_>, area: Rect, detail: &Detail, run: &RunDetail) {
    if run.items.is_empty() {
        canvas.wrapped(area, "The run has no items.", Role::Title);
        return;
    }
    let head = row(area, 0);
    canvas.lay_over(head, Role::Column);
    for (x, title) in [
        (2, "Outcome"),
        (ID, "Message"),
        (FROM, "From"),
        (WHY, "Why, or where to"),
    ] {
        canvas.text(behind(head, x), title, Role::Column);
    }
    let listed = listed(area.height.saturating_mul(2).saturating_sub(6), run.items.len());
    let first = detail.selected.saturating_sub(usize::from(listed).saturating_sub(1));
    for (line, (position, item)) in (1..=listed).zip(run.items.iter().enumerate().skip(first)) {
        let place = row(area, line);
        let part = |from: u16, to: u16| Rect {
            width: place.width.saturating_sub(from).min(to - from - 1),
            ..behind(place, from)
        };
        let selected = position == detail.selected;
        canvas.text(place, if selected { "▌" } else { " " }, Role::Mark);
        let (symbol, role) = outcome(item.item.state);
        canvas.text(part(2, ID), &format!("{symbol} {}", item.item.state.as_str()), role);
        canvas.text(part(ID, FROM), &item.item.letter, Role::TextMuted);
        canvas.text(part(FROM, WHY), item.item.source.as_str(), Role::Text);
        let target = item.item.target.as_ref().map(target);
        let why = item.item.reason.clone().or(target).unwrap_or_default();
        canvas.text(behind(place, WHY), &why, Role::Text);
        if selected {
            canvas.lay_over(place, Role::Selection);
        }
    }
    if let Some(item) = run.items.get(detail.selected) {
        let bytes = usize::try_from(item.item.bytes).unwrap_or(usize::MAX);
        let target = item.item.target.as_ref().map_or_else(|| "nowhere".to_owned(), target);
        let why = item
            .item
            .reason
            .as_ref()
            .map(|why| format!("; {why}"))
            .unwrap_or_default();
        let text = format!("{}: {}, to {target}{why}", item.item.letter, size(bytes));
        canvas.wrapped(below(area, listed + 1), &text, Role::Info);
    }
}

fn target(target: &Target) -> String {
    match target {
        Target::Queue(queue) => queue.as_str().to_owned(),
        Target::Exchange { exchange, routing_key } => format!("exchange {exchange}, key {routing_key}"),
    }
}

const fn outcome(state: ItemState) -> (char, Role) {
    match state {
        ItemState::Settled => ('✓', Role::Good),
        ItemState::Failed | ItemState::Returned => ('×', Role::Bad),
        ItemState::Skipped => ('·', Role::Warning),
        ItemState::Planned => ('·', Role::TextMuted),
        ItemState::Journalled | ItemState::Published => ('…', Role::Info),
    }
}
