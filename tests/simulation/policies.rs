//! Retry policies that a person sets, unsets and takes back while messages wait under them; and what a person may rely on:
//! what waits goes by what was saved last.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redrive::internals::ambient;
use redrive::internals::domain::policy::{PolicyOwner, RetryPolicy};
use redrive::internals::domain::time::Timestamp;
use redrive::internals::domain::url::EndpointUrl;
use redrive::internals::engine::policies::{PolicyAct, PolicyEdit, read};
use redrive::internals::engine::{Access, Command, Engine, EngineError};
use redrive::internals::store::{PolicyScope, PolicyVersion, WaitingHead};

use super::plan::{Dice, Manner};
use super::store::Database;
use super::trace::Trace;

/// What is saved applies to what waits so long after it, at the latest.
const APPLIES: Duration = Duration::from_secs(3);
/// Between two looks at what waits.
const LOOK: Duration = Duration::from_secs(1);
/// How often a person tries again what was refused.
const TRIES: u32 = 100;

/// Short and long schedules, those that park and those that give up.
const DOCUMENTS: [&str; 6] = [
    r#"{"retries_with_no_delay":0,"minimum_delay_retries":2,"minimum_delay":3,"maximum_delay":6,"maximum_delay_retries":1,"backoff_retries":1,"on_exhausted":"dead_letter"}"#,
    r#"{"retries_with_no_delay":0,"minimum_delay_retries":2,"minimum_delay":3,"maximum_delay":6,"maximum_delay_retries":1,"backoff_retries":1,"on_exhausted":"park"}"#,
    r#"{"retries_with_no_delay":1,"minimum_delay_retries":2,"minimum_delay":8,"maximum_delay":20,"maximum_delay_retries":9,"backoff_retries":2,"on_exhausted":"park"}"#,
    r#"{"retries_with_no_delay":0,"minimum_delay_retries":1,"minimum_delay":15,"maximum_delay":40,"maximum_delay_retries":6,"backoff_retries":2,"on_exhausted":"dead_letter"}"#,
    r#"{"retries_with_no_delay":0,"minimum_delay_retries":0,"minimum_delay":2,"maximum_delay":2,"maximum_delay_retries":0,"backoff_retries":0,"on_exhausted":"dead_letter"}"#,
    r#"{"retries_with_no_delay":2,"minimum_delay_retries":9,"minimum_delay":1,"maximum_delay":2,"maximum_delay_retries":9,"backoff_retries":0,"on_exhausted":"park"}"#,
];

/// One change of the policy of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    pub after_ms: u64,
    pub manner: Manner,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// One of [`DOCUMENTS`].
    Set(usize),
    Unset,
    /// As it was before the last change.
    Undo,
}

pub fn draw(dice: &mut Dice) -> Vec<Change> {
    let count = 1 + dice.below(5);
    let changes = (0..count).map(|_| Change {
        after_ms: 500 + dice.below(15_000),
        manner: Manner::ALL[dice.index(Manner::ALL.len())],
        what: match dice.below(8) {
            0 => What::Unset,
            1 | 2 => What::Undo,
            _ => What::Set(dice.index(DOCUMENTS.len())),
        },
    });
    changes.collect()
}

/// A promise about policies that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// It waits longer than any delay of the policy that was saved last.
    WaitsTooLong { queue: String, for_s: u64, maximum_s: u32 },
    /// Its schedule is that of another policy.
    OtherSchedule { queue: String, allows: u32, saved: u32 },
    /// It waits for a person though its schedule has attempts left.
    ParkedTooSoon { queue: String, failures: u32, allows: u32 },
    /// What was taken back is not what was there before.
    NotRestored { url: String },
    /// A change was refused for ever.
    NotChanged { url: String, why: String },
}

/// Whoever changes policies, and looks whether they hold.
#[derive(Clone)]
pub struct Person {
    pub engine: Engine,
    pub database: Database,
    pub trace: Trace,
    pub default: RetryPolicy,
    pub wrong: Arc<Mutex<Vec<Broken>>>,
}

fn scope(url: &EndpointUrl) -> PolicyScope {
    PolicyScope {
        event_type: None,
        url: Some(url.clone()),
    }
}

