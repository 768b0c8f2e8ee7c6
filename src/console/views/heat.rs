//! The map of the attempts that the list has: endpoints, time and outcome, and under it how long they took.
//!
//! ```text
//!  a cell is 5 s · h: a cell of 30 s · ▼ most failed  ! some failed  ░▒▓ delivered
//!  stock.example/changed            ▼▼▼ !░░▒▓                 12 of 40 failed
//!  shop.example/hook                ░░▒▒░░░▒▓▓▒▒░             none of 210 failed
//!                                   5 min ago            now
//!  took 8 ms ▁▂▅█▃▁ 2.1 s · half within 31 ms, 95 % within 84 ms, 99 % within 1.2 s
//! ```

use std::time::Duration;

use ratatui::layout::Rect;

use super::moving::millis;
use crate::console::state::State;
use crate::console::state::heat::{Heat, HeatRow, Spot, Zoom};
use crate::console::theme::Role;
use crate::console::widgets::bars;
use crate::console::widgets::canvas::{Canvas, behind, below, row};
use crate::console::widgets::words::{self, count, span};
use crate::domain::series::BUCKETS;

/// Cells for what an endpoint amounts to.
const SUM: u16 = 26;
/// Cells of an endpoint's name, at least and at most.
const NAME: (u16, u16) = (20, 48);
/// Lines that are not endpoints: what it is, the axis, and how long they took.
const OTHERS: u16 = 4;

/// Paints the map of what the filter shows.
pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect, state: &State, zoom: Zoom) {
    let name = (area.width / 3).clamp(NAME.0, NAME.1);
    let map = area.width.saturating_sub(name + SUM + 3);
    let attempts = state.lists.tail.fed.table.shown_rows().map(|row| &**row);
    let heat = Heat::of(attempts, canvas.now, zoom.step(), usize::from(map));
    legend(canvas, row(area, 0), state, zoom);
    if heat.rows.is_empty() {
        let text = "No attempt ended in this time; h: longer cells, then the list.";
        canvas.wrapped(behind(below(area, 2), 1), text, Role::TextMuted);
        return;
    }
    let room = usize::from(area.height.saturating_sub(OTHERS));
    let mut rest = below(area, 1);
    for one in heat.rows.iter().take(room) {
        endpoint(canvas, row(rest, 0), one, name, map);
        rest = below(rest, 1);
    }
    let reach = zoom.step().saturating_mul(map.into());
    axis(canvas, behind(row(rest, 0), name + 2), map, reach);
    if heat.rows.len() > room {
        let more = format!(" {} more endpoints", count((heat.rows.len() - room) as u64));
        canvas.text(row(rest, 0), &more, Role::TextMuted);
    }
    took(canvas, behind(row(below(rest, 2), 0), 1), &heat);
}

fn legend(canvas: &mut Canvas<'_>, area: Rect, state: &State, zoom: Zoom) {
    let key = state.input.keymap.label("heat_map").unwrap_or_default();
    let next = match Zoom::after(Some(zoom)) {
        Some(next) => format!(" · {key}: a cell of {}", span(next.step())),
        None => format!(" · {key}: the list"),
    };
    let cell = format!(" a cell is {}", span(zoom.step()));
    let pieces = [
        (cell.as_str(), Role::TextMuted),
        (next.as_str(), Role::TextMuted),
        (" · ", Role::TextMuted),
        ("▼", Role::Bad),
        (" most failed  ", Role::TextMuted),
        ("!", Role::Warning),
        (" some failed  ", Role::TextMuted),
        ("░▒▓", Role::Good),
        (" delivered", Role::TextMuted),
    ];
    canvas.pieces(area, &pieces);
}

fn endpoint(canvas: &mut Canvas<'_>, area: Rect, one: &HeatRow, name: u16, map: u16) {
    let label = Rect {
        width: name,
        ..behind(area, 1)
    };
    canvas.ends(label, &words::url(&one.url), Role::Text);
    let mut place = behind(area, name + 2);
    for spot in &one.spots {
        let (glyph, role) = glyph(*spot);
        canvas.text(place, glyph, role);
        place = behind(place, 1);
    }
    let all = u64::from(one.all.delivered) + u64::from(one.all.failed);
    let (text, role) = match one.all.failed {
        0 => (format!("none of {} failed", count(all)), Role::TextMuted),
        failed => (format!("{} of {} failed", count(failed.into()), count(all)), Role::Bad),
    };
    canvas.text(behind(area, name + map + 3), &text, role);
}

const fn glyph(spot: Spot) -> (&'static str, Role) {
    match (spot.delivered, spot.failed) {
        (0, 0) => (" ", Role::Text),
        (1..=3, 0) => ("░", Role::Good),
        (4..=15, 0) => ("▒", Role::Good),
        (_, 0) => ("▓", Role::Good),
        (delivered, failed) if delivered > failed => ("!", Role::Warning),
        (..) => ("▼", Role::Bad),
    }
}

fn axis(canvas: &mut Canvas<'_>, area: Rect, map: u16, reach: Duration) {
    let area = Rect {
        width: area.width.min(map),
        ..area
    };
    canvas.text(area, &format!("{} ago", span(reach)), Role::TextMuted);
    canvas.right(area, "now", Role::TextMuted);
}

/// One bar for each span of time from the shortest to the longest that an attempt took.
fn took(canvas: &mut Canvas<'_>, area: Rect, heat: &Heat) {
    let used = |at: &usize| heat.took.get(*at).is_some_and(|count| *count > 0);
    let (Some(first), Some(last)) = ((0..BUCKETS).find(used), (0..BUCKETS).rfind(used)) else {
        return;
    };
    let bars = heat.took.get(first..=last).unwrap_or_default();
    let most = bars.iter().copied().max().unwrap_or(1).max(1);
    let bars: Vec<Option<u64>> = bars
        .iter()
        .map(|count| (*count > 0).then_some(u64::from(*count)))
        .collect();
    let bars = bars::line(&bars, most.into(), 1, 0);
    let short = |share| {
        heat.within(share)
            .map_or_else(String::new, |took| millis(u32::try_from(took).unwrap_or(u32::MAX)))
    };
    let [least, half, most, nearly_all, longest] = [0.001, 0.5, 0.95, 0.99, 1.0].map(short);
    let text = format!(" · half within {half}, 95 % within {most}, 99 % within {nearly_all}");
    let pieces = [
        ("took ", Role::TextMuted),
        (least.as_str(), Role::TextMuted),
        (" ", Role::TextMuted),
        (bars.as_str(), Role::Chart),
        (" ", Role::TextMuted),
        (longest.as_str(), Role::TextMuted),
        (text.as_str(), Role::Text),
    ];
    canvas.pieces(area, &pieces);
}
