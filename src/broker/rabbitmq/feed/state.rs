//! What is under way on a consuming connection: pure bookkeeping, without a socket.
//!
//! Frames go in, and what they mean for each channel comes out; what is to be sent stands in line as bytes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

use super::super::failure::{CallError, Ended};
use super::super::frames::{self, Arguments, BODY, HEADER, HEARTBEAT, METHOD, Method, MethodId, Piece};
use super::super::held::Ack;
use super::super::wire::{
    ACK, BLOCKED, CANCEL, CANCEL_OK, CHANNEL_CLOSE, CHANNEL_CLOSE_OK, CONNECTION_CLOSE, CONNECTION_CLOSE_OK, DELIVER,
    GET_EMPTY, GET_OK, NACK, PUBLISH, RETURN, UNBLOCKED, reason,
};
use super::Notice;
use super::confirms::{Answered, Confirming, Confirms, Content, Verdict};

/// What precedes the properties in a header frame: class, weight and the size of the body.
const HEADER_BYTES: usize = 12;
/// Room for a body that is made before any of it came: the largest that a broker's default allows. The system gives
/// memory as it is filled.
const BODY_ROOM_MAX: u64 = 128 << 20;
/// Bytes of the line to the socket that are kept when it is empty.
const OUT_KEPT: usize = 64 * 1024;

/// A message as it came; nothing of its properties is decoded.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) struct Came {
    pub(in super::super) tag: u64,
    pub(in super::super) redelivered: bool,
    pub(in super::super) exchange: Arc<str>,
    /// Its routing key, where that is not the queue's name.
    pub(in super::super) addressed_to: Option<String>,
    pub(in super::super) properties: Vec<u8>,
    pub(in super::super) body: Bytes,
}

/// Why nothing more comes on a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Stopped {
    /// The broker ended the consumer; the channel is open.
    Cancelled,
    /// The broker closed the channel.
    Closed(u16, String),
    /// The connection ended.
    Ended(Ended),
}

impl From<Stopped> for CallError {
    fn from(stopped: Stopped) -> Self {
        match stopped {
            Stopped::Cancelled => Self::Ended(Ended::Lost("the queue was deleted, or its node went away".to_owned())),
            Stopped::Closed(code, text) => Self::Refused(code, text),
            Stopped::Ended(ended) => Self::Ended(ended),
        }
    }
}

/// A message of which not all has come.
#[derive(Debug)]
struct Coming {
    tag: u64,
    redelivered: bool,
    exchange: Arc<str>,
    addressed_to: Option<String>,
    properties: Vec<u8>,
    size: u64,
    body: Vec<u8>,
}

impl Coming {
    /// What begins to come.
    fn of(tag: u64, exchange: Arc<str>) -> Self {
        Self {
            tag,
            redelivered: false,
            exchange,
            addressed_to: None,
            properties: Vec::new(),
            // Until its header says so, it is never whole.
            size: u64::MAX,
            body: Vec::new(),
        }
    }
}

/// One channel, with its consumer or its publishes.
#[derive(Debug)]
struct Lane {
    queue: String,
    /// Where the last message was published: the next one mostly was there too.
    exchange: Arc<str>,
    ready: VecDeque<Came>,
    coming: Option<Coming>,
    /// Where what is coming was published by us and comes back: the key, and why.
    returning: Option<(String, (u16, String))>,
    confirms: Confirms,
    /// Answers, with their arguments.
    replies: VecDeque<(MethodId, Vec<u8>)>,
    stopped: Option<Stopped>,
    /// Whoever waits on it: one at a time.
    waker: Option<Waker>,
}

