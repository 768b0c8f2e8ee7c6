//! Taking in a queue of others: a connection of its own, a window of messages in hand, acks for many at once.
//!
//! What exists is taken as it is: exchange and queue are looked at first and made only where they are missing.
//! Given back is by closing, never by `nack` (a quorum queue with a limit drops what comes back too often).

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::{FutureExt, StreamExt};
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::{FieldTable, ShortString};
use lapin::{Channel, Consumer};

use super::asks::{self, flags};
use super::failure::{CallError, Ended, call_error, ended};
use super::held::Held;
use super::line::{CLOSE, Dialer, Line};
use super::message;
use super::prepare::short;
use super::spare::Spare;
use crate::ambient;
use crate::broker::{Acked, BrokerError, DeliveryTag, Intake, IntakeQueue, Look, Lost, Walked};
use crate::domain::naming::{Argument, QueueType, queue_arguments};

const INTAKE: &str = "intake";
/// Bytes of bodies of one batch, about.
const BATCH_BYTES: usize = 8 << 20;

/// Makes what is missing and consumes.
pub(super) async fn intake(
    dialer: &Dialer,
    queue_type: QueueType,
    queue: &IntakeQueue,
    prefetch: u16,
) -> Result<Box<dyn Intake>, BrokerError> {
    let name = short(queue.name.as_str())?;
    let there = Arc::new(dialer.to(&queue.vhost));
    let spare = Spare::new(Arc::clone(&there), INTAKE);
    let made = make(&spare, &name, queue_type, queue).await;
    spare.close().await;
    made.map_err(|error| call_error(INTAKE, &there.address, &there.vhost, &error))?;
    let line = there.open(INTAKE).await?;
    match consume(&line, &name, prefetch).await {
        Ok((channel, consumer)) => Ok(Box::new(Taking {
            line,
            channel,
            consumer: Some(consumer),
            held: Held::default(),
            position: 0,
            lost: None,
        })),
        Err(error) => {
            // The first message may end the connection before the consumer is confirmed.
            let ended = if line.is_open() {
                error.ended()
            } else {
                Some(line.reason().await)
            };
            line.close().await;
            Err(match ended {
                Some(Ended::Undecodable(detail)) => BrokerError::Undecodable {
                    queue: queue.name.as_str().to_owned(),
                    detail,
                },
                Some(Ended::Lost(_)) | None => call_error(INTAKE, &dialer.address, &queue.vhost, &error),
            })
        }
    }
}

/// The queue, with a single active consumer where it is ours to say so; and the exchange with the bindings to it.
async fn make(spare: &Spare, name: &ShortString, queue_type: QueueType, queue: &IntakeQueue) -> Result<(), CallError> {
    if spare.look(name).await? == Look::Missing {
        let mut arguments = queue_arguments(queue_type);
        arguments.push(("x-single-active-consumer", Argument::Flag(true)));
        spare.ask(&[asks::declare(name, flags::DURABLE, &arguments)]).await?;
    }
    let Some(exchange) = &queue.exchange else {
        return Ok(());
    };
    let exchange = named(exchange)?;
    if !spare.exchange_stands(&exchange).await? {
        let topic = asks::exchange(&exchange, "topic", flags::DURABLE, &[]);
        spare.ask(&[topic]).await?;
    }
    let mut bindings = Vec::new();
    for key in queue.keys() {
        bindings.push(asks::bind(name, &exchange, &named(key)?));
    }
    spare.ask(&bindings).await.map(drop)
}

fn named(text: &str) -> Result<ShortString, CallError> {
    ShortString::try_new(text).map_err(|error| CallError::Ended(Ended::Lost(format!("{text:?}: {error}"))))
}

async fn consume(line: &Line, queue: &ShortString, prefetch: u16) -> Result<(Channel, Consumer), CallError> {
    let channel = line.channel().await?;
    // Before consume, or the first consumer has no limit (docs/rabbitmq.md, *Prefetch*).
    line.call(channel.basic_qos(prefetch.max(1), BasicQosOptions::default()))
        .await?;
    let tag = ShortString::from(format!("redrive-{:016x}", ambient::random()));
    let consuming = channel.basic_consume(
        queue.clone(),
        tag,
        BasicConsumeOptions::default(),
        FieldTable::default(),
    );
    let consumer = line.call(consuming).await?;
    Ok((channel, consumer))
}

