//! Dead letters back to their origin, against RabbitMQ's own shovel on the same broker, by turns.
//!
//! 50,000 messages of 512 bytes lie in a dead-letter queue with their death history. The run is unlimited, with its
//! journal in a SQLite file; its time is from its execution to its end, the plan apart. The shovel (`on-confirm`,
//! prefetch 1000) moves dead letters of the same making from the same queue to the same origin; its time is from the
//! first message that it moved to the last one, as far as the queue's depth shows. Beside it the shovel moves as many
//! messages that never died: those are less work for the broker, whoever moves them.
//!
//! Then a paced run: 3,000 at 100 a second, from its execution to its end.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use lapin::options::{
    BasicConsumeOptions, BasicNackOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions,
    QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use redrive::internals::ambient::Clock;
use redrive::internals::delivery::http::{HttpSender, SenderSettings};
use redrive::internals::domain::egress::AddressRules;
use redrive::internals::domain::run::RunState;
use redrive::internals::engine::runs::{Order, OrderKind, Selection};
use redrive::internals::engine::{Access, Command, Done, Engine};
use serde_json::json;

use crate::ground::{self, Ground};
use crate::numbers::{Spread, rounds, row};
use crate::support::servers::scratch_directory;

const MESSAGES: u32 = 50_000;
/// Of the paced run: its rate for 30 s.
const PACED: u32 = 3_000;
const RATE: u32 = 100;
const DEAD: &str = "bench.dead";
const ORIGIN: &str = "bench.origin";
const MOVED: &str = "bench.moved";

pub async fn run() {
    let ground = Ground::prepare().await;
    let connection = Connection::connect(&ground.vhost.amqp(), ConnectionProperties::default())
        .await
        .unwrap();
    let channel = connection.create_channel().await.unwrap();
    channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
    let (mut redrives, mut shovels, mut fresh) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds() {
        shovels.push(shovel(&ground, &channel, Moves::DeadLetters).await);
        redrives.push(f64::from(MESSAGES) / redrive(&ground, &channel, MESSAGES, None).await.as_secs_f64());
        fresh.push(shovel(&ground, &channel, Moves::Fresh).await);
        eprintln!(
            "round {round}: redrive {:.0}/s, shovel of dead letters {:.0}/s, of fresh messages {:.0}/s",
            redrives[round], shovels[round], fresh[round]
        );
    }
    row(
        "redrive of 50,000 dead letters, of the shovel that moves them",
        &Spread::of_ratios(&redrives, &shovels).to_string(),
        "1.2",
    );
    row(
        "the same, of the shovel that moves messages that never died",
        &Spread::of_ratios(&redrives, &fresh).to_string(),
        "0.9",
    );
    row("redriven a second", &Spread::of(&redrives).to_string(), "");
    let took = redrive(&ground, &channel, PACED, Some(RATE)).await;
    let held = f64::from(PACED) / took.as_secs_f64();
    row(
        "a rate of 100 a second, over 30 s",
        &format!("{held:.1}/s"),
        "95 to 100/s",
    );
}

/// From the execution of a run over `count` dead letters to its end.
async fn redrive(ground: &Ground, channel: &Channel, count: u32, rate: Option<u32>) -> Duration {
    declare(channel, DEAD, None).await;
    declare(channel, ORIGIN, Some(DEAD)).await;
    fill(channel, ORIGIN, count).await;
    die(channel, count).await;
    let directory = scratch_directory();
    let store = ground::open_store(directory.path().join("redrive.db").to_str().unwrap()).await;
    let sender = SenderSettings {
        timeout: Duration::from_secs(5),
        response_snippet_bytes: 0,
        rules: AddressRules::default(),
        endpoints: std::collections::HashMap::new(),
    };
    let sender = HttpSender::new(sender, Clock::system()).unwrap();
    let settings = ground::engine_settings(ground.naming.clone(), 1);
    let broker = ground::broker(&ground.naming);
    let engine = Engine::new(store, broker, sender, settings, Clock::system());
    let order = Order {
        rate,
        ..Order::new(OrderKind::Redrive, Selection::All)
    };
    let began = Instant::now();
    let plan = engine.plan(Command::Run(order)).await.unwrap();
    eprintln!("planned in {:.1} s", began.elapsed().as_secs_f64());
    let grant = Access::Operator.grant("bench", None).unwrap();
    let began = Instant::now();
    let Done::Run(run) = engine.execute(&plan, &grant).await.unwrap() else {
        panic!("no run");
    };
    let ended = engine.follow_run(&run.record.id, |_| ()).await.unwrap();
    let took = began.elapsed();
    assert_eq!(
        (ended.state(), ended.counts().done),
        (RunState::Done, u64::from(count)),
        "{ended:?}"
    );
    assert_eq!(depth(channel, ORIGIN).await, count);
    engine.close().await;
    delete(channel, &[DEAD, ORIGIN]).await;
    took
}

