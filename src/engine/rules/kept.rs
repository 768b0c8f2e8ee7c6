//! The policy set that daemons keep in the store, and what a publisher asks it before it publishes or makes a queue:
//! no publish calls the broker over HTTP (docs/protocols.md 9, 33).
//!
//! It is read from the store as publishes come, at most once a second and by one of them; the others go on with what
//! was read before. What it comes to is worked out once for each queue and set.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use super::{Rules, matched};
use crate::ambient::{self, Clock, HashMap};
use crate::broker::BrokerPolicy;
use crate::domain::broker_rules::{Policies, Policy, could_harm, judge, judge_exchange};
use crate::domain::id::QueueName;
use crate::domain::naming::{Naming, delivery_arguments};
use crate::store::{StoreError, StoreHandle};

/// A set that is older says nothing of the policies as they are now.
const GOOD: Duration = Duration::from_secs(15);
/// Between two readings of it.
const READ: Duration = Duration::from_secs(1);
/// How long the store may take; a publisher goes on without it.
const PATIENCE: Duration = Duration::from_secs(2);
/// Queues whose judgement is remembered, at most.
const JUDGED_MAX: usize = 50_000;

/// A policy as it is written: name, pattern, what it applies to, priority, whether it is an operator's, definition,
/// and whether it is taken to match where its pattern is not understood.
type Written = (String, String, String, i64, bool, Vec<(String, String)>, bool);

/// A policy set as publishers judge by it.
#[derive(Debug)]
pub(in crate::engine) struct Kept {
    document: String,
    /// Where a pattern is not understood the worst is taken: for queues that do not exist, of which the broker says
    /// nothing.
    policies: Policies,
    /// For those that exist: of the others the daemons are told by the broker, and unbind them.
    understood: Policies,
    could_harm: bool,
    /// Why nothing may be published at all.
    exchange: OnceLock<Option<String>>,
    judged: Mutex<HashMap<QueueName, Option<String>>>,
}

/// What was read last.
#[derive(Debug, Default)]
pub(super) struct LastKept {
    /// The set, its age, and when (uptime) it was that old.
    set: Option<(Arc<Kept>, Duration, Duration)>,
    /// Why the last reading brought none.
    problem: Option<String>,
    /// When the last reading ended (uptime).
    read_at: Option<Duration>,
    /// It was said that the policies are not known.
    was_said: bool,
}

impl LastKept {
    fn is_due(&self, now: Duration) -> bool {
        self.read_at.is_none_or(|at| now.saturating_sub(at) >= READ)
    }

    /// Takes a set in that is no older than the one that is there.
    fn take(&mut self, document: String, age: Duration, now: Duration) -> Result<(), String> {
        let known = self.set.as_ref();
        if known.is_some_and(|(_, age_then, at)| age_then.saturating_add(now.saturating_sub(*at)) < age) {
            return Ok(());
        }
        let kept = match known {
            Some((kept, _, _)) if kept.document == document => Arc::clone(kept),
            Some(_) | None => Arc::new(Kept::read(document)?),
        };
        self.set = Some((kept, age, now));
        self.problem = None;
        Ok(())
    }

    fn at(&self, now: Duration) -> Result<Arc<Kept>, String> {
        let Some((kept, age, at)) = &self.set else {
            return Err(self.problem.clone().unwrap_or_else(|| "nothing was read".to_owned()));
        };
        let age = age.saturating_add(now.saturating_sub(*at));
        if age > GOOD {
            return Err(format!("no daemon has read them for {} s", age.as_secs()));
        }
        Ok(Arc::clone(kept))
    }
}

impl Kept {
    fn read(document: String) -> Result<Self, String> {
        let all: Vec<Written> =
            serde_json::from_str(&document).map_err(|error| format!("they are not understood: {error}"))?;
        let one = |(name, pattern, applies_to, priority, operator, definition, matches_unknown): Written| {
            let policy = BrokerPolicy {
                name,
                pattern,
                applies_to,
                priority,
                operator,
                definition,
            };
            Policy {
                matches_unknown,
                ..matched(&policy)
            }
        };
        let policies = Policies::new(all.into_iter().map(one).collect());
        Ok(Self {
            document,
            understood: policies.understood(),
            could_harm: could_harm(&policies),
            policies,
            exchange: OnceLock::new(),
            judged: Mutex::default(),
        })
    }

