//! Retry policies at work: each key by a delivery, which one applies, what a changed one does to what waits, the
//! rate of an endpoint, and the commands and routes around them.
//!
//! Deliveries run on the embedded pair and on RabbitMQ with PostgreSQL.

mod changing;
mod fronts;
mod keys;
mod rates;
mod written;

use redrive::internals::engine::policies::{PolicyAct, PolicyEdit, PolicyView};
use redrive::internals::engine::query;
use redrive::internals::engine::query::PolicyScope;
use redrive::internals::engine::{Command, Done};
use serde_json::Value;

use crate::engine::stage::Stage;

/// Makes one test per behaviour and pairing.
macro_rules! deliveries {
    ($($module:ident: $($name:ident)+;)+) => {
        mod embedded {
            //! SQLite and the embedded broker.
            $($(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$module::$name(crate::engine::stage::Ground::embedded()).await;
            })+)+
        }

        mod rabbitmq_postgres {
            //! RabbitMQ with PostgreSQL.
            $($(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$module::$name(crate::engine::stage::Ground::rabbit_postgres().await).await;
            })+)+
        }
    };
}

deliveries! {
    keys:
        each_function_delays_each_retry_by_its_schedule_and_then_parks
        a_notification_keeps_its_own_schedule
        what_is_refused_is_accepted_or_retried_where_the_policy_says_so
        an_accepted_refusal_makes_its_url_available
        an_event_uses_the_policy_of_its_subscription_or_type_and_a_direct_publish_that_of_its_url;
    changing:
        what_waits_is_tried_sooner_by_a_changed_policy
        what_waits_is_tried_later_and_as_before_when_the_policy_is_taken_back
        what_is_exhausted_by_a_changed_policy_parks_and_goes_on_when_it_is_restored
        what_is_exhausted_by_a_changed_policy_becomes_a_dead_letter_and_the_next_one_probes
        of_two_operators_with_a_plan_each_the_second_is_refused;
    rates:
        a_url_gets_no_more_requests_a_second_than_its_rate
        a_url_that_waits_for_its_turn_holds_no_worker;
    written:
        a_policy_written_with_a_type_or_a_subscription_is_a_policy_like_any_other
        a_subscription_that_ends_takes_along_the_policy_of_its_options_alone;
}

/// The policy of what is published directly to a path.
fn of_url(stage: &Stage, path: &str) -> PolicyScope {
    PolicyScope {
        event_type: None,
        url: Some(stage.url(path)),
    }
}

fn edit(scope: &PolicyScope, act: PolicyAct) -> Command {
    Command::Policy(PolicyEdit {
        scope: scope.clone(),
        act,
        expected: None,
    })
}

fn setting(scope: &PolicyScope, policy: &Value) -> Command {
    edit(scope, PolicyAct::Set(policy.to_string()))
}

async fn execute(stage: &Stage, command: Command) -> PolicyView {
    match stage.execute(command).await {
        Done::Policy(view) => *view,
        other => panic!("not a policy: {other:?}"),
    }
}

async fn set(stage: &Stage, scope: &PolicyScope, policy: &Value) -> PolicyView {
    execute(stage, setting(scope, policy)).await
}

async fn view(stage: &Stage, scope: &PolicyScope) -> PolicyView {
    stage.engine.query(query::Policy(scope.clone())).await.unwrap()
}
