//! Keys that have one of a few words, for the description of the API. What is printed comes from where the word is
//! decided; the tests compare what is answered with these lists.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::domain::dead_letter::{self, DeadQueueKind, Home};
use crate::domain::endpoint::EndpointState;
use crate::domain::event::{EventState, Subtype};
use crate::domain::job::JobPart;
use crate::domain::outcome::OutcomeClass;
use crate::domain::pace::Stage;
use crate::domain::policy::{BackoffFunction, OnExhausted, OnRefused, Phase, PolicySource, Rescheduled};
use crate::domain::queue::{self, QueueState};
use crate::domain::run::{ItemState, RunState};
use crate::engine::events::{Finished, PushedHow};
use crate::engine::expiring::{self, SaveCause, SaveState};
use crate::engine::notification;
use crate::engine::runs::Via;
use crate::engine::view;

macro_rules! words {
    ($($name:ident = $words:expr, $about:literal;)*) => {$(
        #[doc = $about]
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({"type": "string", "enum": $words, "description": $about})
            }
        }
    )*};
}

words! {
    QueueKind = queue::QueueKind::NAMES, "What a queue is for.";
    DeliveryState = QueueState::ALL.map(QueueState::as_str), "Whether a delivery queue moves, and if not, why.";
    Availability = EndpointState::NAMES, "Whether something is sent to an endpoint.";
    NotificationState = notification::NotificationState::NAMES, "Where a notification stands.";
    PaceStage = Stage::NAMES, "Where a pace stands.";
    AttemptClass = OutcomeClass::ALL.map(OutcomeClass::as_str), "How an attempt ended.";
    RetryPhase = Phase::ALL.map(Phase::as_str), "A part of a schedule.";
    DeadHome = Home::NAMES, "Where a dead letter is kept.";
    DeadQueueOrigin = DeadQueueKind::NAMES, "Where the letters of a queue come from.";
    Trend = dead_letter::Trend::NAMES, "The last hour against the one before.";
    EventStatus = EventState::NAMES, "Where an event stands.";
    EventSubtype = Subtype::NAMES, "Whether an event is dated.";
    PushResult = PushedHow::NAMES, "What came of a push.";
    FinishResult = Finished::ALL.map(Finished::as_str), "What came of what a claim held.";
    RunStatus = RunState::NAMES, "Where a run stands.";
    RunItemState = ItemState::ALL.map(ItemState::as_str), "Where one message of a run stands.";
    Way = Via::ALL.map(Via::as_str), "By which way messages go back.";
    ExpiringResult = expiring::ExpiringResult::NAMES, "What came of it.";
    ExtendedBy = ["redeclare", "policy"], "What begins a queue's time again.";
    SaveReason = SaveCause::NAMES, "Why messages were saved.";
    SaveStatus = SaveState::NAMES, "Where a save stands.";
    Backoff = BackoffFunction::ALL.map(BackoffFunction::as_str), "How the delay grows.";
    WhenExhausted = OnExhausted::ALL.map(OnExhausted::as_str), "What happens when the retries are used up.";
    WhenRefused = OnRefused::ALL.map(OnRefused::as_str), "What happens when the receiver refuses.";
    PolicyFrom = PolicySource::NAMES, "Whose policy applies.";
    Then = Rescheduled::NAMES, "What happens to a head under another policy.";
    CheckResult = view::CheckResult::NAMES, "What a check came to.";
    DegradedPart = ["management", "publishing", "queues"], "What does not work while the rest is delivered.";
    JobQueue = JobPart::ALL.map(JobPart::as_str), "Which of a job's queues.";
}
