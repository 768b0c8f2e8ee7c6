//! That nothing is stuck or lost: from every state, when no more goes wrong, every message gets settled.
//!
//! The checker visits states and no ways that never end, so each state is followed here, by one order of steps in which
//! time passes last. What a state leads to is remembered.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use crate::protocol::Protocol;
use crate::world::{Faults, World};

/// States from which every message gets settled.
#[derive(Debug, Default)]
pub struct Settling(Mutex<HashSet<World>>);

impl Protocol {
    pub fn settles(&self, world: &World) -> bool {
        let mut known = self.settling.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut world = World {
            left: Faults::default(),
            backup: None,
            ..*world
        };
        let mut way = HashSet::new();
        while !self.is_all_settled(&world) && !known.contains(&world) {
            if !way.insert(world) {
                return false;
            }
            let Some(next) = self.steps.iter().find_map(|step| self.after(&world, *step)) else {
                return false;
            };
            world = next;
        }
        known.extend(way);
        true
    }

    fn is_all_settled(&self, world: &World) -> bool {
        world.queue.head == self.messages && (0..self.messages).all(|message| world.is_settled(message))
    }
}
