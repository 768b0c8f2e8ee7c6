//! What this process may not do, and no receiver is to blame for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use redrive::internals::ambient::Clock;
use redrive::internals::delivery::{Request, Sender, SenderHandle, Sent};
use redrive::internals::domain::outcome::{FailureKind, Outcome};
use redrive::internals::domain::pace::PaceOrder;
use redrive::internals::domain::time::Timestamp;
use redrive::internals::domain::url::EndpointUrl;
use redrive::internals::engine::{Command, Engine, PaceWish, RedeliverTarget};

use super::stage::{Ground, Stage, sender};

/// Has no file for the first of its connections.
#[derive(Debug)]
struct Full {
    sender: SenderHandle,
    left: AtomicU32,
}

#[async_trait]
impl Sender for Full {
    async fn send(&self, request: Request) -> Sent {
        let is_full = |left: u32| left.checked_sub(1);
        if self
            .left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, is_full)
            .is_err()
        {
            return self.sender.send(request).await;
        }
        Sent {
            outcome: Outcome::Failure(FailureKind::OwnLimit),
            retry_after: None,
            error: Some("too many files and connections are open here".to_owned()),
            response: None,
            started_at: Timestamp::from_seconds(1),
            duration: Duration::ZERO,
        }
    }

    fn refusal(&self, url: &EndpointUrl) -> Option<String> {
        self.sender.refusal(url)
    }

    async fn is_allowed(&self, url: &EndpointUrl) -> bool {
        self.sender.is_allowed(url).await
    }
}

/// An engine that has no file for the first `left` of its connections.
fn refuse(stage: &mut Stage, left: u32) {
    let full = Full {
        sender: sender(&stage.settings),
        left: AtomicU32::new(left),
    };
    stage.engine = Engine::new(
        Arc::clone(&stage.store),
        Arc::clone(&stage.broker),
        Arc::new(full),
        stage.settings.clone(),
        Clock::system(),
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_this_process_had_no_file_for_is_tried_again_and_is_no_failure_of_the_receiver() {
    let mut stage = Stage::quiet(Ground::embedded(), |_| {}).await;
    refuse(&mut stage, 3);
    stage.start();
    stage.publish("a", "/ok").await;
    stage.publish("b", "/ok").await;
    stage.delivered(2).await;
    let attempts = stage.count("SELECT count(*) FROM attempts WHERE NOT counted").await;
    assert_eq!(attempts, 3, "they are in the log");
    let failed = stage
        .count("SELECT count(*) FROM delivery_queues WHERE head_failures > 0")
        .await;
    assert_eq!(failed, 0, "none of them counts");
    let endpoint = stage.endpoint("/ok").await.unwrap().endpoint;
    assert_eq!((endpoint.state.as_str(), endpoint.attempts), ("available", 0));
    stage.stop().await;
    stage.assert_kept();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_of_a_canary_that_this_process_had_no_file_for_is_not_one_of_it() {
    let mut stage = Stage::quiet(Ground::embedded(), |_| {}).await;
    refuse(&mut stage, 3);
    for execution in ["a", "b", "c", "d"] {
        stage.publish(execution, "/ok").await;
    }
    stage.execute(Command::DisableEndpoint(stage.url("/ok"))).await;
    let target = RedeliverTarget::Urls(vec![stage.url("/ok")]);
    let order = PaceOrder {
        canary: Some(2),
        ..PaceOrder::default()
    };
    stage.execute(Command::RedeliverPaced { target, order }).await;
    stage.start();
    stage.delivered(2).await;
    let pace = stage.endpoint("/ok").await.unwrap().endpoint.pace.unwrap();
    assert_eq!(pace.taken, 2, "{pace:?}");
    let attempts = stage.count("SELECT count(*) FROM attempts WHERE NOT counted").await;
    assert_eq!(attempts, 3, "they are in the log");
    let url = stage.url("/ok");
    let wish = PaceWish::Resume;
    stage.execute(Command::PaceEndpoint { url, wish }).await;
    stage.delivered(4).await;
    stage.stop().await;
    stage.assert_kept();
}
