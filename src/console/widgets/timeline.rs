//! What is tried in the next minutes, as bars over an axis. The axis is as long as the retries need.
//!
//! ```text
//!  next 10 minutes: 9 attempts due · 2 wait for a person
//!  ▂      █  ▄          ▂
//!  now         2m30s        5m00s        7m30s       10m00s
//! ```

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use ratatui::layout::Rect;

use super::canvas::{Canvas, behind, cells, row};
use super::words::{plural_of, span};
use crate::console::theme::Role;
use crate::domain::text::width;
use crate::domain::time::Timestamp;
use crate::engine::view::Retry;

/// Lengths of the axis.
const LENGTHS_S: [u64; 6] = [60, 600, 3_600, 21_600, 86_400, 604_800];

/// Paints four lines: what is counted, the bars, the axis, an empty one.
pub(in crate::console) fn paint(canvas: &mut Canvas<'_>, area: Rect, retries: &[Arc<Retry>]) {
    let inner = Rect {
        width: area.width.saturating_sub(2),
        ..behind(area, 1)
    };
    if inner.is_empty() || retries.is_empty() {
        return;
    }
    let due: Vec<Timestamp> = retries.iter().filter_map(|retry| retry.at).collect();
    let length = axis_length(canvas.now, &due);
    let columns = usize::from(inner.width);
    let buckets = buckets(canvas.now, &due, length, columns);
    title(canvas, row(inner, 0), retries, &due, length);
    let most = buckets.iter().copied().max().unwrap_or(0).max(1);
    let bars: String = buckets.iter().map(|count| bar(*count, most)).collect();
    canvas.text(row(inner, 1), &bars, Role::Chart);
    axis(canvas, row(inner, 2), length);
}

fn title(canvas: &mut Canvas<'_>, area: Rect, retries: &[Arc<Retry>], due: &[Timestamp], length: u64) {
    let end = canvas.now.plus(Duration::from_secs(length));
    let within = due.iter().filter(|at| **at <= end).count();
    let (later, waiting) = (due.len() - within, retries.len() - due.len());
    let mut text = format!(
        "next {}: {} due",
        words_for(length),
        plural_of(within, "attempt", "attempts")
    );
    if later > 0 {
        let _ = write!(text, " · {later} later");
    }
    let taken = canvas.text(area, &text, Role::Title);
    if waiting > 0 {
        let person = format!(
            " · ! {} for a person",
            if waiting == 1 {
                "1 waits".to_owned()
            } else {
                format!("{waiting} wait")
            }
        );
        canvas.text(behind(area, taken), &person, Role::Critical);
    }
}

fn words_for(seconds: u64) -> &'static str {
    match seconds {
        60 => "minute",
        600 => "10 minutes",
        3_600 => "hour",
        21_600 => "6 hours",
        86_400 => "day",
        _ => "week",
    }
}

/// The shortest axis that has at least nine tenths of what is due.
fn axis_length(now: Timestamp, due: &[Timestamp]) -> u64 {
    let fits = |length: u64| due.iter().filter(|at| at.since(now).as_secs() <= length).count() * 10 >= due.len() * 9;
    LENGTHS_S.into_iter().find(|length| fits(*length)).unwrap_or(604_800)
}

fn buckets(now: Timestamp, due: &[Timestamp], length: u64, columns: usize) -> Vec<u64> {
    let mut buckets = vec![0; columns];
    for at in due {
        let micros = at.since(now).as_micros();
        let whole = u128::from(length) * 1_000_000;
        let index = usize::try_from(micros * u128::try_from(columns).unwrap_or(1) / whole).unwrap_or(usize::MAX);
        if let Some(count) = buckets.get_mut(index) {
            *count += 1;
        }
    }
    buckets
}

fn bar(count: u64, most: u64) -> char {
    super::bars::bar((count > 0).then_some(count), most, 1, 0)
}

fn axis(canvas: &mut Canvas<'_>, area: Rect, length: u64) {
    let marks = 4;
    canvas.text(area, "now", Role::ChartAxis);
    for mark in 1..=marks {
        let text = span(Duration::from_secs(length * mark / marks));
        let at = u64::from(area.width) * mark / marks;
        let start = u16::try_from(at).unwrap_or(0).saturating_sub(cells(width(&text)));
        canvas.text(behind(area, start), &text, Role::ChartAxis);
    }
}
