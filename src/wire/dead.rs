//! Dead letters, their groups and their queues.

use serde::Serialize;

use crate::domain::dead_letter::{DeadLetter as Letter, DeadQueueKind, Target, policy, response};
use crate::domain::death::Death as DomainDeath;
use crate::engine::dead::{
    Compared, DeadComparison, DeadDetail, DeadGroup, DeadPage, DeadQueueRow, DeadQueueView, DeadSum, Feeder,
};

use super::queue::{Header, headers};
use super::{Unread, time};

/// A dead letter.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "the keys are those of docs/contract.md")]
pub struct DeadLetter {
    pub id: String,
    pub home: &'static str,
    pub queue: String,
    pub position: u64,
    pub origin: Option<String>,
    pub message_id: Option<String>,
    pub url: Option<String>,
    pub execution_id: Option<String>,
    pub reason: String,
    pub class: Option<String>,
    pub status: Option<u16>,
    pub error: Option<String>,
    pub attempts: Option<u64>,
    pub first_failed_at: Option<String>,
    pub last_failed_at: Option<String>,
    pub expires_at: Option<String>,
    pub redriven: u32,
    pub fingerprint: String,
    pub r#where: String,
    pub what: String,
    pub size_bytes: u64,
    pub begins: Option<String>,
    pub redelivered: bool,
    pub broker: Option<String>,
}

impl From<&Letter> for DeadLetter {
    fn from(letter: &Letter) -> Self {
        Self {
            id: letter.id.as_str().to_owned(),
            home: letter.home.as_str(),
            queue: letter.queue.as_str().to_owned(),
            position: letter.position,
            origin: letter.origin.clone(),
            message_id: letter.message_id.clone(),
            url: letter.url.clone(),
            execution_id: letter.execution.clone(),
            reason: letter.reason.clone(),
            class: letter.class.clone(),
            status: letter.status,
            error: letter.error.clone(),
            attempts: letter.attempts,
            first_failed_at: letter.first_failed_at.and_then(time),
            last_failed_at: letter.last_failed_at.and_then(time),
            expires_at: letter.expires_at.and_then(time),
            redriven: letter.redriven,
            fingerprint: letter.fingerprint.clone(),
            r#where: letter.place.clone(),
            what: letter.what.clone(),
            size_bytes: letter.size_bytes,
            begins: letter.begins.clone(),
            redelivered: letter.redelivered,
            broker: letter.broker.clone(),
        }
    }
}

/// A group of dead letters that failed alike. `trend` compares the last hour with the one before.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "the keys are those of docs/contract.md")]
pub struct Group {
    pub fingerprint: String,
    pub r#where: String,
    pub what: String,
    pub count: u64,
    pub first_failed_at: Option<String>,
    pub last_failed_at: Option<String>,
    pub last_hour: u64,
    pub hour_before: u64,
    pub trend: &'static str,
}

impl From<&DeadGroup> for Group {
    fn from(group: &DeadGroup) -> Self {
        Self {
            fingerprint: group.fingerprint.clone(),
            r#where: group.place.clone(),
            what: group.what.clone(),
            count: group.count,
            first_failed_at: group.first_failed_at.and_then(time),
            last_failed_at: group.last_failed_at.and_then(time),
            last_hour: group.recent,
            hour_before: group.before,
            trend: match group.recent.cmp(&group.before) {
                std::cmp::Ordering::Greater => "rising",
                std::cmp::Ordering::Equal if group.recent == 0 => "quiet",
                std::cmp::Ordering::Equal => "steady",
                std::cmp::Ordering::Less => "falling",
            },
        }
    }
}

/// A dead-letter queue and the look at it.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "each is described beside the view that it is made from")]
pub struct Queue {
    pub name: String,
    pub kind: Option<&'static str>,
    pub consumed: bool,
    pub ready: Option<u64>,
    pub messages: Option<u64>,
    pub looked_at: Option<String>,
    pub looking: bool,
    pub seen: Option<u64>,
    pub expected: Option<u64>,
    pub problem: Option<String>,
}

impl From<&DeadQueueView> for Queue {
    fn from(view: &DeadQueueView) -> Self {
        Self {
            name: view.name.as_str().to_owned(),
            kind: view.kind.map(DeadQueueKind::as_str),
            consumed: view.consumed,
            ready: view.ready,
            messages: view.messages,
            looked_at: view.looked_at.and_then(time),
            looking: view.looking.is_some(),
            seen: view.looking.map(|(seen, _)| seen),
            expected: view.looking.and_then(|(_, expected)| expected),
            problem: view.problem.clone(),
        }
    }
}

/// A queue whose dead letters end in another one.
#[derive(Clone, Debug, Serialize)]
pub struct FeederShape {
    /// Its name.
    pub queue: String,
    /// The exchange that they come through, empty for the default exchange; null: no argument and no policy says that
    /// they come here, the letters themselves do.
    pub exchange: Option<String>,
    /// The key that they come with; null: their own.
    pub routing_key: Option<String>,
    /// Whether they surely get here, by the bindings or because some did.
    pub certain: bool,
    /// How many of the letters that were seen died in it first.
    pub letters: u64,
}