/// An intake at work.
struct Taking {
    line: Arc<Line>,
    channel: Channel,
    /// Taken out only at the end: dropping it would send `basic.cancel` on an open channel.
    consumer: Option<Consumer>,
    held: Held,
    position: u64,
    lost: Option<Lost>,
}

impl Taking {
    fn take(&mut self, delivery: lapin::message::Delivery) -> Walked {
        self.position += 1;
        self.held.add(delivery.delivery_tag);
        message::walked(delivery, self.position)
    }

    /// Why the stream ended: a cancel by the broker leaves the channel open.
    async fn end(&self, error: Option<lapin::Error>) -> Lost {
        let known = error.as_ref().and_then(ended);
        if let Some(ended) = &known {
            self.line.note(ended.clone());
        }
        if matches!(known, Some(Ended::Undecodable(_))) || !self.line.is_open() {
            return match self.line.reason().await {
                Ended::Undecodable(reason) => Lost::Undecodable(reason),
                Ended::Lost(reason) => Lost::Connection(reason),
            };
        }
        match error {
            Some(error) => Lost::Connection(error.to_string()),
            None if self.channel.status().connected() => Lost::Cancelled,
            None => Lost::Connection("channel closed by the broker".to_owned()),
        }
    }

    async fn acked(&mut self, tags: &[DeliveryTag]) -> Result<(), CallError> {
        let acks = self.held.settle(tags.iter().map(|tag| tag.0).collect());
        for ack in acks {
            let options = BasicAckOptions { multiple: ack.multiple };
            self.line.call(self.channel.basic_ack(ack.tag, options)).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl Intake for Taking {
    async fn next(&mut self, limit: usize) -> Result<Vec<Walked>, Lost> {
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while self.lost.is_none() && taken.len() < limit.max(1) && bytes < BATCH_BYTES {
            let Some(consumer) = self.consumer.as_mut() else { break };
            // Only a wait with nothing in hand can be given up.
            let next = if taken.is_empty() {
                consumer.next().await
            } else {
                match consumer.next().now_or_never() {
                    Some(next) => next,
                    None => break,
                }
            };
            match next {
                Some(Ok(delivery)) => {
                    bytes += delivery.data.len();
                    taken.push(self.take(delivery));
                }
                Some(Err(error)) => self.lost = Some(self.end(Some(error)).await),
                None => self.lost = Some(self.end(None).await),
            }
        }
        match &self.lost {
            Some(lost) if taken.is_empty() => Err(lost.clone()),
            _ => Ok(taken),
        }
    }

    async fn settle(&mut self, tags: &[DeliveryTag]) -> Acked {
        if self.lost.is_none() && self.channel.status().connected() && self.acked(tags).await.is_ok() {
            return Acked::Sent;
        }
        if self.lost.is_none() {
            self.lost = Some(self.end(None).await);
        }
        Acked::Lost
    }

    async fn close(mut self: Box<Self>) {
        let consumer = self.consumer.take();
        close(&self.line, &self.channel).await;
        drop(consumer);
    }
}

impl Drop for Taking {
    fn drop(&mut self) {
        let Some(consumer) = self.consumer.take() else { return };
        if tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        let (line, channel) = (Arc::clone(&self.line), self.channel.clone());
        ambient::spawn("end of an intake", async move {
            close(&line, &channel).await;
            drop(consumer);
        });
    }
}

/// The channel first: then everything unsettled is back in its place, whatever becomes of the connection.
async fn close(line: &Line, channel: &Channel) {
    if channel.status().connected() && line.is_open() {
        // An error means that the channel is gone, which is as good.
        let _ = line.call_within(CLOSE, channel.close(200, "done".into())).await;
    }
    line.close().await;
}