/// The connection.
#[derive(Debug, Default)]
pub(super) struct State {
    /// By the channel's number, which begins with 1.
    lanes: Vec<Option<Lane>>,
    /// What the socket has to take next.
    out: Vec<u8>,
    /// Bytes that were put in line, and of those that the socket took, from the beginning on.
    queued: u64,
    written: u64,
    /// Up to where the socket has to have taken what for whom.
    awaited: Vec<(u64, u16)>,
    /// What is to be said of alarms.
    pub(super) notices: Vec<Notice>,
    pub(super) ended: Option<Ended>,
    /// Its close was asked for by us.
    pub(super) closing: bool,
    /// The broker has it closed as we asked.
    pub(super) closed_in_order: bool,
}

impl State {
    /// A channel for `queue`; `None` when all up to `channel_max` are in use.
    pub(super) fn open(&mut self, queue: &str, channel_max: u16) -> Option<u16> {
        let free = self.lanes.iter().position(Option::is_none);
        let at = free.unwrap_or(self.lanes.len());
        let channel = u16::try_from(at + 1).ok().filter(|channel| *channel <= channel_max)?;
        let lane = Lane {
            queue: queue.to_owned(),
            exchange: Arc::default(),
            ready: VecDeque::new(),
            coming: None,
            returning: None,
            confirms: Confirms::default(),
            replies: VecDeque::new(),
            stopped: None,
            waker: None,
        };
        if at == self.lanes.len() {
            self.lanes.push(None);
        }
        self.lanes[at] = Some(lane);
        Some(channel)
    }

    /// The channel is closed: its number is free.
    pub(super) fn free(&mut self, channel: u16) {
        if let Some(lane) = self.lanes.get_mut(usize::from(channel).wrapping_sub(1)) {
            *lane = None;
        }
        self.awaited.retain(|(_, waits)| *waits != channel);
    }

    fn lane(&mut self, channel: u16) -> Option<&mut Lane> {
        self.lanes.get_mut(usize::from(channel).wrapping_sub(1))?.as_mut()
    }

    /// Why the broker does not know the channel as open any more, if that is so.
    pub(super) fn gone(&mut self, channel: u16) -> Option<CallError> {
        let stopped = self.stopped(channel).filter(|stopped| *stopped != Stopped::Cancelled);
        stopped.map(CallError::from)
    }

    /// Why nothing more comes on the channel, if that is so.
    fn stopped(&mut self, channel: u16) -> Option<Stopped> {
        if let Some(ended) = &self.ended {
            return Some(Stopped::Ended(ended.clone()));
        }
        match self.lane(channel) {
            Some(lane) => lane.stopped.clone(),
            None => Some(Stopped::Closed(0, "the channel is closed".to_owned())),
        }
    }

    /// Puts methods in line; answers up to where the socket has to take bytes until they are sent.
    pub(super) fn put(&mut self, channel: u16, method: &Method) -> u64 {
        let before = self.out.len();
        frames::put(&mut self.out, channel, method);
        self.count(before)
    }

    pub(super) fn put_heartbeat(&mut self) {
        let before = self.out.len();
        frames::put_heartbeat(&mut self.out);
        self.count(before);
    }

    fn count(&mut self, before: usize) -> u64 {
        self.queued += (self.out.len() - before) as u64;
        self.queued
    }

    /// Puts the ack of a message in line; `None` when nothing comes on the channel any more: what it had in hand is
    /// somebody else's by now.
    pub(super) fn ack(&mut self, channel: u16, ack: Ack) -> Option<u64> {
        if self.stopped(channel).is_some() {
            return None;
        }
        Some(self.put(channel, &Method::new(ACK).u64(ack.tag).u8(u8::from(ack.multiple))))
    }

    /// Puts publishes in line; the error says why nothing can be sent there, and nothing was. `frame_max`: bytes of a
    /// frame, at most.
    pub(super) fn publish(
        &mut self,
        channel: u16,
        contents: Vec<Content>,
        frame_max: usize,
    ) -> Result<Vec<Confirming>, CallError> {
        const MANDATORY: u8 = 1;
        if let Some(gone) = self.gone(channel) {
            return Err(gone);
        }
        let mut confirming = Vec::with_capacity(contents.len());
        for content in contents {
            let publish = Method::new(PUBLISH).u16(0).short_string(&content.exchange);
            let publish = publish.short_string(&content.key).u8(MANDATORY);
            let before = self.out.len();
            let Content { properties, body, .. } = &content;
            frames::put_content(&mut self.out, channel, &publish, properties, body, frame_max);
            self.count(before);
            confirming.extend(self.lane(channel).map(|lane| lane.confirms.add(content)));
        }
        Ok(confirming)
    }

