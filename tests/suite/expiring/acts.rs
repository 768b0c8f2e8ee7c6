//! What a person does with queues that expire.

use std::time::Duration;

use redrive::internals::broker::{AttachOptions, AttachOutcome, Look, QueuePart};
use redrive::internals::domain::expiry::Extends;
use redrive::internals::domain::job::{JobPart, Lifetime};
use redrive::internals::engine::expiring::{ExpiringOrder, ExpiringResult, Keep, SaveState, Which};
use redrive::internals::engine::jobs::JobNext;
use redrive::internals::engine::{Access, Command, Danger, Done, EngineError, EngineSettings, Plan};

use super::{LONG, act, filled, listed, listed_as, message, messages, publish, saves, submit, these};
use crate::engine::stage::{BOUND, Ground, Stage};
use crate::support::faulty_store::Fault;
use crate::support::wait::wait_until;

/// Job queues are leftovers after a second.
pub(super) fn settings(settings: &mut EngineSettings) {
    settings.job_queue_ttl = Duration::from_secs(1);
}

fn purge(which: Which) -> ExpiringOrder {
    ExpiringOrder::Purge {
        which,
        keep: Keep::Saved,
    }
}

async fn execute(stage: &Stage, plan: &Plan) -> Vec<redrive::internals::engine::expiring::ExpiringOutcome> {
    let grant = Access::Operator.grant("tester", None).unwrap();
    match stage.engine.execute(plan, &grant).await.unwrap() {
        Done::Expiring(outcomes) => outcomes,
        other => panic!("{other:?}"),
    }
}

pub(super) async fn saved_messages_come_back_with_every_property_and_in_order(stage: &mut Stage) {
    let (_, queue) = filled(stage, 5).await;
    let saved = act(stage, ExpiringOrder::Save(these(&queue))).await;
    assert_eq!((&saved[0].result, saved[0].messages), (&ExpiringResult::Saved, 5));
    assert_eq!(messages(stage, &queue).await, []);
    let record = saves(stage).await.remove(0);
    assert_eq!(
        (record.state, record.left, record.actor.as_str()),
        (SaveState::Kept, 5, "tester")
    );
    assert_eq!(Some(&record.id), saved[0].save.as_ref());
    let restore = ExpiringOrder::Restore {
        saves: vec![record.id.clone()],
        to: None,
    };
    // What is named twice is meant once.
    let twice = ExpiringOrder::Restore {
        saves: vec![record.id.clone(), record.id.clone()],
        to: None,
    };
    let restored = act(stage, twice).await;
    assert_eq!(
        (&restored[0].result, restored[0].messages, restored.len()),
        (&ExpiringResult::Restored, 5, 1)
    );
    let expected: Vec<_> = (0..5).map(message).collect();
    assert_eq!(messages(stage, &queue).await, expected);
    assert_eq!(saves(stage).await[0].state, SaveState::Restored);
    let again = stage.engine.plan(Command::Expiring(restore)).await.unwrap_err();
    assert!(again.to_string().contains("restored already"), "{again}");
}

pub(super) async fn a_restore_declares_again_what_is_gone(stage: &mut Stage) {
    let (id, queue) = filled(stage, 3).await;
    let saved = act(stage, ExpiringOrder::Save(these(&queue))).await;
    stage.engine.job_remove(&id).await.unwrap();
    let restore = ExpiringOrder::Restore {
        saves: saved[0].save.clone().into_iter().collect(),
        to: None,
    };
    let plan = stage.engine.plan(Command::Expiring(restore.clone())).await.unwrap();
    let effect = &plan.lines[0].effect;
    assert!(
        effect.contains("other queues of its job") && effect.contains("begins again"),
        "{effect}"
    );
    let twice = &plan.warnings[0];
    assert!(twice.contains("up to 3 messages may be put back twice"), "{twice}");
    let restored = act(stage, restore).await;
    assert_eq!(
        (&restored[0].result, restored[0].messages),
        (&ExpiringResult::Restored, 3)
    );
    assert_eq!(messages(stage, &queue).await.len(), 3);
    let again = listed(stage).await.into_iter().find(|one| one.name == queue).unwrap();
    assert_eq!(again.ttl, Some(LONG), "with its lifetime");
    // A job's worker and client find it as it was.
    publish(stage, &queue, 3..4).await;
    let redeclared = stage.broker.declare_expiring(&queue, Lifetime::of(LONG).unwrap()).await;
    assert!(redeclared.is_ok(), "{redeclared:?}");
    let job = stage.engine.job_check(&id, None).await.unwrap();
    assert_eq!(
        job.lifetime,
        Some(Lifetime::of(LONG).unwrap()),
        "the job is there again"
    );
    let mut followed = stage.engine.job_follow(&id).await.unwrap();
    assert!(matches!(followed.next().await, JobNext::Message(_)));
    followed.close().await;
}

