//! Commands, plans and what came of them: every mutation by a person is `plan` → confirm → `execute`.

use std::fmt::Write as _;
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::domain::as_text;
use crate::domain::endpoint::EndpointState;
use crate::domain::id::QueueName;
use crate::domain::mask::{MASK, MaskRules};
use crate::domain::naming::hex;
use crate::domain::pace::PaceOrder;
use crate::domain::run::RunWish;
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;

use super::EngineError;
use super::events::command::{EventCommand, EventsDone};
use super::expiring::order::{ExpiringOrder, ExpiringOutcome};
use super::policies::view::{PolicyEdit, PolicyView};
use super::runs::order::{Order, Selection};
use super::runs::view::{Edit, EditedLetter, Patch, RunView};
use super::view::{EndpointView, QueueView};

/// Messages or events that one command can name, one by one.
pub const IDS_MAX: usize = 10_000;

/// # Errors
/// More of something than one command can name.
pub(super) fn at_most(count: usize, field: &str, mend: &str) -> Result<(), EngineError> {
    if count <= IDS_MAX {
        return Ok(());
    }
    Err(EngineError::Invalid {
        field: field.to_owned(),
        message: format!("{count} {field} are named, and at most {IDS_MAX} are possible: {mend}"),
    })
}

/// What an operator wants done.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Command {
    /// Make endpoints available and go on where they stopped.
    Redeliver(RedeliverTarget),
    /// The same at a pace.
    RedeliverPaced {
        /// Which endpoints.
        target: RedeliverTarget,
        /// How fast each of them goes.
        order: PaceOrder,
    },
    /// Change how fast an endpoint goes, while it does.
    PaceEndpoint {
        /// Which.
        url: EndpointUrl,
        /// What is wanted.
        wish: PaceWish,
    },
    /// Stop delivering from a queue after the attempt in hand.
    PauseQueue(QueueName),
    /// Go on.
    ResumeQueue(QueueName),
    /// Remove every message of a queue (it is lost; the plan counts it).
    PurgeQueue(QueueName),
    /// Remove a queue with everything in it.
    DeleteQueue(QueueName),
    /// Take the undecodable head of a quarantined queue out, byte for byte, into the store.
    RescueQueue(QueueName),
    /// Send a request without a queued message.
    TestEndpoint {
        /// Where.
        url: EndpointUrl,
        /// HTTP method, `HEAD` by default.
        method: Option<String>,
    },
    /// Send nothing to a URL until somebody redelivers.
    DisableEndpoint(EndpointUrl),
    /// Events, their types and subscriptions.
    Events(EventCommand),
    /// A long operation over many messages.
    Run(Order),
    /// Send something else instead of a dead letter when it is redriven.
    EditDead {
        /// The dead letter's id.
        id: String,
        /// What.
        edit: Edit,
    },
    /// Change many dead letters in the same way: what is sent when they are redriven.
    PatchDead {
        /// Which: ids, a group or a filter.
        selection: Selection,
        /// How.
        patch: Patch,
    },
    /// Pause, resume or cancel a run.
    ChangeRun {
        /// Which.
        id: String,
        /// What is wanted.
        wish: RunWish,
    },
    /// Save, purge, restore or extend queues with a lifetime.
    Expiring(ExpiringOrder),
    /// Set, unset or restore a retry policy; it applies to what waits already.
    Policy(PolicyEdit),
    /// Give the broker to the store of this configuration, whosever it was.
    AdoptBroker,
    /// Make the vhost of this configuration, which is missing on the broker.
    MakeVhost,
}

/// What a person wants of the pace of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum PaceWish {
    /// Go on like this.
    Go(PaceOrder),
    /// Send nothing until somebody resumes it.
    Pause,
    /// Go on: after a pause, or after the canary.
    Resume,
    /// Hold nothing back any more.
    Release,
}

/// Which endpoints.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum RedeliverTarget {
    /// These.
    Urls(Vec<EndpointUrl>),
    /// Every one that is not available.
    All,
}

