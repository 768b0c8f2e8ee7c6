//! What a policy comes to: the delay before each retry.
//!
//! Every delay is the exact integer floor of its formula; the first and the last of a backoff are
//! exactly the minimum and the maximum. Nothing here allocates or overflows, whatever the policy's
//! numbers are: counts past their bound are cut to it, a maximum below the minimum is raised to it.
//! Jitter is apart ([`with_jitter`]), so that a schedule can be shown before it is used.

use std::cmp::Ordering;
use std::time::Duration;

use super::{BackoffFunction, DELAY_S_MAX, Override, RETRIES_MAX, RetryPolicy};

/// Linear backoff without a number of retries goes up by this many seconds, as Zaqar's does.
const STEP_S: u32 = 5;

/// The part of a schedule that a retry belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Phase {
    /// At once.
    Immediate,
    /// With the minimum delay.
    PreBackoff,
    /// From the minimum to the maximum delay; also the retries of a message's own override.
    Backoff,
    /// With the maximum delay.
    PostBackoff,
}

impl Phase {
    /// Every phase, in its order.
    pub const ALL: [Self; 4] = [Self::Immediate, Self::PreBackoff, Self::Backoff, Self::PostBackoff];

    /// The word for a screen or a program.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Immediate => "immediate",
            Self::PreBackoff => "pre_backoff",
            Self::Backoff => "backoff",
            Self::PostBackoff => "post_backoff",
        }
    }
}

/// One retry of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScheduledRetry {
    /// Its phase.
    pub phase: Phase,
    /// Seconds from the end of the failed attempt to this retry, without jitter.
    pub delay_s: u32,
    /// Which retry it is, from 1.
    pub number: u32,
    /// How many there are.
    pub of: u32,
}

/// The delays of a policy, or of a message that overrides it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    immediate: u32,
    pre_backoff: u32,
    backoff: u32,
    post_backoff: u32,
    curve: Curve,
    minimum_s: u32,
    maximum_s: u32,
}

/// How the backoff gets from the minimum to the maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Curve {
    /// Steps of [`STEP_S`], the last one shorter.
    Steps,
    Linear,
    Arithmetic,
    Ratio,
}

impl RetryPolicy {
    /// The four phases of this policy.
    #[must_use]
    pub fn schedule(&self) -> Schedule {
        let curve = match (self.function, self.backoff_retries) {
            (BackoffFunction::Linear, None) => Curve::Steps,
            (BackoffFunction::Linear, Some(_)) => Curve::Linear,
            (BackoffFunction::Arithmetic, _) => Curve::Arithmetic,
            (BackoffFunction::Geometric | BackoffFunction::Exponential, _) => Curve::Ratio,
        };
        let minimum_s = self.minimum_delay_s.min(DELAY_S_MAX);
        Schedule {
            immediate: self.retries_with_no_delay.min(RETRIES_MAX),
            pre_backoff: self.minimum_delay_retries.min(RETRIES_MAX),
            backoff: self.backoff_count().min(RETRIES_MAX),
            post_backoff: self.maximum_delay_retries.min(RETRIES_MAX),
            curve,
            minimum_s,
            maximum_s: self.maximum_delay_s.clamp(minimum_s, DELAY_S_MAX),
        }
    }

    /// The schedule of one message: its own number of retries, equally far apart, instead of the four
    /// phases; what it leaves open comes from the policy. Without any override, the policy's.
    #[must_use]
    pub fn schedule_with(&self, message: Override) -> Schedule {
        if message == Override::default() {
            return self.schedule();
        }
        let apart_s = message.polling_time_s.unwrap_or(self.minimum_delay_s).min(DELAY_S_MAX);
        let count = message
            .restart_count
            .map_or_else(|| self.schedule().retries(), |count| count.min(RETRIES_MAX));
        Schedule {
            immediate: 0,
            pre_backoff: 0,
            backoff: count,
            post_backoff: 0,
            curve: Curve::Linear,
            minimum_s: apart_s,
            maximum_s: apart_s,
        }
    }

