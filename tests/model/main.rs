//! The rules of ownership and settling as a model, of which every reachable state is visited (docs/protocols.md, *A model
//! of these rules*).
//!
//! ```text
//! cargo test --test model -- --nocapture         how many states each run has, and how short a counterexample is
//! ```
//!
//! Each run of the protocol as it is must keep every rule, and must reach what its faults are there for. Each flawed
//! protocol must break the rule that keeps the right one from it. Nothing of the program is in here: that the program
//! follows these rules is what the tests on real servers show.
#![allow(clippy::print_stdout, reason = "a test says what it found by printing")]
#![allow(
    unreachable_pub,
    reason = "what a module offers to the others of this program is `pub`"
)]

mod attempt;
mod broker;
mod faults;
mod happenings;
mod lease;
mod protocol;
mod rules;
mod settling;
mod world;

use stateright::{Checker, Model, Property};

use happenings::{
    ALL_SETTLED, ANSWERED_LATE, CAME_AGAIN, DEAD_LETTER, DECISION_FOUND, DISOWNED, EPOCH_AGAIN, EPOCH_REFUSED,
    FENCED_IN_HAND, OVERTAKEN, SENT_TWICE, TWO_HOLDERS,
};
use protocol::{Flaw, Protocol};
use world::Faults;

/// Visits every state: no rule is broken in any of them, and there are so many at least.
fn keeps_all(daemons: usize, messages: u8, faults: Faults, states: usize) {
    let checker = Protocol::right(daemons, messages, faults, rules::all())
        .checker()
        .spawn_bfs()
        .join();
    let (count, depth) = (checker.unique_state_count(), checker.max_depth());
    println!("{count} states, up to {depth} steps from the first, with {faults:?}");
    for rule in rules::all() {
        checker.assert_no_discovery(rule.name);
    }
    assert!(
        count >= states,
        "{count} states, of at least {states}: the model has lost some of what happens"
    );
}

/// The flawed protocol breaks this rule; the shortest way there is printed.
fn is_refuted(flaw: Flaw, messages: u8, faults: Faults, rule: &'static str) {
    let looked_for = only(rules::all(), rule);
    let checker = Protocol::flawed(flaw, messages, faults, looked_for)
        .checker()
        .spawn_bfs()
        .join();
    let steps = checker.assert_any_discovery(rule).into_actions();
    println!("{flaw:?} breaks \"{rule}\" in {} steps: {steps:?}", steps.len());
}

