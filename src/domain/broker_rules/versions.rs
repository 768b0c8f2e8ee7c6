//! What differs between the versions of RabbitMQ, as far as anything here depends on it. It stands here and nowhere
//! else; each row was measured on the versions that it names.

use super::matching::{Declared, Policies};
use super::{DELIVERY_LIMIT_MIN, QueueType};

/// The oldest and the newest series that the rules were checked against.
pub const CHECKED: (Version, Version) = (Version { major: 3, minor: 10 }, Version { major: 4, minor: 3 });

/// A series of the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// 3 of 3.10.8.
    pub major: u32,
    /// 10 of 3.10.8.
    pub minor: u32,
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl Version {
    /// Reads `3.10.8`; what follows the first two numbers is left out.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split('.').map_while(|part| part.parse::<u32>().ok());
        Some(Self {
            major: numbers.next()?,
            minor: numbers.next()?,
        })
    }

    /// Whether the rules were checked against it.
    #[must_use]
    pub fn is_checked(self) -> bool {
        (CHECKED.0..=CHECKED.1).contains(&self)
    }
}

/// What a delivery limit below zero means on a quorum queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BelowZero {
    /// The first return drops a message: measured on 3.10.8.
    DropsAtOnce,
    /// There is no limit: measured on 4.0.5 and 4.3.6.
    NoLimit,
}

/// What is so from a version on, until the next row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// From this version on.
    pub from: Version,
    /// Returns that a message of a quorum queue outlives where neither an argument nor a policy limits them.
    pub default_limit: Option<u64>,
    /// What a delivery limit below zero means.
    pub below_zero: BelowZero,
    /// Whether the management API counts the messages of a single queue exactly, in hand and ready.
    pub counts_one_exactly: bool,
}

/// By version, ascending. What holds below the first row was not measured: the first row is taken.
const TABLE: [Facts; 3] = [
    Facts {
        from: Version { major: 3, minor: 10 },
        default_limit: None,
        below_zero: BelowZero::DropsAtOnce,
        counts_one_exactly: false,
    },
    Facts {
        from: Version { major: 3, minor: 13 },
        default_limit: None,
        below_zero: BelowZero::DropsAtOnce,
        counts_one_exactly: true,
    },
    Facts {
        from: Version { major: 4, minor: 0 },
        default_limit: Some(20),
        below_zero: BelowZero::NoLimit,
        counts_one_exactly: true,
    },
];

/// Of a broker whose version is not known: whatever costs more.
const UNKNOWN: Facts = Facts {
    from: CHECKED.0,
    default_limit: Some(20),
    below_zero: BelowZero::DropsAtOnce,
    counts_one_exactly: false,
};

/// What is so on this version; `None`: it is not known.
#[must_use]
pub fn facts(version: Option<Version>) -> Facts {
    let Some(version) = version else { return UNKNOWN };
    let reached = TABLE.iter().rev().find(|facts| facts.from <= version);
    *reached.unwrap_or(&TABLE[0])
}

/// From which version on a message is dropped after how many returns where nothing limits them.
#[must_use]
pub fn first_default_limit() -> Option<(Version, u64)> {
    TABLE.iter().find_map(|facts| Some((facts.from, facts.default_limit?)))
}

