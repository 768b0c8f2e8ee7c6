//! What is asked of the broker about exchanges and queues: methods of AMQP 0-9-1, each with the method that answers it.
//!
//! Several that are sent at once are done in their order, and none after the first that is refused: a refusal closes the
//! channel.

use super::failure::{CallError, Ended};
use super::frames::{Arguments, Method, MethodId, ShortString};
use super::wire::{CONSUME, CONSUME_OK, GET, GET_OK};
use crate::broker::Look;
use crate::domain::naming::Argument;

/// What is asked, and the method that answers it.
pub(super) type Asked = (Method, MethodId);

const EXCHANGE_DECLARE: MethodId = (40, 10);
const EXCHANGE_DECLARE_OK: MethodId = (40, 11);
const EXCHANGE_DELETE: MethodId = (40, 20);
const EXCHANGE_DELETE_OK: MethodId = (40, 21);
const EXCHANGE_BIND: MethodId = (40, 30);
const EXCHANGE_BIND_OK: MethodId = (40, 31);
const EXCHANGE_UNBIND: MethodId = (40, 40);
const EXCHANGE_UNBIND_OK: MethodId = (40, 51);
const QUEUE_DECLARE: MethodId = (50, 10);
const QUEUE_DECLARE_OK: MethodId = (50, 11);
const QUEUE_BIND: MethodId = (50, 20);
const QUEUE_BIND_OK: MethodId = (50, 21);
const QUEUE_DELETE: MethodId = (50, 40);
const QUEUE_DELETE_OK: MethodId = (50, 41);
const QUEUE_UNBIND: MethodId = (50, 50);
const QUEUE_UNBIND_OK: MethodId = (50, 51);

/// Flags of a declaration.
pub(super) mod flags {
    pub(in super::super) const NONE: u8 = 0;
    /// Whether it is there; nothing is made.
    pub(in super::super) const PASSIVE: u8 = 1;
    pub(in super::super) const DURABLE: u8 = 2;
    /// Of a queue: it is its connection's, and ends with it.
    pub(in super::super) const EXCLUSIVE: u8 = 4;
    pub(in super::super) const QUEUE_AUTO_DELETE: u8 = 8;
    pub(in super::super) const EXCHANGE_AUTO_DELETE: u8 = 4;
    /// Of an exchange: nobody publishes to it.
    pub(in super::super) const INTERNAL: u8 = 8;
}

/// A queue with these flags and arguments.
pub(super) fn declare<N: AsRef<str>>(queue: &ShortString, flags: u8, arguments: &[(N, Argument)]) -> Asked {
    let declare = Method::new(QUEUE_DECLARE).u16(0).short_string(queue.as_str());
    (declare.u8(flags).table(arguments), QUEUE_DECLARE_OK)
}

/// Whether the queue is there; [`looked`] reads the answer.
pub(super) fn look(queue: &ShortString) -> Asked {
    declare::<&str>(queue, flags::PASSIVE, &[])
}

/// What the arguments of the answer to a declaration say.
pub(super) fn looked(arguments: &[u8]) -> Result<Look, CallError> {
    let counts = || {
        let mut arguments = Arguments::after(arguments, 0)?;
        arguments.short_string()?;
        arguments.u32().zip(arguments.u32())
    };
    let (ready, consumers) =
        counts().ok_or_else(|| CallError::Ended(Ended::Lost("the broker's answer is cut".to_owned())))?;
    Ok(Look::Present {
        ready: ready.into(),
        consumers: consumers.into(),
    })
}

/// A binding of a queue.
pub(super) fn bind(queue: &ShortString, exchange: &ShortString, key: &ShortString) -> Asked {
    (between(QUEUE_BIND, queue, exchange, key), QUEUE_BIND_OK)
}

/// The end of a binding of a queue.
pub(super) fn unbind(queue: &ShortString, exchange: &ShortString, key: &ShortString) -> Asked {
    let unbind = Method::new(QUEUE_UNBIND).u16(0).short_string(queue.as_str());
    let unbind = unbind.short_string(exchange.as_str()).short_string(key.as_str());
    (unbind.no_arguments(), QUEUE_UNBIND_OK)
}

/// When a queue is not deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unless {
    /// It has a consumer or a message.
    InUse,
    Never,
}

/// The end of a queue.
pub(super) fn delete(queue: &ShortString, unless: Unless) -> Asked {
    const ONLY_UNUSED: u8 = 1;
    const ONLY_EMPTY: u8 = 2;
    let flags = match unless {
        Unless::InUse => ONLY_UNUSED | ONLY_EMPTY,
        Unless::Never => 0,
    };
    let delete = Method::new(QUEUE_DELETE).u16(0).short_string(queue.as_str());
    (delete.u8(flags), QUEUE_DELETE_OK)
}

/// An exchange of this kind (`direct`, `fanout`, `topic`) with these flags and arguments.
pub(super) fn exchange(name: &ShortString, kind: &str, flags: u8, arguments: &[(&str, Argument)]) -> Asked {
    let declare = Method::new(EXCHANGE_DECLARE).u16(0).short_string(name.as_str());
    let declare = declare.short_string(kind).u8(flags).table(arguments);
    (declare, EXCHANGE_DECLARE_OK)
}

/// Whether the exchange is there, of whatever kind.
pub(super) fn exchange_look(name: &ShortString) -> Asked {
    exchange(name, "direct", flags::PASSIVE, &[])
}

/// The end of an exchange.
pub(super) fn exchange_delete(name: &ShortString) -> Asked {
    let delete = Method::new(EXCHANGE_DELETE).u16(0).short_string(name.as_str());
    (delete.u8(0), EXCHANGE_DELETE_OK)
}

/// What comes to `source` goes on to `destination`.
pub(super) fn exchange_bind(destination: &ShortString, source: &ShortString, key: &ShortString) -> Asked {
    (between(EXCHANGE_BIND, destination, source, key), EXCHANGE_BIND_OK)
}

/// It does not any more.
pub(super) fn exchange_unbind(destination: &ShortString, source: &ShortString, key: &ShortString) -> Asked {
    (between(EXCHANGE_UNBIND, destination, source, key), EXCHANGE_UNBIND_OK)
}

/// A method about a binding, of a queue or of an exchange.
fn between(method: MethodId, destination: &ShortString, source: &ShortString, key: &ShortString) -> Method {
    let method = Method::new(method).u16(0).short_string(destination.as_str());
    let method = method.short_string(source.as_str()).short_string(key.as_str());
    method.u8(0).no_arguments()
}

/// The next message of a queue. Nothing there is an answer without arguments.
pub(super) fn get(queue: &ShortString, taken: Taken) -> Asked {
    (
        Method::new(GET).u16(0).short_string(queue.as_str()).u8(taken.flag()),
        GET_OK,
    )
}

/// What becomes of messages that the broker sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// They are out of the queue for good.
    ForGood,
    /// They are in hand until they are settled.
    InHand,
}

impl Taken {
    /// The bit of `no-ack` where it is the only one.
    const fn flag(self) -> u8 {
        match self {
            Self::ForGood => 1,
            Self::InHand => 0,
        }
    }
}

/// Consumes a queue under this tag.
pub(super) fn consume(queue: &str, tag: &str, taken: Taken) -> Asked {
    let consume = Method::new(CONSUME).u16(0).short_string(queue).short_string(tag);
    (consume.u8(taken.flag() << 1).no_arguments(), CONSUME_OK)
}
