//! Times as people say them: how long ago, in how long.

use std::time::Duration;

use crate::domain::time::Timestamp;

/// `12 s`, `3 min`, `2 h 5 min`, `4 d`.
pub(super) fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// How far `at` is from `now`, before or after it.
pub(super) fn relative(at: Timestamp, now: Timestamp) -> String {
    if at > now {
        format!("in {}", span(at.since(now)))
    } else {
        format!("{} ago", span(now.since(at)))
    }
}

/// The same, with a word for what is not known or does not come.
pub(super) fn relative_or(at: Option<Timestamp>, now: Timestamp, absent: &str) -> String {
    at.map_or_else(|| absent.to_owned(), |at| relative(at, now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_said_from_where_one_stands() {
        let now = Timestamp::from_seconds(1_000_000);
        assert_eq!(relative(now.plus(Duration::from_secs(12)), now), "in 12 s");
        assert_eq!(relative(now.minus(Duration::from_secs(200)), now), "3 min ago");
        assert_eq!(relative(now.minus(Duration::from_mins(125)), now), "2 h 5 min ago");
        assert_eq!(relative(now.minus(Duration::from_secs(200_000)), now), "2 d ago");
        assert_eq!(relative_or(None, now, "never"), "never");
    }
}
