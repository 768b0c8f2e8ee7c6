//! Events that services push while handlers fail, are slow, and lose their processes; and what a service may rely on: the
//! newest push of a key is handled, by one handler at a time, and subscribers hear of what was handled in its order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use redrive::internals::ambient;
use redrive::internals::domain::event::{Backoff, Event, EventState, EventType, HandlingRules, NewEvent, Reference};
use redrive::internals::domain::id::EVENT_ID_PREFIX;
use redrive::internals::domain::url::EndpointUrl;
use redrive::internals::engine::events::{
    EventHandler, EventSettings, Handled, HandlerAction, HandlerSettings, Pushed,
};
use redrive::internals::store::{EventBatch, EventTypes as _, Events as _, NewSubscription, PushOutcome};
use tokio::time::Instant;

use super::orders::Books;
use super::plan::Dice;
use super::receivers::Receivers;
use super::store::{Database, Handle};
use super::trace::Trace;

/// Everything that was pushed is handled so long after the last fault, or something is stuck.
const BOUND: Duration = Duration::from_mins(15);
/// Failures that make a dead letter: more than chance has in a row.
const CUTOFF: u32 = 20;

/// One push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Push {
    /// After the one before.
    after_ms: u64,
    reference: u64,
    kind: Kind,
}

/// What becomes of events of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// A handler of the embedding program gets them.
    Work,
    /// Subscribers are notified.
    News,
}

impl Kind {
    fn event_type(self) -> EventType {
        let name = match self {
            Self::Work => "work",
            Self::News => "news",
        };
        EventType::parse(name).expect("a type")
    }
}

pub fn draw(dice: &mut Dice) -> Vec<Push> {
    let (count, references) = (4 + dice.below(40), 1 + dice.below(4));
    let kinds = [Kind::Work, Kind::News];
    let pauses = [0, 50, 500, 2_000];
    let pushes = (0..count).map(|_| {
        let longest_ms = pauses[dice.index(4)];
        Push {
            after_ms: dice.below(longest_ms + 1),
            reference: dice.below(references),
            kind: kinds[dice.index(2)],
        }
    });
    pushes.collect()
}

pub fn settings() -> EventSettings {
    EventSettings {
        rules: HandlingRules {
            cutoff: CUTOFF,
            backoff: Backoff {
                base: Duration::from_millis(500),
                cap: Duration::from_secs(4),
            },
        },
        handlers: vec![HandlerSettings {
            event_type: Kind::News.event_type(),
            action: HandlerAction::Webhook,
        }],
        ..EventSettings::default()
    }
}

/// A promise about events that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// Two handlers had one reference at the same time.
    TwoAtOnce(String),
    /// What a handler was given is older than what it, or another one, was given before.
    Older { reference: String, given: u64, before: u64 },
    /// A handler was done with one push more often than crashes explain.
    HandledTooOften {
        push: String,
        times: usize,
        explained: usize,
    },
    /// The newest push of a reference was never handled, and is no dead letter.
    NotHandled(String),
    /// Nobody was notified of what was handled.
    NotNotified { id: i64, revision: i64 },
    /// A subscriber hears of something older after something newer.
    NotifiedOutOfOrder { queue: String, later: String },
    /// A notification was published more often than crashes explain.
    NotifiedTooOften { id: String, times: usize, explained: usize },
    /// A notification that is in order could not be published for ever.
    Buried(String),
    /// Something that should come does not.
    Stuck(String),
}

/// What handlers and services did.
#[derive(Debug, Default)]
struct Book {
    /// References in a handler's hand.
    in_hand: BTreeSet<String>,
    /// The newest version of each that a handler was given.
    given: BTreeMap<String, u64>,
    /// How often a handler was done with each push.
    done: BTreeMap<String, usize>,
    /// The last push of each key, with its version.
    pushed: BTreeMap<(Kind, u64), (u64, Pushed)>,
    wrong: Vec<Broken>,
}

