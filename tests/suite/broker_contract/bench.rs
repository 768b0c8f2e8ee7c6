//! A prepared broker that belongs to one test, and the few steps that every behaviour takes.

use crate::support::wait::within;
use std::pin::Pin;
use std::time::Duration;

use redrive::internals::broker::{
    Acked, AttachOptions, AttachOutcome, Attached, BrokerHandle, Delivery, Look, Next, Published, QueuePart,
};
use redrive::internals::domain::id::QueueName;
use redrive::internals::domain::message::{HeaderValue, Message};
use redrive::internals::domain::naming::Naming;

/// How long a behaviour waits for something that must happen.
pub(crate) const SOON: Duration = Duration::from_secs(20);
/// How long a behaviour watches that something does not happen.
pub(crate) const QUIET: Duration = Duration::from_millis(400);

/// Takes the bench's server side away.
pub(crate) type Finish = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// A prepared broker with a family of names of its own.
pub(crate) struct Bench {
    pub(crate) broker: BrokerHandle,
    pub(crate) naming: Naming,
    /// Deletes the vhost, or drops the directory.
    pub(crate) finish: std::sync::Mutex<Option<Finish>>,
}

impl Bench {
    pub(crate) async fn finish(self) {
        self.broker.close().await;
        let finish = self.finish.lock().unwrap().take();
        if let Some(finish) = finish {
            finish().await;
        }
    }

    /// The name of a delivery queue of this bench.
    pub(crate) fn queue(&self, name: &str) -> QueueName {
        QueueName::parse(&format!("{}{name}.{}", self.naming.prefix, "0".repeat(32))).unwrap()
    }

    /// A created delivery queue.
    pub(crate) async fn created(&self, name: &str) -> QueueName {
        let queue = self.queue(name);
        self.broker.create(&queue).await.unwrap();
        queue
    }

    /// A created delivery queue with messages `1` to `count`.
    pub(crate) async fn filled(&self, name: &str, count: u32) -> QueueName {
        let queue = self.created(name).await;
        for number in 1..=count {
            self.accepted(&queue, &numbered(number)).await;
        }
        queue
    }

    pub(crate) async fn accepted(&self, queue: &QueueName, message: &Message) {
        assert_eq!(self.broker.publish(queue, message).await.unwrap(), Published::Accepted);
    }

    pub(crate) async fn attached(&self, queue: &QueueName, prefetch: u16) -> Box<dyn Attached> {
        match self.broker.attach(queue, options(prefetch)).await.unwrap() {
            AttachOutcome::Attached(attached) => attached,
            AttachOutcome::Missing => panic!("{queue:?} is missing"),
            AttachOutcome::Poison(reason) => panic!("{queue:?} is poison: {reason}"),
        }
    }

    /// Waits until a look at `queue` shows `ready` messages.
    pub(crate) async fn wait_ready(&self, queue: &QueueName, ready: u64) {
        self.wait_look(
            queue,
            |look| matches!(look, Look::Present { ready: seen, .. } if seen == ready),
        )
        .await;
    }

    /// Waits until a look at `queue` is as wanted.
    pub(crate) async fn wait_look(&self, queue: &QueueName, wanted: impl Fn(Look) -> bool) {
        let looks = within(SOON, async {
            let mut pause = tokio::time::interval(Duration::from_millis(20));
            loop {
                pause.tick().await;
                if wanted(self.broker.look(queue).await.unwrap()) {
                    break;
                }
            }
        });
        assert!(
            looks.await.is_ok(),
            "{queue:?} is still {:?}",
            self.broker.look(queue).await
        );
    }
}

pub(crate) fn options(prefetch: u16) -> AttachOptions {
    AttachOptions {
        prefetch,
        bind: true,
        part: QueuePart::Queue,
    }
}

/// A small message that carries its number in its body.
pub(crate) fn numbered(number: u32) -> Message {
    Message {
        message_id: Some(format!("m{number}")),
        body: number.to_string().into_bytes().into(),
        ..Message::default()
    }
}

/// A message that uses everything a message has, headers by name (AMQP tables have no order). The user is
/// left out: the broker takes only that of the connection.
pub(crate) fn full() -> Message {
    let nested = vec![
        (
            "array".to_owned(),
            HeaderValue::Array(vec![HeaderValue::Void, HeaderValue::text("in")]),
        ),
        (
            "table".to_owned(),
            HeaderValue::Table(vec![("deep".to_owned(), HeaderValue::U8(200))]),
        ),
    ];
    let headers = [
        (
            "x-array",
            HeaderValue::Array(vec![HeaderValue::I16(-300), HeaderValue::Table(nested.clone())]),
        ),
        (
            "x-byte-array",
            HeaderValue::Bytes(bytes::Bytes::from_static(b"\x00\xfe")),
        ),
        ("x-bytes", HeaderValue::Text(bytes::Bytes::from_static(b"\xff\x00a"))),
        ("x-decimal", HeaderValue::Decimal { scale: 2, value: 1234 }),
        ("x-double", HeaderValue::Double(0.1)),
        ("x-flag", HeaderValue::Bool(true)),
        ("x-float", HeaderValue::Float(-1.5)),
        ("x-i16", HeaderValue::I16(i16::MIN)),
        ("x-i32", HeaderValue::I32(i32::MIN)),
        ("x-i8", HeaderValue::I8(i8::MIN)),
        ("x-number", HeaderValue::Integer(-3)),
        ("x-table", HeaderValue::Table(nested)),
        ("x-text", HeaderValue::text("grün")),
        ("x-timestamp", HeaderValue::Timestamp(1_700_000_000)),
        ("x-u16", HeaderValue::U16(u16::MAX)),
        ("x-u32", HeaderValue::U32(u32::MAX)),
        ("x-u8", HeaderValue::U8(u8::MAX)),
        ("x-void", HeaderValue::Void),
    ];
    Message {
        content_type: Some("application/json".into()),
        content_encoding: Some("identity".into()),
        transient: true,
        priority: Some(7),
        correlation_id: Some("c-1".into()),
        reply_to: Some("answers".into()),
        expiration: Some("86400000".into()),
        message_id: Some("id-1".into()),
        kind: Some("notification".into()),
        timestamp_s: Some(1_700_000_000_000_000),
        user_id: None,
        app_id: Some("shop".into()),
        cluster_id: Some("old".into()),
        headers: headers.map(|(name, value)| (name.to_owned(), value)).into(),
        body: bytes::Bytes::from_static(b"{\"a\":1.0000000000000001}\x00\xff"),
    }
}

/// The next message of an attachment, which must come.
pub(crate) async fn next(attached: &mut Box<dyn Attached>) -> Delivery {
    match within(SOON, attached.next()).await.expect("a message comes") {
        Next::Message(delivery) => *delivery,
        other @ (Next::Lost(_) | Next::Larger(_)) => panic!("no message: {other:?}"),
    }
}

/// Whether nothing comes for a moment.
pub(crate) async fn is_quiet(attached: &mut Box<dyn Attached>) -> bool {
    tokio::time::timeout(QUIET, attached.next()).await.is_err()
}

pub(crate) fn number(message: &Message) -> u32 {
    std::str::from_utf8(&message.body).unwrap().parse().unwrap()
}

/// Takes and acks messages until `count` are there; their numbers in order of arrival.
pub(crate) async fn take(attached: &mut Box<dyn Attached>, count: u32) -> Vec<u32> {
    let mut numbers = Vec::new();
    for _ in 0..count {
        let delivery = next(attached).await;
        numbers.push(number(&delivery.message));
        assert_eq!(attached.ack(delivery.tag).await, Acked::Sent);
    }
    numbers
}
