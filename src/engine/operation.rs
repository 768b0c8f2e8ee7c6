//! Commands, each of which says in one place what it would do, does it, and says how it is taken back and what has to be
//! confirmed: an [`Operation`], beside the service that it is carried out by. [`operation`] is the list of them.

use std::sync::Arc;

use super::EngineError;
use super::command::{Command, Done, Plan, WriteGrant};
use crate::domain::id::QueueName;
use crate::domain::url::EndpointUrl;
use crate::store::PolicyScope;

/// What is to be typed before plans of a command are carried out, where a yes is not enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Friction {
    /// Nothing.
    Yes,
    /// This word.
    Word(&'static str),
    /// The name of the queue, and the number of several.
    Name(QueueName),
    /// The number of lines.
    Lines(&'static str),
    /// The number of messages.
    Messages(&'static str),
    /// The number of messages, where they are more than the lines.
    LinesOrMessages(&'static str),
    /// The number of events.
    Events,
}

/// What a command is about, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// An endpoint.
    Url(EndpointUrl),
    /// Something with a name (from outside).
    Name(String),
    /// A retry policy.
    Policy(PolicyScope),
    /// So many of something.
    Several(usize, &'static str),
    /// What needs no name.
    Words(&'static str),
}

/// What is said of a command.
pub(super) struct About {
    /// As audited: `redeliver`, `queue pause`, …
    pub(super) name: &'static str,
    pub(super) subject: Subject,
    pub(super) friction: Friction,
    /// What takes it back, or why nothing does.
    pub(super) undo: Result<Command, &'static str>,
}

/// A command as its service carries it out.
pub(super) trait Operation<Service> {
    fn about(&self) -> About;

    /// Whether it changes one thing, whatever follows from it for others: the first line of its plan.
    fn is_about_one(&self) -> bool {
        false
    }

    /// Whether it is for the daemons of this store alone, so that it is refused where the broker is another store's.
    fn needs_ownership(&self) -> bool {
        true
    }

    /// Whether it is refused as a whole where it would not be planned the same any more.
    fn is_planned_again(&self) -> bool {
        true
    }

    /// What it would do at present. A plan without a hash is hashed as it is.
    async fn plan(&self, service: &Arc<Service>) -> Result<Plan, EngineError>;

    /// What is only counted for people.
    async fn count(&self, _service: &Arc<Service>) -> Result<Option<u64>, EngineError> {
        Ok(None)
    }

    /// Does what was planned.
    async fn perform(&self, service: &Arc<Service>, plan: &Plan, grant: &WriteGrant) -> Result<Done, EngineError>;
}

/// The list of commands: has the operation of one do something.
macro_rules! operation {
    ($command:expr, $operation:ident => $does:expr) => {
        match $command {
            Command::Redeliver($operation) => $does,
            Command::Events($operation) => $does,
            Command::Run($operation) => $does,
            Command::Expiring($operation) => $does,
            Command::Policy($operation) => $does,
            Command::PauseQueue(queue) => {
                let $operation = &(queue, $crate::engine::queues::Act::Pause);
                $does
            }
            Command::ResumeQueue(queue) => {
                let $operation = &(queue, $crate::engine::queues::Act::Resume);
                $does
            }
            Command::PurgeQueue(queue) => {
                let $operation = &(queue, $crate::engine::queues::Act::Purge);
                $does
            }
            Command::DeleteQueue(queue) => {
                let $operation = &(queue, $crate::engine::queues::Act::Delete);
                $does
            }
            Command::RescueQueue(queue) => {
                let $operation = &(queue, $crate::engine::queues::Act::Rescue);
                $does
            }
            Command::DisableEndpoint(url) => {
                let $operation = &$crate::engine::endpoints::Disable(url);
                $does
            }
            Command::TestEndpoint { url, method } => {
                let $operation = &$crate::engine::endpoints::Test {
                    url,
                    method: method.as_deref(),
                };
                $does
            }
            Command::EditDead { id, edit } => {
                let $operation = &$crate::engine::runs::EditDead { id, edit };
                $does
            }
            Command::ChangeRun { id, wish } => {
                let $operation = &$crate::engine::runs::ChangeRun { id, wish: *wish };
                $does
            }
            Command::AdoptBroker => {
                let $operation = &$crate::engine::health::Adopt;
                $does
            }
            Command::MakeVhost => {
                let $operation = &$crate::engine::health::MakeVhost;
                $does
            }
        }
    };
}

pub(super) use operation;

impl Command {
    pub(super) fn about(&self) -> About {
        operation!(self, it => it.about())
    }

    /// As audited: `redeliver`, `queue pause`, …
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.about().name
    }

    /// What it is about, for people.
    #[must_use]
    pub fn subject(&self) -> Subject {
        self.about().subject
    }

    /// What takes it back.
    ///
    /// # Errors
    /// Why nothing does.
    pub fn undo(&self) -> Result<Self, &'static str> {
        self.about().undo
    }
}
