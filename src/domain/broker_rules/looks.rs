//! What looks at a queue with a delivery limit cost its messages so far, message by message from its head on
//! (PROTOCOLS.md 38).
//!
//! A look takes the first messages of a queue and returns them, which counts for each of them. Messages leave at the
//! head and arrive at the tail, so that of what was looked at only the last ones can still be there.

use std::fmt::Write as _;

/// Runs of messages with the same number of returns that are told apart, at most; what is more is told as the worst.
const RUNS_MAX: usize = 64;

/// The returns of the messages that were looked at, from the head on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Looks(Vec<Run>);

/// Messages one behind the other with the same number of returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    messages: u64,
    returns: u64,
}

impl Looks {
    /// Reads what [`Looks::written`] wrote; what is odd is left out.
    #[must_use]
    pub fn read(text: &str) -> Self {
        let run = |part: &str| {
            let (messages, returns) = part.split_once('x')?;
            Some(Run {
                messages: messages.parse().ok()?,
                returns: returns.parse().ok()?,
            })
        };
        let mut looks = Self::default();
        text.split(' ').filter_map(run).for_each(|run| looks.push(run));
        looks
    }

    /// As text: `MESSAGESxRETURNS`, with a blank between.
    #[must_use]
    pub fn written(&self) -> String {
        let mut text = String::new();
        for run in &self.0 {
            let blank = if text.is_empty() { "" } else { " " };
            // Writing to a string cannot fail.
            let _ = write!(text, "{blank}{}x{}", run.messages, run.returns);
        }
        text
    }

    /// The most returns that a message had which may still be there, of `present` messages in the queue; those that
    /// nobody looked at had none that is known.
    #[must_use]
    pub fn worst(&self, present: Option<u64>) -> u64 {
        let left = self.left(present);
        left.0.iter().map(|run| run.returns).max().unwrap_or(0)
    }

    /// After one more look at all of `present` messages, whatever it finds: noted before it begins, because it may
    /// never come to tell.
    #[must_use]
    pub fn charged(&self, present: Option<u64>) -> Self {
        let left = self.left(present);
        let known: u64 = left.0.iter().map(|run| run.messages).sum();
        let mut charged = Self::default();
        for run in left.0 {
            charged.push(Run {
                returns: run.returns.saturating_add(1),
                ..run
            });
        }
        charged.push(Run {
            messages: present.unwrap_or(0).max(1).saturating_sub(known),
            returns: 1,
        });
        charged
    }

    /// After a run took some of them, wherever they stood, and returned the others: whichever is left may be the worst.
    #[must_use]
    pub fn passed(&self) -> Self {
        let known: u64 = self.0.iter().map(|run| run.messages).sum();
        Self(vec![Run {
            messages: known.max(1),
            returns: self.worst(None).saturating_add(1),
        }])
    }

    /// After a look that found the first messages with these numbers of returns, each before the look's own; `self`
    /// is what was known before it.
    #[must_use]
    pub fn seen(&self, returns: impl IntoIterator<Item = u64>, present: Option<u64>) -> Self {
        let mut seen = Self::default();
        let mut messages = 0;
        for before in returns {
            seen.push(Run {
                messages: 1,
                returns: before.saturating_add(1),
            });
            messages += 1;
        }
        let mut behind = self.left(present);
        behind.drop_first(messages);
        behind.0.into_iter().for_each(|run| seen.push(run));
        seen
    }

    /// Those of the messages that may still be there.
    fn left(&self, present: Option<u64>) -> Self {
        let known: u64 = self.0.iter().map(|run| run.messages).sum();
        let mut left = self.clone();
        left.drop_first(known.saturating_sub(present.unwrap_or(known)));
        left
    }

    fn drop_first(&mut self, mut messages: u64) {
        self.0.retain_mut(|run| {
            let gone = run.messages.min(messages);
            messages -= gone;
            run.messages -= gone;
            run.messages > 0
        });
    }

    fn push(&mut self, run: Run) {
        if run.messages == 0 {
            return;
        }
        let full = self.0.len() >= RUNS_MAX;
        match self.0.last_mut() {
            Some(last) if last.returns == run.returns || full => {
                last.messages = last.messages.saturating_add(run.messages);
                last.returns = last.returns.max(run.returns);
            }
            Some(_) | None => self.0.push(run),
        }
        // The last one may have become like the one before it: as it is read again, they are one.
        if let [.., before, last] = self.0.as_mut_slice()
            && before.returns == last.returns
        {
            before.messages = before.messages.saturating_add(last.messages);
            self.0.pop();
        }
    }
}

/// Why one more look may not be, of messages that had up to `worst` returns and outlive `limit`: half of what the
/// broker allows is left to those who handle them.
#[must_use]
pub fn too_many(worst: u64, limit: u64) -> Option<String> {
    let beyond = worst.saturating_add(1).saturating_mul(2) > limit;
    beyond.then(|| {
        format!(
            "each look counts as a delivery, the broker drops a message after {limit} returns, and one of them had {worst}; \
             take it out of the queue, or raise the limit with a policy that sets `delivery-limit`"
        )
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_arrives_later_had_no_look_and_what_is_gone_counts_no_more() {
        let first = Looks::default().charged(Some(2)).seen([0, 0], Some(2));
        assert_eq!((first.written().as_str(), first.worst(Some(2))), ("2x1", 1));
        let second = first.seen([1, 1, 0], Some(3));
        assert_eq!(second.written(), "2x2 1x1");
        assert_eq!(second.worst(Some(3)), 2);
        assert_eq!(second.worst(Some(1)), 1, "the first two are gone");
        assert_eq!(second.worst(Some(0)), 0);
        assert_eq!(second.worst(None), 2, "unknown is not zero");
        assert_eq!(second.worst(Some(9)), 2);
    }

    #[test]
    fn a_look_that_never_told_what_it_saw_is_counted() {
        let charged = Looks::default().charged(Some(3)).charged(Some(4));
        assert_eq!(charged.written(), "3x2 1x1");
        assert_eq!(Looks::default().charged(None).worst(None), 1);
    }

    #[test]
    fn what_a_run_left_counts_as_the_worst_of_all() {
        assert_eq!(Looks::read("1x5 9x1").passed().worst(Some(1)), 6);
        assert_eq!(Looks::default().passed().written(), "1x1");
    }

    #[test]
    fn a_look_at_the_first_few_keeps_what_is_known_of_the_rest() {
        let known = Looks::read("5x3");
        assert_eq!(known.seen([3, 3], Some(5)).written(), "2x4 3x3");
    }

    #[test]
    fn half_of_the_limit_is_left_to_others() {
        for (worst, limit, refused) in [
            (0, 0, true),
            (0, 1, true),
            (0, 2, false),
            (1, 2, true),
            (9, 20, false),
            (10, 20, true),
        ] {
            assert_eq!(too_many(worst, limit).is_some(), refused, "{worst} of {limit}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(counts in proptest::collection::vec(0_u64..5, 0..300)) {
            let looks = Looks::default().seen(counts.iter().copied(), Some(counts.len() as u64));
            prop_assert_eq!(Looks::read(&looks.written()), looks.clone());
            prop_assert!(looks.worst(None) >= counts.iter().max().map_or(0, |most| most + 1));
        }

        #[test]
        fn odd_text_is_no_message(text in ".{0,40}") {
            let _ = Looks::read(&text).worst(None);
        }
    }
}
