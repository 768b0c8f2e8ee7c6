//! The `_retry_policy` of an event type's metadata and of a subscription's options.

use redrive::internals::domain::event::EventType;
use redrive::internals::domain::policy::PolicySource;
use redrive::internals::engine::events::{EventCommand, SubscriptionChoice};
use redrive::internals::engine::policies::PolicyAct;
use redrive::internals::engine::query::PolicyScope;
use redrive::internals::engine::{Command, Done};
use serde_json::{Value, json};

use super::keys::{attempts_allowed, of_attempts};
use super::{edit, execute, view};
use crate::engine::stage::{Ground, Stage};

const PATH: &str = "/typed";

fn imports() -> EventType {
    EventType::parse("imports").unwrap()
}

fn metadata(document: &Value) -> Command {
    Command::Events(EventCommand::SetType {
        event_type: imports(),
        document: document.to_string(),
    })
}

fn subscribing(stage: &Stage, options: &Value) -> Command {
    Command::Events(EventCommand::Subscribe {
        event_type: imports(),
        url: stage.url(PATH),
        options: options.to_string(),
    })
}

async fn done(stage: &Stage, command: Command) {
    let done = stage.execute(command).await;
    assert!(matches!(done, Done::Events(_)), "{done:?}");
}

/// The newest version of a scope's policy, whether it is set, and who saved it.
async fn newest(stage: &Stage, scope: &PolicyScope) -> Option<(i64, bool, String)> {
    let newest = view(stage, scope).await.newest?;
    Some((newest.version, newest.document.is_some(), newest.author))
}

async fn allowed(stage: &Stage) -> u32 {
    let head = stage.queue_view("a", PATH).await.unwrap().head.unwrap();
    head.attempts_allowed
}

pub(super) async fn a_policy_written_with_a_type_or_a_subscription_is_a_policy_like_any_other(ground: Ground) {
    let mut stage = Stage::on(ground, |settings| {
        settings.default_policy.retries_with_no_delay = 0;
        settings.default_policy.minimum_delay_s = 600;
        settings.default_policy.maximum_delay_s = 600;
    })
    .await;
    let of_type = PolicyScope {
        event_type: Some("imports".to_owned()),
        url: None,
    };
    let of_subscription = PolicyScope {
        url: Some(stage.url(PATH)),
        ..of_type.clone()
    };
    let tester = |version: i64, set: bool| Some((version, set, "tester".to_owned()));

    let first = json!({"owner": "us", "_retry_policy": of_attempts(4)});
    done(&stage, metadata(&first)).await;
    assert_eq!(newest(&stage, &of_type).await, tester(1, true));
    assert_eq!(attempts_allowed(&mut stage, PATH, Some("imports")).await, 4);
    done(&stage, metadata(&first)).await;
    assert_eq!(newest(&stage, &of_type).await, tester(1, true), "nothing changed");

    // One waits: the plan says what becomes of it, before anything is saved.
    let shorter = json!({"_retry_policy": of_attempts(1)});
    let plan = stage.engine.plan(metadata(&shorter)).await.unwrap();
    assert_eq!(plan.messages, Some(1), "{plan:?}");
    assert!(
        plan.warnings.iter().any(|line| line.contains("the messages park")),
        "{plan:?}"
    );
    assert!(
        plan.lines.iter().any(|line| line.effect.contains("version 2")),
        "{plan:?}"
    );
    assert_eq!(newest(&stage, &of_type).await, tester(1, true));

    // Over the type's, and for what waits already.
    done(&stage, subscribing(&stage, &json!({"_retry_policy": of_attempts(3)}))).await;
    assert_eq!(newest(&stage, &of_subscription).await, tester(1, true));
    assert_eq!(view(&stage, &of_subscription).await.source, PolicySource::Subscription);
    assert_eq!(allowed(&stage).await, 3);

    // What is left out, or null, is unset; the one before can be restored.
    done(&stage, subscribing(&stage, &json!({"headers": {}}))).await;
    assert_eq!(newest(&stage, &of_subscription).await, tester(2, false));
    assert_eq!(allowed(&stage).await, 4);
    done(&stage, metadata(&json!({"_retry_policy": null}))).await;
    assert_eq!(newest(&stage, &of_type).await, tester(2, false));
    assert_eq!(view(&stage, &of_type).await.source, PolicySource::Default);
    let restored = execute(&stage, edit(&of_type, PolicyAct::Restore(Some(1)))).await;
    assert_eq!(restored.newest.unwrap().version, 3);
    assert_eq!(allowed(&stage).await, 4);
    // Somebody has set one since: metadata that says nothing of it leaves it alone.
    done(&stage, metadata(&json!({"owner": "you"}))).await;
    assert_eq!(newest(&stage, &of_type).await, tester(3, true));
    stage.stop().await;
}

pub(super) async fn a_subscription_that_ends_takes_along_the_policy_of_its_options_alone(ground: Ground) {
    let mut stage = Stage::on(ground, |settings| {
        settings.default_policy.retries_with_no_delay = 0;
        settings.default_policy.minimum_delay_s = 600;
        settings.default_policy.maximum_delay_s = 600;
    })
    .await;
    let scope = PolicyScope {
        event_type: Some("imports".to_owned()),
        url: Some(stage.url(PATH)),
    };
    let tester = |version: i64, set: bool| Some((version, set, "tester".to_owned()));
    let ending = || {
        Command::Events(EventCommand::Unsubscribe {
            event_type: imports(),
            which: SubscriptionChoice::Url(stage.url(PATH)),
        })
    };
    let written = json!({"_retry_policy": of_attempts(3)});
    done(&stage, metadata(&json!({}))).await;
    done(&stage, subscribing(&stage, &written)).await;
    assert_eq!(newest(&stage, &scope).await, tester(1, true));

    // The plan says so, and nothing is changed by it.
    let plan = stage.engine.plan(ending()).await.unwrap();
    assert!(
        plan.lines.iter().any(|line| line
            .effect
            .starts_with("unset; what applies then (the configuration's)")),
        "{plan:?}"
    );
    assert_eq!(newest(&stage, &scope).await, tester(1, true));
    done(&stage, ending()).await;
    assert_eq!(newest(&stage, &scope).await, tester(2, false), "with its history");
    assert_eq!(view(&stage, &scope).await.source, PolicySource::Default);

    // One that somebody set by itself is nobody's but his.
    done(&stage, subscribing(&stage, &written)).await;
    execute(&stage, edit(&scope, PolicyAct::Set(of_attempts(7).to_string()))).await;
    assert_eq!(newest(&stage, &scope).await, tester(4, true));
    let plan = stage.engine.plan(ending()).await.unwrap();
    assert!(plan.warnings.iter().any(|line| line.contains("stays")), "{plan:?}");
    done(&stage, ending()).await;
    assert_eq!(newest(&stage, &scope).await, tester(4, true));
    stage.stop().await;
}