impl From<&Feeder> for FeederShape {
    fn from(feeder: &Feeder) -> Self {
        Self {
            queue: feeder.queue.clone(),
            exchange: feeder.exchange.clone(),
            routing_key: feeder.routing_key.clone(),
            certain: feeder.is_certain,
            letters: feeder.letters,
        }
    }
}

/// A queue that dead letters are in, with the queues that they come from.
#[derive(Clone, Debug, Serialize)]
pub struct QueueRow {
    /// The queue and the look at it.
    #[serde(flatten)]
    pub queue: Queue,
    /// How many dead letters are in it; null is not known, never zero.
    pub letters: Option<u64>,
    /// When the first of those that were seen failed first.
    pub first_failed_at: Option<String>,
    /// When the last of them failed last.
    pub last_failed_at: Option<String>,
    /// The queues that they come from, those of most letters first; at most 50 are named.
    pub fed_by: Vec<FeederShape>,
}

impl From<&DeadQueueRow> for QueueRow {
    fn from(row: &DeadQueueRow) -> Self {
        Self {
            queue: Queue::from(&row.queue),
            letters: row.queue.letters(),
            first_failed_at: row.first_failed_at.and_then(time),
            last_failed_at: row.last_failed_at.and_then(time),
            fed_by: row.fed_by.iter().map(FeederShape::from).collect(),
        }
    }
}

/// A page of the queues that dead letters are in.
#[derive(Clone, Debug, Serialize)]
pub struct QueueList {
    /// The queues of this page.
    pub items: Vec<QueueRow>,
    /// Where the next page begins; opaque.
    pub next_cursor: Option<String>,
    /// When it was read.
    pub taken_at: Option<String>,
    /// When the oldest look ended that this is from; null while a queue was not looked at since it changed.
    pub as_of: Option<String>,
    /// How many dead letters there are in all, whatever this page shows.
    pub total: Total,
    /// What could not be read, so that there may be more than this.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Unread>,
}

impl From<&DeadPage<DeadQueueRow>> for QueueList {
    fn from(page: &DeadPage<DeadQueueRow>) -> Self {
        Self {
            items: page.page.items.iter().map(QueueRow::from).collect(),
            next_cursor: page.page.next_cursor.clone(),
            taken_at: time(page.page.taken_at),
            as_of: page.as_of.and_then(time),
            total: Total::from(page.sum()),
            problems: page.problems.iter().map(Unread::from).collect(),
        }
    }
}

/// How many dead letters and dead events there are; `null` is not known, never zero.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Total {
    /// Dead letters in queues that nobody consumes, and in the store.
    pub letters: Option<u64>,
    /// How many places have some.
    pub queues: u64,
    /// Dead events of the event table.
    pub events: Option<u64>,
}

impl From<DeadSum> for Total {
    fn from(sum: DeadSum) -> Self {
        Self {
            letters: sum.letters,
            queues: sum.queues,
            events: sum.events,
        }
    }
}

/// A page with the queues that it was read from.
#[derive(Clone, Debug, Serialize)]
pub struct List<T> {
    /// The items of this page.
    pub items: Vec<T>,
    /// Where the next page begins; opaque.
    pub next_cursor: Option<String>,
    /// When it was read.
    pub taken_at: Option<String>,
    /// When the oldest look ended that this is from; null while a queue was not looked at since it changed.
    pub as_of: Option<String>,
    /// Every dead-letter queue, and how far the look at it is.
    pub queues: Vec<Queue>,
    /// How many there are in all, whatever this page shows.
    pub total: Total,
    /// What could not be read, so that there may be more than this.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Unread>,
}

impl<T> List<T> {
    /// The shape of a page.
    pub fn of<V>(page: &DeadPage<V>) -> Self
    where
        T: for<'a> From<&'a V>,
    {
        Self {
            items: page.page.items.iter().map(T::from).collect(),
            next_cursor: page.page.next_cursor.clone(),
            taken_at: time(page.page.taken_at),
            as_of: page.as_of.and_then(time),
            queues: page.queues.iter().map(Queue::from).collect(),
            total: Total::from(page.sum()),
            problems: page.problems.iter().map(Unread::from).collect(),
        }
    }
}

/// All deaths in one queue for one reason.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "named like the entries of x-death")]
pub struct Death {
    pub queue: Option<String>,
    pub reason: Option<String>,
    pub count: Option<u64>,
    pub exchange: Option<String>,
    pub routing_keys: Vec<String>,
    pub at: Option<String>,
    pub original_expiration: Option<String>,
}

