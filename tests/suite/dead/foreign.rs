//! Messages with whatever a foreign publisher set: each one that is refused becomes one dead letter that stays.

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::{AMQPValue, FieldArray, FieldTable, ShortString};
use lapin::{BasicProperties, Connection, ConnectionProperties};
use redrive::internals::broker::{Look, Outgoing, Published};
use redrive::internals::domain::dead_letter::{DeadLetter, Home, STORE};
use redrive::internals::domain::id::QueueName;
use redrive::internals::domain::message::{HeaderValue, Message};
use redrive::internals::domain::naming::QueueType;
use serde_json::json;

use super::shop::{BOUND, Shop, text};
use crate::engine::stage::{Ground, Stage};
use crate::support::faulty_store::{Fault, FaultyStore};
use crate::support::receiver::{Attempt, Behaviour};
use crate::support::servers::unique_name;
use crate::support::wait::wait_until;

const EXECUTION: &str = "run-1";
const PATH: &str = "/hook";
/// How long a message with an expiration may stay where it is.
const LIFETIME: &str = "5000";
/// With this and its own headers a message just fits into a frame, and not with what a dead letter adds.
const NEARLY_A_FRAME: usize = 130_650;

/// A notification to [`PATH`] with one more header.
fn properties(shop: &Shop, id: &str, header: Option<(&str, AMQPValue)>) -> BasicProperties {
    properties_of(shop, EXECUTION, id, header)
}

fn properties_of(shop: &Shop, execution: &str, id: &str, header: Option<(&str, AMQPValue)>) -> BasicProperties {
    let mut headers = FieldTable::default();
    headers.insert("x-redrive-execution".into(), text(execution));
    headers.insert("x-redrive-url".into(), text(&shop.stage.receiver.url(PATH)));
    if let Some((name, value)) = header {
        headers.insert(ShortString::from(name), value);
    }
    BasicProperties::default()
        .with_message_id(id.into())
        .with_delivery_mode(2)
        .with_headers(headers)
}

/// A shop whose stage delivers, and refuses everything but what says that it is good.
async fn shop(stage: Stage) -> (Shop, QueueName) {
    let mut shop = Shop::of(stage).await;
    shop.stage.receiver.behave_by(PATH, |attempt| {
        Behaviour::Status(if attempt.body == b"good" { 200 } else { 404 })
    });
    let queue = shop.stage.queue(EXECUTION, PATH);
    shop.stage.broker.create(&queue).await.unwrap();
    shop.stage.start();
    (shop, queue)
}

impl Shop {
    async fn send(&self, queue: &QueueName, properties: BasicProperties, body: &str) {
        let exchange = self.stage.settings.naming.exchange();
        self.publish(&exchange, queue.as_str(), properties, body).await;
        self.stage.broker.nudge(queue).await;
    }

    /// A message in the name of a user that redrive is not.
    async fn send_as_somebody(&self, queue: &QueueName, id: &str) {
        let (vhost, user) = (self.stage.ground.rabbit(), unique_name("somebody"));
        let login = json!({"password": "s3cret", "tags": ""});
        vhost.manage("PUT", &format!("/api/users/{user}"), Some(&login)).await;
        let rights = json!({"configure": "", "write": ".*", "read": ""});
        let path = format!("/api/permissions/{}/{user}", vhost.name);
        vhost.manage("PUT", &path, Some(&rights)).await;
        let mut url = url::Url::parse(&vhost.amqp()).unwrap();
        url.set_username(&user).unwrap();
        url.set_password(Some("s3cret")).unwrap();
        let connection = Connection::connect(url.as_str(), ConnectionProperties::default())
            .await
            .unwrap();
        let channel = connection.create_channel().await.unwrap();
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        let exchange = self.stage.settings.naming.exchange();
        let properties = properties(self, id, None).with_user_id(user.as_str().into());
        let sent = channel.basic_publish(
            exchange.as_str().into(),
            queue.as_str().into(),
            BasicPublishOptions::default(),
            b"bad",
            properties,
        );
        assert!(sent.await.unwrap().await.unwrap().is_ack());
        connection.close(200, "done".into()).await.unwrap();
        vhost.manage("DELETE", &format!("/api/users/{user}"), None).await;
    }

