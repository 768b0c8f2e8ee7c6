//! Looking into a queue on a connection of its own, and giving everything back by closing it.
//!
//! The caller knows that nobody else takes from it now: a look beside a worker reorders (docs/rabbitmq.md, *Looks*).
//! Whatever is in the queue, only this connection can die of it.

use std::time::Duration;

use futures_util::StreamExt;
use lapin::options::{BasicCancelOptions, BasicConsumeOptions, BasicGetOptions, BasicQosOptions, QueueDeclareOptions};
use lapin::types::{FieldTable, ShortString};

use super::failure::{CallError, Ended, call_error};
use super::line::{Dialer, Line};
use super::message;
use crate::ambient;
use crate::broker::{BrokerError, Browsed};

/// Messages of one look.
const LIMIT_MAX: u32 = 500;
/// Bytes of bodies in one look; the message that goes over it is the last one.
const BYTES_MAX: usize = 32 << 20;
/// How long a consumed queue may be silent before the look ends.
const IDLE: Duration = Duration::from_secs(1);

/// Up to `limit` messages from the head.
pub(super) async fn browse(dialer: &Dialer, queue: &ShortString, limit: u32) -> Result<Vec<Browsed>, BrokerError> {
    let limit = limit.min(LIMIT_MAX);
    let line = dialer.open("browse").await?;
    let seen = match get(&line, queue, limit).await {
        // A quorum queue with single active consumer refuses basic.get.
        Err(error) if error.code() == Some(405) => consume(&line, queue, limit).await,
        seen => seen,
    };
    line.close().await;
    seen.map_err(|error| match error.ended() {
        Some(Ended::Undecodable(reason)) => BrokerError::Failed {
            operation: "browse",
            detail: format!("a message of it cannot be decoded: {reason}"),
        },
        _ => call_error("browse", &dialer.address, &dialer.vhost, &error),
    })
}

async fn get(line: &Line, queue: &ShortString, limit: u32) -> Result<Vec<Browsed>, CallError> {
    let channel = line.channel().await?;
    let mut seen = Seen::default();
    while seen.wants(limit) {
        let getting = channel.basic_get(queue.clone(), BasicGetOptions { no_ack: false });
        match line.call(getting).await? {
            Some(got) => seen.take(got.delivery),
            None => break,
        }
    }
    give_back(line, &channel).await;
    Ok(seen.messages)
}

/// Messages come unasked here, and each that came is held and counted by the broker: so they come in steps of so many
/// as are sure to be wanted, each step by a consumer of its own. What earlier steps took stays with the channel.
async fn consume(line: &Line, queue: &ShortString, limit: u32) -> Result<Vec<Browsed>, CallError> {
    let channel = line.channel().await?;
    let passive = QueueDeclareOptions {
        passive: true,
        ..QueueDeclareOptions::default()
    };
    let found = line
        .call(channel.queue_declare(queue.clone(), passive, FieldTable::default()))
        .await?;
    let limit = limit.min(found.message_count());
    let mut seen = Seen::default();
    while seen.wants(limit) {
        let step = seen.step(limit);
        if step_through(line, &channel, queue, step, &mut seen).await? < step {
            break;
        }
    }
    give_back(line, &channel).await;
    Ok(seen.messages)
}

/// Takes up to `step` more messages. Answers how many came before the queue was silent.
async fn step_through(
    line: &Line,
    channel: &lapin::Channel,
    queue: &ShortString,
    step: u16,
    seen: &mut Seen,
) -> Result<u16, CallError> {
    line.call(channel.basic_qos(step, BasicQosOptions::default())).await?;
    let tag = ShortString::from(format!("redrive-browse-{:016x}", ambient::random()));
    let options = BasicConsumeOptions::default();
    let mut consumer = line
        .call(channel.basic_consume(queue.clone(), tag.clone(), options, FieldTable::default()))
        .await?;
    for came in 0..step {
        match tokio::time::timeout(IDLE, consumer.next()).await {
            Ok(Some(Ok(delivery))) => seen.take(delivery),
            Ok(Some(Err(error))) => return Err(error.into()),
            Ok(None) if !line.is_open() => return Err(CallError::Ended(line.reason().await)),
            // Nothing more comes, or somebody deleted the queue.
            Ok(None) | Err(_) => return Ok(came),
        }
    }
    line.call(channel.basic_cancel(tag, BasicCancelOptions::default()))
        .await?;
    Ok(step)
}

/// Closes the channel, and waits until the broker has put everything back.
async fn give_back(line: &Line, channel: &lapin::Channel) {
    // The connection is closed next, which does the same.
    let _ = line.call(channel.close(200, "looked".into())).await;
}

#[derive(Default)]
struct Seen {
    messages: Vec<Browsed>,
    bytes: usize,
    /// Of the largest body.
    largest: usize,
    position: u32,
}

impl Seen {
    fn wants(&self, limit: u32) -> bool {
        self.position < limit && self.bytes <= BYTES_MAX
    }

    /// How many more fit even if all are as large as the largest so far, and at most as many as were seen already.
    fn step(&self, limit: u32) -> u16 {
        let fitting = BYTES_MAX.saturating_sub(self.bytes) / self.largest.max(1) + 1;
        let fitting = u32::try_from(fitting).unwrap_or(u32::MAX);
        let step = self.position.max(1).min(fitting).min(limit - self.position);
        u16::try_from(step).unwrap_or(u16::MAX)
    }

    fn take(&mut self, delivery: lapin::message::Delivery) {
        self.position += 1;
        self.bytes += delivery.data.len();
        self.largest = self.largest.max(delivery.data.len());
        self.messages.push(Browsed {
            position: self.position,
            redelivered: delivery.redelivered,
            message: message::received(delivery.properties, delivery.data),
        });
    }
}
