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

broker_contract! { @modelled true_to_rabbitmq }

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
