//! The list of commands: which operation is which one's.

use super::command::{Command, Plan};
use super::operation::{About, Operation, Subject};

/// The list of commands: has the operation of one do something.
macro_rules! operation {
    ($command:expr, $operation:ident => $does:expr) => {
        match $command {
            Command::Redeliver(target) => {
                let $operation = &$crate::engine::endpoints::Redeliver { target, order: None };
                $does
            }
            Command::RedeliverPaced { target, order } => {
                let $operation = &$crate::engine::endpoints::Redeliver {
                    target,
                    order: Some(order),
                };
                $does
            }
            Command::PaceEndpoint { url, wish } => {
                let $operation = &$crate::engine::endpoints::ChangePace { url, wish };
                $does
            }
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
            Command::PatchDead { selection, patch } => {
                let $operation = &$crate::engine::runs::PatchDead { selection, patch };
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
}

impl Plan {
    /// What takes it back, once it was carried out.
    ///
    /// # Errors
    /// Why nothing does.
    pub fn undo(&self) -> Result<Command, &'static str> {
        operation!(&self.command, it => it.undo(self))
    }
}
