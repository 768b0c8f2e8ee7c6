//! How one attempt ended, what that means, and what the receiver asked for.
//!
//! `Outcome` is what was seen, `OutcomeClass` what it amounts to, `Fault` whom it is charged to. What
//! happens next is decided elsewhere, by the verdict.

use std::time::UNIX_EPOCH;

use super::time::Timestamp;

/// How one attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The receiver answered with this HTTP status.
    Status(u16),
    /// There was no whole answer.
    Failure(FailureKind),
}

/// Why there was no whole answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// The deadline passed before the answer's headers came.
    Timeout,
    /// Nobody accepted the connection.
    ConnectRefused,
    /// The host name has no address, or no name server said so in time.
    Dns,
    /// No trusted connection could be made.
    Tls,
    /// The connection broke.
    Reset,
    /// The deadline passed while the answer's body came.
    BodyTimeout,
    /// Every address of the host is one that must not be connected to.
    AddressRefused,
    /// The notification cannot be sent as it is, for instance because of a header.
    BadRequest,
    /// We were stopped before it ended.
    Stopped,
    /// This process may open no more files, or looks up as many names as it may: no connection was begun.
    OwnLimit,
    /// Anything else.
    Other,
}

impl FailureKind {
    /// Every kind.
    pub const ALL: [Self; 11] = [
        Self::Timeout,
        Self::ConnectRefused,
        Self::Dns,
        Self::Tls,
        Self::Reset,
        Self::BodyTimeout,
        Self::AddressRefused,
        Self::BadRequest,
        Self::Stopped,
        Self::OwnLimit,
        Self::Other,
    ];

    /// The word for a record, a screen or a program.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::ConnectRefused => "connect_refused",
            Self::Dns => "dns",
            Self::Tls => "tls",
            Self::Reset => "reset",
            Self::BodyTimeout => "body_timeout",
            Self::AddressRefused => "address_refused",
            Self::BadRequest => "bad_request",
            Self::Stopped => "stopped",
            Self::OwnLimit => "own_limit",
            Self::Other => "other",
        }
    }

    /// The kind of this word.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// What an outcome amounts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum OutcomeClass {
    /// The receiver has it.
    Delivered,
    /// The receiver does not want this message.
    Refused,
    /// The receiver wants nothing any more.
    Gone,
    /// It may work later.
    Failed,
    /// We ended it ourselves, or could not begin it: not an attempt that counts.
    Interrupted,
}

impl OutcomeClass {
    /// Every class.
    pub const ALL: [Self; 5] = [
        Self::Delivered,
        Self::Refused,
        Self::Gone,
        Self::Failed,
        Self::Interrupted,
    ];

    /// The word for a record, a screen or a program.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Refused => "refused",
            Self::Gone => "gone",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
        }
    }

    /// Whether such an attempt failed, whatever way; `None`: we ended it ourselves, and it says nothing of the receiver.
    #[must_use]
    pub const fn has_failed(self) -> Option<bool> {
        match self {
            Self::Delivered => Some(false),
            Self::Refused | Self::Gone | Self::Failed => Some(true),
            Self::Interrupted => None,
        }
    }

    /// The class of this word.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.as_str() == name)
    }
}

/// Whom an outcome that is no success is charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The URL: all its queues wait.
    Url,
    /// The message: only its own queue waits.
    Message,
}

impl Outcome {
    /// What this amounts to. Redirects are not followed, so 3xx is a refusal; 408, 425 and 429 ask for
    /// another time; what is no status of HTTP at all is a receiver that is broken.
    #[must_use]
    pub const fn class(self) -> OutcomeClass {
        match self {
            Self::Status(200..=299) => OutcomeClass::Delivered,
            Self::Status(410) => OutcomeClass::Gone,
            Self::Status(408 | 425 | 429) => OutcomeClass::Failed,
            Self::Status(300..=499) => OutcomeClass::Refused,
            Self::Failure(FailureKind::Stopped | FailureKind::OwnLimit) => OutcomeClass::Interrupted,
            Self::Status(_) | Self::Failure(_) => OutcomeClass::Failed,
        }
    }

    /// Whom it is charged to; without meaning for what was delivered or interrupted.
    ///
    /// The URL: connection errors, timeouts, 408, 425, 429, 502 to 504, and 410, which is about all of
    /// it. Any other failure, and a refusal: the message.
    #[must_use]
    pub const fn fault(self) -> Fault {
        match self {
            Self::Failure(FailureKind::BadRequest | FailureKind::Stopped | FailureKind::OwnLimit) => Fault::Message,
            Self::Status(408 | 410 | 425 | 429 | 502..=504) | Self::Failure(_) => Fault::Url,
            Self::Status(_) => Fault::Message,
        }
    }

    /// Whom a failure is charged to of which the status alone is on record; without one there was no whole answer.
    #[must_use]
    pub const fn fault_of(status: Option<u16>) -> Fault {
        match status {
            Some(status) => Self::Status(status).fault(),
            None => Fault::Url,
        }
    }

    /// How many seconds the receiver asked to be left alone, at most `cap_s`: only 429 and 503 may ask.
    #[must_use]
    pub fn hint_s(self, header: Option<&str>, now: Timestamp, cap_s: u64) -> Option<u64> {
        match self {
            Self::Status(429 | 503) => retry_after(header?, now, cap_s),
            Self::Status(_) | Self::Failure(_) => None,
        }
    }
}

