//! The server's side: queues in their order, who consumes them, which connections are open, what the statistics say.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use redrive::internals::ambient;
use redrive::internals::broker::{Look, Signal};
use redrive::internals::domain::message::Message;
use redrive::internals::domain::numbers::Numbers;
use tokio::sync::{Notify, broadcast};
use tokio::time::Instant;

use super::{LISTED_EVERY, Rules, SIGNALS};

/// Everything that the server knows.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) rules: Rules,
    pub(super) queues: BTreeMap<String, Queue>,
    pub(super) numbers: Option<Numbers>,
    pub(super) is_bound: bool,
    pub(super) alarm: Option<String>,
    /// Nobody is let in until then.
    pub(super) down_until: Option<Instant>,
    /// Clients that listen, by their number; each hears of what happens.
    pub(super) listeners: BTreeMap<u64, broadcast::Sender<Signal>>,
    /// Of those, who consume the wake queue.
    pub(super) awake: BTreeSet<u64>,
    /// Consumers that lost their connection, until the server notices.
    pub(super) forgotten: BTreeSet<u64>,
    /// Of those, the ones whose acks on the way are lost.
    pub(super) cut: BTreeSet<u64>,
    last_consumer: u64,
    last_client: u64,
    listed: BTreeMap<String, (u64, u64)>,
    listed_at: Option<Instant>,
}

/// One queue.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) bound: bool,
    last_place: u64,
    /// In order; what is in somebody's hand keeps its place.
    pub(super) messages: VecDeque<Stored>,
    /// In the order in which they came: where only one is active, that is the first.
    pub(super) consumers: Vec<Attachment>,
    pub(super) changed: Arc<Notify>,
}

/// Who consumes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attachment {
    pub(super) id: u64,
    prefetch: usize,
    /// It may see every message, in its turn or not: a walk.
    is_alone: bool,
}

/// A message in its place.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub(super) place: u64,
    pub(super) message: Message,
    pub(super) holder: Option<u64>,
    pub(super) redelivered: bool,
    /// How often it came back from somebody's hand.
    returns: u32,
}

impl Server {
    pub(super) fn new(rules: Rules) -> Self {
        Self {
            rules,
            queues: BTreeMap::new(),
            numbers: None,
            is_bound: false,
            alarm: None,
            down_until: None,
            listeners: BTreeMap::new(),
            awake: BTreeSet::new(),
            forgotten: BTreeSet::new(),
            cut: BTreeSet::new(),
            last_consumer: 0,
            last_client: 0,
            listed: BTreeMap::new(),
            listed_at: None,
        }
    }

    pub(super) fn is_down(&self) -> bool {
        self.down_until.is_some_and(|until| Instant::now() < until)
    }

    pub(super) fn admit(&mut self) -> (u64, broadcast::Sender<Signal>) {
        self.last_client += 1;
        let signals = broadcast::channel(SIGNALS).0;
        self.listeners.insert(self.last_client, signals.clone());
        (self.last_client, signals)
    }

    pub(super) fn dismiss(&mut self, client: u64) {
        self.listeners.remove(&client);
        self.awake.remove(&client);
    }

    /// Everybody hears it.
    pub(super) fn tell(&self, signal: &Signal) {
        for listener in self.listeners.values() {
            let _ = listener.send(signal.clone());
        }
    }

    /// The wake queue gives a nudge to one of those who consume it.
    pub(super) fn nudge(&self, signal: Signal) {
        let awake: Vec<u64> = self.awake.iter().copied().collect();
        if awake.is_empty() {
            return;
        }
        let chosen = awake[usize::try_from(ambient::random() % awake.len() as u64).unwrap_or(0)];
        if let Some(listener) = self.listeners.get(&chosen) {
            let _ = listener.send(signal);
        }
    }

    pub(super) fn consume(&mut self, queue: &str, prefetch: usize, is_alone: bool) -> Option<Attachment> {
        self.last_consumer += 1;
        let attachment = Attachment {
            id: self.last_consumer,
            prefetch,
            is_alone,
        };
        let found = self.queues.get_mut(queue)?;
        found.consumers.push(attachment);
        found.changed.notify_waiters();
        Some(attachment)
    }

