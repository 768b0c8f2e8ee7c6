//! Finishes taken apart for the statements of the drivers: what is done, and what stays and how.

use std::collections::{HashMap, HashSet};

use super::columns::Lost;
use super::{EventsChange, Finish, Finished, Inside, NewOutboxRow, Reaped, Verdict};
use crate::domain::event::{AfterFailure, Event, EventState, HandlingRules, LeaseKey, next_change_reason};
use crate::domain::run::{ItemState, RunCounts};
use crate::domain::time::Timestamp;
use crate::store::columns::micros;
use crate::store::{Advance, ItemMark};

/// A row that stays: what is written when the lease's revision is still the row's; else it is only let go.
#[derive(Clone, Debug)]
pub(in crate::store) struct Staying {
    pub(in crate::store) key: LeaseKey,
    pub(in crate::store) state: i64,
    pub(in crate::store) attempts: Option<i64>,
    pub(in crate::store) at: Option<i64>,
    pub(in crate::store) delay: Option<i64>,
    pub(in crate::store) reason: Option<String>,
    pub(in crate::store) how: Finished,
}

/// Finishes by their kind.
#[derive(Default)]
pub(in crate::store) struct Split {
    pub(in crate::store) done: Vec<LeaseKey>,
    pub(in crate::store) outbox: Vec<(i64, NewOutboxRow)>,
    pub(in crate::store) staying: Vec<Staying>,
}

impl Split {
    pub(in crate::store) fn of(finishes: &[Finish]) -> Self {
        let mut split = Self::default();
        for finish in finishes {
            match &finish.verdict {
                Verdict::Done(notifications) => {
                    split.done.push(finish.lease);
                    let rows = notifications.iter().map(|row| (finish.lease.id, row.clone()));
                    split.outbox.extend(rows);
                }
                other @ (Verdict::Requeue { .. } | Verdict::Retry { .. } | Verdict::Dead { .. } | Verdict::Release) => {
                    split.staying.extend(staying(finish.lease, other));
                }
            }
        }
        split
    }
}

fn staying(key: LeaseKey, verdict: &Verdict) -> Option<Staying> {
    let plain = let_go_of(key);
    Some(match verdict {
        Verdict::Done(_) => return None,
        Verdict::Release => plain,
        Verdict::Requeue { at, reason } => Staying {
            at: Some(at.micros()),
            reason: Some(reason.clone()),
            how: Finished::Requeued,
            ..plain
        },
        Verdict::Retry {
            attempts,
            delay,
            reason,
        } => Staying {
            attempts: Some(i64::from(*attempts)),
            delay: Some(micros(*delay)),
            reason: Some(reason.clone()),
            how: Finished::Retried,
            ..plain
        },
        Verdict::Dead { attempts, reason } => Staying {
            state: EventState::Dead.number(),
            attempts: Some(i64::from(*attempts)),
            reason: Some(reason.clone()),
            how: Finished::Dead,
            ..plain
        },
    })
}

/// Leases that ran out, and what becomes of their events.
pub(in crate::store) struct Losses {
    leases: Vec<Lost>,
    staying: Vec<Staying>,
}

impl Losses {
    /// By the rules of each type; `configured` are those of a type that is in none of `rules`.
    pub(in crate::store) fn of(
        leases: Vec<Lost>,
        rules: &HashMap<String, HandlingRules>,
        configured: HandlingRules,
        now: Timestamp,
    ) -> Self {
        let after = |lost: &Lost| {
            let rules = rules.get(lost.event_type.as_str()).copied();
            after_loss(lost, rules.unwrap_or(configured), now)
        };
        let staying = leases.iter().map(after).collect();
        Self { leases, staying }
    }

    /// The rows as they are to be written.
    pub(in crate::store) fn staying(&self) -> &[Staying] {
        &self.staying
    }

    /// What came of each, by the revision that its row was found to have.
    pub(in crate::store) fn reaped(self, revisions: Vec<(i64, i64)>) -> Vec<Reaped> {
        let revisions: HashMap<i64, i64> = revisions.into_iter().collect();
        let each = self.leases.into_iter().zip(self.staying).map(|(lost, staying)| {
            let current = revisions.get(&lost.key.id) == Some(&lost.key.revision);
            let attempts = staying.attempts.filter(|_| current);
            Reaped {
                id: lost.key.id,
                event_type: lost.event_type,
                claimed: lost.owner.is_none(),
                attempts: attempts.map_or(lost.attempts, |attempts| u32::try_from(attempts).unwrap_or(u32::MAX)),
                how: if current { staying.how } else { Finished::Superseded },
            }
        });
        each.collect()
    }
}

/// A claim's is ready again, a handler's failed.
fn after_loss(lost: &Lost, rules: HandlingRules, now: Timestamp) -> Staying {
    let verdict = match lost.owner {
        None => Verdict::Release,
        Some(owner) => {
            let error = format!("lost: the lease of incarnation {owner} ended");
            rules.after_failure(lost.attempts, &error, now).into()
        }
    };
    staying(lost.key, &verdict).unwrap_or_else(|| let_go_of(lost.key))
}

