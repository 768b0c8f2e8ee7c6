//! Times of documents as a person reads them.

use std::time::Duration;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::ambient::Clock;
use crate::domain::time::Timestamp;
use crate::domain::words::from_now;
use crate::wire::{self, json};

use super::output::{Output, note};

/// A time as a document has it, from where this machine stands; what is none stays as it is.
pub(super) fn told(written: &str) -> String {
    let Ok(at) = OffsetDateTime::parse(written, &Rfc3339) else {
        return written.to_owned();
    };
    let micros = i64::try_from(at.unix_timestamp_nanos() / 1_000).unwrap_or(i64::MAX);
    from_now(Timestamp::from_micros(micros), Clock::system().now())
}

/// [`told`], or a dash where there is none.
pub(super) fn told_or_dash(written: Option<&str>) -> String {
    written.map_or_else(|| "-".to_owned(), told)
}

/// A list that is older is told as of when it is.
const MOMENT: Duration = Duration::from_secs(2);

/// Says as of when a list is, where it was not read just now.
pub(super) fn tell_age(output: Output, taken_at: Timestamp) {
    let now = Clock::system().now();
    if now.since(taken_at) <= MOMENT {
        return;
    }
    if output.is_json() {
        // The list itself is a bare array.
        let age = serde_json::json!({"taken_at": wire::time(taken_at)});
        note(&String::from_utf8_lossy(&json::compact(&age)));
    } else {
        note(&format!("as of {}", from_now(taken_at, now)));
    }
}

/// Where it stands from `now`, with a word for what is not known or does not come.
pub(super) fn relative_or(at: Option<Timestamp>, now: Timestamp, absent: &str) -> String {
    at.map_or_else(|| absent.to_owned(), |at| from_now(at, now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_a_document_is_told_from_here_and_no_time_is_left_alone() {
        assert!(told("2026-11-23T05:43:17.490246Z").contains("(2026-11-23 05:43:17Z)"));
        assert_eq!(told("waits for a person"), "waits for a person");
        assert_eq!(told_or_dash(None), "-");
        assert_eq!(relative_or(None, Timestamp::EPOCH, "never"), "never");
    }
}
