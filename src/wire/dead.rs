//! Dead letters, their groups and their queues.

use schemars::JsonSchema;
use serde::Serialize;

use crate::domain::dead_letter::{DeadLetter as Letter, DeadQueueKind, Target, Trend, policy, response};
use crate::domain::death::Death as DomainDeath;
use crate::engine::dead::{
    Compared, DeadComparison, DeadDetail, DeadGroup, DeadPage, DeadQueueRow, DeadQueueView, DeadSum, Feeder, Instead,
};

use super::problem::Problem;
use super::queue::{Header, headers};
use super::{Time, Unread, time, words};

/// A dead letter.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct DeadLetter {
    /// The id.
    pub id: String,
    /// Where it is kept.
    #[schemars(with = "words::DeadHome")]
    pub home: &'static str,
    /// The queue that it is in.
    pub queue: String,
    /// Its place in there; 1 is the head.
    pub position: u64,
    /// The queue that it died in.
    pub origin: Option<String>,
    /// The notification's id.
    pub message_id: Option<String>,
    /// The URL of the endpoint.
    pub url: Option<String>,
    /// The execution that it belongs to.
    pub execution_id: Option<String>,
    /// Why it died, in one word.
    pub reason: String,
    /// How the last attempt ended.
    #[schemars(with = "Option<words::AttemptClass>")]
    pub class: Option<String>,
    /// The HTTP status of the last answer.
    pub status: Option<u16>,
    /// The last error where there was no answer.
    pub error: Option<String>,
    /// Attempts that were made.
    pub attempts: Option<u64>,
    /// When it failed first.
    pub first_failed_at: Option<Time>,
    /// When it failed last.
    pub last_failed_at: Option<Time>,
    /// When it expires.
    pub expires_at: Option<Time>,
    /// How often it was redriven.
    pub redriven: u32,
    /// The group that it belongs to.
    pub fingerprint: String,
    /// Where it failed.
    pub r#where: String,
    /// What failed.
    pub what: String,
    /// Bytes of the body.
    pub size_bytes: u64,
    /// How the body begins.
    pub begins: Option<String>,
    /// Whether the broker delivered it before.
    pub redelivered: bool,
    /// The broker that it was on.
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
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "DeadGroup")]
pub struct Group {
    /// Names the group.
    pub fingerprint: String,
    /// Where they failed.
    pub r#where: String,
    /// What failed.
    pub what: String,
    /// How many dead letters are in it.
    pub count: u64,
    /// When the first of them failed first.
    pub first_failed_at: Option<Time>,
    /// When the last of them failed last.
    pub last_failed_at: Option<Time>,
    /// How many died within the last hour.
    pub last_hour: u64,
    /// How many died in the hour before that.
    pub hour_before: u64,
    /// The last hour against the one before.
    #[schemars(with = "words::Trend")]
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
            trend: Trend::of(group.recent, group.before).as_str(),
        }
    }
}

/// A dead-letter queue and the look at it.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "DeadQueue")]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// Where its letters come from.
    #[schemars(with = "Option<words::DeadQueueOrigin>")]
    pub kind: Option<&'static str>,
    /// Whether somebody consumes it.
    pub consumed: bool,
    /// Whether it may be a queue of work whose consumers are away; what is in it is not counted.
    pub may_be_work: bool,
    /// Messages that wait in it.
    pub ready: Option<u64>,
    /// All of its messages.
    pub messages: Option<u64>,
    /// When the last look at it ended.
    pub looked_at: Option<Time>,
    /// Whether a look is under way.
    pub looking: bool,
    /// Letters that the look has seen.
    pub seen: Option<u64>,
    /// Letters that it will see.
    pub expected: Option<u64>,
    /// Why it cannot be looked at.
    pub problem: Option<String>,
}

