//! A connection of our own: channels that consume, that publish, and on which something is asked.
//!
//! One task of the runtime reads what came for all of a connection's channels and writes what they have in line
//! (docs/decisions/own-consumer.md).
//!
//! Promises: a call is answered, or ends with its connection or its bound; a channel's messages are handed out in their
//! order, none after its end; what is put in line goes out in that order. What is wrong in a message is wrong for its
//! own queue alone: only what is no frame at all ends the connection.

mod confirms;
mod drive;
mod state;

use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt as _;
use futures_util::task::AtomicWaker;
use tokio::sync::watch;

pub(super) use self::confirms::{Confirmed, Confirming, Content, Verdict};
use self::drive::Driver;
use self::state::State;
pub(super) use self::state::{Came, Stopped};
use super::address::HEARTBEAT_S;
use super::asks::{self, Asked, Taken};
use super::attach::{CONSUME, Wanted};
use super::dialer::{CALL, CLOSE, CONNECT, Dialer, Kept};
use super::failure::{CallError, Ended, connect_error};
use super::frames::{Method, MethodId, ShortString};
use super::held::Ack;
use super::wire::{
    CANCEL, CANCEL_OK, CHANNEL_CLOSE, CHANNEL_CLOSE_OK, CHANNEL_OPEN, CHANNEL_OPEN_OK, CONFIRM_SELECT,
    CONFIRM_SELECT_OK, CONNECTION_CLOSE, QOS, QOS_OK, Wire,
};
use crate::ambient;
use crate::broker::{BrokerError, Look};

/// What a connection says beside what it is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Notice {
    /// The broker takes no publishes from it (alarm).
    Blocked(String),
    /// It takes them again.
    Unblocked,
    /// It ended.
    Ended,
}

type Hearing = Box<dyn Fn(Notice) + Send + Sync>;

/// What the connection's task and those who use it share.
struct Shared {
    state: Mutex<State>,
    /// The task that reads and writes.
    task: AtomicWaker,
    /// Whether it ended.
    over: watch::Sender<bool>,
    /// Hears of alarms.
    notice: Hearing,
    losses: Arc<AtomicU64>,
    /// Where it counts that something undecodable came, unless a message of a delivery queue may be that.
    garbled: Option<Arc<AtomicU64>>,
}