impl Person {
    fn wrong(&self, wrong: Broken) {
        self.trace.note(&format!("WRONG: {wrong:?}"));
        let mut known = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() < 10 {
            known.push(wrong);
        }
    }

    pub async fn change(&self, change: Change, url: EndpointUrl) {
        ambient::sleep(Duration::from_millis(change.after_ms)).await;
        let before = self.database.policies_of(&scope(&url));
        let act = match change.what {
            What::Set(at) => PolicyAct::Set(DOCUMENTS[at].to_owned()),
            What::Unset => PolicyAct::Unset,
            What::Undo => PolicyAct::Restore(None),
        };
        let mut last = String::new();
        for _ in 0..TRIES {
            match self.act(&url, act.clone()).await {
                Ok(()) => {
                    self.trace.note(&format!("{:?} of {}", change.what, url.as_str()));
                    if change.what == What::Undo {
                        self.judge_undo(&url, &before);
                    }
                    return;
                }
                // There is nothing to unset, or to take back.
                Err(EngineError::NotFound { .. }) => return,
                Err(error) => last = error.to_string(),
            }
            ambient::sleep(Duration::from_millis(500)).await;
        }
        let url = url.as_str().to_owned();
        self.wrong(Broken::NotChanged { url, why: last });
    }

    async fn act(&self, url: &EndpointUrl, act: PolicyAct) -> Result<(), EngineError> {
        let grant = Access::Operator.grant("operator", None).expect("a grant");
        let edit = PolicyEdit {
            scope: scope(url),
            act,
            expected: None,
        };
        let plan = self.engine.plan(Command::Policy(edit)).await?;
        self.engine.execute(&plan, &grant).await.map(drop)
    }

    fn judge_undo(&self, url: &EndpointUrl, before: &[PolicyVersion]) {
        let after = self.database.policies_of(&scope(url));
        let former = before.iter().rev().nth(1).and_then(|version| version.document.clone());
        // Somebody else may have saved one in between.
        let is_next = after.len() == before.len() + 1;
        if is_next && after.last().map(|version| version.document.clone()) != Some(former) {
            let url = url.as_str().to_owned();
            self.wrong(Broken::NotRestored { url });
        }
    }

    /// Looks every second, for as long as the world goes on.
    pub async fn watch(self) {
        loop {
            ambient::sleep(LOOK).await;
            let now = self.trace.now();
            for waiting in self.database.waiting() {
                self.judge(&waiting, now);
            }
        }
    }

    fn judge(&self, waiting: &WaitingHead, now: Timestamp) {
        let versions = self.database.policies_of(&scope(&waiting.url));
        let Some(newest) = versions.last() else { return };
        let probes = waiting.endpoint.as_ref().is_some_and(|endpoint| endpoint.probing);
        let is_young = |at: Timestamp| now.since(at) < APPLIES;
        if probes || is_young(newest.at) || is_young(waiting.head.last_failed_at) {
            return;
        }
        let saved = newest.document.as_deref();
        let saved = saved.and_then(|text| read(text, PolicyOwner::Subscription).expect("a policy"));
        let policy = saved.as_ref().unwrap_or(&self.default);
        let (queue, head) = (waiting.queue.as_str().to_owned(), &waiting.head);
        let allows = policy.schedule_with(waiting.own).attempts();
        // What waits behind the probe of its URL is judged when it is tried.
        if waiting.endpoint.is_none() && head.attempts_allowed != allows {
            let (allows, saved) = (head.attempts_allowed, allows);
            return self.wrong(Broken::OtherSchedule { queue, allows, saved });
        }
        let failures = waiting
            .endpoint
            .as_ref()
            .map_or(head.failures, |endpoint| endpoint.attempts.max(head.failures));
        match waiting.next_attempt_at() {
            Some(at) if at.since(now) > Duration::from_secs(u64::from(policy.maximum_delay_s) + 1) => {
                let (for_s, maximum_s) = (at.since(now).as_secs(), policy.maximum_delay_s);
                self.wrong(Broken::WaitsTooLong {
                    queue,
                    for_s,
                    maximum_s,
                });
            }
            None if failures < allows => self.wrong(Broken::ParkedTooSoon {
                queue,
                failures,
                allows,
            }),
            Some(_) | None => {}
        }
    }
}
