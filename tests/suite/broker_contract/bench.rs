//! A prepared broker that belongs to one test, and the few steps that every behaviour takes.

use std::pin::Pin;
use std::time::Duration;

use redrive::broker::{
    Acked, AttachOptions, AttachOutcome, Attached, BrokerHandle, Delivery, Look, Next, Published, QueuePart,
};
use redrive::domain::id::QueueName;
use redrive::domain::message::{HeaderValue, Message};
use redrive::domain::naming::Naming;
use redrive::domain::time::Timestamp;

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
        let waited = tokio::time::timeout(SOON, async {
            let mut pause = tokio::time::interval(Duration::from_millis(20));
            loop {
                pause.tick().await;
                if wanted(self.broker.look(queue).await.unwrap()) {
                    break;
                }
            }
        });
        assert!(
            waited.await.is_ok(),
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

/// A message that uses everything a message has.
pub(crate) fn full() -> Message {
    Message {
        content_type: Some("application/json".into()),
        message_id: Some("id-1".into()),
        kind: Some("notification".into()),
        timestamp: Some(Timestamp::from_seconds(1_700_000_000)),
        headers: vec![
            (
                "x-bytes".into(),
                HeaderValue::Text(bytes::Bytes::from_static(b"\xff\x00a")),
            ),
            ("x-flag".into(), HeaderValue::Bool(true)),
            ("x-number".into(), HeaderValue::Integer(-3)),
            ("x-text".into(), HeaderValue::text("grün")),
        ],
        body: bytes::Bytes::from_static(b"{\"a\":1.0000000000000001}\x00\xff"),
    }
}

/// The next message of an attachment, which must come.
pub(crate) async fn next(attached: &mut Box<dyn Attached>) -> Delivery {
    match tokio::time::timeout(SOON, attached.next())
        .await
        .expect("a message comes")
    {
        Next::Message(delivery) => *delivery,
        Next::Lost(lost) => panic!("attachment lost: {lost:?}"),
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
