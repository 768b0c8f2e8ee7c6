//! Which policies count for a queue, and what argument, policy and operator policy come to together, as the broker
//! has it: of numbers the smallest counts; of everything else the argument, then the policy, then the operator's.
//!
//! Matched by ourselves, so that no look at the broker is needed per queue. One ordinary policy wins
//! (the highest priority that matches), and one operator policy is merged with it.

use regex::Regex;

use crate::domain::naming::QueueType;

/// A policy, reduced to what is asked here.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Its name.
    pub name: String,
    /// Over names; `None`: the pattern is not understood, and is taken to match.
    pub pattern: Option<Regex>,
    /// `queues`, `classic_queues`, `quorum_queues`, `exchanges`, `all`, …
    pub apply_to: String,
    /// The highest that matches wins.
    pub priority: i64,
    /// Merged with the winner.
    pub operator: bool,
    /// Keys and values as text.
    pub definition: Vec<(String, String)>,
}

/// A queue as it was declared.
#[derive(Clone, Copy, Debug)]
pub struct Declared<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its type.
    pub queue_type: QueueType,
    /// Its arguments, as text.
    pub arguments: &'a [(String, String)],
}

/// The policies of a vhost.
#[derive(Clone, Debug, Default)]
pub struct Policies(Vec<Policy>);

impl Policies {
    /// Of all that the vhost has.
    #[must_use]
    pub const fn new(policies: Vec<Policy>) -> Self {
        Self(policies)
    }

    /// Those that count for a queue: the ordinary one and the operator's, as far as there are any.
    pub fn in_force(&self, name: &str, queue_type: QueueType) -> impl Iterator<Item = &Policy> {
        [false, true]
            .into_iter()
            .filter_map(move |operator| self.winner(name, queue_type, operator))
    }

    fn winner(&self, name: &str, queue_type: QueueType, operator: bool) -> Option<&Policy> {
        let matches = |policy: &&Policy| {
            policy.operator == operator
                && applies(&policy.apply_to, queue_type)
                && policy.pattern.as_ref().is_none_or(|regex| regex.is_match(name))
        };
        self.0.iter().filter(matches).max_by_key(|policy| policy.priority)
    }

    /// The number that counts: the smallest of argument and policies.
    #[must_use]
    pub fn smallest(&self, queue: &Declared<'_>, key: &str) -> Option<i64> {
        self.values(queue, key).filter_map(|value| value.parse().ok()).min()
    }

    /// Every number that is set, by argument or policies.
    #[must_use]
    pub fn numbers(&self, queue: &Declared<'_>, key: &str) -> Vec<i64> {
        self.values(queue, key).filter_map(|value| value.parse().ok()).collect()
    }

    /// Whether any of them sets a key like this, for whichever queue.
    pub fn any_sets(&self, key: impl Fn(&str) -> bool) -> bool {
        self.0
            .iter()
            .any(|policy| policy.definition.iter().any(|(name, _)| key(name)))
    }

    /// The text that counts: the argument's, else the policy's, else the operator policy's.
    #[must_use]
    pub fn text<'a>(&'a self, queue: &Declared<'a>, key: &str) -> Option<&'a str> {
        self.values(queue, key).next()
    }

    fn values<'a>(&'a self, queue: &Declared<'a>, key: &str) -> impl Iterator<Item = &'a str> {
        let argument = queue
            .arguments
            .iter()
            .find(|(name, _)| name.trim_start_matches("x-") == key);
        let set = self
            .in_force(queue.name, queue.queue_type)
            .filter_map(move |policy| policy.definition.iter().find(|(name, _)| name == key));
        argument.into_iter().chain(set).map(|(_, value)| value.as_str())
    }
}

/// Whether a policy of that `apply-to` is for queues of `queue_type`.
fn applies(apply_to: &str, queue_type: QueueType) -> bool {
    match apply_to {
        "queues" | "all" | "" => true,
        "classic_queues" => queue_type == QueueType::Classic,
        "quorum_queues" => queue_type == QueueType::Quorum,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(priority: i64, operator: bool, definition: &[(&str, &str)]) -> Policy {
        Policy {
            name: format!("p{priority}"),
            pattern: Regex::new("^work").ok(),
            apply_to: "queues".to_owned(),
            priority,
            operator,
            definition: definition
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
        }
    }

    fn arguments(all: &[(&str, &str)]) -> Vec<(String, String)> {
        all.iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    fn queue<'a>(name: &'a str, arguments: &'a [(String, String)]) -> Declared<'a> {
        Declared {
            name,
            queue_type: QueueType::Classic,
            arguments,
        }
    }

    #[test]
    fn of_numbers_the_smallest_of_argument_and_policies_counts() {
        let policies = Policies::new(vec![
            policy(1, false, &[("message-ttl", "7")]),
            policy(9, true, &[("message-ttl", "5"), ("expires", "3")]),
        ]);
        let own = arguments(&[("x-message-ttl", "6")]);
        assert_eq!(policies.smallest(&queue("work", &own), "message-ttl"), Some(5));
        assert_eq!(policies.smallest(&queue("work", &own), "expires"), Some(3));
        assert_eq!(policies.smallest(&queue("other", &own), "message-ttl"), Some(6));
        assert_eq!(policies.smallest(&queue("other", &[]), "message-ttl"), None);
    }

    #[test]
    fn of_texts_the_arguments_counts_before_the_policys() {
        let key = "dead-letter-exchange";
        let policies = Policies::new(vec![
            policy(1, false, &[(key, "low")]),
            policy(2, false, &[(key, "high")]),
            policy(0, true, &[(key, "operators")]),
        ]);
        let own = arguments(&[("x-dead-letter-exchange", "own")]);
        assert_eq!(policies.text(&queue("work", &own), key), Some("own"));
        assert_eq!(policies.text(&queue("work", &[]), key), Some("high"));
        assert_eq!(policies.text(&queue("other", &[]), key), None);
    }

    #[test]
    fn a_policy_is_for_the_types_that_it_names() {
        let mut quorum = policy(1, false, &[("expires", "5")]);
        quorum.apply_to = "quorum_queues".to_owned();
        let policies = Policies::new(vec![quorum]);
        assert_eq!(policies.in_force("work", QueueType::Classic).count(), 0);
        assert_eq!(policies.in_force("work", QueueType::Quorum).count(), 1);
        assert!(applies("all", QueueType::Classic) && !applies("exchanges", QueueType::Classic));
    }
}
