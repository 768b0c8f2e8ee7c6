//! Mutations by a person: what they would do, and doing it (docs/protocols.md, *Promises*).
//!
//! A plan freezes what it touches and is hashed; at execute it is planned again, and refused when it
//! came out otherwise. Each is audited before and after.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::command::{Command, Danger, Done, Plan, PlanLine, RedeliverTarget, Redelivered, Tested, WriteGrant};
use super::ending::Ending;
use super::{EngineError, Inner};
use crate::broker::Look;
use crate::delivery::{Method, Request};
use crate::domain::endpoint::{Endpoint, EndpointChange, EndpointState};
use crate::domain::id::{NotificationId, QueueName, TEST_ID_PREFIX};
use crate::domain::naming::hex;
use crate::domain::outcome::Outcome;
use crate::domain::queue::{QueueKind, QueueRecord};
use crate::domain::text;
use crate::domain::url::EndpointUrl;
use crate::domain::words::{plural_if_known, plural_of};
use crate::store::{Changed, HeadScope, NewAudit, NewPause, QueueMark, RescuedMessage};
use crate::telemetry::names;

/// Lines of a plan, at most: more are counted.
const LINES_MAX: usize = 10_000;
/// What a test of an endpoint may send.
const TEST_METHODS: [&str; 4] = ["HEAD", "GET", "OPTIONS", "POST"];
/// How long a pause waits for the owner of its queue.
const RELEASE_WAIT: Duration = Duration::from_secs(3);
/// Between two looks whether the owner let go.
const RELEASE_LOOK: Duration = Duration::from_millis(50);