    /// How many publishes were not answered when the channel ended.
    pub(super) fn unanswered(&mut self, channel: u16) -> usize {
        self.lane(channel).map_or(0, |lane| lane.confirms.unanswered)
    }

    /// Whether something is in line.
    pub(super) const fn has_line(&self) -> bool {
        !self.out.is_empty()
    }

    /// What the socket takes next, into `bytes`, which are all taken.
    pub(super) fn next_to_write(&mut self, bytes: &mut Vec<u8>) {
        bytes.clear();
        bytes.shrink_to(OUT_KEPT);
        std::mem::swap(&mut self.out, bytes);
    }

    /// The socket took so many bytes.
    pub(super) fn wrote(&mut self, bytes: usize, wakers: &mut Vec<Waker>) {
        self.written += bytes as u64;
        if self.awaited.is_empty() {
            return;
        }
        let written = self.written;
        let (done, left): (Vec<_>, Vec<_>) = self.awaited.drain(..).partition(|(until, _)| *until <= written);
        self.awaited = left;
        for (_, channel) in done {
            wakers.extend(self.lane(channel).and_then(|lane| lane.waker.take()));
        }
    }

    /// Whether the socket took everything up to there; false when the connection ended before.
    pub(super) fn poll_written(&mut self, channel: u16, until: u64, context: &Context<'_>) -> Poll<bool> {
        if self.written >= until {
            return Poll::Ready(true);
        }
        if self.ended.is_some() {
            return Poll::Ready(false);
        }
        let Some(lane) = self.lane(channel) else {
            return Poll::Ready(false);
        };
        lane.waker = Some(context.waker().clone());
        self.awaited.retain(|(_, waits)| *waits != channel);
        self.awaited.push((until, channel));
        Poll::Pending
    }

