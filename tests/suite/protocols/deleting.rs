//! Rules 8 and 11, and the deletion of idle queues: a queue that is deleted takes nothing along.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use redrive::internals::broker::Look;
use redrive::internals::domain::id::{ExecutionId, QueueName};
use redrive::internals::domain::naming::QueueType;
use redrive::internals::domain::queue::Closing;
use redrive::internals::engine::{Ended, Event};
use redrive::internals::store::QueueMark;

use super::behind::Behind;
use super::lease_of;
use super::life::Life;
use crate::engine::stage::{BOUND, Ground, Stage, notification};
use crate::support::checker::Publish;
use crate::support::receiver::{Attempt, Behaviour};
use crate::support::wait::{at_moment, wait_until};

/// What one publisher was told: (queue, id, body) of each confirmed notification, in order.
type Confirmed = Vec<(String, String, String)>;

/// How long may be raced for enough deletions.
const RACE_MAX: Duration = Duration::from_mins(3);

/// What is raced for.
struct Wanted {
    /// Each execution publishes at least so often.
    rounds: u32,
    deletions: usize,
    deleted: Arc<AtomicUsize>,
    begun: Instant,
}

impl Wanted {
    fn is_met(&self, round: u32) -> bool {
        let enough = self.deleted.load(Ordering::SeqCst) >= self.deletions;
        round >= self.rounds && (enough || self.begun.elapsed() > RACE_MAX)
    }
}

/// Publishes, ends, and publishes again at moments spread over the time that a deletion takes; later ones
/// when the machine is too busy for deletions to come to their end.
async fn race(stage: &Stage, execution: String, wanted: &Wanted, seed: u64) -> Confirmed {
    let (engine, url) = (stage.engine.clone(), stage.url("/ok"));
    let mut confirmed = Vec::new();
    for round in (0..).take_while(|round| !wanted.is_met(*round)) {
        let body = format!("{execution} {round}");
        let receipt = engine
            .publish(notification(&execution, url.clone(), round, &body))
            .await
            .unwrap();
        confirmed.push((receipt.queue.as_str().to_owned(), receipt.id.as_str().to_owned(), body));
        engine
            .end(ExecutionId::parse(&execution).unwrap(), url.clone())
            .await
            .unwrap();
        // The gaps of a deletion: taken, unbound, a second later looked at, deleted.
        let moment = 900 + (seed * 7_919 + u64::from(round) * 104_729) % 700;
        let later = 200 * u64::from(round.saturating_sub(wanted.rounds));
        at_moment(Duration::from_millis(moment + later)).await;
    }
    confirmed
}

/// What was confirmed and not delivered, each with what its queue is like.
async fn missing(stage: &Stage) -> Vec<String> {
    let attempts = stage.receiver.attempts();
    let delivered: HashSet<&str> = attempts.iter().map(Attempt::id).collect();
    let mut missing = Vec::new();
    for published in &stage.history.published {
        if !delivered.contains(published.id.as_str()) {
            let queue = QueueName::parse(&published.queue).unwrap();
            let look = stage.broker.look(&queue).await.unwrap();
            missing.push(format!(
                "{} of {}: {look:?}, {:?}",
                published.id,
                published.queue,
                stage
                    .store
                    .queue_get(&queue)
                    .await
                    .unwrap()
                    .map(|row| (row.closing, row.owner))
            ));
        }
    }
    missing
}