pub(super) async fn saved_messages_can_be_put_elsewhere(stage: &mut Stage) {
    let (id, queue) = filled(stage, 2).await;
    let saved = act(stage, ExpiringOrder::Save(these(&queue))).await;
    let to = id.queue(JobPart::Status);
    let restore = |to| ExpiringOrder::Restore {
        saves: saved[0].save.clone().into_iter().collect(),
        to,
    };
    let nowhere = redrive::internals::domain::id::QueueName::parse("nowhere").unwrap();
    let refused = stage.engine.plan(Command::Expiring(restore(Some(nowhere)))).await;
    assert!(matches!(refused, Err(EngineError::NotFound { .. })), "{refused:?}");
    act(stage, restore(Some(to.clone()))).await;
    assert_eq!(messages(stage, &queue).await, []);
    assert_eq!(messages(stage, &to).await, [message(0), message(1)]);
}

pub(super) async fn what_got_a_message_between_plan_and_purge_is_left(stage: &mut Stage) {
    let (_, queue) = filled(stage, 2).await;
    listed_as(stage, &queue, |one| one.messages == Some(2)).await;
    let plan = stage
        .engine
        .plan(Command::Expiring(purge(these(&queue))))
        .await
        .unwrap();
    assert_eq!(plan.messages, Some(2));
    publish(stage, &queue, 2..3).await;
    let left = execute(stage, &plan).await;
    assert!(
        matches!(&left[0].result, ExpiringResult::Left(why) if why.contains("3 messages now")),
        "{left:?}"
    );
    publish(stage, &queue, 3..4).await;
    assert_eq!(messages(stage, &queue).await.len(), 4, "it takes messages as before");
    assert_eq!(saves(stage).await, []);
}

pub(super) async fn what_got_a_consumer_between_plan_and_purge_is_left(stage: &mut Stage) {
    let (_, queue) = filled(stage, 2).await;
    listed_as(stage, &queue, |one| one.messages == Some(2)).await;
    let plan = stage
        .engine
        .plan(Command::Expiring(purge(these(&queue))))
        .await
        .unwrap();
    let options = AttachOptions {
        prefetch: 1,
        bind: false,
        part: QueuePart::Queue,
    };
    let AttachOutcome::Attached(attached) = stage.broker.attach(&queue, options).await.unwrap() else {
        panic!("the queue is there");
    };
    let left = execute(stage, &plan).await;
    assert!(
        matches!(&left[0].result, ExpiringResult::Left(why) if why.contains("consumer")),
        "{left:?}"
    );
    attached.close().await;
    assert_eq!(messages(stage, &queue).await.len(), 2);
}

pub(super) async fn leftovers_that_outlived_their_time_are_purged_and_can_be_restored(stage: &mut Stage) {
    let (left, living) = (submit(stage, Lifetime::Never).await, filled(stage, 1).await.1);
    let queue = left.queue(JobPart::Result);
    publish(stage, &queue, 0..2).await;
    let over = listed_as(stage, &queue, |one| one.over && one.messages == Some(2)).await;
    assert_eq!((over.ttl, over.expires_at), (None, None));
    wait_until("all three to be over", BOUND, async || {
        let over = listed(stage).await.into_iter().filter(|one| one.over).count();
        (over == 3).then_some(())
    })
    .await;
    let plan = stage
        .engine
        .plan(Command::Expiring(purge(Which::Expired)))
        .await
        .unwrap();
    assert_eq!(
        (plan.lines.len(), plan.messages, plan.danger),
        (3, Some(2), Danger::Reversible)
    );
    let purged = execute(stage, &plan).await;
    assert!(
        purged.iter().all(|one| one.result == ExpiringResult::Purged),
        "{purged:?}"
    );
    for part in JobPart::ALL {
        let look = stage.broker.queue_detail(&left.queue(part)).await.unwrap();
        assert_eq!(look, None, "{part:?}");
    }
    assert_eq!(
        messages(stage, &living).await.len(),
        1,
        "one with a lifetime is the broker's to delete"
    );
    let save = purged
        .iter()
        .find_map(|one| one.save.clone())
        .expect("what was in it is kept");
    let restore = ExpiringOrder::Restore {
        saves: vec![save],
        to: None,
    };
    act(stage, restore).await;
    assert_eq!(messages(stage, &queue).await, [message(0), message(1)]);
}

