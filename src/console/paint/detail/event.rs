//! An event: why it is there and what happens next, its payload, what became of its key before.
//!
//! ```text
//!  × dead after 20 failures: nobody tries it again by itself (R gives it its budget back)
//!  retry: failed_at=2026-11-21T03:12:32Z error=timeout
//!
//!  due              never
//!  pushed           3d02h ago (01:12:09 UTC), 4 pushes were folded into it
//! ```

use ratatui::layout::Rect;

use super::super::payload;
use super::{Fact, begin_of_payload, facts, when};
use crate::console::state::State;
use crate::console::state::detail::{About, Detail, DetailAnswer, DetailTab, EventDetail};
use crate::console::theme::Role;
use crate::console::views::event_state;
use crate::console::widgets::canvas::{Canvas, below, row};
use crate::console::widgets::words::{NONE, count, date, plural, until};
use crate::domain::event::{Event, EventState, Subtype};
use crate::engine::events::HandledEvent;

/// Lines of claims that are shown.
const CLAIMS_MAX: usize = 20;

/// Paints the part in front.
pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect, state: &State, detail: &Detail, answer: &DetailAnswer) {
    match &answer.about {
        Some(Ok(About::Event(found))) if detail.tab == DetailTab::Payload => {
            message(canvas, area, state, &found.event, detail);
        }
        Some(Ok(About::Event(found))) if detail.tab == DetailTab::Handled => {
            history(canvas, area, found, detail.reading.scroll);
        }
        Some(Ok(About::Event(found))) => {
            let event = masked(state, &found.event, detail.revealed.is_some());
            let used = why(canvas, area, &event, detail.reading.scroll);
            begin_of_payload(canvas, below(area, used + 1), state, detail, "payload");
        }
        Some(Err(problem)) => {
            let used = canvas.wrapped(area, &format!("The event cannot be read: {problem}"), Role::Error);
            let hint = "It may have been handled or cancelled since it was listed.";
            canvas.wrapped(below(area, used + 1), hint, Role::TextMuted);
        }
        Some(Ok(_)) | None => {}
    }
}

/// Answers how many lines it took.
fn why(canvas: &mut Canvas<'_>, area: Rect, event: &Event, scroll: usize) -> u16 {
    let (symbol, role) = event_state(event.state);
    let mut used = canvas.wrapped(
        Rect {
            height: area.height.min(2),
            ..area
        },
        &format!("{symbol} {}", sentence(canvas, event)),
        role,
    );
    if let Some(reason) = &event.reason {
        let place = Rect {
            height: area.height.saturating_sub(used).min(3),
            ..below(area, used)
        };
        used += canvas.wrapped(place, reason, Role::Info);
    }
    let known = known(canvas, event);
    let rest = known.get(scroll.min(known.len())..).unwrap_or_default();
    used + 1 + facts(canvas, below(area, used + 1), rest)
}

/// What it does and what happens next.
fn sentence(canvas: &Canvas<'_>, event: &Event) -> String {
    let failures = plural(event.attempts.into(), "failure", "failures");
    match (event.state, &event.lease) {
        (EventState::Dead, _) => {
            format!("dead after {failures}: nothing retries it; R gives it all of its attempts back")
        }
        (EventState::Held, _) => "held: it waits for a person; R makes it due".to_owned(),
        (EventState::Leased, Some(lease)) if lease.is_cancelled() => {
            "cancelled: it is gone when its handler has ended".to_owned()
        }
        (EventState::Leased, Some(lease)) => {
            let by = match &lease.claim {
                Some(claim) => format!("claim {claim}"),
                None => "a handler".to_owned(),
            };
            format!("{by} has it; its lease ends {}", until(canvas.now, lease.until))
        }
        (EventState::Leased, None) => "being handled".to_owned(),
        (EventState::Ready, _) if event.nbf <= canvas.now => "due: it waits for a handler or a claim".to_owned(),
        (EventState::Ready, _) => format!("waits for its time: due {}", until(canvas.now, event.nbf)),
    }
}

