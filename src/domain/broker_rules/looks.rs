//! What looks at a queue with a delivery limit cost its messages so far, message by message from its head on
//! (docs/protocols.md 38).
//!
//! A look takes the first messages of a queue and returns them, which counts for each of them. Messages leave at the
//! head and arrive at the tail, so that of what was looked at only the last ones can still be there.
//!
//! Others return messages, too, and nobody tells of which. The broker counts how often messages of a queue were
//! delivered that were delivered before; what that number grew by beyond our own looks may all have been one message's.
//! It lags some seconds and begins anew with the broker's node: what others returned just now, or before a restart, is
//! not in it.

use std::fmt::Write as _;

/// Runs of messages with the same number of returns that are told apart, at most; what is more is told as the worst.
const RUNS_MAX: usize = 64;

/// The broker takes the smaller one of an argument and a policy.
const RAISE: &str = "raise the limit with a policy that sets `delivery-limit`; where the argument `x-delivery-limit` sets it, \
                     only a new declaration of the queue does";

/// The returns of the messages that were looked at, from the head on, and what the broker counted for all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Looks {
    runs: Vec<Run>,
    /// The broker's count of redeliveries when it was asked last.
    told: u64,
    /// What that count comes to with all that is in `runs`, our own looks included.
    expected: u64,
}

