//! Giving the broker to the store of this configuration: the mend where another store had it.

use super::place::Ownership;
use crate::broker::Owner;
use crate::engine::EngineError;
use crate::engine::command::{Done, Plan};
use crate::engine::plans::simple;

impl Ownership {
    pub(in crate::engine) async fn plan_adoption(&self) -> Result<Plan, EngineError> {
        let store = self.store.identity().await?;
        let mut plan = simple(
            format!("give the broker to the store {}", store.as_str()),
            format!("vhost {}", self.settings.naming.vhost),
            "the daemons of this store deliver what is on it; those of another store stop".to_owned(),
        );
        match self.broker.owner(&store).await? {
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

    pub(in crate::engine) async fn adopt_broker(&self) -> Result<Done, EngineError> {
        let store = self.store.identity().await?;
        self.broker.adopt(&store).await?;
        self.keep_place().await?;
        Ok(Done::Adopted {
            store: store.as_str().to_owned(),
        })
    }
}
