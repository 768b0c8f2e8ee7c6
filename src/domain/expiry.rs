//! When a queue with a lifetime goes, as far as anybody can tell, and what can be done about it.
//!
//! A broker says since when a queue is idle, and forgets it whenever somebody asks the queue itself how much is in
//! it, or publishes to it; neither prolongs its life. So the earliest time that was ever told counts, as long as
//! nobody was seen to use it and it did not outlive what follows from that.

use std::time::Duration;

use super::id::QueueName;
use super::time::Timestamp;

/// How much longer than its lifetime a queue may be seen: statistics lag, and brokers sweep.
const LAG: Duration = Duration::from_secs(20);

/// What one look told of a queue's use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Looked {
    /// When.
    pub at: Timestamp,
    /// Whether somebody consumes it.
    pub in_use: bool,
    /// Since when it is idle, as its broker says.
    pub idle_since: Option<Timestamp>,
    /// Whether that is the very time that its life counts from.
    pub exact: bool,
    /// How long it lives unused.
    pub lifetime: Option<Duration>,
}

/// Since when nobody uses a queue, from what was known `before` and one more look; `None`: it is used.
#[must_use]
pub fn unused_since(before: Option<Timestamp>, looked: &Looked) -> Option<Timestamp> {
    if looked.in_use {
        return None;
    }
    let told = looked.idle_since.unwrap_or(looked.at);
    let Some(before) = before.filter(|_| !looked.exact) else {
        return Some(told);
    };
    // It is there although its time is over: somebody used it unseen (a get, a declare).
    let outlived = looked
        .lifetime
        .is_some_and(|lifetime| before.plus(lifetime).plus(LAG) < looked.at);
    Some(if outlived { told } else { before.min(told) })
}

/// What begins the time of a queue anew.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Extends {
    /// A declare without effect otherwise.
    Redeclare,
    /// A policy for this queue alone, with a longer lifetime.
    Policy,
    /// Nothing, and why.
    No(String),
}

/// What is known of a queue that is to live longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Living {
    /// Whether it is a quorum queue, whose time no declare begins anew.
    pub quorum: bool,
    /// The lifetime that it was declared with.
    pub argument: Option<Duration>,
    /// The lifetime that counts: the shortest of argument and policies.
    pub lifetime: Option<Duration>,
    /// Whether an operator's policy says a lifetime.
    pub by_operator: bool,
    /// Consumers.
    pub consumers: u64,
}

/// How the time of a queue can begin anew, or last for `wanted`.
#[must_use]
pub fn extends(living: &Living, wanted: Option<Duration>) -> Extends {
    let Some(lifetime) = living.lifetime else {
        return Extends::No("it has no lifetime: nothing deletes it".to_owned());
    };
    if living.consumers > 0 {
        return Extends::No("somebody consumes it: its time begins anew when they leave".to_owned());
    }
    let Some(wanted) = wanted else {
        return if living.quorum {
            Extends::No(renews_not(living))
        } else {
            Extends::Redeclare
        };
    };
    if living.by_operator {
        return Extends::No(
            "an operator policy of the broker says its lifetime, and no other policy is above it".into(),
        );
    }
    match living.argument {
        Some(argument) if wanted > argument => Extends::No(format!(
            "its lifetime of {} s was fixed when it was declared, and a policy can only shorten it{}",
            argument.as_secs_f64(),
            if living.quorum {
                ""
            } else {
                "; without a length its time begins anew"
            }
        )),
        _ if wanted <= lifetime && !living.quorum => Extends::Redeclare,
        _ => Extends::Policy,
    }
}

fn renews_not(living: &Living) -> String {
    let otherwise = if living.argument.is_some() {
        "save its messages instead"
    } else {
        "say how long it shall live, or save its messages"
    };
    format!(
        "the time of a quorum queue begins anew only when somebody consumes it, and each look costs a delivery: {otherwise}"
    )
}

/// What the names of policies begin with that keep one queue alive.
pub const POLICY_PREFIX: &str = "redrive.extend.";

/// The name of the policy that keeps one queue alive.
#[must_use]
pub fn policy_name(queue: &QueueName) -> String {
    format!("{POLICY_PREFIX}{}", queue.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_seconds(seconds)
    }

    fn looked(at_s: i64, idle_s: Option<i64>) -> Looked {
        Looked {
            at: at(at_s),
            in_use: false,
            idle_since: idle_s.map(at),
            exact: false,
            lifetime: Some(Duration::from_secs(100)),
        }
    }

    #[test]
    fn the_earliest_time_counts_however_often_the_queue_is_woken() {
        assert_eq!(unused_since(None, &looked(50, Some(40))), Some(at(40)));
        assert_eq!(unused_since(Some(at(40)), &looked(60, Some(58))), Some(at(40)));
        assert_eq!(unused_since(Some(at(40)), &looked(60, None)), Some(at(40)));
        assert_eq!(unused_since(Some(at(40)), &looked(60, Some(30))), Some(at(30)));
        assert_eq!(unused_since(None, &looked(60, None)), Some(at(60)));
    }

    #[test]
    fn a_use_ends_it_and_an_unseen_one_is_inferred() {
        let used = Looked {
            in_use: true,
            ..looked(60, None)
        };
        assert_eq!(unused_since(Some(at(40)), &used), None);
        assert_eq!(
            unused_since(Some(at(40)), &looked(150, Some(149))),
            Some(at(40)),
            "statistics lag"
        );
        assert_eq!(unused_since(Some(at(40)), &looked(170, Some(149))), Some(at(149)));
        let exact = Looked {
            exact: true,
            ..looked(60, Some(55))
        };
        assert_eq!(unused_since(Some(at(40)), &exact), Some(at(55)));
    }

    #[test]
    fn what_cannot_be_extended_says_why() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        let classic = Living {
            quorum: false,
            argument: seconds(60),
            lifetime: seconds(60),
            by_operator: false,
            consumers: 0,
        };
        let says = |living: &Living, wanted, word: &str| {
            let found = extends(living, wanted);
            assert!(matches!(&found, Extends::No(why) if why.contains(word)), "{found:?}");
        };
        assert_eq!(extends(&classic, None), Extends::Redeclare);
        says(&classic, seconds(90), "fixed when it was declared");
        let quorum = Living {
            quorum: true,
            ..classic
        };
        says(&quorum, None, "quorum");
        let by_policy = Living {
            argument: None,
            ..quorum
        };
        assert_eq!(extends(&by_policy, seconds(90)), Extends::Policy);
        says(&by_policy, None, "say how long");
        says(
            &Living {
                by_operator: true,
                ..by_policy
            },
            seconds(90),
            "operator",
        );
        says(
            &Living {
                consumers: 1,
                ..classic
            },
            None,
            "consumes",
        );
        says(
            &Living {
                lifetime: None,
                ..classic
            },
            None,
            "no lifetime",
        );
    }
}
