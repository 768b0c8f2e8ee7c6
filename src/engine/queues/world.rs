//! What every queue's answer needs besides its own row, and the one place that joins the two.

use super::Queues;
use super::seen::Seen;
use crate::ambient::{self, HashMap};
use crate::broker::BrokerError;
use crate::domain::endpoint::Endpoint;
use crate::domain::id::{IncarnationId, QueueName};
use crate::domain::job;
use crate::domain::queue::{QueueKind, QueueRecord};
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;
use crate::engine::death::as_evident;
use crate::engine::view::QueueView;
use crate::engine::why::{Facts, Uncounted, ended_wish, warnings, why};
use crate::engine::{EngineError, core::Core};
use crate::store::{Incarnation, QueuesOnly, StoreError};

/// An incarnation that may hold a queue, or want it.
#[derive(Debug)]
struct IncarnationName {
    name: String,
    host: String,
    alive: bool,
}

/// Paced endpoints that are read, at most.
pub(in crate::engine) const PACED_MAX: u32 = 10_000;

/// Who delivers, which URLs are not available, whether the broker is blocked, and what time it is.
#[derive(Debug)]
pub(in crate::engine) struct World {
    endpoints: HashMap<EndpointUrl, Endpoint>,
    incarnations: HashMap<IncarnationId, IncarnationName>,
    daemons: usize,
    blocked: Option<String>,
    /// Requests a second, at most.
    rates: HashMap<EndpointUrl, u32>,
    absence: Absence,
    /// The foreign session that has locked the row of the one queue that is looked at.
    locked_by: Option<String>,
    /// Why dead letters wait in their queues.
    letters_wait: Option<String>,
    /// Why this process could not attach queues lately.
    unattached: HashMap<QueueName, String>,
    /// Queues whose listed count may be older than what was published to them at that time.
    published: HashMap<QueueName, Timestamp>,
    pub(in crate::engine) now: Timestamp,
}

/// What it means that the broker said nothing of a queue.
#[derive(Debug)]
pub(in crate::engine) enum Absence {
    /// It could not be asked, and why.
    Unread(String),
    /// It was listed, and the queue was not among the others.
    NotListed,
    /// A look found no such queue.
    Missing,
}

impl Absence {
    const fn uncounted(&self) -> Uncounted<'_> {
        match self {
            Self::Unread(why) => Uncounted::Unread(why.as_str()),
            Self::NotListed => Uncounted::NotListed,
            Self::Missing => Uncounted::Missing,
        }
    }
}

impl World {
    /// `endpoints` are those that are not available or paced.
    pub(in crate::engine) fn new(
        incarnations: &[Incarnation],
        endpoints: impl IntoIterator<Item = Endpoint>,
        blocked: Option<String>,
        rates: &HashMap<EndpointUrl, u32>,
        now: Timestamp,
    ) -> Self {
        let alive = || incarnations.iter().filter(|one| one.alive);
        Self {
            endpoints: endpoints
                .into_iter()
                .map(|endpoint| (endpoint.url.clone(), endpoint))
                .collect(),
            incarnations: incarnations.iter().map(named).collect(),
            daemons: alive().filter(|one| one.delivers).count(),
            blocked,
            rates: rates.clone(),
            absence: Absence::NotListed,
            locked_by: None,
            letters_wait: None,
            unattached: HashMap::default(),
            published: HashMap::default(),
            now,
        }
    }

    /// The same, where the broker was asked in another way than by a list of all.
    pub(in crate::engine) fn where_absent(mut self, absence: Option<Absence>) -> Self {
        self.absence = absence.unwrap_or(self.absence);
        self
    }

    /// The same, where this process could not attach these queues, and why.
    pub(in crate::engine) fn where_unattached(mut self, unattached: HashMap<QueueName, String>) -> Self {
        self.unattached = unattached;
        self
    }

    /// The same, where what is to become a dead letter waits, and why.
    pub(in crate::engine) fn where_letters_wait(mut self, why: Option<String>) -> Self {
        self.letters_wait = why;
        self
    }

    /// The same, where the broker's list may be older than what was published to these queues.
    pub(in crate::engine) fn where_published(mut self, published: HashMap<QueueName, Timestamp>) -> Self {
        self.published = published;
        self
    }

    /// The same, with what this process alone knows of queues.
    pub(in crate::engine) fn known_to(self, core: &Core) -> Self {
        let unattached = core.seen.unattached.reasons(self.now);
        self.where_unattached(unattached)
            .where_published(core.seen.published.lately(core.store_time.now()))
    }

    /// The same for one queue, whose row that session has locked.
    pub(super) fn where_locked(mut self, by: Option<String>) -> Self {
        self.locked_by = by;
        self
    }

