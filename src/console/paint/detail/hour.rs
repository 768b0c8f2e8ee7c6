//! The last hour of a queue or an endpoint: what waited, and how fast it was delivered.
//!
//! ```text
//!  waiting    41, most 45                            1 h, sampled since 02:12:44 UTC
//!       45 ┤               ▁▂▃▄▅▆▇█
//!          │▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁████████
//!        0 └────────────  ─────────
//!           1 h ago      30 min ago                                             now
//! ```
//!
//! What was not sampled is blank, on the axis too.

use std::time::Duration;

use ratatui::layout::Rect;

use crate::console::state::State;
use crate::console::state::detail::Detail;
use crate::console::state::tracks::{Series, Track};
use crate::console::theme::Role;
use crate::console::widgets::bars;
use crate::console::widgets::canvas::{Canvas, behind, below, cells, row};
use crate::console::widgets::words::{UNKNOWN, ago, clock, count, rate};
use crate::domain::text::width;

/// Cells for the scale.
const SCALE: u16 = 10;
/// Lines of a chart beside its bars: its title, and its axis with the ages.
const BESIDE: u16 = 3;
/// A chart is never higher.
const HEIGHT_MAX: u16 = 12;
/// How far back a chart shows, and how that and the half of it are called.
const REACHES: [(u64, &str, &str); 3] = [
    (300, "5 min ago", "2.5 min ago"),
    (900, "15 min ago", "7.5 min ago"),
    (3_600, "1 h ago", "30 min ago"),
];

/// Lines of the last hour under something else: one chart, three lines high, with title and axis.
pub(super) const SMALL: u16 = 3 + BESIDE;

/// Paints what waited, and below it how fast it was delivered where that has room as well.
pub(super) fn below_facts(canvas: &mut Canvas<'_>, area: Rect, state: &State, detail: &Detail) {
    if area.height < SMALL || state.data.tracks.of(&detail.subject).is_none() {
        return;
    }
    if area.height > SMALL * 2 {
        paint(canvas, area, state, detail);
        return;
    }
    let one = Rect { height: SMALL, ..area };
    charts(canvas, one, state, detail, 1);
}

/// Paints both charts.
pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect, state: &State, detail: &Detail) {
    charts(canvas, area, state, detail, 2);
}

fn charts(canvas: &mut Canvas<'_>, area: Rect, state: &State, detail: &Detail, number: u16) {
    let Some(track) = state.data.tracks.of(&detail.subject) else {
        let text = "Nothing was sampled yet: from now on every look samples its depth and rate.";
        canvas.wrapped(area, text, Role::TextMuted);
        return;
    };
    let [.., hour] = REACHES;
    let sampled = track.until().since(track.since()).as_secs();
    let reach = REACHES.into_iter().find(|reach| sampled < reach.0).unwrap_or(hour);
    let columns = usize::from(area.width.saturating_sub(SCALE));
    let (waited, delivered) = (
        track.depths(Duration::from_secs(reach.0), columns),
        track.rates(Duration::from_secs(reach.0), columns),
    );
    // The last line says where the numbers are from.
    let height = ((area.height.saturating_sub(number - 1) / number).saturating_sub(BESIDE)).clamp(1, HEIGHT_MAX);
    let now = |series: &Series, text: fn(u64) -> String| {
        let last = series.last().copied().flatten();
        let most = series.iter().flatten().copied().max();
        match most {
            Some(most) => format!("{}, most {}", last.map_or_else(|| UNKNOWN.to_owned(), text), text(most)),
            None => "not known in this time".to_owned(),
        }
    };
    let chart = |canvas: &mut Canvas<'_>, area: Rect, name: &str, series: &Series, text: fn(u64) -> String| {
        title(canvas, row(area, 0), name, &now(series, text));
        draw(canvas, below(area, 1), series, height, text);
        ages(canvas, row(area, 2 + height), reach);
    };
    chart(canvas, area, "waiting", &waited, count);
    if number == 1 {
        return;
    }
    let second = below(area, height + BESIDE);
    chart(canvas, second, "delivered", &delivered, rate);
    canvas.text(
        row(second, height + BESIDE),
        &from(canvas, state, track),
        Role::TextMuted,
    );
}

fn title(canvas: &mut Canvas<'_>, area: Rect, name: &str, says: &str) {
    canvas.text(area, name, Role::Text);
    canvas.text(behind(area, SCALE), says, Role::Title);
}

fn draw(canvas: &mut Canvas<'_>, area: Rect, series: &Series, height: u16, text: fn(u64) -> String) {
    let most = series.iter().flatten().copied().max();
    let scale = Rect {
        width: area.width.min(SCALE - 2),
        ..area
    };
    if let Some(most) = most {
        canvas.right(row(scale, 0), &text(most), Role::ChartAxis);
        canvas.right(row(scale, height), "0", Role::ChartAxis);
    }
    let axis = behind(area, SCALE - 1);
    let bars = behind(area, SCALE);
    for line in 0..height {
        canvas.text(row(axis, line), if line == 0 { "┤" } else { "│" }, Role::ChartAxis);
        let text = bars::line(series, most.unwrap_or(0), height, line);
        canvas.text(row(bars, line), &text, Role::Chart);
    }
    let sampled = series.iter().map(|value| if value.is_some() { '─' } else { ' ' });
    canvas.text(row(axis, height), "└", Role::ChartAxis);
    canvas.text(row(bars, height), &sampled.collect::<String>(), Role::ChartAxis);
}

fn ages(canvas: &mut Canvas<'_>, area: Rect, (_, begin, middle): (u64, &str, &str)) {
    let area = behind(area, SCALE);
    canvas.text(area, begin, Role::ChartAxis);
    let half = behind(area, (area.width / 2).saturating_sub(cells(width(middle)) / 2));
    canvas.text(half, middle, Role::ChartAxis);
    canvas.right(area, "now", Role::ChartAxis);
}

/// Where the numbers are from, and how old they are.
fn from(canvas: &Canvas<'_>, state: &State, track: &Track) -> String {
    let every = state.session.refresh.as_secs_f64();
    format!(
        "sampled here every {every} s since {} UTC, the last time {}; blank: not sampled or not known",
        clock(track.since()),
        ago(canvas.now, track.until())
    )
}
