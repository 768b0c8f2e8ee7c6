//! Giving the broker to the store of this configuration: the mend where another store had it.

use std::sync::Arc;

use super::place::Ownership;
use crate::broker::Owner;
use crate::engine::EngineError;
use crate::engine::command::{Done, Plan, WriteGrant, simple};
use crate::engine::operation::{About, Friction, Operation, Subject};

/// The broker becomes this store's, whosever it was.
pub(in crate::engine) struct Adopt;

impl Operation<Ownership> for Adopt {
    fn about(&self) -> About {
        About {
            name: "store adopt",
            subject: Subject::Words("the broker"),
            friction: Friction::Word("adopt"),
            undo: Err("the other store takes it back with `redrive store adopt`"),
        }
    }

    fn needs_ownership(&self) -> bool {
        false
    }

    async fn plan(&self, ownership: &Arc<Ownership>) -> Result<Plan, EngineError> {
        let store = ownership.store.identity().await?;
        let mut plan = simple(
            format!("give the broker to the store {}", store.as_str()),
            format!("vhost {}", ownership.settings.naming.vhost),
            "the daemons of this store deliver what is on it; those of another store stop".to_owned(),
        );
        match ownership.broker.owner(&store).await? {
            Owner::Ours => "it is this store's already".clone_into(&mut plan.lines[0].now),
            Owner::Nobody => "it is nobody's".clone_into(&mut plan.lines[0].now),
            Owner::Other(other) => {
                plan.lines[0].now = other.map_or_else(
                    || "it is another store's".to_owned(),
                    |other| format!("it is the store {other}'s"),
                );
                plan.warnings.push(
                    "what the other store knows of these queues (pauses, failures, decisions) is not known to this one: \
                     stop its daemons first"
                        .to_owned(),
                );
            }
        }
        Ok(plan)
    }

    async fn perform(&self, ownership: &Arc<Ownership>, _: &Plan, _: &WriteGrant) -> Result<Done, EngineError> {
        let store = ownership.store.identity().await?;
        ownership.broker.adopt(&store).await?;
        ownership.keep_place().await?;
        Ok(Done::Adopted {
            store: store.as_str().to_owned(),
        })
    }
}
