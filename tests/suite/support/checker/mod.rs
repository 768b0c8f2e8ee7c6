//! The history checker: was every promise kept, judged from what was published, what the
//! receivers saw and what is left. Pure, and linear in the length of the logs.
//!
//! It needs one producer per queue, so that the order of publishing is known. Orders (`start`,
//! `end`) are numbers of one counter of the receiver; they are comparable over all its paths.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

mod tests;

/// What the producer was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Publish {
    Confirmed,
    /// Certainly not stored.
    Refused,
    /// No answer, or one that leaves it open.
    Unknown,
}

/// One notification of the producer's log.
#[derive(Debug, Clone)]
pub struct Published {
    pub queue: String,
    /// Position in the queue, rising.
    pub sequence: u64,
    pub id: String,
    pub outcome: Publish,
    pub body_hash: u64,
    /// How often it was published under this id: each may have left a copy.
    pub publishes: u32,
}

/// One request that a receiver saw.
#[derive(Debug, Clone)]
pub struct Seen {
    pub queue: String,
    pub id: String,
    pub epoch: Option<u64>,
    pub start: u64,
    /// None: still open when the log was read.
    pub end: Option<u64>,
    /// None: never answered.
    pub status: Option<u16>,
    pub body_hash: u64,
}

impl Seen {
    fn succeeded(&self) -> bool {
        self.status.is_some_and(|status| (200..300).contains(&status))
    }
}

/// What became of a notification that was not delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// Settled by a recorded decision.
    Dead,
    /// In the queue: waiting for its turn, its next attempt or a person.
    Waiting,
}

/// Everything the checker looks at.
#[derive(Debug, Clone, Default)]
pub struct History {
    pub published: Vec<Published>,
    pub seen: Vec<Seen>,
    /// By notification id.
    pub left: HashMap<String, Left>,
    /// Crashes, lost connections and take-overs that hit each queue.
    pub faults: HashMap<String, u32>,
    /// Those that hit every queue.
    pub faults_of_all: u32,
    /// Messages in flight per queue; 0 counts as 1.
    pub prefetch: u32,
    /// What the broker holds at the end, by queue; a queue that is gone is not in it.
    pub depth: HashMap<String, u64>,
}

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    /// I1: confirmed, and neither delivered nor dead nor waiting.
    Lost { queue: String, id: String },
    /// I2: delivered, and never published there (or certainly refused).
    Phantom { queue: String, id: String },
    /// I2: another body than the published one.
    ChangedBody { queue: String, id: String },
    /// I3: an attempt began while an earlier notification was not settled.
    OutOfOrder {
        queue: String,
        id: String,
        unsettled: String,
    },
    /// I4: two attempts of one queue at the same time.
    Overlap {
        queue: String,
        first: String,
        second: String,
    },
    /// I4: an owner went on after a later one had begun.
    StaleEpoch {
        queue: String,
        id: String,
        epoch: u64,
        newer: u64,
    },
    /// I5: more repeats of delivered notifications than the faults explain.
    TooManyDuplicates { queue: String, extra: u64, allowed: u64 },
    /// I10: the broker holds another number than what is known to wait.
    WrongDepth { queue: String, depth: u64, waiting: u64 },
}

/// The fingerprint of a body that both logs carry.
pub fn body_hash(body: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    body.hash(&mut hasher);
    hasher.finish()
}

impl History {
    /// Records one notification; `sequence` follows from the calls.
    pub fn publish(&mut self, queue: &str, id: &str, body: &[u8], outcome: Publish) {
        self.published.push(Published {
            queue: queue.to_owned(),
            sequence: self.published.len() as u64,
            id: id.to_owned(),
            outcome,
            body_hash: body_hash(body),
            publishes: 1,
        });
    }

    /// Panics with every violation.
    #[track_caller]
    pub fn assert_kept(&self) {
        let found = violations(self);
        let shown: Vec<String> = found
            .iter()
            .take(50)
            .map(|violation| format!("{violation:?}"))
            .collect();
        assert!(
            found.is_empty(),
            "{} broken promises:\n  {}",
            found.len(),
            shown.join("\n  ")
        );
    }

