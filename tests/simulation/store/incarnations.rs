//! Starts of daemons, their heartbeats, and leases that have a name.

use redrive::internals::domain::id::{Epoch, IncarnationId};
use redrive::internals::domain::time::Timestamp;
use redrive::internals::store::{Beat, Begun, Incarnation, NewIncarnation, next_number};

use super::{Known, Rows};

impl Rows {
    pub(super) fn is_alive(&self, id: IncarnationId) -> bool {
        self.incarnations.get(&id).is_some_and(|known| known.row.alive)
    }

    /// It lives, under the settings that all share.
    pub(super) fn may_act(&self, id: IncarnationId) -> bool {
        self.incarnations.get(&id).is_some_and(|known| {
            known.row.alive && (known.fingerprint.is_none() || known.fingerprint == self.fingerprint)
        })
    }

    pub(super) fn incarnation_begin(&mut self, now: Timestamp, new: NewIncarnation) -> Begun {
        if let Some(refused) = self.refuses(now, &new) {
            return refused;
        }
        let fingerprint = new.fingerprint();
        if fingerprint.is_some() {
            self.fingerprint.clone_from(&fingerprint);
        }
        let id = IncarnationId(self.incarnations.keys().last().map_or(1, |last| last.0 + 1));
        let row = Incarnation {
            id,
            name: new.name,
            host: new.host,
            pid: new.pid,
            process: new.process,
            counter: 0,
            alive: true,
            delivers: fingerprint.is_some(),
            take_over: new.take_over,
            deadline: Some(new.deadline),
            started_at: now,
            beat_at: now,
            leases: 0,
        };
        self.incarnations.insert(id, Known { row, fingerprint });
        Begun::Alive(id)
    }

    /// Other settings that somebody alive works with, or under which queues exist.
    fn refuses(&self, now: Timestamp, new: &NewIncarnation) -> Option<Begun> {
        let (naming, found) = (new.naming.as_ref()?, self.fingerprint.clone()?);
        let fingerprint = new.fingerprint();
        if fingerprint.as_ref() == Some(&found) {
            return None;
        }
        let living = self.incarnations.values().rev().find(|known| {
            let is_heard = now.since(known.row.beat_at) < known.row.take_over;
            known.row.alive && known.fingerprint.is_some() && known.fingerprint != fingerprint && is_heard
        });
        let living = living.map(|known| format!("{} on {}", known.row.name, known.row.host));
        let are_own = !naming.names_as(&found) && self.queues.values().all(|record| naming.names(record));
        let queues = if are_own { 0 } else { self.queues.len() as u64 };
        let is_refused = living.is_some() || queues > 0 || !new.replaces_settings;
        is_refused.then_some(Begun::OtherSettings { found, living, queues })
    }

    pub(super) fn fingerprint(&mut self, _: Timestamp) -> Option<String> {
        self.fingerprint.clone()
    }

    pub(super) fn heartbeat(&mut self, now: Timestamp, id: IncarnationId) -> Beat {
        if !self.may_act(id) {
            return Beat::Disowned;
        }
        if let Some(known) = self.incarnations.get_mut(&id) {
            known.row.counter += 1;
            known.row.beat_at = now;
        }
        Beat::Alive
    }

    pub(super) fn incarnation_end(&mut self, _: Timestamp, id: IncarnationId) {
        if let Some(known) = self.incarnations.get_mut(&id) {
            known.row.alive = false;
        }
        for record in self.queues.values_mut() {
            if record.owner == Some(id) {
                record.owner = None;
            }
            if record.wanted_by == Some(id) {
                record.wanted_by = None;
            }
        }
    }

    pub(super) fn incarnations_living(&mut self, now: Timestamp) -> Vec<Incarnation> {
        let mut all = self.incarnations(now);
        all.retain(|one| one.alive);
        all
    }

    pub(super) fn incarnations(&mut self, _: Timestamp) -> Vec<Incarnation> {
        let leases = |id| self.queues.values().filter(|record| record.owner == Some(id)).count() as u64;
        let all = self.incarnations.values().rev().map(|known| Incarnation {
            leases: leases(known.row.id),
            ..known.row.clone()
        });
        all.collect()
    }

    pub(super) fn incarnation_mark_dead(&mut self, _: Timestamp, id: IncarnationId, counter: i64) -> bool {
        match self.incarnations.get_mut(&id) {
            Some(known) if known.row.alive && known.row.counter == counter => {
                known.row.alive = false;
                true
            }
            Some(_) | None => false,
        }
    }

    pub(super) fn named_lease_take(&mut self, now: Timestamp, name: &str, id: IncarnationId) -> Option<Epoch> {
        let owner = self.named.get(name).and_then(|(owner, _)| *owner);
        if !self.is_alive(id) || owner.is_some_and(|owner| self.is_alive(owner)) {
            return None;
        }
        let before = self.named.get(name).map_or(0, |(_, epoch)| epoch.0);
        let epoch = Epoch(next_number(before, now));
        self.named.insert(name.to_owned(), (Some(id), epoch));
        Some(epoch)
    }

    pub(super) fn named_lease_free(&mut self, _: Timestamp, name: &str, epoch: Epoch) -> bool {
        match self.named.get_mut(name) {
            Some((owner @ Some(_), held)) if *held == epoch => {
                *owner = None;
                true
            }
            Some(_) | None => false,
        }
    }
}
