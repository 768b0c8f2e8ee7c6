//! Making the vhost, where it is missing and nobody who makes it by itself runs.

use std::sync::Arc;

use super::place::Ownership;
use crate::broker::VhostFound;
use crate::engine::EngineError;
use crate::engine::command::{Done, Plan, WriteGrant, simple};
use crate::engine::operation::{About, Friction, Operation, Subject};

/// The vhost of this configuration, which is missing on the broker.
pub(in crate::engine) struct MakeVhost;

impl Operation<Ownership> for MakeVhost {
    fn about(&self) -> About {
        About {
            name: "vhost make",
            subject: Subject::Words("the vhost"),
            friction: Friction::Yes,
            undo: Err("the vhost stays: `rabbitmqctl delete_vhost` removes it with all that is in it"),
        }
    }

    fn needs_ownership(&self) -> bool {
        false
    }

    async fn plan(&self, ownership: &Arc<Ownership>) -> Result<Plan, EngineError> {
        let vhost = &ownership.settings.naming.vhost;
        match ownership.broker.vhost().await? {
            VhostFound::There => Err(EngineError::Refused {
                why: format!("vhost {vhost:?} is there already"),
            }),
            VhostFound::Missing { cannot: Some(why) } => Err(EngineError::Refused {
                why: format!(
                    "vhost {vhost:?} cannot be made from here: {why}. Run `rabbitmqctl add_vhost {vhost}` and \
                     `rabbitmqctl set_permissions -p {vhost} USER '.*' '.*' '.*'` on the broker"
                ),
            }),
            VhostFound::Missing { cannot: None } => {
                let mut plan = simple(
                    format!("make vhost {vhost}"),
                    format!("vhost {vhost}"),
                    "it is made, and the user of broker.url gets every right on it; exchange and queues are made by the \
                     daemon"
                        .to_owned(),
                );
                "it does not exist".clone_into(&mut plan.lines[0].now);
                Ok(plan)
            }
        }
    }

    async fn perform(&self, ownership: &Arc<Ownership>, _: &Plan, _: &WriteGrant) -> Result<Done, EngineError> {
        ownership.broker.make_vhost().await?;
        Ok(Done::VhostMade {
            vhost: ownership.settings.naming.vhost.clone(),
        })
    }
}