/// What a command would do: frozen when it was planned, shown before it is done.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Plan {
    /// What.
    pub command: Command,
    /// One line for people: `redeliver 2 endpoints with 31 waiting messages`.
    pub title: String,
    /// Each thing that changes.
    pub lines: Vec<PlanLine>,
    /// What the operator should know before.
    pub warnings: Vec<String>,
    /// Messages that the plan touches, where known.
    pub messages: Option<u64>,
    /// How much friction is due: see [`Danger`].
    pub danger: Danger,
    /// SHA-256 over the above, hex; a plan whose world changed is refused at execute.
    pub hash: String,
    /// The run that waits for its execution, where the command is one.
    pub run: Option<RunPlan>,
    /// The reason that was given for what it ends: whoever takes the plan back gives it again.
    #[serde(default)]
    pub ends_reason: Option<String>,
    /// Of what it changes the first by their names, for the audit, where it has no line for each.
    #[serde(default)]
    pub names: Vec<String>,
}

impl Plan {
    /// How long the messages of a paced plan take, when all goes well; `None`: nobody knows, or nothing limits them.
    #[must_use]
    pub fn time_to_empty(&self) -> Option<Duration> {
        let (Command::RedeliverPaced { order, .. }
        | Command::PaceEndpoint {
            wish: PaceWish::Go(order),
            ..
        }) = &self.command
        else {
            return None;
        };
        order.takes(self.messages?)
    }
}

pub(super) fn simple(title: String, target: String, effect: String) -> Plan {
    Plan {
        command: Command::Redeliver(RedeliverTarget::All),
        title,
        lines: vec![PlanLine {
            target,
            now: String::new(),
            effect,
        }],
        warnings: Vec::new(),
        messages: None,
        danger: Danger::Reversible,
        hash: String::new(),
        run: None,
        ends_reason: None,
        names: Vec::new(),
    }
}

/// Over everything that the plan shows. Depths move all the time and are left out, but for what is lost.
pub(super) fn hash(plan: &Plan) -> String {
    hash_with(plan, "")
}

/// The same, and over what tells that something was changed, and changed back, and says nothing to people.
pub(super) fn hash_with(plan: &Plan, unseen: &str) -> String {
    let mut text = format!("{:?}\n{}\n", plan.command, plan.title);
    for line in &plan.lines {
        let _ = writeln!(text, "{:?}", (&line.target, &line.now, &line.effect));
    }
    text.push_str(unseen);
    hex(&Sha256::digest(text.as_bytes()))
}

#[cfg(test)]
impl Plan {
    /// A plan of `lines` equal lines, for tests of what is made of it.
    pub(crate) fn of(command: Command, lines: usize, danger: Danger) -> Self {
        let line = PlanLine {
            target: "x".to_owned(),
            now: "y".to_owned(),
            effect: "z".to_owned(),
        };
        Self {
            title: command.name().to_owned(),
            command,
            lines: vec![line; lines],
            warnings: Vec::new(),
            messages: None,
            danger,
            hash: String::new(),
            run: None,
            ends_reason: None,
            names: Vec::new(),
        }
    }
}

/// What a planned run would do; its items are frozen in the store.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct RunPlan {
    /// The run's id.
    pub id: String,
    /// Items.
    pub total: u64,
    /// Of them, those that cannot go anywhere.
    pub refused: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// When the oldest one failed first.
    pub oldest: Option<Timestamp>,
    /// When the newest one failed last.
    pub newest: Option<Timestamp>,
    /// What is taken off them and kept in the journal.
    pub dropped: Vec<String>,
    /// Some of them, for people (from outside).
    pub samples: Vec<String>,
    /// How long it takes, at its rate.
    pub estimated: Option<Duration>,
    /// Who gets what goes back to where it was published.
    pub receivers: Vec<Receivers>,
}

/// Who gets those of a run that were published alike.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Receivers {
    /// The exchange that they were published to (from outside).
    pub exchange: String,
    /// With which key; one of them, where there are several (from outside).
    pub routing_key: String,
    /// How many keys.
    pub keys: u64,
    /// How many messages.
    pub messages: u64,
    /// By which way they go: `exchange` or `queue`.
    #[serde(deserialize_with = "as_text::word::deserialize")]
    pub via: as_text::Word,
    /// The queues that the exchange leads to for the key; `None` where that is not known from here.
    pub bound: Option<Vec<String>>,
    /// The queues that get them; `None` where that is not known from here.
    pub get: Option<Vec<String>>,
    /// The same, for people.
    pub says: String,
}

/// How much a plan can destroy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Danger {
    /// Nothing is lost and it can be undone.
    Reversible,
    /// Messages are lost.
    Destroys,
}

