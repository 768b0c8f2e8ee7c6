//! Making the vhost, where it is missing and nobody who makes it by itself runs.

use super::place::Ownership;
use crate::broker::VhostFound;
use crate::engine::EngineError;
use crate::engine::command::{Done, Plan};
use crate::engine::plans::simple;

impl Ownership {
    /// # Errors
    /// It is there, or it cannot be made from here: with the commands that make it.
    pub(in crate::engine) async fn plan_vhost(&self) -> Result<Plan, EngineError> {
        let vhost = &self.settings.naming.vhost;
        match self.broker.vhost().await? {
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

    pub(in crate::engine) async fn make_vhost(&self) -> Result<Done, EngineError> {
        self.broker.make_vhost().await?;
        Ok(Done::VhostMade {
            vhost: self.settings.naming.vhost.clone(),
        })
    }
}
