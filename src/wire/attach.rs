//! What an attached process and its daemon tell each other. Both are redrive of one release: this is no contract.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::domain::id::QueueName;
use crate::domain::naming::{Naming, QueueType};
use crate::domain::scope::Scope;
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;
use crate::engine::Plan;
use crate::engine::error::ToldError;
use crate::engine::handle::Attached;
use crate::engine::query::Incarnation;
use crate::engine::runs::RunView;
use crate::engine::snapshot::{EndpointRow, Part, QueueRow, Silent, Snapshot, Totals, Worst};
use crate::engine::view::Retry;

/// Raised with each change of what is told: only equal ones understand each other.
pub const PROTOCOL: u32 = 7;

/// A question, or what is to be done at once.
#[derive(Debug, Deserialize)]
pub struct Named {
    /// Its name.
    pub name: String,
    /// What is given with it.
    pub given: Box<RawValue>,
}

impl Named {
    /// The same, written; `given` is JSON already, and may be large.
    #[must_use]
    pub fn written(name: &'static str, given: &[u8]) -> Vec<u8> {
        [b"{\"name\":\"", name.as_bytes(), b"\",\"given\":", given, b"}"].concat()
    }
}

/// A line of an export; `T` is the letter, or a reference to it.
#[derive(Debug, Serialize, Deserialize)]
pub enum Exported<T> {
    /// A dead letter with its message.
    Letter(T),
    /// Why there are no more of them; the last line.
    Ended(ToldError),
}

/// A plan, and the id to carry it out with.
#[derive(Debug, Serialize, Deserialize)]
pub struct Planned {
    /// The id.
    pub id: String,
    /// The plan.
    pub plan: Plan,
}

/// What is to be carried out.
#[derive(Debug, Serialize, Deserialize)]
pub struct Execute {
    /// The plan's id.
    pub id: String,
    /// Why, for the audit.
    pub reason: Option<String>,
}

/// What went wrong.
#[derive(Debug, Serialize, Deserialize)]
pub struct Told {
    /// The engine's error.
    pub error: ToldError,
}

/// The first word of a stream.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Hello {
    /// The daemon's release.
    pub version: String,
    /// The prefix of its queues.
    pub prefix: String,
    /// Whether its delivery queues are quorum queues.
    pub is_quorum: bool,
    /// Whether whoever attached may look; without it nothing follows but beats.
    pub may_look: bool,
    /// Its vhost, and what whoever attached may change.
    pub attached: Attached,
}

impl Hello {
    /// Of a daemon with these names, for a token that these scopes are allowed; the key of its hashes stays there.
    #[must_use]
    pub fn of(naming: &Naming, allows: impl Fn(Scope) -> bool) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            prefix: naming.prefix.clone(),
            is_quorum: naming.queue_type == QueueType::Quorum,
            may_look: allows(Scope::Read),
            attached: Attached {
                vhost: naming.vhost.clone(),
                may_change: allows(Scope::Operate),
                may_administer: allows(Scope::Admin),
            },
        }
    }

    /// The names, without the key: names of delivery queues are made by the daemon alone.
    #[must_use]
    pub fn naming(&self) -> Naming {
        Naming {
            prefix: self.prefix.clone(),
            vhost: self.attached.vhost.clone(),
            url_hash_key: String::new(),
            queue_type: if self.is_quorum {
                QueueType::Quorum
            } else {
                QueueType::Classic
            },
        }
    }
}

/// What a snapshot has that the one before had not: rows that did not change are left out.
#[derive(Debug, Serialize, Deserialize)]
pub struct Changes {
    generation: u64,
    taken_at: Timestamp,
    took: Duration,
    broker: Part,
    store: Part,
    silent: Option<Silent>,
    dead_unread: Option<String>,
    dead_places: Option<Arc<std::collections::BTreeMap<String, u64>>>,
    alarm: Option<String>,
    incident: Option<String>,
    dead_letter_queue: Option<QueueName>,
    queues: Vec<Arc<QueueRow>>,
    queues_gone: Vec<QueueName>,
    endpoints: Vec<Arc<EndpointRow>>,
    endpoints_gone: Vec<EndpointUrl>,
    retries: Option<Arc<Vec<Arc<Retry>>>>,
    runs: Option<Arc<Vec<RunView>>>,
    incarnations: Option<Arc<Vec<Incarnation>>>,
    totals: Totals,
}

/// Rows with a key.
trait Keyed {
    type Key: Clone + Eq + std::hash::Hash;
    fn key(&self) -> &Self::Key;
}

impl Keyed for QueueRow {
    type Key = QueueName;
    fn key(&self) -> &QueueName {
        &self.name
    }
}

