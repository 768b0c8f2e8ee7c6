//! What brings messages into a queue, and where those go that die in it.
//!
//! ```text
//!   comes by: events (key "order.#")
//!   ▼
//!  orders                         1,200 ready, 3 in flight, nobody consumes it
//!   ▼ dead letters: dlx (key "dead") to orders.dead
//!  orders.dead                    340 ready, 0 in flight, nobody consumes it
//!     dead letters: nowhere: what dies in it is gone
//! ```

use ratatui::layout::Rect;

use crate::console::state::detail::{Detail, DetailAnswer};
use crate::console::theme::Role;
use crate::console::widgets::canvas::{Canvas, behind, cells, row};
use crate::domain::text::width;
use crate::engine::dead::QueueStep;

/// Share of the width that names have, at most.
const NAME_SHARE: u16 = 2;

/// A line: how far it is indented, its text, and what stands behind the names.
struct Line {
    indent: u16,
    text: String,
    role: Role,
    behind: Option<String>,
}

impl Line {
    const fn new(indent: u16, text: String, role: Role) -> Self {
        Self {
            indent,
            text,
            role,
            behind: None,
        }
    }
}

pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect, detail: &Detail, answer: &DetailAnswer) {
    let steps = match &answer.map {
        None => {
            canvas.text(area, "Asking the broker for its bindings …", Role::TextMuted);
            return;
        }
        Some(Err(problem)) => {
            canvas.wrapped(area, &format!("The way cannot be read: {problem}"), Role::Error);
            return;
        }
        Some(Ok(steps)) => steps,
    };
    let longest = steps.iter().map(|step| cells(width(&step.name))).max().unwrap_or(0);
    let names = (longest + 2).min(area.width / NAME_SHARE);
    let lines = lines(steps);
    let first = detail.reading.scroll.min(lines.len().saturating_sub(1));
    for (at, line) in (0..area.height).zip(lines.iter().skip(first)) {
        let room = behind(row(area, at), line.indent);
        let Some(text) = &line.behind else {
            canvas.text(room, &line.text, line.role);
            continue;
        };
        let name = Rect {
            width: room.width.min(names.saturating_sub(1)),
            ..room
        };
        canvas.text(name, &line.text, line.role);
        canvas.text(behind(room, names), text, Role::Text);
    }
}

fn lines(steps: &[QueueStep]) -> Vec<Line> {
    let mut lines = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        if at == 0 {
            lines.push(Line::new(1, format!("comes by: {}", step.comes_by()), Role::TextMuted));
            lines.push(Line::new(1, "▼".to_owned(), Role::TextMuted));
        } else {
            // What else brings messages, beside dead letters.
            let also = Line::new(3, format!("also comes by: {}", step.comes_by()), Role::TextMuted);
            lines.extend((!step.bindings.is_empty()).then_some(also));
        }
        let name = if at == 0 { Role::Title } else { Role::Text };
        lines.push(Line {
            behind: Some(step.holds()),
            ..Line::new(0, step.name.clone(), if step.loses() { Role::Warning } else { name })
        });
        if !step.is_there {
            continue;
        }
        let leads_on = step.dies_to.as_ref().is_some_and(|dies_to| !dies_to.queues.is_empty());
        let arrow = if leads_on { "▼" } else { " " };
        let role = if step.loses() { Role::Warning } else { Role::TextMuted };
        lines.push(Line::new(
            1,
            format!("{arrow} dead letters: {}", step.dead_letters()),
            role,
        ));
    }
    lines
}
