//! Runs with the journal of their items, and the messages that are kept for a while.

use std::collections::BTreeMap;

use redrive::internals::domain::id::{Epoch, IncarnationId, QueueName};
use redrive::internals::domain::run::{ItemState, RunCounts, RunState};
use redrive::internals::domain::time::Timestamp;
use redrive::internals::store::{
    Advance, Frozen, Guarded, ItemQuery, ItemRecord, KeptKind, KeptMessage, KeptQuery, NewItem, NewRun, RunQuery,
    RunRecord, RunStop, RunTaken, SourceTaken, next_number,
};

use super::Rows;

/// A run with its items, by their places.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) record: RunRecord,
    pub(super) items: BTreeMap<u64, ItemRecord>,
}

impl Run {
    fn is_draft(&self) -> bool {
        self.record.state == RunState::Planned && self.record.hash.is_empty()
    }

    fn moves_to(&mut self, to: RunState, note: Option<&str>, now: Timestamp) {
        self.record.state = to;
        self.record.note = note.map(str::to_owned);
        self.record.ended_at = to.is_over().then_some(now);
        self.record.updated_at = now;
    }
}

const fn is_open(state: ItemState) -> bool {
    matches!(state, ItemState::Planned | ItemState::Journalled | ItemState::Published)
}

impl Rows {
    /// The run, while its lease is held under this epoch.
    fn run_held(&mut self, run: &str, epoch: Epoch) -> Option<&mut Run> {
        let held = |run: &&mut Run| run.record.epoch == epoch && run.record.owner.is_some();
        self.runs.get_mut(run).filter(held)
    }

    pub(super) fn run_create(&mut self, now: Timestamp, new: &NewRun) {
        let record = RunRecord {
            id: new.id.clone(),
            command: new.command.clone(),
            state: RunState::Planned,
            counts: RunCounts::default(),
            restored: 0,
            total: 0,
            rate: new.rate,
            canary: new.canary,
            actor: String::new(),
            reason: None,
            note: None,
            plan: String::new(),
            hash: String::new(),
            owner: None,
            epoch: Epoch(0),
            broker: None,
            created_at: now,
            started_at: None,
            updated_at: now,
            ended_at: None,
        };
        let items = BTreeMap::new();
        self.runs.insert(new.id.clone(), Run { record, items });
    }

    pub(super) fn run_items_add(&mut self, _: Timestamp, run: &str, items: &[NewItem]) {
        if let Some(run) = self.runs.get_mut(run).filter(|run| run.is_draft()) {
            let records = items.iter().map(|item| {
                let record = ItemRecord {
                    item: item.clone(),
                    dropped: None,
                };
                (item.ordinal, record)
            });
            run.items.extend(records);
        }
    }

    pub(super) fn run_freeze(&mut self, now: Timestamp, run: &str, frozen: &Frozen) -> bool {
        let Some(run) = self.runs.get_mut(run).filter(|run| run.is_draft()) else {
            return false;
        };
        run.record.total = frozen.total;
        run.record.counts = frozen.counts;
        run.record.plan.clone_from(&frozen.plan);
        run.record.hash.clone_from(&frozen.hash);
        run.record.updated_at = now;
        true
    }

    pub(super) fn run_start(
        &mut self,
        now: Timestamp,
        run: &str,
        hash: &str,
        actor: &str,
        reason: Option<&str>,
    ) -> bool {
        let broker = self.broker.clone();
        let planned = |run: &&mut Run| {
            run.record.state == RunState::Planned && run.record.hash == hash && !run.record.hash.is_empty()
        };
        let Some(run) = self.runs.get_mut(run).filter(planned) else {
            return false;
        };
        run.moves_to(RunState::Running, None, now);
        actor.clone_into(&mut run.record.actor);
        run.record.reason = reason.map(str::to_owned);
        run.record.started_at = Some(now);
        run.record.broker = broker;
        true
    }

    pub(super) fn run_get(&mut self, _: Timestamp, run: &str) -> Option<RunRecord> {
        self.runs.get(run).map(|run| run.record.clone())
    }

