//! The rules between the systems, each by the race or the crash that it is there for.
//!
//! A rule that a contract test proves is not proven again here:
//!
//! | rule | proven by |
//! |---|---|
//! | 1 leases, wishes, pause | `store_contract::leases`, `engine::…::a_paused_queue_is_let_go_and_resumed`, `…::a_waiting_queue_is_browsed_without_a_change`; two daemons: `ownership` |
//! | 2 incarnations, guarded death | `store_contract::incarnations` |
//! | 3 evidence of death | `store_contract::incarnations::evidence_says_no_more_than_it_proves`; the take-over: `ownership` |
//! | 4 the holder fences itself | `ownership`; leases and living workers compared, answers lost: `answers` |
//! | 5 epochs | `store_contract::leases::epochs_never_go_back_and_begin_at_the_clock`; over daemons: every test here, by the checker |
//! | 6 own reconnect | `connections`; its pauses: `pauses` |
//! | 7 versions and settings | `store_contract::incarnations`, `rabbitmq::rights::other_settings_get_an_error_and_no_second_queue`; said to the operator: `ownership` |
//! | 8 deletion | `broker_contract` for its steps; the races: `deleting` |
//! | 9, 10 publishing | `publishing` |
//! | 11 end marks | `engine::…::an_end_mark_deletes_the_queue_and_a_rerun_makes_it_again`; with messages behind: `deleting` |
//! | 13 endpoint epochs | `store_contract::endpoints`; late answers: `endpoints` |
//! | 14 probes | `store_contract::endpoints`; lost probes: `endpoints` |
//! | 34, 37 numbers and clocks | `store_contract::endpoints`, `store_contract::leases`; over an engine: `clocks` |
//! | 41 overrides | the verdict's table in `domain`; carried out: `clocks` |
//! | 15 whose fault | the verdict's table in `domain`; carried out: `endpoints` |
//! | 16 slots before workers | `slots` |
//! | 17, 18 decisions and records | `decisions` |
//! | 21 poison | `rabbitmq::poison` for the driver; the engine: `poison` |
//! | 23 broker policies | the judgement's table in `domain`; carried out: `rules`, `heeded`; without a daemon: `kept` |
//! | 24 release | `release` |
//! | 31 a message is its id and its fingerprint | what is remembered of acks: the table and the properties in `engine::settled`; a broker that is killed: `faults::brokers`; heads, decisions, deletions: `identity` |
//! | 25, 26 intake | `events::intake`, `events::intake_faults`; the guard: `store_contract::events::a_batch_under_a_lost_lease_changes_nothing` |
//! | 35 first contact, isolation | `isolation` |

mod answers;
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

use redrive::domain::id::{IncarnationId, QueueName};
use redrive::store::{Begun, Lease, LeaseOutcome, NewIncarnation, ProcessMark, Purpose};

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
        fingerprint: None,
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