/// What is only let go: ready again as it was, or as it was pushed meanwhile.
pub(in crate::store) const fn let_go_of(key: LeaseKey) -> Staying {
    Staying {
        key,
        state: EventState::Ready.number(),
        attempts: None,
        at: None,
        delay: None,
        reason: None,
        how: Finished::Released,
    }
}

/// What was found, in the order that was asked in.
pub(in crate::store) struct Found {
    by_key: HashMap<LeaseKey, Finished>,
}

impl Found {
    pub(in crate::store) fn new() -> Self {
        Self { by_key: HashMap::new() }
    }

    pub(in crate::store) fn put(&mut self, key: LeaseKey, finished: Finished) {
        self.by_key.insert(key, finished);
    }

    /// Those of `keys` about which nothing is known yet.
    pub(in crate::store) fn unknown(&self, keys: &[LeaseKey]) -> Vec<LeaseKey> {
        keys.iter()
            .filter(|key| !self.by_key.contains_key(key))
            .copied()
            .collect()
    }

    /// Leases that no row has any more: somebody else's event, or nobody's.
    pub(in crate::store) fn lost(&mut self, keys: &[LeaseKey], existing: &HashSet<i64>) {
        for key in keys {
            let found = if existing.contains(&key.id) {
                Finished::Stale
            } else {
                Finished::Gone
            };
            self.by_key.insert(*key, found);
        }
    }

    pub(in crate::store) fn in_order(&self, finishes: &[Finish]) -> Vec<Finished> {
        let of = |finish: &Finish| self.by_key.get(&finish.lease).copied().unwrap_or(Finished::Stale);
        finishes.iter().map(of).collect()
    }
}

/// The end of an event that was handled inside the store's transaction.
pub(in crate::store) struct InsideEnd {
    pub(in crate::store) how: Finished,
    /// None: it is removed.
    pub(in crate::store) stay: Option<InsideStay>,
}

/// What is written when it stays.
pub(in crate::store) struct InsideStay {
    pub(in crate::store) nbf: i64,
    pub(in crate::store) state: i64,
    pub(in crate::store) attempts: i64,
    pub(in crate::store) reason: String,
    pub(in crate::store) failed: bool,
}

/// What follows from what a handler inside the transaction came to.
pub(in crate::store) fn after_inside(
    inside: Inside,
    event: &Event,
    rules: &HandlingRules,
    now: Timestamp,
) -> InsideEnd {
    let stay = |how, nbf: Timestamp, state: EventState, attempts: u32, reason, failed| InsideEnd {
        how,
        stay: Some(InsideStay {
            nbf: nbf.micros(),
            state: state.number(),
            attempts: i64::from(attempts),
            reason,
            failed,
        }),
    };
    match inside {
        Inside::Done => InsideEnd {
            how: Finished::Done,
            stay: None,
        },
        Inside::Requeue(at, why) => {
            let reason = next_change_reason(&why);
            stay(Finished::Requeued, at, EventState::Ready, event.attempts, reason, false)
        }
        Inside::Failed(error) => match rules.after_failure(event.attempts, &error, now) {
            AfterFailure::Retry {
                attempts,
                delay,
                reason,
            } => stay(
                Finished::Retried,
                now.plus(delay),
                EventState::Ready,
                attempts,
                reason,
                true,
            ),
            AfterFailure::Dead { attempts, reason } => {
                stay(Finished::Dead, event.nbf, EventState::Dead, attempts, reason, true)
            }
        },
    }
}

/// The journal of a window of a run over events.
pub(in crate::store) struct Journal {
    counts: RunCounts,
    marks: Vec<ItemMark>,
}

impl Journal {
    pub(in crate::store) fn of(asked: &EventsChange) -> Self {
        Self {
            counts: asked.counts,
            marks: Vec::with_capacity(asked.items.len()),
        }
    }

    /// Nothing is done yet: whether it may be.
    pub(in crate::store) fn begin(&self) -> Advance {
        Advance {
            counts: self.counts,
            ..Advance::default()
        }
    }

    /// What came of an item.
    pub(in crate::store) fn note(&mut self, ordinal: u64, why_not: Option<&str>) {
        let state = if why_not.is_none() {
            ItemState::Settled
        } else {
            ItemState::Skipped
        };
        self.counts.count(state);
        self.marks.push(ItemMark {
            ordinal,
            state,
            reason: why_not.map(str::to_owned),
            dropped: None,
        });
    }

    pub(in crate::store) fn end(&self) -> Advance {
        Advance {
            counts: self.counts,
            marks: self.marks.clone(),
            ..Advance::default()
        }
    }

    pub(in crate::store) const fn counts(&self) -> RunCounts {
        self.counts
    }
}
