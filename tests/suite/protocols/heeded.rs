//! Rule 33: whom a policy that destroys concerns, and how soon: queues with a request in hand, many queues at once,
//! our exchange, patterns that only the broker understands.

use std::time::Duration;

use redrive::internals::broker::{Look, Published};
use redrive::internals::domain::id::{ExecutionId, QueueName};
use redrive::internals::domain::message::Message;
use redrive::internals::domain::queue::QueueState;
use redrive::internals::engine::Command;
use redrive::internals::engine::query;
use redrive::internals::store::LearnedQueue;
use serde_json::json;
use tokio::task::JoinSet;

use super::rules::{HEEDED, HEEDED_WITHOUT_EVENTS, is_refusing, policy, policy_for, policy_on, refused};
use crate::engine::stage::{BOUND, Ground, Stage, notification};
use crate::support::receiver::Behaviour;
use crate::support::wait::{stays_absent, wait_until};

const DESTROYS: fn() -> Option<serde_json::Value> = || Some(json!({"expires": 3_600_000}));

/// A receiver that never answers, and the longest time to wait for one.
async fn hanging(ground: Ground) -> Stage {
    let stage = Stage::on(ground, |settings| {
        settings.request_timeout = Duration::from_secs(15);
        settings.take_over = Duration::from_mins(1);
    })
    .await;
    stage.receiver.behave("/hangs", Behaviour::Never);
    stage
}

async fn in_hand(stage: &Stage, count: usize) {
    wait_until(format!("{count} requests in hand"), BOUND, async || {
        (stage.receiver.attempts_of("/hangs").len() == count).then_some(())
    })
    .await;
}