/// All of these happen in the right protocol.
fn happen(messages: u8, faults: Faults, happenings: &[&'static str]) {
    for happening in happenings {
        let looked_for = only(happenings::all(), happening);
        let checker = Protocol::right(2, messages, faults, looked_for)
            .checker()
            .spawn_bfs()
            .join();
        let steps = checker.assert_any_discovery(happening).into_actions();
        println!("{happening}, after {} steps", steps.len());
    }
}

fn only(mut properties: Vec<Property<Protocol>>, name: &str) -> Vec<Property<Protocol>> {
    properties.retain(|property| property.name == name);
    properties
}

#[test]
fn a_daemon_that_crashes_loses_nothing_and_repeats_one_message() {
    let faults = Faults {
        crashes: 1,
        ..Faults::default()
    };
    keeps_all(2, 2, faults, 100_000);
    happen(2, faults, &[ALL_SETTLED, OVERTAKEN, SENT_TWICE]);
}

#[test]
fn what_a_crash_leaves_of_a_dead_letter_is_finished_once() {
    let faults = Faults {
        crashes: 1,
        rejections: 1,
        ..Faults::default()
    };
    keeps_all(2, 1, faults, 100_000);
    happen(1, faults, &[DEAD_LETTER, DECISION_FOUND]);
}

#[test]
fn a_suspended_daemon_overlaps_nobody() {
    let faults = Faults {
        freezes: 1,
        cuts: 1,
        ..Faults::default()
    };
    keeps_all(2, 1, faults, 150_000);
    happen(1, faults, &[TWO_HOLDERS, FENCED_IN_HAND, EPOCH_REFUSED, DISOWNED]);
}

#[test]
fn a_store_that_answers_late_overlaps_nobody() {
    let faults = Faults {
        silences: 1,
        ..Faults::default()
    };
    keeps_all(2, 1, faults, 100_000);
    happen(1, faults, &[FENCED_IN_HAND, DISOWNED, ANSWERED_LATE]);
}

#[test]
fn a_crash_and_a_lost_connection_repeat_one_message_each() {
    let faults = Faults {
        crashes: 1,
        cuts: 1,
        ..Faults::default()
    };
    keeps_all(2, 1, faults, 150_000);
    happen(1, faults, &[CAME_AGAIN, SENT_TWICE]);
}

#[test]
fn what_a_killed_broker_forgot_is_acked_again() {
    let faults = Faults {
        cuts: 1,
        kills: 1,
        answers: 1,
        ..Faults::default()
    };
    keeps_all(2, 2, faults, 40_000);
    happen(2, faults, &[ALL_SETTLED, CAME_AGAIN]);
}

#[test]
fn a_restored_store_gives_no_epoch_again() {
    let faults = Faults {
        restores: 1,
        cuts: 1,
        ..Faults::default()
    };
    keeps_all(2, 1, faults, 150_000);
    happen(1, faults, &[EPOCH_AGAIN, EPOCH_REFUSED]);
}

#[test]
fn three_daemons_share_a_queue() {
    let faults = Faults {
        cuts: 1,
        turns: 1,
        ..Faults::default()
    };
    keeps_all(3, 1, faults, 50_000);
}

#[test]
fn acks_before_effects_are_refuted() {
    let faults = Faults {
        crashes: 1,
        ..Faults::default()
    };
    is_refuted(Flaw::AckBeforeEffect, 1, faults, rules::EFFECT_BEFORE_ACK);
    is_refuted(Flaw::AckBeforeEffect, 1, faults, rules::NOTHING_IS_LOST);
}

#[test]
fn a_lease_without_a_fence_is_refuted() {
    let faults = Faults {
        freezes: 1,
        ..Faults::default()
    };
    is_refuted(Flaw::NoFence, 1, faults, rules::FENCED);
    is_refuted(Flaw::NoFence, 1, faults, rules::ONE_REQUEST);
}

#[test]
fn a_fence_that_is_asked_before_the_store_is_refuted() {
    let faults = Faults {
        silences: 1,
        ..Faults::default()
    };
    is_refuted(Flaw::FenceAskedBeforeTheStore, 1, faults, rules::FENCED);
}

#[test]
fn a_heartbeat_that_counts_from_its_answer_is_refuted() {
    let faults = Faults {
        silences: 1,
        ..Faults::default()
    };
    is_refuted(Flaw::BeatCountsFromItsAnswer, 1, faults, rules::FENCED);
}

#[test]
fn a_take_over_without_a_margin_is_refuted() {
    let faults = Faults {
        silences: 1,
        cuts: 1,
        ..Faults::default()
    };
    is_refuted(Flaw::TakeOverWithoutMargin, 1, faults, rules::ONE_REQUEST);
}

#[test]
fn marking_dead_without_comparing_the_counter_is_refuted() {
    let faults = Faults {
        silences: 1,
        ..Faults::default()
    };
    is_refuted(Flaw::CounterNotCompared, 1, faults, rules::PROVEN_DEAD);
}

#[test]
fn taking_leases_from_the_living_is_refuted() {
    let faults = Faults::default();
    is_refuted(Flaw::LeaseOfTheLiving, 1, faults, rules::FROM_THE_DEAD);
    is_refuted(Flaw::LeaseOfTheLiving, 1, faults, rules::FENCED);
}

#[test]
fn epochs_that_are_only_counted_are_refuted() {
    let faults = Faults {
        restores: 1,
        ..Faults::default()
    };
    is_refuted(Flaw::EpochWithoutClock, 1, faults, rules::EPOCHS_GROW);
    let faults = Faults {
        restores: 1,
        cuts: 1,
        turns: 1,
        ..Faults::default()
    };
    is_refuted(Flaw::EpochWithoutClock, 1, faults, rules::EPOCHS_GUARD);
}

#[test]
fn decisions_that_no_epoch_guards_are_refuted() {
    let faults = Faults {
        freezes: 1,
        ..Faults::default()
    };
    is_refuted(Flaw::DecisionUnguarded, 1, faults, rules::EPOCHS_GUARD);
}

#[test]
fn dead_letters_before_their_decision_are_refuted() {
    let faults = Faults {
        crashes: 1,
        rejections: 1,
        ..Faults::default()
    };
    is_refuted(Flaw::LetterBeforeDecision, 1, faults, rules::DECISION_FIRST);
}

#[test]
fn forgetting_what_was_acked_with_the_connection_is_refuted() {
    let faults = Faults {
        cuts: 1,
        ..Faults::default()
    };
    is_refuted(Flaw::AcksForgotten, 1, faults, rules::ACKS_REMEMBERED);
}

#[test]
fn a_receiver_that_ignores_epochs_is_refuted() {
    let faults = Faults {
        crashes: 1,
        ..Faults::default()
    };
    is_refuted(Flaw::ReceiverIgnoresEpochs, 2, faults, rules::RECEIVED_IN_ORDER);
}
