//! What the engine does, each named as an operator would.

use redrive::internals::domain::dead_letter::Target;
use redrive::internals::domain::endpoint::EndpointState;
use redrive::internals::domain::id::ExecutionId;
use redrive::internals::domain::message::Message;
use redrive::internals::domain::policy::OnExhausted;
use redrive::internals::engine::dead::{DeadGroup, DeadListQuery, DeadSelection};
use redrive::internals::engine::query;
use redrive::internals::engine::{Access, Command, Done, Ended, EngineError, RedeliverTarget};

pub(super) use super::pacing::{
    a_brake_holds_over_a_restart_and_the_rate_is_changed_while_it_goes,
    a_canary_is_sent_and_then_a_person_has_the_rest_go, a_canary_that_is_watched_passes_by_itself,
    a_canary_whose_refusals_count_as_delivered_passes_by_itself,
    a_pause_outlives_disabling_and_redelivering_and_plans_say_so,
    a_redelivered_endpoint_goes_at_its_rate_until_nothing_waits,
    a_redelivery_over_a_canary_that_failed_says_that_it_waits_for_a_person,
    an_endpoint_that_comes_back_by_itself_starts_slowly_where_its_policy_says_so,
    an_endpoint_that_is_paused_while_it_is_unavailable_gets_no_probe,
    failed_probes_count_for_the_pace_that_stops_after_so_many,
    so_many_failures_close_a_paced_endpoint_again_and_it_says_so,
    what_was_delivered_is_in_the_rates_of_its_queue_and_its_endpoint,
};
use super::stage::{BOUND, Stage, notification};
use crate::support::checker::Left;
use crate::support::receiver::Behaviour;
use crate::support::wait::wait_until;

pub(super) async fn notifications_are_delivered_in_order(mut stage: Stage) {
    for _ in 0..5 {
        for execution in ["a", "b", "c"] {
            stage.publish_many(execution, "/ok", 4).await;
        }
    }
    stage.delivered(60).await;
    stage.stop().await;
    stage.assert_kept();
}

pub(super) async fn all_values_of_a_header_are_delivered(mut stage: Stage) {
    let mut new = notification("a", stage.url("/ok"), 1, "x");
    let given = [
        ("X-List", "a"),
        ("Cookie", "k=1"),
        ("X-List", "b"),
        ("cookie", "l=2"),
        ("x-list", "c"),
    ];
    new.headers
        .extend(given.map(|(name, value)| (name.to_owned(), value.to_owned())));
    stage.engine.publish(new).await.unwrap();
    wait_until("the delivery", BOUND, async || {
        (stage.receiver.delivered() == 1).then_some(())
    })
    .await;
    let attempt = stage.receiver.attempts_of("/ok").remove(0);
    let sent = ["x-list", "cookie"].map(|name| attempt.header(name).map(str::to_owned));
    assert_eq!(sent, ["a, b, c", "k=1; l=2"].map(|all| Some(all.to_owned())));
    stage.stop().await;
}

pub(super) async fn a_receiver_that_is_down_is_retried_and_gets_everything_in_order(mut stage: Stage) {
    stage.publish("a", "/hook").await;
    stage.delivered(1).await;
    stage.receiver.behave("/hook", Behaviour::Status(503));
    for execution in ["a", "b", "c"] {
        stage.publish_many(execution, "/hook", 3).await;
    }
    let down = stage.endpoint_is("/hook", "unavailable").await;
    assert!(
        down.endpoint.next_attempt_at.is_some() && down.endpoint.last_status == Some(503),
        "{down:?}"
    );
    let why = stage.queue_is("b", "/hook", "endpoint_unavailable").await.why.unwrap();
    assert!(why.text.contains("503") && why.until.is_some(), "{why:?}");
    stage.receiver.behave("/hook", Behaviour::Status(200));
    stage.delivered(10).await;
    stage.endpoint_is("/hook", "available").await;
    stage.stop().await;
    stage.assert_kept();
}

