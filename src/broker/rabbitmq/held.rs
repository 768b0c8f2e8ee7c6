//! Delivery tags that are not settled, as ranges, and the fewest acks that settle some of them.
//!
//! Tags of a channel count up by one, so a walk over a million messages is one range until it settles
//! some in between.

use std::collections::VecDeque;

/// An ack to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ack {
    pub(super) tag: u64,
    /// Everything up to it too.
    pub(super) multiple: bool,
}

/// Unsettled tags: ranges with both ends, in order.
#[derive(Debug, Default)]
pub(super) struct Held(VecDeque<(u64, u64)>);

impl Held {
    /// The next tag, higher than all before.
    pub(super) fn add(&mut self, tag: u64) {
        match self.0.back_mut() {
            Some((_, last)) if *last + 1 == tag => *last = tag,
            _ => self.0.push_back((tag, tag)),
        }
    }

    /// How many there are from `first` on.
    pub(super) fn count_from(&self, first: u64) -> u64 {
        let ranges = self.0.iter().rev().take_while(|(_, end)| *end >= first);
        ranges.map(|(start, end)| end - (*start).max(first) + 1).sum()
    }

    /// Takes `tags` out (those that are in it) and says how to ack them.
    pub(super) fn settle(&mut self, mut tags: Vec<u64>) -> Vec<Ack> {
        tags.sort_unstable();
        tags.dedup();
        let mut acks = Vec::new();
        let (mut prefix, mut in_front) = (None, true);
        for tag in tags {
            let Some(at) = self.find(tag) else { continue };
            // Still the lowest of all: one ack settles it with those before.
            in_front = in_front && at == 0 && self.0[0].0 == tag;
            if in_front {
                prefix = Some(tag);
            } else {
                acks.push(Ack { tag, multiple: false });
            }
            self.remove(at, tag);
        }
        if let Some(tag) = prefix {
            acks.insert(0, Ack { tag, multiple: true });
        }
        acks
    }

    fn find(&self, tag: u64) -> Option<usize> {
        let at = self.0.partition_point(|(_, end)| *end < tag);
        (self.0.get(at)?.0 <= tag).then_some(at)
    }

    fn remove(&mut self, at: usize, tag: u64) {
        let (start, end) = self.0[at];
        match (start == tag, end == tag) {
            (true, true) => {
                self.0.remove(at);
            }
            (true, false) => self.0[at].0 = tag + 1,
            (false, true) => self.0[at].1 = tag - 1,
            (false, false) => {
                self.0[at].1 = tag - 1;
                self.0.insert(at + 1, (tag + 1, end));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn acks_settle_exactly_what_is_asked(
            count in 1_u64..60,
            rounds in prop::collection::vec(prop::collection::vec(1_u64..60, 0..30), 1..5),
        ) {
            let mut held = Held::default();
            (1..=count).for_each(|tag| held.add(tag));
            let mut model: BTreeSet<u64> = (1..=count).collect();
            let mut broker = model.clone();
            for tags in rounds {
                model.retain(|tag| !tags.contains(tag));
                for ack in held.settle(tags) {
                    prop_assert!(broker.contains(&ack.tag), "an unknown tag closes the channel");
                    if ack.multiple {
                        broker.retain(|tag| *tag > ack.tag);
                    } else {
                        broker.remove(&ack.tag);
                    }
                }
                prop_assert_eq!(&broker, &model);
                for first in [1, count / 2, count] {
                    prop_assert_eq!(held.count_from(first), model.range(first..).count() as u64);
                }
            }
        }
    }

    #[test]
    fn a_whole_window_is_one_ack() {
        let mut held = Held::default();
        (1..=1000).for_each(|tag| held.add(tag));
        assert_eq!(
            held.settle((1..=1000).collect()),
            [Ack {
                tag: 1000,
                multiple: true
            }]
        );
        assert_eq!(held.count_from(0), 0);
    }
}
