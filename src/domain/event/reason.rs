//! Why an event is in the table, in the forms that people search for, and times as messages write them.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::{EventError, REASON_BYTES_MAX};
use crate::domain::time::Timestamp;

/// `message: queue=q_hr, jti=…` for what came from a queue.
#[must_use]
pub fn message_reason(queue: &str, id: Option<&str>) -> String {
    let id = id.map(|id| format!(", jti={id}")).unwrap_or_default();
    bounded(format!("message: queue={queue}{id}"))
}

/// `next-change: …` for what its handler wants to see again.
#[must_use]
pub fn next_change_reason(why: &str) -> String {
    bounded(format!("next-change: {why}"))
}

/// `retry: failed_at=… error=…` for what failed.
#[must_use]
pub fn retry_reason(failed_at: Timestamp, error: &str) -> String {
    bounded(format!("retry: failed_at={} error={error}", rfc3339(failed_at)))
}

/// A point in time as RFC 3339 with seconds, UTC.
#[must_use]
pub fn rfc3339(at: Timestamp) -> String {
    OffsetDateTime::from_unix_timestamp(at.seconds())
        .ok()
        .and_then(|at| at.format(&Rfc3339).ok())
        .unwrap_or_else(|| at.seconds().to_string())
}

/// A due time as RFC 3339 or as seconds since the Unix epoch, whole or with a fraction.
///
/// # Errors
/// `nbf`, for anything else.
pub fn due_time(text: &str) -> Result<Timestamp, EventError> {
    let text = text.trim();
    if let Ok(at) = OffsetDateTime::parse(text, &Rfc3339) {
        let micros = at.unix_timestamp_nanos() / 1000;
        return i64::try_from(micros)
            .map(Timestamp::from_micros)
            .map_err(|_| nonsense());
    }
    // A number with a sign is a span from now for who writes it, and no time since 1970.
    let seconds = text
        .parse::<f64>()
        .ok()
        .filter(|_| text.starts_with(|c: char| c.is_ascii_digit()));
    match seconds {
        #[expect(clippy::cast_possible_truncation, reason = "bounded by the comparison")]
        Some(seconds) if (0.0..1e12).contains(&seconds) => Ok(Timestamp::from_micros((seconds * 1e6).round() as i64)),
        Some(_) | None => Err(nonsense()),
    }
}

fn nonsense() -> EventError {
    EventError::of(
        "nbf",
        "must be a time as RFC 3339 (2026-06-01T00:00:00Z) or seconds since 1970",
    )
}

fn bounded(mut reason: String) -> String {
    if reason.len() > REASON_BYTES_MAX {
        reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
    }
    reason
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_the_forms_that_people_know() {
        assert_eq!(message_reason("q_foo", Some("d554")), "message: queue=q_foo, jti=d554");
        assert_eq!(
            next_change_reason("assignment_end_date=2022-06-01"),
            "next-change: assignment_end_date=2022-06-01"
        );
        let failed = retry_reason(Timestamp::from_seconds(1_583_020_800), "ValueError(\"foo\")");
        assert_eq!(
            failed,
            "retry: failed_at=2020-03-01T00:00:00Z error=ValueError(\"foo\")"
        );
        assert_eq!(
            retry_reason(Timestamp::EPOCH, &"é".repeat(5000)).len() / 2,
            REASON_BYTES_MAX / 2
        );
    }

    #[test]
    fn due_times_are_read_in_both_forms() {
        let at = Timestamp::from_seconds(1_583_020_800);
        for text in [
            "2020-03-01T00:00:00Z",
            "2020-03-01T01:00:00+01:00",
            "1583020800",
            "1583020800.0",
        ] {
            assert_eq!(due_time(text).unwrap(), at, "{text}");
        }
        for text in ["", "tomorrow", "-1", "+60", "-0", ".5", "1e300", "NaN", "2020-03-01"] {
            assert_eq!(due_time(text).unwrap_err().field, "nbf", "{text}");
        }
    }
}