impl Keyed for EndpointRow {
    type Key = EndpointUrl;
    fn key(&self) -> &EndpointUrl {
        &self.endpoint.url
    }
}

/// Rows that are another allocation than before, and the keys of those that are gone.
fn difference<R: Keyed>(before: &[Arc<R>], now: &[Arc<R>]) -> (Vec<Arc<R>>, Vec<R::Key>) {
    let known: HashSet<*const R> = before.iter().map(Arc::as_ptr).collect();
    let changed: Vec<Arc<R>> = now
        .iter()
        .filter(|row| !known.contains(&Arc::as_ptr(row)))
        .cloned()
        .collect();
    let gone = if changed.is_empty() && before.len() == now.len() {
        Vec::new()
    } else {
        let present: HashSet<&R::Key> = now.iter().map(|row| row.key()).collect();
        before
            .iter()
            .map(|row| row.key())
            .filter(|key| !present.contains(key))
            .cloned()
            .collect()
    };
    (changed, gone)
}

/// The rows of before with the changes in them, in the order of `place` where they are new.
fn applied<R: Keyed>(before: &[Arc<R>], changed: Vec<Arc<R>>, gone: &[R::Key]) -> Vec<Arc<R>> {
    let gone: HashSet<&R::Key> = gone.iter().collect();
    let mut new: std::collections::HashMap<R::Key, Arc<R>> =
        changed.iter().map(|row| (row.key().clone(), Arc::clone(row))).collect();
    let mut rows: Vec<Arc<R>> = before
        .iter()
        .filter(|row| !gone.contains(row.key()))
        .map(|row| new.remove(row.key()).unwrap_or_else(|| Arc::clone(row)))
        .collect();
    rows.extend(changed.into_iter().filter(|row| new.contains_key(row.key())));
    rows
}

fn unless_same<T>(before: &Arc<T>, now: &Arc<T>) -> Option<Arc<T>>
where
    T: PartialEq,
{
    (**before != **now).then(|| Arc::clone(now))
}

impl Changes {
    /// From one snapshot of an observer to a later one.
    #[must_use]
    pub fn between(before: &Snapshot, now: &Snapshot) -> Self {
        let (queues, queues_gone) = difference(&before.queues, &now.queues);
        let (endpoints, endpoints_gone) = difference(&before.endpoints, &now.endpoints);
        Self {
            generation: now.generation,
            taken_at: now.taken_at,
            took: now.took,
            broker: now.broker.clone(),
            store: now.store.clone(),
            silent: now.silent,
            dead_unread: now.dead_unread.clone(),
            dead_places: now.dead_places.clone(),
            alarm: now.alarm.clone(),
            incident: now.incident.clone(),
            dead_letter_queue: now.dead_letter_queue.clone(),
            queues,
            queues_gone,
            endpoints,
            endpoints_gone,
            retries: unless_same(&before.retries, &now.retries),
            runs: unless_same(&before.runs, &now.runs),
            incarnations: unless_same(&before.incarnations, &now.incarnations),
            totals: now.totals.clone(),
        }
    }

    /// The later snapshot, from the one of before.
    #[must_use]
    pub fn after(self, before: &Snapshot) -> Snapshot {
        let mut queues = applied(&before.queues, self.queues, &self.queues_gone);
        queues.sort_by(|a, b| a.name.cmp(&b.name));
        let endpoints = applied(&before.endpoints, self.endpoints, &self.endpoints_gone);
        Snapshot {
            generation: self.generation,
            taken_at: self.taken_at,
            took: self.took,
            // Whoever is attached knows how far away it is.
            latency: None,
            broker: self.broker,
            store: self.store,
            silent: self.silent,
            dead_unread: self.dead_unread,
            dead_places: self.dead_places,
            alarm: self.alarm,
            incident: self.incident,
            dead_letter_queue: self.dead_letter_queue,
            worst: Worst::of(&queues, &endpoints),
            queues: Arc::new(queues),
            endpoints: Arc::new(endpoints),
            retries: self.retries.unwrap_or_else(|| Arc::clone(&before.retries)),
            runs: self.runs.unwrap_or_else(|| Arc::clone(&before.runs)),
            incarnations: self.incarnations.unwrap_or_else(|| Arc::clone(&before.incarnations)),
            totals: self.totals,
        }
    }
}

/// The last word of a stream whose daemon stops: a comment, which no reader takes for an event.
pub const STOPS: &[u8] = b":the daemon stops\n\n";

/// One frame of a stream of server-sent events. The document has no line breaks.
#[must_use]
pub fn frame(kind: &str, document: &[u8]) -> Vec<u8> {
    let mut bytes = format!("event: {kind}\ndata: ").into_bytes();
    bytes.extend_from_slice(document);
    bytes.extend_from_slice(b"\n\n");
    bytes
}
