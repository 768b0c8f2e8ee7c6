//! What a queue's arguments and the broker's policies do to order and to what waits (docs/protocols.md 23).

mod drops;
mod looks;
mod matching;
mod pattern;
mod versions;

pub use drops::{Fate, Measure, bounds, burying_bounds, fate};
pub use looks::Looks;
pub use matching::{Declared, Policies, Policy, Told, Value};
pub use pattern::{Pattern, may_match};
pub use versions::{BelowZero, CHECKED, Facts, Version, delivery_limit, facts, first_default_limit};

use super::naming::QueueType;

/// A delivery limit below this counts as small: a queue that is looked at or reconnected would drop.
pub const DELIVERY_LIMIT_MIN: i64 = 1_000_000;

/// What follows for a delivery queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// Order cannot be kept: it is not delivered.
    pub breaks_order: Option<String>,
    /// What waits would be destroyed: nothing more may be published to it.
    pub destroys: Option<String>,
    /// Should be mended.
    pub warnings: Vec<String>,
}

/// Judges one queue.
#[must_use]
pub fn judge(
    name: &str,
    queue_type: QueueType,
    arguments: Option<&[(String, String)]>,
    policies: &Policies,
) -> Judgement {
    let mut judgement = Judgement::default();
    for policy in policies.in_force(name, queue_type) {
        let kind = if policy.operator { "operator policy" } else { "policy" };
        judge_keys(&mut judgement, queue_type, &policy.definition, &|key| {
            format!("{kind} {:?} sets {key}", policy.name)
        });
    }
    if let Some(arguments) = arguments {
        let keys: Vec<(String, String)> = arguments
            .iter()
            .map(|(key, value)| (key.trim_start_matches("x-").to_owned(), value.clone()))
            .collect();
        judge_keys(&mut judgement, queue_type, &keys, &|key| format!("argument x-{key}"));
        judge_arguments(&mut judgement, queue_type, &keys);
    }
    judgement
}

/// What a policy of an exchange does to what nothing there takes.
pub const ALTERNATE: &str = "alternate-exchange";

/// Why nothing may be published through our exchange: what no queue takes goes elsewhere in place of coming back, so
/// that a publisher takes a queue for one that exists.
#[must_use]
pub fn judge_exchange(name: &str, policies: &Policies) -> Option<String> {
    let policy = policies.of_exchange(name)?;
    let (key, value) = policy.definition.iter().find(|(key, _)| key == ALTERNATE)?;
    Some(format!(
        "policy {:?} sets {key} {value:?} on exchange {name:?}: what no queue takes goes there, and never comes back to \
         its publisher",
        policy.name
    ))
}

/// Whether any of these policies could have a say in order or in what waits, whichever queue it is for.
#[must_use]
pub fn could_harm(policies: &Policies) -> bool {
    policies.any_sets(could_harm_by)
}

/// Whether a policy that sets this key could.
#[must_use]
pub fn could_harm_by(key: &str) -> bool {
    HARMFUL.contains(&key) || key.starts_with("delayed-retry")
}

/// The keys that [`judge`] heeds.
const HARMFUL: [&str; 6] = [
    "max-priority",
    "expires",
    "message-ttl",
    "max-length",
    "max-length-bytes",
    "delivery-limit",
];

fn judge_keys(
    judgement: &mut Judgement,
    queue_type: QueueType,
    keys: &[(String, String)],
    origin: &dyn Fn(&str) -> String,
) {
    let value = |wanted: &str| {
        keys.iter()
            .find(|(key, _)| key == wanted)
            .map(|(_, value)| value.as_str())
    };
    for (key, _) in keys {
        match key.as_str() {
            "max-priority" => note(
                &mut judgement.breaks_order,
                format!("{}: messages overtake each other by priority", origin(key)),
            ),
            key if key.starts_with("delayed-retry") && value(key) != Some("disabled") => {
                note(
                    &mut judgement.breaks_order,
                    format!("{}: later messages overtake a returned one", origin(key)),
                );
            }
            "expires" => note(
                &mut judgement.destroys,
                format!("{}: the queue is deleted with what waits in it", origin(key)),
            ),
            "message-ttl" => note(
                &mut judgement.destroys,
                format!("{}: what waits longer is dropped", origin(key)),
            ),
            "max-length" | "max-length-bytes" if value("overflow") != Some("reject-publish") => {
                note(
                    &mut judgement.destroys,
                    format!(
                        "{} without overflow reject-publish: the oldest are dropped",
                        origin(key)
                    ),
                );
            }
            "delivery-limit" if queue_type == QueueType::Quorum => {
                judge_limit(judgement, value("delivery-limit"), origin);
            }
            _ => {}
        }
    }
}