pub(super) async fn a_purge_that_drops_says_so_and_keeps_nothing(stage: &mut Stage) {
    let (_, queue) = filled(stage, 2).await;
    listed_as(stage, &queue, |one| one.messages == Some(2)).await;
    let order = ExpiringOrder::Purge {
        which: these(&queue),
        keep: Keep::Dropped,
    };
    let plan = stage.engine.plan(Command::Expiring(order)).await.unwrap();
    assert_eq!(plan.danger, Danger::Destroys);
    let purged = execute(stage, &plan).await;
    assert_eq!((&purged[0].result, purged[0].messages), (&ExpiringResult::Purged, 2));
    assert_eq!(saves(stage).await, []);
    assert_eq!(stage.broker.queue_detail(&queue).await.unwrap(), None);
}

pub(super) async fn an_extended_queue_outlives_its_like(stage: &mut Stage) {
    let short = Lifetime::of(Duration::from_secs(6)).unwrap();
    let (extended, like) = (submit(stage, short).await, submit(stage, short).await);
    let queue = extended.queue(JobPart::Result);
    let extend = ExpiringOrder::Extend {
        which: these(&queue),
        lifetime: None,
    };
    wait_until("the other one to be gone", BOUND, async || {
        let outcome = act(stage, extend.clone()).await.remove(0);
        assert_eq!(outcome.result, ExpiringResult::Extended);
        assert!(outcome.expires_at.is_some());
        stage.engine.job_check(&like, None).await.is_err().then_some(())
    })
    .await;
    assert!(matches!(stage.broker.look(&queue).await.unwrap(), Look::Present { .. }));
    let job = stage.engine.job_check(&extended, None).await;
    assert!(job.is_ok(), "its result can come: {job:?}");
    stage.engine.job_follow(&extended).await.unwrap().close().await;
}

pub(super) async fn what_cannot_be_extended_or_saved_says_why(stage: &mut Stage) {
    let for_ever = submit(stage, Lifetime::Never).await.queue(JobPart::Result);
    let refused = |order| stage.engine.plan(Command::Expiring(order));
    let extend = |queue, lifetime| ExpiringOrder::Extend {
        which: these(queue),
        lifetime,
    };
    let error = refused(extend(&for_ever, None)).await.unwrap_err().to_string();
    assert!(error.contains("no lifetime"), "{error}");
    let (id, queue) = filled(stage, 1).await;
    let error = refused(extend(&queue, Some(LONG * 2))).await.unwrap_err().to_string();
    assert!(error.contains("fixed when it was declared"), "{error}");
    let shown = listed(stage).await.into_iter().find(|one| one.name == queue).unwrap();
    assert_eq!(shown.extends, Extends::Redeclare);
    let delivery = stage.queue("an-execution", "/a");
    stage.broker.create(&delivery).await.unwrap();
    let error = refused(ExpiringOrder::Save(these(&delivery)))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("redrive's own"), "{error}");
    stage.engine.job_remove(&id).await.unwrap();
    let error = refused(ExpiringOrder::Save(these(&queue))).await.unwrap_err();
    assert!(matches!(error, EngineError::Expired { .. }), "{error}");
}

pub(super) async fn a_purge_that_the_store_ends_leaves_a_queue_that_takes_messages() {
    let (stage, store) = Stage::quiet_over_faults(Ground::embedded(), settings).await;
    let (_, queue) = filled(&stage, 2).await;
    let plan = stage
        .engine
        .plan(Command::Expiring(purge(these(&queue))))
        .await
        .unwrap();
    store.plan(|call| (call == "save_begin").then_some(Fault::Unheard));
    let grant = Access::Operator.grant("tester", None).unwrap();
    let ended = stage.engine.execute(&plan, &grant).await;
    assert!(matches!(&ended, Err(error) if error.is_unreachable()), "{ended:?}");
    publish(&stage, &queue, 2..3).await;
    assert_eq!(messages(&stage, &queue).await.len(), 3);
}
