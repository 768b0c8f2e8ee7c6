//! The time that events are due at, as an operator writes it: `10m`, `2h30m`, `03:30`, `2026-11-22T03:30:00Z`.

use std::time::Duration;

use tui_input::Input;

use crate::console::state::dialog::Scope;
use crate::domain::event::due_time;
use crate::domain::time::Timestamp;
use crate::engine::events::EventSelection;

/// Characters of a time, at most.
pub const LENGTH_MAX: usize = 40;
/// A number below is no time of ours: it lacks its unit.
const SECONDS_MIN: f64 = 1e9;
const UNITS: [(char, u64); 4] = [('s', 1), ('m', 60), ('h', 3_600), ('d', 86_400)];
const FORMS: &str = "write 10m, 2h30m, 1d, 03:30 (UTC) or 2026-11-22T03:30:00Z";

/// A time that is being written, with what it is for.
#[derive(Clone, Debug)]
pub struct WhenForm {
    /// What the operator pointed at when he pressed the key.
    pub scope: Scope,
    /// The events, a selection for each row that was pointed at.
    pub selections: Vec<EventSelection>,
    /// What is written.
    pub input: Input,
}

/// The time that is meant.
///
/// # Errors
/// What can be written, for anything else.
pub fn read(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    let text = text.trim();
    let span = text
        .strip_prefix("in ")
        .or_else(|| text.strip_prefix('+'))
        .unwrap_or(text);
    if text == "now" {
        return Ok(now);
    }
    if let Some(at) = span_of(span)
        .map(|span| now.plus(span))
        .or_else(|| time_of_day(text, now))
    {
        return Ok(at);
    }
    if text.parse::<f64>().is_ok_and(|seconds| seconds < SECONDS_MIN) {
        return Err(format!("{text} of what? {FORMS}"));
    }
    due_time(text).map_err(|_| FORMS.to_owned())
}

/// `2h30m`: numbers with their units.
fn span_of(text: &str) -> Option<Duration> {
    let mut seconds = 0_u64;
    let mut digits = String::new();
    for character in text.chars().filter(|character| !character.is_whitespace()) {
        if character.is_ascii_digit() {
            digits.push(character);
            continue;
        }
        let (_, unit) = UNITS.iter().find(|(name, _)| *name == character)?;
        let number: u64 = digits.parse().ok()?;
        seconds = seconds.checked_add(number.checked_mul(*unit)?)?;
        digits.clear();
    }
    let whole = digits.is_empty() && !text.is_empty();
    whole.then(|| Duration::from_secs(seconds))
}

/// `03:30`, today or tomorrow.
fn time_of_day(text: &str, now: Timestamp) -> Option<Timestamp> {
    const DAY: i64 = 86_400;
    let (hours, minutes) = text.split_once(':')?;
    let number = |text: &str, below: i64| {
        let digits = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<i64>().ok().filter(|number| digits && *number < below)
    };
    let of_day = number(hours, 24)? * 3_600 + number(minutes, 60)? * 60;
    let today = now.seconds() - now.seconds().rem_euclid(DAY);
    let at = Timestamp::from_seconds(today + of_day);
    Some(if at > now {
        at
    } else {
        Timestamp::from_seconds(today + of_day + DAY)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_write_them() {
        // 1970-01-02 01:00:00 UTC.
        let now = Timestamp::from_seconds(90_000);
        let check = |text: &str, seconds: i64| {
            assert_eq!(read(text, now), Ok(Timestamp::from_seconds(seconds)), "{text}");
        };
        check("now", 90_000);
        check("10m", 90_600);
        check("+2h30m", 99_000);
        check("in 1d", 176_400);
        check("01:30", 91_800);
        check("00:30", 174_600);
        check("2026-01-01T00:00:00Z", 1_767_225_600);
        check("1767225600", 1_767_225_600);
    }

    #[test]
    fn what_is_no_time_is_refused_with_what_is_one() {
        for text in [
            "",
            "10",
            "10 parsecs",
            "25:00",
            "3:3",
            "tomorrow",
            "99999999999999999999d",
        ] {
            assert!(read(text, Timestamp::EPOCH).unwrap_err().contains("10m"), "{text}");
        }
    }
}
