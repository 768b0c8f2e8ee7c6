//! A dead letter: why it is dead and where it would go, and its payload with every header.
//!
//! ```text
//!  × refused: status 422
//!  redriven, it goes back to redrive.order-21.0c…
//!
//!  died             2026-11-21 03:12:32 UTC (12 s ago), the first time 2d04h ago
//!  deaths           1  2026-11-21 03:12:32  orders  rejected  3×  exchange shop, key orders
//! ```

use ratatui::layout::Rect;

use super::super::payload;
use super::{Fact, begin_of_payload, facts, next_steps, when};
use crate::console::state::State;
use crate::console::state::action::named;
use crate::console::state::detail::{About, Detail, DetailAnswer, DetailTab};
use crate::console::state::payload::{Reading, Which, of_letter};
use crate::console::theme::Role;
use crate::console::widgets::canvas::{Canvas, behind, below, row};
use crate::console::widgets::words::{NONE, count, date, until};
use crate::domain::dead_letter;
use crate::domain::death::Death;
use crate::domain::text::show_bytes;
use crate::domain::url::redact_query;
use crate::engine::dead::DeadDetail;

/// From this height on a line says what can be done.
const ROOMY: u16 = 18;
/// Columns of the answer that is kept with it.
const RESPONSE_MAX: usize = 800;

/// Paints the part in front.
pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect, state: &State, detail: &Detail, answer: &DetailAnswer) {
    match &answer.about {
        Some(Ok(About::Letter(letter))) if detail.tab == DetailTab::Payload => {
            message(canvas, area, state, letter, detail);
        }
        Some(Ok(About::Letter(letter))) => why(canvas, area, state, letter, detail),
        Some(Err(problem)) => {
            let used = canvas.wrapped(area, &format!("The dead letter cannot be read: {problem}"), Role::Error);
            let hint = "It may have been redriven, discarded or dropped since it was listed.";
            canvas.wrapped(below(area, used + 1), hint, Role::TextMuted);
        }
        Some(Ok(_)) | None => {}
    }
}

fn why(canvas: &mut Canvas<'_>, area: Rect, state: &State, found: &DeadDetail, detail: &Detail) {
    let letter = &found.letter;
    let title = format!("× {}: {}", letter.reason, letter.what);
    canvas.text(row(area, 0), &title, Role::Bad);
    let (text, role) = match &found.target {
        Ok(target) => (format!("redriven, it goes back to {target}"), Role::Title),
        Err(why) => (
            format!("! it cannot be redriven to where it came from: {why}"),
            Role::Warning,
        ),
    };
    let place = Rect {
        height: area.height.saturating_sub(1).min(2),
        ..below(area, 1)
    };
    let used = 1 + canvas.wrapped(place, &text, role);
    let known = known(canvas, state, found, (&detail.reading, detail.reveals_letter()));
    let rest = known.get(detail.reading.scroll.min(known.len())..).unwrap_or_default();
    let mut room = below(area, used + 1);
    if area.height >= ROOMY {
        let steps = next_steps(canvas, room, state);
        room = below(room, steps + u16::from(steps > 0));
    }
    let taken = facts(canvas, room, rest);
    let (which, _) = of_letter(found, &detail.reading);
    begin_of_payload(canvas, below(room, taken + 1), state, detail, which.title());
}

