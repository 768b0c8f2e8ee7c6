//! Queues with a lifetime, what was saved from them, and what came of an order.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::problem::Problem;
use super::{Time, input, time, words};
use crate::domain::expiry::Extends;
use crate::domain::id::QueueName;
use crate::domain::job::Lifetime;
use crate::engine::expiring::{
    ExpiringOrder, ExpiringOutcome, ExpiringPage, ExpiringQueue, ExpiringResult, Keep, SaveRecord, Which,
};

/// A queue with a lifetime, or a leftover that should have one.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "Expiring")]
pub struct ExpiringShape {
    /// Its name.
    pub name: String,
    /// How long it lives unused; `null`: for ever.
    pub ttl_s: Option<f64>,
    /// For how long nobody has used it; `null`: it is used, or nobody knows.
    pub idle_s: Option<f64>,
    /// When it goes; `null` while it is used.
    pub expires_at: Option<Time>,
    /// Whether that is derived from statistics, which lag by seconds.
    pub estimated: bool,
    /// Consumers.
    pub consumers: Option<u64>,
    /// Messages that would be lost.
    pub messages: Option<u64>,
    /// Bytes of them.
    pub bytes: Option<u64>,
    /// What it is for.
    #[schemars(with = "words::QueueKind")]
    pub kind: &'static str,
    /// Whether it was unused for longer than it should live, and is still there.
    pub over: bool,
    /// `redeclare`, `policy` or `null`: what begins its time anew.
    #[schemars(with = "Option<words::ExtendedBy>")]
    pub extends: Option<&'static str>,
    /// Why nothing does.
    pub extends_not: Option<String>,
    /// When it was seen so.
    pub seen_at: Option<Time>,
}

impl From<&ExpiringQueue> for ExpiringShape {
    fn from(queue: &ExpiringQueue) -> Self {
        let (extends, extends_not) = match &queue.extends {
            Extends::Redeclare => (Some("redeclare"), None),
            Extends::Policy => (Some("policy"), None),
            Extends::No(why) => (None, Some(why.clone())),
        };
        Self {
            name: queue.name.as_str().to_owned(),
            ttl_s: queue.ttl.map(|ttl| ttl.as_secs_f64()),
            idle_s: queue.idle.map(|idle| idle.as_secs_f64()),
            expires_at: queue.expires_at.and_then(time),
            estimated: queue.estimated,
            consumers: queue.consumers,
            messages: queue.messages,
            bytes: queue.bytes,
            kind: queue.kind.as_str(),
            over: queue.over,
            extends,
            extends_not,
            seen_at: time(queue.seen_at),
        }
    }
}

/// A page of them, as the HTTP API answers it.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ExpiringList {
    /// What is lost first in front.
    pub items: Vec<ExpiringShape>,
    /// Where the next page begins; opaque.
    pub next_cursor: Option<String>,
    /// When they were listed.
    pub taken_at: Option<Time>,
    /// How many there are in all.
    pub total: u64,
    /// Queues that go within the hour with messages in them.
    pub soon_queues: u64,
    /// The messages in them.
    pub soon_messages: u64,
}

impl From<&ExpiringPage> for ExpiringList {
    fn from(page: &ExpiringPage) -> Self {
        Self {
            items: page.items.iter().map(ExpiringShape::from).collect(),
            next_cursor: page.next_cursor.clone(),
            taken_at: time(page.taken_at),
            total: page.total,
            soon_queues: page.soon.queues,
            soon_messages: page.soon.messages,
        }
    }
}

/// What came of one queue or save.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "ExpiringOutcome")]
pub struct ExpiringOutcomeShape {
    /// The queue.
    pub name: String,
    /// `saved`, `purged`, `restored`, `extended` or `left`.
    #[schemars(with = "words::ExpiringResult")]
    pub result: &'static str,
    /// Why it was left, or done in part.
    pub why: Option<String>,
    /// The save that has its messages, or had them.
    pub save: Option<String>,
    /// Messages that were moved, or lost.
    pub messages: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// When the queue goes now.
    pub expires_at: Option<Time>,
}

impl From<&ExpiringOutcome> for ExpiringOutcomeShape {
    fn from(outcome: &ExpiringOutcome) -> Self {
        Self {
            name: outcome.queue.as_str().to_owned(),
            result: outcome.result.as_str(),
            why: match &outcome.result {
                ExpiringResult::Left(why) => Some(why.clone()),
                ExpiringResult::Saved
                | ExpiringResult::Purged
                | ExpiringResult::Restored
                | ExpiringResult::Extended => None,
            },
            save: outcome.save.clone(),
            messages: outcome.messages,
            bytes: outcome.bytes,
            expires_at: outcome.expires_at.and_then(time),
        }
    }
}

/// Messages that were saved from a queue.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "Save")]
pub struct SaveShape {
    /// Its id.
    pub id: String,
    /// From where.
    pub queue: String,
    /// `save`, `purge` or `expiry`.
    #[schemars(with = "words::SaveReason")]
    pub cause: &'static str,
    /// `taking`, `kept` or `restored`.
    #[schemars(with = "words::SaveStatus")]
    pub state: &'static str,
    /// Who.
    pub actor: String,
    /// Why.
    pub reason: Option<String>,
    /// Messages that were saved.
    pub messages: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Messages that are still there.
    pub left: u64,
    /// When.
    pub at: Option<Time>,
    /// Until when they are kept.
    pub until: Option<Time>,
}