impl Inner {
    /// What the command would do at present, to be shown.
    pub(super) async fn plan(self: &Arc<Self>, command: Command) -> Result<Plan, EngineError> {
        let mut plan = self.make_plan(command).await?;
        if let Command::Redeliver(target) = &plan.command {
            let endpoints = self.target_endpoints(target).await?;
            let urls: Vec<&EndpointUrl> = endpoints.iter().map(|endpoint| &endpoint.url).collect();
            plan.messages = self.waiting_for(&urls).await?;
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
            Command::Policy(edit) => return self.plan_policy(edit).await,
            Command::Expiring(order) => return self.expiring.plan(order).await,
            Command::Redeliver(target) => self.plan_redeliver(target).await?,
            Command::PauseQueue(queue) => {
                self.plan_queue(queue, "pause", "nothing is sent from it until it is resumed")
                    .await?
            }
            Command::ResumeQueue(queue) => self.plan_queue(queue, "resume", "delivery goes on").await?,
            Command::PurgeQueue(queue) => {
                self.plan_loss(queue, "purge", "every message that waits now is removed and lost")
                    .await?
            }
            Command::DeleteQueue(queue) => {
                self.plan_loss(
                    queue,
                    "delete",
                    "every message that waits now is removed and lost, and then the queue",
                )
                .await?
            }
            Command::RescueQueue(queue) => {
                self.plan_queue(
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
            Command::DisableEndpoint(url) => self.plan_disable(url).await?,
            Command::AdoptBroker => self.plan_adoption().await?,
            Command::MakeVhost => self.plan_vhost().await?,
            Command::Events(events) => {
                let mut draft = self.event_table.plan_events(events).await?;
                if draft.run.is_none() {
                    draft.hash = hash(&draft);
                }
                return self.event_table.with_policy(draft, events).await;
            }
            Command::Run(order) => return self.run_planner.plan_run(order).await,
            Command::ChangeRun { id, wish } => self.runs.plan_run_change(id, *wish).await?,
            Command::EditDead { id, edit } => self.runs.plan_edit(id, edit).await?,
        };
        draft.command = command;
        draft.hash = hash(&draft);
        Ok(draft)
    }

    async fn plan_redeliver(&self, target: &RedeliverTarget) -> Result<Plan, EngineError> {
        let endpoints = self.targets(target).await?;
        let mut plan = simple(String::new(), String::new(), String::new());
        plan.lines.clear();
        for (endpoint, queues) in &endpoints {
            plan.lines.push(PlanLine {
                target: endpoint.url.redacted(),
                now: format!("{}, epoch {}", endpoint.state.as_str(), endpoint.epoch),
                effect: format!(
                    "available; {} with the whole retry budget",
                    plural_of(*queues, "queue goes on", "queues go on")
                ),
            });
        }
        let down = endpoints
            .iter()
            .filter(|(endpoint, _)| endpoint.state != EndpointState::Available)
            .count();
        if down < endpoints.len() {
            plan.warnings.push(format!(
                "{} of {} are available already: only waiting heads are woken",
                endpoints.len() - down,
                endpoints.len()
            ));
        }
        plan.title = format!("redeliver to {}", plural_of(endpoints.len(), "endpoint", "endpoints"));
        Ok(plan)
    }

    /// What is redelivered to, with the number of its queues.
    async fn targets(&self, target: &RedeliverTarget) -> Result<Vec<(Endpoint, usize)>, EngineError> {
        let mut counted = Vec::new();
        for endpoint in self.target_endpoints(target).await? {
            let mut queues = 0;
            let mut pages = self.queue_pages(Some(endpoint.url.clone()));
            while let Some(rows) = pages.next().await? {
                queues += rows.len();
            }
            counted.push((endpoint, queues));
        }
        Ok(counted)
    }

    async fn target_endpoints(&self, target: &RedeliverTarget) -> Result<Vec<Endpoint>, EngineError> {
        match target {
            RedeliverTarget::All => {
                let mut all = self.store.endpoints_not_available().await?;
                all.sort_by(|a, b| a.url.cmp(&b.url));
                all.truncate(LINES_MAX);
                Ok(all)
            }
            RedeliverTarget::Urls(urls) => {
                let mut found = Vec::with_capacity(urls.len());
                for url in urls {
                    let endpoint = self.store.endpoint_get(url).await?;
                    found.push(endpoint.ok_or_else(|| EngineError::NotFound {
                        what: format!("endpoint {}", url.redacted()),
                    })?);
                }
                Ok(found)
            }
        }
    }

    async fn plan_queue(&self, queue: &QueueName, verb: &str, effect: &str) -> Result<Plan, EngineError> {
        let view = self.queue(queue).await?;
        if view.kind != QueueKind::Delivery {
            return Err(EngineError::Refused {
                why: format!("queue {:?} is not a delivery queue", queue.as_str()),
            });
        }
        let mut plan = simple(
            format!("{verb} queue {}", queue.as_str()),
            queue.as_str().to_owned(),
            effect.to_owned(),
        );
        plan.lines[0].now = if view.paused.is_some() {
            "paused".to_owned()
        } else {
            "not paused".to_owned()
        };
        plan.messages = view.ready;
        Ok(plan)
    }

    async fn plan_loss(&self, queue: &QueueName, verb: &str, effect: &str) -> Result<Plan, EngineError> {
        let mut plan = self.plan_queue(queue, verb, effect).await?;
        if let Some(row) = self.store.queue_get(queue).await? {
            if row.quarantined.is_some() {
                return Err(EngineError::Refused {
                    why: format!(
                        "the head of {:?} kills every client that reads it: `redrive queue rescue` takes it out first",
                        queue.as_str()
                    ),
                });
            }
            if row.has_companion {
                plan.messages = self.depth_of_parts(&row).await;
            }
        }
        plan.danger = Danger::Destroys;
        plan.lines[0].now = plural_if_known(plan.messages, "message", "messages");
        plan.warnings.push(
            "publishers may add messages at any moment: those that arrive after the plan are not touched by a purge, \
             and keep a queue from being deleted"
                .to_owned(),
        );
        Ok(plan)
    }

    async fn plan_disable(&self, url: &EndpointUrl) -> Result<Plan, EngineError> {
        let view = self.endpoint_view(url).await?;
        let mut plan = simple(
            format!("disable {}", url.redacted()),
            url.redacted(),
            "nothing is sent to it until `redrive redeliver`".to_owned(),
        );
        plan.lines[0].now = format!("{}, epoch {}", view.endpoint.state.as_str(), view.endpoint.epoch);
        plan.messages = view.waiting;
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
        if !matches!(plan.command, Command::AdoptBroker | Command::MakeVhost) && !*self.news.delivering.borrow() {
            self.healing.compare_owner().await?;
            self.keep_first_place().await?;
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
            Command::Redeliver(target) => self.redeliver(target).await,
            Command::PauseQueue(queue) => {
                let pause = NewPause {
                    by: grant.actor().to_owned(),
                    reason: grant.reason().map(ToOwned::to_owned),
                };
                self.pause(queue, Some(pause)).await
            }
            Command::ResumeQueue(queue) => self.pause(queue, None).await,
            Command::PurgeQueue(queue) => self.purge(queue, plan.messages).await,
            Command::DeleteQueue(queue) => self.delete(queue, plan.messages).await,
            Command::RescueQueue(queue) => self.rescue(queue).await,
            Command::Events(command) => Ok(Done::Events(self.event_table.perform_on_events(command, grant).await?)),
            Command::TestEndpoint { url, method } => self.test(url, method.as_deref()).await,
            Command::ChangeRun { id, wish } => self.runs.change_run(id, *wish, grant).await,
            Command::EditDead { id, edit } => self.runs.edit_dead(id, edit, grant).await,
            Command::Run(_) => Err(EngineError::Refused {
                why: "the plan is stale: its run is not there".to_owned(),
            }),
            Command::Policy(edit) => self.change_policy(edit, grant).await,
            Command::Expiring(order) => Ok(Done::Expiring(self.expiring.perform(order, grant).await?)),
            Command::AdoptBroker => self.adopt_broker().await,
            Command::MakeVhost => self.make_vhost().await,
            Command::DisableEndpoint(url) => {
                let change = EndpointChange::Disable {
                    reason: format!("disabled by {}", grant.actor()),
                };
                if let Changed::Done { now, .. } = self.store.endpoint_change(url, None, &change).await? {
                    self.endpoint_moved(&now);
                }
                Ok(Done::Endpoint(Box::new(self.endpoint_view(url).await?)))
            }
        }
    }

    async fn redeliver(&self, target: &RedeliverTarget) -> Result<Done, EngineError> {
        let mut done = Vec::new();
        for (endpoint, queues) in self.targets(target).await? {
            let before = endpoint.state;
            if let Changed::Done { now, .. } = self
                .store
                .endpoint_change(&endpoint.url, None, &EndpointChange::Open)
                .await?
            {
                self.endpoint_moved(&now);
            }
            self.store.heads_reset(&HeadScope::Url(endpoint.url.clone())).await?;
            self.wake_queues_of(&endpoint.url).await?;
            metrics::counter!(names::REDELIVERS).increment(1);
            done.push(Redelivered {
                url: endpoint.url,
                before,
                queues: queues as u64,
            });
        }
        self.store.generation_raise().await?;
        Ok(Done::Redelivered(done))
    }

    async fn wake_queues_of(&self, url: &EndpointUrl) -> Result<(), EngineError> {
        let mut pages = self.queue_pages(Some(url.clone()));
        while let Some(rows) = pages.next().await? {
            for row in rows {
                self.broker.nudge(&row.name).await;
            }
        }
        Ok(())
    }

    async fn pause(&self, queue: &QueueName, pause: Option<NewPause>) -> Result<Done, EngineError> {
        let resumed = pause.is_none();
        if self.store.queue_pause(queue, pause).await?.is_none() {
            return Err(EngineError::NotFound {
                what: format!("queue {:?}", queue.as_str()),
            });
        }
        if resumed {
            self.store.generation_raise().await?;
            self.broker.nudge(queue).await;
        } else {
            self.wait_for_release(queue).await;
        }
        Ok(Done::Queue(Box::new(self.queue(queue).await?)))
    }

    /// A pause is done when nothing more is sent: its owner reads it within a second and lets go after the attempt in
    /// hand. One that takes longer is said, not waited for.
    async fn wait_for_release(&self, queue: &QueueName) {
        let began = self.clock.uptime();
        while let Ok(Some(QueueRecord { owner: Some(_), .. })) = self.store.queue_get(queue).await {
            if self.clock.uptime().saturating_sub(began) >= RELEASE_WAIT {
                return;
            }
            tokio::time::sleep(RELEASE_LOOK).await;
        }
    }

    /// Takes messages out up to the planned count; what arrived meanwhile stays.
    async fn purge(&self, queue: &QueueName, planned: Option<u64>) -> Result<Done, EngineError> {
        let planned = planned.ok_or_else(|| EngineError::Refused {
            why: "the number of messages is unknown".to_owned(),
        })?;
        let (messages, problem) = self
            .under_lease(queue, "purge", |lease| async move {
                self.drop_from_parts(&lease, planned).await
            })
            .await?;
        match problem {
            Some(problem) => Err(EngineError::Refused {
                why: format!("{messages} of {planned} messages are gone, the others are left: {problem}"),
            }),
            None => Ok(Done::Purged {
                queue: queue.clone(),
                messages,
            }),
        }
    }

    /// Takes out what was planned, and deletes it as any queue that ends (docs/protocols.md 8): what came after the
    /// plan keeps it.
    async fn delete(self: &Arc<Self>, queue: &QueueName, planned: Option<u64>) -> Result<Done, EngineError> {
        let gone = self
            .under_lease(queue, "delete", |lease| async move {
                let planned = match planned {
                    Some(planned) => planned,
                    None if self.broker.look(queue).await? == Look::Missing => 0,
                    None => {
                        return Err(EngineError::Refused {
                            why: "the number of messages is unknown".to_owned(),
                        });
                    }
                };
                let (gone, problem) = self.drop_from_parts(&lease, planned).await?;
                if let Some(problem) = problem {
                    return Err(EngineError::Refused {
                        why: format!("{gone} of {planned} messages are gone, the others are left: {problem}"),
                    });
                }
                match self.delivery.end_parts(&lease).await? {
                    Ending::Deleted => Ok(gone),
                    Ending::GoesOn => Err(EngineError::Refused {
                        why: format!(
                            "{gone} messages are gone, and the queue stays: more came after the plan, or somebody \
                             else consumes it"
                        ),
                    }),
                    Ending::Lost => Err(EngineError::Refused {
                        why: format!(
                            "{gone} messages are gone; the queue is deleted by a daemon, unless something comes into it"
                        ),
                    }),
                }
            })
            .await?;
        Ok(Done::Deleted {
            queue: queue.clone(),
            messages: gone,
        })
    }

    /// docs/protocols.md 21: the copy is committed before the message is settled.
    async fn rescue(&self, queue: &QueueName) -> Result<Done, EngineError> {
        let id = self
            .under_lease(queue, "rescue", |lease| async move {
                let Some(rescued) = self.broker.rescue(queue).await? else {
                    return Err(EngineError::NotFound {
                        what: "a message to rescue".to_owned(),
                    });
                };
                let copy = RescuedMessage {
                    id: 0,
                    queue: queue.clone(),
                    header_frame: rescued.header_frame().to_vec(),
                    body: rescued.body().to_vec(),
                    reason: lease
                        .record
                        .quarantined
                        .clone()
                        .unwrap_or_else(|| "on request".to_owned()),
                    at: self.clock.now(),
                };
                match self.store.rescued_insert(&copy).await {
                    Ok(id) => {
                        self.may_manage(lease.me)?;
                        rescued.settle().await?;
                        self.store
                            .queue_mark(queue, lease.epoch, QueueMark::Quarantined(None))
                            .await?;
                        Ok(id)
                    }
                    Err(error) => {
                        rescued.release().await;
                        Err(error.into())
                    }
                }
            })
            .await?;
        Ok(Done::Rescued {
            queue: queue.clone(),
            id,
        })
    }

    async fn test(&self, url: &EndpointUrl, method: Option<&str>) -> Result<Done, EngineError> {
        let method = test_method(method)?;
        let id = NotificationId::parse(&format!("{TEST_ID_PREFIX}{}", crate::ambient::new_id())).map_err(|error| {
            EngineError::Invalid {
                field: error.field.to_owned(),
                message: error.to_string(),
            }
        })?;
        let request = Request {
            url: url.clone(),
            headers: Vec::new(),
            content_type: None,
            body: bytes::Bytes::new(),
            id,
            origin: None,
            secrets: Vec::new(),
            method: if method == "HEAD" {
                Method::Head
            } else {
                Method::Other(method.clone())
            },
        };
        let sent = self.delivery.sender.send(request).await;
        Ok(Done::Tested(Tested {
            url: url.clone(),
            method,
            class: sent.outcome.class(),
            status: match sent.outcome {
                Outcome::Status(status) => Some(status),
                Outcome::Failure(_) => None,
            },
            error: sent.error,
            duration_ms: u64::try_from(sent.duration.as_millis()).unwrap_or(u64::MAX),
        }))
    }
}

/// Of a test by a person: what asks, and no method that removes or replaces.
fn test_method(method: Option<&str>) -> Result<String, EngineError> {
    let asked = method.unwrap_or(TEST_METHODS[0]);
    let found = TEST_METHODS.iter().find(|method| method.eq_ignore_ascii_case(asked));
    found
        .map(|method| (*method).to_owned())
        .ok_or_else(|| EngineError::Invalid {
            field: "method".to_owned(),
            message: format!(
                "a test does not send {}: possible are {}",
                text::show(asked, 40),
                TEST_METHODS.join(", ")
            ),
        })
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