    /// A channel ended: what its consumer had in hand is back. Answers what came back once too often.
    pub(super) fn leave(&mut self, queue: &str, consumer: u64) -> Vec<Message> {
        let rules = self.rules;
        self.forgotten.remove(&consumer);
        let Some(found) = self.queues.get_mut(queue) else {
            return Vec::new();
        };
        found.consumers.retain(|one| one.id != consumer);
        found.give_back(consumer, rules);
        found.changed.notify_waiters();
        found.overrun(rules)
    }

    /// Acks arrive, unless they were on a connection that was cut.
    pub(super) fn settle(&mut self, queue: &str, consumer: u64, places: &mut VecDeque<u64>) -> Vec<Message> {
        let mut settled = Vec::new();
        let is_cut = self.cut.contains(&consumer);
        for place in places.drain(..) {
            let Some(found) = self.queues.get_mut(queue).filter(|_| !is_cut) else {
                continue;
            };
            let own = |one: &Stored| one.place == place && one.holder == Some(consumer);
            if let Some(at) = found.messages.iter().position(own)
                && let Some(stored) = found.messages.remove(at)
            {
                settled.push(stored.message);
                found.changed.notify_waiters();
            }
        }
        settled
    }

    /// Ready and in hand, as the statistics have it: some seconds old.
    pub(super) fn listed(&mut self) -> BTreeMap<String, (u64, u64)> {
        let now = Instant::now();
        if self.listed_at.is_none_or(|at| now >= at + LISTED_EVERY) {
            self.listed_at = Some(now);
            let counts = |(name, queue): (&String, &Queue)| (name.clone(), queue.counts());
            self.listed = self.queues.iter().map(counts).collect();
        }
        self.listed.clone()
    }

    pub(super) fn wake_all(&self) {
        for queue in self.queues.values() {
            queue.changed.notify_waiters();
        }
    }
}

impl Queue {
    pub(super) fn store(&mut self, message: &Message) {
        self.last_place += 1;
        self.messages.push_back(Stored {
            place: self.last_place,
            message: message.clone(),
            holder: None,
            redelivered: false,
            returns: 0,
        });
        self.changed.notify_waiters();
    }

    pub(super) fn counts(&self) -> (u64, u64) {
        let ready = self.messages.iter().filter(|one| one.holder.is_none()).count() as u64;
        (ready, self.messages.len() as u64 - ready)
    }

    pub(super) fn look(&self) -> Look {
        Look::Present {
            ready: self.counts().0,
            consumers: self.consumers.len() as u64,
        }
    }

    pub(super) fn is_unused(&self) -> bool {
        self.messages.is_empty() && self.consumers.is_empty()
    }

    /// What `consumer` gets next, if its turn is now.
    pub(super) fn take(&mut self, consumer: Attachment, rules: Rules) -> Option<Stored> {
        let is_turn = !rules.one_is_active
            || consumer.is_alone
            || self.consumers.first().is_some_and(|first| first.id == consumer.id);
        let in_hand = self
            .messages
            .iter()
            .filter(|one| one.holder == Some(consumer.id))
            .count();
        if !is_turn || in_hand >= consumer.prefetch {
            return None;
        }
        let next = self.messages.iter_mut().find(|one| one.holder.is_none())?;
        next.holder = Some(consumer.id);
        Some(next.clone())
    }

    /// Takes out what came back more often than the queue allows.
    fn overrun(&mut self, rules: Rules) -> Vec<Message> {
        let Some(limit) = rules.delivery_limit else {
            return Vec::new();
        };
        let (over, kept): (VecDeque<Stored>, VecDeque<Stored>) = self
            .messages
            .drain(..)
            .partition(|one| one.holder.is_none() && one.returns > limit);
        self.messages = kept;
        over.into_iter().map(|stored| stored.message).collect()
    }

    fn give_back(&mut self, consumer: u64, rules: Rules) {
        let mut back = Vec::new();
        for stored in &mut self.messages {
            if stored.holder == Some(consumer) {
                stored.holder = None;
                stored.redelivered = true;
                stored.returns += 1;
                back.push(stored.place);
            }
        }
        if rules.returns_keep_their_place {
            return;
        }
        let (returned, mut kept): (VecDeque<Stored>, VecDeque<Stored>) =
            self.messages.drain(..).partition(|one| back.contains(&one.place));
        kept.extend(returned);
        self.messages = kept;
    }
}