/// One thing that a plan changes.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PlanLine {
    /// The URL, queue or message.
    pub target: String,
    /// How it is now.
    pub now: String,
    /// What will happen to it.
    pub effect: String,
}

impl PlanLine {
    /// The line without what the rules hide: a header by its name, a value of a body by its place, and what stands in
    /// a text.
    #[must_use]
    pub fn masked(&self, rules: &MaskRules) -> Self {
        let (header, place) = (self.target.strip_prefix("header "), self.target.strip_prefix("body "));
        let whole =
            header.is_some_and(|name| rules.hides_header(name)) || place.is_some_and(|place| rules.hides_place(place));
        let text = |text: &str| {
            if whole {
                MASK.to_owned()
            } else {
                rules.outward(text).value.into_owned()
            }
        };
        Self {
            target: self.target.clone(),
            now: text(&self.now),
            effect: text(&self.effect),
        }
    }
}

/// The permission to execute plans: a read-only profile cannot make one.
#[derive(Clone, Debug)]
pub struct WriteGrant {
    actor: String,
    reason: Option<String>,
    until: Option<Timestamp>,
}

/// Whether this process may change anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It may.
    Operator,
    /// It may only look.
    ReadOnly,
    /// It may until then, and only look after.
    Until(Timestamp),
}

impl Access {
    /// The grant for `actor`, for `reason`; `None` when this access is read-only.
    #[must_use]
    pub fn grant(self, actor: &str, reason: Option<String>) -> Option<WriteGrant> {
        match self {
            Self::Operator => Some(WriteGrant {
                actor: actor.to_owned(),
                reason,
                until: None,
            }),
            Self::Until(until) => Some(WriteGrant {
                actor: actor.to_owned(),
                reason,
                until: Some(until),
            }),
            Self::ReadOnly => None,
        }
    }
}

impl WriteGrant {
    /// Who.
    #[must_use]
    pub fn actor(&self) -> &str {
        &self.actor
    }

    /// Whether its time is not over.
    #[must_use]
    pub fn holds_at(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| now < until)
    }

    /// Why.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }
}

/// What came of a plan.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum Done {
    /// Endpoints that were made available.
    Redelivered(Vec<Redelivered>),
    /// The queue as it is now.
    Queue(Box<QueueView>),
    /// Messages that are gone.
    Purged {
        /// From where.
        queue: QueueName,
        /// How many.
        messages: u64,
    },
    /// The queue is gone.
    Deleted {
        /// Which.
        queue: QueueName,
        /// With how many messages.
        messages: u64,
    },
    /// The broker is this store's.
    Adopted {
        /// Its identity.
        store: String,
    },
    /// The vhost is there.
    VhostMade {
        /// Its name.
        vhost: String,
    },
    /// The head was saved; its id in the store.
    Rescued {
        /// From where.
        queue: QueueName,
        /// To see it with.
        id: i64,
    },
    /// What the endpoint answered.
    Tested(Tested),
    /// The endpoint as it is now.
    Endpoint(Box<EndpointView>),
    /// What came of a command about events.
    Events(EventsDone),
    /// The run as it is now.
    Run(Box<RunView>),
    /// The dead letter as it will be sent.
    Edited(Box<EditedLetter>),
    /// So many dead letters will be sent otherwise.
    Patched {
        /// How many.
        letters: u64,
        /// How many of those that are meant stay as they are.
        #[serde(default)]
        left: u64,
        /// Why, in a few sentences.
        #[serde(default)]
        why: Vec<String>,
    },
    /// What came of each queue or save.
    Expiring(Vec<ExpiringOutcome>),
    /// The policy as it is now.
    Policy(Box<PolicyView>),
}

/// One endpoint that was made available.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Redelivered {
    /// Which.
    pub url: EndpointUrl,
    /// What it was before.
    pub before: EndpointState,
    /// Its queues, without those that are paused one by one.
    pub queues: u64,
    /// Nothing is sent until somebody resumes it: a person paused it, or its canary is over.
    #[serde(default)]
    pub paused: bool,
}

/// A test's answer.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Tested {
    /// Which endpoint.
    pub url: EndpointUrl,
    /// With what.
    pub method: String,
    /// Its answer's class, as for a delivery.
    pub class: crate::domain::outcome::OutcomeClass,
    /// Its status.
    pub status: Option<u16>,
    /// Why there is none (from outside).
    pub error: Option<String>,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
}
