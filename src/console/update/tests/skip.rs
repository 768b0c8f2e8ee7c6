//! The first message of a queue is taken out where it holds its queue up, and nowhere else.

use super::fixture::{queue, queue_name, snapshot, stage};
use crate::domain::id::QueueName;
use crate::domain::queue::QueueState;
use crate::engine::Command;
use crate::engine::runs::{Order, OrderKind, Selection};
use crate::engine::snapshot::Snapshot;

const URL: &str = "https://shop.example/orders";

fn in_state(state: QueueState, ready: u64) -> Snapshot {
    Snapshot {
        dead_letter_queue: Some(dead()),
        ..snapshot(1, vec![queue("dlv.orders", Some(URL), state, ready)], Vec::new())
    }
}

fn dead() -> QueueName {
    queue_name("dlv.dead")
}

#[test]
fn a_head_that_waits_goes_to_the_dead_letters() {
    for state in [QueueState::Parked, QueueState::WaitingRetry, QueueState::Paused] {
        let order = Order {
            to: Some(dead()),
            ..Order::new(OrderKind::Skip, Selection::Head(queue_name("dlv.orders")))
        };
        assert_eq!(
            stage(in_state(state, 3)).plan("2 V"),
            [Command::Run(order)],
            "{state:?}"
        );
    }
}

#[test]
fn a_head_that_cannot_be_read_is_rescued_into_the_store() {
    let mut stage = stage(in_state(QueueState::Quarantined, 3));
    assert_eq!(stage.plan("2 V"), [Command::RescueQueue(queue_name("dlv.orders"))]);
}

#[test]
fn where_nothing_is_held_up_it_says_so() {
    for (state, ready, why) in [
        (QueueState::Delivering, 3, "its first message holds nothing up"),
        (QueueState::Paused, 0, "this queue is empty"),
    ] {
        let mut stage = stage(in_state(state, ready));
        assert!(stage.play("2 V").is_empty());
        assert_eq!(stage.toasts(), [format!("take the head out: {why}").as_str()]);
    }
}

#[test]
fn one_queue_at_a_time() {
    let mut stage = stage(in_state(QueueState::Parked, 3));
    assert!(stage.play("2 * V").is_empty());
    assert_eq!(
        stage.toasts(),
        ["take the head out: one queue at a time: u clears the marks"]
    );
}