    /// The arguments of the answer to what was asked on the channel.
    pub(super) fn poll_reply(
        &mut self,
        channel: u16,
        wanted: MethodId,
        context: &Context<'_>,
    ) -> Poll<Result<Vec<u8>, CallError>> {
        // Where only the consumer ended, the answer may be there all the same.
        if let Some(gone) = self.gone(channel) {
            return Poll::Ready(Err(gone));
        }
        let Some(lane) = self.lane(channel) else {
            return Poll::Pending;
        };
        // The answer of the queue may come after the channel's own answer to a later question.
        let found = lane.replies.iter().position(|(came, _)| *came == wanted);
        if let Some((_, arguments)) = found.and_then(|at| lane.replies.remove(at)) {
            return Poll::Ready(Ok(arguments));
        }
        lane.waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// The next message of the channel. What came before its end and was not handed out is somebody else's by now.
    pub(super) fn poll_next(&mut self, channel: u16, context: &Context<'_>) -> Poll<Result<Came, Stopped>> {
        if let Some(stopped) = self.stopped(channel) {
            return Poll::Ready(Err(stopped));
        }
        let Some(lane) = self.lane(channel) else {
            return Poll::Pending;
        };
        if let Some(came) = lane.ready.pop_front() {
            return Poll::Ready(Ok(came));
        }
        if !lane
            .waker
            .as_ref()
            .is_some_and(|waker| waker.will_wake(context.waker()))
        {
            lane.waker = Some(context.waker().clone());
        }
        Poll::Pending
    }

    /// Of what came on the channel and was not handed out, how many were delivered before.
    pub(super) fn unread_again(&mut self, channel: u16) -> u64 {
        let again = |lane: &mut Lane| lane.ready.iter().filter(|came| came.redelivered).count() as u64;
        self.lane(channel).map_or(0, again)
    }

    /// Everybody who waits for something: nothing comes any more.
    pub(super) fn wake_all(&mut self, wakers: &mut Vec<Waker>) {
        self.awaited.clear();
        for lane in self.lanes.iter_mut().flatten() {
            lane.confirms.end();
            wakers.extend(lane.waker.take());
        }
    }

    /// Takes in a frame that came. The error is the end of the connection.
    pub(super) fn take(&mut self, piece: &Piece<'_>, wakers: &mut Vec<Waker>) -> Result<(), Ended> {
        match piece.kind {
            METHOD => {
                let (id, arguments) = piece.method().ok_or_else(|| odd("method"))?;
                if piece.channel == 0 {
                    return self.on_connection(id, arguments);
                }
                self.on_channel(piece.channel, id, arguments, wakers)
            }
            HEADER => self.header(piece, wakers),
            BODY => self.body(piece, wakers),
            HEARTBEAT => Ok(()),
            _ => Err(odd("kind of frame")),
        }
    }

    fn on_connection(&mut self, id: MethodId, mut arguments: Arguments<'_>) -> Result<(), Ended> {
        match id {
            CONNECTION_CLOSE => {
                self.put(0, &Method::new(CONNECTION_CLOSE_OK));
                let (code, text) = reason(&mut arguments);
                Err(Ended::Lost(format!("{code} {text}")))
            }
            CONNECTION_CLOSE_OK => {
                self.closed_in_order = self.closing;
                Err(Ended::Lost("closed".to_owned()))
            }
            BLOCKED => {
                let reason = arguments.short_string().unwrap_or_default();
                let reason = String::from_utf8_lossy(reason).into_owned();
                self.notices.push(Notice::Blocked(reason));
                Ok(())
            }
            UNBLOCKED => {
                self.notices.push(Notice::Unblocked);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn on_channel(
        &mut self,
        channel: u16,
        id: MethodId,
        mut arguments: Arguments<'_>,
        wakers: &mut Vec<Waker>,
    ) -> Result<(), Ended> {
        if id == CHANNEL_CLOSE {
            self.put(channel, &Method::new(CHANNEL_CLOSE_OK));
        }
        // What comes late on a channel that was given up is nobody's.
        let Some(lane) = self.lane(channel) else { return Ok(()) };
        match id {
            DELIVER => {
                let _consumer = arguments.short_string();
                lane.coming = Some(lane.delivered(&mut arguments).ok_or_else(|| odd("deliver"))?);
                return Ok(());
            }
            GET_OK => {
                lane.replies.push_back((GET_OK, arguments.rest().to_vec()));
                lane.coming = Some(lane.delivered(&mut arguments).ok_or_else(|| odd("get-ok"))?);
            }
            // The answer to the same question that has nothing in it.
            GET_EMPTY => lane.replies.push_back((GET_OK, Vec::new())),
            CANCEL => {
                let tag = arguments.short_string().unwrap_or_default().to_vec();
                let waits = arguments.u8().is_some_and(|no_wait| no_wait & 1 == 0);
                lane.stopped.get_or_insert(Stopped::Cancelled);
                wakers.extend(lane.waker.take());
                if waits {
                    let tag = String::from_utf8_lossy(&tag).into_owned();
                    self.put(channel, &Method::new(CANCEL_OK).short_string(&tag));
                }
                return Ok(());
            }
            CHANNEL_CLOSE => {
                let (code, text) = reason(&mut arguments);
                lane.stopped = Some(Stopped::Closed(code, text));
                lane.confirms.end();
            }
            ACK | NACK => {
                let settled = arguments.u64().zip(arguments.u8());
                let answered = match settled.ok_or_else(|| odd("confirm"))? {
                    (number, bits) if bits & 1 == 1 => Answered::UpTo(number),
                    (number, _) => Answered::One(number),
                };
                let verdict = if id == ACK { Verdict::Ack } else { Verdict::Nack };
                lane.confirms.settle(answered, verdict);
                return Ok(());
            }
            RETURN => {
                lane.returned(&mut arguments).ok_or_else(|| odd("return"))?;
                return Ok(());
            }
            _ => lane.replies.push_back((id, arguments.rest().to_vec())),
        }
        wakers.extend(lane.waker.take());
        Ok(())
    }

    fn header(&mut self, piece: &Piece<'_>, wakers: &mut Vec<Waker>) -> Result<(), Ended> {
        let Some(lane) = self.lane(piece.channel) else {
            return Ok(());
        };
        let size = Arguments::after(piece.payload, 4).and_then(|mut arguments| arguments.u64());
        let (Some(coming), Some(size)) = (&mut lane.coming, size) else {
            return Err(odd("content header"));
        };
        coming.size = size;
        coming.properties = piece.payload[HEADER_BYTES..].to_vec();
        lane.when_whole(wakers);
        Ok(())
    }

    fn body(&mut self, piece: &Piece<'_>, wakers: &mut Vec<Waker>) -> Result<(), Ended> {
        let Some(lane) = self.lane(piece.channel) else {
            return Ok(());
        };
        let Some(coming) = &mut lane.coming else {
            return Err(odd("content"));
        };
        if coming.body.capacity() == 0 {
            let room = usize::try_from(coming.size.min(BODY_ROOM_MAX)).unwrap_or(0);
            coming.body.reserve_exact(room);
        }
        coming.body.extend_from_slice(piece.payload);
        if coming.body.len() as u64 > coming.size {
            return Err(odd("content"));
        }
        lane.when_whole(wakers);
        Ok(())
    }
}

impl Lane {
    /// What the arguments of a delivery, or of what was got, say of it.
    fn delivered(&mut self, arguments: &mut Arguments<'_>) -> Option<Coming> {
        let tag = arguments.u64()?;
        let redelivered = arguments.u8()? & 1 == 1;
        let exchange = arguments.short_string()?;
        let key = arguments.short_string()?;
        if self.exchange.as_bytes() != exchange {
            self.exchange = String::from_utf8_lossy(exchange).into();
        }
        Some(Coming {
            redelivered,
            addressed_to: (key != self.queue.as_bytes()).then(|| String::from_utf8_lossy(key).into_owned()),
            ..Coming::of(tag, Arc::clone(&self.exchange))
        })
    }

    /// What the arguments say of a message that comes back.
    fn returned(&mut self, arguments: &mut Arguments<'_>) -> Option<()> {
        let why = reason(arguments);
        let exchange = String::from_utf8_lossy(arguments.short_string()?).into();
        let key = String::from_utf8_lossy(arguments.short_string()?).into_owned();
        self.returning = Some((key, why));
        self.coming = Some(Coming::of(0, exchange));
        Some(())
    }

    fn when_whole(&mut self, wakers: &mut Vec<Waker>) {
        let Some(coming) = self.coming.take_if(|coming| coming.body.len() as u64 == coming.size) else {
            return;
        };
        if let Some((key, why)) = self.returning.take() {
            let returned = Content {
                exchange: coming.exchange,
                key,
                properties: coming.properties,
                body: Bytes::from(coming.body),
            };
            self.confirms.give_back(&returned, &why);
            return;
        }
        self.ready.push_back(Came {
            tag: coming.tag,
            redelivered: coming.redelivered,
            exchange: coming.exchange,
            addressed_to: coming.addressed_to,
            properties: coming.properties,
            body: Bytes::from(coming.body),
        });
        wakers.extend(self.waker.take());
    }
}

fn odd(what: &str) -> Ended {
    Ended::Undecodable(format!("the broker's {what} is not understood"))
}

#[cfg(test)]
mod tests;