fn judge_limit(judgement: &mut Judgement, limit: Option<&str>, origin: &dyn Fn(&str) -> String) {
    let limit = limit.and_then(|text| text.parse::<i64>().ok());
    if limit.is_none_or(|limit| limit < DELIVERY_LIMIT_MIN) {
        let text = limit.map_or_else(|| "unreadable".to_owned(), |limit| limit.to_string());
        note(
            &mut judgement.breaks_order,
            format!(
                "{} to {text}: it must be at least {DELIVERY_LIMIT_MIN}",
                origin("delivery-limit")
            ),
        );
    }
}

fn judge_arguments(judgement: &mut Judgement, queue_type: QueueType, keys: &[(String, String)]) {
    let has = |wanted: &str| keys.iter().any(|(key, _)| key == wanted);
    if queue_type == QueueType::Quorum && !has("delivery-limit") {
        note(
            &mut judgement.breaks_order,
            "no x-delivery-limit: a returned message would go to the tail".to_owned(),
        );
    }
    if !has("single-active-consumer") {
        judgement
            .warnings
            .push("no x-single-active-consumer: the lease alone keeps a second worker away".to_owned());
    }
}

fn note(slot: &mut Option<String>, text: String) {
    slot.get_or_insert(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(priority: i64, operator: bool, key: &str, value: &str) -> Policy {
        Policy {
            name: format!("p{priority}"),
            pattern: Pattern::parse("^redrive\\."),
            matches_unknown: true,
            apply_to: "queues".to_owned(),
            priority,
            operator,
            definition: vec![(key.to_owned(), value.to_owned())],
        }
    }

    fn ours() -> Vec<(String, String)> {
        vec![("x-single-active-consumer".into(), "true".into())]
    }

    fn judged(policies: &[Policy]) -> Judgement {
        let policies = Policies::new(policies.to_vec());
        judge("redrive.a", QueueType::Classic, Some(&ours()), &policies)
    }

    #[test]
    fn a_queue_as_we_declare_it_is_fine() {
        assert_eq!(judged(&[]), Judgement::default());
    }

    #[test]
    fn only_the_highest_policy_counts_and_the_operators_beside_it() {
        let low = policy(1, false, "expires", "1000");
        let high = policy(2, false, "max-priority", "5");
        let judgement = judged(&[low.clone(), high]);
        assert!(judgement.breaks_order.is_some_and(|why| why.contains("p2")));
        assert_eq!(judgement.destroys, None);
        let operators = policy(0, true, "message-ttl", "5");
        assert!(
            judged(&[low, operators])
                .destroys
                .is_some_and(|why| why.contains("expires"))
        );
    }

    #[test]
    fn a_bounded_queue_destroys_unless_it_refuses_publishes() {
        let mut bounded = policy(1, false, "max-length", "10");
        assert!(judged(std::slice::from_ref(&bounded)).destroys.is_some());
        bounded.definition.push(("overflow".into(), "reject-publish".into()));
        assert_eq!(judged(&[bounded]).destroys, None);
    }

    #[test]
    fn a_quorum_queue_needs_a_large_positive_limit() {
        let limited = |value: &str| {
            let mut arguments = ours();
            arguments.push(("x-delivery-limit".into(), value.into()));
            judge("redrive.a", QueueType::Quorum, Some(&arguments), &Policies::default()).breaks_order
        };
        assert_eq!(limited("2000000000"), None);
        assert!(limited("20").is_some());
        assert!(limited("-1").is_some());
        assert!(
            judge("redrive.a", QueueType::Quorum, Some(&ours()), &Policies::default())
                .breaks_order
                .is_some()
        );
    }

    #[test]
    fn a_policy_for_other_names_does_nothing() {
        let mut other = policy(1, false, "expires", "1000");
        other.pattern = Pattern::parse("^other");
        assert_eq!(judged(&[other.clone()]), Judgement::default());
        other.pattern = None;
        assert!(
            judged(&[other]).destroys.is_some(),
            "a pattern that is not understood is taken to match"
        );
    }

    #[test]
    fn an_alternate_of_our_exchange_is_told_with_the_policy_that_sets_it() {
        let mut alternate = policy(1, false, ALTERNATE, "elsewhere");
        let judged = |policy: &Policy| judge_exchange("redrive.0a1b2c3d", &Policies::new(vec![policy.clone()]));
        assert_eq!(judged(&alternate), None, "it is for queues");
        alternate.apply_to = "all".to_owned();
        let why = judged(&alternate).unwrap();
        assert!(why.contains("p1") && why.contains("elsewhere"), "{why}");
        alternate.definition[0].0 = "federation-upstream".to_owned();
        assert_eq!(judged(&alternate), None);
    }
}
