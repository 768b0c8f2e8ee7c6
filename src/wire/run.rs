//! Runs, and what selects the messages of one.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::domain::id::QueueName;
use crate::engine::runs::{
    self, Edit, ItemRecord, JsonPatch, Order, OrderKind, Patch, RunDetail, RunView, Selection, Via,
};
use crate::engine::{Receivers, RunPlan};

use super::input;
use super::problem::Problem;
use super::publish;
use super::{Time, time, words};

/// A run.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Run {
    /// The id.
    pub id: String,
    /// What it does.
    pub command: String,
    /// Where it stands.
    #[schemars(with = "words::RunStatus")]
    pub state: &'static str,
    /// What it does: the state, or `watching 4 s`, `not seen yet`, `asks`.
    pub phase: String,
    /// Messages that are done.
    pub done: u64,
    /// Messages that failed.
    pub failed: u64,
    /// Messages that were left out.
    pub skipped: u64,
    /// Messages that it discarded and that were put back since.
    pub restored: u64,
    /// All of its messages.
    pub total: u64,
    /// Messages a second, at most.
    pub rate: Option<u32>,
    /// So many first, then it asks or watches.
    pub canary: Option<u64>,
    /// Who started it.
    pub actor: String,
    /// Why.
    pub reason: Option<String>,
    /// What it waits for, or why it stopped.
    pub note: Option<String>,
    /// Who works on it.
    pub owner: Option<String>,
    /// The broker that it works on.
    pub broker: Option<String>,
    /// How long it still takes, in seconds.
    pub eta_s: Option<u64>,
    /// When it was planned.
    pub created_at: Option<Time>,
    /// When it began.
    pub started_at: Option<Time>,
    /// When something of it changed last.
    pub updated_at: Option<Time>,
    /// When it ended.
    pub ended_at: Option<Time>,
}

impl From<&RunView> for Run {
    fn from(view: &RunView) -> Self {
        let run = &view.record;
        Self {
            id: run.id.clone(),
            command: run.command.clone(),
            state: run.state.as_str(),
            phase: view.phase().to_string(),
            done: run.counts.done,
            failed: run.counts.failed,
            skipped: run.counts.skipped,
            restored: run.restored,
            total: run.total,
            rate: run.rate,
            canary: run.canary,
            actor: run.actor.clone(),
            reason: run.reason.clone(),
            note: run.note.clone(),
            owner: view.owner.clone(),
            broker: run.broker.clone(),
            eta_s: view.eta.map(|eta| eta.as_secs()),
            created_at: time(run.created_at),
            started_at: run.started_at.and_then(time),
            updated_at: time(run.updated_at),
            ended_at: run.ended_at.and_then(time),
        }
    }
}

/// A run with its plan and a page of its items.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct RunWithItems {
    /// The run.
    #[serde(flatten)]
    pub run: Run,
    /// What was planned.
    pub plan: Option<Box<RawValue>>,
    /// Items in their order.
    pub items: Vec<Item>,
    /// Where the next page of items begins.
    pub next_cursor: Option<String>,
}

impl From<&RunDetail> for RunWithItems {
    fn from(detail: &RunDetail) -> Self {
        Self {
            run: Run::from(&detail.run),
            plan: RawValue::from_string(detail.run.record.plan.clone()).ok(),
            items: detail.items.iter().map(Item::from).collect(),
            next_cursor: detail.next_after.map(|after| after.to_string()),
        }
    }
}

/// One message of a run.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "RunItem")]
pub struct Item {
    /// The dead letter's id.
    pub id: String,
    /// Where it was.
    pub queue: String,
    /// Where it goes.
    pub target: Option<String>,
    /// Where it stands.
    #[schemars(with = "words::RunItemState")]
    pub state: &'static str,
    /// Why, where that is not plain.
    pub reason: Option<String>,
    /// What was taken off it.
    pub dropped: Option<Box<RawValue>>,
}

impl From<&ItemRecord> for Item {
    fn from(record: &ItemRecord) -> Self {
        Self {
            id: record.item.letter.clone(),
            queue: record.item.source.as_str().to_owned(),
            target: record.item.target.as_ref().map(ToString::to_string),
            state: record.item.state.as_str(),
            reason: record.item.reason.clone(),
            dropped: record.dropped.clone().and_then(|text| RawValue::from_string(text).ok()),
        }
    }
}

