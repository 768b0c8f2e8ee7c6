//! Endpoints that come back slowly: at a rate, with a canary, up a ramp, and closed again when it goes wrong.

use std::time::Duration;

use redrive::internals::domain::pace::{Pace, PaceOrder};
use redrive::internals::domain::queue::QueueState;
use redrive::internals::engine::policies::{PolicyAct, PolicyEdit};
use redrive::internals::engine::{Access, Command, Done, PaceWish, RedeliverTarget, query};
use tokio_util::sync::CancellationToken;

use super::stage::{BOUND, Stage};
use crate::support::receiver::{Attempt, Behaviour};
use crate::support::wait::{stays_absent, wait_until};

/// What a timer and a busy machine may take off a span as the receiver sees it.
const EARLY: Duration = Duration::from_millis(400);
/// Messages in each of the three queues.
const EACH: u32 = 8;

/// An endpoint that a person disabled, with something in three queues of it; nothing of that was sent yet.
async fn backlog(stage: &mut Stage) -> usize {
    stage.publish("first", "/hook").await;
    stage.delivered(1).await;
    stage.execute(Command::DisableEndpoint(stage.url("/hook"))).await;
    for execution in ["a", "b", "c"] {
        stage.publish_many(execution, "/hook", EACH).await;
    }
    3 * EACH as usize
}

async fn redeliver(stage: &Stage, order: PaceOrder) {
    let target = RedeliverTarget::Urls(vec![stage.url("/hook")]);
    stage.execute(Command::RedeliverPaced { target, order }).await;
}

async fn wish(stage: &Stage, wish: PaceWish) {
    let url = stage.url("/hook");
    stage.execute(Command::PaceEndpoint { url, wish }).await;
}

fn rate(rate: u32) -> PaceOrder {
    PaceOrder {
        rate: Some(rate),
        ..PaceOrder::default()
    }
}

async fn pace(stage: &Stage) -> Option<Pace> {
    stage.endpoint("/hook").await.unwrap().endpoint.pace
}

async fn released(stage: &Stage) {
    wait_until("nothing to be held back any more", BOUND, async || {
        pace(stage).await.is_none().then_some(())
    })
    .await;
}

pub(super) async fn a_redelivered_endpoint_goes_at_its_rate_until_nothing_waits(mut stage: Stage) {
    let waiting = backlog(&mut stage).await;
    redeliver(&stage, rate(10)).await;
    stage.delivered(1 + waiting).await;
    let attempts = stage.receiver.attempts_of("/hook");
    let (first, last) = (attempts[1].started_at, attempts[waiting].started_at);
    let least = Duration::from_millis(100) * u32::try_from(waiting - 1).unwrap();
    assert!(last.duration_since(first) + EARLY >= least, "faster than 10 a second");
    released(&stage).await;
    stage.stop().await;
    stage.assert_kept();
}

pub(super) async fn a_canary_is_sent_and_then_a_person_has_the_rest_go(mut stage: Stage) {
    let waiting = backlog(&mut stage).await;
    let order = PaceOrder {
        canary: Some(3),
        ..PaceOrder::default()
    };
    redeliver(&stage, order).await;
    stage.delivered(4).await;
    let why = wait_until("what waits to say why", BOUND, async || {
        let views = [
            stage.queue_view("a", "/hook").await?,
            stage.queue_view("b", "/hook").await?,
            stage.queue_view("c", "/hook").await?,
        ];
        let asks = |text: &str| text.contains("canary of 3 is sent: waits for a person");
        views
            .into_iter()
            .find_map(|view| view.why.filter(|why| asks(&why.text)))
    })
    .await;
    assert_eq!(why.state, Some(QueueState::Paused));
    stays_absent("a fourth message of the canary", Duration::from_secs(1), async || {
        (stage.receiver.count() > 4).then_some(())
    })
    .await;
    wish(&stage, PaceWish::Resume).await;
    stage.delivered(1 + waiting).await;
    released(&stage).await;
    stage.stop().await;
    stage.assert_kept();
}

pub(super) async fn a_canary_that_is_watched_passes_by_itself(mut stage: Stage) {
    let waiting = backlog(&mut stage).await;
    let order = PaceOrder {
        canary: Some(2),
        watch_s: Some(2),
        ..rate(100)
    };
    redeliver(&stage, order).await;
    stage.delivered(1 + waiting).await;
    let attempts = stage.receiver.attempts_of("/hook");
    let watched = attempts[3].started_at.duration_since(attempts[2].started_at);
    assert!(watched + EARLY >= Duration::from_secs(2), "{watched:?}");
    released(&stage).await;
    stage.stop().await;
    stage.assert_kept();
}

