//! Plans, and what came of them.

use std::borrow::Cow;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::Value;

use crate::domain::endpoint::EndpointState;
use crate::engine::{
    Caution, Confirmation, Danger, Done, Plan, Redelivered as RedeliveredView, Tested as TestedView, confirmation,
};

use super::endpoint::Endpoint;
use super::expiring::ExpiringOutcomeShape;
use super::policy::Policy;
use super::queue::Queue;
use super::run::{EditedLetter, Run, RunPlanShape};
use super::{Time, words};

/// What a command would do.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct PlanShape {
    /// The command's name, as audited.
    pub command: &'static str,
    /// One line for people.
    pub title: String,
    /// Each thing that changes.
    pub lines: Vec<PlanLine>,
    /// What to know before.
    pub warnings: Vec<String>,
    /// Messages that it touches.
    pub messages: Option<u64>,
    /// How long they take at the pace that is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_to_empty_s: Option<u64>,
    /// Whether messages are lost.
    pub destroys: bool,
    /// What a person types before it is carried out; null: a yes is enough.
    pub confirm: Option<Confirm>,
    /// Names exactly this plan.
    pub hash: String,
    /// The run that waits for its execution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunPlanShape>,
}

/// What is typed to accept a plan where a yes is not enough. A call that says so itself (`--yes`, HTTP) is not asked.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Confirm {
    /// `number of messages`, `name of the queue`.
    pub what: &'static str,
    /// The whole of it.
    pub word: String,
}

/// A plan that waits for its execution.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "Plan")]
pub struct Waiting {
    /// The plan.
    #[serde(flatten)]
    pub plan: PlanShape,
    /// The id that it is carried out with: the same call with `?plan=ID`.
    pub plan_id: String,
    /// Until when it waits.
    pub expires_at: Option<Time>,
}

/// One thing that changes.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct PlanLine {
    /// The URL, queue or message.
    pub target: String,
    /// How it is.
    pub now: String,
    /// What happens to it.
    pub effect: String,
}

impl PlanShape {
    /// As it is shown where so much is asked for.
    #[must_use]
    pub fn of(plan: &Plan, caution: Caution) -> Self {
        let confirm = match confirmation(std::slice::from_ref(plan), caution) {
            Confirmation::Yes => None,
            Confirmation::Word { what, word } => Some(Confirm { what, word }),
        };
        let line = |line: &crate::engine::PlanLine| PlanLine {
            target: line.target.clone(),
            now: line.now.clone(),
            effect: line.effect.clone(),
        };
        Self {
            command: plan.command.name(),
            title: plan.title.clone(),
            lines: plan.lines.iter().map(line).collect(),
            warnings: plan.warnings.clone(),
            messages: plan.messages,
            time_to_empty_s: plan.time_to_empty().map(|takes| takes.as_secs()),
            destroys: plan.danger == Danger::Destroys,
            confirm,
            hash: plan.hash.clone(),
            run: plan.run.as_ref().map(RunPlanShape::from),
        }
    }
}

/// An endpoint that was made available.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Redelivered {
    /// Which.
    pub url: String,
    /// Whether it was anything but available.
    pub was_unavailable: bool,
    /// What it was.
    #[schemars(with = "words::Availability")]
    pub before: &'static str,
    /// Its queues, without those that are paused one by one.
    pub queues: u64,
    /// Whether nothing is sent to it until somebody resumes it: a person paused it, or its canary is over.
    pub paused: bool,
}

impl From<&RedeliveredView> for Redelivered {
    fn from(view: &RedeliveredView) -> Self {
        Self {
            url: view.url.as_str().to_owned(),
            was_unavailable: view.before != EndpointState::Available,
            before: view.before.as_str(),
            queues: view.queues,
            paused: view.paused,
        }
    }
}

/// A test's answer.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Tested {
    /// The URL of the endpoint.
    pub url: String,
    /// The method that was sent.
    pub method: String,
    /// How the attempt ended.
    #[schemars(with = "words::AttemptClass")]
    pub class: &'static str,
    /// The HTTP status of the answer.
    pub status: Option<u16>,
    /// What went wrong where there was no answer.
    pub error: Option<String>,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
}

impl From<&TestedView> for Tested {
    fn from(view: &TestedView) -> Self {
        Self {
            url: view.url.as_str().to_owned(),
            method: view.method.clone(),
            class: view.class.as_str(),
            status: view.status,
            error: view.error.clone(),
            duration_ms: view.duration_ms,
        }
    }
}