/// Whoever pushes, handles and judges.
#[derive(Clone)]
pub struct Service {
    store: Handle,
    database: Database,
    trace: Trace,
    book: Arc<Mutex<Book>>,
}

/// It is in somebody's hand until this goes.
struct InHand<'a> {
    service: &'a Service,
    reference: String,
}

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        self.service.book().in_hand.remove(&self.reference);
    }
}

#[async_trait]
impl EventHandler for Service {
    async fn handle(&self, event: &Event) -> Handled {
        let push = String::from_utf8_lossy(event.payload.as_deref().unwrap_or_default()).into_owned();
        self.trace.note(&format!("handling {push}"));
        let in_hand = self.takes(event.reference.as_str().to_owned(), &push);
        let random = ambient::random();
        let longest_ms = match random % 32 {
            0 => 90_000,
            1..=4 => 15_000,
            _ => 300,
        };
        ambient::sleep(Duration::from_millis((random >> 8) % longest_ms)).await;
        drop(in_hand);
        let handled = match (random >> 40) % 16 {
            0..=2 => Handled::Failed("it cannot be done now".to_owned()),
            3 => {
                let at = self.trace.now().plus(Duration::from_secs(2));
                Handled::Requeue(at, "later".to_owned())
            }
            _ => Handled::Done,
        };
        self.trace.note(&format!("{handled:?} with {push}"));
        if handled == Handled::Done {
            *self.book().done.entry(push).or_default() += 1;
        }
        handled
    }
}

impl Service {
    pub fn new(database: &Database, trace: &Trace) -> Self {
        Self {
            store: database.handle(),
            database: database.clone(),
            trace: trace.clone(),
            book: Arc::default(),
        }
    }

    pub fn event_type() -> EventType {
        Kind::Work.event_type()
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn takes(&self, reference: String, push: &str) -> InHand<'_> {
        let version = push
            .rsplit(' ')
            .next()
            .and_then(|number| number.parse().ok())
            .unwrap_or(0);
        let mut book = self.book();
        if !book.in_hand.insert(reference.clone()) {
            book.wrong.push(Broken::TwoAtOnce(reference.clone()));
        }
        let before = book.given.insert(reference.clone(), version).unwrap_or(0);
        if before > version {
            book.wrong.push(Broken::Older {
                reference: reference.clone(),
                given: version,
                before,
            });
        }
        drop(book);
        InHand {
            service: self,
            reference,
        }
    }

    pub async fn subscribe(&self, url: &EndpointUrl) {
        let subscription = NewSubscription {
            event_type: Kind::News.event_type(),
            url: url.clone(),
            options: "{}".to_owned(),
        };
        self.store
            .subscription_put(&subscription)
            .await
            .expect("a subscription");
    }

    /// Pushes everything, each until it is confirmed.
    pub async fn push(&self, pushes: &[Push]) {
        let mut versions: BTreeMap<(Kind, u64), u64> = BTreeMap::new();
        for push in pushes {
            ambient::sleep(Duration::from_millis(push.after_ms)).await;
            let key = (push.kind, push.reference);
            let version = versions.entry(key).or_default();
            *version += 1;
            let event = NewEvent {
                event_type: push.kind.event_type(),
                reference: Reference::parse(&format!("r{}", push.reference)).expect("a reference"),
                nbf: None,
                reason: None,
                payload: Some(Bytes::from(format!("r{} {version}", push.reference))),
                lifetime: None,
                trace: None,
            };
            let batch = EventBatch {
                events: vec![event],
                ..EventBatch::default()
            };
            let pushed = loop {
                match self.store.events_push(&batch).await {
                    Ok(PushOutcome::Pushed(pushed)) => break pushed[0],
                    Ok(PushOutcome::Fenced) => unreachable!("it has no guard"),
                    Err(_) => ambient::sleep(Duration::from_millis(100)).await,
                }
            };
            self.trace.note(&format!(
                "pushed {:?} {} {version}: {pushed:?}",
                push.kind, push.reference
            ));
            self.book().pushed.insert(key, (*version, pushed));
        }
    }