pub(super) async fn a_failing_url_delays_no_other(mut stage: Stage) {
    stage.receiver.behave("/never", Behaviour::Never);
    for execution in ["a", "b", "c", "d"] {
        stage.publish_many(execution, "/never", 2).await;
        stage.publish_many(execution, "/ok", 5).await;
    }
    stage.delivered(20).await;
    let healthy = stage.receiver.attempts_of("/ok").len();
    assert_eq!(healthy, 20);
    stage.endpoint_is("/never", "unavailable").await;
    stage.receiver.behave("/never", Behaviour::Status(204));
    stage.delivered(28).await;
    stage.stop().await;
    stage.assert_kept();
}

pub(super) async fn an_end_mark_deletes_the_queue_and_a_rerun_makes_it_again(mut stage: Stage) {
    stage.publish_many("a", "/ok", 3).await;
    let execution = ExecutionId::parse("a").unwrap();
    let ended = stage.engine.end(execution.clone(), stage.url("/ok")).await.unwrap();
    assert!(matches!(ended, Ended::Marked(_)));
    let queue = stage.queue("a", "/ok");
    wait_until("the queue to be gone", BOUND, async || {
        (stage.broker.look(&queue).await.unwrap() == redrive::internals::broker::Look::Missing).then_some(())
    })
    .await;
    wait_until("its row to be gone", BOUND, async || {
        stage.store.queue_get(&queue).await.unwrap().is_none().then_some(())
    })
    .await;
    let again = stage.engine.end(execution, stage.url("/ok")).await.unwrap();
    assert!(
        matches!(again, Ended::NoQueue(_)),
        "nothing to end is success: {again:?}"
    );
    stage.publish_many("a", "/ok", 2).await;
    stage.delivered(5).await;
    stage.stop().await;
    stage.assert_kept();
}

pub(super) async fn a_refused_message_becomes_a_dead_letter_and_the_next_goes_on(mut stage: Stage) {
    stage.receiver.behave_by("/hook", |attempt| {
        Behaviour::Status(if attempt.header("x-number") == Some("2") {
            422
        } else {
            200
        })
    });
    stage.publish("a", "/hook").await;
    let refused = stage.publish("a", "/hook").await;
    stage.publish("a", "/hook").await;
    stage.delivered(2).await;
    let dead = stage.dead_letters(1).await;
    assert_eq!(dead[0].message_id.as_deref(), Some(refused.id.as_str()));
    assert_eq!(dead[0].header_text("x-redrive-dead-reason"), Some("refused"));
    assert_eq!(
        dead[0].header_text("x-redrive-dead-origin"),
        Some(stage.queue("a", "/hook").as_str())
    );
    stage.history.left.insert(refused.id.as_str().to_owned(), Left::Dead);
    stage.stop().await;
    stage.assert_kept();
}

pub(super) async fn a_gone_endpoint_is_disabled_until_somebody_redelivers(mut stage: Stage) {
    stage.receiver.behave("/hook", Behaviour::Status(410));
    stage.publish_many("a", "/hook", 2).await;
    stage.endpoint_is("/hook", "disabled").await;
    stage.queue_is("a", "/hook", "endpoint_disabled").await;
    stage.publish("a", "/hook").await;
    stage.receiver.behave("/hook", Behaviour::Status(200));
    let done = stage
        .execute(Command::Redeliver(RedeliverTarget::Urls(vec![stage.url("/hook")])))
        .await;
    let Done::Redelivered(redelivered) = done else {
        panic!("not redelivered")
    };
    assert_eq!(redelivered[0].before, EndpointState::Disabled);
    assert_eq!(redelivered[0].queues, 1);
    stage.delivered(3).await;
    stage.stop().await;
    stage.assert_kept();
}

