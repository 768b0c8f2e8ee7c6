//! What a person does to a queue: pause, purge, delete, rescue.

use std::sync::Arc;
use std::time::Duration;

use super::Queues;
use crate::ambient;
use crate::broker::{BrokerError, Look, Rescued};
use crate::domain::endpoint::EndpointState;
use crate::domain::id::QueueName;
use crate::domain::pace::ENDPOINT_RESUME;
use crate::domain::queue::{QueueKind, QueueRecord};
use crate::domain::text::shell_argument;
use crate::domain::words::plural_if_known;
use crate::engine::EngineError;
use crate::engine::command::{Command, Danger, Done, Plan, PlanLine, WriteGrant, simple};
use crate::engine::manage::ManagedLease;
use crate::engine::operation::{About, Friction, Operation, Subject};
use crate::engine::tell::Ending;
use crate::store::{NewPause, QueueMark, RescuedMessage};

/// How long a pause waits for the owner of its queue.
const RELEASE_WAIT: Duration = Duration::from_secs(3);
/// Between two looks whether the owner let go.
const RELEASE_LOOK: Duration = Duration::from_millis(50);

/// What a person wants done with a queue.
#[derive(Clone, Copy)]
pub(in crate::engine) enum Act {
    Pause,
    Resume,
    Purge,
    Delete,
    Rescue,
}

impl Operation<Queues> for (&QueueName, Act) {
    fn about(&self) -> About {
        let queue = || self.0.clone();
        let number = Friction::Lines("number of queues");
        let lost = Err("messages that were removed are lost");
        let (name, friction, undo) = match self.1 {
            Act::Pause => ("queue pause", number, Ok(Command::ResumeQueue(queue()))),
            Act::Resume => ("queue resume", number, Ok(Command::PauseQueue(queue()))),
            Act::Purge => ("queue purge", Friction::Name(queue()), lost),
            Act::Delete => ("queue delete", Friction::Name(queue()), lost),
            Act::Rescue => {
                let stays = Err("the message that was taken out stays in the store");
                ("queue rescue", number, stays)
            }
        };
        About {
            name,
            subject: Subject::Name(self.0.as_str().to_owned()),
            friction,
            undo,
        }
    }

    async fn plan(&self, queues: &Arc<Queues>) -> Result<Plan, EngineError> {
        let (verb, effect) = match self.1 {
            Act::Pause => ("pause", "nothing is sent from it until it is resumed"),
            Act::Resume => ("resume", "delivery continues"),
            Act::Purge => ("purge", "every message that waits now is removed and lost"),
            Act::Delete => (
                "delete",
                "every message that waits now is removed and lost, and then the queue",
            ),
            Act::Rescue => (
                "rescue the head of",
                "its first message is moved, byte for byte, into the store",
            ),
        };
        let plan = queues.plan_queue(self.0, verb, effect).await?;
        match self.1 {
            Act::Purge | Act::Delete => queues.plan_loss(self.0, plan).await,
            Act::Rescue => {
                must_be_quarantined(self.0, queues.store.queue_get(self.0).await?.as_ref())?;
                Ok(plan)
            }
            Act::Resume => with_endpoint(queues, self.0, plan).await,
            Act::Pause => Ok(plan),
        }
    }

    /// A pause that took the place of another one is not taken back: that would end the other one too.
    fn undo(&self, plan: &Plan) -> Result<Command, &'static str> {
        let was_paused = |line: &PlanLine| line.now.starts_with("paused");
        match self.1 {
            Act::Pause if plan.lines.iter().any(was_paused) => {
                Err("the queue was paused before, and stays so: U resumes it")
            }
            Act::Pause | Act::Resume | Act::Purge | Act::Delete | Act::Rescue => self.about().undo,
        }
    }

    async fn perform(&self, queues: &Arc<Queues>, plan: &Plan, grant: &WriteGrant) -> Result<Done, EngineError> {
        match self.1 {
            Act::Pause => {
                let pause = NewPause {
                    by: grant.actor().to_owned(),
                    reason: grant.reason().map(ToOwned::to_owned),
                };
                queues.pause(self.0, Some(pause)).await
            }
            Act::Resume => queues.pause(self.0, None).await,
            Act::Purge => queues.purge(self.0, plan.messages).await,
            Act::Delete => queues.delete(self.0, plan.messages).await,
            Act::Rescue => queues.rescue(self.0).await,
        }
    }
}