pub(super) async fn a_canary_whose_refusals_count_as_delivered_passes_by_itself(mut stage: Stage) {
    let waiting = backlog(&mut stage).await;
    let scope = query::PolicyScope {
        event_type: None,
        url: Some(stage.url("/hook")),
    };
    let accepts = PolicyEdit {
        scope,
        act: PolicyAct::Set(r#"{"on_refused": "accept"}"#.to_owned()),
        expected: None,
    };
    stage.execute(Command::Policy(accepts)).await;
    stage.receiver.behave("/hook", Behaviour::Status(404));
    let order = PaceOrder {
        canary: Some(2),
        watch_s: Some(1),
        ..rate(100)
    };
    redeliver(&stage, order).await;
    wait_until("all to be refused and done", BOUND, async || {
        (stage.receiver.count() == 1 + waiting).then_some(())
    })
    .await;
    released(&stage).await;
    stage.stop().await;
}

pub(super) async fn a_redelivery_over_a_canary_that_failed_says_that_it_waits_for_a_person(mut stage: Stage) {
    let waiting = backlog(&mut stage).await;
    stage.receiver.behave("/hook", Behaviour::Status(500));
    let order = PaceOrder {
        canary: Some(1),
        ..PaceOrder::default()
    };
    redeliver(&stage, order).await;
    wait_until("the canary to fail", BOUND, async || {
        pace(&stage).await.is_some_and(|pace| pace.failed > 0).then_some(())
    })
    .await;
    stage.receiver.behave("/hook", Behaviour::Status(200));
    let again = Command::Redeliver(RedeliverTarget::Urls(vec![stage.url("/hook")]));
    let plan = stage.engine.plan(again.clone()).await.unwrap();
    let effect = &plan.lines[0].effect;
    assert!(
        effect.contains("nothing is sent until it is resumed") && !effect.contains("continue"),
        "{effect}"
    );
    assert!(
        plan.warnings
            .iter()
            .any(|why| why.contains("1 of 1 wait after their canary")),
        "{:?}",
        plan.warnings
    );
    let Done::Redelivered(done) = stage.execute(again).await else {
        panic!("not redelivered")
    };
    assert!(done[0].paused);
    wish(&stage, PaceWish::Resume).await;
    stage.delivered(1 + waiting).await;
    released(&stage).await;
    stage.stop().await;
    stage.assert_kept();
}

/// It is down from the first request on: all that goes there are probes.
pub(super) async fn failed_probes_count_for_the_pace_that_stops_after_so_many(mut stage: Stage) {
    let waiting = backlog(&mut stage).await;
    closed_again(&stage, 503).await;
    goes_when_redelivered(stage, waiting).await;
}

/// Redelivered at a pace that stops after three failures, while the receiver answers with this status.
async fn closed_again(stage: &Stage, status: u16) {
    stage.receiver.behave("/hook", Behaviour::Status(status));
    let order = PaceOrder {
        stop_after: Some(3),
        ..rate(50)
    };
    redeliver(stage, order).await;
    let closed = stage.endpoint_is("/hook", "parked").await.endpoint;
    let why = closed.last_error.as_deref().unwrap();
    assert!(
        why.contains("closed again after 3 failed attempts") && why.contains(&format!("status {status}")),
        "{why}"
    );
    assert_eq!(closed.pace, None);
    let tried = stage.receiver.count();
    // Those in flight when it closed may end.
    assert!(tried <= 1 + 3 + 3, "{tried}");
}

async fn goes_when_redelivered(mut stage: Stage, waiting: usize) {
    stage.receiver.behave("/hook", Behaviour::Status(200));
    stage.execute(Command::Redeliver(RedeliverTarget::All)).await;
    stage.delivered(1 + waiting).await;
    stage.stop().await;
    stage.assert_kept();
}

/// A pause holds whatever the endpoint's state is.
pub(super) async fn an_endpoint_that_is_paused_while_it_is_unavailable_gets_no_probe(mut stage: Stage) {
    stage.receiver.behave("/hook", Behaviour::Status(500));
    let scope = query::PolicyScope {
        event_type: None,
        url: Some(stage.url("/hook")),
    };
    let slow = PolicyEdit {
        scope,
        act: PolicyAct::Set(
            r#"{"retries_with_no_delay": 0, "minimum_delay": 2, "minimum_delay_retries": 9, "maximum_delay": 2}"#
                .to_owned(),
        ),
        expected: None,
    };
    stage.execute(Command::Policy(slow)).await;
    stage.publish("a", "/hook").await;
    stage.endpoint_is("/hook", "unavailable").await;
    let warned = async |wish| {
        let url = stage.url("/hook");
        let plan = stage.engine.plan(Command::PaceEndpoint { url, wish }).await.unwrap();
        plan.warnings.join("; ")
    };
    let why = warned(PaceWish::Pause).await;
    assert!(why.contains("no probe is sent either"), "{why}");
    wish(&stage, PaceWish::Pause).await;
    let why = warned(PaceWish::Resume).await;
    assert!(why.contains("it is probed again"), "{why}");
    let before = stage.receiver.count();
    stage.receiver.behave("/hook", Behaviour::Status(200));
    stays_absent("a request to a paused endpoint", Duration::from_secs(3), async || {
        (stage.receiver.count() > before).then_some(())
    })
    .await;
    assert_eq!(stage.endpoint("/hook").await.unwrap().endpoint.next_attempt_at, None);
    let why = stage.queue_view("a", "/hook").await.unwrap().why.unwrap();
    assert!(
        why.text.contains("paused by tester") && why.text.contains("endpoint resume"),
        "{why:?}"
    );
    wish(&stage, PaceWish::Resume).await;
    stage.delivered(1).await;
    stage.stop().await;
    stage.assert_kept();
}

pub(super) async fn so_many_failures_close_a_paced_endpoint_again_and_it_says_so(mut stage: Stage) {
    let waiting = backlog(&mut stage).await;
    closed_again(&stage, 500).await;
    let said = stage.queue_is("a", "/hook", "parked").await.why.unwrap().text;
    assert!(
        said.contains("closed again after 3 failed attempts") && said.contains("redrive redeliver"),
        "{said}"
    );
    goes_when_redelivered(stage, waiting).await;
}

pub(super) async fn a_brake_holds_over_a_restart_and_the_rate_is_changed_while_it_goes(mut stage: Stage) {
    let waiting = backlog(&mut stage).await;
    redeliver(&stage, rate(2)).await;
    stage.delivered(2).await;
    wish(&stage, PaceWish::Pause).await;
    stage.restart(|_| {}).await;
    let before = stage.receiver.count();
    assert!(before < waiting, "{before}");
    stays_absent("a message while it is paused", Duration::from_secs(2), async || {
        (stage.receiver.count() > before).then_some(())
    })
    .await;
    let braked = pace(&stage).await.unwrap();
    assert_eq!(braked.brake.map(|brake| brake.by), Some("tester".to_owned()));
    // At 2 a second it would take longer than this test may.
    wish(&stage, PaceWish::Go(rate(500))).await;
    wish(&stage, PaceWish::Resume).await;
    stage.delivered(1 + waiting).await;
    released(&stage).await;
    stage.stop().await;
    stage.assert_kept();
}

pub(super) async fn a_pause_outlives_disabling_and_redelivering_and_plans_say_so(mut stage: Stage) {
    stage.publish("first", "/hook").await;
    stage.delivered(1).await;
    let url = stage.url("/hook");
    let redeliver = Command::Redeliver(RedeliverTarget::Urls(vec![url.clone()]));
    let of_before = stage.engine.plan(redeliver.clone()).await.unwrap();
    wish(&stage, PaceWish::Pause).await;
    let other = Access::Operator.grant("bob", None).unwrap();
    let refused = stage.engine.execute(&of_before, &other).await.unwrap_err();
    assert!(refused.to_string().contains("plan is stale"), "{refused}");
    let plan = stage.engine.plan(redeliver.clone()).await.unwrap();
    let line = &plan.lines[0];
    assert_eq!(line.now, "available; paused by tester: a test");
    assert!(
        line.effect
            .contains("paused by tester: a test; nothing is sent until it is resumed"),
        "{}",
        line.effect
    );
    assert!(
        plan.warnings.iter().any(|why| why.contains("1 of 1 stay paused")),
        "{:?}",
        plan.warnings
    );
    let disable = Command::DisableEndpoint(url);
    let plan = stage.engine.plan(disable.clone()).await.unwrap();
    assert!(
        plan.lines[0]
            .effect
            .contains("what a person set stays: paused by tester: a test")
    );
    assert_eq!(plan.undo(), Ok(redeliver.clone()));
    stage.execute(disable.clone()).await;
    let plan = stage.engine.plan(disable).await.unwrap();
    assert!(plan.undo().unwrap_err().contains("was not available before"));
    stage.publish("a", "/hook").await;
    let Done::Redelivered(done) = stage.execute(redeliver).await else {
        panic!("not redelivered")
    };
    assert!(done[0].paused);
    let endpoint = stage.endpoint_is("/hook", "available").await.endpoint;
    assert_eq!(endpoint.last_error, None, "it is not disabled any more");
    assert_eq!(endpoint.paused().map(|brake| brake.by.as_str()), Some("tester"));
    stays_absent("a message while it is paused", Duration::from_secs(1), async || {
        (stage.receiver.count() > 1).then_some(())
    })
    .await;
    wish(&stage, PaceWish::Go(rate(50))).await;
    let plan = stage.engine.plan(Command::PaceEndpoint {
        url: stage.url("/hook"),
        wish: PaceWish::Go(rate(60)),
    });
    assert!(plan.await.unwrap().undo().unwrap_err().contains("another pace before"));
    wish(&stage, PaceWish::Resume).await;
    stage.delivered(2).await;
    stage.stop().await;
    stage.assert_kept();
}

pub(super) async fn an_endpoint_that_comes_back_by_itself_starts_slowly_where_its_policy_says_so(mut stage: Stage) {
    stage
        .restart(|settings| {
            settings.default_policy.slow_start = 2;
            settings.default_policy.slow_start_interval_s = 1;
            settings.default_policy.slow_start_maximum = 64;
        })
        .await;
    stage.receiver.behave("/hook", Behaviour::Status(503));
    stage.publish("a", "/hook").await;
    stage.endpoint_is("/hook", "unavailable").await;
    for execution in ["a", "b", "c"] {
        stage.publish_many(execution, "/hook", EACH).await;
    }
    stage.receiver.behave("/hook", Behaviour::Status(200));
    stage.delivered(1 + 3 * EACH as usize).await;
    let well: Vec<_> = stage
        .receiver
        .attempts_of("/hook")
        .into_iter()
        .filter(Attempt::succeeded)
        .map(|attempt| attempt.started_at)
        .collect();
    // The probe; then 2, 4 and 8 in the first three seconds.
    let after = |nth: usize| well[nth].duration_since(well[0]);
    assert!(after(5) + EARLY >= Duration::from_secs(1), "{:?}", after(5));
    assert!(after(17) + EARLY >= Duration::from_secs(3), "{:?}", after(17));
    released(&stage).await;
    stage.stop().await;
    stage.assert_kept();
}

pub(super) async fn what_was_delivered_is_in_the_rates_of_its_queue_and_its_endpoint(mut stage: Stage) {
    stage.receiver.behave_by("/hook", |attempt| {
        let failed = attempt.header("x-number") == Some("2") && attempt.earlier == 1;
        Behaviour::Status(if failed { 500 } else { 200 })
    });
    stage.publish_many("a", "/hook", 5).await;
    stage.delivered(5).await;
    let (queue, url) = (stage.queue("a", "/hook"), stage.url("/hook"));
    for of_endpoints in [false, true] {
        // The receiver knows of an answer before the worker does.
        let counted = async || {
            let query = query::Rates {
                of_endpoints,
                limit: 10,
            };
            let page = stage.engine.query(query).await.unwrap();
            let all = page.items.first()?.moving.failed_milli == Some(166);
            all.then_some(page.items)
        };
        let items = wait_until("one of six attempts to have failed", BOUND, counted).await;
        let [row] = items.as_slice() else {
            panic!("one moved: {items:?}")
        };
        assert_eq!(row.queue.as_ref(), (!of_endpoints).then_some(&queue));
        assert_eq!(row.url.as_ref(), Some(&url));
        // Five in this minute or the one before, and one attempt of six failed.
        assert!((1..=83).contains(&row.moving.out_milli), "{row:?}");
        assert!(
            row.moving.p95_ms > 0 && row.moving.p50_ms <= row.moving.p95_ms,
            "{row:?}"
        );
    }
    // A console sees the same in its rows.
    let looked = CancellationToken::new();
    let snapshots = stage
        .engine
        .observe(Duration::from_millis(250), looked.clone())
        .snapshots();
    wait_until("rows that move", BOUND, async || {
        let snapshot = snapshots.borrow().clone();
        let queue = snapshot
            .queues
            .iter()
            .find(|row| row.name == queue)?
            .moving()?
            .out_milli;
        let endpoint = snapshot
            .endpoints
            .iter()
            .find(|row| row.endpoint.url == url)?
            .moving?
            .out_milli;
        (queue > 0 && endpoint > 0).then_some(())
    })
    .await;
    looked.cancel();
    stage.stop().await;
    stage.assert_kept();
}
