//! What was published and what arrived: the judge of order, loss and duplicates.
//!
//! It looks from outside the engine: an id is noted before it is published, and again by the receiver
//! that gets it. What it keeps is bounded by what is on its way, so that a demo can run for days.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::receivers::Behaviour;
use crate::domain::id::{NotificationId, QueueName};

/// Delivered ids remembered per queue, to tell a duplicate.
const RECENT_MAX: usize = 256;
/// Notifications of one endpoint that may be on their way, or passed over, before its traffic pauses.
const OPEN_MAX: usize = 300;

/// Shared by traffic and receivers.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger(Arc<Mutex<BTreeMap<QueueName, Account>>>);

/// One delivery queue.
#[derive(Debug)]
struct Account {
    endpoint: Behaviour,
    /// Published, not yet accepted, in the order of publishing.
    open: VecDeque<NotificationId>,
    /// A later one was sent before these: only dead letters may be among them.
    passed: Vec<NotificationId>,
    /// Accepted lately.
    recent: VecDeque<NotificationId>,
    /// Never confirmed: may be missing.
    unconfirmed: HashSet<NotificationId>,
    published: u64,
    delivered: u64,
    duplicates: u64,
    violation: Option<String>,
}

/// Numbers of one endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) published: u64,
    pub(super) delivered: u64,
    pub(super) waiting: u64,
    pub(super) dead: u64,
}

/// What was found in queues and dead letters at the end, by id.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) waiting: HashSet<String>,
    pub(super) dead: HashSet<String>,
}

/// The judgement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Judgement {
    pub(super) queues: usize,
    pub(super) duplicates: u64,
    pub(super) lost: Vec<String>,
    /// The first violation of each queue.
    pub(super) violations: Vec<String>,
}

impl Ledger {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<QueueName, Account>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether more may be published to the endpoint: what it holds up is bounded.
    pub(super) fn has_room(&self, endpoint: Behaviour) -> bool {
        let held: usize = self
            .lock()
            .values()
            .filter(|account| account.endpoint == endpoint)
            .map(|account| account.open.len() + account.passed.len())
            .sum();
        held < OPEN_MAX
    }

    /// Before it is published: it may arrive before the publisher has its confirm.
    pub(super) fn publishing(&self, queue: &QueueName, endpoint: Behaviour, id: &NotificationId) {
        let mut accounts = self.lock();
        let account = accounts.entry(queue.clone()).or_insert_with(|| Account::new(endpoint));
        account.open.push_back(id.clone());
        account.published += 1;
    }

    /// It was not confirmed.
    pub(super) fn not_confirmed(&self, queue: &QueueName, id: &NotificationId) {
        if let Some(account) = self.lock().get_mut(queue) {
            account.unconfirmed.insert(id.clone());
        }
    }

    /// A receiver has a request, and accepts it or not. Requests of others are not judged.
    pub(super) fn arrived(&self, queue: &str, id: &str, accepted: bool) {
        let (Ok(queue), Ok(id)) = (QueueName::parse(queue), NotificationId::parse(id)) else {
            return;
        };
        if let Some(account) = self.lock().get_mut(&queue) {
            account.arrived(&queue, id, accepted);
        }
    }

    /// Whether endpoints that recover have everything.
    pub(super) fn is_settled(&self) -> bool {
        self.lock()
            .values()
            .all(|account| !account.endpoint.recovers() || account.open.is_empty())
    }

    /// The queues published to.
    pub(super) fn queues(&self) -> Vec<QueueName> {
        self.lock().keys().cloned().collect()
    }

    /// The endpoint of a queue.
    pub(super) fn endpoint_of(&self, queue: &QueueName) -> Option<Behaviour> {
        self.lock().get(queue).map(|account| account.endpoint)
    }

    /// The numbers of an endpoint; what is passed over counts as dead while it goes on.
    pub(super) fn tally(&self, endpoint: Behaviour) -> Tally {
        let mut tally = Tally::default();
        for account in self.lock().values().filter(|account| account.endpoint == endpoint) {
            tally.published += account.published;
            tally.delivered += account.delivered;
            tally.waiting += count(account.open.len());
            tally.dead += count(account.passed.len());
        }
        tally
    }

    /// At the end: everything that was not accepted is waiting, dead, or lost.
    pub(super) fn judge(&self, found: &Found) -> Judgement {
        let accounts = self.lock();
        let mut judgement = Judgement {
            queues: accounts.len(),
            ..Judgement::default()
        };
        for (queue, account) in accounts.iter() {
            judgement.duplicates += account.duplicates;
            account.judge(queue, found, &mut judgement);
        }
        judgement
    }

