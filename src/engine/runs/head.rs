//! Back to the head of a delivery queue's order: into its companion, under its lease, while nothing of the queue is
//! held (docs/protocols.md 22).

use super::Runs;
use super::taken::TakenRun;
use super::window::Sent;
use crate::broker::{BrokerError, Look};
use crate::domain::id::{ExecutionId, IncarnationId, QueueName};
use crate::domain::message::Message;
use crate::domain::url::EndpointUrl;
use crate::engine::EngineError;
use crate::engine::error::chain;
use crate::store::{LearnedQueue, Lease, QueueMark};

impl TakenRun<'_> {
    /// Puts messages of one delivery queue before everything that waits in it, in their order.
    pub(super) async fn publish_to_head(
        &self,
        queue: QueueName,
        messages: Vec<(usize, Message)>,
    ) -> Vec<(usize, Sent)> {
        let lease = match self.manager.lease(&queue).await {
            Ok(lease) => lease,
            Err(error) => return none(&messages, &error),
        };
        let sent = match self.engine.prepare_companion(&queue, &lease, messages.first()).await {
            Ok(companion) => self.engine.fill(self.manager.id(), &companion, messages).await,
            Err(error) => none(&messages, &error),
        };
        self.manager.free(&queue, lease.epoch).await;
        self.engine.broker.nudge(&queue).await;
        sent
    }
}

impl Runs {
    /// The queue is there, its companion too, and its row says so.
    async fn prepare_companion(
        &self,
        queue: &QueueName,
        lease: &Lease,
        first: Option<&(usize, Message)>,
    ) -> Result<QueueName, EngineError> {
        if lease.record.decision.is_some() {
            return Err(EngineError::Broker(lost(
                "a decision about the queue's head is being carried out",
            )));
        }
        let companion = self.settings.naming.companion(queue);
        let companion = QueueName::parse(&companion).map_err(|error| EngineError::Refused {
            why: format!("the companion's name {error}"),
        })?;
        for name in [queue, &companion] {
            if self.broker.look(name).await? == Look::Missing {
                self.broker.create(name).await?;
            }
        }
        if let Some((execution, url)) = first.and_then(|(_, message)| named(message)) {
            let name = queue.clone();
            self.store
                .queues_learn(&[LearnedQueue { name, execution, url }])
                .await?;
        }
        if !self
            .store
            .queue_mark(queue, lease.epoch, QueueMark::Companion(true))
            .await?
        {
            return Err(EngineError::Broker(lost("the queue's lease was lost")));
        }
        Ok(companion)
    }

    async fn fill(
        &self,
        me: IncarnationId,
        companion: &QueueName,
        messages: Vec<(usize, Message)>,
    ) -> Vec<(usize, Sent)> {
        let mut sent = Vec::with_capacity(messages.len());
        for (index, message) in messages {
            let one = match self.may_manage(me) {
                Ok(()) => self.broker.publish(companion, &message).await,
                Err(error) => Err(lost(&chain(&error))),
            };
            let stops = one.is_err();
            sent.push((index, one));
            if stops {
                break;
            }
        }
        sent
    }
}

fn named(message: &Message) -> Option<(ExecutionId, EndpointUrl)> {
    let execution = ExecutionId::parse(message.header_text("x-redrive-execution")?).ok()?;
    let url = EndpointUrl::parse(message.header_text("x-redrive-url")?).ok()?;
    Some((execution, url))
}

/// Nothing was sent.
fn none(messages: &[(usize, Message)], error: &EngineError) -> Vec<(usize, Sent)> {
    let detail = chain(error);
    messages.iter().map(|(index, _)| (*index, Err(lost(&detail)))).collect()
}

fn lost(detail: &str) -> BrokerError {
    BrokerError::Unreachable {
        operation: "publish",
        detail: detail.to_owned(),
    }
}
