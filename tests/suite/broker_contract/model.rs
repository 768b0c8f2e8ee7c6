//! The suite over the model of RabbitMQ that simulated runs have (`tests/simulation/broker`): what a real server does in
//! these scripts the model does, too. Where one of its rules is turned round, a script says so.

#[path = "../../simulation/broker/mod.rs"]
#[allow(dead_code, reason = "faults are for simulated runs")]
mod broker;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use redrive::internals::broker::BrokerHandle;
use redrive::internals::domain::naming::{Naming, QueueType};

use self::broker::{Model, Rules};
use super::Behaviour;
use super::bench::Bench;
use crate::support::wait::within;

async fn bench(rules: Rules) -> Bench {
    let naming = Naming {
        prefix: "redrive.".into(),
        vhost: "redrive".into(),
        url_hash_key: "key".into(),
        queue_type: QueueType::Classic,
    };
    let broker: BrokerHandle = Arc::new(Model::new(naming.clone(), rules).client());
    broker.prepare().await.unwrap();
    Bench {
        broker,
        naming,
        finish: Mutex::new(None),
    }
}

async fn true_to_rabbitmq() -> Bench {
    bench(Rules::default()).await
}

// What the model has: no poison, no intake queues, and of the management API only what delivery reads.
broker_contract! { @each true_to_rabbitmq;
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

/// Whether `behaviour` is not what a model with these rules does.
async fn is_noticed(rules: Rules, behaviour: Behaviour) -> bool {
    let run = tokio::spawn(async move {
        let bench = bench(rules).await;
        within(Duration::from_secs(5), behaviour(&bench)).await
    });
    !matches!(run.await, Ok(Ok(())))
}

#[tokio::test]
async fn a_model_that_returns_to_the_tail_is_noticed() {
    let rules = Rules {
        returns_keep_their_place: false,
        ..Rules::default()
    };
    assert!(is_noticed(rules, behaviour!(closing_gives_everything_back_in_its_place)).await);
}

#[tokio::test]
async fn a_model_whose_consumers_are_all_active_is_noticed() {
    let rules = Rules {
        one_is_active: false,
        ..Rules::default()
    };
    let behaviour: Behaviour = behaviour!(a_second_attachment_takes_over_only_after_the_first_is_closed);
    assert!(is_noticed(rules, behaviour).await);
}

#[tokio::test]
async fn a_model_that_confirms_what_no_queue_takes_is_noticed() {
    let rules = Rules {
        unroutable_is_returned: false,
        ..Rules::default()
    };
    let behaviour: Behaviour = behaviour!(publishing_to_a_missing_queue_is_returned_and_creates_nothing);
    assert!(is_noticed(rules, behaviour).await);
}

#[tokio::test]
async fn a_model_that_forgets_what_was_in_hand_is_noticed() {
    let rules = Rules {
        unsettled_comes_again: false,
        ..Rules::default()
    };
    assert!(is_noticed(rules, behaviour!(dropping_gives_everything_back_in_its_place)).await);
}