/// What the shovel moves.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Moves {
    /// Dead letters, back to their origin.
    DeadLetters,
    /// Messages without a death history, from their queue to another.
    Fresh,
}

/// Messages a second.
async fn shovel(ground: &Ground, channel: &Channel, moves: Moves) -> f64 {
    let dead = (moves == Moves::DeadLetters).then_some(DEAD);
    let (from, to) = dead.map_or((ORIGIN, MOVED), |dead| (dead, ORIGIN));
    declare(channel, from, None).await;
    declare(channel, to, dead).await;
    fill(channel, ORIGIN, MESSAGES).await;
    if moves == Moves::DeadLetters {
        die(channel, MESSAGES).await;
    }
    let uri = ground.vhost.amqp();
    let value = json!({"value": {
        "src-protocol": "amqp091", "src-uri": uri, "src-queue": from,
        "dest-protocol": "amqp091", "dest-uri": uri, "dest-queue": to,
        "src-delete-after": "queue-length", "ack-mode": "on-confirm", "src-prefetch-count": 1000,
    }});
    let path = format!("/parameters/shovel/{}/bench", ground.vhost.name);
    let made = ground
        .vhost
        .node
        .request("PUT", &format!("/api{path}"))
        .json(&value)
        .send()
        .await;
    assert!(made.status < 300, "{}", made.text());
    let mut first = None;
    let took = loop {
        let moved = depth(channel, to).await;
        let now = Instant::now();
        match first {
            None if moved > 0 => first = Some((now, moved)),
            Some((began, at)) if moved >= MESSAGES => {
                let share = f64::from(MESSAGES - at) / f64::from(MESSAGES);
                break (now - began).div_f64(share.max(f64::EPSILON));
            }
            None | Some(_) => {}
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    delete(channel, &[from, to]).await;
    f64::from(MESSAGES) / took.as_secs_f64()
}

async fn declare(channel: &Channel, name: &str, dead: Option<&str>) {
    let mut arguments = FieldTable::default();
    if let Some(dead) = dead {
        let text = |text: &str| AMQPValue::LongString(LongString::from(text.as_bytes()));
        arguments.insert("x-dead-letter-exchange".into(), text(""));
        arguments.insert("x-dead-letter-routing-key".into(), text(dead));
    }
    let durable = QueueDeclareOptions {
        durable: true,
        ..QueueDeclareOptions::default()
    };
    channel
        .queue_declare(ShortString::from(name), durable, arguments)
        .await
        .unwrap();
}

async fn fill(channel: &Channel, queue: &str, count: u32) {
    let body = [b'x'; ground::BODY_BYTES];
    let mut confirms = Vec::new();
    for number in 0..count {
        let properties = BasicProperties::default()
            .with_delivery_mode(2)
            .with_message_id(format!("m-{number}").into());
        let options = BasicPublishOptions::default();
        let sent = channel.basic_publish("".into(), ShortString::from(queue), options, &body, properties);
        confirms.push(sent.await.unwrap());
        if confirms.len() == 1_000 {
            for confirm in confirms.drain(..) {
                confirm.await.unwrap();
            }
        }
    }
    for confirm in confirms {
        confirm.await.unwrap();
    }
}

async fn die(channel: &Channel, count: u32) {
    channel.basic_qos(1_000, BasicQosOptions::default()).await.unwrap();
    let options = BasicConsumeOptions::default();
    let consuming = channel.basic_consume(ORIGIN.into(), "dies".into(), options, FieldTable::default());
    let mut consumer = consuming.await.unwrap();
    for number in 1..=count {
        let delivery = consumer.next().await.unwrap().unwrap();
        if number % 500 == 0 || number == count {
            let nack = BasicNackOptions {
                multiple: true,
                requeue: false,
            };
            channel.basic_nack(delivery.delivery_tag, nack).await.unwrap();
        }
    }
    channel
        .basic_cancel("dies".into(), lapin::options::BasicCancelOptions::default())
        .await
        .unwrap();
    while depth(channel, DEAD).await < count {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn depth(channel: &Channel, queue: &str) -> u32 {
    let passive = QueueDeclareOptions {
        passive: true,
        ..QueueDeclareOptions::default()
    };
    let found = channel.queue_declare(ShortString::from(queue), passive, FieldTable::default());
    found.await.unwrap().message_count()
}

async fn delete(channel: &Channel, queues: &[&str]) {
    for queue in queues {
        let options = QueueDeleteOptions::default();
        channel.queue_delete(ShortString::from(*queue), options).await.unwrap();
    }
}
