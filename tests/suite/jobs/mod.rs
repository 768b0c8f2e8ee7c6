//! Jobs over both brokers: the five scenarios of a submitted job, what must not happen beside them, and queues
//! with a lifetime of any kind.

mod commands;
mod expiring;
mod scenarios;

/// Makes one test per scenario and broker.
macro_rules! scenarios {
    ($($name:ident)*) => {
        mod embedded {
            //! The embedded broker.
            use crate::engine::stage::{Ground, Stage};

            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::scenarios::$name(&Stage::quiet(Ground::embedded(), |_| {}).await).await;
            })*
        }

        mod rabbitmq {
            //! RabbitMQ.
            use crate::engine::stage::{Ground, Stage};

            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::scenarios::$name(&Stage::quiet(Ground::rabbit_sqlite().await, |_| {}).await).await;
            })*
        }
    };
}

scenarios! {
    a_result_that_is_consumed_removes_all_three_queues
    a_client_that_comes_back_at_once_keeps_the_queues_alive
    a_client_that_comes_back_after_the_end_gets_the_result
    queues_that_nobody_comes_back_for_are_gone_with_their_messages
    coming_back_too_late_is_an_error_that_names_the_queue_and_makes_nothing
    a_lost_message_in_hand_comes_again
    a_result_that_was_dealt_with_is_the_last_whenever_a_call_is_dropped
    another_lifetime_is_explained
    looking_all_the_time_renews_nothing
}
