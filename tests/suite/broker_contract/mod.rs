//! What every broker driver promises, as one suite: each behaviour is a test for each driver.
//!
//! A driver joins with a function that makes a [`Bench`] of its own (vhost or file) and one line,
//! `broker_contract!(path::to::function)`, in a module of its name. Nothing here knows a driver; what
//! only one of them can do is tested in that driver's own module.

pub(crate) mod behaviours;
pub(crate) mod bench;
pub(crate) mod intakes;
pub(crate) mod walks;

use crate::support::wait::within;
use bench::Bench;

/// Makes one test per behaviour for the driver whose bench `$start` makes.
macro_rules! broker_contract {
    ($start:path) => {
        broker_contract! { @modelled $start }
        broker_contract! { @each $start;
            browsing_shows_the_head_first_and_changes_nothing
            browsing_a_missing_queue_is_an_error
            an_intake_gets_what_its_keys_match_with_where_it_came_from
            what_an_intake_settles_is_gone_and_the_rest_comes_again_in_order
            an_intake_with_a_smaller_window_than_the_one_before_changes_no_order
            an_intake_that_ceases_hands_out_what_came_and_gives_nothing_back
            an_intake_binds_again_what_somebody_unbound
            an_intake_whose_queue_is_deleted_says_so
            rescue_takes_the_head_out_only_when_settled
            rescue_of_an_empty_queue_finds_nothing
            queues_are_listed_as_they_are_asked_for
            a_listing_says_how_much_waits_in_each_queue
            one_queue_is_shown_in_detail
            a_queue_of_any_name_is_shown_in_detail
        }
    };
    // What a model of a broker has too: no poison, no intake queues, and of the management API only what delivery reads.
    (@modelled $start:path) => {
        broker_contract! { @each $start;
            a_missing_queue_is_looked_at_as_missing
            publishing_to_a_missing_queue_is_returned_and_creates_nothing
            publishing_to_the_dead_letter_queue_is_accepted
            a_created_queue_is_there_and_empty
            creating_a_queue_twice_changes_nothing
            an_accepted_message_is_ready
            a_message_arrives_as_it_was_published
            messages_arrive_in_the_order_of_publishing
            publishes_in_parallel_each_get_their_own_answer
            the_next_message_waits_for_the_ack_at_a_prefetch_of_one
            what_is_acked_without_waiting_is_gone_and_lets_the_next_come
            closing_gives_everything_back_in_its_place
            dropping_gives_everything_back_in_its_place
            a_message_that_comes_again_is_equal
            a_second_attachment_takes_over_only_after_the_first_is_closed
            waiting_for_a_message_can_be_given_up_and_taken_up_again
            an_acked_message_is_gone
            an_ack_after_the_queue_is_gone_says_lost
            attaching_to_a_missing_queue_says_missing
            deleting_the_queue_ends_the_attachment
            an_unbound_queue_returns_what_is_published
            a_bound_again_queue_accepts
            binding_a_missing_queue_says_missing
            unbinding_a_missing_queue_is_no_error
            attaching_with_bind_binds
            attaching_without_bind_leaves_it_unbound
            an_empty_queue_is_deleted
            a_queue_with_a_message_is_not_deleted
            a_queue_with_a_consumer_is_not_deleted
            deleting_a_missing_queue_says_missing
            deleting_whole_drops_what_is_in_it
            the_companion_is_attached_by_its_part
            walking_passes_everything_in_order_and_gives_it_back
            walking_on_from_window_to_window_keeps_the_order
            what_a_walk_settles_is_gone_and_the_rest_keeps_its_place
            a_walk_that_settles_as_it_goes_empties_the_queue
            a_dropped_walk_gives_everything_back
            walking_a_missing_queue_finds_nothing
            a_walked_message_is_as_it_was_published
            a_nudge_reaches_who_listens
            preparing_twice_changes_nothing
            a_healthy_broker_says_so
        }
    };
    (@each $start:path; $($name:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                $crate::broker_contract::run($start, $crate::broker_contract::behaviour!($name)).await;
            }
        )*
    };
}

/// The function of a behaviour, boxed so that `run` can take any of them.
macro_rules! behaviour {
    ($name:ident) => {
        |bench| Box::pin($crate::broker_contract::behaviours::$name(bench))
    };
}

use behaviour;

/// A behaviour under test.
type Behaviour = for<'a> fn(&'a Bench) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Makes a bench, runs one behaviour within a bound and takes the bench away.
async fn run<F: Future<Output = Bench>>(start: impl FnOnce() -> F, behaviour: Behaviour) {
    let bench = start().await;
    within(std::time::Duration::from_mins(1), behaviour(&bench))
        .await
        .expect("the behaviour ends within a minute");
    bench.finish().await;
}

mod rabbitmq_classic {
    //! The suite over RabbitMQ with classic queues.
    broker_contract!(crate::rabbitmq::bench::classic);
}

mod rabbitmq_quorum {
    //! The suite over RabbitMQ with quorum queues.
    broker_contract!(crate::rabbitmq::bench::quorum);
}

mod embedded {
    //! The suite over the embedded broker.
    broker_contract!(crate::embedded::start);
}

mod model;