async fn nothing_is_lost(queue_type: QueueType, executions: u64, rounds: u32) {
    let mut stage = Stage::on(Ground::rabbit_sqlite().await, |settings| {
        settings.naming.queue_type = queue_type;
        settings.linger = Duration::from_millis(200);
        settings.workers = 128;
        settings.in_flight_per_endpoint = 128;
    })
    .await;
    let least = usize::try_from(executions).unwrap() * rounds as usize;
    let wanted = Wanted {
        rounds,
        deletions: least / 4,
        deleted: Arc::new(AtomicUsize::new(0)),
        begun: Instant::now(),
    };
    let (mut events, counted) = (stage.engine.events(), Arc::clone(&wanted.deleted));
    let counting = tokio::spawn(async move {
        loop {
            match events.recv().await {
                Ok(Event::QueueEnded(_)) => {
                    counted.fetch_add(1, Ordering::SeqCst);
                }
                Ok(_) | Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => {}
                Err(tokio::sync::broadcast::error::RecvError::Closed) => return,
            }
        }
    });
    let racing = (0..executions).map(|n| race(&stage, format!("e{n}"), &wanted, n));
    let confirmed: Vec<Confirmed> = futures_util::future::join_all(racing).await;
    let mut total = 0;
    for (queue, id, body) in confirmed.into_iter().flatten() {
        stage.history.publish(&queue, &id, body.as_bytes(), Publish::Confirmed);
        total += 1;
    }
    assert!(total >= least, "{total} publishes");
    let settled = async || {
        let missing = missing(&stage).await;
        (missing.is_empty() || !missing.iter().any(|one| one.contains("Present"))).then_some(missing)
    };
    let lost = wait_until("nothing to be late", BOUND * 2, settled).await;
    assert!(lost.is_empty(), "{} lost: {lost:#?}", lost.len());
    let deleted = wanted.deleted.load(Ordering::SeqCst);
    assert!(
        deleted >= wanted.deletions,
        "too few races: {deleted} deletions among {total} publishes"
    );
    let names: HashSet<String> = stage.history.published.iter().map(|one| one.queue.clone()).collect();
    wait_until("every ended queue to be gone", BOUND, async || {
        for name in &names {
            let queue = QueueName::parse(name).unwrap();
            if stage.broker.look(&queue).await.unwrap() != Look::Missing {
                return None;
            }
        }
        Some(())
    })
    .await;
    counting.abort();
    stage.stop().await;
    stage.assert_kept();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn six_hundred_publishes_racing_with_deletions_of_classic_queues_lose_nothing() {
    nothing_is_lost(QueueType::Classic, 100, 6).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_publishes_racing_with_deletions_of_quorum_queues_lose_nothing() {
    nothing_is_lost(QueueType::Quorum, 25, 4).await;
}

/// The row says *closing* and the queue is unbound: what a crash in the second before the delete leaves.
async fn closing_left_by_a_crash(stage: &mut Stage) {
    stage.publish("a", "/ok").await;
    let queue = stage.queue("a", "/ok");
    let (incarnation, lease) = lease_of(stage, &queue).await;
    let mark = QueueMark::Closing(Closing::Closing);
    assert!(stage.store.queue_mark(&queue, lease.epoch, mark).await.unwrap());
    stage.broker.unbind(&queue).await.unwrap();
    stage.store.incarnation_end(incarnation).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_a_crash_left_unbound_takes_publishes_again_and_loses_nothing() {
    let mut stage = Stage::quiet(Ground::rabbit_sqlite().await, |_| {}).await;
    closing_left_by_a_crash(&mut stage).await;
    stage.start();
    stage.publish("a", "/ok").await;
    stage.delivered(2).await;
    stage.stop().await;
    stage.assert_kept();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_that_a_crash_interrupted_is_finished_by_the_next_daemon() {
    let mut stage = Stage::quiet(Ground::rabbit_sqlite().await, |_| {}).await;
    let mut events = stage.engine.events();
    let queue = stage.queue("a", "/ok");
    let life = Life::start(&stage);
    stage.publish("a", "/ok").await;
    stage.delivered(1).await;
    stage
        .engine
        .end(ExecutionId::parse("a").unwrap(), stage.url("/ok"))
        .await
        .unwrap();
    wait_until("the deletion to begin", BOUND, async || {
        let row = stage.store.queue_get(&queue).await.unwrap();
        row.is_some_and(|row| row.closing == Closing::Closing).then_some(())
    })
    .await;
    life.crash();
    assert!(
        matches!(stage.broker.look(&queue).await.unwrap(), Look::Present { .. }),
        "died too late"
    );
    assert!(events.try_recv().is_err());
    stage.start();
    wait_until("the queue to be gone", BOUND, async || {
        (stage.broker.look(&queue).await.unwrap() == Look::Missing).then_some(())
    })
    .await;
    stage.publish("a", "/ok").await;
    stage.delivered(2).await;
    stage.stop().await;
    stage.history.faults_of_all = 1;
    stage.assert_kept();
}

/// The end mark's ack is lost with a connection: the queue is not empty when it is looked at, because the mark is in it
/// again, and that is no rerun.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_mark_whose_ack_was_lost_ends_its_queue_when_it_comes_again() {
    let mut stage = Stage::quiet(Ground::rabbit_sqlite().await, |_| {}).await;
    let daemon = Behind::start(&stage).await;
    daemon.broker.heal();
    stage.publish("a", "/ok").await;
    stage.delivered(1).await;
    stage.queue_is("a", "/ok", "empty").await;
    daemon.broker.lose_acks(1);
    let ended = stage
        .engine
        .end(ExecutionId::parse("a").unwrap(), stage.url("/ok"))
        .await
        .unwrap();
    assert!(matches!(ended, Ended::Marked(_)));
    let queue = stage.queue("a", "/ok");
    wait_until("the queue to be gone", BOUND, async || {
        (stage.broker.look(&queue).await.unwrap() == Look::Missing).then_some(())
    })
    .await;
    assert_eq!(daemon.broker.lost_acks(), 1);
    daemon.stop().await;
    stage.assert_kept();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_behind_an_end_mark_make_it_a_rerun_at_a_higher_prefetch_too() {
    let mut stage = Stage::quiet(Ground::rabbit_sqlite().await, |settings| settings.prefetch = 8).await;
    stage.publish_many("a", "/ok", 3).await;
    let ended = stage
        .engine
        .end(ExecutionId::parse("a").unwrap(), stage.url("/ok"))
        .await
        .unwrap();
    assert!(matches!(ended, Ended::Marked(_)));
    stage.publish_many("a", "/ok", 3).await;
    stage.start();
    stage.delivered(6).await;
    stage.queue_is("a", "/ok", "empty").await;
    assert!(matches!(
        stage.broker.look(&stage.queue("a", "/ok")).await.unwrap(),
        Look::Present { .. }
    ));
    stage.stop().await;
    stage.assert_kept();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_mark_for_a_queue_that_does_not_exist_creates_nothing() {
    let stage = Stage::quiet(Ground::rabbit_sqlite().await, |_| {}).await;
    let ended = stage
        .engine
        .end(ExecutionId::parse("a").unwrap(), stage.url("/ok"))
        .await
        .unwrap();
    assert!(matches!(ended, Ended::NoQueue(_)));
    assert_eq!(
        stage.broker.look(&stage.queue("a", "/ok")).await.unwrap(),
        Look::Missing
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_nobody_uses_is_deleted_after_its_idle_time_and_a_waiting_one_is_not() {
    let mut stage = Stage::on(Ground::rabbit_sqlite().await, |settings| {
        settings.idle_queue_ttl = Duration::from_secs(2);
    })
    .await;
    stage.receiver.behave("/down", Behaviour::retry_after(503, "3600"));
    stage.publish("waits", "/down").await;
    stage.publish("idle", "/ok").await;
    stage.delivered(1).await;
    let (idle, waits) = (stage.queue("idle", "/ok"), stage.queue("waits", "/down"));
    // Idle queues are looked for every thirty seconds.
    wait_until("the idle queue to be gone", BOUND * 2, async || {
        (stage.broker.look(&idle).await.unwrap() == Look::Missing).then_some(())
    })
    .await;
    assert!(matches!(
        stage.broker.look(&waits).await.unwrap(),
        Look::Present { ready: 1, .. }
    ));
    stage.publish("idle", "/ok").await;
    stage.delivered(2).await;
    stage.receiver.behave("/down", Behaviour::Status(200));
    stage
        .execute(redrive::internals::engine::Command::Redeliver(
            redrive::internals::engine::RedeliverTarget::All,
        ))
        .await;
    stage.delivered(3).await;
    stage.stop().await;
    stage.assert_kept();
}