    /// Of which nothing is known.
    pub(super) fn unknown(now: Timestamp) -> Self {
        Self::new(&[], [], None, &HashMap::default(), now)
    }

    /// A queue from its row and from what the broker lists; either may be missing.
    pub(in crate::engine) fn view(
        &self,
        kind: QueueKind,
        name: QueueName,
        record: Option<QueueRecord>,
        seen: Option<&Seen>,
    ) -> QueueView {
        let mut view = QueueView {
            name,
            kind,
            execution: None,
            url: None,
            ready: seen.and_then(|seen| {
                seen.ready
                    .map(|ready| ready.max(self.not_counted_yet(record.as_ref(), seen)))
            }),
            unacked: seen.and_then(|seen| seen.unacked),
            state: None,
            why: None,
            owner: None,
            oldest_age: seen.and_then(|seen| seen.oldest_at).map(|at| self.now.since(at)),
            next_attempt_at: None,
            paused: None,
            head: None,
            delivered: None,
            warnings: record.as_ref().map(warnings).unwrap_or_default(),
            findings: seen.map(|seen| seen.findings.clone()).unwrap_or_default(),
            on_broker: None,
            taken_at: seen.map_or(self.now, |seen| seen.taken_at),
            problems: Vec::new(),
        };
        if seen.is_some_and(|seen| seen.node_down) {
            view.warnings
                .push("its node is down: what is in it is not reachable".to_owned());
        }
        if kind == QueueKind::Delivery {
            if let Some(Wish::Ended(wisher)) = self.wish(record.as_ref())
                && view.depth() != Some(0)
            {
                view.warnings.push(ended_wish(&wisher));
            }
            let uncounted = seen.map_or_else(|| self.absence.uncounted(), |_| Uncounted::Unsaid);
            self.explain(&mut view, record.as_ref(), uncounted);
        }
        if let Some(record) = record {
            view.execution = record.execution;
            view.url = record.url;
            view.paused = record.pause;
            view.head = record.head;
            view.delivered = Some(record.delivered);
        }
        view
    }

    /// At least so many messages wait that the broker may not have counted: nobody took what was published last.
    fn not_counted_yet(&self, record: Option<&QueueRecord>, seen: &Seen) -> u64 {
        let delivered_at = record.and_then(|record| record.last_delivered_at);
        let waits = |at: &Timestamp| delivered_at.is_none_or(|delivered| delivered < *at);
        let is_held =
            record.is_some_and(|record| record.owner.is_some()) || seen.unacked.is_some_and(|unacked| unacked > 0);
        u64::from(!is_held && self.published.get(&seen.name).is_some_and(waits))
    }

    fn explain(&self, view: &mut QueueView, record: Option<&QueueRecord>, uncounted: Uncounted<'_>) {
        let unknown;
        let record = if let Some(record) = record {
            record
        } else {
            unknown = QueueRecord::new(&view.name, self.now);
            &unknown
        };
        let owner = record.owner.and_then(|owner| self.incarnations.get(&owner));
        let owner = owner.filter(|owner| owner.alive).map(|owner| &owner.name);
        let wish = self.wish(Some(record));
        let why = why(&Facts {
            record,
            endpoint: record.url.as_ref().and_then(|url| self.endpoints.get(url)),
            depth: view.depth(),
            uncounted,
            owner: owner.map(String::as_str),
            wanted_by: wish.as_ref().and_then(Wish::of_the_living),
            daemons: self.daemons,
            blocked: self.blocked.as_deref(),
            locked_by: self.locked_by.as_deref(),
            letters_wait: self.letters_wait.as_deref(),
            unattached: self.unattached.get(&view.name).map(String::as_str),
            rate: record.url.as_ref().and_then(|url| self.rates.get(url)).copied(),
            now: self.now,
        });
        view.owner = owner.cloned();
        view.explain(why);
    }
}

/// Who wants a queue next.
enum Wish {
    Counts(String),
    Ended(String),
}

impl Wish {
    fn of_the_living(&self) -> Option<&str> {
        match self {
            Self::Counts(wisher) => Some(wisher),
            Self::Ended(_) => None,
        }
    }
}

impl World {
    fn wish(&self, record: Option<&QueueRecord>) -> Option<Wish> {
        let id = record?.wanted_by?;
        Some(match self.incarnations.get(&id) {
            Some(IncarnationName {
                name,
                host,
                alive: true,
            }) => Wish::Counts(format!("{name} on {host}")),
            Some(IncarnationName { name, host, .. }) => Wish::Ended(format!("{name} on {host}")),
            // It ended so long ago that nobody knows it any more.
            None => Wish::Ended(format!("incarnation {}", id.0)),
        })
    }
}

fn named(one: &Incarnation) -> (IncarnationId, IncarnationName) {
    let name = IncarnationName {
        name: one.name.clone(),
        host: one.host.clone(),
        alive: one.alive,
    };
    (one.id, name)
}