    /// Why nothing may be published through our exchange.
    pub(super) fn exchange(&self, naming: &Naming) -> Option<&str> {
        let judge = || judge_exchange(&naming.exchange(), &self.policies);
        self.exchange.get_or_init(judge).as_deref()
    }

    /// Why dead letters would not last.
    pub(super) fn letters(&self, naming: &Naming) -> Option<String> {
        let queue = naming.dead_letter_queue();
        let judged = judge(&queue, naming.queue_type, None, &self.understood);
        judged.destroys.or_else(|| self.exchange(naming).map(str::to_owned))
    }

    /// Why a queue takes no publishes, whether it exists or not.
    fn refuses(&self, queue: &QueueName, naming: &Naming) -> Option<String> {
        if let Some(why) = self.exchange(naming) {
            return Some(why.to_owned());
        }
        if !self.could_harm {
            return None;
        }
        let mut known = self.judged.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(judged) = known.get(queue) {
            return judged.clone();
        }
        let judged = judge(queue.as_str(), naming.queue_type, None, &self.understood).destroys;
        if known.len() >= JUDGED_MAX {
            known.clear();
        }
        known.insert(queue.clone(), judged.clone());
        judged
    }

    /// Why a queue that does not exist must not be made: its messages would be destroyed or reordered.
    fn forbids(&self, queue: &QueueName, naming: &Naming) -> Option<String> {
        let arguments: Vec<(String, String)> =
            delivery_arguments(naming.queue_type, &naming.exchange(), &naming.dead_letter_queue())
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value.shown()))
                .collect();
        let judged = judge(queue.as_str(), naming.queue_type, Some(&arguments), &self.policies);
        judged.destroys.or(judged.breaks_order)
    }
}

/// As it is kept in the store; `policies` are `read` as they are judged here.
pub(super) fn written(read: &[BrokerPolicy], policies: &Policies) -> String {
    let one = |(policy, judged): (&BrokerPolicy, &Policy)| -> Written {
        let policy = policy.clone();
        (
            policy.name,
            policy.pattern,
            policy.applies_to,
            policy.priority,
            policy.operator,
            policy.definition,
            judged.matches_unknown,
        )
    };
    let all: Vec<Written> = read.iter().zip(policies.all()).map(one).collect();
    serde_json::json!(all).to_string()
}

impl Rules {
    /// The policies as a daemon read them within the last 15 s, or why they are not known.
    pub(in crate::engine) async fn kept(&self, store: &StoreHandle, clock: &Clock) -> Result<Arc<Kept>, String> {
        let (is_due, was_read) = self.with_kept(|last| (last.is_due(clock.uptime()), last.read_at.is_some()));
        if is_due {
            let turn = if was_read {
                self.reading.try_lock().ok()
            } else {
                Some(self.reading.lock().await)
            };
            if turn.is_some() && self.with_kept(|last| last.is_due(clock.uptime())) {
                self.read_kept(store, clock).await;
            }
        }
        self.with_kept(|last| last.at(clock.uptime()))
    }

    async fn read_kept(&self, store: &StoreHandle, clock: &Clock) {
        let (store, asked) = (Arc::clone(store), clock.uptime());
        let reading = ambient::spawn("kept policies", async move { store.broker_policies_kept().await });
        let found = match ambient::timeout(PATIENCE, reading).await {
            Ok(Ok(Ok(kept))) => kept.ok_or_else(|| "no daemon has read them yet".to_owned()),
            Ok(Ok(Err(error))) => Err(of_store(&error)),
            Ok(Err(_)) | Err(_) => Err("the store does not answer in time".to_owned()),
        };
        self.with_kept(|last| {
            let taken = found.and_then(|kept| last.take(kept.document, kept.age, asked));
            last.problem = taken.err();
            last.read_at = Some(clock.uptime());
        });
    }

    /// This process is the daemon that keeps them: what it publishes itself is judged by them from now on.
    pub(super) fn kept_here(&self, document: String, now: Duration) {
        self.with_kept(|last| {
            if let Err(error) = last.take(document, Duration::ZERO, now) {
                tracing::error!(error = ?error, "what is written of policies is not read again");
            }
            last.read_at.get_or_insert(now);
        });
    }

