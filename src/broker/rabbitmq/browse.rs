//! Looking into a queue on a connection of its own, and giving everything back by closing it.
//!
//! The caller knows that nobody else takes from it now: a look beside a worker reorders (docs/rabbitmq.md, *Looks*).
//! Whatever is in the queue, only this connection can die of it.

use std::time::Duration;

use futures_util::StreamExt;
use lapin::options::{BasicConsumeOptions, BasicGetOptions, BasicQosOptions, QueueDeclareOptions};
use lapin::types::{FieldTable, ShortString};

use super::failure::{CallError, Ended, call_error};
use super::line::{Dialer, Line};
use super::message;
use crate::ambient;
use crate::broker::{BrokerError, Browsed, ListedQueue};

/// Messages of one look.
const LIMIT_MAX: u32 = 500;
/// Bytes of bodies in one look; the message that goes over it is the last one.
const BYTES_MAX: usize = 32 << 20;
/// Messages of one look at a queue that gives them unasked, where they may be of any size.
const UNSIZED_MAX: u32 = 32;
/// How long a consumed queue may be silent before the look ends.
const IDLE: Duration = Duration::from_secs(1);

/// Up to `limit` messages from the head; `listed` answers what the broker says of the queue, where it is needed.
pub(super) async fn browse(
    dialer: &Dialer,
    queue: &ShortString,
    limit: u32,
    listed: impl Future<Output = Option<ListedQueue>>,
) -> Result<Vec<Browsed>, BrokerError> {
    let limit = limit.min(LIMIT_MAX);
    let line = dialer.open("browse").await?;
    let seen = match get(&line, queue, limit).await {
        // A quorum queue with single active consumer refuses basic.get.
        Err(error) if error.code() == Some(405) => consume(&line, queue, limit, listed.await.as_ref()).await,
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

/// Messages come unasked here, all that were asked for at once: as many as fit into [`BYTES_MAX`] by what the broker says
/// of their sizes. One consumer takes them, because what several took comes back in another order.
async fn consume(
    line: &Line,
    queue: &ShortString,
    limit: u32,
    listed: Option<&ListedQueue>,
) -> Result<Vec<Browsed>, CallError> {
    let channel = line.channel().await?;
    let passive = QueueDeclareOptions {
        passive: true,
        ..QueueDeclareOptions::default()
    };
    let found = line
        .call(channel.queue_declare(queue.clone(), passive, FieldTable::default()))
        .await?;
    let ready = found.message_count();
    let limit = limit.min(ready).min(fitting(ready, listed));
    let prefetch = u16::try_from(limit).unwrap_or(u16::MAX).max(1);
    line.call(channel.basic_qos(prefetch, BasicQosOptions::default()))
        .await?;
    let tag = ShortString::from(format!("redrive-browse-{:016x}", ambient::random()));
    let options = BasicConsumeOptions::default();
    let mut consumer = line
        .call(channel.basic_consume(queue.clone(), tag, options, FieldTable::default()))
        .await?;
    let mut seen = Seen::default();
    while seen.wants(limit) {
        match ambient::timeout(IDLE, consumer.next()).await {
            Ok(Some(Ok(delivery))) => seen.take(delivery),
            Ok(Some(Err(error))) => return Err(error.into()),
            Ok(None) if !line.is_open() => return Err(CallError::Ended(line.reason().await)),
            // Nothing more comes, or somebody deleted the queue.
            Ok(None) | Err(_) => break,
        }
    }
    give_back(line, &channel).await;
    drop(consumer);
    Ok(seen.messages)
}

/// How many of `ready` messages may come at once. Statistics that know of fewer messages than there are say nothing.
fn fitting(ready: u32, listed: Option<&ListedQueue>) -> u32 {
    let known = listed.and_then(|queue| Some((queue.bytes?, queue.ready?)));
    let Some((bytes, counted)) = known.filter(|(_, counted)| *counted >= u64::from(ready)) else {
        return UNSIZED_MAX;
    };
    if bytes <= BYTES_MAX as u64 {
        return u32::MAX;
    }
    let mean = (bytes / counted.max(1)).max(1);
    u32::try_from(BYTES_MAX as u64 / mean)
        .unwrap_or(u32::MAX)
        .clamp(1, UNSIZED_MAX)
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
    position: u32,
}

impl Seen {
    fn wants(&self, limit: u32) -> bool {
        self.position < limit && self.bytes <= BYTES_MAX
    }

    fn take(&mut self, delivery: lapin::message::Delivery) {
        self.position += 1;
        self.bytes += delivery.data.len();
        self.messages.push(Browsed {
            position: self.position,
            redelivered: delivery.redelivered,
            message: message::received(delivery.properties, delivery.data),
        });
    }
}