impl Shared {
    /// Of a connection without channels.
    fn new(notice: Hearing, losses: Arc<AtomicU64>, garbled: Option<Arc<AtomicU64>>) -> Self {
        Self {
            state: Mutex::default(),
            task: AtomicWaker::new(),
            over: watch::Sender::new(false),
            notice,
            losses,
            garbled,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection ended; the first reason counts, and is told once: another connection may have been opened since.
    fn end(&self, ended: Ended) {
        let mut wakers = Vec::new();
        {
            let mut state = self.lock();
            if state.ended.is_some() {
                return;
            }
            // The broker took all that came before a close in order: nothing was lost with it.
            if !state.closed_in_order {
                self.losses.fetch_add(1, Ordering::SeqCst);
            }
            if let (Ended::Undecodable(_), Some(garbled)) = (&ended, &self.garbled) {
                garbled.fetch_add(1, Ordering::SeqCst);
            }
            state.ended = Some(ended);
            state.wake_all(&mut wakers);
        }
        (self.notice)(Notice::Ended);
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
    /// Bytes of a frame, at most.
    frame_max: usize,
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
        Self::open_heard(dialer, role, Box::new(|_| ())).await
    }

    /// Opens one for this role; `notice` hears of alarms.
    pub(super) async fn open_heard(dialer: &Dialer, role: &str, notice: Hearing) -> Result<Arc<Self>, BrokerError> {
        let failed = |error: &CallError| connect_error(&dialer.address, &dialer.vhost, error);
        let wire = match ambient::timeout(CONNECT, Wire::connect(dialer, role, HEARTBEAT_S)).await {
            Ok(Ok(wire)) => wire,
            Ok(Err(fault)) => return Err(failed(&fault.into())),
            Err(_) => return Err(failed(&CallError::Silent(CONNECT))),
        };
        let garbled = (role != CONSUME).then(|| dialer.garbled_counter());
        let shared = Arc::new(Shared::new(notice, dialer.losses_counter(), garbled));
        let (channel_max, frame_max) = (wire.tuned.channels, wire.tuned.frame_max as usize);
        ambient::spawn("broker-feed", Driver::new(wire, Arc::clone(&shared)).run());
        Ok(Arc::new(Self {
            shared,
            channel_max,
            frame_max,
        }))
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

    /// Bytes of a frame, at most.
    pub(super) const fn frame_max(&self) -> usize {
        self.frame_max
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

    /// A channel that consumes the queue; `None` when there is no such queue. Everything is asked at once: a refusal
    /// closes the channel.
    pub(super) async fn consume(self: &Arc<Self>, wanted: &Wanted) -> Result<Option<Tap>, CallError> {
        let queue = wanted.queue.as_str();
        let tap = Tap::open(self, queue)?;
        let tag = format!("redrive-{:016x}", ambient::random());
        let mut asked = vec![channel_open()];
        asked.extend(consuming(queue, &tag, wanted.prefetch));
        // Only of a quorum queue whose members came up somebody can consume; one whose members do not is deleted.
        if let Some(exchange) = &wanted.bind {
            asked.push(asks::bind(&wanted.queue, exchange, &wanted.queue));
        }
        match tap.call(&asked).await {
            Err(error) if error.says_missing(queue) => Ok(None),
            answered => answered.map(|_| Some(tap)),
        }
    }

    /// A channel on which nothing is consumed yet, and then the queue, if any.
    pub(super) async fn channel(self: &Arc<Self>, queue: &str) -> Result<Tap, CallError> {
        let tap = Tap::open(self, queue)?;
        tap.call(&[channel_open()]).await?;
        Ok(tap)
    }

    /// A channel in confirm mode.
    pub(super) async fn confirming(self: &Arc<Self>) -> Result<Tap, CallError> {
        let tap = Tap::open(self, "")?;
        let select = (Method::new(CONFIRM_SELECT).u8(0), CONFIRM_SELECT_OK);
        tap.call(&[channel_open(), select]).await?;
        Ok(tap)
    }

    /// Nothing more is asked on it.
    fn abandon(&self, why: String) {
        self.shared.end(Ended::Lost(why));
    }
}

impl Kept for Feed {
    fn is_open(&self) -> bool {
        Self::is_open(self)
    }

    async fn close(&self) {
        Self::close(self).await;
    }
}

impl Kept for Tap {
    fn is_open(&self) -> bool {
        !self.is_retired.load(Ordering::Relaxed) && self.is_on(&self.feed)
    }

    async fn close(&self) {}
}

/// One channel. Dropping it closes it.
pub(super) struct Tap {
    feed: Arc<Feed>,
    channel: u16,
    is_retired: AtomicBool,
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
        let channel = channel.ok_or(CallError::NoChannel)?;
        Ok(Self {
            feed: Arc::clone(feed),
            channel,
            is_retired: AtomicBool::new(false),
            is_closed: false,
        })
    }

    /// Asks everything at once; answers the arguments of the last answer.
    pub(super) async fn call(&self, asked: &[Asked]) -> Result<Vec<u8>, CallError> {
        {
            let mut state = self.feed.shared.lock();
            for (method, _) in asked {
                state.put(self.channel, method);
            }
        }
        self.feed.shared.task.wake();
        let mut arguments = Vec::new();
        for (_, answer) in asked {
            arguments = self.answer(*answer).await?;
        }
        Ok(arguments)
    }

    async fn answer(&self, wanted: MethodId) -> Result<Vec<u8>, CallError> {
        let shared = &self.feed.shared;
        let answer = poll_fn(|context| shared.lock().poll_reply(self.channel, wanted, context));
        if let Ok(answered) = ambient::timeout(CALL, answer).await {
            return answered;
        }
        self.feed.abandon(format!("no answer within {} s", CALL.as_secs()));
        Err(CallError::Silent(CALL))
    }

    /// Whether calls can be made here, and this is the connection.
    pub(super) fn is_on(&self, feed: &Arc<Feed>) -> bool {
        Arc::ptr_eq(&self.feed, feed) && feed.shared.lock().gone(self.channel).is_none()
    }

    /// The connection.
    pub(super) const fn feed(&self) -> &Arc<Feed> {
        &self.feed
    }

    /// Puts publishes in line, mandatory; the channel has to be in confirm mode. The error says why nothing can be sent
    /// here any more, and nothing was sent.
    pub(super) fn publish(&self, contents: Vec<Content>) -> Result<Vec<Confirming>, CallError> {
        let (feed, channel) = (&self.feed, self.channel);
        let confirming = feed.shared.lock().publish(channel, contents, feed.frame_max)?;
        feed.shared.task.wake();
        Ok(confirming)
    }

    /// How many publishes were not answered when the channel ended.
    pub(super) fn unanswered(&self) -> usize {
        self.feed.shared.lock().unanswered(self.channel)
    }

    /// Nobody begins anything on it any more; what is under way goes on.
    pub(super) fn retire(&self) {
        self.is_retired.store(true, Ordering::Relaxed);
    }

    /// What was got with the last question.
    pub(super) async fn getting(&self) -> Result<Came, CallError> {
        match ambient::timeout(CALL, self.next()).await {
            Ok(came) => came.map_err(CallError::from),
            Err(_) => Err(CallError::Silent(CALL)),
        }
    }

    /// What was got with the last question but one.
    pub(super) fn got(&self) -> Option<Came> {
        self.next().now_or_never()?.ok()
    }

    /// An exact look; a queue that is missing is an error, and the end of the channel.
    pub(super) async fn look(&self, queue: &ShortString) -> Result<Look, CallError> {
        asks::looked(&self.call(&[asks::look(queue)]).await?)
    }

    /// Consumes the queue under this tag; the consumer before it, if there was one, is cancelled first.
    pub(super) async fn succeed(
        &self,
        before: Option<&str>,
        queue: &str,
        tag: &str,
        prefetch: u16,
    ) -> Result<(), CallError> {
        let asked = before
            .map(cancelling)
            .into_iter()
            .chain(consuming(queue, tag, prefetch));
        let asked: Vec<_> = asked.collect();
        self.call(&asked).await.map(drop)
    }

    /// Ends a consumer. What it was sent is here then, and stays in the hand of the channel.
    pub(super) async fn cancel(&self, tag: &str) -> Result<(), CallError> {
        self.call(&[cancelling(tag)]).await.map(drop)
    }

    /// Until the broker has answered here: what it had sent before is here then. The question changes nothing.
    pub(super) async fn answered(&self, prefetch: u16) -> Result<(), CallError> {
        self.call(&[qos(prefetch)]).await.map(drop)
    }

    /// The next message. May be dropped and called again.
    pub(super) async fn next(&self) -> Result<Came, Stopped> {
        let shared = &self.feed.shared;
        poll_fn(|context| shared.lock().poll_next(self.channel, context)).await
    }

    /// Puts an ack in line; what it answers is for [`Tap::written`]. `None`: nothing comes here any more, and nothing
    /// was sent.
    pub(super) fn ack(&self, tag: u64) -> Option<u64> {
        self.ack_all(&[Ack { tag, multiple: false }])
    }

    /// Puts acks in line, as [`Tap::ack`] does one.
    pub(super) fn ack_all(&self, acks: &[Ack]) -> Option<u64> {
        let put = {
            let mut state = self.feed.shared.lock();
            let mut put = None;
            for ack in acks {
                put = Some(state.ack(self.channel, *ack)?);
            }
            put
        };
        self.feed.shared.task.wake();
        put
    }

    /// Puts acks in line and waits until the socket took them; false when it did not.
    pub(super) async fn settled(&self, acks: &[Ack]) -> bool {
        if acks.is_empty() {
            return true;
        }
        match self.ack_all(acks) {
            Some(until) => self.written(until).await,
            None => false,
        }
    }

    /// Why nothing can be sent here any more.
    pub(super) fn stopped(&self) -> CallError {
        let gone = self.feed.shared.lock().gone(self.channel);
        gone.unwrap_or_else(|| Stopped::Cancelled.into())
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

    /// Closes the channel and waits for the broker: then everything unsettled is back in its place. Answers how many
    /// came, until then, that were not taken and delivered before. An error means that the channel was gone before:
    /// what was settled last may not have reached the broker.
    pub(super) async fn close(mut self) -> Result<u64, CallError> {
        self.close_now().await
    }

    async fn close_now(&mut self) -> Result<u64, CallError> {
        self.is_closed = true;
        let shared = &self.feed.shared;
        let gone = {
            let mut state = shared.lock();
            let gone = state.gone(self.channel);
            if gone.is_none() {
                let close = Method::new(CHANNEL_CLOSE).u16(200).short_string("done");
                state.put(self.channel, &close.u16(0).u16(0));
            }
            gone
        };
        let closed = if let Some(gone) = gone {
            Err(gone)
        } else {
            shared.task.wake();
            let answer = poll_fn(|context| shared.lock().poll_reply(self.channel, CHANNEL_CLOSE_OK, context));
            ambient::timeout(CLOSE, answer).await.unwrap_or_else(|_| {
                self.feed.abandon(format!("no answer within {} s", CLOSE.as_secs()));
                Err(CallError::Silent(CLOSE))
            })
        };
        let mut state = shared.lock();
        let again = state.unread_again(self.channel);
        state.free(self.channel);
        closed.map(|_| again)
    }
}

fn channel_open() -> Asked {
    (Method::new(CHANNEL_OPEN).short_string(""), CHANNEL_OPEN_OK)
}

fn qos(prefetch: u16) -> Asked {
    (Method::new(QOS).u32(0).u16(prefetch).u8(0), QOS_OK)
}

fn cancelling(tag: &str) -> Asked {
    (Method::new(CANCEL).short_string(tag).u8(0), CANCEL_OK)
}

/// The prefetch before consume, or the first consumer has no limit (docs/rabbitmq.md, *Prefetch*).
fn consuming(queue: &str, tag: &str, prefetch: u16) -> [Asked; 2] {
    [qos(prefetch), asks::consume(queue, tag, Taken::InHand)]
}

impl fmt::Debug for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tap")
            .field("channel", &self.channel)
            .finish_non_exhaustive()
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
            is_retired: AtomicBool::new(true),
            is_closed: true,
        };
        ambient::spawn("detach", async move { drop(closing.close_now().await) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One that was given up is found dead later: by then the next one may be blocked.
    #[test]
    fn an_end_is_told_once() {
        let (told, losses) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let hears = Arc::clone(&told);
        let shared = Shared {
            state: Mutex::default(),
            task: AtomicWaker::new(),
            over: watch::Sender::new(false),
            notice: Box::new(move |notice| {
                assert_eq!(notice, Notice::Ended);
                hears.fetch_add(1, Ordering::SeqCst);
            }),
            losses: Arc::clone(&losses),
            garbled: None,
        };
        shared.end(Ended::Lost("given up".to_owned()));
        shared.end(Ended::Lost("dead".to_owned()));
        assert_eq!((told.load(Ordering::SeqCst), losses.load(Ordering::SeqCst)), (1, 1));
        assert_eq!(shared.lock().ended, Some(Ended::Lost("given up".to_owned())));
    }
}
