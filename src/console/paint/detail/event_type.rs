//! An event type: what its metadata decides, who gets its events, what was handled.
//!
//! ```text
//!  _cutoff                  5
//!  _history_ttl             86400
//!  retry policy             14 attempts in 2m40s, then park (P writes it)
//! ```

use ratatui::layout::Rect;

use super::event::handled;
use super::{Fact, facts};
use crate::console::state::detail::{About, Detail, DetailAnswer, DetailTab, TypeDetail};
use crate::console::theme::Role;
use crate::console::widgets::canvas::{Canvas, behind, below, row};
use crate::console::widgets::schedule;
use crate::console::widgets::words::{NONE, ago, date, url};
use crate::domain::policy::PolicySource;
use crate::engine::events::Subscription;

/// Cells for the names of keys.
const KEY: u16 = 34;

/// Paints the part in front.
pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect, detail: &Detail, answer: &DetailAnswer) {
    match &answer.about {
        Some(Ok(About::EventType(found))) if detail.tab == DetailTab::Subscriptions => {
            subscriptions(canvas, area, detail, found);
        }
        Some(Ok(About::EventType(found))) if detail.tab == DetailTab::Handled => {
            history(canvas, area, detail, found);
        }
        Some(Ok(About::EventType(found))) => metadata(canvas, area, detail, found),
        Some(Err(problem)) => {
            canvas.wrapped(area, &format!("The type cannot be read: {problem}"), Role::Error);
        }
        Some(Ok(_)) | None => {}
    }
}

fn metadata(canvas: &mut Canvas<'_>, area: Rect, detail: &Detail, found: &TypeDetail) {
    let record = &found.record;
    let mut lines: Vec<(String, String, Role)> = entries(&record.document)
        .into_iter()
        .map(|(key, value)| (key, value.to_string(), Role::Text))
        .collect();
    if lines.is_empty() {
        let text = "nothing is written: what is configured holds (E writes it)".to_owned();
        lines.push(("metadata".to_owned(), text, Role::TextMuted));
    }
    let source = match found.policy.source {
        PolicySource::Default => {
            let whose = found.policy.whose();
            format!("{whose}, P writes one of its own")
        }
        PolicySource::Queue | PolicySource::Subscription => "its own, P writes it".to_owned(),
    };
    let policy = format!("{source}: {}", schedule::sentence(&found.policy.effective));
    lines.push(("retry policy of its notifications".to_owned(), policy, Role::Text));
    let written = |at| format!("{} ({} UTC)", ago(canvas.now, at), date(at));
    lines.push(("first seen".to_owned(), written(record.created_at), Role::TextMuted));
    lines.push((
        "metadata written".to_owned(),
        written(record.updated_at),
        Role::TextMuted,
    ));
    let mut line = 0;
    for (key, value, role) in lines.iter().skip(detail.reading.scroll) {
        let place = row(area, line);
        let key_place = Rect {
            width: place.width.min(KEY - 1),
            ..place
        };
        canvas.text(key_place, key, Role::TextMuted);
        let room = Rect {
            height: area.height.saturating_sub(line).min(3),
            ..behind(place, KEY)
        };
        line += canvas.wrapped(room, value, *role).max(1);
    }
}

fn entries(document: &str) -> Vec<(String, serde_json::Value)> {
    match serde_json::from_str(document) {
        Ok(serde_json::Value::Object(entries)) => entries.into_iter().collect(),
        Ok(_) | Err(_) => Vec::new(),
    }
}

fn subscriptions(canvas: &mut Canvas<'_>, area: Rect, detail: &Detail, found: &TypeDetail) {
    if found.subscriptions.is_empty() {
        let text = "Nobody gets the events of this type pushed (N subscribes a URL).";
        canvas.wrapped(area, text, Role::TextMuted);
        return;
    }
    let shown = usize::from(area.height / 2).max(1);
    let first = (detail.selected + 1).saturating_sub(shown);
    for (at, one) in (0..).zip(found.subscriptions.iter().skip(first).take(shown)) {
        let place = below(area, at * 2);
        let selected = first + usize::from(at) == detail.selected;
        subscription(canvas, place, one, selected);
    }
}

fn subscription(canvas: &mut Canvas<'_>, area: Rect, one: &Subscription, selected: bool) {
    let line = row(area, 0);
    if selected {
        canvas.text(line, "▌", Role::Mark);
    }
    let since = format!("since {}", ago(canvas.now, one.created_at));
    canvas.right(line, &since, Role::TextMuted);
    let room = Rect {
        width: line.width.saturating_sub(26),
        ..behind(line, 2)
    };
    canvas.text(room, &url(&one.url), Role::Text);
    canvas.text(behind(row(area, 1), 4), &options(one), Role::TextMuted);
    if selected {
        canvas.lay_over(line, Role::Selection);
    }
}

/// Options in one line, as the engine shows them.
fn options(one: &Subscription) -> String {
    let text = |(key, value): (String, serde_json::Value)| match (key.as_str(), value) {
        ("headers", serde_json::Value::Object(headers)) => {
            let header = |(name, value): (String, serde_json::Value)| {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                format!("{name}: {value}")
            };
            headers.into_iter().map(header).collect::<Vec<_>>().join(", ")
        }
        (_, value) => format!("{key} {value}"),
    };
    let texts: Vec<String> = entries(&one.options).into_iter().map(text).collect();
    if texts.is_empty() {
        NONE.to_owned()
    } else {
        texts.join(" · ")
    }
}

fn history(canvas: &mut Canvas<'_>, area: Rect, detail: &Detail, found: &TypeDetail) {
    if found.handled.is_empty() {
        let text = "Nothing is remembered of what was handled: _history_ttl in the metadata turns that on (E).";
        canvas.wrapped(area, text, Role::TextMuted);
        return;
    }
    let lines: Vec<Fact> = found.handled.iter().map(|one| handled(canvas, one)).collect();
    let rest = lines.get(detail.selected.min(lines.len())..).unwrap_or_default();
    facts(canvas, area, rest);
}