impl Queues {
    /// The world as it is now, and why the broker cannot be asked for anything.
    pub(super) async fn world(&self) -> Result<(World, Option<BrokerError>), EngineError> {
        let incarnations = as_evident(&self.store, self.store.incarnations().await?).await?;
        let mut endpoints = self.store.endpoints_not_available().await?;
        endpoints.extend(self.store.endpoints_paced(PACED_MAX).await?);
        let health = self.broker.health().await;
        let away = match health.wrong_login {
            Some(user) => Some(BrokerError::Login { user }),
            None => (!health.reachable).then(|| BrokerError::Unreachable {
                operation: "listing queues",
                detail: health.problem.unwrap_or_else(|| "no answer".to_owned()),
            }),
        };
        let now = self.clock.now();
        let world = World::new(&incarnations, endpoints, health.blocked, &self.settings.rates, now)
            .where_unattached(self.seen.unattached.reasons(now))
            .where_letters_wait(self.policy_guard.letters_wait().await);
        Ok((world, away))
    }

    /// Rows of the store joined with what the broker lists, each handed on as it is made: all rows of
    /// the store are never in memory at once.
    pub(in crate::engine) async fn join(
        &self,
        world: &World,
        seen: &[Seen],
        mut each: impl FnMut(QueueView),
    ) -> Result<(), StoreError> {
        let mut seen: HashMap<&QueueName, &Seen> = seen.iter().map(|seen| (&seen.name, seen)).collect();
        let mut pages = self.queue_pages(QueuesOnly::All);
        while let Some(rows) = pages.next().await? {
            ambient::beside(|| {
                for row in rows {
                    let (name, listed) = (row.name.clone(), seen.remove(&row.name));
                    each(world.view(self.kind_in(&name, listed), name, Some(row), listed));
                }
            });
        }
        ambient::beside(|| {
            for (name, listed) in seen {
                each(world.view(self.kind_in(name, Some(listed)), name.clone(), None, Some(listed)));
            }
        });
        Ok(())
    }
}

impl Core {
    /// What a queue is for, as far as its name and a listing tell.
    pub(in crate::engine) fn kind_in(&self, name: &QueueName, seen: Option<&Seen>) -> QueueKind {
        seen.and_then(|seen| seen.kind).unwrap_or_else(|| self.kind_of(name))
    }

    /// The same by its name alone.
    pub(in crate::engine) fn kind_of(&self, name: &QueueName) -> QueueKind {
        let naming = &self.settings.naming;
        let name = name.as_str();
        if naming.is_delivery_queue(name) {
            QueueKind::Delivery
        } else if name == naming.dead_letter_queue() {
            QueueKind::DeadLetter
        } else if name == naming.wake_queue() {
            QueueKind::Wake
        } else if name.starts_with(job::PREFIX) {
            QueueKind::Job
        } else if self.is_intake(name) {
            QueueKind::Intake
        } else {
            QueueKind::Foreign
        }
    }

    /// Whether an intake queue is on the vhost that is looked at; the embedded broker has only one.
    pub(in crate::engine) fn is_intake(&self, name: &str) -> bool {
        let consumers = &self.settings.events.consumers;
        let here = |vhost: &str| vhost == self.settings.naming.vhost || self.broker.is_embedded();
        consumers
            .iter()
            .any(|consumer| consumer.queue == name && here(&consumer.vhost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_published_since_a_queue_was_counted_waits_unless_somebody_took_it() {
        let (name, at) = (QueueName::parse("q").unwrap(), Timestamp::from_seconds);
        let published: HashMap<QueueName, Timestamp> = [(name.clone(), at(3))].into_iter().collect();
        let world = World::unknown(at(5)).where_published(published);
        let waits = |record: QueueRecord, ready: u64, unacked: u64| {
            let seen = Seen {
                ready: Some(ready),
                unacked: Some(unacked),
                ..Seen::unknown(name.clone(), at(5))
            };
            world
                .view(QueueKind::Delivery, name.clone(), Some(record), Some(&seen))
                .ready
        };
        let row = || QueueRecord::new(&name, at(0));
        assert_eq!(waits(row(), 0, 0), Some(1));
        assert_eq!(waits(row(), 4, 0), Some(4));
        assert_eq!(waits(row(), 0, 1), Some(0), "it is in somebody's hand");
        let delivered = |seconds| QueueRecord {
            last_delivered_at: Some(at(seconds)),
            ..row()
        };
        assert_eq!(waits(delivered(2), 0, 0), Some(1));
        assert_eq!(waits(delivered(4), 0, 0), Some(0));
        let held = QueueRecord {
            owner: Some(IncarnationId(1)),
            ..row()
        };
        assert_eq!(waits(held, 0, 0), Some(0));
    }
}
