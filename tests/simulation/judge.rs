//! Was every promise kept? By the checker that judges runs on real servers, and by what only a simulated broker tells.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use redrive::internals::domain::message::Message;
use tokio::time::Instant;

use super::broker::{Model, Step};
use super::plan::{Fault, Manner, Plan, Planned};
use super::receivers::Receivers;
use super::world::Ledger;
use super::{events, orders, policies};
use crate::checker::{self, History, Left, Publish, Violation};

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq)]
pub enum Wrong {
    Broken(Violation),
    /// The broker was told to forget what nobody got.
    SettledInVain {
        queue: String,
        id: String,
    },
    /// A confirmed message was in a queue that was deleted.
    Destroyed {
        queue: String,
        id: String,
    },
    /// It was sent while a person had paused its queue.
    SentWhilePaused {
        queue: String,
    },
    /// It failed more often than its schedule allows.
    TooManyAttempts {
        id: String,
        failed: u32,
        allowed: u32,
    },
    /// A person could not look at a queue although nothing kept its lease.
    NotGiven {
        queue: String,
        why: String,
    },
    /// Something that should come does not.
    Stuck(String),
    /// A promise about runs.
    Orders(orders::Broken),
    /// A promise about policies.
    Policies(policies::Broken),
    /// A promise about events.
    Events(events::Broken),
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// How many of its faults may have something done twice.
pub fn repeats(plan: &Plan) -> usize {
    let repeats = |planned: &&Planned| {
        matches!(
            planned.fault,
            Fault::Kill { .. }
                | Fault::Restart { .. }
                | Fault::Cut { .. }
                | Fault::CloseChannel { .. }
                | Fault::BrokerStops { .. }
                | Fault::CutPublish { .. }
                | Fault::CutLetter { .. }
                | Fault::Isolated { .. }
                | Fault::StoreAway { .. }
                | Fault::StoreSilent { .. }
                | Fault::FailsOver { .. }
        )
    };
    plan.faults.iter().filter(repeats).count()
}

/// Whether somebody may be without his store for a while.
pub fn store_fails(plan: &Plan) -> bool {
    plan.faults.iter().any(|planned| {
        matches!(
            planned.fault,
            Fault::StoreAway { .. }
                | Fault::StoreSilent { .. }
                | Fault::StoreSlow { .. }
                | Fault::Isolated { .. }
                | Fault::FailsOver { .. }
        )
    })
}

/// What of a plan explains repeats.
pub struct Faults {
    repeats: u32,
    store: bool,
    prefetch: u32,
    /// Attempts that a message has until it waits for a person or dies, and how often a person gave all of them anew.
    attempts: (u32, u32),
    /// Queues of each URL: a success in one gives the heads of the others all their attempts anew, where they failed by the
    /// URL's fault.
    paths: HashMap<&'static str, u32>,
    /// The receiver that has something against some messages always answers.
    broken_answers: bool,
    /// The broker itself moves what came back too often to the dead letters.
    limited: bool,
}

impl Faults {
    pub fn of(plan: &Plan, redelivered: u32) -> Self {
        let mut paths: HashMap<&'static str, u32> = HashMap::new();
        for stream in &plan.streams {
            *paths.entry(stream.manner.path()).or_default() += 1;
        }
        let fails_over = |planned: &&Planned| matches!(planned.fault, Fault::FailsOver { .. });
        let failovers = plan.faults.iter().filter(fails_over).count();
        Self {
            repeats: u32::try_from(repeats(plan)).unwrap_or(u32::MAX),
            store: store_fails(plan),
            prefetch: u32::from(plan.prefetch),
            // A store that forgets what it answered last forgets failures.
            attempts: (
                plan.attempts_allowed(),
                redelivered + u32::try_from(failovers).unwrap_or(u32::MAX),
            ),
            paths,
            broken_answers: !plan.faults.iter().any(|planned| {
                matches!(
                    planned.fault,
                    Fault::ReceiverDown {
                        manner: Manner::Broken,
                        ..
                    }
                )
            }),
            limited: plan.delivery_limit.is_some(),
        }
    }
}

/// What the broker does with a message, judged when it does it.
pub fn step(ledger: &mut Ledger, receivers: &Receivers, step: Step, (queue, id, body): (&str, &str, &str)) {
    let is_notification = ledger
        .published
        .iter()
        .any(|(of, known, ..)| of == queue && known == id);
    if !is_notification || body.is_empty() {
        return;
    }
    match step {
        Step::Destroyed => ledger.wrong.push(Wrong::Destroyed {
            queue: queue.to_owned(),
            id: id.to_owned(),
        }),
        Step::Settled if !receivers.has_succeeded(id) && !ledger.dead.contains(id) => {
            ledger.wrong.push(Wrong::SettledInVain {
                queue: queue.to_owned(),
                id: id.to_owned(),
            });
        }
        Step::Stored | Step::Settled | Step::Dead => {}
    }
}

/// The notification that a dead letter is of.
pub fn dead_id(message: &Message) -> String {
    message.message_id.clone().unwrap_or_default()
}

/// Everything that is wrong at the end.
pub fn judge(
    ledger: &Mutex<Ledger>,
    model: &Model,
    receivers: &Receivers,
    faults: &Faults,
    pauses: &[(String, Instant, Instant)],
) -> Vec<Wrong> {
    let ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
    let mut history = History {
        seen: receivers.seen(),
        faults_of_all: faults.repeats,
        prefetch: faults.prefetch,
        ..History::default()
    };
    for (queue, id, body, is_confirmed) in &ledger.published {
        let outcome = if *is_confirmed {
            Publish::Confirmed
        } else {
            Publish::Unknown
        };
        history.publish(queue, id, body, outcome);
        if let Some(published) = history.published.last_mut() {
            published.publishes = ledger.stored.get(id).copied().unwrap_or(1);
        }
    }
    for letter in model.dead() {
        history.left.insert(dead_id(&letter), Left::Dead);
    }
    for (queue, messages) in model.waiting() {
        // An end mark has no body.
        let waiting: Vec<&Message> = messages.iter().filter(|message| !message.body.is_empty()).collect();
        for message in &waiting {
            history.left.insert(dead_id(message), Left::Waiting);
        }
        history.depth.insert(queue, waiting.len() as u64);
    }
    let mut wrong = ledger.wrong.clone();
    // A request that a killed daemon left behind may still end, after the broker gave up its message.
    let is_of_the_limit = |found: &Violation| matches!(found, Violation::OutOfOrder { unsettled, .. } if faults.limited && ledger.dead.contains(unsettled));
    let found = checker::violations(&history).into_iter();
    wrong.extend(found.filter(|found| !is_of_the_limit(found)).map(Wrong::Broken));
    wrong.extend(too_many_attempts(&ledger, &history, faults));
    if !faults.store {
        wrong.extend(sent_while_paused(receivers, pauses));
    }
    wrong
}

fn sent_while_paused(receivers: &Receivers, pauses: &[(String, Instant, Instant)]) -> Vec<Wrong> {
    let began = receivers.began();
    let sent = pauses
        .iter()
        .filter(|(queue, from, until)| began.iter().any(|(of, at)| of == queue && at > from && at < until));
    sent.map(|(queue, ..)| Wrong::SentWhilePaused { queue: queue.clone() })
        .collect()
}

/// Only where no success in another queue of the URL gives a head all its attempts anew.
fn too_many_attempts(ledger: &Ledger, history: &History, faults: &Faults) -> Vec<Wrong> {
    let mut failed: HashMap<&str, u32> = HashMap::new();
    for seen in &history.seen {
        if seen.status.is_none_or(|status| status >= 300) {
            *failed.entry(&seen.id).or_default() += 1;
        }
    }
    let (attempts, redelivered) = faults.attempts;
    let mut wrong = Vec::new();
    for (_, id, ..) in &ledger.published {
        let path = id.split('-').nth(1).unwrap_or_default();
        let is_its_own = path == Manner::Broken.path() && faults.broken_answers;
        let is_alone = faults.paths.get(path) == Some(&1);
        let failed = failed.get(id.as_str()).copied().unwrap_or(0);
        // What its publisher sent again, unsure of the first, is a message of its own.
        let copies = ledger.stored.get(id).copied().unwrap_or(1);
        let allowed = attempts * (1 + redelivered) * copies + faults.repeats;
        if (is_alone || is_its_own) && failed > allowed {
            wrong.push(Wrong::TooManyAttempts {
                id: id.clone(),
                failed,
                allowed,
            });
        }
    }
    wrong
}