/// As a publisher of its own would: what comes back is not taken.
async fn foreign_publish(stage: &Stage, queue: &QueueName) -> Published {
    let message = Message {
        body: bytes::Bytes::from_static(b"foreign"),
        ..Message::default()
    };
    stage.broker.publish(queue, &message).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_whose_request_hangs_refuses_as_soon_as_any_other_and_keeps_its_worker() {
    let mut stage = hanging(Ground::rabbit_sqlite().await).await;
    stage.publish("a", "/hangs").await;
    in_hand(&stage, 1).await;
    let queue = stage.queue("a", "/hangs");
    policy(&stage, DESTROYS()).await;
    wait_until(
        "the queue to return what a foreign publisher sends",
        HEEDED,
        async || (foreign_publish(&stage, &queue).await == Published::Returned).then_some(()),
    )
    .await;
    wait_until("the queue to be marked", HEEDED, async || {
        is_refusing(&stage, "a", "/hangs").await.then_some(())
    })
    .await;
    let why = refused(&stage, "a", "/hangs").await;
    assert!(why.contains("meddling") && why.contains("expires"), "{why}");
    policy(&stage, None).await;
    wait_until("the queue to take publishes again", HEEDED, async || {
        let new = notification("a", stage.url("/hangs"), 2, "taken again");
        stage.engine.publish(new).await.ok().map(drop)
    })
    .await;
    assert_eq!(
        stage.receiver.attempts_of("/hangs").len(),
        1,
        "the request is still in hand"
    );
    stage.receiver.behave("/hangs", Behaviour::Status(200));
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn to_a_new_exchange_queues_with_a_request_in_hand_are_bound_at_once() {
    let mut stage = hanging(Ground::rabbit_sqlite().await).await;
    for execution in ["a", "b", "c"] {
        stage.publish(execution, "/hangs").await;
    }
    in_hand(&stage, 3).await;
    let (vhost, exchange) = (stage.ground.rabbit(), stage.settings.naming.exchange());
    let path = format!("/api/exchanges/{}/{exchange}", vhost.name);
    vhost.manage("DELETE", &path, None).await;
    for execution in ["a", "b", "c"] {
        wait_until(
            format!("the queue of {execution} to be bound"),
            HEEDED * 2,
            async || {
                let new = notification(execution, stage.url("/hangs"), 2, "taken again");
                stage.engine.publish(new).await.ok().map(drop)
            },
        )
        .await;
    }
    assert_eq!(
        stage.receiver.attempts_of("/hangs").len(),
        3,
        "the requests are still in hand"
    );
    stage.receiver.behave("/hangs", Behaviour::Status(200));
    stage.stop().await;
}

/// Beside other tests on two processors; a thousand take as long alone.
const MANY: usize = 300;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_queues_that_wait_are_heeded_as_soon_as_one_with_sqlite() {
    many(Ground::rabbit_sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_queues_that_wait_are_heeded_as_soon_as_one_with_postgresql() {
    many(Ground::rabbit_postgres().await).await;
}

async fn many(ground: Ground) {
    let mut stage = Stage::on(ground, |_| {}).await;
    stage.publish("first", "/disabled").await;
    stage.delivered(1).await;
    stage.execute(Command::DisableEndpoint(stage.url("/disabled"))).await;
    let learned: Vec<LearnedQueue> = (0..MANY)
        .map(|number| {
            let execution = format!("run-{number}");
            LearnedQueue {
                name: stage.queue(&execution, "/disabled"),
                execution: ExecutionId::parse(&execution).unwrap(),
                url: stage.url("/disabled"),
            }
        })
        .collect();
    stage.store.queues_learn(&learned).await.unwrap();
    let mut making = JoinSet::new();
    for part in learned.chunks(MANY / 4) {
        let (place, naming, part) = (stage.ground.place(), stage.settings.naming.clone(), part.to_vec());
        making.spawn(async move {
            let (_, broker) = place.open(&naming).await;
            for queue in part {
                broker.create(&queue.name).await.unwrap();
            }
            broker.close().await;
        });
    }
    making.join_all().await;
    let last = &learned.last().unwrap().name;
    assert_eq!(foreign_publish(&stage, last).await, Published::Accepted);
    policy(&stage, DESTROYS()).await;
    // Less than until the policies are read anyway.
    wait_until("all to be unbound and marked", HEEDED * 3, async || {
        let rows = stage
            .store
            .queues_page(&redrive::internals::store::QueueQuery::first(1_000))
            .await;
        rows.unwrap().iter().all(|row| row.refusing.is_some()).then_some(())
    })
    .await;
    for queue in [&learned[0].name, last] {
        assert_eq!(foreign_publish(&stage, queue).await, Published::Returned);
    }
    policy(&stage, None).await;
    stage.stop().await;
}

/// What nothing on our exchange takes goes to a queue of somebody else.
async fn alternate(stage: &Stage, apply_to: &str) {
    let vhost = stage.ground.rabbit();
    let name = &vhost.name;
    let durable = json!({"durable": true, "type": "fanout"});
    vhost
        .manage("PUT", &format!("/api/exchanges/{name}/elsewhere"), Some(&durable))
        .await;
    vhost
        .manage(
            "PUT",
            &format!("/api/queues/{name}/elsewhere"),
            Some(&json!({"durable": true})),
        )
        .await;
    let binding = format!("/api/bindings/{name}/e/elsewhere/q/elsewhere");
    vhost.manage("POST", &binding, Some(&json!({}))).await;
    let definition = json!({"alternate-exchange": "elsewhere"});
    policy_for(stage, "^redrive\\.", apply_to, Some(definition)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_a_policy_gives_our_exchange_an_alternate_nothing_is_published_or_dead_lettered() {
    let mut stage = Stage::on(Ground::rabbit_sqlite().await, |_| {}).await;
    stage.publish("a", "/ok").await;
    stage.delivered(1).await;
    alternate(&stage, "exchanges").await;
    let degraded = wait_until("readiness to tell it", HEEDED, async || {
        let Ok(ready) = stage.engine.query(query::IsReady()).await else {
            return None;
        };
        ready.degraded.into_iter().find(|one| one.part == "publishing")
    })
    .await;
    assert!(degraded.problem.contains("meddling"), "{degraded:?}");
    for execution in ["a", "new"] {
        let why = refused(&stage, execution, "/ok").await;
        assert!(why.contains("meddling") && why.contains("alternate-exchange"), "{why}");
    }
    let Ok(checks) = stage.engine.query(query::Doctor()).await else {
        panic!("no answer of doctor")
    };
    let told = checks
        .iter()
        .find(|check| check.name == "exchange")
        .expect("a check of the exchange");
    assert!(format!("{told:?}").contains("meddling"), "{told:?}");
    // Not a notification: it would be dead-lettered at once.
    let queue = stage.queue("a", "/ok");
    assert_eq!(foreign_publish(&stage, &queue).await, Published::Accepted);
    stage.broker.nudge(&queue).await;
    wait_until("the queue to say why it waits", BOUND, async || {
        let why = stage.queue_view("a", "/ok").await?.why?;
        (why.state == Some(QueueState::Refused) && why.text.contains("would not last")).then_some(why.text)
    })
    .await;
    let dead = QueueName::parse(&stage.settings.naming.dead_letter_queue()).unwrap();
    stays_absent("a dead letter", Duration::from_secs(2), async || {
        let look = stage.broker.look(&dead).await.unwrap();
        (!matches!(look, Look::Present { ready: 0, .. })).then_some(look)
    })
    .await;
    policy(&stage, None).await;
    let letters = stage.dead_letters(1).await;
    assert_eq!(letters[0].body.as_ref(), b"foreign");
    stage.publish("new", "/ok").await;
    stage.delivered(2).await;
    stage.stop().await;
}

/// An exchange that is new is bound although what nothing takes does not come back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_exchange_with_an_alternate_is_bound_like_any_other() {
    let mut stage = Stage::on(Ground::rabbit_sqlite().await, |_| {}).await;
    stage.publish("a", "/ok").await;
    stage.delivered(1).await;
    alternate(&stage, "all").await;
    wait_until("the policy to be heeded", HEEDED, async || {
        let new = notification("a", stage.url("/ok"), 9, "refused");
        stage.engine.publish(new).await.err().map(drop)
    })
    .await;
    let (vhost, exchange) = (stage.ground.rabbit(), stage.settings.naming.exchange());
    let exchange_path = format!("/api/exchanges/{}/{exchange}", vhost.name);
    vhost.manage("DELETE", &exchange_path, None).await;
    let queue = stage.queue("a", "/ok");
    wait_until("the queue to be bound", BOUND, async || {
        let path = format!("/api/queues/{}/{}/bindings", vhost.name, queue.as_str());
        let bindings = vhost.manage("GET", &path, None).await.json();
        let bindings = bindings.as_array()?;
        bindings
            .iter()
            .any(|one| one["source"] == exchange.as_str())
            .then_some(())
    })
    .await;
    stage.stop().await;
}

/// The engine here knows no lookaround, the broker does: the common forms are understood.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_for_everything_but_us_concerns_us_not() {
    let mut stage = Stage::on(Ground::rabbit_sqlite().await, |_| {}).await;
    stage.publish("a", "/ok").await;
    policy_on(&stage, "^(?!redrive\\.).*", DESTROYS()).await;
    known(&stage, "redrive").await;
    stage.publish("a", "/ok").await;
    stage.publish("new", "/ok").await;
    policy_on(&stage, "^(?!amq\\.).*", DESTROYS()).await;
    wait_until("the queue to take no publishes", HEEDED, async || {
        is_refusing(&stage, "a", "/ok").await.then_some(())
    })
    .await;
    assert!(refused(&stage, "later", "/ok").await.contains("not made"));
    policy(&stage, None).await;
    stage.delivered(3).await;
    stage.stop().await;
}

/// Where a pattern is not understood, the broker says which queues it is for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_that_only_the_broker_understands_concerns_the_queues_that_it_says() {
    let mut stage = Stage::on(Ground::rabbit_sqlite().await, |_| {}).await;
    for execution in ["a", "b"] {
        stage.publish(execution, "/ok").await;
    }
    policy_on(&stage, "(?<=orders\\.)x", DESTROYS()).await;
    known(&stage, "orders").await;
    for execution in ["a", "new"] {
        stage.publish(execution, "/ok").await;
    }
    policy_on(&stage, "(?<=redrive\\.)b", DESTROYS()).await;
    // Which policy is in force is among the statistics, which lag.
    wait_until(
        "the queue of b to take no publishes",
        HEEDED_WITHOUT_EVENTS,
        async || is_refusing(&stage, "b", "/ok").await.then_some(()),
    )
    .await;
    assert!(refused(&stage, "b", "/ok").await.contains("meddling"));
    stage.publish("a", "/ok").await;
    assert!(refused(&stage, "later", "/ok").await.contains("not made"));
    policy(&stage, None).await;
    stage.delivered(5).await;
    stage.stop().await;
}

async fn known(stage: &Stage, pattern: &str) {
    wait_until("the policy to be known", HEEDED_WITHOUT_EVENTS, async || {
        let kept = stage.store.broker_policies_kept().await.unwrap()?;
        kept.document.contains(pattern).then_some(())
    })
    .await;
}