    /// Everything dead, once there are as many.
    async fn all_dead(&self, count: usize) -> Vec<DeadLetter> {
        wait_until(format!("{count} dead letters to be listed"), BOUND, async || {
            let found = self.list(None, None).await.page.items;
            (found.len() >= count).then_some(found)
        })
        .await
    }
}

/// The header of a dead letter that says what was taken off.
async fn taken_off(shop: &Shop, letter: &DeadLetter, name: &str) -> Option<HeaderValue> {
    let message = shop.show(letter).await.message;
    assert!(!message.transient, "{letter:?}");
    assert_eq!(
        (message.expiration.as_ref(), message.priority),
        (None, None),
        "{letter:?}"
    );
    assert_eq!(
        (message.user_id.as_ref(), message.header("CC")),
        (None, None),
        "{letter:?}"
    );
    message.header(&format!("x-redrive-dead-{name}")).cloned()
}

/// The properties that are tried, in the order of their ids.
const TRIED: [&str; 9] = [
    "answered",
    "apped",
    "copied",
    "expiration",
    "priority",
    "somebody",
    "timed",
    "transient",
    "typed",
];

/// Publishes a refused message of each kind between good ones: refusals in a row would be laid to the endpoint.
async fn send_each(shop: &Shop, queue: &QueueName) {
    let plain = |id: &str| properties(shop, id, None);
    shop.send(queue, plain("good-1"), "good").await;
    shop.stage.delivered(1).await;
    // First, so that it is at the head of the dead-letter queue, where what is over would be dropped.
    let expiring = plain("expiration").with_expiration(LIFETIME.into());
    shop.send(queue, expiring, "bad").await;
    shop.all_dead(1).await;
    shop.queue("canary", &[]).await;
    let canary = BasicProperties::default().with_expiration(LIFETIME.into());
    shop.publish("", "canary", canary, "canary").await;
    let own_key = AMQPValue::FieldArray(FieldArray::from(vec![text(queue.as_str())]));
    let rest = [
        plain("priority").with_priority(9),
        properties(shop, "copied", Some(("CC", own_key))),
        plain("transient").with_delivery_mode(1),
        plain("answered").with_reply_to("answers".into()),
        plain("typed").with_type("order".into()),
        plain("apped").with_app_id("shop".into()),
        plain("timed").with_timestamp(u64::MAX),
    ];
    for (one, number) in rest.into_iter().zip(2..) {
        shop.send(queue, plain(&format!("good-{number}")), "good").await;
        shop.send(queue, one, "bad").await;
    }
    shop.send(queue, plain("good-9"), "good").await;
    shop.send_as_somebody(queue, "somebody").await;
    shop.send(queue, plain("good-10"), "good").await;
    shop.stage.delivered(10).await;
}

