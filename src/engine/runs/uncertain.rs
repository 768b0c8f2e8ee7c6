//! What was settled a moment ago: acks are not confirmed, and the last ones may be lost with their channel.
//!
//! A broker hands out no more than [`AHEAD`] messages that it has no ack of. So what was settled before the last
//! so many is settled for certain, and of those it may not have heard. They are marked as not settled when a walk
//! ends badly, and met again or not. What is recorded meanwhile changes nothing in that.

use std::collections::VecDeque;

use super::source::AHEAD;

/// The ordinals of what was settled last.
#[derive(Debug, Default)]
pub(super) struct Uncertain(VecDeque<u64>);

impl Uncertain {
    /// These were settled after all others.
    pub(super) fn add(&mut self, ordinals: impl Iterator<Item = u64>) {
        self.0.extend(ordinals);
        let certain = self.0.len().saturating_sub(AHEAD as usize);
        self.0.drain(..certain);
    }

    /// All of them; from now on nothing is uncertain.
    pub(super) fn take(&mut self) -> impl Iterator<Item = u64> + use<> {
        std::mem::take(&mut self.0).into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_stay_uncertain_whatever_is_recorded_meanwhile() {
        let mut uncertain = Uncertain::default();
        uncertain.add(0..1_000);
        uncertain.add(std::iter::empty());
        uncertain.add(1_000..2_000);
        assert!(uncertain.take().eq(0..2_000));
        assert_eq!(uncertain.take().count(), 0);
        let many = 10 * u64::from(AHEAD);
        uncertain.add(0..many);
        assert!(uncertain.take().eq(many - u64::from(AHEAD)..many));
    }
}
