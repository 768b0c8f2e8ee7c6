//! A schedule drawn: the phases in numbers, and a bar for the delay before each retry.
//!
//! ```text
//!  14 attempts in 2m40s, then park
//!  immediate      3  at once
//!  pre_backoff    3  5 s each                  15 s
//!  backoff        6  5 s to 30 s, linear      1m45s
//!  post_backoff   3  30 s each                1m30s
//!           ▃▅▆▇████
//!        ▃▃▃████████
//!  ▁▁▁▁▁▁███████████                    longest 30 s
//! ```

use std::fmt::Write as _;
use std::time::Duration;

use ratatui::layout::Rect;

use super::bars::bar;
use super::canvas::{Canvas, behind, below, row};
use super::words::{plural, span};
use crate::console::theme::Role;
use crate::domain::policy::{Phase, RetryPolicy, Schedule};

/// Where the columns of the phases begin.
const RETRIES: u16 = 13;
const DELAYS: u16 = 20;
const TOTAL: u16 = 8;
/// The bars are at most this high.
const BARS_MAX: u16 = 8;

/// All of it in one sentence.
pub(in crate::console) fn sentence(policy: &RetryPolicy) -> String {
    let schedule = policy.schedule();
    let mut text = title(policy);
    let mut sign = ": ";
    for phase in Phase::ALL {
        let retries = schedule.phase_retries(phase);
        if retries > 0 {
            let _ = write!(text, "{sign}{retries} {}", delays(policy, phase));
            sign = ", ";
        }
    }
    text
}

/// Paints it; answers how many lines it took.
pub(in crate::console) fn paint(canvas: &mut Canvas<'_>, area: Rect, policy: &RetryPolicy) -> u16 {
    let schedule = policy.schedule();
    let used = canvas.wrapped(
        Rect {
            height: area.height.min(2),
            ..area
        },
        &title(policy),
        Role::Title,
    );
    let mut line = used;
    for phase in Phase::ALL {
        one_phase(canvas, row(area, line), policy, phase);
        line += 1;
    }
    let room = below(area, line);
    line + bars(canvas, room, &schedule)
}

fn title(policy: &RetryPolicy) -> String {
    let schedule = policy.schedule();
    let attempts = plural(schedule.attempts().into(), "attempt", "attempts");
    let total = span(Duration::from_secs(schedule.total_s()));
    let mut text = format!(
        "{attempts} in {total}, then {}; refused: {}",
        policy.on_exhausted.as_str(),
        policy.on_refused.as_str()
    );
    if policy.jitter > 0.0 {
        let _ = write!(text, "; up to {:.0} % later", policy.jitter * 100.0);
    }
    text
}

fn one_phase(canvas: &mut Canvas<'_>, area: Rect, policy: &RetryPolicy, phase: Phase) {
    let schedule = policy.schedule();
    let retries = schedule.phase_retries(phase);
    let role = if retries > 0 { Role::Text } else { Role::TextMuted };
    canvas.text(area, phase.as_str(), role_of(phase));
    let number = Rect {
        width: DELAYS - RETRIES - 2,
        ..behind(area, RETRIES)
    };
    canvas.right(number, &retries.to_string(), role);
    if retries == 0 {
        return;
    }
    let total: u64 = schedule.phase_delays_s(phase).map(u64::from).sum();
    let delays_place = Rect {
        width: area.width.saturating_sub(DELAYS + TOTAL + 1),
        ..behind(area, DELAYS)
    };
    canvas.text(delays_place, &delays(policy, phase), role);
    if total > 0 {
        canvas.right(
            behind(area, area.width.saturating_sub(TOTAL)),
            &span(Duration::from_secs(total)),
            Role::TextMuted,
        );
    }
}

fn delays(policy: &RetryPolicy, phase: Phase) -> String {
    let schedule = policy.schedule();
    let mut all = schedule.phase_delays_s(phase);
    let first = all.next().unwrap_or(0);
    let last = all.last().unwrap_or(first);
    let text = |seconds: u32| span(Duration::from_secs(seconds.into()));
    match (first, last) {
        (0, 0) => "at once".to_owned(),
        (first, last) if first == last => format!("after {}", text(first)),
        (first, last) => format!("from {} to {}, {}", text(first), text(last), policy.function.as_str()),
    }
}

const fn role_of(phase: Phase) -> Role {
    match phase {
        Phase::Immediate => Role::Good,
        Phase::PreBackoff => Role::Info,
        Phase::Backoff => Role::Warning,
        Phase::PostBackoff => Role::Bad,
    }
}

/// A column for each retry, or for several where there are more than columns: the longest of them counts.
fn bars(canvas: &mut Canvas<'_>, area: Rect, schedule: &Schedule) -> u16 {
    let retries = usize::try_from(schedule.retries()).unwrap_or(usize::MAX);
    let height = area.height.saturating_sub(2).min(BARS_MAX);
    if height == 0 || retries == 0 || area.width == 0 {
        return 0;
    }
    let each = retries.div_ceil(usize::from(area.width)).max(1);
    let with_phase = |phase| schedule.phase_delays_s(phase).map(move |delay| (phase, delay));
    let all: Vec<(Phase, u32)> = Phase::ALL.into_iter().flat_map(with_phase).collect();
    let longest = all.iter().map(|(_, delay)| *delay).max().unwrap_or(0);
    // A few retries are easier to see when their bars are wide.
    let wide = (usize::from(area.width) / retries.div_ceil(each).max(1)).clamp(1, 3);
    for (column, some) in all.chunks(each).enumerate() {
        let Some((phase, delay)) = some.iter().max_by_key(|(_, delay)| *delay) else {
            continue;
        };
        let x = u16::try_from(column * wide).unwrap_or(u16::MAX);
        for line in 0..height {
            let bar = bar(Some(u64::from(*delay)), longest.into(), height, line);
            let text: String = std::iter::repeat_n(bar, wide.saturating_sub(1).max(1)).collect();
            canvas.text(behind(row(area, line + 1), x), &text, role_of(*phase));
        }
    }
    let text = format!(
        "delay before each retry; the longest {}",
        span(Duration::from_secs(longest.into()))
    );
    canvas.text(row(area, height + 1), &text, Role::ChartAxis);
    height + 2
}
