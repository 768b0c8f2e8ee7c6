//! Plans, and what came of them.

use serde::Serialize;
use serde_json::Value;

use crate::domain::endpoint::EndpointState;
use crate::engine::{Danger, Done, Plan, Redelivered as RedeliveredView, Tested as TestedView};

use super::endpoint::Endpoint;
use super::expiring::ExpiringOutcomeShape;
use super::policy::Policy;
use super::queue::Queue;
use super::run::{EditedLetter, Run, RunPlanShape};

/// What a command would do.
#[derive(Clone, Debug, Serialize)]
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
    /// Names exactly this plan.
    pub hash: String,
    /// The run that waits for its execution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunPlanShape>,
}

/// A plan that waits for its execution.
#[derive(Clone, Debug, Serialize)]
pub struct Waiting {
    /// The plan.
    #[serde(flatten)]
    pub plan: PlanShape,
    /// The id that it is carried out with: the same call with `?plan=ID`.
    pub plan_id: String,
    /// Until when it waits.
    pub expires_at: Option<String>,
}

/// One thing that changes.
#[derive(Clone, Debug, Serialize)]
pub struct PlanLine {
    /// The URL, queue or message.
    pub target: String,
    /// How it is.
    pub now: String,
    /// What happens to it.
    pub effect: String,
}

impl From<&Plan> for PlanShape {
    fn from(plan: &Plan) -> Self {
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
            hash: plan.hash.clone(),
            run: plan.run.as_ref().map(RunPlanShape::from),
        }
    }
}

/// An endpoint that was made available.
#[derive(Clone, Debug, Serialize)]
pub struct Redelivered {
    /// Which.
    pub url: String,
    /// Whether it was anything but available.
    pub was_unavailable: bool,
    /// What it was.
    pub before: &'static str,
    /// Its queues.
    pub queues: u64,
}

impl From<&RedeliveredView> for Redelivered {
    fn from(view: &RedeliveredView) -> Self {
        Self {
            url: view.url.as_str().to_owned(),
            was_unavailable: view.before != EndpointState::Available,
            before: view.before.as_str(),
            queues: view.queues,
        }
    }
}

/// A test's answer.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "named like the attempt's keys in docs/contract.md")]
pub struct Tested {
    pub url: String,
    pub method: String,
    pub class: &'static str,
    pub status: Option<u16>,
    pub error: Option<String>,
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
        Done::Purged { queue, messages } => {
            serde_json::json!({"name": queue.as_str(), "purged": true, "messages": messages})
        }
        Done::Deleted { queue, messages } => {
            serde_json::json!({"name": queue.as_str(), "deleted": true, "messages": messages})
        }
        Done::Adopted { store } => serde_json::json!({"store": store, "adopted": true}),
        Done::VhostMade { vhost } => serde_json::json!({"vhost": vhost, "made": true}),
        Done::Rescued { queue, id } => serde_json::json!({"name": queue.as_str(), "rescued": true, "id": id}),
        Done::Tested(tested) => to_value(&Tested::from(tested)),
        Done::Events(done) => super::event::done(done, asked),
        Done::Endpoint(view) => to_value(&Endpoint::from(view.as_ref())),
        Done::Run(view) => to_value(&Run::from(view.as_ref())),
        Done::Patched { letters } => serde_json::json!({"patched": letters}),
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
        };
        let answer = Done::Redelivered(vec![one]);
        let object = done(&answer, Asked::One);
        assert_eq!(object["url"], "http://example.com/");
        assert_eq!(object["was_unavailable"], true);
        assert_eq!(object["queues"], 2);
        assert_eq!(done(&answer, Asked::Several), serde_json::json!([object]));
    }
}