pub(super) async fn a_plan_to_redeliver_holds_while_probes_fail_and_counts_what_stays_paused(mut stage: Stage) {
    stage.receiver.behave("/hook", Behaviour::Status(503));
    for execution in ["a", "b"] {
        stage.publish(execution, "/hook").await;
    }
    let attempts = stage.endpoint_is("/hook", "unavailable").await.endpoint.attempts;
    stage.execute(Command::PauseQueue(stage.queue("b", "/hook"))).await;
    let command = Command::Redeliver(RedeliverTarget::Urls(vec![stage.url("/hook")]));
    let plan = stage.engine.plan(command).await.unwrap();
    let effect = &plan.lines[0].effect;
    assert!(
        effect.contains("1 queue continues with all retries, 1 stays paused"),
        "{effect}"
    );
    wait_until("another probe to fail", BOUND, async || {
        let endpoint = stage.endpoint("/hook").await?.endpoint;
        (endpoint.attempts > attempts).then_some(())
    })
    .await;
    stage.receiver.behave("/hook", Behaviour::Status(200));
    let grant = Access::Operator.grant("tester", None).unwrap();
    // Where the probe was faster, the endpoint is available already.
    match stage.engine.execute(&plan, &grant).await {
        Ok(Done::Redelivered(done)) => assert_eq!(done[0].queues, 1),
        other => assert_eq!(
            stage.endpoint("/hook").await.unwrap().endpoint.state,
            EndpointState::Available,
            "{other:?}"
        ),
    }
    stage.delivered(1).await;
    stage.execute(Command::ResumeQueue(stage.queue("b", "/hook"))).await;
    stage.delivered(2).await;
    stage.stop().await;
    stage.assert_kept();
}

pub(super) async fn an_exhausted_schedule_parks_the_url_until_somebody_redelivers(mut stage: Stage) {
    stage
        .restart(|settings| settings.default_policy.maximum_delay_retries = 0)
        .await;
    stage.receiver.behave("/hook", Behaviour::Status(502));
    stage.publish_many("a", "/hook", 2).await;
    stage.publish_many("b", "/hook", 2).await;
    stage.endpoint_is("/hook", "parked").await;
    stage.queue_is("b", "/hook", "parked").await;
    let attempts = stage.receiver.attempts_of("/hook").len();
    stage.receiver.behave("/hook", Behaviour::Status(200));
    stage.execute(Command::Redeliver(RedeliverTarget::All)).await;
    stage.delivered(4).await;
    assert!(
        attempts <= 5,
        "the first try and one at once of each queue, one of the probe after the delay: {attempts}"
    );
    stage.stop().await;
    stage.assert_kept();
}

pub(super) async fn an_exhausted_schedule_dead_letters_when_the_policy_says_so(mut stage: Stage) {
    stage
        .restart(|settings| {
            settings.default_policy.maximum_delay_retries = 0;
            settings.default_policy.on_exhausted = OnExhausted::DeadLetter;
        })
        .await;
    stage.receiver.behave_by("/hook", |attempt| {
        Behaviour::Status(if attempt.header("x-number") == Some("1") {
            503
        } else {
            200
        })
    });
    let exhausted = stage.publish("a", "/hook").await;
    stage.publish("a", "/hook").await;
    let dead = stage.dead_letters(1).await;
    assert_eq!(dead[0].message_id.as_deref(), Some(exhausted.id.as_str()));
    assert_eq!(dead[0].header_text("x-redrive-dead-reason"), Some("exhausted"));
    stage.delivered(1).await;
    stage.endpoint_is("/hook", "available").await;
    stage.history.left.insert(exhausted.id.as_str().to_owned(), Left::Dead);
    stage.stop().await;
    stage.assert_kept();
}

pub(super) async fn an_unavailable_url_for_which_nothing_waits_has_no_next_attempt_until_something_comes(
    mut stage: Stage,
) {
    stage
        .restart(|settings| {
            settings.default_policy.maximum_delay_retries = 0;
            settings.default_policy.on_exhausted = OnExhausted::DeadLetter;
        })
        .await;
    stage.receiver.behave("/hook", Behaviour::Status(503));
    let exhausted = stage.publish("a", "/hook").await;
    stage.dead_letters(1).await;
    wait_until("nothing to be tried", BOUND, async || {
        let shown = stage.endpoint("/hook").await?;
        let is_idle = shown.endpoint.state.as_str() == "unavailable" && shown.waiting == Some(0);
        (is_idle && shown.endpoint.next_attempt_at.is_none()).then_some(())
    })
    .await;
    stage.receiver.behave("/hook", Behaviour::Status(200));
    stage.publish("a", "/hook").await;
    stage.delivered(1).await;
    stage.endpoint_is("/hook", "available").await;
    stage.history.left.insert(exhausted.id.as_str().to_owned(), Left::Dead);
    stage.stop().await;
    stage.assert_kept();
}