impl From<&SaveRecord> for SaveShape {
    fn from(record: &SaveRecord) -> Self {
        Self {
            id: record.id.clone(),
            queue: record.queue.as_str().to_owned(),
            cause: record.cause.as_str(),
            state: record.state.as_str(),
            actor: record.actor.clone(),
            reason: record.reason.clone(),
            messages: record.messages,
            bytes: record.bytes,
            left: record.left,
            at: time(record.at),
            until: time(record.until),
        }
    }
}

/// What is wanted of queues with a lifetime, as the routes read it.
#[derive(Debug, Default, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ExpiringOrder")]
pub struct ExpiringInput {
    /// One queue.
    queue: Option<String>,
    /// Or several.
    queues: Option<Vec<String>>,
    /// Why.
    pub reason: Option<String>,
    /// Purge: lose the messages instead of saving them.
    #[serde(default)]
    drop: bool,
    /// Extend: how long they live unused from now on.
    ttl_s: Option<f64>,
    /// Restore: one save.
    save: Option<String>,
    /// Restore: or several.
    saves: Option<Vec<String>>,
    /// Restore: into this queue.
    to: Option<String>,
}

impl ExpiringInput {
    /// Refuses what another verb takes: nobody is to see it ignored.
    fn takes_no(&self, keys: &[&str], verb: &str) -> Result<(), Problem> {
        let given = |key: &str| match key {
            "queue" => self.queue.is_some(),
            "queues" => self.queues.is_some(),
            "drop" => self.drop,
            "ttl_s" => self.ttl_s.is_some(),
            "save" => self.save.is_some(),
            "saves" => self.saves.is_some(),
            "to" => self.to.is_some(),
            _ => false,
        };
        match keys.iter().find(|key| given(key)) {
            None => Ok(()),
            Some(key) => Err(Problem::field(
                key,
                format!("{key} means nothing to {verb}: leave it out. Nothing was done"),
            )),
        }
    }

    /// The messages of queues into the store.
    pub fn save_order(&self) -> Result<ExpiringOrder, Problem> {
        self.takes_no(&["drop", "ttl_s", "save", "saves", "to"], "save")?;
        Ok(ExpiringOrder::Save(named(&self.queues())?))
    }

    /// Queues away: the expired ones, where none is named.
    pub fn purge_order(&self) -> Result<ExpiringOrder, Problem> {
        self.takes_no(&["ttl_s", "save", "saves", "to"], "purge")?;
        let queues = self.queues();
        Ok(ExpiringOrder::Purge {
            which: if queues.is_empty() {
                Which::Expired
            } else {
                named(&queues)?
            },
            keep: if self.drop { Keep::Dropped } else { Keep::Saved },
        })
    }

    /// The time of queues anew.
    pub fn extend_order(&self) -> Result<ExpiringOrder, Problem> {
        self.takes_no(&["drop", "save", "saves", "to"], "extend")?;
        Ok(ExpiringOrder::Extend {
            which: named(&self.queues())?,
            lifetime: self.ttl_s.map(lifetime).transpose()?,
        })
    }

    /// Saved messages back.
    pub fn restore_order(&self) -> Result<ExpiringOrder, Problem> {
        self.takes_no(&["queue", "queues", "drop", "ttl_s"], "restore")?;
        let saves = self.saves.iter().flatten().chain(&self.save).cloned().collect();
        restore(saves, self.to.as_deref())
    }

    fn queues(&self) -> Vec<String> {
        self.queues.iter().flatten().chain(&self.queue).cloned().collect()
    }
}

/// These queues.
pub fn named(names: &[String]) -> Result<Which, Problem> {
    if names.is_empty() {
        return Err(Problem::field(
            "queues",
            "queues is empty: name at least one".to_owned(),
        ));
    }
    let queues: Result<Vec<QueueName>, Problem> = names.iter().map(|name| input::queue(name)).collect();
    Ok(Which::Queues(queues?))
}

/// These saves back.
pub fn restore(saves: Vec<String>, to: Option<&str>) -> Result<ExpiringOrder, Problem> {
    if saves.is_empty() {
        return Err(Problem::field("saves", "saves is empty: name at least one".to_owned()));
    }
    Ok(ExpiringOrder::Restore {
        saves,
        to: to
            .map(input::queue)
            .transpose()
            .map_err(|problem| problem.named("to"))?,
    })
}

/// A lifetime in seconds.
pub fn lifetime(seconds: f64) -> Result<Duration, Problem> {
    match Lifetime::from_seconds(seconds) {
        Ok(Lifetime::Unused(lifetime)) => Ok(lifetime),
        Ok(Lifetime::Never) => Err(Problem::field("ttl_s", "ttl_s must be a number of seconds".to_owned())),
        Err(error) => Err(Problem::field("ttl_s", error.to_string())),
    }
}
