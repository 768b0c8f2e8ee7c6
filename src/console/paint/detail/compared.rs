//! Dead letters side by side: the places where they differ, with what they have there, and those where they do not.
//!
//! ```text
//!  The first 50 of the group: 4 places are different, 9 are the same
//!
//!  Place                 Values
//!  body /customer        50 different: "cus_17", "cus_18", "cus_19", …
//!  body /currency        "XXX" in 40, "EUR" in 10
//! ```

use ratatui::layout::Rect;

use crate::console::state::detail::{Detail, DetailAnswer, DetailTab};
use crate::console::theme::Role;
use crate::console::widgets::canvas::{Canvas, behind, below, cells, row};
use crate::console::widgets::words::{NONE, count};
use crate::domain::text::width;
use crate::engine::dead::{Compared, Shared};

/// Letters that have a column each.
const BESIDE: usize = 2;
/// Share of the width that places have, at most.
const PLACE_SHARE: u16 = 3;
/// Columns of a place, at least.
const PLACE_MIN: u16 = 16;
/// Values of a place that are told.
const VALUES_SHOWN: usize = 6;

pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect, detail: &Detail, answer: &DetailAnswer) {
    if let Some(Err(problem)) = &answer.about {
        let used = canvas.wrapped(
            area,
            &format!("The dead letters cannot be compared: {problem}"),
            Role::Error,
        );
        let hint = "One may have been redriven, discarded or dropped since it was listed.";
        canvas.wrapped(below(area, used + 1), hint, Role::TextMuted);
        return;
    }
    let Some(found) = detail.compared() else { return };
    let mut used = canvas.wrapped(area, &found.told(), Role::Title);
    if let Some(problem) = found.problems.first() {
        let text = format!("! {} could not be read: {}", problem.source.name(), problem.reason);
        used += canvas.wrapped(below(area, used), &text, Role::Warning);
    }
    let list = below(area, used + 1);
    let places: Vec<&Compared> = detail.compared_places().skip(detail.reading.scroll).collect();
    if places.is_empty() {
        let text = if detail.tab == DetailTab::Different {
            "They are the same everywhere."
        } else {
            "No place is the same in all."
        };
        canvas.text(list, text, Role::TextMuted);
        return;
    }
    let longest = detail.compared_places().map(|place| cells(width(&place.place))).max();
    let most = (list.width / PLACE_SHARE).max(PLACE_MIN);
    let first = longest.unwrap_or(PLACE_MIN).clamp(PLACE_MIN, most) + 2;
    let is_beside = found.letters.len() == BESIDE && detail.tab == DetailTab::Different;
    let room = behind(list, first);
    let second = is_beside.then_some(room.width / 2);
    canvas.text(cut(row(list, 0), first), "Place", Role::TextMuted);
    match second {
        Some(half) => {
            let [one, other] = halves(row(room, 0), half);
            let id = |at: usize| found.letters.get(at).map_or(NONE, |id| id.as_str());
            canvas.text(one, id(0), Role::TextMuted);
            canvas.text(other, id(1), Role::TextMuted);
        }
        None => {
            canvas.text(row(room, 0), "Values", Role::TextMuted);
        }
    }
    for (line, place) in (1..list.height).zip(places) {
        canvas.text(cut(row(list, line), first), &place.place, Role::TextMuted);
        let line = row(room, line);
        match second {
            Some(half) => {
                let [one, other] = halves(line, half);
                value(canvas, one, place.values.first());
                value(canvas, other, place.values.get(1));
            }
            None => {
                canvas.text(line, &values(place), Role::Text);
            }
        }
    }
}

fn cut(area: Rect, width: u16) -> Rect {
    Rect {
        width: area.width.min(width.saturating_sub(1)),
        ..area
    }
}

fn halves(area: Rect, half: u16) -> [Rect; 2] {
    [cut(area, half), behind(area, half)]
}

fn value(canvas: &mut Canvas<'_>, area: Rect, shared: Option<&Shared>) {
    let value = shared.and_then(|shared| shared.value.as_deref());
    let role = if value.is_some() { Role::Text } else { Role::TextMuted };
    canvas.text(area, value.unwrap_or(NONE), role);
}

/// The values of a place with how many letters have each, the most frequent first.
fn values(place: &Compared) -> String {
    let shown = |shared: &Shared| shared.value.clone().unwrap_or_else(|| "nothing".to_owned());
    let told = place.values.iter().take(VALUES_SHOWN);
    match place.different {
        None => format!("{} (hidden)", told.map(shown).collect::<String>()),
        Some(1) => told.map(shown).collect(),
        Some(different) => {
            let mut values: Vec<String> = told
                .map(|shared| match shared.messages {
                    1 => shown(shared),
                    messages => format!("{} in {}", shown(shared), count(messages)),
                })
                .collect();
            if different > values.len() as u64 {
                values.push("…".to_owned());
            }
            format!("{} different: {}", count(different), values.join(", "))
        }
    }
}