/// The same plan, which tells of an endpoint that holds the queue back besides its pause.
async fn with_endpoint(queues: &Queues, queue: &QueueName, mut plan: Plan) -> Result<Plan, EngineError> {
    let url = queues.store.queue_get(queue).await?.and_then(|row| row.url);
    let endpoint = match &url {
        Some(url) => queues.store.endpoint_get(url).await?,
        None => None,
    };
    let held = endpoint.and_then(|endpoint| match (endpoint.paused(), endpoint.state) {
        (_, EndpointState::Parked | EndpointState::Disabled) => Some(format!(
            "its endpoint is {}: nothing is sent until `redrive redeliver`",
            endpoint.state.as_str()
        )),
        (Some(paused), EndpointState::Available | EndpointState::Unavailable) => Some(format!(
            "its endpoint is paused too ({}): nothing is sent until {ENDPOINT_RESUME}",
            paused.in_words()
        )),
        (None, EndpointState::Available | EndpointState::Unavailable) => None,
    });
    if let Some(held) = held {
        "the queue is not paused any more".clone_into(&mut plan.lines[0].effect);
        plan.warnings.push(held);
    }
    Ok(plan)
}

impl Queues {
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
        plan.lines[0].now = match &view.paused {
            Some(pause) => pause.in_words(),
            None => "not paused".to_owned(),
        };
        plan.messages = view.ready;
        plan.ends_reason = view.paused.and_then(|pause| pause.reason);
        Ok(plan)
    }

    async fn plan_loss(&self, queue: &QueueName, mut plan: Plan) -> Result<Plan, EngineError> {
        let row = self.store.queue_get(queue).await?;
        if row.is_some_and(|row| row.quarantined.is_some()) {
            return Err(EngineError::Refused {
                why: format!(
                    "the head of {:?} kills every client that reads it: `redrive queue rescue` takes it out first",
                    queue.as_str()
                ),
            });
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
            ambient::sleep(RELEASE_LOOK).await;
        }
    }

    /// Nothing where the queue is gone; what nobody could count for the plan is not taken out. Why it could not be
    /// counted is what a look says now.
    async fn none_planned(&self, queue: &QueueName) -> Result<u64, EngineError> {
        match self.broker.look(queue).await? {
            Look::Missing => Ok(0),
            Look::Present { .. } => Err(EngineError::Refused {
                why: "the number of messages was not known to the plan: give the command once more".to_owned(),
            }),
        }
    }

    /// Takes messages out up to the planned count; what arrived meanwhile stays.
    async fn purge(&self, queue: &QueueName, planned: Option<u64>) -> Result<Done, EngineError> {
        let planned = match planned {
            Some(planned) => planned,
            None => self.none_planned(queue).await?,
        };
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
                    None => self.none_planned(queue).await?,
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
                must_be_quarantined(queue, Some(&lease.record))?;
                let Some(rescued) = rescue_head(self, &lease.record).await? else {
                    return Err(EngineError::NotFound {
                        what: "a message to rescue".to_owned(),
                    });
                };
                let copy = RescuedMessage {
                    id: 0,
                    queue: queue.clone(),
                    header_frame: rescued.header_frame().to_vec(),
                    body: rescued.body().to_vec(),
                    reason: lease.record.quarantined.clone().unwrap_or_default(),
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

    /// Takes as many messages out of it as were planned, from its head on: how many, and why not all. What the store
    /// knows of its head is about a message that is gone.
    async fn drop_from_parts(&self, lease: &ManagedLease, planned: u64) -> Result<(u64, Option<String>), EngineError> {
        let (mut dropped, mut problem) = (0, None);
        for part in self.parts(&lease.record) {
            if dropped >= planned || problem.is_some() {
                break;
            }
            if self.broker.look(&part).await? == Look::Missing {
                continue;
            }
            let (gone, why) = self.saves.drop_messages(lease.me, &part, planned - dropped).await?;
            dropped += gone;
            problem = why;
        }
        if dropped > 0 && lease.record.head.is_some() {
            let gone = QueueMark::HeadGone;
            self.store.queue_mark(&lease.record.name, lease.epoch, gone).await?;
        }
        Ok((dropped, problem))
    }
}

/// The first message of a queue and its companion byte for byte, held by the reader that needs not decode it.
async fn rescue_head(queues: &Queues, row: &QueueRecord) -> Result<Option<Box<dyn Rescued>>, BrokerError> {
    for part in queues.parts(row) {
        if queues.broker.look(&part).await? != Look::Missing
            && let Some(rescued) = queues.broker.rescue(&part).await?
        {
            return Ok(Some(rescued));
        }
    }
    Ok(None)
}

/// The head of any other queue can be read, and is delivered.
fn must_be_quarantined(queue: &QueueName, row: Option<&QueueRecord>) -> Result<(), EngineError> {
    if row.is_some_and(|row| row.quarantined.is_some()) {
        return Ok(());
    }
    let name = queue.as_str();
    let queue = shell_argument(name);
    Err(EngineError::Refused {
        why: format!(
            "queue {name:?} is not quarantined: no daemon found that its first message cannot be read, and nothing is \
             taken out; `redrive queue why {queue}` says why it does not move"
        ),
    })
}
