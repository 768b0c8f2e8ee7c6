//! The attempts that are remembered, on a line from the oldest until now: how dense, how long ago, how they ended.
//!
//! ```text
//!  58 attempts in 3h12m: ✓ 3 delivered · ▼ 55 failed
//!  ▼▼▼▼▼▼▼▼ ▼  ▼    ▼        ▼               ▼                 ▼      ✓
//!  3h12m ago                      1h36m ago                       now
//! ```
//!
//! Where several fall into one cell, the worst of them is shown.

use std::time::Duration;

use ratatui::layout::Rect;

use crate::console::state::detail::are_newest;
use crate::console::theme::Role;
use crate::console::widgets::canvas::{Canvas, Piece, behind, cells, row};
use crate::console::widgets::words::{outcome, plural_of, span};
use crate::domain::outcome::OutcomeClass;
use crate::domain::text::width;
use crate::domain::time::Timestamp;
use crate::engine::view::AttemptView;

/// What it takes, with the empty line under it.
pub(super) const LINES: u16 = 4;
/// From here on there is room for it beside the list and the selected attempt.
const HEIGHT_MIN: u16 = 16;
/// The worst first.
const WORST_FIRST: [OutcomeClass; 5] = [
    OutcomeClass::Gone,
    OutcomeClass::Refused,
    OutcomeClass::Failed,
    OutcomeClass::Delivered,
    OutcomeClass::Interrupted,
];

/// Whether a line of these attempts says more than their list.
pub(super) const fn fits(height: u16, attempts: usize) -> bool {
    height >= HEIGHT_MIN && attempts > 1
}

/// Paints the counts, the line and its ages.
pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect, attempts: &[AttemptView]) {
    let Some(oldest) = attempts.iter().map(|attempt| attempt.started_at).min() else {
        return;
    };
    let lasts = canvas.now.since(oldest).max(Duration::from_secs(1));
    title(canvas, row(area, 0), attempts, lasts);
    let marks = marks(attempts, oldest, lasts, usize::from(area.width));
    let pieces: Vec<(String, Role)> = marks
        .chunk_by(|one, next| one == next)
        .map(|same| {
            let (symbol, role) = same.first().copied().flatten().map_or((' ', Role::Text), outcome);
            (same.iter().map(|_| symbol).collect(), role)
        })
        .collect();
    let pieces: Vec<Piece<'_>> = pieces.iter().map(|(text, role)| (text.as_str(), *role)).collect();
    canvas.pieces(row(area, 1), &pieces);
    ages(canvas, row(area, 2), lasts);
}

fn title(canvas: &mut Canvas<'_>, area: Rect, attempts: &[AttemptView], lasts: Duration) {
    let number = plural_of(attempts.len(), "attempt", "attempts");
    let whole = if are_newest(attempts.len()) {
        format!("the newest {number}, in {}:", span(lasts))
    } else {
        format!("{number} in {}:", span(lasts))
    };
    let mut rest = behind(area, canvas.text(area, &whole, Role::Title));
    for class in WORST_FIRST {
        let count = attempts.iter().filter(|attempt| attempt.class == class).count();
        if count > 0 {
            let (symbol, role) = outcome(class);
            let taken = canvas.text(rest, &format!(" {symbol} {count} {}", class.as_str()), role);
            rest = behind(rest, taken);
        }
    }
}

/// The worst end of the attempts of each cell; the last cell is now.
fn marks(attempts: &[AttemptView], oldest: Timestamp, lasts: Duration, columns: usize) -> Vec<Option<OutcomeClass>> {
    let mut marks = vec![None; columns];
    let last = u128::try_from(columns.saturating_sub(1)).unwrap_or(0);
    for attempt in attempts {
        let cell = attempt.started_at.since(oldest).as_micros() * last / lasts.as_micros().max(1);
        if let Some(mark) = usize::try_from(cell).ok().and_then(|cell| marks.get_mut(cell)) {
            *mark = WORST_FIRST
                .into_iter()
                .find(|class| *class == attempt.class || *mark == Some(*class));
        }
    }
    marks
}

fn ages(canvas: &mut Canvas<'_>, area: Rect, lasts: Duration) {
    let age = |of: Duration| format!("{} ago", span(of));
    canvas.text(area, &age(lasts), Role::ChartAxis);
    let middle = age(lasts / 2);
    let from = (area.width / 2).saturating_sub(cells(width(&middle)) / 2);
    canvas.text(behind(area, from), &middle, Role::ChartAxis);
    canvas.right(area, "now", Role::ChartAxis);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::{Epoch, NotificationId, QueueName};
    use crate::domain::url::EndpointUrl;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_seconds(second)
    }

    fn attempt(second: i64, class: OutcomeClass) -> AttemptView {
        AttemptView {
            message_id: NotificationId::parse("m").unwrap(),
            queue: QueueName::parse("q").unwrap(),
            url: EndpointUrl::parse("http://receiver.example/").unwrap(),
            number: 1,
            epoch: Epoch::default(),
            started_at: at(second),
            duration_ms: 1,
            class,
            status: None,
            error: None,
            response: None,
            counted: true,
        }
    }

    #[test]
    fn each_attempt_has_its_place_in_time_and_the_worst_of_a_cell_is_seen() {
        use OutcomeClass::{Delivered, Failed, Refused};
        let attempts = [
            attempt(100, Delivered),
            attempt(51, Delivered),
            attempt(50, Refused),
            attempt(49, Failed),
            attempt(0, Failed),
        ];
        let marks = marks(&attempts, at(0), Duration::from_secs(100), 11);
        let mut expected = vec![None; 11];
        for (cell, class) in [(0, Failed), (4, Failed), (5, Refused), (10, Delivered)] {
            expected[cell] = Some(class);
        }
        assert_eq!(marks, expected);
    }
}