async fn check_properties(stage: Stage) {
    let (mut shop, queue) = shop(stage).await;
    send_each(&shop, &queue).await;
    let mut letters = shop.all_dead(TRIED.len()).await;
    letters.sort_by(|a, b| a.message_id.cmp(&b.message_id));
    let ids: Vec<&str> = letters
        .iter()
        .filter_map(|letter| letter.message_id.as_deref())
        .collect();
    assert_eq!(ids, TRIED);
    assert!(letters.iter().all(|letter| letter.home == Home::Broker));
    let [answered, _, copied, expiration, priority, somebody, timed, transient, _] = &letters[..] else {
        panic!("nine were tried");
    };
    let copied_to = HeaderValue::Array(vec![HeaderValue::text(queue.as_str())]);
    for (letter, name, value) in [
        (expiration, "expiration", HeaderValue::text(LIFETIME)),
        (priority, "priority", HeaderValue::U8(9)),
        (copied, "cc", copied_to),
        (transient, "delivery-mode", HeaderValue::U8(1)),
    ] {
        assert_eq!(taken_off(&shop, letter, name).await, Some(value));
    }
    assert!(taken_off(&shop, somebody, "user-id").await.is_some());
    let reply_to = shop.show(answered).await.message.reply_to;
    assert_eq!(reply_to.as_deref(), Some("answers"));
    assert_eq!(shop.show(timed).await.message.timestamp_s, Some(u64::MAX));
    let canary = QueueName::parse("canary").unwrap();
    wait_until("the canary to be gone", BOUND, async || {
        let look = shop.stage.broker.look(&canary).await.unwrap();
        matches!(look, Look::Present { ready: 0, .. }).then_some(())
    })
    .await;
    let left = shop.stage.dead_letters(TRIED.len()).await.len();
    assert_eq!(left, TRIED.len(), "none went with the canary");
    let look = shop.stage.broker.look(&queue).await.unwrap();
    assert!(matches!(look, Look::Missing | Look::Present { ready: 0, .. }));
    shop.stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_a_foreign_publisher_set_a_refused_message_is_one_dead_letter_that_stays() {
    check_properties(Stage::quiet(Ground::rabbit_sqlite().await, |_| {}).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_a_foreign_publisher_set_is_one_dead_letter_that_stays_on_quorum_queues() {
    let quorum =
        |settings: &mut redrive::internals::engine::EngineSettings| settings.naming.queue_type = QueueType::Quorum;
    check_properties(Stage::quiet(Ground::rabbit_postgres().await, quorum).await).await;
}

/// The broker copies for a foreign publisher; what it copied is nobody's there, and is sent from its own queue alone.
async fn check_copies(stage: Stage) {
    const OTHER: &str = "run-2";
    let (mut shop, queue) = shop(stage).await;
    let other = shop.stage.queue(OTHER, PATH);
    shop.stage.broker.create(&other).await.unwrap();
    let keys = |queue: &QueueName| AMQPValue::FieldArray(FieldArray::from(vec![text(queue.as_str())]));
    for (number, header) in [(1, "CC"), (2, "BCC")] {
        shop.send(&queue, properties(&shop, &format!("good-{number}"), None), "good")
            .await;
        shop.send(&queue, properties(&shop, header, Some((header, keys(&other)))), "bad")
            .await;
        shop.stage.broker.nudge(&other).await;
    }
    shop.send(&queue, properties(&shop, "good-3", None), "good").await;
    // What stands behind the copies is delivered.
    shop.send(&other, properties_of(&shop, OTHER, "good-4", None), "good")
        .await;
    shop.stage.delivered(4).await;
    let mut letters = shop.all_dead(2).await;
    letters.sort_by(|a, b| a.message_id.cmp(&b.message_id));
    let found = letters
        .iter()
        .map(|letter| (letter.message_id.as_deref(), letter.origin.as_deref()));
    let origin = Some(queue.as_str());
    assert_eq!(
        found.collect::<Vec<_>>(),
        [(Some("BCC"), origin), (Some("CC"), origin)],
        "{letters:?}"
    );
    let attempts = shop.stage.receiver.attempts_of(PATH);
    let sent: Vec<&str> = attempts
        .iter()
        .filter(|attempt| attempt.queue() == other.as_str())
        .map(Attempt::id)
        .collect();
    assert_eq!(sent, ["good-4"]);
    // Where its own queue is gone, the copy is all that there is.
    let missing = shop.stage.queue("run-3", PATH);
    let lonely = properties_of(&shop, "run-3", "lonely", Some(("CC", keys(&other))));
    shop.send(&missing, lonely, "bad").await;
    shop.stage.broker.nudge(&other).await;
    let letters = shop.all_dead(3).await;
    let lonely = letters
        .iter()
        .find(|letter| letter.message_id.as_deref() == Some("lonely"));
    assert_eq!(lonely.and_then(|letter| letter.origin.as_deref()), Some(other.as_str()));
    shop.stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_in_another_delivery_queue_is_neither_sent_from_there_nor_a_dead_letter() {
    check_copies(Stage::quiet(Ground::rabbit_sqlite().await, |_| {}).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_in_another_quorum_delivery_queue_is_neither_sent_from_there_nor_a_dead_letter() {
    let quorum =
        |settings: &mut redrive::internals::engine::EngineSettings| settings.naming.queue_type = QueueType::Quorum;
    check_copies(Stage::quiet(Ground::rabbit_sqlite().await, quorum).await).await;
}

/// One that no queue takes as a dead letter, and a good one behind it.
async fn check_headers(stage: Stage) {
    let (mut shop, queue) = shop(stage).await;
    let header = text(&"x".repeat(NEARLY_A_FRAME));
    let large = properties(&shop, "large", Some(("x-mine", header)));
    shop.send(&queue, large, "bad").await;
    shop.send(&queue, properties(&shop, "good", None), "good").await;
    shop.stage.delivered(1).await;
    let letters = shop.all_dead(1).await;
    assert_eq!(letters.len(), 1, "{letters:?}");
    let letter = &letters[0];
    assert_eq!((letter.home, letter.queue.as_str()), (Home::Store, STORE));
    assert_eq!((letter.message_id.as_deref(), letter.size_bytes), (Some("large"), 3));
    assert_eq!(letter.origin.as_deref(), Some(queue.as_str()));
    let message = shop.show(letter).await.message;
    assert_eq!(
        message.header_text("x-mine").map(str::len),
        Some(NEARLY_A_FRAME),
        "whole"
    );
    assert_eq!(message.body, "bad");
    let why = message.header_text("x-redrive-dead-stored-because").unwrap();
    assert!(why.contains("do not fit into a frame"), "{why}");
    assert_eq!(shop.list(None, Some("home = store")).await.page.items.len(), 1);
    assert_eq!(shop.groups(None).await.len(), 1);
    assert_eq!(shop.stage.store.stored_letters_count().await.unwrap(), 1);
    wait_until("its decision to be closed", BOUND, async || {
        let row = shop.stage.store.queue_get(&queue).await.unwrap()?;
        (row.decision.is_none() && row.head.is_none()).then_some(())
    })
    .await;
    shop.stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_that_no_queue_takes_is_whole_in_the_store_and_nothing_waits_behind_it() {
    for ground in [Ground::rabbit_sqlite().await, Ground::rabbit_postgres().await] {
        check_headers(Stage::quiet(ground, |_| {}).await).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_letter_that_was_stored_before_a_crash_is_not_stored_or_published_again() {
    let stage = Stage::quiet_over(
        Ground::rabbit_sqlite().await,
        |_| {},
        |store| {
            let faulty = FaultyStore::over(store);
            let mut answers_lost = 0;
            // The letter is committed, and whoever did it never hears of it.
            faulty.plan(move |operation| {
                let lost = operation == "stored_letter_put" && answers_lost < 2;
                answers_lost += u32::from(lost);
                lost.then_some(Fault::Unanswered)
            });
            std::sync::Arc::new(faulty)
        },
    )
    .await;
    check_headers(stage).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_full_queue_rejects_is_told_apart_from_what_no_queue_ever_takes() {
    let shop = Shop::open().await;
    let full = [
        ("x-max-length", AMQPValue::LongInt(1)),
        ("x-overflow", text("reject-publish")),
    ];
    shop.queue("full", &full).await;
    let outgoing = |header: &str| Outgoing {
        exchange: String::new(),
        routing_key: "full".to_owned(),
        message: Message {
            headers: vec![("x-mine".to_owned(), HeaderValue::text(header))],
            ..Message::default()
        },
    };
    let too_large = "x".repeat(2 * NEARLY_A_FRAME);
    let window = [outgoing("first"), outgoing("second"), outgoing(&too_large)];
    let published = shop.stage.broker.publish_many(&window).await;
    let published: Vec<Published> = published.into_iter().map(Result::unwrap).collect();
    assert_eq!(published[0], Published::Accepted);
    assert!(matches!(published[1], Published::NotNow(_)), "{published:?}");
    assert!(matches!(published[2], Published::Refused(_)), "{published:?}");
}
