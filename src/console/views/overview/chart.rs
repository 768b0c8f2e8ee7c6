//! What waits and what is delivered, over the last minutes, up to an hour.
//!
//! ```text
//!  waiting    41        ▁▁▂▃▅▆▇█
//!  1 h, max 45          ▅▅▆███████
//! ```

use ratatui::layout::Rect;

use super::trend;
use crate::console::state::State;
use crate::console::state::tracks::{Series, apart};
use crate::console::theme::Role;
use crate::console::widgets::bars;
use crate::console::widgets::canvas::{Canvas, behind, row};
use crate::console::widgets::words::{known, rate};

/// Cells for the names and numbers.
const LABEL: u16 = 32;
/// Where the number begins, and the greatest one on the same line.
const NUMBER: u16 = 10;
const MOST: u16 = 18;

/// Paints both charts, each `height` lines high; answers how many lines they took.
pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect, state: &State, height: u16) -> u16 {
    let columns = usize::from(area.width.saturating_sub(LABEL));
    let columns = trend::Columns::of(&state.data.history, columns, apart(state.session.refresh));
    let waiting = trend::waiting(&state.data.history, columns);
    let delivered = trend::delivered(&state.data.history, columns);
    let waits = known(
        state
            .data
            .snapshot
            .as_ref()
            .and_then(|snapshot| snapshot.totals.waiting),
    );
    let speed = trend::rates(&state.data.history).map_or_else(|| "?".to_owned(), |rates| rate(rates.delivered));
    let most = |series: &Series| series.iter().flatten().copied().max();
    let reach = trend::reach(&state.data.history).text;
    let top = most(&waiting).map(|most| format!("{reach}, max {}", known(Some(most))));
    one(canvas, area, ("waiting", &waits, top), &waiting, height);
    let top = most(&delivered).map(|most| format!("{reach}, max {}", rate(most)));
    let second = Rect {
        y: area.y.saturating_add(height + gap(height)),
        height: area.height.saturating_sub(height + gap(height)),
        ..area
    };
    one(canvas, second, ("delivered", &speed, top), &delivered, height);
    2 * height + 1 + gap(height)
}

/// High charts have a line between them.
const fn gap(height: u16) -> u16 {
    if height > 1 { 1 } else { 0 }
}

fn one(
    canvas: &mut Canvas<'_>,
    area: Rect,
    (name, number, top): (&str, &str, Option<String>),
    series: &Series,
    height: u16,
) {
    let top = top.unwrap_or_else(|| "no sample yet".to_owned());
    canvas.text(row(area, 0), name, Role::Text);
    canvas.text(behind(row(area, 0), NUMBER), number, Role::Title);
    if height > 1 {
        canvas.text(row(area, 1), &top, Role::ChartAxis);
    } else {
        let place = Rect {
            width: (LABEL - MOST - 1).min(area.width.saturating_sub(MOST)),
            ..behind(row(area, 0), MOST)
        };
        canvas.text(
            place,
            top.split_once(", ").map_or("", |(_, most)| most),
            Role::ChartAxis,
        );
    }
    let most = series.iter().flatten().copied().max().unwrap_or(0).max(1);
    for line in 0..height {
        let bars = bars::line(series, most, height, line);
        canvas.text(behind(row(area, line), LABEL), &bars, Role::Chart);
    }
}