    /// How many delays the backoff has, unbounded: as many as were asked for; else, for linear, the
    /// steps of 5 s up to and including the maximum; for the other functions one for each whole 5 s
    /// between minimum and maximum.
    pub(super) fn backoff_count(&self) -> u32 {
        let span_s = self.maximum_delay_s.saturating_sub(self.minimum_delay_s);
        match (self.backoff_retries, self.function) {
            (Some(count), _) => count,
            (None, BackoffFunction::Linear) => span_s.div_ceil(STEP_S).saturating_add(1),
            (None, BackoffFunction::Arithmetic | BackoffFunction::Geometric | BackoffFunction::Exponential) => {
                span_s / STEP_S
            }
        }
    }
}

impl Schedule {
    /// The retry of this number, counted from 1; none when there are not that many, and for 0.
    #[must_use]
    pub fn delay(&self, retry_number: u32) -> Option<ScheduledRetry> {
        let mut index = retry_number.checked_sub(1)?;
        for phase in Phase::ALL {
            let count = self.phase_retries(phase);
            if index < count {
                let delay_s = self.delay_in_phase_s(phase, index);
                return Some(ScheduledRetry {
                    phase,
                    delay_s,
                    number: retry_number,
                    of: self.retries(),
                });
            }
            index -= count;
        }
        None
    }

    /// All delays in seconds, in order.
    pub fn delays_s(&self) -> impl Iterator<Item = u32> + use<> {
        let schedule = *self;
        Phase::ALL
            .into_iter()
            .flat_map(move |phase| schedule.phase_delays_s(phase))
    }

    /// The delays of one phase in seconds, in order.
    pub fn phase_delays_s(&self, phase: Phase) -> impl Iterator<Item = u32> + use<> {
        let schedule = *self;
        (0..schedule.phase_retries(phase)).map(move |index| schedule.delay_in_phase_s(phase, index))
    }

    /// How many retries a phase has.
    #[must_use]
    pub const fn phase_retries(&self, phase: Phase) -> u32 {
        match phase {
            Phase::Immediate => self.immediate,
            Phase::PreBackoff => self.pre_backoff,
            Phase::Backoff => self.backoff,
            Phase::PostBackoff => self.post_backoff,
        }
    }

    /// How many retries there are.
    #[must_use]
    pub const fn retries(&self) -> u32 {
        self.immediate + self.pre_backoff + self.backoff + self.post_backoff
    }

    /// How many attempts there are: the first one and the retries.
    #[must_use]
    pub const fn attempts(&self) -> u32 {
        self.retries() + 1
    }

    /// All delays together, in seconds, without jitter and without the time the attempts take.
    #[must_use]
    pub fn total_s(&self) -> u64 {
        self.delays_s().map(u64::from).sum()
    }

    fn delay_in_phase_s(&self, phase: Phase, index: u32) -> u32 {
        match phase {
            Phase::Immediate => 0,
            Phase::PreBackoff => self.minimum_s,
            Phase::Backoff => self.backoff_delay_s(index),
            Phase::PostBackoff => self.maximum_s,
        }
    }

    /// The delay of index `i` of the `n` of the backoff, where x is the maximum and m the minimum.
    fn backoff_delay_s(&self, index: u32) -> u32 {
        let last = self.backoff.saturating_sub(1);
        if index == 0 {
            return self.minimum_s;
        }
        if index >= last {
            return self.maximum_s;
        }
        match self.curve {
            Curve::Steps => self
                .minimum_s
                .saturating_add(index.saturating_mul(STEP_S))
                .min(self.maximum_s),
            // m + i(x−m)/(n−1)
            Curve::Linear => self.between_s(u64::from(index), u64::from(last)),
            // m + i(i+1)(x−m)/(n(n−1))
            Curve::Arithmetic => {
                let (index, last) = (u64::from(index), u64::from(last));
                self.between_s(index * (index + 1), last * (last + 1))
            }
            // m(x/m)^(i/(n−1))
            Curve::Ratio => ratio_floor(self.minimum_s, self.maximum_s, index, last),
        }
    }

