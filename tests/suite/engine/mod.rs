//! The engine in this process, over each pairing of store and broker, with real receivers.
//!
//! Each behaviour is a test for each pairing: embedded, RabbitMQ with SQLite, RabbitMQ with PostgreSQL.

mod behaviours;
mod limits;
mod pacing;
pub(crate) mod stage;

/// Makes one test per behaviour and pairing.
macro_rules! behaviours {
    ($($name:ident)*) => {
        mod embedded {
            //! SQLite and the embedded broker.
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::behaviours::$name(super::stage::Stage::embedded().await).await;
            })*
        }

        mod rabbitmq_sqlite {
            //! RabbitMQ with SQLite.
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::behaviours::$name(super::stage::Stage::rabbit_sqlite().await).await;
            })*
        }

        mod rabbitmq_postgres {
            //! RabbitMQ with PostgreSQL.
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::behaviours::$name(super::stage::Stage::rabbit_postgres().await).await;
            })*
        }
    };
}

behaviours! {
    notifications_are_delivered_in_order
    a_receiver_that_is_down_is_retried_and_gets_everything_in_order
    a_failing_url_delays_no_other
    an_end_mark_deletes_the_queue_and_a_rerun_makes_it_again
    a_refused_message_becomes_a_dead_letter_and_the_next_goes_on
    a_gone_endpoint_is_disabled_until_somebody_redelivers
    a_plan_to_redeliver_holds_while_probes_fail_and_counts_what_stays_paused
    an_exhausted_schedule_parks_the_url_until_somebody_redelivers
    an_exhausted_schedule_dead_letters_when_the_policy_says_so
    a_paused_queue_is_let_go_and_resumed
    an_unavailable_url_for_which_nothing_waits_has_no_next_attempt_until_something_comes
    a_message_that_is_not_ours_is_kept_among_the_dead_letters
    all_values_of_a_header_are_delivered
    a_waiting_queue_is_browsed_without_a_change
    our_own_dead_letters_are_listed_grouped_and_shown
    unavailability_survives_a_restart
    a_redelivered_endpoint_goes_at_its_rate_until_nothing_waits
    a_canary_is_sent_and_then_a_person_has_the_rest_go
    a_canary_that_is_watched_passes_by_itself
    a_canary_whose_refusals_count_as_delivered_passes_by_itself
    failed_probes_count_for_the_pace_that_stops_after_so_many
    an_endpoint_that_is_paused_while_it_is_unavailable_gets_no_probe
    a_redelivery_over_a_canary_that_failed_says_that_it_waits_for_a_person
    so_many_failures_close_a_paced_endpoint_again_and_it_says_so
    a_brake_holds_over_a_restart_and_the_rate_is_changed_while_it_goes
    a_pause_outlives_disabling_and_redelivering_and_plans_say_so
    an_endpoint_that_comes_back_by_itself_starts_slowly_where_its_policy_says_so
    what_was_delivered_is_in_the_rates_of_its_queue_and_its_endpoint
}
