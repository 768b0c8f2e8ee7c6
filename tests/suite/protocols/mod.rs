//! The rules between the systems, each by the race or the crash that it is there for.
//!
//! Which test proves which rule stands in `docs/protocols.md`. A rule that a contract test proves is not proven again here.

mod answers;
mod behind;
mod clocks;
mod connections;
mod decisions;
mod deleting;
mod endpoints;
mod heeded;
mod identity;
mod isolation;
mod kept;
mod life;
mod ownership;
mod pauses;
mod poison;
mod publishing;
mod release;
mod rules;
mod slots;

use redrive::internals::domain::id::{IncarnationId, QueueName};
use redrive::internals::store::{Begun, Lease, LeaseOutcome, NewIncarnation, ProcessMark, Purpose};

use crate::engine::stage::Stage;

/// An incarnation of somebody else.
async fn incarnation_of(stage: &Stage, name: &str) -> IncarnationId {
    let new = NewIncarnation {
        name: name.to_owned(),
        host: "elsewhere".to_owned(),
        pid: 1,
        process: ProcessMark::default(),
        take_over: stage.settings.take_over,
        deadline: stage.settings.request_timeout,
        version: 1_000,
        naming: None,
        replaces_settings: false,
    };
    let Begun::Alive(id) = stage.store.incarnation_begin(new).await.unwrap() else {
        panic!("it cannot begin")
    };
    id
}

/// An incarnation of somebody else that holds the lease of `queue`.
async fn lease_of(stage: &Stage, queue: &QueueName) -> (IncarnationId, Lease) {
    let id = incarnation_of(stage, "another").await;
    let taken = stage
        .store
        .leases_take(id, Purpose::Deliver, std::slice::from_ref(queue))
        .await
        .unwrap()
        .pop();
    let Some(LeaseOutcome::Taken(lease)) = taken else {
        panic!("not taken: {taken:?}")
    };
    (id, *lease)
}