/// How many returns a message of this queue outlives; one more drops it, or makes it a dead letter. `None`: so many
/// that nobody has to count.
#[must_use]
pub fn delivery_limit(queue: &Declared<'_>, policies: &Policies, version: Option<Version>) -> Option<u64> {
    if queue.queue_type != QueueType::Quorum {
        return None;
    }
    let facts = facts(version);
    let set = policies.numbers(queue, "delivery-limit");
    let limit = match facts.below_zero {
        BelowZero::DropsAtOnce => set.iter().min().map(|limit| u64::try_from(*limit).unwrap_or(0)),
        BelowZero::NoLimit => set.iter().filter_map(|limit| u64::try_from(*limit).ok()).min(),
    };
    let limit = if set.is_empty() { facts.default_limit } else { limit };
    limit.filter(|limit| *limit < DELIVERY_LIMIT_MIN.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::broker_rules::{Pattern, Policy};

    fn version(text: &str) -> Option<Version> {
        Version::parse(text)
    }

    #[test]
    fn a_version_is_its_first_two_numbers() {
        assert_eq!(version("3.10.8"), Some(Version { major: 3, minor: 10 }));
        assert_eq!(version("4.3.0-rc.1"), Some(Version { major: 4, minor: 3 }));
        assert_eq!((version("odd"), version("4"), version("")), (None, None, None));
    }

    #[test]
    fn the_versions_between_the_oldest_and_the_newest_measured_are_checked() {
        for (text, checked) in [
            ("3.9.29", false),
            ("3.10.8", true),
            ("3.13.7", true),
            ("4.3.6", true),
            ("4.4.0", false),
        ] {
            assert_eq!(version(text).unwrap().is_checked(), checked, "{text}");
        }
    }

    #[test]
    fn the_table_ascends() {
        assert!(TABLE.iter().is_sorted_by_key(|facts| facts.from));
        assert_eq!(facts(version("3.8.0")), TABLE[0]);
        assert_eq!(facts(version("9.9.9")), TABLE[TABLE.len() - 1]);
    }

    /// A row of the table in docs/operations.md. 3.13 was the last series before 4.0, so a row never reaches into the next major.
    fn row(facts: &Facts, next: Option<&Facts>) -> String {
        let Version { major, minor } = facts.from;
        let versions = match next.map(|next| next.from) {
            None => format!("{major}.{minor} and later"),
            Some(next) if next.major == major && next.minor > minor + 1 => {
                format!("{major}.{minor} to {major}.{}", next.minor - 1)
            }
            Some(_) => format!("{major}.{minor}"),
        };
        let limit = facts
            .default_limit
            .map_or_else(|| "no limit".to_owned(), |limit| format!("{limit} returns"));
        let below_zero = match facts.below_zero {
            BelowZero::DropsAtOnce => "the first return drops a message",
            BelowZero::NoLimit => "no limit",
        };
        let counts = if facts.counts_one_exactly {
            "by the management API"
        } else {
            "by a look at the queue only"
        };
        format!("| {versions} | {limit} | {below_zero} | {counts} |")
    }

    #[test]
    fn the_table_of_the_page_says_the_same() {
        let mut lines = include_str!("../../../docs/operations.md").lines().map(str::trim);
        let tested = lines.find(|line| line.starts_with("- **Versions**")).unwrap();
        for Version { major, minor } in [CHECKED.0, CHECKED.1] {
            let version = format!("{major}.{minor}");
            assert!(
                tested.split([' ', ',']).any(|word| word == version),
                "{version}: {tested}"
            );
        }
        let table = lines.skip_while(|line| !line.starts_with("|---"));
        let rows: Vec<_> = table.skip(1).take_while(|line| line.starts_with('|')).collect();
        let nexts = TABLE.iter().skip(1).map(Some).chain([None]);
        let expected: Vec<_> = TABLE.iter().zip(nexts).map(|(facts, next)| row(facts, next)).collect();
        assert_eq!(rows, expected);
    }

    fn limit(queue_type: QueueType, argument: Option<&str>, policy: Option<&str>, on: &str) -> Option<u64> {
        let arguments: Vec<_> = argument
            .map(|limit| ("x-delivery-limit".to_owned(), limit.to_owned()))
            .into_iter()
            .collect();
        let policies = policy.map(|limit| Policy {
            name: "limits".to_owned(),
            pattern: Pattern::parse(""),
            matches_unknown: true,
            apply_to: "queues".to_owned(),
            priority: 0,
            operator: false,
            definition: vec![("delivery-limit".to_owned(), limit.to_owned())],
        });
        let declared = Declared {
            name: "q",
            queue_type,
            arguments: &arguments,
        };
        delivery_limit(&declared, &Policies::new(policies.into_iter().collect()), version(on))
    }

    #[test]
    fn the_limit_follows_from_version_argument_and_policy() {
        use QueueType::{Classic, Quorum};
        for (queue_type, argument, policy, on, expected) in [
            (Quorum, None, None, "3.10.8", None),
            (Quorum, None, None, "3.13.7", None),
            (Quorum, None, None, "4.0.5", Some(20)),
            (Quorum, None, None, "4.3.6", Some(20)),
            (Quorum, None, None, "unknown", Some(20)),
            (Quorum, Some("3"), None, "3.10.8", Some(3)),
            (Quorum, Some("3"), Some("2"), "4.3.6", Some(2)),
            (Quorum, None, Some("50"), "4.0.5", Some(50)),
            (Quorum, Some("2000000000"), None, "4.0.5", None),
            (Quorum, Some("-1"), None, "3.10.8", Some(0)),
            (Quorum, Some("-1"), None, "4.0.5", None),
            (Quorum, Some("-1"), Some("5"), "4.0.5", Some(5)),
            (Quorum, Some("-1"), None, "unknown", Some(0)),
            (Classic, Some("3"), Some("2"), "4.3.6", None),
        ] {
            assert_eq!(
                limit(queue_type, argument, policy, on),
                expected,
                "{queue_type:?} {argument:?} {policy:?} on {on}"
            );
        }
    }
}
