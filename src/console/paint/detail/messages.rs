//! The first messages of a queue: which they are, and headers and payload of the selected one.
//!
//! ```text
//!       #  Message               Published    Size      Type
//!  ▌    1  01a1f8ed-b733-71c6-…  12m04s ago   812 B     application/json  redelivered
//!
//!  x-redrive-url     https://stock.example/changed
//!  payload           812 B, JSON
//!  {
//!    "order": 18
//! ```

use ratatui::layout::Rect;

use super::super::payload;
use super::attempts::listed;
use super::{Fact, facts};
use crate::console::state::State;
use crate::console::state::action::named;
use crate::console::state::detail::{Detail, DetailAnswer};
use crate::console::theme::Role;
use crate::console::widgets::canvas::{Canvas, behind, below, row};
use crate::console::widgets::words::{NONE, ago, size};
use crate::engine::view::BrowsedMessage;

/// Headers on the screen, at most; the rest are counted.
const HEADERS_MAX: usize = 8;
const MESSAGE: u16 = 7;
/// Where the other columns begin: on a wide screen, and on a narrow one.
const WIDE: [u16; 3] = [46, 60, 71];
const NARROW: [u16; 3] = [30, 42, 52];
const WIDE_FROM: u16 = 100;

const fn columns(area: Rect) -> [u16; 3] {
    if area.width >= WIDE_FROM { WIDE } else { NARROW }
}

/// Paints the list above and the selected message under it.
pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect, state: &State, detail: &Detail, answer: &DetailAnswer) {
    let key = state.input.keymap.label(named::BROWSE).unwrap_or_default();
    let messages = match &answer.messages {
        None => return not_asked(canvas, area, detail, &key),
        Some(Err(problem)) => {
            let used = canvas.wrapped(
                area,
                &format!("The messages cannot be looked at: {problem}"),
                Role::Error,
            );
            canvas.wrapped(below(area, used + 1), &format!("{key} tries again."), Role::TextMuted);
            return;
        }
        Some(Ok(messages)) => messages,
    };
    if messages.is_empty() {
        canvas.wrapped(area, "The queue was empty when it was looked at.", Role::Title);
        return;
    }
    let listed = listed(area.height.saturating_sub(1), messages.len());
    head(canvas, row(area, 0));
    let first = detail.selected.saturating_sub(usize::from(listed).saturating_sub(1));
    for (line, (position, message)) in (1..=listed).zip(messages.iter().enumerate().skip(first)) {
        one(canvas, row(area, line), message, position == detail.selected);
    }
    let note = "They were returned to their place; the broker marks them as redelivered.";
    canvas.text(row(area, listed + 1), note, Role::TextMuted);
    selected(canvas, below(area, listed + 3), state, detail);
}

fn not_asked(canvas: &mut Canvas<'_>, area: Rect, detail: &Detail, key: &str) {
    if detail.asked_at.is_some() {
        canvas.wrapped(area, "Looking at the first messages …", Role::Title);
        return;
    }
    let text = format!("{key} looks at the first messages.");
    let used = canvas.wrapped(area, &text, Role::Title);
    let note = "They are read and returned to their place, which needs the queue for a moment and marks them as redelivered on the broker. Nothing is reordered or lost.";
    canvas.wrapped(below(area, used + 1), note, Role::TextMuted);
}

fn head(canvas: &mut Canvas<'_>, area: Rect) {
    let [when, bytes, kind] = columns(area);
    canvas.lay_over(area, Role::Column);
    for (x, title) in [
        (2, "#"),
        (MESSAGE, "Message"),
        (when, "Published"),
        (bytes, "Size"),
        (kind, "Type"),
    ] {
        canvas.text(behind(area, x), title, Role::Column);
    }
}

fn one(canvas: &mut Canvas<'_>, area: Rect, message: &BrowsedMessage, selected: bool) {
    let [published, bytes, kind] = columns(area);
    let sign = if selected { "▌" } else { " " };
    canvas.text(area, sign, Role::Mark);
    let inner = &message.message;
    let place = |from: u16, to: u16| Rect {
        width: area.width.saturating_sub(from).min(to - from - 1),
        ..behind(area, from)
    };
    canvas.text(place(2, MESSAGE), &message.position.to_string(), Role::Text);
    canvas.text(
        place(MESSAGE, published),
        inner.message_id.as_deref().unwrap_or("without an id"),
        Role::Text,
    );
    let when = inner
        .created_at()
        .map_or_else(|| NONE.to_owned(), |at| ago(canvas.now, at));
    canvas.text(place(published, bytes), &when, Role::Text);
    canvas.text(place(bytes, kind), &size(inner.body.len()), Role::Text);
    let mut what = inner.content_type.clone().unwrap_or_else(|| NONE.to_owned());
    if let Some(why) = &message.foreign {
        what = format!("! not one of ours: {why}");
    } else if message.redelivered {
        what.push_str("  redelivered");
    }
    let role = if message.foreign.is_some() {
        Role::Warning
    } else {
        Role::TextMuted
    };
    canvas.text(behind(area, kind), &what, role);
    if selected {
        canvas.lay_over(area, Role::Selection);
    }
}

fn selected(canvas: &mut Canvas<'_>, area: Rect, state: &State, detail: &Detail) {
    let Some(page) = &detail.reading.page else { return };
    // The payload has at least half of the room.
    let most = HEADERS_MAX.min(usize::from(area.height) / 2);
    let mut line = 0;
    for (name, value) in page.headers.iter().take(most) {
        let place = row(area, line);
        let name_width = place.width.min(30);
        canvas.text(
            Rect {
                width: name_width.saturating_sub(1),
                ..place
            },
            name,
            Role::TextMuted,
        );
        canvas.text(behind(place, name_width), value, Role::Text);
        line += 1;
    }
    if page.headers.len() > most {
        canvas.text(
            row(area, line),
            &format!("… and {} more headers", page.headers.len() - most),
            Role::TextMuted,
        );
        line += 1;
    }
    let known = [Fact::new("payload", payload::described(state, page))];
    facts(canvas, row(area, line), &known);
    payload::paint(canvas, below(area, line + 1), detail, detail.reading.scroll);
}
