//! Dead letters: 100,000 messages of 512 bytes in a dead-letter queue. How fast they are walked over, how long
//! the first look takes that indexes them, then the first page, the groups and a filtered page from the index,
//! and the most memory of this process; another one fills the queue.

use std::fmt::Write as _;
use std::time::Duration;

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldArray, FieldTable, LongString, ShortString};
use lapin::{BasicProperties, Connection, ConnectionProperties};
use redrive::internals::ambient::Clock;
use redrive::internals::broker::{Returns, WalkOptions};
use redrive::internals::delivery::http::{HttpSender, SenderSettings};
use redrive::internals::domain::egress::AddressRules;
use redrive::internals::domain::id::QueueName;
use redrive::internals::engine::Engine;
use redrive::internals::engine::Query;
use redrive::internals::engine::dead::{DeadListQuery, DeadPage, DeadSelection};
use redrive::internals::engine::query;
use tokio::time::Instant;

use crate::ground::{self, BODY_BYTES, Ground};
use crate::numbers::{Spread, aside, rounds, row};
use crate::process::Side;
use crate::support::servers::scratch_directory;

const MESSAGES: usize = 100_000;
const QUEUE: &str = "work.dead";

pub async fn run() {
    let (ground, directory) = (Ground::prepare().await, scratch_directory());
    let mut filling = Side::start("dead", &[ground.vhost.amqp()]);
    assert_eq!(filling.line().await, "filled");
    filling.finish().await;
    let walked = walk(&ground).await;
    aside(&format!("most memory after the walk: {} MiB", memory_kib() / 1024));
    row(
        "walk over 100,000 × 512 bytes, everything in hand",
        &format!("{walked:.0}/s"),
        "20,000/s",
    );
    let store = directory.path().join("redrive.db");
    let engine = engine(&ground, store.to_str().unwrap()).await;
    let (first, looked) = timed(&engine, query::Dead(query(None))).await;
    assert_eq!(first, 1000);
    row(
        "first look at 100,000 dead letters, indexed",
        &format!("{looked:.2} s"),
        "",
    );
    paged(&engine, "first page of 100,000", query::Dead(query(None))).await;
    paged(&engine, "groups of 100,000", query::DeadGroups(query(None))).await;
    let rare = query::Dead(query(Some("origin = work.7")));
    paged(&engine, "first page of a filter that matches one in ten", rare).await;
    row(
        "most memory of the process",
        &format!("{} MiB", memory_kib() / 1024),
        "150 MiB",
    );
    engine.close().await;
}

async fn paged<T, Q: Query<Answer = DeadPage<T>> + Clone>(engine: &Engine, what: &str, asked: Q) {
    let mut took = Vec::new();
    for _ in 0..rounds() {
        took.push(timed(engine, asked.clone()).await.1 * 1000.0);
    }
    row(what, &format!("{} ms", Spread::of(&took)), "200 ms");
}

/// Items and seconds.
async fn timed<T, Q: Query<Answer = DeadPage<T>>>(engine: &Engine, query: Q) -> (usize, f64) {
    let start = Instant::now();
    let page = engine.query(query).await.unwrap();
    (page.page.items.len(), start.elapsed().as_secs_f64())
}

fn query(filter: Option<&str>) -> DeadListQuery {
    DeadListQuery {
        selection: DeadSelection {
            filter: filter.map(str::to_owned),
            ..DeadSelection::default()
        },
        sort: None,
        limit: 1000,
        cursor: None,
        patience: Duration::from_mins(10),
    }
}

async fn engine(ground: &Ground, store: &str) -> Engine {
    let settings = ground::engine_settings(ground.naming.clone(), 1);
    let sender = SenderSettings {
        timeout: settings.request_timeout,
        response_snippet_bytes: 2048,
        rules: AddressRules::default(),
        endpoints: std::collections::HashMap::new(),
    };
    let sender = HttpSender::new(sender, Clock::system()).unwrap();
    let store = ground::open_store(store).await;
    Engine::new(store, ground.broker.clone(), sender, settings, Clock::system())
}

/// Messages a second.
async fn walk(ground: &Ground) -> f64 {
    let start = Instant::now();
    let queue = QueueName::parse(QUEUE).unwrap();
    let mut walk = ground
        .broker
        .walk(&queue, WalkOptions::new(Returns::InPlace))
        .await
        .unwrap()
        .unwrap();
    let mut seen = 0;
    loop {
        let walked = walk.next(1000).await.unwrap();
        if walked.is_empty() {
            break;
        }
        seen += walked.len();
    }
    let took = start.elapsed().as_secs_f64();
    assert_eq!(seen, MESSAGES);
    walk.close().await.unwrap();
    MESSAGES as f64 / took
}

/// The side that fills the queue of a virtual host: as if rejected from ten queues, a history in each message, as the
/// broker writes it.
pub async fn fill(arguments: &[String]) {
    let [amqp] = arguments else {
        panic!("the virtual host's URL")
    };
    let connection = Connection::connect(amqp, ConnectionProperties::default())
        .await
        .unwrap();
    let channel = connection.create_channel().await.unwrap();
    channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
    let durable = QueueDeclareOptions {
        durable: true,
        ..QueueDeclareOptions::default()
    };
    let mut arguments = FieldTable::default();
    arguments.insert("x-dead-letter-exchange".into(), text(""));
    arguments.insert("x-dead-letter-routing-key".into(), text(QUEUE));
    for (queue, arguments) in [(QUEUE, FieldTable::default()), ("work", arguments)] {
        channel.queue_declare(queue.into(), durable, arguments).await.unwrap();
    }
    for start in (0..MESSAGES).step_by(1000) {
        let mut confirms = Vec::new();
        for number in start..start + 1000 {
            let mut body = String::new();
            write!(body, "{number} ").unwrap();
            body.extend(std::iter::repeat_n('x', BODY_BYTES - body.len()));
            let publishing = channel.basic_publish(
                "".into(),
                QUEUE.into(),
                BasicPublishOptions::default(),
                body.as_bytes(),
                BasicProperties::default()
                    .with_delivery_mode(2)
                    .with_headers(history(&format!("work.{}", number % 10), number)),
            );
            confirms.push(publishing.await.unwrap());
        }
        for confirm in confirms {
            confirm.await.unwrap();
        }
    }
    connection.close(200, "filled".into()).await.unwrap();
    println!("filled");
}

fn history(queue: &str, number: usize) -> FieldTable {
    let mut death = FieldTable::default();
    death.insert("queue".into(), text(queue));
    death.insert("reason".into(), text("rejected"));
    death.insert("count".into(), AMQPValue::LongLongInt(1));
    death.insert("exchange".into(), text(""));
    death.insert("time".into(), AMQPValue::Timestamp(1_700_000_000 + number as u64));
    death.insert(
        "routing-keys".into(),
        AMQPValue::FieldArray(FieldArray::from(vec![text(queue)])),
    );
    let mut headers = FieldTable::default();
    let deaths = FieldArray::from(vec![AMQPValue::FieldTable(death)]);
    headers.insert("x-death".into(), AMQPValue::FieldArray(deaths));
    headers.insert("x-first-death-queue".into(), text(queue));
    headers.insert(ShortString::from("x-first-death-reason"), text("rejected"));
    headers.insert("x-first-death-exchange".into(), text(""));
    headers
}

fn text(text: &str) -> AMQPValue {
    AMQPValue::LongString(LongString::from(text))
}

/// The most that was resident.
fn memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
