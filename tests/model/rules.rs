//! What holds in every state (docs/protocols.md, *Promises*).
//!
//! A rule about a step is judged by the step, which leaves a mark; a rule about a state is read from the state.

use stateright::Property;

use crate::protocol::Protocol;
use crate::world::{World, bit};

/// A rule that a step can break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    SentInOrder,
    ReceivedInOrder,
    NewestEpochAttempts,
    OneRequestAtATime,
    OnlyTheDeadAreBuried,
    LeasesAreTakenFromTheDead,
    EpochsGrow,
    OldEpochsDecideNothing,
    AckedIsNotSentAgain,
    DecidedIsNotSent,
}

impl World {
    pub fn breaks(&mut self, rule: Rule) {
        self.history.broken |= 1 << rule as u16;
    }

    const fn keeps(&self, rule: Rule) -> bool {
        self.history.broken & (1 << rule as u16) == 0
    }
}

pub const EFFECT_BEFORE_ACK: &str = "promise 1: what left the queue was accepted, or is a dead letter";
pub const NOTHING_IS_LOST: &str = "promise 1: when no more goes wrong, every message is accepted or a dead letter";
pub const SENT_IN_ORDER: &str = "promise 2: a message is sent when all before it are settled";
pub const ONE_REQUEST: &str = "promise 3: no attempt starts while a request of another daemon is open";
pub const FEW_REPEATS: &str = "promise 4: each fault repeats one message at most";
pub const FROM_THE_DEAD: &str = "rule 2: a lease is taken only from an incarnation that is marked dead";
pub const PROVEN_DEAD: &str = "rule 3: whoever is marked dead can start nothing any more";
pub const FENCED: &str = "rule 4: no attempt starts under an epoch that is not the newest";
pub const EPOCHS_GROW: &str = "rule 5: a new epoch is higher than all before";
pub const EPOCHS_GUARD: &str = "rule 5: an old epoch decides nothing";
pub const RECEIVED_IN_ORDER: &str = "rule 5: a receiver that refuses lower epochs accepts in order";
pub const ACKS_REMEMBERED: &str = "rule 6: a process does not send again what it acked";
pub const DECISION_FIRST: &str = "rule 17: what is a dead letter is not sent, unless its ack was lost";
pub const ONE_DECISION: &str = "rule 17: a message is a dead letter once, unless its ack was lost";

fn always(name: &'static str, condition: fn(&Protocol, &World) -> bool) -> Property<Protocol> {
    Property::always(name, condition)
}

/// All of them.
pub fn all() -> Vec<Property<Protocol>> {
    vec![
        always(EFFECT_BEFORE_ACK, |_, world| {
            (0..world.queue.head).all(|message| world.is_settled(message))
        }),
        always(SENT_IN_ORDER, |_, world| world.keeps(Rule::SentInOrder)),
        always(ONE_REQUEST, |_, world| world.keeps(Rule::OneRequestAtATime)),
        always(FEW_REPEATS, |protocol, world| {
            repeats(world) <= repeats_excused(protocol, world)
        }),
        always(FROM_THE_DEAD, |_, world| world.keeps(Rule::LeasesAreTakenFromTheDead)),
        always(PROVEN_DEAD, |_, world| world.keeps(Rule::OnlyTheDeadAreBuried)),
        always(FENCED, |_, world| world.keeps(Rule::NewestEpochAttempts)),
        always(EPOCHS_GROW, |_, world| world.keeps(Rule::EpochsGrow)),
        always(EPOCHS_GUARD, |_, world| world.keeps(Rule::OldEpochsDecideNothing)),
        always(RECEIVED_IN_ORDER, |_, world| world.keeps(Rule::ReceivedInOrder)),
        always(ACKS_REMEMBERED, |_, world| world.keeps(Rule::AckedIsNotSentAgain)),
        always(DECISION_FIRST, |_, world| world.keeps(Rule::DecidedIsNotSent)),
        always(ONE_DECISION, |protocol, world| {
            let is_excused = |message| world.is_restored(protocol) || world.history.acks_lost & bit(message) != 0;
            let mut letters = world.letters.iter().zip(0..);
            letters.all(|(letters, message)| letters.count_ones() <= 1 || is_excused(message))
        }),
        always(NOTHING_IS_LOST, Protocol::settles),
    ]
}

/// Messages that the receiver accepted once more.
pub fn repeats(world: &World) -> u8 {
    world
        .receiver
        .accepted
        .iter()
        .map(|times| times.saturating_sub(1))
        .sum()
}

fn repeats_excused(protocol: &Protocol, world: &World) -> u8 {
    let (all, left) = (&protocol.faults, &world.left);
    let of_one = (all.crashes - left.crashes)
        + (all.freezes - left.freezes)
        + (all.cuts - left.cuts)
        + (all.answers - left.answers);
    of_one + (all.kills - left.kills) * protocol.messages
}
