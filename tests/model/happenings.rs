//! What happens at all: a rule that nothing tries to break would be kept by doing nothing.

use stateright::Property;

use crate::protocol::Protocol;
use crate::rules::repeats;
use crate::world::{Answer, Beat, Daemon, Process, Work, World, bit};

pub const ALL_SETTLED: &str = "the queue gets empty";
pub const DEAD_LETTER: &str = "a message becomes a dead letter";
pub const OVERTAKEN: &str = "the request of a daemon that crashed is overtaken by one of its successor";
pub const TWO_HOLDERS: &str = "a suspended daemon believes to hold a lease that another one took";
pub const FENCED_IN_HAND: &str = "a daemon that goes on has a message in hand, and others the lease";
pub const EPOCH_REFUSED: &str = "a receiver refuses an old epoch";
pub const DISOWNED: &str = "a heartbeat is refused";
pub const ANSWERED_LATE: &str = "a heartbeat is answered too late to open the fence";
pub const CAME_AGAIN: &str = "a message whose ack was lost comes again";
pub const DECISION_FOUND: &str = "a daemon finds a decision that another one left open";
pub const SENT_TWICE: &str = "a message is accepted twice";
pub const EPOCH_AGAIN: &str = "a restored store gives a lease anew while its former holder works";

fn sometimes(name: &'static str, condition: fn(&Protocol, &World) -> bool) -> Property<Protocol> {
    Property::sometimes(name, condition)
}

/// All of them.
pub fn all() -> Vec<Property<Protocol>> {
    vec![
        sometimes(ALL_SETTLED, |protocol, world| world.queue.head == protocol.messages),
        sometimes(DEAD_LETTER, |_, world| {
            world.letters.iter().any(|letters| *letters != 0)
        }),
        sometimes(OVERTAKEN, |_, world| {
            let strays = world.strays.iter().flatten();
            strays.into_iter().any(|stray| stray.epoch < world.receiver.epoch)
        }),
        sometimes(TWO_HOLDERS, |_, world| {
            holds_of_old(world).any(|daemon| daemon.process == Process::Frozen)
        }),
        sometimes(FENCED_IN_HAND, |_, world| {
            holds_of_old(world).any(|daemon| daemon.is_running() && matches!(daemon.work, Work::Received(_)))
        }),
        sometimes(EPOCH_REFUSED, |_, world| {
            let answer = |daemon: &Daemon| {
                matches!(
                    daemon.work,
                    Work::Attempt {
                        answer: Answer::OldEpoch,
                        ..
                    }
                )
            };
            world.daemons.iter().any(answer)
        }),
        sometimes(DISOWNED, |_, world| {
            world.daemons.iter().any(|daemon| daemon.beat == Beat::Refused)
        }),
        sometimes(ANSWERED_LATE, |_, world| {
            world.daemons.iter().any(|daemon| daemon.beat == Beat::Counted(0))
        }),
        sometimes(CAME_AGAIN, |_, world| {
            received(world, |daemon, message| daemon.remembered & bit(message) != 0)
        }),
        sometimes(DECISION_FOUND, |_, world| {
            received(world, |daemon, message| {
                daemon.acked & bit(message) == 0 && daemon.decision_about(message).is_some()
            })
        }),
        sometimes(SENT_TWICE, |_, world| repeats(world) > 0),
        sometimes(EPOCH_AGAIN, |protocol, world| {
            world.is_restored(protocol)
                && holds_of_old(world).any(|daemon| daemon.is_running() && daemon.has_open_request())
        }),
    ]
}

/// Daemons that believe to hold the lease, which another one got since.
fn holds_of_old(world: &World) -> impl Iterator<Item = &Daemon> {
    let newest = world.store.epoch;
    world
        .daemons
        .iter()
        .filter(move |daemon| daemon.epoch().is_some_and(|epoch| epoch < newest))
}

/// Whether a daemon has received a message of that kind.
fn received(world: &World, is: fn(&Daemon, u8) -> bool) -> bool {
    world
        .daemons
        .iter()
        .any(|daemon| matches!(daemon.work, Work::Received(message) if daemon.is_running() && is(daemon, message)))
}
