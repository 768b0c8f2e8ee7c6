//! What frames mean for the channels they are about.

use super::super::super::frames::{Method, first, put};
use super::super::super::wire::{CONSUME_OK, QOS_OK};
use super::*;

const QUEUE: &str = "q";

/// A state with one channel.
fn opened() -> (State, u16) {
    let mut state = State::default();
    let channel = state.open(QUEUE, 10).unwrap();
    (state, channel)
}

fn frame(kind: u8, channel: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend(channel.to_be_bytes());
    bytes.extend(u32::try_from(payload.len()).unwrap().to_be_bytes());
    bytes.extend(payload);
    bytes.push(0xCE);
    bytes
}

fn method(channel: u16, method: &Method) -> Vec<u8> {
    let mut bytes = Vec::new();
    put(&mut bytes, channel, method);
    bytes
}

fn deliver(channel: u16, tag: u64, key: &str) -> Vec<u8> {
    let deliver = Method::new(DELIVER).short_string("c").u64(tag).u8(1);
    method(channel, &deliver.short_string("redrive").short_string(key))
}

fn header(channel: u16, size: u64, properties: &[u8]) -> Vec<u8> {
    let mut payload = vec![0, 60, 0, 0];
    payload.extend(size.to_be_bytes());
    payload.extend(properties);
    frame(HEADER, channel, &payload)
}

fn take(state: &mut State, bytes: &[u8]) -> Result<(), Ended> {
    let mut at = 0;
    while let Some(piece) = first(&bytes[at..], 4096).unwrap() {
        at += piece.size;
        state.take(&piece, &mut Vec::new())?;
    }
    assert_eq!(at, bytes.len());
    Ok(())
}

fn ack(tag: u64) -> Ack {
    Ack { tag, multiple: false }
}

fn next(state: &mut State, channel: u16) -> Poll<Result<Came, Stopped>> {
    state.poll_next(channel, &Context::from_waker(Waker::noop()))
}

#[test]
fn a_message_is_handed_out_once_it_is_whole() {
    let (mut state, channel) = opened();
    take(&mut state, &deliver(channel, 3, QUEUE)).unwrap();
    take(&mut state, &header(channel, 5, b"\0\0")).unwrap();
    take(&mut state, &frame(BODY, channel, b"abc")).unwrap();
    assert!(next(&mut state, channel).is_pending());
    take(&mut state, &frame(BODY, channel, b"de")).unwrap();
    take(&mut state, &deliver(channel, 4, "another")).unwrap();
    take(&mut state, &header(channel, 0, b"\0\0")).unwrap();
    let Poll::Ready(Ok(came)) = next(&mut state, channel) else {
        panic!("it is whole")
    };
    assert_eq!((came.tag, came.redelivered, &came.body[..]), (3, true, &b"abcde"[..]));
    assert_eq!((came.addressed_to, came.properties), (None, vec![0, 0]));
    assert_eq!(&*came.exchange, "redrive");
    let Poll::Ready(Ok(empty)) = next(&mut state, channel) else {
        panic!("it has no body")
    };
    assert_eq!((empty.tag, empty.addressed_to.as_deref()), (4, Some("another")));
}

#[test]
fn what_came_before_an_end_is_not_handed_out_and_not_acked() {
    let closed = Method::new(CHANNEL_CLOSE).u16(406).short_string("why").u16(0).u16(0);
    let cancelled = Method::new(CANCEL).short_string("c").u8(1);
    for (end, stopped) in [
        (&closed, Stopped::Closed(406, "why".to_owned())),
        (&cancelled, Stopped::Cancelled),
    ] {
        let (mut state, channel) = opened();
        take(&mut state, &deliver(channel, 1, QUEUE)).unwrap();
        take(&mut state, &header(channel, 0, b"\0\0")).unwrap();
        take(&mut state, &method(channel, end)).unwrap();
        assert_eq!(next(&mut state, channel), Poll::Ready(Err(stopped)));
        assert_eq!(state.ack(channel, ack(1)), None);
    }
}

#[test]
fn what_is_put_in_line_is_written_in_order_and_known_to_be() {
    let (mut state, channel) = opened();
    let (first, second) = (state.ack(channel, ack(1)).unwrap(), state.ack(channel, ack(2)).unwrap());
    let mut bytes = Vec::new();
    state.next_to_write(&mut bytes);
    assert_eq!(bytes.len() as u64, second);
    let context = Context::from_waker(Waker::noop());
    state.wrote(usize::try_from(first).unwrap(), &mut Vec::new());
    assert_eq!(state.poll_written(channel, first, &context), Poll::Ready(true));
    assert!(state.poll_written(channel, second, &context).is_pending());
    let mut wakers = Vec::new();
    state.wrote(usize::try_from(second - first).unwrap(), &mut wakers);
    assert_eq!(wakers.len(), 1, "who waits is woken");
    assert_eq!(state.poll_written(channel, second, &context), Poll::Ready(true));
    let third = state.ack(channel, ack(3)).unwrap();
    state.ended = Some(Ended::Lost("gone".to_owned()));
    assert_eq!(state.poll_written(channel, third, &context), Poll::Ready(false));
}

