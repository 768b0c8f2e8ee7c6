//! What of a store only grows, and is noticed when it does not (docs/protocols.md 34).

/// Numbers of a store that only grow: one that is lower than before is one of a store that went back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// Raised by every change of an endpoint's state.
    pub generation: i64,
    /// Of the lease that was taken last.
    pub epoch: i64,
}

impl Numbers {
    /// What of these is lower than it was `before`.
    #[must_use]
    pub const fn fell_below(self, before: Self) -> Option<&'static str> {
        match (self.generation < before.generation, self.epoch < before.epoch) {
            (true, _) => Some("the generation of its endpoints"),
            (false, true) => Some("the epoch of its leases"),
            (false, false) => None,
        }
    }

    /// The higher one of each.
    #[must_use]
    pub fn highest(self, other: Self) -> Self {
        Self {
            generation: self.generation.max(other.generation),
            epoch: self.epoch.max(other.epoch),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fell_is_named_and_the_highest_is_kept() {
        let (low, high) = (
            Numbers {
                generation: 3,
                epoch: 9,
            },
            Numbers {
                generation: 4,
                epoch: 8,
            },
        );
        assert_eq!(low.fell_below(high), Some("the generation of its endpoints"));
        assert_eq!(high.fell_below(low), Some("the epoch of its leases"));
        assert_eq!(low.fell_below(low), None);
        let both = Numbers {
            generation: 4,
            epoch: 9,
        };
        assert_eq!(low.highest(high), both);
        assert_eq!(both.fell_below(low), None);
    }
}
