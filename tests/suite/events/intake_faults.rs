//! Faults while messages come in: nothing that was published is lost, and nothing old overwrites what is newer.

use serde_json::{Value, json};

use super::hall::{BOUND, Hall, QUEUE, events};
use crate::support::daemon::Daemon;
use crate::support::relay::{Relay, Trap};
use crate::support::servers::{PrivatePostgres, PrivateRabbit};
use crate::support::wait::wait_until;

/// `basic.ack` on the wire.
const ACK: &[u8] = b"\x00\x3c\x00\x50";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_dies_between_commit_and_ack_finds_its_events_when_the_messages_come_again() {
    let mut hall = Hall::rabbit().await;
    let node = hall.vhost.as_ref().unwrap().node.amqp.clone();
    let relay = Relay::to(&node).await;
    hall.installation.set("broker", "url", relay.through(&node));
    let mut daemon = hall.installation.daemon().await;
    wait_until("the queue", BOUND, async || hall.waiting().await).await;
    relay.silence_at(Trap::Before(ACK));
    hall.publish(&[
        ("person.new", "{\"id\": \"a\", \"v\": 1}".to_owned()),
        (
            "person.new",
            "{\"id\": \"dated\", \"nbf\": \"2100-01-01T00:00:00Z\"}".to_owned(),
        ),
        ("person.new", "not JSON".to_owned()),
    ])
    .await;
    wait_until("an ack that is held back", BOUND, async || {
        relay.is_silent().then_some(())
    })
    .await;
    let committed = events(&daemon, "hr").await.len();
    assert!(committed > 0, "the commit was before the ack");
    daemon.kill().await;
    drop(relay);
    hall.installation.set("broker", "url", node);
    let daemon = hall.installation.daemon().await;
    hall.taken_in().await;
    let found = events(&daemon, "hr").await;
    assert_eq!(found.len(), 3, "each once: {found:?}");
    let event = found.iter().find(|event| event["reference"] == "a").unwrap();
    assert_eq!(event["revision"], 2, "it was pushed again, and coalesced");
    assert!(event["reason"].as_str().unwrap().contains("came again"), "{event}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_dies_in_the_middle_of_a_batch_loses_none_of_it() {
    let mut hall = Hall::servers().await;
    let url = hall.database.as_ref().unwrap().url();
    let relay = Relay::to(&url).await;
    hall.installation.set("store", "url", relay.through(&url));
    let mut daemon = hall.installation.daemon().await;
    wait_until("the queue", BOUND, async || hall.waiting().await).await;
    hall.stream(0, 50).await;
    hall.taken_in().await;
    relay.silence_at(Trap::Before(b"COMMIT"));
    hall.stream(50, 250).await;
    wait_until("a commit that is held back", BOUND, async || {
        relay.is_silent().then_some(())
    })
    .await;
    daemon.kill().await;
    assert!(hall.waiting().await.unwrap() > 0, "nothing is acked before its commit");
    drop(relay);
    hall.installation.set("store", "url", url);
    let daemon = hall.installation.daemon().await;
    hall.taken_in().await;
    hall.assert_last_versions(&daemon, 250).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_in_a_stream_of_messages_lose_none_and_leave_the_newest() {
    let hall = Hall::servers().await;
    let mut daemon = hall.installation.daemon().await;
    let faults = async {
        for _ in 0..3 {
            wait_until("messages in hand", BOUND, async || {
                hall.waiting().await.filter(|waiting| *waiting > 0)
            })
            .await;
            daemon.kill().await;
            daemon = hall.installation.daemon().await;
        }
    };
    tokio::join!(hall.stream(0, 6_000), faults);
    hall.taken_in().await;
    hall.assert_last_versions(&daemon, 6_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_goes_away_and_comes_back_loses_nothing_and_nobody_lends_a_hand() {
    let postgres = PrivatePostgres::start().await;
    let hall = Hall::on_postgres(&postgres.url, None).await;
    let mut daemon = hall.installation.daemon().await;
    hall.stream(0, 500).await;
    hall.taken_in().await;
    postgres.stop().await;
    hall.stream(500, 1_500).await;
    assert_eq!(hall.waiting().await, Some(1_000), "what is not committed is not acked");
    postgres.start_again().await;
    hall.taken_in().await;
    let running = async {
        hall.stream(1_500, 4_000).await;
    };
    let faults = async {
        postgres.kill().await;
        postgres.start_again().await;
    };
    tokio::join!(running, faults);
    hall.taken_in().await;
    assert!(daemon.exited().is_none(), "{}", daemon.log());
    daemon.wait_until_ready().await;
    hall.assert_last_versions(&daemon, 4_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_is_killed_and_comes_back_loses_nothing_that_it_confirmed() {
    let rabbit = PrivateRabbit::start().await;
    let hall = Hall::on(&rabbit.address).await;
    let mut daemon = hall.installation.daemon().await;
    hall.stream(0, 500).await;
    rabbit.kill().await;
    rabbit.start_again().await;
    hall.stream(500, 1_000).await;
    hall.taken_in().await;
    assert!(daemon.exited().is_none(), "{}", daemon.log());
    hall.assert_last_versions(&daemon, 1_000).await;
}

/// So many events. What the broker counts of a quorum queue is late.
async fn at_least(daemon: &Daemon, count: usize) -> Vec<Value> {
    wait_until(format!("{count} events"), BOUND, async || {
        Some(events(daemon, "hr").await).filter(|found| found.len() >= count)
    })
    .await
}

/// RabbitMQ 3.10 lets such a queue drop what it gets back once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_drops_what_comes_back_loses_nothing_to_a_daemon_that_reads_and_stops() {
    const MESSAGES: u32 = 900;
    let hall = Hall::rabbit().await;
    let vhost = hall.vhost.as_ref().unwrap();
    let path = format!("/api/queues/{}/{QUEUE}", vhost.name);
    let arguments = json!({ "x-queue-type": "quorum", "x-delivery-limit": 0 });
    let wanted = json!({ "durable": true, "arguments": arguments });
    vhost.manage("PUT", &path, Some(&wanted)).await;
    // It binds the queue.
    let mut daemon = hall.installation.daemon().await;
    hall.stream(0, 1).await;
    assert_eq!(daemon.stop().await, Some(0));
    let message = |id: u32| ("person.new", format!("{{\"id\": \"m{id}\"}}"));
    for from in (0..MESSAGES).step_by(300) {
        let messages: Vec<_> = (from..from + 300).map(message).collect();
        hall.publish(&messages).await;
    }
    let mut daemon = hall.installation.daemon().await;
    at_least(&daemon, 2).await;
    assert_eq!(daemon.stop().await, Some(0));
    let daemon = hall.installation.daemon().await;
    let found = at_least(&daemon, 901).await;
    let came_again = |event: &&Value| event["reason"].as_str().is_some_and(|why| why.contains("came again"));
    assert_eq!(found.iter().find(came_again), None);
}
