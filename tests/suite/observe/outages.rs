//! Store or broker away: what was read last stays with its time, the reason is told, and it comes back by
//! itself.

use redrive::internals::domain::queue::QueueState;
use redrive::internals::engine::Engine;
use redrive::internals::engine::EngineSettings;

use super::{Watching, queue};
use crate::engine::stage::{Ground, Stage};
use crate::support::servers::{Database, PrivatePostgres, PrivateRabbit, Vhost};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_of_a_broker_that_is_away_stay_with_their_time() {
    let node = PrivateRabbit::start().await;
    let ground = Ground::RabbitPostgres {
        vhost: node.address.vhost().await,
        database: Database::create().await,
    };
    let mut stage = Stage::quiet(ground, no_change).await;
    let watching = watched(&mut stage).await;
    let name = stage.queue("one", "/a");
    let before = watching
        .until("two messages", |snapshot| {
            queue(snapshot, &name).is_some_and(|row| row.ready() == Some(2))
        })
        .await;
    node.stop().await;
    let away = watching
        .until("the broker's problem", |snapshot| snapshot.broker.problem.is_some())
        .await;
    assert_eq!(queue(&away, &name).unwrap().ready(), Some(2));
    assert!(away.broker.taken_at >= before.broker.taken_at && away.broker.taken_at < Some(away.taken_at));
    assert_eq!((away.totals.waiting, &away.store.problem), (Some(2), &None));
    assert!(away.store.taken_at > away.broker.taken_at);
    let later = watching.next().await;
    assert_eq!(later.broker.taken_at, away.broker.taken_at, "nothing was read since");
    node.start_again().await;
    let back = watching
        .until("the broker again", |snapshot| {
            snapshot.broker.problem.is_none() && queue(snapshot, &name).is_some_and(|row| row.ready() == Some(2))
        })
        .await;
    assert!(back.broker.taken_at > later.broker.taken_at);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_a_store_that_is_away_stay_and_are_counted_on() {
    let server = PrivatePostgres::start().await;
    let ground = Ground::RabbitPostgres {
        vhost: Vhost::create().await,
        database: Database::create_on(&server.url).await,
    };
    let mut stage = Stage::quiet(ground, no_change).await;
    let watching = watched(&mut stage).await;
    let name = stage.queue("one", "/a");
    watching
        .until("the queue with its URL", |snapshot| {
            queue(snapshot, &name).is_some_and(|row| row.ready() == Some(2) && row.url.is_some())
        })
        .await;
    server.stop().await;
    watching
        .until("the store's problem", |snapshot| snapshot.store.problem.is_some())
        .await;
    stage.broker.publish(&name, &message()).await.unwrap();
    let away = watching
        .until("what the broker has now", |snapshot| {
            snapshot.store.problem.is_some() && queue(snapshot, &name).is_some_and(|row| row.ready() == Some(3))
        })
        .await;
    let row = queue(&away, &name).unwrap();
    assert_eq!((row.state, row.url.is_some()), (Some(QueueState::Unowned), true));
    assert!(away.broker.problem.is_none() && away.store.taken_at < away.broker.taken_at);
    assert_eq!(away.endpoints.len(), 1);
    server.start_again().await;
    watching
        .until("the store again", |snapshot| snapshot.store.problem.is_none())
        .await;
}

fn no_change(_: &mut EngineSettings) {}

/// Two messages of one queue that nobody delivers.
async fn watched(stage: &mut Stage) -> Watching {
    let engine: &Engine = &stage.engine;
    let watching = Watching::of(engine);
    stage.publish_many("one", "/a", 2).await;
    watching
}

fn message() -> redrive::internals::domain::message::Message {
    redrive::internals::domain::message::Message::default()
}