    /// Until nothing waits.
    pub async fn settle(&self) {
        let began = Instant::now();
        loop {
            let events = self.database.events();
            let open = events
                .iter()
                .filter(|event| matches!(event.state, EventState::Ready | EventState::Leased));
            let (open, waiting) = (open.count(), self.database.outbox().0);
            if open == 0 && waiting == 0 {
                return;
            }
            if began.elapsed() > BOUND {
                let stuck = format!("{open} events and {waiting} notifications wait");
                self.book().wrong.push(Broken::Stuck(stuck));
                return;
            }
            ambient::sleep(Duration::from_millis(500)).await;
        }
    }

    /// Everything that is wrong at the end.
    pub fn judge(&self, books: &Books, receivers: &Receivers, urls: usize, repeats: usize) -> Vec<Broken> {
        let explained = 1 + repeats;
        let book = self.book();
        let mut wrong = book.wrong.clone();
        for (push, times) in book.done.iter().filter(|(_, times)| **times > explained) {
            let (push, times) = (push.clone(), *times);
            wrong.push(Broken::HandledTooOften { push, times, explained });
        }
        let dead = self.database.events();
        for ((kind, reference), (version, pushed)) in &book.pushed {
            if dead
                .iter()
                .any(|event| event.id == pushed.id && event.state == EventState::Dead)
            {
                continue;
            }
            let is_done = match kind {
                Kind::Work => book.done.contains_key(&format!("r{reference} {version}")),
                Kind::News => {
                    let heard = notified(pushed.id, pushed.revision);
                    let stored = books.stored().into_iter().map(|(_, id)| id);
                    let ids: BTreeSet<String> = stored.filter(|id| id.starts_with(&heard)).collect();
                    ids.len() == urls && ids.iter().all(|id| receivers.has_succeeded(id))
                }
            };
            if !is_done {
                wrong.push(Broken::NotHandled(format!("{kind:?} r{reference} {version}")));
            }
        }
        drop(book);
        wrong.extend(self.judge_notified(books, explained));
        wrong.extend(self.database.outbox().1.into_iter().map(Broken::Buried));
        wrong
    }

    fn judge_notified(&self, books: &Books, explained: usize) -> Vec<Broken> {
        let mut wrong = Vec::new();
        let stored = books.stored();
        let mut newest: BTreeMap<&str, (i64, i64)> = BTreeMap::new();
        let mut times: BTreeMap<&str, usize> = BTreeMap::new();
        for (queue, id) in &stored {
            let Some(key) = key_of(id) else { continue };
            *times.entry(id).or_default() += 1;
            let last = newest.entry(queue).or_insert(key);
            if *last > key {
                let (queue, later) = (queue.clone(), id.clone());
                wrong.push(Broken::NotifiedOutOfOrder { queue, later });
            }
            *last = key.max(*last);
        }
        for (id, times) in times.into_iter().filter(|(_, times)| *times > explained) {
            let id = id.to_owned();
            wrong.push(Broken::NotifiedTooOften { id, times, explained });
        }
        let known: BTreeSet<(i64, i64)> = stored.iter().filter_map(|(_, id)| key_of(id)).collect();
        let work: BTreeSet<i64> = self.worked_on();
        for (id, _, revision) in self.database.handled() {
            if !work.contains(&id) && !known.contains(&(id, revision)) {
                wrong.push(Broken::NotNotified { id, revision });
            }
        }
        wrong
    }

    /// Rows that a handler had.
    fn worked_on(&self) -> BTreeSet<i64> {
        self.database.rows_of(&Kind::Work.event_type())
    }
}

/// What the ids of all notifications of this revision begin with.
fn notified(id: i64, revision: i64) -> String {
    format!("{EVENT_ID_PREFIX}{id}-{revision}-")
}

/// Row and revision that a notification is of.
fn key_of(id: &str) -> Option<(i64, i64)> {
    let mut parts = id.strip_prefix(EVENT_ID_PREFIX)?.split('-');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}