    pub(super) fn runs(&mut self, _: Timestamp, query: &RunQuery) -> Vec<RunRecord> {
        let wanted = |run: &&Run| {
            let state = run.record.state;
            let is_meant = if query.open {
                matches!(state, RunState::Running | RunState::Canary | RunState::Paused)
            } else {
                query.planned || state != RunState::Planned
            };
            is_meant && query.before.as_ref().is_none_or(|before| run.record.id < *before)
        };
        let newest = self.runs.values().rev().filter(wanted);
        newest
            .take(query.limit as usize)
            .map(|run| run.record.clone())
            .collect()
    }

    pub(super) fn runs_open(&mut self, _: Timestamp, limit: u32) -> Vec<RunRecord> {
        let open = self.runs.values().filter(|run| {
            run.record.state == RunState::Running && !run.record.owner.is_some_and(|owner| self.is_alive(owner))
        });
        open.take(limit as usize).map(|run| run.record.clone()).collect()
    }

    pub(super) fn run_take(&mut self, now: Timestamp, run: &str, incarnation: IncarnationId) -> RunTaken {
        let Some(record) = self.run_get(now, run).filter(|_| self.is_alive(incarnation)) else {
            return RunTaken::Refused;
        };
        if record.state != RunState::Running {
            return RunTaken::NotRunning(record.state);
        }
        let other = record
            .owner
            .filter(|owner| *owner != incarnation && self.is_alive(*owner));
        if let Some(owner) = other {
            return RunTaken::Held(owner);
        }
        let taken = RunRecord {
            owner: Some(incarnation),
            epoch: Epoch(next_number(record.epoch.0, now)),
            updated_at: now,
            ..record
        };
        if let Some(run) = self.runs.get_mut(run) {
            run.record = taken.clone();
        }
        RunTaken::Taken(Box::new(taken))
    }

    pub(super) fn run_free(&mut self, _: Timestamp, run: &str, epoch: Epoch) -> bool {
        self.run_held(run, epoch).map(|run| run.record.owner = None).is_some()
    }

    pub(super) fn run_change(
        &mut self,
        now: Timestamp,
        run: &str,
        from: &[RunState],
        to: RunState,
        note: Option<&str>,
    ) -> bool {
        let found = self.runs.get_mut(run).filter(|run| from.contains(&run.record.state));
        let Some(run) = found else { return false };
        if run.record.state == RunState::Canary && to == RunState::Running {
            run.record.canary = None;
        }
        run.moves_to(to, note, now);
        true
    }

    pub(super) fn run_stage(&mut self, now: Timestamp, run: &str, epoch: Epoch, canary: u64) -> bool {
        let held = self.run_held(run, epoch);
        let Some(run) = held.filter(|run| run.record.state == RunState::Running) else {
            return false;
        };
        run.record.canary = Some(canary);
        run.record.note = None;
        run.record.updated_at = now;
        true
    }

    /// What of an advance is about the run; what it keeps and forgets comes with it.
    pub(super) fn run_advance(&mut self, now: Timestamp, run: &str, epoch: Epoch, advance: &Advance) -> Guarded {
        let id = run;
        let Some(run) = self.run_held(run, epoch) else {
            return Guarded::Lost;
        };
        run.record.counts = advance.counts;
        run.record.note.clone_from(&advance.note);
        run.record.updated_at = now;
        for mark in &advance.marks {
            if let Some(record) = run.items.get_mut(&mark.ordinal) {
                record.item.state = mark.state;
                record.item.reason.clone_from(&mark.reason);
                record.dropped = mark.dropped.clone().or_else(|| record.dropped.take());
            }
        }
        let state = run.record.state;
        self.kept_put(now, &advance.keep);
        for (letter, kind) in &advance.forget {
            let discarder = self.kept.remove(&(*kind, letter.clone())).and_then(|kept| kept.run);
            let other = discarder.filter(|other| *kind == KeptKind::Discarded && other != id);
            if let Some(other) = other.and_then(|other| self.runs.get_mut(&other)) {
                other.record.restored += 1;
            }
        }
        Guarded::Held(state)
    }