/// Describes what is one of two.
#[derive(Clone, Copy, Debug)]
pub struct OneOf<A, B>(PhantomData<(A, B)>);

impl<A: JsonSchema, B: JsonSchema> JsonSchema for OneOf<A, B> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("{}Or{}", A::schema_name(), B::schema_name()).into()
    }

    fn json_schema(schemas: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [schemas.subschema_for::<A>(), schemas.subschema_for::<B>()]})
    }
}

/// A queue whose messages are gone.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Purged {
    /// The queue.
    pub name: String,
    /// Always true.
    pub purged: bool,
    /// Messages that were removed.
    pub messages: u64,
}

/// A queue that is gone.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Deleted {
    /// The queue.
    pub name: String,
    /// Always true.
    pub deleted: bool,
    /// Messages that went with it.
    pub messages: u64,
}

/// A vhost that is there now.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct VhostMade {
    /// Its name.
    pub vhost: String,
    /// Always true.
    pub made: bool,
}

/// A queue whose head is in the store.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Rescued {
    /// The queue.
    pub name: String,
    /// Always true.
    pub rescued: bool,
    /// The number under which it is kept.
    pub id: i64,
}

/// Dead letters that were changed.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Patched {
    /// How many.
    pub patched: u64,
    /// How many the patch does not apply to: they stay as they are. Those that a `test` of it leaves out are not counted.
    pub left: u64,
    /// Why, in a few sentences.
    pub why: Vec<String>,
}

/// How many endpoints were asked for: one answers an object, several a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Exactly one.
    One,
    /// Any number.
    Several,
}

/// What came of a plan, as one document.
#[must_use]
pub fn done(done: &Done, asked: Asked) -> Value {
    match done {
        Done::Redelivered(list) => match (asked, list.as_slice()) {
            (Asked::One, [one]) => to_value(&Redelivered::from(one)),
            (Asked::One | Asked::Several, list) => to_value(&list.iter().map(Redelivered::from).collect::<Vec<_>>()),
        },
        Done::Queue(view) => to_value(&Queue::from(view.as_ref())),
        Done::Purged { queue, messages } => to_value(&Purged {
            name: queue.as_str().to_owned(),
            purged: true,
            messages: *messages,
        }),
        Done::Deleted { queue, messages } => to_value(&Deleted {
            name: queue.as_str().to_owned(),
            deleted: true,
            messages: *messages,
        }),
        Done::Adopted { store } => serde_json::json!({"store": store, "adopted": true}),
        Done::VhostMade { vhost } => to_value(&VhostMade {
            vhost: vhost.clone(),
            made: true,
        }),
        Done::Rescued { queue, id } => to_value(&Rescued {
            name: queue.as_str().to_owned(),
            rescued: true,
            id: *id,
        }),
        Done::Tested(tested) => to_value(&Tested::from(tested)),
        Done::Events(done) => super::event::done(done, asked),
        Done::Endpoint(view) => to_value(&Endpoint::from(view.as_ref())),
        Done::Run(view) => to_value(&Run::from(view.as_ref())),
        Done::Patched { letters, left, why } => to_value(&Patched {
            patched: *letters,
            left: *left,
            why: why.clone(),
        }),
        Done::Edited(letter) => to_value(&EditedLetter::from(letter.as_ref())),
        Done::Expiring(outcomes) => match (asked, outcomes.as_slice()) {
            (Asked::One, [one]) => to_value(&ExpiringOutcomeShape::from(one)),
            (Asked::One | Asked::Several, all) => {
                to_value(&all.iter().map(ExpiringOutcomeShape::from).collect::<Vec<_>>())
            }
        },
        Done::Policy(view) => to_value(&Policy::from(view.as_ref())),
    }
}

#[expect(clippy::expect_used, reason = "the shapes of this layer have string keys")]
fn to_value(shape: &impl Serialize) -> Value {
    serde_json::to_value(shape).expect("a shape has string keys")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::url::EndpointUrl;

    #[test]
    fn one_endpoint_asked_for_answers_an_object_and_several_a_list() {
        let one = RedeliveredView {
            url: EndpointUrl::parse("http://example.com").unwrap(),
            before: EndpointState::Parked,
            queues: 2,
            paused: false,
        };
        let answer = Done::Redelivered(vec![one]);
        let object = done(&answer, Asked::One);
        assert_eq!(object["url"], "http://example.com/");
        assert_eq!(object["was_unavailable"], true);
        assert_eq!(object["queues"], 2);
        assert_eq!(done(&answer, Asked::Several), serde_json::json!([object]));
    }
}