/// What a planned run would do.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "RunPlan")]
pub struct RunPlanShape {
    /// The run's id.
    pub id: String,
    /// Messages.
    pub total: u64,
    /// Of them, those that cannot go anywhere.
    pub refused: u64,
    /// Bytes of their bodies.
    pub size_bytes: u64,
    /// When the oldest one failed first.
    pub oldest_at: Option<Time>,
    /// When the newest one failed last.
    pub newest_at: Option<Time>,
    /// What is taken off them.
    pub dropped_headers: Vec<String>,
    /// Some of them.
    pub samples: Vec<String>,
    /// How long it takes.
    pub estimated_s: Option<u64>,
    /// Who gets what goes back to where it was published.
    pub receivers: Vec<ReceiversShape>,
}

/// Who gets those that were published alike.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "Receivers")]
pub struct ReceiversShape {
    /// The exchange that they were published to.
    pub exchange: String,
    /// With which key; one of them, where there are several.
    pub routing_key: String,
    /// How many keys.
    pub keys: u64,
    /// How many messages.
    pub messages: u64,
    /// `exchange` or `queue`.
    #[schemars(with = "words::Way")]
    pub via: &'static str,
    /// The queues that the exchange leads to; null where that is not known.
    pub bound: Option<Vec<String>>,
    /// The queues that get them; null where that is not known.
    pub get: Option<Vec<String>>,
    /// The same, for people.
    pub says: String,
}

impl From<&Receivers> for ReceiversShape {
    fn from(receivers: &Receivers) -> Self {
        Self {
            exchange: receivers.exchange.clone(),
            routing_key: receivers.routing_key.clone(),
            keys: receivers.keys,
            messages: receivers.messages,
            via: receivers.via,
            bound: receivers.bound.clone(),
            get: receivers.get.clone(),
            says: receivers.says.clone(),
        }
    }
}

impl From<&RunPlan> for RunPlanShape {
    fn from(plan: &RunPlan) -> Self {
        Self {
            id: plan.id.clone(),
            total: plan.total,
            refused: plan.refused,
            size_bytes: plan.bytes,
            oldest_at: plan.oldest.and_then(time),
            newest_at: plan.newest.and_then(time),
            dropped_headers: plan.dropped.clone(),
            samples: plan.samples.clone(),
            estimated_s: plan.estimated.map(|span| span.as_secs()),
            receivers: plan.receivers.iter().map(ReceiversShape::from).collect(),
        }
    }
}

/// A dead letter as it will be sent.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "Edited")]
pub struct EditedLetter {
    /// Its id.
    pub id: String,
    /// Where it is.
    pub queue: String,
    /// Whether something else than the original is sent.
    pub edited: bool,
    /// Bytes of the new body.
    pub size_bytes: usize,
}

impl From<&runs::EditedLetter> for EditedLetter {
    fn from(letter: &runs::EditedLetter) -> Self {
        Self {
            id: letter.id.clone(),
            queue: letter.queue.as_str().to_owned(),
            edited: letter.edited != letter.original,
            size_bytes: letter.edited.body.len(),
        }
    }
}

/// What is changed of a dead letter.
#[derive(Clone, Debug, Default, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Edit")]
pub struct EditInput {
    /// The new body: a string, or any other JSON as its exact source.
    pub body: Option<Box<RawValue>>,
    /// The new body, in base64.
    pub body_base64: Option<Box<RawValue>>,
    /// The new content type.
    pub content_type: Option<String>,
    /// Headers to set, or with null to remove.
    #[serde(default)]
    pub headers: BTreeMap<String, Option<String>>,
    /// Why; for the audit.
    pub reason: Option<String>,
}

impl EditInput {
    /// The edit that it asks for.
    pub fn edit(self) -> Result<Edit, Problem> {
        let given = self.body.is_some() || self.body_base64.is_some();
        let (body, _) = publish::body(self.body.as_deref(), self.body_base64.as_deref())?;
        Ok(Edit {
            body: given.then_some(body),
            content_type: self.content_type,
            headers: self.headers.into_iter().collect(),
        })
    }
}

/// One change of many dead letters: exactly one of `ids`, `group` and `filter`.
#[derive(Clone, Debug, Default, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Patch")]
pub struct PatchInput {
    /// These.
    #[serde(default)]
    pub ids: Vec<String>,
    /// A group, by its fingerprint.
    pub group: Option<String>,
    /// Those that match.
    pub filter: Option<String>,
    /// Operations on their bodies (RFC 6902).
    pub patch: Option<Box<RawValue>>,
    /// The new content type.
    pub content_type: Option<String>,
    /// Headers to set, or with null to remove.
    #[serde(default)]
    pub headers: BTreeMap<String, Option<String>>,
    /// Why; for the audit.
    pub reason: Option<String>,
}