    pub(super) fn run_stop(&mut self, now: Timestamp, run: &str, epoch: Epoch, stop: &RunStop) -> bool {
        let held = self.run_held(run, epoch);
        let Some(run) = held.filter(|run| run.record.state == RunState::Running) else {
            return false;
        };
        run.moves_to(stop.state, stop.note.as_deref(), now);
        run.record.counts = stop.counts;
        run.record.owner = None;
        true
    }

    pub(super) fn run_counts(&mut self, _: Timestamp, run: &str) -> RunCounts {
        let mut counts = RunCounts::default();
        for record in self.runs.get(run).iter().flat_map(|run| run.items.values()) {
            counts.count(record.item.state);
        }
        counts
    }

    pub(super) fn run_in_hand(&mut self, _: Timestamp, run: &str) -> u64 {
        let items = self.runs.get(run).into_iter().flat_map(|run| run.items.values());
        let in_hand = items.filter(|record| is_open(record.item.state) && record.item.state != ItemState::Planned);
        in_hand.count() as u64
    }

    pub(super) fn run_items(&mut self, _: Timestamp, query: &ItemQuery) -> Vec<ItemRecord> {
        let items = self.runs.get(&query.run).into_iter().flat_map(|run| run.items.values());
        let wanted = items.filter(|record| {
            query.after.is_none_or(|after| record.item.ordinal > after)
                && query.source.as_ref().is_none_or(|source| record.item.source == *source)
                && (!query.open || is_open(record.item.state))
        });
        wanted.take(query.limit as usize).cloned().collect()
    }

    pub(super) fn source_take(&mut self, _: Timestamp, queue: &QueueName, run: &str, epoch: Epoch) -> SourceTaken {
        if self.run_held(run, epoch).is_none() {
            return SourceTaken::Lost;
        }
        let other = self.run_sources.get(queue).filter(|other| {
            let owner = self.runs.get(*other).and_then(|other| other.record.owner);
            *other != run && owner.is_some_and(|owner| self.is_alive(owner))
        });
        if let Some(other) = other {
            return SourceTaken::Other(other.clone());
        }
        self.run_sources.insert(queue.clone(), run.to_owned());
        SourceTaken::Taken
    }

    pub(super) fn source_free(&mut self, _: Timestamp, queue: &QueueName, run: &str) {
        if self.run_sources.get(queue).is_some_and(|holder| holder == run) {
            self.run_sources.remove(queue);
        }
    }

    pub(super) fn kept_put(&mut self, now: Timestamp, kept: &[KeptMessage]) {
        for one in kept {
            let put = KeptMessage {
                at: now,
                until: one.keep_for.map(|span| now.plus(span)),
                ..one.clone()
            };
            self.kept.insert((one.kind, one.letter.clone()), put);
        }
    }

    pub(super) fn kept_get(&mut self, _: Timestamp, letter: &str, kind: KeptKind) -> Option<KeptMessage> {
        self.kept.get(&(kind, letter.to_owned())).cloned()
    }

    pub(super) fn kept_list(&mut self, _: Timestamp, query: &KeptQuery) -> Vec<KeptMessage> {
        let wanted = |kept: &&KeptMessage| {
            kept.kind == query.kind
                && query.run.as_ref().is_none_or(|run| kept.run.as_ref() == Some(run))
                && (query.letters.is_empty() || query.letters.contains(&kept.letter))
                && query.after.as_ref().is_none_or(|after| kept.place() > *after)
        };
        let mut found: Vec<KeptMessage> = self.kept.values().filter(wanted).cloned().collect();
        found.sort_by_key(KeptMessage::place);
        found.truncate(query.limit as usize);
        found
    }

    pub(super) fn kept_drop(&mut self, _: Timestamp, letter: &str, kind: KeptKind) -> bool {
        self.kept.remove(&(kind, letter.to_owned())).is_some()
    }
}