fn known(canvas: &Canvas<'_>, event: &Event) -> Vec<Fact> {
    let at = |at: Option<_>| at.map_or_else(|| NONE.to_owned(), |at| when(canvas, at));
    let due = match event.state {
        EventState::Ready | EventState::Leased => format!("{} ({} UTC)", until(canvas.now, event.nbf), date(event.nbf)),
        EventState::Dead | EventState::Held => "never, without a person".to_owned(),
    };
    let kind = match event.subtype {
        Subtype::Immediate => "due as soon as it is there",
        Subtype::Delayed => "dated by its pusher",
    };
    let merged = match event.merged {
        0 => String::new(),
        merged => format!(", {} folded into it", plural(merged, "earlier push", "earlier pushes")),
    };
    let mut facts = vec![
        Fact::new("type", format!("{} ({kind})", event.event_type.as_str())),
        Fact::new("reference", event.reference.as_str()),
        Fact::new("due", due),
        Fact::new("pushed", format!("{}{merged}", when(canvas, event.created_at))),
        Fact::new("waits since", when(canvas, event.first_at)),
        Fact::new("failures", count(event.attempts.into())),
        Fact::new("failed first", at(event.first_failed_at)),
        Fact::new("failed last", at(event.last_failed_at)),
        Fact::new("event", format!("{}, revision {}", event.id, event.revision)),
    ];
    if let Some(ends) = event.expires_at {
        facts.push(Fact::new("dropped", until(canvas.now, ends)).with(Role::Warning));
    }
    if let Some(origin) = &event.origin {
        let text = format!("{}: it was claimed too often there", origin.as_str());
        facts.push(Fact::new("moved from", text).with(Role::Warning));
    }
    if event.claim_count > 0 {
        facts.push(Fact::new("claims", count(event.claim_count.into())));
    }
    let claims = event
        .claim_history
        .as_deref()
        .unwrap_or_default()
        .lines()
        .take(CLAIMS_MAX);
    facts.extend(claims.map(|line| Fact::new("claim", line)));
    if let Some(properties) = &event.properties {
        facts.push(Fact::new("came as", properties.clone()));
    }
    facts
}

/// What came with it may hold what its payload holds.
fn masked(state: &State, event: &Event, revealed: bool) -> Event {
    let text = |text: &Option<String>| {
        let text = text.as_deref()?;
        Some(if revealed {
            text.to_owned()
        } else {
            state.session.mask.text(text).value.into_owned()
        })
    };
    Event {
        reason: text(&event.reason),
        properties: text(&event.properties),
        // It has a part of its own.
        payload: None,
        ..event.clone()
    }
}

fn message(canvas: &mut Canvas<'_>, area: Rect, state: &State, event: &Event, detail: &Detail) {
    let Some(page) = &detail.reading.page else { return };
    let title = match event.payload {
        None => "payload: none was pushed".to_owned(),
        Some(_) => format!("payload: {}", payload::described(state, page)),
    };
    canvas.text(row(area, 0), &title, Role::Title);
    payload::paint(canvas, below(area, 1), detail, detail.reading.scroll);
}

/// Others of its key, then those that were handled.
fn history(canvas: &mut Canvas<'_>, area: Rect, found: &EventDetail, scroll: usize) {
    let mut lines: Vec<Fact> = Vec::new();
    for other in &found.others {
        let text = format!(
            "event {}, {}: {}",
            other.id,
            other.shown_type(),
            sentence(canvas, other)
        );
        lines.push(Fact::new("of its key", text).with(event_state(other.state).1));
    }
    lines.extend(found.handled.iter().map(|one| handled(canvas, one)));
    if lines.is_empty() {
        let text = "Nothing else is known of its key: it has no other event, and what was handled is remembered only where the type says so (_history_ttl).";
        canvas.wrapped(area, text, Role::TextMuted);
        return;
    }
    let rest = lines.get(scroll.min(lines.len())..).unwrap_or_default();
    facts(canvas, area, rest);
}

/// An event that was handled.
pub(super) fn handled(canvas: &Canvas<'_>, one: &HandledEvent) -> Fact {
    let failures = match one.attempts {
        0 => String::new(),
        attempts => format!(" after {}", plural(attempts.into(), "failure", "failures")),
    };
    let reason = one
        .reason
        .as_deref()
        .map_or_else(String::new, |reason| format!(" · {reason}"));
    let text = format!(
        "✓ {}{failures} {}{reason}",
        one.reference.as_str(),
        when(canvas, one.handled_at)
    );
    Fact::new("handled", text)
}
