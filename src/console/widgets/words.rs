//! Numbers, times and states as an operator reads them. Every state has a word, a symbol and a role.

use std::borrow::Cow;
use std::time::Duration;

use crate::console::journal::Tone;
use crate::console::theme::Role;
use crate::domain::endpoint::EndpointState;
use crate::domain::outcome::OutcomeClass;
use crate::domain::queue::QueueState;
use crate::domain::time::Timestamp;
use crate::domain::url::{EndpointUrl, redact_query};
use crate::domain::words;
pub(in crate::console) use crate::domain::words::{clock, count, plural, plural_of};

/// A cell, filled from the left by eighths.
const EIGHTHS: [char; 9] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

/// What is not known, and what there is none of.
pub(in crate::console) const UNKNOWN: &str = "?";
pub(in crate::console) const NONE: &str = "-";

/// `8 s`, `4m12s`, `2h05m`, `3d04h`.
pub(in crate::console) fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match seconds {
        0..=59 => format!("{seconds} s"),
        60..=3_599 => format!("{minutes}m{:02}s", seconds % 60),
        3_600..=86_399 => format!("{hours}h{:02}m", minutes % 60),
        86_400..=8_639_999 => format!("{days}d{:02}h", hours % 24),
        _ => format!("{days}d"),
    }
}

/// How long ago.
pub(in crate::console) fn ago(now: Timestamp, at: Timestamp) -> String {
    format!("{} ago", span(now.since(at)))
}

/// `in 8 s`, or `due`.
pub(in crate::console) fn until(now: Timestamp, at: Timestamp) -> String {
    if at <= now {
        return "due".to_owned();
    }
    // Rounded up: what is due in 7.3 s is not due in 7.
    let left = at.since(now).saturating_add(Duration::from_millis(999));
    format!("in {}", span(Duration::from_secs(left.as_secs())))
}

/// The day and its time, UTC: `2026-11-21 03:12:44`.
pub(in crate::console) fn date(at: Timestamp) -> String {
    words::date(at).unwrap_or_else(|| UNKNOWN.to_owned())
}

/// A number that may not be known.
pub(in crate::console) fn known(number: Option<u64>) -> String {
    number.map_or_else(|| UNKNOWN.to_owned(), count)
}

/// `812 B`, `1.2 KiB`, `3.4 MiB`.
pub(in crate::console) fn size(bytes: usize) -> String {
    words::size(u64::try_from(bytes).unwrap_or(u64::MAX))
}

/// `12.3/s` from thousandths.
pub(in crate::console) fn rate(per_second_milli: u64) -> String {
    match per_second_milli {
        0..=99_999 => format!("{}.{}/s", per_second_milli / 1_000, per_second_milli % 1_000 / 100),
        _ => format!("{}/s", count(per_second_milli / 1_000)),
    }
}

/// A bar of so many cells, so many eighths of a cell long.
pub(in crate::console) fn bar(eighths: u128, cells: u16) -> String {
    let part = |cell: u16| {
        let here = eighths.saturating_sub(u128::from(cell) * 8).min(8);
        let here = usize::try_from(here).unwrap_or_default();
        EIGHTHS.get(here).copied().unwrap_or(' ')
    };
    (0..cells).map(part).collect()
}

/// A URL as short as it can be told: the usual scheme goes without saying, and no value of its query is shown.
pub(in crate::console) fn url(url: &EndpointUrl) -> Cow<'_, str> {
    let text = url.as_str();
    let text = text.strip_prefix("https://").unwrap_or(text);
    if text.contains('?') {
        Cow::Owned(redact_query(text))
    } else {
        Cow::Borrowed(text)
    }
}

/// A state's symbol and role.
pub(in crate::console) const fn queue_state(state: QueueState) -> (char, Role) {
    match state {
        QueueState::Delivering => ('●', Role::Good),
        QueueState::Empty => ('○', Role::TextMuted),
        QueueState::WaitingRetry => ('…', Role::Warning),
        QueueState::EndpointUnavailable => ('▼', Role::Bad),
        QueueState::Parked | QueueState::Unowned | QueueState::BrokerBlocked => ('!', Role::Critical),
        QueueState::EndpointDisabled | QueueState::Refused | QueueState::Quarantined => ('×', Role::Critical),
        QueueState::Paused => ('◆', Role::Warning),
        QueueState::RateLimited => ('·', Role::Info),
        QueueState::Ended => ('✓', Role::TextMuted),
    }
}

/// A state's symbol and role.
pub(in crate::console) const fn endpoint_state(state: EndpointState) -> (char, Role) {
    match state {
        EndpointState::Available => ('●', Role::Good),
        EndpointState::Unavailable => ('▼', Role::Bad),
        EndpointState::Parked => ('!', Role::Critical),
        EndpointState::Disabled => ('×', Role::Critical),
    }
}

/// An attempt's symbol and role.
pub(in crate::console) const fn outcome(class: OutcomeClass) -> (char, Role) {
    match class {
        OutcomeClass::Delivered => ('✓', Role::Good),
        OutcomeClass::Refused | OutcomeClass::Gone => ('×', Role::Critical),
        OutcomeClass::Failed => ('▼', Role::Bad),
        OutcomeClass::Interrupted => ('·', Role::TextMuted),
    }
}

/// A tone's symbol, role on the screen, and role in a corner.
pub(in crate::console) const fn tone(tone: Tone) -> (char, Role, Role) {
    match tone {
        Tone::Note => ('·', Role::Text, Role::Toast),
        Tone::Good => ('✓', Role::Good, Role::ToastGood),
        Tone::Warning => ('!', Role::Warning, Role::ToastWarning),
        Tone::Bad => ('×', Role::Bad, Role::ToastBad),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_short_and_keep_their_two_greatest_units() {
        let text = |seconds| span(Duration::from_secs(seconds));
        assert_eq!([0, 59, 60, 252].map(text), ["0 s", "59 s", "1m00s", "4m12s"]);
        assert_eq!([3_599, 7_500, 273_600].map(text), ["59m59s", "2h05m", "3d04h"]);
        assert_eq!(text(u64::MAX), "213503982334601d");
    }

    #[test]
    fn what_is_due_within_a_second_is_not_due_yet() {
        let now = Timestamp::from_seconds(100);
        let at = |millis| until(now, now.plus(Duration::from_millis(millis)));
        assert_eq!([0, 1, 7_300].map(at), ["due", "in 1 s", "in 8 s"]);
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(
            [0, 999, 1_000, 12_345_678].map(count),
            ["0", "999", "1,000", "12,345,678"]
        );
        assert_eq!(
            [0, 1_023, 1_536, 1_258_291].map(size),
            ["0 B", "1023 B", "1.5 KiB", "1.1 MiB"]
        );
        assert_eq!([0, 12_345, 1_234_567].map(rate), ["0.0/s", "12.3/s", "1,234/s"]);
    }

    #[test]
    fn the_time_of_day_is_utc() {
        let at = Timestamp::from_seconds(86_400 + 3_661);
        assert_eq!(
            (clock(at).as_str(), date(at).as_str()),
            ("01:01:01", "1970-01-02 01:01:01")
        );
        assert_eq!(date(Timestamp::from_micros(i64::MAX)), UNKNOWN);
    }
}