/// What a `Retry-After` header says, in seconds from now, at most `cap_s`.
///
/// Whole or decimal seconds, rounded up, or an HTTP date, of which one that has passed is 0 (RFC 9110,
/// 10.2.3; decimals are seen in practice). Anything else, signs and exponents included, says nothing.
#[must_use]
pub fn retry_after(header: &str, now: Timestamp, cap_s: u64) -> Option<u64> {
    let header = header.trim_matches([' ', '\t']);
    let seconds = decimal_seconds(header).or_else(|| seconds_until(header, now))?;
    Some(seconds.min(cap_s))
}

fn decimal_seconds(header: &str) -> Option<u64> {
    let (whole, fraction) = header.split_once('.').unwrap_or((header, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    // Only digits: what does not parse is too large, and the cap takes care of it.
    let seconds: u64 = whole.parse().unwrap_or(u64::MAX);
    let begun = fraction.bytes().any(|digit| digit != b'0');
    Some(seconds.saturating_add(u64::from(begun)))
}

fn seconds_until(header: &str, now: Timestamp) -> Option<u64> {
    let date = httpdate::parse_http_date(header).ok()?;
    let Ok(since_epoch) = date.duration_since(UNIX_EPOCH) else {
        return Some(0);
    };
    let wait = Timestamp::EPOCH.plus(since_epoch).since(now);
    Some(wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::time::Timestamp;
    use super::{FailureKind, Fault, Outcome, OutcomeClass, retry_after};

    const VECTORS: &str = include_str!("../../tests/vectors/outcomes.json");
    const NOW: Timestamp = Timestamp::from_seconds(1_800_000_000);
    const CAP_S: u64 = 3600;

    fn outcome(json: &serde_json::Value) -> Outcome {
        match json["status"].as_u64() {
            Some(status) => Outcome::Status(u16::try_from(status).unwrap()),
            None => Outcome::Failure(FailureKind::from_name(json["error"].as_str().unwrap()).unwrap()),
        }
    }

    #[test]
    fn outcomes_are_those_of_the_vectors() {
        let cases: Vec<serde_json::Value> = serde_json::from_str(VECTORS).unwrap();
        assert!(!cases.is_empty());
        for case in &cases {
            let outcome = outcome(&case["outcome"]);
            assert_eq!(outcome.class().as_str(), case["class"].as_str().unwrap(), "{case}");
            let hint_s = outcome.hint_s(case["outcome"]["retry_after"].as_str(), NOW, CAP_S);
            assert_eq!(hint_s, case["hint_s"].as_u64(), "{case}");
        }
    }

    #[test]
    fn connection_errors_timeouts_and_overload_are_the_urls_fault() {
        for status in [408, 410, 425, 429, 502, 503, 504] {
            assert_eq!(Outcome::Status(status).fault(), Fault::Url, "{status}");
        }
        for status in [500, 501, 505, 599, 600, 199, 404, 301] {
            assert_eq!(Outcome::Status(status).fault(), Fault::Message, "{status}");
        }
        assert_eq!(Outcome::fault_of(Some(503)), Fault::Url);
        assert_eq!(Outcome::fault_of(Some(500)), Fault::Message);
        assert_eq!(Outcome::fault_of(None), Fault::Url, "there was no whole answer");
        for kind in FailureKind::ALL {
            let own = matches!(
                kind,
                FailureKind::BadRequest | FailureKind::Stopped | FailureKind::OwnLimit
            );
            let expected = if own { Fault::Message } else { Fault::Url };
            assert_eq!(Outcome::Failure(kind).fault(), expected, "{kind:?}");
        }
    }

    #[test]
    fn a_date_is_the_time_until_it_and_a_past_one_is_now() {
        let in_90_s = "Fri, 15 Jan 2027 08:01:30 GMT";
        assert_eq!(retry_after(in_90_s, NOW, CAP_S), Some(90));
        assert_eq!(
            retry_after(in_90_s, Timestamp::from_micros(NOW.micros() + 1), CAP_S),
            Some(90)
        );
        assert_eq!(retry_after("Thu, 01 Jan 1970 00:00:00 GMT", NOW, CAP_S), Some(0));
        assert_eq!(retry_after("Fri, 31 Dec 9999 23:59:59 GMT", NOW, CAP_S), Some(CAP_S));
    }

    #[test]
    fn numbers_are_rounded_up_and_clamped_and_anything_else_says_nothing() {
        let check =
            |header: &str, expected: Option<u64>| assert_eq!(retry_after(header, NOW, CAP_S), expected, "{header:?}");
        check(" 7\t", Some(7));
        check("0.000", Some(0));
        check("0.0001", Some(1));
        check("99999999999999999999999999", Some(CAP_S));
        for garbage in [
            "", " ", ".", "5.", ".5", "1.2.3", "1e12", "+5", "-1", "5s", "５", "NaN", "tomorrow",
        ] {
            check(garbage, None);
        }
    }

    #[test]
    fn words_and_classes_read_back() {
        for class in OutcomeClass::ALL {
            assert_eq!(OutcomeClass::from_name(class.as_str()), Some(class));
        }
        for kind in FailureKind::ALL {
            assert_eq!(FailureKind::from_name(kind.as_str()), Some(kind));
        }
        assert_eq!(OutcomeClass::from_name("Delivered"), None);
    }

    proptest! {
        #[test]
        fn any_header_is_survived_and_its_answer_is_capped(header in ".{0,60}", cap_s in 0_u64..10_000) {
            if let Some(seconds) = retry_after(&header, NOW, cap_s) {
                prop_assert!(seconds <= cap_s);
            }
        }

        #[test]
        fn every_status_has_a_class(status in any::<u16>()) {
            let delivered = Outcome::Status(status).class() == OutcomeClass::Delivered;
            prop_assert_eq!(delivered, (200..300).contains(&status));
        }
    }
}
