//! Rule 6: the broker closes every connection in the middle of deliveries.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::engine::stage::{BOUND, Ground, Stage};
use crate::support::receiver::Behaviour;
use crate::support::wait::wait_until;

/// Requests answered fast before each loss; those after them wait for it.
const FAST: usize = 200;

/// The receiver becomes slow when much was delivered and the connections are not closed yet, however long the
/// command that closes them takes to start. Answers how many requests may be fast.
fn deliver_slowly_beyond(stage: &Stage) -> Arc<AtomicUsize> {
    let (fast, seen) = (Arc::new(AtomicUsize::new(FAST)), AtomicUsize::new(0));
    let allowed = Arc::clone(&fast);
    stage.receiver.behave_by("*", move |_| {
        let seen = seen.fetch_add(1, Ordering::SeqCst);
        let is_fast = seen < allowed.load(Ordering::SeqCst);
        Behaviour::Status(200).after(Duration::from_millis(if is_fast { 60 } else { 2_000 }))
    });
    fast
}

async fn connections_are_closed(prefetch: u16) {
    let mut stage = Stage::quiet(Ground::rabbit_sqlite().await, |settings| {
        settings.prefetch = prefetch;
        settings.request_timeout = Duration::from_secs(10);
        settings.take_over = Duration::from_secs(40);
    })
    .await;
    let fast = deliver_slowly_beyond(&stage);
    for n in 0..10 {
        stage.publish_many(&format!("e{n}"), &format!("/{n}"), 80).await;
    }
    stage.start();
    stage.delivered(20).await;
    let vhost = stage.ground.rabbit();
    for closed in 1..=2 {
        let before = stage.receiver.delivered();
        let arguments = ["close_all_connections", "--vhost", vhost.name.as_str(), "a test"];
        vhost.node.control(&arguments).await;
        stage.history.faults_of_all = closed;
        assert!(
            stage.receiver.delivered() < 800,
            "the connections were closed too late to disturb anything"
        );
        fast.fetch_add(FAST, Ordering::SeqCst);
        wait_until("deliveries after the loss", BOUND, async || {
            (stage.receiver.delivered() > before + 20).then_some(())
        })
        .await;
    }
    fast.store(usize::MAX, Ordering::SeqCst);
    stage.delivered(800).await;
    stage.stop().await;
    stage.assert_kept();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_connections_repeat_at_most_the_message_in_hand_of_each_queue() {
    connections_are_closed(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_connections_repeat_at_most_prefetch_messages_of_each_queue() {
    connections_are_closed(8).await;
}

/// The request is under way when the connection is lost: its 2xx is remembered, and the message that comes
/// again is acked without a second request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_answered_while_the_connection_was_lost_is_not_sent_again() {
    let mut stage = Stage::on(Ground::rabbit_sqlite().await, |settings| {
        settings.request_timeout = Duration::from_mins(1);
        settings.take_over = Duration::from_mins(4);
    })
    .await;
    let closed = CancellationToken::new();
    stage.receiver.behave_by("/slow", {
        let closed = closed.clone();
        move |attempt| match attempt.earlier {
            0 => Behaviour::Status(200).once(&closed),
            _ => Behaviour::Status(200),
        }
    });
    stage.publish_many("a", "/slow", 3).await;
    wait_until("the request", BOUND, async || {
        (stage.receiver.count() == 1).then_some(())
    })
    .await;
    let vhost = stage.ground.rabbit();
    let arguments = ["close_all_connections", "--vhost", vhost.name.as_str(), "a test"];
    vhost.node.control(&arguments).await;
    assert_eq!(stage.receiver.delivered(), 0, "it is not answered yet");
    closed.cancel();
    stage.delivered(3).await;
    stage.queue_is("a", "/slow", "empty").await;
    stage.stop().await;
    assert_eq!(stage.receiver.count(), 3);
    stage.assert_kept();
}