impl From<&DeadQueueView> for Queue {
    fn from(view: &DeadQueueView) -> Self {
        Self {
            name: view.name.as_str().to_owned(),
            kind: view.kind.map(DeadQueueKind::as_str),
            consumed: view.consumed,
            may_be_work: view.may_be_work,
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
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "DeadFeeder")]
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
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "DeadQueueRow")]
pub struct QueueRow {
    /// The queue and the look at it.
    #[serde(flatten)]
    pub queue: Queue,
    /// How many dead letters are in it; null is not known, never zero.
    pub letters: Option<u64>,
    /// When the first of those that were seen failed first.
    pub first_failed_at: Option<Time>,
    /// When the last of them failed last.
    pub last_failed_at: Option<Time>,
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
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "DeadQueueList")]
pub struct QueueList {
    /// The queues of this page.
    pub items: Vec<QueueRow>,
    /// Where the next page begins; opaque.
    pub next_cursor: Option<String>,
    /// When it was read.
    pub taken_at: Option<Time>,
    /// When the oldest look ended that this is from; null while a queue was not looked at since it changed.
    pub as_of: Option<Time>,
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
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
#[schemars(rename = "DeadTotal")]
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
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "{T}List")]
pub struct List<T> {
    /// The items of this page.
    pub items: Vec<T>,
    /// Where the next page begins; opaque.
    pub next_cursor: Option<String>,
    /// When it was read.
    pub taken_at: Option<Time>,
    /// When the oldest look ended that this is from; null while a queue was not looked at since it changed.
    pub as_of: Option<Time>,
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
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Death {
    /// The queue that it died in.
    pub queue: Option<String>,
    /// Why.
    pub reason: Option<String>,
    /// How often.
    pub count: Option<u64>,
    /// The exchange that it was published to.
    pub exchange: Option<String>,
    /// With these keys.
    pub routing_keys: Vec<String>,
    /// When it died there first.
    pub at: Option<Time>,
    /// The lifetime that it had, in milliseconds.
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
#[derive(Clone, Debug, Default, JsonSchema, Serialize)]
#[schemars(rename = "DeadTarget")]
pub struct Destination {
    /// A delivery queue of redrive.
    pub queue: Option<String>,
    /// Or an exchange.
    pub exchange: Option<String>,
    /// With this key.
    pub routing_key: Option<String>,
    /// Or why it cannot go back.
    pub problem: Option<String>,
}

/// A dead letter with everything.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "DeadLetterDetail")]
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
    pub timestamp: Option<Time>,
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
    /// What is sent in its place when it is redriven, where somebody edited or patched it; an export does not tell it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edited: Option<SentInstead>,
}

/// What is sent in the place of a dead letter.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct SentInstead {
    /// Who edited or patched it last.
    pub actor: String,
    /// When.
    pub at: Option<Time>,
    /// MIME type of the body.
    pub content_type: Option<String>,
    /// Headers.
    pub headers: Vec<Header>,
    /// The body where that is UTF-8.
    pub body: Option<String>,
    /// The body where it is not.
    pub body_base64: Option<String>,
}

impl From<&Instead> for SentInstead {
    fn from(instead: &Instead) -> Self {
        let (body, body_base64) = super::text_or_base64(&instead.message.body);
        Self {
            actor: instead.actor.clone(),
            at: time(instead.at),
            content_type: instead.message.content_type.clone(),
            headers: headers(&instead.message),
            body,
            body_base64,
        }
    }
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
            edited: detail.edited.as_deref().map(SentInstead::from),
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

/// The last line of an export that lacks something.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[serde(untagged)]
pub enum ExportEnd {
    /// What could not be read, or that the time was up.
    Lacks {
        /// What is missing.
        problems: Vec<Unread>,
    },
    /// Why it was broken off.
    Broken {
        /// The problem.
        problem: Problem,
    },
}

/// What is alike in dead letters, and what is not.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "DeadComparison")]
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
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "DeadPlace")]
pub struct Place {
    /// `header tenant`, `body /customer/id`, `body line 3`.
    pub place: String,
    /// How many different values there are; null: it is hidden, and not compared.
    pub different: Option<u64>,
    /// At most 20 of them, the most frequent first.
    pub values: Vec<Shared>,
}

/// A value and how many of the letters have it.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "DeadValue")]
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
