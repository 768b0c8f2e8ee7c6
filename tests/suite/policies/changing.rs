//! A changed policy applies to what already waits: sooner, later, given up, and back.

use redrive::internals::domain::time::Timestamp;
use redrive::internals::engine::policies::{Forecast, PolicyAct};
use redrive::internals::engine::query;
use redrive::internals::engine::{Access, EngineError};
use serde_json::{Value, json};

use super::{edit, execute, of_url, set, setting, view};
use crate::engine::stage::{BOUND, Ground, Stage};
use crate::support::receiver::Behaviour;
use crate::support::wait::wait_until;

/// A failure waits for an hour, alone or with its URL.
async fn patient(ground: Ground) -> Stage {
    Stage::on(ground, |settings| {
        settings.default_policy.retries_with_no_delay = 0;
        settings.default_policy.minimum_delay_s = 3600;
        settings.default_policy.maximum_delay_s = 3600;
    })
    .await
}

/// One URL that waits with its probe, and one queue that waits alone.
async fn waiting(ground: Ground) -> Stage {
    let mut stage = patient(ground).await;
    stage.publish("calm", "/hook").await;
    stage.delivered(1).await;
    stage.receiver.behave("/down", Behaviour::Status(503));
    stage.receiver.behave_by("/hook", |attempt| {
        Behaviour::Status(if attempt.body.starts_with(b"poison") { 500 } else { 200 })
    });
    stage.publish_many("a", "/down", 2).await;
    stage.publish("calm", "/hook").await;
    stage.delivered(2).await;
    stage.publish_many("poison", "/hook", 2).await;
    stage.endpoint_is("/down", "unavailable").await;
    stage.queue_is("poison", "/hook", "waiting_retry").await;
    stage
}

/// When the URL, and when the queue, are tried next.
async fn times(stage: &Stage) -> (Option<Timestamp>, Option<Timestamp>) {
    let endpoint = stage.endpoint("/down").await.unwrap().endpoint;
    let head = stage.queue_view("poison", "/hook").await.unwrap().head.unwrap();
    (endpoint.next_attempt_at, head.next_attempt_at)
}

async fn forecast(stage: &Stage, path: &str, policy: &Value) -> Forecast {
    let query = query::PreviewPolicy {
        document: policy.to_string(),
        scope: Some(of_url(stage, path)),
    };
    stage.engine.query(query).await.unwrap().forecast.unwrap()
}

pub(super) async fn what_waits_is_tried_sooner_by_a_changed_policy(ground: Ground) {
    let mut stage = waiting(ground).await;
    let quick = json!({"retries_with_no_delay": 0, "minimum_delay": 1, "maximum_delay": 1});
    stage.receiver.behave("/down", Behaviour::Status(200));
    stage.receiver.behave("/hook", Behaviour::Status(200));
    for path in ["/down", "/hook"] {
        let foreseen = forecast(&stage, path, &quick).await;
        assert_eq!((foreseen.waiting, foreseen.sooner), (1, 1), "{path}: {foreseen:?}");
        let plan = stage.engine.plan(setting(&of_url(&stage, path), &quick)).await.unwrap();
        assert_eq!(plan.messages, Some(1));
        assert!(plan.title.contains("1 of 1 next attempts move"), "{}", plan.title);
        assert!(
            plan.warnings.iter().any(|line| line.contains("come sooner")),
            "{plan:?}"
        );
        assert!(
            plan.lines[0].now.contains("not set") && plan.lines[0].effect.contains("version 1"),
            "{plan:?}"
        );
        let saved = set(&stage, &of_url(&stage, path), &quick).await;
        let newest = saved.newest.unwrap();
        assert_eq!((newest.version, newest.author.as_str()), (1, "tester"));
    }
    stage.delivered(6).await;
    stage.endpoint_is("/down", "available").await;
    stage.stop().await;
    stage.assert_kept();
}

pub(super) async fn what_waits_is_tried_later_and_as_before_when_the_policy_is_taken_back(ground: Ground) {
    let mut stage = waiting(ground).await;
    let before = times(&stage).await;
    let slow = json!({"retries_with_no_delay": 0, "minimum_delay": 7200, "maximum_delay": 7200});
    for path in ["/down", "/hook"] {
        let foreseen = forecast(&stage, path, &slow).await;
        assert_eq!((foreseen.waiting, foreseen.later), (1, 1), "{path}: {foreseen:?}");
        set(&stage, &of_url(&stage, path), &slow).await;
    }
    let later = |at: Option<Timestamp>| at.map(|at| at.plus(std::time::Duration::from_secs(3600)));
    assert_eq!(times(&stage).await, (later(before.0), later(before.1)));
    for path in ["/down", "/hook"] {
        let unset = execute(&stage, edit(&of_url(&stage, path), PolicyAct::Unset)).await;
        assert_eq!((unset.document(), unset.newest.as_ref().unwrap().version), (None, 2));
    }
    assert_eq!(times(&stage).await, before, "exactly as it was");
    stage.stop().await;
}

