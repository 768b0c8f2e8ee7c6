//! What a confirmation says of a run: how much, how old, how long it takes, what is taken off; and its pace.
//!
//! ```text
//! │ 412 dead letters, 201.3 KiB; died between 2d04h ago and 12 s ago; takes about 42 s
//! │ headers removed (kept in the journal): x-death, x-first-death-queue
//! │ t rate: 10 a second   c canary: 5, then ask
//! ```

use std::fmt::Write as _;

use super::dialog::Line;
use crate::console::state::dialog::{Knob, RunPace, WayBack};
use crate::console::theme::Role;
use crate::console::views::list::OUTSIDE_MAX;
use crate::console::widgets::words::{ago, plural, size, span};
use crate::domain::mask::MaskRules;
use crate::domain::text::{show, width};
use crate::domain::time::Timestamp;
use crate::engine::command::RunPlan;
use crate::engine::runs::{OrderKind, Via};

/// Between two knobs.
const BETWEEN: &str = "   ";
/// Headers that are named, at most.
const DROPPED_MAX: usize = 8;

/// What is known of the run, with at most `samples` of its messages, without what the rules hide. A skip is nothing
/// but its one message.
pub(super) fn lines(now: Timestamp, kind: OrderKind, run: &RunPlan, rules: &MaskRules, samples: usize) -> Vec<String> {
    let bytes = usize::try_from(run.bytes).unwrap_or(usize::MAX);
    if kind == OrderKind::Skip {
        let samples = run.samples.iter().take(samples.max(1));
        return samples
            .map(|sample| show(&format!("{}, {}", rules.text(sample).value, size(bytes)), OUTSIDE_MAX))
            .collect();
    }
    let mut text = format!("{}, {}", plural(run.total, "dead letter", "dead letters"), size(bytes));
    if run.refused > 0 {
        let _ = write!(text, ", {} of them cannot go anywhere", run.refused);
    }
    let died = if kind == OrderKind::Restore {
        "discarded"
    } else {
        "died"
    };
    match (run.oldest, run.newest) {
        (Some(oldest), Some(newest)) if ago(now, oldest) == ago(now, newest) => {
            let _ = write!(text, "; {died} {}", ago(now, oldest));
        }
        (Some(oldest), Some(newest)) => {
            let _ = write!(text, "; {died} between {} and {}", ago(now, oldest), ago(now, newest));
        }
        (Some(at), None) | (None, Some(at)) => {
            let _ = write!(text, "; {died} {}", ago(now, at));
        }
        (None, None) => {}
    }
    if let Some(takes) = run.estimated {
        let takes = if takes.as_secs() == 0 {
            "under a second".to_owned()
        } else {
            format!("about {}", span(takes))
        };
        let _ = write!(text, "; takes {takes}");
    }
    let mut lines = vec![text];
    if !run.dropped.is_empty() {
        let names: Vec<String> = run
            .dropped
            .iter()
            .take(DROPPED_MAX)
            .map(|name| show(name, OUTSIDE_MAX))
            .collect();
        let more = run.dropped.len().saturating_sub(DROPPED_MAX);
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        lines.push(format!(
            "headers removed (kept in the journal): {}{more}",
            names.join(", ")
        ));
    }
    lines.extend(
        run.samples
            .iter()
            .take(samples)
            .map(|sample| show(&rules.text(sample).value, OUTSIDE_MAX)),
    );
    lines
}

/// How fast it goes and where it asks, with the keys that change it, on as many lines as they need.
pub(super) fn pace(pace: &RunPace, columns: usize) -> Vec<Line> {
    if let Some((knob, digits)) = &pace.typing {
        let asks = format!("{}: ", knob.asks(pace.of_endpoint));
        let enter = "▏ Enter updates the plan";
        let has_room = width(&asks) + width(digits) + width(enter) <= columns;
        let behind = if has_room { enter } else { "▏" };
        return vec![vec![
            (asks, Role::DialogKey),
            (digits.clone(), Role::Input),
            (behind.to_owned(), Role::TextMuted),
        ]];
    }
    let mut lines = vec![Line::new()];
    let mut taken = 0;
    for knob in Knob::ALL.into_iter().filter(|knob| pace.has(*knob)) {
        let setting = if pace.is_as_it_is(knob) {
            "as it is".to_owned()
        } else {
            setting(pace, knob)
        };
        let key = format!("{} ", knob.key());
        let says = format!("{}: {setting}", knob.name());
        let wide = width(&key) + width(&says);
        if taken > 0 && taken + width(BETWEEN) + wide > columns {
            lines.push(Line::new());
            taken = 0;
        }
        let Some(line) = lines.last_mut() else { continue };
        if taken > 0 {
            line.push((BETWEEN.to_owned(), Role::Text));
            taken += width(BETWEEN);
        }
        taken += wide;
        line.push((key, Role::DialogKey));
        line.push((says, Role::Info));
    }
    lines
}

/// What a knob is turned to.
fn setting(pace: &RunPace, knob: Knob) -> String {
    match knob {
        Knob::Rate => match pace.rate {
            Some(rate) => format!("{rate} a second"),
            None => "unlimited".to_owned(),
        },
        Knob::Canary => match (pace.canary, pace.watch_s) {
            (Some(first), None) => format!("{first}, then ask"),
            (Some(first), Some(_)) => first.to_string(),
            (None, _) => "off".to_owned(),
        },
        Knob::Watch => match pace.watch_s {
            Some(watch) => format!("{watch} s"),
            None => "off".to_owned(),
        },
        Knob::Stop => match pace.stop_after {
            Some(stop) => format!("after {stop} failures"),
            None => "never".to_owned(),
        },
        Knob::Ramp => match (pace.ramp, pace.of_endpoint) {
            (Some(ramp), Some(steps)) => format!("times {ramp} every {} s", steps.every_s),
            (None, Some(_)) => "off".to_owned(),
            (Some(ramp), None) => format!("{ramp} times as many"),
            (None, None) => "all at once".to_owned(),
        },
        Knob::Via => match pace.via.and_then(WayBack::via) {
            Some(Via::Exchange) => "through the exchange".to_owned(),
            Some(Via::Queue) => "straight to the queue".to_owned(),
            None => "as planned".to_owned(),
        },
    }
}
