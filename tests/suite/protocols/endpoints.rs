//! Rules 13 to 15: late answers, lost probes, and whose fault a failure is.

use std::time::Duration;

use redrive::internals::domain::id::{ExecutionId, QueueName};
use redrive::internals::domain::policy::{OnExhausted, OnRefused, RetryPolicy};
use redrive::internals::engine::{Command, Done, RedeliverTarget};
use tokio_util::sync::CancellationToken;

use crate::engine::stage::{BOUND, Ground, Stage};
use crate::support::checker::Left;
use crate::support::receiver::Behaviour;
use crate::support::wait::{patient, stays_absent, wait_until};

/// A failure closes the URL at once: nothing is tried again without a delay.
async fn strict() -> Stage {
    Stage::on(Ground::rabbit_sqlite().await, |settings| {
        settings.default_policy.retries_with_no_delay = 0;
        settings.request_timeout = Duration::from_secs(5);
        settings.take_over = Duration::from_secs(30);
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_failure_does_not_close_what_a_person_just_opened() {
    let mut stage = strict().await;
    stage.publish("late", "/hook").await;
    stage.publish("quick", "/hook").await;
    stage.delivered(2).await;
    // The one hangs until after the redeliver; the other closes the URL.
    stage.receiver.behave_by("/hook", |attempt| {
        match (attempt.body.starts_with(b"late"), attempt.earlier) {
            (true, 2..=3) => Behaviour::Status(503).after(Duration::from_secs(3)),
            (false, 2..=3) => Behaviour::retry_after(503, "3600"),
            _ => Behaviour::Status(200),
        }
    });
    stage.publish("late", "/hook").await;
    wait_until("the slow request", BOUND, async || {
        (stage.receiver.count() == 3).then_some(())
    })
    .await;
    stage.publish("quick", "/hook").await;
    stage.endpoint_is("/hook", "unavailable").await;
    assert!(
        stage.receiver.attempts()[2].end.is_none(),
        "the late failure was not late"
    );
    stage
        .execute(Command::Redeliver(RedeliverTarget::Urls(vec![stage.url("/hook")])))
        .await;
    let epoch = stage.endpoint("/hook").await.unwrap().endpoint.epoch;
    wait_until("the late failure", BOUND, async || {
        (stage.receiver.attempts()[2].status == Some(503)).then_some(())
    })
    .await;
    stage.delivered(4).await;
    let now = stage.endpoint("/hook").await.unwrap().endpoint;
    assert_eq!(
        (now.state.as_str(), now.epoch),
        ("available", epoch),
        "nothing closed it in between"
    );
    stage.stop().await;
    stage.assert_kept();
}

/// Makes the URL unavailable by the queue of `probe`, for two seconds.
async fn down(stage: &mut Stage, probe: &str) -> QueueName {
    stage.receiver.behave("/hook", Behaviour::retry_after(503, "2"));
    let receipt = stage.publish(probe, "/hook").await;
    let down = stage.endpoint_is("/hook", "unavailable").await;
    assert_eq!(down.endpoint.probe_queue.as_ref(), Some(&receipt.queue));
    stage.history.left.insert(receipt.id.as_str().to_owned(), Left::Dead);
    receipt.queue
}

async fn delete(stage: &Stage, queue: QueueName) {
    let done = stage.execute(Command::DeleteQueue(queue)).await;
    assert!(!matches!(done, Done::Redelivered(_)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_probes_queue_is_deleted_another_queue_probes() {
    let mut stage = strict().await;
    let probe = down(&mut stage, "a").await;
    stage.publish("b", "/hook").await;
    stage.publish("c", "/hook").await;
    delete(&stage, probe).await;
    stage.receiver.behave("/hook", Behaviour::Status(200));
    stage.delivered(2).await;
    stage.endpoint_is("/hook", "available").await;
    stage.stop().await;
    stage.assert_kept();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_broker_lost_the_probes_queue_another_queue_probes() {
    let mut stage = strict().await;
    let probe = down(&mut stage, "a").await;
    stage.publish("b", "/hook").await;
    stage.broker.delete_whole(&probe).await.unwrap();
    stage.receiver.behave("/hook", Behaviour::Status(200));
    stage.delivered(1).await;
    stage.endpoint_is("/hook", "available").await;
    stage.stop().await;
    stage.assert_kept();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_no_queue_waits_the_next_published_message_is_the_probe_at_once() {
    let mut stage = strict().await;
    let probe = down(&mut stage, "a").await;
    delete(&stage, probe).await;
    stage.receiver.behave("/hook", Behaviour::Status(200));
    // Its time comes and nobody is there to probe.
    wait_until("the probe to be anybody's", BOUND, async || {
        let now = stage.endpoint("/hook").await?.endpoint;
        (now.probe_queue.is_none() && now.probe.is_none()).then_some(())
    })
    .await;
    let published = std::time::Instant::now();
    stage.publish("b", "/hook").await;
    stage.delivered(1).await;
    assert!(
        published.elapsed() < patient(Duration::from_secs(5)),
        "{:?}",
        published.elapsed()
    );
    stage.endpoint_is("/hook", "available").await;
    stage.stop().await;
    stage.assert_kept();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_poison_message_makes_only_its_queue_wait() {
    let mut stage = strict().await;
    stage.receiver.behave_by("/hook", |attempt| {
        Behaviour::Status(if attempt.body == b"bad /hook 2" { 500 } else { 200 })
    });
    for execution in ["bad", "b", "c", "d"] {
        stage.publish(execution, "/hook").await;
    }
    stage.delivered(4).await;
    stage.publish_many("bad", "/hook", 2).await;
    let waits = stage.queue_is("bad", "/hook", "waiting_retry").await;
    assert!(waits.why.unwrap().text.contains("500"));
    for execution in ["b", "c", "d"] {
        stage.publish_many(execution, "/hook", 5).await;
    }
    stage.delivered(19).await;
    assert_eq!(
        stage.endpoint("/hook").await.unwrap().endpoint.state.as_str(),
        "available"
    );
    stage.receiver.behave("/hook", Behaviour::Status(200));
    stage.delivered(21).await;
    stage.stop().await;
    stage.assert_kept();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_queues_that_fail_with_no_success_between_close_the_url() {
    let mut stage = strict().await;
    for execution in ["a", "b", "c", "d", "e"] {
        stage.publish(execution, "/hook").await;
    }
    stage.delivered(5).await;
    stage.receiver.behave("/hook", Behaviour::Status(500));
    for execution in ["a", "b"] {
        stage.publish(execution, "/hook").await;
        stage.queue_is(execution, "/hook", "waiting_retry").await;
    }
    assert_eq!(
        stage.endpoint("/hook").await.unwrap().endpoint.state.as_str(),
        "available"
    );
    stage.publish("c", "/hook").await;
    stage.endpoint_is("/hook", "unavailable").await;
    stage.publish("d", "/hook").await;
    stage.queue_is("d", "/hook", "endpoint_unavailable").await;
    stage.receiver.behave("/hook", Behaviour::Status(200));
    stage.delivered(9).await;
    stage.stop().await;
    stage.assert_kept();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_third_refusal_in_a_row_waits_instead_of_becoming_a_dead_letter() {
    let mut stage = strict().await;
    for execution in ["a", "b", "c", "d"] {
        stage.publish(execution, "/hook").await;
    }
    stage.delivered(4).await;
    stage.receiver.behave_by("/hook", |attempt| {
        Behaviour::Status(if attempt.body.starts_with(b"a ") { 404 } else { 200 })
    });
    let mut refused = Vec::new();
    for _ in 0..6 {
        refused.push(stage.publish("a", "/hook").await);
    }
    stage.queue_is("a", "/hook", "waiting_retry").await;
    stage.publish("b", "/hook").await;
    stage.delivered(5).await;
    assert_eq!(stage.dead_letters(2).await.len(), 2);
    stage.receiver.behave("/hook", Behaviour::Status(200));
    stage.delivered(9).await;
    for receipt in &refused[..2] {
        stage.history.left.insert(receipt.id.as_str().to_owned(), Left::Dead);
    }
    stage.stop().await;
    stage.assert_kept();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxys_404_does_not_empty_a_backlog_into_dead_letters() {
    let mut stage = strict().await;
    stage.receiver.behave("/hook", Behaviour::Status(404));
    let mut published = Vec::new();
    for _ in 0..10 {
        for execution in ["a", "b", "c", "d", "e"] {
            published.push(stage.publish(execution, "/hook").await);
        }
    }
    stage.endpoint_is("/hook", "unavailable").await;
    stays_absent("a flood of dead letters", Duration::from_secs(3), async || {
        let dead = stage.dead_letters(0).await.len();
        (dead > 10).then_some(dead)
    })
    .await;
    stage.receiver.behave("/hook", Behaviour::Status(200));
    let dead = stage.dead_letters(0).await;
    for letter in dead {
        stage.history.left.insert(letter.message_id.unwrap(), Left::Dead);
    }
    let delivered = 50 - stage.history.left.len();
    stage.delivered(delivered).await;
    assert!(published.len() == 50 && delivered >= 40);
    stage.stop().await;
    stage.assert_kept();
}

/// Each of these sequences has one message, which is a dead letter before the next one is refused, and has ended by then.
/// Probes are refused like everything else: the URL's schedule goes on, and nothing more is lost to it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxys_404_closes_the_url_of_sequences_with_one_message_each() {
    let mut stage = strict().await;
    stage.receiver.behave("/hook", Behaviour::Status(404));
    for (before, execution) in ["a", "b"].into_iter().enumerate() {
        let receipt = stage.publish(execution, "/hook").await;
        stage.dead_letters(before + 1).await;
        stage.history.left.insert(receipt.id.as_str().to_owned(), Left::Dead);
        let ended = stage
            .engine
            .end(ExecutionId::parse(execution).unwrap(), stage.url("/hook"));
        ended.await.unwrap();
        wait_until("the sequence to end", BOUND, async || {
            stage.queue_view(execution, "/hook").await.is_none().then_some(())
        })
        .await;
    }
    for execution in ["c", "d", "e"] {
        stage.publish(execution, "/hook").await;
    }
    stage.endpoint_is("/hook", "unavailable").await;
    wait_until("two more probes to be refused", BOUND, async || {
        (stage.endpoint("/hook").await?.endpoint.attempts >= 3).then_some(())
    })
    .await;
    assert_eq!(stage.dead_letters(2).await.len(), 2);
    stage.receiver.behave("/hook", Behaviour::Status(200));
    stage.delivered(3).await;
    stage.stop().await;
    stage.assert_kept();
}

/// The receiver has nothing against the others: one of them as the probe opens the URL, whatever the bad ones are answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_bad_messages_keep_no_good_one_from_being_the_probe() {
    for status in [422, 500] {
        let mut stage = strict().await;
        stage.receiver.behave_by("/hook", move |attempt| {
            Behaviour::Status(if attempt.body.starts_with(b"bad") { status } else { 200 })
        });
        for execution in ["bad-a", "bad-b", "bad-c"] {
            stage.publish(execution, "/hook").await;
        }
        stage.endpoint_is("/hook", "unavailable").await;
        for execution in ["c", "d", "e", "f"] {
            stage.publish(execution, "/hook").await;
        }
        stage.delivered(4).await;
        stage.stop().await;
    }
}

/// Good messages come more rarely than the bad ones are tried: the first of them opens the URL, and from then on each bad one
/// keeps to its own schedule until that is used up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_bad_messages_die_of_their_own_schedules_and_hold_no_good_one_up_again() {
    for status in [500, 422] {
        let mut stage = Stage::on(Ground::rabbit_sqlite().await, |settings| {
            settings.default_policy = RetryPolicy {
                retries_with_no_delay: 0,
                minimum_delay_retries: 6,
                minimum_delay_s: 1,
                backoff_retries: Some(0),
                maximum_delay_retries: 0,
                on_exhausted: OnExhausted::DeadLetter,
                on_refused: OnRefused::Retry,
                ..RetryPolicy::default()
            };
        })
        .await;
        stage.receiver.behave_by("/hook", move |attempt| {
            Behaviour::Status(if attempt.body.starts_with(b"bad") { status } else { 200 })
        });
        let bad = ["bad-a", "bad-b", "bad-c"];
        for execution in bad {
            let receipt = stage.publish(execution, "/hook").await;
            stage.history.left.insert(receipt.id.as_str().to_owned(), Left::Dead);
        }
        stage.endpoint_is("/hook", "unavailable").await;
        stage.publish("good", "/hook").await;
        stage.delivered(1).await;
        let opened = stage.endpoint_is("/hook", "available").await.endpoint.epoch;
        for good in 2..=3 {
            let before = bad.map(|execution| tried(&stage, execution));
            wait_until("each of the bad ones to be tried again", BOUND, async || {
                let again = bad.iter().zip(before);
                again
                    .into_iter()
                    .all(|(execution, before)| tried(&stage, execution) > before)
                    .then_some(())
            })
            .await;
            stage.publish("good", "/hook").await;
            stage.delivered(good).await;
        }
        assert_eq!(stage.dead_letters(3).await.len(), 3);
        let now = stage.endpoint("/hook").await.unwrap().endpoint;
        assert_eq!((now.state.as_str(), now.epoch), ("available", opened));
        let tried = bad.map(|execution| tried(&stage, execution));
        // An attempt that was under way when the URL closed counts for nothing.
        assert!(tried.iter().all(|tried| (7..=8).contains(tried)), "{tried:?}");
        stage.stop().await;
        stage.assert_kept();
    }
}

/// All of them failed, and wait for their turn as the probe.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_of_a_new_execution_is_the_next_probe_before_those_that_failed() {
    let mut stage = Stage::on(Ground::rabbit_sqlite().await, |settings| {
        settings.default_policy.retries_with_no_delay = 0;
        settings.default_policy.minimum_delay_retries = 100;
        settings.default_policy.minimum_delay_s = 1;
    })
    .await;
    stage.receiver.behave_by("/hook", |attempt| {
        Behaviour::Status(if attempt.body.starts_with(b"bad") { 500 } else { 200 })
    });
    let bad: Vec<String> = (0..8).map(|number| format!("bad-{number}")).collect();
    for execution in &bad {
        let receipt = stage.publish(execution, "/hook").await;
        stage.history.left.insert(receipt.id.as_str().to_owned(), Left::Dead);
    }
    stage.endpoint_is("/hook", "unavailable").await;
    wait_until("each of them to be tried", BOUND, async || {
        bad.iter().all(|execution| tried(&stage, execution) > 0).then_some(())
    })
    .await;
    let before = stage.receiver.count();
    stage.publish("good", "/hook").await;
    stage.delivered(1).await;
    let attempts = stage.receiver.attempts();
    let good = attempts.iter().position(|attempt| attempt.body.starts_with(b"good"));
    let good = good.expect("it was delivered");
    // A probe may have been under way.
    assert!(good <= before + 2, "{} of the bad ones came before it", good - before);
    stage.stop().await;
}

/// How often the messages of this execution were sent.
fn tried(stage: &Stage, execution: &str) -> usize {
    let attempts = stage.receiver.attempts();
    let of_it = attempts
        .iter()
        .filter(|attempt| attempt.body.starts_with(execution.as_bytes()));
    of_it.count()
}

/// One of them closes the URL; the others failed as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heads_that_fail_at_one_moment_keep_their_attempts() {
    let mut stage = strict().await;
    let executions = ["a", "b", "c", "d", "e", "f", "g", "h"];
    for execution in executions {
        stage.publish(execution, "/hook").await;
    }
    stage.delivered(8).await;
    stage.execute(Command::DisableEndpoint(stage.url("/hook"))).await;
    let all_wait = CancellationToken::new();
    stage
        .receiver
        .behave("/hook", Behaviour::retry_after(503, "3600").once(&all_wait));
    for execution in executions {
        stage.publish(execution, "/hook").await;
    }
    stage.execute(Command::Redeliver(RedeliverTarget::All)).await;
    wait_until("eight requests in flight", BOUND, async || {
        (stage.receiver.count() == 16).then_some(())
    })
    .await;
    all_wait.cancel();
    stage.endpoint_is("/hook", "unavailable").await;
    wait_until("all attempts in the log", BOUND, async || {
        let logged = stage.count("SELECT count(*) FROM attempts WHERE status = 503").await;
        (logged == 8).then_some(())
    })
    .await;
    wait_until("each attempt that counts to be its head's", BOUND, async || {
        let forgotten = "SELECT (SELECT count(*) FROM attempts WHERE status = 503 AND counted) \
                         - (SELECT COALESCE(sum(head_failures), 0) FROM delivery_queues)";
        (stage.count(forgotten).await == 0).then_some(())
    })
    .await;
    stage.receiver.behave("/hook", Behaviour::Status(200));
    stage.execute(Command::Redeliver(RedeliverTarget::All)).await;
    stage.delivered(16).await;
    stage.stop().await;
    stage.assert_kept();
}
