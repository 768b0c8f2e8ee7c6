//! A consuming connection of our own: channels that consume, and nothing else.
//!
//! The ordinary client reads and writes each connection on a thread of its own, decodes every frame into values of its
//! types and answers through channels between tasks: that costs more than the request that a message is delivered with.
//! Here one task of the runtime reads what came for all of the connection's queues and writes what they settle.
//!
//! Promises: a call is answered, or ends with its connection or its bound; a channel's messages are handed out in their
//! order, none after its end; what is put in line goes out in that order. What is wrong in a message is wrong for its
//! own queue alone: only what is no frame at all ends the connection.

mod drive;
mod state;

use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::task::AtomicWaker;
use lapin::ErrorKind;
use tokio::sync::watch;

use self::drive::Driver;
use self::state::State;
pub(super) use self::state::{Came, Stopped};
use super::address::HEARTBEAT_S;
use super::attach::Wanted;
use super::failure::{CallError, Ended, connect_error};
use super::frames::{Method, MethodId};
use super::line::{CALL, CLOSE, CONNECT, Dialer};
use super::wire::{
    CHANNEL_CLOSE, CHANNEL_CLOSE_OK, CHANNEL_OPEN, CHANNEL_OPEN_OK, CONNECTION_CLOSE, CONSUME, CONSUME_OK, QOS, QOS_OK,
    Wire,
};
use crate::ambient;
use crate::broker::BrokerError;

const BIND: MethodId = (50, 20);
const BIND_OK: MethodId = (50, 21);

/// What the connection's task and those who use it share.
struct Shared {
    state: Mutex<State>,
    /// The task that reads and writes.
    task: AtomicWaker,
    /// Whether it ended.
    over: watch::Sender<bool>,
    losses: Arc<AtomicU64>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection ended; the first reason counts.
    fn end(&self, ended: Ended) {
        let mut wakers = Vec::new();
        {
            let mut state = self.lock();
            if state.ended.is_none() {
                // The broker took all that came before a close in order: nothing was lost with it.
                if !state.closed_in_order {
                    self.losses.fetch_add(1, Ordering::SeqCst);
                }
                state.ended = Some(ended);
            }
            state.wake_all(&mut wakers);
        }
        for waker in wakers {
            waker.wake();
        }
        self.over.send_replace(true);
        self.task.wake();
    }
}

/// An open connection. Dropping it closes it.
pub(super) struct Feed {
    shared: Arc<Shared>,
    /// Channels that the broker grants; 0 for no limit.
    channel_max: u16,
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ended = self.ended();
        f.debug_struct("Feed").field("ended", &ended).finish_non_exhaustive()
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.ask_to_close();
    }
}

impl Feed {
    /// Opens one for this role.
    pub(super) async fn open(dialer: &Dialer, role: &str) -> Result<Arc<Self>, BrokerError> {
        let failed = |error: &CallError| connect_error(&dialer.address, &dialer.vhost, error);
        let wire = match ambient::timeout(CONNECT, Wire::connect(dialer, role, HEARTBEAT_S)).await {
            Ok(Ok(wire)) => wire,
            Ok(Err(fault)) => return Err(failed(&fault.into())),
            Err(_) => return Err(failed(&CallError::Silent(CONNECT))),
        };
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            task: AtomicWaker::new(),
            over: watch::Sender::new(false),
            losses: dialer.losses_counter(),
        });
        let channel_max = wire.tuned.channels;
        ambient::spawn("broker-feed", Driver::new(wire, Arc::clone(&shared)).run());
        Ok(Arc::new(Self { shared, channel_max }))
    }

    /// Whether calls can still be made on it.
    pub(super) fn is_open(&self) -> bool {
        let state = self.shared.lock();
        state.ended.is_none() && !state.closing
    }

    /// How it ended, if it did.
    pub(super) fn ended(&self) -> Option<Ended> {
        self.shared.lock().ended.clone()
    }

    /// Channels that fit on it; 0 for no limit.
    pub(super) const fn channel_max(&self) -> u16 {
        self.channel_max
    }

    fn ask_to_close(&self) {
        {
            let mut state = self.shared.lock();
            if std::mem::replace(&mut state.closing, true) || state.ended.is_some() {
                return;
            }
            let close = Method::new(CONNECTION_CLOSE).u16(200).short_string("closing");
            state.put(0, &close.u16(0).u16(0));
        }
        self.shared.task.wake();
    }

    /// Closes the connection in order, within a bound.
    pub(super) async fn close(&self) {
        let mut over = self.shared.over.subscribe();
        self.ask_to_close();
        // The task has a bound of its own; an error means that the task is gone.
        let _ = over.wait_for(|over| *over).await;
    }

    /// A channel that consumes the queue; `None` when there is no such queue. Everything is asked at once: the broker
    /// answers in order, and a refusal closes the channel.
    pub(super) async fn consume(self: &Arc<Self>, wanted: &Wanted) -> Result<Option<Tap>, CallError> {
        let queue = wanted.queue.as_str();
        let tap = Tap::open(self, queue)?;
        let mut asked = vec![(Method::new(CHANNEL_OPEN).short_string(""), CHANNEL_OPEN_OK)];
        if let Some(exchange) = &wanted.bind {
            let bind = Method::new(BIND).u16(0).short_string(queue);
            let bind = bind.short_string(exchange.as_str()).short_string(queue);
            asked.push((bind.u8(0).table(&[]), BIND_OK));
        }
        // Before consume, or the first consumer has no limit (docs/rabbitmq.md, *Prefetch*).
        asked.push((Method::new(QOS).u32(0).u16(wanted.prefetch).u8(0), QOS_OK));
        let tag = format!("redrive-{:016x}", ambient::random());
        let consume = Method::new(CONSUME).u16(0).short_string(queue).short_string(&tag);
        asked.push((consume.u8(0).table(&[]), CONSUME_OK));
        {
            let mut state = self.shared.lock();
            for (method, _) in &asked {
                state.put(tap.channel, method);
            }
        }
        self.shared.task.wake();
        for (_, answer) in asked {
            match tap.answer(answer).await {
                Err(error) if error.says_missing(queue) => return Ok(None),
                answered => answered?,
            }
        }
        Ok(Some(tap))
    }

    /// Nothing more is asked on it.
    fn abandon(&self, why: String) {
        self.shared.end(Ended::Lost(why));
    }
}

