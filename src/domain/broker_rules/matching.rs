//! Which policies count for a queue, and what argument, policy and operator policy come to together, as the broker
//! has it: of numbers the smallest counts; of everything else the argument, then the policy, then the operator's.
//!
//! Matched by ourselves, so that no look at the broker is needed per queue. One ordinary policy wins
//! (the highest priority that matches), and one operator policy is merged with it. Where a pattern is not understood
//! the broker's own word counts, as far as it was asked.

use std::collections::HashMap;

use super::pattern::Pattern;
use crate::domain::naming::QueueType;

/// A policy, reduced to what is asked here.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Its name.
    pub name: String,
    /// Over names; `None`: the pattern is not understood.
    pub pattern: Option<Pattern>,
    /// Whether one that is not understood is taken to match what the broker said nothing of.
    pub matches_unknown: bool,
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

/// A value in force, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// As it is set.
    pub text: String,
    /// Which argument or policy sets it.
    pub origin: String,
}

impl Value {
    /// The number that it is.
    #[must_use]
    pub fn number(&self) -> Option<i64> {
        self.text.parse().ok()
    }
}

/// The names of the ordinary policies that are in force, as the broker says, by what they are in force for. It tells
/// nobody cheaply which operator policies are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Of queues.
    pub queues: HashMap<String, Option<String>>,
    /// Of exchanges.
    pub exchanges: HashMap<String, Option<String>>,
}

/// The policies of a vhost.
#[derive(Clone, Debug, Default)]
pub struct Policies {
    all: Vec<Policy>,
    told: Told,
}

impl Policies {
    /// Of all that the vhost has.
    #[must_use]
    pub fn new(policies: Vec<Policy>) -> Self {
        Self {
            all: policies,
            told: Told::default(),
        }
    }

    /// With what the broker says: it counts where a pattern is not understood. One that is in force for nothing that
    /// was asked for is taken not to match others.
    #[must_use]
    pub fn with_told(mut self, told: Told) -> Self {
        let was_asked = told != Told::default();
        for policy in self.all.iter_mut().filter(|policy| was_asked && !policy.operator) {
            let mut in_force = told.queues.values().chain(told.exchanges.values()).flatten();
            policy.matches_unknown = in_force.any(|name| *name == policy.name);
        }
        self.told = told;
        self
    }

    /// Those whose pattern is not understood.
    pub fn odd(&self) -> impl Iterator<Item = &Policy> {
        self.all.iter().filter(|policy| policy.pattern.is_none())
    }

    /// Without those.
    #[must_use]
    pub fn understood(&self) -> Self {
        let all = self.all.iter().filter(|policy| policy.pattern.is_some());
        Self::new(all.cloned().collect())
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> &[Policy] {
        &self.all
    }

    /// Those that count for a queue: the ordinary one and the operator's, as far as there are any.
    pub fn in_force(&self, name: &str, queue_type: QueueType) -> impl Iterator<Item = &Policy> {
        let told = self.told.queues.get(name);
        [false, true].into_iter().filter_map(move |operator| {
            let applies = |policy: &&Policy| policy.operator == operator && applies(&policy.apply_to, queue_type);
            highest(self.all.iter().filter(applies), name, told)
        })
    }

    /// The one that counts for an exchange: operators have none.
    #[must_use]
    pub fn of_exchange(&self, name: &str) -> Option<&Policy> {
        let applies =
            |policy: &&Policy| !policy.operator && matches!(policy.apply_to.as_str(), "exchanges" | "all" | "");
        let told = self.told.exchanges.get(name);
        highest(self.all.iter().filter(applies), name, told)
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
        self.all
            .iter()
            .any(|policy| policy.definition.iter().any(|(name, _)| key(name)))
    }

    /// The text that counts: the argument's, else the policy's, else the operator policy's.
    #[must_use]
    pub fn text<'a>(&'a self, queue: &Declared<'a>, key: &str) -> Option<&'a str> {
        self.values(queue, key).next()
    }

    /// What counts, with where it comes from: of numbers the smallest, of everything else what [`Self::text`] is.
    #[must_use]
    pub fn value(&self, queue: &Declared<'_>, key: &str) -> Option<Value> {
        let argument = queue
            .arguments
            .iter()
            .find(|(name, _)| name.strip_prefix("x-") == Some(key))
            .map(|(name, value)| Value {
                text: value.clone(),
                origin: format!("argument {name}"),
            });
        let by_policies = self.in_force(queue.name, queue.queue_type).filter_map(|policy| {
            let (_, value) = policy.definition.iter().find(|(name, _)| name == key)?;
            let word = if policy.operator { "operator policy" } else { "policy" };
            Some(Value {
                text: value.clone(),
                origin: format!("{word} {:?}", policy.name),
            })
        });
        argument
            .into_iter()
            .chain(by_policies)
            .reduce(|first, second| match (first.number(), second.number()) {
                (Some(a), Some(b)) if b < a => second,
                _ => first,
            })
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

fn highest<'a>(
    policies: impl Iterator<Item = &'a Policy>,
    name: &str,
    told: Option<&Option<String>>,
) -> Option<&'a Policy> {
    let matches = |policy: &&Policy| match (&policy.pattern, told) {
        (Some(pattern), _) => pattern.is_match(name),
        (None, Some(in_force)) if !policy.operator => in_force.as_ref() == Some(&policy.name),
        (None, _) => policy.matches_unknown,
    };
    policies.filter(matches).max_by_key(|policy| policy.priority)
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
            pattern: Pattern::parse("^work"),
            matches_unknown: true,
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

    #[test]
    fn where_a_pattern_is_not_understood_the_brokers_word_counts() {
        let mut odd = policy(1, false, &[("expires", "5")]);
        odd.pattern = Pattern::parse("^(w)(?<=w)ork");
        let policies = Policies::new(vec![odd]);
        let counts = |policies: &Policies, name: &str| policies.in_force(name, QueueType::Classic).count() == 1;
        assert!(counts(&policies, "work"), "nobody was asked: the worst");
        let told = |of: &str| Told {
            queues: HashMap::from([("work".to_owned(), Some(of.to_owned())), ("other".to_owned(), None)]),
            ..Told::default()
        };
        let not = policies.clone().with_told(told("p2"));
        assert!(!counts(&not, "work") && !counts(&not, "other") && !counts(&not, "new"));
        let some = policies.with_told(told("p1"));
        assert!(counts(&some, "work") && !counts(&some, "other") && counts(&some, "new"));
        assert!(!counts(&some.understood(), "work"));
    }

    #[test]
    fn an_exchange_has_the_policies_that_are_for_exchanges() {
        let mut alternate = policy(1, false, &[("alternate-exchange", "x")]);
        let of = |policy: &Policy| Policies::new(vec![policy.clone()]).of_exchange("work").is_some();
        assert!(!of(&alternate), "it is for queues");
        for apply_to in ["exchanges", "all"] {
            alternate.apply_to = apply_to.to_owned();
            assert!(of(&alternate), "{apply_to}");
        }
        alternate.pattern = Pattern::parse("^other");
        assert!(!of(&alternate));
    }
}