pub(super) async fn a_paused_queue_is_let_go_and_resumed(mut stage: Stage) {
    stage.publish("a", "/ok").await;
    stage.delivered(1).await;
    stage.execute(Command::PauseQueue(stage.queue("a", "/ok"))).await;
    let paused = stage.queue_is("a", "/ok", "paused").await;
    assert!(paused.why.unwrap().text.contains("tester"));
    stage.publish("a", "/ok").await;
    stage.publish("b", "/ok").await;
    stage.delivered(2).await;
    assert_eq!(stage.queue_view("a", "/ok").await.unwrap().ready, Some(1));
    let (pause, resume) = (
        Command::PauseQueue(stage.queue("a", "/ok")),
        Command::ResumeQueue(stage.queue("a", "/ok")),
    );
    let of_before = stage.engine.plan(resume.clone()).await.unwrap();
    assert_eq!(of_before.lines[0].now, "paused by tester: a test");
    let of_another = stage.engine.plan(pause).await.unwrap();
    assert!(of_another.undo().unwrap_err().contains("was paused before"));
    let bob = Access::Operator.grant("bob", Some("a migration".to_owned())).unwrap();
    stage.engine.execute(&of_another, &bob).await.unwrap();
    let tester = Access::Operator.grant("tester", None).unwrap();
    let refused = stage.engine.execute(&of_before, &tester).await.unwrap_err();
    assert!(refused.to_string().contains("plan is stale"), "{refused}");
    let plan = stage.engine.plan(resume).await.unwrap();
    assert_eq!(plan.lines[0].now, "paused by bob: a migration");
    stage.engine.execute(&plan, &tester).await.unwrap();
    stage.delivered(3).await;
    let Ok(audit) = stage
        .engine
        .query(query::Audit {
            before: None,
            limit: 10,
        })
        .await
    else {
        panic!("no audit")
    };
    let lines: Vec<String> = audit
        .items
        .iter()
        // A queue that is made before the new exchange is known to have all of them is bound once more.
        .filter(|line| line.entry.command != "heal")
        .map(|line| format!("{} {}", line.entry.command, line.entry.result))
        .collect();
    assert_eq!(
        lines,
        [
            "queue resume done",
            "queue resume planned",
            "queue pause done",
            "queue pause planned",
            "queue pause done",
            "queue pause planned"
        ]
    );
    stage.stop().await;
    stage.assert_kept();
}

pub(super) async fn a_message_that_is_not_ours_is_kept_among_the_dead_letters(mut stage: Stage) {
    stage.publish("a", "/ok").await;
    stage.delivered(1).await;
    let foreign = Message {
        message_id: Some("alien".to_owned()),
        kind: Some("celery".to_owned()),
        body: "x".into(),
        ..Message::default()
    };
    stage.broker.publish(&stage.queue("a", "/ok"), &foreign).await.unwrap();
    stage.publish("a", "/ok").await;
    stage.delivered(2).await;
    let dead = stage.dead_letters(1).await;
    assert_eq!(dead[0].body, foreign.body);
    assert_eq!(dead[0].header_text("x-redrive-dead-reason"), Some("undecodable"));
    assert!(
        dead[0]
            .header_text("x-redrive-dead-error")
            .is_some_and(|why| why.contains("celery"))
    );
    stage.stop().await;
    stage.assert_kept();
}

/// One of two groups at a time.
async fn groups_come_in_pages(stage: &Stage, all: &DeadListQuery, groups: &[DeadGroup]) {
    let page = async |cursor: Option<&str>| {
        let query = DeadListQuery {
            limit: 1,
            cursor: cursor.map(str::to_owned),
            ..all.clone()
        };
        stage.engine.query(query::DeadGroups(query)).await
    };
    let first = page(None).await.unwrap().page;
    let second = page(first.next_cursor.as_deref()).await.unwrap().page;
    let paged: Vec<_> = first.items.iter().chain(&second.items).collect();
    assert_eq!(paged, groups.iter().collect::<Vec<_>>());
    assert_eq!(second.next_cursor, None);
    let wrong = page(Some("nowhere")).await.unwrap_err();
    assert!(matches!(wrong, EngineError::Invalid { .. }), "{wrong}");
}