    /// At the end: the numbers as they were found.
    pub(super) fn final_tally(&self, endpoint: Behaviour, found: &Found) -> Tally {
        let mut tally = self.tally(endpoint);
        (tally.waiting, tally.dead) = (0, 0);
        for account in self.lock().values().filter(|account| account.endpoint == endpoint) {
            for id in account.open.iter().chain(&account.passed) {
                if found.dead.contains(id.as_str()) {
                    tally.dead += 1;
                } else if found.waiting.contains(id.as_str()) {
                    tally.waiting += 1;
                }
            }
        }
        tally
    }
}

impl Account {
    fn new(endpoint: Behaviour) -> Self {
        Self {
            endpoint,
            open: VecDeque::new(),
            passed: Vec::new(),
            recent: VecDeque::new(),
            unconfirmed: HashSet::new(),
            published: 0,
            delivered: 0,
            duplicates: 0,
            violation: None,
        }
    }

    fn arrived(&mut self, queue: &QueueName, id: NotificationId, accepted: bool) {
        if let Some(position) = self.open.iter().position(|open| *open == id) {
            self.passed.extend(self.open.drain(..position));
            if accepted {
                self.open.pop_front();
                self.accepted(id);
            }
        } else if self.recent.contains(&id) {
            self.duplicates += 1;
        } else if let Some(position) = self.passed.iter().position(|passed| *passed == id) {
            let violation = || format!("{}: {} came after a later one", queue.as_str(), id.as_str());
            self.violation.get_or_insert_with(violation);
            if accepted {
                self.passed.remove(position);
                self.accepted(id);
            }
        }
    }

    fn accepted(&mut self, id: NotificationId) {
        self.delivered += 1;
        self.recent.push_back(id);
        if self.recent.len() > RECENT_MAX {
            self.recent.pop_front();
        }
    }

    fn judge(&self, queue: &QueueName, found: &Found, judgement: &mut Judgement) {
        let queue = queue.as_str();
        let mut violation = self.violation.clone();
        for id in self.passed.iter().filter(|id| !found.dead.contains(id.as_str())) {
            violation.get_or_insert_with(|| format!("{queue}: {} was passed over", id.as_str()));
        }
        judgement.violations.extend(violation);
        let lost = self.open.iter().chain(&self.passed).filter(|id| {
            let kept = found.dead.contains(id.as_str()) || found.waiting.contains(id.as_str());
            !kept && !self.unconfirmed.contains(*id)
        });
        judgement
            .lost
            .extend(lost.map(|id| format!("{queue}: {}", id.as_str())));
    }
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Publishes a to e, lets `arrivals` come (a capital is refused), and judges.
    fn check(arrivals: &str, waiting: &str, dead: &str) -> Judgement {
        let ledger = Ledger::default();
        let queue = QueueName::parse("q").unwrap();
        let ids = |text: &str| text.chars().map(|id| id.to_string()).collect();
        for id in ["a", "b", "c", "d", "e"] {
            let id = NotificationId::parse(id).unwrap();
            ledger.publishing(&queue, Behaviour::Healthy, &id);
        }
        for arrival in arrivals.chars() {
            let id = arrival.to_ascii_lowercase().to_string();
            ledger.arrived("q", &id, arrival.is_ascii_lowercase());
        }
        ledger.judge(&Found {
            waiting: ids(waiting),
            dead: ids(dead),
        })
    }

    fn numbers(judgement: &Judgement) -> (usize, usize, u64) {
        (judgement.violations.len(), judgement.lost.len(), judgement.duplicates)
    }

    #[test]
    fn a_history_that_kept_its_promises_passes() {
        for (arrivals, waiting, dead) in [
            ("abcde", "", ""),
            ("AAabBBbc", "de", ""),
            ("abBde", "", "c"),
            ("", "abcde", ""),
        ] {
            let (violations, lost, _) = numbers(&check(arrivals, waiting, dead));
            assert_eq!((violations, lost), (0, 0), "{arrivals} {waiting} {dead}");
        }
    }

    #[test]
    fn each_broken_promise_is_found() {
        assert_eq!(
            numbers(&check("abde", "", "")),
            (1, 1, 0),
            "c is lost, and d was sent without it"
        );
        assert_eq!(numbers(&check("acbde", "", "")), (1, 0, 0), "b came after c");
        assert_eq!(numbers(&check("aCbcde", "", "b")), (1, 0, 0), "b was tried after c");
        assert_eq!(numbers(&check("abde", "c", "")), (1, 0, 0), "c still waits behind d");
        assert_eq!(numbers(&check("abcd", "", "")), (0, 1, 0), "e is nowhere");
        assert_eq!(numbers(&check("aabbcde", "", "")), (0, 0, 2), "a and b came twice");
    }
}
