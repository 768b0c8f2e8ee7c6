//! What several processes do at the same moment.

use std::time::Duration;

use redrive::internals::domain::endpoint::EndpointChange;
use redrive::internals::domain::id::QueueName;
use redrive::internals::store::{HeadScope, Lease, LeaseOutcome, Purpose, Store};

use super::fixtures::{Place, closing_failure, failure, learned, living, queue, success, url};

const ROUNDS: usize = 8;
const QUEUES: usize = 12;

pub(super) async fn several_processes_may_open_a_new_store_at_once(place: &Place) {
    place.wipe().await;
    let (one, two, three) = tokio::join!(place.another(), place.another(), place.another());
    for store in [one, two, three] {
        let store = store.unwrap();
        living(&*store).await;
        store.close().await;
    }
}

/// Everything that locks rows, by four processes over the same queues in different orders: nothing may
/// fail, so nothing may wait in a circle.
pub(super) async fn mixed_work_of_several_processes_does_not_wait_in_a_circle(place: &Place) {
    let mut others = Vec::new();
    for _ in 0..3 {
        others.push(place.another().await.unwrap());
    }
    let names: Vec<QueueName> = (0..QUEUES).map(|number| queue(&format!("q{number}"))).collect();
    tokio::join!(
        work(&*place.store, names.clone()),
        work(&*others[0], names.iter().rev().cloned().collect()),
        learn_and_open(&*others[1]),
        learn_and_open(&*others[2]),
    );
    for other in others {
        other.close().await;
    }
}

async fn work(store: &dyn Store, names: Vec<QueueName>) {
    for _ in 0..ROUNDS {
        let id = living(store).await;
        let outcomes = store.leases_take(id, Purpose::Deliver, &names).await.unwrap();
        let leases: Vec<Lease> = outcomes
            .into_iter()
            .filter_map(|outcome| match outcome {
                LeaseOutcome::Taken(lease) => Some(*lease),
                LeaseOutcome::Held(_) | LeaseOutcome::Reserved(_) | LeaseOutcome::Locked | LeaseOutcome::Disowned => {
                    None
                }
            })
            .collect();
        let successes: Vec<_> = leases.iter().map(|lease| success(lease, "one", "m")).collect();
        for lease in &leases {
            let closing = closing_failure(lease, "one", "m", Duration::ZERO);
            let own = failure(lease, "one", "n", Some(Duration::ZERO));
            let (closed, own) = tokio::join!(store.failure_record(&closing), store.failure_record(&own));
            closed.unwrap();
            own.unwrap();
        }
        store.successes_record(&successes).await.unwrap();
        store.incarnation_end(id).await.unwrap();
    }
}

async fn learn_and_open(store: &dyn Store) {
    for round in 0..ROUNDS * 3 {
        let learned: Vec<_> = (0..QUEUES)
            .map(|number| learned(&format!("q{}", (number * 5 + round) % QUEUES), "one"))
            .collect();
        store.queues_learn(&learned).await.unwrap();
        store.heads_reset(&HeadScope::Url(url("one"))).await.unwrap();
        let disable = EndpointChange::Disable {
            reason: "because".to_owned(),
        };
        store.endpoint_change(&url("one"), None, &disable).await.unwrap();
        store
            .endpoint_change(&url("one"), None, &EndpointChange::Open)
            .await
            .unwrap();
    }
}