#[test]
fn a_refusal_answers_what_was_asked() {
    let (mut state, channel) = opened();
    let context = Context::from_waker(Waker::noop());
    take(&mut state, &method(channel, &Method::new(QOS_OK))).unwrap();
    assert!(state.poll_reply(channel, QOS_OK, &context).ready_and(Result::is_ok));
    assert!(state.poll_reply(channel, CONSUME_OK, &context).is_pending());
    let text = "NOT_FOUND - no queue 'q' in vhost '/'";
    let close = Method::new(CHANNEL_CLOSE).u16(404).short_string(text).u16(60).u16(20);
    take(&mut state, &method(channel, &close)).unwrap();
    let Poll::Ready(Err(error)) = state.poll_reply(channel, CONSUME_OK, &context) else {
        panic!("it was refused")
    };
    assert!(error.says_missing(QUEUE));
    assert!(state.gone(channel).is_some(), "its close is answered");
}

#[test]
fn an_answer_has_its_arguments_and_what_nobody_took_is_counted() {
    let (mut state, channel) = opened();
    let context = Context::from_waker(Waker::noop());
    take(&mut state, &method(channel, &Method::new(CONSUME_OK).short_string("c"))).unwrap();
    take(&mut state, &deliver(channel, 1, QUEUE)).unwrap();
    take(&mut state, &header(channel, 0, b"\0\0")).unwrap();
    let answer = state.poll_reply(channel, CONSUME_OK, &context);
    assert!(answer.ready_and(|answer| answer.as_ref().is_ok_and(|arguments| arguments == b"\x01c")));
    assert_eq!(state.unread_again(channel), 1);
    assert!(next(&mut state, channel).is_ready());
    assert_eq!(state.unread_again(channel), 0);
}

#[test]
fn answers_are_told_apart_in_whatever_order_they_come() {
    let (mut state, channel) = opened();
    let context = Context::from_waker(Waker::noop());
    for came in [QOS_OK, CONSUME_OK] {
        take(&mut state, &method(channel, &Method::new(came))).unwrap();
    }
    for wanted in [CONSUME_OK, QOS_OK] {
        assert!(state.poll_reply(channel, wanted, &context).ready_and(Result::is_ok));
    }
    assert!(state.poll_reply(channel, QOS_OK, &context).is_pending());
}

#[test]
fn numbers_of_channels_are_used_again_and_bounded() {
    let mut state = State::default();
    assert_eq!(
        (state.open("a", 2), state.open("b", 2), state.open("c", 2)),
        (Some(1), Some(2), None)
    );
    state.free(1);
    // What comes late for one that is given up is nobody's.
    take(&mut state, &deliver(1, 1, QUEUE)).unwrap();
    assert_eq!(state.open("c", 2), Some(1));
    assert!(next(&mut state, 1).is_pending());
}

#[test]
fn what_is_no_content_ends_the_connection() {
    for odd in [
        frame(BODY, 1, b"x"),
        header(1, 1, b"\0\0"),
        frame(HEADER, 1, b"\0"),
        frame(METHOD, 1, b"\0"),
        frame(9, 1, b""),
    ] {
        let (mut state, _) = opened();
        assert!(matches!(take(&mut state, &odd), Err(Ended::Undecodable(_))), "{odd:?}");
    }
    let (mut state, channel) = opened();
    take(&mut state, &deliver(channel, 1, QUEUE)).unwrap();
    take(&mut state, &header(channel, 1, b"\0\0")).unwrap();
    assert!(take(&mut state, &frame(BODY, channel, b"more")).is_err());
}

#[test]
fn a_close_of_the_connection_says_why_and_is_answered() {
    let (mut state, _) = opened();
    let close = Method::new(CONNECTION_CLOSE).u16(320).short_string("CONNECTION_FORCED");
    let ended = take(&mut state, &method(0, &close.u16(0).u16(0))).unwrap_err();
    assert_eq!(ended.text(), "320 CONNECTION_FORCED");
    let mut answer = Vec::new();
    state.next_to_write(&mut answer);
    assert_eq!(answer, method(0, &Method::new(CONNECTION_CLOSE_OK)));
}

trait ReadyAnd<T> {
    fn ready_and(self, holds: impl FnOnce(&T) -> bool) -> bool;
}

impl<T> ReadyAnd<T> for Poll<T> {
    fn ready_and(self, holds: impl FnOnce(&T) -> bool) -> bool {
        matches!(self, Poll::Ready(value) if holds(&value))
    }
}