impl From<&DomainDeath> for Death {
    fn from(death: &DomainDeath) -> Self {
        Self {
            queue: death.queue.clone(),
            reason: death.reason.clone(),
            count: death.count,
            exchange: death.exchange.clone(),
            routing_keys: death.routing_keys.clone(),
            at: death.at.and_then(time),
            original_expiration: death.original_expiration.clone(),
        }
    }
}

/// Where a redrive to the origin sends it.
#[derive(Clone, Debug, Default, Serialize)]
#[allow(missing_docs, reason = "queue of ours, or exchange and key; else the problem")]
pub struct Destination {
    pub queue: Option<String>,
    pub exchange: Option<String>,
    pub routing_key: Option<String>,
    pub problem: Option<String>,
}

/// A dead letter with everything.
#[derive(Clone, Debug, Serialize)]
pub struct Detail {
    /// As listed.
    #[serde(flatten)]
    pub letter: DeadLetter,
    /// How it died, the most recent first.
    pub deaths: Vec<Death>,
    /// Where a redrive sends it.
    pub target: Destination,
    /// The policy that applied.
    pub policy: Option<String>,
    /// The beginning of the last answer; bytes that are not UTF-8 are replaced.
    pub response: Option<String>,
    /// MIME type of the body.
    pub content_type: Option<String>,
    /// AMQP `type`.
    pub r#type: Option<String>,
    /// The property `timestamp`.
    pub timestamp: Option<String>,
    /// The property `correlation_id`.
    pub correlation_id: Option<String>,
    /// The property `reply_to`.
    pub reply_to: Option<String>,
    /// The property `app_id`.
    pub app_id: Option<String>,
    /// Headers.
    pub headers: Vec<Header>,
    /// Whether it can be sent on unchanged.
    pub whole: bool,
    /// The body where that is UTF-8.
    pub body: Option<String>,
    /// The body where it is not.
    pub body_base64: Option<String>,
}

impl From<&DeadDetail> for Detail {
    fn from(detail: &DeadDetail) -> Self {
        let message = &detail.message;
        let (body, body_base64) = super::text_or_base64(&message.body);
        Self {
            letter: DeadLetter::from(&detail.letter),
            deaths: detail.history.deaths.iter().map(Death::from).collect(),
            target: destination(&detail.target),
            policy: policy(message).map(str::to_owned),
            response: response(message).map(|bytes| String::from_utf8_lossy(bytes).into_owned()),
            content_type: message.content_type.clone(),
            r#type: message.kind.clone(),
            timestamp: message.created_at().and_then(time),
            correlation_id: message.correlation_id.clone(),
            reply_to: message.reply_to.clone(),
            app_id: message.app_id.clone(),
            headers: headers(message),
            whole: message.is_whole(),
            body,
            body_base64,
        }
    }
}

fn destination(target: &Result<Target, String>) -> Destination {
    match target {
        Ok(Target::Delivery(queue)) => Destination {
            queue: Some(queue.as_str().to_owned()),
            ..Destination::default()
        },
        Ok(Target::Exchange { exchange, routing_key }) => Destination {
            exchange: Some(exchange.clone()),
            routing_key: Some(routing_key.clone()),
            ..Destination::default()
        },
        Err(problem) => Destination {
            problem: Some(problem.clone()),
            ..Destination::default()
        },
    }
}

/// What is alike in dead letters, and what is not.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The ids of those that were compared.
    pub letters: Vec<String>,
    /// Whether there are more of the group or filter.
    pub more: bool,
    /// The places that differ, then the others.
    pub places: Vec<Place>,
    /// Places that were too many to be compared.
    pub left_out: u64,
    /// What could not be read, so that more may be missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Unread>,
}

/// A property, a header, or a part of a body.
#[derive(Clone, Debug, Serialize)]
pub struct Place {
    /// `header tenant`, `body /customer/id`, `body line 3`.
    pub place: String,
    /// How many different values there are; null: it is hidden, and not compared.
    pub different: Option<u64>,
    /// At most 20 of them, the most frequent first.
    pub values: Vec<Shared>,
}

/// A value and how many of the letters have it.
#[derive(Clone, Debug, Serialize)]
pub struct Shared {
    /// The value as text, cut after 200 characters; null: nothing is there.
    pub value: Option<String>,
    /// How many of the letters have it.
    pub letters: u64,
}

impl From<&DeadComparison> for Comparison {
    fn from(found: &DeadComparison) -> Self {
        let comparison = &found.comparison;
        Self {
            letters: found.letters.clone(),
            more: found.more,
            places: comparison
                .different()
                .chain(comparison.alike())
                .map(Place::from)
                .collect(),
            left_out: comparison.left_out,
            problems: found.problems.iter().map(Unread::from).collect(),
        }
    }
}

impl From<&Compared> for Place {
    fn from(place: &Compared) -> Self {
        let values = place.values.iter().map(|shared| Shared {
            value: shared.value.clone(),
            letters: shared.messages,
        });
        Self {
            place: place.place.clone(),
            different: place.different,
            values: values.collect(),
        }
    }
}