/// What marks `told` and `expected` in the text of it.
const COUNT: &str = "of";

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
        let counts = |part: &str| {
            let (expected, told) = part.split_once(COUNT)?;
            Some((expected.parse().ok()?, told.parse().ok()?))
        };
        let mut looks = Self::default();
        for part in text.split(' ') {
            if let Some(counts) = counts(part) {
                (looks.expected, looks.told) = counts;
            }
            if let Some(run) = run(part) {
                looks.push(run);
            }
        }
        looks
    }

    /// As text: `MESSAGESxRETURNS`, with a blank between; last the redeliveries that are accounted for, of how many the
    /// broker told.
    #[must_use]
    pub fn written(&self) -> String {
        let mut text = String::new();
        for run in &self.runs {
            // Writing to a string cannot fail.
            let _ = write!(text, "{}x{} ", run.messages, run.returns);
        }
        if (self.expected, self.told) != (0, 0) {
            let _ = write!(text, "{}{COUNT}{}", self.expected, self.told);
        }
        text.truncate(text.trim_end().len());
        text
    }

    /// Why one more look at `present` messages that outlive `limit` returns may not be; the broker counts `redelivered`
    /// by now.
    #[must_use]
    pub fn refusal(&self, present: Option<u64>, limit: u64, redelivered: Option<u64>) -> Option<String> {
        if present == Some(0) {
            return None;
        }
        let worst = self.worst(present);
        if let Some(why) = too_many(worst, limit) {
            return Some(why);
        }
        let Some(redelivered) = redelivered else {
            return Some(format!(
                "the broker drops a message after {limit} returns, and does not count how often it delivered messages of \
                 it again (`management.rates_mode` is none, or it collects no statistics): a look could be the last; \
                 {RAISE}"
            ));
        };
        let others = self.others(redelivered);
        // A first delivery is no redelivery: one that nobody looked at may have had one return more.
        let returns = worst.max(1).saturating_add(others);
        (others > 0 && returns.saturating_add(1) > limit).then(|| {
            format!(
                "the broker drops a message after {limit} returns, and delivered messages of it {others} times again \
                 beyond our own looks, so that a look could be the last; {RAISE}"
            )
        })
    }

    /// The broker's count of redeliveries when it was asked last.
    #[must_use]
    pub const fn told_last(&self) -> u64 {
        self.told
    }

    /// How often others returned messages of it that are told of with fewer returns here, at most.
    #[must_use]
    pub const fn others(&self, redelivered: u64) -> u64 {
        if redelivered < self.told {
            // It counts from zero again.
            return redelivered;
        }
        redelivered.saturating_sub(self.expected)
    }

    /// The most returns that a message had which may still be there, of `present` messages in the queue; those that
    /// nobody looked at had none that is known.
    #[must_use]
    pub fn worst(&self, present: Option<u64>) -> u64 {
        let left = self.left(present);
        left.runs.iter().map(|run| run.returns).max().unwrap_or(0)
    }

    /// After one more look at all of `present` messages, whatever it finds: noted before it begins, because it may
    /// never come to tell.
    #[must_use]
    pub fn charged(&self, present: Option<u64>) -> Self {
        let left = self.left(present);
        let known = left.messages();
        let mut charged = self.without_runs();
        for run in left.runs {
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
        let mut passed = self.without_runs();
        passed.push(Run {
            messages: self.messages().max(1),
            returns: self.worst(None).saturating_add(1),
        });
        passed
    }

    /// With the count that the broker tells now.
    #[must_use]
    pub fn told(mut self, redelivered: u64) -> Self {
        if redelivered < self.told {
            self.expected = 0;
        }
        self.told = redelivered;
        self
    }

    /// After the broker delivered messages again to us, so many times.
    #[must_use]
    pub const fn again(mut self, times: u64) -> Self {
        self.expected = self.expected.saturating_add(times);
        self
    }

    /// After a look that found the first messages with these numbers of returns, each before the look's own; `self`
    /// is what was known before it.
    #[must_use]
    pub fn seen(&self, returns: impl IntoIterator<Item = u64>, present: Option<u64>) -> Self {
        let mut seen = self.without_runs();
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
        behind.runs.into_iter().for_each(|run| seen.push(run));
        if present.is_some_and(|present| messages >= present) {
            // Whatever others did is in what was seen.
            seen.expected = seen.expected.max(seen.told);
        }
        seen
    }

    /// Messages that are told of.
    fn messages(&self) -> u64 {
        self.runs.iter().map(|run| run.messages).sum()
    }

    fn without_runs(&self) -> Self {
        Self {
            runs: Vec::new(),
            ..*self
        }
    }

    /// Those of the messages that may still be there.
    fn left(&self, present: Option<u64>) -> Self {
        let known = self.messages();
        let mut left = self.clone();
        left.drop_first(known.saturating_sub(present.unwrap_or(known)));
        left
    }

    fn drop_first(&mut self, mut messages: u64) {
        self.runs.retain_mut(|run| {
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
        let full = self.runs.len() >= RUNS_MAX;
        match self.runs.last_mut() {
            Some(last) if last.returns == run.returns || full => {
                last.messages = last.messages.saturating_add(run.messages);
                last.returns = last.returns.max(run.returns);
            }
            Some(_) | None => self.runs.push(run),
        }
        // The last one may have become like the one before it: as it is read again, they are one.
        if let [.., before, last] = self.runs.as_mut_slice()
            && before.returns == last.returns
        {
            before.messages = before.messages.saturating_add(last.messages);
            self.runs.pop();
        }
    }
}

/// Why one more look may not be, of messages that had up to `worst` returns and outlive `limit`: half of what the
/// broker allows is left to those who handle them.
fn too_many(worst: u64, limit: u64) -> Option<String> {
    let beyond = worst.saturating_add(1).saturating_mul(2) > limit;
    beyond.then(|| {
        format!(
            "each look counts as a delivery, the broker drops a message after {limit} returns, and one of them had {worst}; \
             take it out of the queue, or {RAISE}"
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

    #[test]
    fn what_others_returned_counts_beyond_our_own_looks() {
        // One message, looked at once: the broker counts no redelivery of it.
        let known = Looks::default().told(0).charged(Some(1)).seen([0], Some(1)).again(0);
        assert_eq!(known.written(), "1x1");
        for (redelivered, refused) in [(Some(0), false), (Some(2), false), (Some(3), true), (None, true)] {
            let why = known.refusal(Some(1), 4, redelivered);
            assert_eq!(why.is_some(), refused, "{redelivered:?}: {why:?}");
        }
        assert_eq!(known.refusal(Some(0), 4, None), None, "nothing is there");
        // A second look, which found two returns of others, is told for itself.
        let known = known.told(2).charged(Some(1)).seen([3], Some(1)).again(1);
        assert_eq!(known.written(), "1x4 3of2");
        assert_eq!((known.others(2), known.others(3), known.others(5)), (0, 0, 2));
        assert_eq!(Looks::read(&known.written()), known);
    }

    #[test]
    fn before_the_first_look_all_that_the_broker_counts_may_be_one_messages() {
        for (redelivered, limit, refused) in [
            (0, 2, false),
            (1, 3, false),
            (2, 3, true),
            (18, 20, false),
            (19, 20, true),
        ] {
            let why = Looks::default().refusal(Some(5), limit, Some(redelivered));
            assert_eq!(why.is_some(), refused, "{redelivered} of {limit}: {why:?}");
        }
    }

    #[test]
    fn a_look_at_some_says_nothing_of_what_others_did_to_the_rest() {
        let known = Looks::default().told(5).seen([5, 0], Some(3)).again(1);
        assert_eq!(known.others(6), 5);
        assert_eq!(known.told(6).seen([6, 1, 0], Some(3)).again(2).others(8), 0);
    }

    #[test]
    fn a_broker_that_counts_from_zero_again_is_noticed() {
        let known = Looks::read("2x3 40of40");
        assert_eq!((known.others(39), known.others(41)), (39, 1));
        assert_eq!(known.told(2).written(), "2x3 0of2");
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