pub(super) async fn what_is_exhausted_by_a_changed_policy_parks_and_goes_on_when_it_is_restored(ground: Ground) {
    let mut stage = waiting(ground).await;
    let before = times(&stage).await;
    let same = json!({"retries_with_no_delay": 0, "minimum_delay": 3600, "maximum_delay": 3600});
    let none = json!({
        "retries_with_no_delay": 0, "minimum_delay_retries": 0, "maximum_delay_retries": 0, "backoff_retries": 0,
    });
    for path in ["/down", "/hook"] {
        set(&stage, &of_url(&stage, path), &same).await;
        let foreseen = forecast(&stage, path, &none).await;
        assert_eq!((foreseen.waiting, foreseen.parked), (1, 1), "{path}: {foreseen:?}");
        set(&stage, &of_url(&stage, path), &none).await;
    }
    assert_eq!(times(&stage).await, (None, None));
    stage.endpoint_is("/down", "parked").await;
    stage.queue_is("poison", "/hook", "parked").await;
    for path in ["/down", "/hook"] {
        let restored = execute(&stage, edit(&of_url(&stage, path), PolicyAct::Restore(Some(1)))).await;
        assert_eq!(restored.newest.unwrap().version, 3);
    }
    stage.endpoint_is("/down", "unavailable").await;
    stage.queue_is("poison", "/hook", "waiting_retry").await;
    assert_eq!(times(&stage).await, before, "exactly as it was");
    let missing = stage
        .engine
        .plan(edit(&of_url(&stage, "/down"), PolicyAct::Restore(Some(9))))
        .await;
    assert!(matches!(missing, Err(EngineError::NotFound { .. })), "{missing:?}");
    stage.stop().await;
}

pub(super) async fn what_is_exhausted_by_a_changed_policy_becomes_a_dead_letter_and_the_next_one_probes(
    ground: Ground,
) {
    let mut stage = waiting(ground).await;
    stage.receiver.behave("/down", Behaviour::Status(200));
    stage.receiver.behave("/hook", Behaviour::Status(200));
    let none = json!({
        "retries_with_no_delay": 0, "minimum_delay_retries": 0, "maximum_delay_retries": 0, "backoff_retries": 0,
        "on_exhausted": "dead_letter",
    });
    for path in ["/down", "/hook"] {
        let foreseen = forecast(&stage, path, &none).await;
        assert_eq!(
            (foreseen.waiting, foreseen.dead_lettered),
            (1, 1),
            "{path}: {foreseen:?}"
        );
        set(&stage, &of_url(&stage, path), &none).await;
    }
    let dead = stage.dead_letters(2).await;
    let mut bodies: Vec<&[u8]> = dead.iter().map(|letter| letter.body.as_ref()).collect();
    bodies.sort_unstable();
    assert_eq!(bodies, [&b"a /down 1"[..], b"poison /hook 1"]);
    for letter in &dead {
        assert_eq!(letter.header_text("x-redrive-dead-reason"), Some("exhausted"));
    }
    stage.delivered(4).await;
    stage.endpoint_is("/down", "available").await;
    wait_until("the second ones", BOUND, async || {
        let bodies: Vec<Vec<u8>> = stage
            .receiver
            .attempts()
            .into_iter()
            .map(|attempt| attempt.body)
            .collect();
        let both = [&b"a /down 2"[..], b"poison /hook 2"];
        both.iter()
            .all(|body| bodies.iter().any(|found| found == body))
            .then_some(())
    })
    .await;
    stage.stop().await;
}

pub(super) async fn of_two_operators_with_a_plan_each_the_second_is_refused(ground: Ground) {
    let mut stage = patient(ground).await;
    let scope = of_url(&stage, "/hook");
    let one = stage
        .engine
        .plan(setting(&scope, &json!({"jitter": 0.1})))
        .await
        .unwrap();
    let two = stage
        .engine
        .plan(setting(&scope, &json!({"jitter": 0.2})))
        .await
        .unwrap();
    let grant = |name| Access::Operator.grant(name, Some("a test".to_owned())).unwrap();
    let (grant_ann, grant_bob) = (grant("ann"), grant("bob"));
    let (ann, bob) = tokio::join!(
        stage.engine.execute(&one, &grant_ann),
        stage.engine.execute(&two, &grant_bob)
    );
    let refused = match (&ann, &bob) {
        (Ok(_), Err(refused)) | (Err(refused), Ok(_)) => refused,
        both => panic!("one of the two: {both:?}"),
    };
    assert!(
        matches!(refused, EngineError::Refused { why } if why.contains("stale")),
        "{refused:?}"
    );
    let saved = view(&stage, &scope).await;
    let newest = saved.newest.as_ref().unwrap();
    let (author, jitter) = if ann.is_ok() { ("ann", "0.1") } else { ("bob", "0.2") };
    assert_eq!((newest.version, newest.author.as_str()), (1, author));
    assert!(newest.document.as_deref().unwrap().contains(jitter));
    let history = stage.engine.query(query::PolicyHistory(scope.clone())).await.unwrap();
    assert_eq!(history.items.len(), 1, "nothing of the other's");
    let again = stage.engine.execute(&one, &grant("ann")).await;
    assert!(matches!(again, Err(EngineError::Refused { .. })), "{again:?}");
    stage.stop().await;
}
