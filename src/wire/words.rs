//! Keys that have one of a few words, for the description of the API. What is printed comes from where the word is
//! decided; the tests compare what is answered with these lists.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::domain::dead_letter::DeadQueueKind;
use crate::domain::endpoint::EndpointState;
use crate::domain::event::EventState;
use crate::domain::job::JobPart;
use crate::domain::outcome::OutcomeClass;
use crate::domain::policy::{BackoffFunction, OnExhausted, OnRefused, Phase};
use crate::domain::queue::{self, QueueState};
use crate::domain::run::{ItemState, RunState};

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
    PaceStage = ["canary", "watched", "asks", "paused", "ramp", "steady"], "Where a pace stands.";
    AttemptClass = OutcomeClass::ALL.map(OutcomeClass::as_str), "How an attempt ended.";
    RetryPhase = Phase::ALL.map(Phase::as_str), "A part of a schedule.";
    DeadHome = ["broker", "event", "store"], "Where a dead letter is kept.";
    DeadQueueOrigin = DeadQueueKind::NAMES, "Where the letters of a queue come from.";
    Trend = ["rising", "steady", "falling", "quiet"], "The last hour against the one before.";
    EventStatus = EventState::NAMES, "Where an event stands.";
    EventSubtype = ["", "delayed"], "Whether an event is dated.";
    PushResult = ["new", "coalesced", "revived"], "What came of a push.";
    FinishResult = ["done", "requeued", "retried", "dead", "released", "superseded", "gone", "stale"], "What came of what a claim held.";
    RunStatus = RunState::NAMES, "Where a run stands.";
    RunItemState = ItemState::ALL.map(ItemState::as_str), "Where one message of a run stands.";
    Way = ["exchange", "queue"], "By which way messages go back.";
    ExpiringResult = ["saved", "purged", "restored", "extended", "left"], "What came of it.";
    ExtendedBy = ["redeclare", "policy"], "What begins a queue's time again.";
    SaveReason = ["save", "purge", "expiry"], "Why messages were saved.";
    SaveStatus = ["taking", "kept", "restored"], "Where a save stands.";
    Backoff = BackoffFunction::ALL.map(BackoffFunction::as_str), "How the delay grows.";
    WhenExhausted = OnExhausted::ALL.map(OnExhausted::as_str), "What happens when the retries are used up.";
    WhenRefused = OnRefused::ALL.map(OnRefused::as_str), "What happens when the receiver refuses.";
    PolicyFrom = ["queue", "subscription", "default"], "Whose policy applies.";
    Then = ["waits", "parked", "dead_lettered"], "What happens to a head under another policy.";
    CheckResult = ["fine", "warning", "broken"], "What a check came to.";
    DegradedPart = ["management", "publishing"], "What delivery can do without.";
    JobQueue = JobPart::ALL.map(JobPart::as_str), "Which of a job's queues.";
}
