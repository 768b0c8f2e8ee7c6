//! Mutations by a person: what they would do, and doing it (docs/protocols.md, *Promises*).
//!
//! A plan freezes what it touches and is hashed; at execute it is planned again, and refused when it
//! came out otherwise. Each is audited before and after.

use std::fmt::Write;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::command::{Command, Danger, Done, Plan, PlanLine, RedeliverTarget, WriteGrant};
use super::endpoints::test_method;
use super::{EngineError, Inner};
use crate::domain::endpoint::EndpointChange;
use crate::domain::naming::hex;
use crate::domain::url::EndpointUrl;
use crate::domain::words::plural_of;
use crate::store::{Changed, NewAudit, NewPause};

impl Inner {
    /// What the command would do at present, to be shown.
    pub(super) async fn plan(self: &Arc<Self>, command: Command) -> Result<Plan, EngineError> {
        let mut plan = self.make_plan(command).await?;
        if let Command::Redeliver(target) = &plan.command {
            let endpoints = self.endpoints.target_endpoints(target).await?;
            let urls: Vec<&EndpointUrl> = endpoints.iter().map(|endpoint| &endpoint.url).collect();
            plan.messages = self.endpoints.waiting_for(&urls).await?;
        }
        if let Some(rules) = self.masks() {
            plan.lines = plan.lines.iter().map(|line| line.masked(&rules)).collect();
            // One of what is hidden would let it be guessed.
            plan.hash = hash(&plan);
        }
        Ok(plan)
    }

    /// The plan without what is only counted for people.
    async fn make_plan(self: &Arc<Self>, command: Command) -> Result<Plan, EngineError> {
        let mut draft = match &command {
            Command::Policy(edit) => return self.policies.plan_policy(edit).await,
            Command::Expiring(order) => return self.queues.expiring.plan(order).await,
            Command::Redeliver(target) => self.endpoints.plan_redeliver(target).await?,
            Command::PauseQueue(queue) => {
                self.queues
                    .plan_queue(queue, "pause", "nothing is sent from it until it is resumed")
                    .await?
            }
            Command::ResumeQueue(queue) => self.queues.plan_queue(queue, "resume", "delivery goes on").await?,
            Command::PurgeQueue(queue) => {
                self.queues
                    .plan_loss(queue, "purge", "every message that waits now is removed and lost")
                    .await?
            }
            Command::DeleteQueue(queue) => {
                self.queues
                    .plan_loss(
                        queue,
                        "delete",
                        "every message that waits now is removed and lost, and then the queue",
                    )
                    .await?
            }
            Command::RescueQueue(queue) => {
                self.queues
                    .plan_queue(
                        queue,
                        "rescue the head of",
                        "its first message is moved, byte for byte, into the store",
                    )
                    .await?
            }
            Command::TestEndpoint { url, method } => {
                let method = test_method(method.as_deref())?;
                simple(
                    format!("test {} with {method}", url.redacted()),
                    url.redacted(),
                    format!("one {method} request is sent; no queued message"),
                )
            }
            Command::DisableEndpoint(url) => self.endpoints.plan_disable(url).await?,
            Command::AdoptBroker => self.daemon.healing.ownership.plan_adoption().await?,
            Command::MakeVhost => self.daemon.healing.ownership.plan_vhost().await?,
            Command::Events(events) => {
                let mut draft = self.event_table.plan_events(events).await?;
                if draft.run.is_none() {
                    draft.hash = hash(&draft);
                }
                return self.event_table.with_policy(draft, events).await;
            }
            Command::Run(order) => return self.runs.planner.plan_run(order).await,
            Command::ChangeRun { id, wish } => self.runs.plan_run_change(id, *wish).await?,
            Command::EditDead { id, edit } => self.runs.plan_edit(id, edit).await?,
        };
        draft.command = command;
        draft.hash = hash(&draft);
        Ok(draft)
    }

