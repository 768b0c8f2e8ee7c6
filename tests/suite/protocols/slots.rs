//! Rule 16: slots before workers, and a turn for everybody.

use std::time::Duration;

use crate::engine::stage::{BOUND, Ground, Stage, notification};
use crate::support::checker::Publish;
use crate::support::receiver::{Attempt, Behaviour};
use crate::support::wait::wait_until;

/// The most requests open at once.
pub(super) fn at_once(attempts: &[Attempt]) -> i64 {
    let mut moments: Vec<(u64, i64)> = attempts
        .iter()
        .flat_map(|attempt| [(attempt.start, 1), (attempt.end.unwrap_or(u64::MAX), -1)])
        .collect();
    moments.sort_unstable();
    let mut open = 0;
    moments
        .iter()
        .map(|(_, step)| {
            open += step;
            open
        })
        .max()
        .unwrap_or(0)
}

async fn never_more_than_three(ground: Ground) {
    let mut stage = Stage::on(ground, |settings| settings.in_flight_per_endpoint = 3).await;
    stage
        .receiver
        .behave("/slow", Behaviour::Status(200).after(Duration::from_millis(40)));
    for _ in 0..5 {
        for n in 0..10 {
            stage.publish(&format!("e{n}"), "/slow").await;
        }
    }
    stage.delivered(50).await;
    let most = at_once(&stage.receiver.attempts_of("/slow"));
    assert!((2..=3).contains(&most), "{most} requests at once");
    stage.stop().await;
    stage.assert_kept();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_requests_than_allowed_are_open_to_one_url() {
    never_more_than_three(Ground::rabbit_sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_requests_than_allowed_are_open_to_one_url_with_the_embedded_broker() {
    never_more_than_three(Ground::embedded()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_url_that_does_not_answer_gets_one_request_at_a_time() {
    let mut stage = Stage::on(Ground::rabbit_sqlite().await, |settings| {
        settings.in_flight_per_endpoint = 8;
        settings.request_timeout = Duration::from_secs(1);
    })
    .await;
    stage.receiver.behave("/never", Behaviour::Never);
    for n in 0..8 {
        stage.publish(&format!("e{n}"), "/never").await;
    }
    wait_until("four attempts", BOUND, async || {
        (stage.receiver.count() >= 4).then_some(())
    })
    .await;
    assert_eq!(at_once(&stage.receiver.attempts_of("/never")), 1);
    stage.receiver.behave("/never", Behaviour::Status(200));
    stage.delivered(8).await;
    stage.stop().await;
    stage.assert_kept();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_queue_gets_its_turn_while_others_have_long_backlogs() {
    let mut stage = Stage::quiet(Ground::rabbit_sqlite().await, |settings| settings.workers = 2).await;
    stage
        .receiver
        .behave("/busy", Behaviour::Status(200).after(Duration::from_millis(5)));
    let (engine, url) = (stage.engine.clone(), stage.url("/busy"));
    let backlogs = ["a", "b"].map(|execution| {
        let (engine, url) = (engine.clone(), url.clone());
        async move {
            let mut published = Vec::new();
            for number in 1..=1_500 {
                let body = number.to_string();
                let receipt = engine
                    .publish(notification(execution, url.clone(), number, &body))
                    .await
                    .unwrap();
                published.push((receipt, body));
            }
            published
        }
    });
    for (receipt, body) in futures_util::future::join_all(backlogs).await.into_iter().flatten() {
        let (queue, id) = (receipt.queue.as_str(), receipt.id.as_str());
        stage.history.publish(queue, id, body.as_bytes(), Publish::Confirmed);
    }
    stage.start();
    stage.delivered(50).await;
    stage.publish("c", "/busy").await;
    stage.publish("d", "/ok").await;
    wait_until("the queues that came later", BOUND, async || {
        let attempts = stage.receiver.attempts();
        let both = [b"c /busy 1".as_slice(), b"d /ok 1"]
            .iter()
            .all(|body| attempts.iter().any(|one| one.body == *body));
        both.then_some(())
    })
    .await;
    let done = stage.receiver.delivered();
    let attempts = stage.receiver.attempts();
    let place = |body: &[u8]| attempts.iter().position(|one| one.body == body);
    let (c, d) = (place(b"c /busy 1"), place(b"d /ok 1"));
    assert!(
        done < 2_500,
        "they waited for the backlogs: {done} were delivered first ({c:?}, {d:?})"
    );
    stage.delivered(3_002).await;
    stage.stop().await;
    stage.assert_kept();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_swift_url_has_more_queues_at_work_than_requests_and_they_go_back_when_it_hangs() {
    let mut stage = Stage::quiet(Ground::embedded(), |settings| {
        settings.in_flight_per_endpoint = 2;
        settings.request_timeout = Duration::from_secs(10);
        settings.take_over = Duration::from_mins(2);
    })
    .await;
    stage
        .receiver
        .behave("/swift", Behaviour::Status(200).after(Duration::from_millis(4)));
    for n in 0..6 {
        stage.publish_many(&format!("e{n}"), "/swift", 150).await;
    }
    let held = "SELECT count(*) FROM delivery_queues WHERE owner IS NOT NULL";
    stage.start();
    wait_until("more queues at work than requests", BOUND, async || {
        (stage.count(held).await > 2).then_some(())
    })
    .await;
    stage.receiver.behave("/swift", Behaviour::Never);
    wait_until(
        "two requests that hang, and nobody waiting behind them",
        BOUND,
        async || (stage.count(held).await == 2).then_some(()),
    )
    .await;
    assert!(at_once(&stage.receiver.attempts_of("/swift")) <= 2);
    stage.receiver.behave("/swift", Behaviour::Status(200));
    stage.restart(|_| {}).await;
    stage.delivered(6 * 150).await;
    stage.stop().await;
    stage.assert_kept();
}