impl PatchInput {
    /// Which letters, and what is changed in them.
    pub fn patch(self) -> Result<(Selection, Patch), Problem> {
        let operations = self.patch.map(|patch| JsonPatch::parse(patch.get())).transpose();
        let patch = Patch {
            operations: operations.map_err(|why| Problem::field("patch", why))?,
            content_type: self.content_type,
            headers: self.headers.into_iter().collect(),
        };
        let others = [self.group.map(Selection::Group), self.filter.map(Selection::Filter)];
        let selection = one_of(self.ids, others);
        Ok((
            selection.ok_or_else(|| Problem::field("ids", "say which: exactly one of ids, group and filter"))?,
            patch,
        ))
    }
}

/// The one that is said; `None` where it is none or several.
fn one_of<const OTHERS: usize>(ids: Vec<String>, others: [Option<Selection>; OTHERS]) -> Option<Selection> {
    let ids = Some(ids).filter(|ids| !ids.is_empty()).map(Selection::Ids);
    let mut said = ids.into_iter().chain(others.into_iter().flatten());
    said.next().filter(|_| said.next().is_none())
}

/// Which dead letters, and how: exactly one of `ids`, `group`, `filter`, `run` and `all`.
#[derive(Clone, Debug, Default, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Order")]
pub struct OrderInput {
    /// These.
    #[serde(default)]
    pub ids: Vec<String>,
    /// A group, by its fingerprint.
    pub group: Option<String>,
    /// Those that match.
    pub filter: Option<String>,
    /// What this run discarded, as far as it is still kept; only to restore it.
    pub run: Option<String>,
    /// Every one.
    #[serde(default)]
    pub all: bool,
    /// Messages a second, at most.
    pub rate: Option<u32>,
    /// Into this queue.
    pub to: Option<String>,
    /// By this way back: `exchange` or `queue`.
    #[schemars(with = "Option<words::Way>")]
    pub via: Option<String>,
    /// Stop and ask after so many.
    pub canary: Option<u64>,
    /// Watch them for so many seconds, and go on when none died again and no endpoint of theirs failed, instead of
    /// asking.
    pub canary_watch_s: Option<u64>,
    /// Then to so many times what is done, watched again, and so on, instead of all the rest at once.
    pub ramp: Option<u32>,
    /// Before everything that waits in their delivery queues.
    #[serde(default)]
    pub head: bool,
    /// Why; for the audit.
    pub reason: Option<String>,
}

impl OrderInput {
    /// The order that it asks for.
    pub fn order(self, kind: OrderKind) -> Result<Order, Problem> {
        let others = [
            self.group.map(Selection::Group),
            self.filter.map(Selection::Filter),
            self.run.map(Selection::Run),
            self.all.then_some(Selection::All),
        ];
        let selection = one_of(self.ids, others);
        let selection = selection
            .ok_or_else(|| Problem::field("ids", "say which: exactly one of ids, group, filter, run and all"))?;
        let to: Option<QueueName> = self.to.as_deref().map(queue_of).transpose()?;
        Ok(Order {
            to,
            via: self.via.as_deref().map(via_of).transpose()?,
            rate: self.rate,
            canary: self.canary,
            canary_watch: self.canary_watch_s.map(Duration::from_secs),
            ramp: self.ramp,
            head: self.head,
            ..Order::new(kind, selection)
        })
    }
}

fn via_of(name: &str) -> Result<Via, Problem> {
    Via::from_name(name).ok_or_else(|| Problem::field("via", "via is exchange or queue"))
}

fn queue_of(name: &str) -> Result<QueueName, Problem> {
    input::queue(name).map_err(|problem| problem.named("to"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_one_selection_is_taken() {
        let read = |text: &str| {
            serde_json::from_str::<OrderInput>(text)
                .unwrap()
                .order(OrderKind::Redrive)
        };
        let order = read(r#"{"all": true, "rate": 5, "to": "q"}"#).unwrap();
        assert_eq!((order.selection, order.rate), (Selection::All, Some(5)));
        assert_eq!(order.to, QueueName::parse("q").ok());
        for wrong in ["{}", r#"{"all": true, "ids": ["a"]}"#, r#"{"ids": []}"#] {
            assert_eq!(read(wrong).unwrap_err().field.as_deref(), Some("ids"), "{wrong}");
        }
        assert_eq!(
            read(r#"{"all": true, "to": ""}"#).unwrap_err().field.as_deref(),
            Some("to")
        );
    }
}