    fn allowed_repeats(&self, queue: &str) -> u64 {
        let faults = u64::from(self.faults.get(queue).copied().unwrap_or(0)) + u64::from(self.faults_of_all);
        faults * u64::from(self.prefetch.max(1))
    }
}

/// Every broken promise, queue by queue.
pub fn violations(history: &History) -> Vec<Violation> {
    let mut queues: BTreeMap<&str, Queue> = BTreeMap::new();
    for published in &history.published {
        queues.entry(&published.queue).or_default().published.push(published);
    }
    for seen in &history.seen {
        queues.entry(&seen.queue).or_default().seen.push(seen);
    }
    for queue in history.depth.keys() {
        queues.entry(queue).or_default();
    }
    queues
        .into_iter()
        .flat_map(|(name, queue)| queue.violations(name, history))
        .collect()
}

#[derive(Default)]
struct Queue<'a> {
    published: Vec<&'a Published>,
    seen: Vec<&'a Seen>,
}

impl Queue<'_> {
    fn violations(mut self, name: &str, history: &History) -> Vec<Violation> {
        // Both logs usually are in order already, and then sorting is one pass.
        self.published.sort_by_key(|published| published.sequence);
        self.seen.sort_by_key(|seen| seen.start);
        let allowed = history.allowed_repeats(name);
        let mut found = self.phantoms(name);
        found.extend(self.losses(name, &history.left));
        found.extend(self.disorder(name, &history.left));
        found.extend(self.overlaps(name, allowed));
        found.extend(self.duplicates(name, allowed));
        found.extend(self.depth(name, history));
        found
    }

    fn phantoms(&self, name: &str) -> Vec<Violation> {
        let known: HashMap<&str, &Published> = self
            .published
            .iter()
            .map(|published| (published.id.as_str(), *published))
            .collect();
        let judge = |seen: &&Seen| match known.get(seen.id.as_str()) {
            None
            | Some(Published {
                outcome: Publish::Refused,
                ..
            }) => Some(Violation::Phantom {
                queue: name.to_owned(),
                id: seen.id.clone(),
            }),
            Some(published) if published.body_hash != seen.body_hash => Some(Violation::ChangedBody {
                queue: name.to_owned(),
                id: seen.id.clone(),
            }),
            Some(_) => None,
        };
        self.seen.iter().filter_map(judge).collect()
    }

    fn losses(&self, name: &str, left: &HashMap<String, Left>) -> Vec<Violation> {
        let delivered: HashSet<&str> = self
            .seen
            .iter()
            .filter(|seen| seen.succeeded())
            .map(|seen| seen.id.as_str())
            .collect();
        let confirmed = self
            .published
            .iter()
            .filter(|published| published.outcome == Publish::Confirmed);
        let lost = confirmed
            .filter(|published| !delivered.contains(published.id.as_str()) && !left.contains_key(&published.id));
        lost.map(|published| Violation::Lost {
            queue: name.to_owned(),
            id: published.id.clone(),
        })
        .collect()
    }

    /// Walks the attempts by start; the frontier is the first notification not settled by then.
    fn disorder(&self, name: &str, left: &HashMap<String, Left>) -> Vec<Violation> {
        let position: HashMap<&str, usize> = self
            .published
            .iter()
            .enumerate()
            .map(|(at, published)| (published.id.as_str(), at))
            .collect();
        let settled = self.settled_at(left);
        let mut frontier = 0;
        let mut reported = HashSet::new();
        let mut found = Vec::new();
        for seen in &self.seen {
            while settled
                .get(frontier)
                .is_some_and(|at| at.is_some_and(|order| order < seen.start))
            {
                frontier += 1;
            }
            let ahead = position.get(seen.id.as_str()).is_some_and(|at| *at > frontier);
            if ahead && reported.insert(&seen.id) {
                found.push(Violation::OutOfOrder {
                    queue: name.to_owned(),
                    id: seen.id.clone(),
                    unsettled: self.published[frontier].id.clone(),
                });
            }
        }
        found
    }

    /// When each notification was settled, in the order of publishing; None: not within this log.
    fn settled_at(&self, left: &HashMap<String, Left>) -> Vec<Option<u64>> {
        let mut first_success: HashMap<&str, u64> = HashMap::new();
        let mut last_end: HashMap<&str, u64> = HashMap::new();
        for seen in &self.seen {
            let end = seen.end.unwrap_or(u64::MAX);
            let latest = last_end.entry(&seen.id).or_default();
            *latest = end.max(*latest);
            if seen.succeeded() {
                let first = first_success.entry(&seen.id).or_insert(end);
                *first = end.min(*first);
            }
        }
        let settle = |published: &&Published| {
            let id = published.id.as_str();
            first_success
                .get(id)
                .copied()
                .or_else(|| match (left.get(id), last_end.get(id)) {
                    // Decided after its last attempt, whenever that was.
                    (Some(Left::Dead), last) => Some(last.copied().unwrap_or(0)),
                    // Never stored as far as anybody saw, or a loss, which is named as one: it
                    // makes no disorder of all that follows.
                    (None, None) => Some(0),
                    _ => None,
                })
        };
        self.published.iter().map(settle).collect()
    }

    /// 1. Under one epoch attempts never overlap.
    /// 2. A lower epoch starts nothing after a higher one has.
    /// 3. An attempt that an earlier owner left hanging may overlap, once for each repeat allowed.
    fn overlaps(&self, name: &str, allowed: u64) -> Vec<Violation> {
        let mut found = Vec::new();
        let mut excused = 0;
        let mut newest: Option<u64> = None;
        let mut open: Option<&Seen> = None;
        let mut abandoned: HashSet<u64> = HashSet::new();
        for seen in &self.seen {
            if let (Some(epoch), Some(newer)) = (seen.epoch, newest.filter(|newer| Some(*newer) > seen.epoch)) {
                found.push(Violation::StaleEpoch {
                    queue: name.to_owned(),
                    id: seen.id.clone(),
                    epoch,
                    newer,
                });
            }
            if let Some(first) = open.filter(|first| first.end.is_none_or(|end| end > seen.start)) {
                let left_behind = first.epoch.is_some() && first.epoch < seen.epoch;
                if left_behind && abandoned.insert(first.start) {
                    excused += 1;
                }
                if !left_behind || excused > allowed {
                    let (first, second) = (first.id.clone(), seen.id.clone());
                    found.push(Violation::Overlap {
                        queue: name.to_owned(),
                        first,
                        second,
                    });
                }
            }
            newest = newest.max(seen.epoch);
            open = Some(*seen);
        }
        found
    }

    fn duplicates(&self, name: &str, by_faults: u64) -> Vec<Violation> {
        let mut successes: HashMap<&str, u64> = HashMap::new();
        for seen in self.seen.iter().filter(|seen| seen.succeeded()) {
            *successes.entry(&seen.id).or_default() += 1;
        }
        let extra: u64 = successes.values().map(|count| count - 1).sum();
        let copies: u64 = self
            .published
            .iter()
            .map(|published| u64::from(published.publishes.max(1)) - 1)
            .sum();
        let allowed = by_faults + copies;
        let violation = Violation::TooManyDuplicates {
            queue: name.to_owned(),
            extra,
            allowed,
        };
        if extra > allowed { vec![violation] } else { Vec::new() }
    }

    fn depth(&self, name: &str, history: &History) -> Vec<Violation> {
        let is_waiting = |published: &&&Published| history.left.get(&published.id) == Some(&Left::Waiting);
        let waiting = self.published.iter().filter(is_waiting).count() as u64;
        let depth = history.depth.get(name).copied().unwrap_or(0);
        let violation = Violation::WrongDepth {
            queue: name.to_owned(),
            depth,
            waiting,
        };
        if depth == waiting { Vec::new() } else { vec![violation] }
    }
}
