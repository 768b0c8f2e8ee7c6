//! Numbers, spans and times as a person says them: one function for each, for every sentence of the program.

use std::time::Duration;

use super::time::Timestamp;

/// Older than this a time has its day beside it.
const DAY: Duration = Duration::from_hours(24);

/// `1,234,567`.
#[must_use]
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `5 of 13`; alone where it is not known how many there are, or more were made than a policy that was changed since
/// allows.
#[must_use]
pub fn attempt_of(attempt: u32, of: u32) -> String {
    if attempt > of {
        return attempt.to_string();
    }
    format!("{attempt} of {of}")
}

/// `5 of 13` for a retry that is due at some time; for one that waits for a person, how many failed: `4 failed`.
#[must_use]
pub fn counted_retry<T>(at: Option<&T>, attempt: u32, of: Option<u32>) -> String {
    match at {
        Some(_) => attempt_of(attempt, of.unwrap_or(0)),
        None => format!("{} failed", attempt.saturating_sub(1)),
    }
}

/// `512 B`, `1.5 KiB`, `12.0 MiB`, `3.7 GiB`.
#[must_use]
pub fn size(bytes: u64) -> String {
    let tenths = |unit: u64, name: &str| format!("{}.{} {name}", count(bytes / unit), bytes % unit * 10 / unit);
    match bytes {
        0..=1_023 => format!("{bytes} B"),
        1_024..=1_048_575 => tenths(1 << 10, "KiB"),
        1_048_576..=1_073_741_823 => tenths(1 << 20, "MiB"),
        _ => tenths(1 << 30, "GiB"),
    }
}

/// `1 message`, `12 messages`.
#[must_use]
pub fn plural(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// The same for what is counted in memory.
#[must_use]
pub fn plural_of(number: usize, one: &str, many: &str) -> String {
    plural(u64::try_from(number).unwrap_or(u64::MAX), one, many)
}

/// The same where the number may not be known.
#[must_use]
pub fn plural_if_known(number: Option<u64>, one: &str, many: &str) -> String {
    number.map_or_else(
        || format!("an unknown number of {many}"),
        |number| plural(number, one, many),
    )
}

/// A span that somebody set, exact to the second: `45 s`, `3 min 30 s`, `2 h 5 min`, `1 d 3 h 20 s`.
#[must_use]
pub fn lasts(span: Duration) -> String {
    let seconds = span.as_secs();
    let parts = [
        (seconds / 86_400, "d"),
        (seconds / 3_600 % 24, "h"),
        (seconds / 60 % 60, "min"),
        (seconds % 60, "s"),
    ];
    let parts: Vec<String> = parts
        .into_iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, unit)| format!("{} {unit}", count(number)))
        .collect();
    if parts.is_empty() {
        return if span.is_zero() { "0 s" } else { "under 1 s" }.to_owned();
    }
    parts.join(" ")
}

/// A span that was measured, as exactly as it matters: `12 s`, `3 min`, `2 h 5 min`, `4 d`.
#[must_use]
pub fn about(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 if seconds % 3_600 / 60 == 0 => format!("{} h", seconds / 3_600),
        7_200..172_800 => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{} d", count(seconds / 86_400)),
    }
}

/// The time of day, UTC: `03:12:44`.
#[must_use]
pub fn clock(at: Timestamp) -> String {
    let seconds = at.seconds().rem_euclid(86_400);
    format!("{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

/// The day and its time, UTC: `2026-11-21 03:12:44`; `None` where no calendar has it.
#[must_use]
pub fn date(at: Timestamp) -> Option<String> {
    let day = time::OffsetDateTime::from_unix_timestamp(at.seconds()).ok()?.date();
    let (year, month, day) = day.to_calendar_date();
    Some(format!("{year:04}-{:02}-{day:02} {}", u8::from(month), clock(at)))
}

/// From where one stands, with the clock beside: `3 min ago (14:02:11Z)`, `in 12 s (14:05:23Z)`, and the day where it
/// is another one.
#[must_use]
pub fn from_now(at: Timestamp, now: Timestamp) -> String {
    let (before, after) = (now.since(at), at.since(now));
    let exact = if before.max(after) < DAY {
        Some(clock(at))
    } else {
        date(at)
    };
    let beside = exact.map_or_else(String::new, |exact| format!(" ({exact}Z)"));
    if at > now {
        format!("in {}{beside}", about(after))
    } else {
        format!("{} ago{beside}", about(before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_one_and_a_thousand_has_its_comma() {
        for (number, said) in [
            (0, "0 messages"),
            (1, "1 message"),
            (2, "2 messages"),
            (1_000, "1,000 messages"),
            (1_234_567, "1,234,567 messages"),
        ] {
            assert_eq!(plural(number, "message", "messages"), said);
            assert_eq!(plural_if_known(Some(number), "message", "messages"), said);
        }
        assert_eq!(
            plural_if_known(None, "message", "messages"),
            "an unknown number of messages"
        );
    }

    #[test]
    fn what_was_set_is_said_exactly_and_what_was_measured_as_it_matters() {
        for (seconds, exact, rough) in [
            (0, "0 s", "0 s"),
            (59, "59 s", "59 s"),
            (90, "1 min 30 s", "90 s"),
            (210, "3 min 30 s", "3 min"),
            (3_600, "1 h", "60 min"),
            (5_223, "1 h 27 min 3 s", "87 min"),
            (7_500, "2 h 5 min", "2 h 5 min"),
            (86_400, "1 d", "24 h"),
            (129_600, "1 d 12 h", "36 h"),
            (1_000_000, "11 d 13 h 46 min 40 s", "11 d"),
        ] {
            let span = Duration::from_secs(seconds);
            assert_eq!((lasts(span).as_str(), about(span).as_str()), (exact, rough));
        }
        assert_eq!(lasts(Duration::from_millis(20)), "under 1 s");
    }

    #[test]
    fn a_time_is_said_from_where_one_stands_with_the_clock_beside() {
        let now = Timestamp::from_seconds(1_000_000);
        let cases = [
            (now.plus(Duration::from_secs(12)), "in 12 s (13:46:52Z)"),
            (now, "0 s ago (13:46:40Z)"),
            (now.minus(Duration::from_secs(200)), "3 min ago (13:43:20Z)"),
            (now.minus(Duration::from_mins(125)), "2 h 5 min ago (11:41:40Z)"),
            (
                now.minus(Duration::from_secs(200_000)),
                "2 d ago (1970-01-10 06:13:20Z)",
            ),
        ];
        for (at, said) in cases {
            assert_eq!(from_now(at, now), said);
        }
    }
}
