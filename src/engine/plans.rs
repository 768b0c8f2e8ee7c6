//! Mutations by a person: what they would do, and doing it (docs/protocols.md, *Promises*).
//!
//! A plan freezes what it touches and is hashed; at execute it is planned again, and refused when it
//! came out otherwise. Each is audited before and after.

use std::sync::Arc;

use super::command::{Command, Done, Plan, WriteGrant, hash};
use super::endpoints::Endpoints;
use super::events::EventOperations;
use super::expiring::Expiring;
use super::health::Ownership;
use super::operation::{Operation, named};
use super::operations::operation;
use super::policies::Policies;
use super::queues::Queues;
use super::runs::{RunPlanner, Runs};
use super::{EngineError, Inner};
use crate::domain::words::plural_of;
use crate::store::NewAudit;

impl Inner {
    /// What the command would do at present, to be shown.
    pub(super) async fn plan(self: &Arc<Self>, command: Command) -> Result<Plan, EngineError> {
        let mut plan = self.make_plan(command).await?;
        if let Some(messages) = operation!(&plan.command, it => it.count(self.service()).await?) {
            plan.messages = Some(messages);
        }
        if let Some(rules) = self.masks() {
            plan.lines = plan.lines.iter().map(|line| line.masked(&rules)).collect();
            let ends = plan.ends_reason.as_deref();
            plan.ends_reason = ends.map(|reason| rules.outward(reason).value.into_owned());
            // One of what is hidden would let it be guessed.
            plan.hash = hash(&plan);
        }
        Ok(plan)
    }

    /// The plan without what is only counted for people.
    async fn make_plan(self: &Arc<Self>, command: Command) -> Result<Plan, EngineError> {
        let mut plan = operation!(&command, it => it.plan(self.service()).await?);
        if plan.hash.is_empty() {
            plan.command = command;
            plan.hash = hash(&plan);
        }
        Ok(plan)
    }

    /// Does it, if it would still be planned the same.
    pub(super) async fn carry_out_plan(self: &Arc<Self>, plan: &Plan, grant: &WriteGrant) -> Result<Done, EngineError> {
        if !grant.holds_at(self.clock.now()) {
            return Err(EngineError::Refused {
                why: "the time in which changes are allowed is over".to_owned(),
            });
        }
        // A daemon is told by its own looks, and stops.
        if operation!(&plan.command, it => it.needs_ownership()) && !*self.news.delivering.borrow() {
            self.daemon.healing.compare_owner().await?;
            self.daemon.healing.ownership.keep_first_place().await?;
        }
        if let Some(planned) = &plan.run {
            return self.runs.execute_run(plan, planned, grant).await;
        }
        if operation!(&plan.command, it => it.is_planned_again()) {
            let again = self.make_plan(plan.command.clone()).await?;
            if again.hash != plan.hash {
                return Err(EngineError::Refused {
                    why: "the plan is stale, what it was made for has changed: plan again".to_owned(),
                });
            }
        }
        self.audit(plan, grant, "planned", "").await?;
        let result = operation!(&plan.command, it => it.perform(self.service(), plan, grant).await);
        let (word, detail) = match &result {
            Ok(_) => ("done", String::new()),
            Err(error) => ("failed", super::error::chain(error)),
        };
        self.audit(plan, grant, word, &detail).await?;
        result
    }

    async fn audit(&self, plan: &Plan, grant: &WriteGrant, result: &str, detail: &str) -> Result<(), EngineError> {
        let changes = operation!(&plan.command, it => it.changes(plan));
        let detail = if detail.is_empty() { &plan.title } else { detail };
        let (target, detail) = match changes.as_slice() {
            [one] => {
                let of = plan.messages.and_then(|messages| usize::try_from(messages).ok());
                let names = named(&plan.names, of.unwrap_or(plan.names.len()));
                (one.clone(), format!("{detail}{names}"))
            }
            many => (
                plural_of(many.len(), "target", "targets"),
                format!("{detail}{}", named(many, many.len())),
            ),
        };
        let entry = NewAudit {
            actor: grant.actor().to_owned(),
            command: plan.command.name().to_owned(),
            target,
            reason: grant.reason().map(ToOwned::to_owned),
            plan: Some(plan.hash.clone()),
            result: result.to_owned(),
            detail,
        };
        self.store.audit_append(&entry).await?;
        Ok(())
    }
}

/// Where the operations of a service find it.
trait Has<Service> {
    fn service(&self) -> &Arc<Service>;
}

macro_rules! has {
    ($($service:ty: $($field:ident).+;)+) => {
        $(impl Has<$service> for Inner {
            fn service(&self) -> &Arc<$service> {
                &self.$($field).+
            }
        })+
    };
}

has! {
    Endpoints: endpoints;
    EventOperations: events;
    Expiring: queues.expiring;
    Ownership: daemon.healing.ownership;
    Policies: policies;
    Queues: queues;
    RunPlanner: runs.planner;
    Runs: runs;
}