/// One channel that consumes. Dropping it closes it.
pub(super) struct Tap {
    feed: Arc<Feed>,
    channel: u16,
    is_closed: bool,
}

impl Tap {
    fn open(feed: &Arc<Feed>, queue: &str) -> Result<Self, CallError> {
        let most = if feed.channel_max == 0 {
            u16::MAX
        } else {
            feed.channel_max
        };
        let channel = feed.shared.lock().open(queue, most);
        let channel = channel.ok_or_else(|| CallError::Amqp(ErrorKind::ChannelsLimitReached.into()))?;
        Ok(Self {
            feed: Arc::clone(feed),
            channel,
            is_closed: false,
        })
    }

    async fn answer(&self, wanted: MethodId) -> Result<(), CallError> {
        let shared = &self.feed.shared;
        let answer = poll_fn(|context| shared.lock().poll_reply(self.channel, wanted, context));
        if let Ok(answered) = ambient::timeout(CALL, answer).await {
            return answered;
        }
        self.feed.abandon(format!("no answer within {} s", CALL.as_secs()));
        Err(CallError::Silent(CALL))
    }

    /// The next message. May be dropped and called again.
    pub(super) async fn next(&self) -> Result<Came, Stopped> {
        let shared = &self.feed.shared;
        poll_fn(|context| shared.lock().poll_next(self.channel, context)).await
    }

    /// Puts an ack in line; what it answers is for [`Tap::written`]. `None`: nothing comes here any more, and nothing
    /// was sent.
    pub(super) fn ack(&self, tag: u64) -> Option<u64> {
        let put = self.feed.shared.lock().ack(self.channel, tag)?;
        self.feed.shared.task.wake();
        Some(put)
    }

    /// Waits until the socket took what was put in line; false when it did not.
    pub(super) async fn written(&self, until: u64) -> bool {
        let shared = &self.feed.shared;
        let writing = poll_fn(|context| shared.lock().poll_written(self.channel, until, context));
        if let Ok(written) = ambient::timeout(CALL, writing).await {
            return written;
        }
        self.feed
            .abandon(format!("nothing was sent within {} s", CALL.as_secs()));
        false
    }

    /// Closes the channel and waits for the broker: then everything unsettled is back in its place.
    pub(super) async fn close(mut self) {
        self.close_now().await;
    }

    async fn close_now(&mut self) {
        self.is_closed = true;
        let shared = &self.feed.shared;
        let is_open = {
            let mut state = shared.lock();
            let is_open = state.is_channel_open(self.channel);
            if is_open {
                let close = Method::new(CHANNEL_CLOSE).u16(200).short_string("done");
                state.put(self.channel, &close.u16(0).u16(0));
            }
            is_open
        };
        if is_open {
            shared.task.wake();
            let answer = poll_fn(|context| shared.lock().poll_reply(self.channel, CHANNEL_CLOSE_OK, context));
            // An error means that the channel is gone, which is as good.
            if ambient::timeout(CLOSE, answer).await.is_err() {
                self.feed.abandon(format!("no answer within {} s", CLOSE.as_secs()));
            }
        }
        shared.lock().free(self.channel);
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        if self.is_closed || tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        self.is_closed = true;
        let mut closing = Self {
            feed: Arc::clone(&self.feed),
            channel: self.channel,
            is_closed: true,
        };
        ambient::spawn("detach", async move { closing.close_now().await });
    }
}