pub(super) async fn our_own_dead_letters_are_listed_grouped_and_shown(mut stage: Stage) {
    stage.receiver.behave("/gone", Behaviour::Status(404));
    let refused = stage.publish("a", "/gone").await;
    stage.publish("b", "/gone").await;
    stage.publish("c", "/ok").await;
    stage.delivered(1).await;
    let foreign = Message {
        kind: Some("celery".to_owned()),
        body: "x".into(),
        ..Message::default()
    };
    stage.broker.publish(&stage.queue("c", "/ok"), &foreign).await.unwrap();
    stage.dead_letters(3).await;
    let query = |filter: Option<&str>| DeadListQuery {
        selection: DeadSelection {
            filter: filter.map(str::to_owned),
            ..DeadSelection::default()
        },
        sort: None,
        limit: 100,
        cursor: None,
        patience: BOUND,
    };
    // One of two that ask at once looks, and the other waits for it.
    let asked = || stage.engine.query(query::Dead(query(Some("status = 404"))));
    let (page, beside) = tokio::join!(asked(), asked());
    let (page, beside) = (page.unwrap(), beside.unwrap());
    assert_eq!((page.page.items.len(), beside.page.items.len()), (2, 2), "{page:?}");
    let of = |id: &str| {
        page.page
            .items
            .iter()
            .find(|letter| letter.message_id.as_deref() == Some(id))
    };
    let letter = of(refused.id.as_str()).expect("it is listed");
    assert_eq!(
        (letter.reason.as_str(), letter.class.as_deref()),
        ("refused", Some("refused"))
    );
    assert_eq!(letter.url.as_deref(), Some(stage.url("/gone").as_str()));
    assert_eq!(letter.origin.as_deref(), Some(stage.queue("a", "/gone").as_str()));
    assert!(
        letter.attempts >= Some(1) && letter.last_failed_at.is_some(),
        "{letter:?}"
    );
    let groups = stage.engine.query(query::DeadGroups(query(None))).await.unwrap();
    let counts: Vec<_> = groups
        .page
        .items
        .iter()
        .map(|group| (group.count, group.what.as_str()))
        .collect();
    assert_eq!(counts[0], (2, "status 404"));
    assert_eq!(counts.len(), 2, "{counts:?}");
    groups_come_in_pages(&stage, &query(None), &groups.page.items).await;
    let show = query::OneDeadLetter {
        id: letter.id.as_str().to_owned(),
        patience: BOUND,
    };
    let detail = stage.engine.query(show).await.unwrap();
    assert_eq!(detail.target, Ok(Target::Delivery(stage.queue("a", "/gone"))));
    assert!(detail.message.header_text("x-redrive-dead-policy").is_some());
    stage.stop().await;
}

pub(super) async fn a_waiting_queue_is_browsed_without_a_change(mut stage: Stage) {
    stage.receiver.behave("/hook", Behaviour::Status(503));
    stage.publish_many("a", "/hook", 5).await;
    stage.endpoint_is("/hook", "unavailable").await;
    for _ in 0..3 {
        let Ok(seen) = stage
            .engine
            .query(query::Browse {
                queue: stage.queue("a", "/hook"),
                limit: 3,
            })
            .await
        else {
            panic!("cannot browse")
        };
        let bodies: Vec<&[u8]> = seen.iter().map(|one| one.message.body.as_ref()).collect();
        assert_eq!(bodies, [b"a /hook 1", b"a /hook 2", b"a /hook 3"]);
    }
    stage.receiver.behave("/hook", Behaviour::Status(200));
    stage.delivered(5).await;
    stage.stop().await;
    stage.assert_kept();
}

pub(super) async fn unavailability_survives_a_restart(mut stage: Stage) {
    stage.receiver.behave("/hook", Behaviour::retry_after(503, "3"));
    stage.publish_many("a", "/hook", 2).await;
    let before = stage.endpoint_is("/hook", "unavailable").await;
    stage.restart(|_| {}).await;
    let after = stage.endpoint("/hook").await.unwrap();
    assert_eq!(after.endpoint.state, EndpointState::Unavailable);
    assert_eq!(after.endpoint.next_attempt_at, before.endpoint.next_attempt_at);
    assert_eq!(after.endpoint.attempts, before.endpoint.attempts);
    stage.receiver.behave("/hook", Behaviour::Status(200));
    stage.delivered(2).await;
    stage.stop().await;
    stage.assert_kept();
}