    fn with_kept<T>(&self, with: impl FnOnce(&mut LastKept) -> T) -> T {
        with(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Why a publish was not judged by policies: it is done all the same, and this is said.
    pub(in crate::engine) async fn unknown(&self, store: &StoreHandle, clock: &Clock) -> Option<String> {
        let problem = self.kept(store, clock).await.err();
        let was_said = self.with_kept(|last| std::mem::replace(&mut last.was_said, problem.is_some()));
        let problem = problem?;
        if !was_said {
            tracing::warn!(why = ?problem, "published without a look at the broker's policies, which are not known");
        }
        Some(format!(
            "published without a look at the broker's policies, which are not known ({problem}): one that destroys \
             what waits, or reorders it, would not have been noticed"
        ))
    }

    /// Why nothing may be published to a queue at present, as far as policies say it. What no daemon knows stops nobody.
    pub(in crate::engine) async fn refuses(
        &self,
        queue: &QueueName,
        naming: &Naming,
        store: &StoreHandle,
        clock: &Clock,
    ) -> Option<String> {
        self.kept(store, clock).await.ok()?.refuses(queue, naming)
    }

    /// Why a delivery queue that does not exist must not be made.
    pub(in crate::engine) async fn forbids(
        &self,
        queue: &QueueName,
        naming: &Naming,
        store: &StoreHandle,
        clock: &Clock,
    ) -> Option<String> {
        self.kept(store, clock).await.ok()?.forbids(queue, naming)
    }
}

fn of_store(error: &StoreError) -> String {
    crate::engine::error::chain(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::naming::QueueType;

    fn policy(pattern: &str, key: &str) -> BrokerPolicy {
        BrokerPolicy {
            name: "p".to_owned(),
            pattern: pattern.to_owned(),
            applies_to: "all".to_owned(),
            priority: -3,
            operator: false,
            definition: vec![(key.to_owned(), "1000".to_owned())],
        }
    }

    fn document(policies: &[BrokerPolicy]) -> String {
        written(policies, &crate::engine::rules::compiled(policies))
    }

    fn naming() -> Naming {
        Naming {
            prefix: "redrive.".to_owned(),
            vhost: "v".to_owned(),
            url_hash_key: "k".to_owned(),
            queue_type: QueueType::Classic,
        }
    }

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn what_is_written_is_read_again_and_judged() {
        let queue = QueueName::parse("redrive.a.0").unwrap();
        let judged = |policies: &[BrokerPolicy]| {
            let kept = Kept::read(document(policies)).unwrap();
            let refuses = kept.refuses(&queue, &naming());
            assert_eq!(kept.refuses(&queue, &naming()), refuses, "the second time too");
            (refuses.is_some(), kept.forbids(&queue, &naming()).is_some())
        };
        assert_eq!(judged(&[]), (false, false));
        assert_eq!(judged(&[policy("^redrive", "expires")]), (true, true));
        assert_eq!(judged(&[policy("^redrive", "max-priority")]), (false, true));
        assert_eq!(judged(&[policy("^redrive", "alternate-exchange")]), (true, false));
        assert_eq!(
            judged(&[policy("(?<=x)y", "expires")]),
            (false, true),
            "it is not understood"
        );
        assert!(Kept::read("{}".to_owned()).is_err() && Kept::read(String::new()).is_err());
    }

    #[test]
    fn a_set_is_good_for_15_seconds_and_gives_way_to_a_younger_one_only() {
        let mut last = LastKept::default();
        assert!(last.at(seconds(100)).is_err() && last.is_due(seconds(100)));
        last.take(document(&[]), seconds(5), seconds(100)).unwrap();
        assert!(last.at(seconds(110)).is_ok() && last.at(seconds(111)).is_err());
        let other = document(&[policy("^redrive", "expires")]);
        last.take(other.clone(), seconds(7), seconds(101)).unwrap();
        assert_ne!(last.at(seconds(101)).unwrap().document, other, "it is older");
        last.take(other.clone(), seconds(6), seconds(101)).unwrap();
        assert_eq!(last.at(seconds(101)).unwrap().document, other);
        assert!(last.take("{}".to_owned(), seconds(0), seconds(102)).is_err());
        assert!(last.at(seconds(103)).is_ok(), "what cannot be read replaces nothing");
    }
}