    /// Does it, if it would still be planned the same.
    pub(super) async fn carry_out_plan(self: &Arc<Self>, plan: &Plan, grant: &WriteGrant) -> Result<Done, EngineError> {
        if !grant.holds_at(self.clock.now()) {
            return Err(EngineError::Refused {
                why: "the time in which changes are allowed is over".to_owned(),
            });
        }
        // A daemon is told by its own looks, and stops.
        if !matches!(plan.command, Command::AdoptBroker | Command::MakeVhost) && !*self.news.delivering.borrow() {
            self.daemon.healing.compare_owner().await?;
            self.daemon.healing.ownership.keep_first_place().await?;
        }
        if let Some(planned) = &plan.run {
            return self.runs.execute_run(plan, planned, grant).await;
        }
        // Queues with a lifetime are looked at again one by one, and those that changed are left.
        if !matches!(plan.command, Command::Expiring(_)) {
            let again = self.make_plan(plan.command.clone()).await?;
            if again.hash != plan.hash {
                return Err(EngineError::Refused {
                    why: "the plan is stale, what it was made for has changed: plan again".to_owned(),
                });
            }
        }
        self.audit(plan, grant, "planned", "").await?;
        let result = self.perform(plan, grant).await;
        let (word, detail) = match &result {
            Ok(_) => ("done", String::new()),
            Err(error) => ("failed", super::error::chain(error)),
        };
        self.audit(plan, grant, word, &detail).await?;
        result
    }

    async fn audit(&self, plan: &Plan, grant: &WriteGrant, result: &str, detail: &str) -> Result<(), EngineError> {
        let target = match plan.lines.as_slice() {
            [one] => one.target.clone(),
            [first, ..] if plan.command.is_about_one() => first.target.clone(),
            many => plural_of(many.len(), "target", "targets"),
        };
        let entry = NewAudit {
            actor: grant.actor().to_owned(),
            command: plan.command.name().to_owned(),
            target,
            reason: grant.reason().map(ToOwned::to_owned),
            plan: Some(plan.hash.clone()),
            result: result.to_owned(),
            detail: if detail.is_empty() {
                plan.title.clone()
            } else {
                detail.to_owned()
            },
        };
        self.store.audit_append(&entry).await?;
        Ok(())
    }

    async fn perform(self: &Arc<Self>, plan: &Plan, grant: &WriteGrant) -> Result<Done, EngineError> {
        match &plan.command {
            Command::Redeliver(target) => self.endpoints.redeliver(target).await,
            Command::PauseQueue(queue) => {
                let pause = NewPause {
                    by: grant.actor().to_owned(),
                    reason: grant.reason().map(ToOwned::to_owned),
                };
                self.queues.pause(queue, Some(pause)).await
            }
            Command::ResumeQueue(queue) => self.queues.pause(queue, None).await,
            Command::PurgeQueue(queue) => self.queues.purge(queue, plan.messages).await,
            Command::DeleteQueue(queue) => self.queues.delete(queue, plan.messages).await,
            Command::RescueQueue(queue) => self.queues.rescue(queue).await,
            Command::Events(command) => Ok(Done::Events(self.event_table.perform_on_events(command, grant).await?)),
            Command::TestEndpoint { url, method } => self.endpoints.test(url, method.as_deref()).await,
            Command::ChangeRun { id, wish } => self.runs.change_run(id, *wish, grant).await,
            Command::EditDead { id, edit } => self.runs.edit_dead(id, edit, grant).await,
            Command::Run(_) => Err(EngineError::Refused {
                why: "the plan is stale: its run is not there".to_owned(),
            }),
            Command::Policy(edit) => self.policies.change_policy(edit, grant).await,
            Command::Expiring(order) => Ok(Done::Expiring(self.queues.expiring.perform(order, grant).await?)),
            Command::AdoptBroker => self.daemon.healing.ownership.adopt_broker().await,
            Command::MakeVhost => self.daemon.healing.ownership.make_vhost().await,
            Command::DisableEndpoint(url) => {
                let change = EndpointChange::Disable {
                    reason: format!("disabled by {}", grant.actor()),
                };
                if let Changed::Done { now, .. } = self.store.endpoint_change(url, None, &change).await? {
                    self.endpoint_moved(&now);
                }
                Ok(Done::Endpoint(Box::new(self.endpoints.endpoint_view(url).await?)))
            }
        }
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
    }
}

/// Over everything that the plan shows. Depths move all the time and are left out, but for what is lost.
pub(super) fn hash(plan: &Plan) -> String {
    let mut text = format!("{:?}\n{}\n", plan.command, plan.title);
    for line in &plan.lines {
        let _ = writeln!(text, "{:?}", (&line.target, &line.now, &line.effect));
    }
    hex(&Sha256::digest(text.as_bytes()))
}