fn known(canvas: &Canvas<'_>, state: &State, detail: &DeadDetail, (reading, revealed): (&Reading, bool)) -> Vec<Fact> {
    let letter = &detail.letter;
    let error = letter.error.as_deref().map(|error| {
        if revealed {
            error.into()
        } else {
            state.session.mask.text(error).value
        }
    });
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| NONE.to_owned());
    let at = |at: Option<_>| at.map_or_else(|| NONE.to_owned(), |at| when(canvas, at));
    let mut facts = vec![
        Fact::new("died last", at(letter.last_failed_at)),
        Fact::new("failed first", at(letter.first_failed_at)),
        Fact::new(
            "tried",
            letter
                .attempts
                .map_or_else(|| NONE.to_owned(), |tried| format!("{}×", count(tried))),
        ),
        Fact::new("last error", error.unwrap_or(NONE.into())),
        Fact::new(
            "endpoint",
            letter.url.as_deref().map_or_else(|| NONE.to_owned(), redact_query),
        ),
        Fact::new("origin", text(&letter.origin)),
        Fact::new("execution", text(&letter.execution)),
        Fact::new("message", text(&letter.message_id)),
        Fact::new("dead letter", letter.id.as_str()),
        Fact::new(
            "is in",
            format!("{}, place {}", letter.queue.as_str(), count(letter.position)),
        ),
    ];
    if let Some(edited) = &detail.edited {
        let key = state.input.keymap.label(named::PAYLOAD_FORM).unwrap_or_default();
        let (which, _) = of_letter(detail, reading);
        let other = match which {
            Which::Original => "what is sent instead",
            Which::Only | Which::SentInstead => "the original",
        };
        let text = format!("by {} {}: {key} shows {other}", edited.actor, when(canvas, edited.at));
        facts.push(Fact::new("! edited", text).with(Role::Warning));
    }
    if letter.redriven > 0 {
        let text = format!(
            "{}× and died again: left out of a redrive of everything",
            letter.redriven
        );
        facts.push(Fact::new("! redriven", text).with(Role::Critical));
    }
    if let Some(drops) = letter.expires_at {
        facts.push(Fact::new("dropped", until(canvas.now, drops)).with(Role::Warning));
    }
    if let Some(policy) = dead_letter::policy(&detail.message) {
        facts.push(Fact::new("policy", policy));
    }
    if let Some(response) = dead_letter::response(&detail.message) {
        let masked = state.session.mask.body(response).value;
        let shown = if revealed { response } else { &masked };
        facts.push(Fact::new("last answer", show_bytes(shown, RESPONSE_MAX)));
    }
    let deaths = detail.history.deaths.iter().map(|one| Fact::new("death", death(one)));
    facts.extend(deaths);
    facts
}

fn death(death: &Death) -> String {
    let or = |text: &Option<String>| text.clone().unwrap_or_else(|| NONE.to_owned());
    let exchange = match death.exchange.as_deref() {
        None => String::new(),
        Some("") => ", by the default exchange".to_owned(),
        Some(name) => format!(", by exchange {name}"),
    };
    let keys = death.routing_keys.join(" ");
    let keys = if keys.is_empty() { keys } else { format!(", key {keys}") };
    let times = death.count.map_or_else(String::new, |times| format!(" {times}×"));
    let at = death.at.map_or_else(String::new, |at| format!("{} ", date(at)));
    format!(
        "{at}{}{times} in {}{exchange}{keys}",
        or(&death.reason),
        or(&death.queue)
    )
}

/// Headers and payload are one text that scrolls.
fn message(canvas: &mut Canvas<'_>, area: Rect, state: &State, letter: &DeadDetail, detail: &Detail) {
    let Some(page) = &detail.reading.page else { return };
    let mut line = 0;
    for (name, value) in page.headers.iter().skip(detail.reading.scroll) {
        if line >= area.height {
            return;
        }
        let place = row(area, line);
        let name_width = area.width.min(30);
        let name_place = Rect {
            width: name_width.saturating_sub(1),
            ..place
        };
        canvas.text(name_place, name, Role::TextMuted);
        canvas.text(behind(place, name_width), value, Role::Text);
        line += 1;
    }
    let (which, message) = of_letter(letter, &detail.reading);
    let content_type = message.content_type.as_deref().unwrap_or("no content type");
    let title = format!(
        "{}: {}",
        which.title(),
        payload::described(state, page).replacen(", ", &format!(", {content_type}, "), 1)
    );
    canvas.text(row(area, line), &title, Role::Title);
    let first = detail.reading.scroll.saturating_sub(page.headers.len());
    payload::paint(canvas, below(area, line + 1), detail, first);
}
