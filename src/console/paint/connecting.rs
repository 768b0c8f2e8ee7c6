//! Before store and broker are open.
//!
//! ```text
//!  Connecting to rabbitmq mq1/redrive and postgres db1/redrive
//!
//!  try 3, since 12 s; next try in 4 s
//!  the last one failed: connection refused (mq1:5672)
//!
//!  `redrive doctor` checks each part and says how to fix it.
//! ```

use ratatui::layout::Rect;

use crate::console::state::{Link, State, link};
use crate::console::theme::Role;
use crate::console::widgets::canvas::{Canvas, below, row};
use crate::console::widgets::words::{span, until};

/// What is tried, why the last try failed, and when the next one is.
pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect, state: &State) {
    let Link::Connecting {
        since,
        problem,
        attempt,
        next_at,
    } = &state.data.link
    else {
        return;
    };
    let area = Rect {
        x: area.x + 2,
        width: area.width.saturating_sub(4),
        ..below(area, 1)
    };
    let what = format!("Connecting to {}", state.session.place.parts().join(" and "));
    let used = canvas.wrapped(area, &what, Role::Title);
    let area = below(area, used + 1);
    let since = span(state.now.since(*since));
    let tries = match problem {
        None => format!("try {attempt}, since {since}"),
        Some(_) if *next_at <= state.now => format!("try {attempt} is under way, since {since}"),
        Some(_) => format!("try {attempt} {}, since {since}", until(state.now, *next_at)),
    };
    canvas.text(row(area, 0), &tries, Role::Text);
    let Some(problem) = problem else { return };
    let area = below(area, 2);
    canvas.text(row(area, 0), "The last try failed:", Role::TextMuted);
    let used = canvas.wrapped(below(area, 1), problem, Role::Error);
    canvas.wrapped(
        below(area, used + 2),
        &format!(
            "`{} doctor` checks each part and says how to fix it.",
            link::program(state)
        ),
        Role::TextMuted,
    );
}
