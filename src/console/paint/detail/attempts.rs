//! The last attempts: on a line of time, in a list with the newest first, and what the selected one got back.
//!
//! ```text
//!  2 attempts in 42 s: ▼ 2 failed
//!  ▼                          ▼
//!  42 s ago     21 s ago    now
//!
//!      No.  When       Took    Result        Status  Message
//!  ▌    5   12 s ago   31 ms   ▼ failed         503  01a1f8ed-b733-…
//!
//!  Attempt 5 at 03:12:32 UTC: failed, status 503, counts against the schedule
//!  error     -
//!  {"error":"maintenance"}
//! ```

use ratatui::layout::Rect;

use super::super::payload;
use super::{Fact, attempt_line, facts};
use crate::console::state::State;
use crate::console::state::detail::{Detail, DetailAnswer};
use crate::console::theme::Role;
use crate::console::views::status_role;
use crate::console::widgets::canvas::{Canvas, behind, below, row};
use crate::console::widgets::words::{ago, clock, outcome, size};
use crate::engine::view::AttemptView;

/// Where columns begin, behind the sign of the selection.
const WHEN: u16 = 7;
const TOOK: u16 = 20;
const RESULT: u16 = 31;
const STATUS: u16 = 46;
const MESSAGE: u16 = 54;

/// Paints the list above and the selected attempt under it.
pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect, state: &State, detail: &Detail, answer: &DetailAnswer) {
    let attempts = match &answer.attempts {
        Ok(attempts) => attempts,
        Err(problem) => {
            canvas.wrapped(area, &format!("The attempts cannot be read: {problem}"), Role::Error);
            return;
        }
    };
    if attempts.is_empty() {
        canvas.wrapped(area, "No attempts recorded.", Role::Title);
        return;
    }
    let mut area = area;
    if attempt_line::fits(area.height, attempts.len()) {
        attempt_line::paint(canvas, area, attempts);
        area = below(area, attempt_line::LINES);
    }
    let listed = listed(area.height, attempts.len());
    head(canvas, row(area, 0));
    let first = detail.selected.saturating_sub(usize::from(listed).saturating_sub(1));
    for (line, (position, attempt)) in (1..=listed).zip(attempts.iter().enumerate().skip(first)) {
        one(canvas, row(area, line), attempt, position == detail.selected);
    }
    if let Some(attempt) = attempts.get(detail.selected) {
        selected(canvas, below(area, listed + 2), attempt, state, detail);
    }
}

/// Half of the room, or what there is.
pub(super) fn listed(height: u16, entries: usize) -> u16 {
    let half = (height / 2).saturating_sub(1).max(1);
    u16::try_from(entries).unwrap_or(u16::MAX).min(half)
}

fn head(canvas: &mut Canvas<'_>, area: Rect) {
    canvas.lay_over(area, Role::Column);
    for (x, title) in [
        (2, "No."),
        (WHEN, "When"),
        (TOOK, "Took"),
        (RESULT, "Result"),
        (STATUS, "Status"),
        (MESSAGE, "Message"),
    ] {
        canvas.text(behind(area, x), title, Role::Column);
    }
}

fn one(canvas: &mut Canvas<'_>, area: Rect, attempt: &AttemptView, selected: bool) {
    let (symbol, role) = outcome(attempt.class);
    let sign = if selected { "▌" } else { " " };
    canvas.text(area, sign, Role::Mark);
    let place = |from: u16, to: u16| Rect {
        width: area.width.saturating_sub(from).min(to - from - 1),
        ..behind(area, from)
    };
    canvas.text(place(2, WHEN), &attempt.number.to_string(), Role::Text);
    canvas.text(place(WHEN, TOOK), &ago(canvas.now, attempt.started_at), Role::Text);
    canvas.text(place(TOOK, RESULT), &took(attempt.duration_ms), Role::Text);
    canvas.text(
        place(RESULT, STATUS),
        &format!("{symbol} {}", attempt.class.as_str()),
        role,
    );
    let status = attempt
        .status
        .map_or_else(|| "-".to_owned(), |status| status.to_string());
    canvas.text(place(STATUS, MESSAGE), &status, status_role(attempt.status));
    canvas.text(behind(area, MESSAGE), attempt.message_id.as_str(), Role::TextMuted);
    if selected {
        canvas.lay_over(area, Role::Selection);
    }
}

fn took(millis: u64) -> String {
    match millis {
        0..=9_999 => format!("{millis} ms"),
        _ => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
    }
}

fn selected(canvas: &mut Canvas<'_>, area: Rect, attempt: &AttemptView, state: &State, detail: &Detail) {
    let (_, role) = outcome(attempt.class);
    let counted = if attempt.counted {
        "counts against the schedule"
    } else {
        "does not count"
    };
    let title = format!(
        "Attempt {} at {} UTC: {}, {counted}",
        attempt.number,
        clock(attempt.started_at),
        attempt.class.as_str()
    );
    canvas.text(row(area, 0), &title, role);
    let known = [
        Fact::new("error", error(attempt, state, detail)),
        Fact::new("queue", attempt.queue.as_str()),
        Fact::new("sent to", attempt.url.redacted()),
    ];
    let used = 1 + facts(canvas, below(area, 1), &known);
    let masked = detail.reading.page.as_ref().map(|page| payload::masked(state, page));
    let said = match &attempt.response {
        None => "no answer's body was kept".to_owned(),
        Some(body) => format!(
            "answer's body, the first {}{}",
            size(body.len()),
            masked.unwrap_or_default()
        ),
    };
    canvas.text(row(area, used), &said, Role::TextMuted);
    payload::paint(canvas, below(area, used + 1), detail, detail.reading.scroll);
}

fn error(attempt: &AttemptView, state: &State, detail: &Detail) -> String {
    match &attempt.error {
        None => "none".to_owned(),
        Some(error) if detail.revealed.is_some() => error.clone(),
        Some(error) => state.session.mask.text(error).value.into_owned(),
    }
}
