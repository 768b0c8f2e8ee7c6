//! Looking into a queue on a connection of its own, and giving everything back by closing it.
//!
//! The caller knows that nobody else takes from it now: a look beside a worker reorders (docs/rabbitmq.md, *Looks*).
//! Whatever is in the queue, only this connection can die of it.

use std::sync::Arc;
use std::time::Duration;

use super::asks::{self, Taken};
use super::dialer::Dialer;
use super::failure::{CallError, Ended, call_error};
use super::feed::{Came, Feed, Stopped, Tap};
use super::frames::ShortString;
use super::message;
use crate::ambient;
use crate::broker::{BrokerError, Browsed, ListedQueue, Look};

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
    let feed = Feed::open(dialer, "browse").await?;
    let seen = match get(&feed, queue, limit).await {
        // A quorum queue with single active consumer refuses basic.get.
        Err(error) if error.code() == Some(405) => consume(&feed, queue, limit, listed.await.as_ref()).await,
        seen => seen,
    };
    feed.close().await;
    seen.map_err(|error| worded(dialer, &error))
}

/// The same of a quorum queue of others. Each get would be a consumer of its own there.
pub(super) async fn browse_quorum(
    dialer: &Dialer,
    queue: &ShortString,
    limit: u32,
    listed: &ListedQueue,
) -> Result<Vec<Browsed>, BrokerError> {
    let feed = Feed::open(dialer, "browse").await?;
    let seen = consume(&feed, queue, limit.min(LIMIT_MAX), Some(listed)).await;
    feed.close().await;
    seen.map_err(|error| worded(dialer, &error))
}

fn worded(dialer: &Dialer, error: &CallError) -> BrokerError {
    match error.ended() {
        Some(Ended::Undecodable(reason)) => BrokerError::Failed {
            operation: "browse",
            detail: format!("a message of it cannot be decoded: {reason}"),
        },
        _ => call_error("browse", &dialer.address, &dialer.vhost, error),
    }
}

async fn get(feed: &Arc<Feed>, queue: &ShortString, limit: u32) -> Result<Vec<Browsed>, CallError> {
    let tap = feed.channel(queue.as_str()).await?;
    let mut seen = Seen::default();
    while seen.wants(limit) {
        if tap.call(&[asks::get(queue, Taken::InHand)]).await?.is_empty() {
            break;
        }
        seen.take(tap.getting().await?)?;
    }
    give_back(tap).await;
    Ok(seen.messages)
}

/// Messages come unasked here, all that were asked for at once: as many as fit into [`BYTES_MAX`] by what the broker says
/// of their sizes. One consumer takes them, because what several took comes back in another order.
async fn consume(
    feed: &Arc<Feed>,
    queue: &ShortString,
    limit: u32,
    listed: Option<&ListedQueue>,
) -> Result<Vec<Browsed>, CallError> {
    let tap = feed.channel(queue.as_str()).await?;
    let ready = match tap.look(queue).await? {
        Look::Present { ready, .. } => u32::try_from(ready).unwrap_or(u32::MAX),
        Look::Missing => 0,
    };
    let limit = limit.min(ready).min(fitting(ready, listed));
    let prefetch = u16::try_from(limit).unwrap_or(u16::MAX).max(1);
    let tag = format!("redrive-browse-{:016x}", ambient::random());
    tap.succeed(None, queue.as_str(), &tag, prefetch).await?;
    let mut seen = Seen::default();
    while seen.wants(limit) {
        match ambient::timeout(IDLE, tap.next()).await {
            Ok(Ok(came)) => seen.take(came)?,
            // Nothing more comes, or somebody deleted the queue.
            Ok(Err(Stopped::Cancelled)) | Err(_) => break,
            Ok(Err(stopped)) => return Err(stopped.into()),
        }
    }
    give_back(tap).await;
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
async fn give_back(tap: Tap) {
    // The connection is closed next, which does the same.
    drop(tap.close().await);
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

    fn take(&mut self, came: Came) -> Result<(), CallError> {
        self.position += 1;
        self.bytes += came.body.len();
        let message = message::came(&came.properties, came.body);
        self.messages.push(Browsed {
            position: self.position,
            redelivered: came.redelivered,
            message: message.map_err(|why| CallError::Ended(Ended::Undecodable(why)))?,
        });
        Ok(())
    }
}
