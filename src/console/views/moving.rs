//! How a queue or an endpoint moves, in the cells of its row: rates, failures, times, and ten minutes in ten cells.

use std::time::Duration;

use super::list::Cell;
use crate::console::table::{SortKey, key};
use crate::console::theme::Role;
use crate::console::widgets::bars;
use crate::console::widgets::words::span;
use crate::domain::series::{Moving, unpacked};

/// A share of failures, in thousandths, that is more than bad luck.
const FAILS: u16 = 50;

/// What a detail says of it, label by label: the last minute, how long attempts take, when nothing waits any more.
pub(in crate::console) fn facts(moving: Option<&Moving>, empty_in: Option<Duration>) -> Vec<(&'static str, String)> {
    let Some(moving) = moving else { return Vec::new() };
    let failed = moving
        .failed_milli
        .map_or_else(String::new, |milli| format!("; {} failed", share(milli)));
    let (out, came) = (tenths(moving.out_milli), tenths(moving.came_milli));
    let mut facts = vec![("last minute", format!("{out} a second out, {came} in{failed}"))];
    if moving.p95_ms > 0 {
        let [half, most, nearly_all] = [moving.p50_ms, moving.p95_ms, moving.p99_ms].map(millis);
        let text = format!("half within {half}, 95 % within {most}, 99 % within {nearly_all}");
        facts.push(("attempts take", text));
    }
    facts.extend(empty_in.map(|takes| ("empty in", format!("about {}", span(takes)))));
    facts
}

fn tenths(milli: u32) -> String {
    match milli {
        0..=99_999 => format!("{}.{}", milli / 1_000, milli % 1_000 / 100),
        _ => (milli / 1_000).to_string(),
    }
}

fn share(milli: u16) -> String {
    match milli {
        0 => "0 %".to_owned(),
        1_000 => "100 %".to_owned(),
        _ => format!("{}.{} %", milli / 10, milli % 10),
    }
}

pub(super) fn millis(millis: u32) -> String {
    match millis {
        0..=999 => format!("{millis} ms"),
        _ => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
    }
}

/// Delivered a second: `12.3`.
pub(super) fn out(moving: Option<&Moving>) -> Cell<'static> {
    Cell::or_none(
        moving
            .filter(|moving| moving.out_milli > 0)
            .map(|moving| tenths(moving.out_milli)),
        Role::Text,
    )
}

pub(super) fn out_key(moving: Option<&Moving>) -> SortKey<'static> {
    key::count(moving.map(|moving| moving.out_milli.into()))
}

/// Failed attempts among all: `2.5 %`.
pub(super) fn failing(moving: Option<&Moving>) -> Cell<'static> {
    let failed = moving.and_then(|moving| moving.failed_milli);
    let role = match failed {
        Some(0) | None => Role::TextMuted,
        Some(milli) if milli < FAILS => Role::Warning,
        Some(_) => Role::Bad,
    };
    Cell::or_none(failed.map(share), role)
}

pub(super) fn failing_key(moving: Option<&Moving>) -> SortKey<'static> {
    key::count(moving.and_then(|moving| moving.failed_milli).map(u64::from))
}

/// Within which 95 of 100 attempts ended: `84 ms`, `1.2 s`.
pub(super) fn p95(moving: Option<&Moving>) -> Cell<'static> {
    let took = moving.map(|moving| moving.p95_ms).filter(|millis| *millis > 0);
    Cell::or_none(took.map(millis), Role::TextMuted)
}

pub(super) fn p95_key(moving: Option<&Moving>) -> SortKey<'static> {
    key::count(moving.map(|moving| moving.p95_ms.into()).filter(|millis| *millis > 0))
}

/// When nothing waits any more: `2m10s`.
pub(super) fn empty_in(takes: Option<Duration>) -> Cell<'static> {
    Cell::or_none(takes.map(span), Role::Text)
}

pub(super) fn empty_in_key(takes: Option<Duration>) -> SortKey<'static> {
    key::count(takes.map(|takes| takes.as_secs()))
}

/// What was delivered in each of the last ten minutes; where that is nothing, what waited.
pub(super) fn spark(moving: Option<&Moving>) -> Cell<'static> {
    let Some(moving) = moving else {
        return Cell::new("", Role::TextMuted);
    };
    if moving.out.iter().any(|sent| *sent > 0) {
        return Cell::new(bars::spark(&moving.out.map(|sent| Some(unpacked(sent)))), Role::Good);
    }
    let depth = moving.depth.map(|depth| (depth != u8::MAX).then(|| unpacked(depth)));
    Cell::new(bars::spark(&depth), Role::Warning)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::series::packed;

    #[test]
    fn cells_are_short_and_say_what_is_not_known() {
        let moving = Moving {
            out_milli: 12_345,
            failed_milli: Some(25),
            p95_ms: 1_250,
            out: std::array::from_fn(|at| packed(at as u64)),
            ..Moving::default()
        };
        let of = |moving: Option<&Moving>| {
            [out(moving), failing(moving), p95(moving), empty_in(None)].map(|cell| cell.text.into_owned())
        };
        assert_eq!(of(Some(&moving)), ["12.3", "2.5 %", "1.2 s", "-"]);
        assert_eq!(of(None), ["-", "-", "-", "-"]);
        assert_eq!(spark(Some(&moving)).text, "▁▂▃▄▅▅▆▇██");
        assert_eq!(empty_in(Some(Duration::from_secs(130))).text, "2m10s");
    }

    #[test]
    fn what_does_not_move_shows_what_waits() {
        let moving = Moving {
            depth: [
                u8::MAX,
                u8::MAX,
                u8::MAX,
                u8::MAX,
                u8::MAX,
                u8::MAX,
                0,
                packed(4),
                packed(8),
                packed(8),
            ],
            ..Moving::default()
        };
        assert_eq!(spark(Some(&moving)).text, "      ▁▅██");
    }
}