    /// The floor of the point that lies `part` of `whole` on the way from minimum to maximum.
    fn between_s(&self, part: u64, whole: u64) -> u32 {
        // At most 1,000 × 1,001 × 2,592,000: far from the end of u64.
        let way = u64::from(self.maximum_s - self.minimum_s) * part / whole.max(1);
        self.minimum_s
            .saturating_add(u32::try_from(way).unwrap_or(u32::MAX))
            .min(self.maximum_s)
    }
}

/// The delay with its random part: up to `jitter_share` of it, by `roll`, both from 0 to 1.
///
/// It never shortens a delay, so that a receiver's own wish and the policy's minimum hold.
#[must_use]
pub fn with_jitter(delay: Duration, jitter_share: f64, roll: f64) -> Duration {
    let part = jitter_share.clamp(0.0, 1.0) * roll.clamp(0.0, 1.0);
    if part.is_nan() {
        return delay;
    }
    let added = Duration::try_from_secs_f64(delay.as_secs_f64() * part).unwrap_or(Duration::ZERO);
    delay.saturating_add(added)
}

/// ⌊minimum · (maximum/minimum)^(index/last)⌋, exactly, for 0 < index < last.
///
/// Floating point says the answer except close to an integer, where it cannot know on which side the
/// true value lies: there the powers themselves are compared.
fn ratio_floor(minimum: u32, maximum: u32, index: u32, last: u32) -> u32 {
    // Far above what logarithm and power can err by for values up to 2,592,000.
    const DOUBT: f64 = 1e-6;
    // No curve between equals, and none that starts from zero.
    if minimum == maximum || minimum == 0 {
        return minimum;
    }
    let divisor = greatest_common_divisor(index, last);
    let (index, last) = (index / divisor, last / divisor);
    let (low, high) = (f64::from(minimum), f64::from(maximum));
    let estimate = low * (high / low).powf(f64::from(index) / f64::from(last));
    let nearest = estimate.round();
    let floor = if (estimate - nearest).abs() > DOUBT {
        estimate.floor()
    } else if reaches(to_u32(nearest), minimum, maximum, index, last) {
        nearest
    } else {
        nearest - 1.0
    };
    to_u32(floor).clamp(minimum, maximum)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a whole number from 0 to 2,592,000"
)]
fn to_u32(whole: f64) -> u32 {
    whole as u32
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// candidate ≤ minimum · (maximum/minimum)^(index/last), as candidate^last ≤ minimum^(last−index) · maximum^index.
fn reaches(candidate: u32, minimum: u32, maximum: u32, index: u32, last: u32) -> bool {
    let mut left = Big::one();
    let mut right = Big::one();
    for step in 0..last {
        left.multiply(candidate);
        right.multiply(if step < index { maximum } else { minimum });
    }
    left.compare(&right) != Ordering::Greater
}

/// A natural number of any size, lowest digits first, without leading zero digits.
struct Big(Vec<u32>);

impl Big {
    fn one() -> Self {
        Self(vec![1])
    }

    fn multiply(&mut self, factor: u32) {
        let mut carry = 0_u64;
        for digit in &mut self.0 {
            let product = u64::from(*digit) * u64::from(factor) + carry;
            *digit = low_half(product);
            carry = product >> 32;
        }
        if carry > 0 {
            self.0.push(low_half(carry));
        }
    }

    fn compare(&self, other: &Self) -> Ordering {
        self.0
            .len()
            .cmp(&other.0.len())
            .then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the low half is what is wanted; the high one is carried"
)]
fn low_half(number: u64) -> u32 {
    number as u32
}

#[cfg(test)]
mod tests;
